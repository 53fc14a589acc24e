//! Assignment of paths to granted packets.

use std::sync::Arc;

use net::{HostIx, Routes, Topology};

use super::clos::Clos;
use super::links::LinkSlots;
use crate::links::port::serialisation_ps;
use crate::timers::NEVER;

/// Paths of the packets granted in one slot.
#[derive(Default)]
pub(crate) struct SlotPaths {
    pub(super) links: Vec<u32>,
    /// End of each path in `links`.
    pub(super) ends: Vec<u32>,
}

impl SlotPaths {
    pub(super) fn clear(&mut self) {
        self.links.clear();
        self.ends.clear();
    }

    pub(super) fn end_path(&mut self) {
        self.ends.push(self.links.len() as u32);
    }
}

pub(crate) enum Assigner {
    Clos(Box<Clos>),
    Links(Box<LinkSlots>),
}

impl Assigner {
    /// `rates` are in bits per second, 0 for a link that is down.
    pub(crate) fn new(topology: &Topology, routes: &Arc<Routes>, rates: &[u64], packet: u64, slot: u64) -> Assigner {
        let packet_ps = |rate: &u64| if *rate == 0 { NEVER } else { serialisation_ps(packet, *rate) };
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

    /// Grants one more packet in this slot, between these hosts. Returns whether that is possible.
    pub(crate) fn admit(&mut self, src: HostIx, dst: HostIx) -> bool {
        match self {
            Assigner::Clos(clos) => clos.admit(src, dst),
            Assigner::Links(links) => links.admit(src, dst),
        }
    }

    pub(crate) fn assign(&mut self) {
        if let Assigner::Clos(clos) = self {
            clos.assign();
        }
    }

    pub(crate) fn path(&self, grant: usize) -> &[u32] {
        let paths = match self {
            Assigner::Clos(clos) => &clos.paths,
            Assigner::Links(links) => &links.paths,
        };
        let begin = if grant == 0 { 0 } else { paths.ends[grant - 1] };
        &paths.links[begin as usize..paths.ends[grant] as usize]
    }

    pub(crate) fn next_chance(&self) -> u64 {
        match self {
            Assigner::Clos(clos) => clos.next_slot(),
            Assigner::Links(links) => links.next_chance(),
        }
    }
}
