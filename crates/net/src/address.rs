//! Addresses and port numbers of simulated and emulated networks, and the five-tuple of a flow.

use core::net::Ipv4Addr;

use crate::topology::{HostIx, LinkIx, NodeIx, Topology};

/// The five-tuple of a flow in its direction of travel, ordered by its fields.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs, reason = "the fields have their usual names")]
pub struct FiveTuple {
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    /// IP protocol: 6 for TCP, 17 for UDP.
    pub protocol: u8,
    pub src_port: u16,
    pub dst_port: u16,
}

impl FiveTuple {
    /// Returns the five-tuple of the opposite direction.
    pub const fn reverse(self) -> FiveTuple {
        FiveTuple { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..self }
    }

    /// Returns two numbers that order like the tuples. Flow maps compare about five tuples per
    /// level; comparing field by field takes several times as long.
    #[inline]
    fn rank(&self) -> (u64, u64) {
        let ports = u64::from(self.src_port) << 16 | u64::from(self.dst_port);
        let addresses = u64::from(self.src.to_bits()) << 32 | u64::from(self.dst.to_bits());
        (addresses, u64::from(self.protocol) << 32 | ports)
    }
}

impl Ord for FiveTuple {
    #[inline]
    fn cmp(&self, other: &FiveTuple) -> core::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for FiveTuple {
    #[inline]
    fn partial_cmp(&self, other: &FiveTuple) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the IPv4 address of a host: `10.0.0.1` for the first, counting up through `10.0.0.0/8`.
pub fn host_ipv4(host: HostIx) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + host.0)
}

/// Returns the host of an address given by [`host_ipv4`]; `None` for other addresses.
pub fn host_of_ipv4(address: Ipv4Addr, host_count: usize) -> Option<HostIx> {
    let number = u32::from(address).checked_sub(0x0a00_0001)?;
    ((number as usize) < host_count).then_some(HostIx(number))
}

/// Returns the Ethernet address of a host: locally administered, counting up.
pub fn host_mac(host: HostIx) -> [u8; 6] {
    let [a, b, c, d] = (host.0 + 1).to_be_bytes();
    [0x02, 0, a, b, c, d]
}

/// Returns the datapath id of a switch: its node number plus one.
pub fn datapath_of(node: NodeIx) -> u64 {
    u64::from(node.0) + 1
}

/// Returns the port of a link's sending end: its position among the node's links, plus one.
pub fn port_of(topology: &Topology, link: LinkIx) -> u32 {
    let from = topology.link(link).from;
    let position = topology.out_links(from).iter().position(|out| *out == link);
    position.expect("a link is among those leaving its sending end") as u32 + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tuples() -> impl Strategy<Value = FiveTuple> {
        // Few values each, so that the first fields often agree and later ones decide.
        let address = || prop_oneof![Just(0u32), Just(1), Just(0x0100_0000), any::<u32>()].prop_map(Ipv4Addr::from);
        let port = || prop_oneof![Just(0u16), Just(0x0100), any::<u16>()];
        let fields = (address(), address(), any::<u8>(), port(), port());
        fields.prop_map(|(src, dst, protocol, src_port, dst_port)| FiveTuple { src, dst, protocol, src_port, dst_port })
    }

    proptest! {
        #[test]
        fn tuple_order_equals_order_of_fields(a in tuples(), b in tuples()) {
            let fields = |t: FiveTuple| (t.src, t.dst, t.protocol, t.src_port, t.dst_port);
            prop_assert_eq!(a.cmp(&b), fields(a).cmp(&fields(b)));
            prop_assert_eq!(a.cmp(&b) == core::cmp::Ordering::Equal, a == b);
        }
    }
}
