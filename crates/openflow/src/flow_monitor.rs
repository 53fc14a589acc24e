//! Flow monitors: the switch reports changes of its flow tables.
//!
//! OpenFlow has them since 1.4. The Open Networking Foundation defined them for 1.3 as extension
//! EXT-187: experimenter multipart messages 1870 of experimenter `0x4f4e4600` and, for the same
//! experimenter, messages 1870 (cancel), 1871 (paused) and 1872 (resumed).
//!
//! Tried with Open vSwitch 3.1.0 (Debian 12, user-space datapath) over OpenFlow 1.3; the bytes are
//! in `tests/captures/monitor_*.bin`:
//! - `ovs-ofctl -O OpenFlow13 monitor BRIDGE watch:` sends EXT-187, not `NXST_FLOW_MONITOR`. The
//!   multipart messages of Nicira (experimenter `0x2320`, type 2) and of OpenFlow 1.4 (type 16) are
//!   refused with `OFPBRC_BAD_EXP_TYPE` and `OFPBRC_BAD_MULTIPART`. The layout is that of
//!   `nx_flow_monitor_request` with a port of 32 bits and an `ofp_match`; the updates have
//!   instructions:
//!   ```text
//!   request  0412 0030 00000011 ffff 0000 00000000 4f4e4600 0000074e
//!            00000005 003f 0004 ffffffff ff 000000  0001 0004 00000000
//!   reply    0413 0060 00000011 ffff 0000 00000000 4f4e4600 0000074e
//!            0048 0000 0000 0007 003c 0046 0012 00 00 0000000000000099
//!            0001 0012 80000a02 0800 80001804 0a000001 000000000000
//!            0004 0018 00000000 0000 0010 00000001 0000 000000000000
//!   ```
//! - The reply to the request has its transaction id, and is empty without `initial`. Changes follow
//!   as further replies with transaction id 0. They arrive before the barrier reply of the change.
//! - A monitor without `own` reports changes by the same connection as [`FlowUpdate::Abbreviated`]
//!   with the transaction id of the flow-mod; changes without effect are not reported.
//! - Adding a rule that exists is reported as added; a modification that leaves the actions alone is
//!   not reported.
//! - If the controller reads too slowly, it receives [`FlowMonitorControl::Paused`]. From then on
//!   only deletions are reported. Later everything that changed follows in parts (`has_more`), and
//!   then [`FlowMonitorControl::Resumed`].
//! - A refused request (a number in use, unknown flags, an unknown match field) causes an error with
//!   version 1 in its header and a wrong transaction id, up to 64 KiB long, whose content is memory
//!   of the switch. The decoder refuses it as a message of another version, and the connection goes
//!   on. A controller must therefore not wait for the error: if the barrier reply arrives before
//!   the reply, the switch has no monitor.
//! - Only a cancellation is refused properly: [`monitor_error::UNKNOWN_MONITOR`].

#![allow(missing_docs, reason = "named as in EXT-187: `onf_flow_monitor_request` and the other structures")]

use crate::action::Instructions;
use crate::error::ErrorKind;
use crate::ids::{PortNo, TableId, Xid};
use crate::matching::Match;
use crate::message::RemovedReason;

/// The experimenter id of the Open Networking Foundation.
pub const FOUNDATION: u32 = 0x4f4e_4600;
/// Type of the multipart messages.
pub const FLOW_MONITOR: u32 = 1870;
/// Type of the experimenter message that cancels a monitor.
pub const CANCEL: u32 = 1870;
/// Type of the experimenter message of a paused switch.
pub const PAUSED: u32 = 1871;
/// Type of the experimenter message of a switch that reports changes again.
pub const RESUMED: u32 = 1872;

/// Errors of flow monitors in Open vSwitch: experimenter errors (type `0xffff`) whose data starts
/// with the experimenter id of Nicira.
pub mod monitor_error {
    use super::ErrorKind;

    /// The experimenter id at the start of the data.
    pub const EXPERIMENTER: u32 = 0x2320;
    /// The number of the monitor is in use.
    pub const MONITOR_EXISTS: ErrorKind = ErrorKind::Other { kind: 0xffff, code: 6 };
    /// No changes are requested, or the flags are unknown.
    pub const BAD_FLAGS: ErrorKind = ErrorKind::Other { kind: 0xffff, code: 7 };
    /// No monitor has this number.
    pub const UNKNOWN_MONITOR: ErrorKind = ErrorKind::Other { kind: 0xffff, code: 8 };
}

/// A request to report changes of rules. `id` is unique within the connection. Only rules of the
/// table ([`TableId::ALL`] for all) are reported that have an output to the port
/// ([`PortNo::ANY`] for all) and are covered by the match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowMonitorRequest {
    pub id: u32,
    pub flags: FlowMonitorFlags,
    pub out_port: PortNo,
    pub table: TableId,
    pub match_: Match,
}

impl FlowMonitorRequest {
    /// Returns a monitor of all changes of all rules, with instructions but without the current
    /// rules.
    pub fn all(id: u32) -> FlowMonitorRequest {
        let flags = FlowMonitorFlags {
            add: true,
            delete: true,
            modify: true,
            instructions: true,
            ..FlowMonitorFlags::default()
        };
        FlowMonitorRequest { id, flags, out_port: PortNo::ANY, table: TableId::ALL, match_: Match::default() }
    }
}

/// The changes that a monitor reports; at least one of `add`, `delete` and `modify`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowMonitorFlags {
    /// Report the current rules, in the reply to the request.
    pub initial: bool,
    pub add: bool,
    pub delete: bool,
    /// Report rules with other instructions or another cookie.
    pub modify: bool,
    /// Include the instructions of rules in updates.
    pub instructions: bool,
    /// Report changes of the own connection like those of others.
    pub own: bool,
}

/// An update of a monitor. `Abbreviated`: the flow-mod of the own connection with this transaction
/// id changed rules.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "most are full, and a box would cost each an allocation")]
pub enum FlowUpdate {
    Full(FlowChange),
    Abbreviated(Xid),
}

/// A rule that was added, removed or modified; with instructions if the monitor requested them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowChange {
    pub event: FlowEvent,
    pub table: TableId,
    pub priority: u16,
    /// Idle timeout in s; 0 for none.
    pub idle_timeout_s: u16,
    /// Hard timeout in s; 0 for none.
    pub hard_timeout_s: u16,
    pub cookie: u64,
    pub match_: Match,
    pub instructions: Instructions,
}

/// A change of a rule. An added rule may replace one with the same match and priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEvent {
    Added,
    Deleted(RemovedReason),
    Modified,
}

/// A message about monitors outside multipart messages.
///
/// - `Cancel` ends the monitor with this number; the controller sends it.
/// - `Paused`: additions and modifications are not reported until the controller has read what
///   waits.
/// - `Resumed`: everything that changed during the pause has been reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowMonitorControl {
    Cancel(u32),
    Paused,
    Resumed,
}
