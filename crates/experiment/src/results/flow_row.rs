//! Rows of `flows.parquet` and `flows.csv`: one per flow and run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One flow of one run.
///
/// A run has tens of thousands of rows, so values shared by all of them are behind [`Arc`]. Times
/// are microseconds, sizes bytes. Quantities that do not exist (the FCT of a running flow) are
/// `None`, an empty CSV field and a Parquet null. A zero would distort averages.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRow {
    /// Position of the run in `summary.json`.
    pub run: u32,
    /// Balancer as the user wrote it.
    pub balancer: Arc<str>,
    /// Offered load; `None` if the traffic sets its own rate.
    pub load: Option<f64>,
    /// Values of further sweep axes, as in the summary.
    pub variant: Arc<str>,
    pub seed: u64,
    /// Position of the flow in the list, the same in every balancer's run of a seed.
    pub flow: u32,
    /// Number of the sending host.
    pub src: u32,
    /// Number of the receiving host.
    pub dst: u32,
    /// Payload.
    pub size_bytes: u64,
    /// Number of the job, coflow or collective; 0 for none.
    pub group: u32,
    /// Time at which the first byte was offered; `None` if the flow never started.
    pub start_us: Option<f64>,
    pub end: RowEnd,
    /// Last byte received − first byte offered, of completed flows.
    pub fct_us: Option<f64>,
    /// Last byte acknowledged − first byte offered; `None` if it was not acknowledged.
    pub sender_fct_us: Option<f64>,
    /// FCT in an empty network.
    pub ideal_us: f64,
    /// FCT / ideal FCT, of completed flows.
    pub slowdown: Option<f64>,
    /// Payload bytes delivered in order.
    pub delivered_bytes: u64,
    /// Data packets sent, retransmissions included.
    pub packets: u32,
    /// Retransmitted data packets.
    pub retransmitted: u32,
    /// Retransmission time-outs.
    pub timeouts: u32,
    /// Data packets that arrived below the highest sequence number received.
    pub reordered: u32,
    /// Path changes between consecutive data packets.
    pub path_changes: u32,
}

/// State of a flow at the end of the run, named as in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowEnd {
    /// Every byte arrived.
    Completed,
    /// The sender stopped after too many time-outs.
    Failed,
    /// The run ended first.
    Running,
    /// The run ended before its start time.
    NotStarted,
}

impl RowEnd {
    /// Returns the name in the files.
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
