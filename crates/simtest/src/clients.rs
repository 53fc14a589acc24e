//! Clients of virtual services, and what serves on hosts: whoever is asked answers at once, keeping nothing in mind.

use std::collections::{BTreeMap, BTreeSet};

use control::vip::{PoolId, ServiceId, Services};
use core::net::Ipv4Addr;
use net::{FiveTuple, Time};
use openflow::frame::{self, Echo, Segment, flags};
use openflow::headers::protocol;
use openflow::{FlowStats, Headers, MacAddr, Masked};

use crate::draw::ipv4_of;
use crate::draw_services::CHECKER;
use crate::plan::{End, What};
use crate::world::{Event, Frame, World, mac_of};

const QUESTION: &[u8; 8] = b"question";
const ANSWER: &[u8; 8] = b"answered";

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) host: usize,
    pub(crate) tuple: FiveTuple,
    interval: Time,
    until: Time,
    /// When each question was sent.
    pub(crate) sent: Vec<Time>,
    /// Questions that have not been answered.
    pub(crate) asked: BTreeSet<u32>,
    /// Questions that opened a connection: the first one, those after it was told that nobody serves, and with some clients every fourth.
    pub(crate) openings: BTreeSet<u32>,
    /// Those of them that met the rules of an older connection, of a service whose rules stand beforehand: there openings are not told
    /// from others, and go where the older one went.
    pub(crate) reopenings: BTreeSet<u32>,
    /// Questions that have come to a server.
    pub(crate) delivered: BTreeSet<u32>,
    /// Who served last.
    pub(crate) server: Option<Served>,
    /// When it was told last that nobody serves.
    pub(crate) told_at: Option<Time>,
}

/// Who served a question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) host: usize,
    /// When that question was sent.
    pub(crate) sent: Time,
    /// The client's switch then.
    pub(crate) edge: usize,
}

/// What has happened to services and to those who serve.
#[derive(Debug, Default)]
pub(crate) struct Virtuals {
    pub(crate) wanted: Services,
    /// Services are being changed until then, or servers found to hang.
    pub(crate) disturbed: Time,
    pub(crate) configured_at: Time,
    /// When services ceased to be as they were: gone, of another pool, with other timeouts.
    pub(crate) gone: BTreeMap<ServiceId, Time>,
    pub(crate) rewritten: BTreeMap<ServiceId, Time>,
    /// Services whose rules stood beforehand, and do not any more.
    pub(crate) tamed: BTreeSet<ServiceId>,
    /// When it was last decided otherwise what becomes of connections of members that fail.
    pub(crate) repooled: BTreeMap<PoolId, Time>,
    /// When a member was found not to be up, last.
    pub(crate) not_up: BTreeMap<Ipv4Addr, Time>,
    /// When a controller stopped or started, last.
    pub(crate) restarted: Option<Time>,
    /// When a switch lost power, or its control, last.
    pub(crate) off: BTreeMap<usize, Time>,
    /// When a host moved.
    pub(crate) moved: BTreeMap<usize, Time>,
    /// How many reasons a server has to hang.
    pub(crate) hung: BTreeMap<usize, u32>,
}

impl Virtuals {
    pub(crate) fn is_hung(&self, host: usize) -> bool {
        self.hung.get(&host).is_some_and(|count| *count > 0)
    }
}

impl World {
    /// The switch a host is behind.
    pub(crate) fn edge_of(&self, host: usize) -> usize {
        match self.cables[host].ends[1] {
            End::Switch(switch, _) => switch,
            End::Host(_) => unreachable!("hosts are the first ends of their cables"),
        }
    }

