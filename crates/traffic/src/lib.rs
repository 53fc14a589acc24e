//! What is sent: flow sizes, arrivals, patterns and traces, all ending in one list of flows.
//!
//! Everything is drawn from named random streams: the same seed gives the same list on any machine.

pub mod flow;
pub mod random;

pub use flow::{Flow, FlowList, Start};
pub use random::Stream;
