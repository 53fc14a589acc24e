//! Where hosts are: edge switches, and the links of hosts.

use std::collections::VecDeque;

use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, NodeKind};

use crate::central::{FlowFacts, NetworkView};

/// Between which switches a flow travels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ends {
    /// The switch of its source.
    pub from: NodeIx,
    /// The destinations that share the switch of its destination.
    pub to: ClassIx,
}

/// The ends of a flow; `None` where a host is unknown or has no switch of its own, or nothing is to be chosen because both
/// have the same.
pub fn ends(view: &NetworkView<'_>, facts: &FlowFacts) -> Option<Ends> {
    let (from, to) = (edge_of(view, facts.src)?, edge_of(view, facts.dst)?);
    (from != to).then(|| Ends { from: view.routes.class_node(from), to })
}

/// The class of a host, if it is that of a switch: hosts with several links belong to none.
pub fn edge_of(view: &NetworkView<'_>, host: HostIx) -> Option<ClassIx> {
    view.topology.hosts().get(host.ix())?;
    let class = view.routes.class_of(host);
    is_switch(view, view.routes.class_node(class)).then_some(class)
}

/// Every switch that has hosts, by class.
pub fn edges<'a>(view: &NetworkView<'a>) -> impl Iterator<Item = (NodeIx, ClassIx)> + Clone + use<'a> {
    let NetworkView { topology, routes, .. } = *view;
    let classes = (0..routes.class_count() as u32).map(ClassIx);
    let with_node = classes.map(|class| (routes.class_node(class), class));
    with_node.filter(|(node, _)| topology.node(*node).kind == NodeKind::Switch)
}

/// Every ordered pair of different switches with hosts that have a path: (switch, class of the other).
pub fn pairs<'a>(view: &NetworkView<'a>) -> impl Iterator<Item = (NodeIx, ClassIx)> + use<'a> {
    let (view, all) = (*view, edges(view));
    let to = all.clone();
    all.flat_map(move |(from, own)| to.clone().filter(move |(_, to)| *to != own).map(move |(_, to)| (from, to)))
        .filter(move |(from, to)| view.routes.path_count(*from, *to) > 0)
}

/// Whether a node is a switch.
pub fn is_switch(view: &NetworkView<'_>, node: NodeIx) -> bool {
    view.topology.node(node).kind == NodeKind::Switch
}

/// Rate of the first link of a host, bits per second.
pub fn host_rate(view: &NetworkView<'_>, host: HostIx) -> f64 {
    let up = view.topology.out_links(view.topology.host(host)).first();
    up.map_or(0.0, |up| view.topology.link(*up).rate.as_bps_f64())
}

/// Rate of a link, bits per second.
pub fn rate_of(view: &NetworkView<'_>, link: LinkIx) -> f64 {
    view.topology.link(link).rate.as_bps_f64()
}

/// Bits per second measured on a link; 0 where nothing is known.
pub fn measured(view: &NetworkView<'_>, link: LinkIx) -> f64 {
    view.load.get(link.ix()).and_then(|load| load.rate).map_or(0.0, net::Bandwidth::as_bps_f64)
}

/// By node: links to the nearest switch with hosts, through switches; 0 for those themselves, `u16::MAX` for others.
///
/// It stands for the tier of a switch, which discovery does not tell.
pub fn levels(view: &NetworkView<'_>) -> Vec<u16> {
    let mut levels = vec![u16::MAX; view.topology.nodes().len()];
    let mut queue: VecDeque<NodeIx> = edges(view).map(|(node, _)| node).collect();
    queue.iter().for_each(|node| levels[node.ix()] = 0);
    while let Some(node) = queue.pop_front() {
        for link in view.topology.out_links(node) {
            let far = view.topology.link(*link).to;
            if is_switch(view, far) && levels[far.ix()] == u16::MAX {
                levels[far.ix()] = levels[node.ix()] + 1;
                queue.push_back(far);
            }
        }
    }
    levels
}
