//! Packet-ins for virtual addresses: first packets, copies of them, and packets without a serving
//! member.

use balance::server::{Choice, Request};
use core::net::Ipv4Addr;
use net::{FiveTuple, Time};
use openflow::frame::{Unreachable, flags, icmp_type, icmp_unreachable, segment, tcp_reset};
use openflow::headers::protocol;
use openflow::{Action, BufferId, Headers, MacAddr, Message, PacketOut, PortNo, SetField};

use super::MemberState;
use super::connection_table::{Connection, ConnectionState};
use super::pool_state::MemberEntry;
use super::rules::{ConnectionEndpoints, Owner};
use super::spec::{MemberId, Protocol, Refusal, Service};
use super::{Parts, VipService};
use crate::SwitchPort;
use crate::observer::flows::tuple_of_packet;

/// Number of packets sent through the tables after the rules were confirmed, before the rules are
/// sent again. Packets may have been in flight to the controller; if the rules are gone, packets
/// keep coming.
const LATE_MAX: u8 = 64;
/// Shortest time between two transmissions of the same rules: packets in flight before they took
/// effect also come here.
const RESEND_AFTER: Time = Time::from_ms(10);
/// Longest time a packet waits for rules between the client and the member.
const HELD: Time = Time::from_ms(500);
const HELD_MAX: usize = 4_096;
/// Rate limit of rejections per switch: interval, and burst.
const ANSWER_EVERY: Time = Time::from_ms(1);
const ANSWERS_AT_ONCE: u64 = 100;

/// A packet that waits for rules in both directions.
#[derive(Clone, Debug)]
pub(super) struct HeldPacket {
    at: SwitchPort,
    tuple: FiveTuple,
    member: Ipv4Addr,
    data: Vec<u8>,
    pub(super) until: Time,
}

enum PacketAction {
    /// Send it through the tables again: its rules are installed or will be.
    Onward,
    /// Send its rules again, to the switch it came from.
    Again,
    /// Drop it: it keeps coming.
    Drop,
    /// Reset it: its member failed.
    Reset,
    /// Pick another member.
    Anew,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MemberChoice {
    Same,
    Member(MemberId),
    Anyone,
    /// None: its member has failed, and its client receives a reset.
    Nobody,
}

impl VipService {
    pub(crate) fn virtual_packet(&mut self, on: &mut Parts<'_>, at: SwitchPort, headers: &Headers, data: &[u8]) {
        if is_later_fragment(data) || self.is_virtual(headers.ipv4_src) {
            return;
        }
        if on.cx.config.health_check_address.is_some_and(|checker| checker.ipv4 == headers.ipv4_dst) {
            return self.on_check_reply(on, at, headers, data);
        }
        let is_error = headers.ip_proto == protocol::ICMP && headers.l4_src != u16::from(icmp_type::ECHO_REQUEST);
        if is_error {
            return; // An ICMP message about a connection, or an unsolicited reply: neither gets a response.
        }
        let tuple = tuple_of_connection(headers);
        let place = (tuple.dst, tuple.protocol, tuple.dst_port);
        let service = self.by_place.get(&place).and_then(|id| self.services.get(id)).cloned();
        let Some(service) = service else { return self.refuse(on, at, data, Refusal::Reset) };
        if on.observer.network.node_of(at.0).is_some_and(|node| self.is_on_the_way(on, &service, node, tuple.src)) {
            return;
        }
        let course = match self.connections.get(&tuple).copied() {
            Some(known) => self.action_for(on, at, &known, data),
            None => PacketAction::Anew,
        };
        match course {
            PacketAction::Onward => self.send_on(on, at, &tuple, data),
            PacketAction::Again => self.connect(on, at, &service, tuple, MemberChoice::Same, data),
            PacketAction::Drop => {}
            PacketAction::Reset => {
                if service.protocol != Protocol::Tcp {
                    self.connections.remove(&tuple);
                }
                self.refuse(on, at, data, Refusal::Reset);
            }
            PacketAction::Anew => {
                let is_new = self.connections.get(&tuple).is_some() || self.waiting.has(&tuple);
                match self.member_choice_for(on, at, &service, &tuple, data, is_new) {
                    MemberChoice::Nobody => self.refuse(on, at, data, Refusal::Reset),
                    wish => self.connect(on, at, &service, tuple, wish, data),
                }
            }
        }
    }

