//! One request: HTTP/1.0, a page, the end of the connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::time::Duration;

use crate::clock::now_ns;

/// Header by which a server says which one it is.
const WHO: &str = "x-server";

/// Longest head of an answer that is read, bytes.
const HEAD_MAX: usize = 16 << 10;

/// A page that came whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Time until the connection stood, nanoseconds.
    pub connect_ns: u64,
    /// Time from the beginning to the first byte of the answer.
    pub first_byte_ns: u64,
    /// Time from the beginning to the last one.
    pub total_ns: u64,
    /// Bytes of the page.
    pub bytes: u64,
    /// Which server it was, where it says so (`X-Server`).
    pub server: Option<String>,
    /// The client's port.
    pub port: u16,
}

/// Why a page did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The other side refused the connection.
    Refused,
    /// It was broken off.
    Reset,
    /// Nobody answered in time; whether the connection stood.
    TimedOut(bool),
    /// The network said that there is no way.
    Unreachable,
    /// The server answered, and not with the page.
    Status(u16),
    /// The answer ended before its end.
    Short,
    /// Something else.
    Other(String),
}

impl Failure {
    /// In a word.
    pub fn name(&self) -> &'static str {
        match self {
            Failure::Refused => "refused",
            Failure::Reset => "reset",
            Failure::TimedOut(false) => "no connection in time",
            Failure::TimedOut(true) => "no answer in time",
            Failure::Unreachable => "unreachable",
            Failure::Status(_) => "status",
            Failure::Short => "cut short",
            Failure::Other(_) => "other",
        }
    }

    fn of(cause: &std::io::Error, is_connected: bool) -> Failure {
        match cause.kind() {
            ErrorKind::ConnectionRefused => Failure::Refused,
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => Failure::Reset,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Failure::TimedOut(is_connected),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Failure::Unreachable,
            _ => Failure::Other(cause.to_string()),
        }
    }
}

/// Asks for a page and reads it to its end.
///
/// # Errors
/// What kept it from coming whole.
pub fn get(to: SocketAddrV4, path: &str, patience: Duration, buffer: &mut [u8]) -> Result<Answer, Failure> {
    let start_ns = now_ns();
    let stream = TcpStream::connect_timeout(&to.into(), patience).map_err(|cause| Failure::of(&cause, false))?;
    let connect_ns = now_ns() - start_ns;
    exchange(&stream, to, path, patience, buffer)
        .map_err(|cause| match cause.get_ref().and_then(|inner| inner.downcast_ref::<Bad>()) {
            Some(Bad::Status(status)) => Failure::Status(*status),
            Some(Bad::Short) => Failure::Short,
            None => Failure::of(&cause, true),
        })
        .map(|page| {
            let _ = stream.shutdown(Shutdown::Both);
            let port = stream.local_addr().map_or(0, |address| address.port());
            Answer {
                connect_ns,
                first_byte_ns: page.first_ns - start_ns,
                total_ns: now_ns() - start_ns,
                bytes: page.bytes,
                server: page.server,
                port,
            }
        })
}

/// Faults of an answer.
#[derive(Debug, thiserror::Error)]
enum Bad {
    #[error("status {0}")]
    Status(u16),
    #[error("cut short")]
    Short,
}

impl From<Bad> for std::io::Error {
    fn from(bad: Bad) -> std::io::Error {
        std::io::Error::new(ErrorKind::InvalidData, bad)
    }
}

struct Page {
    first_ns: u64,
    bytes: u64,
    server: Option<String>,
}

fn exchange(
    mut stream: &TcpStream,
    to: SocketAddrV4,
    path: &str,
    patience: Duration,
    buffer: &mut [u8],
) -> std::io::Result<Page> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {to}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut first_ns = None;
    let mut head = Vec::new();
    let end = loop {
        let read = stream.read(buffer)?;
        first_ns.get_or_insert_with(now_ns);
        head.extend_from_slice(&buffer[..read]);
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if read == 0 || head.len() > HEAD_MAX {
            return Err(Bad::Short.into());
        }
    };
    let (status, length, server) = read_head(&String::from_utf8_lossy(&head[..end]));
    if status != 200 {
        return Err(Bad::Status(status).into());
    }
    let mut bytes = (head.len() - end - 4) as u64;
    loop {
        let read = stream.read(buffer)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
    }
    if length.is_some_and(|length| length != bytes) {
        return Err(Bad::Short.into());
    }
    Ok(Page { first_ns: first_ns.unwrap_or_else(now_ns), bytes, server })
}

/// Status (0 for none), length and server.
fn read_head(head: &str) -> (u16, Option<u64>, Option<String>) {
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok()).unwrap_or(0);
    let (mut length, mut server) = (None, None);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok(),
            WHO => server = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    (status, length, server)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::*;

    /// What comes of a request to a server that says this and ends.
    fn asked(answer: &'static [u8]) -> Result<Answer, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut asked = [0; 256];
            let read = stream.read(&mut asked).expect("a request");
            assert!(asked[..read].starts_with(b"GET /page HTTP/1.0\r\n"));
            stream.write_all(answer).expect("it listens");
        });
        let got = get(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), "/page", Duration::from_secs(5), &mut [0; 100]);
        server.join().expect("the server did its part");
        got
    }

    #[test]
    fn whole_pages_are_answers_and_others_say_what_is_wrong() {
        let page = asked(b"HTTP/1.1 200 OK\r\nX-Server: m1\r\nContent-Length: 5\r\n\r\nhello").expect("a page");
        assert_eq!((page.bytes, page.server.as_deref()), (5, Some("m1")));
        assert!(page.connect_ns <= page.first_byte_ns && page.first_byte_ns <= page.total_ns);
        assert_eq!(asked(b"HTTP/1.1 200 OK\r\n\r\nto the end").expect("a page").bytes, 10);
        assert_eq!(asked(b"HTTP/1.1 503 Busy\r\n\r\n"), Err(Failure::Status(503)));
        assert_eq!(asked(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"), Err(Failure::Short));
        assert_eq!(asked(b"HTTP/1.1 200 OK\r\nConte"), Err(Failure::Short));
    }

    #[test]
    fn nobody_there_is_a_refusal() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        assert_eq!(get(to, "/", Duration::from_secs(1), &mut [0; 16]), Err(Failure::Refused));
    }
}
