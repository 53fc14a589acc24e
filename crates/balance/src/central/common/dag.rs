//! Searches in the shortest-path DAG between two switches, without listing its paths.
//!
//! Paths are in the order of their ranks ([`Routes::path`]): depth first in port order. A search
//! visits every link of the DAG at most once; a fat-tree of k ports has (k/2)^2 paths between pods,
//! but only k + k^2/2 links on them.

use net::routes::ClassIx;
use net::{LinkIx, NodeIx, RandomStream, Routes, Topology};

use crate::central::common::edges::Ends;
use crate::central::{NetworkView, Path};
use crate::dataplane::common::rank_of;

/// The shortest paths of a network, as a view of its routes.
#[derive(Clone, Copy, Debug)]
pub struct Dag<'a> {
    topology: &'a Topology,
    routes: &'a Routes,
}

impl<'a> Dag<'a> {
    pub fn new(view: &NetworkView<'a>) -> Dag<'a> {
        Dag { topology: view.topology, routes: view.routes }
    }
    /// Returns the number of paths; 0 if the ends are not connected.
    pub fn path_count(&self, ends: Ends) -> u32 {
        self.routes.path_count(ends.from, ends.to)
    }
    /// Returns the number of links of each path; `None` if the ends are not connected.
    pub fn distance(&self, ends: Ends) -> Option<u16> {
        self.routes.distance(ends.from, ends.to)
    }
    pub fn target(&self, ends: Ends) -> NodeIx {
        self.routes.class_node(ends.to)
    }
    /// Calls `see` with every link of the path of a rank below [`Dag::path_count`].
    pub fn walk(&self, ends: Ends, rank: u32, mut see: impl FnMut(LinkIx)) {
        let (mut at, mut rank) = (ends.from, rank);
        while let Some((link, rest)) = self.routes.step(self.topology, at, ends.to, rank) {
            see(link);
            (at, rank) = (self.far(link), rest);
        }
    }
    /// Returns the path of a rank below [`Dag::path_count`].
    pub fn path(&self, ends: Ends, rank: u32) -> Path {
        self.routes.path(self.topology, ends.from, ends.to, rank).into()
    }
    /// Returns the rank of a shortest path; `None` if it is not a shortest path any more.
    pub fn rank_of(&self, ends: Ends, path: &[LinkIx]) -> Option<u32> {
        rank_of(self.topology, self.routes, ends.from, ends.to, path)
    }

    pub(crate) fn hops(&self, node: NodeIx, to: ClassIx) -> &'a [LinkIx] {
        self.routes.next_hops(node, to)
    }
    pub(crate) fn far(&self, link: LinkIx) -> NodeIx {
        self.topology.link(link).to
    }
}

/// Working memory of searches; [`Search::found`] returns the links found last.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// By node: number of the search that last settled it.
    settled: Vec<u32>,
    search: u32,
    /// By node settled in this search: the best width, lowest length or number of paths from here.
    value: Vec<f64>,
    path: Vec<LinkIx>,
}

impl Search {
    pub fn found(&self) -> &[LinkIx] {
        &self.path
    }

    pub fn first_fit(&mut self, dag: Dag<'_>, ends: Ends, rank_min: u32, fits: impl Fn(LinkIx) -> bool) -> bool {
        self.begin(dag);
        self.descend(dag, ends.from, ends.to, (0, rank_min), &fits)
    }

    /// Finds the path of the lowest rank among those whose narrowest link is widest, and returns
    /// that width; `None` if there is no path.
    pub fn widest(&mut self, dag: Dag<'_>, ends: Ends, width: impl Fn(LinkIx) -> f64) -> Option<f64> {
        self.begin(dag);
        let weigh = |link| Some(width(link));
        let join = |best: f64, width: f64, beyond: f64| best.max(width.min(beyond));
        let rule = Rule { dag, to: ends.to, end: f64::INFINITY, none: f64::NEG_INFINITY, weigh, join };
        let best = self.value(&rule, ends.from);
        let is_wide = |search: &mut Search, _, hop| width(hop).min(search.value(&rule, dag.far(hop))) >= best;
        (best != f64::NEG_INFINITY && self.follow(dag, ends, is_wide)).then_some(best)
    }

