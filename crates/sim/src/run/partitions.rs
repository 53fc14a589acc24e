//! Partitions of a network: groups of nodes that one thread simulates.
//!
//! The cut is made from the graph. Nodes furthest from all hosts (the top of a fabric) are taken away;
//! what then hangs together is a group (a pod, a rack). Groups go to the partition with the least work
//! so far, the nodes of the top to the one with which they have most links. A network without such
//! groups is cut along a breadth-first order. Nodes at the ends of a link shorter than the time step,
//! and a host and its only switch, are never separated.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use net::{Link, NodeKind, Topology};
use traffic::{FlowList, Start};

use crate::links::network::Network;
use crate::numbering::Numbering;
use crate::scenario::Scenario;
use crate::setup::reason_for_one_partition;

/// Maximum number of partitions: ports have a byte for the one at the far end.
const PARTITIONS_MAX: usize = 128;

/// Time step of a network in which no two switches are linked, or only by links without delay.
const DEFAULT_STEP: u64 = 1_000_000;

pub(crate) struct Partitions {
    pub(crate) count: usize,
    /// Partition of each node of the engine; `None` for a single one.
    pub(crate) owners: Option<Arc<[u8]>>,
    /// Duration of a time step, picoseconds. It does not depend on the number of partitions.
    pub(crate) step: u64,
    /// Links between partitions: the number of each, and the partitions of its ends.
    between: Vec<(u32, u8, u8)>,
}

impl Partitions {
    pub(crate) fn new(scenario: &Scenario<'_>, numbering: &Numbering, threads: usize) -> Partitions {
        let topology = scenario.topology;
        let step = time_step(topology);
        let single = Partitions { count: 1, owners: None, step, between: Vec::new() };
        if threads < 2 || reason_for_one_partition(scenario).is_some() {
            return single;
        }
        let of_node = cut(topology, step, threads.min(PARTITIONS_MAX));
        if !are_triggers_local(topology, scenario.flows, &of_node) {
            return single;
        }
        let count = of_node.iter().max().map_or(0, |last| usize::from(*last) + 1);
        let owners: Arc<[u8]> = numbering.to_topology.iter().map(|node| of_node[node.ix()]).collect();
        let links = (0u32..).zip(topology.links());
        let ends = links.map(|(ix, link)| (ix, of_node[link.from.ix()], of_node[link.to.ix()]));
        let between = ends.filter(|(_, from, to)| from != to).collect();
        Partitions { count, owners: Some(owners), step, between }
    }

    pub(crate) fn of(&self, node: u32) -> usize {
        self.owners.as_ref().map_or(0, |owners| usize::from(owners[node as usize]))
    }

    /// Marks the links from `partition` into others.
    pub(crate) fn mark_links(&self, network: &mut Network, partition: usize) {
        for (link, _, to) in self.between.iter().filter(|(_, from, _)| usize::from(*from) == partition) {
            network.set_remote(*link, *to);
        }
    }
}

/// Returns the least delay of a link that may be cut, of those that have one.
fn time_step(topology: &Topology) -> u64 {
    let inner = topology.links().iter().filter(|link| !is_only_link(topology, link));
    inner.map(|link| link.delay.as_ps()).filter(|delay| *delay > 0).min().unwrap_or(DEFAULT_STEP)
}

/// Returns whether a link is the only one of a host.
fn is_only_link(topology: &Topology, link: &Link) -> bool {
    let is_alone = |node| topology.node(node).kind == NodeKind::Host && topology.out_links(node).len() == 1;
    is_alone(link.from) || is_alone(link.to)
}

/// Returns whether each flow that waits for others starts in the partition where those arrive.
fn are_triggers_local(topology: &Topology, list: &FlowList, of_node: &[u8]) -> bool {
    // Tasks wait for flows anywhere.
    if list.tasks.is_some() {
        return false;
    }
    let of = |host: net::HostIx| of_node[topology.host(host).ix()];
    // Partition of the receivers of each group, if they have one in common.
    let mut of_group: std::collections::BTreeMap<u32, Option<u8>> = std::collections::BTreeMap::new();
    if list.flows.iter().any(|flow| matches!(flow.start, Start::AfterGroups { .. })) {
        for flow in &list.flows {
            let own = Some(of(flow.dst));
            let known = of_group.entry(flow.group).or_insert(own);
            *known = if *known == own { own } else { None };
        }
    }
    list.flows.iter().all(|flow| match flow.start {
        Start::At(_) | Start::AfterTasks => true,
        Start::After { flow: awaited, .. } => of(list.flows[awaited as usize].dst) == of(flow.src),
        Start::AfterGroups { first, last, .. } => {
            of_group.range(first..=last).all(|(_, partition)| *partition == Some(of(flow.src)))
        }
    })
}

/// Returns the partition of each node, numbered from 0 without gaps.
fn cut(topology: &Topology, step: u64, count: usize) -> Vec<u8> {
    let clusters = Clusters::new(topology, step);
    let mut of_cluster = clusters.by_groups(count).unwrap_or_else(|| clusters.by_order(count));
    let mut names: Vec<Option<u8>> = vec![None; count];
    let mut used = 0;
    for partition in &mut of_cluster {
        let name = names[usize::from(*partition)].get_or_insert_with(|| {
            used += 1;
            used - 1
        });
        *partition = *name;
    }
    clusters.of_node.iter().map(|cluster| of_cluster[*cluster]).collect()
}

