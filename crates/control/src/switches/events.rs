//! Input from switches except replies about rules: packet-ins, ports, counters.

use std::collections::BTreeMap;

use balance::central::FlowSource;
use core::net::Ipv4Addr;
use net::{HostIx, LinkIx, NodeIx, Time};
use openflow::headers::{ether, protocol};
use openflow::{
    Action, BufferId, ConnectionId, DatapathId, Message, MultipartReply, PacketIn, PacketOut, PortDesc, PortNo, Xid,
    frame,
};

use crate::controller::Controller;
use crate::hosts::arp::{self, ArpAction, PendingArpReply};
use crate::network::SwitchPort;
use crate::planning::compile::{CLASSIFY, tuple_of};
use crate::switches::counters::{Reading, Sample};
use crate::switches::discovery::{EDGE_AFTER, Found, Heard, is_physical};
use crate::{Event, KnownHost};

impl Controller {
    pub(crate) fn packet_in(&mut self, connection: ConnectionId, datapath: DatapathId, packet: &PacketIn) {
        self.tally.packet_ins += 1;
        let Some(port) = packet.match_.in_port.filter(|port| is_physical(*port)) else { return };
        let at = (datapath, port);
        let Ok(headers) = frame::parse(&packet.data) else {
            return; // Truncated or malformed.
        };
        match headers.eth_type {
            ether::LLDP => self.probe_heard(at, &packet.data),
            // Hosts send no tagged packets, and ports with links show packets of distant hosts.
            _ if headers.vlan.is_some() || self.discovery.is_link(at) => {}
            // A packet from a dead or missing port is late or forged.
            _ if !self.ports.is_live(at) => {}
            // The host is over a limit and cannot be reached, so a reply is useless.
            ether::ARP if !self.on_host_packet(at, &headers) => {}
            ether::ARP => match self.arp.packet(self.now, at, &headers, &self.network, &self.vips) {
                ArpAction::Nothing => {}
                ArpAction::Send(held) => self.answer(held),
                ArpAction::RelayToEdges(data) => self.send_to_edge_ports(Some(at), &data),
            },
            ether::IPV4 => {
                let source = self.host_seen(at, &headers);
                if self.vips.is_virtual(headers.ipv4_dst) {
                    self.virtual_packet(at, &headers, &packet.data);
                } else if packet.table == CLASSIFY && matches!(headers.ip_proto, protocol::TCP | protocol::UDP) {
                    self.first_packet(connection, at, source, &headers);
                }
            }
            _ => {}
        }
    }

    /// Returns whether an unknown flow cannot be tracked because of the limit.
    pub(crate) fn is_full(&mut self, tuple: &net::FiveTuple) -> bool {
        let is_full = self.flows.table.len() >= self.config.flows_max && self.flows.table.find(tuple).is_none();
        self.tally.flows_over_limit += u64::from(is_full);
        is_full
    }

    /// Returns the host if it is known with exactly this attachment. This is the common case, and
    /// avoids a walk over all hosts.
    fn host_known(&self, known: &KnownHost) -> Option<HostIx> {
        let is_same = |host: &HostIx| self.network.host(*host).is_some_and(|facts| facts.known == *known);
        self.network.find_host(known.ipv4).filter(is_same)
    }

    /// Handles an IPv4 packet from a possible edge port. Returns its sender, if it is known to be
    /// there.
    fn host_seen(&mut self, at: SwitchPort, headers: &openflow::Headers) -> Option<HostIx> {
        let source = arp::sender_of(at, headers).and_then(|known| self.host_known(&known));
        if source.is_none() {
            self.on_unknown_source(at, headers);
        }
        source
    }

    fn on_unknown_source(&mut self, at: SwitchPort, headers: &openflow::Headers) {
        if self.network.has_host_at(at) {
            self.on_host_packet(at, headers);
            return;
        }
        let seen = arp::sender_of(at, headers).filter(|seen| !self.vips.is_virtual(seen.ipv4));
        let Some(seen) = seen else { return };
        if self.discovery.is_edge(self.now, at)
            && let Some(question) = self.arp.probe(self.now, seen.ipv4)
        {
            self.packet_out(at, question);
        }
    }

