//! Packets and messages that a balancer and its controller send.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Overhead of a balancer: probes, replies and notifications of edges. Of central balancers also
/// the messages on control channels, in both directions, and the frames that switches sent for the
/// controller.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Overhead {
    /// Packets or messages, all kinds.
    pub messages: u64,
    /// Bytes of these packets and messages.
    pub bytes: u64,
    /// Payload bytes delivered to receivers, the reference of `bytes`; 0 in results of versions
    /// without this field.
    #[serde(default)]
    pub data_bytes: u64,
    /// Overhead of the controller; left out without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ControlPlane>,
}

impl Overhead {
    /// Returns control bytes as a share of delivered payload bytes; 0 if no payload was delivered.
    pub fn byte_share(&self) -> f64 {
        if self.data_bytes == 0 { 0.0 } else { self.bytes as f64 / self.data_bytes as f64 }
    }
}

/// Overhead of a controller from time 0 on, except `boot`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ControlPlane {
    /// Messages from the controller to switches, by kind: `flow_mod`, `group_mod`, `packet_in`,
    /// `packet_out`, `barrier`, `multipart` (statistics and descriptions), `other`. Bytes are those
    /// of OpenFlow 1.3, without TCP headers.
    pub to_switches: BTreeMap<String, Messages>,
    /// Messages from switches to the controller, by the same kinds.
    pub to_controller: BTreeMap<String, Messages>,
    /// Messages in both directions before time 0: connecting, discovery, first rules.
    pub boot: Messages,
    /// Maximum number of flow-table changes sent within one whole second of simulated time.
    pub flow_mods_per_s_peak: u64,
    /// Maximum number of entries of a switch.
    pub entries_max: u32,
    /// Mean entries of a switch, over switches and time.
    pub entries_mean: f64,
    /// Packet-ins that switches suppressed because of `control.packet_in_per_s`.
    pub packet_ins_suppressed: u64,
    /// Error messages from switches.
    pub errors: u64,
    /// Messages lost with their connection.
    pub messages_lost: u64,
    /// Reports of agents on hosts that reached the controller.
    pub agent_reports: u64,
    /// Rate limits for flows whose transport does not support them.
    pub rate_limits_ignored: u64,
    /// Decisions of the balancer, those before time 0 included.
    pub decisions: u64,
    /// Flow migrations.
    pub moves: u64,
    /// Counter samples equal to the previous one, duration included.
    pub stale_samples: u64,
}

/// Number and size of messages.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Messages {
    /// Number of messages.
    pub messages: u64,
    /// Bytes of the messages.
    pub bytes: u64,
}
