//! First fit for many flows: room only ever shrinks, so a link without room stays without room.
//!
//! The result is that of [`super::dag::Search::first_fit`] for one flow after the other. It is fast
//! because dead ends are remembered from flow to flow: if no link onward from a switch had room for
//! a rate, none fits this or a higher one.

use net::routes::ClassIx;
use net::{LinkIx, NodeIx, NodeKind, Routes};

use crate::central::NetworkView;
use crate::central::common::edges::{Ends, rate_of};

/// Rooms of links, and working memory.
#[derive(Clone, Debug, Default)]
pub struct FirstFit {
    /// Bits per second left on a link, at its [`place_of`], with the slack of the comparison.
    room: Vec<f64>,
    far: Vec<NodeIx>,
    /// By node that may be on a path: its row in `refused`.
    rows: Vec<u32>,
    row_count: usize,
    /// By class of the destination and row: the lowest rate known to find no path.
    refused: Vec<f64>,
    path: Vec<LinkIx>,
}

impl FirstFit {
    /// Sets all rooms to the rates of links.
    pub fn begin(&mut self, view: &NetworkView<'_>) {
        self.row_count = 0;
        self.rows.clear();
        for node in view.topology.nodes() {
            let is_between = node.kind == NodeKind::Switch || node.forwards;
            self.rows.push(if is_between { self.row_count as u32 } else { u32::MAX });
            self.row_count += usize::from(is_between);
        }
        let links = view.topology.links();
        self.far.clear();
        self.far.extend(links.iter().map(|link| link.to));
        self.room.clear();
        self.room.resize(links.len(), 0.0);
        for link in (0..links.len() as u32).map(LinkIx) {
            self.room[place_of(links.len(), link)] = rate_of(view, link) * (1.0 + 1e-9);
        }
        self.refused.clear();
        self.refused.resize(view.routes.class_count() * self.row_count, f64::INFINITY);
    }

    /// Uses room for a flow that has a path; all calls precede the first [`FirstFit::place`].
    pub fn take(&mut self, path: &[LinkIx], rate: f64) {
        let links = self.room.len();
        path.iter().for_each(|link| self.room[place_of(links, *link)] -= rate);
    }

    /// Uses room on the first path that has it, by rank, and returns its links.
    pub fn place(&mut self, routes: &Routes, ends: Ends, rate: f64) -> Option<&[LinkIx]> {
        self.path.clear();
        let search = Descent { routes, to: ends.to, target: routes.class_node(ends.to), rate };
        if !self.descend(&search, ends.from) {
            return None;
        }
        let links = self.room.len();
        for link in &self.path {
            self.room[place_of(links, *link)] -= rate;
        }
        Some(&self.path)
    }

    fn descend(&mut self, search: &Descent<'_>, at: NodeIx) -> bool {
        let hops = search.routes.next_hops(at, search.to);
        // With one link onward, a lookup in `refused` is no less work than the link itself.
        let is_remembered = hops.len() > 1 && !self.path.is_empty();
        let slot = is_remembered.then(|| search.to.0 as usize * self.row_count + self.rows[at.ix()] as usize);
        if slot.is_some_and(|slot| search.rate >= self.refused[slot]) {
            return false;
        }
        for hop in hops {
            if search.rate > self.room[place_of(self.room.len(), *hop)] {
                continue;
            }
            let far = self.far[hop.ix()];
            self.path.push(*hop);
            if far == search.target || self.descend(search, far) {
                return true;
            }
            self.path.pop();
        }
        if let Some(slot) = slot {
            self.refused[slot] = search.rate;
        }
        false
    }
}

/// Returns the index of a link's room: the uplinks of a switch, which are visited one after the
/// other, are the same directions of cables added one after the other.
fn place_of(links: usize, link: LinkIx) -> usize {
    link.ix() / 2 + if link.0 & 1 == 0 { 0 } else { links / 2 }
}

/// The constants of a search.
struct Descent<'a> {
    routes: &'a Routes,
    to: ClassIx,
    target: NodeIx,
    rate: f64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::central::common::dag::{Dag, Search};
    use crate::central::common::edges::pairs;
    use crate::central::testing::{SMALL, TestNetwork};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        /// Compares, flow by flow, with a search that remembers nothing, until the network is full.
        #[test]
        fn remembering_dead_ends_changes_nothing(
            family in prop::sample::select(SMALL),
            seed in any::<u64>(),
        ) {
            let mut rng = net::RandomStream::new(seed, "first fit");
            let network = TestNetwork::new(family);
            let view = network.view();
            let dag = Dag::new(&view);
            let all: Vec<_> = pairs(&view).collect();
            let mut room: Vec<f64> = (0..view.topology.links().len() as u32).map(|link| rate_of(&view, LinkIx(link))).collect();
            // Two hundred flows between switches fill any of these networks.
            let between = (0..).map(LinkIx).zip(&room).filter(|(link, _)| !view.topology.is_host_link(*link));
            let least = between.map(|(_, room)| *room).fold(f64::INFINITY, f64::min);
            room.iter_mut().for_each(|room| *room *= 1.0 + 1e-9);
            let (mut first_fit, mut search) = (FirstFit::default(), Search::default());
            first_fit.begin(&view);
            let mut refused = 0;
            for nth in 0..200 {
                let ends = all[rng.next_below(all.len() as u64) as usize];
                let rate = least * [0.1, 0.25, 0.25, 1.0][rng.next_below(4) as usize];
                let expected = search.first_fit(dag, ends, 0, |link| rate <= room[link.ix()]).then(|| search.found());
                if nth < 5 {
                    // Flows that already have their paths.
                    first_fit.take(expected.unwrap_or(&[]), rate);
                } else {
                    prop_assert_eq!(first_fit.place(view.routes, ends, rate), expected);
                }
                expected.into_iter().flatten().for_each(|link| room[link.ix()] -= rate);
                refused += u32::from(expected.is_none());
            }
            prop_assert!(refused > 0, "the network was never full");
        }
    }
}
