//! One run: its checks, the controller, the host agents, injected faults and the outcome.

pub(crate) mod active_run;
pub mod agents;
pub mod checks;
pub mod controller;
pub(crate) mod controller_setup;
pub mod faults;
pub mod outcome;
pub mod supervisor;
pub(crate) mod testbed;
