//! Invariants of every central balancer in the registry, on random networks, flows, counters and
//! link failures. After each decision the default routes lead everywhere without loops, and paths
//! are live and connect the right switches. The same inputs give the same results.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_balance::central::{
    CentralBalancer, CentralCx, CentralEnv, DecisionTrigger, DefaultRoutes, FlowId, FlowInfo, FlowSource, FlowTable,
    LinkLoad, NetworkView, Placements,
};
use anabranch_balance::registry::CENTRAL;
use anabranch_balance::{Build, Spec};
use net::{Bandwidth, FiveTuple, HostIx, LinkIx, NodeIx, NodeKind, RandomStream, Routes, Time, Topology, address};
use proptest::prelude::*;

/// Specifications beyond the examples and the defaults, so that every branch is covered.
const MORE: &[&str] = &[
    "sdn-spt:tie=dst_host",
    "sdn-spt:tie=pair",
    "sdn-vlb:paths=2",
    "sdn-spain:k=2",
    "hedera:placer=worst-fit,bookkeeping=within_round",
    "hedera:placer=sa,detect=agents,base=spt",
    "ofpt:max_paths=2,paths=spread,provision=fair,adopt=always",
    "ofpt:batch=printed,provision=fractional,eps=0.3",
    "microte:detect=first-packets,window=3",
    "fdalb:window=4,capacity=remaining",
    "freeway:paths=4,detect=agents",
];

const NETWORKS: &[&str] = &[
    "fat-tree:k=4",
    "fat-tree:k=4,hosts_per_edge=5",
    "leaf-spine:leaves=3,spines=3,hosts_per_leaf=2,parallel=2",
    "leaf-spine:leaves=1,spines=2,hosts_per_leaf=3",
    "vl2:d0=2,d1=4,d2=4,hosts_per_tor=2",
    "geni-wan",
    "flattened-butterfly:k=3,n=3",
    "diamond",
    "single-switch",
];

/// A controller's view and its balancer.
struct Network {
    topology: Topology,
    alive: Vec<bool>,
    routes: Routes,
    load: Vec<LinkLoad>,
    flows: FlowTable,
    now: Time,
    balancer: Box<dyn CentralBalancer>,
    placements: Placements,
    rng: RandomStream,
}

impl Network {
    fn new(family: &str, spec: &str, seed: u64) -> Network {
        let topology = net::spec::parse(family).unwrap_or_else(|error| panic!("{error}"));
        let spec = Spec::parse(spec).unwrap_or_else(|error| panic!("{error}"));
        let Build::Central(build) = spec.entry.build else { panic!("{} is not central", spec.entry.name) };
        let links = topology.links().len();
        Network {
            alive: vec![true; links],
            routes: Routes::intact(&topology),
            load: vec![LinkLoad::default(); links],
            flows: FlowTable::default(),
            now: Time::ZERO,
            balancer: build(&CentralEnv { seed }, &spec.params),
            placements: Placements::default(),
            rng: RandomStream::new(seed, "central balancer"),
            topology,
        }
    }

    fn decide(&mut self, why: DecisionTrigger) {
        let view = NetworkView {
            now: self.now,
            topology: &self.topology,
            alive: &self.alive,
            routes: &self.routes,
            load: &self.load,
            flows: &self.flows,
        };
        self.balancer.decide(&mut CentralCx { rng: &mut self.rng }, &view, why, &mut self.placements);
    }

    /// Fails or restores cables; placements over dead ones are removed first.
    fn change_links(&mut self, change: impl Fn(&mut [bool])) {
        change(&mut self.alive);
        self.routes = Routes::new(&self.topology, &self.alive);
        let is_live = |path: &[LinkIx]| path.iter().all(|link| self.alive[link.ix()]);
        let pins = self.placements.pins().iter();
        let dead: Vec<FlowId> = pins.filter(|(_, pin)| !is_live(&pin.path)).map(|(flow, _)| *flow).collect();
        let mut pairs = Vec::new();
        for (pair, paths) in self.placements.splits() {
            let live: Vec<_> = paths.iter().filter(|path| is_live(&path.path)).cloned().collect();
            if live.len() < paths.len() {
                pairs.push((*pair, live));
            }
        }
        dead.into_iter().for_each(|flow| self.placements.release(flow));
        pairs.into_iter().for_each(|((from, to), live)| self.placements.split(from, to, live.into()));
        self.decide(DecisionTrigger::NetworkChanged);
    }

