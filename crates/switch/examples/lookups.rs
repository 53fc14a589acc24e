//! Prints lookups per second: `cargo run --release -p anabranch-switch --example lookups`.

#[path = "../tests/it/common/mod.rs"]
mod common;

use core::net::Ipv4Addr;
use std::time::Instant;

use anabranch_switch::{Config, Decision, Switch};
use net::{RandomStream, Time};
use openflow::headers::{ether, protocol};
use openflow::*;

const LOOKUPS: u32 = 1_000_000;

fn main() {
    for entries in [10u32, 100, 1_000, 10_000] {
        let ports = (1..=9).map(common::port_desc).collect();
        let mut switch = Switch::new(Config { ports, tables: 1, max_entries: entries + 1, ..common::config() });
        switch.connected(Time::ZERO, ConnectionId(1));
        let mut tell = |message| {
            switch.handle(Time::ZERO, ConnectionId(1), Envelope { xid: Xid(1), message });
        };
        tell(Message::Hello { versions: 1 << 4 });
        for flow in 0..entries {
            let match_ = Match {
                eth_type: Some(ether::IPV4),
                ip_proto: Some(protocol::TCP),
                ipv4_src: Some(Masked::<Ipv4Addr>::exact(packet(flow).ipv4_src)),
                ipv4_dst: Some(Masked::<Ipv4Addr>::exact(packet(flow).ipv4_dst)),
                tcp_src: Some(packet(flow).l4_src),
                tcp_dst: Some(packet(flow).l4_dst),
                ..Match::default()
            };
            let out = Instructions::apply(vec![Action::output(PortNo(1 + flow % 4))]);
            tell(Message::FlowMod(FlowMod::add(TableId(0), 10, match_, out)));
        }
        let up = Instructions::apply(vec![Action::to_controller()]);
        tell(Message::FlowMod(FlowMod::add(TableId(0), 0, Match::default(), up)));
        assert_eq!(switch.tally().entries, entries + 1);
        let mut stream = RandomStream::new(1, "lookups");
        let mut decision = Decision::default();
        let begin = Instant::now();
        for _ in 0..LOOKUPS {
            let headers = packet(stream.next_below(u64::from(entries)) as u32);
            switch.decide(Time::ZERO, PortNo(9), &headers, &mut decision);
            assert_eq!(decision.egress.len(), 1);
        }
        let decided = begin.elapsed();
        let begin = Instant::now();
        (0..LOOKUPS).for_each(|_| switch.count(Time::ZERO, PortNo(1), &decision, 1, 1500));
        let ns = |elapsed: std::time::Duration| elapsed.as_secs_f64() * 1e9 / f64::from(LOOKUPS);
        println!(
            "{entries:>6} entries: {:>5.0} ns a decision ({:.1} million a second), {:.1} ns a count",
            ns(decided),
            1e3 / ns(decided),
            ns(begin.elapsed())
        );
    }
}

fn packet(flow: u32) -> Headers {
    Headers {
        eth_type: ether::IPV4,
        ip_proto: protocol::TCP,
        ipv4_src: Ipv4Addr::from(0x0a00_0001 + flow % 1024),
        ipv4_dst: Ipv4Addr::from(0x0a00_0001 + flow / 7),
        l4_src: (flow % 50_000) as u16,
        l4_dst: 80,
        ..Headers::default()
    }
}
