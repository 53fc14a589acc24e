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

/// Next hops by switch, for one destination, in any form. A next hop may be given twice.
pub(crate) trait NextHops {
    /// Adds the switches that may have next hops.
    fn add_switches(&self, found: &mut Vec<NodeIx>);
    /// Adds the next hops of a switch.
    fn add_next(&self, from: NodeIx, found: &mut Vec<NodeIx>);

    /// Returns whether a switch has any next hop.
    fn has_next(&self, from: NodeIx) -> bool {
        let mut next = Vec::new();
        self.add_next(from, &mut next);
        !next.is_empty()
    }
}

impl NextHops for Graph {
    fn add_switches(&self, found: &mut Vec<NodeIx>) {
        found.extend(self.keys());
    }
    fn add_next(&self, from: NodeIx, found: &mut Vec<NodeIx>) {
        found.extend(self.get(&from).into_iter().flatten());
    }
}

/// The next hops of both.
pub(crate) struct Union<'a, A, B>(pub(crate) &'a A, pub(crate) &'a B);

impl<A: NextHops, B: NextHops> NextHops for Union<'_, A, B> {
    fn add_switches(&self, found: &mut Vec<NodeIx>) {
        self.0.add_switches(found);
        self.1.add_switches(found);
    }
    fn add_next(&self, from: NodeIx, found: &mut Vec<NodeIx>) {
        self.0.add_next(from, found);
        self.1.add_next(from, found);
    }
}

/// Returns whether all switches of `changed` may change at once. `old` has every next hop that may
/// still be in effect, `new` every one that will be; both end at `sink`.
///
/// A cycle of both contains a switch that changes, since neither has one.
fn is_at_once(changed: &BTreeSet<NodeIx>, old: &impl NextHops, new: &impl NextHops, sink: NodeIx) -> bool {
    let changed = || changed.iter().copied();
    are_served(changed(), old, new, sink) && depths_from(changed(), &Union(old, new)).is_some()
}

/// Returns whether the new next hops of switches lead to the destination, or to switches that have
/// next hops already.
pub(crate) fn are_served(
    changed: impl IntoIterator<Item = NodeIx>,
    old: &impl NextHops,
    new: &impl NextHops,
    sink: NodeIx,
) -> bool {
    let (mut served, mut next) = (BTreeSet::from([sink]), Vec::new());
    changed.into_iter().all(|node| {
        new.add_next(node, &mut next);
        next.drain(..).all(|node| served.contains(&node) || (old.has_next(node) && served.insert(node)))
    })
}

/// Returns the switches of `changed`, in groups to change one after the other. `old` has every next
/// hop that may still be in effect, `new` every one that will be; both end at `sink`.
pub(crate) fn order(
    changed: &BTreeSet<NodeIx>,
    old: &impl NextHops,
    new: &impl NextHops,
    sink: NodeIx,
) -> Vec<Vec<NodeIx>> {
    if changed.is_empty() {
        return Vec::new();
    }
    let changed_in_order = changed.iter().copied();
    match is_at_once(changed, old, new, sink) {
        true => vec![changed_in_order.collect()],
        false => by_depth(changed_in_order, depths(new).as_ref()),
    }
}

/// Returns the switches of `changed`, nearest to the destination first; `None` if there is a cycle.
pub(crate) fn by_depth(changed: impl IntoIterator<Item = NodeIx>, depths: Option<&Depths>) -> Vec<Vec<NodeIx>> {
    let mut groups: BTreeMap<u32, Vec<NodeIx>> = BTreeMap::new();
    for node in changed {
        groups.entry(depths.map_or(0, |depths| depths.of(node))).or_default().push(node);
    }
    groups.into_values().collect()
}

/// The largest number of hops of a packet from each switch.
#[derive(Debug, Default)]
pub(crate) struct Depths {
    /// By number of the node plus 1, so that the largest number comes first: see [`Depths::place`].
    states: Vec<State>,
    longest: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Unseen,
    /// On the path under examination.
    Open,
    Depth(u32),
}

impl Depths {
    /// The largest number is no real node ([`crate::planner::default_routes`]).
    fn place(node: NodeIx) -> usize {
        node.0.wrapping_add(1) as usize
    }
    fn state(&self, node: NodeIx) -> State {
        self.states.get(Depths::place(node)).copied().unwrap_or_default()
    }
    fn set(&mut self, node: NodeIx, state: State) {
        let place = Depths::place(node);
        if place >= self.states.len() {
            self.states.resize(place + 1, State::Unseen);
        }
        self.states[place] = state;
    }
    /// Returns the depth of a switch; 0 for unknown ones.
    pub(crate) fn of(&self, node: NodeIx) -> u32 {
        if let State::Depth(depth) = self.state(node) { depth } else { 0 }
    }
    pub(crate) fn longest(&self) -> u32 {
        self.longest
    }
}

