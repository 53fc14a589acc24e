//! DRILL(d, m): every packet goes to the shortest of a few sampled queues (mechanisms.md P18;
//! Ghorbani et al., HotNets 2015, SIGCOMM 2017).
//!
//! A forwarding engine samples `d` distinct random ports of the packet's equal-cost set and the `m`
//! ports it remembers for that set. It sends the packet to the one with the fewest bytes queued (a
//! remembered port wins a tie, then chance), and remembers the `m` shortest of the sampled ones.
//! Sets of equal members share their memory, regardless of the destination. If members lead to
//! unequal capacity, the set is split into components of equal capacity; a flow is hashed to a
//! component in proportion to the component's capacity, and DRILL works inside it.
//!
//! Readings where the source is silent: a packet counts from the moment it is queued. The engine is
//! chosen by the sender, which is the input port's engine at the first switch and an approximation
//! further on. Components use the capacity that routing knows behind each port, not the paths' full
//! labels.
//!
//! With several engines, large `d` and `m` send all of them to the same short queue at the same
//! time. With `m=0` nothing is remembered and queues lose their bound. In three tiers a short queue
//! here gives no information about the next switch.
//!
//! - Helps: against bursts at the first hop of two-tier fabrics, in microseconds and without
//!   feedback.
//! - Hurts: where congestion is further on than the next queue: in three tiers, or beyond a spine
//!   that has lost a cable; reorders slightly at all times.

use net::LinkIx;

use crate::dataplane::common::MemberSets;
use crate::dataplane::{Cx, NextHops, PacketView, SwitchBalancer};
use crate::draw::sample;
use crate::entry::{Entry, FlowLevel, Granularity};
use crate::hash::{combine, mix, position_of_point, reduce};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("drill", "DRILL")
    .summary("Sends every packet to the shortest queue among a few random and a few remembered ports.")
    .flow_level(FlowLevel::AdaptiveSplit)
    .source("P18; HotNets 2015, SIGCOMM 2017; F0")
    .granularity(Granularity::Packet)
    .senses("local queues; capacities, after failures are detected")
    .params(&[
        Param::count("d", 1..=CANDIDATES_MAX as u64 / 2, "2")
            .unit("ports")
            .doc("Number of random ports sampled for each packet."),
        Param::count("m", 0..=CANDIDATES_MAX as u64 / 2, "1")
            .unit("ports")
            .doc("Number of ports remembered from the previous packet."),
        Param::count("engines", 1..=64, "1")
            .doc("Number of forwarding engines of a switch, each with a separate memory."),
        Param::choice("asymmetry", &["components", "ignored"], "components")
            .doc("Whether ports that lead to unequal capacity form separate components, to which flows are hashed."),
    ])
    .example("drill:d=2,m=1")
    .switch(|env, params| {
        Box::new(Drill {
            samples: params.count("d") as usize,
            memory: params.count("m") as usize,
            engines: params.count("engines") as usize,
            keeps_components: params.text("asymmetry") == "components",
            seed: env.hash_seed(),
            sets: MemberSets::new(env.class_count),
        })
    });

const CANDIDATES_MAX: usize = 32;

/// Marks the absence of a port.
const NONE: u32 = u32::MAX;

struct Drill {
    samples: usize,
    memory: usize,
    engines: usize,
    keeps_components: bool,
    seed: u64,
    sets: MemberSets<Components>,
}

/// The components of an equal-cost set.
struct Components {
    capacity: u64,
    list: Vec<Component>,
}

/// Members that lead to equal capacity.
struct Component {
    capacity: u64,
    members: Vec<u32>,
    /// Positions in `members` that each engine remembers, or [`NONE`].
    remembered: Vec<u32>,
}

/// A sampled port, in the order of preference: shortest queue, remembered, chance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    queued_bytes: u64,
    is_new: bool,
    lot: u64,
    member: u32,
}

impl Components {
    fn new(members: NextHops<'_>, remembered: usize) -> Components {
        let weight = |member: u32| members.weights.get(member as usize).copied().unwrap_or(1);
        let mut by_weight: Vec<u32> = (0..members.links.len() as u32).collect();
        by_weight.sort_by_key(|member| weight(*member));
        let parts = by_weight.chunk_by(|a, b| weight(*a) == weight(*b));
        let list: Vec<Component> = parts
            .map(|part| Component {
                capacity: part.iter().map(|member| u64::from(weight(*member))).sum(),
                members: part.to_vec(),
                remembered: vec![NONE; remembered],
            })
            .collect();
        Components { capacity: list.iter().map(|component| component.capacity).sum(), list }
    }

