//! Packets to virtual addresses that come to the controller: first ones, copies of them, and those nobody serves.

use balance::server::{Choice, Request};
use core::net::Ipv4Addr;
use net::{FiveTuple, Time};
use openflow::frame::{Unreachable, flags, icmp_type, icmp_unreachable, segment, tcp_reset};
use openflow::headers::protocol;
use openflow::{Action, BufferId, Headers, MacAddr, Message, PacketOut, PortNo, SetField};

use super::MemberState;
use super::pools::MemberFacts;
use super::rules::{Ends, Owner, Way};
use super::spec::{MemberId, Protocol, Refusal, Service};
use super::table::{Connection, Stage};
use crate::controller::{Controller, tuple_of_packet};
use crate::network::End;

/// Packets sent on to the tables after the rules were confirmed, before the rules are sent again. Packets may have been on
/// their way here; but if the rules are gone they come again and again.
const LATE_MAX: u8 = 64;
/// Rules are not sent again before: packets under way before they took effect come here, too.
const AGAIN_AFTER: Time = Time::from_ms(10);
/// Packets wait at most this long for rules between the client and the member.
const HELD: Time = Time::from_ms(500);
/// Packets that wait at once.
const HELD_MAX: usize = 4_096;
/// Answers to packets nobody serves, per switch: between two, and how many may come at once.
const ANSWER_EVERY: Time = Time::from_ms(1);
const ANSWERS_AT_ONCE: u64 = 100;

/// A packet that waits until rules lead both ways.
#[derive(Clone, Debug)]
pub(super) struct HeldPacket {
    at: End,
    /// The connection it is of, and where that leads.
    tuple: FiveTuple,
    member: Ipv4Addr,
    data: Vec<u8>,
    pub(super) until: Time,
}

/// How many answers a switch may cause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    /// When the whole of it is there again.
    full_at: Time,
}

impl Allowance {
    fn take(&mut self, now: Time) -> bool {
        let full_at = self.full_at.max(now).saturating_add(ANSWER_EVERY);
        let most = now.saturating_add(Time::from_ps(ANSWER_EVERY.as_ps() * ANSWERS_AT_ONCE));
        let is_allowed = full_at <= most;
        if is_allowed {
            self.full_at = full_at;
        }
        is_allowed
    }
}

/// What is to be done with a packet of a connection that is known.
enum Course {
    /// Its rules are there or will be: through the tables again.
    Onward,
    /// Its rules are to be sent, to where it came from.
    Again,
    /// It comes again and again.
    Drop,
    /// Its member failed.
    Reset,
    /// Another member is to be picked.
    Anew,
}

/// Who is to have a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// The one who has it.
    Same,
    /// This one.
    Member(MemberId),
    /// Whom the balancer picks.
    Anyone,
    /// Nobody: its member has failed, and its client is to be told.
    Nobody,
}

impl Controller {
    /// An IPv4 packet to a virtual address.
    pub(crate) fn virtual_packet(&mut self, at: End, headers: &Headers, data: &[u8]) {
        if is_later_fragment(data) || self.vips.is_virtual(headers.ipv4_src) {
            return;
        }
        if self.config.checker.is_some_and(|checker| checker.ipv4 == headers.ipv4_dst) {
            return self.check_answered(at, headers, data);
        }
        let is_error = headers.ip_proto == protocol::ICMP && headers.l4_src != u16::from(icmp_type::ECHO_REQUEST);
        if is_error {
            return; // About a packet of a connection, and not to be answered; or an answer nobody asked for.
        }
        let tuple = tuple_of_connection(headers);
        let place = (tuple.dst, tuple.protocol, tuple.dst_port);
        let service = self.vips.by_place.get(&place).and_then(|id| self.vips.services.get(id)).cloned();
        let Some(service) = service else { return self.refuse(at, data, Refusal::Reset) };
        let course = match self.vips.connections.get(&tuple).copied() {
            Some(known) => self.course_of(at, &known, data),
            None => Course::Anew,
        };
        match course {
            Course::Onward => self.send_on(at, &tuple, data),
            Course::Again => self.connect(at, &service, tuple, Wish::Same, data),
            Course::Drop => {}
            Course::Reset => {
                if service.protocol != Protocol::Tcp {
                    self.vips.connections.remove(&tuple);
                }
                self.refuse(at, data, Refusal::Reset);
            }
            Course::Anew => {
                let is_new = self.vips.connections.get(&tuple).is_some() || self.vips.waiting.has(&tuple);
                match self.wish_of(at, &service, &tuple, data, is_new) {
                    Wish::Nobody => self.refuse(at, data, Refusal::Reset),
                    wish => self.connect(at, &service, tuple, wish, data),
                }
            }
        }
    }

