//! Demands of flows bounded by the links of hosts alone: Hedera's estimator (mechanisms.md P08.1;
//! Al-Fares et al., NSDI 2010), which is exact.
//!
//! Reading: hosts may have links of different rates, so demands are bits per second rather than
//! shares of one rate. Pitfall: equal shares must not count as limited by their senders, hence the
//! tolerance in the comparisons.

use std::ops::Range;

use net::HostIx;

use crate::central::common::flows_by_host::FlowsByHost;

/// An estimate for one flow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Demand {
    /// Estimated demand, in the unit of the capacities (bits per second).
    pub rate: f64,
    pub is_receiver_limited: bool,
}

/// Difference, relative to capacity, that is ignored.
const TOLERANCE: f64 = 1e-9;

/// Estimates the demands of flows (source, destination) from the capacities of hosts. Also returns
/// the number of rounds, the last of which changed nothing.
///
/// A host is processed again only after a flow of it changed. The result is the same, since the
/// computation for a host depends on its own flows alone.
pub fn estimate(capacity: &[f64], flows: &[(HostIx, HostIx)]) -> (Vec<Demand>, u32) {
    let sources = FlowsByHost::by(capacity.len(), flows.iter().map(|(src, _)| src.ix()));
    let mut work = Work::new(capacity.len(), flows, &sources);
    let mut source_changed: Vec<bool> = (0..capacity.len()).map(|host| !sources.of(host).is_empty()).collect();
    let mut receiver_changed = vec![false; capacity.len()];
    let mut rounds = 0;
    let mut is_changed = true;
    while is_changed {
        (is_changed, rounds) = (false, rounds + 1);
        for host in 0..capacity.len() {
            if std::mem::take(&mut source_changed[host]) {
                is_changed |= work.by_source(capacity[host], sources.range(host), &mut receiver_changed);
            }
        }
        for host in 0..capacity.len() {
            if std::mem::take(&mut receiver_changed[host]) {
                is_changed |= work.by_receiver(capacity[host], host, &mut source_changed);
            }
        }
    }
    let mut demands = vec![Demand::default(); flows.len()];
    for (at, flow) in sources.all().iter().enumerate() {
        demands[*flow as usize] = Demand { rate: work.rate[at], is_receiver_limited: work.is_limited[at] };
    }
    (demands, rounds)
}

/// The flows by source: those of a source are consecutive; those of a receiver are not.
struct Work {
    rate: Vec<f64>,
    is_limited: Vec<bool>,
    source: Vec<u32>,
    receiver: Vec<u32>,
    /// Positions above by receiver, in the order of flows.
    at_receiver: Vec<u32>,
    receivers: FlowsByHost,
    /// Positions and rates of the flows that a receiver may limit.
    limited: Vec<(u32, f64)>,
}

impl Work {
    fn new(hosts: usize, flows: &[(HostIx, HostIx)], sources: &FlowsByHost) -> Work {
        let receivers = FlowsByHost::by(hosts, flows.iter().map(|(_, dst)| dst.ix()));
        let mut position = vec![0u32; flows.len()];
        for (at, flow) in (0u32..).zip(sources.all()) {
            position[*flow as usize] = at;
        }
        let by_source = || sources.all().iter().map(|flow| flows[*flow as usize]);
        Work {
            rate: vec![0.0; flows.len()],
            is_limited: vec![false; flows.len()],
            source: by_source().map(|(src, _)| src.0).collect(),
            receiver: by_source().map(|(_, dst)| dst.0).collect(),
            at_receiver: receivers.all().iter().map(|flow| position[*flow as usize]).collect(),
            receivers,
            limited: Vec::new(),
        }
    }

    /// Distributes what a source has left after receiver-limited flows among its other flows.
    fn by_source(&mut self, capacity: f64, own: Range<usize>, receiver_changed: &mut [bool]) -> bool {
        let (rates, is_limited, receiver) =
            (&mut self.rate[own.clone()], &self.is_limited[own.clone()], &self.receiver[own]);
        let (mut taken, mut others) = (0.0, 0u32);
        for (rate, is_limited) in rates.iter().zip(is_limited) {
            if *is_limited { taken += rate } else { others += 1 }
        }
        let share = (capacity - taken).max(0.0) / f64::from(others.max(1));
        let mut is_changed = false;
        for ((rate, is_limited), receiver) in rates.iter_mut().zip(is_limited).zip(receiver) {
            if !is_limited && (*rate - share).abs() > TOLERANCE * capacity {
                *rate = share;
                is_changed = true;
                receiver_changed[*receiver as usize] = true;
            }
        }
        is_changed
    }

