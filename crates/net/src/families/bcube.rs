//! BCube(n, k): servers with k+1 ports that forward for each other over small switches.

use super::{Size, add_servers, at_least, factorial, half_of, power, product};
use crate::topology::{TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a BCube. The default is BCube(4, 1): 16 servers, 8 switches.
    ///
    /// A server's number, written in base n, is its address; switch `i` of level `l` links the n
    /// servers whose addresses without digit `l` read `i`. A switch of level `l` has tier `l + 1`.
    BCube: "bcube",
    title: "BCube: servers with several ports forward over small switches",
    source: "Guo et al.: BCube: A High Performance, Server-centric Network Architecture, SIGCOMM 2009",
    n: u32 = ("4", "ports per switch; at least 2"),
    k: u32 = ("1", "highest level; servers have k+1 ports"),
    rate: Bandwidth = ("10Gbps", "rate of every link"),
    delay: Time = ("1us", "propagation delay of every link"),
}

impl BCube {
    /// Returns n^(k+1) servers, (k+1)*n^k switches, (k+1)*n^(k+1) cables.
    pub fn size(&self) -> Size {
        let levels = u64::from(self.k) + 1;
        let hosts = power(self.n, self.k.saturating_add(1));
        Size { hosts, switches: product([levels, power(self.n, self.k)]), cables: product([levels, hosts]) }
    }
    /// Returns the number of digits in which two server addresses differ.
    pub fn hamming(&self, a: u32, b: u32) -> u32 {
        // A base below 2 builds no network, but the loop must end.
        let n = self.n.max(2);
        let (mut a, mut b, mut differing) = (a, b, 0);
        while a > 0 || b > 0 {
            differing += u32::from(a % n != b % n);
            (a, b) = (a / n, b / n);
        }
        differing
    }
    /// Returns the number of equal-cost paths of two servers: their Hamming distance's factorial.
    pub fn paths_between(&self, a: u32, b: u32) -> u64 {
        factorial(self.hamming(a, b).into())
    }
    /// Returns the links on a shortest path between two servers: twice the Hamming distance.
    pub fn distance(&self, a: u32, b: u32) -> u32 {
        2 * self.hamming(a, b)
    }
    /// Returns the capacity between two halves of the servers: n^(k+1)/2 links, exact for even n.
    pub fn bisection(&self) -> Bandwidth {
        half_of(self.size().hosts, self.rate)
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "n", self.n, 2)?;
        self.size().check(NAME)
    }

    /// Adds servers, then switches level by level; a server's port `l` leads to level `l`.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let servers = add_servers(b, self.size().hosts, self.n);
        for level in 0..=self.k {
            let below = self.n.pow(level);
            for i in 0..self.n.pow(self.k) {
                let switch = b.switch(format!("level{level}/switch{i}"), level as u8 + 1, None);
                // Insert the digit `level` into the switch's address.
                let base = i / below * below * self.n + i % below;
                for digit in 0..self.n {
                    let server = servers[(base + digit * below) as usize];
                    b.connect(server, switch, self.rate, self.delay);
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
        for (n, k) in [(4, 1), (4, 2), (2, 3), (3, 1)] {
            let net = BCube { n, k, ..BCube::default() };
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), net.size());
            for to in 1..net.size().hosts as u32 {
                let (count, links) = paths(&topology, "h0", &format!("h{to}"));
                assert_eq!(count, net.paths_between(0, to), "{net:?} to {to}");
                assert_eq!(u32::from(links), net.distance(0, to));
                assert!(links as u32 <= 2 * (k + 1));
            }
        }
    }

    #[test]
    fn huge_size_fails_before_allocation() {
        for (n, k) in [(u32::MAX, 1), (2, u32::MAX), (2, 17)] {
            let net = BCube { n, k, ..BCube::default() };
            assert!(matches!(net.build(), Err(TopologyError::TooLarge { .. })));
        }
    }
}
