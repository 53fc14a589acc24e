//! Completion time of a flow alone in an empty network: slowdowns are relative to it (P29).

use std::collections::BTreeMap;
use std::sync::Arc;

use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, Routes, Time, Topology};
use traffic::FlowList;

use crate::links::port::serialisation_ps;
use crate::scenario::TransportConfig;

/// One hop of a bound: the best rate and the lowest delay among the links a packet could take
/// there, and their total rate, which bounds a flow spread over many.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Leg {
    bps: u64,
    total_bps: u64,
    delay: u64,
}

/// Bounds per pair of destination classes, computed on first use.
pub(crate) struct Ideals<'a> {
    topology: &'a Topology,
    transport: &'a TransportConfig,
    routes: Arc<Routes>,
    cache: BTreeMap<(u32, u32), Box<[Leg]>>,
}

pub fn ideal_times(topology: &Topology, transport: &TransportConfig, flows: &FlowList) -> Vec<Time> {
    let mut ideals = Ideals::new(topology, transport, Arc::new(Routes::intact(topology)));
    let of = |flow: &traffic::Flow| Time::from_ps(ideals.fct(flow.src, flow.dst, flow.size_bytes));
    flows.flows.iter().map(of).collect()
}

impl<'a> Ideals<'a> {
    pub(crate) fn new(topology: &'a Topology, transport: &'a TransportConfig, routes: Arc<Routes>) -> Ideals<'a> {
        Ideals { topology, transport, routes, cache: BTreeMap::new() }
    }

    /// Returns the picoseconds from the first byte offered to the last byte received. Packets are
    /// sent at once and stored and forwarded at each hop, without other traffic or a window.
    pub(crate) fn fct(&mut self, src: HostIx, dst: HostIx, size: u64) -> u64 {
        let (topology, routes) = (self.topology, &*self.routes);
        let key = (routes.class_of(src).0, routes.class_of(dst).0);
        let between = self.cache.entry(key).or_insert_with(|| legs(topology, routes, ClassIx(key.0), ClassIx(key.1)));
        let leg = |link: LinkIx| {
            let link = topology.link(link);
            Leg { bps: link.rate.as_bps(), total_bps: link.rate.as_bps(), delay: link.delay.as_ps() }
        };
        let first = routes.last_link(src).map(|down| leg(down.reverse()));
        let last = routes.last_link(dst).map(leg);
        let legs = first.into_iter().chain(between.iter().copied()).chain(last);
        let (mss, header) = (u64::from(self.transport.mss_bytes), u64::from(self.transport.header_bytes));
        let packets = size.div_ceil(mss);
        let full = mss + header;
        let tail = size - (packets - 1) * mss + header;
        pipeline(legs, packets, full, tail)
    }

    /// Returns the largest base round-trip time over pairs of (up to 64) racks, picoseconds.
    pub(crate) fn base_rtt(&self) -> u64 {
        let topology = self.topology;
        let mut first_host = vec![None; self.routes.class_count()];
        for host in (0..topology.hosts().len() as u32).map(HostIx) {
            first_host[self.routes.class_of(host).0 as usize].get_or_insert(host);
        }
        let hosts: Vec<HostIx> = first_host.into_iter().flatten().collect();
        let mut longest = 0;
        for src in hosts.iter().take(64) {
            for dst in hosts.iter().filter(|dst| *dst != src) {
                longest = longest.max(self.pair_rtt(*src, *dst));
            }
        }
        if longest == 0 && topology.hosts().len() > 1 {
            longest = self.pair_rtt(HostIx(0), HostIx(1));
        }
        longest
    }

    fn pair_rtt(&self, src: HostIx, dst: HostIx) -> u64 {
        let routes = &self.routes;
        let (from, to) = (routes.class_node(routes.class_of(src)), routes.class_of(dst));
        let mut links: Vec<LinkIx> = routes.last_link(src).map(LinkIx::reverse).into_iter().collect();
        links.extend(routes.path(self.topology, from, to, 0));
        links.extend(routes.last_link(dst));
        crate::switching::fabric::round_trip(self.topology, &links, self.transport)
    }
}

