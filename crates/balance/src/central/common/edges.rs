//! Edge switches, and the links of hosts.

use std::collections::VecDeque;

use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, NodeKind};

use crate::central::{FlowInfo, NetworkView};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ends {
    /// The switch of its source.
    pub from: NodeIx,
    /// The class of the destinations behind its last switch.
    pub to: ClassIx,
}

/// Returns the ends of a flow; `None` if a host is unknown or is not behind a single switch, or if
/// both hosts share a switch, so that there is no choice of paths.
pub fn ends(view: &NetworkView<'_>, info: &FlowInfo) -> Option<Ends> {
    let (from, to) = (edge_of(view, info.src)?, edge_of(view, info.dst)?);
    (from != to).then(|| Ends { from: view.routes.class_node(from), to })
}

/// Returns the class of a host if it is that of a switch: hosts with several links have none.
pub fn edge_of(view: &NetworkView<'_>, host: HostIx) -> Option<ClassIx> {
    view.topology.hosts().get(host.ix())?;
    let class = view.routes.class_of(host);
    is_switch(view, view.routes.class_node(class)).then_some(class)
}

pub fn edges<'a>(view: &NetworkView<'a>) -> impl Iterator<Item = (NodeIx, ClassIx)> + Clone + use<'a> {
    let NetworkView { topology, routes, .. } = *view;
    let classes = (0..routes.class_count() as u32).map(ClassIx);
    let with_node = classes.map(|class| (routes.class_node(class), class));
    with_node.filter(|(node, _)| topology.node(*node).kind == NodeKind::Switch)
}

/// Returns every ordered pair of switches with hosts and a path.
pub fn pairs<'a>(view: &NetworkView<'a>) -> impl Iterator<Item = Ends> + use<'a> {
    let (view, all) = (*view, edges(view));
    let to = all.clone();
    all.flat_map(move |(from, own)| to.clone().filter(move |(_, to)| *to != own).map(move |(_, to)| Ends { from, to }))
        .filter(move |ends| view.routes.path_count(ends.from, ends.to) > 0)
}

pub fn is_switch(view: &NetworkView<'_>, node: NodeIx) -> bool {
    view.topology.node(node).kind == NodeKind::Switch
}

/// Returns the rate of the first link of a host, bits per second.
pub fn host_rate(view: &NetworkView<'_>, host: HostIx) -> f64 {
    let up = view.topology.out_links(view.topology.host(host)).first();
    up.map_or(0.0, |up| view.topology.link(*up).rate.as_bps_f64())
}

/// Returns the rate of a link, bits per second.
pub fn rate_of(view: &NetworkView<'_>, link: LinkIx) -> f64 {
    view.topology.link(link).rate.as_bps_f64()
}

/// Returns the measured load of a link, bits per second; 0 if unknown.
pub fn measured(view: &NetworkView<'_>, link: LinkIx) -> f64 {
    view.load.get(link.ix()).and_then(|load| load.rate).map_or(0.0, net::Bandwidth::as_bps_f64)
}

/// Reads the measured loads of all links, as [`measured`] does, by link.
pub fn read_loads(view: &NetworkView<'_>, into: &mut Vec<f64>) {
    into.clear();
    into.extend((0..view.topology.links().len() as u32).map(|link| measured(view, LinkIx(link))));
}

/// Returns whether a link is alive and joins two switches.
pub fn is_usable(view: &NetworkView<'_>, link: LinkIx) -> bool {
    let ends = view.topology.link(link);
    view.alive[link.ix()] && is_switch(view, ends.from) && is_switch(view, ends.to)
}

/// Returns, by node, the number of links to the nearest switch with hosts, through switches; 0 for
/// these switches, `u16::MAX` for unconnected nodes.
///
/// It replaces the tier of a switch, which discovery does not report.
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