    fn component_of(&self, hash: u64) -> usize {
        let point = reduce(hash, self.capacity as usize) as u64;
        position_of_point(point, self.list.iter().map(|component| component.capacity)).unwrap_or(0)
    }
}

impl Component {
    /// Makes one decision of DRILL(d, m) and returns the position in `members`.
    fn pick(&mut self, cx: &mut Cx<'_>, samples: usize, memory: std::ops::Range<usize>, links: &[LinkIx]) -> u32 {
        let mut ports = [0; CANDIDATES_MAX];
        let remembered = &mut self.remembered[memory];
        let sampled = samples.min(self.members.len());
        sample(cx.rng, self.members.len(), &mut ports[..sampled]);
        let mut count = sampled;
        for port in remembered.iter().filter(|port| **port != NONE) {
            if !ports[..sampled].contains(port) {
                ports[count] = *port;
                count += 1;
            }
        }
        let lots = cx.rng.next_u64();
        let mut candidates = [Candidate { queued_bytes: 0, is_new: false, lot: 0, member: 0 }; CANDIDATES_MAX];
        for (candidate, port) in candidates.iter_mut().zip(&ports[..count]) {
            let link = links[self.members[*port as usize] as usize];
            *candidate = Candidate {
                queued_bytes: cx.ports.queued_bytes(link),
                is_new: !remembered.contains(port),
                lot: combine(lots, u64::from(*port)),
                member: *port,
            };
        }
        let candidates = &mut candidates[..count];
        candidates.sort_unstable();
        for (place, candidate) in remembered.iter_mut().zip(candidates.iter()) {
            *place = candidate.member;
        }
        candidates[0].member
    }
}

impl SwitchBalancer for Drill {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let remembered = self.engines * self.memory;
        let components = self.sets.of(packet.to, members, || Components::new(members, remembered));
        let component = match components.list.len() {
            1 => 0,
            _ => components.component_of(mix(packet.hash ^ self.seed)),
        };
        let engine = packet.src.ix() % self.engines;
        let component = &mut components.list[component];
        let memory = engine * self.memory..(engine + 1) * self.memory;
        let port = component.pick(cx, self.samples, memory, members.links);
        component.members[port as usize] as usize
    }

    fn needs_weights(&self) -> bool {
        self.keeps_components
    }
}

#[cfg(test)]
mod tests {
    use net::HostIx;
    use net::routes::ClassIx;

    use crate::dataplane::PacketView;
    use crate::dataplane::testing::{Bench, packet};

    fn queue(bench: &mut Bench, bytes: &[u64]) {
        for (link, bytes) in bench.links.clone().into_iter().zip(bytes) {
            bench.ports.queued.insert(link.0, *bytes);
        }
    }

    fn shares(bench: &mut Bench, draws: u32) -> [f64; 4] {
        bench.port_hits((0..draws).map(|_| packet(1))).map(|hits| f64::from(hits) / f64::from(draws))
    }

    #[test]
    fn without_memory_the_shorter_of_two_distinct_samples_wins() {
        // Of the six pairs of four ports, port i is the shorter one in 3 − i.
        let mut bench = Bench::switch("drill:d=2,m=0", 4);
        queue(&mut bench, &[1000, 2000, 3000, 4000]);
        let shares = shares(&mut bench, 60_000);
        for (share, expected) in shares.iter().zip([3.0 / 6.0, 2.0 / 6.0, 1.0 / 6.0, 0.0]) {
            assert!((share - expected).abs() < 0.01, "{shares:?}");
        }
    }

