//! Next hops that avoid unconfirmed switches.
//!
//! A disconnected switch keeps its rules, one that has just connected has those of a previous
//! controller instance until it confirms new ones, and one that does not confirm has the old or the
//! new ones. The controller knows these rules. The next hops of the balancer have no cycle;
//! combined with such rules they may have one.
//!
//! *Rule.* No switch sends packets to an unconfirmed one from which they may return. *Claim.* Then
//! every cycle consists of old rules alone. *Proof.* Desired next hops have no cycle, so a cycle
//! contains an old one, of an unconfirmed switch. Follow the cycle backwards from it: the first
//! desired next hop on it leads to an unconfirmed switch from which the cycle returns. ∎
//!
//! Old rules may send packets out of ports with unknown peers. If there are disconnected switches,
//! such packets may return through any other port with an unknown peer.
//!
//! No packet is sent to an unconfirmed switch that may have no rule for it either.
//!
//! Next hops removed by this rule are replaced by shortest paths that avoid those switches. If
//! there is no such path, packets are dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use balance::central::NextHop;
use net::{LinkIx, NodeIx};

use crate::observer::network::Network;
use crate::planner::update_order::Graph;

pub(crate) type Hops = BTreeMap<NodeIx, Arc<[NextHop]>>;

/// Returns next hops towards `to` that cannot loop with those of unconfirmed switches (`old`), or
/// `None` if the desired ones cannot.
///
/// `blocked` are unconfirmed switches that may have no rule for some address at `to`.
pub(crate) fn avoid(
    wanted: &Hops,
    old: &Graph,
    blocked: &BTreeSet<NodeIx>,
    to: NodeIx,
    network: &Network,
) -> Option<Hops> {
    let mut avoided = BTreeSet::new();
    let mut hops = wanted.clone();
    loop {
        let bad = bad_links(&hops, old, blocked, network);
        if bad.is_empty() {
            return (!avoided.is_empty()).then_some(hops);
        }
        let before = avoided.len();
        avoided.extend(bad.iter().filter_map(|link| network.far_end(*link)));
        if avoided.len() == before {
            drop_links(&mut hops, &bad);
            return Some(hops);
        }
        hops = wanted.clone();
        hops.extend(shortest(to, &avoided, network));
    }
}

/// Returns the links to switches of `old` from which packets may return, and to blocked switches.
fn bad_links(hops: &Hops, old: &Graph, blocked: &BTreeSet<NodeIx>, network: &Network) -> BTreeSet<LinkIx> {
    let mut all = old.clone();
    for (node, next) in hops {
        all.entry(*node).or_default().extend(next.iter().filter_map(|hop| network.far_end(hop.link)));
    }
    let is_blocked = |link: &LinkIx| network.far_end(*link).is_some_and(|node| blocked.contains(&node));
    let mut bad: BTreeSet<LinkIx> = hops.values().flat_map(|next| next.iter().map(|hop| hop.link)).collect();
    bad.retain(is_blocked);
    for unconfirmed in old.keys() {
        let beyond = reached(&all, *unconfirmed);
        for next in hops.iter().filter(|(node, _)| beyond.contains(node)).map(|(_, next)| next) {
            bad.extend(next.iter().map(|hop| hop.link).filter(|link| network.far_end(*link) == Some(*unconfirmed)));
        }
    }
    bad
}

/// Returns the switches packets from `from` may reach; contains `from` only if there is a cycle.
fn reached(graph: &Graph, from: NodeIx) -> BTreeSet<NodeIx> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for next in graph.get(&node).into_iter().flatten() {
            if seen.insert(*next) {
                open.push(*next);
            }
        }
    }
    seen
}

fn drop_links(hops: &mut Hops, bad: &BTreeSet<LinkIx>) {
    for next in hops.values_mut().filter(|next| next.iter().any(|hop| bad.contains(&hop.link))) {
        *next = next.iter().copied().filter(|hop| !bad.contains(&hop.link)).collect();
    }
    hops.retain(|_, next| !next.is_empty());
}

/// Returns shortest paths over live links that avoid some switches.
fn shortest(to: NodeIx, avoided: &BTreeSet<NodeIx>, network: &Network) -> Hops {
    let topology = &network.topology;
    let mut distance = BTreeMap::from([(to, 0u32)]);
    let mut queue = VecDeque::from([to]);
    let mut found: BTreeMap<NodeIx, Vec<NextHop>> = BTreeMap::new();
    while let Some(node) = queue.pop_front() {
        let here = distance[&node];
        for link in topology.out_links(node).iter().map(|link| link.reverse()) {
            let from = topology.link(link).from;
            if !network.is_alive(link) || network.is_host_link(link) || avoided.contains(&from) {
                continue;
            }
            let there = *distance.entry(from).or_insert_with(|| {
                queue.push_back(from);
                here + 1
            });
            if there == here + 1 {
                found.entry(from).or_default().push(NextHop { link, weight: 1 });
            }
        }
    }
    found.into_iter().map(|(node, next)| (node, next.into())).collect()
}
