//! Maximum flow, and the capacity between halves of the hosts.

mod halves;

use std::collections::VecDeque;

use crate::topology::{HostIx, NodeIx, NodeKind, Topology};
use crate::units::Bandwidth;

/// Maximum number of hosts for which [`exact`] enumerates all halves: 16 hosts have 12 870 of them.
pub const MAX_EXACT_HOSTS: usize = 16;

/// The reason why no bisection was computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum BisectionError {
    #[error(
        "the exact bisection of {hosts} hosts would need every half of them; at most {MAX_EXACT_HOSTS} hosts \
         are enumerated, use the closed form of the family or `between` for a chosen half"
    )]
    TooManyHosts { hosts: usize },
    #[error("a bisection needs at least 2 hosts, the topology has {hosts}")]
    TooFewHosts { hosts: usize },
}

/// Returns the smallest capacity, in one direction, between two halves of the hosts over all ways
/// to halve them. With an odd number of hosts the halves differ by one.
///
/// # Errors
/// More than [`MAX_EXACT_HOSTS`] hosts, or fewer than two.
pub fn exact(topology: &Topology) -> Result<Bandwidth, BisectionError> {
    let hosts = topology.hosts().len();
    if hosts > MAX_EXACT_HOSTS {
        return Err(BisectionError::TooManyHosts { hosts });
    }
    if hosts < 2 {
        return Err(BisectionError::TooFewHosts { hosts });
    }
    // Every half and its complement, so that both directions of each cut are examined.
    let halves = (0u32..1 << hosts).filter(|half| {
        let ones = half.count_ones() as usize;
        ones == hosts / 2 || ones == hosts - hosts / 2
    });
    let capacity = |half: u32| between(topology, |host| half >> host.0 & 1 == 1);
    Ok(halves.map(capacity).min().expect("two hosts have halves"))
}

/// Number of halves whose capacity is computed: those with the fewest links between them.
const TRIED: usize = 8;

/// Returns the smallest capacity, in one direction, between two halves of the hosts that a search
/// finds, the first and the last half among them: the bisection, or more than it. With up to
/// [`MAX_EXACT_HOSTS`] hosts it is exact.
pub fn at_most(topology: &Topology) -> Bandwidth {
    exact(topology).unwrap_or_else(|_| searched(topology))
}

/// Returns sets of nodes that have half of the hosts and little capacity to all other nodes, as far as a
/// search finds them.
pub fn narrow_halves(topology: &Topology) -> Vec<Vec<NodeIx>> {
    let nodes =
        |sides: Vec<bool>| (0..).map(NodeIx).zip(sides).filter(|(_, side)| *side).map(|(node, _)| node).collect();
    halves::halves(topology).into_iter().take(TRIED).map(nodes).collect()
}

fn searched(topology: &Topology) -> Bandwidth {
    let half = topology.hosts().len() as u32 / 2;
    let found = halves::halves(topology).into_iter().take(TRIED).flat_map(|sides| {
        let is_first = move |host: HostIx, first: bool| sides[topology.host(host).0 as usize] == first;
        [true, false].map(|first| between(topology, |host| is_first(host, first)))
    });
    let by_number = between(topology, |host| host.0 < half);
    found.fold(by_number, Bandwidth::min)
}

/// Returns the maximum rate from the hosts accepted by `is_sender` to all other hosts.
pub fn between(topology: &Topology, is_sender: impl Fn(HostIx) -> bool) -> Bandwidth {
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for (i, node) in topology.hosts().iter().enumerate() {
        if is_sender(HostIx(i as u32)) {
            senders.push(*node);
        } else {
            receivers.push(*node);
        }
    }
    max_flow(topology, &senders, &receivers)
}

