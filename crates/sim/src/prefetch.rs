//! Loads memory that the next events need while the present one is handled.
//!
//! In a large network, or in one full of packets, an event finds its port, packet, route and flow
//! outside the caches of the core, and waits for each in turn. The events of the open buckets are known
//! in advance, so each is prepared in steps, a few events ahead; every step needs the memory that the
//! step before has loaded. In a small network only ports and packets are. Nothing here changes a result.

use prefetch_index::prefetch_index;

use crate::engine::Engine;
use crate::links::network::Network;
use crate::packet::Packet;
use crate::queue::NIL;

/// Distances of the steps from the event that is handled, in events.
const PORT: usize = 13;
const PACKET: usize = 10;
const INDEX: usize = 7;
const ROUTE: usize = 5;
const NEXT_PORT: usize = 3;

/// The same in a small network, where two steps suffice: all else is in the caches already.
const NEAR_PORT: usize = 4;
const NEAR_PACKET: usize = 2;

/// Number of packets in flight from which on all steps save time in a small network too: 4 MiB.
/// Benchmark S1 with `ars` (full windows: 1.6 MiB of packets) takes longer with them, S3 (13 MiB) a tenth less.
const PACKETS_OF_LARGE: u64 = 65_536;

/// Ports to which packets will probably go on: the one of the event after next, and of the one after that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreseen([u32; 2]);

impl Default for Foreseen {
    fn default() -> Foreseen {
        Foreseen([NIL; 2])
    }
}

impl Engine<'_> {
    #[inline(always)]
    pub(crate) fn prefetch(&mut self) {
        if self.is_large || self.network.arena.alive >= PACKETS_OF_LARGE {
            self.prefetch_ahead();
        } else {
            self.network.prefetch_arrivals(NEAR_PORT, NEAR_PACKET);
        }
    }

    #[inline(never)]
    fn prefetch_ahead(&mut self) {
        let Engine { network, fabric, slots, foreseen, .. } = self;
        network.events.open_ahead();
        network.prefetch_arrivals(PORT, PACKET);
        if let Some((to, packet)) = network.upcoming_packet(INDEX) {
            network.arena.prefetch(packet.next);
            if packet.dst == to {
                slots.prefetch_number(packet.flow);
            } else {
                fabric.prefetch_index(to, packet.class);
            }
        }
        if let Some((to, packet)) = network.upcoming_packet(ROUTE) {
            if packet.dst == to {
                slots.prefetch(packet.flow);
            } else {
                fabric.prefetch(to, packet.class);
            }
        }
        let Foreseen([due, later]) = *foreseen;
        if let Some(port) = network.ports.get(due as usize) {
            port.prefetch_queue(&network.arena);
        }
        let next = (network.upcoming_packet(NEXT_PORT))
            .filter(|(to, packet)| packet.dst != *to)
            .and_then(|(to, packet)| fabric.foresee(to, packet))
            .unwrap_or(NIL);
        prefetch_index(&network.ports, next as usize);
        *foreseen = Foreseen([later, next]);
    }
}

impl Network {
    /// Loads a port and a packet that arrives, by their distances from the event that is handled.
    #[inline(always)]
    fn prefetch_arrivals(&self, port: usize, packet: usize) {
        if let Some(link) = self.upcoming_link(port) {
            prefetch_index(&self.ports, link as usize);
        }
        if let Some(link) = self.upcoming_link(packet) {
            self.arena.prefetch(self.ports[link as usize].head());
        }
    }

    #[inline]
    fn upcoming_link(&self, distance: usize) -> Option<u32> {
        self.events.upcoming(distance).filter(|component| (*component as usize) < self.ports.len())
    }

    /// Returns the first packet of an upcoming link, and the node at which it arrives.
    #[inline]
    fn upcoming_packet(&self, distance: usize) -> Option<(u32, &Packet)> {
        let port = &self.ports[self.upcoming_link(distance)? as usize];
        Some((port.to, self.arena.find(port.head())?))
    }
}
