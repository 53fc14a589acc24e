//! Multi-plane network: every host has a port in each of several separate leaf-spine networks.

use super::{Size, at_least, half_of, product};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a multi-plane network. The default has two planes of 4 leaves and 4 spines.
    ///
    /// A host has one link per plane; the plane is part of the path that it, or its balancer, chooses.
    MultiPlane: "multi-plane",
    title: "Multi-plane: hosts with a port in each of several equal leaf-spine networks",
    source: "Araujo et al.: MRC, arXiv 2605.04333; two planes: Qian et al.: Alibaba HPN, SIGCOMM 2024",
    planes: u32 = ("2", "planes, and ports of a host"),
    leaves: u32 = ("4", "leaves per plane"),
    spines: u32 = ("4", "spines per plane"),
    hosts_per_leaf: u32 = ("4", "hosts at each leaf"),
    port_rate: Bandwidth = ("100Gbps", "rate of each port of a host"),
    fabric_rate: Bandwidth = ("100Gbps", "rate of links between leaves and spines"),
    host_delay: Time = ("500ns", "propagation delay of host links"),
    fabric_delay: Time = ("500ns", "propagation delay of links between leaves and spines"),
}

impl MultiPlane {
    /// Returns leaves * hosts_per_leaf hosts; planes times the leaves and spines; cables likewise.
    pub fn size(&self) -> Size {
        let planes = u64::from(self.planes);
        let hosts = product([self.leaves.into(), self.hosts_per_leaf.into()]);
        let fabric = product([self.leaves.into(), self.spines.into()]);
        Size {
            hosts,
            switches: planes.saturating_mul(u64::from(self.leaves) + u64::from(self.spines)),
            cables: planes.saturating_mul(hosts.saturating_add(fabric)),
        }
    }
    /// Returns the number of equal-cost paths between two hosts at different leaves: planes * spines.
    pub fn paths_between_leaves(&self) -> u64 {
        product([self.planes.into(), self.spines.into()])
    }
    /// Returns the smallest capacity between two halves of the leaves in one direction, exact for an even
    /// number of leaves: that of half the hosts, or of half the uplinks.
    pub fn bisection(&self) -> Bandwidth {
        let ports = product([self.planes.into(), self.size().hosts]);
        let uplinks = product([self.planes.into(), self.leaves.into(), self.spines.into()]);
        half_of(ports, self.port_rate).min(half_of(uplinks, self.fabric_rate))
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "planes", self.planes, 1)?;
        at_least(NAME, "leaves", self.leaves, 1)?;
        at_least(NAME, "spines", self.spines, 1)?;
        at_least(NAME, "hosts_per_leaf", self.hosts_per_leaf, 1)?;
        self.size().check(NAME)
    }

    /// Adds the spines and leaves plane by plane, then the hosts with their ports. Ports of a leaf are
    /// hosts, then spines.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let mut planes: Vec<(Vec<NodeIx>, Vec<NodeIx>)> = Vec::new();
        for plane in 0..self.planes {
            let spines = (0..self.spines).map(|i| b.switch(format!("plane{plane}/spine{i}"), 2, Some(plane))).collect();
            let leaves = (0..self.leaves).map(|i| b.switch(format!("plane{plane}/leaf{i}"), 1, Some(plane))).collect();
            planes.push((spines, leaves));
        }
        for number in 0..self.size().hosts as u32 {
            let rack = number / self.hosts_per_leaf;
            let host = b.host(format!("h{number}"), rack, None);
            for (_, leaves) in &planes {
                b.connect(host, leaves[rack as usize], self.port_rate, self.host_delay);
            }
        }
        for (spines, leaves) in &planes {
            for leaf in leaves {
                for spine in spines {
                    b.connect(*leaf, *spine, self.fabric_rate, self.fabric_delay);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::paths;
    use super::*;

    #[test]
    fn counts_and_paths_agree_with_enumeration() {
        // Radix 8: 32 hosts, 8 leaves and 4 spines a plane.
        for planes in [1, 2, 4] {
            let net = MultiPlane { planes, leaves: 8, ..MultiPlane::default() };
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), net.size());
            assert_eq!(net.size().hosts, 32);
            if planes > 1 {
                assert_eq!(paths(&topology, "h0", "h4"), (net.paths_between_leaves(), 4));
                assert_eq!(paths(&topology, "h0", "h1"), (planes.into(), 2), "one leaf in each plane");
            }
        }
    }

    #[test]
    fn the_published_two_tier_network_has_131072_hosts() {
        let net = MultiPlane { planes: 8, leaves: 512, spines: 256, hosts_per_leaf: 256, ..MultiPlane::default() };
        let size = net.size();
        assert_eq!((size.hosts, size.switches, net.paths_between_leaves()), (131_072, 6_144, 2_048));
    }
}