/// Returns the maximum flow from `sources` together to `sinks` together over links at their rates.
/// Only nodes that forward carry flow of other nodes. A node that is both source and sink makes the
/// flow unlimited (`u64::MAX` bit/s); without sources or sinks it is zero.
///
/// Dinic: Algorithm for solution of a problem of maximum flow in networks, 1970.
pub fn max_flow(topology: &Topology, sources: &[NodeIx], sinks: &[NodeIx]) -> Bandwidth {
    if sources.iter().any(|source| sinks.contains(source)) {
        return Bandwidth::from_bps(u64::MAX);
    }
    let mut network = Network::new(topology, sources, sinks);
    let mut flow: u64 = 0;
    while network.find_levels() {
        network.next_arc.fill(0);
        while let Some(more) = network.augment() {
            flow = flow.saturating_add(more);
        }
    }
    Bandwidth::from_bps(flow)
}

/// The residual network: arc `i` and arc `i ^ 1` are each other's reverse.
struct Network {
    out: Vec<Vec<u32>>,
    to: Vec<u32>,
    residual: Vec<u64>,
    level: Vec<u32>,
    next_arc: Vec<usize>,
    source: u32,
    sink: u32,
}

impl Network {
    fn new(topology: &Topology, sources: &[NodeIx], sinks: &[NodeIx]) -> Network {
        let count = topology.nodes().len();
        let (source, sink) = (count as u32, count as u32 + 1);
        let mut network = Network {
            out: vec![Vec::new(); count + 2],
            to: Vec::new(),
            residual: Vec::new(),
            level: vec![u32::MAX; count + 2],
            next_arc: vec![0; count + 2],
            source,
            sink,
        };
        // A host that does not forward starts or ends flows only: close one direction of its links.
        let open_out = |node: NodeIx| topology.node(node).forwards || sources.contains(&node);
        let open_in = |node: NodeIx| topology.node(node).forwards || sinks.contains(&node);
        for pair in topology.links().chunks(2) {
            let rate = |from: NodeIx, to: NodeIx, rate: Bandwidth| {
                let open = open_out(from) && open_in(to);
                if open { rate.as_bps() } else { 0 }
            };
            let there = rate(pair[0].from, pair[0].to, pair[0].rate);
            let back = rate(pair[1].from, pair[1].to, pair[1].rate);
            network.add(pair[0].from.0, pair[0].to.0, there, back);
        }
        for node in sources {
            network.add(source, node.0, u64::MAX / 4, 0);
        }
        for node in sinks {
            network.add(node.0, sink, u64::MAX / 4, 0);
        }
        network
    }

    fn add(&mut self, from: u32, to: u32, there: u64, back: u64) {
        for (end, other, capacity) in [(from, to, there), (to, from, back)] {
            self.out[end as usize].push(self.to.len() as u32);
            self.to.push(other);
            self.residual.push(capacity);
        }
    }

    /// Computes levels by breadth-first search. Returns whether the sink is reachable.
    fn find_levels(&mut self) -> bool {
        self.level.fill(u32::MAX);
        self.level[self.source as usize] = 0;
        let mut queue = VecDeque::from([self.source]);
        while let Some(node) = queue.pop_front() {
            for arc in &self.out[node as usize] {
                let to = self.to[*arc as usize];
                if self.residual[*arc as usize] > 0 && self.level[to as usize] == u32::MAX {
                    self.level[to as usize] = self.level[node as usize] + 1;
                    queue.push_back(to);
                }
            }
        }
        self.level[self.sink as usize] != u32::MAX
    }

    /// Sends the maximum along one path of rising levels; returns `None` when no such path remains.
    fn augment(&mut self) -> Option<u64> {
        let mut path: Vec<u32> = Vec::new();
        loop {
            let at = path.last().map_or(self.source, |arc| self.to[*arc as usize]);
            if at == self.sink {
                break;
            }
            let out = &self.out[at as usize];
            if let Some(arc) = out.get(self.next_arc[at as usize]) {
                let to = self.to[*arc as usize] as usize;
                let rises = self.level[to] == self.level[at as usize].saturating_add(1);
                if rises && self.residual[*arc as usize] > 0 {
                    path.push(*arc);
                } else {
                    self.next_arc[at as usize] += 1;
                }
            } else {
                // A dead end: step back, and do not try this arc again.
                let arc = path.pop()?;
                let before = self.to[(arc ^ 1) as usize];
                self.next_arc[before as usize] += 1;
            }
        }
        let width = path.iter().map(|arc| self.residual[*arc as usize]).min()?;
        for arc in path {
            self.residual[arc as usize] -= width;
            self.residual[(arc ^ 1) as usize] += width;
        }
        Some(width)
    }
}

