//! What flows would send if only the links of hosts bounded them: Hedera's estimator (mechanisms.md P08.1; Al-Fares et al.,
//! NSDI 2010), which is exact.
//!
//! Reading: hosts may have links of different rates, so demands are bits per second rather than shares of one rate.
//! Pitfall: equal shares must not count as limited by their senders, hence the tolerance in the comparisons.

use net::HostIx;

/// An estimate for one flow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Demand {
    /// Bits per second (or whatever capacities are given in).
    pub rate: f64,
    /// Whether its receiver limits it.
    pub is_receiver_limited: bool,
}

/// Relative to capacity, what does not count as a difference.
const TOLERANCE: f64 = 1e-9;

/// Estimates the demands of flows (source, destination) by the capacities of hosts; also answers how many rounds it took,
/// the last of which changed nothing.
///
/// A host is looked at again only when a flow of it changed, which does not alter the outcome: what is computed for a
/// host depends on its own flows alone.
pub fn estimate(capacity: &[f64], flows: &[(HostIx, HostIx)]) -> (Vec<Demand>, u32) {
    let mut demands = vec![Demand::default(); flows.len()];
    let sources = Grouped::by(capacity.len(), flows.iter().map(|(src, _)| src.ix()));
    let receivers = Grouped::by(capacity.len(), flows.iter().map(|(_, dst)| dst.ix()));
    let mut source_changed: Vec<bool> = (0..capacity.len()).map(|host| !sources.of(host).is_empty()).collect();
    let mut receiver_changed = vec![false; capacity.len()];
    let mut rounds = 0;
    let mut limited = Vec::new();
    let mut is_changed = true;
    while is_changed {
        (is_changed, rounds) = (false, rounds + 1);
        for host in 0..capacity.len() {
            if std::mem::take(&mut source_changed[host]) {
                is_changed |= by_source(capacity[host], sources.of(host), &mut demands, |flow| {
                    receiver_changed[flows[flow].1.ix()] = true;
                });
            }
        }
        for host in 0..capacity.len() {
            if std::mem::take(&mut receiver_changed[host]) {
                is_changed |= by_receiver(capacity[host], receivers.of(host), &mut demands, &mut limited, |flow| {
                    source_changed[flows[flow].0.ix()] = true;
                });
            }
        }
    }
    (demands, rounds)
}

/// Divides what the flows limited by their receivers leave of a source among the others.
fn by_source(capacity: f64, flows: &[u32], demands: &mut [Demand], mut changed: impl FnMut(usize)) -> bool {
    let (mut taken, mut others) = (0.0, 0u32);
    for flow in flows {
        match demands[*flow as usize] {
            Demand { rate, is_receiver_limited: true } => taken += rate,
            _ => others += 1,
        }
    }
    let share = (capacity - taken).max(0.0) / f64::from(others.max(1));
    let mut is_changed = false;
    for flow in flows.iter().map(|flow| *flow as usize) {
        let demand = &mut demands[flow];
        if !demand.is_receiver_limited && (demand.rate - share).abs() > TOLERANCE * capacity {
            demand.rate = share;
            is_changed = true;
            changed(flow);
        }
    }
    is_changed
}

/// Cuts the flows into a receiver to its capacity: equal shares for those that could use them.
fn by_receiver(
    capacity: f64,
    flows: &[u32],
    demands: &mut [Demand],
    limited: &mut Vec<u32>,
    mut changed: impl FnMut(usize),
) -> bool {
    let total: f64 = flows.iter().map(|flow| demands[*flow as usize].rate).sum();
    if total <= capacity * (1.0 + TOLERANCE) {
        return false;
    }
    limited.clear();
    limited.extend_from_slice(flows);
    let (mut small, mut share) = (0.0, capacity / flows.len() as f64);
    loop {
        let before = limited.len();
        limited.retain(|flow| {
            let rate = demands[*flow as usize].rate;
            let is_small = rate < share - TOLERANCE * capacity;
            small += if is_small { rate } else { 0.0 };
            !is_small
        });
        if limited.len() == before || limited.is_empty() {
            break;
        }
        share = (capacity - small) / limited.len() as f64;
    }
    let mut is_changed = false;
    for flow in limited.iter().map(|flow| *flow as usize) {
        let demand = Demand { rate: share, is_receiver_limited: true };
        let is_same = demands[flow].is_receiver_limited && (demands[flow].rate - share).abs() <= TOLERANCE * capacity;
        if !is_same {
            demands[flow] = demand;
            is_changed = true;
            changed(flow);
        }
    }
    is_changed
}

/// Flows grouped by a host.
struct Grouped {
    start: Vec<u32>,
    flows: Vec<u32>,
}

impl Grouped {
    fn by(hosts: usize, host_of: impl Iterator<Item = usize> + Clone) -> Grouped {
        let mut start = vec![0u32; hosts + 1];
        host_of.clone().for_each(|host| start[host + 1] += 1);
        (0..hosts).for_each(|host| start[host + 1] += start[host]);
        let mut next = start.clone();
        let mut flows = vec![0; start[hosts] as usize];
        for (flow, host) in host_of.enumerate() {
            flows[next[host] as usize] = flow as u32;
            next[host] += 1;
        }
        Grouped { start, flows }
    }
    fn of(&self, host: usize) -> &[u32] {
        &self.flows[self.start[host] as usize..self.start[host + 1] as usize]
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
    fn nothing_to_estimate_is_no_trouble() {
        assert_eq!(estimate(&[1.0; 3], &[]).0, []);
        assert_eq!(estimate(&[0.0, 0.0], &flows(&[(0, 1)])).0[0].rate, 0.0);
    }

    proptest! {
        /// No host sends or receives more than its link carries, and no flow could have more without another having less:
        /// its source is full, or its receiver is and gives no flow more than this one.
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
