//! The packet-level simulator: store-and-forward output-queued switches, real transports, deterministic.
//!
//! [`run`] takes a [`Scenario`] and answers an [`Outcome`] whose books balance. Same scenario, same seed,
//! same outcome, to the bit.

mod board;
pub mod bounds;
mod checks;
mod connection;
mod coupling;
mod cubic;
mod dcqcn;
mod edges;
mod engine;
mod fabric;
mod faults;
mod flows;
mod hosts;
mod ideal;
mod lossless;
mod network;
mod nscc;
mod opening;
pub mod outcome;
mod packet;
pub mod peers;
pub mod plane;
mod probes;
mod queue;
mod receiving;
pub mod scenario;
mod selective;
mod sending;
mod sensors;
mod setup;
mod sharing;
mod tcp;
mod transport_rules;

pub use outcome::*;
pub use plane::{ControlPlane, PlaneOutput, PlaneTally};
pub use scenario::*;

use net::Time;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time.
    pub now: Time,
    /// Flows ended so far.
    pub flows_done: u64,
    /// Flows in the list.
    pub flows_listed: u64,
    /// Events so far.
    pub events: u64,
}

/// Why a run could not start or had to be abandoned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// A configuration value that cannot be simulated.
    #[error("{key} = {value}: {reason}")]
    Config {
        /// The parameter, such as `transport.mss_bytes`.
        key: &'static str,
        /// What was given.
        value: String,
        /// Why not, and what would do.
        reason: String,
    },
    /// A flow that refers to hosts or flows that do not exist.
    #[error("flow {flow}: {reason}")]
    Flow {
        /// Position in the list.
        flow: usize,
        /// Why it cannot be sent.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("the run was interrupted")]
    Interrupted,
    /// The books do not balance: a defect of this program.
    #[error("the books of the run do not balance: {0}; please report this with the experiment file and seed")]
    Books(String),
}

/// Runs a scenario to its end.
///
/// `progress` is called now and then; answering `false` abandons the run.
///
/// # Errors
/// Impossible configuration, interruption, or (a defect) books that do not balance.
pub fn run(scenario: &Scenario<'_>, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<Outcome, SimError> {
    checks::check(scenario)?;
    if let balance::Build::Bound(bound) = scenario.balancer.entry.build {
        return bounds::run(scenario, bound, progress);
    }
    let mut engine = setup::engine(scenario);
    engine.run(progress)?;
    setup::outcome(engine)
}
