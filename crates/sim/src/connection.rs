//! State of flows that several connections serve: MPTCP's subflows, which share the data, and RepFlow's copies, which
//! each carry all of it (mechanisms.md P11, P19). Every connection of such a flow has a slot of its own.

use std::collections::VecDeque;

use balance::{Connection as Plan, Copies, Coupling, Subflows};

use crate::coupling::{MAX_SUBFLOWS, Path};
use crate::flows::Slot;
use crate::outcome::FlowEnd;
use crate::queue::NIL;
use crate::tcp::Growth;
use crate::transport_rules::TcpRules;

/// Entries a subflow's map has room for from the start, at most; larger windows let it grow.
const MAP_ROOM: u32 = 1024;

/// A set of segments that fills from below: everything before `next`, and some within a window above.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentSet {
    next: u32,
    /// A ring of bits for the segments from `next` on; its length is a power of two.
    bits: Vec<u64>,
}

impl SegmentSet {
    fn reset(&mut self, words: usize) {
        self.next = 0;
        self.bits.clear();
        self.bits.resize(words, 0);
    }

    /// The lowest segment not in the set.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    #[inline]
    fn place(&self, segment: u32) -> (usize, u64) {
        ((segment >> 6) as usize & (self.bits.len() - 1), 1 << (segment & 63))
    }

    /// Whether a segment below `next` + window is in the set.
    #[inline]
    pub(crate) fn contains(&self, segment: u32) -> bool {
        let (word, bit) = self.place(segment);
        segment < self.next || self.bits[word] & bit != 0
    }

    /// Adds a segment below `next` + window; answers whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, segment: u32) -> bool {
        if self.contains(segment) {
            return false;
        }
        let (word, bit) = self.place(segment);
        self.bits[word] |= bit;
        loop {
            let (word, bit) = self.place(self.next);
            if self.bits[word] & bit == 0 {
                return true;
            }
            self.bits[word] &= !bit;
            self.next += 1;
        }
    }
}

/// One connection of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Child {
    /// Its slot, or [`NIL`] once that is closed.
    pub(crate) slot: u32,
    pub(crate) source_port: u16,
    /// The link its data takes first, where copies are to differ in it.
    pub(crate) first_hop: u32,
    /// Data segments its unacknowledged segments carry, in order of its own sequence (the mapping of RFC 8684 §3.3).
    map: VecDeque<u32>,
    /// Sequence number of the first entry of the map: the lowest not acknowledged.
    map_base: u32,
    /// Its segments below this have been offered to the other subflows.
    reinjected: u32,
}

/// A flow that several connections serve.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Position in the flow list.
    pub(crate) id: u32,
    pub(crate) started: u64,
    pub(crate) segments: u32,
    pub(crate) last_bytes: u32,
    /// By ordinal; those beyond `opened` are left from another flow.
    children: Vec<Child>,
    pub(crate) opened: usize,
    /// How the flow ended, once it has.
    pub(crate) end: FlowEnd,
    pub(crate) fct: u64,
    pub(crate) sender_fct: u64,
    /// What coupled congestion control knows of each subflow.
    pub(crate) paths: [Path; MAX_SUBFLOWS],
    /// Next data segment no subflow has taken.
    next: u32,
    /// Data segments the sender knows to have arrived, from the acknowledgements of the subflows.
    acked: SegmentSet,
    /// Data segments that arrived.
    pub(crate) arrived: SegmentSet,
    /// Data segments that timed out on a subflow (its ordinal), for the others.
    reinject: VecDeque<(u32, u8)>,
    /// A subflow could have sent but for the receive window.
    is_window_full: bool,
    /// The receive window has opened for subflows that waited for it.
    pub(crate) is_woken: bool,
    pub(crate) duplicate_bytes: u64,
}

/// What an acknowledgement on a subflow meant for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Data is still unacknowledged or unsent.
    Going,
    /// Everything is known to have arrived.
    Done,
}

