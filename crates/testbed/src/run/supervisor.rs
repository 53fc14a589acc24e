//! Supervises a run: stops and restarts the controller as scheduled, polls host agents, and checks
//! for cancellation.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;

use experiment::runner::{Failure, FailureKind};

use crate::clock::now_ns;
use crate::error::{Result, TestbedError};
use crate::run::agents::Agents;
use crate::run::controller::Controller;
use crate::run::faults::InjectedFault;
use crate::traffic::RunWindow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControllerAction {
    Kill,
    Start,
}

/// The code that waits for traffic calls [`RunSupervisor::poll`].
pub struct RunSupervisor<'a> {
    /// `None` with static rules.
    pub controller: Option<Controller>,
    pub injected_faults: Vec<InjectedFault>,
    agents: Option<Agents>,
    actions: VecDeque<(u64, ControllerAction)>,
    should_continue: &'a mut dyn FnMut() -> bool,
    cause: Option<TestbedError>,
}

impl<'a> RunSupervisor<'a> {
    pub fn new(
        controller: Option<Controller>,
        agents: Option<Agents>,
        failures: &[Failure],
        span: RunWindow,
        should_continue: &'a mut dyn FnMut() -> bool,
    ) -> RunSupervisor<'a> {
        let mut actions = Vec::new();
        for failure in failures.iter().filter(|failure| failure.kind == FailureKind::ControllerDown) {
            actions.push((span.at(failure.at), ControllerAction::Kill));
            actions.extend(failure.until.map(|until| (span.at(until), ControllerAction::Start)));
        }
        actions.sort_by_key(|(at, _)| *at);
        RunSupervisor {
            controller,
            injected_faults: Vec::new(),
            agents,
            actions: actions.into(),
            should_continue,
            cause: None,
        }
    }

    /// Carries out what is due. Returns whether the run continues. `sent` holds the payload bytes
    /// sent so far of each flow, if the sender counts them.
    pub fn poll(&mut self, sent: Option<&[AtomicU64]>) -> bool {
        if self.cause.is_none() {
            self.cause = self.run_due(sent).err();
        }
        self.cause.is_none() && (self.should_continue)()
    }

    pub fn failure(&mut self) -> TestbedError {
        self.cause.take().unwrap_or(TestbedError::Interrupted)
    }

    fn run_due(&mut self, sent: Option<&[AtomicU64]>) -> Result<()> {
        let now = now_ns();
        while let Some((at, action)) = self.actions.front().copied()
            && at <= now
        {
            self.actions.pop_front();
            self.execute(action)?;
        }
        match &mut self.agents {
            Some(agents) => agents.poll(sent),
            None => Ok(()),
        }
    }

    fn execute(&mut self, action: ControllerAction) -> Result<()> {
        let Some(controller) = &mut self.controller else { return Ok(()) };
        let fault = |kind| InjectedFault { at_ns: now_ns(), kind, link: None };
        match action {
            ControllerAction::Kill => {
                self.injected_faults.push(fault("controller-killed"));
                controller.kill()
            }
            ControllerAction::Start => {
                self.injected_faults.push(fault("controller-restarted"));
                controller.restart()?;
                self.agents.iter_mut().for_each(Agents::resend_all);
                Ok(())
            }
        }
    }
}
