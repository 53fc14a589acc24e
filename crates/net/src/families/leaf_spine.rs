//! Leaf-spine(leaves, spines, hosts per leaf, parallel links): two tiers, fully linked.

use super::{Size, at_least, half_of, product};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a leaf-spine network. The defaults are the 8x8 network with 128 hosts of the
    /// CONGA and Hermes simulations: 10 Gb/s everywhere, so 2:1 oversubscribed at the leaf.
    LeafSpine: "leaf-spine",
    title: "Leaf-spine: two tiers, every leaf linked to every spine",
    source: "Alizadeh et al.: CONGA, SIGCOMM 2014 (section 5); Zhang et al.: Hermes, SIGCOMM 2017",
    leaves: u32 = ("8", "leaf switches"),
    spines: u32 = ("8", "spine switches"),
    hosts_per_leaf: u32 = ("16", "hosts per leaf"),
    parallel: u32 = ("1", "links between each leaf and spine"),
    host_rate: Bandwidth = ("10Gbps", "rate of host links"),
    fabric_rate: Bandwidth = ("10Gbps", "rate of links between switches"),
    host_delay: Time = ("1us", "propagation delay of host links"),
    fabric_delay: Time = ("1us", "propagation delay of links between switches"),
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
    /// Returns the smallest capacity between two halves of the hosts in one direction. Exact for an
    /// even number of leaves; an odd number splits a rack, which can only need more.
    pub fn bisection(&self) -> Bandwidth {
        let fabric = half_of(self.fabric_cables(), self.fabric_rate);
        fabric.min(half_of(self.size().hosts, self.host_rate))
    }

    fn fabric_cables(&self) -> u64 {
        product([self.leaves.into(), self.spines.into(), self.parallel.into()])
    }

    /// Adds spines first, then leaf by leaf with its hosts. Port order is hosts, then lower spine
    /// first, the parallel links of a spine together.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let spines: Vec<NodeIx> = (0..self.spines).map(|i| b.switch(format!("spine{i}"), 2, None)).collect();
        for rack in 0..self.leaves {
            let leaf = b.switch(format!("leaf{rack}"), 1, None);
            b.rack(leaf, rack, None, self.hosts_per_leaf, (self.host_rate, self.host_delay));
            for spine in &spines {
                for _ in 0..self.parallel {
                    b.connect(leaf, *spine, self.fabric_rate, self.fabric_delay);
                }
            }
        }
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "leaves", self.leaves, 1)?;
        at_least(NAME, "spines", self.spines, 1)?;
        at_least(NAME, "hosts_per_leaf", self.hosts_per_leaf, 1)?;
        at_least(NAME, "parallel", self.parallel, 1)?;
        self.size().check(NAME)
    }
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
        assert_eq!(LeafSpine::default().bisection(), Bandwidth::from_gbps(8 * 8 * 10 / 2));
    }

    #[test]
    fn zero_parameter_is_named_in_error() {
        let none = LeafSpine { hosts_per_leaf: 0, ..LeafSpine::default() };
        assert_eq!(none.build().unwrap_err().to_string(), "leaf-spine: hosts_per_leaf = 0: must be at least 1");
    }
}
