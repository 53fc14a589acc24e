//! State of active flows: slots, each with a side that sends and one that receives.
//!
//! Packets carry the number of their flow. In most runs a flow has one connection and its own number,
//! and a partition has a slot for it while one of its sides is open there (`Numbers::OfFlows`). In
//! runs with a controller, services or several connections for a flow, which have one partition, the
//! number is that of the slot, which is reused once its connection has left nothing in the network
//! (`Numbers::OfSlots`).

use std::slice::from_ref;

use prefetch_index::prefetch_index;

use crate::bits::{put, take};
use crate::engine::RunParams;
use crate::outcome::{FlowEnd, FlowRecord};
use crate::queue::NIL;
use crate::timers::Timer;
use crate::transport::Transport;
use crate::transport::sender::{SendState, Sender};

#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    pub(crate) next: u32,
    /// One above the highest first-sent segment seen.
    pub(crate) highest: u32,
    /// Arrived segments above `next`: a ring of bits, taken from a pool when first needed.
    pub(crate) early: Option<Box<[u64]>>,
    /// In-order packets not yet acknowledged (delayed ACKs).
    pub(crate) unacked: u32,
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

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Echo {
    pub(crate) sent: u32,
    pub(crate) edge: u32,
    pub(crate) path: u16,
    /// The class over which the packet took a detour, plus 1.
    pub(crate) via: u16,
    pub(crate) marked: bool,
    pub(crate) segment: u32,
    pub(crate) flags: u16,
}

impl Receiver {
    /// Marks a segment above `next` as arrived. Returns whether it already was.
    #[inline]
    pub(crate) fn note_early(&mut self, segment: u32, words: usize, pool: &mut Vec<Box<[u64]>>) -> bool {
        let bits = self.early.get_or_insert_with(|| pool.pop().unwrap_or_else(|| vec![0u64; words].into_boxed_slice()));
        !put(bits, segment)
    }

    /// Advances `next`, which has arrived, past all contiguous segments.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next += 1;
        if let Some(bits) = &mut self.early {
            while take(bits, self.next) {
                self.next += 1;
            }
        }
        self.is_gap_shown = false;
        self.is_gap_reported = false;
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    /// Position in the flow list, or [`NIL`] while the slot is free.
    pub(crate) id: u32,
    /// Number that packets of the flow carry.
    pub(crate) number: u32,
    /// Whether the slot serves the sender of the flow, and whether it serves the receiver.
    pub(crate) is_sending: bool,
    pub(crate) is_receiving: bool,
    /// The connection object it belongs to, or [`NIL`] if the slot serves its flow alone.
    pub(crate) connection: u32,
    pub(crate) ordinal: u8,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) data_class: u32,
    pub(crate) ack_class: u32,
    /// With [`Numbers::OfSlots`]: packets in queues, on wires and in resequencing buffers.
    pub(crate) in_network: u32,
    pub(crate) data_hash: u64,
    pub(crate) ack_hash: u64,
    pub(crate) started: u64,
    /// Number of segments and payload of the last one. Subflows: `OPEN_ENDED`.
    pub(crate) segments: u32,
    pub(crate) last_bytes: u32,
    /// Traffic class, shifted to its position in the packet flags.
    pub(crate) priority: u16,
    pub(crate) sender: Sender,
    pub(crate) timer: Timer,
    pub(crate) receiver: Receiver,
    /// The sender sends nothing before this time: its edge asked for a pause.
    pub(crate) paused_until: u64,
    pub(crate) is_connecting: bool,
    pub(crate) is_sender_done: bool,
    pub(crate) is_queued: bool,
    /// How the receiver sees the flow.
    pub(crate) end: FlowEnd,
    /// Time of the last byte at the receiver (UDP: of the last packet), and of the sender's failure.
    pub(crate) completed_at: u64,
    pub(crate) failed_at: u64,
    pub(crate) tally: Tally,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
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

impl Tally {
    pub(crate) fn add_sent_to(&self, record: &mut FlowRecord) {
        record.packets_sent += self.packets;
        record.retransmitted += self.retransmitted;
        record.timeouts += self.timeouts;
        record.fast_retransmits += self.fast_retransmits;
    }

    pub(crate) fn add_received_to(&self, record: &mut FlowRecord) {
        record.spurious += self.spurious;
        record.reordered += self.reordered;
        record.reorder_extent = record.reorder_extent.max(self.extent);
    }
}