    /// Handles a packet of a host at an edge port. Returns whether the host is accepted.
    fn on_host_packet(&mut self, at: SwitchPort, headers: &openflow::Headers) -> bool {
        // Hosts that claim a virtual address are ignored: connections would end there.
        let claimed = arp::sender_of(at, headers).filter(|known| !self.vips.is_virtual(known.ipv4));
        let Some(known) = claimed else { return true };
        if let Some(host) = self.host_known(&known) {
            self.network.last_seen(host, self.now);
        } else if self.network.has_host_at(at) {
            return self.host_found(known);
        } else if self.discovery.is_edge(self.now, at) {
            let due = self.now.saturating_add(self.probe_time());
            if !self.has_room(&known) {
                return false;
            }
            if self.host_candidates.add(known, due, self.config.hosts_per_port) {
                self.probe_edges(at);
            }
        } // Otherwise a switch may still turn out to be behind the port.
        true
    }

    fn probe_time(&self) -> Time {
        let rtt = self.sessions.values().filter_map(|session| session.rtt).max().unwrap_or(Time::ZERO);
        (rtt * 2).clamp(Time::from_ms(1), EDGE_AFTER)
    }

    /// Probes a port with a host candidate, and every other port that may be the far end of a link
    /// to it.
    fn probe_edges(&mut self, at: SwitchPort) {
        let mut ends = vec![at];
        if self.candidates_probed_until <= self.now {
            self.candidates_probed_until = self.now.saturating_add(self.probe_time());
            let is_edge = |end: &SwitchPort| {
                *end != at && self.discovery.is_edge(self.now, *end) && !self.network.has_host_at(*end)
            };
            ends.extend(self.ports.live().filter(is_edge));
        }
        ends.into_iter().for_each(|end| self.probe(end));
    }

    /// Accepts host candidates whose ports have been probed again.
    pub(crate) fn accept_host_candidates(&mut self) {
        for known in self.host_candidates.take_due(self.now) {
            let at = known.end();
            if self.ports.is_live(at) && self.discovery.is_edge(self.now, at) {
                self.host_found(known);
            }
        }
    }

    fn probe_heard(&mut self, at: SwitchPort, data: &[u8]) {
        let (sessions, connections) = (&self.sessions, &self.connections);
        let rtt = |datapath: DatapathId| sessions.get(connections.get(&datapath)?)?.rtt;
        let has_hosts = |end| self.network.has_host_at(end);
        let Found { from, to, is_new, instead_of } = match self.discovery.heard(self.now, at, data, rtt, has_hosts) {
            Some(Heard::Link(found)) => found,
            Some(Heard::OneWay(back)) => return self.probe(back),
            None => return,
        };
        if !self.ports.is_live(from) || !self.ports.is_live(to) {
            self.discovery.port_down(from);
            return; // The port went down while the probe was in flight; it is probed again when it is up.
        }
        if let Some(before) = instead_of {
            self.links_gone(&[(from, before)]);
        }
        if !is_new {
            return;
        }
        self.network.add_link(&self.config, from, to);
        self.network_changed = true;
        self.event(Event::LinkUp { from, to });
        // The host candidates at this port were seen through the link.
        for end in [from, to] {
            let had_hosts = self.network.retire_at(end);
            self.hosts_changed |= had_hosts;
            self.drop_counters_of(end, had_hosts);
        }
        self.ports_changed = true;
        // The reverse direction may have been probed before this switch was ready.
        self.probe(to);
    }

    pub(crate) fn links_gone(&mut self, gone: &[(SwitchPort, SwitchPort)]) {
        for (from, to) in gone {
            if let Some(link) = self.network.link(*from, *to)
                && self.network.set_alive(link, false)
            {
                self.network_changed = true;
                self.event(Event::LinkDown { from: *from, to: *to });
            }
        }
    }