/// Sets of nodes that stay together.
struct Clusters {
    of_node: Vec<usize>,
    /// Number of links of the members: the work of simulating them.
    work: Vec<u64>,
    /// Linked clusters, once for each link.
    neighbours: Vec<Vec<usize>>,
    /// Steps to the nearest cluster with a host.
    height: Vec<u32>,
}

impl Clusters {
    fn new(topology: &Topology, step: u64) -> Clusters {
        let nodes = topology.nodes().len();
        let mut leader: Vec<usize> = (0..nodes).collect();
        for link in topology.links() {
            if link.delay.as_ps() < step || is_only_link(topology, link) {
                let (a, b) = (find(&mut leader, link.from.ix()), find(&mut leader, link.to.ix()));
                leader[a.max(b)] = a.min(b);
            }
        }
        let mut number = vec![usize::MAX; nodes];
        let mut of_node = vec![0; nodes];
        let mut count = 0;
        for (node, cluster) in of_node.iter_mut().enumerate() {
            let leader = find(&mut leader, node);
            if number[leader] == usize::MAX {
                number[leader] = count;
                count += 1;
            }
            *cluster = number[leader];
        }
        let (mut work, mut neighbours) = (vec![0; count], vec![Vec::new(); count]);
        for link in topology.links() {
            let (from, to) = (of_node[link.from.ix()], of_node[link.to.ix()]);
            work[to] += 1;
            if from != to {
                neighbours[from].push(to);
            }
        }
        let mut clusters = Clusters { of_node, work, neighbours, height: Vec::new() };
        let with_hosts = topology.hosts().iter().map(|host| clusters.of_node[host.ix()]).collect();
        clusters.height = clusters.distances(with_hosts);
        clusters
    }

    fn distances(&self, sources: Vec<usize>) -> Vec<u32> {
        let mut distance = vec![u32::MAX; self.work.len()];
        let mut queue = VecDeque::from(sources);
        queue.iter().for_each(|source| distance[*source] = 0);
        while let Some(at) = queue.pop_front() {
            for next in &self.neighbours[at] {
                if distance[*next] == u32::MAX {
                    distance[*next] = distance[at] + 1;
                    queue.push_back(*next);
                }
            }
        }
        distance
    }

    /// Cuts below the top; `None` without a top or with fewer groups than partitions.
    fn by_groups(&self, count: usize) -> Option<Vec<u8>> {
        let top = self.height.iter().copied().filter(|height| *height != u32::MAX).max().filter(|top| *top > 0)?;
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut group_of = vec![usize::MAX; self.work.len()];
        for first in 0..self.work.len() {
            if self.height[first] == top || group_of[first] != usize::MAX {
                continue;
            }
            let (mut members, mut at) = (vec![first], 0);
            group_of[first] = groups.len();
            while let Some(member) = members.get(at).copied() {
                at += 1;
                for next in &self.neighbours[member] {
                    if self.height[*next] != top && group_of[*next] == usize::MAX {
                        group_of[*next] = groups.len();
                        members.push(*next);
                    }
                }
            }
            groups.push(members);
        }
        if groups.len() < count {
            return None;
        }
        let mut load = vec![0; count];
        let mut of = vec![u8::MAX; self.work.len()];
        let work_of = |group: &[usize]| group.iter().map(|member| self.work[*member]).sum::<u64>();
        groups.sort_by_key(|group| Reverse(work_of(group)));
        for group in &groups {
            let lightest = lightest(&load);
            load[lightest] += work_of(group);
            group.iter().for_each(|member| of[*member] = lightest as u8);
        }
        for cluster in (0..self.work.len()).filter(|cluster| self.height[*cluster] == top) {
            let links = |partition: usize| {
                self.neighbours[cluster].iter().filter(|next| usize::from(of[**next]) == partition).count()
            };
            let best = (0..count)
                .max_by_key(|partition| (links(*partition), Reverse(load[*partition]), Reverse(*partition)))?;
            load[best] += self.work[cluster];
            of[cluster] = best as u8;
        }
        Some(of)
    }

    /// Cuts a breadth-first order, from a cluster at the rim, into equal amounts of work.
    fn by_order(&self, count: usize) -> Vec<u8> {
        let far = |from: usize| {
            let distances = self.distances(vec![from]);
            (0..distances.len()).filter(|at| distances[*at] != u32::MAX).max_by_key(|at| (distances[*at], Reverse(*at)))
        };
        let rim = far(0).unwrap_or(0);
        let distances = self.distances(vec![rim]);
        let mut order: Vec<usize> = (0..self.work.len()).collect();
        order.sort_by_key(|cluster| (distances[*cluster], *cluster));
        let total: u64 = self.work.iter().sum::<u64>().max(1);
        let mut of = vec![0; self.work.len()];
        let mut done = 0;
        for cluster in order {
            of[cluster] = ((done * count as u64 / total) as usize).min(count - 1) as u8;
            done += self.work[cluster];
        }
        of
    }
}

fn lightest(load: &[u64]) -> usize {
    (0..load.len()).min_by_key(|partition| (load[*partition], *partition)).unwrap_or(0)
}

fn find(leader: &mut [usize], node: usize) -> usize {
    let mut at = node;
    while leader[at] != at {
        leader[at] = leader[leader[at]];
        at = leader[at];
    }
    at
}
