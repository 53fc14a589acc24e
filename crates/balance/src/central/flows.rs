//! The flows a controller knows.

use std::collections::BTreeMap;

use net::{Bandwidth, FiveTuple, HostIx, Time};

/// A flow known to the controller; numbers are dense and reused after a flow has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowId(pub u32);

impl FlowId {
    /// As an array index.
    pub const fn ix(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowFacts {
    /// What names it on the wire; ports and protocol are 0 where a flow is all traffic of a pair of hosts.
    pub tuple: FiveTuple,
    /// Sender.
    pub src: HostIx,
    /// Receiver.
    pub dst: HostIx,
    /// When it was first seen.
    pub started: Time,
    /// Bytes counted, or reported when it was first seen.
    pub bytes: u64,
    /// Bits per second over the last two distinct samples; `None` before there are two.
    pub rate: Option<Bandwidth>,
    /// Bytes it will have sent in all, if its host said so.
    pub size: Option<u64>,
}

/// The flows a controller knows, by [`FlowId`].
#[derive(Clone, Debug, Default)]
pub struct FlowTable {
    flows: Vec<Option<FlowFacts>>,
    free: Vec<FlowId>,
    by_tuple: BTreeMap<FiveTuple, FlowId>,
}

impl FlowTable {
    /// Number of flows.
    pub fn len(&self) -> usize {
        self.by_tuple.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_tuple.is_empty()
    }
    /// One more than the greatest number in use: the length of an array by [`FlowId`].
    pub fn capacity(&self) -> usize {
        self.flows.len()
    }
    /// A flow.
    #[inline]
    pub fn get(&self, flow: FlowId) -> Option<&FlowFacts> {
        self.flows.get(flow.ix())?.as_ref()
    }
    /// A flow, to note what was measured.
    pub fn get_mut(&mut self, flow: FlowId) -> Option<&mut FlowFacts> {
        self.flows.get_mut(flow.ix())?.as_mut()
    }
    /// The flow of a five-tuple.
    pub fn find(&self, tuple: &FiveTuple) -> Option<FlowId> {
        self.by_tuple.get(tuple).copied()
    }
    /// All flows by number.
    pub fn iter(&self) -> impl Iterator<Item = (FlowId, &FlowFacts)> {
        (0u32..).zip(&self.flows).filter_map(|(number, facts)| Some((FlowId(number), facts.as_ref()?)))
    }
    /// Adds a flow; one of the same five-tuple is replaced and keeps its number.
    pub fn insert(&mut self, facts: FlowFacts) -> FlowId {
        let flow = match self.by_tuple.get(&facts.tuple) {
            Some(flow) => *flow,
            None => self.free.pop().unwrap_or_else(|| {
                self.flows.push(None);
                FlowId(self.flows.len() as u32 - 1)
            }),
        };
        self.by_tuple.insert(facts.tuple, flow);
        self.flows[flow.ix()] = Some(facts);
        flow
    }
    /// Forgets a flow.
    pub fn remove(&mut self, flow: FlowId) -> Option<FlowFacts> {
        let facts = self.flows.get_mut(flow.ix())?.take()?;
        self.by_tuple.remove(&facts.tuple);
        self.free.push(flow);
        Some(facts)
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    fn facts(port: u16) -> FlowFacts {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let tuple = FiveTuple { src, dst, protocol: 6, src_port: port, dst_port: 80 };
        FlowFacts { tuple, src: HostIx(0), dst: HostIx(1), started: Time::ZERO, bytes: 0, rate: None, size: None }
    }

    #[test]
    fn numbers_are_dense_and_reused() {
        let mut table = FlowTable::default();
        let flows: Vec<FlowId> = (0..3).map(|port| table.insert(facts(port))).collect();
        assert_eq!(flows, [FlowId(0), FlowId(1), FlowId(2)]);
        assert_eq!(table.insert(facts(1)), FlowId(1), "the same flow again");
        assert_eq!(table.remove(FlowId(1)).map(|facts| facts.tuple.src_port), Some(1));
        assert_eq!((table.remove(FlowId(1)), table.find(&facts(1).tuple)), (None, None));
        assert_eq!((table.insert(facts(7)), table.len(), table.capacity()), (FlowId(1), 3, 3));
        assert_eq!(
            table.iter().map(|(flow, facts)| (flow.0, facts.tuple.src_port)).collect::<Vec<_>>(),
            [(0, 0), (1, 7), (2, 2)]
        );
    }
}