    fn start(&mut self, rng: &mut RandomStream) {
        let hosts = self.topology.hosts().len() as u64;
        let (src, dst) = (HostIx(rng.next_below(hosts) as u32), HostIx(rng.next_below(hosts) as u32));
        if src == dst {
            return;
        }
        let has_ports = self.balancer.needs().flows != FlowSource::Pairs;
        let src_port = if has_ports { rng.next_below(60_000) as u16 } else { 0 };
        let (from, to) = (address::host_ipv4(src), address::host_ipv4(dst));
        let tuple = FiveTuple { src: from, dst: to, protocol: 6, src_port, dst_port: 80 };
        if self.flows.find(&tuple).is_some() {
            return;
        }
        let size = (rng.next_below(2) == 0).then(|| 1 + rng.next_below(10_000_000));
        let bytes = self.placements.report_threshold_bytes() + rng.next_below(1000);
        let info = FlowInfo { tuple, src, dst, started: self.now, bytes, rate: None, size };
        let flow = self.flows.insert(info);
        self.decide(DecisionTrigger::FlowStarted(flow));
    }

    fn end(&mut self, rng: &mut RandomStream) {
        let flows: Vec<FlowId> = self.flows.iter().map(|(flow, _)| flow).collect();
        if flows.is_empty() {
            return;
        }
        let flow = flows[rng.next_below(flows.len() as u64) as usize];
        self.decide(DecisionTrigger::FlowEnded(flow));
        self.flows.remove(flow);
        self.placements.release(flow);
    }

    /// Sets new counters, then ends a period.
    fn period(&mut self, rng: &mut RandomStream) {
        self.now += Time::from_s(1);
        let flows: Vec<FlowId> = self.flows.iter().map(|(flow, _)| flow).collect();
        for flow in flows {
            let info = self.flows.get_mut(flow).unwrap();
            info.bytes += rng.next_below(10_000_000);
            info.rate = Some(Bandwidth::from_bps(rng.next_below(10_000_000_000)));
        }
        for (link, load) in self.topology.links().iter().zip(&mut self.load) {
            *load = LinkLoad { rate: Some(Bandwidth::from_bps(rng.next_below(link.rate.as_bps() + 1))), at: self.now };
        }
        self.decide(DecisionTrigger::PeriodElapsed);
    }

    fn edge(&self, host: HostIx) -> NodeIx {
        self.routes.class_node(self.routes.class_of(host))
    }

    fn check(&self) {
        self.check_default_routes();
        for (flow, pin) in self.placements.pins() {
            let info = self.flows.get(*flow).expect("the pin of a flow that has ended is gone");
            self.check_path(&pin.path, self.edge(info.src), self.edge(info.dst));
            assert!(pin.rate.is_none_or(|rate| rate.as_bps() > 0));
        }
        for ((from, to), paths) in self.placements.splits() {
            assert!(!paths.is_empty() && paths.iter().all(|path| path.weight > 0));
            assert!(paths.iter().map(|path| &path.path).collect::<BTreeSet<_>>().len() == paths.len(), "a path twice");
            paths.iter().for_each(|path| self.check_path(&path.path, *from, *to));
        }
    }

    fn check_path(&self, path: &[LinkIx], from: NodeIx, to: NodeIx) {
        let (mut at, mut seen) = (from, BTreeSet::from([from]));
        for link in path {
            assert!(self.alive[link.ix()], "{} is dead", self.topology.link_name(*link));
            assert_eq!(self.topology.link(*link).from, at, "the path is not connected");
            at = self.topology.link(*link).to;
            assert_eq!(self.topology.node(at).kind, NodeKind::Switch);
            assert!(seen.insert(at), "a switch twice");
        }
        assert_eq!(at, to, "the path ends elsewhere");
    }

