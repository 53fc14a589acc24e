//! What is known of a member.

use net::Time;

/// What agents and counters have told of a member. What is not known, or has become too old, is `None`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Facts {
    /// Connections it had.
    pub connections: Option<u32>,
    /// Share of all its cores that was busy, 0 to 1.
    pub cpu: Option<f64>,
    /// Its cores; `None` counts as one.
    pub cores: Option<u32>,
    /// How long it took to answer its own probe, or requests on average.
    pub response: Option<Time>,
    /// Bytes between it and clients since it joined, both ways together, as counters of switches told.
    pub bytes: Option<u64>,
    /// When counters last told of these bytes: other times than those of its own reports.
    pub bytes_at: Option<Time>,
    /// When it reported the others.
    pub at: Option<Time>,
}

impl Facts {
    /// Cores to count with: at least one.
    pub fn core_count(&self) -> f64 {
        f64::from(self.cores.unwrap_or(1).max(1))
    }
}
