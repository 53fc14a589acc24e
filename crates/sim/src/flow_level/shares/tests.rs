//! Incremental rates against progressive filling from scratch, on random networks and changes.

use net::RandomStream;

use super::*;
use crate::bounds::fill::{Filler, Users};

/// A flow of the model: its links with weights, and its limit.
type ModelFlow = (Vec<(u32, f64)>, f64);

struct Model {
    shares: Shares,
    capacities: Vec<f64>,
    flows: Vec<Option<ModelFlow>>,
    rng: RandomStream,
}

impl Model {
    fn new(seed: u64, tolerance: f64) -> Model {
        let mut rng = RandomStream::new(seed, "shares");
        let links = 2 + rng.next_below(14);
        let capacities: Vec<f64> = (0..links).map(|_| 1.0 + rng.next_below(5) as f64).collect();
        Model { shares: Shares::new(capacities.iter().copied(), tolerance), capacities, flows: Vec::new(), rng }
    }

    fn path(&mut self, is_weighted: bool) -> Vec<(u32, f64)> {
        let links = self.capacities.len() as u32;
        let mut path: Vec<(u32, f64)> = Vec::new();
        for link in 0..links {
            if self.rng.next_f64() < 0.25 {
                let weight = if is_weighted { 0.1 + self.rng.next_f64() } else { 1.0 };
                path.push((link, weight));
            }
        }
        if path.is_empty() {
            path.push((self.rng.next_below(u64::from(links)) as u32, 1.0));
        }
        path
    }

    /// Does one random change and updates the rates.
    fn step(&mut self, is_weighted: bool) {
        let active: Vec<u32> =
            (0u32..).zip(&self.flows).filter(|(_, flow)| flow.is_some()).map(|(flow, _)| flow).collect();
        let any = |rng: &mut RandomStream| active.get(rng.next_below(active.len().max(1) as u64) as usize).copied();
        match (self.rng.next_below(10), any(&mut self.rng)) {
            (0..=4, _) | (_, None) => {
                let path = self.path(is_weighted);
                let limit = if is_weighted && self.rng.next_f64() < 0.3 { self.rng.next_f64() } else { f64::INFINITY };
                let free = self.flows.iter().position(Option::is_none).unwrap_or(self.flows.len());
                if free == self.flows.len() {
                    self.flows.push(None);
                }
                self.shares.insert(free as u32, &path, limit);
                self.flows[free] = Some((path, limit));
            }
            (5..=7, Some(flow)) => {
                self.shares.remove(flow);
                self.flows[flow as usize] = None;
            }
            (8, Some(flow)) if is_weighted => {
                let limit = if self.rng.next_f64() < 0.3 { f64::INFINITY } else { self.rng.next_f64() };
                self.shares.set_limit(flow, limit);
                self.flows[flow as usize].as_mut().expect("an active flow").1 = limit;
            }
            _ => {
                let link = self.rng.next_below(self.capacities.len() as u64) as u32;
                let capacity = self.rng.next_below(6) as f64;
                self.capacities[link as usize] = capacity;
                self.shares.set_capacity(link, capacity);
            }
        }
        // Several changes at one instant are solved together.
        if self.rng.next_f64() < 0.7 {
            self.shares.solve(|_, _| {});
        }
    }

    fn active(&self) -> impl Iterator<Item = (u32, &ModelFlow)> {
        (0u32..).zip(&self.flows).filter_map(|(id, flow)| flow.as_ref().map(|flow| (id, flow)))
    }
}

