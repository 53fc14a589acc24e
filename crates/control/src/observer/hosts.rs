//! Acceptance of hosts: candidates, moves, and claims of addresses that belong to other hosts.

use net::{HostIx, Time};

use super::arp::arp_probe;
use super::discovery::EDGE_AFTER;
use super::host_candidates::Due;
use super::{Cx, Observer};
use crate::changes::Change;
use crate::{AddressConflict, Departure, Event, KnownHost, SwitchPort};

/// Moves of one address in quick succession (burst), and the time after which it may move again.
/// Every move changes rules at many switches: two hosts that take turns with an address must not
/// keep the network busy.
const MOVE_BURST: u64 = 4;
const MOVE_INTERVAL: Time = Time::from_s(10);

impl Observer {
    /// Records a host seen at a port. Returns whether it is accepted.
    pub(super) fn host_found(&mut self, cx: &mut Cx<'_>, known: KnownHost) -> bool {
        let has_room = self.has_room(cx, &known);
        if has_room && self.network.add_host(cx.config, known, cx.now) {
            cx.changes.push(Change::Hosts);
            cx.channels.event(Event::Host(known));
        }
        has_room
    }

    pub(super) fn forget_host(&mut self, cx: &mut Cx<'_>, host: HostIx, why: Departure) {
        if let Some(known) = self.network.host(host).map(|facts| facts.known) {
            self.network.retire(host);
            cx.changes.push(Change::Hosts);
            cx.channels.event(Event::HostGone { host: known, why });
        }
    }

    /// Adds a candidate at a port without hosts. Returns whether there is capacity for it.
    pub(super) fn add_candidate(&mut self, cx: &mut Cx<'_>, known: KnownHost) -> bool {
        if !self.has_room(cx, &known) {
            return false;
        }
        self.wait_for(cx, known, None);
        true
    }

    /// Adds a candidate whose address belongs to `owner`, if to any.
    fn wait_for(&mut self, cx: &mut Cx<'_>, known: KnownHost, owner: Option<KnownHost>) {
        let at = known.end();
        let has_host = self.network.has_host_at(at);
        let Some(edge_from) = self.discovery.edge_from(at).or(has_host.then_some(Time::ZERO)) else { return };
        let may_be_link = !has_host && self.discovery.may_be_link(at);
        let checked_at = if may_be_link { edge_from.max(cx.now.saturating_add(probe_time(cx))) } else { cx.now };
        if self.host_candidates.add(cx.now, known, checked_at, owner, cx.config.hosts_per_port) && may_be_link {
            self.probe_edges(cx, at);
        }
        self.advance_host_candidates(cx);
    }

    /// Probes a port with a host candidate, and every other port that may be the far end of a link
    /// to it.
    fn probe_edges(&mut self, cx: &mut Cx<'_>, at: SwitchPort) {
        let mut ends = vec![at];
        if self.candidates_probed_until <= cx.now {
            self.candidates_probed_until = cx.now.saturating_add(probe_time(cx));
            let is_edge = |end: &SwitchPort| {
                *end != at && self.discovery.is_edge(cx.now, *end) && !self.network.has_host_at(*end)
            };
            ends.extend(self.live_ports().filter(is_edge));
        }
        ends.into_iter().for_each(|end| self.probe(cx, end));
    }

    /// Accepts host candidates that are due, and sends ARP requests to the hosts that have the
    /// addresses of others.
    pub(super) fn advance_host_candidates(&mut self, cx: &mut Cx<'_>) {
        for due in self.host_candidates.take_due(cx.now) {
            match due {
                Due::Probe(owner) => cx.channels.packet_out(owner.end(), arp_probe(&owner)),
                Due::Accept { known, left } => self.accept_candidate(cx, known, left),
            }
        }
    }

    fn accept_candidate(&mut self, cx: &mut Cx<'_>, known: KnownHost, left: Option<KnownHost>) {
        let at = known.end();
        let may_have_hosts = self.network.has_host_at(at) || self.discovery.is_edge(cx.now, at);
        if !self.is_port_live(at) || self.discovery.is_link(at) || !may_have_hosts {
            return;
        }
        match self.network.host_at(known.ipv4).map(|host| host.known) {
            None => drop(self.host_found(cx, known)),
            Some(owner) if owner == known => {}
            Some(owner) if Some(owner) == left || !self.may_be_there(&owner) => self.move_host(cx, owner, known),
            Some(owner) => self.claim(cx, owner, known), // Another candidate was accepted first.
        }
    }

    fn move_host(&mut self, cx: &mut Cx<'_>, before: KnownHost, known: KnownHost) {
        self.moves.retain(|_, limiter| !limiter.is_full(cx.now));
        if self.moves.entry(known.ipv4).or_default().take(cx.now, MOVE_INTERVAL, MOVE_BURST) {
            self.host_found(cx, known);
        } else {
            self.reject_claim(cx, before, known, AddressConflict::Flapping);
        }
    }

    /// Handles a packet with the address of a known host that is not from that host's port, or has
    /// another Ethernet address.
    pub(super) fn claim(&mut self, cx: &mut Cx<'_>, owner: KnownHost, claim: KnownHost) {
        if cx.config.pins_hosts && self.network.is_configured(owner.ipv4) {
            self.reject_claim(cx, owner, claim, AddressConflict::Pinned);
            return;
        }
        let owner = self.may_be_there(&owner).then_some(owner);
        if owner.is_some() && self.host_candidates.is_refuted(cx.now, &claim) {
            cx.channels.tally.host_claims_rejected += 1;
        } else {
            self.wait_for(cx, claim, owner);
        }
    }

    /// Handles an ARP reply to the controller: the host is at its port, so claims of its address
    /// are wrong.
    pub(super) fn refute_claims(&mut self, cx: &mut Cx<'_>, owner: KnownHost) {
        for claim in self.host_candidates.refute(cx.now, &owner) {
            self.reject_claim(cx, owner, claim, AddressConflict::Duplicate);
        }
    }

    fn reject_claim(&mut self, cx: &mut Cx<'_>, host: KnownHost, claim: KnownHost, why: AddressConflict) {
        cx.channels.tally.host_claims_rejected += 1;
        if self.alarms.may_raise(cx.now, claim.end(), Some(claim.ipv4)) {
            cx.channels.event(Event::AddressConflict { host, claim, why });
        }
    }

    /// Returns whether a known host may still be at its port: the port is up, or its switch has
    /// not been connected yet.
    fn may_be_there(&self, known: &KnownHost) -> bool {
        let uplink = self.network.host_at(known.ipv4).filter(|host| host.known == *known).map(|host| host.uplink);
        !self.status.contains_key(&known.datapath) || uplink.is_some_and(|uplink| self.network.is_alive(uplink))
    }

    /// Handles a port that went down: its hosts may be elsewhere.
    pub(super) fn hosts_unplugged(&mut self, end: SwitchPort) {
        for host in self.network.hosts_at(end).filter_map(|host| self.network.host(host)) {
            self.host_candidates.owner_gone(&host.known);
        }
    }
}

fn probe_time(cx: &Cx<'_>) -> Time {
    let rtt = cx.channels.sessions.values().filter_map(|session| session.rtt).max().unwrap_or(Time::ZERO);
    (rtt * 2).clamp(Time::from_ms(1), EDGE_AFTER)
}
