//! Links into other partitions of a run.
//!
//! The partition of its sender has the queue of such a link, that of its receiver the wire. A packet
//! goes over when a time step ends at or after its departure. A step lasts no longer than the delay of
//! any such link, so that no packet arrives in the step in which it departs.

use super::network::Network;
use crate::packet::Packet;
use crate::queue::NIL;

/// A packet that has departed into another partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    pub(crate) link: u32,
    pub(crate) packet: Packet,
}

#[derive(Debug)]
pub(crate) struct Border {
    /// Links with packets that have not gone over; a link may occur twice.
    queued: Vec<u32>,
    /// Time of the next event in the other partitions or here that the last crossing knew of: the
    /// earliest departure of a packet that remained, or arrival of one that went over.
    pub(crate) next: u64,
    /// Packets that have gone over and not yet been received.
    pub(crate) crossing: u64,
}

impl Default for Border {
    fn default() -> Border {
        Border { queued: Vec::new(), next: u64::MAX, crossing: 0 }
    }
}

impl Border {
    #[inline]
    pub(super) fn note_queued(&mut self, link: u32) {
        self.queued.push(link);
    }

    /// Notes the time of an event in another partition.
    pub(super) fn note_event(&mut self, time: u64) {
        self.next = self.next.min(time);
    }
}

impl Network {
    /// Marks a link as one into another partition.
    pub(crate) fn set_remote(&mut self, link: u32, partition: u8) {
        self.ports[link as usize].remote = partition + 1;
    }

    /// Passes the packets that have departed into other partitions to `cross`, with the partition.
    pub(crate) fn take_departed(&mut self, mut cross: impl FnMut(usize, Crossing)) {
        let mut at = 0;
        self.border.next = u64::MAX;
        while let Some(link) = self.border.queued.get(at).copied() {
            if self.take_departed_over(link, &mut cross) {
                at += 1;
            } else {
                self.border.queued.swap_remove(at);
            }
        }
    }

    /// Returns whether packets remain that have not departed.
    fn take_departed_over(&mut self, link: u32, cross: &mut impl FnMut(usize, Crossing)) -> bool {
        self.settle(link);
        let Network { now, arena, ports, border, .. } = self;
        let port = &mut ports[link as usize];
        while port.head != NIL {
            let packet = *arena.get(port.head);
            if packet.departs > *now {
                border.note_event(packet.departs);
                return true;
            }
            border.note_event(packet.departs + port.delay);
            border.crossing += 1;
            arena.remove(port.head);
            port.head = packet.next;
            cross(usize::from(port.remote) - 1, Crossing { link, packet });
        }
        port.tail = NIL;
        false
    }

    /// Puts a packet from another partition on the wire of its link.
    pub(crate) fn put_crossing_on_wire(&mut self, crossing: &Crossing) {
        let packet = self.arena.add(Packet { next: NIL, ..crossing.packet });
        self.put_on_wire(crossing.link, packet);
    }
}
