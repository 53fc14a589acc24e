//! Hosts and ARP: the controller learns hosts from their packets, probes for unknown ones, and
//! answers ARP requests itself.
//!
//! The attachment of a host is the port its ARP packets come from. An IPv4 packet is not
//! sufficient: it may have crossed a disconnected switch that still has rules of a previous
//! controller instance and that discovery cannot see. Switches of this controller never forward ARP
//! packets. An IPv4 packet from an unknown host therefore only makes the controller send an ARP
//! request out of that port.
//!
//! The controller never floods. It relays an ARP request for an unknown host, and with TRILL every one,
//! to edge ports only, so the request cannot loop, however the switches are wired.
//!
//! Such a request is a packet at every edge port. Relayed requests are therefore rate-limited: one
//! at a time per target, and a token bucket per port they come from.
//!
//! A host sends its first packet as soon as it receives the ARP reply. Replies therefore wait until
//! rules are installed in both directions; otherwise the first packets would be lost.

use std::collections::BTreeMap;

use core::net::Ipv4Addr;
use net::Time;
use openflow::frame::{arp_reply, arp_request};
use openflow::{Headers, MacAddr};

use super::network::{CONTROLLER_MAC, Network};
use crate::limits::{Expiring, RateLimiter};
use crate::{KnownHost, SwitchPort};

pub(super) const REQUEST: u16 = 1;
/// Shortest time between two relayed requests for the same host. Linux repeats a request after a
/// second (`net.ipv4.neigh.*.retrans_time_ms`): the repetition of a lost request must be relayed,
/// and must not be dropped because it is a millisecond early.
const PASS_ON_AGAIN: Time = Time::from_ms(900);
/// Shortest time between two requests of the controller for the same host: one packet at one port.
const SEEK_AGAIN: Time = Time::from_ms(100);
/// Maximum number of targets with a recent request. Further requests are suppressed until these are
/// old.
pub(crate) const ASKED_MAX: usize = 4096;
/// Requests for unknown hosts a port may send at once (burst) and per second in the long run. A
/// port may lead to a switch with many hosts that start at once; higher rates are address scans.
const ARP_BURST: u64 = 128;
const ARP_REQUESTS_PER_S: u64 = 32;
const ARP_INTERVAL: Time = Time::from_ps(Time::from_s(1).as_ps() / ARP_REQUESTS_PER_S);
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ArpAction {
    Nothing,
    /// Send a reply when rules are installed.
    Send(PendingArpReply),
    /// Relay to every edge port but the one it came from.
    RelayToEdges(Vec<u8>),
}

/// An ARP reply that waits for rules between two hosts.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PendingArpReply {
    pub(crate) to: SwitchPort,
    pub(crate) requester: Ipv4Addr,
    pub(crate) target: Ipv4Addr,
    /// The reply, with the target's own Ethernet address.
    pub(crate) frame: Vec<u8>,
}

impl PendingArpReply {
    /// Returns the frame with the Ethernet address that the requester must send to; `None` if there is
    /// none yet.
    pub(crate) fn announced(self, announced: Option<&AnnouncedMacs>) -> Option<Vec<u8>> {
        let mut frame = self.frame;
        if let Some(announced) = announced {
            let mac = announced.get(&self.target)?;
            for place in [ETH_SRC, ARP_SENDER] {
                frame.get_mut(place)?.copy_from_slice(&mac.0);
            }
        }
        Some(frame)
    }
}

/// Places of the sender's Ethernet address in an ARP frame without a tag.
const ETH_SRC: std::ops::Range<usize> = 6..12;
const ARP_SENDER: std::ops::Range<usize> = 22..28;

/// Ethernet addresses that ARP replies contain, by host. A host without one cannot be reached yet.
pub(crate) type AnnouncedMacs = BTreeMap<Ipv4Addr, MacAddr>;

/// Addresses that are not those of hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtherMacs<'a> {
    pub(crate) virtual_macs: &'a BTreeMap<Ipv4Addr, MacAddr>,
    pub(crate) announced: Option<&'a AnnouncedMacs>,
}

impl OtherMacs<'_> {
    /// Returns the Ethernet address that others send to in order to reach a host.
    fn announced(&self, host: Ipv4Addr, mac: MacAddr) -> Option<MacAddr> {
        match self.announced {
            None => Some(mac),
            Some(announced) => announced.get(&host).copied(),
        }
    }
}

/// Targets of recent ARP requests, to suppress repetitions.
type RecentTargets = Expiring<Ipv4Addr, ASKED_MAX>;

#[derive(Debug, Default)]
pub(crate) struct Arp {
    relayed: RecentTargets,
    probed: RecentTargets,
    rate_limiters: BTreeMap<SwitchPort, RateLimiter>,
    /// Whether every request goes to all edge ports, as with switches that flood, and none is answered.
    is_flooding: bool,
    /// Number of requests for unknown hosts that were not relayed.
    pub(crate) requests_suppressed: u64,
}

