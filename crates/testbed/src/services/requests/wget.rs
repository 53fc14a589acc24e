//! A page or a file fetched by GNU wget: one process each, as in the published evaluations that
//! used it.

use std::fs;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::failure::Failure;
use super::http::{Head, Response};
use super::timed_stream::StreamLimits;
use crate::clock::now_ns;

/// Time between two polls of the process: the precision of its times.
const LOOK: Duration = Duration::from_millis(1);

/// Fetches a page or file; `log` receives the output of wget. Must be called on a thread in the
/// namespace of the client. Connect and first-byte times are not available.
pub fn fetch(
    scheme: &str,
    to: SocketAddrV4,
    path: &str,
    log: &Path,
    limits: StreamLimits<'_>,
) -> Result<Response, Failure> {
    let output = fs::File::create(log).map_err(other)?;
    let url = format!("{scheme}://{to}/{}", path.trim_start_matches('/'));
    let timeout = format!("--timeout={}", limits.silence.as_secs().max(1));
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
    let (ended, bytes) = wait(child.map_err(other)?, limits)?;
    let total_ns = now_ns() - start_ns;
    let output = fs::read_to_string(log).unwrap_or_default();
    if !ended.success() {
        return Err(reason(ended.code(), &output, begun.elapsed() >= limits.silence));
    }
    Ok(Response { total_ns, bytes, server: server_name(&output), ..Response::default() })
}

fn other(cause: std::io::Error) -> Failure {
    Failure::Other(format!("wget: {cause}"))
}

fn wait(mut child: Child, limits: StreamLimits<'_>) -> Result<(ExitStatus, u64), Failure> {
    let mut output = child.stdout.take();
    let count = move || output.as_mut().map_or(Ok(0), |output| std::io::copy(output, &mut std::io::sink()));
    let reader = std::thread::spawn(count);
    loop {
        if let Some(status) = child.try_wait().map_err(other)? {
            let bytes =
                reader.join().unwrap_or_else(|_| Err(std::io::Error::other("the reader of its output panicked")));
            return Ok((status, bytes.map_err(other)?));
        }
        if limits.must_stop() {
            let _ = child.kill();
            let _ = child.wait();
            let _ = reader.join();
            return Err(Failure::Stopped);
        }
        std::thread::sleep(LOOK);
    }
}

fn server_name(output: &str) -> Option<String> {
    let greeting = || output.lines().find_map(|line| line.trim().strip_prefix("220 "));
    let greeting = || greeting()?.split_whitespace().next().map(str::to_owned);
    Head::read(output).server.or_else(greeting)
}

/// Classifies a failure. Exit codes of wget's manual: 4 network, 8 error response of the server.
fn reason(code: Option<i32>, output: &str, is_slow: bool) -> Failure {
    let mut status =
        output.lines().filter_map(|line| line.trim().strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok());
    match (code, status.next_back()) {
        (Some(8), Some(status)) => Failure::Status(status),
        (Some(4), _) if output.contains("refused") => Failure::Refused,
        (Some(4), _) if output.contains("reset") => Failure::Reset,
        (Some(4), _) if output.contains("unreachable") || output.contains("No route") => Failure::Unreachable,
        (Some(4), _) if is_slow || output.contains("timed out") => Failure::TimedOut(!output.contains("onnecting")),
        (code, _) => Failure::Other(format!("wget ended with {code:?}: {}", output.lines().last().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_names_server_and_failure() {
        let output = "  HTTP/1.1 200 OK\n  Server: nginx\n  X-Server: ah2\n  Content-Length: 5\n";
        assert_eq!(server_name(output), Some("ah2".to_owned()));
        assert_eq!(server_name("220 ah3\n331 Please specify the password.\n"), Some("ah3".to_owned()));
        assert_eq!(reason(Some(8), "  HTTP/1.1 503 Busy\n", false), Failure::Status(503));
        assert_eq!(reason(Some(4), "failed: Connection refused.\n", false), Failure::Refused);
        assert_eq!(reason(Some(4), "Read error (Connection timed out) in headers.\n", true), Failure::TimedOut(true));
    }
}
