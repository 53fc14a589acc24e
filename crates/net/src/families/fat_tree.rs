//! Fat-tree(k): k pods of k/2 edge and k/2 aggregation switches under (k/2)^2 cores.

use super::{Size, at_least, half_of, power, product, refuse};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a fat-tree.
    ///
    /// The defaults are the k=4 tree with 10 Gb/s, 1 us links. The variant of founding document 000
    /// is `k = 4`, `hosts_per_edge = Some(10)`, 1 Mb/s host links and 10 Mb/s fabric links.
    ///
    /// ```
    /// use anabranch_net::families::FatTree;
    /// let topology = FatTree { k: 8, ..FatTree::default() }.build()?;
    /// assert_eq!(topology.hosts().len(), 128);
    /// # Ok::<(), anabranch_net::TopologyError>(())
    /// ```
    FatTree: "fat-tree",
    title: "Fat-tree of k-port switches in three tiers",
    source: "Al-Fares, Loukissas, Vahdat: A Scalable, Commodity Data Center Network Architecture, SIGCOMM 2008",
    /// Ports of a switch: even, and at least 2.
    k: u32 = ("4", "ports per switch; even"),
    hosts_per_edge: Option<u32> = ("k/2", "hosts per edge switch"),
    host_rate: Bandwidth = ("10Gbps", "rate of host links"),
    fabric_rate: Bandwidth = ("10Gbps", "rate of links between switches"),
    host_delay: Time = ("1us", "propagation delay of host links"),
    fabric_delay: Time = ("1us", "propagation delay of links between switches"),
}

impl FatTree {
    pub fn hosts_per_edge(&self) -> u32 {
        self.hosts_per_edge.unwrap_or(self.k / 2)
    }
    /// Returns k^3/4 hosts (k/2 per edge), 5k^2/4 switches, k^3/2 fabric cables, one per host.
    pub fn size(&self) -> Size {
        let edges = power(self.k, 2) / 2;
        let hosts = product([edges, u64::from(self.hosts_per_edge())]);
        Size {
            hosts,
            switches: power(self.k, 2).saturating_mul(5) / 4,
            cables: hosts.saturating_add(power(self.k, 3) / 2),
        }
    }
    /// Returns the number of equal-cost paths between edge switches of two pods.
    pub fn paths_between_pods(&self) -> u64 {
        power(self.k / 2, 2)
    }
    /// Returns the number of equal-cost paths between two edge switches of one pod.
    pub fn paths_within_pod(&self) -> u64 {
        u64::from(self.k / 2)
    }
    /// Returns the smallest capacity between two halves of the hosts in one direction: half of what
    /// all hosts, or all k^3/4 core links, can carry.
    pub fn bisection(&self) -> Bandwidth {
        let fabric = half_of(power(self.k, 3) / 4, self.fabric_rate);
        fabric.min(half_of(self.size().hosts, self.host_rate))
    }

    /// Adds cores first, then pod by pod aggregations, edges and hosts. Port order is hosts, then
    /// lower aggregation or core first.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let (half, host_link) = (self.k / 2, (self.host_rate, self.host_delay));
        let cores: Vec<NodeIx> = (0..half * half).map(|core| b.switch(format!("core{core}"), 3, None)).collect();
        for pod in 0..self.k {
            let aggregations: Vec<NodeIx> =
                (0..half).map(|i| b.switch(format!("pod{pod}/agg{i}"), 2, Some(pod))).collect();
            let edges: Vec<NodeIx> = (0..half).map(|i| b.switch(format!("pod{pod}/edge{i}"), 1, Some(pod))).collect();
            for (rack, edge) in (pod * half..).zip(&edges) {
                b.rack(*edge, rack, Some(pod), self.hosts_per_edge(), host_link);
                for aggregation in &aggregations {
                    b.connect(*edge, *aggregation, self.fabric_rate, self.fabric_delay);
                }
            }
            for (i, aggregation) in aggregations.iter().enumerate() {
                for core in &cores[i * half as usize..(i + 1) * half as usize] {
                    b.connect(*aggregation, *core, self.fabric_rate, self.fabric_delay);
                }
            }
        }
    }

    fn check(&self) -> Result<(), TopologyError> {
        if self.k < 2 || !self.k.is_multiple_of(2) {
            let near = (self.k / 2 * 2).max(2);
            let reason = format!("must be even and at least 2; such as {near} or {}", near + 2);
            return Err(refuse(NAME, "k", self.k, reason));
        }
        at_least(NAME, "hosts_per_edge", self.hosts_per_edge(), 1)?;
        self.size().check(NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::{node, paths};
    use super::*;

    #[test]
    fn counts_and_paths_agree_with_enumeration() {
        for (k, cables) in [(2u32, 6), (4, 48), (8, 384)] {
            let tree = FatTree { k, ..FatTree::default() };
            let topology = tree.build().unwrap();
            assert_eq!(Size::of(&topology), tree.size());
            assert_eq!(tree.size().hosts, power(k, 3) / 4);
            assert_eq!(tree.size().switches, 5 * power(k, 2) / 4);
            assert_eq!(tree.size().cables, cables);
            let across = paths(&topology, "pod0/edge0", "pod1/edge0");
            assert_eq!(across, (tree.paths_between_pods(), 4));
            if k > 2 {
                let within = paths(&topology, "pod0/edge0", "pod0/edge1");
                assert_eq!(within, (tree.paths_within_pod(), 2));
            }
        }
    }

    #[test]
    fn ports_lead_to_lower_neighbours_first() {
        let topology = FatTree::default().build().unwrap();
        let names = |name: &str| -> Vec<&str> {
            let out = topology.out_links(node(&topology, name)).iter();
            out.map(|link| topology.node(topology.link(*link).to).name.as_str()).collect()
        };
        assert_eq!(names("pod1/edge0"), ["h4", "h5", "pod1/agg0", "pod1/agg1"]);
        assert_eq!(names("pod1/agg1"), ["pod1/edge0", "pod1/edge1", "core2", "core3"]);
        assert_eq!(names("core1"), ["pod0/agg0", "pod1/agg0", "pod2/agg0", "pod3/agg0"]);
    }

    #[test]
    fn the_80_host_variant_of_founding_document_000() {
        let tree = FatTree {
            hosts_per_edge: Some(10),
            host_rate: Bandwidth::from_mbps(1),
            fabric_rate: Bandwidth::from_mbps(10),
            ..FatTree::default()
        };
        let topology = tree.build().unwrap();
        assert_eq!(topology.hosts().len(), 80);
        assert_eq!(topology.links().len() / 2, 112);
        // The hosts are the bottleneck: 40 of them on each side.
        assert_eq!(tree.bisection(), Bandwidth::from_mbps(40));
    }

    #[test]
    fn wrong_parameter_is_named_in_error() {
        for k in [0, 1, 3, 5] {
            let tree = FatTree { k, ..FatTree::default() };
            let text = tree.build().unwrap_err().to_string();
            assert!(text.starts_with(&format!("fat-tree: k = {k}")), "{text}");
        }
        let huge = FatTree { k: u32::MAX - 1, ..FatTree::default() };
        assert!(matches!(huge.build(), Err(TopologyError::TooLarge { .. })));
    }
}
