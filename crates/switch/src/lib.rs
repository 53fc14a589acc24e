//! An OpenFlow 1.3 switch without I/O (specification 1.3.5): a driver supplies bytes, links and
//! time.
//!
//! A driver
//! - reports connections and messages ([`Switch::connected`], [`Switch::handle`],
//!   [`Switch::disconnected`]), ports ([`Switch::set_port_live`]) and time
//!   ([`Switch::poll_timeout`], [`Switch::handle_timeout`]);
//! - passes packets, either whole ([`Switch::receive`]) or, for many equal ones, as headers: one
//!   decision ([`Switch::decide`]) is valid until the state changes ([`Switch::is_current`]) and is
//!   counted per packet ([`Switch::count`]);
//! - takes the output ([`Switch::poll_output`]).
//!
//! The switch is stricter than hardware: it refuses everything the specification allows a switch to
//! refuse.
//!
//! Choices and restrictions with respect to the specification:
//! - Of several matching entries of one priority the one with the smaller pattern (in the bit order
//!   of `key.rs`) is used, regardless of its age.
//! - Meters, additional queues, TTLs and 802.1ad tags are not supported, and a second VLAN tag
//!   cannot be pushed. Such requests are refused.
//! - Groups may call and watch groups that call and watch no group; a packet is copied to at most
//!   256 × 256 buckets.
//! - The fields of a frame are those of its outermost VLAN tag; below a removed tag it counts as
//!   untagged.

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

/// Default number of entries in one part of a reply, which fits into the 64 KiB of a message.
const PART_ENTRIES: usize = 256;

/// The configuration of a switch.
#[derive(Clone, Debug)]
pub struct Config {
    /// Datapath id.
    pub datapath: DatapathId,
    /// Port descriptions.
    pub ports: Vec<PortDesc>,
    /// Tables of the pipeline, 1 to 255.
    pub tables: u8,
    /// Capacity of a table.
    pub max_entries: u32,
    /// Maximum number of groups.
    pub max_groups: u32,
    /// Number of packets buffered for the controller; with 0, packet-ins contain whole packets.
    pub buffers: u32,
    /// The hash of select groups.
    pub select: Select,
    /// Refresh period of statistics: values are those of its last multiple. Zero shows current
    /// values (F4's switch: 20 s).
    pub stats_refresh: Time,
    /// Maximum rate of packet-ins per second, with a burst of a tenth of a second; `None` for no
    /// limit (F4's switch: 2000). Further packet-ins are dropped and counted.
    pub packet_in_per_s: Option<u32>,
    /// Whether matches may contain TCP flags, as in Open vSwitch. Plain OpenFlow 1.3 has no such
    /// field.
    pub supports_tcp_flags: bool,
    /// The description in multipart replies.
    pub description: Description,
}

/// The choice of select groups among live buckets of positive weight, by weighted regions of a
/// hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Select {
    /// Seed of the hash. The same seed on all switches polarises, as Open vSwitch's default does.
    pub seed: u64,
    /// The hashed fields.
    pub fields: HashFields,
}

/// The fields of the hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashFields {
    /// Addresses, protocol and ports.
    FiveTuple,
    /// As Open vSwitch's default: ports of TCP, not of UDP.
    OpenVSwitch,
}

/// The reason why a packet has no output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoOutput {
    /// No entry matched: the packet is dropped, because the table has no table-miss entry.
    Miss,
    /// The matching entry has no output.
    Dropped,
    /// The group has no live bucket.
    NoLiveBucket,
    /// The output port is down.
    PortDown,
}

/// One output of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Egress {
    /// Physical port.
    pub port: PortNo,
    /// The headers on output.
    pub headers: Headers,
}

/// The processing of packets with certain headers from a certain port.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decision {
    /// The state of the switch at the decision.
    version: u64,
    /// Ports and headers of the output.
    pub egress: SmallVec<[Egress; 1]>,
    /// Whether the packets also go to the controller; see [`Switch::packet_in`].
    pub to_controller: bool,
    /// The reason if there is no output.
    pub no_output: Option<NoOutput>,
    /// The used entries, groups and ports, and the copies for the controller.
    trace: Trace,
}

/// An output of a switch.
#[derive(Clone, PartialEq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "messages are most of what is queued, and a box would cost each an allocation"
)]
pub enum Output {
    /// A message to a controller.
    Message(ConnectionId, Envelope),
    /// A frame sent out of a port, from a packet-out or received whole.
    Frame(PortNo, Vec<u8>),
}

/// An OpenFlow switch.
#[derive(Debug)]
pub struct Switch {
    config: Config,
    tables: Vec<Table>,
    groups: Groups,
    ports: Ports,
    /// Increases with every change of tables, groups and ports, starting at 1: a default decision
    /// is never current.
    version: u64,
    clock: Clock,
    sessions: Sessions,
    buffers: Buffers,
    limiter: Limiter,
    /// The earliest expiry of entries.
    deadlines: BTreeSet<(Time, TableId, u32)>,
    outputs: VecDeque<Output>,
    tally: Tally,
    part_entries: usize,
    /// Reused for its memory.
    scratch: Decision,
}

