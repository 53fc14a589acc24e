//! Torus: switches in several dimensions, each linked with two neighbours along each.

use super::{Size, at_least, refuse};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a torus of switches. CamCube is the one whose servers forward.
    Torus: "torus",
    title: "Torus: switches with two neighbours along each of several dimensions",
    source: "Dally, Towles: Principles and Practices of Interconnection Networks, 2004",
    sides: Vec<u32> = ("4/4/4", "switches along each dimension, at least 3"),
    hosts_per_switch: u32 = ("1", "hosts per switch"),
    host_rate: Bandwidth = ("10Gbps", "rate of host links"),
    fabric_rate: Bandwidth = ("10Gbps", "rate of links between switches"),
    host_delay: Time = ("1us", "propagation delay of host links"),
    fabric_delay: Time = ("1us", "propagation delay of links between switches"),
}

impl Torus {
    /// Returns the product of the sides as switches, with as many cables for each dimension.
    pub fn size(&self) -> Size {
        let switches = self.sides.iter().fold(1, |count: u64, side| count.saturating_mul((*side).into()));
        let hosts = switches.saturating_mul(self.hosts_per_switch.into());
        let fabric = switches.saturating_mul(self.sides.len() as u64);
        Size { hosts, switches, cables: hosts.saturating_add(fabric) }
    }
    /// Returns the largest number of links between two switches: the sum of floor(side/2).
    pub fn diameter(&self) -> u32 {
        self.sides.iter().map(|side| side / 2).sum()
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "hosts_per_switch", self.hosts_per_switch, 1)?;
        // With a side of 2, both directions would be the same cable.
        if self.sides.is_empty() || self.sides.len() > 16 || self.sides.iter().any(|side| *side < 3) {
            let sides: Vec<String> = self.sides.iter().map(u32::to_string).collect();
            let reason = "must be 1 to 16 numbers of at least 3, such as `4/4/4`";
            return Err(refuse(NAME, "sides", sides.join("/"), reason));
        }
        self.size().check(NAME)
    }

    /// Adds switch by switch with its hosts, then the cables of each in the rising direction of each
    /// dimension.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let mut switches: Vec<NodeIx> = Vec::new();
        for i in 0..self.size().switches as u32 {
            let switch = b.switch(format!("switch{i}"), 1, None);
            b.rack(switch, i, None, self.hosts_per_switch, (self.host_rate, self.host_delay));
            switches.push(switch);
        }
        for (i, switch) in switches.iter().enumerate() {
            let mut stride = 1;
            for side in self.sides.iter().map(|side| *side as usize) {
                let at = i / stride % side;
                let next = i - at * stride + (at + 1) % side * stride;
                b.connect(*switch, switches[next], self.fabric_rate, self.fabric_delay);
                stride *= side;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::distances;
    use super::*;

    #[test]
    fn counts_diameter_and_mean_distance_are_the_computed_ones() {
        for (sides, cables, mean) in [(vec![4, 4, 4], 192, 3.05), (vec![8, 8], 128, 4.06)] {
            let net = Torus { sides, ..Torus::default() };
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), net.size());
            assert_eq!(net.size().cables - net.size().hosts, cables);
            let (farthest, average) = distances(&topology);
            assert_eq!(u32::from(farthest), net.diameter());
            assert!((average - mean).abs() < 0.005, "{average} for {mean}");
        }
        assert!(Torus { sides: vec![4, 2], ..Torus::default() }.build().is_err());
    }
}