    /// Finds one of the paths on whose links all fit, each equally likely; false if none fits.
    pub fn any_fit(&mut self, dag: Dag<'_>, ends: Ends, rng: &mut RandomStream, fits: impl Fn(LinkIx) -> bool) -> bool {
        self.begin(dag);
        // Numbers of paths are exact below 2^53.
        let weigh = |link| fits(link).then_some(0.0);
        let join = |count: f64, _, beyond: f64| count + beyond;
        let rule = Rule { dag, to: ends.to, end: 1.0, none: 0.0, weigh, join };
        let count = self.value(&rule, ends.from) as u64;
        if count == 0 {
            return false;
        }
        // The rank among the fitting paths.
        let mut rank = rng.next_below(count);
        self.follow(dag, ends, |search, _, hop| {
            let through = if fits(hop) { search.value(&rule, dag.far(hop)) as u64 } else { 0 };
            let is_through = rank < through;
            rank -= if is_through { 0 } else { through };
            is_through
        })
    }

    /// Finds the path of the lowest rank among those with the lowest sum of lengths, and returns
    /// that sum; `None` if there is no path. Lengths must not be negative.
    pub fn shortest(&mut self, dag: Dag<'_>, ends: Ends, length: impl Fn(LinkIx) -> f64) -> Option<f64> {
        self.begin(dag);
        let weigh = |link| Some(length(link));
        let join = |best: f64, length: f64, beyond: f64| best.min(length + beyond);
        let rule = Rule { dag, to: ends.to, end: 0.0, none: f64::INFINITY, weigh, join };
        let best = self.value(&rule, ends.from);
        let is_nearest = |search: &mut Search, at, hop| {
            let least = search.value(&rule, at);
            length(hop) + search.value(&rule, dag.far(hop)) == least
        };
        (best != f64::INFINITY && self.follow(dag, ends, is_nearest)).then_some(best)
    }

    /// Finds the path over the first next hop of every node that `is_taken` accepts; false if it
    /// accepts none of a node.
    fn follow(
        &mut self,
        dag: Dag<'_>,
        ends: Ends,
        mut is_taken: impl FnMut(&mut Search, NodeIx, LinkIx) -> bool,
    ) -> bool {
        let (mut at, target) = (ends.from, dag.target(ends));
        while at != target {
            let mut hops = dag.hops(at, ends.to).iter().copied();
            let Some(link) = hops.find(|hop| is_taken(self, at, *hop)) else { return false };
            self.path.push(link);
            at = dag.far(link);
        }
        true
    }

    fn begin(&mut self, dag: Dag<'_>) {
        self.path.clear();
        self.settled.resize(dag.topology.nodes().len(), 0);
        self.value.resize(dag.topology.nodes().len(), 0.0);
        self.search = self.search.wrapping_add(1);
        if self.search == 0 {
            self.settled.fill(0);
            self.search = 1;
        }
    }

    /// `ranks`: of the first path through `at`, and the lowest accepted; settled: nothing fits.
    fn descend(
        &mut self,
        dag: Dag<'_>,
        at: NodeIx,
        to: ClassIx,
        (mut rank, rank_min): (u32, u32),
        fits: &impl Fn(LinkIx) -> bool,
    ) -> bool {
        let is_whole = rank >= rank_min;
        let hops = dag.hops(at, to);
        if hops.is_empty() {
            return at == dag.routes.class_node(to);
        }
        for hop in hops {
            let first = rank;
            if rank < rank_min {
                rank = rank.saturating_add(dag.routes.path_count(dag.far(*hop), to));
                if rank <= rank_min {
                    continue;
                }
            }
            // Most unfitting links are found without a look at the links beyond.
            if !fits(*hop) {
                continue;
            }
            let far = dag.far(*hop);
            if self.settled[far.ix()] == self.search {
                continue;
            }
            self.path.push(*hop);
            if self.descend(dag, far, to, (first, rank_min), fits) {
                return true;
            }
            self.path.pop();
        }
        if is_whole {
            self.settled[at.ix()] = self.search;
        }
        false
    }

    /// Returns the value of a node by a rule; it is computed once in a search.
    fn value<W, J>(&mut self, rule: &Rule<'_, W, J>, at: NodeIx) -> f64
    where
        W: Fn(LinkIx) -> Option<f64>,
        J: Fn(f64, f64, f64) -> f64,
    {
        let dag = rule.dag;
        if at == dag.routes.class_node(rule.to) {
            return rule.end;
        }
        if self.settled[at.ix()] != self.search {
            let mut value = rule.none;
            for hop in dag.hops(at, rule.to) {
                if let Some(weight) = (rule.weigh)(*hop) {
                    value = (rule.join)(value, weight, self.value(rule, dag.far(*hop)));
                }
            }
            self.settled[at.ix()] = self.search;
            self.value[at.ix()] = value;
        }
        self.value[at.ix()]
    }
}

/// How the value of a node follows from the values of its next hops.
struct Rule<'a, W, J> {
    dag: Dag<'a>,
    to: ClassIx,
    /// The value of the last node.
    end: f64,
    /// The value of a node without a next hop that counts.
    none: f64,
    /// Returns the weight of a link; `None` if it does not count.
    weigh: W,
    /// Joins the value so far with the weight of a link and the value beyond it.
    join: J,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::central::common::edges::pairs;
    use crate::central::testing::{SMALL, TestNetwork};