/// Returns the sum of the outgoing rates of all hosts: the most they can send together.
pub fn host_capacity(topology: &Topology) -> Bandwidth {
    let links = topology.links().iter();
    let from_host = links.filter(|link| topology.node(link.from).kind == NodeKind::Host);
    let bps = from_host.fold(0u64, |sum, link| sum.saturating_add(link.rate.as_bps()));
    Bandwidth::from_bps(bps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::*;
    use crate::units::Time;

    fn gbps(rate: u64) -> Bandwidth {
        Bandwidth::from_gbps(rate)
    }

    #[test]
    fn closed_forms_agree_with_all_halves() {
        let fat_tree = FatTree::default();
        let thin = FatTree { fabric_rate: gbps(4), ..FatTree::default() };
        let leaf_spine =
            |leaves, spines, hosts_per_leaf| LeafSpine { leaves, spines, hosts_per_leaf, ..LeafSpine::default() };
        let bcube = |n, k| BCube { n, k, ..BCube::default() };
        let butterfly = |k, n| FlattenedButterfly { k, n, ..FlattenedButterfly::default() };
        let vl2 = Vl2 { hosts_per_tor: Some(3), host_rate: gbps(20), ..Vl2::default() };
        let single = SingleSwitch { hosts: 5, ..SingleSwitch::default() };
        let dumbbell = Dumbbell { n: 4, ..Dumbbell::default() };
        let diamond = Diamond::default();
        for (topology, closed) in [
            (fat_tree.build(), fat_tree.bisection()),
            (thin.build(), thin.bisection()),
            (leaf_spine(2, 2, 4).build(), leaf_spine(2, 2, 4).bisection()),
            (leaf_spine(4, 2, 2).build(), leaf_spine(4, 2, 2).bisection()),
            (leaf_spine(4, 1, 3).build(), leaf_spine(4, 1, 3).bisection()),
            (bcube(4, 1).build(), bcube(4, 1).bisection()),
            (bcube(2, 3).build(), bcube(2, 3).bisection()),
            (butterfly(4, 2).build(), butterfly(4, 2).bisection()),
            (butterfly(2, 4).build(), butterfly(2, 4).bisection()),
            (vl2.build(), vl2.bisection()),
            (single.build(), single.bisection()),
            (dumbbell.build(), dumbbell.bisection()),
            (diamond.build(), diamond.bisection()),
        ] {
            let topology = topology.unwrap();
            assert_eq!(exact(&topology), Ok(closed), "{}", topology.name());
            assert_eq!(searched(&topology), closed, "{}", topology.name());
        }
    }

    /// Two networks whose hosts have alternating numbers, with one cable between them.
    #[test]
    fn halves_are_found_with_any_numbers_of_hosts() {
        let mut b = crate::TopologyBuilder::new("two islands");
        let switches: Vec<_> = (0..8).map(|n| b.switch(format!("s{n}"), 1, None)).collect();
        for n in 0..40u32 {
            let host = b.host(format!("h{n}"), n % 8, None);
            b.connect(host, switches[n as usize % 8], gbps(10), Time::ZERO);
        }
        let pairs = (0..8).flat_map(|a| (0..a).map(move |b| (a, b)));
        for (x, y) in pairs.filter(|(x, y)| x % 2 == y % 2) {
            b.connect(switches[x], switches[y], gbps(40), Time::ZERO);
        }
        b.connect(switches[0], switches[1], gbps(7), Time::ZERO);
        let topology = b.build().unwrap();
        assert_eq!(at_most(&topology), gbps(7));
        assert!(between(&topology, |host| host.0 < 20) > gbps(100));
    }

    #[test]
    fn halves_have_half_of_the_hosts() {
        for topology in [FatTree { k: 6, ..FatTree::default() }.build().unwrap(), CamCube::default().build().unwrap()] {
            let hosts = topology.hosts().len();
            for sides in halves::halves(&topology) {
                let first = topology.hosts().iter().filter(|node| sides[node.0 as usize]).count();
                assert!(first.abs_diff(hosts - first) <= 1, "{}: {first} of {hosts}", topology.name());
            }
        }
    }

    /// Random networks: the search never finds less than the bisection, and nearly always that.
    #[test]
    fn search_finds_the_bisection_of_small_random_networks() {
        let mut random = crate::random::RandomStream::new(1, "bisection");
        let mut missed = 0;
        for _ in 0..200 {
            let mut b = crate::TopologyBuilder::new("random");
            let switches: Vec<_> = (0..9).map(|n| b.switch(format!("s{n}"), 1, None)).collect();
            for n in 0..12u32 {
                let host = b.host(format!("h{n}"), n, None);
                b.connect(host, switches[random.next_below(9) as usize], gbps(10), Time::ZERO);
            }
            for x in 1..9 {
                // Connected, with some cables more.
                b.connect(
                    switches[x],
                    switches[random.next_below(x as u64) as usize],
                    gbps(1 + random.next_below(9)),
                    Time::ZERO,
                );
            }
            for _ in 0..6 {
                let (x, y) = (random.next_below(9) as usize, random.next_below(9) as usize);
                if x != y {
                    b.connect(switches[x], switches[y], gbps(1 + random.next_below(9)), Time::ZERO);
                }
            }
            let topology = b.build().unwrap();
            let (found, exact) = (searched(&topology), exact(&topology).unwrap());
            assert!(found >= exact);
            missed += usize::from(found > exact);
        }
        assert!(missed <= 10, "{missed} of 200 missed");
    }

    #[test]
    fn planar_and_digit_cuts_of_larger_networks_meet_the_closed_form() {
        let cube = CamCube::default();
        let topology = cube.build().unwrap();
        // The plane across the last dimension: hosts 0 .. 32 against 32 .. 64.
        let cut = between(&topology, |host| host.0 < 32);
        assert_eq!((cut, cut), (cube.bisection(), gbps(2 * 16 * 10)));
        let bcube = BCube { k: 2, ..BCube::default() };
        let cut = between(&bcube.build().unwrap(), |host| host.0 < 32);
        assert_eq!(cut, bcube.bisection());
        let tree = FatTree { k: 8, ..FatTree::default() };
        let cut = between(&tree.build().unwrap(), |host| host.0 < 64);
        assert_eq!((cut, cut), (tree.bisection(), gbps(8 * 8 * 8 / 8 * 10)));
    }

    #[test]
    fn asymmetric_cuts_take_the_narrow_direction() {
        let mut b = crate::TopologyBuilder::new("asymmetric");
        let (h0, h1) = (b.host("h0", 0, None), b.host("h1", 1, None));
        b.connect_asymmetric(h0, h1, gbps(3), gbps(2), Time::ZERO);
        let topology = b.build().unwrap();
        assert_eq!(exact(&topology), Ok(gbps(2)));
        assert_eq!(between(&topology, |host| host.0 == 0), gbps(3));
        assert_eq!(host_capacity(&topology), gbps(5));
    }

    #[test]
    fn exact_of_too_many_or_too_few_hosts_fails() {
        let net = |hosts| {
            let net = SingleSwitch { hosts, ..SingleSwitch::default() };
            exact(&net.build().unwrap())
        };
        assert_eq!(net(17), Err(BisectionError::TooManyHosts { hosts: 17 }));
        assert_eq!(net(1), Err(BisectionError::TooFewHosts { hosts: 1 }));
    }
}