    fn course_of(&mut self, at: End, known: &Connection, data: &[u8]) -> Course {
        let opened = opening(data);
        let is_opening = (known.inner.protocol == protocol::TCP).then_some(opened.is_some());
        let (is_up, is_leaving) = match self.vips.member(known.owner) {
            Some(facts) => {
                // One that is drained gets no new connections either, and a client may use a port again that it used before.
                let is_drained = !facts.spec.is_enabled && is_opening == Some(true);
                (facts.state == MemberState::Up, facts.is_leaving || is_drained)
            }
            // It left when its last rule went, and the connection goes on after all.
            None => (self.is_plugged(known.inner.dst), true),
        };
        match known.stage {
            // From a port that was used before. Its rules are there, and switches that cannot tell would not have asked.
            Stage::Sent | Stage::Standing if opened.is_some() && opened != known.opened => Course::Anew,
            Stage::Broken(_) if is_opening == Some(true) => Course::Anew,
            Stage::Broken(_) => Course::Reset,
            // Whoever opens a connection anew need not get a member that is failing or leaving.
            Stage::Over(_) if !is_up || (is_leaving && is_opening != Some(false)) => Course::Anew,
            Stage::Over(_) => Course::Again,
            _ if known.edge != at.0 => Course::Again,
            Stage::Sent => Course::Onward,
            Stage::Standing if known.late < LATE_MAX => Course::Onward,
            Stage::Standing if self.now >= known.sent.saturating_add(AGAIN_AFTER) => Course::Again,
            Stage::Standing => Course::Drop,
        }
    }

    /// Sends the rules of a connection, and its packet after them.
    fn connect(&mut self, at: End, service: &Service, tuple: FiveTuple, wish: Wish, data: &[u8]) {
        let refusal = self.vips.pools.get(&service.pool).map_or(Refusal::Reset, |pool| pool.spec.refusal);
        let is_unavailable = self.vips.unavailable.get(&(service.id, at.0)).is_some_and(|until| self.now < *until);
        if is_unavailable || !self.vips.connections.make_room(self.now) {
            return self.refuse(at, data, refusal);
        }
        let before = self.vips.connections.get(&tuple).copied();
        let kept = before.filter(|_| wish == Wish::Same);
        let Some(edge) = self.network.node_of(at.0) else { return };
        let request = Request { tuple, edge, size: None, at: self.now };
        let choice = match (kept, wish) {
            (Some(known), _) => Some(Choice { member: known.owner.member, path: None }),
            (None, Wish::Member(member)) => Some(Choice { member, path: None }),
            _ => self.pick(&request, service),
        };
        if choice.is_none() && self.waits(at, tuple, service.pool, data) {
            return self.forget_connection(&tuple);
        }
        let ends = choice.as_ref().and_then(|choice| match kept {
            Some(known) => self.ends_of_known(&tuple, &known),
            None => self.ends_of_new(tuple, Owner { service: service.id, member: choice.member }, service),
        });
        let written = |ends: &Ends| self.vips.member(ends.owner).and_then(|facts| facts.mac);
        let mac = ends.and_then(|ends| self.interface_of(ends.member).or_else(|| written(&ends)));
        let (Some(ends), Some(mac)) = (ends, mac) else {
            self.forget_connection(&tuple);
            return self.refuse(at, data, refusal);
        };
        match before.filter(Connection::has_rules) {
            Some(before) if before.edge != at.0 => self.delete_rules_of(&tuple, &before),
            Some(before) if before.owner != ends.owner => self.delete_forth_of(&tuple, &before),
            _ => {}
        }
        let inner = ends.inner();
        let opened = opening(data).or(kept.and_then(|before| before.opened));
        let mut connection = Connection::new(ends.owner, inner, at.0, mac, self.now, Stage::Sent);
        connection.opened = opened;
        self.vips.connections.begin(tuple, connection);
        self.follow_ended();
        if kept.is_some() {
            self.remember_member(ends.owner, ends.member, ends.member_port);
            self.tell_placed(&tuple, &connection);
        }
        if !self.send_rules(at.0, &ends, mac) {
            self.vips.connections.remove(&tuple);
            return self.refuse(at, data, refusal);
        }
        self.tell_flow(&tuple, &connection);
        if let Some(path) = choice.and_then(|choice| choice.path) {
            self.pin_connection(inner, path, edge);
        }
        if kept.is_some() {
            self.follow_now(&tuple);
        }
        self.send_on(at, &tuple, data);
    }

