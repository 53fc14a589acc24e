//! What goes on beside the traffic of a run: the life of the controller, agents on hosts, and whether the run is wanted at all.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;

use experiment::world::{Failure, FailureKind};

use crate::agents::Agents;
use crate::clock::now_ns;
use crate::controller::Controller;
use crate::error::TestbedError;
use crate::faults::Deed;
use crate::traffic::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Kill,
    Start,
}

/// Looked after by whoever waits for traffic.
pub struct Beside<'a> {
    /// The controller of the run, where there is one.
    pub controller: Option<Controller>,
    /// What has been done to it.
    pub deeds: Vec<Deed>,
    agents: Option<Agents>,
    acts: VecDeque<(u64, Act)>,
    is_wanted: &'a mut dyn FnMut() -> bool,
    cause: Option<TestbedError>,
}

impl<'a> Beside<'a> {
    /// Nothing has happened yet.
    pub fn new(
        controller: Option<Controller>,
        agents: Option<Agents>,
        failures: &[Failure],
        span: Span,
        is_wanted: &'a mut dyn FnMut() -> bool,
    ) -> Beside<'a> {
        let mut acts = Vec::new();
        for failure in failures.iter().filter(|failure| failure.kind == FailureKind::ControllerDown) {
            acts.push((span.at(failure.at), Act::Kill));
            acts.extend(failure.until.map(|until| (span.at(until), Act::Start)));
        }
        acts.sort_by_key(|(at, _)| *at);
        Beside { controller, deeds: Vec::new(), agents, acts: acts.into(), is_wanted, cause: None }
    }

    /// Does what is due; answers whether the run is to go on. `sent`: payload sent so far of each flow, where the sender says so.
    pub fn go_on(&mut self, sent: Option<&[AtomicU64]>) -> bool {
        if self.cause.is_none() {
            self.cause = self.do_due(sent).err();
        }
        self.cause.is_none() && (self.is_wanted)()
    }

    /// Why the run is not to go on.
    pub fn cause(&mut self) -> TestbedError {
        self.cause.take().unwrap_or(TestbedError::Interrupted)
    }

    fn do_due(&mut self, sent: Option<&[AtomicU64]>) -> Result<(), TestbedError> {
        let now = now_ns();
        while let Some((at, act)) = self.acts.front().copied()
            && at <= now
        {
            self.acts.pop_front();
            self.act(act)?;
        }
        match &mut self.agents {
            Some(agents) => agents.look(sent),
            None => Ok(()),
        }
    }

    fn act(&mut self, act: Act) -> Result<(), TestbedError> {
        let Some(controller) = &mut self.controller else { return Ok(()) };
        let deed = |what: &str| Deed { at_ns: now_ns(), what: what.to_owned() };
        match act {
            Act::Kill => {
                self.deeds.push(deed("controller killed"));
                controller.kill()
            }
            Act::Start => {
                self.deeds.push(deed("controller started again"));
                controller.start_again()?;
                self.agents.iter_mut().for_each(Agents::tell_again);
                Ok(())
            }
        }
    }
}
