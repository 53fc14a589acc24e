//! The `[testbed]` section: how an emulated network carries out the experiment. The simulator does not look at it.

use net::Time;
use net::document::{Data, Value};
use net::mistake::FileError;
use net::section::Section;

/// How a run is made on an emulated network.
#[derive(Clone, Debug, PartialEq)]
pub struct TestbedConfig {
    /// Who sends; `None`: plain sockets for UDP, iperf3 for TCP.
    pub source: Option<TrafficSource>,
    /// Who makes the rules.
    pub rules: RuleSource,
    /// How the controller comes to know the hosts.
    pub hosts: KnownHosts,
    /// Where Open vSwitch forwards.
    pub datapath: Datapath,
    /// Whether links have the rates and queues of the experiment, or whatever the machine can carry.
    pub is_shaped: bool,
    /// Who gets the room in a full queue of a switch.
    pub turns: Turns,
    /// Time between two samples of the counters of ports.
    pub sample: Time,
    /// How long the proof that the network loses nothing by itself takes; zero for none.
    pub proof: Time,
    /// Who asks, where flows are requests to services.
    pub client: Asking,
    /// Services whose members are FTP servers; `None`: those at port 21.
    pub ftp: Option<Vec<String>>,
    /// Services whose requests keep a processor busy.
    pub jobs: Vec<String>,
    /// Share of a processor of this machine that a core of a `[[server]]` is, where it works on jobs; above 0, at most 1.
    pub core: f64,
}

/// Programs that make requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// Ours, with a connection of the kernel's TCP for each page.
    Own,
    /// GNU wget, started for each page.
    Wget,
}

impl Asking {
    /// As files name it.
    pub const fn name(self) -> &'static str {
        match self {
            Asking::Own => "own",
            Asking::Wget => "wget",
        }
    }
}

/// Programs that send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficSource {
    /// One process of ours with a socket per flow, paced.
    Sockets,
    /// D-ITG: `ITGSend` and `ITGRecv`.
    Ditg,
    /// iperf3.
    Iperf3,
}

impl TrafficSource {
    /// As files name it.
    pub const fn name(self) -> &'static str {
        match self {
            TrafficSource::Sockets => "sockets",
            TrafficSource::Ditg => "d-itg",
            TrafficSource::Iperf3 => "iperf3",
        }
    }
}

/// Who tells switches what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSource {
    /// The balancer, in the controller.
    Controller,
    /// Rules put there beforehand: one shortest path, no controller.
    Static,
}

/// How the controller comes to know where hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownHosts {
    /// It is told in its configuration.
    Configured,
    /// It sees them speak, and keeps a file of them for its next life.
    Remembered,
    /// It sees them speak, and has to see them again in its next life.
    Seen,
}

/// Where Open vSwitch forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datapath {
    /// In the kernel where it has the module, else in user space.
    Auto,
    /// In user space.
    User,
    /// In the kernel.
    Kernel,
}

impl Datapath {
    /// As files name it.
    pub const fn name(self) -> &'static str {
        match self {
            Datapath::Auto => "auto",
            Datapath::User => "user",
            Datapath::Kernel => "kernel",
        }
    }
}

/// Who gets the room in a full queue of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Whoever comes first.
    Arrival,
    /// Hosts that send, in turn.
    Senders,
    /// As [`Turns::Arrival`] in switches; at the interface of a host its flows, in turn.
    Flows,
}

impl Turns {
    /// As files name it.
    pub const fn name(self) -> &'static str {
        match self {
            Turns::Arrival => "arrival",
            Turns::Senders => "senders",
            Turns::Flows => "flows",
        }
    }
}

/// Reads the section.
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
        Some(1) => KnownHosts::Remembered,
        Some(2) => KnownHosts::Seen,
        _ => KnownHosts::Configured,
    };
    let datapath = match section.choice("datapath", &["auto", "user", "kernel"])? {
        Some(1) => Datapath::User,
        Some(2) => Datapath::Kernel,
        _ => Datapath::Auto,
    };
    let sample = section.above_zero("sample")?.unwrap_or(Time::from_ms(1000));
    if sample < Time::from_ms(50) {
        return Err(section.error("sample", "counters cannot be read more often than every 50 ms"));
    }
    Ok(TestbedConfig {
        source,
        rules,
        hosts,
        datapath,
        is_shaped: section.flag("shape")?.unwrap_or(true),
        turns: match section.choice("turns", &["arrival", "senders", "flows"])? {
            Some(1) => Turns::Senders,
            Some(2) => Turns::Flows,
            _ => Turns::Arrival,
        },
        sample,
        proof: section.quantity("proof")?.unwrap_or(Time::from_ms(5000)),
        client: match section.choice("client", &["own", "wget"])? {
            Some(1) => Asking::Wget,
            _ => Asking::Own,
        },
        ftp: if section.has("ftp") { Some(names(section, "ftp")?) } else { None },
        jobs: names(section, "jobs")?,
        core: section.positive("core", 1.0)?.unwrap_or(1.0),
    })
}

/// A list of names in quotes; empty where the key is not there.
fn names(section: &Section<'_>, key: &str) -> Result<Vec<String>, FileError> {
    let name = |value: &Value| match &value.data {
        Data::Text(text) => Ok(text.clone()),
        _ => Err(section.error(key, format!("must be names of services in quotes, not {}", value.kind()))),
    };
    section.list(key).into_iter().map(name).collect()
}
