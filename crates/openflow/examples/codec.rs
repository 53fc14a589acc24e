//! Time to encode and to decode a message: `cargo run --release -p anabranch-openflow --example codec`.

use core::net::Ipv4Addr;
use std::hint::black_box;
use std::time::Instant;

use anabranch_openflow::headers::{ether, protocol};
use anabranch_openflow::wire::{decode, encode};
use anabranch_openflow::*;

/// Number of measurements of each message, of about a millisecond each. The shortest one counts:
/// longer ones include interruptions by other processes.
const ROUNDS: usize = 500;

fn main() {
    for (name, message, repeats) in [
        ("flow-mod", flow_mod(), 4_000),
        ("packet-in of 64 bytes", packet_in(64), 4_000),
        ("packet-in of 1500 bytes", packet_in(1500), 4_000),
        ("packet-out of 64 bytes", packet_out(64), 4_000),
        ("flow statistics, 100 entries", flow_stats(100), 20),
    ] {
        let envelope = Envelope { xid: Xid(1), message };
        let mut bytes = Vec::new();
        encode(&envelope, &mut bytes).expect("it fits");
        let read = fastest(repeats, || drop(black_box(decode(black_box(&bytes)).expect("it is well formed"))));
        let mut out = Vec::with_capacity(bytes.len());
        let written = fastest(repeats, || {
            out.clear();
            encode(black_box(&envelope), black_box(&mut out)).expect("it fits");
        });
        println!("{name:<30} {:>6} bytes  decode {read:>8.1} ns  encode {written:>8.1} ns", bytes.len());
    }
}

fn fastest(repeats: u32, mut one: impl FnMut()) -> f64 {
    let mut round = || {
        let begin = Instant::now();
        (0..repeats).for_each(|_| one());
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(repeats)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn match_of(flow: u16) -> Match {
    Match {
        eth_type: Some(ether::IPV4),
        ip_proto: Some(protocol::TCP),
        ipv4_src: Some(Masked::<Ipv4Addr>::exact(Ipv4Addr::new(10, 0, 0, 1))),
        ipv4_dst: Some(Masked::<Ipv4Addr>::exact(Ipv4Addr::new(10, 0, 0, 2))),
        tcp_src: Some(flow),
        tcp_dst: Some(80),
        ..Match::default()
    }
}

fn instructions() -> Instructions {
    Instructions::apply(vec![Action::SetField(SetField::VlanVid(7)), Action::output(PortNo(3))])
}

fn flow_mod() -> Message {
    Message::FlowMod(FlowMod::add(TableId(0), 10, match_of(1024), instructions()))
}

fn packet_in(length: u16) -> Message {
    Message::PacketIn(PacketIn {
        buffer: BufferId::NO_BUFFER,
        total_len: length,
        reason: PacketInReason::NoMatch,
        table: TableId(0),
        cookie: 0,
        match_: Match { in_port: Some(PortNo(1)), ..Match::default() },
        other_fields: Vec::new(),
        data: vec![0x5a; usize::from(length)],
    })
}

fn packet_out(length: usize) -> Message {
    Message::PacketOut(PacketOut {
        buffer: BufferId::NO_BUFFER,
        in_port: PortNo::CONTROLLER,
        actions: vec![Action::output(PortNo(1))],
        data: vec![0x5a; length],
    })
}

fn flow_stats(count: u16) -> Message {
    let entry = |flow| FlowStats {
        duration_ns: 1_500_000_000,
        priority: 10,
        cookie: u64::from(flow),
        packets: 1000,
        bytes: 1_000_000,
        match_: match_of(flow),
        instructions: instructions(),
        ..FlowStats::default()
    };
    Message::MultipartReply { reply: MultipartReply::Flow((0..count).map(entry).collect()), has_more: false }
}