    fn action_for(&mut self, on: &mut Parts<'_>, at: SwitchPort, known: &Connection, data: &[u8]) -> PacketAction {
        let opened = opening(data);
        let is_opening = (known.translated.protocol == protocol::TCP).then_some(opened.is_some());
        let (is_up, is_leaving) = match self.member(known.owner) {
            Some(facts) => {
                // A drained member gets no new connections either, and a client may reuse a port.
                let is_draining = !facts.spec.is_enabled || facts.spec.weight == 0;
                let is_drained = is_draining && is_opening == Some(true);
                let is_up = match facts.state {
                    MemberState::Up => true,
                    // Another connection has brought it back in the same moment.
                    MemberState::Unknown if facts.is_removed => self.has_live_port(on, known.translated.dst),
                    _ => false,
                };
                (is_up, facts.is_removed || is_drained)
            }
            // Its last rule has expired, and the connection continues after all.
            None => (self.has_live_port(on, known.translated.dst), true),
        };
        match known.stage {
            // The client reuses a port whose rules are installed; only switches that match TCP
            // flags send this packet. The new connection keeps the member if it may: Open vSwitch
            // forwards by cached decisions for some milliseconds after a rule has changed, and the
            // next packets of the client would reach the former member.
            ConnectionState::Installing | ConnectionState::Installed if opened.is_some() && opened != known.opened => {
                if is_up && !is_leaving {
                    PacketAction::Again
                } else {
                    PacketAction::Anew
                }
            }
            ConnectionState::MemberFailed(_) if is_opening == Some(true) => PacketAction::Anew,
            ConnectionState::MemberFailed(_) => PacketAction::Reset,
            // A new connection from a known port must not get a member that is failing or removed.
            ConnectionState::Closed(_) if !is_up || (is_leaving && is_opening != Some(false)) => PacketAction::Anew,
            ConnectionState::Closed(_) => PacketAction::Again,
            _ if known.edge != at.0 => PacketAction::Again,
            ConnectionState::Installing => PacketAction::Onward,
            ConnectionState::Installed if known.late < LATE_MAX => PacketAction::Onward,
            ConnectionState::Installed if on.cx.now >= known.sent.saturating_add(RESEND_AFTER) => PacketAction::Again,
            ConnectionState::Installed => PacketAction::Drop,
        }
    }

    /// Sends the rules of a connection, and its packet after them.
    fn connect(
        &mut self,
        on: &mut Parts<'_>,
        at: SwitchPort,
        service: &Service,
        tuple: FiveTuple,
        wish: MemberChoice,
        data: &[u8],
    ) {
        let refusal = self.pools.get(&service.pool).map_or(Refusal::Reset, |pool| pool.spec.refusal);
        let is_unavailable = self.unavailable.get(&(service.id, at.0)).is_some_and(|until| on.cx.now < *until);
        if is_unavailable || !self.connections.make_room(on.cx.now) {
            return self.refuse(on, at, data, refusal);
        }
        let before = self.connections.get(&tuple).copied();
        let kept = before.filter(|_| wish == MemberChoice::Same);
        let Some(edge) = on.observer.network.node_of(at.0) else { return };
        let request = Request { tuple, edge, size: None, at: on.cx.now };
        if kept.is_none() {
            self.poll_at_request(on, service.pool);
        }
        let choice = match (kept, wish) {
            (Some(known), _) => Some(Choice { member: known.owner.member, path: None }),
            (None, MemberChoice::Member(member)) => Some(Choice { member, path: None }),
            _ => self.pick(on, &request, service),
        };
        if choice.is_none() && self.waits(on, at, tuple, service.pool, data) {
            return self.forget_connection(on, &tuple);
        }
        let ends = choice.as_ref().and_then(|choice| match kept {
            Some(known) => self.ends_of_known(&tuple, &known),
            None => self.ends_of_new(tuple, Owner { service: service.id, member: choice.member }, service),
        });
        let written = |ends: &ConnectionEndpoints| self.member(ends.owner).and_then(|facts| facts.mac);
        let mac = ends.and_then(|ends| self.interface_of(on, ends.member).or_else(|| written(&ends)));
        let (Some(ends), Some(mac)) = (ends, mac) else {
            self.forget_connection(on, &tuple);
            return self.refuse(on, at, data, refusal);
        };
        match before.filter(Connection::has_rules) {
            Some(before) if before.edge != at.0 => self.delete_rules_of(on, &tuple, &before),
            Some(before) if before.owner != ends.owner => self.delete_to_member_rule_of(on, &tuple, &before),
            _ => {}
        }
        let translated = ends.translated();
        let opened = opening(data).or(kept.and_then(|before| before.opened));
        let mut connection = Connection::new(ends.owner, translated, at.0, mac, on.cx.now, ConnectionState::Installing);
        connection.opened = opened;
        self.connections.begin(tuple, connection);
        self.report_ended_connections(on);
        if kept.is_some() {
            self.add_removed_member(ends.owner, ends.member, ends.member_port);
            self.report_placed(on, &tuple, &connection);
        }
        if !self.send_rules(on, at.0, &ends, mac) {
            self.connections.remove(&tuple);
            return self.refuse(on, at, data, refusal);
        }
        self.report_flow(on, &tuple, &connection);
        if let Some(path) = choice.and_then(|choice| choice.path) {
            on.planner.pin_connection(&on.observer.network, translated, path);
        }
        if kept.is_some() {
            self.try_update_path(on, &tuple);
        }
        self.send_on(on, at, &tuple, data);
    }

