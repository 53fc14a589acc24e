//! Links: ports with their queues, priority flow control, load sensors, and faults.

mod admission;
pub(crate) mod border;
pub(crate) mod faults;
pub(crate) mod histogram;
pub(crate) mod lanes;
pub(crate) mod network;
pub(crate) mod pfc;
pub(crate) mod port;
mod queue_rule;
pub(crate) mod sensors;
mod telemetry;
