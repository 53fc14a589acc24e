//! Simulated annealing of one core per receiving host (mechanisms.md P08.3).
//!
//! Every receiving host has a number ("core") below the number of paths between the farthest edge
//! switches. Flows to it take the path of that number, scaled to the path count of their pair. In a
//! fat-tree the number is a core switch, and flows from the same pod take the aggregation switch
//! below it, so that all arrive over one link.
//!
//! Readings, since discovery reports neither pods nor tiers: a pod is a set of edge switches
//! connected by pairs at the minimum distance of all pairs (a fat-tree's pods; all leaves of a
//! leaf-spine). The hosts that receive through an aggregation switch are those of a pod whose
//! numbers fall into the same part of the range. The number of parts is the number of live links
//! from switches to the edge switch. The unit of energy is the rate of the fastest host link.

use std::collections::VecDeque;

use net::routes::ClassIx;
use net::{HostIx, LinkIx, RandomStream};

use super::Large;
use crate::central::common::{Dag, FlowsByHost, edge_of, edges, host_rate, is_switch, rate_of};
use crate::central::{CentralCx, NetworkView, Pin, Placements};

#[derive(Default)]
pub(super) struct Annealer {
    iterations: u32,
    cooling: f64,
    /// Hosts of each pod; the hosts of an edge switch are consecutive.
    pods: Vec<Vec<HostIx>>,
    /// By host: the class of its edge switch.
    edge_of: Vec<Option<ClassIx>>,
    /// By class: the hosts of the edge switch.
    below: Vec<Vec<HostIx>>,
    cores: u32,
    /// Number of links from switches into an edge switch.
    ways: u32,
    /// By host: the core it receives through.
    core: Vec<u32>,
}

/// Paths, loads and the total overload.
struct State {
    /// Unit of loads and capacities, bits per second.
    unit: f64,
    load: Vec<f64>,
    capacity: Vec<f64>,
    excess: f64,
    paths: Paths,
    /// Links whose load the last swap changed, with the previous load.
    before: Vec<(LinkIx, f64)>,
    /// Positions of paths that it changed, with the previous link.
    paths_before: Vec<(usize, LinkIx)>,
}

/// The links of the path of every flow, in one array: all paths of a pair have the same length.
struct Paths {
    start: Vec<u32>,
    links: Vec<LinkIx>,
}

struct Arriving<'a> {
    dag: Dag<'a>,
    large: &'a [Large],
    by_receiver: FlowsByHost,
}

impl Annealer {
    pub(super) fn new(iterations: u32, cooling: f64) -> Annealer {
        Annealer { iterations, cooling, ..Annealer::default() }
    }

    /// Runs one round: anneals, and pins every flow to the path through its receiver's core.
    pub(super) fn place(&mut self, cx: &mut CentralCx<'_>, large: &[Large], placements: &mut Placements) {
        let paths = self.anneal(cx.rng, cx.view, large);
        placements.reserve_pins(cx.view.flows.capacity());
        for (nth, large) in large.iter().enumerate() {
            let path = paths.of(nth);
            if !path.is_empty() {
                placements.pin(large.flow, Pin { path: path.into(), rate: None });
            }
        }
    }

    /// Computes pods and spreads cores evenly over the hosts of each, unless nothing changed.
    pub(super) fn set_network(&mut self, view: &NetworkView<'_>) {
        let hosts = (0..view.topology.hosts().len() as u32).map(HostIx);
        let edge_of: Vec<Option<ClassIx>> = hosts.clone().map(|host| edge_of(view, host)).collect();
        let most = edges(view).flat_map(|(node, _)| edges(view).map(move |(_, to)| view.routes.path_count(node, to)));
        let cores = most.max().unwrap_or(1).max(1);
        let ways = edges(view).map(|(_, class)| ways_into(view, class)).max().unwrap_or(1).max(1);
        let mut below = vec![Vec::new(); view.routes.class_count()];
        for (host, edge) in hosts.zip(&edge_of) {
            if let Some(edge) = edge {
                below[edge.0 as usize].push(host);
            }
        }
        let pods = pods(view);
        let of_hosts = |pod: &Vec<ClassIx>| pod.iter().flat_map(|edge| below[edge.0 as usize].clone()).collect();
        let pods_of_hosts: Vec<Vec<HostIx>> = pods.iter().map(of_hosts).collect();
        let is_same = self.cores == cores && self.pods == pods_of_hosts && self.edge_of == edge_of;
        (self.edge_of, self.below, self.pods, self.cores, self.ways) = (edge_of, below, pods_of_hosts, cores, ways);
        if !is_same {
            self.spread(&pods);
        }
    }

    /// Gives the hosts of an edge switch distant cores, so that they receive over different links.
    fn spread(&mut self, pods: &[Vec<ClassIx>]) {
        self.core = vec![0; self.edge_of.len()];
        for pod in pods {
            for (nth, edge) in pod.iter().enumerate() {
                let hosts = &self.below[edge.0 as usize];
                let step = (self.cores / hosts.len() as u32).max(1);
                for (position, host) in hosts.iter().enumerate() {
                    self.core[host.ix()] = (position as u32 * step + nth as u32) % self.cores;
                }
            }
        }
    }