    fn forget_connection(&mut self, on: &mut Parts<'_>, tuple: &FiveTuple) {
        if let Some(known) = self.connections.remove(tuple).filter(Connection::has_rules) {
            self.delete_to_member_rule_of(on, tuple, &known);
        }
    }

    /// Picks a member and a path for a new connection. Not the client itself: a switch does not
    /// send a packet back where it came from. Not a member at which its translated tuple would
    /// equal that of another connection of the client.
    fn pick(&mut self, on: &mut Parts<'_>, request: &Request, service: &Service) -> Option<Choice> {
        on.observer.update_latencies();
        let pool = self.pools.get_mut(&service.pool)?;
        let connections = &self.connections;
        let tuple = &request.tuple;
        let is_out = |facts: &MemberEntry| {
            let spec = &facts.spec;
            let translated = FiveTuple { dst: spec.address, dst_port: member_port(spec.port, service), ..*tuple };
            spec.address == tuple.src || connections.is_translated_taken(&translated, tuple)
        };
        let except: Vec<MemberId> = pool.members.iter().filter(|(_, facts)| is_out(facts)).map(|(id, _)| *id).collect();
        let view = super::view_of(on.cx.now, on.observer);
        pool.pick(request, &except, &view)
    }

    pub(super) fn ends_of(
        &self,
        tuple: FiveTuple,
        owner: Owner,
        member: Ipv4Addr,
        member_port: u16,
    ) -> Option<ConnectionEndpoints> {
        let service = self.services.get(&owner.service)?;
        let (vip_mac, idle_timeout_s, is_tunnelled) = (service.mac(), service.idle_timeout_s, service.is_tunnelled);
        Some(ConnectionEndpoints { tuple, vip_mac, owner, member, member_port, idle_timeout_s, is_tunnelled })
    }
    pub(super) fn ends_of_known(&self, tuple: &FiveTuple, known: &Connection) -> Option<ConnectionEndpoints> {
        self.ends_of(*tuple, known.owner, known.translated.dst, known.translated.dst_port)
    }
    fn ends_of_new(&self, tuple: FiveTuple, owner: Owner, service: &Service) -> Option<ConnectionEndpoints> {
        let spec = self.member(owner)?.spec;
        self.ends_of(tuple, owner, spec.address, member_port(spec.port, service))
    }
    pub(super) fn interface_of(&self, on: &Parts<'_>, address: Ipv4Addr) -> Option<MacAddr> {
        Some(on.observer.network.host_at(address)?.known.mac)
    }