    /// Forgets a connection, which does not go on.
    fn forget_connection(&mut self, tuple: &FiveTuple) {
        if let Some(known) = self.vips.connections.remove(tuple).filter(Connection::has_rules) {
            self.delete_forth_of(tuple, &known);
        }
    }

    /// Who gets a new connection, and by which path. Not the client itself: a switch does not send a packet back where it came
    /// from. Not a member for which it would be the same as another connection of the client.
    fn pick(&mut self, request: &Request, service: &Service) -> Option<Choice> {
        self.follow_latencies();
        let has_load = self.wants_ports();
        let Controller { vips, network, flows, load, now, .. } = self;
        let pool = vips.pools.get_mut(&service.pool)?;
        let tuple = &request.tuple;
        let is_out = |facts: &MemberFacts| {
            let spec = &facts.spec;
            let inner = FiveTuple { dst: spec.address, dst_port: member_port(spec.port, service), ..*tuple };
            spec.address == tuple.src || vips.connections.is_inner_taken(&inner, tuple)
        };
        let except: Vec<MemberId> = pool.members.iter().filter(|(_, facts)| is_out(facts)).map(|(id, _)| *id).collect();
        let view = super::view_of(*now, network, flows, if has_load { load } else { &[] });
        pool.pick(request, &except, &view)
    }

    /// What a connection is between, if its service is wanted.
    pub(super) fn ends_of(&self, tuple: FiveTuple, owner: Owner, member: Ipv4Addr, member_port: u16) -> Option<Ends> {
        let service = self.vips.services.get(&owner.service)?;
        let (vip_mac, idle_timeout_s) = (service.mac(), service.idle_timeout_s);
        Some(Ends { tuple, vip_mac, owner, member, member_port, idle_timeout_s })
    }
    pub(super) fn ends_of_known(&self, tuple: &FiveTuple, known: &Connection) -> Option<Ends> {
        self.ends_of(*tuple, known.owner, known.inner.dst, known.inner.dst_port)
    }
    fn ends_of_new(&self, tuple: FiveTuple, owner: Owner, service: &Service) -> Option<Ends> {
        let spec = self.vips.member(owner)?.spec;
        self.ends_of(tuple, owner, spec.address, member_port(spec.port, service))
    }
    /// The interface of a host, if it has been seen.
    pub(super) fn interface_of(&self, address: Ipv4Addr) -> Option<MacAddr> {
        Some(self.network.host(self.network.find_host(address)?)?.known.mac)
    }

    /// Sends a packet through the tables of its switch, when rules lead between client and member both ways.
    fn send_on(&mut self, at: End, tuple: &FiveTuple, data: &[u8]) {
        let Some(known) = self.vips.connections.get(tuple).copied() else { return };
        self.vips.connections.edit(tuple, |connection| {
            connection.late = if connection.stage == Stage::Standing { connection.late + 1 } else { 0 };
        });
        let (client, member) = (tuple.src, known.inner.dst);
        let is_led = self.are_connected(at, client, member);
        if !is_led && self.vips.held.len() < HELD_MAX {
            let until = self.now.saturating_add(HELD);
            self.vips.held.push(HeldPacket { at, tuple: *tuple, member, data: data.to_vec(), until });
            return;
        }
        self.through_tables(at, tuple, data.to_vec());
    }

