//! Sharing of capacities: progressive filling (max-min fair) and greedy in a given order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Debug, Default)]
pub struct Users {
    /// Start of each flow's limits in `limits`, with an end sentinel.
    start: Vec<u32>,
    limits: Vec<u32>,
}

impl Users {
    pub fn new() -> Users {
        Users { start: vec![0], limits: Vec::new() }
    }
    pub fn clear(&mut self) {
        self.start.truncate(1);
        self.limits.clear();
    }
    pub fn push(&mut self, limits: impl IntoIterator<Item = u32>) {
        self.limits.extend(limits);
        self.start.push(self.limits.len() as u32);
    }
    pub fn len(&self) -> usize {
        self.start.len() - 1
    }
    pub fn of(&self, flow: usize) -> &[u32] {
        &self.limits[self.start[flow] as usize..self.start[flow + 1] as usize]
    }
}

#[derive(Clone, Debug, Default)]
pub struct Filler {
    left: Vec<f64>,
    open: Vec<u32>,
    member_start: Vec<u32>,
    members: Vec<u32>,
    /// `(share as ordered bits, limit)`, smallest first.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Filler {
    /// Computes max-min fair rates, in the unit of `capacity`, by progressive filling: all rise
    /// until a limit is full (Bertsekas, Gallager: Data Networks, 6.5.2); infinite without limits.
    pub fn max_min(&mut self, capacity: &[f64], users: &Users, rates: &mut Vec<f64>) {
        self.open_all(capacity, users);
        rates.clear();
        rates.resize(users.len(), f64::INFINITY);
        // Shares only grow while flows are fixed at less: a stale entry is too small, and renewed.
        while let Some(Reverse((bits, limit))) = self.heap.pop() {
            let at = limit as usize;
            if self.open[at] == 0 {
                continue;
            }
            let share = self.share(at);
            if share > f64::from_bits(bits) {
                self.heap.push(Reverse((share.to_bits(), limit)));
                continue;
            }
            if share.is_infinite() {
                break; // The remaining flows have no limit.
            }
            for member in self.member_start[at]..self.member_start[at + 1] {
                let flow = self.members[member as usize] as usize;
                if rates[flow].is_infinite() {
                    rates[flow] = share;
                    self.fix(users.of(flow), share);
                }
            }
        }
    }

    /// Gives every flow, in the given order, all that is left on its limits.
    pub fn greedy(&mut self, capacity: &[f64], users: &Users, order: &[u32], rates: &mut Vec<f64>) {
        self.left.clear();
        self.left.extend_from_slice(capacity);
        rates.clear();
        rates.resize(users.len(), f64::INFINITY);
        for flow in order {
            let limits = users.of(*flow as usize);
            let rate = limits.iter().map(|limit| self.left[*limit as usize]).fold(f64::INFINITY, f64::min);
            rates[*flow as usize] = rate;
            if rate.is_infinite() {
                continue;
            }
            limits.iter().for_each(|limit| self.left[*limit as usize] -= rate);
        }
    }

    fn open_all(&mut self, capacity: &[f64], users: &Users) {
        self.left.clear();
        self.left.extend_from_slice(capacity);
        self.open.clear();
        self.open.resize(capacity.len(), 0);
        users.limits.iter().for_each(|limit| self.open[*limit as usize] += 1);
        self.member_start.clear();
        self.member_start.push(0);
        let mut sum = 0;
        self.member_start.extend(self.open.iter().map(|count| {
            sum += count;
            sum
        }));
        self.members.clear();
        self.members.resize(users.limits.len(), 0);
        // Placed from the back of each limit's range: its end is the cursor until it is its start.
        for flow in (0..users.len()).rev() {
            for limit in users.of(flow) {
                let end = &mut self.member_start[*limit as usize + 1];
                *end -= 1;
                self.members[*end as usize] = flow as u32;
            }
        }
        // Every end is now the start of its range: shift them back into place.
        let total = self.members.len() as u32;
        self.member_start.remove(0);
        self.member_start.push(total);
        self.heap.clear();
        for limit in (0..capacity.len()).filter(|limit| self.open[*limit] > 0) {
            self.heap.push(Reverse((self.share(limit).to_bits(), limit as u32)));
        }
    }

    fn share(&self, limit: usize) -> f64 {
        // Rounding may leave slightly less than 0.
        self.left[limit].max(0.0) / f64::from(self.open[limit])
    }

    fn fix(&mut self, limits: &[u32], rate: f64) {
        for limit in limits {
            self.left[*limit as usize] -= rate;
            self.open[*limit as usize] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::RandomStream;

    fn users(flows: &[&[u32]]) -> Users {
        let mut users = Users::new();
        flows.iter().for_each(|flow| users.push(flow.iter().copied()));
        users
    }

    fn max_min(capacity: &[f64], flows: &[&[u32]]) -> Vec<f64> {
        let mut rates = Vec::new();
        Filler::default().max_min(capacity, &users(flows), &mut rates);
        rates
    }

    #[test]
    fn textbook_chain() {
        // One flow over both links, three more on the first, one on the second.
        assert_eq!(max_min(&[1.0, 1.0], &[&[0, 1], &[0], &[0], &[0], &[1]]), [0.25, 0.25, 0.25, 0.25, 0.75]);
        assert_eq!(max_min(&[1.0, 5.0], &[&[0], &[], &[1]]), [1.0, f64::INFINITY, 5.0]);
        assert_eq!(max_min(&[0.0, 5.0], &[&[0, 1], &[1]]), [0.0, 5.0]);
    }

    #[test]
    fn greedy_takes_what_is_left() {
        let mut rates = Vec::new();
        Filler::default().greedy(&[1.0, 1.0], &users(&[&[0, 1], &[0], &[1]]), &[1, 0, 2], &mut rates);
        assert_eq!(rates, [0.0, 1.0, 1.0]);
    }

    /// By definition no limit is exceeded, and every flow has a full one where no flow gets more.
    #[test]
    fn every_flow_has_a_bottleneck() {
        let mut rng = RandomStream::new(3, "fill");
        for _ in 0..200 {
            let limits = 1 + rng.next_below(12) as u32;
            let capacity: Vec<f64> = (0..limits).map(|_| 1.0 + rng.next_below(5) as f64).collect();
            let mut users = Users::new();
            for _ in 0..1 + rng.next_below(40) {
                let mut own: Vec<u32> = (0..limits).filter(|_| rng.next_f64() < 0.3).collect();
                if own.is_empty() {
                    own.push(rng.next_below(u64::from(limits)) as u32);
                }
                users.push(own);
            }
            let mut rates = Vec::new();
            Filler::default().max_min(&capacity, &users, &mut rates);
            let (users, rates) = (&users, &rates);
            let on = |limit: u32| (0..users.len()).filter(move |flow| users.of(*flow).contains(&limit));
            let used: Vec<f64> = (0..limits).map(|limit| on(limit).map(|flow| rates[flow]).sum()).collect();
            let most: Vec<f64> =
                (0..limits).map(|limit| on(limit).map(|flow| rates[flow]).fold(0.0, f64::max)).collect();
            assert!(used.iter().zip(&capacity).all(|(used, capacity)| *used <= capacity + 1e-9));
            for (flow, rate) in rates.iter().enumerate() {
                let is_bottleneck = |limit: &u32| {
                    let at = *limit as usize;
                    used[at] >= capacity[at] - 1e-9 && *rate >= most[at] - 1e-9
                };
                assert!(users.of(flow).iter().any(is_bottleneck), "flow {flow} could have more");
            }
        }
    }
}