/// Returns whether no request for the target was sent recently and another can be recorded.
fn may_send(recent: &mut RecentTargets, now: Time, target: Ipv4Addr) -> bool {
    !recent.has(now, &target) && !recent.is_full()
}

impl Arp {
    /// Returns a state that knows no request. If it is flooding, no request is ever answered.
    pub(super) fn new(is_flooding: bool) -> Arp {
        Arp { is_flooding, ..Arp::default() }
    }

    pub(crate) fn packet(
        &mut self,
        now: Time,
        at: SwitchPort,
        headers: &Headers,
        network: &Network,
        others: OtherMacs<'_>,
    ) -> ArpAction {
        let (sender, target) = (headers.ipv4_src, headers.ipv4_dst);
        if self.is_flooding && headers.arp_op == REQUEST {
            return self.relay(now, at, headers, others);
        }
        if sender == target {
            return ArpAction::Nothing; // A host that requests its own address only announces its attachment.
        }
        let known = network.host_at(target).map(|host| host.known);
        let virtual_mac = others.virtual_macs.get(&target).copied();
        if headers.arp_op != REQUEST {
            // The reply to a relayed request goes to the requesting host.
            let Some(host) = known.filter(|_| virtual_mac.is_none()) else { return ArpAction::Nothing };
            let (to, frame) = (host.end(), arp_reply(headers.eth_src, sender, host.mac, target));
            return ArpAction::Send(PendingArpReply { to, requester: target, target: sender, frame });
        }
        match virtual_mac.or(known.map(|host| host.mac)) {
            Some(mac) => {
                let frame = arp_reply(mac, target, headers.eth_src, sender);
                ArpAction::Send(PendingArpReply { to: at, requester: sender, target, frame })
            }
            None => self.relay(now, at, headers, others),
        }
    }

    /// Relays a request for an unknown host to all edge ports, if it may be.
    fn relay(&mut self, now: Time, at: SwitchPort, headers: &Headers, others: OtherMacs<'_>) -> ArpAction {
        let (sender, target) = (headers.ipv4_src, headers.ipv4_dst);
        // A host that asks without an address must not be stored by the others.
        let mac =
            if sender.is_unspecified() { Some(headers.eth_src) } else { others.announced(sender, headers.eth_src) };
        match mac {
            Some(mac) if is_unicast(target) && self.may_relay(now, at, target) => {
                ArpAction::RelayToEdges(arp_request(mac, sender, target))
            }
            _ => ArpAction::Nothing,
        }
    }

    /// Returns whether to relay a request from a port. Counts it if not.
    fn may_relay(&mut self, now: Time, at: SwitchPort, target: Ipv4Addr) -> bool {
        let limiter = self.rate_limiters.entry(at).or_default();
        let is_new = self.is_flooding || may_send(&mut self.relayed, now, target);
        let may = is_new && limiter.take(now, ARP_INTERVAL, ARP_BURST);
        if may && !self.is_flooding {
            self.relayed.add(target, now.saturating_add(PASS_ON_AGAIN));
        }
        self.requests_suppressed += u64::from(!may);
        may
    }
    pub(crate) fn forget_port(&mut self, end: SwitchPort) {
        self.rate_limiters.remove(&end);
    }

    /// Returns a request to send out of a port where an IPv4 packet was seen, or `None` if one was
    /// sent recently.
    pub(crate) fn probe(&mut self, now: Time, address: Ipv4Addr) -> Option<Vec<u8>> {
        if !may_send(&mut self.probed, now, address) {
            return None;
        }
        self.probed.add(address, now.saturating_add(SEEK_AGAIN));
        Some(arp_request_for(address))
    }
}

/// Returns an ARP request of the controller. Its sender address is zero, so it changes no ARP cache
/// (RFC 5227, section 1.1).
pub(crate) fn arp_request_for(address: Ipv4Addr) -> Vec<u8> {
    arp_request(CONTROLLER_MAC, Ipv4Addr::UNSPECIFIED, address)
}

/// Returns an ARP request of the controller to this host alone. Another host with the same address
/// does not receive it.
pub(crate) fn arp_probe(host: &KnownHost) -> Vec<u8> {
    let mut frame = arp_request_for(host.ipv4);
    frame[..6].copy_from_slice(&host.mac.0);
    frame
}

/// Returns the host a packet comes from, if its addresses are valid.
pub(crate) fn sender_of(at: SwitchPort, headers: &Headers) -> Option<KnownHost> {
    let is_station = !headers.eth_src.is_multicast() && headers.eth_src != MacAddr::default();
    (is_station && is_unicast(headers.ipv4_src)).then_some(KnownHost {
        mac: headers.eth_src,
        ipv4: headers.ipv4_src,
        datapath: at.0,
        port: at.1,
    })
}

pub(crate) fn is_unicast(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback())
}
