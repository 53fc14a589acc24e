//! An OpenFlow 1.3 switch without input or output (specification 1.3.5): bytes, links and time come from whoever drives it.
//!
//! A driver
//! - tells of connections and messages ([`Switch::connected`], [`Switch::handle`], [`Switch::disconnected`]), of ports
//!   ([`Switch::set_port_live`]) and of time ([`Switch::poll_timeout`], [`Switch::handle_timeout`]);
//! - hands over packets, either whole ([`Switch::receive`]) or, where there are many alike, as headers: what would happen
//!   to them is asked once ([`Switch::decide`]), is good until something changes ([`Switch::is_current`]), and is counted
//!   per packet ([`Switch::count`]);
//! - takes what comes out ([`Switch::poll_output`]).
//!
//! It is stricter than hardware: whatever the specification lets a switch refuse, it refuses.

use net::Time;
use openflow::{ConnectionId, DatapathId, Description, Envelope, Headers, PortDesc, PortNo};
use smallvec::SmallVec;

/// What a switch is made from.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its number.
    pub datapath: DatapathId,
    /// Its ports.
    pub ports: Vec<PortDesc>,
    /// Tables of the pipeline, 1 to 255.
    pub tables: u8,
    /// Entries a table holds.
    pub max_entries: u32,
    /// Groups it holds.
    pub max_groups: u32,
    /// Packets it keeps for the controller; 0 sends whole packets.
    pub buffers: u32,
    /// How select groups choose.
    pub select: Select,
    /// Counters shown in statistics are those of the last multiple of this; zero for the moment of the answer (F4's
    /// switch: 20 s).
    pub stats_refresh: Time,
    /// Greatest rate of packet-in messages, per second, over a burst of a tenth of a second's worth; `None` for no limit
    /// (F4's switch: 2000). What exceeds it is dropped and counted.
    pub packet_in_per_s: Option<u32>,
    /// What it says of itself.
    pub description: Description,
}

/// How select groups choose among live buckets of positive weight: by weighted regions of a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Select {
    /// Seed of the hash: the same on all switches polarises, as Open vSwitch's default does.
    pub seed: u64,
    /// Whether ports of TCP and UDP are hashed besides addresses and protocol (Open vSwitch's default leaves UDP's out).
    pub fields: HashFields,
}

/// What is hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashFields {
    /// Addresses, protocol and ports.
    FiveTuple,
    /// As Open vSwitch's default: ports of TCP, not of UDP.
    OpenVSwitch,
}

/// Why a packet went nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoOutput {
    /// No entry matched: dropped, as the specification has it without a table-miss entry.
    Miss,
    /// An entry without output matched.
    Dropped,
    /// A group without a live bucket.
    NoLiveBucket,
    /// It would have gone out of a port that is down.
    PortDown,
}

/// One packet on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Egress {
    /// Physical port.
    pub port: PortNo,
    /// The headers it leaves with.
    pub headers: Headers,
}

/// What the pipeline does to packets with certain headers from a certain port.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decision {
    /// State of the switch this was decided in.
    version: u64,
    /// Where they go.
    pub egress: SmallVec<[Egress; 1]>,
    /// Whether they also go to the controller; see [`Switch::packet_in`].
    pub to_controller: bool,
    /// Why they go nowhere, if they do.
    pub no_output: Option<NoOutput>,
}

/// What comes out of a switch.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// A message to a controller.
    Message(ConnectionId, Envelope),
    /// A frame out of a port, made by packet-out or received whole.
    Frame(PortNo, Vec<u8>),
}

/// A switch.
#[derive(Debug)]
pub struct Switch {
    config: Config,
}

/// Figures of a switch that are not part of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Packet-in messages not sent for the limit of their rate.
    pub packet_ins_suppressed: u64,
    /// Flow-table changes accepted.
    pub flow_mods: u64,
    /// Group changes accepted.
    pub group_mods: u64,
    /// Error messages sent.
    pub errors: u64,
    /// Entries now, in all tables.
    pub entries: u32,
    /// Most entries there were at once.
    pub entries_max: u32,
    /// Groups now.
    pub groups: u32,
}

impl Switch {
    /// A switch as it is when powered on: empty tables, all ports as described.
    pub fn new(config: Config) -> Switch {
        Switch { config }
    }
    /// Its number.
    pub fn datapath(&self) -> DatapathId {
        self.config.datapath
    }
    /// A connection to a controller is open; the switch says hello.
    pub fn connected(&mut self, now: Time, connection: ConnectionId) {
        let _ = (now, connection);
        unimplemented!()
    }
    /// It is gone. Entries stay; the switch goes on with them ("fail secure mode").
    pub fn disconnected(&mut self, now: Time, connection: ConnectionId) {
        let _ = (now, connection);
        unimplemented!()
    }
    /// A message of a controller.
    pub fn handle(&mut self, now: Time, connection: ConnectionId, envelope: Envelope) {
        let _ = (now, connection, envelope);
        unimplemented!()
    }
    /// A link came up or went down.
    pub fn set_port_live(&mut self, now: Time, port: PortNo, is_live: bool) {
        let _ = (now, port, is_live);
        unimplemented!()
    }
    /// A frame arrives whole: it is decided, counted and sent on, headers rewritten in its bytes. A frame that cannot be
    /// parsed is dropped.
    pub fn receive(&mut self, now: Time, in_port: PortNo, frame: &[u8]) {
        let _ = (now, in_port, frame);
        unimplemented!()
    }
    /// What would happen to a packet, without counting it. Its cost is that of the table lookups; nothing is allocated once
    /// `decision` is warm.
    pub fn decide(&mut self, now: Time, in_port: PortNo, headers: &Headers, decision: &mut Decision) {
        let _ = (now, in_port, headers, decision);
        unimplemented!()
    }
    /// Whether what was decided still holds: no table, group or port has changed since. Entries that time out change
    /// tables when [`Switch::handle_timeout`] removes them.
    #[inline]
    pub fn is_current(&self, decision: &Decision) -> bool {
        let _ = decision;
        unimplemented!()
    }
    /// Counts a packet of `bytes` bytes handled as decided, on the entries, groups and ports it used, and keeps those
    /// entries from idling out. A current decision is expected: one that is not counts on what is left of it.
    #[inline]
    pub fn count(&mut self, now: Time, in_port: PortNo, decision: &Decision, bytes: u32) {
        let _ = (now, in_port, decision, bytes);
        unimplemented!()
    }
    /// Sends a packet decided for the controller to it, as far as the limit of the rate allows.
    pub fn packet_in(&mut self, now: Time, in_port: PortNo, decision: &Decision, frame: &[u8]) {
        let _ = (now, in_port, decision, frame);
        unimplemented!()
    }
    /// What comes out next. To be called until it answers `None` after each of the calls above.
    pub fn poll_output(&mut self) -> Option<Output> {
        unimplemented!()
    }
    /// When [`Switch::handle_timeout`] wants to be called: the next entry may expire.
    pub fn poll_timeout(&self) -> Option<Time> {
        unimplemented!()
    }
    /// Removes entries whose time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
        unimplemented!()
    }
    /// Figures for reports and tests.
    pub fn tally(&self) -> Tally {
        unimplemented!()
    }
    /// All entries with their counters of this moment, by table, priority (highest first) and match: for tests that
    /// compare what is installed with what is desired.
    pub fn entries(&self) -> Vec<openflow::FlowStats> {
        unimplemented!()
    }
    /// All groups by number.
    pub fn groups(&self) -> Vec<openflow::GroupDescription> {
        unimplemented!()
    }
}