    pub(crate) fn begin_client(&mut self, action: usize) {
        let What::Client { from, tuple, interval } = self.plan.actions[action].what else { return };
        let until = self.plan.actions[action].until;
        self.add_client(from, tuple, interval, until);
    }
    pub(crate) fn add_client(&mut self, host: usize, tuple: FiveTuple, interval: Time, until: Time) {
        let (sent, [asked, openings, reopenings, delivered]) = Default::default();
        let (server, told_at) = (None, None);
        self.clients.push(Client {
            host,
            tuple,
            interval,
            until,
            sent,
            asked,
            openings,
            reopenings,
            delivered,
            server,
            told_at,
        });
        self.report.clients += 1;
        self.schedule(self.now, Event::Ask { client: self.clients.len() - 1 });
    }

    /// A client that asks once, and knows the address's Ethernet address.
    pub(crate) fn add_trial(&mut self, host: usize, tuple: FiveTuple, mac: MacAddr, until: Time) {
        self.hosts[host].learn(tuple.dst, mac, until);
        self.add_client(host, tuple, Time::from_s(1), until);
    }

    /// A client asks.
    pub(crate) fn client_asks(&mut self, number: usize) {
        let client = &self.clients[number];
        if self.now >= client.until {
            return;
        }
        let (host, tuple, interval) = (client.host, client.tuple, client.interval);
        match self.hosts[host].address_of(tuple.dst, self.now) {
            Some(mac) => {
                let seq = client.sent.len() as u32;
                let macs = [mac_of(host), mac];
                // Whoever was told that nobody serves opens another connection; some do so time and again, from the same port.
                let is_fickle = number.is_multiple_of(3) && seq % 4 == 3;
                let opens =
                    is_fickle || client.sent.last().is_none_or(|last| client.told_at.is_some_and(|told| told > *last));
                let bytes = message(QUESTION, macs, &tuple, number as u32, seq, opens);
                let meets_rules = opens && self.meets_older_rules(host, &tuple);
                let client = &mut self.clients[number];
                client.sent.push(self.now);
                client.asked.insert(seq);
                if opens && tuple.protocol == protocol::TCP {
                    client.openings.insert(seq);
                    if meets_rules {
                        client.reopenings.insert(seq);
                    }
                }
                self.report.questions += 1;
                self.send_frame(host, 0, Frame { bytes, probe: None });
                self.after(interval, Event::Ask { client: number });
            }
            None => {
                self.ask(host, tuple.dst);
                self.after(interval.min(Time::from_ms(50)), Event::Ask { client: number });
            }
        }
    }

    /// Whether a connection would go by the rules of an older one of the same ports, because its service, whose rules stand beforehand,
    /// does not tell them apart.
    fn meets_older_rules(&self, host: usize, tuple: &FiveTuple) -> bool {
        let has_buckets = self.service_of(tuple).is_some_and(|(service, _)| service.buckets().is_some());
        let at = &self.switches[self.edge_of(host)].switch;
        let is_its = |entry: &FlowStats| {
            let [from, to] = [tuple.src, tuple.dst].map(|address| Some(Masked::<Ipv4Addr>::exact(address)));
            entry.priority == 520
                && (entry.match_.ipv4_src, entry.match_.ipv4_dst) == (from, to)
                && (entry.match_.tcp_src, entry.match_.tcp_dst) == (Some(tuple.src_port), Some(tuple.dst_port))
        };
        has_buckets && at.entries().iter().any(is_its)
    }

    pub(crate) fn hang_server(&mut self, host: usize, is_hung: bool) {
        let count = self.virtuals.hung.entry(host).or_insert(0);
        *count = if is_hung { *count + 1 } else { *count - 1 };
        self.disturb_services(self.bounds.checked);
    }
    pub(crate) fn disturb_services(&mut self, lasts: Time) {
        self.virtuals.disturbed = self.virtuals.disturbed.max(self.now + lasts);
    }

