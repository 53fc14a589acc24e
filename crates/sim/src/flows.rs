//! State of active flows. Each has a slot, which is reused once nothing of the previous flow is
//! left in the network.

use crate::outcome::FlowEnd;
use crate::queue::NIL;
use crate::transport::sack::SenderExtension;
use crate::transport::tcp::Sender;
use crate::transport::transport_params::TransportParams;

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

/// Segment count of a subflow: its sender receives more data as it goes.
pub(crate) const OPEN_ENDED: u32 = u32::MAX;

/// A lazy timer: one deadline, and the time of the earliest event in the queue that will check it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) deadline: u64,
    armed: u64,
}

impl Timer {
    pub(crate) const fn new() -> Timer {
        Timer { deadline: NEVER, armed: NEVER }
    }

    /// Sets the deadline. Returns a time at which to push an event, if the pending one would come
    /// too late.
    #[inline]
    pub(crate) fn set(&mut self, deadline: u64) -> Option<u64> {
        self.deadline = deadline;
        if deadline < self.armed {
            self.armed = deadline;
            return Some(deadline);
        }
        None
    }

    /// Handles an event of this timer. Returns whether the deadline is reached, and else when to
    /// check again.
    #[inline]
    pub(crate) fn fired(&mut self, now: u64) -> (bool, Option<u64>) {
        if now != self.armed {
            return (false, None); // An earlier event has superseded this one.
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
    /// Next expected segment.
    pub(crate) next: u32,
    /// One above the highest first-sent segment seen.
    pub(crate) highest: u32,
    /// Arrived segments above `next`: a ring of bits, taken from a pool when first needed.
    pub(crate) early: Option<Box<[u64]>>,
    /// In-order packets not yet acknowledged (delayed ACKs).
    pub(crate) unacked: u32,
    /// Content of the delayed acknowledgement.
    pub(crate) delayed: Echo,
    /// Held packets in order of their segments: first, last, count.
    pub(crate) held_first: u32,
    pub(crate) held_last: u32,
    pub(crate) held: u32,
    /// Whether the transport has seen the gap at `next`; later packets then pass.
    pub(crate) is_gap_shown: bool,
    /// Overlay header of the last packet received in order: its flowcell.
    pub(crate) cell: u32,
    /// When the gap before the held packets appeared, and the average duration of such gaps.
    pub(crate) gap_since: u64,
    pub(crate) reordering_time: u64,
    /// Go-back-N: whether the gap at `next` was reported.
    pub(crate) is_gap_reported: bool,
    /// DCQCN: earliest time of the next notification.
    pub(crate) notify_from: u64,
    pub(crate) timer: Timer,
}

/// Content that an acknowledgement carries back.
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
    /// Marks a segment above `next` as arrived. Returns whether it already was.
    #[inline]
    pub(crate) fn note_early(&mut self, segment: u32, words: usize, pool: &mut Vec<Box<[u64]>>) -> bool {
        let bits = self.early.get_or_insert_with(|| pool.pop().unwrap_or_else(|| vec![0u64; words].into_boxed_slice()));
        let (word, bit) = bit_of(segment, bits.len());
        let had = bits[word] & bit != 0;
        bits[word] |= bit;
        had
    }

    /// Advances `next`, which has arrived, past all contiguous segments.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next += 1;
        if let Some(bits) = &mut self.early {
            loop {
                let (word, bit) = bit_of(self.next, bits.len());
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
fn bit_of(segment: u32, words: usize) -> (usize, u64) {
    ((segment >> 6) as usize & (words - 1), 1 << (segment & 63))
}

/// An active flow.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// Position in the flow list, or [`NIL`] while the slot is free.
    pub(crate) id: u32,
    /// The connection object it belongs to, or [`NIL`] if the slot serves its flow alone.
    pub(crate) connection: u32,
    /// Index among the slots of that connection.
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
    /// Traffic class, shifted to its position in the packet flags.
    pub(crate) priority: u16,
    pub(crate) sender: Sender,
    pub(crate) timer: Timer,
    pub(crate) receiver: Receiver,
    /// Whether a SYN was sent and no SYN-ACK has arrived.
    pub(crate) is_connecting: bool,
    /// Whether the sender has finished.
    pub(crate) is_sender_done: bool,
    /// Whether the flow waits for its turn at the host's interface.
    pub(crate) is_queued: bool,
    /// Result of the flow; meaningful once it has ended.
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
    sender_pool: Vec<Box<SenderExtension>>,
}

/// Properties of a new flow.
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
    /// Opens a slot. Timers of the slot's previous flow may still be pending; they keep their
    /// events.
    pub(crate) fn open(&mut self, flow: &NewFlow, params: &TransportParams, words: usize) -> u32 {
        self.active += 1;
        self.peak = self.peak.max(self.active);
        let mut sender = match flow.segments {
            OPEN_ENDED => Sender::open_ended(params),
            segments => Sender::new(segments, params),
        };
        if params.has_extension() {
            let mut extension = self.sender_pool.pop().unwrap_or_else(|| Box::new(SenderExtension::new(params, words)));
            extension.begin(params);
            sender.extension = Some(extension);
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
        self.sender_pool.extend(slot.sender.extension.take());
        self.active -= 1;
        self.free.push(ix);
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ix: u32) -> &mut Slot {
        &mut self.slots[ix as usize]
    }

    /// Returns the slot and the pool of receive bitmaps.
    #[inline]
    pub(crate) fn with_pool(&mut self, ix: u32) -> (&mut Slot, &mut Vec<Box<[u64]>>) {
        (&mut self.slots[ix as usize], &mut self.bit_pool)
    }

    /// Returns the slots in use.
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
