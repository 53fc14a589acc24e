//! Topology families. Each file holds the parameters, the builder, the closed forms and the
//! registry row of one family ([`crate::spec::FAMILIES`] lists them).

#![allow(missing_docs, reason = "the registry row of a family describes its fields")]

pub mod bcube;
pub mod camcube;
pub mod diamond;
pub mod dumbbell;
pub mod fat_tree;
pub mod flattened_butterfly;
pub mod geni;
pub mod leaf_spine;
pub mod multi_tier;
pub mod single_switch;
pub mod vl2;

pub use bcube::BCube;
pub use camcube::CamCube;
pub use diamond::{Diamond, DiamondForm};
pub use dumbbell::Dumbbell;
pub use fat_tree::FatTree;
pub use flattened_butterfly::FlattenedButterfly;
pub use geni::GeniWan;
pub use leaf_spine::LeafSpine;
pub use multi_tier::MultiTier;
pub use single_switch::SingleSwitch;
pub use vl2::Vl2;

use crate::topology::{Topology, TopologyError};
use crate::units::{Bandwidth, Time};

/// Maximum number of hosts and switches that a builder or importer accepts.
pub const MAX_NODES: u64 = 200_000;
/// Maximum number of cables that a builder or importer accepts.
pub const MAX_CABLES: u64 = 2_000_000;

/// Longest propagation delay that specs and importers accept: sums over paths must not overflow.
pub const MAX_DELAY: Time = Time::from_s(3600);

/// The size of a network. Sums and products saturate, so that absurd parameters remain comparable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    pub hosts: u64,
    pub switches: u64,
    /// Number of cables, host links included.
    pub cables: u64,
}

impl Size {
    /// Counts the nodes and cables of a topology.
    pub fn of(topology: &Topology) -> Size {
        let hosts = topology.hosts().len() as u64;
        Size { hosts, switches: topology.nodes().len() as u64 - hosts, cables: topology.links().len() as u64 / 2 }
    }

    /// Checks the size, so that absurd parameters do not exhaust the memory.
    pub fn check(self, family: &'static str) -> Result<(), TopologyError> {
        let nodes = self.hosts.saturating_add(self.switches);
        if nodes > MAX_NODES || self.cables > MAX_CABLES {
            return Err(TopologyError::TooLarge { family, nodes, cables: self.cables });
        }
        Ok(())
    }
}

/// Returns `base^exponent`, at most `u64::MAX`.
pub(crate) fn power(base: u32, exponent: u32) -> u64 {
    u64::from(base).saturating_pow(exponent)
}

/// Returns the product of all factors, at most `u64::MAX`.
pub(crate) fn product<const N: usize>(factors: [u64; N]) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul)
}

/// Returns `n!`, at most `u64::MAX`.
pub(crate) fn factorial(n: u64) -> u64 {
    (2..=n.min(21)).fold(1, u64::saturating_mul)
}

/// Returns `rate * count / 2`, at most `u64::MAX` bit/s: the form of most bisections.
pub(crate) fn half_of(count: u64, rate: Bandwidth) -> Bandwidth {
    let bps = u128::from(count) * u128::from(rate.as_bps()) / 2;
    Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

pub(crate) fn refuse(
    family: &'static str,
    parameter: &'static str,
    value: impl ToString,
    reason: impl Into<String>,
) -> TopologyError {
    TopologyError::Parameter { family, parameter, value: value.to_string(), reason: reason.into() }
}

pub(crate) fn at_least(
    family: &'static str,
    parameter: &'static str,
    value: u32,
    least: u32,
) -> Result<(), TopologyError> {
    if value < least {
        let reason = format!("must be at least {least}");
        return Err(refuse(family, parameter, value, reason));
    }
    Ok(())
}

pub(crate) fn above_zero(family: &'static str, parameter: &'static str, rate: Bandwidth) -> Result<(), TopologyError> {
    if rate.as_bps() == 0 {
        let reason = "must be above zero, such as `10Gbps`";
        return Err(refuse(family, parameter, rate, reason));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod oracle {
    //! Enumerations with which tests compare the closed forms.

    use crate::routes::Routes;
    use crate::topology::{NodeIx, Topology};

    pub fn node(topology: &Topology, name: &str) -> NodeIx {
        let found = topology.nodes().iter().position(|node| node.name == name);
        NodeIx(found.unwrap_or_else(|| panic!("no node {name}")) as u32)
    }

    /// Returns the number of equal-cost paths and their links between two named nodes.
    pub fn paths(topology: &Topology, from: &str, to: &str) -> (u64, u16) {
        let routes = Routes::intact(topology);
        let class = routes.class_at(node(topology, to)).expect("a destination");
        let from = node(topology, from);
        let distance = routes.distance(from, class).expect("connected");
        (u64::from(routes.path_count(from, class)), distance)
    }
}
