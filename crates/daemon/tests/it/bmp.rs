//! BMP sessions over sockets: routes of routers, and hostile senders.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use anabranch_daemon::Daemon;
use anabranch_daemon::settings::BmpSettings;
use bgp::bmp::Policy;
use bgp::damping::Damping;
use control::edge::{EdgeConfig, Uplink};
use net::{Bandwidth, Time};
use serde_json::Value;

use crate::common::{connect, connect_from, metric, request, served, wait};

/// A session of a peer 192.0.2.1 that announces three prefixes, withdraws one, and goes down.
const SESSION: &[u8] = include_bytes!("../../../../fuzz/corpus/bmp/session");
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const THIS: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

fn start() -> (Daemon, SocketAddr, SocketAddr) {
    let (daemon, http) = served(|settings| {
        let first = settings.control.hosts[0];
        settings.bmp = Some(BmpSettings {
            listen: SocketAddr::from((THIS, 0)),
            routers: [THIS, OTHER].map(Ipv4Addr::from).into(),
            policy: Policy::Post,
        });
        let local = Ipv4Addr::new(192, 0, 2, 254);
        let rate = Bandwidth::from_gbps(1);
        settings.control.edge = Some(EdgeConfig {
            datapath: first.datapath,
            gateway: Ipv4Addr::new(10, 250, 0, 1),
            uplinks: vec![Uplink { name: "a".into(), port: first.port, peer: PEER, local, rate }],
            policy: Policy::Post,
            shortest_only: false,
            rules_max: 1000,
            routes_max: 1000,
            stale_time: Time::from_s(60),
            damping: Damping::default(),
            hysteresis: 0.05,
            decrements_ttl: true,
        });
    });
    let bmp = daemon.bmp.expect("BMP is on");
    (daemon, http, bmp)
}

/// Returns the first messages of the session.
fn messages(count: usize) -> &'static [u8] {
    let mut length = 0;
    for _ in 0..count {
        let header = &SESSION[length..];
        length += u32::from_be_bytes(header[1..5].try_into().expect("a header")) as usize;
    }
    &SESSION[..length]
}

fn uplink(http: SocketAddr) -> Value {
    let (status, text) = request(http, "GET", "/v1/edge", None);
    assert_eq!(status, 200, "{text}");
    serde_json::from_str::<Value>(&text).expect("JSON")["uplinks"][0].clone()
}
fn routes(http: SocketAddr) -> u64 {
    uplink(http)["routes"].as_u64().expect("a count")
}
fn send(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).expect("the session is open");
}
fn is_closed(stream: &mut TcpStream) -> bool {
    // A reset also ends the session.
    match stream.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn session_reports_routes_which_outlast_it() {
    let (_daemon, http, bmp) = start();
    let mut session = connect(bmp);
    send(&mut session, messages(2));
    wait("three routes", || routes(http) == 3);
    assert_eq!(uplink(http)["is_peer_up"], true);
    send(&mut session, &messages(4)[messages(2).len()..]);
    wait("a withdrawal", || routes(http) == 2);
    drop(session);
    wait("the end of the session", || uplink(http)["has_stale_routes"] == true);
    assert_eq!((routes(http), &uplink(http)["is_peer_up"]), (2, &Value::Bool(false)));
    // The next session reports the peer again, and that it has gone.
    let mut session = connect(bmp);
    send(&mut session, SESSION);
    wait("no routes", || routes(http) == 0);
}

#[test]
fn malformed_messages_close_the_session_and_change_nothing() {
    let (daemon, http, bmp) = start();
    let mut good = connect(bmp);
    send(&mut good, messages(2));
    wait("three routes", || routes(http) == 3);
    let mut broken = SESSION.to_vec();
    let end = messages(2).len();
    // The last prefix, with 255 bits instead of 32.
    broken[end - 5] = 0xff;
    for (number, bytes) in
        [b"GET / HTTP/1.0\r\n\r\n".as_slice(), &[3, 255, 255, 255, 255, 0], &broken].iter().enumerate()
    {
        // Another router: its session does not replace the good one.
        let mut stream = connect_from(OTHER, bmp);
        send(&mut stream, bytes);
        assert!(is_closed(&mut stream));
        let closed = || metric(http, "bmp_sessions_malformed_total") == number as u64 + 1;
        wait("the session is counted", closed);
        assert_eq!((routes(http), &uplink(http)["has_stale_routes"]), (3, &Value::Bool(false)));
    }
    send(&mut good, &messages(3)[end..]);
    wait("the good session continues", || routes(http) == 2);
    assert!(daemon.is_running());
}

#[test]
fn unlisted_routers_are_rejected_and_a_new_session_replaces_the_old_one() {
    let (_daemon, http, bmp) = start();
    let mut stranger = connect_from([127, 0, 0, 3], bmp);
    let _ = stranger.write_all(messages(2));
    assert!(is_closed(&mut stranger));
    assert_eq!(metric(http, "bmp_sessions_rejected_total"), 1);
    assert_eq!(routes(http), 0);
    let mut old = connect(bmp);
    send(&mut old, messages(2));
    wait("three routes", || routes(http) == 3);
    let mut new = connect(bmp);
    send(&mut new, messages(2));
    assert!(is_closed(&mut old));
    wait("the new session", || uplink(http)["is_peer_up"] == true);
    assert_eq!((routes(http), metric(http, "bmp_sessions")), (3, 1));
    let (status, text) = request(http, "GET", "/v1/edge/prefixes", None);
    assert_eq!((status, text.as_str()), (200, "[]"), "the switch is not connected");
}
