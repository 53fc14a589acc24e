//! One row per flow and run: what leaves as `flows.parquet` and `flows.csv`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One flow of one run.
///
/// A run has tens of thousands of these, so what all its rows share is behind [`Arc`]. Times are
/// microseconds, sizes bytes. Quantities that do not exist (the FCT of a flow still running) are `None`,
/// an empty CSV field and a Parquet null: never a zero that would slip into someone's average.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRow {
    /// Position of the run in `summary.json`.
    pub run: u32,
    /// Balancer as the user wrote it.
    pub balancer: Arc<str>,
    /// Offered load, where the experiment has one.
    pub load: Option<f64>,
    /// Values of any further sweep axes, as in the summary.
    pub variant: Arc<str>,
    /// Seed of the run.
    pub seed: u64,
    /// Position of the flow in the list: the same flow in every balancer's run of a seed.
    pub flow: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload.
    pub size_bytes: u64,
    /// Job, coflow or collective; 0 where there is none.
    pub group: u32,
    /// When its first byte was offered; `None` if it never started.
    pub start_us: Option<f64>,
    /// How it ended.
    pub end: RowEnd,
    /// Last byte received − first byte offered, of completed flows.
    pub fct_us: Option<f64>,
    /// Last byte acknowledged − first byte offered, where that happened.
    pub sender_fct_us: Option<f64>,
    /// FCT in an empty network.
    pub ideal_us: f64,
    /// FCT / ideal, of completed flows.
    pub slowdown: Option<f64>,
    /// Payload bytes delivered in order.
    pub delivered_bytes: u64,
    /// Data packets sent, retransmissions included.
    pub packets: u32,
    /// Data packets sent again.
    pub retransmitted: u32,
    /// Retransmission time-outs.
    pub timeouts: u32,
    /// Data packets that arrived below the highest sequence seen.
    pub reordered: u32,
    /// Times the path changed between consecutive data packets.
    pub path_changes: u32,
}

/// How a flow ended, in the words of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowEnd {
    /// Every byte arrived.
    Completed,
    /// The sender gave up.
    Failed,
    /// The run stopped first.
    Running,
    /// Its start was never reached.
    NotStarted,
}

impl RowEnd {
    /// The word in the files.
    pub fn as_str(self) -> &'static str {
        match self {
            RowEnd::Completed => "completed",
            RowEnd::Failed => "failed",
            RowEnd::Running => "running",
            RowEnd::NotStarted => "not-started",
        }
    }
}

impl From<sim::outcome::FlowEnd> for RowEnd {
    fn from(end: sim::outcome::FlowEnd) -> Self {
        match end {
            sim::outcome::FlowEnd::Completed => RowEnd::Completed,
            sim::outcome::FlowEnd::Failed => RowEnd::Failed,
            sim::outcome::FlowEnd::Running => RowEnd::Running,
            sim::outcome::FlowEnd::NotStarted => RowEnd::NotStarted,
        }
    }
}
