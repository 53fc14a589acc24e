//! Paths from a client's switch to a member, over live links.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use net::paths::{self, Metric};
use net::{Bandwidth, LinkIx, NodeIx, Time};

use super::MemberLocation;
use crate::central::NetworkView;

/// Returns the remaining throughput of a link: its capacity less its load, if known.
pub fn available(view: &NetworkView<'_>, link: LinkIx) -> Bandwidth {
    let load = view.load.get(link.ix()).and_then(|load| load.rate).unwrap_or_default();
    Bandwidth::from_bps(view.topology.link(link).rate.as_bps().saturating_sub(load.as_bps()))
}

/// The paths from a switch to a member's switch, or to the near end of an uplink.
#[derive(Clone, Copy, Debug)]
pub struct MemberRoute<'a> {
    view: &'a NetworkView<'a>,
    /// The switch of the client.
    pub from: NodeIx,
    /// The node where searches end.
    pub to: NodeIx,
    /// The uplink that ends every path, if the member is one.
    pub tail: Option<LinkIx>,
}

impl<'a> MemberRoute<'a> {
    /// Makes the route; `None` if the member's link is dead or a node is unknown.
    pub fn to(view: &'a NetworkView<'a>, from: NodeIx, place: MemberLocation) -> Option<MemberRoute<'a>> {
        let topology = view.topology;
        let is_known = |node: NodeIx| node.ix() < topology.nodes().len();
        let is_alive = |link: LinkIx| view.alive.get(link.ix()).copied().unwrap_or(false);
        let (to, tail) = match place {
            MemberLocation::Host { host, edge } => {
                let host = *topology.hosts().get(host.ix())?;
                let mut down = is_known(edge).then(|| topology.out_links(edge))?.iter();
                down.find(|link| topology.link(**link).to == host && is_alive(**link))?;
                (edge, None)
            }
            MemberLocation::Uplink { link } => (is_alive(link).then(|| topology.link(link))?.from, Some(link)),
        };
        is_known(from).then_some(MemberRoute { view, from, to, tail })
    }

    /// Returns whether a path may use a link: it is live, and does not touch the far end of the
    /// uplink, which the path must reach last.
    pub fn may_take(&self, link: LinkIx) -> bool {
        let beyond = self.tail.map(|tail| self.view.topology.link(tail).to);
        let ends = self.view.topology.link(link);
        self.view.alive[link.ix()] && beyond.is_none_or(|beyond| ends.from != beyond && ends.to != beyond)
    }

    /// Returns whether any path exists.
    pub fn is_reachable(&self) -> bool {
        if self.from == self.to {
            return true;
        }
        // The routing tables suffice, unless a far end must be avoided or the switch has no hosts.
        match self.view.routes.class_at(self.to) {
            Some(class) if self.tail.is_none() => self.view.routes.path_count(self.from, class) > 0,
            _ => self.shortest(Metric::Hops, |_| true).is_some(),
        }
    }

    /// Returns the shortest accepted path: by hops, or latency then hops; then lowest ports.
    pub fn shortest(&self, metric: Metric, is_wanted: impl Fn(LinkIx) -> bool) -> Option<Vec<LinkIx>> {
        let may_take = |link| self.may_take(link) && is_wanted(link);
        let path = paths::shortest(self.view.topology, self.from, self.to, metric, may_take)?;
        Some(self.complete(path))
    }

    /// Returns the path with the widest narrowest link, and that width; ties by hops and ports.
    pub fn widest(&self, offered: impl Fn(LinkIx) -> Bandwidth) -> Option<(Vec<LinkIx>, Bandwidth)> {
        let capacity = |link| self.may_take(link).then(|| offered(link));
        let widest = paths::widest(self.view.topology, self.from, self.to, capacity)?;
        let width = self.tail.map_or(widest.bottleneck, |tail| widest.bottleneck.min(offered(tail)));
        // Among equally wide paths this takes the fewest hops, while `widest` compares latency.
        Some((self.shortest(Metric::Hops, |link| offered(link) >= width)?, width))
    }

    /// Returns the paths with the fewest hops, `most` at most, by ports.
    pub fn fewest_hops(&self, most: usize) -> Vec<Vec<LinkIx>> {
        let may_take = |link| self.may_take(link);
        let mut found = paths::k_shortest(self.view.topology, self.from, self.to, most, Metric::Hops, may_take);
        let fewest = found.first().map_or(0, Vec::len);
        found.retain(|path| path.len() == fewest);
        found.into_iter().map(|path| self.complete(path)).collect()
    }

    /// Returns the `k` shortest paths by latency.
    pub fn k_shortest(&self, k: usize) -> Vec<Vec<LinkIx>> {
        let may_take = |link| self.may_take(link);
        let found = paths::k_shortest(self.view.topology, self.from, self.to, k, Metric::Delay, may_take);
        found.into_iter().map(|path| self.complete(path)).collect()
    }

    fn complete(&self, mut path: Vec<LinkIx>) -> Vec<LinkIx> {
        path.extend(self.tail);
        path
    }
}

