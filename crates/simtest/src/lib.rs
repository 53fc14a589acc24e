//! Simulation tests: the controller and the switches of this project under faults, everything drawn
//! from one seed.
//!
//! A simulation contains real [`switch::Switch`] objects, one [`control::Controller`] with a
//! central balancer, cables, control channels and hosts. Links and switches fail (some without a
//! port status), channels stall and break, the controller restarts, hosts move, other controllers
//! write rules. Oracles observe everything: see [`Oracle`]. Then the faults end: everything must
//! reach the controller's desired state within a bound, and stay there.
//!
//! [`run_seed`] runs the simulation of a seed. [`shrink`] reduces a failing one: plans are lists of
//! numbered actions that can be left out ([`Reduction`]). [`Mutant`] shows that the oracles can
//! fail.

#![allow(missing_docs, reason = "only the program's own crates use this one")]
#![forbid(unsafe_code)]

mod attacks;
mod bounds;
mod channel;
mod clients;
mod disruptions;
mod fabric;
mod faults;
pub mod generate;
mod hosts;
mod mutants;
mod oracle;
pub mod plan;
mod reduction;
mod report;
mod shrink;
mod simulation;

use std::panic::{AssertUnwindSafe, catch_unwind};

use net::Time;

pub use disruptions::{Disruption, Tampering};
pub use mutants::Mutant;
pub use plan::Plan;
pub use reduction::Reduction;
pub use report::{Exemptions, Failure, Oracle, Report};
pub use shrink::{Shrunk, shrink};
pub use simulation::TraceSink;

/// Runs the simulation of a seed.
///
/// # Errors
/// The first violation.
pub fn run_seed(seed: u64) -> Result<Report, Failure> {
    run_plan(&generate::plan(seed), &Reduction::default(), None)
}

/// Runs the reduced plan of a simulation, with or without a mutant.
///
/// # Errors
/// The first violation. A panic anywhere in the simulation counts as a violation.
pub fn run_plan(plan: &Plan, reduction: &Reduction, mutant: Option<Mutant>) -> Result<Report, Failure> {
    run(plan, reduction, mutant, None)
}

/// Runs like [`run_plan`] and passes a text line to `sink` for every message, fault, controller
/// event and loss.
///
/// # Errors
/// As [`run_plan`].
pub fn trace(plan: &Plan, reduction: &Reduction, mutant: Option<Mutant>, sink: TraceSink) -> Result<Report, Failure> {
    run(plan, reduction, mutant, Some(sink))
}

fn run(plan: &Plan, reduction: &Reduction, mutant: Option<Mutant>, sink: Option<TraceSink>) -> Result<Report, Failure> {
    let run = || simulation::Simulation::new(plan, reduction, mutant, sink).run();
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let message = text.unwrap_or_else(|| "a panic without a message".to_owned());
        Err(Failure { oracle: Oracle::Panic, at: Time::ZERO, message })
    })
}
