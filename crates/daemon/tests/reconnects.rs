//! Connections that come and go leave nothing behind.

mod common;

use std::net::TcpStream;

use common::{Fabric, daemon, fat_tree, request, wait};
use net::NodeIx;
use serde_json::Value;

fn statistics(http: std::net::SocketAddr) -> Value {
    let (status, body) = request(http, "GET", "/v1/statistics", None);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

#[test]
fn two_hundred_reconnects_leak_nothing() {
    let daemon = daemon(&fat_tree(), |_| {});
    let http = daemon.http.expect("HTTP is on");
    let fabric = Fabric::start(fat_tree(), daemon.openflow);
    fabric.wait_reached();
    for turn in 0..200u32 {
        fabric.with(move |wires| {
            let nodes: Vec<NodeIx> = wires.nodes.keys().copied().collect();
            let connects = wires.connects;
            wires.disconnect(nodes[turn as usize % nodes.len()]);
            connects
        });
        // Others come and say nothing, or half a hello, and go.
        let mut stream = TcpStream::connect(daemon.openflow).expect("a connection");
        std::io::Write::write_all(&mut stream, &[4, 0, 0][..turn as usize % 4]).expect("bytes");
        drop(stream);
        assert_eq!(fabric.with(|wires| wires.unreached()), [], "turn {turn}: packets go on without the controller");
        wait("it connects again", || fabric.with(|wires| wires.connected()) == 20);
    }
    assert_eq!(fabric.with(|wires| wires.connects), 220);
    wait("only what is connected is kept", || {
        let statistics = statistics(http);
        statistics["connections"] == 20 && statistics["handshaking"] == 0 && statistics["sessions"] == 20
    });
    wait("it settles", || statistics(http)["is_settled"] == true);
    assert_eq!(fabric.with(|wires| wires.unreached()), []);
    let (_, metrics) = request(http, "GET", "/metrics", None);
    assert!(metrics.contains("anabranch_connections 20\n"), "{metrics}");
}
