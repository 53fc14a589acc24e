//! Ports: a directed link with its egress queue, and the fixed-point arithmetic of its rate.

use crate::packet::Arena;
use crate::queue::NIL;

pub(super) const RATE_BITS: u32 = 16;

/// One directed link with its egress queue: one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Port {
    pub(super) busy_until: u64,
    /// Picoseconds per byte, fixed point.
    pub(super) ps_per_byte: u64,
    pub(crate) delay: u64,
    pub(crate) carried_bytes: u64,
    /// First packet on the wire, last packet queued, first packet that has not left.
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) waiting: u32,
    pub(crate) queued_bytes: u32,
    pub(crate) queued_packets: u32,
    /// Node at the far end; hosts are numbered first.
    pub(crate) to: u32,
    pub(crate) carried_packets: u32,
    /// Limit and marking: position in `rules` of [`Admission`](super::admission::Admission).
    pub(super) rule: u8,
    /// Kind for queue statistics: position in `seen` of [`Admission`](super::admission::Admission).
    pub(super) kind: u8,
    /// A combination of [`DOWN`] and [`LOSSY`].
    pub(super) faults: u8,
    /// Partition of the far end plus 1, or 0 for the own one.
    pub(super) remote: u8,
}

const _: () = assert!(size_of::<Port>() == 64, "a port is one cache line");

pub(super) const DOWN: u8 = 1;
pub(super) const LOSSY: u8 = 2;

/// Returns the serialisation time of a packet, picoseconds.
#[inline]
pub(crate) fn serialisation_of(port: &Port, bytes: u16) -> u64 {
    (u64::from(bytes) * port.ps_per_byte) >> RATE_BITS
}

impl Port {
    /// Returns the packet that arrives next, or [`NIL`].
    #[inline]
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Loads into the caches the packets that a packet which joins the queue needs.
    #[inline]
    pub(crate) fn prefetch_queue(&self, arena: &Arena) {
        arena.prefetch(self.waiting);
        arena.prefetch(self.tail);
    }

    #[inline]
    pub(super) fn dequeue(&mut self, bytes: u16) {
        self.queued_bytes -= u32::from(bytes);
        self.queued_packets -= 1;
    }

    /// Removes the packets departed by `now`; calls `left` with the size and time of each.
    #[inline]
    pub(super) fn settle(&mut self, arena: &Arena, now: u64, mut left: impl FnMut(u16, u64)) {
        while self.waiting != NIL {
            let packet = arena.get(self.waiting);
            if packet.departs > now {
                return;
            }
            self.dequeue(packet.bytes);
            self.waiting = packet.next;
            left(packet.bytes, packet.departs);
        }
    }
}

/// Returns picoseconds per byte as fixed point; exact for the usual rates.
pub(super) fn ps_per_byte(bps: u64) -> u64 {
    let exact = (8_000_000_000_000u128 << RATE_BITS) / u128::from(bps.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// Returns the serialisation time at `bps` in picoseconds, exactly as the ports compute it.
pub(crate) fn serialisation_ps(bytes: u64, bps: u64) -> u64 {
    ((u128::from(bytes) * u128::from(ps_per_byte(bps))) >> RATE_BITS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_is_exact_for_common_rates() {
        for (gbps, ps) in [(1, 12_000_000), (10, 1_200_000), (40, 300_000), (100, 120_000), (400, 30_000)] {
            assert_eq!(serialisation_ps(1500, gbps * 1_000_000_000), ps);
        }
        assert_eq!(serialisation_ps(1500, 1_000_000), 12_000_000_000);
    }
}
