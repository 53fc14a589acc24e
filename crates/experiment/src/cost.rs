//! What a balancer costs beside the time of flows: reordering, moves, control traffic, repairs, unfinished flows.

use serde::{Deserialize, Serialize};

use crate::statistics::stat;
use crate::summary::RunSummary;

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
        }
    }
}
