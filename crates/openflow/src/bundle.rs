//! Open vSwitch's `bundle` action: one of several ports, chosen by a hash of the flow with a basis
//! per switch.
//!
//! In OpenFlow 1.3 the switch chooses the hash of select groups. Open vSwitch hashes alike on every
//! bridge and omits UDP ports. The extension (`NXAST_BUNDLE`, ovs-actions(7)) has a basis and
//! hashes addresses, protocol and the ports of TCP, UDP and SCTP (`symmetric_l3l4+udp`). It skips
//! dead ports by highest random weight (Thaler and Ravishankar 1998): flows of the remaining ports
//! do not move.

use crate::ids::PortNo;

/// A choice among several ports by a hash of the flow. Only live members count; a port listed twice
/// gets twice the flows. The action is only valid in lists of actions to apply. Switches ignore it
/// in action sets, and therefore in groups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bundle {
    /// The basis of the hash: hashes with different bases are independent.
    pub basis: u16,
    /// Member ports, then zeros.
    members: [u16; Bundle::MEMBERS_MAX],
}

impl Bundle {
    /// Maximum number of members. Open vSwitch accepts 2048; the fixed size keeps actions `Copy`.
    pub const MEMBERS_MAX: usize = 16;
    /// Largest physical port number of OpenFlow 1.0, whose 16-bit numbers the extension uses.
    const PORT_MAX: u32 = 0xfeff;

    /// Creates a bundle of these ports. Returns `None` for no ports, more than
    /// [`Bundle::MEMBERS_MAX`], or a port that is not a physical port of 16 bits.
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

    /// Returns the member ports, with repetitions.
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