/// Returns the best rate and the lowest delay at each step of the shortest paths.
fn legs(topology: &Topology, routes: &Routes, from: ClassIx, to: ClassIx) -> Box<[Leg]> {
    let mut level: Vec<NodeIx> = vec![routes.class_node(from)];
    let mut legs = Vec::new();
    while level.iter().any(|node| *node != routes.class_node(to)) {
        let links: Vec<LinkIx> = level.iter().flat_map(|node| routes.next_hops(*node, to)).copied().collect();
        let Some(first) = links.first() else { break };
        let link = |l: &LinkIx| topology.link(*l);
        let bps = links.iter().map(|l| link(l).rate.as_bps()).max().unwrap_or(link(first).rate.as_bps());
        let delay = links.iter().map(|l| link(l).delay.as_ps()).min().unwrap_or(0);
        let total_bps = links.iter().map(|l| link(l).rate.as_bps()).fold(0, u64::saturating_add);
        legs.push(Leg { bps, total_bps, delay });
        level = links.iter().map(|l| link(l).to).collect();
        level.sort_unstable();
        level.dedup();
    }
    legs.into()
}

/// Returns a lower bound on when the last of `packets` packets (the last one of `tail` bytes, the
/// others of `full`) has arrived; exact if every leg is one link or packets keep their order.
///
/// Beyond a leg of several links the tail may overtake the others, and a single link can only be
/// assumed to carry all bytes after the first packet to arrive.
fn pipeline(legs: impl Iterator<Item = Leg>, packets: u64, full: u64, tail: u64) -> u64 {
    // Times at which the first and the last full packet, the tail and the flow passed the last hop.
    let (mut first, mut last, mut tail_at, mut whole) = (0u64, 0u64, 0u64, 0u64);
    let mut keeps_order = true;
    for leg in legs {
        keeps_order &= leg.total_bps == leg.bps;
        let (step, tail_step) = (serialisation_ps(full, leg.bps), serialisation_ps(tail, leg.bps));
        let earliest = if packets > 1 { first.min(tail_at) } else { tail_at };
        let bytes = (packets - 1) * full + tail;
        whole = (whole + tail_step).max(earliest + serialisation_ps(bytes, leg.total_bps)) + leg.delay;
        if packets > 1 {
            last = (last + step).max(first + serialisation_ps((packets - 1) * full, leg.total_bps));
            first += step + leg.delay;
        }
        let waits_for = if keeps_order { tail_at.max(last) } else { tail_at };
        tail_at = waits_for + tail_step + leg.delay;
        last += leg.delay;
    }
    tail_at.max(last).max(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_over_four_hops_of_10_gbps_and_10_us() {
        let legs = [Leg { bps: 10_000_000_000, total_bps: 10_000_000_000, delay: 10_000_000 }; 4];
        // experiments.md on F3: 10 KB between leaves take 51.8 us; the tail has 1280 B.
        let ten_kilobytes = pipeline(legs.into_iter(), 7, 1500, 10_000 - 6 * 1460 + 40);
        assert_eq!(ten_kilobytes, 4 * 11_200_000 + 5 * 1_200_000 + 1_024_000);
        assert_eq!(pipeline(legs.into_iter(), 1, 1500, 1500), 44_800_000, "transmission and delay per hop");
    }

    #[test]
    fn a_slow_hop_paces_the_rest() {
        let leg = |bps, total_bps| Leg { bps, total_bps, delay: 0 };
        let path = [leg(10_000_000_000, 10_000_000_000), leg(1_000_000_000, 1_000_000_000)];
        assert_eq!(pipeline(path.into_iter(), 10, 1500, 1500), 1_200_000 + 10 * 12_000_000);
        // Ten slow parallel links keep up.
        let spread = [leg(10_000_000_000, 10_000_000_000), leg(1_000_000_000, 10_000_000_000)];
        assert_eq!(pipeline(spread.into_iter(), 10, 1500, 1500), 10 * 1_200_000 + 12_000_000);
    }
}
