//! Packet-in messages written from a template: the measurement encodes nothing.
//!
//! A probe is a TCP SYN of 60 bytes. Its number is in the sequence number and again in the ports.
//! No two probes of a switch have the same 5-tuple until 2²⁹ have been sent between the same two
//! hosts, and a flow-mod identifies its probe as well.

use openflow::frame::{arp_request, build};
use openflow::headers::protocol;
use openflow::{
    BufferId, Envelope, Headers, MacAddr, Match, Message, PacketIn, PacketInReason, PortNo, TableId, Xid, wire,
};

use crate::fabric::Host;

/// Bytes of a packet-in before its frame: header, fixed fields, a match on the port, padding.
const FRAME_AT: usize = 42;
const FRAME_LEN: usize = 60;
const LEN: usize = FRAME_AT + FRAME_LEN;
const PORT_AT: usize = 32;
const IP_AT: usize = FRAME_AT + 14;
const TCP_AT: usize = IP_AT + 20;
/// Number of distinct probe numbers in ports.
pub const NUMBERS: u32 = 1 << 29;

pub const fn ports(n: u32) -> [u16; 2] {
    [0x8000 | (n & 0x7fff) as u16, 1_024 + (n >> 15 & 0x3fff) as u16]
}

/// Returns the number, modulo [`NUMBERS`], of the probe with these ports.
pub fn number(ports: [u16; 2]) -> Option<u32> {
    let upper = u32::from(ports[1]).checked_sub(1_024).filter(|upper| *upper <= 0x3fff)?;
    (ports[0] & 0x8000 != 0).then_some(upper << 15 | u32::from(ports[0] & 0x7fff))
}

/// A packet-in without the fields that differ between probes.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: [u8; LEN],
    /// Sum of the constant 16-bit words of the IPv4 header.
    ip_sum: u32,
    /// Sum of the constant words of the TCP header and its pseudo header.
    tcp_sum: u32,
}

impl Default for Template {
    fn default() -> Template {
        let zero = (MacAddr::default(), std::net::Ipv4Addr::UNSPECIFIED);
        let headers = Headers::ipv4([zero.0; 2], [zero.1; 2], protocol::TCP, [0, 0]);
        let mut data = build(&headers, 0);
        data.resize(FRAME_LEN, 0);
        let packet = PacketIn {
            buffer: BufferId::NO_BUFFER,
            total_len: FRAME_LEN as u16,
            reason: PacketInReason::NoMatch,
            table: TableId(0),
            cookie: u64::MAX,
            match_: Match { in_port: Some(PortNo(0)), ..Match::default() },
            other_fields: Vec::new(),
            data,
        };
        let mut encoded = Vec::new();
        let envelope = Envelope { xid: Xid(0), message: Message::PacketIn(packet) };
        wire::encode(&envelope, &mut encoded).expect("a small message can be encoded");
        let mut bytes: [u8; LEN] = encoded.try_into().expect("the frame begins after the match on the port");
        bytes[TCP_AT + 13] = 0x02; // SYN flag.
        bytes[IP_AT + 10..IP_AT + 12].fill(0);
        bytes[TCP_AT + 16..TCP_AT + 18].fill(0);
        let pseudo = u32::from(protocol::TCP) + 20;
        Template {
            bytes,
            ip_sum: sum_words(&bytes[IP_AT..IP_AT + 20]),
            tcp_sum: sum_words(&bytes[TCP_AT..TCP_AT + 20]) + pseudo,
        }
    }
}

impl Template {
    #[inline]
    pub fn write(&self, source: &Host, destination: &Host, n: u32, out: &mut Vec<u8>) {
        let mut bytes = self.bytes;
        bytes[PORT_AT..PORT_AT + 4].copy_from_slice(&source.port.0.to_be_bytes());
        bytes[FRAME_AT..FRAME_AT + 6].copy_from_slice(&destination.mac.0);
        bytes[FRAME_AT + 6..FRAME_AT + 12].copy_from_slice(&source.mac.0);
        let (from, to) = (source.ip.octets(), destination.ip.octets());
        bytes[IP_AT + 12..IP_AT + 16].copy_from_slice(&from);
        bytes[IP_AT + 16..IP_AT + 20].copy_from_slice(&to);
        let [from_port, to_port] = ports(n);
        bytes[TCP_AT..TCP_AT + 2].copy_from_slice(&from_port.to_be_bytes());
        bytes[TCP_AT + 2..TCP_AT + 4].copy_from_slice(&to_port.to_be_bytes());
        bytes[TCP_AT + 4..TCP_AT + 8].copy_from_slice(&n.to_be_bytes());
        let addresses = sum_words(&from) + sum_words(&to);
        let numbers = u32::from(from_port) + u32::from(to_port) + (n >> 16) + (n & 0xffff);
        let ip_sum = complement(self.ip_sum + addresses);
        bytes[IP_AT + 10..IP_AT + 12].copy_from_slice(&ip_sum.to_be_bytes());
        let tcp_sum = complement(self.tcp_sum + addresses + numbers);
        bytes[TCP_AT + 16..TCP_AT + 18].copy_from_slice(&tcp_sum.to_be_bytes());
        out.extend_from_slice(&bytes);
    }

