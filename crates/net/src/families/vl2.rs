//! VL2(d0, d1, d2): racks under a Clos of aggregation and intermediate switches.

use super::{Size, at_least, half_of, product, refuse};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a VL2 network. The defaults are VL2(2, 4, 4) with the paper's rates: 80 hosts
    /// at 1 Gb/s, a fabric of 10 Gb/s links.
    ///
    /// Rack `t` is linked to the aggregations `(t*d0 + j) mod d2`; the paper leaves this open.
    Vl2: "vl2",
    title: "VL2: racks under a Clos of aggregation and intermediate switches",
    source: "Greenberg et al.: VL2: A Scalable and Flexible Data Center Network, SIGCOMM 2009",
    d0: u32 = ("2", "fabric ports per rack switch"),
    d1: u32 = ("4", "ports per aggregation switch; even"),
    d2: u32 = ("4", "ports per intermediate switch"),
    hosts_per_tor: Option<u32> = ("10*d0", "hosts per rack"),
    host_rate: Bandwidth = ("1Gbps", "rate of host links"),
    fabric_rate: Bandwidth = ("10Gbps", "rate of links between switches"),
    host_delay: Time = ("1us", "propagation delay of host links"),
    fabric_delay: Time = ("1us", "propagation delay of links between switches"),
}

impl Vl2 {
    pub fn hosts_per_tor(&self) -> u32 {
        self.hosts_per_tor.unwrap_or(self.d0.saturating_mul(10))
    }
    /// Returns the number of rack switches: d1*d2/(2*d0).
    pub fn tors(&self) -> u64 {
        product([self.d1.into(), self.d2.into()]) / (2 * u64::from(self.d0.max(1)))
    }
    /// Returns d1/2 intermediates, d2 aggregations, the racks and their hosts; d1*d2 fabric cables.
    pub fn size(&self) -> Size {
        let hosts = product([self.tors(), self.hosts_per_tor().into()]);
        let upper = u64::from(self.d1 / 2) + u64::from(self.d2);
        Size {
            hosts,
            switches: self.tors().saturating_add(upper),
            cables: hosts.saturating_add(product([self.d1.into(), self.d2.into()])),
        }
    }
    /// Returns the number of equal-cost paths between racks `a` and `b`: one per common aggregation
    /// if there is one, otherwise d0 * (d1/2) * d0.
    pub fn paths_between_tors(&self, a: u32, b: u32) -> u64 {
        let above = |tor: u32| {
            let first = u64::from(tor) * u64::from(self.d0);
            (0..self.d0).map(move |j| (first + u64::from(j)) % u64::from(self.d2))
        };
        let common = above(a).filter(|up| above(b).any(|other| other == *up));
        match common.count() {
            0 => product([self.d0.into(), (self.d1 / 2).into(), self.d0.into()]),
            common => common as u64,
        }
    }
    /// Returns the smallest capacity between two halves of the hosts in one direction: half of what
    /// the hosts or the (d1/2)*d2 links to the intermediates can carry. Exact if the racks can be
    /// halved.
    pub fn bisection(&self) -> Bandwidth {
        let core_links = product([(self.d1 / 2).into(), self.d2.into()]);
        half_of(core_links, self.fabric_rate).min(half_of(self.size().hosts, self.host_rate))
    }

    /// Adds intermediates first, then aggregations, then rack by rack with its hosts. Port order is
    /// hosts, then lower neighbour first.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let intermediates: Vec<NodeIx> = (0..self.d1 / 2).map(|i| b.switch(format!("int{i}"), 3, None)).collect();
        let aggregations: Vec<NodeIx> = (0..self.d2).map(|i| b.switch(format!("agg{i}"), 2, self.pod(i))).collect();
        for rack in 0..self.tors() as u32 {
            let first = rack * self.d0 % self.d2;
            let tor = b.switch(format!("tor{rack}"), 1, self.pod(first));
            b.rack(tor, rack, self.pod(first), self.hosts_per_tor(), (self.host_rate, self.host_delay));
            let mut above: Vec<u32> = (0..self.d0).map(|j| (first + j) % self.d2).collect();
            above.sort_unstable();
            for i in above {
                let aggregation = aggregations[i as usize];
                b.connect(tor, aggregation, self.fabric_rate, self.fabric_delay);
            }
        }
        for aggregation in aggregations {
            for intermediate in &intermediates {
                b.connect(aggregation, *intermediate, self.fabric_rate, self.fabric_delay);
            }
        }
    }

    /// Returns the pod of an aggregation: racks under the same ones, if d0 divides d2.
    fn pod(&self, aggregation: u32) -> Option<u32> {
        self.d2.is_multiple_of(self.d0).then(|| aggregation / self.d0)
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "d0", self.d0, 1)?;
        at_least(NAME, "d1", self.d1, 2)?;
        at_least(NAME, "d2", self.d2, 1)?;
        if !self.d1.is_multiple_of(2) {
            return Err(refuse(NAME, "d1", self.d1, "must be even: half up, half down"));
        }
        if self.d0 > self.d2 {
            let reason = format!("a rack has only {} aggregations (d2) to link to", self.d2);
            return Err(refuse(NAME, "d0", self.d0, reason));
        }
        let down_links = product([(self.d1 / 2).into(), self.d2.into()]);
        if !down_links.is_multiple_of(u64::from(self.d0)) {
            let reason = format!("must divide the {down_links} aggregation ports that face racks");
            return Err(refuse(NAME, "d0", self.d0, reason));
        }
        at_least(NAME, "hosts_per_tor", self.hosts_per_tor(), 1)?;
        self.size().check(NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::paths;
    use super::*;

    #[test]
    fn the_published_example_has_10_switches_and_80_hosts() {
        let net = Vl2::default();
        let topology = net.build().unwrap();
        assert_eq!(Size::of(&topology), net.size());
        assert_eq!((net.size().switches, net.size().hosts), (10, 80));
        assert_eq!(net.paths_between_tors(0, 1), 8);
        assert_eq!(paths(&topology, "tor0", "tor1"), (8, 4));
        assert_eq!(net.paths_between_tors(0, 2), 2);
        assert_eq!(paths(&topology, "tor0", "tor2"), (2, 2));
    }

    #[test]
    fn path_counts_agree_with_enumeration() {
        for (d0, d1, d2) in [(2, 6, 4), (3, 6, 6), (2, 4, 3), (4, 4, 6), (1, 2, 4)] {
            let net = Vl2 { d0, d1, d2, hosts_per_tor: Some(1), ..Vl2::default() };
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), net.size(), "{}", topology.name());
            for tor in 1..net.tors() as u32 {
                let counted = paths(&topology, "tor0", &format!("tor{tor}")).0;
                assert_eq!(counted, net.paths_between_tors(0, tor), "{net:?} {tor}");
            }
        }
    }

    #[test]
    fn degrees_that_do_not_match_fail() {
        for (d0, d1, d2, wrong) in [(2, 3, 4, "d1"), (5, 4, 4, "d0"), (3, 4, 4, "d0")] {
            let net = Vl2 { d0, d1, d2, ..Vl2::default() };
            let error = net.build().unwrap_err();
            assert!(matches!(error, TopologyError::Parameter { parameter, .. } if parameter == wrong), "{error}");
        }
    }
}
