//! Pauses of the controller's process, as by SIGSTOP or on a suspended machine.
//!
//! As in the daemon, what arrives in a pause waits, and all of it is handled before a timer runs.
//! The controller's clock leaves pauses out: it could not ask any switch.

use std::collections::VecDeque;

use balance::central::AgentReport;
use control::vip::Services;
use net::Time;
use openflow::ToController;

use crate::mutants::Mutant;
use crate::simulation::Simulation;

/// An input of the controller.
#[expect(clippy::large_enum_variant, reason = "nearly all values are of the large variant")]
pub(crate) enum Input {
    Channel(ToController),
    Agent(AgentReport),
    Services(Services),
}

#[derive(Default)]
pub(crate) struct Pause {
    /// Input that has arrived in this pause; `None` while the process runs.
    waiting: Option<VecDeque<Input>>,
    began: Time,
    pub(crate) ended: Time,
    /// Time that the controller's clock has left out.
    skipped: Time,
}

impl Pause {
    pub(crate) fn is_paused(&self) -> bool {
        self.waiting.is_some()
    }

    /// Returns when the controller handled input of this time: after a pause, if it arrived in one.
    pub(crate) fn handled_at(&self, at: Time) -> Time {
        if at < self.began { at } else { at.max(self.ended) }
    }

    /// Ends a pause because the process ends, with what has arrived.
    pub(crate) fn forget(&mut self) {
        *self = Pause { ended: self.ended, ..Pause::default() };
    }
}

impl Simulation {
    /// Returns the time of the controller's clock.
    pub(crate) fn controller_now(&self) -> Time {
        self.now.saturating_sub(self.disruptions.pause.skipped)
    }
    /// Returns the time at which the controller's clock shows this time.
    pub(crate) fn time_of_controller(&self, at: Time) -> Time {
        at.saturating_add(self.disruptions.pause.skipped)
    }

    /// Passes input to the controller, now or after a pause.
    pub(crate) fn tell_controller(&mut self, input: Input) {
        match &mut self.disruptions.pause.waiting {
            Some(waiting) => waiting.push_back(input),
            None => self.handle_input(input),
        }
    }

    fn handle_input(&mut self, input: Input) {
        let now = self.controller_now();
        let Some(controller) = &mut self.controller else { return };
        match input {
            Input::Channel(input) => controller.handle(now, input),
            Input::Agent(report) => controller.handle_agent_report(now, report),
            Input::Services(services) => {
                controller.set_services(now, services).expect("generated services are valid");
            }
        }
    }

    pub(super) fn begin_pause(&mut self, until: Time) {
        if self.controller.is_none() || self.disruptions.pause.is_paused() {
            return;
        }
        self.disruptions.pause.waiting = Some(VecDeque::new());
        self.disruptions.pause.began = self.now;
        self.disturb_by_pause(until.saturating_sub(self.now));
    }

    /// Marks everything as disturbed: the controller reacts to nothing before this time has passed.
    fn disturb_by_pause(&mut self, lasts: Time) {
        let bounds = &self.bounds;
        let repair = bounds.hidden + bounds.silence + bounds.handshake + bounds.host + bounds.react;
        let checked = lasts + repair + bounds.checked;
        (0..self.switches.len()).for_each(|switch| self.mark_disturbed(switch, lasts + repair));
        (0..self.cables.len()).for_each(|cable| self.disturb_cable(cable, lasts + repair));
        self.disturb_services(checked);
    }

    pub(super) fn end_pause(&mut self) {
        let Some(waiting) = self.disruptions.pause.waiting.take() else { return };
        let pause = &mut self.disruptions.pause;
        pause.ended = self.now;
        let is_mutant = self.injector.mutant == Some(Mutant::TimersBeforeInput);
        if is_mutant {
            let now = self.controller_now();
            self.controller.iter_mut().for_each(|controller| controller.handle_timeout(now));
        } else {
            pause.skipped += self.now.saturating_sub(pause.began);
        }
        for input in waiting {
            if matches!(input, Input::Services(_)) {
                self.services.configured_at = self.now;
            }
            self.handle_input(input);
        }
        self.disturb_by_pause(Time::ZERO);
        self.controller_timer = Time::MAX;
        self.after_controller();
    }
}
