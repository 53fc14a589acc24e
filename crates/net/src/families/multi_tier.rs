//! Multi-tier tree with chosen numbers of switches and uplinks, hence oversubscription.

use super::{Size, above_zero, at_least, product, refuse};
use crate::spec::{Family, Param, SpecError, Values};
use crate::topology::{NodeIx, Topology, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

const NAME: &str = "multi-tier";

/// Parameters of a multi-tier network. The default has tiers of 8, 4 and 2 switches, 8 hosts per
/// edge switch and two uplinks per switch: oversubscribed 4:1 at the edge, 2:1 above, 8:1 end to
/// end.
///
/// Uplink `j` of switch `i` in a tier leads to switch `(i*uplinks + j) mod switches above`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultiTier {
    pub hosts_per_edge: u32,
    pub switches: Vec<u32>,
    pub uplinks: Vec<u32>,
    pub host_rate: Bandwidth,
    pub uplink_rates: Vec<Bandwidth>,
    pub host_delay: Time,
    pub fabric_delay: Time,
}

impl Default for MultiTier {
    fn default() -> MultiTier {
        FAMILY.defaults(from_values)
    }
}

impl MultiTier {
    /// Returns the size that follows from the parameters.
    pub fn size(&self) -> Size {
        let edges = self.switches.first().copied().unwrap_or(0);
        let hosts = product([edges.into(), self.hosts_per_edge.into()]);
        let fabric = self.switches.iter().zip(&self.uplinks);
        Size {
            hosts,
            switches: self.switches.iter().map(|n| u64::from(*n)).sum(),
            cables: fabric.map(|(n, up)| product([(*n).into(), (*up).into()])).fold(hosts, u64::saturating_add),
        }
    }
    /// Returns down over up bandwidth of tier `tier` (0 = edge); `None` for the top tier.
    pub fn oversubscription(&self, tier: usize) -> Option<f64> {
        let uplinks = f64::from(*self.uplinks.get(tier)?);
        let up = uplinks * self.uplink_rate(tier)?.as_bps_f64();
        let Some(below) = tier.checked_sub(1) else {
            return Some(f64::from(self.hosts_per_edge) * self.host_rate.as_bps_f64() / up);
        };
        let downlinks =
            f64::from(self.switches[below]) * f64::from(self.uplinks[below]) / f64::from(self.switches[tier]);
        Some(downlinks * self.uplink_rate(below)?.as_bps_f64() / up)
    }
    /// Returns the product of the oversubscription of all tiers.
    pub fn end_to_end_oversubscription(&self) -> f64 {
        (0..self.uplinks.len()).filter_map(|tier| self.oversubscription(tier)).product()
    }
    /// Returns the number of equal-cost paths between two edge switches that meet only in the top
    /// tier: the choices on the way up times those down. Every edge switch must reach all top
    /// switches over equally many paths.
    pub fn paths_over_top(&self) -> u64 {
        let up = self.uplinks.iter().map(|up| u64::from(*up));
        let up = up.fold(1, u64::saturating_mul);
        let top = u64::from(self.switches.last().copied().unwrap_or(1)).max(1);
        up.saturating_mul(up) / top
    }

    /// Builds the topology. The top tier comes first, then tier by tier downwards, then the hosts.
    /// Port order is hosts or lower tier, then lower neighbour first.
    ///
    /// # Errors
    /// Lists of the wrong length, a zero, too many nodes, or uplinks that leave the network
    /// disconnected.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        self.check()?;
        let mut b = TopologyBuilder::new(self.name());
        let mut tiers: Vec<Vec<NodeIx>> = Vec::new();
        for (tier, count) in self.switches.iter().enumerate().rev() {
            let add = |i| b.switch(format!("tier{}/switch{i}", tier + 1), tier as u8 + 1, None);
            tiers.push((0..*count).map(add).collect());
        }
        tiers.reverse();
        for (rack, edge) in tiers[0].iter().enumerate() {
            for position in 0..self.hosts_per_edge {
                let number = rack as u32 * self.hosts_per_edge + position;
                let host = b.host(format!("h{number}"), rack as u32, None);
                b.connect(host, *edge, self.host_rate, self.host_delay);
            }
        }
        for (tier, uplinks) in self.uplinks.iter().enumerate() {
            let rate = self.uplink_rate(tier).expect("the lengths were checked");
            let above = &tiers[tier + 1];
            for (i, switch) in tiers[tier].iter().enumerate() {
                let first = i * *uplinks as usize;
                let mut targets: Vec<usize> = (first..first + *uplinks as usize).map(|j| j % above.len()).collect();
                targets.sort_unstable();
                for target in targets {
                    b.connect(*switch, above[target], rate, self.fabric_delay);
                }
            }
        }
        b.build()
    }

    fn uplink_rate(&self, tier: usize) -> Option<Bandwidth> {
        match self.uplink_rates.as_slice() {
            [all] => Some(*all),
            rates => rates.get(tier).copied(),
        }
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "hosts_per_edge", self.hosts_per_edge, 1)?;
        if self.switches.is_empty() || self.switches.len() > 32 || self.switches.contains(&0) {
            let reason = "must be 1 to 32 tiers of at least one switch each, such as `8/4/2`";
            return Err(refuse(NAME, "switches", list(&self.switches), reason));
        }
        let above = self.switches.len() - 1;
        if self.uplinks.len() != above || self.uplinks.contains(&0) {
            let reason = format!("must have a number above zero for each of the {above} tiers below the top one");
            return Err(refuse(NAME, "uplinks", list(&self.uplinks), reason));
        }
        above_zero(NAME, "host_rate", self.host_rate)?;
        let rates = list(&self.uplink_rates);
        if self.uplink_rates.len() != 1 && self.uplink_rates.len() != above {
            let reason = format!("must be one rate for all tiers, or {above}");
            return Err(refuse(NAME, "uplink_rates", rates, reason));
        }
        if self.uplink_rates.iter().any(|rate| rate.as_bps() == 0) {
            return Err(refuse(NAME, "uplink_rates", rates, "must be above zero"));
        }
        self.size().check(NAME)
    }

    fn name(&self) -> String {
        format!(
            "{NAME}:hosts_per_edge={},switches={},uplinks={}",
            self.hosts_per_edge,
            list(&self.switches),
            list(&self.uplinks)
        )
    }
}