    #[test]
    fn the_shortest_queue_is_remembered_once_found() {
        let mut bench = Bench::switch("drill:d=1,m=1", 8);
        queue(&mut bench, &[9000, 9000, 9000, 9000, 9000, 0, 9000, 9000]);
        let first = (0..1000).position(|_| bench.choose(&packet(1)) == 5).expect("a thousand draws find it");
        assert!((0..100).all(|_| bench.choose(&packet(1)) == 5), "found at draw {first}, then lost");
        queue(&mut bench, &[9000, 9000, 0, 9000, 9000, 9001, 9000, 9000]);
        let leaves = (0..1000).map(|_| bench.choose(&packet(1))).find(|port| *port != 5);
        assert!(leaves.is_some(), "a longer remembered queue is left for the first shorter one sampled");
    }

    #[test]
    fn ties_go_to_the_remembered_port_and_else_to_chance() {
        let mut idle = Bench::switch("drill", 4);
        let first = idle.choose(&packet(1));
        assert!((0..200).all(|_| idle.choose(&packet(1)) == first), "all queues are empty");
        let mut forgetful = Bench::switch("drill:d=4,m=0", 4);
        let shares = shares(&mut forgetful, 40_000);
        assert!(shares.iter().all(|share| (share - 0.25).abs() < 0.01), "{shares:?}");
    }

    #[test]
    fn more_samples_than_ports_look_at_all() {
        let mut bench = Bench::switch("drill:d=16,m=16", 3);
        queue(&mut bench, &[5, 3, 4]);
        assert!((0..50).all(|_| bench.choose(&packet(1)) == 1));
    }

    #[test]
    fn the_m_shortest_are_remembered() {
        // After sampling all ports two are known; the better one gets long, the other stays known.
        let mut bench = Bench::switch("drill:d=1,m=2", 8);
        queue(&mut bench, &[10, 9000, 9000, 20, 9000, 9000, 9000, 9000]);
        (0..2000).for_each(|_| _ = bench.choose(&packet(1)));
        queue(&mut bench, &[9500, 9000, 9000, 20, 9000, 9000, 9000, 9000]);
        assert!((0..50).all(|_| bench.choose(&packet(1)) == 3));
    }

    #[test]
    fn engines_and_sets_have_separate_memories() {
        let from = |host, class| PacketView { src: HostIx(host), to: ClassIx(class), ..packet(1) };
        let mut bench = Bench::switch("drill:engines=2", 16);
        let mut starts = std::collections::BTreeSet::new();
        for round in 0..8 {
            // Another set of members each time; on idle ports memories stick to their first port.
            let (even, odd) = (bench.choose(&from(2, 1)), bench.choose(&from(3, 1)));
            assert!((0..20).all(|_| bench.choose(&from(2, 1)) == even && bench.choose(&from(3, 1)) == odd));
            assert_eq!(bench.choose(&from(4, 7)), even, "another class with the same members shares the memory");
            starts.insert(even == odd);
            bench.remove(round % 4);
        }
        assert!(starts.contains(&false), "two engines chose alike eight times");
    }

    #[test]
    fn flows_stay_in_components_of_equal_capacity() {
        let mut bench = Bench::switch("drill", 4);
        bench.weights = vec![10, 40, 10, 40];
        let mut in_slow = 0;
        for flow in 0..20_000 {
            let first = bench.choose(&packet(flow)) % 2;
            assert_eq!(bench.choose(&packet(flow)) % 2, first, "the same component");
            in_slow += u32::from(first == 0);
        }
        assert!((3_700..4_300).contains(&in_slow), "{in_slow} of 20000, a fifth expected");
        // Inside the component the queue decides.
        queue(&mut bench, &[500, 500, 0, 0]);
        assert!((0..200).all(|flow| bench.choose(&packet(flow)) >= 2), "d = 2 sees both members");
        let mut ignoring = Bench::switch("drill:d=4,asymmetry=ignored", 4);
        ignoring.weights.clear();
        queue(&mut ignoring, &[1, 2, 3, 4]);
        assert!((0..50).all(|flow| ignoring.choose(&packet(flow)) == 0));
    }

    #[test]
    fn a_vanished_port_is_forgotten_and_may_return() {
        let mut bench = Bench::switch("drill:d=4", 4);
        queue(&mut bench, &[100, 100, 100, 0]);
        assert_eq!(bench.choose(&packet(1)), 3);
        let gone = bench.remove(3);
        assert!((0..100).all(|_| bench.choose_link(&packet(1)) != gone));
        bench.restore(3, gone);
        assert_eq!(bench.choose_link(&packet(1)), gone);
    }
}
