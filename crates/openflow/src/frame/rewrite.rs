//! Rewriting of headers in the bytes of a frame.

use super::build::ipv4_with;
use super::layout::{ETH_DST, ETH_SRC, ETH_TYPE, Layout};
use super::{FrameError, fold, u16_at};
use crate::headers::{Headers, ether, protocol};

/// Returns the frame with new headers: addresses, VLAN tag (added, changed or removed), DSCP, ECN,
/// IPv4 addresses and ports. EtherType, protocol and the fields of ARP and ICMP do not change,
/// because no action changes them, with one exception: if only the new headers are of IP-in-IP, they
/// are those of an added outer header.
///
/// Checksums are updated incrementally (RFC 1624). They stay as correct as they were, even if the
/// payload is truncated. UDP without a checksum stays without.
///
/// # Errors
/// [`FrameError`] if the frame cannot be parsed.
pub fn rewrite(frame: &[u8], headers: &Headers) -> Result<Vec<u8>, FrameError> {
    let layout = Layout::of(frame)?;
    let is_outer = headers.ip_proto == protocol::IP_IN_IP && layout.headers.ip_proto != protocol::IP_IN_IP;
    if is_outer && layout.headers.eth_type == ether::IPV4 {
        let (_, packet) = frame.split_at(layout.payload);
        // Bytes beyond the datagram are Ethernet padding.
        let inner = &packet[..packet.len().min(usize::from(u16_at(packet, 2)))];
        return Ok(ipv4_with(headers, inner.len(), |above| above.copy_from_slice(&inner[..above.len()])));
    }
    let mut bytes = Vec::with_capacity(frame.len() + 4);
    bytes.extend_from_slice(frame);
    bytes[ETH_DST..ETH_DST + 6].copy_from_slice(&headers.eth_dst.0);
    bytes[ETH_SRC..ETH_SRC + 6].copy_from_slice(&headers.eth_src.0);
    if layout.headers.eth_type == ether::IPV4 {
        rewrite_ipv4(&mut bytes, &layout, headers);
    }
    rewrite_vlan(&mut bytes, &layout.headers, headers);
    Ok(bytes)
}

fn rewrite_vlan(bytes: &mut Vec<u8>, was: &Headers, now: &Headers) {
    match (was.vlan, now.vlan) {
        (None, None) => {}
        (Some(_), None) => drop(bytes.drain(ETH_TYPE..ETH_TYPE + 4)),
        (None, Some(vid)) => {
            let [a, b] = ether::VLAN.to_be_bytes();
            let [c, d] = (vid & 0x0fff | u16::from(now.vlan_pcp) << 13).to_be_bytes();
            bytes.splice(ETH_TYPE..ETH_TYPE, [a, b, c, d]);
        }
        (Some(_), Some(vid)) => {
            let drop_eligible = u16_at(bytes, ETH_TYPE + 2) & 0x1000;
            put_u16(bytes, ETH_TYPE + 2, vid & 0x0fff | drop_eligible | u16::from(now.vlan_pcp) << 13);
        }
    }
}

fn rewrite_ipv4(bytes: &mut [u8], layout: &Layout, now: &Headers) {
    let at = layout.payload;
    let (mut header, mut pseudo) = (Change::default(), Change::default());
    header.put(bytes, at, u16::from(bytes[at]) << 8 | u16::from(now.ip_dscp << 2 | now.ip_ecn & 3));
    for (offset, address) in [(12, now.ipv4_src), (16, now.ipv4_dst)] {
        let [a, b, c, d] = address.octets();
        for (offset, word) in [(offset, [a, b]), (offset + 2, [c, d])] {
            header.put(bytes, at + offset, u16::from_be_bytes(word));
        }
    }
    // Of these words only the addresses are in the pseudo header.
    for (was, now) in [(layout.headers.ipv4_src, now.ipv4_src), (layout.headers.ipv4_dst, now.ipv4_dst)] {
        pseudo.note_u32(was.into(), now.into());
    }
    header.apply(bytes, at + 10);
    let Some(transport) = layout.transport else { return };
    let checksum_at = match layout.headers.ip_proto {
        protocol::TCP => transport + 16,
        protocol::UDP => transport + 6,
        _ => return,
    };
    pseudo.put(bytes, transport, now.l4_src);
    pseudo.put(bytes, transport + 2, now.l4_dst);
    if layout.headers.ip_proto == protocol::TCP {
        pseudo.apply(bytes, checksum_at);
    } else if u16_at(bytes, checksum_at) != 0 {
        pseudo.apply(bytes, checksum_at);
        if u16_at(bytes, checksum_at) == 0 {
            put_u16(bytes, checksum_at, 0xffff);
        }
    }
}

/// The change of 16-bit words in one's complement.
#[derive(Default)]
struct Change(u64);

impl Change {
    fn note(&mut self, was: u16, now: u16) {
        // An unchanged word must add nothing: 0xffff is zero, but not the zero of an untouched
        // checksum.
        if was != now {
            self.0 += u64::from(!was) + u64::from(now);
        }
    }
    fn note_u32(&mut self, was: u32, now: u32) {
        self.note((was >> 16) as u16, (now >> 16) as u16);
        self.note(was as u16, now as u16);
    }
    fn put(&mut self, bytes: &mut [u8], at: usize, now: u16) {
        self.note(u16_at(bytes, at), now);
        put_u16(bytes, at, now);
    }
    fn apply(&self, bytes: &mut [u8], checksum_at: usize) {
        if self.0 != 0 {
            let was = u16_at(bytes, checksum_at);
            put_u16(bytes, checksum_at, !fold(u64::from(!was) + self.0));
        }
    }
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
