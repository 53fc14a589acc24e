//! What is sent: flow sizes, arrivals, patterns and traces, all ending in one list of flows.
//!

pub mod flow;

pub use flow::{Flow, FlowList, Start};
