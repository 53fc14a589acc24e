//! Addresses that leave a switch: everything that leads there goes before anything leads elsewhere.
//!
//! What leads to a host is of several kinds (next hops, divisions, labels, pins), each in an order of its own. Old and new
//! rules of different kinds can send a packet round where neither would alone. The host cannot be reached where it was in
//! any case, so that nothing is lost by taking the old rules away first:
//! 1. default next hops, the last hop, and the groups that write labels: what is left are pins and labels, which lead to
//!    where the host was and no further, each along a simple path;
//! 2. pins and labels: whatever falls out of them is dropped;
//! 3. nothing leads anywhere now, and the new rules are written.
//!
//! Each step is confirmed before the next one.

use std::collections::BTreeMap;

use core::net::Ipv4Addr;
use net::{HostIx, NodeIx, Time};

use crate::base::Place;
use crate::fabric::Fabric;
use crate::sequence::PATIENCE;

/// Addresses whose old rules are being removed.
#[derive(Debug, Default)]
pub(crate) struct Moves(BTreeMap<Ipv4Addr, Move>);

#[derive(Debug)]
struct Move {
    /// Whether pins and labels are being removed, after all else.
    is_last: bool,
    waiting: Vec<(NodeIx, u64)>,
    /// As for stages: a switch that does not confirm does not keep others waiting for ever.
    deadline: Time,
    /// Where the host is now.
    then: Option<(HostIx, Place)>,
}

impl Moves {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether old rules of an address are being removed.
    pub(crate) fn is_moving(&self, address: Ipv4Addr) -> bool {
        self.0.contains_key(&address)
    }
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.0.values().map(|one| one.deadline).min()
    }

    /// An address has left its switch.
    pub(crate) fn begin(&mut self, address: Ipv4Addr) {
        self.0.insert(address, Move { is_last: false, waiting: Vec::new(), deadline: Time::ZERO, then: None });
    }
    /// These switches are to confirm that the rules of the first step are gone.
    pub(crate) fn wait(&mut self, now: Time, address: Ipv4Addr, waiting: Vec<(NodeIx, u64)>) {
        if let Some(one) = self.0.get_mut(&address) {
            (one.waiting, one.deadline) = (waiting, now.saturating_add(PATIENCE));
        }
    }

    /// Where the host of an address that is on the move will be; whether it is on the move.
    pub(crate) fn set_then(&mut self, address: Ipv4Addr, then: Option<(HostIx, Place)>) -> bool {
        self.0.get_mut(&address).map(|one| one.then = then).is_some()
    }

    /// Hosts of addresses that are nowhere any more will not arrive.
    pub(crate) fn forget_places(&mut self, is_anywhere: impl Fn(&Ipv4Addr) -> bool) {
        self.0.iter_mut().filter(|(address, _)| !is_anywhere(address)).for_each(|(_, one)| one.then = None);
    }

    /// Addresses whose pins and labels may be removed now.
    pub(crate) fn take_bare(&mut self, now: Time, fabric: &Fabric) -> Vec<Ipv4Addr> {
        let ready = self.0.iter_mut().filter(|(_, one)| !one.is_last);
        ready.filter_map(|(address, one)| one.is_over(now, fabric).then_some(*address)).collect()
    }
    /// They are being removed; these switches are to confirm it.
    pub(crate) fn wait_last(&mut self, now: Time, address: Ipv4Addr, waiting: Vec<(NodeIx, u64)>) {
        if let Some(one) = self.0.get_mut(&address) {
            one.is_last = true;
        }
        self.wait(now, address, waiting);
    }

    /// Addresses nothing leads to any more, with their new places.
    pub(crate) fn take_done(&mut self, now: Time, fabric: &Fabric) -> Vec<Option<(HostIx, Place)>> {
        let done = self.0.extract_if(.., |_, one| one.is_last && one.is_over(now, fabric));
        done.map(|(_, one)| one.then).collect()
    }
}

impl Move {
    fn is_over(&mut self, now: Time, fabric: &Fabric) -> bool {
        self.waiting.retain(|(node, ticket)| !fabric.is_confirmed(*node, *ticket));
        self.waiting.is_empty() || now >= self.deadline
    }
}
