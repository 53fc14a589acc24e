//! One HTTP/1.0 request: the page, then the end of the connection.

use std::io::{Read, Write};
use std::net::SocketAddrV4;

use super::failure::Failure;
use super::timed_stream::{StreamLimits, TimedStream};
use crate::clock::now_ns;

const SERVER_HEADER: &str = "x-server";

/// Header of a compute server: how much later than its cores allowed the job ended, microseconds.
const LATE_HEADER: &str = "x-late-us";

const HEAD_MAX: usize = 16 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Times from the start until the connection was established, and until the first and the last
    /// byte of the response arrived, nanoseconds.
    pub connect_ns: u64,
    /// Time from the start to the first byte of the response, nanoseconds.
    pub first_byte_ns: u64,
    /// Time from the start to the last byte, nanoseconds.
    pub total_ns: u64,
    pub bytes: u64,
    /// Server that sent the page, if it names itself (`X-Server`).
    pub server: Option<String>,
    pub port: u16,
    /// How much later than its share of the server's cores allowed a job ended, microseconds; 0 if
    /// the server does not report it.
    pub late_us: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest<'a> {
    pub to: SocketAddrV4,
    pub path: &'a str,
    /// Value of the `Host` field; empty for the address.
    pub host: &'a str,
    /// Bytes of the request: a GET is padded with a header, a POST has a body of this length.
    pub bytes: u64,
    /// Whether the request submits a job (POST) instead of fetching a page (GET).
    pub is_post: bool,
}

impl HttpRequest<'_> {
    fn head(&self) -> String {
        let HttpRequest { to, path, bytes, .. } = self;
        let to = if self.host.is_empty() { to.to_string() } else { self.host.to_owned() };
        let end = "Connection: close\r\n\r\n";
        if self.is_post {
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

/// Requests a page and reads it to its end. A redirect is followed once, over another connection.
pub fn get(request: &HttpRequest<'_>, limits: StreamLimits<'_>, buffer: &mut [u8]) -> Result<Response, Failure> {
    let start_ns = now_ns();
    match get_from(request, start_ns, limits, buffer) {
        Err(Failure::Redirected(to)) => get_from(&HttpRequest { to, ..*request }, start_ns, limits, buffer),
        done => done,
    }
}

/// Requests a page from one server; times are from `start_ns`.
fn get_from(
    request: &HttpRequest<'_>,
    start_ns: u64,
    limits: StreamLimits<'_>,
    buffer: &mut [u8],
) -> Result<Response, Failure> {
    let mut stream = TimedStream::connect(request.to, limits)?;
    let connect_ns = now_ns() - start_ns;
    let (first_ns, page) = exchange(&mut stream, request, buffer).map_err(|cause| Failure::classify(&cause, true))?;
    let port = stream.port();
    stream.close();
    let (first_byte_ns, total_ns) = (first_ns - start_ns, now_ns() - start_ns);
    Ok(Response { connect_ns, first_byte_ns, total_ns, port, ..page })
}

/// Returns the time of the first byte, and the response without its times.
fn exchange(
    stream: &mut TimedStream<'_>,
    request: &HttpRequest<'_>,
    buffer: &mut [u8],
) -> std::io::Result<(u64, Response)> {
    stream.write_all(request.head().as_bytes())?;
    if request.is_post {
        std::io::copy(&mut std::io::repeat(0).take(request.bytes), stream)?;
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
            return Err(Failure::Short.into());
        }
    };
    let Head { status, length, server, late_us, location } = Head::read(&String::from_utf8_lossy(&head[..end]));
    if let (302 | 307, Some(to)) = (status, location) {
        return Err(Failure::Redirected(to).into());
    }
    if status != 200 {
        return Err(Failure::Status(status).into());
    }
    let mut bytes = (head.len() - end - 4) as u64;
    loop {
        match stream.read(buffer)? {
            0 => break,
            read => bytes += read as u64,
        }
    }
    if length.is_some_and(|length| length != bytes) {
        return Err(Failure::Short.into());
    }
    Ok((first_ns.unwrap_or_else(now_ns), Response { bytes, server, late_us, ..Response::default() }))
}

#[derive(Debug, Default)]
pub(super) struct Head {
    /// 0 if the head has no status.
    status: u16,
    length: Option<u64>,
    pub(super) server: Option<String>,
    late_us: u64,
    /// Address in the `Location` of a redirect; `None` without one.
    location: Option<SocketAddrV4>,
}

impl Head {
    pub(super) fn read(head: &str) -> Head {
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok());
        let mut fields = Head { status: status.unwrap_or(0), ..Head::default() };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "content-length" => fields.length = value.trim().parse().ok(),
                SERVER_HEADER => fields.server = Some(value.trim().to_owned()),
                "location" => fields.location = address_in(value.trim()),
                LATE_HEADER => fields.late_us = value.trim().parse().unwrap_or(0),
                _ => {}
            }
        }
        fields
    }
}