    /// Sends the packets that waited for rules.
    pub(crate) fn release_packets(&mut self) {
        if self.vips.held.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.vips.held);
        for packet in held {
            if packet.until <= self.now || self.are_connected(packet.at, packet.tuple.src, packet.member) {
                self.through_tables(packet.at, &packet.tuple, packet.data);
            } else {
                self.vips.held.push(packet);
            }
        }
    }

    /// Sends a packet of a connection through the tables of its switch, where its rules are. What opens one would come back from there,
    /// if the switch can tell, unless it is for the member's interface already.
    fn through_tables(&mut self, (datapath, port): End, tuple: &FiveTuple, data: Vec<u8>) {
        let Some(connection) = self.connections.get(&datapath).copied() else { return };
        let node = self.network.node_of(datapath);
        let switch = node.and_then(|node| self.fabric.switches.get(&node));
        let comes_back = switch.is_some_and(|switch| switch.takes_tcp_flags) && opening(&data).is_some();
        let known = self.vips.connections.get(tuple).filter(|_| comes_back);
        let mut actions: Vec<Action> =
            known.map(|known| Action::SetField(SetField::EthDst(known.mac))).into_iter().collect();
        actions.push(Action::output(PortNo::TABLE));
        let packet = PacketOut { buffer: BufferId::NO_BUFFER, in_port: port, actions, data };
        self.tally.packet_outs += 1;
        self.send(connection, Message::PacketOut(packet));
    }

    /// Tells a client that nobody serves, as far as the allowance of its switch goes.
    pub(super) fn refuse(&mut self, at: End, data: &[u8], refusal: Refusal) {
        let ip_proto = openflow::frame::parse(data).map_or(0, |headers| headers.ip_proto);
        let answer = match (refusal, ip_proto) {
            (Refusal::Drop, _) => None,
            (Refusal::Reset, protocol::TCP) => tcp_reset(data),
            (Refusal::Reset, protocol::UDP) => icmp_unreachable(data, Unreachable::Port),
            (Refusal::Reset, protocol::ICMP) | (Refusal::Unreachable, _) => icmp_unreachable(data, Unreachable::Host),
            (Refusal::Reset, _) => icmp_unreachable(data, Unreachable::Protocol),
        };
        let Some(answer) = answer else { return };
        let now = self.now;
        if self.vips.answers.entry(at.0).or_default().take(now) {
            self.packet_out(at, answer);
        }
    }
}

pub(super) fn member_port(port: Option<u16>, service: &Service) -> u16 {
    if service.protocol.has_ports() { port.unwrap_or(service.port) } else { 0 }
}

/// What names a connection: echoes of a pair of hosts are one, since no rule can tell them apart.
fn tuple_of_connection(headers: &Headers) -> FiveTuple {
    let tuple = tuple_of_packet(headers);
    match headers.ip_proto {
        protocol::TCP | protocol::UDP => tuple,
        _ => FiveTuple { src_port: 0, dst_port: 0, ..tuple },
    }
}

/// The sequence number of a segment of TCP, if it opens a connection.
fn opening(data: &[u8]) -> Option<u32> {
    let segment = segment(data).ok()??;
    (segment.has(flags::SYN) && !segment.has(flags::ACK)).then_some(segment.seq)
}

/// Whether a segment of TCP opens a connection; `None` if it is not TCP.
pub(super) fn opens(data: &[u8]) -> Option<bool> {
    segment(data).ok().flatten().map(|_| opening(data).is_some())
}

/// Whether an untagged IPv4 packet is a fragment other than the first: it names no ports.
fn is_later_fragment(data: &[u8]) -> bool {
    let offset = data.get(20..22).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    offset & 0x1fff != 0
}

impl Way {
    /// Whether it is the one from the member.
    pub(super) fn is_back(self) -> bool {
        self == Way::Back
    }
}
