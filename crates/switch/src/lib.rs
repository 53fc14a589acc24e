//! An OpenFlow 1.3.5 switch without I/O: a driver supplies bytes, links and time.
//!
//! A driver
//! - reports connections and messages ([`Switch::connected`], [`Switch::handle`],
//!   [`Switch::disconnected`]), ports ([`Switch::set_port_live`]) and time
//!   ([`Switch::poll_timeout`], [`Switch::handle_timeout`]);
//! - passes packets, either whole ([`Switch::receive`]) or, for many equal ones, as headers: one
//!   decision ([`Switch::decide`]) is valid until the state changes ([`Switch::is_current`]) and is
//!   counted per packet ([`Switch::count`]);
//! - changes rules behind the controller's back ([`Switch::flow_mod_by_other`]), and pauses flow
//!   monitors ([`Switch::pause_monitors`]);
//! - takes the output ([`Switch::poll_output`]).
//!
//! The switch is stricter than hardware: it refuses everything that a switch may refuse.
//!
//! Choices and restrictions with respect to the specification:
//! - Of several matching entries of one priority the one with the smaller pattern (in the bit order
//!   of `key.rs`) is used, regardless of its age.
//! - Groups, flow monitors (EXT-187) and the features of tables are optional ([`Support`]).
//! - Meters, additional queues, TTLs, 802.1ad tags and a second VLAN tag are refused.
//! - Groups may call and watch groups that call and watch none: at most 256 × 256 copies.
//! - The fields of a frame are those of its outermost VLAN tag; without it, it is untagged.

#![allow(missing_docs, reason = "only the program's own crates use this one")]

mod actions;
mod checks;
mod counters;
mod expiry;
mod features;
mod flow_mods;
mod groups;
mod key;
mod monitors;
mod packets;
mod pipeline;
mod ports;
mod select;
mod session;
mod stats;
mod table;
pub mod testing;

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;

use net::{RecentValues, Time};
use openflow::{
    ConnectionId, DatapathId, Description, Envelope, ErrorKind, FlowMod, Headers, Instructions, Match, PortDesc,
    PortNo, TableId, Xid,
};
use smallvec::SmallVec;

use crate::checks::Targets;
use crate::counters::Clock;
use crate::groups::Groups;
use crate::packets::{Buffers, Limiter};
use crate::pipeline::{Datapath, Trace};
use crate::ports::Ports;
use crate::session::Sessions;
use crate::table::Table;

/// Default number of entries in one part of a reply, which fits into the 64 KiB of a message.
const PART_ENTRIES: usize = 256;

#[derive(Clone, Debug)]
pub struct Config {
    pub datapath: DatapathId,
    pub ports: Vec<PortDesc>,
    pub tables: u8,
    pub max_entries: u32,
    pub max_groups: u32,
    /// Number of packets buffered for the controller; with 0, packet-ins contain whole packets.
    pub buffers: u32,
    pub select: Select,
    /// Refresh period of statistics: values of its last multiple; zero for current ones (F4: 20 s).
    pub stats_refresh: Time,
    /// Maximum rate of packet-ins per second, with a burst of a tenth of a second; `None` for no
    /// limit (F4's switch: 2000). Further packet-ins are dropped and counted.
    pub packet_in_per_s: Option<u32>,
    /// Whether matches may contain TCP flags as in Open vSwitch; OpenFlow 1.3 has no such field.
    pub supports_tcp_flags: bool,
    pub support: Support,
    pub description: Description,
}

/// Optional parts of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Support {
    /// Groups. Without them, group-mods are of an unknown type (`OFPBRC_BAD_TYPE`), and so are
    /// multipart messages about groups (`OFPBRC_BAD_MULTIPART`). A switch that knows groups, but has
    /// room for none, has a [`Config::max_groups`] of 0.
    pub groups: bool,
    /// Flow monitors, as Open vSwitch has them; without them their experimenter is unknown.
    pub flow_monitors: bool,
    /// Multipart messages about queues, meters and features of tables. Without them their types are
    /// unknown (`OFPBRC_BAD_MULTIPART`).
    pub features: bool,
    /// Aggregate statistics of rules; without them their type is unknown (`OFPBRC_BAD_MULTIPART`).
    pub aggregate: bool,
    /// The action that adds an outer IPv4 header, which OpenFlow does not have; without it its
    /// experimenter is unknown. Not in buckets of groups.
    pub ip_in_ip: bool,
}

impl Default for Support {
    fn default() -> Support {
        Support { groups: true, flow_monitors: false, features: true, aggregate: true, ip_in_ip: false }
    }
}

