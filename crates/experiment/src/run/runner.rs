//! The interface to platforms: the simulator here, the testbed in another crate.
//!
//! Every platform returns an [`Outcome`], from which the same code computes metrics, statistics,
//! claims and the report.

use std::error::Error as StdError;

use crate::input::{Experiment, Variant};
use crate::run::controller;
use crate::summary::Testbed;

pub use sim::{
    Accounting, AgentConfig, ConnectionCounts, ControlConfig, ControlRecord, Drops, EngineRecord, Failure, FailureKind,
    FlowEnd, FlowRecord, LinkRecord, Outcome, Progress as RunProgress, QueueLimit, RequestClass, ResequencingRecord,
    Scenario, Series, ServerConfig, ServerRecord, ServicesConfig, ServicesRecord, SimConfig, SimError, TransportKind,
    UdpRate, VirtualService, ideal_response_times, ideal_times,
};

/// One run to execute.
#[derive(Clone, Copy, Debug)]
pub struct RunJob<'a> {
    /// Network, flows, balancer, seed and all other inputs of a run.
    pub scenario: Scenario<'a>,
    /// Variant of the experiment.
    pub variant: &'a Variant,
    /// Balancer, seed, load and variant, for messages.
    pub name: &'a str,
}

/// Result of a completed run.
#[derive(Clone, Debug)]
pub struct RunOutput {
    pub outcome: Outcome,
    /// Mean wall time of a decision of a central balancer, microseconds; 0 if unknown.
    pub decision_us: f64,
    /// The emulated network; `None` for the simulator.
    pub testbed: Option<Testbed>,
}

/// Reasons for a run without an outcome.
#[derive(Debug)]
pub enum RunError {
    /// The caller requested a stop.
    Interrupted,
    /// Error of the simulator.
    Sim(SimError),
    /// Error of another platform.
    Platform(Box<dyn StdError + Send + Sync>),
}

/// A platform that executes runs.
pub trait Runner: Sync {
    /// Returns the name in [`crate::summary::RunSummary::world`].
    fn name(&self) -> &'static str;

    /// Returns the maximum number of concurrent runs.
    fn jobs_max(&self) -> usize {
        usize::MAX
    }

    /// Returns the dependencies of a variant's runs in addition to [`Variant::canonical`]; empty
    /// for the simulator.
    fn identity(&self, _: &Variant) -> String {
        String::new()
    }

    /// Checks a whole experiment before the first run.
    ///
    /// # Errors
    /// Settings that the platform does not support, with the key.
    fn check(&self, _: &Experiment) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(())
    }

    /// Executes one run and calls `progress` periodically; if it returns `false`, the run is
    /// abandoned.
    ///
    /// # Errors
    /// The run failed or was abandoned.
    fn run(&self, job: &RunJob<'_>, progress: &mut dyn FnMut(&RunProgress) -> bool) -> Result<RunOutput, RunError>;
}

/// The packet simulator.
#[derive(Clone, Copy, Debug)]
pub struct Simulator;

impl Runner for Simulator {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run(&self, job: &RunJob<'_>, progress: &mut dyn FnMut(&RunProgress) -> bool) -> Result<RunOutput, RunError> {
        match controller::run(&job.scenario, progress) {
            Ok((outcome, decision_us)) => Ok(RunOutput { outcome, decision_us, testbed: None }),
            Err(SimError::Interrupted) => Err(RunError::Interrupted),
            Err(cause) => Err(RunError::Sim(cause)),
        }
    }
}
