//! A network, flows and a central balancer for tests, with the rates of an ideal transport.

use net::{Bandwidth, FiveTuple, HostIx, LinkIx, NodeIx, RandomStream, Routes, Time, Topology, address};

use super::{
    CentralBalancer, CentralCx, CentralEnv, DecisionTrigger, DefaultRoutes, FlowId, FlowInfo, FlowTable, LinkLoad,
    NetworkView, Placements,
};
use crate::entry::Build;
use crate::registry::Spec;

pub struct TestNetwork {
    pub topology: Topology,
    pub alive: Vec<bool>,
    pub routes: Routes,
    pub load: Vec<LinkLoad>,
    pub flows: FlowTable,
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
            now: Time::ZERO,
            next_port: 1,
            topology,
        }
    }
    pub fn view(&self) -> NetworkView<'_> {
        NetworkView {
            now: self.now,
            topology: &self.topology,
            alive: &self.alive,
            routes: &self.routes,
            load: &self.load,
            flows: &self.flows,
        }
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
            (None, Some(paths)) => {
                let mut at = rng.next_below(paths.iter().map(|path| u64::from(path.weight)).sum());
                let chosen = paths.iter().find(|path| match at.checked_sub(u64::from(path.weight)) {
                    Some(rest) => {
                        at = rest;
                        false
                    }
                    None => true,
                });
                chosen.expect("weights add up").path.to_vec()
            }
            (None, None) => self.default_path(placements, from, to, rng),
        };
        let last = self.routes.last_link(info.dst).expect("hosts have one link");
        [&[up], &between[..], &[last]].concat()
    }
    fn default_path(&self, placements: &Placements, from: NodeIx, to: NodeIx, rng: &mut RandomStream) -> Vec<LinkIx> {
        let Some(DefaultRoutes::Hops(table)) = placements.default_routes() else {
            panic!("the balancer has set no default routes");
        };
        let (mut at, mut path) = (from, Vec::new());
        while at != to {
            let hops = &table.0[&(at, to)];
            let mut point = rng.next_below(hops.iter().map(|hop| u64::from(hop.weight)).sum());
            let taken = hops.iter().find(|hop| match point.checked_sub(u64::from(hop.weight)) {
                Some(rest) => {
                    point = rest;
                    false
                }
                None => true,
            });
            path.push(taken.expect("weights add up").link);
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

/// A central balancer with its placements and random stream.
pub struct DrivenBalancer {
    pub balancer: Box<dyn CentralBalancer>,
    pub placements: Placements,
    rng: RandomStream,
}

impl DrivenBalancer {
    pub fn new(spec: &str, seed: u64, network: &TestNetwork) -> DrivenBalancer {
        let spec = Spec::parse(spec).unwrap_or_else(|error| panic!("{error}"));
        let Build::Central(build) = spec.entry.build else { panic!("{} is not central", spec.entry.name) };
        let balancer = build(&CentralEnv { seed }, &spec.params);
        let mut driven = DrivenBalancer {
            balancer,
            placements: Placements::default(),
            rng: RandomStream::new(seed, "central balancer"),
        };
        driven.decide(network, DecisionTrigger::NetworkChanged);
        driven
    }
    /// Runs a decision; like a controller, removes placements over dead links and ended flows.
    pub fn decide(&mut self, network: &TestNetwork, why: DecisionTrigger) {
        if why == DecisionTrigger::NetworkChanged {
            let is_dead = |path: &[LinkIx]| path.iter().any(|link| !network.alive[link.ix()]);
            let pins = self.placements.pins().iter();
            let dead: Vec<FlowId> = pins.filter(|(_, pin)| is_dead(&pin.path)).map(|(flow, _)| *flow).collect();
            dead.into_iter().for_each(|flow| self.placements.release(flow));
        }
        let (rng, view) = (&mut self.rng, &network.view());
        self.balancer.decide(&mut CentralCx { rng, view }, why, &mut self.placements);
        if let DecisionTrigger::FlowEnded(flow) = why {
            self.placements.release(flow);
        }
    }
}

#[test]
fn max_min_fills_remaining_capacity() {
    let path = |links: &[u32]| links.iter().map(|link| LinkIx(*link)).collect::<Vec<_>>();
    let rates = max_min(&[1.0, 3.0], &[path(&[0, 1]), path(&[0, 1]), path(&[1])]);
    assert_eq!(rates, [0.5, 0.5, 2.0]);
}