    /// Sends a packet through the tables of its switch, when rules lead between client and member
    /// in both directions.
    fn send_on(&mut self, on: &mut Parts<'_>, at: SwitchPort, tuple: &FiveTuple, data: &[u8]) {
        let Some(known) = self.connections.get(tuple).copied() else { return };
        self.connections.edit(tuple, |connection| {
            connection.late = if connection.stage == ConnectionState::Installed { connection.late + 1 } else { 0 };
        });
        let (client, member) = (tuple.src, known.translated.dst);
        let has_route = self.are_connected(on, at, client, member);
        if !has_route && self.held.len() < HELD_MAX {
            let until = on.cx.now.saturating_add(HELD);
            self.held.push(HeldPacket { at, tuple: *tuple, member, data: data.to_vec(), until });
            return;
        }
        self.through_tables(on, at, tuple, data.to_vec());
    }

    /// Sends the packets whose rules are installed now.
    pub(crate) fn release_packets(&mut self, on: &mut Parts<'_>) {
        if self.held.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        for packet in held {
            if packet.until <= on.cx.now || self.are_connected(on, packet.at, packet.tuple.src, packet.member) {
                self.through_tables(on, packet.at, &packet.tuple, packet.data);
            } else {
                self.held.push(packet);
            }
        }
    }

    /// Sends a packet of a connection through the tables of its switch. An opening segment would
    /// return to the controller if the switch matches TCP flags, unless it has the Ethernet address
    /// of the member already.
    fn through_tables(&mut self, on: &mut Parts<'_>, (datapath, port): SwitchPort, tuple: &FiveTuple, data: Vec<u8>) {
        let Some(connection) = on.cx.channels.connection_of(datapath) else { return };
        let switch = on.installer_of(datapath);
        let comes_back = switch.is_some_and(|switch| switch.takes_tcp_flags) && opening(&data).is_some();
        let known = self.connections.get(tuple).filter(|_| comes_back);
        let mut actions: Vec<Action> =
            known.map(|known| Action::SetField(SetField::EthDst(known.mac))).into_iter().collect();
        actions.push(Action::output(PortNo::TABLE));
        let packet = PacketOut { buffer: BufferId::NO_BUFFER, in_port: port, actions, data };
        on.cx.channels.tally.packet_outs += 1;
        on.cx.channels.send(connection, Message::PacketOut(packet));
    }

    /// Rejects a packet of a client, within the rate limit of its switch.
    pub(super) fn refuse(&mut self, on: &mut Parts<'_>, at: SwitchPort, data: &[u8], refusal: Refusal) {
        let ip_proto = openflow::frame::parse(data).map_or(0, |headers| headers.ip_proto);
        let answer = match (refusal, ip_proto) {
            (Refusal::Drop, _) => None,
            (Refusal::Reset, protocol::TCP) => tcp_reset(data),
            (Refusal::Reset, protocol::UDP) => icmp_unreachable(data, Unreachable::Port),
            (Refusal::Reset, protocol::ICMP) | (Refusal::Unreachable, _) => icmp_unreachable(data, Unreachable::Host),
            (Refusal::Reset, _) => icmp_unreachable(data, Unreachable::Protocol),
        };
        let Some(answer) = answer else { return };
        let now = on.cx.now;
        if self.answers.entry(at.0).or_default().take(now, ANSWER_EVERY, ANSWERS_AT_ONCE) {
            on.cx.channels.packet_out(at, answer);
        }
    }
}

pub(super) fn member_port(port: Option<u16>, service: &Service) -> u16 {
    if service.protocol.has_ports() { port.unwrap_or(service.port) } else { 0 }
}

/// Returns the five-tuple of a connection. Echoes of a pair of hosts are one connection, since no
/// rule can distinguish them.
fn tuple_of_connection(headers: &Headers) -> FiveTuple {
    let tuple = tuple_of_packet(headers);
    match headers.ip_proto {
        protocol::TCP | protocol::UDP => tuple,
        _ => FiveTuple { src_port: 0, dst_port: 0, ..tuple },
    }
}

fn opening(data: &[u8]) -> Option<u32> {
    let segment = segment(data).ok()??;
    (segment.has(flags::SYN) && !segment.has(flags::ACK)).then_some(segment.seq)
}

/// Returns whether a TCP segment opens a connection; `None` if it is not TCP.
pub(super) fn opens(data: &[u8]) -> Option<bool> {
    segment(data).ok().flatten().map(|_| opening(data).is_some())
}

/// Returns whether an untagged IPv4 packet is a fragment other than the first, which has no ports.
fn is_later_fragment(data: &[u8]) -> bool {
    let offset = data.get(20..22).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    offset & 0x1fff != 0
}
