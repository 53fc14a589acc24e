//! A balancer that makes the decisions of a test's script.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use balance::central::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, DefaultRoutes, HopTable, NetworkView, NextHop, Path,
    Pin, Placements, WeightedPath,
};
use net::{Bandwidth, FiveTuple, LinkIx, NodeIx, NodeKind, Topology};

/// Paths by datapath ids, with their weights.
type SplitPaths = Vec<(Vec<u64>, u16)>;

/// Decisions of the test's balancer, and what it has received.
#[derive(Default)]
pub struct Script {
    /// Paths of flows by datapath ids; flows that are not listed are released.
    pub pins: BTreeMap<FiveTuple, Vec<u64>>,
    /// Flows that are pinned one after the other, in this order.
    pub order: Vec<FiveTuple>,
    /// Whether the reverse direction of TCP connections uses the same path.
    pub are_acks_along: bool,
    pub divisions: BTreeMap<(u64, u64), SplitPaths>,
    pub asked: Vec<DecisionTrigger>,
    pub rates: Vec<Bandwidth>,
    pub last_bytes: u64,
    /// Largest load of any link at its decisions.
    pub load: Vec<Bandwidth>,
}

/// A balancer with equal-cost default routes and the placements of a script.
pub struct Scripted {
    pub script: Arc<Mutex<Script>>,
    pub needs: CentralNeeds,
}

impl CentralBalancer for Scripted {
    fn needs(&self) -> CentralNeeds {
        self.needs
    }
    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        let mut script = self.script.lock().expect("no test panics while it holds the script");
        script.asked.push(why);
        script.rates.extend(view.flows.iter().filter_map(|(_, facts)| facts.rate));
        script.load.extend(view.load.iter().filter_map(|load| load.rate).max());
        if let DecisionTrigger::FlowEnded(flow) = why {
            script.last_bytes = view.flows.get(flow).expect("properties of a flow that ended").bytes;
        }
        if why == DecisionTrigger::NetworkChanged {
            placements.set_default_routes(equal_cost(view));
        }
        placements.set_acks_follow_path(script.are_acks_along);
        for flow in script.order.iter().filter_map(|tuple| view.flows.find(tuple)) {
            let names = view.flows.get(flow).and_then(|info| script.pins.get(&info.tuple));
            if let Some(path) = names.and_then(|names| path(view, names)) {
                placements.pin_in_order(flow, Pin { path, rate: None });
            }
        }
        for (flow, facts) in view.flows.iter() {
            match script.pins.get(&facts.tuple).and_then(|names| path(view, names)) {
                Some(path) => placements.pin(flow, Pin { path, rate: None }),
                None => placements.release(flow),
            }
        }
        let wanted = script.divisions.iter().filter_map(|((from, to), paths)| {
            let paths: Vec<WeightedPath> = paths
                .iter()
                .filter_map(|(names, weight)| Some(WeightedPath { path: path(view, names)?, weight: *weight }))
                .collect();
            Some((node(view.topology, *from)?, node(view.topology, *to)?, paths))
        });
        let wanted: Vec<_> = wanted.collect();
        let gone: Vec<_> = placements.splits().keys().copied().collect();
        for (from, to) in gone {
            if !wanted.iter().any(|(a, b, _)| (*a, *b) == (from, to)) {
                placements.split(from, to, Arc::new([]));
            }
        }
        for (from, to, paths) in wanted {
            placements.split(from, to, paths.into());
        }
    }
}

fn equal_cost(view: &NetworkView<'_>) -> DefaultRoutes {
    let mut table = HopTable::default();
    let switches = (0u32..).map(NodeIx).zip(view.topology.nodes()).filter(|(_, node)| node.kind == NodeKind::Switch);
    for (from, _) in switches {
        for class in 0..view.routes.class_count() {
            let class = net::routes::ClassIx(class as u32);
            let to = view.routes.class_node(class);
            let hops: Vec<NextHop> =
                view.routes.next_hops(from, class).iter().map(|link| NextHop { link: *link, weight: 1 }).collect();
            if !hops.is_empty() && view.topology.node(to).kind == NodeKind::Switch {
                table.insert(from, to, hops.into());
            }
        }
    }
    DefaultRoutes::Hops(Arc::new(table))
}

fn node(topology: &Topology, datapath: u64) -> Option<NodeIx> {
    let name = format!("{datapath:016x}");
    topology.nodes().iter().position(|node| node.name == name).map(|ix| NodeIx(ix as u32))
}

fn path(view: &NetworkView<'_>, names: &[u64]) -> Option<Path> {
    let nodes: Option<Vec<NodeIx>> = names.iter().map(|name| node(view.topology, *name)).collect();
    let link = |ends: &[NodeIx]| {
        let out = view.topology.out_links(ends[0]).iter().copied();
        out.into_iter().find(|link| view.topology.link(*link).to == ends[1] && view.alive[link.ix()])
    };
    nodes?.windows(2).map(link).collect::<Option<Vec<LinkIx>>>().map(Into::into)
}
