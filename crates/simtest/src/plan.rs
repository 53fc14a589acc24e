//! The plan of a simulation as data: a network, a controller configuration, and a list of numbered
//! actions, any of which can be left out.

use std::fmt;

use control::vip::Services;
use net::{Addressing, FiveTuple, Time};
use openflow::PortNo;

use crate::disruptions::Disruption;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    Switch(usize, PortNo),
    Host(usize),
}

/// A cable: two directions with the same delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cable {
    pub ends: [End; 2],
    pub delay: Time,
}

#[derive(Clone, Debug)]
pub struct Wiring {
    pub name: String,
    /// Number of ports of each switch, spare ones included; ports are numbered from 1.
    pub ports: Vec<u32>,
    /// Number of hosts. Cable `h` connects host `h`.
    pub hosts: usize,
    pub cables: Vec<Cable>,
}

#[derive(Clone, Debug)]
pub struct SwitchTraits {
    pub latency: Time,
    pub per_message: Time,
    /// Time the switch takes for a change of a table or group.
    pub per_change: Time,
    pub config: switch::Config,
    /// The same with fewer features or less room, if the switch is a limited one.
    pub limited: Option<switch::Config>,
}

/// The directions of a cable that are cut, and the ends that detect it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CutKind {
    /// Both directions; both ends detect it.
    Both,
    /// Both directions; only the first end detects it.
    BothSeenByOne,
    /// Both directions; no end detects it.
    BothUnseen,
    /// From the first end to the second, which detects it.
    OneWay,
    /// From the first end to the second; no end detects it.
    OneWayUnseen,
}

impl CutKind {
    /// Returns whether each direction is cut: from the first end, from the second.
    pub fn is_cut(self) -> [bool; 2] {
        match self {
            CutKind::Both | CutKind::BothSeenByOne | CutKind::BothUnseen => [true, true],
            CutKind::OneWay | CutKind::OneWayUnseen => [true, false],
        }
    }
    pub fn is_seen(self) -> [bool; 2] {
        match self {
            CutKind::Both => [true, true],
            CutKind::BothSeenByOne => [true, false],
            CutKind::OneWay => [false, true],
            CutKind::BothUnseen | CutKind::OneWayUnseen => [false, false],
        }
    }
    /// Returns whether no port status reports the cut, so that packets are lost silently.
    pub fn is_hidden(self) -> bool {
        self.is_seen() == [false, false]
    }
}

/// The behaviour of a hostile host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attack {
    /// It sends discovery probes with guessed nonces.
    ForgedProbes,
    /// It repeats the discovery probes it received.
    ReplayedProbes,
    /// It exchanges discovery probes with another hostile host.
    Relay { with: usize },
    /// It sends ARP packets and reports with the address of another host.
    Claims { victim: usize },
    /// It sends ARP packets with addresses of no host.
    Flood,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ActionKind {
    /// A host sends frames of `payload` bytes above UDP or TCP to another.
    Flow { from: usize, to: usize, tuple: FiveTuple, interval: Time, payload: usize },
    /// A client keeps a connection to a virtual service: it sends requests, and a member responds.
    Client { from: usize, tuple: FiveTuple, interval: Time },
    /// The virtual services change to an element of [`Plan::services`].
    Services { version: usize },
    /// The server on a host hangs: it answers neither clients nor health checks.
    ServerDown { host: usize },
    /// A cable between switches, or to a host, fails.
    Cut { cable: usize, kind: CutKind },
    /// A switch loses power. If it loses its tables, it may also lack the port `without` until it
    /// loses its tables again.
    SwitchOff { switch: usize, is_keeping_tables: bool, without: Option<PortNo> },
    /// A control channel passes no message.
    Stall { switch: usize },
    /// A control channel breaks; it reconnects when the action ends. The controller notices after
    /// `unnoticed`.
    Break { switch: usize, unnoticed: Time },
    /// The controller stops, and a new instance without memory starts when the action ends.
    Restart,
    /// Another controller installs rules on a switch, and removes them when the action ends.
    Foreign { switch: usize, seed: u64 },
    /// A host is plugged into another port, spare until then.
    Move { host: usize, switch: usize, port: PortNo },
    /// A host is hostile: it sends a frame every `interval`.
    Attack { host: usize, attack: Attack, interval: Time },
    /// A switch takes longer for changes.
    Slow { switch: usize, per_change: Time },
    /// Another program, another peer, or the controller's process causes a fault.
    Disruption(Disruption),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// The number in the complete plan of the seed; a reduction keeps it.
    pub number: u32,
    pub at: Time,
    /// End of the action; [`Time::MAX`] for never.
    pub until: Time,
    pub what: ActionKind,
}

