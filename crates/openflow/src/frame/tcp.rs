//! TCP segments: parsing and construction (RFC 9293).

#![allow(missing_docs, reason = "named as in RFC 9293")]

use core::net::Ipv4Addr;

use super::build::{PAYLOAD_MAX, ipv4_with, transport_checksum};
use super::layout::Layout;
use super::{FrameError, u16_at};
use crate::address::MacAddr;
use crate::headers::{Headers, protocol};

pub mod flags {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
}

/// A segment without options; the sequence number is that of its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    pub flags: u8,
    pub seq: u32,
    /// Next expected sequence number; valid with [`flags::ACK`].
    pub ack: u32,
    pub window: u16,
    pub payload: &'a [u8],
}

impl Segment<'_> {
    /// Returns whether all of these flags are set.
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Returns the number of sequence numbers the segment takes: its bytes, and one each for SYN
    /// and FIN.
    pub fn sequence_len(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.has(flags::SYN)) + u32::from(self.has(flags::FIN))
    }
}

/// Returns the segment in a frame; `None` if it is not TCP, or a fragment other than the first.
///
/// # Errors
/// [`FrameError`] if the frame contradicts itself.
pub fn segment(frame: &[u8]) -> Result<Option<Segment<'_>>, FrameError> {
    let layout = Layout::of(frame)?;
    let (Some(at), protocol::TCP) = (layout.transport, layout.headers.ip_proto) else { return Ok(None) };
    let end = frame.len().min(layout.payload + usize::from(u16_at(frame, layout.payload + 2)));
    let header_len = usize::from(frame[at + 12] >> 4) * 4;
    if header_len < 20 || at + header_len > end {
        return Err(FrameError::Malformed { layer: "TCP", what: "the header length is not that of a header" });
    }
    let u32_at = |at: usize| u32::from(u16_at(frame, at)) << 16 | u32::from(u16_at(frame, at + 2));
    Ok(Some(Segment {
        flags: frame[at + 13],
        seq: u32_at(at + 4),
        ack: u32_at(at + 8),
        window: u16_at(frame, at + 14),
        payload: &frame[at + header_len..end],
    }))
}

/// Returns a frame with a segment; of each pair the source comes first. Data beyond the capacity of
/// IPv4 is cut.
pub fn tcp(macs: [MacAddr; 2], addresses: [Ipv4Addr; 2], ports: [u16; 2], segment: &Segment<'_>) -> Vec<u8> {
    let headers = Headers::ipv4(macs, addresses, protocol::TCP, ports);
    let payload = &segment.payload[..segment.payload.len().min(PAYLOAD_MAX)];
    ipv4_with(&headers, 20 + payload.len(), |bytes| {
        bytes[0..2].copy_from_slice(&ports[0].to_be_bytes());
        bytes[2..4].copy_from_slice(&ports[1].to_be_bytes());
        bytes[4..8].copy_from_slice(&segment.seq.to_be_bytes());
        bytes[8..12].copy_from_slice(&segment.ack.to_be_bytes());
        (bytes[12], bytes[13]) = (5 << 4, segment.flags);
        bytes[14..16].copy_from_slice(&segment.window.to_be_bytes());
        bytes[20..].copy_from_slice(payload);
        let sum = transport_checksum(&headers, bytes);
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    })
}

/// Returns the reset with which a host without a connection replies (RFC 9293, 3.10.7.1). Returns
/// `None` for a reset, which is never answered, and for frames other than TCP.
pub fn tcp_reset(frame: &[u8]) -> Option<Vec<u8>> {
    let headers = Layout::of(frame).ok()?.headers;
    let got = segment(frame).ok()??;
    if got.has(flags::RST) {
        return None;
    }
    let reset = match got.has(flags::ACK) {
        true => Segment { flags: flags::RST, seq: got.ack, ack: 0, window: 0, payload: &[] },
        false => {
            let ack = got.seq.wrapping_add(got.sequence_len());
            Segment { flags: flags::RST | flags::ACK, seq: 0, ack, window: 0, payload: &[] }
        }
    };
    let macs = [headers.eth_dst, headers.eth_src];
    Some(tcp(macs, [headers.ipv4_dst, headers.ipv4_src], [headers.l4_dst, headers.l4_src], &reset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{build, checksum, parse};

    const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
    const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

    fn made(flags: u8, seq: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
        tcp(MACS, ADDRESSES, [5000, 80], &Segment { flags, seq, ack, window: 1000, payload })
    }

    /// Asserts that the checksum of the segment with its pseudo header is zero.
    fn assert_sums(frame: &[u8]) {
        let headers = parse(frame).unwrap();
        assert_eq!(checksum(&frame[14..34]), 0);
        assert_eq!(transport_checksum(&headers, &frame[34..]), 0);
    }

    #[test]
    fn segments_survive_the_way_to_bytes_and_back() {
        for (payload, flags) in [(&b""[..], flags::SYN), (b"GET / HTTP/1.0\r\n\r\n", flags::PSH | flags::ACK)] {
            let frame = made(flags, 0x0102_0304, 0xfffe_fdfc, payload);
            assert_sums(&frame);
            let got = segment(&frame).unwrap().unwrap();
            assert_eq!(got, Segment { flags, seq: 0x0102_0304, ack: 0xfffe_fdfc, window: 1000, payload });
            let mut padded = frame.clone();
            padded.resize(frame.len().max(60), 0xee);
            assert_eq!(segment(&padded).unwrap().unwrap().payload, payload, "padding of Ethernet is no data");
        }
    }

    #[test]
    fn a_reset_is_what_the_standard_says() {
        let syn = tcp_reset(&made(flags::SYN, u32::MAX, 0, b"")).unwrap();
        assert_sums(&syn);
        let got = segment(&syn).unwrap().unwrap();
        assert_eq!((got.flags, got.seq, got.ack), (flags::RST | flags::ACK, 0, 0));
        let headers = parse(&syn).unwrap();
        assert_eq!((headers.eth_src, headers.eth_dst), (MACS[1], MACS[0]));
        assert_eq!((headers.ipv4_src, headers.ipv4_dst), (ADDRESSES[1], ADDRESSES[0]));
        assert_eq!((headers.l4_src, headers.l4_dst), (80, 5000));
        let data = tcp_reset(&made(flags::ACK, 7, 99, b"xyz")).unwrap();
        let got = segment(&data).unwrap().unwrap();
        assert_eq!((got.flags, got.seq, got.payload.len()), (flags::RST, 99, 0));
        assert_eq!(tcp_reset(&made(flags::RST, 7, 99, b"")), None);
        let udp = build(&Headers::ipv4(MACS, ADDRESSES, protocol::UDP, [1, 2]), 10);
        assert_eq!((tcp_reset(&udp), segment(&udp)), (None, Ok(None)));
    }

    #[test]
    fn a_header_that_lies_about_its_length_is_refused() {
        let frame = made(flags::ACK, 1, 1, b"");
        for words in [0, 4, 6, 15] {
            let mut frame = frame.clone();
            frame[46] = words << 4;
            assert!(segment(&frame).is_err() && tcp_reset(&frame).is_none(), "{words}");
        }
    }
}