    /// Other services are wanted.
    pub(crate) fn configure(&mut self, wanted: Services) {
        let now = self.now;
        let before = std::mem::replace(&mut self.virtuals.wanted, wanted.clone());
        for service in &before.services {
            let after = wanted.services.iter().find(|after| after.id == service.id);
            if service.buckets().is_some() && after.is_some_and(|after| after.buckets().is_none()) {
                self.virtuals.tamed.insert(service.id);
            }
            if after.is_none_or(|after| after.pool != service.pool) {
                self.virtuals.gone.insert(service.id, now);
            } else if after != Some(service) {
                self.virtuals.rewritten.insert(service.id, now);
            }
        }
        for pool in &before.pools {
            let after = wanted.pools.iter().find(|after| after.id == pool.id);
            if after.is_none_or(|after| after.established != pool.established) {
                self.virtuals.repooled.insert(pool.id, now);
            }
        }
        self.virtuals.configured_at = now;
        let lasts = self.bounds.checked;
        self.disturb_services(lasts);
        let told = self.sabotage_services(&wanted);
        if let Some(controller) = &mut self.controller {
            controller.set_services(now, told).expect("services of storms can be had");
            self.after_controller();
        }
    }

    /// A frame to a host that has to do with services; whether it has.
    pub(crate) fn service_frame(&mut self, host: usize, headers: &Headers, bytes: &[u8]) -> bool {
        if headers.ipv4_src == CHECKER {
            if let Some(bytes) = checked(bytes).filter(|_| !self.virtuals.is_hung(host)) {
                self.send_frame(host, 0, Frame { bytes, probe: None });
            }
            return true;
        }
        if let Some((kind, client, seq)) = marked(headers, bytes) {
            match kind == QUESTION {
                true => self.question_came(host, client as usize, seq, headers),
                false => self.oracle_answer(host, client as usize, seq, headers),
            }
            return true;
        }
        let told = refused(headers, bytes);
        let client = told.and_then(|tuple| self.clients.iter().rposition(|client| client.tuple == tuple));
        if let Some(client) = client {
            self.oracle_told(host, client);
        }
        client.is_some()
    }

    fn question_came(&mut self, host: usize, client: usize, seq: u32, headers: &Headers) {
        self.oracle_question(host, client, seq, headers);
        if self.virtuals.is_hung(host) {
            return;
        }
        let back = FiveTuple {
            src: headers.ipv4_dst,
            dst: headers.ipv4_src,
            protocol: headers.ip_proto,
            src_port: headers.l4_dst,
            dst_port: headers.l4_src,
        };
        let bytes = message(ANSWER, [mac_of(host), headers.eth_src], &back, client as u32, seq, seq == 0);
        self.send_frame(host, 0, Frame { bytes, probe: None });
    }

    /// Member of a service at a host, as it is wanted now.
    pub(crate) fn member_at(&self, tuple: &FiveTuple, host: usize) -> Option<&control::vip::Member> {
        let (_, pool) = self.service_of(tuple)?;
        pool.members.iter().find(|member| member.address == ipv4_of(host))
    }
    /// The service a client asks for, and its pool, as they are wanted now.
    pub(crate) fn service_of(&self, tuple: &FiveTuple) -> Option<(&control::vip::Service, &control::vip::Pool)> {
        let place = (tuple.dst, tuple.protocol, tuple.dst_port);
        let wanted = &self.virtuals.wanted;
        let service = wanted
            .services
            .iter()
            .find(|service| (service.address, service.protocol.number(), service.port) == place)?;
        Some((service, wanted.pools.iter().find(|pool| pool.id == service.pool)?))
    }
}

/// A question or an answer, of a connection of TCP that is opened by it or stands.
fn message(kind: &[u8; 8], macs: [MacAddr; 2], tuple: &FiveTuple, client: u32, seq: u32, opens: bool) -> Vec<u8> {
    let (addresses, ports) = ([tuple.src, tuple.dst], [tuple.src_port, tuple.dst_port]);
    let payload = [&kind[..], &client.to_be_bytes(), &seq.to_be_bytes()].concat();
    match tuple.protocol {
        protocol::ICMP => {
            frame::icmp_echo(macs, addresses, Echo { is_reply: kind == ANSWER, id: client as u16, seq: seq as u16 })
        }
        protocol::TCP => {
            let flags = match (kind == QUESTION, opens) {
                (true, true) => flags::SYN,
                (false, true) => flags::SYN | flags::ACK,
                _ => flags::ACK,
            };
            let segment = Segment { flags, seq: 100 + seq * 100, ack: 1, window: 1000, payload: &payload };
            frame::tcp(macs, addresses, ports, &segment)
        }
        _ => {
            let mut frame = frame::build(&Headers::ipv4(macs, addresses, tuple.protocol, ports), payload.len());
            let at = frame.len() - payload.len();
            frame[at..].copy_from_slice(&payload);
            frame[40..42].fill(0); // Without checksum.
            frame
        }
    }
}

