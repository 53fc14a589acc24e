//! Pseudo-MAC addresses (PortLand, SIGCOMM 2009, section 3.2): pod 16 bits, position 8, port 8,
//! number of the virtual machine 16.

use openflow::{MacAddr, Masked};

/// Pod number 0 on the wire. Its upper byte makes every pseudo-MAC a unicast address that is locally
/// administered, so it never equals the address of an interface card.
const POD_BASE: u16 = 0x0a00;

/// Number of pods: those with the upper byte of `POD_BASE`.
pub const PODS_MAX: usize = 256;
/// Number of edge switches in a pod.
pub const POSITIONS_MAX: usize = 256;
/// Highest port of an edge switch that can have a host.
pub const PORT_MAX: u32 = 255;

/// A pseudo-MAC address, by its parts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pmac {
    /// Number of the pod, from 0.
    pub pod: u8,
    /// Number of the edge switch in its pod, from 0.
    pub position: u8,
    /// Port of the edge switch.
    pub port: u8,
    /// Number of the host at the port, from 1.
    pub vmid: u16,
}

impl Pmac {
    pub fn encode(self) -> MacAddr {
        let [pod_upper, pod_lower] = (POD_BASE + u16::from(self.pod)).to_be_bytes();
        let [upper, lower] = self.vmid.to_be_bytes();
        MacAddr([pod_upper, pod_lower, self.position, self.port, upper, lower])
    }

    /// Returns the parts of an address; `None` if it is not a pseudo-MAC address.
    pub fn decode(address: MacAddr) -> Option<Pmac> {
        let [pod_upper, pod, position, port, upper, lower] = address.0;
        let vmid = u16::from_be_bytes([upper, lower]);
        let is_pmac = [pod_upper, 0] == POD_BASE.to_be_bytes() && port > 0 && vmid > 0;
        is_pmac.then_some(Pmac { pod, position, port, vmid })
    }
}

/// Hosts whose addresses begin alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Prefix {
    Pod(u8),
    /// An edge switch, by pod and position.
    Edge(u8, u8),
}

impl Prefix {
    /// Returns the prefix as a match of Ethernet addresses.
    pub fn to_masked(self) -> Masked<MacAddr> {
        let (pod, position, mask) = match self {
            Prefix::Pod(pod) => (pod, 0, [0xff, 0xff, 0, 0, 0, 0]),
            Prefix::Edge(pod, position) => (pod, position, [0xff, 0xff, 0xff, 0, 0, 0]),
        };
        let [upper, lower] = (POD_BASE + u16::from(pod)).to_be_bytes();
        Masked { value: MacAddr([upper, lower, position, 0, 0, 0]), mask: MacAddr(mask) }
    }

    /// Returns the prefix of a match of Ethernet addresses; `None` for other matches.
    pub fn of_masked(masked: Masked<MacAddr>) -> Option<Prefix> {
        let [_, pod, position, ..] = masked.value.0;
        [Prefix::Pod(pod), Prefix::Edge(pod, position)].into_iter().find(|prefix| prefix.to_masked() == masked)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn address_has_the_parts_at_their_places() {
        let address = Pmac { pod: 2, position: 1, port: 3, vmid: 0x0104 }.encode();
        assert_eq!(address, MacAddr([0x0a, 0x02, 0x01, 0x03, 0x01, 0x04]));
        assert!(!address.is_multicast() && address.0[0] & 2 != 0, "unicast, locally administered");
        for other in [[0x02, 0, 0, 1, 0, 1], [0x0a, 0, 0, 0, 0, 1], [0x0a, 0, 0, 1, 0, 0]] {
            assert_eq!(Pmac::decode(MacAddr(other)), None, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn decoding_inverts_encoding(pod: u8, position: u8, port in 1u8.., vmid in 1u16..) {
            let pmac = Pmac { pod, position, port, vmid };
            prop_assert_eq!(Pmac::decode(pmac.encode()), Some(pmac));
            for prefix in [Prefix::Pod(pod), Prefix::Edge(pod, position)] {
                let masked = prefix.to_masked();
                prop_assert_eq!(Prefix::of_masked(masked), Some(prefix));
                let meant = pmac.encode().0.iter().zip(masked.mask.0).map(|(byte, mask)| byte & mask).collect::<Vec<_>>();
                prop_assert_eq!(&meant[..], &masked.value.0[..]);
            }
        }

        #[test]
        fn every_address_decodes_to_itself_or_not_at_all(bytes: [u8; 6]) {
            let address = MacAddr(bytes);
            prop_assert!(Pmac::decode(address).is_none_or(|pmac| pmac.encode() == address));
        }
    }
}
