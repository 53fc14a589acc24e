//! Topology families. Each file holds the parameters, the builder, the closed forms and the
//! registry row of one family ([`crate::spec::FAMILIES`] lists them).

#![allow(missing_docs, reason = "the registry row of a family describes its fields")]

/// Declares a family: the struct of its parameters with their rows in lists, and its registry row
/// `FAMILY`. The family itself defines `check`, which returns an error for parameters that give no
/// network, and `add_to`, which adds nodes and cables to a builder.
macro_rules! family {
    (
        $(#[$about:meta])*
        $type:ident: $name:literal,
        title: $title:literal,
        source: $source:literal,
        $($(#[$doc:meta])* $field:ident: $kind:ty = ($default:literal, $meaning:literal),)+
    ) => {
        const NAME: &str = $name;

        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $type {
            $(
                #[doc = concat!($meaning, ". Default: ", $default, ".")]
                $(#[$doc])*
                pub $field: $kind,
            )+
        }

        pub const FAMILY: $crate::spec::Family = $crate::spec::Family {
            name: NAME,
            title: $title,
            source: $source,
            params: &[$($crate::spec::Param::new(stringify!($field), $default, $meaning)),+],
            build: |spec| Ok($type::read(spec)?.build()?),
        };

        impl Default for $type {
            fn default() -> $type {
                let spec = $crate::spec::Spec::defaults("topology", NAME, FAMILY.params);
                $type::read(&spec).expect("the defaults of a family are valid")
            }
        }

        impl $type {
            fn read(spec: &$crate::spec::Spec) -> Result<$type, $crate::spec::SpecError> {
                Ok($type { $($field: spec.get(stringify!($field))?,)+ })
            }

            /// Builds the topology. Its name is the spec without rates and delays.
            ///
            /// # Errors
            /// Parameters that give no network, a zero rate, a delay above one hour, or too many nodes.
            pub fn build(&self) -> Result<$crate::Topology, $crate::TopologyError> {
                self.check()?;
                let mut builder = $crate::families::start(NAME, &[$((stringify!($field), &self.$field)),+])?;
                self.add_to(&mut builder);
                builder.build()
            }
        }
    };
}

pub mod bcube;
pub mod camcube;
pub mod diamond;
pub mod dragonfly;
pub mod dumbbell;
pub mod fat_tree;
pub mod flattened_butterfly;
pub mod geni;
pub mod hyperx;
pub mod leaf_spine;
pub mod multi_plane;
pub mod multi_tier;
pub mod rail;
pub mod single_switch;
pub mod slim_fly;
pub mod torus;
pub mod vl2;

pub use bcube::BCube;
pub use camcube::CamCube;
pub use diamond::{Diamond, DiamondForm};
pub use dragonfly::Dragonfly;
pub use dumbbell::Dumbbell;
pub use fat_tree::FatTree;
pub use flattened_butterfly::FlattenedButterfly;
pub use geni::GeniWan;
pub use hyperx::HyperX;
pub use leaf_spine::LeafSpine;
pub use multi_plane::MultiPlane;
pub use multi_tier::MultiTier;
pub use rail::Rail;
pub use single_switch::SingleSwitch;
pub use slim_fly::SlimFly;
pub use torus::Torus;
pub use vl2::Vl2;

use crate::topology::{Node, NodeIx, NodeKind, Tier, Topology, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

/// Maximum number of hosts and switches that a builder or importer accepts.
pub const MAX_NODES: u64 = 2_000_000;
/// Maximum number of cables that a builder or importer accepts.
pub const MAX_CABLES: u64 = 4_000_000;

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

/// What building needs to know of a parameter.
pub(crate) trait Parameter {
    /// Returns the value in names of topologies; `None` for rates and delays, and if it is omitted.
    fn named(&self) -> Option<String> {
        None
    }
    /// Returns a value that no network can have, with the rule it breaks.
    fn fault(&self) -> Option<(String, &'static str)> {
        None
    }
}

impl Parameter for u32 {
    fn named(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Parameter for Bandwidth {
    fn fault(&self) -> Option<(String, &'static str)> {
        (self.as_bps() == 0).then(|| (self.to_string(), "must be above zero, such as `10Gbps`"))
    }
}

impl Parameter for Time {
    fn fault(&self) -> Option<(String, &'static str)> {
        (*self > MAX_DELAY).then(|| (self.to_string(), "must be at most one hour"))
    }
}

impl<T: Parameter> Parameter for Option<T> {
    fn named(&self) -> Option<String> {
        self.as_ref()?.named()
    }
    fn fault(&self) -> Option<(String, &'static str)> {
        self.as_ref()?.fault()
    }
}

impl<T: Parameter> Parameter for Vec<T> {
    fn named(&self) -> Option<String> {
        let items: Option<Vec<String>> = self.iter().map(T::named).collect();
        Some(items?.join("/"))
    }
    fn fault(&self) -> Option<(String, &'static str)> {
        self.iter().find_map(T::fault)
    }
}

/// Starts a topology that is named after its parameters.
fn start(
    family: &'static str,
    parameters: &[(&'static str, &dyn Parameter)],
) -> Result<TopologyBuilder, TopologyError> {
    if let Some((name, (value, rule))) = parameters.iter().find_map(|(name, value)| Some((*name, value.fault()?))) {
        return Err(refuse(family, name, value, rule));
    }
    let named = parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.named()?)));
    let named: Vec<String> = named.collect();
    let separator = if named.is_empty() { "" } else { ":" };
    Ok(TopologyBuilder::new(format!("{family}{separator}{}", named.join(","))))
}

/// Adds servers `h0` and up that forward for each other, with `per_rack` of them in each rack.
fn add_servers(b: &mut TopologyBuilder, count: u64, per_rack: u32) -> Vec<NodeIx> {
    let server = |i: u32| Node {
        name: format!("h{i}"),
        kind: NodeKind::Host,
        tier: Tier(0),
        forwards: true,
        pod: None,
        rack: Some(i / per_rack),
    };
    (0..count as u32).map(|i| b.add(server(i))).collect()
}

#[cfg(test)]
pub(crate) mod oracle {
    //! Enumerations with which tests compare the closed forms.

    use crate::routes::{ClassIx, Routes};
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

    /// Returns the largest and the mean number of links between two switches that have hosts.
    pub fn distances(topology: &Topology) -> (u16, f64) {
        let routes = Routes::intact(topology);
        let classes: Vec<ClassIx> = (0..routes.class_count() as u32).map(ClassIx).collect();
        let (mut farthest, mut sum) = (0, 0);
        for from in &classes {
            for to in classes.iter().filter(|to| *to != from) {
                let distance = routes.distance(routes.class_node(*from), *to).expect("connected");
                farthest = farthest.max(distance);
                sum += u64::from(distance);
            }
        }
        (farthest, sum as f64 / (classes.len() * (classes.len() - 1)) as f64)
    }
}
