//! Multi-tier tree with chosen numbers of switches and uplinks, hence oversubscription.

use super::{Size, at_least, product, refuse};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a multi-tier network. The default has tiers of 8, 4 and 2 switches, 8 hosts
    /// per edge switch and two uplinks per switch: oversubscribed 4:1 at the edge, 2:1 above, 8:1
    /// end to end.
    ///
    /// Uplink `j` of switch `i` in a tier leads to switch `(i*uplinks + j) mod switches above`.
    MultiTier: "multi-tier",
    title: "Multi-tier tree with chosen oversubscription",
    source: "generic; oversubscription as defined in Al-Fares et al., SIGCOMM 2008 (section 2.1)",
    hosts_per_edge: u32 = ("8", "hosts per edge switch"),
    switches: Vec<u32> = ("8/4/2", "switches per tier, edge first"),
    uplinks: Vec<u32> = ("2/2", "uplinks per switch, edge tier first"),
    host_rate: Bandwidth = ("10Gbps", "rate of host links"),
    uplink_rates: Vec<Bandwidth> = ("10Gbps", "rate of the uplinks, one or one per tier"),
    host_delay: Time = ("1us", "propagation delay of host links"),
    fabric_delay: Time = ("1us", "propagation delay of links between switches"),
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
    /// Returns the number of equal-cost paths between two edge switches that meet only in the top
    /// tier: the choices on the way up times those down. Every edge switch must reach all top
    /// switches over equally many paths.
    pub fn paths_over_top(&self) -> u64 {
        let up = self.uplinks.iter().map(|up| u64::from(*up));
        let up = up.fold(1, u64::saturating_mul);
        let top = u64::from(self.switches.last().copied().unwrap_or(1)).max(1);
        up.saturating_mul(up) / top
    }

    /// Adds the top tier first, then tier by tier downwards, then the hosts. Port order is hosts or
    /// lower tier, then lower neighbour first. Uplinks may leave the network disconnected.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let mut tiers: Vec<Vec<NodeIx>> = Vec::new();
        for (tier, count) in self.switches.iter().enumerate().rev() {
            let add = |i| b.switch(format!("tier{}/switch{i}", tier + 1), tier as u8 + 1, None);
            tiers.push((0..*count).map(add).collect());
        }
        tiers.reverse();
        for (rack, edge) in (0..).zip(&tiers[0]) {
            b.rack(*edge, rack, None, self.hosts_per_edge, (self.host_rate, self.host_delay));
        }
        for (tier, uplinks) in self.uplinks.iter().enumerate() {
            let rate = self.uplink_rates[tier.min(self.uplink_rates.len() - 1)];
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
        if self.uplink_rates.len() != 1 && self.uplink_rates.len() != above {
            let reason = format!("must be one rate for all tiers, or {above}");
            return Err(refuse(NAME, "uplink_rates", list(&self.uplink_rates), reason));
        }
        self.size().check(NAME)
    }
}

/// Returns `8/4/2`, the form of lists in specs.
fn list<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    items.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::oracle::paths;
    use super::*;

    #[test]
    fn counts_and_paths_agree_with_enumeration() {
        for (switches, uplinks) in
            [(vec![8, 4, 2], vec![2, 2]), (vec![4, 4], vec![4]), (vec![8, 8, 4], vec![2, 4]), (vec![4, 2], vec![6])]
        {
            let net = MultiTier { switches, uplinks, ..MultiTier::default() };
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), net.size());
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
