//! The `[testbed]` section: settings of runs on an emulated network. The simulator ignores it.

use config::diagnostic::FileError;
use config::document::{Data, Value};
use config::section::Section;
use net::Time;

/// Settings of a run on an emulated network.
#[derive(Clone, Debug, PartialEq)]
pub struct TestbedConfig {
    /// Traffic source; `None` for plain sockets for UDP and iperf3 for TCP.
    pub source: Option<TrafficSource>,
    /// Source of the rules.
    pub rules: RuleSource,
    /// How the controller learns the hosts.
    pub hosts: HostLearning,
    /// Where Open vSwitch forwards.
    pub datapath: Datapath,
    /// Whether links have the rates and queues of the experiment; if not, they are as fast as the
    /// machine allows.
    pub is_shaped: bool,
    /// Scheduling of switch queues, which decides the packets a full queue drops.
    pub turns: QueueScheduling,
    /// Interval between two samples of port counters.
    pub sample: Time,
    /// Duration of the preflight check; zero for none.
    pub proof: Time,
    /// Client program of requests to services.
    pub client: RequestClient,
    /// Services whose members are FTP servers; `None` for those at port 21.
    pub ftp: Option<Vec<String>>,
    /// Services whose requests consume CPU time.
    pub jobs: Vec<String>,
    /// Share of a CPU of this machine that a core of a `[[server]]` gets while it computes; above
    /// 0, at most 1.
    pub core: f64,
}

/// Programs that make requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClient {
    /// The builtin client, with one connection of the kernel's TCP per page.
    Own,
    /// GNU wget, started for each page.
    Wget,
}

impl RequestClient {
    /// Returns the name in experiment files.
    pub const fn name(self) -> &'static str {
        match self {
            RequestClient::Own => "own",
            RequestClient::Wget => "wget",
        }
    }
}

/// Programs that send flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficSource {
    /// One process of this program with one paced socket per flow.
    Sockets,
    /// D-ITG: `ITGSend` and `ITGRecv`.
    Ditg,
    Iperf3,
}

impl TrafficSource {
    /// Returns the name in experiment files.
    pub const fn name(self) -> &'static str {
        match self {
            TrafficSource::Sockets => "sockets",
            TrafficSource::Ditg => "d-itg",
            TrafficSource::Iperf3 => "iperf3",
        }
    }
}

/// Sources of the switches' rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSource {
    /// The balancer, in the controller.
    Controller,
    /// Pre-installed rules of one shortest path; no controller.
    Static,
}

/// Ways for the controller to learn the locations of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLearning {
    /// The configuration of the controller lists them.
    Configured,
    /// The controller learns them from traffic and persists them across restarts.
    Remembered,
    /// The controller learns them from traffic, and again after each restart.
    Seen,
}

/// Where Open vSwitch forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datapath {
    /// In the kernel if it has the module, else in user space.
    Auto,
    User,
    Kernel,
}

impl Datapath {
    /// Returns the name in experiment files.
    pub const fn name(self) -> &'static str {
        match self {
            Datapath::Auto => "auto",
            Datapath::User => "user",
            Datapath::Kernel => "kernel",
        }
    }
}

/// Schedulers of switch queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueScheduling {
    /// First in, first out.
    Arrival,
    /// Sending hosts take turns.
    Senders,
    /// As [`QueueScheduling::Arrival`] in switches; at the interface of a host its flows take
    /// turns.
    Flows,
}

impl QueueScheduling {
    /// Returns the name in experiment files.
    pub const fn name(self) -> &'static str {
        match self {
            QueueScheduling::Arrival => "arrival",
            QueueScheduling::Senders => "senders",
            QueueScheduling::Flows => "flows",
        }
    }
}

pub(crate) fn testbed(section: &Section<'_>) -> Result<TestbedConfig, FileError> {
    let source = match section.choice("source", &["sockets", "d-itg", "iperf3"])? {
        None => None,
        Some(0) => Some(TrafficSource::Sockets),
        Some(1) => Some(TrafficSource::Ditg),
        Some(_) => Some(TrafficSource::Iperf3),
    };
    let rules = match section.choice("rules", &["controller", "static"])? {
        Some(1) => RuleSource::Static,
        _ => RuleSource::Controller,
    };
    let hosts = match section.choice("hosts", &["configured", "remembered", "seen"])? {
        Some(1) => HostLearning::Remembered,
        Some(2) => HostLearning::Seen,
        _ => HostLearning::Configured,
    };
    let datapath = match section.choice("datapath", &["auto", "user", "kernel"])? {
        Some(1) => Datapath::User,
        Some(2) => Datapath::Kernel,
        _ => Datapath::Auto,
    };
    let sample = section.above_zero("sample")?.unwrap_or(Time::from_ms(1000));
    if sample < Time::from_ms(50) {
        return Err(section.error("sample", "must be at least 50 ms, the shortest interval of port counters"));
    }
    Ok(TestbedConfig {
        source,
        rules,
        hosts,
        datapath,
        is_shaped: section.flag("shape")?.unwrap_or(true),
        turns: match section.choice("turns", &["arrival", "senders", "flows"])? {
            Some(1) => QueueScheduling::Senders,
            Some(2) => QueueScheduling::Flows,
            _ => QueueScheduling::Arrival,
        },
        sample,
        proof: section.quantity("proof")?.unwrap_or(Time::from_ms(5000)),
        client: match section.choice("client", &["own", "wget"])? {
            Some(1) => RequestClient::Wget,
            _ => RequestClient::Own,
        },
        ftp: if section.has("ftp") { Some(names(section, "ftp")?) } else { None },
        jobs: names(section, "jobs")?,
        core: section.positive("core", 1.0)?.unwrap_or(1.0),
    })
}

/// Returns a list of names in quotes; empty if the key is missing.
fn names(section: &Section<'_>, key: &str) -> Result<Vec<String>, FileError> {
    let name = |value: &Value| match &value.data {
        Data::Text(text) => Ok(text.clone()),
        _ => Err(section.error(key, format!("must be names of services in quotes, not {}", value.kind()))),
    };
    section.list(key).into_iter().map(name).collect()
}
