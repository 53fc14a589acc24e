//! A page or a file by GNU wget: a process each, as in the evaluations that used it.

use std::fs;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::failure::Failure;
use super::http::{Answer, Head};
use super::patient::Patience;
use crate::clock::now_ns;

/// Time between two looks at whether it has ended: how exact its times are.
const LOOK: Duration = Duration::from_millis(1);

/// Fetches; `log` is for what it prints. Called on a thread in the namespace of the client. The time until the connection stood
/// is not known, nor that of the first byte.
///
/// # Errors
/// What kept it from coming whole.
pub fn fetch(
    scheme: &str,
    to: SocketAddrV4,
    path: &str,
    log: &Path,
    patience: Patience<'_>,
) -> Result<Answer, Failure> {
    let other = |cause: std::io::Error| Failure::Other(format!("wget: {cause}"));
    let output = fs::File::create(log).map_err(other)?;
    let url = format!("{scheme}://{to}/{}", path.trim_start_matches('/'));
    let timeout = format!("--timeout={}", patience.silence.as_secs().max(1));
    let begun = Instant::now();
    let start_ns = now_ns();
    let child = Command::new("wget")
        .args(["--no-config", "--no-proxy", "--no-verbose", "--server-response", "--tries=1", "--output-document=-"])
        .args([&timeout, &url])
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(output)
        .spawn();
    let (ended, bytes) = wait(child.map_err(other)?, patience)?;
    let total_ns = now_ns() - start_ns;
    let said = fs::read_to_string(log).unwrap_or_default();
    if !ended.success() {
        return Err(reason(ended.code(), &said, begun.elapsed() >= patience.silence));
    }
    let server = who(&said);
    Ok(Answer { connect_ns: 0, first_byte_ns: 0, total_ns, bytes, server, port: 0, late_us: 0 })
}

/// Reads what it fetches, and waits for its end.
fn wait(mut child: Child, patience: Patience<'_>) -> Result<(ExitStatus, u64), Failure> {
    let other = |cause: std::io::Error| Failure::Other(format!("wget: {cause}"));
    let mut output = child.stdout.take();
    let reader =
        std::thread::spawn(move || output.as_mut().map_or(Ok(0), |output| std::io::copy(output, &mut std::io::sink())));
    loop {
        if let Some(status) = child.try_wait().map_err(other)? {
            let bytes = reader.join().map_err(|_| Failure::Other("wget: its reader panicked".to_owned()))?;
            return Ok((status, bytes.map_err(other)?));
        }
        if patience.is_over() {
            let _ = child.kill();
            let _ = child.wait();
            let _ = reader.join();
            return Err(Failure::Stopped);
        }
        std::thread::sleep(LOOK);
    }
}

/// Who served, as headers of HTTP or the greeting of FTP say.
fn who(said: &str) -> Option<String> {
    let greeting = || said.lines().find_map(|line| line.trim().strip_prefix("220 "));
    let greeting = || greeting()?.split_whitespace().next().map(str::to_owned);
    Head::read(said).server.or_else(greeting)
}

/// Codes of wget's manual: 4 network, 8 the server's answer.
fn reason(code: Option<i32>, said: &str, is_slow: bool) -> Failure {
    let mut status =
        said.lines().filter_map(|line| line.trim().strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok());
    match (code, status.next_back()) {
        (Some(8), Some(status)) => Failure::Status(status),
        (Some(4), _) if said.contains("refused") => Failure::Refused,
        (Some(4), _) if said.contains("reset") => Failure::Reset,
        (Some(4), _) if said.contains("unreachable") || said.contains("No route") => Failure::Unreachable,
        (Some(4), _) if is_slow || said.contains("timed out") => Failure::TimedOut(!said.contains("onnecting")),
        (code, _) => Failure::Other(format!("wget ended with {code:?}: {}", said.lines().last().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_words_tell_who_served_and_what_went_wrong() {
        let said = "  HTTP/1.1 200 OK\n  Server: nginx\n  X-Server: ah2\n  Content-Length: 5\n";
        assert_eq!(who(said), Some("ah2".to_owned()));
        assert_eq!(who("220 ah3\n331 Please specify the password.\n"), Some("ah3".to_owned()));
        assert_eq!(reason(Some(8), "  HTTP/1.1 503 Busy\n", false), Failure::Status(503));
        assert_eq!(reason(Some(4), "failed: Connection refused.\n", false), Failure::Refused);
        assert_eq!(reason(Some(4), "Read error (Connection timed out) in headers.\n", true), Failure::TimedOut(true));
    }
}
