//! Dumbbell: n senders and n receivers on either side of one bottleneck link.

use super::{Size, at_least, product};
use crate::topology::{TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Senders are hosts 0 .. n, receivers n .. 2n; receiver n+i is sender i's partner.
    Dumbbell: "dumbbell",
    title: "Dumbbell: senders and receivers around one bottleneck",
    source: "generic; the usual single-bottleneck test of transports",
    n: u32 = ("2", "senders, and as many receivers"),
    host_rate: Bandwidth = ("10Gbps", "rate of host links"),
    bottleneck_rate: Bandwidth = ("10Gbps", "rate of the link in the middle"),
    host_delay: Time = ("1us", "propagation delay of host links"),
    bottleneck_delay: Time = ("1us", "propagation delay of the link in the middle"),
}

impl Dumbbell {
    /// Returns 2n hosts, 2 switches, 2n + 1 cables.
    pub fn size(&self) -> Size {
        let hosts = product([2, self.n.into()]);
        Size { hosts, switches: 2, cables: hosts.saturating_add(1) }
    }
    /// Returns the capacity between two halves of the hosts: the bottleneck, or n host links.
    pub fn bisection(&self) -> Bandwidth {
        let hosts = product([self.n.into(), self.host_rate.as_bps()]);
        self.bottleneck_rate.min(Bandwidth::from_bps(hosts))
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "n", self.n, 1)?;
        self.size().check(NAME)
    }

    /// Adds switches `left` and `right`, hosts `h0` and up; port 0 is the bottleneck.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let sides = [b.switch("left", 1, None), b.switch("right", 1, None)];
        b.connect(sides[0], sides[1], self.bottleneck_rate, self.bottleneck_delay);
        for (rack, side) in (0..).zip(sides) {
            b.rack(side, rack, None, self.n, (self.host_rate, self.host_delay));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::paths;
    use super::*;

    #[test]
    fn sides_are_connected_by_one_path() {
        let net = Dumbbell::default();
        let topology = net.build().unwrap();
        assert_eq!(Size::of(&topology), net.size());
        assert_eq!(paths(&topology, "left", "right"), (1, 1));
    }
}
