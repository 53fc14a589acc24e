//! State of the flows now active: a slot each, reused once nothing of the old flow is left in the network.

use crate::outcome::FlowEnd;
use crate::queue::NIL;
use crate::selective::More;
use crate::tcp::Sender;
use crate::transport_rules::TcpRules;

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

/// Segments of a slot whose sender is given more as it goes: a subflow.
pub(crate) const OPEN_ENDED: u32 = u32::MAX;

/// A lazily kept timer: one deadline, and the time of the earliest event in the queue that will check it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) deadline: u64,
    armed: u64,
}

impl Timer {
    pub(crate) const fn new() -> Timer {
        Timer { deadline: NEVER, armed: NEVER }
    }

    /// Sets the deadline; answers a time to push an event for, if the pending one would come too late.
    #[inline]
    pub(crate) fn set(&mut self, deadline: u64) -> Option<u64> {
        self.deadline = deadline;
        if deadline < self.armed {
            self.armed = deadline;
            return Some(deadline);
        }
        None
    }

    /// An event for this timer came up. True if the deadline is reached; else answers when to look again.
    #[inline]
    pub(crate) fn fired(&mut self, now: u64) -> (bool, Option<u64>) {
        if now != self.armed {
            return (false, None); // Superseded by an earlier event.
        }
        self.armed = NEVER;
        if self.deadline <= now {
            self.deadline = NEVER;
            return (true, None);
        }
        if self.deadline == NEVER {
            return (false, None);
        }
        self.armed = self.deadline;
        (false, Some(self.deadline))
    }
}

/// Receiving side of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// Next segment expected.
    pub(crate) next: u32,
    /// One above the highest first-sent segment seen.
    pub(crate) highest: u32,
    /// Which segments above `next` have arrived: a ring of bits, taken from a pool when first needed.
    pub(crate) early: Option<Box<[u64]>>,
    /// In-order packets not yet acknowledged (delayed ACKs).
    pub(crate) unacked: u32,
    /// What the delayed acknowledgement will carry.
    pub(crate) delayed: Echo,
    /// Held packets in order of their segments: first, last, how many.
    pub(crate) held_first: u32,
    pub(crate) held_last: u32,
    pub(crate) held: u32,
    /// The gap at `next` was shown to the transport; later packets pass.
    pub(crate) is_gap_shown: bool,
    /// Overlay header of the last packet received in order: its flowcell.
    pub(crate) cell: u32,
    /// When the gap before the held packets appeared, and how long such gaps last on average.
    pub(crate) gap_since: u64,
    pub(crate) reordering_time: u64,
    /// Go-back-n: the gap at `next` was reported.
    pub(crate) is_gap_reported: bool,
    /// DCQCN: no notification before.
    pub(crate) notify_from: u64,
    pub(crate) timer: Timer,
}

/// What an acknowledgement carries back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Echo {
    pub(crate) sent: u32,
    pub(crate) edge: u32,
    pub(crate) path: u16,
    pub(crate) marked: bool,
    /// The segment that arrived.
    pub(crate) segment: u32,
    /// Further flags of the acknowledgement.
    pub(crate) flags: u16,
}

impl Receiver {
    /// Marks a segment above `next` as arrived; answers whether it already was.
    #[inline]
    pub(crate) fn note_early(&mut self, segment: u32, words: usize, pool: &mut Vec<Box<[u64]>>) -> bool {
        let bits = self.early.get_or_insert_with(|| pool.pop().unwrap_or_else(|| vec![0u64; words].into_boxed_slice()));
        let (word, bit) = place(segment, bits.len());
        let had = bits[word] & bit != 0;
        bits[word] |= bit;
        had
    }

    /// `next` has arrived: moves on over everything contiguous.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next += 1;
        if let Some(bits) = &mut self.early {
            loop {
                let (word, bit) = place(self.next, bits.len());
                if bits[word] & bit == 0 {
                    break;
                }
                bits[word] &= !bit;
                self.next += 1;
            }
        }
        self.is_gap_shown = false;
        self.is_gap_reported = false;
    }
}

#[inline]
fn place(segment: u32, words: usize) -> (usize, u64) {
    ((segment >> 6) as usize & (words - 1), 1 << (segment & 63))
}

/// An active flow.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// Position in the flow list, or [`NIL`] while the slot is free.
    pub(crate) id: u32,
    /// The connection object it belongs to, or [`NIL`] where the slot serves its flow alone.
    pub(crate) connection: u32,
    /// Its place among the slots of that connection.
    pub(crate) ordinal: u8,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    /// Destination class of data and of ACKs.
    pub(crate) data_class: u32,
    pub(crate) ack_class: u32,
    /// Packets of this flow in queues, on wires and in resequencing buffers.
    pub(crate) in_network: u32,
    pub(crate) data_hash: u64,
    pub(crate) ack_hash: u64,
    pub(crate) started: u64,
    /// Number of segments and payload of the last one. Subflows: [`OPEN_ENDED`].
    pub(crate) segments: u32,
    pub(crate) last_bytes: u32,
    /// Traffic class, in place for the flags of packets.
    pub(crate) priority: u16,
    pub(crate) sender: Sender,
    pub(crate) timer: Timer,
    pub(crate) receiver: Receiver,
    /// SYN sent and not answered.
    pub(crate) is_connecting: bool,
    /// The sender has nothing left to do.
    pub(crate) is_sender_done: bool,
    /// Waits for its turn at the host's interface.
    pub(crate) is_queued: bool,
    /// How it ended, once it has.
    pub(crate) end: FlowEnd,
    pub(crate) tally: Tally,
}

