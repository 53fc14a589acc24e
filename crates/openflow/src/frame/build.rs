//! Construction of frames.

use core::net::Ipv4Addr;

use super::icmp::put_checksum;
use super::{checksum, fold, sum_of};
use crate::address::MacAddr;
use crate::headers::{Headers, ether, protocol};

/// Bytes before the payload of an untagged frame.
pub(super) const ETHERNET_LEN: usize = 14;
const TTL: u8 = 64;
/// Largest payload that IPv4 can announce above TCP.
pub(super) const PAYLOAD_MAX: usize = 0xffff - 20 - 20;

/// Returns an ARP request for the Ethernet address of `target`.
pub fn arp_request(sender: MacAddr, sender_ip: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    arp(1, (sender, sender_ip), (MacAddr::default(), target), MacAddr::BROADCAST)
}

/// Returns an ARP reply to `target`: `sender_ip` has the address `sender`.
pub fn arp_reply(sender: MacAddr, sender_ip: Ipv4Addr, target: MacAddr, target_ip: Ipv4Addr) -> Vec<u8> {
    arp(2, (sender, sender_ip), (target, target_ip), target)
}

fn arp(op: u16, sender: (MacAddr, Ipv4Addr), target: (MacAddr, Ipv4Addr), eth_dst: MacAddr) -> Vec<u8> {
    let headers = Headers { eth_dst, eth_src: sender.0, eth_type: ether::ARP, ..Headers::default() };
    let mut frame = ethernet(&headers, 28);
    frame.extend_from_slice(&[0, 1, 8, 0, 6, 4]);
    frame.extend_from_slice(&op.to_be_bytes());
    for (mac, ip) in [sender, target] {
        frame.extend_from_slice(&mac.0);
        frame.extend_from_slice(&ip.octets());
    }
    frame
}

/// Returns a frame with these headers and `payload_len` zero bytes above the innermost one. IPv4
/// carries at most 65,495 bytes above TCP; longer payloads are cut to that. Fields that do not
/// belong to the EtherType and protocol are omitted. TCP sequence numbers are zero.
pub fn build(headers: &Headers, payload_len: usize) -> Vec<u8> {
    match headers.eth_type {
        ether::IPV4 => ipv4(headers, payload_len.min(PAYLOAD_MAX)),
        ether::ARP => {
            let (sender, target) = ((headers.eth_src, headers.ipv4_src), (headers.eth_dst, headers.ipv4_dst));
            with_tag(arp(headers.arp_op, sender, target, headers.eth_dst), headers)
        }
        _ => {
            let mut frame = ethernet(headers, payload_len);
            frame.resize(frame.len() + payload_len, 0);
            frame
        }
    }
}

fn ipv4(headers: &Headers, payload_len: usize) -> Vec<u8> {
    let transport_len = match headers.ip_proto {
        protocol::TCP => 20,
        protocol::UDP | protocol::ICMP => 8,
        _ => 0,
    };
    ipv4_with(headers, transport_len + payload_len, |bytes| transport(headers, bytes))
}

/// Returns an IPv4 frame with `len` bytes above its header, zeroed and then filled by `fill`. More
/// bytes than IPv4 carries are cut.
pub(super) fn ipv4_with(headers: &Headers, len: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let total_len = 20 + len.min(0xffff - 20);
    let mut frame = ethernet(headers, total_len);
    let at = frame.len();
    frame.resize(at + total_len, 0);
    let (header, above) = frame[at..].split_at_mut(20);
    header[0] = 0x45;
    header[1] = headers.ip_dscp << 2 | headers.ip_ecn & 3;
    header[2..4].copy_from_slice(&(total_len as u16).to_be_bytes());
    header[6] = 0x40; // Do not fragment.
    header[8] = TTL;
    header[9] = headers.ip_proto;
    header[12..16].copy_from_slice(&headers.ipv4_src.octets());
    header[16..20].copy_from_slice(&headers.ipv4_dst.octets());
    let sum = checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    fill(above);
    frame
}

fn transport(headers: &Headers, bytes: &mut [u8]) {
    let len = bytes.len() as u16;
    let checksum_at = match headers.ip_proto {
        protocol::TCP => {
            bytes[12..14].copy_from_slice(&(5 << 12 | headers.tcp_flags & 0x0fff).to_be_bytes());
            bytes[14..16].copy_from_slice(&0xffffu16.to_be_bytes());
            16
        }
        protocol::UDP => {
            bytes[4..6].copy_from_slice(&len.to_be_bytes());
            6
        }
        protocol::ICMP => {
            (bytes[0], bytes[1]) = (headers.l4_src as u8, headers.l4_dst as u8);
            return put_checksum(bytes);
        }
        _ => return,
    };
    bytes[0..2].copy_from_slice(&headers.l4_src.to_be_bytes());
    bytes[2..4].copy_from_slice(&headers.l4_dst.to_be_bytes());
    let sum = match transport_checksum(headers, bytes) {
        // Zero would mean "no checksum".
        0 if headers.ip_proto == protocol::UDP => 0xffff,
        sum => sum,
    };
    bytes[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Returns the checksum of a TCP segment or UDP datagram with the pseudo header of IPv4; 0 if the
/// contained checksum is correct.
pub(super) fn transport_checksum(headers: &Headers, bytes: &[u8]) -> u16 {
    let pseudo = sum_of(&headers.ipv4_src.octets()) + sum_of(&headers.ipv4_dst.octets());
    !fold(pseudo + u64::from(headers.ip_proto) + bytes.len() as u64 + sum_of(bytes))
}

/// Returns the Ethernet header, tag included, with capacity for `payload_len` bytes.
pub(super) fn ethernet(headers: &Headers, payload_len: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET_LEN + 4 + payload_len);
    frame.extend_from_slice(&headers.eth_dst.0);
    frame.extend_from_slice(&headers.eth_src.0);
    frame.extend_from_slice(&headers.eth_type.to_be_bytes());
    with_tag(frame, headers)
}

fn with_tag(mut frame: Vec<u8>, headers: &Headers) -> Vec<u8> {
    if let Some(vid) = headers.vlan {
        let [a, b] = ether::VLAN.to_be_bytes();
        let [c, d] = (vid & 0x0fff | u16::from(headers.vlan_pcp) << 13).to_be_bytes();
        frame.splice(12..12, [a, b, c, d]);
    }
    frame
}