#[test]
fn incremental_rates_equal_progressive_filling_from_scratch() {
    let mut compared = 0;
    for seed in 0..150 {
        let mut model = Model::new(seed, 0.0);
        for _ in 0..120 {
            model.step(false);
            model.shares.solve(|_, _| {});
            let mut users = Users::new();
            model.active().for_each(|(_, (path, _))| users.push(path.iter().map(|(link, _)| *link)));
            let mut expected = Vec::new();
            Filler::default().max_min(&model.capacities, &users, &mut expected);
            for ((flow, _), expected) in model.active().zip(&expected) {
                let rate = model.shares.rate(flow);
                assert!((rate - expected).abs() <= 1e-7 * expected.max(1.0), "seed {seed}: {rate}, not {expected}");
                compared += 1;
            }
        }
    }
    assert!(compared > 100_000, "{compared} rates");
}

/// With weights and limits: no link is exceeded, and every flow has a bottleneck, which is the
/// definition of max-min fairness. With a tolerance, it has one within the tolerance.
#[test]
fn weighted_and_limited_flows_each_have_a_bottleneck() {
    for seed in 0..300 {
        let tolerance = if seed % 2 == 0 { 0.0 } else { 0.05 };
        let less = 1.0 - tolerance;
        let mut model = Model::new(1000 + seed, tolerance);
        for _ in 0..120 {
            model.step(true);
            model.shares.solve(|_, _| {});
            let rate = |flow: u32| model.shares.rate(flow);
            let mut used = vec![0.0; model.capacities.len()];
            let mut highest = vec![0.0f64; model.capacities.len()];
            for (flow, (path, limit)) in model.active() {
                assert!(rate(flow) <= *limit * (1.0 + 1e-7));
                for (link, weight) in path {
                    used[*link as usize] += weight * rate(flow);
                    highest[*link as usize] = highest[*link as usize].max(rate(flow));
                }
            }
            assert!(used.iter().zip(&model.capacities).all(|(used, capacity)| *used <= capacity + 1e-7));
            for (flow, (path, limit)) in model.active() {
                let is_bottleneck = |(link, _): &(u32, f64)| {
                    let at = *link as usize;
                    used[at] >= less * model.capacities[at] - 1e-7 && rate(flow) >= less * highest[at] - 1e-7
                };
                let is_held_back = rate(flow) >= less * limit - 1e-7 || path.iter().any(is_bottleneck);
                assert!(is_held_back, "seed {seed}: flow {flow} could have more than {}", rate(flow));
            }
        }
    }
}

#[test]
fn a_change_elsewhere_leaves_a_flow_alone() {
    let mut shares = Shares::new([10.0, 10.0, 10.0].into_iter(), 0.0);
    shares.insert(0, &[(0, 1.0)], f64::INFINITY);
    shares.insert(1, &[(1, 1.0), (2, 1.0)], f64::INFINITY);
    shares.solve(|_, _| {});
    let mut changes = Vec::new();
    shares.insert(2, &[(2, 1.0)], f64::INFINITY);
    shares.solve(|flow, rate| changes.push((flow, rate)));
    changes.sort_by_key(|(flow, _)| *flow);
    assert_eq!(changes, [(1, 5.0), (2, 5.0)]);
}

#[test]
fn a_change_within_the_tolerance_ends_at_its_flows() {
    let changes = |tolerance: f64| {
        let mut shares = Shares::new([10.0, 20.0].into_iter(), tolerance);
        shares.insert(0, &[(0, 1.0), (1, 1.0)], f64::INFINITY);
        shares.insert(1, &[(0, 1.0)], f64::INFINITY);
        shares.insert(2, &[(1, 1.0)], f64::INFINITY);
        shares.solve(|_, _| {});
        let mut changed = Vec::new();
        shares.set_limit(1, 4.98);
        shares.solve(|flow, _| changed.push(flow));
        changed.sort_unstable();
        (changed, shares.rate(0), shares.rate(2))
    };
    let (changed, rate, other) = changes(0.0);
    assert_eq!(changed, [0, 1, 2]);
    assert!((rate - 5.02).abs() < 1e-9 && (other - 14.98).abs() < 1e-9, "{rate}, {other}");
    assert_eq!(changes(0.01), (vec![1], 5.0, 15.0));
}
