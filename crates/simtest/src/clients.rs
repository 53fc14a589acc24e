//! Clients of virtual services, and the servers on hosts, which respond immediately and keep no
//! state.

use std::collections::{BTreeMap, BTreeSet};

use control::vip::{PoolId, ServiceId, Services};
use core::net::Ipv4Addr;
use net::{FiveTuple, Time};
use openflow::frame::{self, Echo, Segment, flags};
use openflow::headers::protocol;
use openflow::{FlowStats, Headers, MacAddr, Masked};

use crate::disruptions::Input;
use crate::generate::ipv4_of;
use crate::generate::services::CHECKER;
use crate::plan::{ActionKind, End};
use crate::simulation::{Event, Frame, Simulation, mac_of};

const REQUEST: &[u8; 8] = b"question";
const RESPONSE: &[u8; 8] = b"answered";

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) host: usize,
    pub(crate) tuple: FiveTuple,
    interval: Time,
    until: Time,
    pub(crate) sent: Vec<Time>,
    pub(crate) outstanding: BTreeSet<u32>,
    /// Requests that opened a connection: the first one, those after a refusal, and with some
    /// clients every fourth.
    pub(crate) syn_requests: BTreeSet<u32>,
    /// Those of them that matched the rules of an older connection of a proactive service.
    /// Proactive services cannot distinguish such openings, which go to the member of the older
    /// connection.
    pub(crate) reopenings: BTreeSet<u32>,
    pub(crate) delivered: BTreeSet<u32>,
    pub(crate) server: Option<Served>,
    pub(crate) refused_at: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) host: usize,
    pub(crate) sent: Time,
    pub(crate) edge: usize,
}

/// Virtual address, protocol number and port.
pub(crate) type ServicePlace = (Ipv4Addr, u8, u16);

/// Events that concern services and their members.
#[derive(Debug, Default)]
pub(crate) struct ServiceState {
    pub(crate) wanted: Services,
    /// The time until which services are being changed, or hanging servers detected.
    pub(crate) disturbed: Time,
    pub(crate) configured_at: Time,
    /// The time at which the service of an address, protocol and port was removed or got another pool.
    /// A later service of this address has another id and its own connections.
    pub(crate) removed_at: BTreeMap<ServicePlace, Time>,
    pub(crate) rewritten_at: BTreeMap<ServiceId, Time>,
    /// Services that had proactive rules and no longer have them.
    pub(crate) no_longer_proactive: BTreeSet<ServiceId>,
    /// The time of the last change of a pool's policy for connections of failed members.
    pub(crate) policy_changed_at: BTreeMap<PoolId, Time>,
    /// The last time a member was found not to be up.
    pub(crate) not_up: BTreeMap<Ipv4Addr, Time>,
    /// Members that are not up.
    pub(crate) down: BTreeSet<Ipv4Addr>,
    /// The last time a controller stopped or started.
    pub(crate) restarted: Option<Time>,
    /// The last time a switch lost power or its control.
    pub(crate) off: BTreeMap<usize, Time>,
    pub(crate) moved: BTreeMap<usize, Time>,
    pub(crate) hung: BTreeMap<usize, u32>,
}

impl ServiceState {
    pub(crate) fn is_hung(&self, host: usize) -> bool {
        self.hung.get(&host).is_some_and(|count| *count > 0)
    }
}

impl Simulation {
    pub(crate) fn edge_of(&self, host: usize) -> usize {
        match self.cables[host].ends[1] {
            End::Switch(switch, _) => switch,
            End::Host(_) => unreachable!("hosts are the first ends of their cables"),
        }
    }

    pub(crate) fn begin_client(&mut self, action: usize) {
        let ActionKind::Client { from, tuple, interval } = self.plan.actions[action].what else { return };
        let until = self.plan.actions[action].until;
        self.add_client(from, tuple, interval, until);
    }
    pub(crate) fn add_client(&mut self, host: usize, tuple: FiveTuple, interval: Time, until: Time) {
        let (sent, [outstanding, syn_requests, reopenings, delivered]) = Default::default();
        let (server, refused_at) = (None, None);
        self.clients.push(Client {
            host,
            tuple,
            interval,
            until,
            sent,
            outstanding,
            syn_requests,
            reopenings,
            delivered,
            server,
            refused_at,
        });
        self.report.clients += 1;
        self.schedule(self.now, Event::SendRequest { client: self.clients.len() - 1 });
    }

    /// Adds a client that sends one request and knows the Ethernet address of the service.
    pub(crate) fn add_final_probe(&mut self, host: usize, tuple: FiveTuple, mac: MacAddr, until: Time) {
        self.hosts[host].known.insert(tuple.dst, (mac, until));
        self.add_client(host, tuple, Time::from_s(1), until);
    }