    /// Anneals from the best cores of the last round; returns the paths through the best found.
    fn anneal(&mut self, rng: &mut RandomStream, view: &NetworkView<'_>, large: &[Large]) -> Paths {
        let arriving = Arriving::new(view, self.core.len(), large);
        let mut state = State::new(view, self.first_paths(&arriving));
        (0..large.len()).for_each(|nth| state.add(nth, large[nth].rate));
        let is_small = view.topology.hosts().len() <= 16;
        let factor = if self.cooling > 0.0 { self.cooling } else { [1000.0, 0.5][usize::from(is_small)] };
        // Swaps made, and the number of swaps that lead to the best state so far.
        let (mut swaps, mut best) = (Vec::new(), (state.excess, 0));
        let mut group = Vec::new();
        for temperature in (1..=self.iterations).rev() {
            if state.excess <= 1e-9 {
                break;
            }
            let Some((a, b)) = self.neighbour(rng, &mut group) else { continue };
            let before = state.excess;
            self.swap(&mut state, &arriving, a, b);
            let worse = state.excess - before;
            let accepted = libm::exp(-factor * f64::from(self.iterations) * worse / f64::from(temperature));
            if worse > 0.0 && rng.next_f64() >= accepted {
                self.core.swap(a.ix(), b.ix());
                state.undo(before);
                continue;
            }
            swaps.push((a, b));
            if state.excess < best.0 - 1e-12 {
                best = (state.excess, swaps.len());
            }
        }
        for (a, b) in swaps[best.1..].iter().rev() {
            self.core.swap(a.ix(), b.ix());
        }
        for host in swaps[best.1..].iter().flat_map(|(a, b)| [*a, *b]) {
            arriving.at(host).for_each(|nth| self.lead(&arriving, nth, &mut state.paths));
        }
        state.paths
    }

    /// Returns the paths through the present cores, by receiver, so that classes are consecutive.
    fn first_paths(&self, arriving: &Arriving<'_>) -> Paths {
        let mut paths = Paths::new(arriving);
        for nth in arriving.by_receiver.all() {
            self.lead(arriving, *nth as usize, &mut paths);
        }
        paths
    }

    fn lead(&self, arriving: &Arriving<'_>, nth: usize, paths: &mut Paths) {
        let Large { ends, dst, .. } = arriving.large[nth];
        let rank = scaled(self.core[dst.ix()], self.cores, arriving.dag.path_count(ends));
        let mut links = paths.of_mut(nth).iter_mut();
        arriving.dag.walk(ends, rank, |link| {
            if let Some(place) = links.next() {
                *place = link;
            }
        });
    }

    /// Returns two hosts whose cores to swap: of one pod, edge switch or receiving switch.
    fn neighbour(&self, rng: &mut RandomStream, group: &mut Vec<HostIx>) -> Option<(HostIx, HostIx)> {
        let kind = rng.next_below(3);
        let pod = &self.pods[draw(rng, self.pods.len())?];
        let hosts: &[HostIx] = match kind {
            0 => pod,
            1 => self.at_edge(rng, pod)?,
            _ if rng.next_below(2) == 0 => self.at_edge(rng, pod)?,
            _ => {
                let part = |host: HostIx| scaled(self.core[host.ix()], self.cores, self.ways);
                let wanted = part(pod[draw(rng, pod.len())?]);
                group.clear();
                group.extend(pod.iter().copied().filter(|host| part(*host) == wanted));
                group
            }
        };
        let a = draw(rng, hosts.len())?;
        let others = draw(rng, hosts.len() - 1)?;
        let b = others + usize::from(others >= a);
        (self.core[hosts[a].ix()] != self.core[hosts[b].ix()]).then_some((hosts[a], hosts[b]))
    }

    fn at_edge(&self, rng: &mut RandomStream, pod: &[HostIx]) -> Option<&[HostIx]> {
        let edge = self.edge_of[pod[draw(rng, pod.len())?].ix()]?;
        Some(&self.below[edge.0 as usize])
    }

    fn swap(&mut self, state: &mut State, arriving: &Arriving<'_>, a: HostIx, b: HostIx) {
        state.before.clear();
        state.paths_before.clear();
        let moved = || [a, b].into_iter().flat_map(|host| arriving.at(host));
        moved().for_each(|nth| state.change(nth, -arriving.large[nth].rate));
        self.core.swap(a.ix(), b.ix());
        for nth in moved() {
            state.remember_path(nth);
            self.lead(arriving, nth, &mut state.paths);
            state.change(nth, arriving.large[nth].rate);
        }
    }
}

