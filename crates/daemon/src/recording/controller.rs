//! A controller whose inputs are recorded, if a recorder is given.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::ops::Deref;

use balance::Spec;
use balance::central::AgentReport;
use balance::server::ServerStats;
use control::edge::RouteInput;
use control::vip::{Services, ServicesError};
use control::{Controller, Output};
use net::Time;
use openflow::{ConnectionId, Envelope, ToController};

use super::{Input, Recorder};
use crate::balancer;

/// The controller of the daemon. Reading it is free; all changes go through the methods here, so
/// that a recording misses none.
pub(crate) struct RecordedController {
    controller: Controller,
    seed: u64,
    recorder: Option<Box<Recorder>>,
}

impl Deref for RecordedController {
    type Target = Controller;
    fn deref(&self) -> &Controller {
        &self.controller
    }
}

impl RecordedController {
    pub(crate) fn new(config: control::Config, spec: &Spec, recorder: Option<Recorder>) -> RecordedController {
        let mut recorder = recorder.map(Box::new);
        if let Some(recorder) = &mut recorder {
            recorder.begin(&config, spec.label());
        }
        let seed = config.seed;
        RecordedController { controller: Controller::new(config, balancer::build(spec, seed)), seed, recorder }
    }

    #[cfg(test)]
    pub(super) fn is_recording(&self) -> bool {
        self.recorder.is_some()
    }

    /// Records before the call: if it panics, the input is in the file.
    fn record<'a>(&mut self, now: Time, input: impl FnOnce() -> Input<'a>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.input(now, input());
        }
    }

    pub(crate) fn handle(&mut self, now: Time, input: ToController) {
        match &input {
            ToController::Connected(connection) => self.record(now, || Input::Connected(*connection)),
            ToController::Disconnected(connection) => self.record(now, || Input::Disconnected(*connection)),
            ToController::Message(connection, envelope) => return self.handle_message(now, *connection, envelope),
        }
        self.controller.handle(now, input);
    }

    pub(crate) fn handle_message(&mut self, now: Time, connection: ConnectionId, envelope: &Envelope) {
        if let Some(recorder) = &mut self.recorder {
            recorder.message(now, connection, envelope);
        }
        self.controller.handle_message(now, connection, envelope);
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.record(now, || Input::Timeout);
        self.controller.handle_timeout(now);
    }

    pub(crate) fn handle_agent_report(&mut self, now: Time, report: AgentReport) {
        self.record(now, || Input::AgentReport(report));
        self.controller.handle_agent_report(now, report);
    }

    pub(crate) fn handle_member_report(&mut self, now: Time, host: Ipv4Addr, stats: ServerStats) -> bool {
        self.record(now, || Input::MemberReport(host, stats));
        self.controller.handle_member_report(now, host, stats)
    }

    pub(crate) fn handle_routes(&mut self, now: Time, input: &RouteInput) {
        self.record(now, || Input::Routes(input.clone()));
        self.controller.handle_routes(now, input);
    }

    pub(crate) fn set_services(&mut self, now: Time, services: Services) -> Result<(), ServicesError> {
        self.record(now, || Input::Services(services.clone()));
        self.controller.set_services(now, services)
    }

    pub(crate) fn set_balancer(&mut self, now: Time, spec: &Spec) {
        self.record(now, || Input::Balancer(spec.label()));
        self.controller.set_balancer(now, balancer::build(spec, self.seed));
    }

    /// Takes pending outputs, like [`Controller::take_outputs`].
    pub(crate) fn take_outputs(&mut self, outputs: &mut VecDeque<Output>) -> bool {
        let has_outputs = self.controller.take_outputs(outputs);
        if let Some(recorder) = &mut self.recorder {
            if has_outputs {
                recorder.outputs(&*outputs);
            } else {
                recorder.outputs_taken();
            }
            if recorder.is_ended() {
                self.recorder = None;
            }
        }
        has_outputs
    }
}
