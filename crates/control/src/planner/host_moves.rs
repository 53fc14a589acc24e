//! Addresses that leave a switch: all old rules are deleted before new ones are installed.
//!
//! The rules towards a host are of several kinds (next hops, traffic splits, labels, pins), each
//! with its own order of changes. Old and new rules of different kinds can form a loop where
//! neither would alone. The host is unreachable at its former attachment in any case, so deleting
//! the old rules first loses nothing:
//! 1. default routes, the last hop, and the groups that write labels. The rest are pins and
//!    labels, which lead to the former attachment and no further, each along a simple path;
//! 2. pins and labels: packets that match none of them are dropped;
//! 3. no rule is left, and the new rules are installed.
//!
//! Each step is confirmed before the next one.

use std::collections::BTreeMap;

use core::net::Ipv4Addr;
use net::{HostIx, NodeIx, Time};

use crate::planner::default_routes::HostAttachment;
use crate::updater::{CONFIRM_TIMEOUT, Updater};

/// Addresses whose old rules are being deleted.
#[derive(Debug, Default)]
pub(crate) struct HostMoves(BTreeMap<Ipv4Addr, Move>);

#[derive(Debug)]
struct Move {
    /// Whether pins and labels, the last step, are being deleted.
    is_last: bool,
    waiting: Vec<(NodeIx, u64)>,
    /// As for stages: a switch that does not confirm does not delay the others indefinitely.
    deadline: Time,
    then: Option<(HostIx, HostAttachment)>,
}

impl HostMoves {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Returns whether old rules of an address are being deleted.
    pub(crate) fn is_moving(&self, address: Ipv4Addr) -> bool {
        self.0.contains_key(&address)
    }
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.0.values().map(|one| one.deadline).min()
    }

    pub(crate) fn begin(&mut self, address: Ipv4Addr) {
        self.0.insert(address, Move { is_last: false, waiting: Vec::new(), deadline: Time::ZERO, then: None });
    }
    /// Sets the switches that must confirm the first step.
    pub(crate) fn wait(&mut self, now: Time, address: Ipv4Addr, waiting: Vec<(NodeIx, u64)>) {
        if let Some(one) = self.0.get_mut(&address) {
            (one.waiting, one.deadline) = (waiting, now.saturating_add(CONFIRM_TIMEOUT));
        }
    }

    /// Sets the new attachment of an address that is moving. Returns whether it is moving.
    pub(crate) fn set_new_attachment(&mut self, address: Ipv4Addr, then: Option<(HostIx, HostAttachment)>) -> bool {
        self.0.get_mut(&address).map(|one| one.then = then).is_some()
    }

    /// Clears the new attachments of addresses that have none any more.
    pub(crate) fn clear_new_attachments(&mut self, is_anywhere: impl Fn(&Ipv4Addr) -> bool) {
        self.0.iter_mut().filter(|(address, _)| !is_anywhere(address)).for_each(|(_, one)| one.then = None);
    }

    /// Returns the addresses whose pins and labels may be deleted now.
    pub(crate) fn take_first_step_done(&mut self, now: Time, updater: &Updater) -> Vec<Ipv4Addr> {
        let ready = self.0.iter_mut().filter(|(_, one)| !one.is_last);
        ready.filter_map(|(address, one)| one.is_over(now, updater).then_some(*address)).collect()
    }
    /// Sets the switches that must confirm the deletion of pins and labels.
    pub(crate) fn wait_for_last_step(&mut self, now: Time, address: Ipv4Addr, waiting: Vec<(NodeIx, u64)>) {
        if let Some(one) = self.0.get_mut(&address) {
            one.is_last = true;
        }
        self.wait(now, address, waiting);
    }

    /// Removes and returns the addresses without any rules, with their new attachments.
    pub(crate) fn take_done(&mut self, now: Time, updater: &Updater) -> Vec<Option<(HostIx, HostAttachment)>> {
        let done = self.0.extract_if(.., |_, one| one.is_last && one.is_over(now, updater));
        done.map(|(_, one)| one.then).collect()
    }
}

impl Move {
    fn is_over(&mut self, now: Time, updater: &Updater) -> bool {
        self.waiting.retain(|(node, ticket)| !updater.is_confirmed(*node, *ticket));
        self.waiting.is_empty() || now >= self.deadline
    }
}