    pub(crate) fn send_request(&mut self, number: usize) {
        let client = &self.clients[number];
        if self.now >= client.until {
            return;
        }
        let (host, tuple, interval) = (client.host, client.tuple, client.interval);
        match self.hosts[host].address_of(tuple.dst, self.now) {
            Some(mac) => {
                let seq = client.sent.len() as u32;
                let macs = [mac_of(host), mac];
                // A refused client opens another connection; some clients do so repeatedly, from
                // the same port.
                let is_reopening = number.is_multiple_of(3) && seq % 4 == 3;
                let opens = is_reopening
                    || client.sent.last().is_none_or(|last| client.refused_at.is_some_and(|refused| refused > *last));
                let bytes = message(REQUEST, macs, &tuple, number as u32, seq, opens);
                let meets_rules = opens && self.meets_older_rules(host, &tuple);
                let client = &mut self.clients[number];
                client.sent.push(self.now);
                client.outstanding.insert(seq);
                if opens && tuple.protocol == protocol::TCP {
                    client.syn_requests.insert(seq);
                    if meets_rules {
                        client.reopenings.insert(seq);
                    }
                }
                self.report.requests += 1;
                self.send_frame(host, 0, Frame::new(bytes));
                self.after(interval, Event::SendRequest { client: number });
            }
            None => {
                self.send_arp_request(host, tuple.dst);
                self.after(interval.min(Time::from_ms(50)), Event::SendRequest { client: number });
            }
        }
    }

    /// Returns whether a connection would match the rules of an older one with the same ports,
    /// because its proactive service does not distinguish them.
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
        let count = self.services.hung.entry(host).or_insert(0);
        *count = if is_hung { *count + 1 } else { *count - 1 };
        self.disturb_services(self.bounds.checked);
    }
    pub(crate) fn disturb_services(&mut self, lasts: Time) {
        self.services.disturbed = self.services.disturbed.max(self.now + lasts);
        self.end_windows();
    }

    pub(crate) fn configure(&mut self, wanted: Services) {
        let now = self.now;
        let before = std::mem::replace(&mut self.services.wanted, wanted.clone());
        for service in &before.services {
            let after = wanted.services.iter().find(|after| after.id == service.id);
            if service.buckets().is_some() && after.is_some_and(|after| after.buckets().is_none()) {
                self.services.no_longer_proactive.insert(service.id);
            }
            if after.is_none_or(|after| after.pool != service.pool) {
                self.services.removed_at.insert(place_of(service), now);
            } else if after != Some(service) {
                self.services.rewritten_at.insert(service.id, now);
            }
        }
        for pool in &before.pools {
            let after = wanted.pools.iter().find(|after| after.id == pool.id);
            if after.is_none_or(|after| after.established != pool.established) {
                self.services.policy_changed_at.insert(pool.id, now);
            }
        }
        self.services.configured_at = now;
        self.end_windows();
        let lasts = self.bounds.checked;
        self.disturb_services(lasts);
        let services = self.mutate_services(&wanted);
        self.tell_controller(Input::Services(services));
        self.after_controller();
    }

    /// Handles a frame to a host that concerns services. Returns whether it does.
    pub(crate) fn service_frame(&mut self, host: usize, headers: &Headers, bytes: &[u8]) -> bool {
        if headers.ipv4_src == CHECKER {
            if let Some(bytes) = checked(bytes).filter(|_| !self.services.is_hung(host)) {
                self.send_frame(host, 0, Frame::new(bytes));
            }
            return true;
        }
        if let Some((kind, client, seq)) = marked(headers, bytes) {
            match kind == REQUEST {
                true => self.receive_request(host, client as usize, seq, headers),
                false => self.check_response(host, client as usize, seq, headers),
            }
            return true;
        }
        let refused = refused(headers, bytes);
        let client = refused.and_then(|tuple| self.clients.iter().rposition(|client| client.tuple == tuple));
        if let Some(client) = client {
            self.check_refusal(host, client);
        }
        client.is_some()
    }

    fn receive_request(&mut self, host: usize, client: usize, seq: u32, headers: &Headers) {
        self.check_request(host, client, seq, headers);
        if self.services.is_hung(host) {
            return;
        }
        let back = FiveTuple {
            src: headers.ipv4_dst,
            dst: headers.ipv4_src,
            protocol: headers.ip_proto,
            src_port: headers.l4_dst,
            dst_port: headers.l4_src,
        };
        let bytes = message(RESPONSE, [mac_of(host), headers.eth_src], &back, client as u32, seq, seq == 0);
        self.send_frame(host, 0, Frame::new(bytes));
    }

    pub(crate) fn member_at(&self, tuple: &FiveTuple, host: usize) -> Option<&control::vip::Member> {
        let (_, pool) = self.service_of(tuple)?;
        pool.members.iter().find(|member| member.address == ipv4_of(host))
    }
    pub(crate) fn service_of(&self, tuple: &FiveTuple) -> Option<(&control::vip::Service, &control::vip::Pool)> {
        let place = (tuple.dst, tuple.protocol, tuple.dst_port);
        let wanted = &self.services.wanted;
        let service = wanted.services.iter().find(|service| place_of(service) == place)?;
        Some((service, wanted.pools.iter().find(|pool| pool.id == service.pool)?))
    }
}

