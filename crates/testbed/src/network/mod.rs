//! The emulated network: its plan, its rules, and the Python driver that builds it.

pub(crate) mod cpu_affinity;
pub mod driver;
pub mod plan;
pub mod preflight;
pub mod rules;
pub mod running_network;
