//! ARP messages of hosts.

use core::net::Ipv4Addr;
use net::{HostIx, Time};
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
    /// Announces a host that has moved to the port of host `at`, and waits until it is accepted
    /// there: the port where it was does not answer.
    pub fn move_to(&mut self, at: u32, mac: MacAddr, ip: Ipv4Addr) {
        self.announce_at(at, mac, ip);
        self.run(Time::from_ms(751));
    }
    /// Runs for a time. All hosts reply to ARP requests for their addresses.
    pub fn run_answering(&mut self, time: Time) {
        let until = self.now + time;
        while self.now < until {
            self.run(Time::from_ms(5).min(until - self.now));
            self.answer_arp();
        }
    }
    /// Makes all hosts reply to the ARP requests that they have received, once.
    pub fn answer_arp(&mut self) {
        for (host, bytes) in std::mem::take(&mut self.to_hosts) {
            let Ok(headers) = frame::parse(&bytes) else { continue };
            let is_mine = [mac(host.0), MacAddr::BROADCAST].contains(&headers.eth_dst);
            if headers.arp_op == 1 && headers.ipv4_dst == ip(host.0) && is_mine {
                let reply = frame::arp_reply(mac(host.0), ip(host.0), headers.eth_src, headers.ipv4_src);
                self.transmit(host, reply, None);
            }
        }
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
