//! B4's traffic engineering: max-min fair shares of flow groups over several tunnels each, in
//! quanta (Jain et al., SIGCOMM 2013; F4 names it).
//!
//! A flow group is a pair of edge switches with traffic. Its tunnels are the shortest paths, not only
//! those of equal length. All groups grow by the same fair share, each on its shortest tunnel with
//! capacity, until a link is full (its groups go on over their next tunnels) or their demand is
//! met. The split of a group over its tunnels is then rounded to multiples of `1 / quanta`.
//!
//! Readings:
//! - Bandwidth functions are lines of slope 1 up to the demand: one application for each group. The
//!   allocation accepts several applications with weights, as in the paper's example, which is a
//!   test.
//! - B4 knows the demands of its applications. Here the demand of a group is its measured rate times
//!   `headroom`, so that a group on full links can grow.
//! - The paper rounds down and hands out the remaining quanta to the solution that is most max-min
//!   fair. Here they go to the tunnels that lost most by rounding, which gives the paper's example.
//! - A link that cannot carry one billionth of its rate more is full.
//!
//! On switches a split is a select group whose buckets write the label of a tunnel. The weight of a
//! bucket is its number of quanta, or, where groups are shuffled, every bucket occurs in proportion.
//!
//! Pitfall: the filling is quadratic in the number of groups; it is meant for tens of sites.
//!
//! - Helps: on wide-area networks, where the shortest paths cannot carry the demand and longer ones
//!   can.
//! - Hurts: on fabrics with many equal paths, where a few tunnels leave capacity unused; with demands
//!   that change faster than `period`.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::paths::{self, Metric};
use net::{LinkIx, Time};

use super::common::{Ends, PairBytes, default_routes, quantise, rate_of};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowSource, NetworkView, Path, Placements, WeightedPath,
};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("b4", "B4")
    .summary("Gives pairs of sites max-min fair shares over several tunnels each, in quanta.")
    .source("SIGCOMM 2013; F4")
    .granularity(Granularity::MovableFlow)
    .senses("flow counters")
    .params(&[
        Param::duration("period", "5s").doc("Time between two allocations."),
        Param::count("tunnels", 1..=64, "4").unit("tunnels").doc("Maximum number of tunnels of a pair; B4 uses 4."),
        Param::count("quanta", 1..=64, "4").doc("Number of equal parts a pair's traffic is split into; B4 uses 4."),
        Param::number("headroom", 1.0..=100.0, "1.5")
            .unit("times the measured rate")
            .doc("Demand of a pair, so that one on full links can grow."),
        Param::choice("metric", &["delay", "hops"], "delay").doc("Length of tunnels."),
        Param::choice("detect", &["pairs", "first-packets"], "pairs")
            .doc("Unit of counting: pairs of hosts, or flows whose first packets went to the controller."),
    ])
    .example("b4:tunnels=8,quanta=8")
    .central(|_, params| {
        Box::new(B4 {
            period: params.duration("period").max(Time::from_ms(1)),
            tunnels: params.count("tunnels") as usize,
            quanta: params.count("quanta") as u32,
            headroom: params.number("headroom"),
            metric: if params.text("metric") == "hops" { Metric::Hops } else { Metric::Delay },
            source: if params.text("detect") == "pairs" { FlowSource::Pairs } else { FlowSource::FirstPackets },
            bytes: PairBytes::default(),
            tunnels_of: BTreeMap::new(),
        })
    });

struct B4 {
    period: Time,
    tunnels: usize,
    quanta: u32,
    headroom: f64,
    metric: Metric,
    source: FlowSource,
    /// A pair without bytes in a period has the default routes.
    bytes: PairBytes,
    /// Tunnels of a pair, shortest first; empty again when the network changes.
    tunnels_of: BTreeMap<Ends, Vec<Path>>,
}

/// An application of a flow group, with a bandwidth function that is a line up to its demand.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Application {
    /// Slope of the line: bits per second and unit of fair share.
    weight: f64,
    /// Rate at which the application has all it wants, bits per second.
    demand: f64,
}

/// A flow group: its applications, and its tunnels as positions of links, preferred first.
struct Group {
    applications: Vec<Application>,
    tunnels: Vec<Vec<usize>>,
}

impl Group {
    /// Returns the growth per unit of fair share at `share`.
    fn slope(&self, share: f64) -> f64 {
        let grows = |application: &&Application| application.weight * share < application.demand * (1.0 - EPSILON);
        self.applications.iter().filter(grows).map(|application| application.weight).sum()
    }

    /// Returns the fair share above `share` at which the next application has its demand.
    fn next_kink(&self, share: f64) -> f64 {
        let kinks = self.applications.iter().map(|application| application.demand / application.weight);
        kinks.filter(|kink| *kink > share * (1.0 + EPSILON)).fold(f64::INFINITY, f64::min)
    }
}