/// The choice among live buckets of positive weight: weighted regions of a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Select {
    /// Seed of the hash. The same seed on all switches polarises, as Open vSwitch's default does.
    pub seed: u64,
    pub fields: HashFields,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashFields {
    FiveTuple,
    OpenVSwitch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoOutput {
    /// No entry matched: the packet is dropped, because the table has no table-miss entry.
    Miss,
    Dropped,
    NoLiveBucket,
    PortDown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Egress {
    pub port: PortNo,
    pub headers: Headers,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decision {
    version: u64,
    pub egress: SmallVec<[Egress; 1]>,
    /// Whether the packets also go to the controller; see [`Switch::packet_in`].
    pub to_controller: bool,
    pub no_output: Option<NoOutput>,
    trace: Trace,
}

#[derive(Clone, PartialEq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "messages are most of what is queued, and a box would cost each an allocation"
)]
pub enum Output {
    Message(ConnectionId, Envelope),
    /// A frame sent out of a port, from a packet-out or received whole.
    Frame(PortNo, Vec<u8>),
}

#[derive(Debug)]
pub struct Switch {
    config: Config,
    tables: Vec<Table>,
    groups: Groups,
    ports: Ports,
    /// Increases with every change, from 1 on, so that a default decision is never current.
    version: u64,
    clock: Clock,
    sessions: Sessions,
    buffers: Buffers,
    limiter: Limiter,
    deadlines: BTreeSet<(Time, TableId, u32)>,
    outputs: VecDeque<Output>,
    /// The message that is being handled.
    cause: Option<(ConnectionId, Xid)>,
    tally: Tally,
    part_entries: usize,
    scratch: Decision,
    /// Instructions added last, which further entries share.
    recent_instructions: RecentValues<Instructions>,
    /// Fields and masks of matches added last.
    recent_forms: RecentValues<Match>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub packet_ins_suppressed: u64,
    pub flow_mods: u64,
    pub group_mods: u64,
    pub errors: u64,
    pub entries: u32,
    pub entries_max: u32,
    pub groups: u32,
}

impl Switch {
    /// Creates a switch after power-on: empty tables, 1 to 255 of them, all ports as described but
    /// those without a unique number (zero, reserved, or taken).
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
            cause: None,
            tally: Tally::default(),
            part_entries: PART_ENTRIES,
            scratch: Decision::default(),
            recent_instructions: RecentValues::default(),
            recent_forms: RecentValues::default(),
            config,
        }
    }

    pub fn with_part_entries(self, entries: NonZeroUsize) -> Switch {
        Switch { part_entries: entries.get(), ..self }
    }

    pub fn datapath(&self) -> DatapathId {
        self.config.datapath
    }

    pub fn set_port_live(&mut self, now: Time, port: PortNo, is_live: bool) {
        self.clock.advance(now);
        self.change_port(port, |desc| desc.is_link_down = !is_live);
    }

    /// Decides a packet without counting it: table lookups, no allocation if `decision` is reused.
    pub fn decide(&mut self, now: Time, in_port: PortNo, headers: &Headers, decision: &mut Decision) {
        self.clock.advance(now);
        self.datapath_view().decide(self.version, in_port, headers, None, decision);
    }

    /// Returns whether a decision is still valid: no table, group or port has changed since.
    /// Expired entries change tables when [`Switch::handle_timeout`] removes them.
    #[inline]
    pub fn is_current(&self, decision: &Decision) -> bool {
        self.version == decision.version
    }

    /// Version of the tables, groups and ports: it increases with every change, and decisions of an
    /// earlier version are outdated. Expired entries change tables when [`Switch::handle_timeout`]
    /// removes them.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Advances the clock, so that statistics are refreshed if that is due.
    pub fn advance(&mut self, now: Time) {
        self.clock.advance(now);
    }

    /// Time at which statistics are refreshed next; [`Time::MAX`] if they are always current. Packets
    /// received before must be counted before.
    #[inline]
    pub fn next_refresh(&self) -> Time {
        self.clock.next_refresh()
    }

    /// Counts `packets` packets with `bytes` bytes in all on the entries, groups and ports of their
    /// decision. The last of them was received at `last`, which prevents the entries from idling out
    /// until then and their idle timeout. An outdated decision counts on those that remain.
    #[inline]
    pub fn count(&mut self, last: Time, in_port: PortNo, decision: &Decision, packets: u32, bytes: u64) {
        self.clock.advance(last);
        if let Some(port) = self.ports.get_mut(in_port) {
            port.rx.add(&self.clock, u64::from(packets), bytes);
        }
        self.count_beyond_port(last, decision, packets, bytes);
    }

    pub fn packet_in(&mut self, now: Time, in_port: PortNo, decision: &Decision, frame: &[u8]) {
        self.clock.advance(now);
        self.send_copies(in_port, decision, frame);
    }

    /// Returns the next output. Call it until it returns `None` after each of the calls above.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// Changes rules behind the controller's back, as a management program or another controller
    /// does: monitors report it in full, and removed entries with the flag are reported.
    ///
    /// # Errors
    /// The error that the other program receives.
    pub fn flow_mod_by_other(&mut self, now: Time, flow_mod: FlowMod) -> Result<(), ErrorKind> {
        self.clock.advance(now);
        let result = self.flow_mod(flow_mod);
        self.flush_monitors();
        result
    }

    pub fn tally(&self) -> Tally {
        Tally { groups: self.groups.by_id.len() as u32, ..self.tally }
    }

    pub fn groups(&self) -> Vec<openflow::GroupDescription> {
        self.groups.describe()
    }

    fn changed(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn datapath_view(&self) -> Datapath<'_> {
        Datapath { tables: &self.tables, groups: &self.groups, ports: &self.ports, select: &self.config.select }
    }

    /// Returns what actions may refer to; packet-outs may also name the first table.
    fn targets(&self, is_table_allowed: bool) -> Targets<'_> {
        let takes_ip_in_ip = self.config.support.ip_in_ip;
        Targets { ports: &self.ports, groups: &self.groups, is_table_allowed, takes_ip_in_ip }
    }

    #[inline]
    fn count_beyond_port(&mut self, last: Time, decision: &Decision, packets: u32, bytes: u64) {
        let places = (&mut self.tables[..], &mut self.groups, &mut self.ports);
        pipeline::count(places, &self.clock, last, decision, (u64::from(packets), bytes));
    }
}
