//! Open vSwitch's `bundle` action: one of several ports, chosen by a hash of the flow with a basis of the switch's own.
//!
//! Select groups of OpenFlow 1.3 leave the hash to the switch, and Open vSwitch hashes alike on every bridge and leaves
//! the ports of UDP out. The extension (`NXAST_BUNDLE`, ovs-actions(7)) has a basis, hashes addresses, protocol and the
//! ports of TCP, UDP and SCTP (`symmetric_l3l4+udp`), and passes over ports that are down, by highest random weight
//! (Thaler and Ravishankar 1998): flows of the ports that stay do not move.

use crate::ids::PortNo;

/// One of several ports, by a hash of the flow. The ports are those alive among its members; one that is there twice gets
/// twice the flows. Only in lists of actions to apply: in action sets, and so in groups, switches ignore it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bundle {
    /// Hashes with other bases are independent of this one's.
    pub basis: u16,
    /// Ports, then zeros.
    members: [u16; Bundle::MEMBERS_MAX],
}

impl Bundle {
    /// Members it can have here. Open vSwitch takes 2048; a fixed size keeps actions values that are copied.
    pub const MEMBERS_MAX: usize = 16;
    /// Greatest physical port of OpenFlow 1.0, whose 16-bit numbers the extension has.
    const PORT_MAX: u32 = 0xfeff;

    /// Among these ports; `None` if there are none, more than [`Bundle::MEMBERS_MAX`], or one that is not a physical
    /// port of 16 bits.
    pub fn new(basis: u16, ports: impl IntoIterator<Item = PortNo>) -> Option<Bundle> {
        let mut members = [0; Bundle::MEMBERS_MAX];
        let mut count = 0;
        for port in ports {
            let is_good = (1..=Bundle::PORT_MAX).contains(&port.0);
            *members.get_mut(count).filter(|_| is_good)? = port.0 as u16;
            count += 1;
        }
        (count > 0).then_some(Bundle { basis, members })
    }

    /// Its ports, as often as they are members.
    pub fn ports(&self) -> impl Iterator<Item = PortNo> + '_ {
        self.members.iter().take_while(|port| **port > 0).map(|port| PortNo(u32::from(*port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_physical_ports_and_not_too_many() {
        let ports = |ports: &[u32]| Bundle::new(7, ports.iter().map(|port| PortNo(*port)));
        let some = ports(&[3, 4, 4]).expect("three members");
        assert_eq!(some.ports().collect::<Vec<_>>(), [PortNo(3), PortNo(4), PortNo(4)]);
        assert!(ports(&[1; 16]).is_some_and(|full| full.ports().count() == 16));
        for bad in [&[][..], &[1; 17], &[0], &[1, 0xff00], &[PortNo::CONTROLLER.0]] {
            assert_eq!(ports(bad), None, "{bad:?}");
        }
    }
}
