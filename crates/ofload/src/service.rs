//! New connections to a virtual address: checks that the first packet and its reply are delivered.
//!
//! Every packet-in is the first packet of a new connection to one of [`PORTS`] ports of the virtual
//! address; the packet-out that carries it is the response. For every [`SAMPLE`]th connection the
//! rules are applied and its packets carried through the tables of all switches to a member, which
//! replies, and back to the client. The client must receive the reply from the virtual address.
//! Carrying all connections would make the generator the bottleneck.

use std::net::Ipv4Addr;

use openflow::frame::{Segment, flags, segment, tcp};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr, PortNo};

use crate::fabric::Host;
use crate::fleet::Fleet;
use crate::options::ResponseCriterion;
use crate::{Error, probe, scan};

/// Number of TCP ports of the virtual address, from the first port of probes.
pub(crate) const PORTS: u32 = 64;
/// Number of distinct connections of a switch; later numbers repeat them.
pub(crate) const NUMBERS: u32 = PORTS << 15;
/// One of this number of connections is carried.
const SAMPLE: u32 = 16;
/// Maximum number of links that a packet is carried over; more indicate a loop.
const HOPS_MAX: u32 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Carried {
    /// First packets that the controller sent on.
    pub sent_on: u64,
    /// First packets delivered to a host at its own address.
    pub delivered: u64,
    /// Replies that the client received from the virtual address and port.
    pub returned: u64,
    /// Packets delivered to the wrong host or with wrong headers.
    pub wrong: u64,
}

#[derive(Debug)]
pub(crate) struct Service {
    /// The virtual address as destination of probes; its Ethernet address comes from the ARP reply.
    host: Option<Host>,
    pub(crate) carried: Carried,
    hops: u32,
}

impl Service {
    pub(crate) fn new(response: ResponseCriterion) -> Service {
        let host = |ip| Host { switch: usize::MAX, port: PortNo::ANY, mac: MacAddr::default(), ip };
        let host = match response {
            ResponseCriterion::Service(address) => Some(host(address)),
            _ => None,
        };
        Service { host, carried: Carried::default(), hops: 0 }
    }
}

fn is_sample(port: u16) -> bool {
    port & 0x8000 != 0 && u32::from(port) % SAMPLE == 0
}

impl Fleet {
    pub(crate) fn resolve_service(&mut self) {
        let Some(service) = self.service.host else { return };
        (0..self.switches.len()).for_each(|at| self.send_arp_request(at, 0, Some(service.ip)));
    }

    pub(crate) fn expect_service(&self) -> Result<(), Error> {
        match self.service.host {
            Some(host) if host.mac == MacAddr::default() => Err(Error::NoService { address: host.ip }),
            _ => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn write_connection(&mut self, at: usize, n: u32) {
        let Some(service) = &self.service.host else { return };
        let (source, _) = self.fabric.pair(at, n);
        self.template.write(source, service, n % NUMBERS, &mut self.switches[at].channel.outbox);
    }
    /// Handles a packet-out with a first packet: records the response and carries the packet of a
    /// sampled connection.
    pub(crate) fn connection_sent_on(&mut self, at: usize, source: [u8; 4], n: u32, message: &[u8], now_ns: u64) {
        self.answered(self.fabric.switch_of(source), n, Some(NUMBERS), now_ns);
        if is_sample(probe::ports(n)[0]) {
            self.service.carried.sent_on += 1;
            self.service.hops = 0;
            self.control(at, message, now_ns);
        }
    }
    /// Returns whether a rule must be applied: it belongs to a carried connection or to none.
    pub(crate) fn must_apply_rule(&self, message: &[u8]) -> bool {
        let ports = scan::flow_mod(message).map_or([None; 2], |rule| [rule.from_port, rule.to_port]);
        let mut of_client = ports.into_iter().flatten().filter(|port| port & 0x8000 != 0);
        of_client.next().is_none_or(is_sample)
    }
    pub(crate) fn may_cross(&mut self) -> bool {
        self.service.hops += 1;
        let may = self.service.host.is_some() && self.service.hops <= HOPS_MAX;
        self.service.carried.wrong += u64::from(self.service.hops == HOPS_MAX);
        may
    }

    /// Handles a packet of a connection or an ARP reply at a host. Returns the host's reply, if
    /// any.
    pub(crate) fn host_got(&mut self, host: &Host, headers: &Headers, frame: &[u8]) -> Option<Vec<u8>> {
        let service = self.service.host.as_mut()?;
        if headers.arp_op == 2 && headers.ipv4_src == service.ip {
            service.mac = headers.eth_src;
            return None;
        }
        let (is_tcp, service) = (headers.ip_proto == protocol::TCP, service.ip);
        let got = segment(frame).ok().flatten().filter(|_| is_tcp)?;
        let is_mine = headers.ipv4_dst == host.ip && headers.eth_dst == host.mac;
        let port = u32::from(headers.l4_src).wrapping_sub(1_024);
        match (is_mine, got.has(flags::SYN), got.has(flags::ACK)) {
            (true, true, false) => {
                self.service.carried.delivered += 1;
                Some(accept(host, headers, &got))
            }
            (true, true, true) if headers.ipv4_src == service && port < PORTS => {
                self.service.carried.returned += 1;
                None
            }
            _ => {
                self.service.carried.wrong += 1;
                None
            }
        }
    }
}

fn accept(host: &Host, headers: &Headers, got: &Segment<'_>) -> Vec<u8> {
    let (addresses, ports): ([Ipv4Addr; 2], _) = ([host.ip, headers.ipv4_src], [headers.l4_dst, headers.l4_src]);
    let flags = flags::SYN | flags::ACK;
    let answer = Segment { flags, seq: 1, ack: got.seq.wrapping_add(1), window: 8_192, payload: &[] };
    tcp([host.mac, headers.eth_src], addresses, ports, &answer)
}
