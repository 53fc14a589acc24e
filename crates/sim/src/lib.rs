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
pub mod conformance;
mod engine;
pub mod failures;
pub mod flow_level;
mod hosts;
mod ideal;
mod link_probe;
mod links;
mod numbering;
mod openflow;
pub mod outcome;
mod packet;
mod prefetch;
mod probes;
mod queue;
mod run;
pub mod scenario;
pub mod services;
mod setup;
mod switching;
mod timers;
mod transport;
pub mod watch;

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
use watch::Watch;

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

/// The threads on which a run may simulate. This crate starts none itself.
pub trait Workers: Sync {
    fn count(&self) -> usize;
    /// Calls `work` with 0 to `threads` − 1, each on its own thread, and returns when all have returned.
    fn run(&self, threads: usize, work: &(dyn Fn(usize) + Sync));
    /// Returns whether the machine has a core for each of `threads`.
    fn have_own_cores(&self, threads: usize) -> bool;
    /// Returns whether the threads are to share steps that have about `events` for each of them. Handing over a
    /// step takes as long as a few dozen events.
    fn share_steps(&self, events: u64) -> bool {
        events >= 24
    }
}

/// The thread of the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleThread;

impl Workers for SingleThread {
    fn count(&self) -> usize {
        1
    }

    fn run(&self, threads: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..threads).for_each(work);
    }

    fn have_own_cores(&self, threads: usize) -> bool {
        threads <= 1
    }
}

/// Runs a scenario to its end, or until `progress`, called now and then, returns `false`.
pub fn run(scenario: &Scenario<'_>, progress: &mut (dyn FnMut(&Progress) -> bool + Send)) -> Result<Outcome, SimError> {
    run_on(&SingleThread, scenario, progress)
}

/// Runs a scenario on several threads. The outcome is the same on any number of threads.
pub fn run_on(
    workers: &dyn Workers,
    scenario: &Scenario<'_>,
    progress: &mut (dyn FnMut(&Progress) -> bool + Send),
) -> Result<Outcome, SimError> {
    checks::check(scenario, false)?;
    match scenario.balancer.entry.build {
        Build::Bound(Bound::FluidOptimum) => return bounds::optimum::run(scenario, progress),
        Build::Bound(Bound::Fastpass) => return bounds::fastpass::run(scenario, progress),
        _ if scenario.config.fidelity == Fidelity::Flow => return flow_level::run(scenario, progress),
        _ => {}
    }
    let mut run = setup::run(scenario, None, workers.count());
    run.run(workers, progress)?;
    run.finish()
}

/// Runs a scenario of packets without a controller, which `watch` looks at.
pub fn run_watched(scenario: &Scenario<'_>, watch: &mut dyn Watch) -> Result<Outcome, SimError> {
    checks::check(scenario, false)?;
    if matches!(scenario.balancer.entry.build, Build::Bound(_)) || scenario.config.fidelity == Fidelity::Flow {
        let reason = "only runs of packets can be watched".to_owned();
        return Err(SimError::Config { key: "fidelity", value: scenario.config.fidelity.name().to_owned(), reason });
    }
    let mut run = setup::run(scenario, None, 1);
    run.watch(watch);
    run.run(&SingleThread, &mut |_| true)?;
    run.finish()
}

/// Returns why a scenario runs on one thread regardless of the number given, if so.
pub fn reason_for_one_thread(scenario: &Scenario<'_>) -> Option<&'static str> {
    setup::reason_for_one_partition(scenario)
}

/// Runs a scenario whose balancer is central: every switch is an OpenFlow switch, and `plane` is
/// the controller at the far end of the control channels ([`SimConfig::control`]).
pub fn run_controlled(
    scenario: &Scenario<'_>,
    plane: &mut dyn ControlPlane,
    progress: &mut (dyn FnMut(&Progress) -> bool + Send),
) -> Result<Outcome, SimError> {
    checks::check(scenario, true)?;
    if scenario.config.fidelity == Fidelity::Flow {
        flow_level::check(scenario)?;
    }
    let mut run = setup::run(scenario, Some(plane), 1);
    run.run(&SingleThread, progress)?;
    match run.take_fault() {
        Some(fault) => Err(fault),
        None => run.finish(),
    }
}
