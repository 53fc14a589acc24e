//! `anabranch agent` with `anabranch serve`: its reports arrive over HTTP with a token, and in
//! band.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;

use crate::common::{Served, assert_rejected, outcome, request};

const ADMIN: &str = "admin-token-0123456789";
const AGENT: &str = "agent-token-0123456789";

/// Starts the controller with the member 10.0.0.1; `api`: further keys of the section.
fn serve(folder: &Path, api: &str) -> Served {
    let tokens = format!("admin {ADMIN}\nagent {AGENT} 10.0.0.1\n");
    std::fs::write(folder.join("tokens"), tokens).expect("a file");
    let text = "\n[services.web]\naddress = \"10.255.0.1\"\nport = 80\npool = \"web\"\n\
                [pools.web]\nbalancer = \"server-cpu\"\nmembers = [{ name = \"a\", address = \"10.0.0.1\" }]\n";
    let config = folder.join("serve.toml");
    std::fs::write(&config, format!("[api]\ntokens = \"tokens\"\n{api}{text}")).expect("a file");
    Served::start(&["--config", config.to_str().expect("a plain name")], Stdio::null())
}

/// Runs an agent for three reports. Returns its exit code and standard error.
fn agent(arguments: &[&str]) -> (i32, String) {
    let (code, _, stderr) =
        outcome(Path::new("."), &[&["agent", "--interval", "100ms", "--count", "3"], arguments].concat());
    (code, stderr)
}

fn token_file(folder: &Path, text: &str) -> String {
    let file = folder.join("token");
    std::fs::write(&file, text).expect("a file");
    file.to_str().expect("a plain name").to_owned()
}

#[test]
fn measurements_with_token_arrive_and_others_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = serve(folder.path(), "");
    let file = token_file(folder.path(), &format!("{AGENT}\n"));
    // A slow web server with one established connection.
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    let _visitor = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let (_kept, _) = server.accept().expect("the visitor");
    std::thread::spawn(move || {
        for stream in server.incoming().map_while(Result::ok) {
            std::thread::sleep(Duration::from_millis(30));
            let mut stream = stream;
            // Unread bytes would reset the connection.
            let _ = stream.read(&mut [0; 1000]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        }
    });
    let port = port.to_string();
    let (code, text) =
        agent(&["--controller", served.http(), "--token-file", &file, "--address", "10.0.0.1", "--http", &port]);
    assert_eq!(code, 0, "{text}");
    let token = format!("Authorization: Bearer {ADMIN}\r\n");
    let (_, agents) = request(served.http(), "GET /v1/agents", &token, "").expect("an answer");
    let agents: Value = serde_json::from_str(&agents).expect("JSON");
    let (status, stats) = (&agents[0], &agents[0]["stats"]);
    assert_eq!((&status["host"], &status["is_current"]), (&Value::from("10.0.0.1"), &Value::from(true)), "{agents}");
    assert!(stats["cpu"].as_f64().is_some_and(|cpu| (0.0..=1.0).contains(&cpu)), "{stats}");
    assert_eq!(stats["connections"], 1, "{stats}");
    assert!(stats["response_ms"].as_f64().is_some_and(|ms| (30.0..5_000.0).contains(&ms)), "{stats}");
    assert!(stats["cores"].as_u64() >= Some(1), "{stats}");

    // A report for another host, and an unknown token.
    let report = |address| agent(&["--controller", served.http(), "--token-file", &file, "--address", address]);
    let (code, text) = report("10.0.0.2");
    assert!(code == 2 && text.contains("(403)") && text.contains("--token-file"), "{text}");
    token_file(folder.path(), "another-token-0123456789");
    let (code, text) = report("10.0.0.1");
    assert!(code == 2 && text.contains("(401)") && !text.contains("0123456789"), "{text}");
}

