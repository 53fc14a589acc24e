//! Ethernet frames: parsing and rewriting of headers, and the packets that a controller constructs.
//!
//! The bytes do not include the frame check sequence. Of stacked VLAN tags only the outermost one
//! is visible. Only the headers must be complete: frames truncated by a packet-in can be parsed and
//! rewritten.

mod build;
mod icmp;
mod layout;
mod lldp;
mod rewrite;
mod tcp;
#[cfg(test)]
mod tests;

pub use build::{arp_reply, arp_request, build};
pub use icmp::{Echo, Unreachable, echo, icmp_echo, icmp_type, icmp_unreachable};
pub use lldp::{Lldp, ORGANISATION};
pub use rewrite::rewrite;
pub use tcp::{Segment, flags, segment, tcp, tcp_reset};

use crate::headers::Headers;

/// A malformed frame; `layer` is the layer of the faulty header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what they are")]
pub enum FrameError {
    #[error("the frame ends after {len} bytes inside its {layer} header")]
    Truncated { layer: &'static str, len: usize },
    #[error("{layer}: {what}")]
    Malformed { layer: &'static str, what: &'static str },
}

/// Returns the headers of a frame.
///
/// An 802.3 length instead of an EtherType is read as 0x05ff (specification). IPv4 fragments other
/// than the first have zero ports. ARP for anything but IPv4 over Ethernet has its operation and no
/// addresses.
///
/// # Errors
/// [`FrameError`] if the frame ends inside a header it announces, or a header contradicts itself.
pub fn parse(frame: &[u8]) -> Result<Headers, FrameError> {
    layout::Layout::of(frame).map(|layout| layout.headers)
}

/// Returns the Internet checksum (RFC 1071) of `bytes`: the complement of their one's complement
/// sum in 16-bit words.
pub fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum_of(bytes))
}

/// Returns the sum of 16-bit words; an odd last byte is the upper half of a word.
fn sum_of(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0)));
    words.sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
