//! The result of a simulation.

use std::fmt;

use net::Time;

/// The property that was violated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Oracle {
    /// A frame entered the same switch at the same port with the same headers twice.
    Loop,
    /// A frame reached a wrong host, or was changed or duplicated.
    Delivery,
    /// Two connected hosts were not served.
    Service,
    /// A frame was lost although its path was undisturbed.
    Loss,
    /// Rules or groups of another controller were changed.
    Foreign,
    /// Too many messages, or message numbers used twice or not answered.
    Messages,
    /// In the convergence phase, the controller did not finish within the bound.
    Settled,
    /// In the convergence phase, a switch's rules differed from the desired state.
    Installed,
    /// In the convergence phase, there were messages other than keep-alive, discovery and polls.
    Quiet,
    /// The controller found a link without a cable, or in the convergence phase its topology
    /// differed from the network.
    Topology,
    /// In the convergence phase, the controller knew a host that does not exist.
    Hosts,
    /// A connection to a virtual service reached a wrong server or two, was not served, or not
    /// refused.
    Virtual,
    /// Rules that another program deleted, changed or added were not restored in time.
    Restored,
    /// A peer was used as a switch that is connected.
    Admission,
    /// A switch accepted changes of two controller instances.
    Mastership,
    /// The controller closed the connection of a switch that answered in time.
    Connection,
    /// Timers without end at one time, or too many events in a second.
    Livelock,
    /// The controller kept more than its bounds allow after everything had ended.
    Growth,
    /// The members of a pool did not get the shares of connections that its balancer promises.
    Balance,
    /// The simulation took too long on the wall clock. Only a runner reports it.
    TooLong,
    Panic,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub oracle: Oracle,
    pub at: Time,
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:.6} s: {}", self.oracle, self.at.as_s_f64(), self.message)
    }
}

/// Violations that the oracles do not report, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exemptions {
    /// Checks of unserved pairs of hosts that are connected only through switches the controller
    /// cannot reach.
    pub cut_off: u64,
    /// Checks of a pair, or frames, lost at a switch whose tables are full.
    pub table_full: u64,
    /// Frames lost while their path was being repaired.
    pub repair: u64,
    /// Frames to locations that a switch did not know, which went on over the controller.
    pub over_controller: u64,
    /// Violations while rules of other programs or of a second instance may forward packets.
    pub lawless: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    pub events: u64,
    /// Hash of all events: equal for equal simulations.
    pub log_hash: u64,
    pub faults: u64,
    pub flows: u64,
    pub frames_sent: u64,
    pub frames_delivered: u64,
    pub frames_lost: u64,
    pub messages_down: u64,
    pub messages_up: u64,
    pub changes: u64,
    pub errors: u64,
    pub moves: u64,
    /// Pairs of hosts found served while the network was not being repaired.
    pub pairs_checked: u64,
    pub clients: u64,
    pub requests: u64,
    pub responses: u64,
    pub refusals: u64,
    /// Frames that hostile hosts sent as part of an attack.
    pub attack_frames: u64,
    /// Changes by other programs whose repair was checked, peers with the datapath id of a switch, and
    /// second controller instances.
    pub restored: u64,
    /// Maximum number of timers of the controller at one time, and of events in a second.
    pub timers_max: u64,
    pub events_per_s_max: u64,
    pub impostors: u64,
    pub rivals: u64,
    /// Connections whose member was compared with the promise of its balancer.
    pub balanced: u64,
    pub exemptions: Exemptions,
    /// Time from the end of the faults to the desired state.
    pub converged_after: Time,
}

impl Report {
    /// Adds the figures of another simulation; times are combined by maximum.
    pub fn add(&mut self, other: &Report) {
        self.events += other.events;
        self.log_hash = self.log_hash.wrapping_add(other.log_hash);
        self.faults += other.faults;
        self.flows += other.flows;
        self.frames_sent += other.frames_sent;
        self.frames_delivered += other.frames_delivered;
        self.frames_lost += other.frames_lost;
        self.messages_down += other.messages_down;
        self.messages_up += other.messages_up;
        self.changes += other.changes;
        self.errors += other.errors;
        self.moves += other.moves;
        self.pairs_checked += other.pairs_checked;
        self.clients += other.clients;
        self.requests += other.requests;
        self.responses += other.responses;
        self.refusals += other.refusals;
        self.attack_frames += other.attack_frames;
        self.timers_max = self.timers_max.max(other.timers_max);
        self.events_per_s_max = self.events_per_s_max.max(other.events_per_s_max);
        self.restored += other.restored;
        self.impostors += other.impostors;
        self.rivals += other.rivals;
        self.balanced += other.balanced;
        self.exemptions.cut_off += other.exemptions.cut_off;
        self.exemptions.table_full += other.exemptions.table_full;
        self.exemptions.repair += other.exemptions.repair;
        self.exemptions.over_controller += other.exemptions.over_controller;
        self.exemptions.lawless += other.exemptions.lawless;
        self.converged_after = self.converged_after.max(other.converged_after);
    }
}
