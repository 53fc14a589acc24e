//! What must hold in every storm, one file each.

mod calm;
mod delivery;
pub(crate) mod foreign;
mod loss;
mod members;
mod messages;
mod service;
mod topology;
mod trials;

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
        self.check_counters();
        self.check_clients();
        self.check_deleted();
        if self.now > self.disturbed {
            self.check_service();
            self.check_questions();
        }
        if self.now >= self.plan.calm_at {
            self.check_calm();
        }
        self.after(Time::from_ms(100), Event::Check);
    }

    /// A frame came to the same place with the same headers again.
    pub(crate) fn oracle_loop(&mut self, frame: &Frame) {
        let Some(probe) = &frame.probe else { return };
        let flow = &self.flows[probe.flow];
        let way: Vec<String> =
            probe.visits.iter().map(|visit| format!("s{}:{}", visit.switch, visit.in_port.0)).collect();
        let words = format!("a frame of h{} to h{} goes round: {}", flow.from, flow.to, way.join(" "));
        self.fail(Oracle::Loop, || words);
    }
}
