//! A network, flows and a central balancer for tests, with the rates of an ideal transport.

use net::{Bandwidth, FiveTuple, HostIx, LinkIx, NodeIx, NodeKind, RandomStream, Routes, Time, Topology, address};

use super::{
    CentralBalancer, CentralCx, CentralEnv, DecisionTrigger, DefaultRoutes, FlowId, FlowInfo, FlowTable, LinkLoad,
    NetworkView, Path, Placements, WeightedPath,
};
use crate::entry::Build;
use crate::hash::position_of_point;
use crate::registry::Spec;

/// Small networks of different kinds.
pub const SMALL: &[&str] = &[
    "fat-tree:k=4",
    "leaf-spine:leaves=3,spines=3,hosts_per_leaf=1,parallel=2",
    "vl2:d0=2,d1=4,d2=4,hosts_per_tor=1",
    "geni-wan",
    "flattened-butterfly:k=3,n=3",
];

pub struct TestNetwork {
    pub topology: Topology,
    pub alive: Vec<bool>,
    pub routes: Routes,
    pub load: Vec<LinkLoad>,
    pub flows: FlowTable,
    pub legacy: Vec<bool>,
    pub now: Time,
    next_port: u16,
}

impl TestNetwork {
    pub fn new(family: &str) -> TestNetwork {
        TestNetwork::of(net::spec::parse(family).unwrap_or_else(|error| panic!("{error}")))
    }
    pub fn of(topology: Topology) -> TestNetwork {
        let links = topology.links().len();
        TestNetwork {
            alive: vec![true; links],
            routes: Routes::intact(&topology),
            load: vec![LinkLoad::default(); links],
            flows: FlowTable::default(),
            legacy: Vec::new(),
            now: Time::ZERO,
            next_port: 1,
            topology,
        }
    }
    pub fn view(&self) -> NetworkView<'_> {
        let TestNetwork { topology, alive, routes, load, flows, legacy, now, .. } = self;
        NetworkView { now: *now, topology, alive, routes, load, flows, legacy }
    }
    pub fn flow(&mut self, src: u32, dst: u32, rate: Option<Bandwidth>) -> FlowId {
        let (src, dst) = (HostIx(src), HostIx(dst));
        self.next_port += 1;
        let tuple = FiveTuple {
            src: address::host_ipv4(src),
            dst: address::host_ipv4(dst),
            protocol: 6,
            src_port: self.next_port,
            dst_port: 80,
        };
        self.flows.insert(FlowInfo { tuple, src, dst, started: self.now, bytes: 0, rate, size: None })
    }
    /// Adds one flow per host, from host `i` to `to(i)`, all sending at the rate of their links.
    pub fn permutation(&mut self, to: impl Fn(u32) -> u32) -> Vec<FlowId> {
        let hosts = self.topology.hosts().len() as u32;
        let rate = self.topology.link(self.topology.out_links(self.topology.host(HostIx(0)))[0]).rate;
        (0..hosts).filter(|host| to(*host) != *host).map(|host| self.flow(host, to(host), Some(rate))).collect()
    }
    /// Adds one flow per host, to the host `steps` further.
    pub fn stride(&mut self, steps: u32) -> Vec<FlowId> {
        let hosts = self.topology.hosts().len() as u32;
        self.permutation(|host| (host + steps) % hosts)
    }
    /// Adds one flow per host, to the host half of them further.
    pub fn half_stride(&mut self) -> Vec<FlowId> {
        self.stride(self.topology.hosts().len() as u32 / 2)
    }
    /// Adds one flow per host to a random other host; every host receives one.
    pub fn bijection(&mut self, rng: &mut RandomStream) -> Vec<FlowId> {
        let mut to: Vec<u32> = (0..self.topology.hosts().len() as u32).collect();
        while to.iter().enumerate().any(|(host, to)| host as u32 == *to) {
            rng.shuffle(&mut to);
        }
        self.permutation(|host| to[host as usize])
    }
    pub fn set_cable(&mut self, link: LinkIx, is_alive: bool) {
        self.alive[link.ix()] = is_alive;
        self.alive[link.reverse().ix()] = is_alive;
        self.routes = Routes::new(&self.topology, &self.alive);
    }
    /// Returns the path of a flow including links of hosts: its pin, else its split, else the
    /// default routes. Among several possible paths one is drawn, as a hash would.
    pub fn path(&self, flow: FlowId, placements: &Placements, rng: &mut RandomStream) -> Vec<LinkIx> {
        let info = self.flows.get(flow).expect("a flow");
        let up = self.topology.out_links(self.topology.host(info.src))[0];
        let (from, to) = (self.topology.link(up).to, self.routes.class_node(self.routes.class_of(info.dst)));
        let between = match (placements.pin_of(flow), placements.splits().get(&(from, to))) {
            (Some(pin), _) => pin.path.to_vec(),
            (None, Some(paths)) => paths[draw(rng, paths.iter().map(|path| path.weight))].path.to_vec(),
            (None, None) => self.default_path(placements, from, to, rng),
        };
        let last = self.routes.last_link(info.dst).expect("hosts have one link");
        [&[up], &between[..], &[last]].concat()
    }
    /// Checks that a path is live and connects two switches over different ones.
    pub fn check_path(&self, path: &[LinkIx], from: NodeIx, to: NodeIx) {
        let (mut at, mut seen) = (from, vec![from]);
        for link in path {
            assert!(self.alive[link.ix()], "{} is dead", self.topology.link_name(*link));
            assert_eq!(self.topology.link(*link).from, at, "the path is not connected");
            at = self.topology.link(*link).to;
            assert_eq!(self.topology.node(at).kind, NodeKind::Switch);
            assert!(!seen.contains(&at), "a switch twice");
            seen.push(at);
        }
        assert_eq!(at, to, "the path ends elsewhere");
    }
    fn default_path(&self, placements: &Placements, from: NodeIx, to: NodeIx, rng: &mut RandomStream) -> Vec<LinkIx> {
        let Some(DefaultRoutes::Hops(table)) = placements.default_routes() else {
            panic!("the balancer has set no default routes");
        };
        let (mut at, mut path) = (from, Vec::new());
        while at != to {
            let hops = table.get(at, to).expect("next hops");
            path.push(hops[draw(rng, hops.iter().map(|hop| hop.weight))].link);
            at = self.topology.link(path[path.len() - 1]).to;
        }
        path
    }
    /// Returns the max-min fair rates of flows, as shares of the rate of the first host's link.
    pub fn rates(&self, flows: &[FlowId], placements: &Placements, seed: u64) -> Vec<f64> {
        let mut rng = RandomStream::new(seed, "hashes");
        let paths: Vec<Vec<LinkIx>> = flows.iter().map(|flow| self.path(*flow, placements, &mut rng)).collect();
        let unit = self.topology.link(paths[0][0]).rate.as_bps_f64();
        let capacity: Vec<f64> = self.topology.links().iter().map(|link| link.rate.as_bps_f64() / unit).collect();
        max_min(&capacity, &paths)
    }
}

