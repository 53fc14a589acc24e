//! UGAL: each packet takes a shortest path, or one over a random intermediate edge if the queue at this
//! switch says so (mechanisms-2.md P40; Kim et al., ISCA 2008).
//!
//! An edge draws a shortest path and a detour: a random other edge, with shortest paths to it and from it.
//! Q is the queue of the first link of each, H the number of its links. The packet takes the detour if
//! Q(shortest) H(shortest) > Q(detour) H(detour) + bias. With uniform traffic that is never long; with a
//! pattern that is bad for shortest paths half of the capacity is reached, as by Valiant's detours.
//!
//! Readings: public code multiplies by the number of links, or by 1 and 2 (`weight=two`). `per=flow` decides
//! for the first packet of a flow, and then keeps the decision. Only queues of the source's own switch are
//! known (UGAL-L): a full link of another router of the group is invisible.
//!
//! In networks of several tiers detours leave the tree and come back, so that it seldom pays.
//!
//! - Helps: in dragonflies, slim flies, HyperX and tori, whenever traffic is not uniform.
//! - Hurts: where the full link is not one of the own switch; packets overtake each other.

use std::sync::Arc;

use net::routes::ClassIx;
use net::{LinkIx, Time};

use crate::dataplane::common::{ClassPairs, FlowTable, PathIndex, distances};
use crate::dataplane::{Cx, EdgeBalancer, EdgeEnv, EdgeHooks, PacketView, Paths};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("ugal", "UGAL")
    .summary("Sends each packet along a shortest path, or over a random edge if the own queues favour that.")
    .source("P40; ISCA 2008")
    .granularity(Granularity::Packet)
    .senses("queues of local ports")
    .params(&[
        Param::choice("per", &["packet", "flow"], "packet").doc("Unit of traffic that chooses."),
        Param::choice("weight", &["hops", "two"], "hops")
            .doc("Factor of a queue: the links of the path, or 1 for shortest paths and 2 for detours."),
        Param::scaled("bias", "0rtt").doc("Time that a detour must gain, times the links of the path."),
    ])
    .edge(|env, params| Box::new(Ugal::new(env, params)));

struct Ugal {
    is_per_packet: bool,
    weighs_hops: bool,
    bias: Time,
    own: ClassIx,
    index: PathIndex,
    /// First link of each path, by `index`.
    first_links: Vec<LinkIx>,
    /// Links between the switches of all pairs of classes.
    distances: Arc<ClassPairs<u16>>,
    /// Classes that can be reached: the intermediates.
    intermediates: Vec<ClassIx>,
    /// Path that the packet takes whose class this is, from the last decision.
    next: Option<(ClassIx, u16)>,
    flows: FlowTable<Decision>,
}

/// The decision of a flow, with `per=flow`.
#[derive(Clone, Copy, Default)]
struct Decision {
    /// Hash of the flow, 0 for none; flow numbers are used again.
    hash: u64,
    via: Option<ClassIx>,
}

impl Ugal {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Ugal {
        let classes = || (0..env.path_counts.len() as u32).map(ClassIx);
        let index = PathIndex::outward(env);
        Ugal {
            is_per_packet: params.text("per") == "packet",
            weighs_hops: params.text("weight") == "hops",
            bias: params.scaled("bias", &env.scale),
            own: env.class,
            first_links: index.first_links(env),
            index,
            distances: env.shared.get_or_make(|| distances(env.routes)),
            intermediates: classes().filter(|class| env.path_counts[class.0 as usize] > 0).collect(),
            next: None,
            flows: FlowTable::new(),
        }
    }

    /// Draws a path to a class; returns it and the queueing delay of its first link, picoseconds.
    fn draw_path(&self, cx: &mut Cx<'_>, to: ClassIx) -> (u16, u64) {
        let path = cx.rng.next_below(self.index.count(to) as u64) as u16;
        let link = self.first_links[self.index.range(to).start + usize::from(path)];
        (path, cx.ports.queueing_delay(link).as_ps())
    }

