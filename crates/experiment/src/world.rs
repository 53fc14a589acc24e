//! Where runs are executed: the simulator here, other worlds in crates above.
//!
//! Whatever a world is made of, it answers an [`Outcome`], and metrics, statistics, claims and the report are computed from that by
//! the same code.

use std::error::Error as StdError;

use crate::controller;
use crate::file::{Experiment, Variant};
use crate::summary::Testbed;

pub use sim::{
    AgentConfig, Books, ConnectionCounts, ControlConfig, ControlRecord, Drops, EngineRecord, Failure, FailureKind,
    FlowEnd, FlowRecord, LinkRecord, Outcome, Progress as RunProgress, QueueLimit, RequestClass, ResequencingRecord,
    Scenario, Series, ServerConfig, ServerRecord, ServicesConfig, ServicesRecord, SimConfig, SimError, TransportKind,
    UdpRate, VirtualService, ideal_response_times, ideal_times,
};

/// One run to execute.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Network, flows, balancer, seed and everything else that is simulated or emulated.
    pub scenario: Scenario<'a>,
    /// Where it comes from in the experiment.
    pub variant: &'a Variant,
    /// Balancer, seed, load and variant, for messages.
    pub name: &'a str,
}

/// A run that has come to its end.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What happened.
    pub outcome: Outcome,
    /// Mean wall time of a decision of a central balancer, microseconds; 0 where it is not known.
    pub decision_us: f64,
    /// What it ran on, where that is not the simulator.
    pub testbed: Option<Testbed>,
}

/// Why there is no outcome.
#[derive(Debug)]
pub enum NotEnded {
    /// The caller asked to stop.
    Interrupted,
    /// The simulator's reason.
    Sim(SimError),
    /// Another world's reason.
    World(Box<dyn StdError + Send + Sync>),
}

/// Something that can execute runs.
pub trait World: Sync {
    /// As in [`crate::summary::RunSummary::world`].
    fn name(&self) -> &'static str;

    /// Most runs it can execute at a time.
    fn jobs_max(&self) -> usize {
        usize::MAX
    }

    /// What its runs of a variant depend on beside [`Variant::canonical`]; nothing for the simulator.
    fn identity(&self, _: &Variant) -> String {
        String::new()
    }

    /// Looks at a whole experiment before the first run.
    ///
    /// # Errors
    /// What cannot be done here, with the key at fault.
    fn check(&self, _: &Experiment) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(())
    }

    /// Executes one run. `progress` is called now and then; answering `false` abandons the run.
    ///
    /// # Errors
    /// The run could not be done, or was abandoned.
    fn run(&self, job: &Job<'_>, progress: &mut dyn FnMut(&RunProgress) -> bool) -> Result<Ended, NotEnded>;
}

/// The packet simulator.
#[derive(Clone, Copy, Debug)]
pub struct Simulator;

impl World for Simulator {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run(&self, job: &Job<'_>, progress: &mut dyn FnMut(&RunProgress) -> bool) -> Result<Ended, NotEnded> {
        match controller::run(&job.scenario, progress) {
            Ok((outcome, decision_us)) => Ok(Ended { outcome, decision_us, testbed: None }),
            Err(SimError::Interrupted) => Err(NotEnded::Interrupted),
            Err(cause) => Err(NotEnded::Sim(cause)),
        }
    }
}
