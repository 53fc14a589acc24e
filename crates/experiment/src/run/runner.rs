//! The interface to platforms: the simulator here, the testbed in another crate.
//!
//! Every platform returns an [`Outcome`], from which the same code computes metrics, statistics,
//! claims and the report.

use std::error::Error as StdError;

use crate::input::{Experiment, Variant};
use crate::run::controller;
use crate::summary::Testbed;

pub use sim::{
    Accounting, AgentConfig, ConnectionCounts, ContentConfig, ContentRule, ControlConfig, ControlRecord, Drops,
    EngineRecord, Failure, FailureKind, FlowEnd, FlowRecord, Forwarding, LinkRecord, Outcome, Progress as RunProgress,
    QueueLimit, RequestClass, ResequencingRecord, Scenario, Series, ServerConfig, ServerRecord, ServicesConfig,
    ServicesRecord, SimConfig, SimError, TransportKind, UdpRate, VirtualService, ideal_response_times, ideal_times,
};

#[derive(Clone, Copy, Debug)]
pub struct RunJob<'a> {
    pub scenario: Scenario<'a>,
    pub variant: &'a Variant,
    pub name: &'a str,
    /// Threads that the run may use.
    pub threads: usize,
}

#[derive(Clone, Debug)]
pub struct RunOutput {
    pub outcome: Outcome,
    /// Mean wall time of a decision of a central balancer, microseconds; 0 if unknown.
    pub decision_us: f64,
    /// The emulated network; `None` for the simulator.
    pub testbed: Option<Testbed>,
}

#[derive(Debug)]
pub enum RunError {
    Interrupted,
    Sim(SimError),
    Platform(Box<dyn StdError + Send + Sync>),
}

pub trait Runner: Sync {
    fn name(&self) -> &'static str;

    fn jobs_max(&self) -> usize {
        usize::MAX
    }

    /// Returns the dependencies of a variant's runs in addition to [`Variant::canonical`]; empty
    /// for the simulator.
    fn identity(&self, _: &Variant) -> String {
        String::new()
    }

    /// Checks a whole experiment before the first run.
    fn check(&self, _: &Experiment) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(())
    }

    /// Executes one run and calls `progress` periodically; if it returns `false`, the run is
    /// abandoned.
    fn run(
        &self,
        job: &RunJob<'_>,
        progress: &mut (dyn FnMut(&RunProgress) -> bool + Send),
    ) -> Result<RunOutput, RunError>;
}

#[derive(Clone, Copy, Debug)]
pub struct Simulator;

impl Runner for Simulator {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run(
        &self,
        job: &RunJob<'_>,
        progress: &mut (dyn FnMut(&RunProgress) -> bool + Send),
    ) -> Result<RunOutput, RunError> {
        match controller::run(&job.scenario, job.threads, progress) {
            Ok((outcome, decision_us)) => Ok(RunOutput { outcome, decision_us, testbed: None }),
            Err(SimError::Interrupted) => Err(RunError::Interrupted),
            Err(cause) => Err(RunError::Sim(cause)),
        }
    }
}
