//! Limits of the resources of the daemon that one switch, or many idle connections, can use.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anabranch_daemon::balancer;
use common::{bytes, connect, connect_from, hello, metric, network, resident_bytes, served, udp, wait};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use openflow::Message;

#[test]
fn flows_over_limit_use_default_routes() {
    let (_daemon, http, fabric) = network(|settings| {
        settings.balancer = balancer::parse("hedera").expect("a balancer");
        settings.control.flows_max = 3;
    });
    // Every packet was the first of a flow: the daemon counts all of them and keeps three flows.
    assert_eq!(metric(http, "flows"), 3);
    wait("the others are counted", || metric(http, "flows_over_limit_total") > 0);
    // Packets of a known flow are not counted as over the limit.
    let before = metric(http, "flows_over_limit_total");
    fabric.with(|wires| (0..20).for_each(|turn| wires.send(udp(0, 9, 5_000 + turn))));
    wait("these are counted, too", || metric(http, "flows_over_limit_total") >= before + 20);
    assert_eq!(metric(http, "flows"), 3);
}

#[test]
fn switch_above_message_rate_is_throttled() {
    let (daemon, http) = served(|settings| settings.limits.messages_per_s = 4_000);
    let mut stream = connect(daemon.openflow);
    // A burst of 400, then 4,000/s.
    let many = bytes(1, Message::EchoRequest(Vec::new())).repeat(4_400);
    let began = Instant::now();
    stream.write_all(&[hello(), many].concat()).expect("bytes");
    let (mut said, mut part) = (0, vec![0; 1 << 16]);
    while said < 4_400 * 8 {
        said += stream.read(&mut part).ok().filter(|length| *length > 0).expect("answers to all");
    }
    let took = began.elapsed();
    assert!(took > Duration::from_millis(900), "4,400 messages at 4,000/s took {took:?}");
    assert!(metric(http, "connections_throttled_total") > 0);
}

#[test]
fn unfinished_handshakes_of_a_source_share_a_rate() {
    let (daemon, _http) = served(|settings| settings.limits.messages_per_s = 4_000);
    let flood = [hello(), bytes(1, Message::EchoRequest(Vec::new())).repeat(1_600)].concat();
    let read_all = |mut stream: TcpStream| {
        let (mut said, mut part) = (0, vec![0; 1 << 16]);
        while said < 1_600 * 8 {
            said += stream.read(&mut part).ok().filter(|length| *length > 0).expect("answers to all");
        }
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut stream = connect(daemon.openflow);
            stream.write_all(&flood).expect("bytes");
            scope.spawn(move || read_all(stream));
        }
        // A burst of 400, then 4,000/s for all of them; a switch of another source does not wait.
        let mut other = connect_from([127, 0, 0, 2], daemon.openflow);
        other.write_all(&[hello(), bytes(1, Message::EchoRequest(Vec::new())).repeat(300)].concat()).expect("bytes");
        let (mut said, mut part) = (0, vec![0; 1 << 16]);
        while said < 300 * 8 {
            said += other.read(&mut part).ok().filter(|length| *length > 0).expect("answers to all");
        }
        assert!(began.elapsed() < Duration::from_millis(800), "the other source waited {:?}", began.elapsed());
    });
    let took = began.elapsed();
    assert!(took > Duration::from_millis(1_200), "6,400 messages of one source at 4,000/s took {took:?}");
}

#[test]
fn silent_connections_are_limited_and_time_out() {
    // Both ends are in this process.
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("Linux");
    let needed = 13_000;
    assert!(hard >= needed, "{needed} files are needed, but only {hard} are allowed (ulimit -Hn)");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard).expect("up to the hard limit");
    let (daemon, http, fabric) = network(|settings| settings.limits.handshake_timeout = net::Time::from_s(4));
    let (connects, before) = (fabric.with(|wires| wires.connects), resident_bytes());
    let silent: Vec<TcpStream> =
        (0..10_000).map(|_| TcpStream::connect(daemon.openflow).expect("a connection")).collect();
    let pending = metric(http, "connections_handshaking");
    assert!(pending <= 1024, "{pending} handshakes are pending; the limit is 1,024");
    // An evicted connection keeps its socket until its task has run.
    wait("evicted connections are closed", || metric(http, "connections") <= 20 + 1024);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 30 << 20, "{grown} bytes for silent connections");
    assert_eq!(fabric.with(|wires| wires.unreached()), []);
    // A new switch is admitted in spite of them.
    let node = *fabric.with(|wires| wires.nodes.keys().copied().collect::<Vec<_>>()).first().expect("a switch");
    fabric.with(move |wires| wires.disconnect(node));
    wait("it comes again", || fabric.with(|wires| wires.connects) == connects + 1);
    wait("it is let in", || metric(http, "switches") == 20);
    fabric.wait_reached();
    // The handshake timeout closes them.
    wait("silent connections are closed", || metric(http, "connections") == 20 && metric(http, "runtime_tasks") <= 22);
    drop(silent);
}
