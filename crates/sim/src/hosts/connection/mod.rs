//! State of flows with several connections (mechanisms.md P11, P19): MPTCP's subflows share the
//! data, RepFlow's copies each carry all of it. Every connection of such a flow has a slot.

pub(crate) mod open;
mod schedule;

use std::collections::VecDeque;

use balance::{Connection as Plan, Copies, Coupling, Subflows};

use crate::bits::{has, put, take};
use crate::hosts::slots::Slot;
use crate::outcome::FlowEnd;
use crate::queue::NIL;
use crate::transport::coupling::{MAX_SUBFLOWS, Path};
use crate::transport::params::TransportParams;
use crate::transport::sender::Growth;

/// Maximum initial capacity of a subflow's map; larger windows let it grow.
const MAP_CAPACITY: u32 = 1024;

/// A set of segments that fills from below: all before `next`, and some in a window above.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentSet {
    /// The lowest segment not in the set.
    pub(crate) next: u32,
    /// A ring of bits for the segments from `next` on; its length is a power of two.
    bits: Vec<u64>,
}

impl SegmentSet {
    fn reset(&mut self, words: usize) {
        self.next = 0;
        self.bits.clear();
        self.bits.resize(words, 0);
    }

    /// Returns whether a segment below `next` + window is in the set.
    #[inline]
    pub(crate) fn contains(&self, segment: u32) -> bool {
        segment < self.next || has(&self.bits, segment)
    }