/// The numbers that packets carry.
#[derive(Debug)]
pub(crate) enum Numbers {
    OfSlots,
    /// The slot of each flow of the list, or [`NIL`].
    OfFlows(Vec<u32>),
}

pub(crate) struct Slots {
    pub(crate) slots: Vec<Slot>,
    numbers: Numbers,
    free: Vec<u32>,
    pub(crate) active: u64,
    pub(crate) bit_pool: Vec<Box<[u64]>>,
    /// Senders of flows that have ended, with their memory.
    sender_pool: Vec<Transport>,
}

impl Slots {
    pub(crate) fn new(numbers: Numbers) -> Slots {
        Slots { slots: Vec::new(), numbers, free: Vec::new(), active: 0, bit_pool: Vec::new(), sender_pool: Vec::new() }
    }

    /// Returns whether packets carry the numbers of flows.
    #[inline]
    pub(crate) fn is_by_flow(&self) -> bool {
        matches!(self.numbers, Numbers::OfFlows(_))
    }

    /// Returns the slot of a number, or [`NIL`].
    #[inline]
    pub(crate) fn find(&self, number: u32) -> u32 {
        match &self.numbers {
            Numbers::OfSlots => number,
            Numbers::OfFlows(slots) => slots[number as usize],
        }
    }

    /// Opens a slot for a flow, of which the caller sets the properties that never change. Timers of
    /// the slot's previous connection may still be pending; with [`Numbers::OfSlots`] they keep their
    /// events. `line_bps` is the rate of the sender's interface.
    pub(crate) fn open(&mut self, flow: Slot, params: &RunParams, line_bps: u64) -> u32 {
        self.active += 1;
        let mut sender = Sender { state: SendState::new(flow.segments, &params.transport), ..Sender::default() };
        if flow.is_sending {
            sender.transport = self.sender_pool.pop().unwrap_or_else(|| params.sender.clone());
            sender.transport.begin(line_bps);
        }
        let receiver = Receiver { cell: u32::MAX, ..Receiver::default() };
        let mut slot = Slot { sender, receiver, end: FlowEnd::Running, ..flow };
        let ix = self.free.pop().unwrap_or(self.slots.len() as u32);
        match &mut self.numbers {
            Numbers::OfFlows(slots) => slots[slot.number as usize] = ix,
            Numbers::OfSlots => slot.number = ix,
        }
        let Some(old) = self.slots.get_mut(ix as usize) else {
            self.slots.push(slot);
            return ix;
        };
        if let Numbers::OfSlots = self.numbers {
            slot.timer = old.timer.without_deadline();
            slot.receiver.timer = old.receiver.timer.without_deadline();
        }
        *old = slot;
        ix
    }

    pub(crate) fn close(&mut self, ix: u32) {
        let slot = &mut self.slots[ix as usize];
        slot.id = NIL;
        if let Numbers::OfFlows(slots) = &mut self.numbers {
            slots[slot.number as usize] = NIL;
        }
        if let Some(mut bits) = slot.receiver.early.take() {
            bits.fill(0);
            self.bit_pool.push(bits);
        }
        match std::mem::take(&mut slot.sender.transport) {
            Transport::Idle(_) => {}
            transport => self.sender_pool.push(transport),
        }
        self.active -= 1;
        self.free.push(ix);
    }

    /// Loads into the caches which slot a number has.
    #[inline]
    pub(crate) fn prefetch_number(&self, number: u32) {
        if let Numbers::OfFlows(slots) = &self.numbers {
            prefetch_index(slots, number as usize);
        }
    }

    /// Loads a slot into the caches: the lines that packets need.
    #[inline]
    pub(crate) fn prefetch(&self, number: u32) {
        let ix = match &self.numbers {
            Numbers::OfSlots => number,
            Numbers::OfFlows(slots) => slots.get(number as usize).copied().unwrap_or(NIL),
        };
        let Some(slot) = self.slots.get(ix as usize) else { return };
        prefetch_index(from_ref(slot), 0);
        prefetch_index(from_ref(&slot.sender), 0);
        prefetch_index(from_ref(&slot.receiver), 0);
        prefetch_index(from_ref(&slot.tally), 0);
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ix: u32) -> &mut Slot {
        &mut self.slots[ix as usize]
    }

    #[inline]
    pub(crate) fn with_pool(&mut self, ix: u32) -> (&mut Slot, &mut Vec<Box<[u64]>>) {
        (&mut self.slots[ix as usize], &mut self.bit_pool)
    }
}
