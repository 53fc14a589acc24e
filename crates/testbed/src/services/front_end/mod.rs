//! A front end: it accepts connections to a service, reads each request, picks a member by its
//! content, and relays the response or redirects the client (F1, section 2.3).
//!
//! A relayed connection has two TCP connections. Bytes move between their sockets through a pipe in
//! the kernel, by splice(2), without a copy in this program. With `copies` they move through a
//! buffer of this program instead, for comparison.
//!
//! The time from connecting to a member to the first byte of its response goes to the balancer, as
//! in the simulator.

mod members;
mod relay;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub use members::{FrontMember, FrontRule};
use members::{Placed, Rule};
use relay::relay;

/// Time after which a silent client or member is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_MAX: u64 = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forwarding {
    Splice,
    Redirect,
}

/// Configuration of a front end, a JSON file.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FrontEnd {
    /// Address at which the virtual address reaches the front end.
    pub listen: SocketAddrV4,
    pub forwarding: Forwarding,
    /// Whether responses move through a buffer of the program instead of a pipe in the kernel.
    #[serde(default)]
    pub copies: bool,
    pub seed: u64,
    /// Rules in order; the first that matches a request gives its members.
    pub rules: Vec<FrontRule>,
}

struct Server {
    config: FrontEnd,
    rules: Vec<Rule>,
}

/// Head of a request, with its end.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    bytes: Vec<u8>,
    method: String,
    path: String,
    host: String,
    /// Bytes of the body; 0 without `Content-Length`.
    length: u64,
}

impl FrontEnd {
    /// Serves until the process ends.
    ///
    /// # Errors
    ///
    /// A rule without members or with an unknown balancer, or an address that cannot be bound.
    pub fn serve(self) -> io::Result<()> {
        let rules = self.rules.iter().map(|rule| Rule::new(rule, self.seed)).collect::<io::Result<Vec<_>>>()?;
        let listener = TcpListener::bind(self.listen)?;
        let server = Arc::new(Server { config: self, rules });
        for stream in listener.incoming() {
            // A connection that ends before it is accepted concerns only its client.
            let Ok(stream) = stream else { continue };
            let server = Arc::clone(&server);
            // An error means that the client or its member disconnected.
            thread::spawn(move || server.forward(&stream));
        }
        Ok(())
    }
}

impl Server {
    fn forward(&self, client: &TcpStream) -> io::Result<()> {
        prepare(client)?;
        let mut reader = BufReader::new(client);
        let Some(head) = Head::read(&mut reader)? else { return respond(client, "400 Bad Request", "") };
        let SocketAddr::V4(from) = client.peer_addr()? else { return Ok(()) };
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(&head.path, &head.host)) else {
            return respond(client, "404 Not Found", "");
        };
        let Some(placed) = rule.pick(from, self.config.listen) else {
            return respond(client, "503 Service Unavailable", "");
        };
        if self.config.forwarding == Forwarding::Redirect {
            rule.ended(&placed, 0);
            // 302 would turn a POST into a GET.
            let status = if head.method == "GET" { "302 Found" } else { "307 Temporary Redirect" };
            io::copy(&mut reader.take(head.length), &mut io::sink())?;
            return respond(client, status, &format!("Location: http://{}{}\r\n", placed.at, head.path));
        }
        let relayed = self.relay(rule, &placed, &head, reader);
        rule.ended(&placed, relayed.as_ref().copied().unwrap_or(0));
        match relayed {
            Err(cause) if cause.kind() == io::ErrorKind::NotConnected => respond(client, "502 Bad Gateway", ""),
            done => done.map(drop),
        }
    }

    /// Sends a request to its member and relays the response. Returns its length.
    fn relay(&self, rule: &Rule, placed: &Placed, head: &Head, mut reader: BufReader<&TcpStream>) -> io::Result<u64> {
        let began = Instant::now();
        let refused = |cause: io::Error| io::Error::new(io::ErrorKind::NotConnected, cause);
        let member = TcpStream::connect_timeout(&placed.at.into(), CONNECT_TIMEOUT).map_err(refused)?;
        prepare(&member)?;
        (&member).write_all(&head.bytes)?;
        // The reader may have read the beginning of the body already.
        let client = *reader.get_ref();
        io::copy(&mut reader.by_ref().take(head.length), &mut &member)?;
        member.peek(&mut [0])?;
        rule.responded(placed, began.elapsed());
        relay(&member, client, self.config.copies)
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
    stream.set_write_timeout(Some(IDLE_TIMEOUT))?;
    stream.set_nodelay(true)
}

fn respond(mut client: &TcpStream, status: &str, fields: &str) -> io::Result<()> {
    client.write_all(format!("HTTP/1.0 {status}\r\n{fields}Content-Length: 0\r\nConnection: close\r\n\r\n").as_bytes())
}

impl Head {
    /// Reads the head of a request; `None` if it is not HTTP.
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Head>> {
        let mut limited = reader.by_ref().take(HEAD_MAX);
        let mut head =
            Head { bytes: Vec::new(), method: String::new(), path: String::new(), host: String::new(), length: 0 };
        loop {
            let start = head.bytes.len();
            if limited.read_until(b'\n', &mut head.bytes)? == 0 {
                return Ok(None);
            }
            let Ok(line) = core::str::from_utf8(&head.bytes[start..]) else { return Ok(None) };
            let line = line.trim_end_matches(['\r', '\n']);
            if head.bytes.last() != Some(&b'\n') {
                return Ok(None);
            }
            if start == 0 {
                let mut words = line.split(' ');
                let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next()) else {
                    return Ok(None);
                };
                if !version.starts_with("HTTP/1.") || !path.starts_with('/') {
                    return Ok(None);
                }
                (head.method, head.path) = (method.to_owned(), path.to_owned());
            } else if line.is_empty() {
                return Ok(Some(head));
            } else if let Some((name, value)) = line.split_once(':') {
                match name.to_ascii_lowercase().as_str() {
                    "host" => head.host = value.trim().to_owned(),
                    "content-length" => match value.trim().parse() {
                        Ok(length) => head.length = length,
                        Err(_) => return Ok(None),
                    },
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