    /// Returns the intermediate of a packet, and notes the first path that it takes.
    fn decide(&mut self, cx: &mut Cx<'_>, to: ClassIx) -> Option<ClassIx> {
        let via = self.intermediates[cx.rng.next_below(self.intermediates.len() as u64) as usize];
        let (direct, direct_ps) = self.draw_path(cx, to);
        if via == self.own || via == to {
            self.next = Some((to, direct));
            return None;
        }
        let (detour, detour_ps) = self.draw_path(cx, via);
        let links = |from, to| u64::from(self.distances.of(from, to));
        let weights = match self.weighs_hops {
            true => [links(self.own, to), links(self.own, via) + links(via, to)],
            false => [1, 2],
        };
        if direct_ps * weights[0] > detour_ps * weights[1] + self.bias.as_ps() {
            self.next = Some((via, detour));
            Some(via)
        } else {
            self.next = Some((to, direct));
            None
        }
    }
}

impl EdgeBalancer for Ugal {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let decided = self.next.take().filter(|(class, path)| *class == packet.to && paths.live.contains(path));
        match (decided, paths.current) {
            (_, Some(current)) if !self.is_per_packet => current,
            (Some((_, path)), _) => path,
            (None, _) => paths.live[cx.rng.next_below(paths.live.len() as u64) as usize],
        }
    }

    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { detours: true, ..EdgeHooks::default() }
    }

    fn detour(&mut self, cx: &mut Cx<'_>, packet: &PacketView) -> Option<ClassIx> {
        self.next = None;
        if packet.to == self.own || self.index.count(packet.to) == 0 {
            return None;
        }
        if self.is_per_packet {
            return self.decide(cx, packet.to);
        }
        let number = 2 * packet.flow + u32::from(!packet.is_data);
        let hash = packet.hash.max(1);
        let known = *self.flows.slot(number);
        if known.hash == hash {
            return known.via;
        }
        let via = self.decide(cx, packet.to);
        *self.flows.slot(number) = Decision { hash, via };
        via
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    fn to(flow: u32, class: u32) -> PacketView {
        PacketView { to: ClassIx(class), ..packet(flow) }
    }

    /// Sets the queueing delay of the first links of all paths to a class.
    fn queue(bench: &mut Bench, class: u32, us: u64) {
        for path in 0..bench.path_count(class) {
            let link = bench.path(class, path)[0];
            bench.ports.delay.insert(link.0, Time::from_us(us));
        }
    }

    #[test]
    fn idle_queues_mean_shortest_paths() {
        let mut bench = Bench::edge_on("ugal", "dragonfly", 0);
        assert!((0..500).all(|flow| bench.detour(&to(flow, 20)).is_none()));
    }

    #[test]
    fn a_long_queue_is_avoided_and_hops_count() {
        // Routers 0 and 5 of a fully connected network are one link apart, detours have two.
        let family = "flattened-butterfly:k=8,n=2";
        for (queue_us, others_us, detours) in [(10, 0, true), (10, 4, true), (10, 5, false), (10, 6, false)] {
            let mut bench = Bench::edge_on("ugal", family, 0);
            (1..8).for_each(|class| queue(&mut bench, class, others_us));
            queue(&mut bench, 5, queue_us);
            let hits = (0..800).filter(|flow| bench.detour(&to(*flow, 5)).is_some()).count();
            // Two of eight draws are the source's or the destination's edge.
            let expected = if detours { 540..660 } else { 0..1 };
            assert!(expected.contains(&hits), "{queue_us} and {others_us} us: {hits} detours");
        }
        let mut biased = Bench::edge_on("ugal:bias=11us", family, 0);
        queue(&mut biased, 5, 10);
        assert!((0..100).all(|flow| biased.detour(&to(flow, 5)).is_none()));
    }

    #[test]
    fn a_flow_keeps_its_decision() {
        let mut bench = Bench::edge_on("ugal:per=flow", "flattened-butterfly:k=8,n=2", 0);
        queue(&mut bench, 5, 10);
        let first: Vec<_> = (0..100).map(|flow| bench.detour(&to(flow, 5))).collect();
        assert!(first.iter().filter(|via| via.is_some()).count() > 50);
        queue(&mut bench, 5, 0);
        assert_eq!(first, (0..100).map(|flow| bench.detour(&to(flow, 5))).collect::<Vec<_>>());
        // A later flow of the same number decides again.
        let successor = |flow| PacketView { hash: packet(flow).hash ^ 7, ..to(flow, 5) };
        assert!((0..100).all(|flow| bench.detour(&successor(flow)).is_none()));
    }
}
