//! The hash of a switch: a good 64-bit mixer, and the flow keys it is applied to.

use net::{FiveTuple, HostIx};

/// Mixes 64 bits bijectively (finaliser of SplitMix64, Steele et al. 2014).
#[inline]
pub const fn mix(mut z: u64) -> u64 {
    z ^= z >> 30;
    z = z.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^= z >> 27;
    z = z.wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Mixes a second value into a hash.
#[inline]
pub const fn combine(hash: u64, value: u64) -> u64 {
    mix(hash ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns the hash of a five-tuple as a switch reads it (mechanisms.md §1.1): addresses, protocol
/// and ports. The two directions of a connection have different hashes, as on real switches.
pub fn flow_key(src: HostIx, dst: HostIx, protocol: u8, src_port: u16, dst_port: u16) -> u64 {
    key(src.0, dst.0, protocol, src_port, dst_port)
}

/// Returns the hash of a five-tuple in its direction of travel; it is the same in every instance.
pub fn tuple_key(tuple: &FiveTuple) -> u64 {
    key(tuple.src.to_bits(), tuple.dst.to_bits(), tuple.protocol, tuple.src_port, tuple.dst_port)
}

fn key(src: u32, dst: u32, protocol: u8, src_port: u16, dst_port: u16) -> u64 {
    let addresses = u64::from(src) << 32 | u64::from(dst);
    let rest = u64::from(protocol) << 32 | u64::from(src_port) << 16 | u64::from(dst_port);
    combine(mix(addresses.wrapping_add(0x9e37_79b9_7f4a_7c15)), rest)
}

/// Reduces a hash to 0 .. `n` by its high bits (multiply-shift). `n` must not be 0.
#[inline]
pub const fn reduce(hash: u64, n: usize) -> usize {
    ((hash as u128 * n as u128) >> 64) as usize
}

/// Returns the position of the weight in which `point` lies if weights are laid end to end from 0 on;
/// `None` for a point beyond their sum.
#[inline]
pub fn position_of_point(mut point: u64, weights: impl IntoIterator<Item = u64>) -> Option<usize> {
    weights.into_iter().position(|weight| match point.checked_sub(weight) {
        Some(rest) => {
            point = rest;
            false
        }
        None => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_and_ports_hash_differently() {
        let (a, b) = (HostIx(1), HostIx(2));
        let keys = [flow_key(a, b, 6, 1000, 80), flow_key(b, a, 6, 80, 1000), flow_key(a, b, 6, 1001, 80)];
        assert!(keys[0] != keys[1] && keys[0] != keys[2]);
    }

    #[test]
    fn reduction_is_even() {
        let mut hits = [0u32; 6];
        for i in 0..60_000u64 {
            hits[reduce(mix(i), 6)] += 1;
        }
        assert!(hits.iter().all(|n| (9_500..10_500).contains(n)), "{hits:?}");
    }
}
