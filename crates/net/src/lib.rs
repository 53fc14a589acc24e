//! Networks: units, ids, topologies, routes and paths.
//!
//! Pure data and pure functions. This crate depends on no other crate of the workspace.

pub mod address;
mod addressing;
pub mod bisection;
pub mod did_you_mean;
pub mod export;
pub mod families;
pub mod import;
pub mod paths;
pub mod random;
mod recent;
pub mod routes;
pub mod spec;
pub mod spec_text;
pub mod topology;
pub mod units;

pub use address::FiveTuple;
pub use addressing::{ADDRESSING_MODES, Addressing, AddressingInfo};
pub use random::RandomStream;
pub use recent::RecentValues;
pub use routes::Routes;
pub use topology::{HostIx, Link, LinkIx, Node, NodeIx, NodeKind, Tier, Topology, TopologyBuilder, TopologyError};
pub use units::{Bandwidth, Bytes, Time, UnitError};
