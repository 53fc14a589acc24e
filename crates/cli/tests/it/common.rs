//! Runs the command for tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use tempfile::TempDir;

/// An experiment of two balancers, two loads and two seeds.
pub const SMALL: &str = include_str!("../../../experiment/tests/data/small.toml");

/// The folder of experiment files.
pub const EXPERIMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");

/// Returns exit code, standard output and standard error of `anabranch` in a folder. The command is
/// killed after two minutes.
pub fn outcome(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("anabranch").unwrap();
    let output = command.current_dir(folder).args(args).timeout(Duration::from_secs(120)).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

pub fn folder_with(small: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), small).unwrap();
    folder
}

/// Splits a command at its spaces; `␣` is a space in an argument.
fn words_of(command: &str) -> Vec<String> {
    command.split(' ').map(|word| word.replace('␣', " ")).collect()
}

/// Runs a command that must succeed. Returns its standard output.
pub fn succeed(folder: &Path, command: &str) -> String {
    let args = words_of(command);
    let (code, stdout, stderr) = outcome(folder, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, 0, "{command}: {stderr}");
    stdout
}

/// Runs a command that must succeed. Returns the JSON on its standard output.
pub fn printed_json(folder: &Path, command: &str) -> Value {
    serde_json::from_str(&succeed(folder, command)).unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// Runs a command that must exit with 2, an empty standard output and `words` in the error.
pub fn assert_rejected(folder: &Path, command: &str, words: &[&str]) {
    let args = words_of(command);
    let (code, stdout, stderr) = outcome(folder, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((code, stdout.as_str()), (2, ""), "{command}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{command}: `{word}` is not in\n{stderr}");
    }
}

/// `anabranch serve` on free ports of loopback; killed when dropped.
pub struct Served {
    pub child: Child,
    /// The lines that it prints: where it listens, and its balancer.
    pub lines: Vec<String>,
}

impl Served {
    pub fn start(arguments: &[&str], stderr: Stdio) -> Served {
        let mut command = std::process::Command::new(cargo_bin("anabranch"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("the daemon starts");
        // Three lines are the complete output; a daemon that cannot print them ends.
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok).take(3);
        Served { child, lines: lines.collect() }
    }

    /// Returns what it prints after `name: `.
    pub fn line(&self, name: &str) -> &str {
        let line = self.lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no line `{name}` in {:?}", self.lines))
    }

    /// Returns the URL of its HTTP interface, without a slash at the end.
    pub fn http(&self) -> &str {
        self.line("http").strip_suffix('/').expect("a URL")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request such as `GET /v1/pools` on a new connection; `None` if no complete response arrived.
pub fn request(url: &str, request: &str, headers: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://")?).ok()?;
    let length = body.len();
    let head = format!("{request} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}");
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

pub fn read_json(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Returns all files below a folder whose names end in `.EXTENSION`.
pub fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.flat_map(|path| if path.is_dir() { files_below(&path, extension) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|end| end == extension)).collect()
}
