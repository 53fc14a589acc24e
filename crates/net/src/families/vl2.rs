//! VL2(d0, d1, d2): racks under a Clos of aggregation and intermediate switches.

use super::{Size, above_zero, at_least, half_of, product, refuse};
use crate::spec::{Family, Param, SpecError, Values};
use crate::topology::{NodeIx, Topology, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

const NAME: &str = "vl2";

/// Parameters of a VL2 network. The defaults are VL2(2, 4, 4) with the paper's rates: 80 hosts at 1
/// Gb/s, a fabric of 10 Gb/s links.
///
/// Rack `t` is linked to the aggregations `(t*d0 + j) mod d2`; the paper leaves this open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vl2 {
    pub d0: u32,
    pub d1: u32,
    pub d2: u32,
    /// Hosts per rack; `None` for 10*d0.
    pub hosts_per_tor: Option<u32>,
    pub host_rate: Bandwidth,
    pub fabric_rate: Bandwidth,
    pub host_delay: Time,
    pub fabric_delay: Time,
}

impl Default for Vl2 {
    fn default() -> Vl2 {
        FAMILY.defaults(from_values)
    }
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

    /// Builds the topology. Intermediates come first, then aggregations, then rack by rack with its
    /// hosts. Port order is hosts, then lower neighbour first.
    ///
    /// # Errors
    /// Degrees that do not fit together, a zero rate, or too many nodes.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        self.check()?;
        let mut b = TopologyBuilder::new(self.name());
        let intermediates: Vec<NodeIx> = (0..self.d1 / 2).map(|i| b.switch(format!("int{i}"), 3, None)).collect();
        let aggregations: Vec<NodeIx> = (0..self.d2).map(|i| b.switch(format!("agg{i}"), 2, self.pod(i))).collect();
        for rack in 0..self.tors() as u32 {
            let first = rack * self.d0 % self.d2;
            let tor = b.switch(format!("tor{rack}"), 1, self.pod(first));
            for position in 0..self.hosts_per_tor() {
                let number = rack * self.hosts_per_tor() + position;
                let host = b.host(format!("h{number}"), rack, self.pod(first));
                b.connect(host, tor, self.host_rate, self.host_delay);
            }
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
        b.build()
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
        above_zero(NAME, "host_rate", self.host_rate)?;
        above_zero(NAME, "fabric_rate", self.fabric_rate)?;
        self.size().check(NAME)
    }

    fn name(&self) -> String {
        let degrees = format!("{NAME}:d0={},d1={},d2={}", self.d0, self.d1, self.d2);
        match self.hosts_per_tor {
            None => degrees,
            Some(hosts) => format!("{degrees},hosts_per_tor={hosts}"),
        }
    }
}

pub const FAMILY: Family = Family {
    name: NAME,
    title: "VL2: racks under a Clos of aggregation and intermediate switches",
    source: "Greenberg et al.: VL2: A Scalable and Flexible Data Center Network, SIGCOMM 2009",
    params: &[
        Param::new("d0", "2", "ports", "fabric ports per rack switch"),
        Param::new("d1", "4", "ports", "ports per aggregation switch; even"),
        Param::new("d2", "4", "ports", "ports per intermediate switch"),
        Param::new("hosts_per_tor", "10*d0", "hosts", "hosts per rack"),
        Param::new("host_rate", "1Gbps", "bandwidth", "rate of host links"),
        Param::FABRIC_RATE,
        Param::HOST_DELAY,
        Param::FABRIC_DELAY,
    ],
    build: |values| Ok(from_values(values)?.build()?),
};

fn from_values(values: &Values) -> Result<Vl2, SpecError> {
    Ok(Vl2 {
        d0: values.count("d0")?,
        d1: values.count("d1")?,
        d2: values.count("d2")?,
        hosts_per_tor: values.optional_count("hosts_per_tor")?,
        host_rate: values.rate("host_rate")?,
        fabric_rate: values.rate("fabric_rate")?,
        host_delay: values.time("host_delay")?,
        fabric_delay: values.time("fabric_delay")?,
    })
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
