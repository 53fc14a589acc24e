//! Halves of the hosts with little capacity between them, where there are too many to try all.
//!
//! Each first half is what a search in breadth finds around one node, or drawn at random with a fixed
//! seed. Nodes then change sides as
//! long as that lowers the capacity between the sides (Fiduccia and Mattheyses: A linear-time
//! heuristic for improving network partitions, DAC 1982). A partitioner such as METIS finds the same
//! cuts in larger graphs; it draws from the C library's `rand`, so its results differ by machine.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::random::RandomStream;
use crate::topology::{NodeIx, NodeKind, Topology};

/// Work that the search may do, in links that are looked at once for each first half.
const LINKS_MAX: usize = 400_000;
/// Maximum number of passes over all nodes from one first half; few are ever needed.
const PASSES_MAX: usize = 20;

/// Returns the side of each node for several halves, without repetition, those with the least
/// capacity between the sides first. Each has half of the hosts, or one more or less.
pub(super) fn halves(topology: &Topology) -> Vec<Vec<bool>> {
    let graph = Graph::of(topology);
    let starts = (LINKS_MAX / topology.links().len().max(1)).clamp(2, 64);
    let mut found: Vec<(u64, Vec<bool>)> = Vec::new();
    let centres = graph.spread(starts);
    let mut random = RandomStream::new(1, "halves");
    let at_random = (centres.len()..starts).map(|_| graph.at_random(topology, &mut random)).collect::<Vec<_>>();
    let firsts = centres.into_iter().map(|start| graph.around(start));
    for mut sides in firsts.chain(at_random).chain([graph.by_number(topology)]) {
        let mut passes = 0;
        while passes < PASSES_MAX && graph.pass(&mut sides) {
            passes += 1;
        }
        found.push((graph.cut(&sides), sides));
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, sides)| sides).collect()
}

struct Graph {
    is_host: Vec<bool>,
    /// Neighbours of each node, with the rates of both directions together, Mb/s: sums fit.
    links: Vec<Vec<(u32, u64)>>,
    hosts: usize,
    /// Most hosts at one node: as many more may be on one side while nodes change sides.
    slack: usize,
}

impl Graph {
    fn of(topology: &Topology) -> Graph {
        let is_host: Vec<bool> = topology.nodes().iter().map(|node| node.kind == NodeKind::Host).collect();
        let mut links = vec![Vec::new(); is_host.len()];
        for pair in topology.links().chunks(2) {
            let rate = (pair[0].rate.as_bps() / 1_000_000).saturating_add(pair[1].rate.as_bps() / 1_000_000);
            links[pair[0].from.0 as usize].push((pair[0].to.0, rate));
            links[pair[0].to.0 as usize].push((pair[0].from.0, rate));
        }
        let hosts_at = |of: &Vec<(u32, u64)>| of.iter().filter(|(to, _)| is_host[*to as usize]).count();
        let slack = links.iter().map(hosts_at).max().unwrap_or(0).max(1);
        Graph { hosts: topology.hosts().len(), is_host, links, slack }
    }

    /// Returns nodes that are far from each other: each the farthest from those before.
    fn spread(&self, count: usize) -> Vec<usize> {
        let mut distance = vec![u32::MAX; self.links.len()];
        let mut chosen = vec![0];
        while let Some(last) = chosen.last().copied().filter(|_| chosen.len() < count.min(self.links.len())) {
            for (node, far) in self.distances(last).into_iter().enumerate() {
                distance[node] = distance[node].min(far);
            }
            let farthest = (0..distance.len()).max_by_key(|node| (distance[*node], Reverse(*node)));
            chosen.extend(farthest);
        }
        chosen
    }