impl Action {
    pub fn is_fault(&self) -> bool {
        !matches!(self.what, ActionKind::Flow { .. } | ActionKind::Client { .. })
    }
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub wiring: Wiring,
    pub balancer: String,
    /// The controller's configuration, except for settings that differ between its instances.
    pub control: control::Config,
    /// Whether hosts are configured; otherwise they are learned.
    pub knows_hosts: bool,
    pub switches: Vec<SwitchTraits>,
    /// Time until an end detects a cut.
    pub notice: Time,
    /// One-way delay between host agents and the controller.
    pub agent_latency: Time,
    /// Time between two announcements of a host.
    pub announce_interval: Time,
    /// Versions of the virtual services in order, the first from the start; empty in some
    /// simulations.
    pub services: Vec<Services>,
    /// The end of faults and flows; the convergence phase follows.
    pub faults_end_at: Time,
    pub actions: Vec<Action>,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Switch(switch, port) => write!(f, "s{switch}:{}", port.0),
            End::Host(host) => write!(f, "h{host}"),
        }
    }
}

impl Plan {
    /// Returns whether the network has flat addresses, and no other addressing mode.
    pub(crate) fn is_flat(&self) -> bool {
        self.control.addressing == Addressing::Flat
    }

    /// Returns the balancer; modes other than flat addresses need the simplest one.
    pub(crate) fn balancer(&self) -> &str {
        if self.is_flat() { &self.balancer } else { "sdn-ecmp" }
    }

    /// Returns a description of the plan, one line per action.
    pub fn to_lines(&self) -> Vec<String> {
        let control = &self.control;
        let mut lines = vec![
            format!(
                "{} with {} hosts; balancer {}, {} addressing",
                self.wiring.name,
                self.wiring.hosts,
                self.balancer(),
                control.addressing.name()
            ),
            format!(
                "controller: echo {}/{}, discovery {}, link timeout {}, poll {}, hosts {}, {} at a port{}; faults end at {}",
                control.echo_interval,
                control.echo_timeout,
                control.discovery_interval,
                control.link_timeout,
                control.poll_interval,
                if self.knows_hosts { "configured" } else { "learned" },
                control.hosts_per_port,
                match control.connections_max {
                    usize::MAX => String::new(),
                    few => format!(", {few} connections"),
                },
                self.faults_end_at
            ),
        ];
        for (version, services) in self.services.iter().enumerate() {
            lines.extend(control::format::services(version, services));
        }
        lines.extend(self.actions.iter().map(|action| self.describe(action)));
        lines
    }

    pub(crate) fn describe(&self, action: &Action) -> String {
        let what = match &action.what {
            ActionKind::Flow { from, to, tuple, interval, payload } => format!(
                "h{from} sends to h{to} (protocol {}, ports {} to {}) {payload} B every {interval}",
                tuple.protocol, tuple.src_port, tuple.dst_port
            ),
            ActionKind::Client { from, tuple, interval } => format!(
                "h{from} is a client of {} (protocol {}, ports {} to {}), every {interval}",
                tuple.dst, tuple.protocol, tuple.src_port, tuple.dst_port
            ),
            ActionKind::Services { version } => format!("the services change to version {version}"),
            ActionKind::ServerDown { host } => format!("the server on h{host} hangs"),
            ActionKind::Cut { cable, kind } => {
                let [a, b] = self.wiring.cables[*cable].ends;
                format!("cable {a} - {b} is cut ({kind:?})")
            }
            ActionKind::SwitchOff { switch, is_keeping_tables, without } => {
                let port = without.map_or_else(String::new, |port| format!(", and port {} with them", port.0));
                format!("s{switch} is off, its tables {}{port}", if *is_keeping_tables { "kept" } else { "lost" })
            }
            ActionKind::Stall { switch } => format!("the channel of s{switch} stalls"),
            ActionKind::Break { switch, unnoticed } => {
                format!("the channel of s{switch} breaks, the controller notices after {unnoticed}")
            }
            ActionKind::Restart => "the controller stops; a new instance starts at the end".to_owned(),
            ActionKind::Foreign { switch, .. } => format!("another controller installs rules on s{switch}"),
            ActionKind::Move { host, switch, port } => format!("h{host} moves to s{switch}:{}", port.0),
            ActionKind::Attack { host, attack, interval } => format!("h{host} is hostile every {interval}: {attack:?}"),
            ActionKind::Slow { switch, per_change } => format!("s{switch} takes {per_change} for a change"),
            ActionKind::Disruption(disruption) => disruption.describe(),
        };
        let until = if action.until == Time::MAX { "the end".to_owned() } else { action.until.to_string() };
        format!("{:>4}. {} to {until}: {what}", action.number, action.at)
    }
}
