//! Packet-ins: hosts and links seen by their packets.

use net::HostIx;
use openflow::headers::{ether, protocol};
use openflow::{ConnectionId, DatapathId, Headers, PacketIn, frame};

use super::arp::{self, ArpAction, OtherMacs, PendingArpReply};
use super::discovery::is_physical;
use super::network::CONTROLLER_MAC;
use super::{Cx, Observer};
use crate::updater::Updater;
use crate::updater::compile::CLASSIFY;
use crate::{KnownHost, SwitchPort};

/// A packet that other parts must answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Packet {
    /// The observer has handled it.
    Handled,
    /// Its sender gets this reply when rules are installed.
    Arp(PendingArpReply),
    /// It is an ARP request that goes to all edge ports, as this frame.
    Relay(SwitchPort, Vec<u8>),
    /// It is for a virtual address.
    Virtual(SwitchPort, Headers),
}

/// The sender of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sender {
    /// A known host at its port.
    Known,
    /// A host with an unused address, accepted or not yet.
    New,
    /// A host that cannot be accepted because of a limit. It cannot be reached, so a reply is
    /// useless.
    OverLimit,
    /// Its addresses are invalid, virtual, or those of a host that is elsewhere.
    Rejected,
}

impl Observer {
    pub(crate) fn packet_in(
        &mut self,
        cx: &mut Cx<'_>,
        updater: &Updater,
        (connection, datapath): (ConnectionId, DatapathId),
        packet: &PacketIn,
    ) -> Packet {
        cx.channels.tally.packet_ins += 1;
        let Some(port) = packet.match_.in_port.filter(|port| is_physical(*port)) else { return Packet::Handled };
        let at = (datapath, port);
        let Ok(headers) = frame::parse(&packet.data) else {
            return Packet::Handled; // Truncated or malformed.
        };
        match headers.eth_type {
            ether::LLDP => self.probe_heard(cx, at, &packet.data),
            // Hosts send no tagged packets, and ports with links show packets of distant hosts.
            _ if headers.vlan.is_some() || self.discovery.is_link(at) => {}
            // A packet from a dead or missing port is late or forged.
            _ if !self.is_port_live(at) => {}
            ether::ARP if !self.accepts_arp(cx, at, &headers) => {}
            ether::ARP => match self.arp_action(cx, at, &headers) {
                ArpAction::Nothing => {}
                ArpAction::Send(held) => return Packet::Arp(held),
                ArpAction::RelayToEdges(data) => return Packet::Relay(at, data),
            },
            ether::IPV4 => {
                let source = self.host_seen(cx, at, &headers);
                if self.is_virtual(headers.ipv4_dst) {
                    return Packet::Virtual(at, headers);
                }
                if packet.table == CLASSIFY && matches!(headers.ip_proto, protocol::TCP | protocol::UDP) {
                    self.first_packet(cx, updater, connection, at, source, &headers);
                }
            }
            _ => {}
        }
        Packet::Handled
    }

    fn arp_action(&mut self, cx: &mut Cx<'_>, at: SwitchPort, headers: &Headers) -> ArpAction {
        let others = OtherMacs { virtual_macs: &self.virtual_macs, announced: self.announced.as_ref() };
        let action = self.arp.packet(cx.now, at, headers, &self.network, others);
        let is_answered = headers.arp_op == arp::REQUEST && matches!(action, ArpAction::Send(_));
        cx.channels.tally.arp_requests_answered += u64::from(is_answered);
        action
    }

    /// Returns the host if it is known with exactly this attachment. This is the common case, and
    /// avoids a walk over all hosts.
    fn host_known(&self, known: &KnownHost) -> Option<HostIx> {
        let is_same = |host: &HostIx| self.network.host(*host).is_some_and(|facts| facts.known == *known);
        self.network.find_host(known.ipv4).filter(is_same)
    }

    /// Handles an IPv4 packet from a possible edge port. Returns its sender, if it is known to be
    /// there.
    fn host_seen(&mut self, cx: &mut Cx<'_>, at: SwitchPort, headers: &Headers) -> Option<HostIx> {
        let source = arp::sender_of(at, headers).and_then(|known| self.host_known(&known));
        if source.is_none() {
            self.on_unknown_source(cx, at, headers);
        }
        source
    }

