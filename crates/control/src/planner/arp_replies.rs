//! ARP replies wait for rules: a host sends its first packet as soon as it receives the reply.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use core::net::Ipv4Addr;
use net::{NodeIx, Time};
use openflow::{DatapathId, PortNo};

use super::Planner;
use crate::SwitchPort;
use crate::observer::arp::{ASKED_MAX, AnnouncedMacs, PendingArpReply};
use crate::observer::network::Network;
use crate::observer::{Cx, Observer};
use crate::updater::Updater;

/// Maximum number of pending replies to the hosts at one port.
const HELD_PER_PORT: usize = 512;
/// Longest time a reply waits for rules. A switch may need longer to confirm, or its table may be
/// full; packets may still arrive.
const HELD: Time = Time::from_ms(500);

/// Port, requester and target of a reply.
type Key = (SwitchPort, Ipv4Addr, Ipv4Addr);

/// The key before all others: where the replies of a switch begin in the index.
const FIRST: Key = ((DatapathId(0), PortNo(0)), Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED);

/// Pending replies, by port, requester and target.
#[derive(Debug, Default)]
pub(super) struct PendingArpReplies {
    held: BTreeMap<Key, HeldReply>,
    due: BTreeSet<(Time, Key)>,
    /// Replies by the switches of requester and target: with an addressing mode, no other switch has
    /// rules that a reply waits for.
    by_switch: BTreeSet<(NodeIx, Key)>,
}

/// A reply that waits for rules, until a time.
#[derive(Debug)]
pub(crate) struct HeldReply {
    pub(crate) reply: PendingArpReply,
    pub(crate) until: Time,
    /// Switches of requester and target.
    ends: [Option<NodeIx>; 2],
}

impl HeldReply {
    fn new(reply: PendingArpReply, until: Time, network: &Network) -> HeldReply {
        let far = network.host_at(reply.target).map(|host| host.known.datapath);
        let ends = [Some(reply.to.0), far].map(|switch| network.node_of(switch?));
        HeldReply { reply, until, ends }
    }
    fn key(&self) -> Key {
        (self.reply.to, self.reply.requester, self.reply.target)
    }
}

impl PendingArpReplies {
    /// Stores a reply; of repeated requests the oldest determines the deadline.
    fn hold(&mut self, held: HeldReply) {
        let (to, key) = (held.reply.to, held.key());
        let at_port =
            (to, Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED)..=(to, Ipv4Addr::BROADCAST, Ipv4Addr::BROADCAST);
        if self.held.len() < ASKED_MAX
            && self.held.range(at_port).count() < HELD_PER_PORT
            && let Entry::Vacant(entry) = self.held.entry(key)
        {
            self.due.insert((held.until, key));
            self.by_switch.extend(held.ends.iter().flatten().map(|switch| (*switch, key)));
            entry.insert(held);
        }
    }
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Removes and returns all replies, in order.
    fn take_all(&mut self) -> Vec<HeldReply> {
        std::mem::take(self).held.into_values().collect()
    }
    /// Removes and returns the replies that are due, and those that concern any of these switches, in
    /// order.
    fn take(&mut self, now: Time, switches: &BTreeSet<NodeIx>) -> Vec<HeldReply> {
        let due = self.due.iter().take_while(|(until, _)| *until <= now).map(|(_, key)| *key);
        let of = |switch: NodeIx| {
            self.by_switch.range((switch, FIRST)..).take_while(move |(other, _)| *other == switch).map(|(_, key)| *key)
        };
        let concerned = switches.iter().flat_map(|switch| of(*switch));
        let keys: BTreeSet<Key> = due.chain(concerned).collect();
        keys.iter().filter_map(|key| self.remove(key)).collect()
    }
    fn remove(&mut self, key: &Key) -> Option<HeldReply> {
        let held = self.held.remove(key)?;
        self.due.remove(&(held.until, *key));
        for switch in held.ends.iter().flatten() {
            self.by_switch.remove(&(*switch, *key));
        }
        Some(held)
    }
}

/// Switches with verified rules towards an address; cleared when a message is sent to any switch.
pub(super) type VerifiedRoutes = BTreeSet<(NodeIx, Ipv4Addr)>;

/// Sends an ARP reply. A target without an address to send to cannot be reached yet: the requester asks
/// again.
pub(crate) fn send_arp_reply(cx: &mut Cx<'_>, announced: Option<&AnnouncedMacs>, reply: PendingArpReply) {
    let to = reply.to;
    if let Some(frame) = reply.announced(announced) {
        cx.channels.packet_out(to, frame);
    }
}

