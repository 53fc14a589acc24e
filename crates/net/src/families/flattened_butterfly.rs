//! k-ary n-flat flattened butterfly: routers in n-1 dimensions, fully connected along each.

use super::{Size, above_zero, at_least, factorial, half_of, power, product};
use crate::spec::{Family, Param, SpecError, Values};
use crate::topology::{NodeIx, Topology, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

const NAME: &str = "flattened-butterfly";

/// Parameters of a flattened butterfly. The default is the 8-ary 2-flat: 8 routers, 64 hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlattenedButterfly {
    /// Routers per dimension, and hosts per router; at least 2.
    pub k: u32,
    /// Dimensions plus one; at least 2.
    pub n: u32,
    pub host_rate: Bandwidth,
    pub fabric_rate: Bandwidth,
    pub host_delay: Time,
    pub fabric_delay: Time,
}

impl Default for FlattenedButterfly {
    fn default() -> FlattenedButterfly {
        FAMILY.defaults(from_values)
    }
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

    /// Builds it router by router with its hosts; ports are hosts, then dimension by dimension.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        at_least(NAME, "k", self.k, 2)?;
        at_least(NAME, "n", self.n, 2)?;
        above_zero(NAME, "host_rate", self.host_rate)?;
        above_zero(NAME, "fabric_rate", self.fabric_rate)?;
        self.size().check(NAME)?;
        let mut b = TopologyBuilder::new(format!("{NAME}:k={},n={}", self.k, self.n));
        let mut routers: Vec<NodeIx> = Vec::new();
        for i in 0..self.size().switches as u32 {
            let router = b.switch(format!("router{i}"), 1, None);
            for position in 0..self.k {
                let host = b.host(format!("h{}", i * self.k + position), i, None);
                b.connect(host, router, self.host_rate, self.host_delay);
            }
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
        b.build()
    }
}

pub const FAMILY: Family = Family {
    name: NAME,
    title: "Flattened butterfly (k-ary n-flat): routers fully connected along each of n-1 dimensions",
    source: "Kim, Dally, Abts: Flattened Butterfly, ISCA 2007",
    params: &[
        Param::new("k", "8", "routers", "routers per dimension and hosts per router"),
        Param::new("n", "2", "flat", "dimensions plus one; at least 2"),
        Param::HOST_RATE,
        Param::FABRIC_RATE,
        Param::HOST_DELAY,
        Param::FABRIC_DELAY,
    ],
    build: |values| Ok(from_values(values)?.build()?),
};

fn from_values(values: &Values) -> Result<FlattenedButterfly, SpecError> {
    Ok(FlattenedButterfly {
        k: values.count("k")?,
        n: values.count("n")?,
        host_rate: values.rate("host_rate")?,
        fabric_rate: values.rate("fabric_rate")?,
        host_delay: values.time("host_delay")?,
        fabric_delay: values.time("fabric_delay")?,
    })
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