/// Figures of a switch that are not part of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Packet-ins suppressed by the rate limit.
    pub packet_ins_suppressed: u64,
    /// Accepted flow-mods.
    pub flow_mods: u64,
    /// Accepted group-mods.
    pub group_mods: u64,
    /// Sent error messages.
    pub errors: u64,
    /// Current number of entries in all tables.
    pub entries: u32,
    /// Maximum number of entries so far.
    pub entries_max: u32,
    /// Current number of groups.
    pub groups: u32,
}

impl Switch {
    /// Creates a switch after power-on: empty tables, all ports as described. The number of tables
    /// is limited to 1 to 255. Ports without a unique number (zero, reserved, or taken) are
    /// omitted.
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

    /// Returns the switch with at most this number of entries in one part of a reply.
    pub fn with_part_entries(self, entries: NonZeroUsize) -> Switch {
        Switch { part_entries: entries.get(), ..self }
    }

    /// Returns the datapath id.
    pub fn datapath(&self) -> DatapathId {
        self.config.datapath
    }

    /// Opens a connection to a controller; the switch sends a hello.
    pub fn connected(&mut self, now: Time, connection: ConnectionId) {
        self.clock.advance(now);
        self.open_session(connection);
    }

    /// Closes a connection. Entries stay in use ("fail secure mode").
    pub fn disconnected(&mut self, now: Time, connection: ConnectionId) {
        self.clock.advance(now);
        self.close_session(connection);
    }

    /// Handles a message of a controller. Messages on unknown connections are ignored.
    pub fn handle(&mut self, now: Time, connection: ConnectionId, envelope: Envelope) {
        self.clock.advance(now);
        self.take_message(connection, envelope);
    }

    /// Reports that a link came up or went down.
    pub fn set_port_live(&mut self, now: Time, port: PortNo, is_live: bool) {
        self.clock.advance(now);
        self.change_port(port, |desc| desc.is_link_down = !is_live);
    }

    /// Decides, counts and forwards a frame; changed headers are rewritten in its bytes. A frame
    /// that cannot be parsed, or from a port that is down, is dropped and counted at the port.
    pub fn receive(&mut self, now: Time, in_port: PortNo, frame: &[u8]) {
        self.clock.advance(now);
        self.take_in(in_port, frame);
    }

    /// Decides the processing of a packet without counting it. The cost is that of the table
    /// lookups; a reused `decision` needs no allocation.
    pub fn decide(&mut self, now: Time, in_port: PortNo, headers: &Headers, decision: &mut Decision) {
        self.clock.advance(now);
        self.datapath_view().decide(self.version, in_port, headers, decision);
    }

    /// Returns whether a decision is still valid: no table, group or port has changed since.
    /// Expired entries change tables when [`Switch::handle_timeout`] removes them.
    #[inline]
    pub fn is_current(&self, decision: &Decision) -> bool {
        self.version == decision.version
    }

    /// Counts a packet of `bytes` bytes on the entries, groups and ports of its decision, and
    /// prevents the entries from idling out. An outdated decision counts on those that remain.
    #[inline]
    pub fn count(&mut self, now: Time, in_port: PortNo, decision: &Decision, bytes: u32) {
        self.clock.advance(now);
        if let Some(port) = self.ports.get_mut(in_port) {
            port.rx.add(&self.clock, 1, u64::from(bytes));
        }
        self.count_beyond_port(decision, u64::from(bytes));
    }

    /// Sends a packet-in for a packet whose decision includes the controller, within the rate
    /// limit.
    pub fn packet_in(&mut self, now: Time, in_port: PortNo, decision: &Decision, frame: &[u8]) {
        self.clock.advance(now);
        self.send_copies(in_port, decision, frame);
    }

    /// Returns the next output. Call it until it returns `None` after each of the calls above.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns the time for the next call of [`Switch::handle_timeout`], when an entry may expire.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// Removes expired entries.
    pub fn handle_timeout(&mut self, now: Time) {
        self.clock.advance(now);
        self.expire();
    }

    /// Returns figures for reports and tests.
    pub fn tally(&self) -> Tally {
        Tally { groups: self.groups.len(), ..self.tally }
    }

    /// Returns all entries with their current counters (at the latest time passed to the switch),
    /// by table, priority (highest first) and match. Tests compare them with the desired state.
    pub fn entries(&self) -> Vec<openflow::FlowStats> {
        self.entries_now()
    }

    /// Returns all groups by number.
    pub fn groups(&self) -> Vec<openflow::GroupDescription> {
        self.groups.describe()
    }

    /// Records a change that may affect decisions. Returns a new version number.
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
