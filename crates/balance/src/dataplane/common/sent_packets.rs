//! The latest packets of a flow that a sender remembers: a ring by packet number.

/// Values by packet number, for as many packets as fit; later packets push out earlier ones. A
/// default ring remembers nothing.
#[derive(Clone, Debug)]
pub(crate) struct SentPackets<T> {
    /// Number and value at the number modulo the length, a power of two; the number distinguishes
    /// packets with the same place.
    packets: Vec<(u32, T)>,
}

/// Number of an unused entry, which is not that of a packet.
const UNUSED: u32 = u32::MAX;

impl<T> Default for SentPackets<T> {
    fn default() -> SentPackets<T> {
        SentPackets { packets: Vec::new() }
    }
}

impl<T: Copy> SentPackets<T> {
    /// Forgets all packets, and remembers at least `capacity` from now on; `blank` fills unused
    /// entries.
    pub(crate) fn begin(&mut self, capacity: usize, blank: T) {
        self.packets.clear();
        self.packets.resize(capacity.next_power_of_two(), (UNUSED, blank));
    }

    /// Returns the number of packets that it remembers.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Remembers a packet. Returns what it replaces: an earlier copy of the packet, or a packet that
    /// is no longer remembered.
    #[inline]
    pub(crate) fn note(&mut self, seq: u32, value: T) -> Option<T> {
        let place = self.place(seq);
        let (before, replaced) = std::mem::replace(self.packets.get_mut(place)?, (seq, value));
        (before != UNUSED).then_some(replaced)
    }

    /// Returns the latest copy of a packet, if it is remembered.
    #[inline]
    pub(crate) fn get(&self, seq: u32) -> Option<T> {
        let (found, value) = self.packets.get(self.place(seq))?;
        (*found == seq && seq != UNUSED).then_some(*value)
    }

    /// Forgets a packet, and returns its latest copy, if it was remembered.
    #[inline]
    pub(crate) fn take(&mut self, seq: u32) -> Option<T> {
        let value = self.get(seq)?;
        let place = self.place(seq);
        self.packets[place].0 = UNUSED;
        Some(value)
    }

    #[inline]
    fn place(&self, seq: u32) -> usize {
        seq as usize & self.packets.len().wrapping_sub(1)
    }
}
