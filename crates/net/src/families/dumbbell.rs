//! Dumbbell: n senders and n receivers on either side of one bottleneck link.

use super::{Size, above_zero, at_least, product};
use crate::spec::{Family, Param, SpecError, Values};
use crate::topology::{Topology, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

const NAME: &str = "dumbbell";

/// Senders are hosts 0 .. n, receivers n .. 2n; receiver n+i is sender i's partner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dumbbell {
    pub n: u32,
    pub host_rate: Bandwidth,
    pub bottleneck_rate: Bandwidth,
    pub host_delay: Time,
    pub bottleneck_delay: Time,
}

impl Default for Dumbbell {
    fn default() -> Dumbbell {
        FAMILY.defaults(from_values)
    }
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

    /// Builds switches `left` and `right`, hosts `h0` and up; port 0 is the bottleneck.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        at_least(NAME, "n", self.n, 1)?;
        above_zero(NAME, "host_rate", self.host_rate)?;
        above_zero(NAME, "bottleneck_rate", self.bottleneck_rate)?;
        self.size().check(NAME)?;
        let mut b = TopologyBuilder::new(format!("{NAME}:n={}", self.n));
        let sides = [b.switch("left", 1, None), b.switch("right", 1, None)];
        b.connect(sides[0], sides[1], self.bottleneck_rate, self.bottleneck_delay);
        for (rack, side) in sides.into_iter().enumerate() {
            for i in 0..self.n {
                let number = rack as u32 * self.n + i;
                let host = b.host(format!("h{number}"), rack as u32, None);
                b.connect(host, side, self.host_rate, self.host_delay);
            }
        }
        b.build()
    }
}

pub const FAMILY: Family = Family {
    name: NAME,
    title: "Dumbbell: senders and receivers around one bottleneck",
    source: "generic; the usual single-bottleneck test of transports",
    params: &[
        Param::new("n", "2", "hosts", "senders, and as many receivers"),
        Param::HOST_RATE,
        Param::new("bottleneck_rate", "10Gbps", "bandwidth", "rate of the link in the middle"),
        Param::HOST_DELAY,
        Param::new("bottleneck_delay", "1us", "time", "propagation delay of the link in the middle"),
    ],
    build: |values| Ok(from_values(values)?.build()?),
};

fn from_values(values: &Values) -> Result<Dumbbell, SpecError> {
    Ok(Dumbbell {
        n: values.count("n")?,
        host_rate: values.rate("host_rate")?,
        bottleneck_rate: values.rate("bottleneck_rate")?,
        host_delay: values.time("host_delay")?,
        bottleneck_delay: values.time("bottleneck_delay")?,
    })
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
