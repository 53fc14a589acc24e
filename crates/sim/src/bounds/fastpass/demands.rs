//! Demands of pairs of hosts, in the order in which the arbiter serves them.

use std::collections::{BTreeMap, VecDeque};

use net::HostIx;

use crate::bounds::Order;

/// A pair of hosts. It outlives its flows, because it records when it was last served.
#[derive(Debug)]
struct Pair {
    src: HostIx,
    dst: HostIx,
    /// Smallest first: the slot of its last service, or the packets left of its shortest flow.
    key: (u64, u32),
    /// Flows and their remaining packets; the next one to send first.
    flows: VecDeque<(u32, u64)>,
    is_reachable: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Demands {
    order: Order,
    pairs: Vec<Pair>,
    pair_of: BTreeMap<(HostIx, HostIx), u32>,
    /// Reachable pairs with packets to send, in the order of their keys.
    waiting: Vec<u32>,
    /// Pairs granted a packet in this slot, in the order of the grants, and those that were not.
    granted: Vec<u32>,
    refused: Vec<u32>,
    slot: u64,
    sent: Vec<u64>,
}

impl Demands {
    pub(crate) fn new(order: Order, flows: usize) -> Demands {
        Demands { order, sent: vec![0; flows], ..Demands::default() }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn add(&mut self, id: u32, src: HostIx, dst: HostIx, packets: u64, is_reachable: bool) {
        let ix = *self.pair_of.entry((src, dst)).or_insert_with(|| {
            self.pairs.push(Pair { src, dst, key: (0, 0), flows: VecDeque::new(), is_reachable });
            self.pairs.len() as u32 - 1
        });
        let pair = &mut self.pairs[ix as usize];
        pair.is_reachable = is_reachable;
        let was_idle = pair.flows.is_empty();
        match self.order {
            Order::MaxMin => pair.flows.push_back((id, packets)),
            Order::Srpt => {
                let position = pair.flows.partition_point(|(other, left)| (*left, *other) <= (packets, id));
                pair.flows.insert(position, (id, packets));
            }
        }
        if !is_reachable {
            return;
        }
        if !was_idle && self.order == Order::Srpt {
            self.withdraw(ix);
        }
        if was_idle || self.order == Order::Srpt {
            self.enter(ix);
        }
    }

    pub(crate) fn reconsider(&mut self, is_reachable: impl Fn(HostIx, HostIx) -> bool) {
        self.waiting.clear();
        for ix in 0..self.pairs.len() as u32 {
            let pair = &mut self.pairs[ix as usize];
            pair.is_reachable = is_reachable(pair.src, pair.dst);
            if pair.is_reachable && !pair.flows.is_empty() {
                self.enter(ix);
            }
        }
    }

    /// Inserts a pair at its position, behind those with the same key.
    fn enter(&mut self, ix: u32) {
        if self.order == Order::Srpt {
            self.pairs[ix as usize].key =
                self.pairs[ix as usize].flows.front().map_or((0, 0), |(id, left)| (*left, *id));
        }
        let key = self.pairs[ix as usize].key;
        let position = self.waiting.partition_point(|other| self.pairs[*other as usize].key <= key);
        self.waiting.insert(position, ix);
    }

    fn withdraw(&mut self, ix: u32) {
        let key = self.pairs[ix as usize].key;
        let mut position = self.waiting.partition_point(|other| self.pairs[*other as usize].key < key);
        while self.waiting[position] != ix {
            position += 1;
        }
        self.waiting.remove(position);
    }

    /// Grants a packet to the pairs that `admit` accepts, in order. Returns the number of grants.
    pub(crate) fn match_pairs(&mut self, mut admit: impl FnMut(HostIx, HostIx) -> bool) -> usize {
        self.slot += 1;
        self.granted.clear();
        self.refused.clear();
        for ix in &self.waiting {
            let pair = &self.pairs[*ix as usize];
            if admit(pair.src, pair.dst) { self.granted.push(*ix) } else { self.refused.push(*ix) }
        }
        self.granted.len()
    }

    pub(crate) fn take_packet(&mut self, grant: usize) -> (u32, u64) {
        let pair = &mut self.pairs[self.granted[grant] as usize];
        let (id, left) = pair.flows.front_mut().map_or((0, 0), |flow| {
            flow.1 -= 1;
            *flow
        });
        match (left, self.order) {
            (0, _) => {
                pair.flows.pop_front();
            }
            (_, Order::MaxMin) => pair.flows.rotate_left(1),
            (_, Order::Srpt) => {}
        }
        self.sent[id as usize] += 1;
        (id, left)
    }

    pub(crate) fn end_slot(&mut self) {
        match self.order {
            Order::MaxMin => {
                std::mem::swap(&mut self.waiting, &mut self.refused);
                for ix in &self.granted {
                    let pair = &mut self.pairs[*ix as usize];
                    pair.key = (self.slot, 0);
                    if !pair.flows.is_empty() {
                        self.waiting.push(*ix);
                    }
                }
            }
            Order::Srpt => self.merge(),
        }
    }

    /// Merges the two lists. Granted flows have one packet less each, so they keep their order.
    fn merge(&mut self) {
        self.waiting.clear();
        let mut refused = self.refused.iter().copied().peekable();
        let mut done = Vec::new();
        for ix in self.granted.iter().copied() {
            let pair = &mut self.pairs[ix as usize];
            let (left, id) = pair.key;
            if left <= 1 {
                // That flow has ended; the pair's next one has another position.
                done.push(ix);
                continue;
            }
            pair.key = (left - 1, id);
            let key = pair.key;
            while let Some(other) = refused.next_if(|other| self.pairs[*other as usize].key <= key) {
                self.waiting.push(other);
            }
            self.waiting.push(ix);
        }
        self.waiting.extend(refused);
        for ix in done {
            if !self.pairs[ix as usize].flows.is_empty() {
                self.enter(ix);
            }
        }
    }

    /// Returns the flows with packets still to be granted, and the number of their granted packets.
    pub(crate) fn granted(&self) -> Vec<(u32, u64)> {
        let flows = self.pairs.iter().flat_map(|pair| &pair.flows);
        flows.map(|(id, _)| (*id, self.sent[*id as usize])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grants a packet per slot to the first pair. Returns the flows in the order of service.
    fn one_at_a_time(order: Order, flows: &[(u32, u32, u64)], slots: usize) -> Vec<u32> {
        let mut demands = Demands::new(order, flows.len());
        for (id, (src, dst, packets)) in (0u32..).zip(flows) {
            demands.add(id, HostIx(*src), HostIx(*dst), *packets, true);
        }
        let mut served = Vec::new();
        for _ in 0..slots {
            let mut is_free = true;
            let granted = demands.match_pairs(|_, _| std::mem::take(&mut is_free));
            served.extend((0..granted).map(|grant| demands.take_packet(grant).0));
            demands.end_slot();
        }
        assert!(demands.is_idle());
        served
    }

    #[test]
    fn pairs_take_turns_and_so_do_their_flows() {
        // Flows 0 and 1 are of one pair: together they get what flow 2 gets.
        assert_eq!(one_at_a_time(Order::MaxMin, &[(0, 9, 2), (0, 9, 2), (1, 9, 3)], 7), [0, 2, 1, 2, 0, 2, 1]);
    }

    #[test]
    fn the_shortest_remaining_goes_first() {
        assert_eq!(one_at_a_time(Order::Srpt, &[(0, 9, 3), (0, 9, 1), (1, 9, 2)], 6), [1, 2, 2, 0, 0, 0]);
    }

    #[test]
    fn a_shorter_flow_of_a_waiting_pair_moves_it_forward() {
        let mut demands = Demands::new(Order::Srpt, 3);
        demands.add(0, HostIx(0), HostIx(9), 5, true);
        demands.add(1, HostIx(1), HostIx(9), 3, true);
        demands.add(2, HostIx(0), HostIx(9), 1, true);
        assert_eq!(demands.waiting, [0, 1]);
        demands.match_pairs(|src, _| src == HostIx(0));
        assert_eq!(demands.take_packet(0), (2, 0));
        demands.end_slot();
        assert_eq!(demands.waiting, [1, 0]);
    }

    #[test]
    fn unreachable_pairs_not_served() {
        let mut demands = Demands::new(Order::MaxMin, 1);
        demands.add(0, HostIx(0), HostIx(1), 1, false);
        assert!(demands.is_idle());
        demands.reconsider(|_, _| true);
        assert!(!demands.is_idle());
        assert_eq!(demands.granted(), [(0, 0)]);
    }
}
