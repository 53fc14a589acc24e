//! Discovery packets: LLDP frames with which controllers find links (IEEE 802.1AB).

use super::build::{ETHERNET_LEN, ethernet};
use super::layout::Layout;
use super::{FrameError, u16_at};
use crate::address::MacAddr;
use crate::headers::{Headers, ether};
use crate::ids::{DatapathId, PortNo};

/// Organisation of the TLV with the nonce: a locally administered identifier.
pub const ORGANISATION: [u8; 3] = [0x02, 0xab, 0x0a];
const NONCE_SUBTYPE: u8 = 1;
/// Subtype "locally assigned" of chassis and port.
const LOCAL: u8 = 7;

const END: u16 = 0;
const CHASSIS: u16 = 1;
const PORT: u16 = 2;
const TTL: u16 = 3;
const ORGANISATIONAL: u16 = 127;

/// The content of a discovery packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lldp {
    /// The switch that sent it.
    pub datapath: DatapathId,
    /// The port that sent it.
    pub port: PortNo,
    /// Time to live in s.
    pub ttl_s: u16,
    /// The send time, or a secret, which the sender checks on return.
    pub nonce: u64,
}

impl Lldp {
    /// Returns the frame, sent from `eth_src`.
    pub fn build(&self, eth_src: MacAddr) -> Vec<u8> {
        let headers = Headers { eth_dst: MacAddr::LLDP, eth_src, eth_type: ether::LLDP, ..Headers::default() };
        let mut frame = ethernet(&headers, 64);
        put(&mut frame, CHASSIS, &[&[LOCAL], &self.datapath.0.to_be_bytes()]);
        put(&mut frame, PORT, &[&[LOCAL], &self.port.0.to_be_bytes()]);
        put(&mut frame, TTL, &[&self.ttl_s.to_be_bytes()]);
        put(&mut frame, ORGANISATIONAL, &[&ORGANISATION, &[NONCE_SUBTYPE], &self.nonce.to_be_bytes()]);
        put(&mut frame, END, &[]);
        debug_assert!(frame.len() >= ETHERNET_LEN);
        frame
    }

    /// Reads a frame made by [`Lldp::build`]; unknown TLVs are skipped.
    ///
    /// # Errors
    /// [`FrameError`] if the frame is not a discovery packet, is truncated, or comes from another
    /// system (other types of chassis or port, no nonce).
    pub fn parse(frame: &[u8]) -> Result<Lldp, FrameError> {
        let layout = Layout::of(frame)?;
        if layout.headers.eth_type != ether::LLDP {
            return Err(malformed("the EtherType is another one"));
        }
        let mut rest = &frame[layout.payload..];
        let (mut chassis, mut port, mut ttl, mut nonce) = (None, None, None, None);
        loop {
            let truncated = FrameError::Truncated { layer: "LLDP", len: frame.len() };
            let (head, after) = rest.split_at_checked(2).ok_or(truncated)?;
            let head = u16_at(head, 0);
            let (value, after) = after.split_at_checked(usize::from(head & 0x01ff)).ok_or(truncated)?;
            rest = after;
            match head >> 9 {
                END => break,
                CHASSIS => chassis = value.strip_prefix(&[LOCAL]).and_then(|id| id.try_into().ok()),
                PORT => port = value.strip_prefix(&[LOCAL]).and_then(|id| id.try_into().ok()),
                TTL => ttl = value.try_into().ok(),
                ORGANISATIONAL => {
                    let ours = value.strip_prefix(&ORGANISATION).and_then(|value| value.strip_prefix(&[NONCE_SUBTYPE]));
                    nonce = ours.and_then(|value| value.try_into().ok()).or(nonce);
                }
                _ => {}
            }
        }
        Ok(Lldp {
            datapath: DatapathId(u64::from_be_bytes(chassis.ok_or(malformed("no chassis that is a datapath id"))?)),
            port: PortNo(u32::from_be_bytes(port.ok_or(malformed("no port that is a port number"))?)),
            ttl_s: u16::from_be_bytes(ttl.ok_or(malformed("no time to live"))?),
            nonce: u64::from_be_bytes(nonce.ok_or(malformed("no nonce"))?),
        })
    }
}

const fn malformed(what: &'static str) -> FrameError {
    FrameError::Malformed { layer: "LLDP", what }
}

fn put(frame: &mut Vec<u8>, kind: u16, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    frame.extend_from_slice(&(kind << 9 | len as u16).to_be_bytes());
    parts.iter().for_each(|part| frame.extend_from_slice(part));
}
