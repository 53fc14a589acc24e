//! ARP of hosts: with `hosts_resolve` a flow starts when both hosts know the address that reaches the
//! other one. The source asks first and the destination after it, as with the first packet of a
//! connection.
//!
//! Entries do not expire during a run. A request without reply is repeated twice, after a second each,
//! and then the flow fails, as with Linux (`mcast_solicit`).

use std::collections::{BTreeMap, VecDeque};

use net::{HostIx, Time, Topology, address};
use openflow::headers::ether;
use openflow::{MacAddr, frame};

use super::Controlled;
use super::event_queue::ControlEvent;
use super::frames::FrameOut;

const ASK_AGAIN: Time = Time::from_s(1);
const REQUESTS_MAX: u8 = 3;
const REQUEST: u16 = 1;

#[derive(Debug, Default)]
pub(super) struct HostArp {
    /// Link from each host to its switch.
    uplinks: Vec<u32>,
    /// Address by host and target.
    entries: BTreeMap<(u32, u32), MacAddr>,
    waiting: BTreeMap<(u32, u32), Waiting>,
    /// Flows that wait no more, and whether their address is known.
    ready: VecDeque<(u32, bool)>,
    requests: u64,
    failures: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    flows: Vec<u32>,
    sent: u8,
}

impl HostArp {
    pub(super) fn of(topology: &Topology) -> HostArp {
        let uplink = |node: &net::NodeIx| topology.out_links(*node).first().map_or(0, |link| link.0);
        HostArp { uplinks: topology.hosts().iter().map(uplink).collect(), ..HostArp::default() }
    }

    /// Returns the numbers of requests and of flows that failed.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.requests, self.failures)
    }

    /// Returns the addresses that two hosts send to, each to reach the other.
    pub(super) fn macs_between(&self, a: HostIx, b: HostIx) -> [MacAddr; 2] {
        [(a, b), (b, a)].map(|(from, to)| {
            let own = MacAddr(address::host_mac(to));
            self.entries.get(&(from.0, to.0)).copied().unwrap_or(own)
        })
    }

    /// Returns a request of a host, if it may send another one.
    fn request(&mut self, host: u32, target: u32) -> Option<FrameOut> {
        let waiting = self.waiting.get_mut(&(host, target)).filter(|waiting| waiting.sent < REQUESTS_MAX)?;
        waiting.sent += 1;
        self.requests += 1;
        let [from, to] = [host, target].map(HostIx);
        let mac = MacAddr(address::host_mac(from));
        let bytes = frame::arp_request(mac, address::host_ipv4(from), address::host_ipv4(to));
        Some(FrameOut { link: self.uplinks[host as usize], bytes, hops: 0 })
    }

    fn learn(&mut self, host: u32, target: u32, mac: MacAddr) {
        self.entries.insert((host, target), mac);
        let waiting = self.waiting.remove(&(host, target)).unwrap_or_default();
        self.ready.extend(waiting.flows.into_iter().map(|flow| (flow, true)));
    }
}

impl Controlled<'_> {
    /// Returns whether two hosts know each other's address. If not, the flow waits until the first of
    /// them learns it.
    pub(crate) fn resolve(&mut self, now: u64, flow: u32, src: HostIx, dst: HostIx) -> bool {
        if !self.config.hosts_resolve {
            return true;
        }
        let unknown = [(src.0, dst.0), (dst.0, src.0)].into_iter().find(|pair| !self.arp.entries.contains_key(pair));
        let Some((host, target)) = unknown else { return true };
        let waiting = self.arp.waiting.entry((host, target)).or_default();
        waiting.flows.push(flow);
        if waiting.sent == 0 {
            self.ask(self.clock(now), host, target);
        }
        false
    }

    fn ask(&mut self, clock: u64, host: u32, target: u32) {
        if let Some(request) = self.arp.request(host, target) {
            self.outgoing.push(request);
            self.events.put(clock + ASK_AGAIN.as_ps(), ControlEvent::AskAgain(host, target));
        } else if let Some(waiting) = self.arp.waiting.remove(&(host, target)) {
            self.arp.failures += waiting.flows.len() as u64;
            self.arp.ready.extend(waiting.flows.into_iter().map(|flow| (flow, false)));
        }
    }

    /// Handles the time at which a host has waited long enough for a reply.
    pub(super) fn ask_again(&mut self, clock: u64, host: u32, target: u32) {
        if self.arp.waiting.contains_key(&(host, target)) {
            self.ask(clock, host, target);
        }
    }

    /// Returns whether flows wait for an address.
    pub(crate) fn is_resolving(&self) -> bool {
        !self.arp.waiting.is_empty() || !self.arp.ready.is_empty()
    }

    /// Returns the flows that still wait for an address.
    pub(crate) fn waiting_flows(&self) -> impl Iterator<Item = u32> {
        self.arp.waiting.values().flat_map(|waiting| waiting.flows.iter().copied())
    }

    /// Removes and returns the next flow that waits no more, and whether its address is known.
    #[inline]
    pub(crate) fn next_resolved(&mut self) -> Option<(u32, bool)> {
        self.arp.ready.pop_front()
    }

    /// Handles an ARP message at a host: replies, and requests for the host, tell the address of their
    /// sender; a request for the sender's own address changes a known one.
    pub(super) fn note_arp(&mut self, host: u32, bytes: &[u8]) {
        if !self.config.hosts_resolve {
            return;
        }
        let Some(headers) = frame::parse(bytes).ok().filter(|headers| headers.eth_type == ether::ARP) else { return };
        let Some(sender) = address::host_of_ipv4(headers.ipv4_src, self.host_count as usize) else { return };
        let is_for_it = headers.ipv4_dst == address::host_ipv4(HostIx(host));
        let is_own = headers.ipv4_src == headers.ipv4_dst && self.arp.entries.contains_key(&(host, sender.0));
        if sender.0 != host && (is_for_it || is_own) && (headers.arp_op == REQUEST || is_for_it) {
            self.arp.learn(host, sender.0, headers.eth_src);
        }
    }
}
