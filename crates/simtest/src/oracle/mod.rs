//! What must hold in every storm, one file each.

mod calm;
mod delivery;
pub(crate) mod foreign;
mod loss;
mod messages;
mod service;
mod topology;

use net::Time;

use crate::plan::Plan;
use crate::report::Oracle;
use crate::world::{Event, Frame, World};

/// State of the oracles.
#[derive(Debug)]
pub(crate) struct Oracles {
    pub(crate) topology: topology::Links,
    pub(crate) messages: messages::Numbers,
    pub(crate) foreign: foreign::Rules,
    pub(crate) calm: calm::Calm,
    pub(crate) delivered: delivery::Delivered,
}

impl Oracles {
    pub(crate) fn new(plan: &Plan) -> Oracles {
        Oracles {
            topology: topology::Links::default(),
            messages: messages::Numbers::default(),
            foreign: foreign::Rules::default(),
            calm: calm::Calm::new(plan),
            delivered: delivery::Delivered::default(),
        }
    }
}

impl World {
    /// A look at everything, every so often.
    pub(crate) fn check(&mut self) {
        self.check_foreign();
        if self.now > self.disturbed {
            self.check_service();
            self.check_questions();
        }
        if self.now >= self.plan.calm_at {
            self.check_calm();
        }
        self.after(Time::from_ms(100), Event::Check);
    }

    /// Whether a switch cannot be told anything, or could not until lately and is being brought up to date. The others
    /// are repaired without it, and its old rules may lead back to them: the alternative were to repair nothing.
    fn is_out_of_control(&self, switch: usize) -> bool {
        let state = &self.switches[switch];
        !state.channel.is_good() || (state.interrupted && self.now <= state.disturbed)
    }

    /// A frame came to the same place with the same headers again.
    pub(crate) fn oracle_loop(&mut self, frame: &Frame) {
        let Some(probe) = &frame.probe else { return };
        let flow = &self.flows[probe.flow];
        let switches: Vec<usize> = probe.visits.iter().map(|visit| visit.switch).collect();
        if switches.iter().any(|switch| self.is_out_of_control(*switch)) {
            self.report.excuses.loops_out_of_control += 1;
            self.report.frames_lost += 1;
            return;
        }
        let way: Vec<String> =
            probe.visits.iter().map(|visit| format!("s{}:{}", visit.switch, visit.in_port.0)).collect();
        let words = format!("a frame of h{} to h{} goes round: {}", flow.from, flow.to, way.join(" "));
        self.fail(Oracle::Loop, || words);
    }
}
