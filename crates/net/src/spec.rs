//! Topologies as text: `fat-tree:k=8,host_rate=10Gbps`.
//!
//! A spec is the name of a family, optionally followed by `:` and parameters `name=value` separated
//! by `,`. Lists are separated by `/` (`switches=8/4/2`). Omitted parameters take the defaults in
//! [`FAMILIES`].

use crate::families;
pub use crate::spec_text::{Param, Spec, SpecError};
use crate::topology::{Topology, TopologyError};

/// All topology families, in the order of lists.
pub const FAMILIES: &[Family] = &[
    families::fat_tree::FAMILY,
    families::leaf_spine::FAMILY,
    families::vl2::FAMILY,
    families::multi_tier::FAMILY,
    families::rail::FAMILY,
    families::bcube::FAMILY,
    families::camcube::FAMILY,
    families::flattened_butterfly::FAMILY,
    families::hyperx::FAMILY,
    families::torus::FAMILY,
    families::dragonfly::FAMILY,
    families::slim_fly::FAMILY,
    families::multi_plane::FAMILY,
    families::geni::FAMILY,
    families::diamond::FAMILY,
    families::dumbbell::FAMILY,
    families::single_switch::FAMILY,
];

/// A family of topologies.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name in specs.
    pub name: &'static str,
    /// A description in one line, for lists.
    pub title: &'static str,
    /// The publication, or another origin.
    pub source: &'static str,
    /// Accepted parameters, in the order of lists.
    pub params: &'static [Param],
    /// Builds the topology of a spec.
    pub build: fn(&Spec) -> Result<Topology, SpecError>,
}

impl From<TopologyError> for SpecError {
    fn from(error: TopologyError) -> SpecError {
        SpecError(error.to_string())
    }
}

/// Builds the topology of a text such as `leaf-spine:leaves=4,spines=2`.
///
/// ```
/// let topology = anabranch_net::spec::parse("fat-tree:k=4,fabric_rate=40Gbps")?;
/// assert_eq!(topology.hosts().len(), 16);
/// # Ok::<(), anabranch_net::spec::SpecError>(())
/// ```
pub fn parse(text: &str) -> Result<Topology, SpecError> {
    let (family, spec) = Spec::parse("topology", text)?.find(FAMILIES, |family| (family.name, family.params))?;
    (family.build)(&spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(spec: &str) -> String {
        parse(spec).expect_err(spec).to_string()
    }

    #[test]
    fn every_family_builds_with_its_defaults() {
        for family in FAMILIES {
            let topology = parse(family.name).unwrap_or_else(|error| panic!("{error}"));
            assert!(topology.name().starts_with(family.name));
            assert!(!family.title.is_empty() && !family.source.is_empty());
        }
    }

    #[test]
    fn topology_name_is_spec_of_same_topology() {
        for spec in ["fat-tree:k=2,hosts_per_edge=3", "multi-tier", "diamond:form=migration"] {
            let first = parse(spec).unwrap();
            assert_eq!(parse(first.name()).unwrap().name(), first.name());
        }
    }

    #[test]
    fn spaces_and_empty_parts_mean_nothing() {
        let plain = parse("fat-tree:k=4,host_rate=1Mbps").unwrap();
        let spaced = parse(" fat-tree : k = 4 , host_rate = 1Mbps,").unwrap();
        assert_eq!(format!("{plain:?}"), format!("{spaced:?}"));
    }

    #[test]
    fn wrong_spec_error_says_how_to_fix_it() {
        for (spec, expected) in [
            ("fattree:k=4", "did you mean `fat-tree`?"),
            ("nonsense", "there are: fat-tree, leaf-spine"),
            ("fat-tree:host_rat=1Gbps", "did you mean `host_rate`?"),
            ("fat-tree:k", "in `fat-tree:k`: `k` is not of the form"),
            ("fat-tree:k=4,8", "is not of the form"),
            ("fat-tree:k=4,k=8", "given twice"),
            ("fat-tree:k=5", "k = 5: must be even"),
            ("fat-tree:k=-4", "k = `-4`: must be a whole number"),
            ("fat-tree:k=99999999999", "must be a whole number from 0 to"),
            ("fat-tree:k=4294967294", "too many"),
            ("fat-tree:hosts_per_edge=0", "must be at least 1"),
            ("fat-tree:host_rate=0Gbps", "must be above zero"),
            ("fat-tree:host_rate=10", "the unit is missing"),
            ("fat-tree:host_delay=9999999s", "at most one hour"),
            ("multi-tier:switches=8//2", "switches = `8//2`: `` must be a whole number"),
            ("diamond:form=square", "there are: two-paths, migration"),
            ("leaf-spine:leaves=10000,hosts_per_leaf=1000", "at most 2000000 and 4000000"),
        ] {
            let text = message(spec);
            assert!(text.contains(expected), "{spec}: {text}");
        }
    }
}