/// The costs from one switch to all other nodes in one search, for balancers that compare many
/// members. Searches do not avoid far ends, so they are not valid for uplinks.
pub(crate) struct Reach<C>(Vec<Option<C>>);

impl<C: Copy + Ord> Reach<C> {
    /// Runs Dijkstra's algorithm for costs that never decrease along a path.
    fn new(view: &NetworkView<'_>, from: NodeIx, start: C, extend: impl Fn(C, LinkIx) -> Option<C>) -> Reach<C> {
        let topology = view.topology;
        let mut best: Vec<Option<C>> = vec![None; topology.nodes().len()];
        best[from.ix()] = Some(start);
        let mut heap = BinaryHeap::from([Reverse((start, from))]);
        while let Some(Reverse((cost, node))) = heap.pop() {
            let is_stale = best[node.ix()].is_some_and(|known| known < cost);
            if is_stale || (node != from && !topology.node(node).forwards) {
                continue;
            }
            for link in topology.out_links(node).iter().filter(|link| view.alive[link.ix()]) {
                let (next, Some(cost)) = (topology.link(*link).to, extend(cost, *link)) else { continue };
                if best[next.ix()].is_none_or(|known| cost < known) {
                    best[next.ix()] = Some(cost);
                    heap.push(Reverse((cost, next)));
                }
            }
        }
        Reach(best)
    }

    /// Returns the cost to a node; `None` if there is no path.
    pub(crate) fn to(&self, node: NodeIx) -> Option<C> {
        self.0.get(node.ix()).copied().flatten()
    }
}

/// Computes the lowest latency, then the fewest hops.
pub(crate) fn latencies(view: &NetworkView<'_>, from: NodeIx) -> Reach<(Time, usize)> {
    let extend = |(latency, hops): (Time, usize), link: LinkIx| {
        Some((latency.saturating_add(view.topology.link(link).delay), hops + 1))
    };
    Reach::new(view, from, (Time::ZERO, 0), extend)
}

/// Computes the largest throughput of the narrowest link.
pub(crate) fn widths(
    view: &NetworkView<'_>,
    from: NodeIx,
    offered: impl Fn(LinkIx) -> Bandwidth,
) -> Reach<Reverse<Bandwidth>> {
    let unlimited = Reverse(Bandwidth::from_bps(u64::MAX));
    Reach::new(view, from, unlimited, |width, link| Some(width.max(Reverse(offered(link)))))
}

pub(crate) fn hops(view: &NetworkView<'_>, from: NodeIx, is_wanted: impl Fn(LinkIx) -> bool) -> Reach<usize> {
    Reach::new(view, from, 0, |hops, link| is_wanted(link).then_some(hops + 1))
}
