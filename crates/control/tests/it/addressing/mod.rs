//! Addressing modes with real switches: hosts resolve addresses by ARP and send to the resolved address.

mod portland;
mod seattle;
mod trill;
mod vl2;

use std::collections::BTreeMap;

use core::net::Ipv4Addr;
use net::{FiveTuple, HostIx, LinkIx, Time};
use openflow::headers::ether;
use openflow::{Headers, MacAddr, frame};

use crate::common::{TestNetwork, ip, mac, udp};

/// The ARP caches of all hosts.
#[derive(Debug, Default)]
pub struct ArpCaches(BTreeMap<(HostIx, Ipv4Addr), MacAddr>);

impl ArpCaches {
    /// Handles the ARP messages that hosts have received, as Linux does: a reply makes an entry; a
    /// request for the sender's own address changes one. Hosts answer requests for their addresses.
    pub fn process(&mut self, network: &mut TestNetwork) {
        for (host, bytes) in std::mem::take(&mut network.to_hosts) {
            let Ok(headers) = frame::parse(&bytes) else { continue };
            if headers.eth_type != ether::ARP {
                continue;
            }
            let key = (host, headers.ipv4_src);
            let is_asked = headers.arp_op == 1 && headers.ipv4_dst == ip(host.0);
            let is_own = headers.ipv4_src == headers.ipv4_dst;
            let is_stored = headers.arp_op == 2 || is_asked || (is_own && self.0.contains_key(&key));
            if is_stored && !headers.ipv4_src.is_unspecified() {
                self.0.insert(key, headers.eth_src);
            }
            if is_asked {
                let reply = frame::arp_reply(mac(host.0), ip(host.0), headers.eth_src, headers.ipv4_src);
                network.transmit(host, reply, None);
            }
        }
    }

    /// Runs for a time; hosts handle ARP messages every 5 ms.
    pub fn run(&mut self, network: &mut TestNetwork, time: Time) {
        let until = network.now + time;
        while network.now < until {
            network.run(Time::from_ms(5));
            self.process(network);
        }
    }

    pub fn entry(&self, host: u32, of: u32) -> Option<MacAddr> {
        self.0.get(&(HostIx(host), ip(of))).copied()
    }

    /// Cuts cables, one at a time; every pair must still be reached.
    pub fn check_cuts(&self, network: &mut TestNetwork, cables: impl IntoIterator<Item = LinkIx>) {
        for cable in cables {
            network.set_cable(cable, false);
            network.settle();
            network.assert_exact();
            assert_eq!(self.unreached(network), [], "{cable:?}");
            network.set_cable(cable, true);
            network.settle();
            network.assert_exact();
        }
    }

    /// Makes every host know every other one.
    pub fn resolve_all(&mut self, network: &mut TestNetwork) {
        let hosts = network.topology.hosts().len() as u32;
        for (from, to) in pairs(hosts).filter(|(from, to)| self.entry(*from, *to).is_none()).collect::<Vec<_>>() {
            network.request_arp(from, ip(to));
        }
        network.run(Time::from_ms(20));
        self.process(network);
    }

    /// Sends a packet to the address in the cache of the sender. Returns its number.
    pub fn send(&self, network: &mut TestNetwork, tuple: FiveTuple) -> u32 {
        let from = net::address::host_of_ipv4(tuple.src, 1 << 16).expect("a host");
        let to = self.0.get(&(from, tuple.dst)).copied().expect("the sender knows the receiver");
        let headers =
            Headers::ipv4([mac(from.0), to], [tuple.src, tuple.dst], tuple.protocol, [tuple.src_port, tuple.dst_port]);
        network.transmit_packet(from, |_| frame::build(&headers, 100))
    }

    /// Sends packets between all hosts. Returns the pairs whose packet was lost, looped, or arrived with
    /// another address than that of the receiver.
    pub fn unreached(&self, network: &mut TestNetwork) -> Vec<(u32, u32)> {
        let hosts = network.topology.hosts().len() as u32;
        let pairs: Vec<(u32, u32)> = pairs(hosts).filter(|(from, to)| self.entry(*from, *to).is_some()).collect();
        let sent: Vec<u32> =
            pairs.iter().map(|(from, to)| self.send(network, udp(*from, *to, (from * 31 + to) as u16))).collect();
        network.run(Time::from_ms(20));
        let is_right = |to: u32, number: u32| {
            let packet = &network.packets[number as usize];
            let headers = packet.arrived.filter(|_| packet.delivered.is_some_and(|(at, _)| at == HostIx(to)));
            !packet.has_looped && packet.deliveries == 1 && headers.is_some_and(|headers| headers.eth_dst == mac(to))
        };
        let checked = pairs.into_iter().zip(sent);
        checked.filter(|((_, to), number)| !is_right(*to, *number)).map(|(pair, _)| pair).collect()
    }
}

pub fn pairs(hosts: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..hosts).flat_map(move |from| (0..hosts).map(move |to| (from, to))).filter(|(from, to)| from != to)
}