/// Returns the address in a URL such as `http://10.0.0.1:80/page`.
fn address_in(url: &str) -> Option<SocketAddrV4> {
    url.strip_prefix("http://")?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use super::*;

    static ON: AtomicBool = AtomicBool::new(false);
    const PATIENCE: StreamLimits<'static> = StreamLimits { silence: Duration::from_secs(5), stop: &ON };

    fn request(port: u16, bytes: u64) -> HttpRequest<'static> {
        HttpRequest { to: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), path: "/page", host: "", bytes, is_post: false }
    }

    /// Returns the result of a request to a server that sends `response` and closes.
    fn response_to(response: &'static [u8]) -> Result<Response, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut asked = [0; 256];
            let read = stream.read(&mut asked).expect("a request");
            assert!(asked[..read].starts_with(b"GET /page HTTP/1.0\r\n"));
            stream.write_all(response).expect("it listens");
        });
        let got = get(&request(port, 0), PATIENCE, &mut [0; 100]);
        server.join().expect("the server did its part");
        got
    }

    #[test]
    fn complete_pages_succeed_and_others_name_failure() {
        let page = response_to(b"HTTP/1.1 200 OK\r\nX-Server: m1\r\nContent-Length: 5\r\n\r\nhello").expect("a page");
        assert_eq!((page.bytes, page.server.as_deref()), (5, Some("m1")));
        assert!(page.connect_ns <= page.first_byte_ns && page.first_byte_ns <= page.total_ns);
        assert_eq!(response_to(b"HTTP/1.1 200 OK\r\n\r\nto the end").expect("a page").bytes, 10);
        assert_eq!(response_to(b"HTTP/1.1 503 Busy\r\n\r\n"), Err(Failure::Status(503)));
        assert_eq!(response_to(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"), Err(Failure::Short));
        assert_eq!(response_to(b"HTTP/1.1 200 OK\r\nConte"), Err(Failure::Short));
    }

    #[test]
    fn closed_port_is_refusal() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        assert_eq!(get(&request(port, 0), PATIENCE, &mut [0; 16]), Err(Failure::Refused));
    }

    #[test]
    fn requests_have_configured_length() {
        for bytes in [200, 500, 4000] {
            assert_eq!(request(80, bytes).head().len() as u64, bytes);
        }
        let plain = request(80, 1).head();
        assert!(plain.starts_with("GET /page HTTP/1.0\r\n") && plain.ends_with("\r\n\r\n") && plain.len() < 100);
        let work = HttpRequest { is_post: true, ..request(80, 1000) }.head();
        assert!(work.starts_with("POST /page HTTP/1.0\r\n") && work.contains("Content-Length: 1000\r\n"), "{work}");
    }

    #[test]
    fn stop_flag_ends_waiting_request() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let limits = StreamLimits { silence: Duration::from_secs(60), stop };
        // The kernel accepts the connection, but no server answers.
        let waiting = thread::spawn(move || get(&request(port, 0), limits, &mut [0; 16]));
        thread::sleep(Duration::from_millis(50));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(waiting.join().expect("no panic"), Err(Failure::Stopped));
    }
}
