//! The order in which switches may change their next hops for one destination, so that no packet
//! loops.
//!
//! *Claim.* Let every switch use its old next hops or its new ones, and let a switch change only
//! when every switch its new next hops lead to, directly or indirectly, uses its new ones
//! permanently. Then no packet loops: it visits a switch at most twice, once before and once after
//! the switch changed. It visits no switch twice if, in addition, a switch changes only when
//! packets forwarded by old next hops of those that changed before have arrived.
//!
//! *Proof.* Let U be the switches that have changed. By the rule U is closed under new next hops,
//! and U only grows. A packet outside U follows old next hops, which have no cycle, from one switch
//! outside U to the next. Once it is at a switch in U it stays in U and follows new next hops,
//! which have no cycle either. (A switch with the same next hops before and after counts as changed
//! as soon as those after it have changed.) A switch visited twice was outside U first and in U
//! later: it changed while the packet it had forwarded by its old next hops was in flight to
//! another switch, which changed before the packet arrived. Waiting excludes that. ∎
//!
//! So switches change in the order of their depth in the new graph: the longest path to the
//! destination, nearest first. If old and new next hops *together* have no cycle, no mixture has
//! one, even one that changes during the transit of a packet, and all may change at once. That
//! holds after most failures in tiered networks, where detours go neither up after down nor back.
//!
//! Repairs of default routes do not wait for packets: a switch may drop a few that it would have to
//! send back, which is better than a black hole. Improvements wait for them
//! ([`crate::planner::staged_update`]), and so do migrations of flows ([`crate::planner::pins`]).

use std::collections::{BTreeMap, BTreeSet};

use net::NodeIx;

/// Next hops by switch, for one destination.
pub(crate) type Graph = BTreeMap<NodeIx, BTreeSet<NodeIx>>;

/// Returns whether all switches of `changed` may change at once. `old` has every next hop that may
/// still be in effect, `new` every one that will be; both end at `sink`.
pub(crate) fn is_at_once(changed: &BTreeSet<NodeIx>, old: &Graph, new: &Graph, sink: NodeIx) -> bool {
    let leads_somewhere = |node: &NodeIx| *node == sink || old.get(node).is_some_and(|next| !next.is_empty());
    let is_served = changed.iter().filter_map(|node| new.get(node)).flatten().all(leads_somewhere);
    is_served && depths(&union(old, new)).is_some()
}

/// Returns the switches of `changed`, in groups to change one after the other, with next hops as
/// for [`is_at_once`].
pub(crate) fn order(changed: &BTreeSet<NodeIx>, old: &Graph, new: &Graph, sink: NodeIx) -> Vec<BTreeSet<NodeIx>> {
    if changed.is_empty() {
        return Vec::new();
    }
    if is_at_once(changed, old, new, sink) { vec![changed.clone()] } else { by_depth(changed, new) }
}

/// Returns the switches of `changed`, nearest to the destination first.
pub(crate) fn by_depth(changed: &BTreeSet<NodeIx>, new: &Graph) -> Vec<BTreeSet<NodeIx>> {
    let depth = depths(new).unwrap_or_default();
    let mut groups: BTreeMap<u32, BTreeSet<NodeIx>> = BTreeMap::new();
    for node in changed {
        groups.entry(depth.get(node).copied().unwrap_or(0)).or_default().insert(*node);
    }
    groups.into_values().collect()
}

fn union(a: &Graph, b: &Graph) -> Graph {
    let mut both = a.clone();
    for (node, next) in b {
        both.entry(*node).or_default().extend(next);
    }
    both
}

/// Returns the largest number of hops of a packet from each switch; `None` if there is a cycle.
pub(crate) fn depths(graph: &Graph) -> Option<BTreeMap<NodeIx, u32>> {
    let mut incoming: BTreeMap<NodeIx, Vec<NodeIx>> = BTreeMap::new();
    let mut open: BTreeMap<NodeIx, usize> = BTreeMap::new();
    for (node, next) in graph {
        open.insert(*node, next.len());
        for to in next {
            open.entry(*to).or_insert(0);
            incoming.entry(*to).or_default().push(*node);
        }
    }
    let mut depth: BTreeMap<NodeIx, u32> = BTreeMap::new();
    // `open[n]` counts next hops of unknown depth; a node is processed when it is zero (Kahn 1962,
    // backwards).
    let mut ready: Vec<NodeIx> = open.iter().filter(|(_, count)| **count == 0).map(|(node, _)| *node).collect();
    let nodes = open.len();
    let mut done = 0;
    while let Some(node) = ready.pop() {
        done += 1;
        let here = *depth.entry(node).or_insert(0);
        for from in incoming.get(&node).into_iter().flatten() {
            let deepest = depth.entry(*from).or_insert(0);
            *deepest = (*deepest).max(here + 1);
            let left = open.get_mut(from).expect("every node was entered");
            *left -= 1;
            if *left == 0 {
                ready.push(*from);
            }
        }
    }
    (done == nodes).then_some(depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u32, u32)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(NodeIx(*from)).or_default().insert(NodeIx(*to));
        }
        graph
    }
    fn set(nodes: &[u32]) -> BTreeSet<NodeIx> {
        nodes.iter().copied().map(NodeIx).collect()
    }

    #[test]
    fn change_without_loop_is_one_stage() {
        // 0 reaches 3 through 1 or 2; now only through 2.
        let (old, new) = (graph(&[(0, 1), (0, 2), (1, 3), (2, 3)]), graph(&[(0, 2), (1, 3), (2, 3)]));
        assert_eq!(order(&set(&[0]), &old, &new, NodeIx(3)), [set(&[0])]);
    }

    #[test]
    fn reversal_starts_at_the_destination() {
        // A chain 0-1-2 attached to 3 by its right end, then by its left one.
        let (old, new) = (graph(&[(0, 1), (1, 2), (2, 3)]), graph(&[(0, 3), (1, 0), (2, 1)]));
        assert_eq!(order(&set(&[0, 1, 2]), &old, &new, NodeIx(3)), [set(&[0]), set(&[1]), set(&[2])]);
    }

    #[test]
    fn switch_without_route_changes_first() {
        // 1 had no route: 0 may use it only afterwards, though nothing could loop.
        let (old, new) = (graph(&[(0, 2), (2, 3)]), graph(&[(0, 1), (1, 3), (2, 3)]));
        assert_eq!(order(&set(&[0, 1]), &old, &new, NodeIx(3)), [set(&[1]), set(&[0])]);
    }

    #[test]
    fn cycles_have_no_depth() {
        assert_eq!(depths(&graph(&[(0, 1), (1, 0)])), None);
        assert_eq!(depths(&graph(&[(0, 1), (1, 2), (0, 2)])).unwrap()[&NodeIx(0)], 2);
    }
}
