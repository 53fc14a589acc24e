//! What a storm was like, and why it failed.

use std::fmt;

use net::Time;

/// What was violated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Oracle {
    /// A frame came to the same switch by the same port with the same headers twice.
    Loop,
    /// A frame came to a host it was not for, changed, or twice.
    Delivery,
    /// Two hosts that should have been served were not.
    Service,
    /// A frame was lost although nothing had happened to its path.
    Loss,
    /// Rules or groups of others were changed.
    Foreign,
    /// Too many messages, or numbers of messages used twice or not answered.
    Messages,
    /// After the storm, the controller had not done what it wants within the bound.
    Settled,
    /// After the storm, a switch held other rules than the controller says.
    Installed,
    /// After the storm, there were messages beside keep-alive, discovery and polls.
    Quiet,
    /// After the storm, the controller believed in another network than there is.
    Topology,
    /// A connection to a virtual service went to the wrong server or to two, was not served, or not refused.
    Virtual,
    /// Something panicked.
    Panic,
}

/// Why a storm failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What was violated.
    pub oracle: Oracle,
    /// When.
    pub at: Time,
    /// How.
    pub words: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:.6} s: {}", self.oracle, self.at.as_s_f64(), self.words)
    }
}

/// What was not held against anyone, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Excuses {
    /// Checks of a pair of hosts that was not served and is connected only through switches the controller cannot reach.
    pub cut_off: u64,
    /// Checks of a pair, or frames, lost at a switch whose tables are full.
    pub table_full: u64,
    /// Frames lost while something on their path was being repaired.
    pub repair: u64,
}

/// What a storm was like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Events of the world.
    pub events: u64,
    /// Hash of all of them: equal for equal storms.
    pub log_hash: u64,
    /// Faults.
    pub faults: u64,
    /// Flows.
    pub flows: u64,
    /// Frames hosts sent.
    pub frames_sent: u64,
    /// Frames that arrived.
    pub frames_delivered: u64,
    /// Frames lost, all for good reasons.
    pub frames_lost: u64,
    /// Messages of controllers.
    pub messages_down: u64,
    /// Messages of switches.
    pub messages_up: u64,
    /// Flow-table and group changes sent.
    pub changes: u64,
    /// Errors of switches.
    pub errors: u64,
    /// Flows moved.
    pub moves: u64,
    /// Pairs of hosts found served while nothing was being repaired.
    pub pairs_checked: u64,
    /// Connections of clients to virtual services.
    pub clients: u64,
    /// Questions they asked.
    pub questions: u64,
    /// Answers they got.
    pub answers: u64,
    /// How often they were told that nobody serves.
    pub refusals: u64,
    /// Excuses.
    pub excuses: Excuses,
    /// How long after the end of the faults everything was as it should be.
    pub calm_after: Time,
}

impl Report {
    /// Adds another storm's figures; of times the greatest.
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
        self.questions += other.questions;
        self.answers += other.answers;
        self.refusals += other.refusals;
        self.excuses.cut_off += other.excuses.cut_off;
        self.excuses.table_full += other.excuses.table_full;
        self.excuses.repair += other.excuses.repair;
        self.calm_after = self.calm_after.max(other.calm_after);
    }
}
