//! The emulated network of a run, its preflight check and its injected faults.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The emulated network of a run, and the check that it loses no packets.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Testbed {
    /// Versions of `kernel`, `mininet`, `openvswitch` and all other programs involved.
    pub versions: BTreeMap<String, String>,
    /// Where Open vSwitch forwarded: `user` or `kernel`.
    pub datapath: String,
    /// Source of the rules: `controller` or `static`.
    pub rules: String,
    /// Traffic source: `sockets`, `d-itg` or `iperf3`; of requests the client: `own` or `wget`.
    pub source: String,
    /// Packets sent in the preflight check, over static rules that spread them within the capacity
    /// of every link.
    pub preflight_sent: u64,
    /// Packets lost in the preflight check: always 0, because a loss prevents the run.
    pub preflight_lost: u64,
    /// Packets per second in the preflight check, all hosts together.
    pub preflight_packets_per_s: f64,
    /// Mean socket-to-socket delay in the preflight check, microseconds.
    pub preflight_delay_mean_us: f64,
    /// Time to build the network, seconds.
    pub build_s: f64,
    /// Whether the forwarding thread had a dedicated CPU. Without one, other programs on the
    /// machine also contribute to gaps and queue lengths.
    #[serde(default)]
    pub has_dedicated_core: bool,
    /// CPU time of the switch daemon in seconds of one core per second of traffic.
    pub switch_cpu: f64,
    /// CPU time of the controller in seconds of one core per second of traffic; left out without a
    /// controller, or if it was restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_cpu: Option<f64>,
    /// Mean socket-to-socket delay of the run's UDP packets, microseconds; 0 if it was not
    /// measured.
    pub delay_mean_us: f64,
    /// Longest gap between two received packets of a UDP flow, microseconds; 0 if it was not
    /// measured.
    pub longest_gap_us: f64,
    /// Faults injected into the network or its controller during the run, in order of time.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Number of failed requests to services by human-readable reason; left out without failures.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_requests: BTreeMap<String, u64>,
    /// Maximum delay of a job of a service beyond the time its share of the server's cores allows,
    /// milliseconds: how much CPU time the machine withheld from its servers. 0 without jobs.
    #[serde(default)]
    pub compute_overrun_ms: f64,
    /// Counters of the controller; left out if no controller ran at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerCounts>,
}

/// A fault injected into an emulated network during a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Fault {
    /// `link-down`, `link-up`, `controller-killed` or `controller-restarted`.
    pub kind: String,
    /// Name of the link, of faults of links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Actual time, microseconds since the beginning of the run.
    pub at_us: f64,
    /// UDP packets lost between this fault and the next; 0 if packets were not counted
    /// individually.
    pub lost: u64,
    /// Longest gap of a UDP flow that ended between this fault and the next, microseconds. 0 if it
    /// was not measured, or if all gaps were below 10 ms and no packet was lost.
    pub longest_gap_us: f64,
}

/// Counters of a controller of real switches since its last start.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ControllerCounts {
    /// Flow migrations between paths.
    pub moves: u64,
    /// Flow-mods sent.
    pub flow_mods: u64,
    /// Group-mods sent.
    pub group_mods: u64,
    /// Packet-ins received from switches.
    pub packet_ins: u64,
    /// Decisions of the balancer.
    pub decisions: u64,
}
