//! The part of a run's summary about requests to services.

use serde::{Deserialize, Serialize};

/// Requests, those who served them, and their connections.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Requests {
    /// All classes together.
    pub all: ClassSummary,
    /// Each class, in the order of the file.
    pub classes: Vec<ClassSummary>,
    /// Each server, in the order of the file.
    pub servers: Vec<ServerSummary>,
    /// Connections: opened = answered + failed + open.
    pub connections: ConnectionSummary,
    /// Packets that named their ends wrongly: rules that rewrite badly.
    pub misaddressed: u64,
}

/// One class of requests: started = completed + failed + running.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ClassSummary {
    /// Its name; `all` for all of them.
    pub class: String,
    /// Requests that were made.
    pub started: u64,
    /// Requests answered in full.
    pub completed: u64,
    /// Requests given up by either end, or refused.
    pub failed: u64,
    /// Requests open when the run ended.
    pub running: u64,
    /// Response times of those that completed, us: from the first packet of the client to the last byte of the last page.
    pub response_us: Spread,
    /// Mean over completed requests of what was downloaded per second of response time, bytes per second.
    pub download_rate: f64,
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
    /// Largest.
    pub max: f64,
}

/// One server.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ServerSummary {
    /// Its host.
    pub host: String,
    /// Its cores.
    pub cores: u32,
    /// Connections that reached it.
    pub connections: u64,
    /// Share of all its cores' time that was busy.
    pub busy_share: f64,
    /// Most jobs it had at once.
    pub jobs_max: u32,
}

/// Connections.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ConnectionSummary {
    /// Opened.
    pub opened: u64,
    /// Answered in full.
    pub answered: u64,
    /// Given up, or refused.
    pub failed: u64,
    /// Open at the end.
    pub open: u64,
}

impl Requests {
    /// A class by its name, or all of them.
    pub fn class(&self, name: Option<&str>) -> Option<&ClassSummary> {
        match name {
            None => Some(&self.all),
            Some(name) => self.classes.iter().find(|class| class.class == name),
        }
    }

    /// Share of the pages of a class (or of all) that a server served; `None` where there were none.
    pub fn share_of(&self, class: Option<&str>, server: &str) -> Option<f64> {
        let place = self.servers.iter().position(|known| known.host == server)?;
        let pages = &self.class(class)?.pages;
        let total: u64 = pages.iter().sum();
        (total > 0).then(|| pages[place] as f64 / total as f64)
    }
}