impl Connection {
    /// Whether a subflow that may send has anything to: data that timed out elsewhere, or new data within the window.
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
        let is_open = self.next - self.acked.next() < window;
        self.is_window_full |= !is_open;
        is_open
    }

    /// Its connections, in the order they were opened.
    pub(crate) fn opened_children(&self) -> impl Iterator<Item = &Child> {
        self.children[..self.opened].iter()
    }

    /// Whether subflows have taken `bytes` of data or more, in segments of `mss`, and have not taken all there is.
    pub(crate) fn has_more_after(&self, bytes: u64, mss: u32) -> bool {
        self.next < self.segments && u64::from(self.next) * u64::from(mss) >= bytes
    }

    /// Takes the next data segment for a subflow that has data; answers whether another subflow sent it before.
    fn take(&mut self, ordinal: u8) -> bool {
        let reinjected = self.reinject.front().is_some_and(|(_, origin)| *origin != ordinal);
        let segment = if reinjected {
            self.reinject.pop_front().map_or(self.next, |(segment, _)| segment)
        } else {
            self.next += 1;
            self.next - 1
        };
        self.children[usize::from(ordinal)].map.push_back(segment);
        reinjected
    }

    /// The data segment that segment `seq` of a subflow carries; `seq` is not yet acknowledged.
    #[inline]
    fn mapped(&self, ordinal: u8, seq: u32) -> u32 {
        let child = &self.children[usize::from(ordinal)];
        child.map[(seq - child.map_base) as usize]
    }

    /// Payload of data segment `segment`, where full ones carry `mss`.
    fn payload(&self, segment: u32, mss: u32) -> u32 {
        if segment + 1 == self.segments { self.last_bytes } else { mss }
    }

    /// Subflow `ordinal` has everything below `una` acknowledged.
    pub(crate) fn acknowledge(&mut self, ordinal: u8, una: u32) -> Progress {
        let before = self.acked.next();
        let child = &mut self.children[usize::from(ordinal)];
        while child.map_base < una
            && let Some(segment) = child.map.pop_front()
        {
            child.map_base += 1;
            self.acked.insert(segment);
        }
        if self.acked.next() > before && self.is_window_full {
            self.is_window_full = false;
            self.is_woken = true;
        }
        if self.acked.next() == self.segments { Progress::Done } else { Progress::Going }
    }

    /// A subflow timed out: what it has outstanding below `high`, and has not offered before, is for the others too.
    pub(crate) fn offer_outstanding(&mut self, ordinal: u8, high: u32) {
        let child = &mut self.children[usize::from(ordinal)];
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

/// All flows of a run that several connections serve, and the rules they follow.
pub(crate) struct Connections {
    plan: Plan,
    /// Receive window shared by the subflows of a connection, segments.
    pub(crate) window: u32,
    list: Vec<Connection>,
    free: Vec<u32>,
}

impl Connections {
    pub(crate) fn new(plan: Plan, window: u32) -> Connections {
        Connections { plan, window, list: Vec::new(), free: Vec::new() }
    }

    /// Whether a flow of this size gets several connections.
    pub(crate) fn are_several(&self, size_bytes: u64) -> bool {
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

    /// Opens the object for a flow, without any connection yet.
    pub(crate) fn open(&mut self, id: u32, started: u64, segments: u32, last_bytes: u32) -> u32 {
        let ix = self.free.pop().unwrap_or_else(|| {
            self.list.push(Connection::unused());
            (self.list.len() - 1) as u32
        });
        let words = match self.plan {
            // Short flows need no more than they are long.
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

    /// Notes a newly opened slot of the connection.
    pub(crate) fn admit(&mut self, ix: u32, slot: u32, source_port: u16, first_hop: u32, max_window: u32) {
        let room = if self.subflows().is_some() { max_window.min(MAP_ROOM) as usize + 1 } else { 0 };
        let c = &mut self.list[ix as usize];
        if c.children.len() == c.opened {
            c.children.push(Child::default());
        }
        let child = &mut c.children[c.opened];
        (child.slot, child.source_port, child.first_hop) = (slot, source_port, first_hop);
        (child.map_base, child.reinjected) = (0, 0);
        child.map.clear();
        child.map.reserve(room);
        c.opened += 1;
    }

    /// A slot of the connection is closed; answers whether it was the last, and then forgets the connection.
    pub(crate) fn leave(&mut self, ix: u32, ordinal: u8) -> bool {
        let c = &mut self.list[ix as usize];
        c.children[usize::from(ordinal)].slot = NIL;
        let is_last = c.opened_children().all(|child| child.slot == NIL);
        if is_last {
            self.free.push(ix);
        }
        is_last
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ix: u32) -> &mut Connection {
        &mut self.list[ix as usize]
    }

    /// Slots of a connection, [`NIL`] where there is none (any more).
    pub(crate) fn slots(&self, ix: u32) -> [u32; MAX_SUBFLOWS] {
        let c = &self.list[ix as usize];
        let mut slots = [NIL; MAX_SUBFLOWS];
        slots.iter_mut().zip(c.opened_children()).for_each(|(slot, child)| *slot = child.slot);
        slots
    }

    /// Whether the slot could send a segment of data no subflow of its flow has to send now.
    pub(crate) fn can_pull(&mut self, slot: &Slot, rules: &TcpRules) -> bool {
        self.subflows().is_some()
            && !slot.is_sender_done
            && !slot.is_connecting
            && slot.sender.can_take(rules)
            && self.list[slot.connection as usize].has_data_for(slot.ordinal, self.window)
    }

    /// Gives the slot its next data segment, after [`Connections::can_pull`]; answers the number in its own sequence.
    pub(crate) fn pull(&mut self, slot: &mut Slot, rules: &TcpRules) -> Option<(u32, bool)> {
        let reinjected = self.list[slot.connection as usize].take(slot.ordinal);
        // Its first time on this subflow, but data sent again.
        slot.tally.retransmitted += u32::from(reinjected);
        slot.sender.append();
        slot.sender.next_segment(rules)
    }

    /// Payload of segment `seq` of a slot.
    pub(crate) fn payload(&self, slot: &Slot, seq: u32, mss: u32) -> u32 {
        let c = &self.list[slot.connection as usize];
        match self.plan {
            Plan::Subflows(_) => c.payload(c.mapped(slot.ordinal, seq), mss),
            _ => c.payload(seq, mss),
        }
    }

    /// How much an acknowledgement about to be handled lets the slot's window grow.
    pub(crate) fn couple(&self, slot: &mut Slot) {
        let Plan::Subflows(Subflows { coupling, .. }) = self.plan else { return };
        let c = &self.list[slot.connection as usize];
        slot.sender.growth = if !slot.sender.is_window_used() {
            Growth::Held
        } else if coupling == Coupling::None {
            Growth::Own
        } else {
            crate::coupling::increase(coupling, &c.paths[..c.opened], usize::from(slot.ordinal))
                .map_or(Growth::Own, Growth::Coupled)
        };
    }

    /// Takes in what an acknowledgement of `acked` segments or a loss did to a subflow.
    pub(crate) fn note_path(&mut self, slot: &Slot, rules: &TcpRules, acked: u32, has_lost: bool) {
        let sender = &slot.sender;
        let path = &mut self.list[slot.connection as usize].paths[usize::from(slot.ordinal)];
        path.update(sender.window(rules), sender.srtt(), sender.threshold(), acked, has_lost);
    }

    /// A segment of a slot arrived, for the first time on that slot if `is_new`. Answers whether that completes the flow.
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
                c.arrived.next() == c.segments
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

impl Connection {
    fn unused() -> Connection {
        Connection {
            id: NIL,
            started: 0,
            segments: 0,
            last_bytes: 0,
            children: Vec::new(),
            opened: 0,
            end: FlowEnd::Running,
            fct: 0,
            sender_fct: 0,
            paths: [Path::default(); MAX_SUBFLOWS],
            next: 0,
            acked: SegmentSet::default(),
            arrived: SegmentSet::default(),
            reinject: VecDeque::new(),
            is_window_full: false,
            is_woken: false,
            duplicate_bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    proptest::proptest! {
        /// Against an ordinary set, with additions anywhere within the window, repeated ones too.
        #[test]
        fn a_segment_set_is_a_set(offsets in proptest::collection::vec(0u32..120, 1..800)) {
            let (mut set, mut model) = (SegmentSet::default(), BTreeSet::new());
            set.reset(2);
            for offset in offsets {
                let segment = (set.next() + offset).saturating_sub(10);
                proptest::prop_assert_eq!(set.insert(segment), model.insert(segment));
                proptest::prop_assert!(set.contains(segment));
                let next = (0..).find(|s| !model.contains(s)).unwrap();
                proptest::prop_assert_eq!(set.next(), next);
                proptest::prop_assert!(!set.contains(next));
            }
        }
    }

    fn two_subflows(window: u32) -> Connections {
        let plan = Plan::Subflows(Subflows { count: 2, coupling: Coupling::Lia, open_after_bytes: 0 });
        let mut connections = Connections::new(plan, window);
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
        assert_eq!(c.acknowledge(0, 1), Progress::Going);
        assert!(c.is_woken && c.has_data_for(0, 3));
        assert_eq!((c.payload(8, 1460), c.payload(9, 1460)), (1460, 100));
    }

    #[test]
    fn what_times_out_is_offered_once_and_only_to_others() {
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
        // The original arrives after all; the second copy is acknowledged later and changes nothing.
        c.acknowledge(0, 4);
        assert_eq!(c.acknowledge(1, 9), Progress::Done);
    }
}