/// Returns the address, protocol and port of a service.
pub(crate) fn place_of(service: &control::vip::Service) -> ServicePlace {
    (service.address, service.protocol.number(), service.port)
}

/// Builds a request or response; over TCP it opens a connection or belongs to an established one.
fn message(kind: &[u8; 8], macs: [MacAddr; 2], tuple: &FiveTuple, client: u32, seq: u32, opens: bool) -> Vec<u8> {
    let (addresses, ports) = ([tuple.src, tuple.dst], [tuple.src_port, tuple.dst_port]);
    let payload = [&kind[..], &client.to_be_bytes(), &seq.to_be_bytes()].concat();
    match tuple.protocol {
        protocol::ICMP => {
            frame::icmp_echo(macs, addresses, Echo { is_reply: kind == RESPONSE, id: client as u16, seq: seq as u16 })
        }
        protocol::TCP => {
            let flags = match (kind == REQUEST, opens) {
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

fn marked<'a>(headers: &Headers, bytes: &'a [u8]) -> Option<(&'a [u8; 8], u32, u32)> {
    if headers.ip_proto == protocol::ICMP {
        let echo = frame::echo(bytes)?;
        return Some((if echo.is_reply { RESPONSE } else { REQUEST }, u32::from(echo.id), u32::from(echo.seq)));
    }
    let (rest, seq) = bytes.split_last_chunk::<4>()?;
    let (rest, client) = rest.split_last_chunk::<4>()?;
    let (_, kind) = rest.split_last_chunk::<8>()?;
    let is_one = kind == REQUEST || kind == RESPONSE;
    is_one.then_some((kind, u32::from_be_bytes(*client), u32::from_be_bytes(*seq)))
}

fn refused(headers: &Headers, bytes: &[u8]) -> Option<FiveTuple> {
    if headers.ip_proto == protocol::TCP {
        let is_reset = frame::segment(bytes).ok()??.has(flags::RST);
        let (src_port, dst_port) = (headers.l4_dst, headers.l4_src);
        let (src, dst, protocol) = (headers.ipv4_dst, headers.ipv4_src, protocol::TCP);
        return is_reset.then_some(FiveTuple { src, dst, protocol, src_port, dst_port });
    }
    // An ICMP error contains the start of the refused packet, after its header of 8 bytes.
    let about = bytes.get(42..).filter(|_| headers.ip_proto == protocol::ICMP && bytes.get(34) == Some(&3))?;
    let address = |at: usize| Some(Ipv4Addr::from(*about.get(at..)?.first_chunk::<4>()?));
    let port = |at: usize| Some(u16::from_be_bytes(*about.get(at..)?.first_chunk::<2>()?));
    let (src, dst, protocol) = (address(12)?, address(16)?, *about.get(9)?);
    let has_ports = protocol != protocol::ICMP;
    let [src_port, dst_port] = if has_ports { [port(20)?, port(22)?] } else { [0, 0] };
    Some(FiveTuple { src, dst, protocol, src_port, dst_port })
}

/// Returns a server's response to a health check.
fn checked(bytes: &[u8]) -> Option<Vec<u8>> {
    let headers = frame::parse(bytes).ok()?;
    let (macs, addresses) = ([headers.eth_dst, headers.eth_src], [headers.ipv4_dst, headers.ipv4_src]);
    if let Some(request) = frame::echo(bytes).filter(|echo| !echo.is_reply) {
        return Some(frame::icmp_echo(macs, addresses, Echo { is_reply: true, ..request }));
    }
    let received = frame::segment(bytes).ok()??;
    let ports = [headers.l4_dst, headers.l4_src];
    let ack = received.seq.wrapping_add(received.sequence_len());
    let segment = |flags, seq, payload: &[u8]| {
        frame::tcp(macs, addresses, ports, &Segment { flags, seq, ack, window: 9, payload })
    };
    match (received.has(flags::SYN), received.payload.is_empty()) {
        (true, _) => Some(segment(flags::SYN | flags::ACK, 1_000_000, b"")),
        (false, false) => Some(segment(flags::ACK | flags::PSH, 1_000_001, b"HTTP/1.1 200 OK\r\n\r\n")),
        (false, true) => None,
    }
}