/// Draws a position in proportion to the weights.
fn draw(rng: &mut RandomStream, weights: impl Iterator<Item = u16> + Clone) -> usize {
    let weights = weights.map(u64::from);
    position_of_point(rng.next_below(weights.clone().sum()), weights).expect("weights add up")
}

/// Computes max-min fair rates: all grow alike until a link is full, which stops its flows.
pub fn max_min(capacity: &[f64], paths: &[Vec<LinkIx>]) -> Vec<f64> {
    let mut left = capacity.to_vec();
    let mut rates = vec![None; paths.len()];
    while rates.iter().any(Option::is_none) {
        let mut growing = vec![0u32; capacity.len()];
        for (path, _) in paths.iter().zip(&rates).filter(|(_, rate)| rate.is_none()) {
            path.iter().for_each(|link| growing[link.ix()] += 1);
        }
        let level = |link: usize, left: &[f64]| left[link] / f64::from(growing[link]);
        let filled = (0..capacity.len()).filter(|link| growing[*link] > 0);
        let lowest = filled.map(|link| level(link, &left)).fold(f64::INFINITY, f64::min);
        let is_full: Vec<bool> =
            (0..capacity.len()).map(|link| growing[link] > 0 && level(link, &left) <= lowest * (1.0 + 1e-9)).collect();
        for (path, rate) in paths.iter().zip(&mut rates) {
            if rate.is_none() && path.iter().any(|link| is_full[link.ix()]) {
                *rate = Some(lowest);
                path.iter().for_each(|link| left[link.ix()] -= lowest);
            }
        }
    }
    rates.into_iter().map(|rate| rate.expect("all have stopped")).collect()
}

