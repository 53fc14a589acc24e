//! Slim Fly(q): the graphs of McKay, Miller and Širáň, with a diameter of two and nearly as few links as
//! possible.

use super::{Size, at_least, power, product, refuse};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a slim fly. The default has 50 routers and 200 hosts.
    ///
    /// Routers are (s, x, y) with s of 0 and 1, and x and y of the field of q elements. Nearly all pairs
    /// have only one shortest path.
    SlimFly: "slim-fly",
    title: "Slim fly: routers with a diameter of two",
    source: "Besta, Hoefler: Slim Fly, SC 2014",
    /// An odd prime, of which 3 is the smallest. Powers of primes are not supported.
    q: u32 = ("5", "an odd prime"),
    hosts_per_router: Option<u32> = ("half the links to routers", "hosts per router"),
    host_rate: Bandwidth = ("10Gbps", "rate of host links"),
    fabric_rate: Bandwidth = ("10Gbps", "rate of links between routers"),
    host_delay: Time = ("1us", "propagation delay of host links"),
    fabric_delay: Time = ("1us", "propagation delay of links between routers"),
}

/// Differences that link routers of one column: for s of 0 and of 1.
struct Generators([Vec<u32>; 2]);

impl SlimFly {
    /// Returns the links of a router to others: (3q - 1)/2 if q is 1 modulo 4, else (3q + 1)/2.
    pub fn degree(&self) -> u32 {
        let tripled = self.q.saturating_mul(3);
        if self.q % 4 == 1 { (tripled - 1) / 2 } else { tripled.saturating_add(1) / 2 }
    }
    pub fn hosts_per_router(&self) -> u32 {
        self.hosts_per_router.unwrap_or(self.degree().div_ceil(2))
    }
    /// Returns 2q^2 routers with their hosts, and q^2 times the degree cables between routers.
    pub fn size(&self) -> Size {
        let switches = power(self.q, 2).saturating_mul(2);
        let hosts = product([switches, self.hosts_per_router().into()]);
        let fabric = product([power(self.q, 2), self.degree().into()]);
        Size { hosts, switches, cables: hosts.saturating_add(fabric) }
    }

    fn check(&self) -> Result<(), TopologyError> {
        let is_prime = self.q >= 3 && (2..).take_while(|d| d * d <= self.q).all(|d| !self.q.is_multiple_of(d));
        // Larger ones have too many nodes.
        if self.q > 2000 || !is_prime {
            return Err(refuse(NAME, "q", self.q, "must be an odd prime, such as 5, 7, 11 or 13"));
        }
        at_least(NAME, "hosts_per_router", self.hosts_per_router(), 1)?;
        self.size().check(NAME)
    }

    fn generators(&self) -> Generators {
        let q = self.q;
        let times = |x: u32, y: u32| (u64::from(x) * u64::from(y) % u64::from(q)) as u32;
        let powers = |base: u32| std::iter::successors(Some(1), move |x| Some(times(*x, base)));
        let is_primitive = |x: &u32| powers(*x).skip(1).position(|power| power == 1) == Some(q as usize - 2);
        // The field of a prime always has one; of 3 it is 2.
        let primitive = (2..q).find(is_primitive).unwrap_or(2);
        let of = |exponents: Vec<u32>| -> Vec<u32> {
            exponents.into_iter().filter_map(|exponent| powers(primitive).nth(exponent as usize)).collect()
        };
        let every_second = |from: u32, to: u32| (from..=to).step_by(2);
        if q % 4 == 1 {
            let first = every_second(0, q - 3).collect();
            return Generators([of(first), of(every_second(1, q - 2).collect())]);
        }
        let w = q.div_ceil(4);
        let first = every_second(0, 2 * w - 2).chain(every_second(2 * w - 1, 4 * w - 3)).collect();
        let second = every_second(1, 2 * w - 1).chain(every_second(2 * w, 4 * w - 2)).collect();
        Generators([of(first), of(second)])
    }

    /// Adds router by router with its hosts, then the links within columns, then those between.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let q = self.q;
        let mut routers: Vec<NodeIx> = Vec::new();
        for i in 0..2 * q * q {
            let (side, x, y) = (i / (q * q), i / q % q, i % q);
            let router = b.switch(format!("router{side}.{x}.{y}"), 1, None);
            b.rack(router, i, None, self.hosts_per_router(), (self.host_rate, self.host_delay));
            routers.push(router);
        }
        let router = |side: u32, x: u32, y: u32| routers[(side * q * q + x * q + y) as usize];
        let Generators(generators) = self.generators();
        for (side, differences) in (0..).zip(&generators) {
            for (x, y, other) in (0..q * q * q).map(|i| (i / (q * q), i / q % q, i % q)) {
                if other > y && differences.contains(&(other - y)) {
                    b.connect(router(side, x, y), router(side, x, other), self.fabric_rate, self.fabric_delay);
                }
            }
        }
        for (x, y, m) in (0..q * q * q).map(|i| (i / (q * q), i / q % q, i % q)) {
            // y = m x + c
            let c = (u64::from(y) + u64::from(q) * u64::from(q) - u64::from(m) * u64::from(x)) % u64::from(q);
            b.connect(router(0, x, y), router(1, m, c as u32), self.fabric_rate, self.fabric_delay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::distances;
    use super::*;

    #[test]
    fn counts_and_diameter_are_the_published_ones() {
        for (q, routers, degree, hosts) in [(5, 50, 7, 200), (7, 98, 11, 588), (11, 242, 17, 2178), (13, 338, 19, 3380)]
        {
            let net = SlimFly { q, ..SlimFly::default() };
            let size = net.size();
            assert_eq!((size.switches, net.degree(), size.hosts), (routers, degree, hosts));
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), size);
            let (farthest, average) = distances(&topology);
            assert_eq!(farthest, 2, "q = {q}");
            assert!((1.855..1.945).contains(&average), "q = {q}: {average}");
            let radix = (degree + net.hosts_per_router()) as usize;
            let switches = (0u32..).map(NodeIx).take(topology.nodes().len()).filter(|n| topology.node(*n).forwards);
            assert!(switches.into_iter().all(|node| topology.out_links(node).len() == radix));
        }
    }

    #[test]
    fn numbers_that_are_no_odd_primes_fail() {
        for q in [0, 1, 2, 4, 9, 15, 4_000_037] {
            let error = SlimFly { q, ..SlimFly::default() }.build().unwrap_err().to_string();
            assert!(error.contains("odd prime"), "{q}: {error}");
        }
        assert_eq!(SlimFly { q: 3, ..SlimFly::default() }.build().map(|t| Size::of(&t).switches), Ok(18));
    }
}