/// Writes an authority's certificate, and a certificate and key signed by it for this machine.
/// Returns the file of the authority.
fn certificates(folder: &Path, of: &str) -> String {
    let authority_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let issuer = Issuer::new(params, authority_key);
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address").signed_by(&key, &issuer);
    let put = |what: &str, text: &str| {
        let file = folder.join(format!("{of}-{what}.pem"));
        std::fs::write(&file, text).expect("a file");
        file.to_str().expect("a plain name").to_owned()
    };
    put("certificate", &certificate.expect("a certificate").pem());
    put("key", &key.serialize_pem());
    put("ca", &authority.pem())
}

#[test]
fn reports_over_tls_require_trusted_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ca, stranger) = (certificates(folder.path(), "web"), certificates(folder.path(), "stranger"));
    let tls = |key: &str| format!("tls = {{ certificate = \"web-certificate.pem\", key = \"{key}\" }}\n");
    let served = serve(folder.path(), &tls("web-key.pem"));
    let http = served.http().to_owned();
    assert!(http.starts_with("https://127.0.0.1:"), "{http}");
    let file = token_file(folder.path(), AGENT);
    let common = ["--token-file", &file, "--address", "10.0.0.1"];
    let reports = agent(&[&["--controller", &http, "--ca", &ca], &common[..]].concat());
    assert_eq!(reports, (0, String::new()));
    // A stranger's authority is not trusted, and plain HTTP is rejected.
    let (code, text) = agent(&[&["--controller", &http, "--ca", &stranger], &common[..]].concat());
    assert!(code == 1 && text.contains("cannot be reached: invalid peer certificate"), "{text}");
    let (code, text) = agent(&[&["--controller", &http.replace("https://", "http://")], &common[..]].concat());
    assert_eq!(code, 1, "{text}");
    drop(served);

    // Unusable files are reported before any socket is opened.
    let config = folder.path().join("serve.toml");
    for (key, code, words) in [
        ("web-key.pem", 0, "http: 127.0.0.1:8080, TLS\n"),
        ("stranger-key.pem", 2, "stranger-key.pem cannot be used for TLS"),
        ("none.pem", 2, "cannot read a private key from "),
    ] {
        std::fs::write(&config, format!("[api]\n{}", tls(key))).expect("a file");
        for check in [&["--check"][..], &["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]] {
            if code == 0 && check[0] != "--check" {
                continue;
            }
            let config = config.to_str().expect("a plain name");
            let (found, stdout, stderr) = outcome(folder.path(), &[&["serve", "--config", config], check].concat());
            assert!(found == code && (stdout + &stderr).contains(words), "{key} {check:?}: {stderr}");
        }
    }
}

#[test]
fn unreachable_controller_is_retried_and_reported_once() {
    let (code, text) = agent(&["--controller", "http://127.0.0.1:1", "--address", "10.0.0.1"]);
    assert_eq!(code, 1, "{text}");
    assert_eq!(text.matches("the controller cannot be reached").count(), 1, "{text}");
    for (command, words) in [
        ("agent", "no controller would receive the reports"),
        ("agent --controller 127.0.0.1", "write it as http://ADDRESS:PORT"),
        ("agent --in-band 127.0.0.1 --interval 0s", "--interval: must be above 0"),
    ] {
        assert_rejected(Path::new("."), command, &[words]);
    }
}

#[test]
fn in_band_report_has_format_of_f1() {
    // A loopback address that no other program uses.
    let receiver = UdpSocket::bind("127.77.0.1:9876").expect("the port of reports");
    receiver.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let (code, text) = agent(&["--in-band", "127.77.0.1"]);
    assert_eq!(code, 0, "{text}");
    let mut bytes = [0; 200];
    let length = receiver.recv(&mut bytes).expect("a report");
    let text = std::str::from_utf8(&bytes[..length]).expect("text");
    let numbers: Vec<f64> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
    assert!(numbers.len() == 3 && (0.0..=100.0).contains(&numbers[2]), "{text}");
}