    /// Appends a packet-in with an ARP request of a host; gratuitous if the host is its own target.
    pub fn write_arp(&self, source: &Host, target: std::net::Ipv4Addr, out: &mut Vec<u8>) {
        self.write_frame(source.port, &arp_request(source.mac, source.ip, target), out);
    }

    pub fn write_frame(&self, in_port: PortNo, frame: &[u8], out: &mut Vec<u8>) {
        let mut bytes = self.bytes;
        bytes[PORT_AT..PORT_AT + 4].copy_from_slice(&in_port.0.to_be_bytes());
        bytes[FRAME_AT..].fill(0);
        let len = frame.len().min(FRAME_LEN);
        bytes[FRAME_AT..FRAME_AT + len].copy_from_slice(&frame[..len]);
        out.extend_from_slice(&bytes);
    }
}

#[inline]
fn sum_words(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
}

#[inline]
fn complement(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Fabric;
    use crate::options::Shape;
    use openflow::frame::{checksum, parse};

    fn hosts() -> (Host, Host) {
        let fabric = Fabric::new(&Shape::Star { switches: 2, hosts: 3 }, 0).unwrap();
        let (source, destination) = fabric.pair(1, 4);
        (*source, *destination)
    }

    #[test]
    fn number_inverts_ports() {
        for n in [0, 1, 0x7fff, 0x8000, 12_345_678, NUMBERS - 1] {
            assert_eq!(number(ports(n)), Some(n));
        }
        assert_eq!(number([80, 2_000]), None);
        assert_eq!(number([0x8000, 80]), None);
        assert_eq!(number([0x8000, u16::MAX]), None);
    }

    #[test]
    fn probe_is_packet_in_with_valid_syn() {
        let (source, destination) = hosts();
        for n in [0, 1, 77_777, u32::MAX] {
            let mut bytes = Vec::new();
            Template::default().write(&source, &destination, n, &mut bytes);
            let (envelope, len) = wire::decode(&bytes).unwrap().unwrap();
            assert_eq!(len, bytes.len());
            let Message::PacketIn(packet) = envelope.message else { panic!("{:?}", envelope.message) };
            assert_eq!((packet.buffer, packet.total_len), (BufferId::NO_BUFFER, 60));
            assert_eq!((packet.reason, packet.table, packet.cookie), (PacketInReason::NoMatch, TableId(0), u64::MAX));
            assert_eq!(packet.match_, Match { in_port: Some(source.port), ..Match::default() });
            let ends = ([source.mac, destination.mac], [source.ip, destination.ip]);
            let expected = Headers { tcp_flags: 0x002, ..Headers::ipv4(ends.0, ends.1, protocol::TCP, ports(n)) };
            assert_eq!(parse(&packet.data), Ok(expected));
            assert_eq!(checksum(&packet.data[14..34]), 0);
            let tcp = &packet.data[34..54];
            let mut pseudo = [&source.ip.octets()[..], &destination.ip.octets(), &[0, 6, 0, 20]].concat();
            pseudo.extend_from_slice(tcp);
            assert_eq!(checksum(&pseudo), 0);
            assert_eq!((&tcp[4..8], tcp[13]), (&n.to_be_bytes()[..], 2));
        }
    }

    #[test]
    fn gratuitous_arp_is_valid() {
        let (source, _) = hosts();
        let mut bytes = Vec::new();
        Template::default().write_arp(&source, source.ip, &mut bytes);
        let (envelope, _) = wire::decode(&bytes).unwrap().unwrap();
        let Message::PacketIn(packet) = envelope.message else { panic!("{:?}", envelope.message) };
        let headers = parse(&packet.data).unwrap();
        assert_eq!((headers.arp_op, headers.ipv4_src, headers.ipv4_dst), (1, source.ip, source.ip));
        assert_eq!((headers.eth_dst, headers.eth_src), (MacAddr::BROADCAST, source.mac));
    }
}
