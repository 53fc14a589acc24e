//! Shares of a flow on all links of its shortest paths, for balancers that divide its packets.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::routes::ClassIx;
use net::{HostIx, NodeIx, Routes, Topology};

/// Links between two destination classes, each with the share of a flow that crosses it.
type Division = Arc<[(u32, f64)]>;

/// Divides flows over the equal-cost next hops of every switch, or over all paths.
pub(super) struct Splitter {
    routes: Arc<Routes>,
    /// Whether every path has the same share. Otherwise every next hop of a switch has.
    by_path: bool,
    /// Divisions by pair of classes, computed on first use; `None` without a path.
    known: BTreeMap<(u32, u32), Option<Division>>,
}

impl Splitter {
    pub(super) fn new(routes: Arc<Routes>, by_path: bool) -> Splitter {
        Splitter { routes, by_path, known: BTreeMap::new() }
    }

    /// Divides flows over other routes from now on.
    pub(super) fn use_routes(&mut self, routes: Routes) {
        self.routes = Arc::new(routes);
        self.known.clear();
    }

    /// Appends the links of a flow with their shares, from the sender on. Returns whether there is a
    /// path.
    pub(super) fn split(
        &mut self,
        topology: &Topology,
        (src, dst): (HostIx, HostIx),
        links: &mut Vec<(u32, f64)>,
    ) -> bool {
        let (from, to) = (self.routes.class_of(src), self.routes.class_of(dst));
        links.extend(self.routes.last_link(src).map(|down| (down.reverse().0, 1.0)));
        let (routes, by_path) = (&self.routes, self.by_path);
        let known = self.known.entry((from.0, to.0)).or_insert_with(|| divide(topology, routes, from, to, by_path));
        let Some(division) = known else { return false };
        links.extend_from_slice(division);
        links.extend(self.routes.last_link(dst).map(|down| (down.0, 1.0)));
        true
    }
}

fn divide(topology: &Topology, routes: &Routes, from: ClassIx, to: ClassIx, by_path: bool) -> Option<Division> {
    let target = routes.class_node(to);
    let mut level: BTreeMap<NodeIx, f64> = BTreeMap::from([(routes.class_node(from), 1.0)]);
    let mut division = Vec::new();
    while level.keys().any(|node| *node != target) {
        let mut next: BTreeMap<NodeIx, f64> = BTreeMap::new();
        for (node, share) in &level {
            let hops = routes.next_hops(*node, to);
            if hops.is_empty() {
                return None;
            }
            let far_end = |link: &net::LinkIx| topology.link(*link).to;
            let weight = |link: &net::LinkIx| if by_path { routes.path_count(far_end(link), to) } else { 1 };
            let total: u64 = hops.iter().map(|link| u64::from(weight(link))).sum();
            for link in hops {
                let part = share * f64::from(weight(link)) / total as f64;
                division.push((link.0, part));
                *next.entry(far_end(link)).or_insert(0.0) += part;
            }
        }
        level = next;
    }
    Some(division.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(spec: &str, (src, dst): (u32, u32), by_path: bool) -> Vec<(u32, f64)> {
        let topology = net::spec::parse(spec).unwrap();
        let mut splitter = Splitter::new(Arc::new(Routes::intact(&topology)), by_path);
        let mut links = Vec::new();
        assert!(splitter.split(&topology, (HostIx(src), HostIx(dst)), &mut links));
        links
    }

    #[test]
    fn a_fat_tree_divides_flows_evenly_over_every_tier() {
        for by_path in [false, true] {
            let links = split("fat-tree:k=4", (0, 15), by_path);
            let mut shares: Vec<f64> = links.iter().map(|(_, share)| *share).collect();
            shares.sort_by(f64::total_cmp);
            assert_eq!(shares, [[0.25; 8].as_slice(), &[0.5; 4], &[1.0; 2]].concat());
        }
        assert_eq!(split("fat-tree:k=4", (0, 1), false).len(), 2, "the same first switch");
    }

    #[test]
    fn shares_of_every_step_add_up_to_one() {
        for (by_path, spec) in [(false, "bcube:n=4,k=1"), (true, "flattened-butterfly:k=3,n=3")] {
            let topology = net::spec::parse(spec).unwrap();
            let links = split(spec, (0, 7), by_path);
            let into: f64 = links
                .iter()
                .filter(|(l, _)| topology.link(net::LinkIx(*l)).to == topology.hosts()[7])
                .map(|(_, share)| share)
                .sum();
            assert!((into - 1.0).abs() < 1e-12, "{spec}: {into}");
        }
    }
}