impl Planner {
    /// Sends an ARP reply, immediately if the rules are installed already. A host that asks without
    /// an address sends no packets: it checks whether the address is free (RFC 5227).
    pub(crate) fn answer_arp(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        reply: PendingArpReply,
        are_connected: bool,
    ) {
        if reply.requester.is_unspecified() || are_connected {
            send_arp_reply(cx, observer.announced.as_ref(), reply);
        } else {
            let until = cx.now.saturating_add(HELD);
            self.arp_replies.hold(HeldReply::new(reply, until, &observer.network));
        }
    }

    /// Removes and returns the pending replies that may have to be sent now, in order: with an
    /// addressing mode those that are due or wait for switches whose rules have changed, otherwise
    /// all, and all after a change of the network.
    pub(crate) fn take_arp_replies(&mut self, now: Time, updater: &mut Updater, has_changed: bool) -> Vec<HeldReply> {
        if self.addressing.is_none() {
            return self.arp_replies.take_all();
        }
        let changed = updater.take_changed();
        if has_changed { self.arp_replies.take_all() } else { self.arp_replies.take(now, &changed) }
    }
    /// Returns a reply to the pending ones.
    pub(crate) fn keep_arp_reply(&mut self, held: HeldReply, network: &Network) {
        self.arp_replies.hold(HeldReply::new(held.reply, held.until, network));
    }

    /// Returns whether rules lead from a host at `at` to another one and back.
    pub(crate) fn are_connected(
        &mut self,
        network: &Network,
        updater: &Updater,
        at: SwitchPort,
        asker: Ipv4Addr,
        target: Ipv4Addr,
    ) -> bool {
        if let Some(plan) = &self.addressing {
            return plan.are_connected(network, updater, at, asker, target);
        }
        let edge = |address| network.host_at(address).map(|host| host.edge);
        let (Some(near), Some(asked_at), Some(far)) = (network.node_of(at.0), edge(asker), edge(target)) else {
            return false;
        };
        near == asked_at
            && self.has_route(network, updater, near, (target, far))
            && self.has_route(network, updater, far, (asker, near))
    }

    /// Returns whether rules lead from a switch to an address at another one. The result is cached
    /// until rules change.
    fn has_route(
        &mut self,
        network: &Network,
        updater: &Updater,
        from: NodeIx,
        (address, edge): (Ipv4Addr, NodeIx),
    ) -> bool {
        if self.verified_routes.contains(&(from, address)) {
            return true;
        }
        let has_route = self.default_routes.leads(from, address, edge, network, updater);
        if has_route {
            self.verified_routes.insert((from, address));
        }
        has_route
    }

    /// Handles changes of rules: verified routes must be verified again.
    pub(crate) fn rules_changed(&mut self) {
        self.verified_routes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(port: u32, target: u8, until_ms: u64, ends: [u32; 2]) -> HeldReply {
        let [requester, target] = [[10, 0, 0, port as u8], [10, 0, 0, target]].map(Ipv4Addr::from);
        let reply = PendingArpReply { to: (DatapathId(1), PortNo(port)), requester, target, frame: Vec::new() };
        HeldReply { reply, until: Time::from_ms(until_ms), ends: ends.map(|switch| Some(NodeIx(switch))) }
    }

    fn targets(taken: &[HeldReply]) -> Vec<u8> {
        taken.iter().map(|held| held.reply.target.octets()[3]).collect()
    }

    #[test]
    fn replies_are_taken_when_due_or_when_a_switch_of_theirs_has_changed() {
        let mut replies = PendingArpReplies::default();
        // The last one repeats the request of the first.
        for (port, target, until_ms, ends) in
            [(3, 30, 50, [1, 2]), (1, 31, 20, [1, 3]), (2, 32, 40, [4, 3]), (4, 33, 60, [5, 5]), (3, 30, 90, [1, 2])]
        {
            replies.hold(held(port, target, until_ms, ends));
        }
        let switches = |switches: &[u32]| -> BTreeSet<NodeIx> { switches.iter().map(|ix| NodeIx(*ix)).collect() };
        assert_eq!(replies.next_due(), Some(Time::from_ms(20)));
        assert!(replies.take(Time::from_ms(19), &switches(&[7])).is_empty());
        let concerned = replies.take(Time::from_ms(19), &switches(&[1, 7]));
        assert_eq!(targets(&concerned), [31, 30], "in the order of ports");
        concerned.into_iter().for_each(|held| replies.hold(held));
        assert_eq!(targets(&replies.take(Time::from_ms(20), &switches(&[5]))), [31, 33]);
        assert_eq!(replies.next_due(), Some(Time::from_ms(40)));
        assert_eq!(targets(&replies.take_all()), [32, 30]);
        assert!(replies.held.is_empty() && replies.due.is_empty() && replies.by_switch.is_empty());
    }
}
