//! HyperX: routers in several dimensions, fully connected along each.

use super::{Size, at_least, refuse};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a HyperX. A flattened butterfly is one whose dimensions are all equal.
    HyperX: "hyperx",
    title: "HyperX: routers fully connected along each of several dimensions",
    source: "Ahn, Binkert, Davis, McLaren, Schreiber: HyperX, SC 2009",
    sides: Vec<u32> = ("4/4", "routers along each dimension, at least 2"),
    parallel: Vec<u32> = ("1", "cables between two neighbours, one number or one per dimension"),
    hosts_per_router: u32 = ("4", "hosts per router"),
    host_rate: Bandwidth = ("10Gbps", "rate of host links"),
    fabric_rate: Bandwidth = ("10Gbps", "rate of links between routers"),
    host_delay: Time = ("1us", "propagation delay of host links"),
    fabric_delay: Time = ("1us", "propagation delay of links between routers"),
}

impl HyperX {
    fn routers(&self) -> u64 {
        self.sides.iter().fold(1, |count: u64, side| count.saturating_mul((*side).into()))
    }
    fn parallel(&self, dimension: usize) -> u64 {
        self.parallel.get(dimension).or(self.parallel.first()).copied().unwrap_or(0).into()
    }
    /// Returns the links of a router to others: the sum of (side - 1) times the parallel cables.
    pub fn degree(&self) -> u64 {
        let of = |(dimension, side): (usize, &u32)| {
            u64::from(side.saturating_sub(1)).saturating_mul(self.parallel(dimension))
        };
        self.sides.iter().enumerate().map(of).fold(0, u64::saturating_add)
    }
    /// Returns the size that follows from the parameters.
    pub fn size(&self) -> Size {
        let switches = self.routers();
        let hosts = switches.saturating_mul(self.hosts_per_router.into());
        Size { hosts, switches, cables: hosts.saturating_add(switches.saturating_mul(self.degree()) / 2) }
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "hosts_per_router", self.hosts_per_router, 1)?;
        let list = |items: &[u32]| items.iter().map(u32::to_string).collect::<Vec<_>>().join("/");
        if self.sides.is_empty() || self.sides.len() > 16 || self.sides.iter().any(|side| *side < 2) {
            return Err(refuse(
                NAME,
                "sides",
                list(&self.sides),
                "must be 1 to 16 numbers of at least 2, such as `4/4`",
            ));
        }
        let is_one_each = self.parallel.len() == 1 || self.parallel.len() == self.sides.len();
        if !is_one_each || self.parallel.contains(&0) {
            let reason = format!("must be one number above zero, or {}", self.sides.len());
            return Err(refuse(NAME, "parallel", list(&self.parallel), reason));
        }
        self.size().check(NAME)
    }

    /// Adds router by router with its hosts; ports are hosts, then dimension by dimension.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let mut routers: Vec<NodeIx> = Vec::new();
        for i in 0..self.routers() as u32 {
            let router = b.switch(format!("router{i}"), 1, None);
            b.rack(router, i, None, self.hosts_per_router, (self.host_rate, self.host_delay));
            routers.push(router);
        }
        let mut stride = 1;
        for (dimension, side) in self.sides.iter().map(|side| *side as usize).enumerate() {
            for (i, router) in routers.iter().enumerate() {
                for step in 1..side - i / stride % side {
                    for _ in 0..self.parallel(dimension) {
                        b.connect(*router, routers[i + step * stride], self.fabric_rate, self.fabric_delay);
                    }
                }
            }
            stride *= side;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::distances;
    use super::*;

    #[test]
    fn counts_diameter_and_mean_distance_are_the_computed_ones() {
        for (sides, degree, cables, mean) in
            [(vec![4, 4], 6, 48, 1.6), (vec![8, 8], 14, 448, 1.78), (vec![4, 4, 4], 9, 288, 2.29)]
        {
            let net = HyperX { hosts_per_router: 1, sides, ..HyperX::default() };
            let topology = net.build().unwrap();
            assert_eq!((Size::of(&topology), net.degree()), (net.size(), degree));
            assert_eq!(net.size().cables - net.size().hosts, cables);
            let (farthest, average) = distances(&topology);
            assert_eq!(farthest as usize, net.sides.len());
            assert!((average - mean).abs() < 0.005, "{average} for {mean}");
        }
        let wide = HyperX { sides: vec![2, 3], parallel: vec![3, 2], ..HyperX::default() };
        assert_eq!(Size::of(&wide.build().unwrap()), wide.size());
        assert_eq!(wide.degree(), 3 + 4);
    }

    #[test]
    fn lists_of_wrong_length_fail() {
        let error = |net: HyperX| net.build().unwrap_err().to_string();
        assert!(error(HyperX { sides: vec![4, 1], ..HyperX::default() }).contains("at least 2"));
        assert!(error(HyperX { sides: vec![], ..HyperX::default() }).contains("1 to 16 numbers"));
        assert!(error(HyperX { parallel: vec![1, 1, 1], ..HyperX::default() }).contains("one number above zero, or 2"));
    }
}
