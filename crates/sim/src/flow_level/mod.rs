//! Rates of flows instead of packets.

mod acks;
mod agenda;
mod congestion;
mod members;
mod paths;
mod queues;
mod results;
mod run;
mod sender;
mod shares;
mod split;
mod support;

pub use support::{Refusal, check};

use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::{Progress, SimError};

/// Runs a scenario by rates of flows to its end, or until `progress` returns `false`.
pub(crate) fn run(scenario: &Scenario<'_>, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<Outcome, SimError> {
    check(scenario)?;
    run::FlowRun::new(scenario).play(progress)
}