impl State {
    fn new(view: &NetworkView<'_>, paths: Paths) -> State {
        let hosts = (0..view.topology.hosts().len() as u32).map(HostIx);
        let unit = hosts.map(|host| host_rate(view, host)).fold(1.0, f64::max);
        let links = (0..view.topology.links().len() as u32).map(LinkIx);
        State {
            unit,
            load: vec![0.0; view.topology.links().len()],
            capacity: links.map(|link| rate_of(view, link) / unit).collect(),
            excess: 0.0,
            paths,
            before: Vec::new(),
            paths_before: Vec::new(),
        }
    }

    fn add(&mut self, nth: usize, rate: f64) {
        let rate = rate / self.unit;
        let State { load, capacity, excess, paths, .. } = self;
        for link in paths.of(nth) {
            let (before, capacity) = (load[link.ix()], capacity[link.ix()]);
            let after = before + rate;
            *excess += (after - capacity).max(0.0) - (before - capacity).max(0.0);
            load[link.ix()] = after;
        }
    }

    /// Like `add`, but reversible.
    fn change(&mut self, nth: usize, rate: f64) {
        let State { load, paths, before, .. } = self;
        before.extend(paths.of(nth).iter().map(|link| (*link, load[link.ix()])));
        self.add(nth, rate);
    }

    fn remember_path(&mut self, nth: usize) {
        let State { paths, paths_before, .. } = self;
        paths_before.extend(paths.range(nth).map(|at| (at, paths.links[at])));
    }

    fn undo(&mut self, excess: f64) {
        while let Some((link, before)) = self.before.pop() {
            self.load[link.ix()] = before;
        }
        for (at, link) in self.paths_before.drain(..) {
            self.paths.links[at] = link;
        }
        self.excess = excess;
    }
}

impl Paths {
    fn new(arriving: &Arriving<'_>) -> Paths {
        let mut start = Vec::with_capacity(arriving.large.len() + 1);
        let mut end = 0;
        start.push(0);
        for large in arriving.large {
            end += u32::from(arriving.dag.distance(large.ends).unwrap_or(0));
            start.push(end);
        }
        Paths { start, links: vec![LinkIx(0); end as usize] }
    }
    fn range(&self, nth: usize) -> std::ops::Range<usize> {
        self.start[nth] as usize..self.start[nth + 1] as usize
    }
    fn of(&self, nth: usize) -> &[LinkIx] {
        &self.links[self.range(nth)]
    }
    fn of_mut(&mut self, nth: usize) -> &mut [LinkIx] {
        let range = self.range(nth);
        &mut self.links[range]
    }
}

impl<'a> Arriving<'a> {
    fn new(view: &NetworkView<'a>, hosts: usize, large: &'a [Large]) -> Arriving<'a> {
        let by_receiver = FlowsByHost::by(hosts, large.iter().map(|large| large.dst.ix()));
        Arriving { dag: Dag::new(view), large, by_receiver }
    }
    fn at(&self, host: HostIx) -> impl Iterator<Item = usize> {
        self.by_receiver.of(host.ix()).iter().map(|flow| *flow as usize)
    }
}

/// Scales a number below `of` to one below `to`, keeping its relative position.
fn scaled(number: u32, of: u32, to: u32) -> u32 {
    (u64::from(number) * u64::from(to) / u64::from(of.max(1))) as u32
}

fn draw(rng: &mut RandomStream, n: usize) -> Option<usize> {
    (n > 0).then(|| rng.next_below(n as u64) as usize)
}

/// Returns the number of live links into an edge switch from other switches.
fn ways_into(view: &NetworkView<'_>, class: ClassIx) -> u32 {
    let out = view.topology.out_links(view.routes.class_node(class)).iter();
    out.filter(|link| view.alive[link.reverse().ix()] && is_switch(view, view.topology.link(**link).to)).count() as u32
}

/// Returns groups of edge switches connected by pairs at the minimum distance.
fn pods(view: &NetworkView<'_>) -> Vec<Vec<ClassIx>> {
    let all: Vec<_> = edges(view).collect();
    let distance =
        |(from, own): (net::NodeIx, ClassIx), to: ClassIx| view.routes.distance(from, to).filter(|_| own != to);
    let nearest = all.iter().flat_map(|from| all.iter().filter_map(|(_, to)| distance(*from, *to))).min();
    let mut is_seen = vec![false; view.routes.class_count()];
    let mut pods = Vec::new();
    for first in &all {
        if std::mem::replace(&mut is_seen[first.1.0 as usize], true) {
            continue;
        }
        let (mut pod, mut queue) = (Vec::new(), VecDeque::from([*first]));
        while let Some(from) = queue.pop_front() {
            pod.push(from.1);
            for to in &all {
                if distance(from, to.1) == nearest && nearest.is_some() && !is_seen[to.1.0 as usize] {
                    is_seen[to.1.0 as usize] = true;
                    queue.push_back(*to);
                }
            }
        }
        pod.sort_unstable();
        pods.push(pod);
    }
    pods
}
