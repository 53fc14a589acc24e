//! Reconnecting switches leave no resources behind.

mod common;

use std::net::{SocketAddr, TcpStream};

use common::{Wires, get, metric, network, resident_bytes, wait};
use net::NodeIx;

/// Reconnects before the first measurement, so that reused allocations exist by then.
const FIRST: u32 = 60;
const RECONNECTS: u32 = 200;
/// Maximum growth of resident memory over all reconnects: well below the growth if every reconnect
/// leaked a session with its table read-back (about 20 kB).
const GROWTH_MAX: u64 = 2 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    files: usize,
    threads: usize,
    tasks: u64,
}

fn held(http: SocketAddr) -> Held {
    let entries = |folder: &str| std::fs::read_dir(folder).expect("Linux").count();
    let tasks = metric(http, "runtime_tasks");
    Held { files: entries("/proc/self/fd"), threads: entries("/proc/self/task"), tasks }
}

fn disconnect(wires: &mut Wires, turn: u32) {
    let nodes: Vec<NodeIx> = wires.nodes.keys().copied().collect();
    wires.disconnect(nodes[turn as usize % nodes.len()]);
}

fn settled(http: SocketAddr) {
    wait("only what is connected is kept", || {
        let statistics = get(http, "/v1/statistics");
        statistics["connections"] == 20
            && statistics["handshaking"] == 0
            && statistics["sessions"] == 20
            && statistics["is_settled"] == true
    });
}

#[test]
fn reconnects_leak_nothing() {
    let (daemon, http, fabric) = network(|_| {});
    let mut first = None;
    for turn in 0..FIRST + RECONNECTS {
        if turn == FIRST {
            settled(http);
            first = Some((held(http), resident_bytes()));
        }
        fabric.with(move |wires| disconnect(wires, turn));
        // Other peers connect, send nothing or half a hello, and disconnect.
        let mut stream = TcpStream::connect(daemon.openflow).expect("a connection");
        std::io::Write::write_all(&mut stream, &[4, 0, 0][..turn as usize % 4]).expect("bytes");
        drop(stream);
        assert_eq!(
            fabric.with(|wires| wires.unreached()),
            [],
            "turn {turn}: packets are forwarded without the controller"
        );
        wait("it connects again", || fabric.with(|wires| wires.connected()) == 20);
    }
    assert_eq!(fabric.with(|wires| wires.connects), 20 + FIRST + RECONNECTS);
    settled(http);
    assert_eq!(fabric.with(|wires| wires.unreached()), []);
    let (before, resident) = first.expect("there was a first look");
    wait("files, threads and tasks are as many as before", || held(http) == before);
    let growth = resident_bytes().saturating_sub(resident);
    assert!(growth < GROWTH_MAX, "{growth} bytes more than before {RECONNECTS} reconnects");
    assert_eq!(metric(http, "connections"), 20);
}
