//! `anabranch serve` as users run it: it starts, stops, and reports configuration errors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{Served, outcome, request};

#[test]
fn daemon_prints_addresses_and_ends_on_signal() {
    for signal in ["-TERM", "-INT"] {
        let mut served = Served::start(&["--balancer", "ecmp", "--log", "json"], Stdio::piped());
        let names = served.lines.iter().map(|line| line.split(": ").next().unwrap_or_default());
        assert_eq!(names.collect::<Vec<_>>(), ["switches", "http", "balancer"]);
        assert_eq!(served.line("balancer"), "sdn-ecmp");
        let mut stream = TcpStream::connect(served.line("switches")).expect("a connection");
        let mut hello = [0; 16];
        stream.read_exact(&mut hello).expect("a hello");
        assert_eq!(hello[..2], [4, 0], "a hello of OpenFlow 1.3");
        let (_, answer) = request(served.http(), "GET /v1/balancer", "", "").expect("an answer");
        assert!(answer.contains("\"name\":\"sdn-ecmp\""), "{answer}");

        let began = Instant::now();
        let kill = Command::new("kill").args([signal, &served.child.id().to_string()]).status().expect("kill runs");
        assert!(kill.success());
        let status = served.child.wait().expect("it ends");
        assert!(status.success(), "{signal}: {status}");
        assert!(began.elapsed() < Duration::from_secs(2), "{signal}: it took {:?}", began.elapsed());
        let mut log = String::new();
        served.child.stderr.take().expect("a pipe").read_to_string(&mut log).expect("the log");
        assert!(!log.is_empty() && log.lines().all(|line| line.starts_with("{\"timestamp\"")), "{log}");
    }
}

fn failure(arguments: &[&str]) -> String {
    let (code, _, stderr) = outcome(Path::new("."), &[&["serve"], arguments].concat());
    assert_eq!(code, 2, "{arguments:?}");
    stderr
}

#[test]
fn errors_show_location_and_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("serve.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:0\"\n[control]\necho_intervall = \"5s\"\n").expect("a file");
    let name = file.to_str().expect("a plain name");
    let expected = format!(
        "error: control.echo_intervall: there is no such key\n --> {name}:3:1\n  |\n3 | echo_intervall = \"5s\"\n  | \
         ^^^^^^^^^^^^^^\nhint: did you mean `echo_interval`?\n"
    );
    assert_eq!(failure(&["--check", "--config", name]), expected);
    for (arguments, words) in [
        (vec!["--balancer", "ecpm"], "error: --balancer: unknown balancer `ecpm`; did you mean `ecmp`?\n"),
        (vec!["--balancer", "spain"], "did you mean `sdn-spain`?\n"),
        (vec!["--http", "nowhere"], "error: --http: `nowhere` is not an address with a port\nhint: write"),
        (vec!["--log", "xml"], "error: --log: `xml` is not text or json\n"),
        (vec!["--config", "/nonexistent.toml"], "error: the configuration cannot be read\n  --> /nonexistent.toml\n"),
    ] {
        let text = failure(&arguments);
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let text = failure(&["--listen", &address, "--http", "off"]);
    assert!(text.contains("cannot listen on") && text.contains("hint: another program listens there"), "{text}");
}

#[test]
fn check_does_not_listen() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("serve.toml");
    let text =
        "listen = \"127.0.0.1:6653\"\nbalancer = \"wcmp\"\n[[link]]\ndpid = \"a1\"\nport = 1\ncapacity = \"1Gbps\"\n";
    std::fs::write(&file, text).expect("a file");
    let name = file.to_str().expect("a plain name");
    let (code, stdout, _) = outcome(folder.path(), &["serve", "--check", "--config", name]);
    let expected =
        "switches: 127.0.0.1:6653, TCP\nbalancer: sdn-wcmp\nhttp: 127.0.0.1:8080\nknown: 0 hosts, 1 capacities\n";
    assert_eq!((code, stdout.as_str()), (0, expected));
    // Certificates are checked too.
    std::fs::write(&file, "[tls]\ncertificate = \"a\"\nkey = \"b\"\nca = \"c\"\n").expect("a file");
    let text = failure(&["--check", "--config", name]);
    assert!(text.starts_with("error: cannot read a certificate from ") && text.contains("caused by: "), "{text}");
}

