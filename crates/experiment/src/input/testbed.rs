//! The `[testbed]` section: settings of runs on an emulated network. The simulator ignores it.

use config::diagnostic::FileError;
use config::document::{Data, Value};
use config::section::Section;
use net::Time;

#[derive(Clone, Debug, PartialEq)]
pub struct TestbedConfig {
    pub source: TrafficSource,
    pub rules: RuleSource,
    pub host_learning: HostLearning,
    pub datapath: Datapath,
    pub is_shaped: bool,
    pub queue_scheduling: QueueScheduling,
    pub sample_interval: Time,
    /// Duration of the preflight check; zero for none.
    pub preflight: Time,
    pub request_client: RequestClient,
    /// Services whose members are FTP servers; `None` for those at port 21.
    pub ftp: Option<Vec<String>>,
    pub compute: Vec<String>,
    /// Share of a CPU of this machine that a core of a `[[server]]` gets while it computes; above
    /// 0, at most 1.
    pub core_share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClient {
    Builtin,
    Wget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficSource {
    Sockets,
    Ditg,
    Iperf3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSource {
    Controller,
    Static,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLearning {
    Configured,
    Persisted,
    Learned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datapath {
    Auto,
    User,
    Kernel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueScheduling {
    Fifo,
    PerSender,
    /// As [`QueueScheduling::Fifo`] in switches; at the interface of a host its flows take
    /// turns.
    PerFlow,
}

type Names<T> = &'static [(&'static str, T)];

const SOURCES: Names<TrafficSource> =
    &[("sockets", TrafficSource::Sockets), ("d-itg", TrafficSource::Ditg), ("iperf3", TrafficSource::Iperf3)];
const DATAPATHS: Names<Datapath> = &[("auto", Datapath::Auto), ("user", Datapath::User), ("kernel", Datapath::Kernel)];
const SCHEDULING: Names<QueueScheduling> = &[
    ("fifo", QueueScheduling::Fifo),
    ("per-sender", QueueScheduling::PerSender),
    ("per-flow", QueueScheduling::PerFlow),
];
const CLIENTS: Names<RequestClient> = &[("builtin", RequestClient::Builtin), ("wget", RequestClient::Wget)];

fn name_of<T: PartialEq>(names: Names<T>, value: &T) -> &'static str {
    names.iter().find(|(_, known)| known == value).map_or("", |(name, _)| *name)
}

impl TrafficSource {
    pub fn name(self) -> &'static str {
        name_of(SOURCES, &self)
    }
}

impl Datapath {
    pub fn name(self) -> &'static str {
        name_of(DATAPATHS, &self)
    }
}

impl QueueScheduling {
    pub fn name(self) -> &'static str {
        name_of(SCHEDULING, &self)
    }
}

impl RequestClient {
    pub fn name(self) -> &'static str {
        name_of(CLIENTS, &self)
    }
}

fn choice<T: Copy>(section: &Section<'_>, key: &str, names: Names<T>) -> Result<Option<T>, FileError> {
    let named = |text: &'static str| names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    Ok(section.choice(key)?.and_then(named))
}

pub(crate) fn testbed(section: &Section<'_>) -> Result<TestbedConfig, FileError> {
    let sample_interval = section.above_zero("sample_interval")?.unwrap_or(Time::from_ms(1000));
    if sample_interval < Time::from_ms(50) {
        return Err(section.error("sample_interval", "must be at least 50 ms, the shortest interval of port counters"));
    }
    let learning = [HostLearning::Configured, HostLearning::Persisted, HostLearning::Learned];
    Ok(TestbedConfig {
        source: choice(section, "source", SOURCES)?.unwrap_or(TrafficSource::Sockets),
        rules: section
            .chosen("rules", &[RuleSource::Controller, RuleSource::Static])?
            .unwrap_or(RuleSource::Controller),
        host_learning: section.chosen("host_learning", &learning)?.unwrap_or(HostLearning::Configured),
        datapath: choice(section, "datapath", DATAPATHS)?.unwrap_or(Datapath::Auto),
        is_shaped: section.flag("shape")?.unwrap_or(true),
        queue_scheduling: choice(section, "queue_scheduling", SCHEDULING)?.unwrap_or(QueueScheduling::Fifo),
        sample_interval,
        preflight: section.quantity("preflight")?.unwrap_or(Time::from_ms(5000)),
        request_client: choice(section, "request_client", CLIENTS)?.unwrap_or(RequestClient::Builtin),
        ftp: if section.has("ftp") { Some(names(section, "ftp")?) } else { None },
        compute: names(section, "compute")?,
        core_share: section.positive("core_share")?.unwrap_or(1.0),
    })
}

fn names(section: &Section<'_>, key: &str) -> Result<Vec<String>, FileError> {
    let name = |value: &Value| match &value.data {
        Data::Text(text) => Ok(text.clone()),
        _ => Err(section.error(key, format!("must be names of services in quotes, not {}", value.kind()))),
    };
    section.list(key).into_iter().map(name).collect()
}
