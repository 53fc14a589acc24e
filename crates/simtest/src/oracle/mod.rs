//! The oracles: properties of every simulation, one file each.

mod balance;
mod convergence;
mod delivery;
pub(crate) mod disruptions;
mod final_probes;
pub(crate) mod foreign;
mod loss;
mod members;
mod messages;
mod service;
mod topology;
mod watchdog;

use net::Time;
use openflow::frame;

use crate::fabric::TO_CONTROLLER;
use crate::report::Oracle;
use crate::simulation::{Event, Frame, Simulation};

#[derive(Debug, Default)]
pub(crate) struct Oracles {
    pub(crate) topology: topology::Links,
    pub(crate) messages: messages::Numbers,
    pub(crate) foreign: foreign::Rules,
    pub(crate) convergence: convergence::Convergence,
    pub(crate) delivered: delivery::Delivered,
    pub(crate) watchdog: watchdog::Watchdog,
    pub(crate) balance: balance::Picks,
}

impl Simulation {
    pub(crate) fn check(&mut self) {
        self.check_foreign();
        self.check_counters();
        self.check_clients();
        self.check_deleted();
        self.check_restored();
        if self.now > self.disturbed {
            self.check_service();
            self.check_arp_replies();
        }
        if self.now >= self.plan.faults_end_at {
            self.check_convergence();
        }
        self.after(Time::from_ms(100), Event::Check);
    }

    /// Returns whether packets may loop now, and counts it: addressing modes change next hops in no order.
    pub(crate) fn is_loop_exempt(&mut self) -> bool {
        let is_exempt = !self.plan.is_flat() && self.now <= self.disturbed;
        self.report.exemptions.repair += u64::from(is_exempt);
        is_exempt
    }

    /// Returns whether the controller passes on a frame that a switch has not forwarded, and counts it:
    /// in addressing modes those to locations that the switch does not know.
    pub(crate) fn is_passed_on(&mut self, why: &str) -> bool {
        let is_passed_on = !self.plan.is_flat() && why == TO_CONTROLLER;
        self.report.exemptions.over_controller += u64::from(is_passed_on);
        is_passed_on
    }

    /// Reports a frame of a flow that entered the same switch port with the same headers again, or
    /// another frame that passed too many switches.
    pub(crate) fn report_loop(&mut self, frame: &Frame) {
        if self.is_loop_exempt() {
            return;
        }
        let words = match &frame.probe {
            Some(probe) => {
                let flow = &self.flows[probe.flow];
                format!("a frame of h{} to h{} loops: {}", flow.from, flow.to, probe.path())
            }
            None => {
                let headers = frame::parse(&frame.bytes).unwrap_or_default();
                format!("a frame has passed {} switches: {headers:?}", frame.hops)
            }
        };
        self.fail(Oracle::Loop, || words);
    }
}