pub fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

pub fn least(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

/// A central balancer with its network, placements and random stream.
pub struct DrivenBalancer {
    pub network: TestNetwork,
    pub balancer: Box<dyn CentralBalancer>,
    pub placements: Placements,
    rng: RandomStream,
}

impl DrivenBalancer {
    pub fn new(spec: &str, seed: u64, family: &str) -> DrivenBalancer {
        DrivenBalancer::on(spec, seed, TestNetwork::new(family))
    }
    /// Makes the balancer, which learns of the network.
    pub fn on(spec: &str, seed: u64, network: TestNetwork) -> DrivenBalancer {
        let spec = Spec::parse(spec).unwrap_or_else(|error| panic!("{error}"));
        let Build::Central(build) = spec.entry.build else { panic!("{} is not central", spec.entry.name) };
        let balancer = build(&CentralEnv { seed }, &spec.params);
        let (placements, rng) = (Placements::default(), RandomStream::new(seed, "central balancer"));
        let mut driven = DrivenBalancer { network, balancer, placements, rng };
        driven.decide(DecisionTrigger::NetworkChanged);
        driven
    }
    /// Runs a decision; like a controller, removes placements over dead links and ended flows.
    pub fn decide(&mut self, why: DecisionTrigger) {
        if why == DecisionTrigger::NetworkChanged {
            let is_dead = |path: &[LinkIx]| path.iter().any(|link| !self.network.alive[link.ix()]);
            let pins = self.placements.pins().iter();
            let dead: Vec<FlowId> = pins.filter(|(_, pin)| is_dead(&pin.path)).map(|(flow, _)| *flow).collect();
            dead.into_iter().for_each(|flow| self.placements.release(flow));
        }
        let (rng, view) = (&mut self.rng, &self.network.view());
        self.balancer.decide(&mut CentralCx { rng, view }, why, &mut self.placements);
        if let DecisionTrigger::FlowEnded(flow) = why {
            self.placements.release(flow);
        }
    }
    /// Runs the decision at the end of a period.
    pub fn period(&mut self) {
        self.decide(DecisionTrigger::PeriodElapsed);
    }
    /// Adds a flow that has sent `bytes` and tells the balancer.
    pub fn start(&mut self, src: u32, dst: u32, bytes: u64) -> FlowId {
        let flow = self.network.flow(src, dst, None);
        self.network.flows.get_mut(flow).unwrap().bytes = bytes;
        self.decide(DecisionTrigger::FlowStarted(flow));
        flow
    }
    /// Ends a flow and removes it.
    pub fn end(&mut self, flow: FlowId) {
        self.decide(DecisionTrigger::FlowEnded(flow));
        self.network.flows.remove(flow);
    }
    pub fn set_cable(&mut self, link: LinkIx, is_alive: bool) {
        self.network.set_cable(link, is_alive);
        self.decide(DecisionTrigger::NetworkChanged);
    }
    /// Returns the path of a pinned flow.
    pub fn pinned(&self, flow: FlowId) -> &Path {
        &self.placements.pin_of(flow).expect("a pinned flow").path
    }
    /// Returns the paths of every split.
    pub fn splits(&self) -> impl Iterator<Item = &[WeightedPath]> {
        self.placements.splits().values().map(|paths| &paths[..])
    }
    /// Returns the max-min fair rates of flows, as [`TestNetwork::rates`].
    pub fn rates(&self, flows: &[FlowId], seed: u64) -> Vec<f64> {
        self.network.rates(flows, &self.placements, seed)
    }
}

#[test]
fn max_min_fills_remaining_capacity() {
    let path = |links: &[u32]| links.iter().map(|link| LinkIx(*link)).collect::<Vec<_>>();
    let rates = max_min(&[1.0, 3.0], &[path(&[0, 1]), path(&[0, 1]), path(&[1])]);
    assert_eq!(rates, [0.5, 0.5, 2.0]);
}
