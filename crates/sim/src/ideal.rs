//! Completion time of a flow alone in an empty network: the bound slowdowns are measured against
//! (mechanisms.md P29).

use std::collections::BTreeMap;

use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, Routes, Topology};

use crate::network::serialisation_ps;
use crate::scenario::TransportConfig;

/// One hop of a bound: the best rate and the least delay among the links a packet could take there.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Leg {
    bps: u64,
    delay: u64,
}

/// Bounds per pair of destination classes, computed when first asked for.
pub(crate) struct Ideals {
    routes: Routes,
    mss: u64,
    header: u64,
    cache: BTreeMap<(u32, u32), Box<[Leg]>>,
}

impl Ideals {
    pub(crate) fn new(topology: &Topology, transport: &TransportConfig) -> Ideals {
        Ideals {
            routes: Routes::intact(topology),
            mss: u64::from(transport.mss_bytes),
            header: u64::from(transport.header_bytes),
            cache: BTreeMap::new(),
        }
    }

    /// Picoseconds from the first byte offered to the last byte received: every packet sent at once,
    /// stored and forwarded at each hop, no other traffic, no window.
    pub(crate) fn fct(&mut self, topology: &Topology, src: HostIx, dst: HostIx, size: u64) -> u64 {
        let key = (self.routes.class_of(src).0, self.routes.class_of(dst).0);
        let routes = &self.routes;
        let between = self.cache.entry(key).or_insert_with(|| legs(topology, routes, ClassIx(key.0), ClassIx(key.1)));
        let leg =
            |link: LinkIx| Leg { bps: topology.link(link).rate.as_bps(), delay: topology.link(link).delay.as_ps() };
        let first = routes.last_link(src).map(|down| leg(down.reverse()));
        let last = routes.last_link(dst).map(leg);
        let legs = first.into_iter().chain(between.iter().copied()).chain(last);
        let packets = size.div_ceil(self.mss);
        let full = self.mss + self.header;
        let tail = size - (packets - 1) * self.mss + self.header;
        pipeline(legs, packets, full, tail)
    }

    /// Largest empty-network round trip over pairs of racks (from up to 64 of them), picoseconds.
    pub(crate) fn base_rtt(&mut self, topology: &Topology, transport: &TransportConfig) -> u64 {
        let mut first_host = vec![None; self.routes.class_count()];
        for host in (0..topology.hosts().len() as u32).map(HostIx) {
            first_host[self.routes.class_of(host).0 as usize].get_or_insert(host);
        }
        let hosts: Vec<HostIx> = first_host.into_iter().flatten().collect();
        let mut longest = 0;
        for src in hosts.iter().take(64) {
            for dst in hosts.iter().filter(|dst| *dst != src) {
                longest = longest.max(self.pair_rtt(topology, transport, *src, *dst));
            }
        }
        if longest == 0 && topology.hosts().len() > 1 {
            longest = self.pair_rtt(topology, transport, HostIx(0), HostIx(1));
        }
        longest
    }

    fn pair_rtt(&self, topology: &Topology, transport: &TransportConfig, src: HostIx, dst: HostIx) -> u64 {
        let routes = &self.routes;
        let (from, to) = (routes.class_node(routes.class_of(src)), routes.class_of(dst));
        let mut links: Vec<LinkIx> = routes.last_link(src).map(LinkIx::reverse).into_iter().collect();
        links.extend(routes.path(topology, from, to, 0));
        links.extend(routes.last_link(dst));
        crate::fabric::round_trip(topology, &links, transport)
    }
}

/// Best rate and least delay at each step of the shortest-path DAG between two class nodes.
fn legs(topology: &Topology, routes: &Routes, from: ClassIx, to: ClassIx) -> Box<[Leg]> {
    let mut level: Vec<NodeIx> = vec![routes.class_node(from)];
    let mut legs = Vec::new();
    while level.iter().any(|node| *node != routes.class_node(to)) {
        let links: Vec<LinkIx> = level.iter().flat_map(|node| routes.next_hops(*node, to)).copied().collect();
        let Some(first) = links.first() else { break };
        let link = |l: &LinkIx| topology.link(*l);
        let bps = links.iter().map(|l| link(l).rate.as_bps()).max().unwrap_or(link(first).rate.as_bps());
        let delay = links.iter().map(|l| link(l).delay.as_ps()).min().unwrap_or(0);
        legs.push(Leg { bps, delay });
        level = links.iter().map(|l| link(l).to).collect();
        level.sort_unstable();
        level.dedup();
    }
    legs.into()
}

/// When the last of `packets` packets (all of `full` bytes but the last, of `tail`) has been received.
fn pipeline(legs: impl Iterator<Item = Leg>, packets: u64, full: u64, tail: u64) -> u64 {
    // Of the full packets, the last one leaves hop i at: its first-packet time there plus the gap of the
    // slowest hop so far for each packet before it. The tail follows it or waits for its own bytes.
    let (mut first, mut slowest, mut tail_at) = (0u64, 0u64, 0u64);
    for leg in legs {
        let step = serialisation_ps(full, leg.bps);
        first += step;
        slowest = slowest.max(step);
        let before = if packets > 1 { first + (packets - 2) * slowest } else { 0 };
        tail_at = tail_at.max(before) + serialisation_ps(tail, leg.bps) + leg.delay;
        first += leg.delay;
    }
    tail_at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legs(n: usize, gbps: u64, delay_us: u64) -> impl Iterator<Item = Leg> {
        (0..n).map(move |_| Leg { bps: gbps * 1_000_000_000, delay: delay_us * 1_000_000 })
    }

    #[test]
    fn ten_kilobytes_between_leaves_take_51_8_us() {
        // experiments.md, corrections to F3: 10 KB over four 10 Gb/s, 10 us hops; six full packets and a tail of 1280 B.
        let got = pipeline(legs(4, 10, 10), 7, 1500, 10_000 - 6 * 1460 + 40);
        assert_eq!(got, 4 * 11_200_000 + 5 * 1_200_000 + 1_024_000);
    }

    #[test]
    fn one_packet_takes_transmission_plus_delay_per_hop() {
        assert_eq!(pipeline(legs(4, 10, 10), 1, 1500, 1500), 44_800_000);
    }

    #[test]
    fn a_slow_hop_paces_the_rest() {
        let path = [Leg { bps: 10_000_000_000, delay: 0 }, Leg { bps: 1_000_000_000, delay: 0 }];
        assert_eq!(pipeline(path.into_iter(), 10, 1500, 1500), 1_200_000 + 10 * 12_000_000);
    }
}
