//! Rows of `flows.parquet` and `flows.csv`: one per flow and run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One flow of one run.
///
/// A run has tens of thousands of rows, so values shared by all of them are behind [`Arc`]. Times
/// are microseconds, sizes bytes. Quantities that do not exist (the FCT of a running flow) are
/// `None`, an empty CSV field and a Parquet null. A zero would distort averages.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct FlowRow {
    #[serde(skip)]
    pub run: u32,
    #[serde(skip)]
    pub balancer: Arc<str>,
    /// Offered load; `None` if the traffic sets its own rate.
    #[serde(skip)]
    pub load: Option<f64>,
    /// Values of further sweep axes, as in the summary.
    #[serde(skip)]
    pub variant: Arc<str>,
    #[serde(skip)]
    pub seed: u64,
    /// Position of the flow in the list, the same in every balancer's run of a seed.
    pub flow: u32,
    pub src: u32,
    pub dst: u32,
    pub size_bytes: u64,
    /// Number of the job, coflow or collective; 0 for none.
    pub group: u32,
    /// Time at which the first byte was offered; `None` if the flow never started.
    pub start_us: Option<f64>,
    pub status: FlowStatus,
    /// Last byte received − first byte offered, of completed flows.
    pub fct_us: Option<f64>,
    /// Last byte acknowledged − first byte offered; `None` if it was not acknowledged.
    pub sender_fct_us: Option<f64>,
    pub ideal_us: f64,
    pub slowdown: Option<f64>,
    pub delivered_bytes: u64,
    /// Data packets sent, retransmissions included.
    pub packets_sent: u32,
    pub retransmitted: u32,
    pub timeouts: u32,
    /// Data packets that arrived below the highest sequence number received.
    pub reordered: u32,
    pub path_changes: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowStatus {
    /// Every byte arrived.
    Completed,
    /// The sender stopped after too many time-outs.
    Failed,
    /// The run ended first.
    Running,
    /// The run ended before its start time.
    #[default]
    NotStarted,
}

impl FlowStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            FlowStatus::Completed => "completed",
            FlowStatus::Failed => "failed",
            FlowStatus::Running => "running",
            FlowStatus::NotStarted => "not-started",
        }
    }
}

impl From<sim::outcome::FlowEnd> for FlowStatus {
    fn from(end: sim::outcome::FlowEnd) -> Self {
        match end {
            sim::outcome::FlowEnd::Completed => FlowStatus::Completed,
            sim::outcome::FlowEnd::Failed => FlowStatus::Failed,
            sim::outcome::FlowEnd::Running => FlowStatus::Running,
            sim::outcome::FlowEnd::NotStarted => FlowStatus::NotStarted,
        }
    }
}
