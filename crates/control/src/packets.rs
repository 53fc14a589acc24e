//! What comes from switches besides answers about rules: packets, ports, counters.

use std::collections::BTreeMap;

use balance::central::FlowSource;
use core::net::Ipv4Addr;
use net::{HostIx, LinkIx, NodeIx, Time};
use openflow::headers::{ether, protocol};
use openflow::{
    Action, BufferId, ConnectionId, DatapathId, Message, MultipartReply, PacketIn, PacketOut, PortDesc, PortNo, Xid,
    frame,
};

use crate::compile::{CLASSIFY, tuple_of};
use crate::controller::{Controller, question};
use crate::discovery::{EDGE_AFTER, Found, is_physical};
use crate::hosts::{self, Answer, Held};
use crate::network::End;
use crate::stats::{Reading, Sample};
use crate::{Event, KnownHost};

impl Controller {
    pub(crate) fn packet_in(&mut self, connection: ConnectionId, datapath: DatapathId, packet: &PacketIn) {
        self.tally.packet_ins += 1;
        let Some(port) = packet.match_.in_port.filter(|port| is_physical(*port)) else { return };
        let at = (datapath, port);
        let Ok(headers) = frame::parse(&packet.data) else {
            return; // Cut or malformed: nothing to learn from it.
        };
        match headers.eth_type {
            ether::LLDP => self.probe_heard(at, &packet.data),
            // Tagged ones are not from hosts, and ports with links show packets of hosts elsewhere.
            _ if headers.vlan.is_some() || self.discovery.is_link(at) => {}
            // A port that is dead or not there shows nobody: the packet is late, or made up.
            _ if !self.ports.is_live(at) => {}
            ether::ARP if !self.host_spoke(at, &headers) => {} // It cannot be reached: an answer would be no use.
            ether::ARP => match self.arp.packet(self.now, at, &headers, &self.network, &self.vips) {
                Answer::Nothing => {}
                Answer::Send(held) => self.answer(held),
                Answer::AskEdges(data) => self.ask_edges(at, &data),
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

    /// Whether a flow that is not known cannot be taken in.
    pub(crate) fn is_full(&mut self, tuple: &net::FiveTuple) -> bool {
        let is_full = self.flows.table.len() >= self.config.flows_max && self.flows.table.find(tuple).is_none();
        self.tally.flows_untold += u64::from(is_full);
        is_full
    }

    /// A host that is known, just so. Nearly all that speak are, and the list of hosts need not be walked for them.
    fn host_known(&self, known: &KnownHost) -> Option<HostIx> {
        let is_same = |host: &HostIx| self.network.host(*host).is_some_and(|facts| facts.known == *known);
        self.network.find_host(known.ipv4).filter(is_same)
    }

    /// An IPv4 packet came from a port that may have no switch behind it; its sender, if known to be there.
    fn host_seen(&mut self, at: End, headers: &openflow::Headers) -> Option<HostIx> {
        let source = hosts::speaker(at, headers).and_then(|known| self.host_known(&known));
        if source.is_none() {
            self.stranger_seen(at, headers);
        }
        source
    }

    fn stranger_seen(&mut self, at: End, headers: &openflow::Headers) {
        if self.network.has_host_at(at) {
            self.host_spoke(at, headers);
            return;
        }
        let seen = hosts::speaker(at, headers).filter(|seen| !self.vips.is_virtual(seen.ipv4));
        let Some(seen) = seen else { return };
        if self.discovery.is_edge(self.now, at)
            && let Some(question) = self.arp.seek(self.now, seen.ipv4)
        {
            self.packet_out(at, question);
        }
    }

    /// Somebody spoke at a port without a switch behind it; whether there is room for him.
    fn host_spoke(&mut self, at: End, headers: &openflow::Headers) -> bool {
        // Whoever claims a virtual address is not believed: connections would end there.
        let claimed = hosts::speaker(at, headers).filter(|known| !self.vips.is_virtual(known.ipv4));
        let Some(known) = claimed else { return true };
        if let Some(host) = self.host_known(&known) {
            self.network.heard(host, self.now);
        } else if self.network.has_host_at(at) {
            return self.host_found(known);
        } else if self.discovery.is_edge(self.now, at) {
            let due = self.now.saturating_add(self.probe_time());
            if !self.has_room(&known) {
                return false;
            }
            if self.claims.claim(known, due, self.config.hosts_per_port) {
                self.probe_edges(at);
            }
        } // Else a switch may yet turn out to be behind it.
        true
    }

    /// How long a probe may be under way from here to here.
    fn probe_time(&self) -> Time {
        let rtt = self.sessions.values().filter_map(|session| session.rtt).max().unwrap_or(Time::ZERO);
        (rtt * 2).clamp(Time::from_ms(1), EDGE_AFTER)
    }

    /// Probes a port where a host seems to be, and every other that may be the far end of a link to it.
    fn probe_edges(&mut self, at: End) {
        let mut ends = vec![at];
        if self.claims_probed_until <= self.now {
            self.claims_probed_until = self.now.saturating_add(self.probe_time());
            let is_edge =
                |end: &End| *end != at && self.discovery.is_edge(self.now, *end) && !self.network.has_host_at(*end);
            ends.extend(self.ports.live().filter(is_edge));
        }
        ends.into_iter().for_each(|end| self.probe(end));
    }

    /// Believes in hosts whose ports have been probed again.
    pub(crate) fn believe_claims(&mut self) {
        for known in self.claims.take_due(self.now) {
            let at = (known.datapath, known.port);
            if self.ports.is_live(at) && self.discovery.is_edge(self.now, at) {
                self.host_found(known);
            }
        }
    }

    fn probe_heard(&mut self, at: End, data: &[u8]) {
        let (sessions, connections) = (&self.sessions, &self.connections);
        let rtt = |datapath: DatapathId| sessions.get(connections.get(&datapath)?)?.rtt;
        let Some(Found { from, to, is_new, instead_of }) = self.discovery.heard(self.now, at, data, rtt) else {
            return;
        };
        if !self.ports.is_live(from) || !self.ports.is_live(to) {
            self.discovery.port_down(from);
            return; // The port went down while the probe was under way; it is probed again when it is back.
        }
        if let Some(before) = instead_of {
            self.links_gone(&[(from, before)]);
        }
        if !is_new {
            return;
        }
        self.network.add_link(&self.config, from, to);
        self.is_network_new = true;
        self.event(Event::LinkUp { from, to });
        // Whatever seemed to be a host there was seen through the link.
        for end in [from, to] {
            let had_hosts = self.network.retire_at(end);
            self.are_hosts_new |= had_hosts;
            self.drop_counters_of(end, had_hosts);
        }
        self.are_ports_new = true;
        // The way back may have been probed before this side listened.
        self.probe(to);
    }

    /// Directed links are gone.
    pub(crate) fn links_gone(&mut self, gone: &[(End, End)]) {
        for (from, to) in gone {
            if let Some(link) = self.network.link(*from, *to)
                && self.network.set_alive(link, false)
            {
                self.is_network_new = true;
                self.event(Event::LinkDown { from: *from, to: *to });
            }
        }
    }

    /// Sends a probe out of a port.
    pub(crate) fn probe(&mut self, end: End) {
        if self.connections.contains_key(&end.0) {
            let ttl_s = (self.config.link_timeout.as_s_f64() as u64).clamp(1, 65_535) as u16;
            let data = self.discovery.probe(self.now, end, ttl_s);
            self.packet_out(end, data);
        }
    }

    pub(crate) fn packet_out(&mut self, (datapath, port): End, data: Vec<u8>) {
        let Some(connection) = self.connections.get(&datapath).copied() else { return };
        let actions = vec![Action::output(port)];
        let packet = PacketOut { buffer: BufferId::NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data };
        self.tally.packet_outs += 1;
        self.send(connection, Message::PacketOut(packet));
    }

    /// Answers a question, at once if packets find their way already. A host that asks without an address of its own will
    /// not send anything: it looks whether the address is free (RFC 5227).
    fn answer(&mut self, held: Held) {
        if held.asker.is_unspecified() || self.are_connected(held.to, held.asker, held.target) {
            self.packet_out(held.to, held.frame);
        } else {
            self.held_answers.hold(self.now, held);
        }
    }

    /// Sends the answers that waited for rules.
    pub(crate) fn release_answers(&mut self) {
        let mut held = std::mem::take(&mut self.held_answers);
        for (to, frame) in held.take(self.now, |to, asker, target| self.are_connected(to, asker, target)) {
            self.packet_out(to, frame);
        }
        self.held_answers = held;
    }

    /// Whether rules lead from a host at `at` to another one and back. A virtual address needs none, where first packets are kept
    /// until rules lead to the member; where they are not, what leads back from there.
    pub(crate) fn are_connected(&mut self, at: End, asker: Ipv4Addr, target: Ipv4Addr) -> bool {
        let edge = |address| self.network.host(self.network.find_host(address)?).map(|host| host.edge);
        if self.vips.is_virtual(target) {
            let near = self.network.node_of(at.0).filter(|near| edge(asker) == Some(*near));
            return near.is_some_and(|near| self.are_answers_led(asker, target, near));
        }
        let (Some(near), Some(asked_at), Some(far)) = (self.network.node_of(at.0), edge(asker), edge(target)) else {
            return false;
        };
        near == asked_at && self.is_led(near, target, far) && self.is_led(far, asker, near)
    }

    /// Whether rules lead from a switch to an address at another; remembered until rules change.
    fn is_led(&mut self, from: NodeIx, address: Ipv4Addr, edge: NodeIx) -> bool {
        if self.led.contains(&(from, address)) {
            return true;
        }
        let is_led = self.base.leads(from, address, edge, &self.network, &self.fabric);
        if is_led {
            self.led.insert((from, address));
        }
        is_led
    }

    /// Sends a question of the controller's own out of all ports without a switch behind them.
    pub(crate) fn ask_everywhere(&mut self, data: &[u8]) {
        self.ask_edges((DatapathId(0), PortNo::CONTROLLER), data);
    }

    /// Sends a question out of all ports without a switch behind them.
    fn ask_edges(&mut self, except: End, data: &[u8]) {
        let is_edge = |end: &End| *end != except && self.discovery.is_edge(self.now, *end);
        let edges: Vec<End> = self.ports.live().filter(is_edge).collect();
        edges.into_iter().for_each(|end| self.packet_out(end, data.to_vec()));
    }

    /// The ports of a switch are these now.
    pub(crate) fn set_ports(&mut self, datapath: DatapathId, ports: BTreeMap<PortNo, PortDesc>) {
        let is_up = |port: &&PortDesc| port.is_live() && is_physical(port.port);
        let up: Vec<End> = ports.values().filter(is_up).map(|port| (datapath, port.port)).collect();
        let before: Vec<End> = self.ports.live().filter(|end| end.0 == datapath).collect();
        self.note_gone_ports(datapath, &ports);
        self.ports.of.insert(datapath, ports);
        for end in before.iter().filter(|end| !up.contains(end)) {
            let gone = self.discovery.port_down(*end);
            self.links_gone(&gone);
            self.is_network_new |= self.network.set_hosts_alive(*end, false);
            self.are_ports_new = true;
        }
        let is_back = self.status.get(&datapath).is_some_and(|status| status.since == self.now);
        for end in up {
            self.is_network_new |= self.network.set_hosts_alive(end, true);
            if is_back || !before.contains(&end) {
                self.are_ports_new = true;
                self.probe(end);
            }
        }
    }

    /// Rules for hosts are there as long as their ports are: a switch may come back without some, or get them again.
    fn note_gone_ports(&mut self, datapath: DatapathId, ports: &BTreeMap<PortNo, PortDesc>) {
        let before = self.ports.of.get(&datapath);
        if before.is_some_and(|before| before.keys().eq(ports.keys())) {
            return;
        }
        let is_other = |end: &End| before.is_none_or(|ports| ports.contains_key(&end.1)) != ports.contains_key(&end.1);
        self.are_hosts_new |= self.network.host_ends().iter().any(|(_, end)| end.0 == datapath && is_other(end));
        let gone = before.into_iter().flat_map(|ports| ports.keys()).filter(|port| !ports.contains_key(port));
        for port in gone {
            self.arp.forget_port((datapath, *port));
            self.room.forget_port((datapath, *port));
            self.port_samples.remove(&(datapath, *port));
        }
    }

    /// Counters came.
    pub(crate) fn counters(&mut self, datapath: DatapathId, xid: Xid, reply: &MultipartReply, has_more: bool) {
        if self.connections_counted(datapath, xid, reply, has_more) {
            return;
        }
        match reply {
            MultipartReply::Flow(entries) if self.needs.flows == FlowSource::FirstPackets => {
                let Some(poll) = self.polls_out.get(&datapath).map(|poll| poll.number) else { return };
                entries.iter().for_each(|entry| self.counter_found(datapath, entry, poll));
                if !has_more {
                    self.poll_answered(datapath, xid);
                }
            }
            MultipartReply::Flow(entries) => {
                for entry in entries {
                    let Some(tuple) = tuple_of(&entry.match_) else { continue };
                    let (bytes, duration) = (entry.bytes, entry.duration_ns);
                    let news = self.flows.counted(self.now, tuple, bytes, duration, &self.network);
                    self.questions.extend(news.map(question));
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
            // A part that cannot be read: what it would have told is not missing.
            MultipartReply::Other { .. } => {
                if let Some(poll) = self.polls_out.get_mut(&datapath) {
                    poll.xid = None;
                }
            }
            _ => {}
        }
    }

    /// Bytes sent and received by a port: load of the links that leave it, and of those of the hosts behind it.
    fn port_counted(&mut self, end: End, bytes: [u64; 2], duration_ns: u64) {
        let Some(samples) = self.port_samples.get_mut(&end) else {
            self.port_samples.insert(end, bytes.map(|bytes| Sample::first(bytes, duration_ns)));
            return;
        };
        let [sent, received] = [0, 1].map(|way| samples[way].next(bytes[way], duration_ns));
        self.tally.stale_samples += u64::from(sent == Reading::Stale);
        let leaving: Vec<LinkIx> = self.network.links_from(end).collect();
        for link in leaving {
            self.note_load(link, sent);
            if self.network.is_host_link(link) {
                self.note_load(link.reverse(), received);
            }
        }
    }

    fn note_load(&mut self, link: LinkIx, reading: Reading) {
        if let (Reading::Rate(rate), Some(load)) = (reading, self.load.get_mut(link.ix())) {
            *load = balance::central::LinkLoad { rate: Some(rate), at: self.now };
        }
    }
}