    fn on_unknown_source(&mut self, cx: &mut Cx<'_>, at: SwitchPort, headers: &Headers) {
        if self.network.has_host_at(at) {
            self.on_host_packet(cx, at, headers);
            return;
        }
        let seen = arp::sender_of(at, headers).filter(|seen| !self.is_virtual(seen.ipv4));
        let Some(seen) = seen else { return };
        if self.discovery.is_edge(cx.now, at)
            && let Some(question) = self.arp.probe(cx.now, seen.ipv4)
        {
            cx.channels.packet_out(at, question);
        }
    }

    /// Handles the sender of an ARP packet. Returns whether the packet may be answered and relayed.
    /// A forged request is as harmful as a reply: receivers store the sender's address.
    fn accepts_arp(&mut self, cx: &mut Cx<'_>, at: SwitchPort, headers: &Headers) -> bool {
        let is_reply = headers.arp_op != arp::REQUEST;
        // A host without an address checks whether one is free (RFC 5227).
        if headers.ipv4_src.is_unspecified() && !is_reply && !headers.eth_src.is_multicast() {
            return true;
        }
        let sender = self.on_host_packet(cx, at, headers);
        if sender == Sender::Rejected {
            cx.channels.tally.arp_packets_rejected += 1;
        }
        let is_to_controller = is_reply && headers.eth_dst == CONTROLLER_MAC;
        if let Some(known) = arp::sender_of(at, headers).filter(|_| sender == Sender::Known && is_to_controller) {
            self.refute_claims(cx, known);
        }
        matches!(sender, Sender::Known | Sender::New)
    }

    /// Handles a packet of a host at a port that may be an edge port.
    fn on_host_packet(&mut self, cx: &mut Cx<'_>, at: SwitchPort, headers: &Headers) -> Sender {
        // Hosts that claim a virtual address are ignored: connections would end there.
        let claimed = arp::sender_of(at, headers).filter(|known| !self.is_virtual(known.ipv4));
        let Some(known) = claimed else { return Sender::Rejected };
        if let Some(host) = self.host_known(&known) {
            self.network.last_seen(host, cx.now);
            return Sender::Known;
        }
        if let Some(owner) = self.network.host_at(known.ipv4).map(|host| host.known) {
            self.claim(cx, owner, known);
            let is_accepted = self.host_known(&known).is_some();
            return if is_accepted { Sender::Known } else { Sender::Rejected };
        }
        let has_room = match self.network.has_host_at(at) {
            true => self.host_found(cx, known),
            false => self.add_candidate(cx, known),
        };
        if has_room { Sender::New } else { Sender::OverLimit }
    }

    /// Sends an ARP request of a host out of all edge ports but the one it came from.
    pub(crate) fn relay_arp(&self, cx: &mut Cx<'_>, at: SwitchPort, request: &[u8]) {
        cx.channels.tally.arp_requests_relayed += 1;
        self.send_arp_to_edge_ports(cx, Some(at), request);
    }

    /// Sends an ARP request out of all edge ports but the one it came from, and counts the copies.
    pub(crate) fn send_arp_to_edge_ports(&self, cx: &mut Cx<'_>, except: Option<SwitchPort>, request: &[u8]) {
        let copies = self.send_to_edge_ports(cx, except, request);
        cx.channels.tally.arp_request_copies += copies;
    }

    /// Sends a frame out of all edge ports but the one it came from. Returns the number of copies.
    pub(crate) fn send_to_edge_ports(&self, cx: &mut Cx<'_>, except: Option<SwitchPort>, data: &[u8]) -> u64 {
        let is_edge = |end: &SwitchPort| Some(*end) != except && self.discovery.is_edge(cx.now, *end);
        let edges: Vec<SwitchPort> = self.live_ports().filter(is_edge).collect();
        edges.iter().for_each(|end| cx.channels.packet_out(*end, data.to_vec()));
        edges.len() as u64
    }
}
