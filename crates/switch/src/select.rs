//! The hash of select groups.

use openflow::Headers;
use openflow::headers::{ether, protocol};

use crate::key::mac_bits;
use crate::{HashFields, Select};

/// Returns a number in `0..total`, equal for all packets of a flow; `None` if `total` is zero.
#[inline]
pub fn region(select: &Select, headers: &Headers, total: u64) -> Option<u64> {
    if total == 0 {
        return None;
    }
    // Multiplication by the upper bits is as uniform as a remainder and needs no division.
    Some(((u128::from(hash(select, headers)) * u128::from(total)) >> 64) as u64)
}

fn hash(select: &Select, headers: &Headers) -> u64 {
    if headers.eth_type != ether::IPV4 {
        let first = mix(select.seed ^ mac_bits(headers.eth_src) ^ u64::from(headers.eth_type) << 48);
        return mix(first ^ mac_bits(headers.eth_dst));
    }
    let are_ports_hashed =
        matches!((headers.ip_proto, select.fields), (protocol::TCP, _) | (protocol::UDP, HashFields::FiveTuple));
    let ports = if are_ports_hashed { u64::from(headers.l4_src) << 16 | u64::from(headers.l4_dst) } else { 0 };
    let addresses = u64::from(u32::from(headers.ipv4_src)) << 32 | u64::from(u32::from(headers.ipv4_dst));
    mix(mix(select.seed ^ addresses) ^ (u64::from(headers.ip_proto) << 32 | ports))
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): all bits mix.
fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