    pub(crate) fn probe(&mut self, end: SwitchPort) {
        if self.connections.contains_key(&end.0) {
            let ttl_s = (self.config.link_timeout.as_s_f64() as u64).clamp(1, 65_535) as u16;
            let data = self.discovery.probe(self.now, end, ttl_s);
            self.packet_out(end, data);
        }
    }

    pub(crate) fn packet_out(&mut self, (datapath, port): SwitchPort, data: Vec<u8>) {
        let Some(connection) = self.connections.get(&datapath).copied() else { return };
        let actions = vec![Action::output(port)];
        let packet = PacketOut { buffer: BufferId::NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data };
        self.tally.packet_outs += 1;
        self.send(connection, Message::PacketOut(packet));
    }

    /// Sends an ARP reply, immediately if the rules are installed already. A host that asks without
    /// an address sends no packets: it checks whether the address is free (RFC 5227).
    fn answer(&mut self, held: PendingArpReply) {
        if held.requester.is_unspecified() || self.are_connected(held.to, held.requester, held.target) {
            self.packet_out(held.to, held.frame);
        } else {
            self.pending_arp_replies.hold(self.now, held);
        }
    }

    pub(crate) fn release_arp_replies(&mut self) {
        let mut held = std::mem::take(&mut self.pending_arp_replies);
        for (to, frame) in held.take(self.now, |to, asker, target| self.are_connected(to, asker, target)) {
            self.packet_out(to, frame);
        }
        self.pending_arp_replies = held;
    }

    /// Returns whether rules lead from a host at `at` to another one and back. A virtual address
    /// needs no rules if first packets are kept until rules lead to the member; otherwise it needs
    /// the return rules.
    pub(crate) fn are_connected(&mut self, at: SwitchPort, asker: Ipv4Addr, target: Ipv4Addr) -> bool {
        let edge = |address| self.network.host(self.network.find_host(address)?).map(|host| host.edge);
        if self.vips.is_virtual(target) {
            let near = self.network.node_of(at.0).filter(|near| edge(asker) == Some(*near));
            return near.is_some_and(|near| self.are_replies_translated(asker, target, near));
        }
        let (Some(near), Some(asked_at), Some(far)) = (self.network.node_of(at.0), edge(asker), edge(target)) else {
            return false;
        };
        near == asked_at && self.has_route(near, target, far) && self.has_route(far, asker, near)
    }

    /// Returns whether rules lead from a switch to an address at another one. The result is cached
    /// until rules change.
    fn has_route(&mut self, from: NodeIx, address: Ipv4Addr, edge: NodeIx) -> bool {
        if self.verified_routes.contains(&(from, address)) {
            return true;
        }
        let has_route = self.default_routes.leads(from, address, edge, &self.network, &self.fabric);
        if has_route {
            self.verified_routes.insert((from, address));
        }
        has_route
    }

    /// Sends an ARP request out of all edge ports but the one it came from.
    pub(crate) fn send_to_edge_ports(&mut self, except: Option<SwitchPort>, data: &[u8]) {
        let is_edge = |end: &SwitchPort| Some(*end) != except && self.discovery.is_edge(self.now, *end);
        let edges: Vec<SwitchPort> = self.ports.live().filter(is_edge).collect();
        edges.into_iter().for_each(|end| self.packet_out(end, data.to_vec()));
    }

    pub(crate) fn set_ports(&mut self, datapath: DatapathId, mut ports: BTreeMap<PortNo, PortDesc>) {
        let before: Vec<SwitchPort> = self.ports.live().filter(|end| end.0 == datapath).collect();
        for (datapath, port) in self.damping.apply(self.now, datapath, &mut ports, &before) {
            self.event(Event::PortDamped { datapath, port });
        }
        let is_up = |port: &&PortDesc| port.is_live() && is_physical(port.port);
        let up: Vec<SwitchPort> = ports.values().filter(is_up).map(|port| (datapath, port.port)).collect();
        self.record_gone_ports(datapath, &ports);
        self.ports.of.insert(datapath, ports);
        for end in before.iter().filter(|end| !up.contains(end)) {
            let gone = self.discovery.port_down(*end);
            self.links_gone(&gone);
            self.network_changed |= self.network.set_hosts_alive(*end, false);
            self.ports_changed = true;
        }
        let is_to_client = self.status.get(&datapath).is_some_and(|status| status.since == self.now);
        for end in up {
            self.network_changed |= self.network.set_hosts_alive(end, true);
            if is_to_client || !before.contains(&end) {
                self.ports_changed = true;
                self.probe(end);
            }
        }
    }

