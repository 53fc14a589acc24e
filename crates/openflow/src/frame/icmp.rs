//! ICMP: errors about packets, and echo (RFC 792, RFC 1122 section 3.2.2).

#![allow(missing_docs, reason = "named as in RFC 792")]

use core::net::Ipv4Addr;

use super::build::ipv4_with;
use super::layout::Layout;
use super::{checksum, u16_at};
use crate::address::MacAddr;
use crate::headers::{Headers, ether, protocol};

pub mod icmp_type {
    pub const ECHO_REPLY: u8 = 0;
    pub const UNREACHABLE: u8 = 3;
    pub const ECHO_REQUEST: u8 = 8;
}

/// The code of a destination-unreachable message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    Host = 1,
    Protocol = 2,
    Port = 3,
}

/// An echo request or reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo {
    pub is_reply: bool,
    pub id: u16,
    pub seq: u16,
}

/// Returns the ICMP error about a packet. Returns `None` where no error may be sent: about other
/// errors, fragments other than the first, packets to or from more than one host, and packets other
/// than IPv4.
pub fn icmp_unreachable(frame: &[u8], why: Unreachable) -> Option<Vec<u8>> {
    let layout = Layout::of(frame).ok()?;
    let headers = layout.headers;
    let is_question = headers.ip_proto != protocol::ICMP || headers.l4_src == u16::from(icmp_type::ECHO_REQUEST);
    let is_many = |address: Ipv4Addr| address.is_multicast() || address.is_broadcast() || address.is_unspecified();
    let may_be_answered = headers.eth_type == ether::IPV4
        && is_question
        && u16_at(frame, layout.payload + 6) & 0x1fff == 0
        && !headers.eth_dst.is_multicast()
        && ![headers.ipv4_src, headers.ipv4_dst].into_iter().any(is_many);
    if !may_be_answered {
        return None;
    }
    let header_len = usize::from(frame[layout.payload] & 0x0f) * 4;
    let end = frame.len().min(layout.payload + header_len + 8);
    let quoted = &frame[layout.payload..end];
    let macs = [headers.eth_dst, headers.eth_src];
    let kind = [u16::from(icmp_type::UNREACHABLE), why as u16];
    let headers = Headers::ipv4(macs, [headers.ipv4_dst, headers.ipv4_src], protocol::ICMP, kind);
    Some(ipv4_with(&headers, 8 + quoted.len(), |bytes| {
        (bytes[0], bytes[1]) = (icmp_type::UNREACHABLE, why as u8);
        bytes[8..].copy_from_slice(quoted);
        put_checksum(bytes);
    }))
}

/// Returns an echo request or reply with eight bytes of data; of each pair the source comes first.
pub fn icmp_echo(macs: [MacAddr; 2], addresses: [Ipv4Addr; 2], echo: Echo) -> Vec<u8> {
    let kind = if echo.is_reply { icmp_type::ECHO_REPLY } else { icmp_type::ECHO_REQUEST };
    let headers = Headers::ipv4(macs, addresses, protocol::ICMP, [u16::from(kind), 0]);
    ipv4_with(&headers, 16, |bytes| {
        bytes[0] = kind;
        bytes[4..6].copy_from_slice(&echo.id.to_be_bytes());
        bytes[6..8].copy_from_slice(&echo.seq.to_be_bytes());
        put_checksum(bytes);
    })
}

/// Returns the echo request or reply in a frame, if it contains one.
pub fn echo(frame: &[u8]) -> Option<Echo> {
    let layout = Layout::of(frame).ok()?;
    let at = layout.transport.filter(|_| layout.headers.ip_proto == protocol::ICMP)?;
    let is_reply = match frame[at] {
        icmp_type::ECHO_REPLY => true,
        icmp_type::ECHO_REQUEST => false,
        _ => return None,
    };
    let is_whole = frame.len() >= at + 8;
    is_whole.then(|| Echo { is_reply, id: u16_at(frame, at + 4), seq: u16_at(frame, at + 6) })
}

/// Writes the checksum of an ICMP message.
pub(super) fn put_checksum(bytes: &mut [u8]) {
    let sum = checksum(bytes);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{build, parse};

    const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
    const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

    #[test]
    fn an_error_quotes_the_packet_and_goes_back() {
        let packet = build(&Headers::ipv4(MACS, ADDRESSES, protocol::UDP, [5000, 53]), 40);
        let error = icmp_unreachable(&packet, Unreachable::Port).unwrap();
        let headers = parse(&error).unwrap();
        assert_eq!((headers.eth_src, headers.eth_dst), (MACS[1], MACS[0]));
        assert_eq!((headers.ipv4_src, headers.ipv4_dst), (ADDRESSES[1], ADDRESSES[0]));
        assert_eq!((headers.ip_proto, headers.l4_src, headers.l4_dst), (protocol::ICMP, 3, 3));
        assert_eq!((checksum(&error[14..34]), checksum(&error[34..])), (0, 0));
        assert_eq!(error[42..], packet[14..42], "the IP header and eight bytes");
    }

    #[test]
    fn errors_are_not_answered_with_errors() {
        let ping = icmp_echo(MACS, ADDRESSES, Echo { is_reply: false, id: 1, seq: 2 });
        let error = icmp_unreachable(&ping, Unreachable::Host).unwrap();
        assert_eq!(icmp_unreachable(&error, Unreachable::Host), None);
        let pong = icmp_echo(MACS, ADDRESSES, Echo { is_reply: true, id: 1, seq: 2 });
        assert_eq!(icmp_unreachable(&pong, Unreachable::Host), None);
        let mut fragment = build(&Headers::ipv4(MACS, ADDRESSES, protocol::UDP, [5000, 53]), 40);
        fragment[21] = 9;
        assert_eq!(icmp_unreachable(&fragment, Unreachable::Port), None);
        let group = [ADDRESSES[0], Ipv4Addr::new(224, 0, 0, 1)];
        let to_many = build(&Headers::ipv4(MACS, group, protocol::UDP, [1, 2]), 0);
        assert_eq!(icmp_unreachable(&to_many, Unreachable::Port), None);
    }

    #[test]
    fn echoes_are_read_as_they_were_made() {
        for is_reply in [false, true] {
            let made = Echo { is_reply, id: 0xa7ab, seq: 65_535 };
            let frame = icmp_echo(MACS, ADDRESSES, made);
            assert_eq!((echo(&frame), checksum(&frame[34..])), (Some(made), 0));
        }
        let udp = build(&Headers::ipv4(MACS, ADDRESSES, protocol::UDP, [8, 0]), 40);
        assert_eq!(echo(&udp), None);
    }
}
