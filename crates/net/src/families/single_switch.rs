//! Single switch: all hosts behind one switch.

use super::{Size, above_zero, at_least, half_of};
use crate::spec::{Family, Param, SpecError, Values};
use crate::topology::{Topology, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

const NAME: &str = "single-switch";

/// Parameters of a single switch. The default has 4 hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SingleSwitch {
    pub hosts: u32,
    pub rate: Bandwidth,
    pub delay: Time,
}

impl Default for SingleSwitch {
    fn default() -> SingleSwitch {
        FAMILY.defaults(from_values)
    }
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

    /// Builds the topology: switch `s0`, hosts `h0` and up, port i to host i.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        at_least(NAME, "hosts", self.hosts, 1)?;
        above_zero(NAME, "rate", self.rate)?;
        self.size().check(NAME)?;
        let mut b = TopologyBuilder::new(format!("{NAME}:hosts={}", self.hosts));
        let switch = b.switch("s0", 1, None);
        for i in 0..self.hosts {
            let host = b.host(format!("h{i}"), 0, None);
            b.connect(host, switch, self.rate, self.delay);
        }
        b.build()
    }
}

pub const FAMILY: Family = Family {
    name: NAME,
    title: "Single switch with all hosts behind it",
    source: "generic; the server bench of founding document 004",
    params: &[Param::new("hosts", "4", "hosts", "number of hosts"), Param::RATE, Param::DELAY],
    build: |values| Ok(from_values(values)?.build()?),
};

fn from_values(values: &Values) -> Result<SingleSwitch, SpecError> {
    Ok(SingleSwitch { hosts: values.count("hosts")?, rate: values.rate("rate")?, delay: values.time("delay")? })
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
