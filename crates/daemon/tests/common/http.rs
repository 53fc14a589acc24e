//! Daemons with their HTTP interface, and handwritten requests to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anabranch_daemon::{Daemon, Settings};
use serde_json::Value;

use super::{Fabric, WAIT_TIMEOUT, daemon, fat_tree};

/// Starts a daemon for a fat-tree.
pub fn served(edit: impl FnOnce(&mut Settings)) -> (Daemon, SocketAddr) {
    let daemon = daemon(&fat_tree(), edit);
    let http = daemon.http.expect("HTTP is on");
    (daemon, http)
}

/// Starts a daemon and a fat-tree, and waits until every host reaches every other.
pub fn network(edit: impl FnOnce(&mut Settings)) -> (Daemon, SocketAddr, Fabric) {
    let (daemon, http) = served(edit);
    let fabric = Fabric::start(fat_tree(), daemon.openflow);
    fabric.wait_reached();
    (daemon, http, fabric)
}

pub fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("a connection");
    stream.set_read_timeout(Some(WAIT_TIMEOUT)).expect("a time limit");
    stream
}

/// Connects from another address of the loopback network: another source.
pub fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
    use std::os::fd::AsRawFd;
    let own = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    bind(own.as_raw_fd(), &SockaddrIn::from(std::net::SocketAddrV4::new(from.into(), 0))).expect("a loopback address");
    let SocketAddr::V4(to) = to else { panic!("the tests listen on IPv4") };
    connect(own.as_raw_fd(), &SockaddrIn::from(to)).expect("a connection");
    let stream = TcpStream::from(own);
    stream.set_read_timeout(Some(WAIT_TIMEOUT)).expect("a time limit");
    stream
}

/// Sends a text. Returns everything until the end of the connection.
pub fn exchange(to: SocketAddr, text: &str) -> String {
    let mut stream = connect(to);
    stream.write_all(text.as_bytes()).expect("a request");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

pub fn status_of(response: &str) -> u16 {
    response.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

/// Sends a request of HTTP/1.0 with these header lines. Returns the status and the whole response.
pub fn request_with(to: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.0\r\nHost: {to}\r\n{headers}Content-Length: {length}\r\n\r\n");
    let response = exchange(to, &(head + body));
    (status_of(&response), response)
}

/// Sends a request with a JSON body. Returns status and body.
pub fn request(to: SocketAddr, method: &str, path: &str, body: Option<&str>) -> (u16, String) {
    let headers = "Content-Type: application/json\r\n";
    let (status, response) = request_with(to, method, path, headers, body.unwrap_or_default());
    (status, response.split_once("\r\n\r\n").expect("head and body").1.to_owned())
}

/// Sends a request. Returns status and JSON.
pub fn ask(http: SocketAddr, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let (status, text) = request(http, method, path, body.map(|body| body.to_string()).as_deref());
    let parsed = serde_json::from_str(&text);
    (status, if text.is_empty() { Value::Null } else { parsed.unwrap_or_else(|_| panic!("{path}: {text}")) })
}

pub fn get(http: SocketAddr, path: &str) -> Value {
    let (status, value) = ask(http, "GET", path, None);
    assert_eq!(status, 200, "{path}: {value}");
    value
}

/// Returns the value of a metric in the text of all metrics.
pub fn metric_in(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("anabranch_{name} ")));
    line.unwrap_or_else(|| panic!("{name} is a metric:\n{text}")).parse().expect("a number")
}

pub fn metric(http: SocketAddr, name: &str) -> u64 {
    metric_in(&request(http, "GET", "/metrics", None).1, name)
}

pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") << 10
}
