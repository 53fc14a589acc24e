//! ARP replies wait for rules: a host sends its first packet as soon as it receives the reply.

use std::collections::{BTreeMap, BTreeSet};

use core::net::Ipv4Addr;
use net::{NodeIx, Time};

use super::Planner;
use crate::SwitchPort;
use crate::observer::Cx;
use crate::observer::arp::{ASKED_MAX, AnnouncedMacs, PendingArpReply};
use crate::observer::network::Network;
use crate::updater::Updater;

/// Maximum number of pending replies to the hosts at one port.
const HELD_PER_PORT: usize = 512;
/// Longest time a reply waits for rules. A switch may need longer to confirm, or its table may be
/// full; packets may still arrive.
const HELD: Time = Time::from_ms(500);

/// Pending replies, by port, requester and target.
#[derive(Debug, Default)]
pub(super) struct PendingArpReplies(BTreeMap<(SwitchPort, Ipv4Addr, Ipv4Addr), HeldReply>);

/// A reply that waits for rules, until a time.
#[derive(Debug)]
pub(crate) struct HeldReply {
    pub(crate) reply: PendingArpReply,
    pub(crate) until: Time,
}

impl PendingArpReplies {
    /// Stores a reply; of repeated requests the oldest determines the deadline.
    fn hold(&mut self, held: HeldReply) {
        let to = held.reply.to;
        let at_port =
            (to, Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED)..=(to, Ipv4Addr::BROADCAST, Ipv4Addr::BROADCAST);
        if self.0.len() < ASKED_MAX && self.0.range(at_port).count() < HELD_PER_PORT {
            self.0.entry((to, held.reply.requester, held.reply.target)).or_insert(held);
        }
    }
    pub(super) fn next_due(&self) -> Option<Time> {
        self.0.values().map(|held| held.until).min()
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
        announced: Option<&AnnouncedMacs>,
        held: PendingArpReply,
        are_connected: bool,
    ) {
        if held.requester.is_unspecified() || are_connected {
            send_arp_reply(cx, announced, held);
        } else {
            let until = cx.now.saturating_add(HELD);
            self.arp_replies.hold(HeldReply { reply: held, until });
        }
    }

    /// Removes and returns all pending replies, in order.
    pub(crate) fn take_arp_replies(&mut self) -> Vec<HeldReply> {
        std::mem::take(&mut self.arp_replies.0).into_values().collect()
    }
    /// Returns a reply to the pending ones.
    pub(crate) fn keep_arp_reply(&mut self, held: HeldReply) {
        self.arp_replies.hold(held);
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