/// Relative differences that are ignored.
const EPSILON: f64 = 1e-9;

/// Returns the rate of every tunnel of every group: progressive filling by fair share (SIGCOMM 2013,
/// §5.3). `capacity` is by link, bits per second.
fn allocate(capacity: &[f64], groups: &[Group]) -> Vec<Vec<f64>> {
    let mut left = capacity.to_vec();
    let mut rates: Vec<Vec<f64>> = groups.iter().map(|group| vec![0.0; group.tunnels.len()]).collect();
    // Position of the preferred tunnel with capacity; past the end if no tunnel has any.
    let mut preferred = vec![0; groups.len()];
    let mut share = 0.0;
    loop {
        let is_full = |link: usize, left: &[f64]| left[link] <= capacity[link] * EPSILON;
        let mut growth = vec![0.0; capacity.len()];
        let mut step = f64::INFINITY;
        let mut slopes = vec![0.0; groups.len()];
        for (nth, group) in groups.iter().enumerate() {
            while group.tunnels.get(preferred[nth]).is_some_and(|path| path.iter().any(|link| is_full(*link, &left))) {
                preferred[nth] += 1;
            }
            let Some(path) = group.tunnels.get(preferred[nth]) else { continue };
            slopes[nth] = group.slope(share);
            if slopes[nth] > 0.0 {
                path.iter().for_each(|link| growth[*link] += slopes[nth]);
                step = step.min(group.next_kink(share) - share);
            }
        }
        if slopes.iter().all(|slope| *slope == 0.0) {
            return rates;
        }
        let until_full = growth.iter().zip(&left).filter(|(growth, _)| **growth > 0.0);
        step = until_full.map(|(growth, left)| left / growth).fold(step, f64::min);
        for (nth, group) in groups.iter().enumerate().filter(|(nth, _)| slopes[*nth] > 0.0) {
            rates[nth][preferred[nth]] += slopes[nth] * step;
            group.tunnels[preferred[nth]].iter().for_each(|link| left[*link] -= slopes[nth] * step);
        }
        share += step;
    }
}

impl B4 {
    fn tunnels_of(&mut self, view: &NetworkView<'_>, ends: Ends) -> &[Path] {
        let (most, metric) = (self.tunnels, self.metric);
        self.tunnels_of.entry(ends).or_insert_with(|| {
            let to = view.routes.class_node(ends.to);
            let is_alive = |link: LinkIx| view.alive.get(link.ix()).copied().unwrap_or(false);
            let found = paths::k_shortest(view.topology, ends.from, to, most, metric, is_alive);
            found.into_iter().map(Path::from).collect()
        })
    }

    fn end_period(&mut self, view: &NetworkView<'_>, placements: &mut Placements) {
        let (counted, seconds) = self.bytes.end_period(view, self.period);
        let mut groups = Vec::new();
        let mut pairs = Vec::new();
        for (ends, bytes) in counted {
            if bytes == 0 {
                placements.split(ends.from, view.routes.class_node(ends.to), [].into());
                continue;
            }
            // If it is silent in the next period, its split goes.
            self.bytes.expect(ends);
            let demand = bytes as f64 * 8.0 / seconds * self.headroom;
            let tunnels = self.tunnels_of(view, ends);
            let tunnels = tunnels.iter().map(|path| path.iter().map(|link| link.ix()).collect()).collect();
            groups.push(Group { applications: vec![Application { weight: 1.0, demand }], tunnels });
            pairs.push(ends);
        }
        let capacity: Vec<f64> =
            (0..view.topology.links().len() as u32).map(|link| rate_of(view, LinkIx(link))).collect();
        for (ends, rates) in pairs.into_iter().zip(allocate(&capacity, &groups)) {
            let parts = quantise(&rates, self.quanta);
            let tunnels = self.tunnels_of(view, ends);
            let weighted = tunnels.iter().zip(parts).filter(|(_, parts)| *parts > 0);
            let weighted: Arc<[WeightedPath]> =
                weighted.map(|(path, parts)| WeightedPath { path: path.clone(), weight: parts as u16 }).collect();
            placements.split(ends.from, view.routes.class_node(ends.to), weighted);
        }
    }
}

