//! State per flow, in an array by flow number.

/// One slot per flow number, made on demand. Numbers are small and reused, so the table is as large
/// as the maximum number of flows active at the same time.
#[derive(Clone, Debug)]
pub(crate) struct FlowTable<T>(Vec<T>);

impl<T: Clone + Default> FlowTable<T> {
    pub(crate) fn new() -> FlowTable<T> {
        FlowTable(Vec::new())
    }

    /// Returns the slot of `flow`; a new number gets a default slot.
    #[inline]
    pub(crate) fn slot(&mut self, flow: u32) -> &mut T {
        let index = flow as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, T::default());
        }
        &mut self.0[index]
    }

    /// Returns a default slot for a flow that begins; discards an earlier flow's state.
    pub(crate) fn renew(&mut self, flow: u32) -> &mut T {
        let slot = self.slot(flow);
        *slot = T::default();
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_appear_on_demand_and_are_renewed() {
        let mut table: FlowTable<u32> = FlowTable::new();
        *table.slot(5) = 7;
        assert_eq!((*table.slot(5), *table.slot(4), *table.slot(900)), (7, 0, 0));
        assert_eq!(*table.renew(5), 0);
    }
}
