//! What a balancer costs beside the time of flows: reordering, moves, control traffic, repairs, unfinished flows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::statistics::stat;
use crate::summary::{Messages, Plane, RunSummary};

/// Costs of one balancer at one point, over seeds. Shares and per-flow figures are means, counts are sums.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Cost {
    /// Share of first-sent data packets that arrived below the highest sequence seen.
    pub reordered: f64,
    /// Largest reordering distance, segments.
    pub reorder_extent_max: u32,
    /// Whether hosts resequenced.
    pub resequencing: bool,
    /// Most packets one flow had held by a resequencing buffer.
    pub held_max: u32,
    /// Mean time a held packet was held, microseconds.
    pub hold_mean_us: f64,
    /// Path changes per completed flow (edge balancers).
    pub path_changes_per_flow: f64,
    /// Control packets, all seeds.
    pub control_packets: u64,
    /// Their bytes, all seeds.
    pub control_bytes: u64,
    /// Control bytes / payload bytes delivered.
    pub control_share: f64,
    /// Data packets sent again / data packets sent.
    pub retransmitted: f64,
    /// Retransmission time-outs, all seeds.
    pub timeouts: u64,
    /// Flows that gave up, all seeds.
    pub failed: u64,
    /// Flows that started and did not complete, those that gave up included, all seeds.
    pub unfinished: u64,
    /// What the controller cost; `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plane: Option<PlaneCost>,
}

/// Costs of a controller at one point, over seeds: counts are means per run, `max` and `peak` the greatest of any run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct PlaneCost {
    /// Messages to switches.
    pub to_switches: f64,
    /// Messages from switches.
    pub to_controller: f64,
    /// Flow-table changes.
    pub flow_mods: f64,
    /// Most of them in one second.
    pub flow_mods_per_s_peak: u64,
    /// Packet-ins.
    pub packet_ins: f64,
    /// Packet-ins switches did not send for the limit of their rate.
    pub packet_ins_suppressed: f64,
    /// Most entries of a switch.
    pub entries_max: u32,
    /// Mean entries of a switch.
    pub entries_mean: f64,
    /// Times the balancer was asked.
    pub decisions: f64,
    /// Flows moved.
    pub moves: f64,
    /// Counter samples that had not been refreshed.
    pub stale_samples: f64,
    /// Errors of switches.
    pub errors: f64,
}

impl PlaneCost {
    /// Of the runs of one balancer at one point; `None` if they had no controller.
    fn of(runs: &[&RunSummary]) -> Option<PlaneCost> {
        let planes: Vec<&Plane> = runs.iter().filter_map(|run| run.control.plane.as_ref()).collect();
        let mean =
            |of: &dyn Fn(&Plane) -> f64| planes.iter().map(|plane| of(plane)).sum::<f64>() / planes.len().max(1) as f64;
        let all = |kinds: &BTreeMap<String, Messages>| kinds.values().map(|kind| kind.messages).sum::<u64>() as f64;
        let kind =
            |kinds: &BTreeMap<String, Messages>, name: &str| kinds.get(name).map_or(0, |kind| kind.messages) as f64;
        (!planes.is_empty()).then(|| PlaneCost {
            to_switches: mean(&|plane| all(&plane.to_switches)),
            to_controller: mean(&|plane| all(&plane.to_controller)),
            flow_mods: mean(&|plane| kind(&plane.to_switches, "flow_mod")),
            flow_mods_per_s_peak: planes.iter().map(|plane| plane.flow_mods_per_s_peak).max().unwrap_or(0),
            packet_ins: mean(&|plane| kind(&plane.to_controller, "packet_in")),
            packet_ins_suppressed: mean(&|plane| plane.packet_ins_suppressed as f64),
            entries_max: planes.iter().map(|plane| plane.entries_max).max().unwrap_or(0),
            entries_mean: mean(&|plane| plane.entries_mean),
            decisions: mean(&|plane| plane.decisions as f64),
            moves: mean(&|plane| plane.moves as f64),
            stale_samples: mean(&|plane| plane.stale_samples as f64),
            errors: mean(&|plane| plane.errors as f64),
        })
    }
}

impl Cost {
    /// Of the runs of one balancer at one point.
    pub fn of(runs: &[&RunSummary]) -> Cost {
        let mean = |of: fn(&RunSummary) -> f64| stat(&runs.iter().map(|run| of(run)).collect::<Vec<_>>()).mean;
        let sum = |of: fn(&RunSummary) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
        let most = |of: fn(&RunSummary) -> u32| runs.iter().map(|run| of(run)).max().unwrap_or(0);
        Cost {
            reordered: mean(|run| run.reordering.fraction),
            reorder_extent_max: most(|run| run.reordering.max_extent),
            resequencing: runs.iter().any(|run| run.reordering.resequencing),
            held_max: most(|run| run.reordering.max_held),
            hold_mean_us: mean(|run| run.reordering.mean_hold_us),
            path_changes_per_flow: mean(|run| run.reordering.path_changes_per_flow),
            control_packets: sum(|run| run.control.messages),
            control_bytes: sum(|run| run.control.bytes),
            control_share: mean(|run| run.control.byte_share()),
            retransmitted: mean(|run| run.loss.retransmitted_share),
            timeouts: sum(|run| run.loss.timeouts),
            failed: sum(|run| run.flows.failed),
            unfinished: sum(|run| run.flows.failed + run.flows.running),
            plane: PlaneCost::of(runs),
        }
    }
}
