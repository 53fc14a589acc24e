//! Statistics of a member.

use net::Time;

/// Statistics from agents and switch counters. A value is `None` if it is unknown or too old.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ServerStats {
    /// Number of connections at the member.
    pub connections: Option<u32>,
    /// Busy share of all its cores, 0 to 1.
    pub cpu: Option<f64>,
    /// Number of cores; `None` counts as one.
    pub cores: Option<u32>,
    /// Response time of the agent's probe, or the mean of requests.
    pub response: Option<Time>,
    /// Bytes exchanged with clients since it joined, both directions, from switch counters.
    pub bytes: Option<u64>,
    /// Time of that counter sample; it differs from the times of reports.
    pub bytes_at: Option<Time>,
    /// Time of the report with the other values.
    pub at: Option<Time>,
}

impl ServerStats {
    /// Returns the number of cores, at least one.
    pub fn core_count(&self) -> f64 {
        f64::from(self.cores.unwrap_or(1).max(1))
    }
}
