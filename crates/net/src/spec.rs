//! Topologies as text: `fat-tree:k=8,host_rate=10Gbps`.
//!
//! A spec is the name of a family, optionally followed by `:` and parameters `name=value` separated
//! by `,`. Lists are separated by `/` (`switches=8/4/2`). Omitted parameters take the defaults in
//! [`FAMILIES`].

use std::collections::BTreeMap;

use crate::did_you_mean;
use crate::families;
use crate::spec_text::{SpecText, SpecTextError};
use crate::topology::{Topology, TopologyError};
use crate::units::{Bandwidth, Time, UnitError};

/// All topology families, in the order of lists.
pub const FAMILIES: &[Family] = &[
    families::fat_tree::FAMILY,
    families::leaf_spine::FAMILY,
    families::vl2::FAMILY,
    families::multi_tier::FAMILY,
    families::bcube::FAMILY,
    families::camcube::FAMILY,
    families::flattened_butterfly::FAMILY,
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
    /// Builds the topology from the values of a spec.
    pub build: fn(&Values) -> Result<Topology, SpecError>,
}

/// A parameter of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param {
    /// The name in specs.
    pub name: &'static str,
    /// The value of an omitted parameter, or a formula in other parameters.
    pub default: &'static str,
    /// The counted or measured quantity.
    pub unit: &'static str,
    /// A description in one line.
    pub doc: &'static str,
}

#[allow(missing_docs, reason = "the rows describe themselves")]
impl Param {
    pub const HOST_RATE: Param = Param::new("host_rate", "10Gbps", "bandwidth", "rate of host links");
    pub const FABRIC_RATE: Param = Param::new("fabric_rate", "10Gbps", "bandwidth", "rate of links between switches");
    pub const HOST_DELAY: Param = Param::new("host_delay", "1us", "time", "propagation delay of host links");
    pub const FABRIC_DELAY: Param =
        Param::new("fabric_delay", "1us", "time", "propagation delay of links between switches");
    pub const RATE: Param = Param::new("rate", "10Gbps", "bandwidth", "rate of every link");
    pub const DELAY: Param = Param::new("delay", "1us", "time", "propagation delay of every link");

    /// Returns a row of a parameter table.
    pub const fn new(name: &'static str, default: &'static str, unit: &'static str, doc: &'static str) -> Param {
        Param { name, default, unit, doc }
    }
}

