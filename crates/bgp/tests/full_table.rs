//! Time for the routes of a full table: `cargo test --release -p anabranch-bgp -- --ignored
//! --nocapture full_table`.

use core::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anabranch_bgp::damping::Damping;
use anabranch_bgp::egress::{Config, Egress};
use anabranch_bgp::{Prefix, Route, RouteEvent, RouterId, rib};
use net::{Bandwidth, Time};

/// About the number of IPv4 prefixes in the Internet.
const PREFIXES: u32 = 1_000_000;

#[test]
#[ignore = "a measurement, which needs a release build"]
fn full_table() {
    let peers: Vec<Ipv4Addr> = [1, 2].map(|number| Ipv4Addr::new(192, 0, 2, number)).into();
    let damping = Damping::default();
    let rib = rib::Config {
        peers: peers.clone(),
        shortest_only: false,
        routes_max: 4_000_000,
        stale_time: Time::from_s(120),
        damping,
    };
    let rates = vec![Bandwidth::from_gbps(10); 2];
    let mut egress = Egress::new(Config { rates, rules_max: 1000, hysteresis: 0.05, rib });
    let router = RouterId(Ipv4Addr::LOCALHOST);
    let prefix = |number: u32| Prefix::around(Ipv4Addr::from_bits((1 << 24) + (number << 8) * 8), 24);
    let began = Instant::now();
    for (number, peer) in (0..).zip(&peers) {
        egress.set_up(number, true);
        egress.handle(Time::ZERO, router, &RouteEvent::PeerUp(*peer));
        for of in 0..PREFIXES {
            let route = Route { next_hop: *peer, as_path_len: 3, local_pref: 100 };
            egress.handle(Time::ZERO, router, &RouteEvent::Announce { peer: *peer, prefix: prefix(of), route });
            if of % 1000 == 0 {
                egress.update();
            }
        }
    }
    egress.update();
    println!("2 × {PREFIXES} routes in {:?}, {} rules", began.elapsed(), egress.pieces().count());
    let began = Instant::now();
    egress.handle(Time::from_s(1), router, &RouteEvent::PeerDown(peers[0]));
    egress.update();
    let rules = egress.take_changes().count();
    println!("loss of a peer: {:?}, {rules} changed rules", began.elapsed());
    let (mut steps, mut longest) = (0, Duration::ZERO);
    while let Some(due) = egress.rib.poll_timeout().filter(|due| *due < Time::from_s(60)) {
        let began = Instant::now();
        egress.rib.handle_timeout(due);
        egress.update();
        (steps, longest) = (steps + 1, longest.max(began.elapsed()));
    }
    println!("withdrawal of its routes: {steps} steps, at most {longest:?} each");
    let began = Instant::now();
    egress.rebalance(Time::from_s(2));
    println!("a round of counters: {:?}", began.elapsed());
}
