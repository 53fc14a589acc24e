//! The flows known to a controller.

use std::collections::BTreeMap;

use net::{Bandwidth, FiveTuple, HostIx, Time};

/// Number of a known flow; numbers are dense and reused after a flow has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Returns the number as an array index.
    pub const fn ix(self) -> usize {
        self.0 as usize
    }
}

/// Information about a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowInfo {
    /// Five-tuple on the wire; ports and protocol are 0 for all traffic of a pair of hosts.
    pub tuple: FiveTuple,
    /// Sender.
    pub src: HostIx,
    /// Receiver.
    pub dst: HostIx,
    /// Time of the first packet or report.
    pub started: Time,
    /// Bytes counted by the switch, or the value of the first report.
    pub bytes: u64,
    /// Rate over the last two distinct samples; `None` before there are two.
    pub rate: Option<Bandwidth>,
    /// Total size in bytes, if its host reported it.
    pub size: Option<u64>,
}

/// The flows known to a controller, by [`FlowId`].
#[derive(Clone, Debug, Default)]
pub struct FlowTable {
    flows: Vec<Option<FlowInfo>>,
    free: Vec<FlowId>,
    by_tuple: BTreeMap<FiveTuple, FlowId>,
}

impl FlowTable {
    /// Number of flows.
    pub fn len(&self) -> usize {
        self.by_tuple.len()
    }
    /// Returns whether no flow is known.
    pub fn is_empty(&self) -> bool {
        self.by_tuple.is_empty()
    }
    /// Returns one more than the largest number in use: the length of an array by [`FlowId`].
    pub fn capacity(&self) -> usize {
        self.flows.len()
    }
    /// Returns the information about a flow.
    #[inline]
    pub fn get(&self, flow: FlowId) -> Option<&FlowInfo> {
        self.flows.get(flow.ix())?.as_ref()
    }
    /// Returns the information about a flow, to record measurements.
    pub fn get_mut(&mut self, flow: FlowId) -> Option<&mut FlowInfo> {
        self.flows.get_mut(flow.ix())?.as_mut()
    }
    /// Returns the flow with a five-tuple.
    pub fn find(&self, tuple: &FiveTuple) -> Option<FlowId> {
        self.by_tuple.get(tuple).copied()
    }
    /// Returns all flows in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (FlowId, &FlowInfo)> {
        (0u32..).zip(&self.flows).filter_map(|(number, info)| Some((FlowId(number), info.as_ref()?)))
    }
    /// Adds a flow; one with the same five-tuple is replaced and keeps its number.
    pub fn insert(&mut self, info: FlowInfo) -> FlowId {
        let flow = match self.by_tuple.get(&info.tuple) {
            Some(flow) => *flow,
            None => self.free.pop().unwrap_or_else(|| {
                self.flows.push(None);
                FlowId(self.flows.len() as u32 - 1)
            }),
        };
        self.by_tuple.insert(info.tuple, flow);
        self.flows[flow.ix()] = Some(info);
        flow
    }
    /// Removes a flow and frees its number.
    pub fn remove(&mut self, flow: FlowId) -> Option<FlowInfo> {
        let info = self.flows.get_mut(flow.ix())?.take()?;
        self.by_tuple.remove(&info.tuple);
        self.free.push(flow);
        Some(info)
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    fn info(port: u16) -> FlowInfo {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let tuple = FiveTuple { src, dst, protocol: 6, src_port: port, dst_port: 80 };
        FlowInfo { tuple, src: HostIx(0), dst: HostIx(1), started: Time::ZERO, bytes: 0, rate: None, size: None }
    }

    #[test]
    fn numbers_are_dense_and_reused() {
        let mut table = FlowTable::default();
        let flows: Vec<FlowId> = (0..3).map(|port| table.insert(info(port))).collect();
        assert_eq!(flows, [FlowId(0), FlowId(1), FlowId(2)]);
        assert_eq!(table.insert(info(1)), FlowId(1), "the same flow again");
        assert_eq!(table.remove(FlowId(1)).map(|info| info.tuple.src_port), Some(1));
        assert_eq!((table.remove(FlowId(1)), table.find(&info(1).tuple)), (None, None));
        assert_eq!((table.insert(info(7)), table.len(), table.capacity()), (FlowId(1), 3, 3));
        assert_eq!(
            table.iter().map(|(flow, info)| (flow.0, info.tuple.src_port)).collect::<Vec<_>>(),
            [(0, 0), (1, 7), (2, 2)]
        );
    }
}