impl CentralBalancer for B4 {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: self.source, counters: true, period: Some(self.period) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        match why {
            DecisionTrigger::NetworkChanged => {
                default_routes::equal_cost(view, placements);
                // Tunnels may be dead, and destinations may have new numbers.
                placements.clear_splits();
                self.tunnels_of.clear();
                self.bytes.forget_pairs();
            }
            DecisionTrigger::PeriodElapsed => self.end_period(view, placements),
            DecisionTrigger::FlowStarted(flow) => self.bytes.flow_started(flow),
            DecisionTrigger::FlowEnded(flow) => {
                self.bytes.count(view, flow);
                placements.release(flow);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::testing::DrivenBalancer;

    const fn application(weight: f64, demand: f64) -> Application {
        Application { weight, demand }
    }

    /// The example of the paper (figures 5 to 7, table 2): sites A to D with links of 10 Gb/s.
    /// Links: A-B 0, A-C 1, C-B 2, A-D 3, D-C 4.
    #[test]
    fn the_example_of_the_paper_comes_out() {
        let first = Group {
            applications: vec![application(10.0, 15.0), application(1.0, 5.0)],
            tunnels: vec![vec![0], vec![1, 2], vec![3, 4, 2]],
        };
        let second = Group { applications: vec![application(0.5, f64::INFINITY)], tunnels: vec![vec![1], vec![3, 4]] };
        let rates = allocate(&[10.0; 5], &[first, second]);
        let expected = [vec![10.0, 25.0 / 3.0, 5.0 / 3.0], vec![5.0 / 3.0, 25.0 / 3.0]];
        for (rates, expected) in rates.iter().zip(&expected) {
            assert!(rates.iter().zip(expected).all(|(rate, expected)| (rate - expected).abs() < 1e-6), "{rates:?}");
        }
        // By halves: 1/2, 1/2, 0 and 0, 1.
        assert_eq!((quantise(&rates[0], 2), quantise(&rates[1], 2)), (vec![1, 1, 0], vec![0, 2]));
    }

    #[test]
    fn allocation_is_max_min_fair_and_within_capacity() {
        // Two groups share a link of 12; one wants 2 only. A third has the link alone as its second
        // tunnel.
        let group = |demand: f64, tunnels: &[&[usize]]| Group {
            applications: vec![application(1.0, demand)],
            tunnels: tunnels.iter().map(|links| links.to_vec()).collect(),
        };
        let groups = [group(2.0, &[&[0]]), group(100.0, &[&[0]]), group(9.0, &[&[1], &[0]])];
        let rates = allocate(&[12.0, 5.0], &groups);
        // The third fills its own link at 5. Then it grows together with the second: (12 - 2 - 5) / 2.
        assert_eq!(rates, [vec![2.0], vec![7.5], vec![5.0, 2.5]]);
        assert_eq!(allocate(&[12.0], &[]), Vec::<Vec<f64>>::new());
        assert_eq!(allocate(&[0.0], &[group(1.0, &[&[0]])]), [vec![0.0]], "a link without capacity");
    }

    #[test]
    fn quanta_are_all_handed_out() {
        assert_eq!(quantise(&[1.0, 1.0, 1.0], 4), [2, 1, 1], "the preferred tunnel among equals");
        assert_eq!(quantise(&[0.0, 3.0], 4), [0, 4]);
        assert_eq!(quantise(&[0.0, 0.0], 4), [0, 0]);
    }

    /// A triangle: half of what exceeds the direct link goes around.
    #[test]
    fn demand_beyond_the_shortest_path_takes_a_longer_one() {
        let mut builder = net::TopologyBuilder::new("triangle");
        let sites: Vec<net::NodeIx> = (0..3).map(|site| builder.switch(format!("s{site}"), 1, None)).collect();
        for (site, switch) in sites.iter().enumerate() {
            let host = builder.host(format!("h{site}"), site as u32, None);
            builder.connect(host, *switch, net::Bandwidth::from_gbps(40), Time::from_us(1));
        }
        for (from, to) in [(0, 1), (1, 2), (0, 2)] {
            builder.connect(sites[from], sites[to], net::Bandwidth::from_gbps(10), Time::from_ms(5));
        }
        let network = crate::central::testing::TestNetwork::of(builder.build().expect("a triangle"));
        let mut driven = DrivenBalancer::on("b4", 1, network);
        let flow = driven.network.flow(0, 1, None);
        let mut run = |gigabits: u64| {
            driven.network.now += Time::from_s(5);
            driven.network.flows.get_mut(flow).unwrap().bytes += gigabits * 5 * 1_000_000_000 / 8;
            driven.period();
            let split = driven.splits().next().map(<[WeightedPath]>::to_vec).unwrap_or_default();
            split.iter().map(|path| (path.path.len(), path.weight)).collect::<Vec<_>>()
        };
        assert_eq!(run(4), [(1, 4)], "6 Gb/s fit on the direct link");
        assert_eq!(run(10), [(1, 3), (2, 1)], "10 of 15, which is 2.67 of 4 quanta, and 5");
        assert_eq!(run(14), [(1, 2), (2, 2)], "20 of 21: half each");
        assert_eq!(run(0), [], "without traffic: the default routes");
    }
}