/// What a frame says: its kind, the client, the number of the question.
fn marked<'a>(headers: &Headers, bytes: &'a [u8]) -> Option<(&'a [u8; 8], u32, u32)> {
    if headers.ip_proto == protocol::ICMP {
        let echo = frame::echo(bytes)?;
        return Some((if echo.is_reply { ANSWER } else { QUESTION }, u32::from(echo.id), u32::from(echo.seq)));
    }
    let (rest, seq) = bytes.split_last_chunk::<4>()?;
    let (rest, client) = rest.split_last_chunk::<4>()?;
    let (_, kind) = rest.split_last_chunk::<8>()?;
    let is_one = kind == QUESTION || kind == ANSWER;
    is_one.then_some((kind, u32::from_be_bytes(*client), u32::from_be_bytes(*seq)))
}

/// What a client asked for when it is told that nobody serves.
fn refused(headers: &Headers, bytes: &[u8]) -> Option<FiveTuple> {
    if headers.ip_proto == protocol::TCP {
        let is_reset = frame::segment(bytes).ok()??.has(flags::RST);
        let (src_port, dst_port) = (headers.l4_dst, headers.l4_src);
        let (src, dst, protocol) = (headers.ipv4_dst, headers.ipv4_src, protocol::TCP);
        return is_reset.then_some(FiveTuple { src, dst, protocol, src_port, dst_port });
    }
    // An error of ICMP carries the beginning of what it is about, behind 8 bytes of its own.
    let about = bytes.get(42..).filter(|_| headers.ip_proto == protocol::ICMP && bytes.get(34) == Some(&3))?;
    let address = |at: usize| Some(Ipv4Addr::from(*about.get(at..)?.first_chunk::<4>()?));
    let port = |at: usize| Some(u16::from_be_bytes(*about.get(at..)?.first_chunk::<2>()?));
    let (src, dst, protocol) = (address(12)?, address(16)?, *about.get(9)?);
    let has_ports = protocol != protocol::ICMP;
    let [src_port, dst_port] = if has_ports { [port(20)?, port(22)?] } else { [0, 0] };
    Some(FiveTuple { src, dst, protocol, src_port, dst_port })
}

/// What a server answers to checks.
fn checked(bytes: &[u8]) -> Option<Vec<u8>> {
    let headers = frame::parse(bytes).ok()?;
    let (macs, addresses) = ([headers.eth_dst, headers.eth_src], [headers.ipv4_dst, headers.ipv4_src]);
    if let Some(asked) = frame::echo(bytes).filter(|echo| !echo.is_reply) {
        return Some(frame::icmp_echo(macs, addresses, Echo { is_reply: true, ..asked }));
    }
    let got = frame::segment(bytes).ok()??;
    let ports = [headers.l4_dst, headers.l4_src];
    let ack = got.seq.wrapping_add(got.sequence_len());
    let answer = |flags, seq, payload: &[u8]| {
        frame::tcp(macs, addresses, ports, &Segment { flags, seq, ack, window: 9, payload })
    };
    match (got.has(flags::SYN), got.payload.is_empty()) {
        (true, _) => Some(answer(flags::SYN | flags::ACK, 1_000_000, b"")),
        (false, false) => Some(answer(flags::ACK | flags::PSH, 1_000_001, b"HTTP/1.1 200 OK\r\n\r\n")),
        (false, true) => None,
    }
}