    /// Records missing ports. Rules for hosts last as long as their ports: a switch may reconnect
    /// without some, or get them again.
    fn record_gone_ports(&mut self, datapath: DatapathId, ports: &BTreeMap<PortNo, PortDesc>) {
        let before = self.ports.of.get(&datapath);
        if before.is_some_and(|before| before.keys().eq(ports.keys())) {
            return;
        }
        let is_other =
            |end: &SwitchPort| before.is_none_or(|ports| ports.contains_key(&end.1)) != ports.contains_key(&end.1);
        self.hosts_changed |= self.network.host_ends().iter().any(|(_, end)| end.0 == datapath && is_other(end));
        let gone = before.into_iter().flat_map(|ports| ports.keys()).filter(|port| !ports.contains_key(port));
        for port in gone {
            self.arp.forget_port((datapath, *port));
            self.room.forget_port((datapath, *port));
            self.port_samples.remove(&(datapath, *port));
        }
    }

    pub(crate) fn counters(&mut self, datapath: DatapathId, xid: Xid, reply: &MultipartReply, has_more: bool) {
        if self.connections_counted(datapath, xid, reply, has_more) {
            return;
        }
        match reply {
            MultipartReply::Flow(entries) if self.needs.flows == FlowSource::FirstPackets => {
                let Some(poll) = self.polls_out.get(&datapath).map(|poll| poll.number) else { return };
                entries.iter().for_each(|entry| self.counter_found(datapath, entry, poll));
                if !has_more {
                    self.poll_completed(datapath, xid);
                }
            }
            MultipartReply::Flow(entries) => {
                for entry in entries {
                    let Some(tuple) = tuple_of(&entry.match_) else { continue };
                    let (bytes, duration) = (entry.bytes, entry.duration_ns);
                    let why = self.flows.counted(self.now, tuple, bytes, duration, &self.network);
                    self.pending_triggers.extend(why);
                }
            }
            MultipartReply::Port(ports) => {
                for port in ports.iter().filter(|port| is_physical(port.port)) {
                    self.port_counted((datapath, port.port), [port.tx_bytes, port.rx_bytes], port.duration_ns);
                }
                if !has_more {
                    self.polls_out.remove(&datapath);
                }
            }
            // A part that cannot be decoded: its content does not count as missing.
            MultipartReply::Partial { .. } => {
                if let Some(poll) = self.polls_out.get_mut(&datapath) {
                    poll.xid = None;
                }
            }
            _ => {}
        }
    }

    /// Handles the bytes sent and received by a port: the load of its links and of the links of its
    /// hosts.
    fn port_counted(&mut self, end: SwitchPort, bytes: [u64; 2], duration_ns: u64) {
        let Some(samples) = self.port_samples.get_mut(&end) else {
            self.port_samples.insert(end, bytes.map(|bytes| Sample::first(bytes, duration_ns)));
            return;
        };
        let [sent, received] = [0, 1].map(|way| samples[way].next(bytes[way], duration_ns));
        self.tally.stale_samples += u64::from(sent == Reading::Stale);
        let leaving: Vec<LinkIx> = self.network.links_from(end).collect();
        for link in leaving {
            self.record_load(link, sent);
            if self.network.is_host_link(link) {
                self.record_load(link.reverse(), received);
            }
        }
    }

    fn record_load(&mut self, link: LinkIx, reading: Reading) {
        if let (Reading::Rate(rate), Some(load)) = (reading, self.load.get_mut(link.ix())) {
            *load = balance::central::LinkLoad { rate: Some(rate), at: self.now };
        }
    }
}