    /// Checks that every next hop is live, that each reachable destination has some, and that none
    /// leads into a loop.
    fn check_default_routes(&self) {
        let Some(DefaultRoutes::Hops(table)) = self.placements.default_routes() else {
            panic!("the balancer has set no default routes")
        };
        let mut by_edge: BTreeMap<NodeIx, Vec<(NodeIx, NodeIx)>> = BTreeMap::new();
        for ((at, edge), hops) in &table.0 {
            assert!(!hops.is_empty() && hops.iter().all(|hop| hop.weight > 0 && self.alive[hop.link.ix()]));
            assert!(hops.iter().all(|hop| self.topology.link(hop.link).from == *at));
            by_edge.entry(*edge).or_default().extend(hops.iter().map(|hop| (*at, self.topology.link(hop.link).to)));
        }
        let edges: BTreeSet<NodeIx> =
            (0..self.topology.hosts().len() as u32).map(|host| self.edge(HostIx(host))).collect();
        for edge in edges {
            let class = self.routes.class_at(edge).unwrap();
            let steps = by_edge.remove(&edge).unwrap_or_default();
            assert!(is_without_loops(&steps), "packets to {} loop", self.topology.node(edge).name);
            for node in (0..self.topology.nodes().len() as u32).map(NodeIx) {
                let is_switch = self.topology.node(node).kind == NodeKind::Switch;
                let is_reachable = node != edge && self.routes.path_count(node, class) > 0;
                assert_eq!(table.0.contains_key(&(node, edge)), is_switch && is_reachable);
            }
            // Without loops, a path along next hops ends at the only node that needs none.
            assert!(steps.iter().all(|(_, to)| *to == edge || table.0.contains_key(&(*to, edge))));
        }
        assert!(by_edge.is_empty(), "next hops to where no hosts are");
    }
}

/// Returns whether directed steps contain no loop: nodes without an incoming step are removed until
/// none are left.
fn is_without_loops(steps: &[(NodeIx, NodeIx)]) -> bool {
    let mut left = steps.to_vec();
    while !left.is_empty() {
        let targets: BTreeSet<NodeIx> = left.iter().map(|(_, to)| *to).collect();
        let before = left.len();
        left.retain(|(from, _)| targets.contains(from));
        if left.len() == before {
            return false;
        }
    }
    true
}

/// Runs a random history; returns the desired state at the end and every change before.
fn history(family: &str, spec: &str, seed: u64) -> String {
    let mut network = Network::new(family, spec, seed);
    let mut rng = RandomStream::new(seed, "history");
    network.decide(DecisionTrigger::NetworkChanged);
    network.check();
    let mut trace = format!("{:?}", network.placements.take_changes());
    let cables = network.topology.links().len() as u64 / 2;
    for _ in 0..60 {
        match rng.next_below(10) {
            0..=4 => network.start(&mut rng),
            5 => network.end(&mut rng),
            6..=7 => network.period(&mut rng),
            8 => {
                let link = LinkIx(2 * rng.next_below(cables) as u32);
                // A whole cable, or one direction of it.
                let both = rng.next_below(3) > 0;
                network.change_links(|alive| {
                    alive[link.ix()] = false;
                    alive[link.reverse().ix()] &= !both;
                });
            }
            _ => network.change_links(|alive| alive.fill(true)),
        }
        network.check();
        trace += &format!("{:?}", network.placements.take_changes());
    }
    trace + &format!("{:?}", network.placements)
}

fn specs() -> Vec<&'static str> {
    CENTRAL.iter().flat_map(|entry| [entry.name, entry.example]).chain(MORE.iter().copied()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]
    #[test]
    fn random_histories_keep_invariants(
        spec in prop::sample::select(specs()),
        family in prop::sample::select(NETWORKS),
        seed in any::<u64>(),
    ) {
        let once = history(family, spec, seed);
        prop_assert_eq!(once, history(family, spec, seed), "the same inputs gave other answers");
    }
}

#[test]
fn every_entry_survives_one_history_on_every_network() {
    for spec in specs() {
        NETWORKS.iter().for_each(|family| drop(history(family, spec, 7)));
    }
}

#[test]
fn the_checker_can_fail() {
    let nodes = |steps: &[(u32, u32)]| steps.iter().map(|(a, b)| (NodeIx(*a), NodeIx(*b))).collect::<Vec<_>>();
    assert!(is_without_loops(&nodes(&[(0, 1), (0, 2), (1, 3), (2, 3)])));
    assert!(!is_without_loops(&nodes(&[(0, 1), (1, 2), (2, 1), (2, 3)])));
}
