//! Leaf-spine(leaves, spines, hosts per leaf, parallel links): two tiers, fully linked.

use super::{Size, above_zero, at_least, half_of, product};
use crate::spec::{Family, Param, SpecError, Values};
use crate::topology::{NodeIx, Topology, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

const NAME: &str = "leaf-spine";

/// Parameters of a leaf-spine network. The defaults are the 8x8 network with 128 hosts of the CONGA
/// and Hermes simulations: 10 Gb/s everywhere, so 2:1 oversubscribed at the leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafSpine {
    pub leaves: u32,
    pub spines: u32,
    pub hosts_per_leaf: u32,
    pub parallel: u32,
    pub host_rate: Bandwidth,
    pub fabric_rate: Bandwidth,
    pub host_delay: Time,
    pub fabric_delay: Time,
}

impl Default for LeafSpine {
    fn default() -> LeafSpine {
        FAMILY.defaults(from_values)
    }
}

impl LeafSpine {
    /// Returns L*H hosts, L + S switches, L*S*m + L*H cables.
    pub fn size(&self) -> Size {
        let hosts = product([self.leaves.into(), self.hosts_per_leaf.into()]);
        Size {
            hosts,
            switches: u64::from(self.leaves) + u64::from(self.spines),
            cables: hosts.saturating_add(self.fabric_cables()),
        }
    }
    /// Returns the number of uplinks of a leaf, S*m: its choices for another leaf.
    pub fn uplinks(&self) -> u64 {
        product([self.spines.into(), self.parallel.into()])
    }
    /// Returns the number of equal-cost paths between two leaves: S*m^2, because a spine in turn
    /// chooses among m links down. At most S*m of them are disjoint.
    pub fn paths_between_leaves(&self) -> u64 {
        self.uplinks().saturating_mul(self.parallel.into())
    }
    /// Returns the host bandwidth over the uplink bandwidth of a leaf.
    pub fn oversubscription(&self) -> f64 {
        f64::from(self.hosts_per_leaf) * self.host_rate.as_bps_f64()
            / (self.uplinks() as f64 * self.fabric_rate.as_bps_f64())
    }
    /// Returns the smallest capacity between two halves of the hosts in one direction. Exact for an
    /// even number of leaves; an odd number splits a rack, which can only need more.
    pub fn bisection(&self) -> Bandwidth {
        let fabric = half_of(self.fabric_cables(), self.fabric_rate);
        fabric.min(half_of(self.size().hosts, self.host_rate))
    }

    fn fabric_cables(&self) -> u64 {
        product([self.leaves.into(), self.spines.into(), self.parallel.into()])
    }

    /// Builds the topology. Spines come first, then leaf by leaf with its hosts. Port order is
    /// hosts, then lower spine first, the parallel links of a spine together.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        self.check()?;
        let name = format!(
            "{NAME}:leaves={},spines={},hosts_per_leaf={},parallel={}",
            self.leaves, self.spines, self.hosts_per_leaf, self.parallel
        );
        let mut b = TopologyBuilder::new(name);
        let spines: Vec<NodeIx> = (0..self.spines).map(|i| b.switch(format!("spine{i}"), 2, None)).collect();
        for rack in 0..self.leaves {
            let leaf = b.switch(format!("leaf{rack}"), 1, None);
            for position in 0..self.hosts_per_leaf {
                let number = rack * self.hosts_per_leaf + position;
                let host = b.host(format!("h{number}"), rack, None);
                b.connect(host, leaf, self.host_rate, self.host_delay);
            }
            for spine in &spines {
                for _ in 0..self.parallel {
                    b.connect(leaf, *spine, self.fabric_rate, self.fabric_delay);
                }
            }
        }
        b.build()
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "leaves", self.leaves, 1)?;
        at_least(NAME, "spines", self.spines, 1)?;
        at_least(NAME, "hosts_per_leaf", self.hosts_per_leaf, 1)?;
        at_least(NAME, "parallel", self.parallel, 1)?;
        above_zero(NAME, "host_rate", self.host_rate)?;
        above_zero(NAME, "fabric_rate", self.fabric_rate)?;
        self.size().check(NAME)
    }
}

pub const FAMILY: Family = Family {
    name: NAME,
    title: "Leaf-spine: two tiers, every leaf linked to every spine",
    source: "Alizadeh et al.: CONGA, SIGCOMM 2014 (section 5); Zhang et al.: Hermes, SIGCOMM 2017",
    params: &[
        Param::new("leaves", "8", "switches", "leaf switches"),
        Param::new("spines", "8", "switches", "spine switches"),
        Param::new("hosts_per_leaf", "16", "hosts", "hosts per leaf"),
        Param::new("parallel", "1", "links", "links between each leaf and spine"),
        Param::HOST_RATE,
        Param::FABRIC_RATE,
        Param::HOST_DELAY,
        Param::FABRIC_DELAY,
    ],
    build: |values| Ok(from_values(values)?.build()?),
};

fn from_values(values: &Values) -> Result<LeafSpine, SpecError> {
    Ok(LeafSpine {
        leaves: values.count("leaves")?,
        spines: values.count("spines")?,
        hosts_per_leaf: values.count("hosts_per_leaf")?,
        parallel: values.count("parallel")?,
        host_rate: values.rate("host_rate")?,
        fabric_rate: values.rate("fabric_rate")?,
        host_delay: values.time("host_delay")?,
        fabric_delay: values.time("fabric_delay")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::oracle::paths;
    use super::*;

    #[test]
    fn counts_and_paths_agree_with_enumeration() {
        for (leaves, spines, hosts_per_leaf, parallel) in [(8, 8, 16, 1), (2, 2, 4, 1), (2, 1, 1, 3), (4, 3, 2, 2)] {
            let net = LeafSpine { leaves, spines, hosts_per_leaf, parallel, ..LeafSpine::default() };
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), net.size());
            let counted = paths(&topology, "leaf0", "leaf1");
            assert_eq!(counted, (net.paths_between_leaves(), 2));
        }
        assert_eq!(LeafSpine::default().oversubscription(), 2.0);
        assert_eq!(LeafSpine::default().bisection(), Bandwidth::from_gbps(8 * 8 * 10 / 2));
    }

    #[test]
    fn zero_parameter_is_named_in_error() {
        let none = LeafSpine { hosts_per_leaf: 0, ..LeafSpine::default() };
        assert_eq!(none.build().unwrap_err().to_string(), "leaf-spine: hosts_per_leaf = 0: must be at least 1");
    }
}
