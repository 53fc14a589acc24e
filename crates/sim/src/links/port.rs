//! Ports: a directed link with its egress queue, and the fixed-point arithmetic of its rate.

use crate::packet::Arena;
use crate::queue::NIL;

/// Fractional bits of [`Port::ps_per_byte`].
pub(super) const RATE_BITS: u32 = 16;

/// One directed link with its egress queue: one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Port {
    /// Time at which the transmitter is free again.
    pub(super) busy_until: u64,
    /// Picoseconds per byte, fixed point.
    pub(super) ps_per_byte: u64,
    pub(super) delay: u64,
    /// Bytes that reached the far end.
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
    /// Limit and marking: position in [`Network::rules`].
    pub(super) rule: u8,
    /// Kind for queue statistics: position in [`Network::seen`].
    pub(super) kind: u8,
    /// [`DOWN`] and [`LOSSY`].
    pub(super) faults: u8,
}

pub(super) const DOWN: u8 = 1;
pub(super) const LOSSY: u8 = 2;

/// Counters that change rarely.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortTally {
    pub(crate) drops: u64,
    pub(crate) marks: u64,
    pub(crate) trims: u64,
}

/// Properties from which a port is built.
pub(crate) struct PortSpec {
    pub(crate) bps: u64,
    pub(crate) delay: u64,
    pub(crate) to: u32,
    /// Whether the port is a host interface, which never drops or marks on its own.
    pub(crate) from_host: bool,
    pub(crate) tier: u8,
    pub(crate) up: bool,
}

/// Returns the serialisation time of a packet, picoseconds.
#[inline]
pub(crate) fn serialisation_of(port: &Port, bytes: u16) -> u64 {
    (u64::from(bytes) * port.ps_per_byte) >> RATE_BITS
}

impl Port {
    pub(crate) fn delay(&self) -> u64 {
        self.delay
    }

    pub(crate) fn set_busy_until(&mut self, at: u64) {
        self.busy_until = at;
    }

    /// Removes the packets that have departed by `now` and calls `left` with the bytes and
    /// departure time of each.
    #[inline]
    pub(super) fn settle(&mut self, arena: &Arena, now: u64, mut left: impl FnMut(u16, u64)) {
        while self.waiting != NIL {
            let packet = arena.get(self.waiting);
            if packet.departs > now {
                return;
            }
            self.queued_bytes -= u32::from(packet.bytes);
            self.queued_packets -= 1;
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
    fn a_port_is_one_cache_line() {
        assert_eq!(size_of::<Port>(), 64);
    }

    #[test]
    fn serialisation_is_exact_for_common_rates() {
        for (gbps, ps) in [(1, 12_000_000), (10, 1_200_000), (40, 300_000), (100, 120_000), (400, 30_000)] {
            assert_eq!(serialisation_ps(1500, gbps * 1_000_000_000), ps);
        }
        assert_eq!(serialisation_ps(1500, 1_000_000), 12_000_000_000);
    }
}
