//! Costs of a balancer in addition to the time of flows: reordering, path changes, overhead,
//! retransmissions, unfinished flows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::statistics::stat;
use crate::summary::{ControlPlane, Messages, RunSummary};

/// Costs of one balancer at one point, over seeds. Shares and per-flow figures are means, counts
/// are sums.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Cost {
    pub reordered: f64,
    pub reorder_extent_max: u32,
    pub resequencing: bool,
    /// Maximum number of packets of one flow in a resequencing buffer.
    pub held_max: u32,
    /// Mean time in the resequencing buffer, microseconds.
    pub hold_mean_us: f64,
    pub path_changes_per_flow: f64,
    pub control_packets: u64,
    pub control_bytes: u64,
    /// Control bytes / payload bytes delivered.
    pub control_share: f64,
    pub retransmitted: f64,
    pub timeouts: u64,
    pub failed: u64,
    /// Flows that started and did not complete, failed ones included, all seeds.
    pub unfinished: u64,
    /// Costs of the controller; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<PlaneCost>,
}

/// Costs of a controller at one point, over seeds: counts are means per run, `max` and `peak` the
/// maximum of all runs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct PlaneCost {
    pub to_switches: f64,
    pub to_controller: f64,
    pub flow_mods: f64,
    pub flow_mods_per_s_peak: u64,
    pub packet_ins: f64,
    pub packet_ins_suppressed: f64,
    pub entries_max: u32,
    pub entries_mean: f64,
    pub decisions: f64,
    pub moves: f64,
    /// Counter samples equal to the previous one.
    pub stale_samples: f64,
    pub errors: f64,
}

impl PlaneCost {
    fn of(runs: &[&RunSummary]) -> Option<PlaneCost> {
        let planes: Vec<&ControlPlane> = runs.iter().filter_map(|run| run.overhead.control_plane.as_ref()).collect();
        let mean = |of: &dyn Fn(&ControlPlane) -> f64| {
            planes.iter().map(|plane| of(plane)).sum::<f64>() / planes.len().max(1) as f64
        };
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
            control_packets: sum(|run| run.overhead.messages),
            control_bytes: sum(|run| run.overhead.bytes),
            control_share: mean(|run| run.overhead.byte_share()),
            retransmitted: mean(|run| run.loss.retransmitted_share),
            timeouts: sum(|run| run.loss.timeouts),
            failed: sum(|run| run.flows.failed),
            unfinished: sum(|run| run.flows.failed + run.flows.running),
            control_plane: PlaneCost::of(runs),
        }
    }
}
