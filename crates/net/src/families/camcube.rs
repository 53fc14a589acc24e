//! CamCube(k): a 3D torus of k x k x k servers, linked directly and forwarding for each other.

use super::{Size, add_servers, at_least, factorial, power, product};
use crate::topology::{TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a CamCube. The default is the 4x4x4 torus of 64 servers.
    ///
    /// Server `h(x + k*y + k*k*z)` is at x, y, z and links to two neighbours per dimension.
    CamCube: "camcube",
    title: "CamCube: a 3D torus of servers that forward",
    source: "Abu-Libdeh et al.: Symbiotic Routing in Future Data Centers, SIGCOMM 2010",
    k: u32 = ("4", "servers along each side; at least 3"),
    rate: Bandwidth = ("10Gbps", "rate of every link"),
    delay: Time = ("1us", "propagation delay of every link"),
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

    fn check(&self) -> Result<(), TopologyError> {
        // With a side of 2, both directions would be the same cable.
        at_least(NAME, "k", self.k, 3)?;
        self.size().check(NAME)
    }

    /// Adds the servers. The cables of each to +x, +y and +z are added in this order.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let servers = add_servers(b, self.size().hosts, 1);
        for i in 0..self.k.pow(3) {
            for stride in [1, self.k, self.k * self.k] {
                let at = i / stride % self.k;
                let next = i - at * stride + (at + 1) % self.k * stride;
                let (from, to) = (servers[i as usize], servers[next as usize]);
                b.connect(from, to, self.rate, self.delay);
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