    fn distances(&self, from: usize) -> Vec<u32> {
        let mut distance = vec![u32::MAX; self.links.len()];
        distance[from] = 0;
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for (to, _) in &self.links[node] {
                if distance[*to as usize] == u32::MAX {
                    distance[*to as usize] = distance[node] + 1;
                    queue.push_back(*to as usize);
                }
            }
        }
        distance
    }

    /// Returns the half of the hosts nearest to a node, with the switches on the way.
    fn around(&self, start: usize) -> Vec<bool> {
        let distance = self.distances(start);
        let mut order: Vec<usize> = (0..distance.len()).collect();
        order.sort_by_key(|node| (distance[*node], *node));
        let (mut sides, mut left) = (vec![false; order.len()], self.hosts / 2);
        for node in order {
            if left == 0 {
                break;
            }
            sides[node] = true;
            left -= usize::from(self.is_host[node]);
        }
        sides
    }

    fn at_random(&self, topology: &Topology, random: &mut RandomStream) -> Vec<bool> {
        let mut hosts = topology.hosts().to_vec();
        random.shuffle(&mut hosts);
        self.first_half(&hosts)
    }

    fn by_number(&self, topology: &Topology) -> Vec<bool> {
        self.first_half(topology.hosts())
    }

    /// Returns the first half of the hosts in an order; a switch is on the side of most of its hosts.
    fn first_half(&self, hosts: &[NodeIx]) -> Vec<bool> {
        let mut sides = vec![false; self.links.len()];
        hosts.iter().take(self.hosts / 2).for_each(|NodeIx(host)| sides[*host as usize] = true);
        for node in (0..sides.len()).filter(|node| !self.is_host[*node]) {
            let of_hosts = self.links[node].iter().filter(|(to, _)| self.is_host[*to as usize]);
            let balance: i64 = of_hosts.map(|(to, _)| if sides[*to as usize] { 1 } else { -1 }).sum();
            sides[node] = balance > 0;
        }
        sides
    }

    fn cut(&self, sides: &[bool]) -> u64 {
        let of_node = |node: usize| {
            let crosses = |(to, _): &&(u32, u64)| sides[*to as usize] != sides[node];
            self.links[node].iter().filter(crosses).map(|(_, rate)| *rate).sum::<u64>()
        };
        (0..sides.len()).map(of_node).sum::<u64>() / 2
    }

    /// Moves each node once to the other side, the one that helps most first, and keeps the moves up to
    /// the best balanced state. Returns whether that is better than before.
    fn pass(&self, sides: &mut [bool]) -> bool {
        let gain = |node: usize, sides: &[bool]| -> i64 {
            let of_link = |(to, rate): &(u32, u64)| {
                if sides[*to as usize] == sides[node] { -(*rate as i64) } else { *rate as i64 }
            };
            self.links[node].iter().map(of_link).sum()
        };
        let mut gains: Vec<i64> = (0..sides.len()).map(|node| gain(node, sides)).collect();
        let mut is_moved = vec![false; sides.len()];
        // Nodes by side; entries whose gain has changed since are skipped.
        let mut waiting: [BinaryHeap<(i64, Reverse<usize>)>; 2] = Default::default();
        (0..sides.len()).for_each(|node| waiting[usize::from(sides[node])].push((gains[node], Reverse(node))));
        let mut hosts = [0, 0];
        (0..sides.len()).filter(|node| self.is_host[*node]).for_each(|node| hosts[usize::from(sides[node])] += 1);
        let (mut lowered, mut best, mut moves) = (0, (0, 0), Vec::new());
        loop {
            let mut next: Option<(i64, bool, usize)> = None;
            for side in [false, true] {
                let heap = &mut waiting[usize::from(side)];
                while heap.peek().is_some_and(|(gain, Reverse(node))| is_moved[*node] || gains[*node] != *gain) {
                    heap.pop();
                }
                let Some((gain, Reverse(node))) = heap.peek().copied() else { continue };
                let (from, to) = (hosts[usize::from(side)], hosts[usize::from(!side)]);
                let is_heavier = from > to;
                let is_allowed = !self.is_host[node] || is_heavier || to + 1 - (from - 1) <= 2 * self.slack;
                if is_allowed && next.is_none_or(|(other, heavier, _)| (gain, is_heavier) > (other, heavier)) {
                    next = Some((gain, is_heavier, node));
                }
            }
            let Some((gain, _, node)) = next else { break };
            let side = sides[node];
            sides[node] = !side;
            is_moved[node] = true;
            if self.is_host[node] {
                hosts[usize::from(side)] -= 1;
                hosts[usize::from(!side)] += 1;
            }
            for (to, rate) in &self.links[node] {
                let to = *to as usize;
                let change = 2 * *rate as i64;
                gains[to] += if sides[to] == side { change } else { -change };
                if !is_moved[to] {
                    waiting[usize::from(sides[to])].push((gains[to], Reverse(to)));
                }
            }
            lowered += gain;
            moves.push(node);
            if hosts[0].abs_diff(hosts[1]) <= 1 && lowered > best.0 {
                best = (lowered, moves.len());
            }
        }
        for node in &moves[best.1..] {
            sides[*node] = !sides[*node];
        }
        best.0 > 0
    }
}