impl Family {
    /// Reads the parameters of a spec that gives none.
    pub(crate) fn defaults<T>(&self, read: fn(&Values<'_>) -> Result<T, SpecError>) -> T {
        read(&Values { family: self, given: BTreeMap::new() }).expect("the defaults of a family are valid")
    }
}

/// The reason why a spec describes no topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum SpecError {
    #[error("unknown topology `{family}`; {hint}")]
    UnknownFamily { family: String, hint: String },
    #[error("{family} has no parameter `{parameter}`; {hint}")]
    UnknownParameter { family: &'static str, parameter: String, hint: String },
    #[error("`{part}` in topology `{spec}` is not of the form `name=value`")]
    Syntax { spec: String, part: String },
    #[error("parameter `{parameter}` of topology `{spec}` is given twice; keep one")]
    Repeated { spec: String, parameter: String },
    #[error("{family}: {parameter} = `{value}`: {reason}")]
    Value { family: &'static str, parameter: String, value: String, reason: String },
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// The parameters of a spec, read by name; omitted parameters take their defaults.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    family: &'a Family,
    given: BTreeMap<&'a str, &'a str>,
}

/// Builds the topology of a text such as `leaf-spine:leaves=4,spines=2`.
///
/// ```
/// let topology = anabranch_net::spec::parse("fat-tree:k=4,fabric_rate=40Gbps")?;
/// assert_eq!(topology.hosts().len(), 16);
/// # Ok::<(), anabranch_net::spec::SpecError>(())
/// ```
pub fn parse(text: &str) -> Result<Topology, SpecError> {
    let split = SpecText::parse(text).map_err(|error| match error {
        SpecTextError::NotKeyValue(part) => SpecError::Syntax { spec: text.to_owned(), part: part.to_owned() },
        SpecTextError::Repeated(key) => SpecError::Repeated { spec: text.to_owned(), parameter: key.to_owned() },
    })?;
    build_family(split.name, split.values)
}

/// Builds a topology from parameters that are already split, as in experiment files.
pub fn build(family: &str, params: &BTreeMap<String, String>) -> Result<Topology, SpecError> {
    let given = params.iter().map(|(name, value)| (name.as_str(), value.trim()));
    build_family(family, given.collect())
}

/// Returns the family of a name.
pub fn family(name: &str) -> Result<&'static Family, SpecError> {
    let known = FAMILIES.iter().find(|family| family.name == name);
    known.ok_or_else(|| SpecError::UnknownFamily {
        family: name.to_owned(),
        hint: did_you_mean::suggestion(name, FAMILIES.iter().map(|family| family.name)),
    })
}

fn build_family(name: &str, given: BTreeMap<&str, &str>) -> Result<Topology, SpecError> {
    let family = family(name)?;
    for name in given.keys() {
        if !family.params.iter().any(|param| param.name == *name) {
            return Err(SpecError::UnknownParameter {
                family: family.name,
                parameter: (*name).to_owned(),
                hint: did_you_mean::suggestion(name, family.params.iter().map(|param| param.name)),
            });
        }
    }
    (family.build)(&Values { family, given })
}

impl Values<'_> {
    /// Returns a whole number.
    pub fn count(&self, name: &str) -> Result<u32, SpecError> {
        self.parse_count(name, self.text(name))
    }
    /// Returns a whole number, or `None` if the parameter is omitted.
    pub fn optional_count(&self, name: &str) -> Result<Option<u32>, SpecError> {
        let given = self.given.get(name);
        given.map(|text| self.parse_count(name, text)).transpose()
    }
    /// Returns whole numbers separated by `/`.
    pub fn counts(&self, name: &str) -> Result<Vec<u32>, SpecError> {
        let items = self.text(name).split('/');
        items.map(|text| self.parse_count(name, text.trim())).collect()
    }
    /// Returns a bandwidth.
    pub fn rate(&self, name: &str) -> Result<Bandwidth, SpecError> {
        self.parse_unit(name, self.text(name))
    }
    /// Returns a bandwidth, or `None` if the parameter is omitted.
    pub fn optional_rate(&self, name: &str) -> Result<Option<Bandwidth>, SpecError> {
        let given = self.given.get(name);
        given.map(|text| self.parse_unit(name, text)).transpose()
    }
    /// Returns bandwidths separated by `/`.
    pub fn rates(&self, name: &str) -> Result<Vec<Bandwidth>, SpecError> {
        let items = self.text(name).split('/');
        items.map(|text| self.parse_unit(name, text)).collect()
    }
    /// Returns a time of at most one hour: longer delays would overflow sums over paths.
    pub fn time(&self, name: &str) -> Result<Time, SpecError> {
        let time: Time = self.parse_unit(name, self.text(name))?;
        if time > families::MAX_DELAY {
            return Err(self.value_error(name, self.text(name), "must be at most one hour".to_owned()));
        }
        Ok(time)
    }
    /// Returns the position of the value in `choices`.
    pub fn choice(&self, name: &str, choices: &[&str]) -> Result<usize, SpecError> {
        let text = self.text(name);
        let found = choices.iter().position(|choice| *choice == text);
        found.ok_or_else(|| self.value_error(name, text, did_you_mean::suggestion(text, choices.iter().copied())))
    }

    fn text(&self, name: &str) -> &str {
        let default = || {
            let param = self.family.params.iter().find(|param| param.name == name);
            param.expect("a family reads only its own parameters").default
        };
        self.given.get(name).copied().unwrap_or_else(default)
    }
    fn parse_count(&self, name: &str, text: &str) -> Result<u32, SpecError> {
        text.parse().map_err(|_| {
            let reason = format!("must be a whole number from 0 to {}", u32::MAX);
            self.value_error(name, text, reason)
        })
    }
    fn parse_unit<T>(&self, name: &str, text: &str) -> Result<T, SpecError>
    where
        T: std::str::FromStr<Err = UnitError>,
    {
        text.parse().map_err(|error: UnitError| {
            let reason = format!("{} (write it as {})", error.reason, error.example);
            self.value_error(name, text, reason)
        })
    }
    fn value_error(&self, name: &str, text: &str, reason: String) -> SpecError {
        SpecError::Value { family: self.family.name, parameter: name.to_owned(), value: text.to_owned(), reason }
    }
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
    fn text_and_map_build_same_topology() {
        let params = [("k", "4"), ("host_rate", " 1Mbps ")];
        let params = params.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let map = build("fat-tree", &params.into()).unwrap();
        let text = parse(" fat-tree : k = 4 , host_rate = 1Mbps,").unwrap();
        assert_eq!(format!("{map:?}"), format!("{text:?}"));
    }

    #[test]
    fn wrong_spec_error_says_how_to_fix_it() {
        for (spec, expected) in [
            ("fattree:k=4", "did you mean `fat-tree`?"),
            ("nonsense", "there are: fat-tree, leaf-spine"),
            ("fat-tree:host_rat=1Gbps", "did you mean `host_rate`?"),
            ("fat-tree:k", "`k` in topology `fat-tree:k` is not of the form"),
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
            ("multi-tier:switches=8//2", "switches = ``"),
            ("diamond:form=square", "there are: two-paths, migration"),
            ("leaf-spine:leaves=1000,hosts_per_leaf=1000", "at most 200000 and 2000000"),
        ] {
            let text = message(spec);
            assert!(text.contains(expected), "{spec}: {text}");
        }
    }
}
