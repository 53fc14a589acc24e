//! The packet-level simulator: store-and-forward output-queued switches, real transports, deterministic.
//!
//! [`run`] takes a [`Scenario`] and answers an [`Outcome`] whose books balance. Same scenario, same seed,
//! same outcome, to the bit.

mod backlog;
mod board;
pub mod bounds;
mod checks;
mod connection;
mod controlled;
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
mod requests;
pub mod scenario;
mod selective;
mod sending;
mod sensors;
pub mod services;
mod setup;
mod sharing;
mod tcp;
mod transport_rules;

pub use ideal::ideal_times;
pub use outcome::*;
pub use plane::{ControlPlane, PlaneOutput, PlaneTally};
pub use requests::ideal_response_times;
pub use scenario::*;
pub use services::*;

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
    /// Switches and controller did something that cannot be simulated, or do not come to rest.
    #[error("the run with a controller cannot go on at {at}: {reason}")]
    Control {
        /// Simulated time.
        at: Time,
        /// What happened.
        reason: String,
    },
    /// The books do not balance: a defect of this program.
    #[error("the books of the run do not balance: {0}; please report this with the experiment file and seed")]
    Books(String),
}

/// Runs a scenario to its end.
///
/// `progress` is called now and then; answering `false` abandons the run.
///
/// # Errors
/// Impossible configuration, a balancer that needs a controller (see [`run_controlled`]), interruption, or (a defect) books
/// that do not balance.
pub fn run(scenario: &Scenario<'_>, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<Outcome, SimError> {
    checks::check(scenario)?;
    checks::check_world(scenario, false)?;
    if let balance::Build::Bound(bound) = scenario.balancer.entry.build {
        return bounds::run(scenario, bound, progress);
    }
    let mut engine = setup::engine(scenario);
    engine.run(progress)?;
    setup::outcome(engine)
}

/// Runs a scenario whose balancer is central: every switch is an OpenFlow switch, and `plane` is the controller at the far
/// end of their channels ([`SimConfig::control`]).
///
/// `progress` as for [`run`].
///
/// # Errors
/// As [`run`]; a balancer that is not central, hosts with several links, and what cannot be simulated with a controller
/// ([`SimError::Control`]).
pub fn run_controlled(
    scenario: &Scenario<'_>,
    plane: &mut dyn ControlPlane,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Outcome, SimError> {
    checks::check(scenario)?;
    checks::check_world(scenario, true)?;
    let mut engine = setup::controlled_engine(scenario, plane);
    engine.run(progress)?;
    if let Some(reason) = engine.controlled.as_ref().and_then(|controlled| controlled.fault()) {
        return Err(SimError::Control { at: Time::from_ps(engine.network.now), reason: reason.to_owned() });
    }
    setup::outcome(engine)
}
