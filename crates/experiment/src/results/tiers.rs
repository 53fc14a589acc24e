//! Names of the kinds of links: `edge→agg`, `leaf→spine`, `host→leaf`.

use net::{LinkIx, Topology};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkKind {
    /// Tier of the cable, which is that of its upper end; 1 for host links.
    pub tier: u8,
    /// Tier of its lower end; equal to `tier` in networks without tiers.
    pub lower: u8,
    pub up: bool,
}

impl LinkKind {
    pub fn of(topology: &Topology, link: LinkIx) -> LinkKind {
        let ends = topology.link(link);
        let (from, to) = (topology.node(ends.from).tier.0, topology.node(ends.to).tier.0);
        LinkKind { tier: from.max(to), lower: from.min(to), up: from < to }
    }

    pub fn name(self, topology: &Topology) -> String {
        let top = topology.top_tier().0;
        let (low, high) = (tier_name(self.lower, top), tier_name(self.tier, top));
        match (self.lower == self.tier, self.up) {
            (true, _) => format!("{low}–{high}"),
            (false, true) => format!("{low}→{high}"),
            (false, false) => format!("{high}→{low}"),
        }
    }
}

/// Returns the name of nodes of a tier in a network with `top` tiers of switches.
pub fn tier_name(tier: u8, top: u8) -> String {
    let names: &[&str] = match top {
        0 | 1 => &["host", "switch"],
        2 => &["host", "leaf", "spine"],
        3 => &["host", "edge", "agg", "core"],
        _ => &["host"],
    };
    names.get(usize::from(tier)).map_or_else(|| format!("tier{tier}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_follow_the_number_of_tiers() {
        for (spec, expected) in [
            (
                "leaf-spine:leaves=2,spines=2,hosts_per_leaf=1",
                vec!["host→leaf", "leaf→host", "leaf→spine", "spine→leaf"],
            ),
            ("fat-tree:k=2", vec!["agg→core", "agg→edge", "core→agg", "edge→agg", "edge→host", "host→edge"]),
            ("geni-wan", vec!["host→switch", "switch–switch", "switch→host"]),
        ] {
            let topology = net::spec::parse(spec).unwrap();
            let names: BTreeSet<String> = (0..topology.links().len())
                .map(|ix| LinkKind::of(&topology, LinkIx(ix as u32)).name(&topology))
                .collect();
            assert_eq!(names.into_iter().collect::<Vec<_>>(), expected, "{spec}");
        }
    }
}