    /// The reference for the searches: a list of all paths.
    fn listed(dag: Dag<'_>, ends: Ends) -> Vec<Path> {
        (0..dag.path_count(ends)).map(|rank| dag.path(ends, rank)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn searches_agree_with_a_list_of_all_paths(
            family in prop::sample::select(SMALL),
            seed in any::<u64>(),
        ) {
            let mut rng = net::RandomStream::new(seed, "searches");
            let network = TestNetwork::new(family);
            let view = network.view();
            let dag = Dag::new(&view);
            // Few different widths, so that ties occur.
            let widths: Vec<f64> = view.topology.links().iter().map(|_| rng.next_below(4) as f64 - 1.0).collect();
            let width = |path: &Path| path.iter().map(|link| widths[link.ix()]).fold(f64::INFINITY, f64::min);
            let mut search = Search::default();
            for ends in pairs(&view) {
                let paths = listed(dag, ends);
                for (rank, path) in paths.iter().enumerate() {
                    prop_assert_eq!(dag.rank_of(ends, path), Some(rank as u32));
                    let mut walked = Vec::new();
                    dag.walk(ends, rank as u32, |link| walked.push(link));
                    prop_assert_eq!(&walked[..], &path[..]);
                }
                let best = paths.iter().map(width).fold(f64::NEG_INFINITY, f64::max);
                prop_assert_eq!(search.widest(dag, ends, |link| widths[link.ix()]), Some(best));
                let length = |path: &Path| path.iter().map(|link| widths[link.ix()] + 1.0).sum::<f64>();
                let least = paths.iter().map(length).fold(f64::INFINITY, f64::min);
                prop_assert_eq!(Some(search.found()), paths.iter().find(|path| width(path) == best).map(|path| &path[..]));
                let fitting: Vec<&Path> = paths.iter().filter(|path| width(path) >= 1.0).collect();
                let drawn = fitting.len().checked_sub(1).map(|_| rng.clone().next_below(fitting.len() as u64) as usize);
                let is_drawn = search.any_fit(dag, ends, &mut rng, |link| widths[link.ix()] >= 1.0);
                prop_assert_eq!(is_drawn.then(|| search.found()), drawn.map(|nth| &fitting[nth][..]));
                prop_assert_eq!(search.shortest(dag, ends, |link| widths[link.ix()] + 1.0), Some(least));
                prop_assert_eq!(Some(search.found()), paths.iter().find(|path| length(path) == least).map(|path| &path[..]));
                let rank_min = rng.next_below(paths.len() as u64) as usize;
                let expected = paths[rank_min..].iter().find(|path| width(path) >= 1.0);
                let is_found = search.first_fit(dag, ends, rank_min as u32, |link| widths[link.ix()] >= 1.0);
                prop_assert_eq!(is_found.then(|| search.found()), expected.map(|path| &path[..]));
            }
        }
    }

    #[test]
    fn each_path_that_fits_is_drawn_as_often() {
        let network = TestNetwork::new("fat-tree:k=4");
        let view = network.view();
        let dag = Dag::new(&view);
        let ends = pairs(&view).find(|ends| dag.path_count(*ends) == 4).expect("another pod");
        // Three of four paths fit: two over one aggregation switch, one over the other.
        let narrow = dag.path(ends, 3)[1];
        let mut rng = RandomStream::new(1, "ties");
        let mut search = Search::default();
        let mut drawn = [0u32; 4];
        for _ in 0..30_000 {
            assert!(search.any_fit(dag, ends, &mut rng, |link| link != narrow));
            drawn[dag.rank_of(ends, search.found()).expect("a shortest path") as usize] += 1;
        }
        assert_eq!(drawn[3], 0);
        assert!(drawn[..3].iter().all(|times| (9_500..10_500).contains(times)), "{drawn:?}");
    }
}
