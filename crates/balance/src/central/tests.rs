//! Invariants of every central balancer in the registry, on random networks, flows, counters and
//! link failures. After each decision the default routes lead everywhere without loops, and paths
//! are live and connect the right switches. The same inputs give the same results.

use std::collections::{BTreeMap, BTreeSet};

use net::{Bandwidth, FiveTuple, HostIx, LinkIx, NodeIx, NodeKind, RandomStream, Routes, Time, address};
use proptest::prelude::*;

use super::testing::DrivenBalancer;
use super::{DecisionTrigger, DefaultRoutes, FlowId, FlowInfo, FlowSource, LinkLoad};
use crate::registry::CENTRAL;

/// Specifications beyond the examples and the defaults, so that every branch is covered.
const MORE: &[&str] = &[
    "sdn-spt:tie=dst_host",
    "sdn-spt:tie=pair",
    "sdn-vlb:paths=2",
    "sdn-spain:k=2",
    "hedera:placer=worst-fit,reservation=within_round",
    "hedera:default_routes=spt,detect=agents,placer=sa",
    "ofpt:max_paths=2,paths=spread,provision=fair,adopt=always",
    "ofpt:batch=printed,provision=fractional,eps=0.3",
    "microte:detect=first-packets,window=3",
    "partial-te:detect=first-packets,quanta=3,gain=0,eps=0.3",
    "diffserv-te:classes=10.0.0.0/30=2;10.0.0.4/30=1;default=0,constraints=100;60;30",
    "diffserv-te:classes=10.0.0.0/29=1;default=0,constraints=50;40,model=mam,preemption=off,headroom=3,metric=delay",
    "b4:detect=first-packets,metric=hops,tunnels=2,quanta=3",
    "fdalb:window=4,capacity=remaining",
    "freeway:paths=4,detect=agents",
    "laberio:threshold=0,moves=50",
    "laberio:threshold=0,detect=pairs",
    "laberio:detect=agents",
    "central-te:detect=first-packets,demand=measured",
    "central-te:detect=agents,threshold=0",
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

impl DrivenBalancer {
    /// Fails or restores cables; splits over dead ones are removed first, pins by the decision.
    fn change_links(&mut self, change: impl Fn(&mut [bool])) {
        change(&mut self.network.alive);
        self.network.routes = Routes::new(&self.network.topology, &self.network.alive);
        let is_live = |path: &[LinkIx]| path.iter().all(|link| self.network.alive[link.ix()]);
        let mut pairs = Vec::new();
        for (pair, paths) in self.placements.splits() {
            let live: Vec<_> = paths.iter().filter(|path| is_live(&path.path)).cloned().collect();
            if live.len() < paths.len() {
                pairs.push((*pair, live));
            }
        }
        pairs.into_iter().for_each(|((from, to), live)| self.placements.split(from, to, live.into()));
        self.decide(DecisionTrigger::NetworkChanged);
    }

    fn start_any(&mut self, rng: &mut RandomStream) {
        let hosts = self.network.topology.hosts().len() as u64;
        let (src, dst) = (HostIx(rng.next_below(hosts) as u32), HostIx(rng.next_below(hosts) as u32));
        if src == dst {
            return;
        }
        let has_ports = self.balancer.needs().flows != FlowSource::Pairs;
        let src_port = if has_ports { rng.next_below(60_000) as u16 } else { 0 };
        let (from, to) = (address::host_ipv4(src), address::host_ipv4(dst));
        let tuple = FiveTuple { src: from, dst: to, protocol: 6, src_port, dst_port: 80 };
        if self.network.flows.find(&tuple).is_some() {
            return;
        }
        let size = (rng.next_below(2) == 0).then(|| 1 + rng.next_below(10_000_000));
        let bytes = self.placements.report_threshold_bytes() + rng.next_below(1000);
        let info = FlowInfo { tuple, src, dst, started: self.network.now, bytes, rate: None, size };
        let flow = self.network.flows.insert(info);
        self.decide(DecisionTrigger::FlowStarted(flow));
    }

    fn end_any(&mut self, rng: &mut RandomStream) {
        let flows: Vec<FlowId> = self.network.flows.iter().map(|(flow, _)| flow).collect();
        if flows.is_empty() {
            return;
        }
        self.end(flows[rng.next_below(flows.len() as u64) as usize]);
    }

    fn period_with_any_counters(&mut self, rng: &mut RandomStream) {
        self.network.now += Time::from_s(1);
        let flows: Vec<FlowId> = self.network.flows.iter().map(|(flow, _)| flow).collect();
        for flow in flows {
            let info = self.network.flows.get_mut(flow).unwrap();
            info.bytes += rng.next_below(10_000_000);
            info.rate = Some(Bandwidth::from_bps(rng.next_below(10_000_000_000)));
        }
        for (link, load) in self.network.topology.links().iter().zip(&mut self.network.load) {
            let rate = Bandwidth::from_bps(rng.next_below(link.rate.as_bps() + 1));
            *load = LinkLoad { rate: Some(rate), at: self.network.now };
        }
        self.period();
    }

    fn edge(&self, host: HostIx) -> NodeIx {
        self.network.routes.class_node(self.network.routes.class_of(host))
    }

    fn check(&self) {
        self.check_default_routes();
        for (flow, pin) in self.placements.pins().iter() {
            let info = self.network.flows.get(*flow).expect("the pin of a flow that has ended is gone");
            self.network.check_path(&pin.path, self.edge(info.src), self.edge(info.dst));
            assert!(pin.rate.is_none_or(|rate| rate.as_bps() > 0));
        }
        for ((from, to), paths) in self.placements.splits() {
            assert!(!paths.is_empty() && paths.iter().all(|path| path.weight > 0));
            assert!(paths.iter().map(|path| &path.path).collect::<BTreeSet<_>>().len() == paths.len(), "a path twice");
            paths.iter().for_each(|path| self.network.check_path(&path.path, *from, *to));
        }
    }

    /// Checks that next hops are live, exist for each reachable destination, and do not loop.
    fn check_default_routes(&self) {
        let Some(DefaultRoutes::Hops(table)) = self.placements.default_routes() else {
            panic!("the balancer has set no default routes")
        };
        let mut by_edge: BTreeMap<NodeIx, Vec<(NodeIx, NodeIx)>> = BTreeMap::new();
        let rows = table.columns().flat_map(|(edge, column)| column.rows().iter().map(move |row| (edge, row)));
        for (edge, (at, hops)) in rows {
            assert!(!hops.is_empty() && hops.iter().all(|hop| hop.weight > 0 && self.network.alive[hop.link.ix()]));
            assert!(hops.iter().all(|hop| self.network.topology.link(hop.link).from == *at));
            by_edge
                .entry(edge)
                .or_default()
                .extend(hops.iter().map(|hop| (*at, self.network.topology.link(hop.link).to)));
        }
        let edges: BTreeSet<NodeIx> =
            (0..self.network.topology.hosts().len() as u32).map(|host| self.edge(HostIx(host))).collect();
        for edge in edges {
            let class = self.network.routes.class_at(edge).unwrap();
            let steps = by_edge.remove(&edge).unwrap_or_default();
            assert!(is_without_loops(&steps), "packets to {} loop", self.network.topology.node(edge).name);
            for node in (0..self.network.topology.nodes().len() as u32).map(NodeIx) {
                let is_switch = self.network.topology.node(node).kind == NodeKind::Switch;
                let is_reachable = node != edge && self.network.routes.path_count(node, class) > 0;
                assert_eq!(table.get(node, edge).is_some(), is_switch && is_reachable);
            }
            // Without loops, a path along next hops ends at the only node that needs none.
            assert!(steps.iter().all(|(_, to)| *to == edge || table.get(*to, edge).is_some()));
        }
        assert!(by_edge.is_empty(), "next hops to where no hosts are");
    }
}

/// Returns whether steps contain no loop, by removing nodes without an incoming step.
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
    let mut driven = DrivenBalancer::new(spec, seed, family);
    let mut rng = RandomStream::new(seed, "history");
    driven.check();
    let mut trace = format!("{:?}", driven.placements.take_changes());
    let cables = driven.network.topology.links().len() as u64 / 2;
    for _ in 0..60 {
        match rng.next_below(10) {
            0..=4 => driven.start_any(&mut rng),
            5 => driven.end_any(&mut rng),
            6..=7 => driven.period_with_any_counters(&mut rng),
            8 => {
                let link = LinkIx(2 * rng.next_below(cables) as u32);
                // A whole cable, or one direction of it.
                let both = rng.next_below(3) > 0;
                driven.change_links(|alive| {
                    alive[link.ix()] = false;
                    alive[link.reverse().ix()] &= !both;
                });
            }
            _ => driven.change_links(|alive| alive.fill(true)),
        }
        driven.check();
        trace += &format!("{:?}", driven.placements.take_changes());
    }
    trace + &format!("{:?}", driven.placements)
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
