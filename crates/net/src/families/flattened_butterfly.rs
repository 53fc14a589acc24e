//! k-ary n-flat flattened butterfly: routers in n-1 dimensions, fully connected along each.

use super::{Size, at_least, factorial, half_of, power, product};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a flattened butterfly. The default is the 8-ary 2-flat: 8 routers, 64 hosts.
    FlattenedButterfly: "flattened-butterfly",
    title: "Flattened butterfly (k-ary n-flat): routers fully connected along each of n-1 dimensions",
    source: "Kim, Dally, Abts: Flattened Butterfly, ISCA 2007",
    /// Routers of a dimension: at least 2.
    k: u32 = ("8", "routers per dimension and hosts per router"),
    n: u32 = ("2", "dimensions plus one; at least 2"),
    host_rate: Bandwidth = ("10Gbps", "rate of host links"),
    fabric_rate: Bandwidth = ("10Gbps", "rate of links between switches"),
    host_delay: Time = ("1us", "propagation delay of host links"),
    fabric_delay: Time = ("1us", "propagation delay of links between switches"),
}

impl FlattenedButterfly {
    /// Returns k^n hosts, k^(n-1) routers, k^(n-1)*(n-1)*(k-1)/2 cables between routers.
    pub fn size(&self) -> Size {
        let dimensions = self.n.saturating_sub(1);
        let switches = power(self.k, dimensions);
        let hosts = power(self.k, self.n);
        let neighbours = product([dimensions.into(), self.k.saturating_sub(1).into()]);
        Size { hosts, switches, cables: hosts.saturating_add(switches.saturating_mul(neighbours) / 2) }
    }
    /// Returns the number of dimensions in which two routers differ: the links between them.
    pub fn distance(&self, a: u32, b: u32) -> u32 {
        let strides = (0..self.n - 1).map(|dimension| self.k.pow(dimension));
        let differ = |stride: &u32| a / stride % self.k != b / stride % self.k;
        strides.filter(differ).count() as u32
    }
    /// Returns the number of equal-cost paths between two routers: the factorial of their distance.
    pub fn paths_between(&self, a: u32, b: u32) -> u64 {
        factorial(self.distance(a, b).into())
    }
    /// Returns the smallest capacity between two halves of the hosts in one direction: k^n/4 router
    /// links, or the rate of half the hosts if less. Exact for even k.
    pub fn bisection(&self) -> Bandwidth {
        let hosts = self.size().hosts;
        half_of(hosts / 2, self.fabric_rate).min(half_of(hosts, self.host_rate))
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "k", self.k, 2)?;
        at_least(NAME, "n", self.n, 2)?;
        self.size().check(NAME)
    }

    /// Adds router by router with its hosts; ports are hosts, then dimension by dimension.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let mut routers: Vec<NodeIx> = Vec::new();
        for i in 0..self.size().switches as u32 {
            let router = b.switch(format!("router{i}"), 1, None);
            b.rack(router, i, None, self.k, (self.host_rate, self.host_delay));
            routers.push(router);
        }
        for dimension in 0..self.n - 1 {
            let stride = self.k.pow(dimension);
            for (i, router) in routers.iter().enumerate() {
                for step in 1..self.k - i as u32 / stride % self.k {
                    let other = routers[i + (step * stride) as usize];
                    b.connect(*router, other, self.fabric_rate, self.fabric_delay);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::{node, paths};
    use super::*;

    #[test]
    fn counts_and_paths_agree_with_enumeration() {
        for (k, n) in [(8, 2), (4, 3), (2, 4)] {
            let net = FlattenedButterfly { k, n, ..FlattenedButterfly::default() };
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), net.size());
            let radix = topology.out_links(node(&topology, "router0")).len();
            assert_eq!(radix as u32, n * (k - 1) + 1);
            for to in 1..net.size().switches as u32 {
                let (count, links) = paths(&topology, "router0", &format!("router{to}"));
                assert_eq!(count, net.paths_between(0, to));
                assert_eq!(u32::from(links), net.distance(0, to));
            }
        }
    }

    #[test]
    fn the_8_ary_2_flat_is_8_routers_and_64_hosts() {
        let size = FlattenedButterfly::default().size();
        assert_eq!((size.switches, size.hosts, size.cables), (8, 64, 64 + 28));
    }
}