/// Returns the depths of all switches; `None` if there is a cycle.
pub(crate) fn depths(graph: &impl NextHops) -> Option<Depths> {
    let mut switches = Vec::new();
    graph.add_switches(&mut switches);
    depths_from(switches, graph)
}

/// Returns the depths of some switches and of those that packets from them may visit; `None` if
/// there is a cycle among these. (A depth-first search; a cycle leads back to the path to it.)
pub(crate) fn depths_from(roots: impl IntoIterator<Item = NodeIx>, graph: &impl NextHops) -> Option<Depths> {
    let mut depths = Depths::default();
    // Switches on the path, with the position of their next hops in `open` and their depth so far.
    let mut path: Vec<(NodeIx, usize, u32)> = Vec::new();
    let mut open: Vec<NodeIx> = Vec::new();
    for root in roots {
        if depths.state(root) != State::Unseen {
            continue;
        }
        let mut enter = Some(root);
        loop {
            if let Some(node) = enter.take() {
                depths.set(node, State::Open);
                path.push((node, open.len(), 0));
                graph.add_next(node, &mut open);
            }
            let Some((node, first, deepest)) = path.last_mut() else { break };
            if open.len() > *first {
                let next = open.pop().expect("it is not empty");
                match depths.state(next) {
                    State::Unseen => enter = Some(next),
                    State::Open => return None,
                    State::Depth(depth) => *deepest = (*deepest).max(depth + 1),
                }
                continue;
            }
            let (node, depth) = (*node, *deepest);
            depths.set(node, State::Depth(depth));
            depths.longest = depths.longest.max(depth);
            path.pop();
            if let Some((_, _, deepest)) = path.last_mut() {
                *deepest = (*deepest).max(depth + 1);
            }
        }
    }
    Some(depths)
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
    fn group(nodes: &[u32]) -> Vec<NodeIx> {
        nodes.iter().copied().map(NodeIx).collect()
    }

    #[test]
    fn change_without_loop_is_one_stage() {
        // 0 reaches 3 through 1 or 2; now only through 2.
        let (old, new) = (graph(&[(0, 1), (0, 2), (1, 3), (2, 3)]), graph(&[(0, 2), (1, 3), (2, 3)]));
        assert_eq!(order(&set(&[0]), &old, &new, NodeIx(3)), [group(&[0])]);
    }

    #[test]
    fn reversal_starts_at_the_destination() {
        // A chain 0-1-2 attached to 3 by its right end, then by its left one.
        let (old, new) = (graph(&[(0, 1), (1, 2), (2, 3)]), graph(&[(0, 3), (1, 0), (2, 1)]));
        assert_eq!(order(&set(&[0, 1, 2]), &old, &new, NodeIx(3)), [group(&[0]), group(&[1]), group(&[2])]);
    }

    #[test]
    fn switch_without_route_changes_first() {
        // 1 had no route: 0 may use it only afterwards, though nothing could loop.
        let (old, new) = (graph(&[(0, 2), (2, 3)]), graph(&[(0, 1), (1, 3), (2, 3)]));
        assert_eq!(order(&set(&[0, 1]), &old, &new, NodeIx(3)), [group(&[1]), group(&[0])]);
    }

    #[test]
    fn cycles_have_no_depth() {
        assert!(depths(&graph(&[(0, 1), (1, 0)])).is_none());
        assert!(depths(&graph(&[(0, 1), (1, 2), (2, 2)])).is_none());
        let depths = depths(&graph(&[(0, 1), (1, u32::MAX), (0, u32::MAX)])).unwrap();
        assert_eq!((depths.of(NodeIx(0)), depths.of(NodeIx(1)), depths.longest()), (2, 1, 2));
    }

    /// A cycle of next hops without one and added ones leads through an added one.
    #[test]
    fn search_from_added_next_hops_finds_every_cycle() {
        let mut stream = net::RandomStream::new(1, "cycles");
        let mut found = [0, 0];
        for _ in 0..400 {
            let mut any = |below: u64| stream.next_below(below) as u32;
            let mut lower = |_| {
                let from = 1 + any(9);
                (from, any(u64::from(from)))
            };
            let old: Vec<(u32, u32)> = (0..12).map(&mut lower).collect();
            let added: Vec<(u32, u32)> = (0..3).map(|_| (any(10), any(10))).collect();
            let (old, added) = (graph(&old), graph(&added));
            assert!(depths(&old).is_some());
            let both = Union(&old, &added);
            let is_acyclic = depths(&both).is_some();
            assert_eq!(depths_from(added.keys().copied(), &both).is_some(), is_acyclic);
            found[usize::from(is_acyclic)] += 1;
        }
        assert!(found.iter().all(|count| *count > 50), "{found:?}");
    }
}
