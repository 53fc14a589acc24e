//! State per flow, in a table by flow number.

use std::mem;

use crate::dataplane::PacketView;

/// Number of no flow: an unused place.
const NONE: u32 = u32::MAX;

/// One entry per flow number, made on demand, at a place that a hash of the number gives; on a
/// collision at the next free one. A table is as large as the number of flows that it has seen, and
/// its order is never visible.
#[derive(Clone, Debug)]
pub(crate) struct FlowTable<T> {
    /// Flow of each place, or [`NONE`]; the length is a power of two, or 0.
    keys: Vec<u32>,
    values: Vec<T>,
    used: usize,
}

impl<T: Clone + Default> FlowTable<T> {
    pub(crate) fn new() -> FlowTable<T> {
        FlowTable { keys: Vec::new(), values: Vec::new(), used: 0 }
    }

    /// Returns the entry of `flow`; a new number gets a default one.
    #[inline]
    pub(crate) fn slot(&mut self, flow: u32) -> &mut T {
        // At most half of the places are in use, so that a search is short.
        if 2 * self.used >= self.keys.len() {
            self.grow();
        }
        let place = self.place(flow);
        if self.keys[place] == NONE {
            self.keys[place] = flow;
            self.used += 1;
        }
        &mut self.values[place]
    }

    /// Returns a default entry for a flow that begins; discards an earlier flow's state.
    pub(crate) fn renew(&mut self, flow: u32) -> &mut T {
        let slot = self.slot(flow);
        *slot = T::default();
        slot
    }

    /// Returns the place of `flow`, or the unused one that it would get.
    #[inline]
    fn place(&self, flow: u32) -> usize {
        let mask = self.keys.len() - 1;
        // Multiplicative hashing (Knuth, volume 3, section 6.4): the high half of the product is mixed.
        let mut place = (u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.keys[place] != flow && self.keys[place] != NONE {
            place = (place + 1) & mask;
        }
        place
    }

    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.keys.len()).max(16);
        let keys = mem::replace(&mut self.keys, vec![NONE; size]);
        let values = mem::replace(&mut self.values, vec![T::default(); size]);
        for (flow, value) in keys.into_iter().zip(values).filter(|(flow, _)| *flow != NONE) {
            let place = self.place(flow);
            self.keys[place] = flow;
            self.values[place] = value;
        }
    }
}

/// State of the flows that pass a switch. A flow and its acknowledgements have an entry each.
#[derive(Clone, Debug)]
pub(crate) struct SwitchFlows<T>(FlowTable<Owned<T>>);

/// The state of a flow with its hash, which distinguishes it from an earlier flow of the same number.
#[derive(Clone, Debug, Default)]
struct Owned<T> {
    hash: u64,
    state: T,
}

impl<T: Clone + Default> SwitchFlows<T> {
    pub(crate) fn new() -> SwitchFlows<T> {
        SwitchFlows(FlowTable::new())
    }

    /// Returns the entry of a packet's flow; a default one for a flow that begins.
    #[inline]
    pub(crate) fn of(&mut self, packet: &PacketView) -> &mut T {
        let entry = self.0.slot(2 * packet.flow + u32::from(!packet.is_data));
        if entry.hash != packet.hash {
            *entry = Owned { hash: packet.hash, state: T::default() };
        }
        &mut entry.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::packet;
    use std::collections::BTreeMap;

    #[test]
    fn slots_appear_on_demand_and_are_renewed() {
        let mut table: FlowTable<u32> = FlowTable::new();
        *table.slot(5) = 7;
        assert_eq!((*table.slot(5), *table.slot(4), *table.slot(900)), (7, 0, 0));
        assert_eq!(*table.renew(5), 0);
    }

    #[test]
    fn at_a_switch_directions_and_later_flows_have_separate_entries() {
        let mut flows: SwitchFlows<u32> = SwitchFlows::new();
        let data = packet(5);
        *flows.of(&data) = 7;
        let ack = PacketView { is_data: false, hash: 99, ..data };
        assert_eq!((*flows.of(&ack), *flows.of(&data)), (0, 7));
        let successor = PacketView { hash: 1234, ..data };
        assert_eq!(*flows.of(&successor), 0);
        assert_eq!(*flows.of(&data), 0, "the entry has gone to the successor");
    }

    proptest::proptest! {
        #[test]
        fn a_flow_table_is_a_map(writes in proptest::collection::vec((0u32..400, 1u32..9), 1..600)) {
            let (mut table, mut model) = (FlowTable::new(), BTreeMap::new());
            for (flow, value) in writes {
                *table.slot(flow * 4096) = value;
                model.insert(flow, value);
            }
            for flow in 0..400 {
                proptest::prop_assert_eq!(*table.slot(flow * 4096), model.get(&flow).copied().unwrap_or(0));
            }
        }
    }
}
