//! Assignment of paths to granted packets.

use std::rc::Rc;

use net::{HostIx, Routes, Topology};

use super::clos::Clos;
use super::links::LinkSlots;
use crate::flows::NEVER;
use crate::links::port::serialisation_ps;

/// Path assignment method.
pub(crate) enum Assigner {
    /// Any matching has paths, found by colouring.
    Clos(Box<Clos>),
    /// Link by link.
    Links(Box<LinkSlots>),
}

impl Assigner {
    /// Creates the assigner for a network with these routes and rates (bits per second, 0 for a
    /// link that is down).
    pub(crate) fn new(
        topology: &Topology,
        routes: &Rc<Routes>,
        rates: &[u64],
        packet_bytes: u64,
        slot: u64,
    ) -> Assigner {
        let packet_ps = |rate: &u64| if *rate == 0 { NEVER } else { serialisation_ps(packet_bytes, *rate) };
        let packet_ps: Vec<u64> = rates.iter().map(packet_ps).collect();
        match Clos::new(topology, routes, rates, &packet_ps, slot) {
            Some(clos) => Assigner::Clos(Box::new(clos)),
            None => Assigner::Links(Box::new(LinkSlots::new(topology, routes, packet_ps, slot))),
        }
    }

    pub(crate) fn is_reachable(&self, src: HostIx, dst: HostIx) -> bool {
        match self {
            Assigner::Clos(_) => true,
            Assigner::Links(links) => links.is_reachable(src, dst),
        }
    }

    pub(crate) fn begin_slot(&mut self, now: u64) {
        match self {
            Assigner::Clos(clos) => clos.begin_slot(now),
            Assigner::Links(links) => links.begin_slot(now),
        }
    }

    /// Grants a packet between these hosts in addition to those already granted in this slot.
    /// Returns whether that is possible.
    pub(crate) fn admit(&mut self, src: HostIx, dst: HostIx) -> bool {
        match self {
            Assigner::Clos(clos) => clos.admit(src, dst),
            Assigner::Links(links) => links.admit(src, dst),
        }
    }

    /// Fixes the paths of all grants of this slot.
    pub(crate) fn assign(&mut self) {
        if let Assigner::Clos(clos) = self {
            clos.assign();
        }
    }

    /// Returns the links of a grant's path, by its number within the slot.
    pub(crate) fn path(&self, grant: usize) -> &[u32] {
        match self {
            Assigner::Clos(clos) => clos.path(grant),
            Assigner::Links(links) => links.path(grant),
        }
    }

    /// Returns when to try again after a slot in which no pair could be served.
    pub(crate) fn next_chance(&self) -> u64 {
        match self {
            Assigner::Clos(clos) => clos.next_slot(),
            Assigner::Links(links) => links.next_chance(),
        }
    }
}
