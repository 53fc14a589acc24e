//! CamCube(k): a 3D torus of k x k x k servers, linked directly and forwarding for each other.

use super::{Size, above_zero, at_least, factorial, power, product};
use crate::spec::{Family, Param, SpecError, Values};
use crate::topology::{Node, NodeIx, NodeKind, Tier, Topology, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

const NAME: &str = "camcube";

/// Parameters of a CamCube. The default is the 4x4x4 torus of 64 servers.
///
/// Server `h(x + k*y + k*k*z)` is at x, y, z and links to two neighbours per dimension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CamCube {
    /// Servers along each side, at least 3.
    pub k: u32,
    pub rate: Bandwidth,
    pub delay: Time,
}

impl Default for CamCube {
    fn default() -> CamCube {
        FAMILY.defaults(from_values)
    }
}

impl CamCube {
    /// Returns k^3 servers, no switches, 3k^3 cables.
    pub fn size(&self) -> Size {
        let hosts = power(self.k, 3);
        Size { hosts, switches: 0, cables: hosts.saturating_mul(3) }
    }
    /// Returns the steps between two servers in each dimension, in the shorter direction.
    pub fn offsets(&self, a: u32, b: u32) -> [u32; 3] {
        [1, self.k, self.k * self.k].map(|stride| {
            let apart = (a / stride % self.k).abs_diff(b / stride % self.k);
            apart.min(self.k - apart)
        })
    }
    /// Returns the links on a shortest path between two servers.
    pub fn distance(&self, a: u32, b: u32) -> u32 {
        self.offsets(a, b).iter().sum()
    }
    /// Returns the number of equal-cost paths between two servers. It is the multinomial of the
    /// offsets, doubled for every dimension in which both directions are equally long.
    pub fn paths_between(&self, a: u32, b: u32) -> u64 {
        let offsets = self.offsets(a, b).map(u64::from);
        // Interleavings of three step sequences, by step so that no factorial overflows early.
        let mut paths: u64 = 1;
        let mut steps: u64 = 0;
        for offset in offsets {
            for i in 1..=offset {
                steps += 1;
                paths = paths.saturating_mul(steps) / i;
            }
        }
        debug_assert!(steps > 20 || paths * offsets.map(factorial).iter().product::<u64>() == factorial(steps));
        let symmetric = offsets.iter().filter(|offset| 2 * **offset == u64::from(self.k));
        paths.saturating_mul(1 << symmetric.count())
    }
    /// Returns the largest number of links on a shortest path: 3*floor(k/2).
    pub fn diameter(&self) -> u32 {
        3 * (self.k / 2)
    }
    /// Returns the capacity between two halves of the servers: 2k^2 links, exact for even k.
    pub fn bisection(&self) -> Bandwidth {
        let bps = product([2, power(self.k, 2), self.rate.as_bps()]);
        Bandwidth::from_bps(bps)
    }

    /// Builds the topology. A server's cables to +x, +y and +z are added in this order.
    ///
    /// # Errors
    /// k below 3 (both directions would be the same cable), a zero rate, or too many nodes.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        at_least(NAME, "k", self.k, 3)?;
        above_zero(NAME, "rate", self.rate)?;
        self.size().check(NAME)?;
        let mut b = TopologyBuilder::new(format!("{NAME}:k={}", self.k));
        let servers: Vec<NodeIx> = (0..self.k.pow(3))
            .map(|i| {
                b.add(Node {
                    name: format!("h{i}"),
                    kind: NodeKind::Host,
                    tier: Tier(0),
                    forwards: true,
                    pod: None,
                    rack: Some(i),
                })
            })
            .collect();
        for i in 0..self.k.pow(3) {
            for stride in [1, self.k, self.k * self.k] {
                let at = i / stride % self.k;
                let next = i - at * stride + (at + 1) % self.k * stride;
                let (from, to) = (servers[i as usize], servers[next as usize]);
                b.connect(from, to, self.rate, self.delay);
            }
        }
        b.build()
    }
}

pub const FAMILY: Family = Family {
    name: NAME,
    title: "CamCube: a 3D torus of servers that forward",
    source: "Abu-Libdeh et al.: Symbiotic Routing in Future Data Centers, SIGCOMM 2010",
    params: &[Param::new("k", "4", "servers", "servers along each side; at least 3"), Param::RATE, Param::DELAY],
    build: |values| Ok(from_values(values)?.build()?),
};

fn from_values(values: &Values) -> Result<CamCube, SpecError> {
    Ok(CamCube { k: values.count("k")?, rate: values.rate("rate")?, delay: values.time("delay")? })
}

#[cfg(test)]
mod tests {
    use super::super::oracle::paths;
    use super::*;

    #[test]
    fn counts_and_paths_agree_with_enumeration() {
        for k in [3, 4, 5] {
            let net = CamCube { k, ..CamCube::default() };
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), net.size());
            assert!((0..k.pow(3)).all(|i| topology.out_links(crate::NodeIx(i)).len() == 6));
            let mut farthest = 0;
            for to in 1..k.pow(3) {
                let (count, links) = paths(&topology, "h0", &format!("h{to}"));
                assert_eq!(count, net.paths_between(0, to), "k={k} to {to}");
                assert_eq!(u32::from(links), net.distance(0, to));
                farthest = farthest.max(u32::from(links));
            }
            assert_eq!(farthest, net.diameter());
        }
    }

    #[test]
    fn antipode_of_64_servers_has_720_paths() {
        assert_eq!(CamCube::default().paths_between(0, 2 + 4 * 2 + 16 * 2), 720);
    }

    #[test]
    fn build_with_side_of_two_fails() {
        let net = CamCube { k: 2, ..CamCube::default() };
        assert!(net.build().unwrap_err().to_string().contains("at least 3"));
    }
}
