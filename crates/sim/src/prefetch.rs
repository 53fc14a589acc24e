//! Loads memory that the next events need while the present one is handled.
//!
//! In a large network an event finds its port, packet, route and flow outside the caches of the core,
//! and waits for each in turn. The events of the open buckets are known in advance, so each is
//! prepared in four steps, a few events ahead; every step needs the memory that the step before has
//! loaded. Nothing here changes a result.

use prefetch_index::prefetch_index;

use crate::engine::Engine;
use crate::links::network::Network;

/// Distances of the steps from the event that is handled, in events.
const PORT: usize = 9;
const PACKET: usize = 6;
const ROUTE: usize = 3;
const NEXT_PORT: usize = 1;

impl Engine<'_> {
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        // Small networks are in the caches already.
        if self.is_large {
            self.prefetch_ahead();
        }
    }

    #[inline(never)]
    fn prefetch_ahead(&self) {
        let Engine { network, fabric, slots, .. } = self;
        if let Some(link) = network.upcoming_link(PORT) {
            prefetch_index(&network.ports, link as usize);
        }
        if let Some(link) = network.upcoming_link(PACKET) {
            network.arena.prefetch(network.ports[link as usize].head());
        }
        if let Some(link) = network.upcoming_link(ROUTE) {
            let port = &network.ports[link as usize];
            if let Some(packet) = network.arena.find(port.head()) {
                network.arena.prefetch(packet.next);
                if packet.dst == port.to {
                    slots.prefetch(packet.flow);
                } else {
                    fabric.prefetch(port.to, packet.class);
                }
            }
        }
        if let Some(link) = network.upcoming_link(NEXT_PORT) {
            let port = &network.ports[link as usize];
            if let Some(packet) = network.arena.find(port.head())
                && packet.dst != port.to
                && let Some(next) = fabric.foresee(port.to, packet)
            {
                prefetch_index(&network.ports, next as usize);
            }
        }
    }
}

impl Network {
    #[inline]
    fn upcoming_link(&self, distance: usize) -> Option<u32> {
        self.events.upcoming(distance).filter(|component| (*component as usize) < self.ports.len())
    }
}