/// Counters of a flow, copied into its record when it closes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) fct: u64,
    pub(crate) sender_fct: u64,
    pub(crate) delivered_packets: u32,
    pub(crate) packets: u32,
    pub(crate) retransmitted: u32,
    pub(crate) spurious: u32,
    pub(crate) timeouts: u32,
    pub(crate) fast_retransmits: u32,
    pub(crate) reordered: u32,
    pub(crate) extent: u32,
}

/// All slots.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    active: u64,
    peak: u64,
    pub(crate) bit_pool: Vec<Box<[u64]>>,
    #[expect(clippy::vec_box, reason = "senders take the boxes and give them back: nothing is moved or allocated")]
    sender_pool: Vec<Box<More>>,
}

/// What a new flow is made from.
pub(crate) struct NewFlow {
    pub(crate) id: u32,
    pub(crate) connection: u32,
    pub(crate) ordinal: u8,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) classes: [u32; 2],
    pub(crate) hashes: [u64; 2],
    pub(crate) started: u64,
    pub(crate) segments: u32,
    pub(crate) last_bytes: u32,
    pub(crate) priority: u16,
}

impl Slots {
    /// Opens a slot. Timers of the slot's last flow may still be pending; they keep their place.
    pub(crate) fn open(&mut self, flow: &NewFlow, rules: &TcpRules, words: usize) -> u32 {
        self.active += 1;
        self.peak = self.peak.max(self.active);
        let mut sender = match flow.segments {
            OPEN_ENDED => Sender::open_ended(rules),
            segments => Sender::new(segments, rules),
        };
        if rules.has_more() {
            let mut more = self.sender_pool.pop().unwrap_or_else(|| Box::new(More::new(rules, words)));
            more.begin(rules);
            sender.more = Some(more);
        }
        let slot = Slot {
            id: flow.id,
            connection: flow.connection,
            ordinal: flow.ordinal,
            src: flow.src,
            dst: flow.dst,
            data_class: flow.classes[0],
            ack_class: flow.classes[1],
            in_network: 0,
            data_hash: flow.hashes[0],
            ack_hash: flow.hashes[1],
            started: flow.started,
            segments: flow.segments,
            last_bytes: flow.last_bytes,
            priority: flow.priority,
            sender,
            timer: Timer::new(),
            receiver: Receiver {
                next: 0,
                highest: 0,
                early: None,
                unacked: 0,
                delayed: Echo::default(),
                held_first: NIL,
                held_last: NIL,
                held: 0,
                is_gap_shown: false,
                cell: u32::MAX,
                gap_since: 0,
                reordering_time: 0,
                is_gap_reported: false,
                notify_from: 0,
                timer: Timer::new(),
            },
            is_connecting: false,
            is_sender_done: false,
            is_queued: false,
            end: FlowEnd::Running,
            tally: Tally::default(),
        };
        let Some(ix) = self.free.pop() else {
            self.slots.push(slot);
            return (self.slots.len() - 1) as u32;
        };
        let old = &mut self.slots[ix as usize];
        let (timer, receiver_timer) = (old.timer, old.receiver.timer);
        *old = slot;
        old.timer = Timer { deadline: NEVER, ..timer };
        old.receiver.timer = Timer { deadline: NEVER, ..receiver_timer };
        ix
    }

    /// Frees a slot whose flow has ended and left nothing in the network.
    pub(crate) fn close(&mut self, ix: u32) {
        let slot = &mut self.slots[ix as usize];
        slot.id = NIL;
        if let Some(mut bits) = slot.receiver.early.take() {
            bits.fill(0);
            self.bit_pool.push(bits);
        }
        self.sender_pool.extend(slot.sender.more.take());
        self.active -= 1;
        self.free.push(ix);
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ix: u32) -> &mut Slot {
        &mut self.slots[ix as usize]
    }

    /// The slot and the pool of receive bitmaps.
    #[inline]
    pub(crate) fn with_pool(&mut self, ix: u32) -> (&mut Slot, &mut Vec<Box<[u64]>>) {
        (&mut self.slots[ix as usize], &mut self.bit_pool)
    }

    /// Slots in use.
    pub(crate) fn open_slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.slots.len() as u32).filter(|ix| self.slots[*ix as usize].id != NIL)
    }

    pub(crate) fn active(&self) -> u64 {
        self.active
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_needs_one_event_for_many_extensions() {
        let mut timer = Timer::new();
        assert_eq!(timer.set(100), Some(100));
        assert_eq!(timer.set(150), None);
        assert_eq!(timer.fired(100), (false, Some(150)));
        assert_eq!(timer.set(120), Some(120), "an earlier deadline needs an earlier event");
        assert_eq!(timer.fired(120), (true, None));
        assert_eq!(timer.fired(150), (false, None), "superseded");
    }
}
