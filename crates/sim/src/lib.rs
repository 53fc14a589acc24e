//! The packet-level simulator: output-queued switches, real transports, deterministic.
//!
//! [`run`] takes a [`Scenario`] and returns an [`Outcome`] whose accounting has been checked. The
//! same scenario and seed give the same outcome, bit for bit.

#![allow(missing_docs, reason = "only the program's own crates use this one")]

pub mod benchmark_scenarios;
mod bits;
pub mod bounds;
mod capture;
mod checks;
mod engine;
pub mod failures;
mod flows;
mod hosts;
mod ideal;
mod link_probe;
mod links;
mod openflow;
pub mod outcome;
mod packet;
mod prefetch;
mod probes;
mod queue;
pub mod scenario;
pub mod services;
mod setup;
mod switching;
mod transport;

pub use capture::{Capture, CapturedPacket};
pub use failures::{Failure, FailureKind};
pub use ideal::ideal_times;
pub use outcome::*;
pub use scenario::*;
pub use services::requests::ideal_response_times;
pub use services::*;
pub use switching::plane::{ControlPlane, PlaneOutput, PlaneTally};

use balance::{Bound, Build};
use net::Time;

#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub now: Time,
    pub flows_done: u64,
    pub flows_listed: u64,
    pub events: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    #[error("{key} = {value}: {reason}")]
    Config { key: &'static str, value: String, reason: String },
    /// Flow that refers to hosts or flows that do not exist.
    #[error("flow {flow}: {reason}")]
    Flow { flow: usize, reason: String },
    #[error("the run was interrupted")]
    Interrupted,
    /// Behaviour of switches or controller that cannot be simulated, or that does not converge.
    #[error("the run with a controller cannot continue at {at}: {reason}")]
    Control { at: Time, reason: String },
    /// The packet or flow counts do not add up: a defect of this program.
    #[error(
        "packet or flow accounting mismatch: {0}; this is a defect of anabranch: please report it with the experiment \
         file and the seed"
    )]
    Accounting(String),
}

/// Runs a scenario to its end, or until `progress`, called now and then, returns `false`.
pub fn run(scenario: &Scenario<'_>, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<Outcome, SimError> {
    checks::check(scenario, false)?;
    match scenario.balancer.entry.build {
        Build::Bound(Bound::FluidOptimum) => return bounds::optimum::run(scenario, progress),
        Build::Bound(Bound::Fastpass) => return bounds::fastpass::run(scenario, progress),
        _ => {}
    }
    let mut engine = setup::engine(scenario);
    engine.run(progress)?;
    setup::outcome(engine)
}

/// Runs a scenario whose balancer is central: every switch is an OpenFlow switch, and `plane` is
/// the controller at the far end of the control channels ([`SimConfig::control`]).
pub fn run_controlled(
    scenario: &Scenario<'_>,
    plane: &mut dyn ControlPlane,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Outcome, SimError> {
    checks::check(scenario, true)?;
    let mut engine = setup::controlled_engine(scenario, plane);
    engine.run(progress)?;
    if let Some(reason) = engine.controlled.as_mut().and_then(|controlled| controlled.fault.take()) {
        return Err(SimError::Control { at: Time::from_ps(engine.network.now), reason });
    }
    setup::outcome(engine)
}
