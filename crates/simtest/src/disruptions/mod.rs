//! Disruptions: faults that other programs, other peers and the controller's own process cause.
//!
//! - Another program deletes, changes or adds rules with the controller's owner
//!   ([`tampering`]).
//! - A peer presents the datapath id of a switch ([`impostor`]).
//! - A second controller instance with the same owner becomes master of all switches, and ends
//!   ([`rival`]).
//! - The controller's process pauses ([`pause`]).
//!
//! Their own random streams draw them, and the limits of some switches ([`generate`]).

pub(crate) mod generate;
mod impostor;
mod pause;
mod rival;
pub(crate) mod tampering;

use std::collections::BTreeSet;

use control::CloseReason;
use net::Time;
use openflow::{ConnectionId, Envelope};

use crate::channel::Way;
use crate::report::Oracle;
use crate::simulation::Simulation;
pub(crate) use pause::Input;
pub use tampering::Tampering;

/// Maximum time until an audit has found a difference, of the five seconds that the controller
/// promises until it is repaired. Reaction time is added.
pub(crate) const AUDIT: Time = Time::from_s(5);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disruption {
    /// Another program changes rules or groups with the controller's owner.
    Tamper { switch: usize, tampering: Tampering, seed: u64 },
    /// A peer presents the datapath id of a switch, again and again.
    Impostor { switch: usize },
    /// A second controller instance connects to all switches. When it ends, the first one is
    /// restarted.
    Rival,
    /// The controller's process does not run.
    Pause,
}

impl Disruption {
    pub(crate) fn describe(self) -> String {
        match self {
            Disruption::Tamper { switch, tampering, .. } => {
                format!("another program {} on s{switch}", tampering.words())
            }
            Disruption::Impostor { switch } => format!("a peer presents the datapath id of s{switch}"),
            Disruption::Rival => "a second controller instance with the same owner runs".to_owned(),
            Disruption::Pause => "the controller's process pauses".to_owned(),
        }
    }

    /// Returns the switch that it concerns alone.
    pub(crate) fn switch(self) -> Option<usize> {
        match self {
            Disruption::Tamper { switch, .. } | Disruption::Impostor { switch } => Some(switch),
            Disruption::Rival | Disruption::Pause => None,
        }
    }
}

/// Begin, end or next step of a disruption.
#[derive(Debug)]
pub(crate) enum Event {
    Impostor { connection: ConnectionId, way: Way, envelope: Box<Envelope> },
    ImpostorConnects { action: usize, switch: usize },
    Rival { connection: ConnectionId, way: Way, envelope: Box<Envelope> },
    RivalTimer,
    ControllerStarts,
}

/// State of all disruptions of one simulation test.
#[derive(Default)]
pub(crate) struct Disruptions {
    impostors: impostor::Impostors,
    rival: Option<rival::Rival>,
    pub(crate) pause: pause::Pause,
    pub(crate) tampered: Vec<tampering::Tampered>,
    /// The time until which rules of other programs may forward packets in any way.
    pub(crate) lawless_until: Time,
    /// Switches as which an impostor may have been admitted: until they connect, the controller counts
    /// the rules that the impostor got as installed on them.
    impersonated: BTreeSet<usize>,
    /// The time until which packets may loop because of rules that an impostor got.
    loops_until: Time,
    /// The last connection that the controller closed, and why.
    pub(crate) closed: Option<(ConnectionId, CloseReason)>,
}

impl Simulation {
    pub(crate) fn begin_disruption(&mut self, action: usize, disruption: Disruption) {
        match disruption {
            Disruption::Tamper { switch, tampering, seed } => self.tamper(switch, tampering, seed),
            Disruption::Impostor { switch } => self.connect_impostor(action, switch),
            Disruption::Rival => self.begin_rival(),
            Disruption::Pause => self.begin_pause(self.plan.actions[action].until),
        }
    }

    pub(crate) fn end_disruption(&mut self, action: usize, disruption: Disruption) {
        match disruption {
            Disruption::Tamper { .. } => {}
            Disruption::Impostor { switch } => self.end_impostor(action, switch),
            Disruption::Rival => self.end_rival(),
            Disruption::Pause => self.end_pause(),
        }
    }

    pub(crate) fn dispatch_disruption(&mut self, event: Event) {
        match event {
            Event::Impostor { connection, way, envelope } => self.impostor_message(connection, way, *envelope),
            Event::ImpostorConnects { action, switch } => {
                if self.now < self.plan.actions[action].until {
                    self.connect_impostor(action, switch);
                }
            }
            Event::Rival { connection, way, envelope } => self.rival_message(connection, way, *envelope),
            Event::RivalTimer => self.rival_timer(),
            Event::ControllerStarts => self.resume_controller(),
        }
    }

    /// Exempts rules of other programs until this time.
    fn allow_anything_until(&mut self, until: Time) {
        self.disruptions.lawless_until = self.disruptions.lawless_until.max(until);
        self.services.disturbed = self.services.disturbed.max(until);
        self.disturb_all(until);
    }

    /// Returns whether a violation is exempted because rules of other programs may cause it.
    pub(crate) fn is_lawless(&self, oracle: Oracle) -> bool {
        use Oracle::{Delivery, Loop, Loss, Service, Virtual};
        let Disruptions { lawless_until, impersonated, loops_until, .. } = &self.disruptions;
        let is_impersonated = !impersonated.is_empty() || self.now <= *loops_until;
        (self.now <= *lawless_until && matches!(oracle, Delivery | Loop | Loss | Service | Virtual))
            || (is_impersonated && oracle == Loop)
    }
}
