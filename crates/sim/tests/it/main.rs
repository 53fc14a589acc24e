//! The integration tests of the crate, linked once.

mod adaptive;
mod bounds;
mod closed_forms;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod connections;
mod controlled;
mod flow_level;
mod fluid_oracles;
mod gap_reports;
mod layers;
mod lossless;
mod mcf;
mod ns3;
mod partial_te;
mod source_routes;
mod tasks;
mod timed_rules;
mod transports;
