//! What a network is: units, ids, topologies and paths.
//!
//! Pure data and pure functions. This crate depends on nothing of ours; everything else depends on it.

pub mod address;
pub mod bisection;
pub mod document;
pub mod export;
pub mod families;
pub mod import;
pub mod keys;
pub mod mistake;
pub mod paths;
pub mod random;
pub mod routes;
pub mod section;
pub mod spec;
pub mod topology;
pub mod units;
pub mod words;

pub use address::FiveTuple;
pub use random::Stream;
pub use routes::Routes;
pub use topology::{HostIx, Link, LinkIx, Node, NodeIx, NodeKind, Tier, Topology, TopologyBuilder, TopologyError};
pub use units::{Bandwidth, Bytes, Time, UnitError};
