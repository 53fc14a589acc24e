//! Front ends on loopback, with compute servers as members.

use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::services::compute::{self, JobServer};
use crate::services::requests::{Failure, HttpRequest, Response, StreamLimits, get};

static ON: AtomicBool = AtomicBool::new(false);

fn free_port() -> SocketAddrV4 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().expect("bound").port())
}

fn until_listening(at: SocketAddrV4) -> SocketAddrV4 {
    while TcpStream::connect(at).is_err() {
        thread::sleep(Duration::from_millis(5));
    }
    at
}

fn member(name: &str) -> FrontMember {
    let at = free_port();
    let server = JobServer { at, name: name.to_owned(), cores: 2, core: 1.0 };
    thread::spawn(move || server.serve());
    FrontMember { at: until_listening(at), weight: 1 }
}

fn rule(path: &str, balancer: &str, members: &[FrontMember]) -> FrontRule {
    FrontRule { path: path.to_owned(), host: None, balancer: balancer.to_owned(), members: members.to_vec() }
}

fn front(forwarding: Forwarding, copies: bool, rules: Vec<FrontRule>) -> SocketAddrV4 {
    let listen = free_port();
    let front = FrontEnd { listen, forwarding, copies, seed: 1, rules };
    thread::spawn(move || front.serve());
    until_listening(listen)
}

fn request(to: SocketAddrV4, path: &str, bytes: u64) -> Result<Response, Failure> {
    let limits = StreamLimits { silence: Duration::from_secs(20), stop: &ON };
    get(&HttpRequest { to, path, host: "", bytes, is_post: true }, limits, &mut [0; 4096])
}

#[test]
fn first_matching_rule_gives_the_member() {
    let (a, b, c) = (member("a"), member("b"), member("c"));
    for (forwarding, copies) in [(Forwarding::Splice, false), (Forwarding::Splice, true), (Forwarding::Redirect, false)]
    {
        let rules = vec![rule("/images/", "server-rr", &[a, b]), rule("", "server-rr", &[c])];
        let to = front(forwarding, copies, rules);
        let job = compute::path(Duration::from_millis(1), 300_000);
        let path = |start: &str| format!("{start}{job}");
        let served = ["/images", "", "/images", "/im"].map(|start| {
            let answer = request(to, &path(start), 100_000).expect("an answer");
            assert_eq!(answer.bytes, 300_000, "{forwarding:?} {copies}");
            answer.server.expect("a name")
        });
        assert_eq!(served, ["a", "c", "b", "c"], "{forwarding:?} {copies}");
    }
}

#[test]
fn absent_rule_and_dead_member_have_statuses() {
    let dead = FrontMember { at: free_port(), weight: 1 };
    let idle = FrontMember { weight: 0, ..dead };
    let rules = vec![rule("/dead", "server-rr", &[dead]), rule("/idle", "server-rr", &[idle])];
    let to = front(Forwarding::Splice, false, rules);
    assert_eq!(request(to, "/dead", 10), Err(Failure::Status(502)));
    assert_eq!(request(to, "/idle", 10), Err(Failure::Status(503)));
    assert_eq!(request(to, "/other", 10), Err(Failure::Status(404)));
}

#[test]
fn only_complete_heads_are_parsed() {
    let head = |text: &str| Head::read(&mut text.as_bytes()).expect("no I/O error");
    let parsed = head("POST /a?b HTTP/1.0\r\nHost: web\r\ncontent-length: 12\r\n\r\nbody").expect("a head");
    assert_eq!((parsed.method.as_str(), parsed.path.as_str(), parsed.host.as_str()), ("POST", "/a?b", "web"));
    assert_eq!((parsed.length, parsed.bytes.len()), (12, 53));
    let long = format!("GET / HTTP/1.0\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    for wrong in [
        "",
        "GET /\r\n\r\n",
        "GET / HTTP/2\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: web\r\n",
        "GET a HTTP/1.1\r\n\r\n",
        &long,
    ] {
        assert_eq!(head(wrong), None, "{wrong:.40}");
    }
    assert_eq!(head("GET / HTTP/1.0\r\nContent-Length: -1\r\n\r\n"), None);
}

#[test]
fn unusable_rules_are_rejected() {
    for (balancer, words) in [("ecmp", "does not pick servers"), ("server-x", "unknown balancer")] {
        let front = FrontEnd {
            listen: free_port(),
            forwarding: Forwarding::Splice,
            copies: false,
            seed: 1,
            rules: vec![rule("", balancer, &[FrontMember { at: free_port(), weight: 1 }])],
        };
        let error = front.serve().expect_err("a rule without a server balancer");
        assert!(error.to_string().contains(words), "{error}");
    }
}
