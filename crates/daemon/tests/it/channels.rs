//! Switches on sockets: handshakes, rules, and the effect of misbehaving peers on the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::common::{
    Fabric, WAIT_TIMEOUT, bytes, connect, daemon, fat_tree, hello, network, request, small_limits, wait,
};
use openflow::{Envelope, Message, Xid, wire};

fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // The connection may end with a reset if unread bytes were left; the received ones count.
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return all,
            Ok(length) => all.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("not closed within {WAIT_TIMEOUT:?}: {error}"),
        }
    }
}

fn messages(mut bytes: &[u8]) -> Vec<Envelope> {
    let mut all = Vec::new();
    while let Some((envelope, length)) = wire::decode(bytes).expect("the controller's bytes are right") {
        all.push(envelope);
        bytes = &bytes[length..];
    }
    all
}

#[test]
fn fat_tree_connects_all_hosts() {
    let (_daemon, _, fabric) = network(|_| {});
    assert_eq!(fabric.with(|wires| wires.connected()), 20);
}

#[test]
fn rules_survive_daemon_restart() {
    let first = daemon(&fat_tree(), |_| {});
    let fabric = Fabric::start(fat_tree(), first.openflow);
    fabric.wait_reached();
    let address = first.openflow;
    let began = Instant::now();
    first.stop();
    assert!(began.elapsed() < Duration::from_secs(2), "it took {:?} to stop", began.elapsed());
    wait("switches notice", || fabric.with(|wires| wires.connected()) == 0);
    assert_eq!(fabric.with(|wires| wires.unreached()), [], "without a controller");
    let _second = daemon(&fat_tree(), |settings| settings.listen = address);
    wait("switches are back", || fabric.with(|wires| wires.connected()) == 20);
    fabric.assert_reached_for(Duration::from_secs(3), "while the rules are taken over");
}

#[test]
fn learned_hosts_survive_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hosts.json");
    let learning = |settings: &mut anabranch_daemon::Settings| {
        settings.control.hosts.clear();
        settings.state = Some(file.clone());
    };
    let first = daemon(&fat_tree(), learning);
    let fabric = Fabric::start(fat_tree(), first.openflow);
    wait("hosts that send are learned", || {
        fabric.with(|wires| {
            wires.announce();
            wires.unreached().is_empty()
        })
    });
    wait("hosts are stored", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.matches("\"ipv4\"").count() == 16)
    });
    let address = first.openflow;
    first.stop();
    let _second = daemon(&fat_tree(), |settings| {
        learning(settings);
        settings.listen = address;
    });
    wait("switches are back", || fabric.with(|wires| wires.connected()) == 20);
    fabric.assert_reached_for(Duration::from_secs(3), "no host has sent anything");
}

#[test]
fn split_messages_are_reassembled() {
    let daemon = daemon(&fat_tree(), |_| {});
    let mut stream = connect(daemon.openflow);
    stream.set_nodelay(true).expect("every byte by itself");
    for byte in [hello(), bytes(7, Message::EchoRequest(vec![1, 2, 3]))].concat() {
        stream.write_all(&[byte]).expect("a byte");
        std::thread::sleep(Duration::from_millis(1));
    }
    // After the half-close, the pending output arrives and then the end of the stream.
    stream.shutdown(std::net::Shutdown::Write).expect("an end");
    let said = messages(&read_to_end(&mut stream));
    assert!(matches!(said[0].message, Message::Hello { .. }), "{said:?}");
    assert!(said.contains(&Envelope { xid: Xid(7), message: Message::EchoReply(vec![1, 2, 3]) }), "{said:?}");
}

#[test]
fn malformed_peer_gets_error_and_close_without_affecting_others() {
    let (daemon, _, fabric) = network(|_| {});
    let connects = fabric.with(|wires| wires.connects);
    // The length is below that of the header, so the start of the next message is unknown.
    for nonsense in [vec![4, 0, 0, 3, 0, 0, 0, 9], vec![0xff; 4096], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()] {
        let mut stream = connect(daemon.openflow);
        stream.write_all(&nonsense).expect("bytes");
        read_to_end(&mut stream);
    }
    // A message of unknown type but valid length gets an error, and the connection stays.
    let mut stream = connect(daemon.openflow);
    let echo = bytes(8, Message::EchoRequest(Vec::new()));
    stream.write_all(&[hello(), vec![4, 99, 0, 8, 0, 0, 0, 5], echo].concat()).expect("bytes");
    stream.shutdown(std::net::Shutdown::Write).expect("an end");
    let said = messages(&read_to_end(&mut stream));
    let refusal = said.iter().find(|envelope| envelope.xid == Xid(5)).expect("an answer to the unknown message");
    assert!(matches!(&refusal.message, Message::Error { data, .. } if data == &[4, 99, 0, 8, 0, 0, 0, 5]), "{said:?}");
    assert!(said.iter().any(|envelope| envelope.message == Message::EchoReply(Vec::new())), "{said:?}");
    fabric.wait_reached();
    assert_eq!(fabric.with(|wires| wires.connects), connects, "other connections are unaffected");
}