    /// Adds a segment below `next` + window. Returns whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, segment: u32) -> bool {
        if self.contains(segment) {
            return false;
        }
        put(&mut self.bits, segment);
        while take(&mut self.bits, self.next) {
            self.next += 1;
        }
        true
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FlowConnection {
    /// Its slot, or [`NIL`] once that is closed.
    pub(crate) slot: u32,
    pub(crate) source_port: u16,
    /// First link of its data, if copies must differ in it.
    pub(crate) first_hop: u32,
    /// Data segments of its unacknowledged segments, in their order (the map of RFC 8684 §3.3).
    map: VecDeque<u32>,
    /// Sequence number of the first entry of the map: the lowest not acknowledged.
    map_base: u32,
    /// Lowest sequence number that has not been offered to the other subflows.
    reinjected: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FlowConnections {
    pub(crate) id: u32,
    pub(crate) started: u64,
    pub(crate) segments: u32,
    pub(crate) last_bytes: u32,
    /// Connections by ordinal; those beyond `opened` belong to a previous flow.
    connections: Vec<FlowConnection>,
    pub(crate) opened: usize,
    pub(crate) end: FlowEnd,
    pub(crate) fct: u64,
    pub(crate) sender_fct: u64,
    pub(crate) paths: [Path; MAX_SUBFLOWS],
    next: u32,
    /// Data segments that acknowledgements of subflows have named.
    acked: SegmentSet,
    pub(crate) arrived: SegmentSet,
    /// Data segments for other subflows that timed out on a subflow (its ordinal).
    reinject: VecDeque<(u32, u8)>,
    /// Whether the receive window alone kept a subflow from sending.
    is_window_full: bool,
    /// Whether the receive window has opened for subflows that waited for it.
    pub(crate) is_woken: bool,
    pub(crate) duplicate_bytes: u64,
}

impl FlowConnections {
    /// Returns whether there is data for a subflow: timed out elsewhere, or new in the window.
    fn has_data_for(&mut self, ordinal: u8, window: u32) -> bool {
        while let Some((segment, _)) = self.reinject.front().copied() {
            if !self.acked.contains(segment) {
                break;
            }
            self.reinject.pop_front();
        }
        if self.reinject.front().is_some_and(|(_, origin)| *origin != ordinal) {
            return true;
        }
        if self.next == self.segments {
            return false;
        }
        let is_open = self.next - self.acked.next < window;
        self.is_window_full |= !is_open;
        is_open
    }

    pub(crate) fn opened_connections(&self) -> impl Iterator<Item = &FlowConnection> {
        self.connections[..self.opened].iter()
    }

    /// Takes the next data segment for a subflow. Returns whether another subflow sent it before.
    fn take(&mut self, ordinal: u8) -> bool {
        let reinjected = self.reinject.front().is_some_and(|(_, origin)| *origin != ordinal);
        let segment = if reinjected {
            self.reinject.pop_front().map_or(self.next, |(segment, _)| segment)
        } else {
            self.next += 1;
            self.next - 1
        };
        self.connections[usize::from(ordinal)].map.push_back(segment);
        reinjected
    }

    #[inline]
    fn mapped(&self, ordinal: u8, seq: u32) -> u32 {
        let child = &self.connections[usize::from(ordinal)];
        child.map[(seq - child.map_base) as usize]
    }

    fn payload(&self, segment: u32, mss: u32) -> u32 {
        if segment + 1 == self.segments { self.last_bytes } else { mss }
    }

    /// Records that everything below `una` is acknowledged on subflow `ordinal`. Returns whether all
    /// data of the connection is.
    pub(crate) fn acknowledge(&mut self, ordinal: u8, una: u32) -> bool {
        let before = self.acked.next;
        let child = &mut self.connections[usize::from(ordinal)];
        while child.map_base < una
            && let Some(segment) = child.map.pop_front()
        {
            child.map_base += 1;
            self.acked.insert(segment);
        }
        if self.acked.next > before && self.is_window_full {
            self.is_window_full = false;
            self.is_woken = true;
        }
        self.acked.next == self.segments
    }

    /// Offers the outstanding segments below `high` to the other subflows, each once.
    pub(crate) fn offer_outstanding(&mut self, ordinal: u8, high: u32) {
        let child = &mut self.connections[usize::from(ordinal)];
        let from = child.reinjected.max(child.map_base);
        child.reinjected = high.max(from);
        for seq in from..high {
            let segment = child.map[(seq - child.map_base) as usize];
            if !self.acked.contains(segment) {
                self.reinject.push_back((segment, ordinal));
            }
        }
    }
}

pub(crate) struct ConnectionTable {
    plan: Plan,
    /// Receive window shared by the subflows of a connection, segments.
    pub(crate) window: u32,
    list: Vec<FlowConnections>,
    free: Vec<u32>,
}

impl ConnectionTable {
    pub(crate) fn new(plan: Plan, window: u32) -> ConnectionTable {
        ConnectionTable { plan, window, list: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn uses_several(&self, size_bytes: u64) -> bool {
        match self.plan {
            Plan::Single => false,
            Plan::Subflows(subflows) => subflows.count > 1,
            Plan::Copies(copies) => copies.count > 1 && size_bytes <= copies.max_bytes,
        }
    }

    pub(crate) fn subflows(&self) -> Option<Subflows> {
        if let Plan::Subflows(subflows) = self.plan { Some(subflows) } else { None }
    }

    pub(crate) fn copies(&self) -> Option<Copies> {
        if let Plan::Copies(copies) = self.plan { Some(copies) } else { None }
    }

    pub(crate) fn open(&mut self, id: u32, started: u64, segments: u32, last_bytes: u32) -> u32 {
        let ix = self.free.pop().unwrap_or_else(|| {
            self.list.push(FlowConnections::default());
            (self.list.len() - 1) as u32
        });
        let words = match self.plan {
            // A short flow needs no more words than it has segments.
            Plan::Subflows(_) => (self.window.min(segments) as usize / 64 + 2).next_power_of_two(),
            _ => 0,
        };
        let c = &mut self.list[ix as usize];
        (c.id, c.started, c.segments, c.last_bytes) = (id, started, segments, last_bytes);
        (c.end, c.fct, c.sender_fct, c.opened, c.next) = (FlowEnd::Running, 0, 0, 0, 0);
        (c.is_window_full, c.is_woken, c.duplicate_bytes) = (false, false, 0);
        c.paths = [Path::default(); MAX_SUBFLOWS];
        c.acked.reset(words);
        c.arrived.reset(words);
        c.reinject.clear();
        ix
    }

    pub(crate) fn admit(&mut self, ix: u32, slot: u32, source_port: u16, first_hop: u32, max_window: u32) {
        let room = if self.subflows().is_some() { max_window.min(MAP_CAPACITY) as usize + 1 } else { 0 };
        let c = &mut self.list[ix as usize];
        if c.connections.len() == c.opened {
            c.connections.push(FlowConnection::default());
        }
        let child = &mut c.connections[c.opened];
        (child.slot, child.source_port, child.first_hop) = (slot, source_port, first_hop);
        (child.map_base, child.reinjected) = (0, 0);
        child.map.clear();
        child.map.reserve(room);
        c.opened += 1;
    }

    /// Removes a closed slot. Returns whether it was the last; the connection then goes too.
    pub(crate) fn leave(&mut self, ix: u32, ordinal: u8) -> bool {
        let c = &mut self.list[ix as usize];
        c.connections[usize::from(ordinal)].slot = NIL;
        let is_last = c.opened_connections().all(|child| child.slot == NIL);
        if is_last {
            self.free.push(ix);
        }
        is_last
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ix: u32) -> &mut FlowConnections {
        &mut self.list[ix as usize]
    }

    /// Returns the slots of a connection, [`NIL`] for those that do not exist (any more).
    pub(crate) fn slots(&self, ix: u32) -> [u32; MAX_SUBFLOWS] {
        let c = &self.list[ix as usize];
        let mut slots = [NIL; MAX_SUBFLOWS];
        slots.iter_mut().zip(c.opened_connections()).for_each(|(slot, child)| *slot = child.slot);
        slots
    }

    /// Returns whether the slot has space for shared data, and there is some.
    pub(crate) fn can_pull(&mut self, slot: &Slot, params: &TransportParams) -> bool {
        self.subflows().is_some()
            && !slot.is_sender_done
            && !slot.is_connecting
            && slot.sender.can_take(params)
            && self.list[slot.connection as usize].has_data_for(slot.ordinal, self.window)
    }

    /// Gives the slot its next data segment. Returns its sequence number on the slot.
    pub(crate) fn pull(&mut self, slot: &mut Slot, params: &TransportParams) -> Option<(u32, bool)> {
        let reinjected = self.list[slot.connection as usize].take(slot.ordinal);
        // New on this subflow, but retransmitted data.
        slot.tally.retransmitted += u32::from(reinjected);
        slot.sender.state.total += 1;
        slot.sender.next_segment(params)
    }

    pub(crate) fn payload(&self, slot: &Slot, seq: u32, mss: u32) -> u32 {
        let c = &self.list[slot.connection as usize];
        match self.plan {
            Plan::Subflows(_) => c.payload(c.mapped(slot.ordinal, seq), mss),
            _ => c.payload(seq, mss),
        }
    }

    /// Sets how much the acknowledgement that is handled next lets the slot's window grow.
    pub(crate) fn couple(&self, slot: &mut Slot) {
        let Plan::Subflows(Subflows { coupling, .. }) = self.plan else { return };
        let c = &self.list[slot.connection as usize];
        slot.sender.state.growth = if !slot.sender.state.is_window_used() {
            Growth::Held
        } else if coupling == Coupling::None {
            Growth::Own
        } else {
            crate::transport::coupling::increase(coupling, &c.paths[..c.opened], usize::from(slot.ordinal))
                .map_or(Growth::Own, Growth::Coupled)
        };
    }

    /// Updates the path state of a subflow after an acknowledgement of `acked` segments or a loss.
    pub(crate) fn note_path(&mut self, slot: &Slot, params: &TransportParams, acked: u32, has_lost: bool) {
        let state = &slot.sender.state;
        let path = &mut self.list[slot.connection as usize].paths[usize::from(slot.ordinal)];
        path.update(state.window(params), state.srtt, state.ssthresh, acked, has_lost);
    }

    /// Records an arrival at a slot, the first one if `is_new`. Returns whether it ends the flow.
    pub(crate) fn note_arrival(&mut self, slot: &Slot, seq: u32, is_new: bool, now: u64, mss: u32) -> bool {
        let c = &mut self.list[slot.connection as usize];
        if !is_new {
            return false;
        }
        let has_all = match self.plan {
            Plan::Subflows(_) => {
                let segment = c.mapped(slot.ordinal, seq);
                if !c.arrived.insert(segment) {
                    c.duplicate_bytes += u64::from(c.payload(segment, mss));
                }
                c.arrived.next == c.segments
            }
            _ => slot.receiver.next == slot.segments,
        };
        if !has_all || c.end != FlowEnd::Running {
            return false;
        }
        c.end = FlowEnd::Completed;
        c.fct = now - c.started;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    proptest::proptest! {
        /// Compares with an ordinary set: additions anywhere within the window, repeated ones too.
        #[test]
        fn a_segment_set_is_a_set(offsets in proptest::collection::vec(0u32..120, 1..800)) {
            let (mut set, mut model) = (SegmentSet::default(), BTreeSet::new());
            set.reset(2);
            for offset in offsets {
                let segment = (set.next + offset).saturating_sub(10);
                proptest::prop_assert_eq!(set.insert(segment), model.insert(segment));
                proptest::prop_assert!(set.contains(segment));
                let next = (0..).find(|s| !model.contains(s)).unwrap();
                proptest::prop_assert_eq!(set.next, next);
                proptest::prop_assert!(!set.contains(next));
            }
        }
    }

    fn two_subflows(window: u32) -> ConnectionTable {
        let subflows = Subflows { count: 2, coupling: Coupling::Lia, open_after_bytes: 0, join_after_data: false };
        let plan = Plan::Subflows(subflows);
        let mut connections = ConnectionTable::new(plan, window);
        let ix = connections.open(0, 0, 10, 100);
        connections.admit(ix, 0, 1, NIL, 100);
        connections.admit(ix, 1, 2, NIL, 100);
        connections
    }

    #[test]
    fn subflows_share_one_window_and_wake_when_it_opens() {
        let mut connections = two_subflows(3);
        let c = connections.get_mut(0);
        for ordinal in [0, 1, 1] {
            assert!(c.has_data_for(ordinal, 3) && !c.take(ordinal));
        }
        assert!(!c.has_data_for(0, 3) && !c.has_data_for(1, 3), "three of three are out");
        assert_eq!((c.mapped(0, 0), c.mapped(1, 0), c.mapped(1, 1)), (0, 1, 2));
        c.acknowledge(1, 2);
        assert!(!c.is_woken && !c.has_data_for(1, 3), "the lowest segment is missing");
        assert!(!c.acknowledge(0, 1));
        assert!(c.is_woken && c.has_data_for(0, 3));
        assert_eq!((c.payload(8, 1460), c.payload(9, 1460)), (1460, 100));
    }

    #[test]
    fn timed_out_data_offered_once_to_other_subflows() {
        let mut connections = two_subflows(100);
        let c = connections.get_mut(0);
        (0..4).for_each(|_| assert!(!c.take(0)));
        (4..10).for_each(|_| assert!(!c.take(1)));
        c.acknowledge(0, 1);
        c.offer_outstanding(0, 4);
        c.offer_outstanding(0, 4);
        assert!(!c.has_data_for(0, 100), "its own");
        let mut offered = Vec::new();
        while c.has_data_for(1, 100) {
            assert!(c.take(1), "sent before");
            offered.push(c.mapped(1, 6 + offered.len() as u32));
        }
        assert_eq!(offered, [1, 2, 3]);
        // The original arrives after all; a later acknowledgement of the copy changes nothing.
        c.acknowledge(0, 4);
        assert!(c.acknowledge(1, 9));
    }
}
