//! Packets: one cache line each, in an arena with a free list.

use prefetch_index::prefetch_index;

use crate::queue::NIL;

pub(crate) const DATA: u16 = 1;
pub(crate) const ACK: u16 = 2;
/// Opens a connection; together with [`ACK`]: a SYN-ACK.
pub(crate) const SYN: u16 = 4;
/// May be marked instead of dropped.
pub(crate) const ECT: u16 = 8;
/// Data: marked on its path. ACK: echoes the mark to the sender.
pub(crate) const CE: u16 = 16;
pub(crate) const RETRANSMIT: u16 = 32;
/// Has not passed the first switch yet.
pub(crate) const FRESH: u16 = 64;

/// Data: a full queue cut off the payload.
pub(crate) const TRIMMED: u16 = 512;
/// ACK: the segment it names did not arrive (trimmed), or nothing beyond `seq` is kept (go-back-N).
pub(crate) const NACK: u16 = 1024;
/// ACK: also a congestion notification of DCQCN.
pub(crate) const NOTIFY: u16 = 2048;
/// Together with [`ACK`]: congestion feedback of a switch to the sender of a flow; acknowledges nothing.
pub(crate) const DIRECT: u16 = 4096;

/// Control packet from edge to edge, without a flow.
pub(crate) const CONTROL: u16 = 128;
/// Data on its path to an edge that is not the destination's.
pub(crate) const DETOUR: u16 = 256;
/// Position of the traffic class, three bits.
pub(crate) const PRIORITY_SHIFT: u32 = 13;

/// No path chosen, no entropy value.
pub(crate) const NO_PATH: u16 = u16::MAX;

/// A packet in flight. Time stamps are in units of [`stamp`].
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Packet {
    /// Time at which its last bit leaves the current link.
    pub(crate) departs: u64,
    /// Five-tuple hash in the direction of travel.
    pub(crate) hash: u64,
    pub(crate) next: u32,
    pub(crate) flow: u32,
    /// Original sender, a host index.
    pub(crate) src: u32,
    /// Final receiver, a host index, which is also its node number.
    pub(crate) dst: u32,
    /// Data: segment number. ACK: next expected segment.
    pub(crate) seq: u32,
    /// Rank of the rest of its path among those of the intact network, if an edge chose one; else the
    /// number of its connection among those of the flow.
    pub(crate) rank: u32,
    /// Time stamp of the transport; an ACK carries that of the data packet back.
    pub(crate) sent: u32,
    /// Time stamp of the edge that chose the path; an ACK carries that of the data packet back.
    pub(crate) edge: u32,
    /// Overlay header of the edge. With sensed links the high 8 bits are the largest utilisation.
    pub(crate) tag: u32,
    /// Destination class used for routing: the destination's, or that of a detour.
    pub(crate) class: u16,
    /// Selective ACK: distance above `seq` of the segment that caused it, plus 1; 0 for none.
    pub(crate) sack: u16,
    pub(crate) bytes: u16,
    /// Path chosen by an edge, entropy value chosen by a host, or [`NO_PATH`].
    pub(crate) path: u16,
    /// ACK: `path` of the data packet.
    pub(crate) echo_path: u16,
    pub(crate) flags: u16,
}

const _: () = assert!(size_of::<Packet>() == 64, "a packet is one cache line");

const UTILISATION_SHIFT: u32 = 24;

impl Packet {
    pub(crate) const BLANK: Packet = Packet {
        departs: 0,
        hash: 0,
        next: NIL,
        flow: NIL,
        src: NIL,
        dst: NIL,
        seq: 0,
        rank: 0,
        sent: 0,
        edge: 0,
        tag: 0,
        class: 0,
        sack: 0,
        bytes: 0,
        path: NO_PATH,
        echo_path: NO_PATH,
        flags: 0,
    };

    #[inline]
    pub(crate) fn note_utilisation(&mut self, reading: u8) {
        if u32::from(reading) > self.tag >> UTILISATION_SHIFT {
            self.tag = u32::from(reading) << UTILISATION_SHIFT | self.tag & TAG_WITHOUT_UTILISATION;
        }
    }

    #[inline]
    pub(crate) fn utilisation(&self) -> u8 {
        (self.tag >> UTILISATION_SHIFT) as u8
    }

    #[inline]
    pub(crate) fn is(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }
}

/// Bits of a tag that a mechanism may write while links are sensed.
pub(crate) const TAG_WITHOUT_UTILISATION: u32 = (1 << UTILISATION_SHIFT) - 1;

/// Returns a time stamp in units of 2^14 ps (16.4 ns), wrapping after 70 s: for differences only.
#[inline]
pub(crate) const fn stamp(now_ps: u64) -> u32 {
    (now_ps >> 14) as u32
}

/// Returns the picoseconds since a stamp less than 70 s old.
#[inline]
pub(crate) const fn since(stamp_then: u32, now_ps: u64) -> u64 {
    (stamp(now_ps).wrapping_sub(stamp_then) as u64) << 14
}

pub(crate) struct Arena {
    packets: Vec<Packet>,
    free: u32,
    pub(crate) alive: u64,
    pub(crate) peak: u64,
}

impl Arena {
    pub(crate) fn new() -> Arena {
        Arena { packets: Vec::new(), free: NIL, alive: 0, peak: 0 }
    }

    #[inline]
    pub(crate) fn add(&mut self, packet: Packet) -> u32 {
        self.alive += 1;
        self.peak = self.peak.max(self.alive);
        if self.free != NIL {
            let ix = self.free;
            let slot = &mut self.packets[ix as usize];
            self.free = slot.next;
            *slot = packet;
            return ix;
        }
        self.packets.push(packet);
        (self.packets.len() - 1) as u32
    }

    #[inline]
    pub(crate) fn remove(&mut self, ix: u32) {
        self.alive -= 1;
        self.packets[ix as usize].next = self.free;
        self.free = ix;
    }

    /// Loads a packet into the caches; [`NIL`] loads nothing.
    #[inline]
    pub(crate) fn prefetch(&self, ix: u32) {
        prefetch_index(&self.packets, ix as usize);
    }

    /// Returns a packet, or `None` for [`NIL`].
    #[inline]
    pub(crate) fn find(&self, ix: u32) -> Option<&Packet> {
        self.packets.get(ix as usize)
    }

    #[inline]
    pub(crate) fn get(&self, ix: u32) -> &Packet {
        &self.packets[ix as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ix: u32) -> &mut Packet {
        &mut self.packets[ix as usize]
    }

    /// Counts the packets that match `predicate`. Visits all of them: for the end of a run only.
    pub(crate) fn count(&self, predicate: impl Fn(&Packet) -> bool) -> u64 {
        let mut is_free = vec![false; self.packets.len()];
        let mut at = self.free;
        while at != NIL {
            is_free[at as usize] = true;
            at = self.packets[at as usize].next;
        }
        self.packets.iter().zip(is_free).filter(|(packet, is_free)| !is_free && predicate(packet)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_survive_their_wrap() {
        let then = (u64::from(u32::MAX) << 14) - 5_000_000;
        let later = then + 90_000_000;
        let measured = since(stamp(then), later);
        assert!(measured.abs_diff(90_000_000) <= 1 << 14);
    }
}
