//! TRILL (Perlman, GLOBECOM 2009; RFC 6325; F0 section 2.2): hosts keep flat addresses, switches route
//! frames to the switch of the receiver, and learn locations from the frames that arrive.
//!
//! The switch of the sender (ingress) encapsulates a frame in the nickname of the switch of the receiver
//! (egress); switches between them know nicknames only. ARP requests and frames to unknown locations go to
//! all edge ports, over a distribution tree in TRILL. Every switch of hosts learns the location of the
//! sender from such a frame, so that its cache grows with all hosts of the network, and not only with
//! those that its own hosts send to.
//!
//! A switch of OpenFlow 1.3 neither learns nor has a distribution tree that hosts cannot break: the
//! controller sends the copies to the edge ports and writes what the switches learn. It does not see
//! the answer to a frame that went to an unknown location, and lets the ingress learn the receiver with
//! that frame.

use std::collections::{BTreeMap, BTreeSet};

use balance::central::Placements;
use core::net::Ipv4Addr;
use net::Time;
use openflow::{DatapathId, FlowRemoved, FlowStats, MacAddr, PacketIn, frame};

use super::label_rules::HostLeft;
use super::labels::SwitchLabels;
use super::{AddressingPlan, observed};
use crate::limits::RateLimiter;
use crate::observer::arp::PendingArpReply;
use crate::observer::network::Network;
use crate::observer::{Cx, Observer};
use crate::updater::Updater;
use crate::{KnownHost, SwitchPort};

/// Frames to unknown locations that a port may send at once (burst), and the mean time between two.
const FLOOD_BURST: u64 = 128;
const FLOOD_INTERVAL: Time = Time::from_ms(10);
/// Maximum number of held requests, and the longest time that one is held. A switch may need longer to
/// confirm its rule, or its table may be full.
const HELD_MAX: usize = 4096;
const HELD: Time = Time::from_ms(500);
/// Maximum number of senders that are remembered until they are known as hosts.
const HEARD_MAX: usize = 4096;

/// A request that goes to all edge ports when the rules are installed that switches learn from it: its
/// receiver sends as soon as it has it, and the switches of TRILL learn without delay.
#[derive(Debug)]
struct HeldBroadcast {
    request: (SwitchPort, Vec<u8>),
    sender: MacAddr,
    until: Time,
}

#[derive(Debug, Default)]
pub(super) struct Trill {
    labels: SwitchLabels,
    hosts: BTreeMap<MacAddr, KnownHost>,
    /// Senders of broadcasts that are not known as hosts yet.
    heard: BTreeSet<MacAddr>,
    /// Requests that switches are learning the sender of, in the order of their deadlines.
    held: Vec<HeldBroadcast>,
    /// Limits on frames to unknown locations, each of which becomes one frame at every edge port.
    floods: BTreeMap<SwitchPort, RateLimiter>,
}

impl AddressingPlan for Trill {
    fn update(&mut self, cx: &mut Cx<'_>, observer: &mut Observer, updater: &mut Updater, _: &Placements) {
        let cabling = observed::cabling(cx.now, observer, |_| true);
        let before = std::mem::take(&mut self.hosts);
        self.hosts = observed::hosts(observer).map(|host| (host.mac, host)).collect();
        // A host that has moved announces itself with a broadcast, which all switches hear.
        let has_moved =
            |host: &&KnownHost| before.get(&host.mac).is_some_and(|before| before.datapath != host.datapath);
        self.heard.extend(self.hosts.values().filter(has_moved).map(|host| host.mac));
        self.labels.relocate(&self.hosts);
        let hosts: Vec<KnownHost> = self.hosts.values().copied().collect();
        self.labels.update(cx, (observer, updater), &cabling, &hosts, HostLeft::Drop);
        // A full limiter is like a new one.
        self.floods.retain(|_, limiter| !limiter.is_full(cx.now));
        for sender in std::mem::take(&mut self.heard) {
            self.learn(observer, updater, sender);
        }
    }

    fn packet(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        updater: &mut Updater,
        at: DatapathId,
        packet: &PacketIn,
    ) {
        let (Ok(headers), Some(port)) = (frame::parse(&packet.data), packet.match_.in_port) else { return };
        cx.channels.tally.cache_misses += 1;
        if !self.floods.entry((at, port)).or_default().take(cx.now, FLOOD_INTERVAL, FLOOD_BURST) {
            return;
        }
        observer.send_to_edge_ports(cx, Some((at, port)), &packet.data);
        self.learn(observer, updater, headers.eth_src);
        if let Some(host) = self.hosts.get(&headers.eth_dst) {
            self.labels.cache(observer, updater, at, host);
        }
    }

    fn lookup(&mut self, _: &mut Cx<'_>, observer: &Observer, updater: &mut Updater, reply: &PendingArpReply) -> bool {
        if let Some(host) = observer.network.host_at(reply.target) {
            self.labels.cache(observer, updater, reply.to.0, &host.known);
        }
        true
    }

    fn relay_arp(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        updater: &mut Updater,
        request: (SwitchPort, Vec<u8>),
    ) {
        let Ok(headers) = frame::parse(&request.1) else { return };
        self.learn(observer, updater, headers.eth_src);
        let until = cx.now.saturating_add(HELD);
        let held = HeldBroadcast { request, sender: headers.eth_src, until };
        if self.held.len() == HELD_MAX || self.has_learnt(observer, updater, held.sender) {
            observer.relay_arp(cx, held.request.0, &held.request.1);
        } else {
            self.held.push(held);
        }
    }

    fn advance(&mut self, cx: &mut Cx<'_>, observer: &Observer, updater: &Updater) {
        let held = std::mem::take(&mut self.held);
        let is_held = |held: &HeldBroadcast| cx.now < held.until && !self.has_learnt(observer, updater, held.sender);
        let (held, due): (Vec<_>, Vec<_>) = held.into_iter().partition(is_held);
        self.held = held;
        due.iter().for_each(|held| observer.relay_arp(cx, held.request.0, &held.request.1));
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.held.first().map(|held| held.until)
    }

    fn are_connected(
        &self,
        network: &Network,
        updater: &Updater,
        at: SwitchPort,
        asker: Ipv4Addr,
        target: Ipv4Addr,
    ) -> bool {
        SwitchLabels::are_connected(network, updater, at, [asker, target])
    }

    fn recover(&mut self, datapath: DatapathId, installed: &[&FlowStats]) {
        self.labels.recover(datapath, installed);
    }

    fn removed(&mut self, observer: &Observer, updater: &mut Updater, datapath: DatapathId, removed: &FlowRemoved) {
        self.labels.removed(observer, updater, datapath, removed);
    }
}

impl Trill {
    /// Puts the location of a sender into the caches of all switches with hosts.
    fn learn(&mut self, observer: &Observer, updater: &mut Updater, sender: MacAddr) {
        if let Some(host) = self.hosts.get(&sender) {
            self.labels.cache_everywhere(observer, updater, host);
        } else if self.heard.len() < HEARD_MAX {
            self.heard.insert(sender);
        }
    }

    /// Returns whether all switches of hosts have the location of a sender. An unknown sender has none.
    fn has_learnt(&self, observer: &Observer, updater: &Updater, sender: MacAddr) -> bool {
        let host = self.hosts.get(&sender);
        host.is_none_or(|host| self.labels.is_installed_everywhere(&observer.network, updater, host))
    }
}
