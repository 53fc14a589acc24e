//! One request: HTTP/1.0, a page, the end of the connection.

use std::io::{Read, Write};
use std::net::SocketAddrV4;

use super::failure::{Bad, Failure};
use super::patient::{Patience, Patient};
use crate::clock::now_ns;

/// Header by which a server says which one it is.
const WHO: &str = "x-server";

/// Header by which a server of jobs says how much later it was done than its cores allowed, microseconds.
const LATE: &str = "x-late-us";

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
    /// How much later a job was done than its share of the server's cores allowed, microseconds, where the server says so.
    pub late_us: u64,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish<'a> {
    /// Whom.
    pub to: SocketAddrV4,
    /// Path, and a query where there is one.
    pub path: &'a str,
    /// Bytes the request is to have: a page is asked for with a header that fills them up, work with a body of so many.
    pub bytes: u64,
    /// Whether it is work, for which something is handed in.
    pub is_work: bool,
}

impl Wish<'_> {
    fn head(&self) -> String {
        let Wish { to, path, bytes, .. } = self;
        let end = "Connection: close\r\n\r\n";
        if self.is_work {
            return format!("POST {path} HTTP/1.0\r\nHost: {to}\r\nContent-Length: {bytes}\r\n{end}");
        }
        let head = format!("GET {path} HTTP/1.0\r\nHost: {to}\r\n");
        let filler = "X-Filler: ";
        let missing = (*bytes as usize).saturating_sub(head.len() + end.len());
        match missing.checked_sub(filler.len() + 2) {
            Some(rest) => format!("{head}{filler}{}\r\n{end}", "x".repeat(rest)),
            None => head + end,
        }
    }
}

/// Asks for a page and reads it to its end.
///
/// # Errors
/// What kept it from coming whole.
pub fn get(wish: &Wish<'_>, patience: Patience<'_>, buffer: &mut [u8]) -> Result<Answer, Failure> {
    let start_ns = now_ns();
    let mut stream = Patient::connect(wish.to, patience)?;
    let connect_ns = now_ns() - start_ns;
    let port = stream.port();
    let page = exchange(&mut stream, wish, buffer).map_err(|cause| Failure::of(&cause, true))?;
    stream.close();
    let (first_byte_ns, total_ns) = (page.first_ns - start_ns, now_ns() - start_ns);
    let Page { bytes, server, late_us, .. } = page;
    Ok(Answer { connect_ns, first_byte_ns, total_ns, bytes, server, port, late_us })
}

struct Page {
    first_ns: u64,
    bytes: u64,
    server: Option<String>,
    late_us: u64,
}

fn exchange(stream: &mut Patient<'_>, wish: &Wish<'_>, buffer: &mut [u8]) -> std::io::Result<Page> {
    stream.write_all(wish.head().as_bytes())?;
    if wish.is_work {
        std::io::copy(&mut std::io::repeat(0).take(wish.bytes), stream)?;
    }
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
    let said = Head::read(&String::from_utf8_lossy(&head[..end]));
    if said.status != 200 {
        return Err(Bad::Status(said.status).into());
    }
    let mut bytes = (head.len() - end - 4) as u64;
    loop {
        let read = stream.read(buffer)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
    }
    if said.length.is_some_and(|length| length != bytes) {
        return Err(Bad::Short.into());
    }
    Ok(Page { first_ns: first_ns.unwrap_or_else(now_ns), bytes, server: said.server, late_us: said.late_us })
}

/// What the head of an answer says.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// 0 for none.
    status: u16,
    length: Option<u64>,
    pub(super) server: Option<String>,
    late_us: u64,
}

impl Head {
    pub(super) fn read(head: &str) -> Head {
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok());
        let mut said = Head { status: status.unwrap_or(0), ..Head::default() };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "content-length" => said.length = value.trim().parse().ok(),
                WHO => said.server = Some(value.trim().to_owned()),
                LATE => said.late_us = value.trim().parse().unwrap_or(0),
                _ => {}
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use super::*;

    static ON: AtomicBool = AtomicBool::new(false);
    const PATIENCE: Patience<'static> = Patience { silence: Duration::from_secs(5), stop: &ON };

    fn wish(port: u16, bytes: u64) -> Wish<'static> {
        Wish { to: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), path: "/page", bytes, is_work: false }
    }

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
        let got = get(&wish(port, 0), PATIENCE, &mut [0; 100]);
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
        assert_eq!(get(&wish(port, 0), PATIENCE, &mut [0; 16]), Err(Failure::Refused));
    }

    #[test]
    fn requests_have_the_bytes_they_are_to_have() {
        for bytes in [200, 500, 4000] {
            assert_eq!(wish(80, bytes).head().len() as u64, bytes);
        }
        let plain = wish(80, 1).head();
        assert!(plain.starts_with("GET /page HTTP/1.0\r\n") && plain.ends_with("\r\n\r\n") && plain.len() < 100);
        let work = Wish { is_work: true, ..wish(80, 1000) }.head();
        assert!(work.starts_with("POST /page HTTP/1.0\r\n") && work.contains("Content-Length: 1000\r\n"), "{work}");
    }

    #[test]
    fn whoever_is_told_to_stop_does_not_wait() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let patience = Patience { silence: Duration::from_secs(60), stop };
        // The kernel takes the connection, and nobody says anything.
        let waiting = thread::spawn(move || get(&wish(port, 0), patience, &mut [0; 16]));
        thread::sleep(Duration::from_millis(50));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(waiting.join().expect("no panic"), Err(Failure::Stopped));
    }
}
