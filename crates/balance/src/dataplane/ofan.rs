//! Ofan: packets rotate over the next hops separately for each destination, in separate random
//! orders (mechanisms-2.md P35; McClure et al., arXiv 2507.21372).
//!
//! If all packets of a port group take turns together, packets of one flow can meet the same next hop each
//! time: turns synchronise, and queues grow with the length of messages. With a pointer for each
//! destination and size of packet, each with a random start and a random order of ports, queues stay
//! of constant size at full load.
//!
//! An edge switch has a pointer per destination edge. Above it a pointer serves all destinations that lie
//! behind the same continuations of its next hops: the pods of a fat-tree. Data and smaller packets are
//! the two sizes. Where next hops lead to unequal capacity, after failures, turns are weighted and
//! interleaved: weights 2, 2, 2 and 1 in the order 3, 2, 4, 1 give 3, 2, 4, 1, 3, 2, 1 if port 4 is
//! the light one.
//!
//! `pointer=shared` has one pointer for all destinations of a size: the round robin of port groups, whose
//! turns synchronise.
//!
//! - Helps: all-to-all and permutations of equal messages at full load, in a Clos: the shortest queues of
//!   all spraying.
//! - Hurts: it measures nothing, so congestion caused by others, and failures that routing does not
//!   know, stay; receivers must take packets out of order.

use net::LinkIx;
use net::routes::ClassIx;

use crate::dataplane::common::distinct;
use crate::dataplane::{Cx, NextHops, PacketView, SwitchBalancer, SwitchEnv};
use crate::entry::{Entry, FlowLevel, Granularity};
use crate::hash::{combine, mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("ofan", "Ofan")
    .summary("Sends the packets for each destination to the next hops in turn, in separate random orders.")
    .flow_level(FlowLevel::EvenSplit)
    .source("P35; arXiv 2507.21372")
    .granularity(Granularity::Packet)
    .senses("nothing; capacities, after failures are detected")
    .params(&[Param::choice("pointer", &["destination", "shared"], "destination")
        .doc("Pointer of a packet: that of its destination, or one for all.")])
    .switch(|env, params| Box::new(Ofan::new(env, params)));

/// Turns of a round at most: weights are rounded to fit.
const TURNS_MAX: u64 = 256;

struct Ofan {
    seed: u64,
    shared_count: usize,
    /// Pointer of each destination class.
    pointer_of: Vec<u32>,
    /// Those pointers, and after them one per class, for classes whose next hops differ from those of the
    /// others after a failure; for data, and for other packets.
    pointers: [Vec<Pointer>; 2],
}

/// Turns for one group of destinations.
#[derive(Clone, Default)]
struct Pointer {
    links: Vec<LinkIx>,
    weights: Vec<u32>,
    turns: Vec<u16>,
    next: usize,
}

impl Ofan {
    fn new(env: &SwitchEnv<'_>, params: &Params) -> Ofan {
        let pointer_of = match params.text("pointer") {
            "shared" => vec![0; env.class_count],
            _ => pointers_by_class(env),
        };
        let shared_count = pointer_of.iter().max().map_or(0, |most| *most as usize + 1);
        let pointers = vec![Pointer::default(); shared_count + env.class_count];
        Ofan {
            seed: combine(mix(env.seed ^ 0x6f66_616e), u64::from(env.switch.0)),
            shared_count,
            pointer_of,
            pointers: [pointers.clone(), pointers],
        }
    }
}

/// Returns the number of the pointer of each class.
fn pointers_by_class(env: &SwitchEnv<'_>) -> Vec<u32> {
    let classes = || (0..env.class_count as u32).map(ClassIx);
    if classes().any(|class| env.routes.class_node(class) == env.switch) {
        return (0..env.class_count as u32).collect();
    }
    let beyond = |class| {
        let next = |link: &LinkIx| (*link, env.routes.next_hops(env.topology.link(*link).to, class));
        env.routes.next_hops(env.switch, class).iter().map(next).collect::<Vec<_>>()
    };
    distinct(classes().map(beyond)).0
}

impl SwitchBalancer for Ofan {
    fn choose(&mut self, _: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let class = packet.to.0 as usize;
        let pointers = &mut self.pointers[usize::from(!packet.is_data)];
        let mut number = self.pointer_of[class] as usize;
        if !pointers[number].is_of(members) {
            if !pointers[number].links.is_empty() {
                number = self.shared_count + class;
            }
            if !pointers[number].is_of(members) {
                let draw = combine(self.seed ^ u64::from(packet.is_data), number as u64);
                pointers[number].reset(members, draw);
            }
        }
        let pointer = &mut pointers[number];
        let turn = pointer.turns[pointer.next];
        pointer.next = if pointer.next + 1 == pointer.turns.len() { 0 } else { pointer.next + 1 };
        usize::from(turn)
    }

    fn needs_weights(&self) -> bool {
        true
    }
}

impl Pointer {
    #[inline]
    fn is_of(&self, members: NextHops<'_>) -> bool {
        self.links == members.links && self.weights == members.weights
    }

    fn reset(&mut self, members: NextHops<'_>, draw: u64) {
        (self.links, self.weights) = (members.links.to_vec(), members.weights.to_vec());
        let mut order: Vec<u16> = (0..members.links.len() as u16).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, reduce(combine(draw, at as u64), at + 1));
        }
        self.turns = interleaved(&order, &reduced(members));
        self.next = reduce(combine(draw, u64::MAX), self.turns.len());
    }
}

