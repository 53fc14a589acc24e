//! Next hops that lead round switches whose rules are not as wanted.
//!
//! A switch that cannot be reached keeps the rules it has, one that was just found keeps those of an earlier life until it
//! has confirmed new ones, and one that does not confirm has the old or the new ones. Which ones is known. What the balancer wants has no cycle; with such rules it may have one.
//!
//! *Rule.* No switch sends packets to an unsure one from which they may come back. *Claim.* Then every cycle is one of old
//! rules alone. *Proof.* Wanted next hops have no cycle, so a cycle has an old one, of an unsure switch. Go round
//! backwards from it: the first wanted next hop that is met leads to an unsure switch from which the cycle leads back. ∎
//!
//! Old rules may send packets out of ports behind which nothing is known: behind switches that are not connected, if there
//! are any, they may come back by any other such port.
//!
//! Nor is anything sent to an unsure switch that may have no rule for it.
//!
//! Where that rule takes next hops away, shortest paths that avoid those switches take their place; where there are none,
//! packets are dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use balance::central::NextHop;
use net::{LinkIx, NodeIx};

use crate::network::Network;
use crate::stage::Graph;

/// Next hops towards one switch.
pub(crate) type Hops = BTreeMap<NodeIx, Arc<[NextHop]>>;

/// Next hops towards `to` that do not go round, given those that unsure switches have (`old`). `None` if those wanted
/// do not.
///
/// `blocked` are unsure switches that may have no rule for some address there.
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

/// Links to switches of `old` from which packets may come back, and to those that are blocked.
fn bad_links(hops: &Hops, old: &Graph, blocked: &BTreeSet<NodeIx>, network: &Network) -> BTreeSet<LinkIx> {
    let mut all = old.clone();
    for (node, next) in hops {
        all.entry(*node).or_default().extend(next.iter().filter_map(|hop| network.far_end(hop.link)));
    }
    let is_blocked = |link: &LinkIx| network.far_end(*link).is_some_and(|node| blocked.contains(&node));
    let mut bad: BTreeSet<LinkIx> = hops.values().flat_map(|next| next.iter().map(|hop| hop.link)).collect();
    bad.retain(is_blocked);
    for unsure in old.keys() {
        let beyond = reached(&all, *unsure);
        for next in hops.iter().filter(|(node, _)| beyond.contains(node)).map(|(_, next)| next) {
            bad.extend(next.iter().map(|hop| hop.link).filter(|link| network.far_end(*link) == Some(*unsure)));
        }
    }
    bad
}

/// Where packets may come from a switch, itself only if round a cycle.
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

/// Shortest paths over live links between other switches than these.
fn shortest(to: NodeIx, avoided: &BTreeSet<NodeIx>, network: &Network) -> Hops {
    let topology = network.topology();
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