/// Returns `8/4/2`, the form of lists in specs.
fn list<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    items.join("/")
}

pub const FAMILY: Family = Family {
    name: NAME,
    title: "Multi-tier tree with chosen oversubscription",
    source: "generic; oversubscription as defined in Al-Fares et al., SIGCOMM 2008 (section 2.1)",
    params: &[
        Param::new("hosts_per_edge", "8", "hosts", "hosts per edge switch"),
        Param::new("switches", "8/4/2", "switches", "switches per tier, edge first"),
        Param::new("uplinks", "2/2", "links", "uplinks per switch, edge tier first"),
        Param::HOST_RATE,
        Param::new("uplink_rates", "10Gbps", "bandwidth", "rate of the uplinks, one or one per tier"),
        Param::HOST_DELAY,
        Param::FABRIC_DELAY,
    ],
    build: |values| Ok(from_values(values)?.build()?),
};

fn from_values(values: &Values) -> Result<MultiTier, SpecError> {
    Ok(MultiTier {
        hosts_per_edge: values.count("hosts_per_edge")?,
        switches: values.counts("switches")?,
        uplinks: values.counts("uplinks")?,
        host_rate: values.rate("host_rate")?,
        uplink_rates: values.rates("uplink_rates")?,
        host_delay: values.time("host_delay")?,
        fabric_delay: values.time("fabric_delay")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::oracle::paths;
    use super::*;

    #[test]
    fn oversubscription_multiplies() {
        let net = MultiTier::default();
        assert_eq!(net.oversubscription(0), Some(4.0));
        assert_eq!(net.oversubscription(1), Some(2.0));
        assert_eq!(net.oversubscription(2), None);
        assert_eq!(net.end_to_end_oversubscription(), 8.0);
        let topology = net.build().unwrap();
        assert_eq!(Size::of(&topology), net.size());
    }

    #[test]
    fn paths_agree_with_enumeration() {
        for (switches, uplinks) in
            [(vec![8, 4, 2], vec![2, 2]), (vec![4, 4], vec![4]), (vec![8, 8, 4], vec![2, 4]), (vec![4, 2], vec![6])]
        {
            let net = MultiTier { hosts_per_edge: 1, switches, uplinks, ..MultiTier::default() };
            let topology = net.build().unwrap();
            let counted = paths(&topology, "tier1/switch0", "tier1/switch1");
            let links = 2 * net.uplinks.len() as u16;
            assert_eq!(counted, (net.paths_over_top(), links), "{net:?}");
        }
    }

    #[test]
    fn lists_of_wrong_length_fail() {
        let wrong = |net: MultiTier| match net.build() {
            Err(TopologyError::Parameter { parameter, .. }) => parameter,
            other => panic!("{other:?}"),
        };
        let base = MultiTier::default;
        let (none, short, zero) = (vec![], vec![2], vec![8, 0, 2]);
        assert_eq!(wrong(MultiTier { switches: none, ..base() }), "switches");
        assert_eq!(wrong(MultiTier { switches: zero, ..base() }), "switches");
        assert_eq!(wrong(MultiTier { uplinks: short, ..base() }), "uplinks");
        let rates = vec![Bandwidth::from_gbps(10); 3];
        assert_eq!(wrong(MultiTier { uplink_rates: rates, ..base() }), "uplink_rates");
    }
}