    /// Limits the flows into a receiver to its capacity, in equal shares of what they could use.
    fn by_receiver(&mut self, capacity: f64, host: usize, source_changed: &mut [bool]) -> bool {
        let own = &self.at_receiver[self.receivers.range(host)];
        self.limited.clear();
        self.limited.extend(own.iter().map(|at| (*at, self.rate[*at as usize])));
        let total: f64 = self.limited.iter().map(|(_, rate)| rate).sum();
        if total <= capacity * (1.0 + TOLERANCE) {
            return false;
        }
        let (mut small, mut share) = (0.0, capacity / own.len() as f64);
        loop {
            let before = self.limited.len();
            self.limited.retain(|(_, rate)| {
                let is_small = *rate < share - TOLERANCE * capacity;
                small += if is_small { *rate } else { 0.0 };
                !is_small
            });
            if self.limited.len() == before || self.limited.is_empty() {
                break;
            }
            share = (capacity - small) / self.limited.len() as f64;
        }
        let mut is_changed = false;
        for (at, rate) in self.limited.iter().map(|(at, rate)| (*at as usize, *rate)) {
            if !self.is_limited[at] || (rate - share).abs() > TOLERANCE * capacity {
                (self.rate[at], self.is_limited[at]) = (share, true);
                is_changed = true;
                source_changed[self.source[at] as usize] = true;
            }
        }
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flows(pairs: &[(u32, u32)]) -> Vec<(HostIx, HostIx)> {
        pairs.iter().map(|(src, dst)| (HostIx(*src), HostIx(*dst))).collect()
    }

    fn check(pairs: &[(u32, u32)], expected: &[f64], limited: &[bool]) -> u32 {
        let (demands, rounds) = estimate(&[1.0; 4], &flows(pairs));
        for (demand, expected) in demands.iter().zip(expected) {
            assert!((demand.rate - expected).abs() < 1e-9, "{demands:?}");
        }
        assert_eq!(demands.iter().map(|demand| demand.is_receiver_limited).collect::<Vec<_>>(), limited);
        rounds
    }

    #[test]
    fn published_matrices_come_out() {
        let (third, two) = (1.0 / 3.0, 2.0 / 3.0);
        let (a, b, c, d) = (0, 1, 2, 3);
        let eight = [(a, b), (a, c), (a, d), (b, a), (b, a), (b, c), (c, a), (c, d), (d, b), (d, b)];
        let limited = [true, false, false, true, true, false, true, false, true, true];
        let rounds = check(&eight, &[third, third, third, third, third, third, third, two, third, third], &limited);
        assert_eq!(rounds, 3);
        check(&[(a, d), (b, d), (c, d), (c, a)], &[third, third, third, two], &[true, true, true, false]);
    }

    #[test]
    fn empty_input_gives_empty_estimate() {
        assert_eq!(estimate(&[1.0; 3], &[]).0, []);
        assert_eq!(estimate(&[0.0, 0.0], &flows(&[(0, 1)])).0[0].rate, 0.0);
    }

    proptest! {
        /// Checks that no host sends or receives more than its link carries. Checks also that no
        /// flow could get more without another getting less: its source is full, or its receiver is
        /// full and no flow there gets more than this one.
        #[test]
        fn demands_are_feasible_and_cannot_grow(
            pairs in prop::collection::vec((0u32..8, 0u32..8), 1..60),
            rates in prop::collection::vec(1u32..5, 8),
        ) {
            let capacity: Vec<f64> = rates.into_iter().map(f64::from).collect();
            let flows = flows(&pairs);
            let (demands, _) = estimate(&capacity, &flows);
            let sum = |is_of: &dyn Fn(&(HostIx, HostIx)) -> bool| -> f64 {
                flows.iter().zip(&demands).filter(|(flow, _)| is_of(flow)).map(|(_, demand)| demand.rate).sum()
            };
            for (flow, demand) in flows.iter().zip(&demands) {
                let (sent, received) = (sum(&|f| f.0 == flow.0), sum(&|f| f.1 == flow.1));
                let (src, dst) = (capacity[flow.0.ix()], capacity[flow.1.ix()]);
                prop_assert!(sent <= src + 1e-6 && received <= dst + 1e-6);
                let is_greatest = || flows.iter().zip(&demands).all(|(f, d)| f.1 != flow.1 || d.rate <= demand.rate + 1e-6);
                prop_assert!(sent >= src - 1e-6 || (received >= dst - 1e-6 && is_greatest()), "{:?} {:?}", flows, demands);
            }
        }
    }
}