/// Returns the turns of each member in a round.
fn reduced(members: NextHops<'_>) -> Vec<u64> {
    let weight = |at: usize| members.weights.get(at).map_or(1, |weight| u64::from(*weight).max(1));
    let weights: Vec<u64> = (0..members.links.len()).map(weight).collect();
    let (least, most) = weights.iter().fold((u64::MAX, 0), |(least, most), w| (least.min(*w), most.max(*w)));
    // Weights are shares of 65,536, rounded: equal capacities may differ by one.
    if most - least <= 1 {
        return vec![1; weights.len()];
    }
    let total: u64 = weights.iter().sum();
    // The fewest turns in which every share is met within a hundredth of a turn, or the most allowed.
    let rounded = |turns: u64| weights.iter().map(move |w| ((w * turns + total / 2) / total).max(1));
    let error = |turns: u64| {
        rounded(turns).zip(&weights).map(|(n, w)| (n * total).abs_diff(w * turns)).max().unwrap_or(0) * 100
    };
    let turns = (weights.len() as u64..=TURNS_MAX).find(|turns| error(*turns) <= total).unwrap_or(TURNS_MAX);
    rounded(turns).collect()
}

/// Returns the turns of a round: in each pass over the members those with turns left get one.
fn interleaved(order: &[u16], counts: &[u64]) -> Vec<u16> {
    let most = counts.iter().copied().max().unwrap_or(1);
    let pass = |pass: u64| order.iter().copied().filter(move |member| counts[usize::from(*member)] > pass);
    (0..most).flat_map(pass).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    fn to(flow: u32, class: u32) -> PacketView {
        PacketView { to: ClassIx(class), ..packet(flow) }
    }

    #[test]
    fn turns_are_exact_for_each_destination() {
        let mut bench = Bench::switch_on("ofan", "fat-tree:k=8", "pod0/edge0", 1);
        for class in 2..32 {
            let picks: Vec<usize> = (0..40).map(|flow| bench.choose(&to(flow, class))).collect();
            for window in picks.windows(4) {
                let mut sorted = window.to_vec();
                sorted.sort_unstable();
                assert_eq!(sorted, [0, 1, 2, 3]);
            }
        }
    }

    #[test]
    fn orders_and_starts_differ_between_destinations_and_sizes() {
        let mut bench = Bench::switch_on("ofan", "fat-tree:k=8", "pod0/edge0", 1);
        let mut orders = std::collections::BTreeSet::new();
        for class in 2..32 {
            orders.insert((0..4).map(|flow| bench.choose(&to(flow, class))).collect::<Vec<_>>());
            let ack = |flow| PacketView { is_data: false, ..to(flow, class) };
            orders.insert((0..4).map(|flow| bench.choose(&ack(flow))).collect());
        }
        assert!(orders.len() > 15, "{} of 24 orders in 60 draws", orders.len());
        // With one pointer the turns of two destinations alternate.
        let mut shared = Bench::switch_on("ofan:pointer=shared", "fat-tree:k=8", "pod0/edge0", 1);
        let picks: Vec<usize> = (0..8).map(|flow| shared.choose(&to(flow, 2 + flow % 2))).collect();
        assert_eq!(picks[..4], picks[4..]);
        assert_eq!(picks[..4].iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn above_the_edge_a_pod_has_one_pointer() {
        let mut bench = Bench::switch_on("ofan", "fat-tree:k=4", "pod0/agg0", 7);
        // Classes 2 and 3 are the edges of pod 1, 4 and 5 those of pod 2.
        let first = bench.choose(&to(0, 2));
        assert_ne!(bench.choose(&to(1, 3)), first, "the next turn");
        assert_eq!(bench.choose(&to(2, 2)), first);
        let other = bench.choose(&to(3, 4));
        assert_ne!(bench.choose(&to(4, 4)), other);
        assert_eq!(bench.choose(&to(5, 2)), 1 - first, "another pod does not take this pod's turn");
    }

    #[test]
    fn weighted_turns_are_interleaved() {
        assert_eq!(interleaved(&[2, 1, 3, 0], &[2, 2, 2, 1]), [2, 1, 3, 0, 2, 1, 0]);
        let members = |weights| NextHops { links: &[LinkIx(1), LinkIx(3), LinkIx(5), LinkIx(7)], weights };
        assert_eq!(reduced(members(&[18_724, 18_724, 18_724, 9_362])), [2, 2, 2, 1]);
        assert_eq!(reduced(members(&[16_384, 16_384, 16_384, 16_384])), [1; 4]);
        assert_eq!(reduced(members(&[13_107, 13_108, 13_107, 13_107])), [1; 4], "rounding");
        let odd = reduced(members(&[30_000, 30_000, 5_500, 36]));
        assert!(odd[3] == 1 && odd.iter().sum::<u64>() <= TURNS_MAX + 4, "{odd:?}");
    }

    #[test]
    fn a_port_that_fails_leaves_the_turns() {
        let mut bench = Bench::switch_on("ofan", "fat-tree:k=8", "pod0/edge0", 9);
        let gone = bench.remove(1);
        assert!((0..30).all(|flow| bench.choose_link(&to(flow, 9)) != gone));
        bench.restore(1, gone);
        assert!((0..4).any(|flow| bench.choose_link(&to(flow, 9)) == gone));
    }
}
