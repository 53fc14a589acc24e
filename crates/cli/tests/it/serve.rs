//! `anabranch serve` as users run it: it starts, stops, and reports configuration errors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;

/// A daemon process and its standard output.
struct Served {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Served {
    fn start(arguments: &[&str]) -> Served {
        let mut child = Command::new(cargo_bin("anabranch"))
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the daemon starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Served { child, lines }
    }
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process has usually ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn daemon_prints_addresses_and_ends_on_signal() {
    for signal in ["-TERM", "-INT"] {
        let mut served = Served::start(&["--balancer", "ecmp", "--log", "json"]);
        let switches = served.line().strip_prefix("switches: ").expect("the address for switches").to_owned();
        let http = served.line();
        let http =
            http.strip_prefix("http: http://").and_then(|rest| rest.strip_suffix('/')).expect("the address of HTTP");
        assert_eq!(served.line(), "balancer: sdn-ecmp");
        let mut stream = TcpStream::connect(switches.as_str()).expect("a connection");
        let mut hello = [0; 16];
        stream.read_exact(&mut hello).expect("a hello");
        assert_eq!(hello[..2], [4, 0], "a hello of OpenFlow 1.3");
        let mut request = TcpStream::connect(http).expect("the HTTP interface");
        request.write_all(b"GET /v1/balancer HTTP/1.0\r\n\r\n").expect("a request");
        let mut answer = String::new();
        request.read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains("\"name\":\"sdn-ecmp\""), "{answer}");

        let began = Instant::now();
        served.signal(signal);
        let status = served.child.wait().expect("it ends");
        assert!(status.success(), "{signal}: {status}");
        assert!(began.elapsed() < Duration::from_secs(2), "{signal}: it took {:?}", began.elapsed());
        let mut log = String::new();
        served.child.stderr.take().expect("a pipe").read_to_string(&mut log).expect("the log");
        assert!(!log.is_empty() && log.lines().all(|line| line.starts_with("{\"timestamp\"")), "{log}");
    }
}

fn failure(arguments: &[&str]) -> String {
    let output = Command::new(cargo_bin("anabranch")).arg("serve").args(arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
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
    let output = Command::new(cargo_bin("anabranch"))
        .args(["serve", "--check", "--config"])
        .arg(&file)
        .output()
        .expect("it runs");
    assert!(output.status.success());
    let expected =
        "switches: 127.0.0.1:6653, TCP\nbalancer: sdn-wcmp\nhttp: 127.0.0.1:8080\nknown: 0 hosts, 1 capacities\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    // Certificates are checked too.
    std::fs::write(&file, "[tls]\ncertificate = \"a\"\nkey = \"b\"\nca = \"c\"\n").expect("a file");
    let text = failure(&["--check", "--config", file.to_str().expect("a plain name")]);
    assert!(text.starts_with("error: cannot read a certificate from ") && text.contains("caused by: "), "{text}");
}
