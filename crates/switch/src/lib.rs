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

//!
//! Where the specification leaves a choice or this switch stays behind it:
//! - Of entries of one priority that match a packet the one whose match looks at the smaller bits (in the order of
//!   `key.rs`) is taken, whatever came first.
//! - There are no meters, queues beside the first, TTLs and tags of 802.1ad; a second VLAN tag cannot be pushed. What asks for
//!   them is refused.
//! - Groups may call and watch groups that call and watch none; a packet is copied to no more than 256 × 256 buckets.
//! - A frame's fields are those of its outermost VLAN tag; below a removed one it counts as untagged.

mod actions;
mod checks;
mod counters;
mod expiry;
mod flow_mods;
mod groups;
mod key;
mod packets;
mod pipeline;
mod ports;
mod select;
mod session;
mod stats;
mod table;

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;

use net::Time;
use openflow::{ConnectionId, DatapathId, Description, Envelope, Headers, PortDesc, PortNo, TableId};
use smallvec::SmallVec;

use crate::counters::Clock;
use crate::groups::Groups;
use crate::packets::{Buffers, Limiter};
use crate::pipeline::{Datapath, Trace};
use crate::ports::Ports;
use crate::session::Sessions;
use crate::table::Table;

/// Entries in one part of an answer unless set otherwise: what fits into the 64 KiB of a message with room to spare.
const PART_ENTRIES: usize = 256;

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
    /// Whether matches may name control bits of TCP, as Open vSwitch's may. Plain OpenFlow 1.3 has no such field.
    pub takes_tcp_flags: bool,
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
    /// What it used, and what goes to the controller.
    trace: Trace,
}

/// What comes out of a switch.
#[derive(Clone, PartialEq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "messages are most of what is queued, and a box would cost each an allocation"
)]
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
    tables: Vec<Table>,
    groups: Groups,
    ports: Ports,
    /// Grows with every change of tables, groups and ports, from 1: a decision that was never made is not current.
    version: u64,
    clock: Clock,
    sessions: Sessions,
    buffers: Buffers,
    limiter: Limiter,
    /// When entries may expire.
    deadlines: BTreeSet<(Time, TableId, u32)>,
    outputs: VecDeque<Output>,
    tally: Tally,
    part_entries: usize,
    /// Kept for its memory.
    scratch: Decision,
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
    /// A switch as it is when powered on: empty tables, all ports as described. It has at least one table and at most 255;
    /// ports without a number of their own (zero, reserved, or taken) are left out.
    pub fn new(config: Config) -> Switch {
        let config = Config { tables: config.tables.max(1), ..config };
        Switch {
            tables: (0..config.tables).map(|_| Table::default()).collect(),
            groups: Groups::default(),
            ports: Ports::new(&config.ports),
            version: 1,
            clock: Clock::new(config.stats_refresh),
            sessions: Sessions::default(),
            buffers: Buffers::new(config.buffers),
            limiter: Limiter::new(config.packet_in_per_s),
            deadlines: BTreeSet::new(),
            outputs: VecDeque::new(),
            tally: Tally::default(),
            part_entries: PART_ENTRIES,
            scratch: Decision::default(),
            config,
        }
    }

    /// The same, with at most so many entries in one part of an answer.
    pub fn with_part_entries(self, entries: NonZeroUsize) -> Switch {
        Switch { part_entries: entries.get(), ..self }
    }

    /// Its number.
    pub fn datapath(&self) -> DatapathId {
        self.config.datapath
    }

    /// A connection to a controller is open; the switch says hello.
    pub fn connected(&mut self, now: Time, connection: ConnectionId) {
        self.clock.advance(now);
        self.open_session(connection);
    }

    /// It is gone. Entries stay; the switch goes on with them ("fail secure mode").
    pub fn disconnected(&mut self, now: Time, connection: ConnectionId) {
        self.clock.advance(now);
        self.close_session(connection);
    }

    /// A message of a controller. One on a connection the switch was not told of is ignored.
    pub fn handle(&mut self, now: Time, connection: ConnectionId, envelope: Envelope) {
        self.clock.advance(now);
        self.take_message(connection, envelope);
    }

    /// A link came up or went down.
    pub fn set_port_live(&mut self, now: Time, port: PortNo, is_live: bool) {
        self.clock.advance(now);
        self.change_port(port, |desc| desc.is_link_down = !is_live);
    }

    /// A frame arrives whole: it is decided, counted and sent on, headers rewritten in its bytes. A frame that cannot be
    /// parsed is dropped, and so is one from a port that is down; both are counted there.
    pub fn receive(&mut self, now: Time, in_port: PortNo, frame: &[u8]) {
        self.clock.advance(now);
        self.take_in(in_port, frame);
    }

    /// What would happen to a packet, without counting it. Its cost is that of the table lookups; nothing is allocated once
    /// `decision` is warm.
    pub fn decide(&mut self, now: Time, in_port: PortNo, headers: &Headers, decision: &mut Decision) {
        self.clock.advance(now);
        self.datapath_view().decide(self.version, in_port, headers, decision);
    }

    /// Whether what was decided still holds: no table, group or port has changed since. Entries that time out change
    /// tables when [`Switch::handle_timeout`] removes them.
    #[inline]
    pub fn is_current(&self, decision: &Decision) -> bool {
        self.version == decision.version
    }

    /// Counts a packet of `bytes` bytes handled as decided, on the entries, groups and ports it used, and keeps those
    /// entries from idling out. A current decision is expected: one that is not counts on what is left of it.
    #[inline]
    pub fn count(&mut self, now: Time, in_port: PortNo, decision: &Decision, bytes: u32) {
        self.clock.advance(now);
        if let Some(port) = self.ports.get_mut(in_port) {
            port.rx.add(&self.clock, 1, u64::from(bytes));
        }
        self.count_beyond_port(decision, u64::from(bytes));
    }

    /// Sends a packet decided for the controller to it, as far as the limit of the rate allows.
    pub fn packet_in(&mut self, now: Time, in_port: PortNo, decision: &Decision, frame: &[u8]) {
        self.clock.advance(now);
        self.send_copies(in_port, decision, frame);
    }

    /// What comes out next. To be called until it answers `None` after each of the calls above.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Switch::handle_timeout`] wants to be called: the next entry may expire.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// Removes entries whose time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.clock.advance(now);
        self.expire();
    }

    /// Figures for reports and tests.
    pub fn tally(&self) -> Tally {
        Tally { groups: self.groups.len(), ..self.tally }
    }

    /// All entries with their counters of this moment (the latest time the switch was told), by table, priority (highest
    /// first) and match: for tests that compare what is installed with what is desired.
    pub fn entries(&self) -> Vec<openflow::FlowStats> {
        self.entries_now()
    }

    /// All groups by number.
    pub fn groups(&self) -> Vec<openflow::GroupDescription> {
        self.groups.describe()
    }

    /// Notes a change that decisions may depend on; the answer is a number never given before.
    fn changed(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn datapath_view(&self) -> Datapath<'_> {
        Datapath { tables: &self.tables, groups: &self.groups, ports: &self.ports, select: &self.config.select }
    }

    #[inline]
    fn count_beyond_port(&mut self, decision: &Decision, bytes: u64) {
        let places = (&mut self.tables[..], &mut self.groups, &mut self.ports);
        pipeline::count(places, &self.clock, decision, bytes);
    }
}
