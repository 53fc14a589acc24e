//! Requests to services.

use serde::{Deserialize, Serialize};

/// Requests, servers and connections of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Requests {
    /// All classes together.
    pub all: ClassSummary,
    /// Each class, in the order of the file.
    pub classes: Vec<ClassSummary>,
    /// Each server, in the order of the file.
    pub servers: Vec<ServerSummary>,
    /// Connection accounting: opened = completed + failed + open.
    pub connections: ConnectionSummary,
    /// Packets with a wrong source or destination address: rules with a wrong rewrite.
    pub misaddressed: u64,
}

/// One request class: started = completed + failed + running.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ClassSummary {
    /// Name of the class; `all` for all of them.
    pub class: String,
    /// Requests started.
    pub started: u64,
    /// Requests completed in full.
    pub completed: u64,
    /// Requests abandoned by either end, or refused.
    pub failed: u64,
    /// Requests running at the end of the run.
    pub running: u64,
    /// Response times of completed requests, us: from the first packet of the client to the last
    /// byte of the last page.
    pub response_us: Spread,
    /// Mean over completed requests of the bytes downloaded per second of response time.
    pub download_bytes_per_s: f64,
    /// Pages served by each server, in the order of [`Requests::servers`].
    pub pages: Vec<u64>,
}

/// Mean and quantiles as F1 reports them.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// 10th percentile.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// One server.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ServerSummary {
    /// Name of its host.
    pub host: String,
    /// Number of cores.
    pub cores: u32,
    /// Connections that reached it.
    pub connections: u64,
    /// Busy share of the time of all its cores.
    pub busy_share: f64,
    /// Maximum number of concurrent jobs.
    pub jobs_max: u32,
}

/// Connections of all requests.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ConnectionSummary {
    /// Connections opened.
    pub opened: u64,
    /// Connections with a complete response.
    pub completed: u64,
    /// Connections abandoned or refused.
    pub failed: u64,
    /// Connections open at the end of the run.
    pub open: u64,
}

impl Requests {
    /// Returns a class by its name; all classes together for `None`.
    pub fn class(&self, name: Option<&str>) -> Option<&ClassSummary> {
        match name {
            None => Some(&self.all),
            Some(name) => self.classes.iter().find(|class| class.class == name),
        }
    }

    /// Returns the share of the pages of a class (or of all) that a server served; `None` without
    /// pages.
    pub fn share_of(&self, class: Option<&str>, server: &str) -> Option<f64> {
        let place = self.servers.iter().position(|known| known.host == server)?;
        let pages = &self.class(class)?.pages;
        let total: u64 = pages.iter().sum();
        (total > 0).then(|| pages[place] as f64 / total as f64)
    }
    /// Returns the time for which the cores of a server were busy in a run of this length.
    pub fn busy_of(&self, server: &str, end_us: f64) -> Option<f64> {
        let server = self.servers.iter().find(|known| known.host == server)?;
        Some(server.busy_share * end_us * f64::from(server.cores))
    }
}
