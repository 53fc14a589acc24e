//! Packets that carry their number, so that they are identified after a visit to the controller.

use net::FiveTuple;
use openflow::frame::{Echo, Segment, build, echo, flags, icmp_echo, tcp};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr};

const MARK: &[u8; 8] = b"anabranc";
const ECHO_ID: u16 = 0x6d6b;

/// Returns a request that opens a connection, or a response to it.
pub fn frame(macs: [MacAddr; 2], tuple: &FiveTuple, is_answer: bool, number: u32) -> Vec<u8> {
    let flags = if is_answer { flags::SYN | flags::ACK } else { flags::SYN };
    frame_with(macs, tuple, (flags, 7), number)
}

/// Returns a packet with flags and a sequence number, if it is TCP. A response has the ACK flag
/// in addition.
pub fn frame_with(macs: [MacAddr; 2], tuple: &FiveTuple, (flags, seq): (u8, u32), number: u32) -> Vec<u8> {
    let (addresses, ports) = ([tuple.src, tuple.dst], [tuple.src_port, tuple.dst_port]);
    let payload = [&MARK[..], &number.to_be_bytes()].concat();
    match tuple.protocol {
        protocol::ICMP => {
            let is_reply = flags == flags::SYN | flags::ACK;
            let (id, seq) = (ECHO_ID, u16::try_from(number).expect("few packets"));
            icmp_echo(macs, addresses, Echo { is_reply, id, seq })
        }
        protocol::TCP => tcp(macs, addresses, ports, &Segment { flags, seq, ack: 0, window: 1000, payload: &payload }),
        _ => {
            let mut frame = build(&Headers::ipv4(macs, addresses, tuple.protocol, ports), payload.len());
            let at = frame.len() - payload.len();
            frame[at..].copy_from_slice(&payload);
            frame[40..42].fill(0); // No checksum.
            frame
        }
    }
}

/// Returns a packet of an established TCP connection.
pub fn later(macs: [MacAddr; 2], tuple: &FiveTuple, number: u32) -> Vec<u8> {
    frame_with(macs, tuple, (flags::ACK, 9), number)
}

pub fn number(bytes: &[u8]) -> Option<u32> {
    if let Some(echo) = echo(bytes).filter(|echo| echo.id == ECHO_ID) {
        return Some(u32::from(echo.seq));
    }
    let (rest, number) = bytes.split_last_chunk::<4>()?;
    rest.ends_with(MARK).then(|| u32::from_be_bytes(*number))
}
