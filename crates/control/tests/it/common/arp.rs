//! ARP messages of hosts.

use core::net::Ipv4Addr;
use net::HostIx;
use openflow::{MacAddr, frame};

use super::{TestNetwork, ip, mac};

pub fn is_arp(bytes: &[u8], op: u16) -> bool {
    frame::parse(bytes).is_ok_and(|headers| headers.arp_op == op)
}

impl TestNetwork {
    /// Sends a gratuitous ARP request for these addresses from the port of a host.
    pub fn announce_at(&mut self, at: u32, mac: MacAddr, ip: Ipv4Addr) {
        self.transmit(HostIx(at), frame::arp_request(mac, ip, ip), None);
    }
    pub fn announce(&mut self, host: u32) {
        self.announce_at(host, mac(host), ip(host));
    }
    /// Sends an ARP request of a host.
    pub fn request_arp(&mut self, host: u32, target: Ipv4Addr) {
        self.transmit(HostIx(host), frame::arp_request(mac(host), ip(host), target), None);
    }
    /// Returns the hosts that received ARP messages with this operation, once per message.
    pub fn receivers_of_arp(&self, op: u16) -> Vec<HostIx> {
        self.to_hosts.iter().filter(|(_, bytes)| is_arp(bytes, op)).map(|(host, _)| *host).collect()
    }
}
