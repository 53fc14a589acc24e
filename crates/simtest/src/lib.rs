//! Storm tests: the controller and the switches of this project under faults, everything drawn from one seed.
//!
//! A storm is a small world of its own: real [`switch::Switch`] objects, one [`control::Controller`] with a central
//! balancer, cables, control channels, hosts. While it lasts, links and switches fail (some without telling anyone),
//! channels stall and break, the controller restarts, hosts move, others write rules. Oracles look on: see [`Oracle`].
//! Then the faults end, and everything must be as the controller says, within a bound, and stay so.
//!
//! [`storm`] runs the storm of a seed. A failing one is made smaller by [`shrink`]: plans are lists of numbered actions
//! that can be left out ([`Cutback`]). That the oracles can fail at all is shown by [`Sabotage`].

#![forbid(unsafe_code)]

mod bounds;
mod channel;
mod clients;
mod cutback;
pub mod draw;
mod draw_services;
mod draw_wildcards;
mod fabric;
mod faults;
mod hosts;
mod oracle;
pub mod plan;
mod report;
mod sabotage;
mod sabotage_services;
mod shrink;
mod words;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use net::Time;

pub use cutback::Cutback;
pub use plan::Plan;
pub use report::{Excuses, Failure, Oracle, Report};
pub use sabotage::Sabotage;
pub use shrink::{Shrunk, shrink};
pub use world::Teller;

/// Runs the storm of a seed.
///
/// # Errors
/// What was violated first.
pub fn storm(seed: u64) -> Result<Report, Failure> {
    storm_of(&draw::draw(seed), &Cutback::default(), None)
}

/// Runs what is left of a storm, sabotaged or not.
///
/// # Errors
/// What was violated first. A panic of anything in the storm is a failure like others.
pub fn storm_of(plan: &Plan, cutback: &Cutback, sabotage: Option<Sabotage>) -> Result<Report, Failure> {
    run(plan, cutback, sabotage, None)
}

/// As [`storm_of`], telling `tell` in words what happens: messages that matter, faults, events of the controller, losses.
///
/// # Errors
/// As [`storm_of`].
pub fn trace(plan: &Plan, cutback: &Cutback, sabotage: Option<Sabotage>, tell: Teller) -> Result<Report, Failure> {
    run(plan, cutback, sabotage, Some(tell))
}

fn run(plan: &Plan, cutback: &Cutback, sabotage: Option<Sabotage>, tell: Option<Teller>) -> Result<Report, Failure> {
    let run = || world::World::new(plan, cutback, sabotage, tell).run();
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let words = text.unwrap_or_else(|| "a panic without words".to_owned());
        Err(Failure { oracle: Oracle::Panic, at: Time::ZERO, words })
    })
}
