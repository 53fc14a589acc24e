//! State per flow, dense by flow number.

/// One slot per flow number, made on demand. Numbers are small and reused, so this stays as large as the most flows
/// that were ever active at once.
#[derive(Clone, Debug)]
pub(crate) struct FlowTable<T>(Vec<T>);

impl<T: Clone + Default> FlowTable<T> {
    /// An empty table.
    pub(crate) fn new() -> FlowTable<T> {
        FlowTable(Vec::new())
    }

    /// The slot of `flow`, fresh if the number was never seen.
    #[inline]
    pub(crate) fn slot(&mut self, flow: u32) -> &mut T {
        let index = flow as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, T::default());
        }
        &mut self.0[index]
    }

    /// The slot of a flow that begins: whatever an earlier flow of this number left is forgotten.
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
