//! Single switch: all hosts behind one switch.

use super::{Size, at_least, half_of};
use crate::topology::{TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a single switch. The default has 4 hosts.
    SingleSwitch: "single-switch",
    title: "Single switch with all hosts behind it",
    source: "generic; the server bench of founding document 004",
    hosts: u32 = ("4", "number of hosts"),
    rate: Bandwidth = ("10Gbps", "rate of every link"),
    delay: Time = ("1us", "propagation delay of every link"),
}

impl SingleSwitch {
    /// Returns one switch, and one cable per host.
    pub fn size(&self) -> Size {
        Size { hosts: self.hosts.into(), switches: 1, cables: self.hosts.into() }
    }
    /// Returns the capacity between two halves of the hosts: the rate of the smaller half.
    pub fn bisection(&self) -> Bandwidth {
        half_of(u64::from(self.hosts / 2 * 2), self.rate)
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "hosts", self.hosts, 1)?;
        self.size().check(NAME)
    }

    /// Adds switch `s0`, hosts `h0` and up, port i to host i.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let switch = b.switch("s0", 1, None);
        b.rack(switch, 0, None, self.hosts, (self.rate, self.delay));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_agrees_with_the_build() {
        let net = SingleSwitch::default();
        assert_eq!(Size::of(&net.build().unwrap()), net.size());
    }
}
