//! The entropy values of a flow's latest packets. Acknowledgements and losses that name a packet
//! but not its value are charged by it.

use net::Time;

use super::sent_packets::SentPackets;

/// Values by packet number; see [`SentPackets`].
#[derive(Clone, Debug, Default)]
pub(crate) struct SentValues {
    packets: SentPackets<Sent>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    value: u16,
    /// Time at which a later copy was sent, in units of 2^20 ps (about 1 us), modulo 2^32;
    /// [`FIRST`] for the first copy.
    again: u32,
}

const FIRST: u32 = u32::MAX;
const UNIT_BITS: u32 = 20;

#[inline]
fn units(time: Time) -> u32 {
    (time.as_ps() >> UNIT_BITS) as u32
}

impl SentValues {
    /// Returns the number of packets to remember: a few windows, so that the lowest unacknowledged
    /// packet is among them.
    pub(crate) fn capacity(window_packets: u32) -> usize {
        // Bounds memory with huge windows: older packets only reduce adaptivity a little.
        (4 * window_packets.min(1 << 12) as usize).next_power_of_two()
    }

    /// Forgets all packets, and remembers `capacity` from now on.
    pub(crate) fn begin(&mut self, capacity: usize) {
        self.packets.begin(capacity, Sent { value: 0, again: FIRST });
    }

    /// Returns the number of packets that it remembers.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Remembers the value of a packet; `again` is the time if it was sent before. Returns the
    /// value that it replaces: that of an earlier copy of the packet, or of a packet that is no
    /// longer remembered.
    #[inline]
    pub(crate) fn note(&mut self, seq: u32, value: u16, again: Option<Time>) -> Option<u16> {
        let sent = Sent { value, again: again.map_or(FIRST, units) };
        self.packets.note(seq, sent).map(|replaced| replaced.value)
    }

    /// Returns the value of the latest copy of a packet, if it is remembered.
    #[inline]
    pub(crate) fn get(&self, seq: u32) -> Option<u16> {
        self.packets.get(seq).map(|sent| sent.value)
    }

    /// Returns the value of the latest copy of a packet, unless it was sent again less than two
    /// round trips ago. A timeout is not about such a copy, but about packets that were lost with
    /// the first one.
    pub(crate) fn overdue(&self, seq: u32, now: Time, rtt: Time) -> Option<u16> {
        let sent = self.packets.get(seq)?;
        let elapsed = u64::from(units(now).wrapping_sub(sent.again)) << UNIT_BITS;
        (sent.again == FIRST || elapsed >= rtt.as_ps().saturating_mul(2)).then_some(sent.value)
    }

    /// Forgets a packet. Returns the value of its latest copy, if it was remembered.
    #[inline]
    pub(crate) fn take(&mut self, seq: u32) -> Option<u16> {
        self.packets.take(seq).map(|sent| sent.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_copies_of_the_latest_packets_are_remembered() {
        let mut sent = SentValues::default();
        let note = |sent: &mut SentValues, seq, value| sent.note(seq, value, None);
        assert_eq!((note(&mut sent, 0, 5), sent.get(0)), (None, None), "nothing is remembered before a flow begins");
        sent.begin(4);
        (0..4).for_each(|seq| assert_eq!(note(&mut sent, seq, 10 + seq as u16), None));
        assert_eq!((sent.get(1), sent.get(5)), (Some(11), None));
        assert_eq!(note(&mut sent, 1, 30), Some(11), "another copy");
        assert_eq!(note(&mut sent, 4, 14), Some(10), "packet 0 no longer fits");
        assert_eq!([sent.get(0), sent.get(1), sent.get(4)], [None, Some(30), Some(14)]);
        assert_eq!([sent.take(1), sent.take(1), sent.get(1)], [Some(30), None, None]);
        assert_eq!(note(&mut sent, 5, 15), None, "the place was free");
        sent.begin(4);
        assert_eq!(sent.get(4), None);
        assert_eq!(sent.get(u32::MAX), None, "the mark of free places is not a packet");
    }

    #[test]
    fn copies_sent_again_just_now_are_not_overdue() {
        let mut sent = SentValues::default();
        let overdue = |sent: &SentValues, now| sent.overdue(0, now, Time::from_us(100));
        sent.begin(4);
        // The clock of packets wraps after 4,504 seconds.
        for start in [Time::ZERO, Time::from_us(77), Time::from_s(4503), Time::from_ps((1 << 52) - (1 << 21))] {
            sent.note(0, 6, None);
            assert_eq!(overdue(&sent, start), Some(6), "the first copy always is");
            sent.note(0, 7, Some(start));
            assert_eq!(overdue(&sent, start), None);
            assert_eq!(overdue(&sent, start + Time::from_us(198)), None);
            assert_eq!(overdue(&sent, start + Time::from_us(202)), Some(7));
            assert_eq!(sent.overdue(0, start, Time::ZERO), Some(7));
        }
    }

    #[test]
    fn some_windows_are_remembered_but_not_any_number() {
        assert_eq!(SentValues::capacity(83), 512);
        assert_eq!(SentValues::capacity(u32::MAX), 1 << 14);
        assert_eq!(SentValues::capacity(0), 1);
        assert_eq!(size_of::<(u32, Sent)>(), 12);
    }
}
