//! `anabranch replay` as users run it: recordings of `anabranch serve` and their exit codes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::common::{Served, outcome, printed_json, succeed};

/// Records a connection that begins a handshake. Returns the file.
fn record(file: &Path) -> Vec<u8> {
    let name = file.to_str().expect("a plain name");
    let mut served = Served::start(&["--record", name], Stdio::null());
    let mut stream = TcpStream::connect(served.line("switches")).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    stream.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).expect("a hello");
    let mut replies = [0; 24];
    stream.read_exact(&mut replies).expect("a hello and a request of features");
    assert_eq!(replies[17], 5, "a request of features");
    let kill = Command::new("kill").args(["-TERM", &served.child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success() && served.child.wait().expect("it ends").success());
    std::fs::read(file).expect("a recording")
}

/// Returns a recording in which the switch does not offer OpenFlow 1.3. The checksum fits.
fn with_older_switch(bytes: &[u8]) -> Vec<u8> {
    let hello = [4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x1e];
    let mut out = bytes.to_vec();
    let at = bytes.windows(hello.len()).position(|part| part == hello).expect("the hello of the switch");
    out[at + hello.len() - 1] = 0x0e;
    let mut start = bytes.iter().position(|byte| *byte == b'\n').expect("a first line") + 1;
    while start < out.len() {
        let length = u32::from_le_bytes(*out[start..].first_chunk().expect("a length")) as usize;
        let end = start + 16 + length;
        let content = xxh3_64_with_seed(&out[start + 16..end], start as u64).to_le_bytes();
        out[start + 4..start + 12].copy_from_slice(&content);
        let check = (xxh3_64_with_seed(&out[start..start + 12], start as u64) as u32).to_le_bytes();
        out[start + 12..start + 16].copy_from_slice(&check);
        start = end;
    }
    out
}

#[test]
fn exit_code_shows_whether_outputs_are_as_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let bytes = record(&path.join("a.rec"));

    let text = succeed(path, "replay a.rec");
    assert!(text.contains("\noutputs: as recorded (hash ") && text.contains("the daemon stopped"), "{text}");
    let summary = printed_json(path, "replay a.rec --json");
    assert_eq!((&summary["received"]["hello"], &summary["sent"]["features_request"]), (&1.into(), &1.into()));
    let trace = succeed(path, "replay a.rec --trace");
    for part in [" start with balancer sdn-ecmp\n", " connected\n", " < #1    Hello", "FeaturesRequest\n"] {
        assert!(trace.contains(part), "{part}: {trace}");
    }
    let early = printed_json(path, "replay a.rec --json --until 0");
    assert_eq!((&early["received"], &early["end"]), (&serde_json::json!({}), &"the rest was left out".into()));

    std::fs::write(path.join("b.rec"), with_older_switch(&bytes)).expect("a file");
    let (code, text, error) = outcome(path, &["replay", "b.rec"]);
    assert!(code == 1 && text.contains("outputs: differ from the recorded ones after input "), "{code} {text}{error}");
    assert!(error.starts_with("error: b.rec: the outputs differ from the recorded ones after input "), "{error}");

    let mut damaged = bytes;
    *damaged.last_mut().expect("bytes") ^= 1;
    std::fs::write(path.join("c.rec"), damaged).expect("a file");
    std::fs::write(path.join("d.rec"), "listen = \"\"\n").expect("a file");
    let cases =
        [("c.rec", "c.rec: the record at byte "), ("d.rec", "it is not a recording"), ("e.rec", "No such file")];
    for (file, part) in cases {
        let (code, _, error) = outcome(path, &["replay", file]);
        assert!(code == 2 && error.contains(part), "{file}: {code} {error}");
    }
}