/// Starts a daemon with a configuration file, and collects its log.
fn served_with_log(file: &Path) -> (Served, Arc<Mutex<String>>) {
    let mut served = Served::start(&["--config", file.to_str().expect("a plain name")], Stdio::piped());
    let log = Arc::new(Mutex::new(String::new()));
    let (lines, kept) = (BufReader::new(served.child.stderr.take().expect("a pipe")).lines(), log.clone());
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            kept.lock().expect("the log").push_str(&format!("{line}\n"));
        }
    });
    (served, log)
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn reload_applies_what_it_can_and_names_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("serve.toml");
    let [first, second] = ["first-token-0123456789", "second-token-0123456789"];
    let write = |token: &str, text: &str| {
        std::fs::write(folder.path().join("tokens"), format!("admin {token}\n")).expect("a file");
        std::fs::write(&file, format!("[api]\ntokens = \"tokens\"\n{text}")).expect("a file");
    };
    write(first, "[pools.a]\nmembers = []\n");
    let (served, log) = served_with_log(&file);
    let get = |path: &str, token: &str| {
        let header = format!("Authorization: Bearer {token}\r\n");
        request(served.http(), &format!("GET {path}"), &header, "").expect("an answer")
    };
    let hang_up = || kill(Pid::from_raw(served.child.id() as i32), Signal::SIGHUP).expect("it runs");
    let logged = |words: &str| log.lock().expect("the log").contains(words);
    assert_eq!((get("/v1/pools/a", first).0, get("/v1/pools", second).0), (200, 401));

    let changed = "[log]\naudit = \"audit.jsonl\"\nfilter = \"info,anabranch_daemon=debug\"\n[control]\npoll_interval = \"7s\"\n\
                   [limits]\nhttp_connections = 50\nhosts = 77\n[pools.b]\nmembers = []\n";
    write(second, changed);
    hang_up();
    wait_for("the new token is accepted", || get("/v1/pools/b", second).0 == 200);
    assert_eq!((get("/v1/pools/a", second).0, get("/v1/pools", first).0), (404, 401));
    wait_for("the log names the keys that need a start", || {
        logged("serve.toml:7: control.poll_interval has changed, but takes effect at the next start only")
            && logged("serve.toml:10: limits.hosts has changed")
    });
    assert!(!logged("http_connections has changed") && !logged("log.filter has changed"));
    wait_for("the new filter applies", || {
        let _connection = TcpStream::connect(served.line("switches")).expect("a connection");
        logged("DEBUG") && logged("connected")
    });

    // A faulty file changes nothing, and the log shows where the fault is.
    for (text, words) in [
        (
            "[control]\necho_intervall = \"5s\"\n",
            "serve.toml:4: control.echo_intervall: there is no such key (hint: did you mean",
        ),
        ("[log]\naudit = \"none/audit\"\n", "none/audit: No such file or directory"),
        ("[services.s]\naddress = \"10.0.0.1\"\nport = 80\npool = \"none\"\n", "`none`"),
    ] {
        write(first, text);
        hang_up();
        wait_for(words, || logged(words));
        assert!(logged("configuration not reloaded, the previous one stays in effect: "));
        assert_eq!((get("/v1/pools/b", second).0, get("/v1/pools", first).0), (200, 401), "{text}");
    }
    assert!(!log.lock().expect("the log").contains("0123456789"), "no token is logged");
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl"));
    assert!(audit.is_ok(), "the audit log is opened at the reload");
}

/// Sends a hello and reads until the features request. Returns its transaction number.
fn features_requested(stream: &mut TcpStream) -> [u8; 4] {
    stream.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).expect("a hello");
    let mut said = [0; 24];
    stream.read_exact(&mut said).expect("a hello and a request");
    assert_eq!(said[16..20], [4, 5, 0, 8], "a features request");
    [said[20], said[21], said[22], said[23]]
}

#[test]
fn refusals_name_cause_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("serve.toml");
    std::fs::write(&file, "[limits]\nhandshake_timeout = \"500ms\"\n").expect("a file");
    let (served, log) = served_with_log(&file);
    let connect = || TcpStream::connect(served.line("switches")).expect("a connection");
    let send = |bytes: &[u8]| {
        let mut stream = connect();
        stream.write_all(bytes).expect("bytes");
        stream
    };
    let mut open = vec![
        send(&[1, 0, 0, 8, 0, 0, 0, 1]),
        send(&[4, 2, 0, 8, 0, 0, 0, 1]),
        send(b"GET / HTTP/1.1\r\n"),
        send(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]),
        connect(),
    ];
    let mut auxiliary = connect();
    let xid = features_requested(&mut auxiliary);
    // Datapath id 1, no buffers, 254 tables, auxiliary connection 3.
    let features = [[0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 254, 3, 0, 0], [0; 8]].concat();
    auxiliary.write_all(&[&[4, 6, 0, 32][..], &xid, &features].concat()).expect("features");
    let mut rejecting = connect();
    let xid = features_requested(&mut rejecting);
    // OFPET_BAD_REQUEST, OFPBRC_BAD_TYPE.
    rejecting.write_all(&[&[4, 1, 0, 12][..], &xid, &[0, 1, 0, 1]].concat()).expect("an error");
    open.extend([auxiliary, rejecting]);
    for words in [
        "OpenFlow 1.0 at most, but OpenFlow 1.3 is needed; enable version 1.3 on the switch",
        "its first message is not a hello, so it is not an OpenFlow switch; check which program connects here",
        "an HTTP request, but this address is for switches: the address of the API is",
        "a TLS handshake, but [tls] is not configured: add [tls], or configure tcp:",
        "handshake not finished within [limits] handshake_timeout; check whether the peer is an OpenFlow 1.3 switch",
        "it is auxiliary connection 3, which this controller does not use; configure the main connection alone",
        "the switch rejects the features request (BadRequest(BadType)), which OpenFlow 1.3 requires; update the switch",
    ] {
        let line = || {
            let log = log.lock().expect("the log");
            log.lines().any(|line| line.contains("closed before the handshake finished") && line.contains(words))
        };
        wait_for(words, line);
    }
    drop(open);
}