/// Random bytes and damaged valid messages affect only their own connection.
#[test]
fn random_and_damaged_messages_leave_switches_connected() {
    let (daemon, http, fabric) = network(|_| {});
    let connects = fabric.with(|wires| wires.connects);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let echo = bytes(9, Message::EchoRequest(vec![7; 40]));
    for turn in 0..300 {
        let mut stream = connect(daemon.openflow);
        let mut text: Vec<u8> = match turn % 3 {
            0 => (0..draw() % 3000).map(|_| draw() as u8).collect(),
            // A valid version and length.
            1 => [vec![4, draw() as u8, 0, 64, 0, 0, 0, 1], (0..56).map(|_| draw() as u8).collect()].concat(),
            _ => echo.clone(),
        };
        if turn % 3 == 2 {
            for _ in 0..3 {
                let at = draw() as usize % text.len();
                text[at] = draw() as u8;
            }
        }
        // The daemon may have closed the connection.
        let _ = stream.write_all(&hello()).and_then(|()| stream.write_all(&text));
    }
    fabric.wait_reached();
    assert_eq!(fabric.with(|wires| wires.connects), connects, "no switch lost its connection");
    wait("nothing is left of them", || request(http, "GET", "/v1/statistics", None).1.contains("\"connections\":20,"));
}

#[test]
fn unfinished_handshake_times_out() {
    let daemon = daemon(&fat_tree(), |settings| settings.limits = small_limits());
    for first in [Vec::new(), hello()] {
        let mut stream = connect(daemon.openflow);
        stream.write_all(&first).expect("bytes");
        let began = Instant::now();
        read_to_end(&mut stream);
        let lasted = began.elapsed();
        assert!((Duration::from_millis(400)..Duration::from_secs(5)).contains(&lasted), "{lasted:?}");
    }
}

#[test]
fn non_reading_peer_is_closed() {
    let daemon = daemon(&fat_tree(), |settings| {
        settings.limits = anabranch_daemon::settings::Limits { send_buffer_bytes: 1 << 20, ..small_limits() };
        settings.limits.handshake_timeout = net::Time::from_s(60);
    });
    let mut stream = connect(daemon.openflow);
    stream.set_write_timeout(Some(WAIT_TIMEOUT)).expect("a time limit");
    stream.write_all(&hello()).expect("a hello");
    let echo = bytes(9, Message::EchoRequest(vec![7; 60_000]));
    let mut sent = 0u64;
    // The buffers of both kernels and of the daemon fill up, then the daemon closes.
    let error = loop {
        match stream.write_all(&echo) {
            Ok(()) => sent += echo.len() as u64,
            Err(error) => break error,
        }
        assert!(sent < 1 << 30, "the daemon accepted a gigabyte although its output was not read");
    };
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    assert!(matches!(error.kind(), BrokenPipe | ConnectionReset), "after {sent} bytes: {error}");
}

#[test]
fn switches_served_despite_silent_and_flooding_peers() {
    let (daemon, http, fabric) = network(|settings| settings.limits.pending_handshakes = 200);
    let connects = fabric.with(|wires| wires.connects);
    // More connections than the limit: the daemon evicts the oldest silent ones.
    let silent: Vec<TcpStream> = (0..800).map(|_| connect(daemon.openflow)).collect();
    let address = daemon.openflow;
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let served = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = served.clone();
    let flood = std::thread::spawn(move || {
        let mut stream = connect(address);
        stream.set_nonblocking(true).expect("a socket that does not block");
        let echo = bytes(9, Message::EchoRequest(vec![7; 8]));
        let mut many = hello();
        (0..4000).for_each(|_| many.extend_from_slice(&echo));
        let (mut sent, mut part) = (0, vec![0; 1 << 16]);
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            match stream.write(&many[sent..]) {
                Ok(length) => sent += length,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break, // The daemon may evict this connection as well.
            }
            if sent == many.len() {
                sent = hello().len();
            }
            let length = stream.read(&mut part).unwrap_or(0) as u64;
            count.fetch_add(length, std::sync::atomic::Ordering::Relaxed);
        }
    });
    // This connection is newer than all silent ones.
    wait("the flood is served", || served.load(std::sync::atomic::Ordering::Relaxed) > 0);
    for _ in 0..20 {
        let began = Instant::now();
        let (status, _) = request(http, "GET", "/v1/statistics", None);
        assert_eq!(status, 200);
        assert!(began.elapsed() < Duration::from_secs(1), "the engine took {:?} to answer", began.elapsed());
        assert_eq!(fabric.with(|wires| wires.unreached()), []);
    }
    drop(stop);
    flood.join().expect("the flood ends");
    assert_eq!(fabric.with(|wires| wires.connects), connects, "no switch lost its connection");
    let still_open = silent.iter().filter(|stream| is_open(stream)).count();
    assert!((100..=220).contains(&still_open), "{still_open} silent connections are open, of 200 allowed");
}

fn is_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket that does not block");
    let mut part = [0; 64];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}
