//! The positions of headers in a frame.

use core::net::Ipv4Addr;

use super::{FrameError, u16_at};
use crate::address::MacAddr;
use crate::headers::{Headers, ether, protocol};

/// The EtherType of an 802.3 frame without one (specification 1.3.5: `OFPXMT_OFB_ETH_TYPE`).
const NO_ETHER_TYPE: u16 = 0x05ff;
/// Smallest EtherType; smaller values are lengths.
const ETHER_TYPE_MIN: u16 = 0x0600;
/// 802.1ad tag.
const SERVICE_TAG: u16 = 0x88a8;

/// Offset of the destination address, source address and first EtherType.
pub const ETH_DST: usize = 0;
pub const ETH_SRC: usize = 6;
pub const ETH_TYPE: usize = 12;

/// The headers of a frame with their positions.
pub struct Layout {
    pub headers: Headers,
    /// Offset behind the EtherType.
    pub payload: usize,
    /// Offset of the transport header, if it is a known one.
    pub transport: Option<usize>,
}

impl Layout {
    pub fn of(frame: &[u8]) -> Result<Layout, FrameError> {
        need(frame, ETH_TYPE + 2, "Ethernet")?;
        let mut headers =
            Headers { eth_dst: mac_at(frame, ETH_DST), eth_src: mac_at(frame, ETH_SRC), ..Headers::default() };
        let mut at = ETH_TYPE;
        let mut eth_type = u16_at(frame, at);
        while matches!(eth_type, ether::VLAN | SERVICE_TAG) {
            need(frame, at + 6, "802.1Q")?;
            if headers.vlan.is_none() {
                let tag = u16_at(frame, at + 2);
                headers.vlan = Some(tag & 0x0fff);
                headers.vlan_pcp = (tag >> 13) as u8;
            }
            at += 4;
            eth_type = u16_at(frame, at);
        }
        headers.eth_type = if eth_type < ETHER_TYPE_MIN { NO_ETHER_TYPE } else { eth_type };
        let mut layout = Layout { headers, payload: at + 2, transport: None };
        match eth_type {
            ether::ARP => layout.read_arp(frame)?,
            ether::IPV4 => layout.read_ipv4(frame)?,
            _ => {}
        }
        Ok(layout)
    }

    fn read_arp(&mut self, frame: &[u8]) -> Result<(), FrameError> {
        let at = self.payload;
        need(frame, at + 8, "ARP")?;
        self.headers.arp_op = u16_at(frame, at + 6);
        if u16_at(frame, at) == 1 && u16_at(frame, at + 2) == ether::IPV4 && frame[at + 4] == 6 && frame[at + 5] == 4 {
            need(frame, at + 28, "ARP")?;
            self.headers.ipv4_src = ipv4_at(frame, at + 14);
            self.headers.ipv4_dst = ipv4_at(frame, at + 24);
        }
        Ok(())
    }

    fn read_ipv4(&mut self, frame: &[u8]) -> Result<(), FrameError> {
        let at = self.payload;
        need(frame, at + 20, "IPv4")?;
        let malformed = |what| FrameError::Malformed { layer: "IPv4", what };
        if frame[at] >> 4 != 4 {
            return Err(malformed("the version is not 4"));
        }
        let header_len = usize::from(frame[at] & 0x0f) * 4;
        if header_len < 20 {
            return Err(malformed("the header length is below 20 bytes"));
        }
        need(frame, at + header_len, "IPv4")?;
        let total_len = usize::from(u16_at(frame, at + 2));
        if total_len < header_len {
            return Err(malformed("the total length is below that of the header"));
        }
        let headers = &mut self.headers;
        headers.ip_dscp = frame[at + 1] >> 2;
        headers.ip_ecn = frame[at + 1] & 3;
        headers.ip_proto = frame[at + 9];
        headers.ipv4_src = ipv4_at(frame, at + 12);
        headers.ipv4_dst = ipv4_at(frame, at + 16);
        let is_first_fragment = u16_at(frame, at + 6) & 0x1fff == 0;
        // Bytes beyond the datagram are Ethernet padding, not a header.
        let end = frame.len().min(at + total_len);
        if is_first_fragment { self.read_transport(&frame[..end], at + header_len) } else { Ok(()) }
    }

    fn read_transport(&mut self, frame: &[u8], at: usize) -> Result<(), FrameError> {
        let headers = &mut self.headers;
        (headers.l4_src, headers.l4_dst) = match headers.ip_proto {
            protocol::TCP => {
                need(frame, at + 20, "TCP")?;
                headers.tcp_flags = u16_at(frame, at + 12) & 0x0fff;
                (u16_at(frame, at), u16_at(frame, at + 2))
            }
            protocol::UDP => {
                need(frame, at + 8, "UDP")?;
                (u16_at(frame, at), u16_at(frame, at + 2))
            }
            protocol::ICMP => {
                need(frame, at + 4, "ICMP")?;
                (u16::from(frame[at]), u16::from(frame[at + 1]))
            }
            _ => return Ok(()),
        };
        self.transport = Some(at);
        Ok(())
    }
}

fn need(frame: &[u8], len: usize, layer: &'static str) -> Result<(), FrameError> {
    if frame.len() < len { Err(FrameError::Truncated { layer, len: frame.len() }) } else { Ok(()) }
}

fn mac_at(frame: &[u8], at: usize) -> MacAddr {
    let mut mac = [0; 6];
    mac.copy_from_slice(&frame[at..at + 6]);
    MacAddr(mac)
}

fn ipv4_at(frame: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3])
}
