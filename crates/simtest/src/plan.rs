//! What happens in a storm, as data: a network, a controller's configuration, and a list of numbered actions, any of
//! which can be left out.

use std::fmt;

use control::vip::Services;
use net::{FiveTuple, Time};
use openflow::PortNo;

/// One end of a cable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// A port of a switch.
    Switch(usize, PortNo),
    /// A host.
    Host(usize),
}

/// A cable: two directions with the same delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cable {
    /// Its ends.
    pub ends: [End; 2],
    /// Propagation delay.
    pub delay: Time,
}

/// A network as it is cabled at the beginning.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// What it is, in words.
    pub name: String,
    /// Ports of each switch, spare ones included: numbers 1 to this.
    pub ports: Vec<u32>,
    /// Number of hosts. Host `h` hangs on cable `h`.
    pub hosts: usize,
    /// Cables, those of hosts first.
    pub cables: Vec<Cable>,
}

/// How a switch and its control channel behave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchTraits {
    /// One-way delay of the channel.
    pub latency: Time,
    /// Time one message takes on the channel besides.
    pub per_message: Time,
    /// Time the switch takes for a change of a table or group.
    pub per_change: Time,
    /// Entries a table holds.
    pub max_entries: u32,
    /// Greatest rate of packet-in messages.
    pub packet_in_per_s: Option<u32>,
    /// Packets kept for the controller.
    pub buffers: u32,
    /// How old statistics may be.
    pub stats_refresh: Time,
    /// Seed of the hash of select groups.
    pub hash_seed: u64,
    /// Whether ports of UDP are hashed.
    pub is_hashing_udp: bool,
    /// Whether it is of the make whose matches may name control bits of TCP.
    pub takes_tcp_flags: bool,
}

/// Times of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlTraits {
    /// Between echo requests.
    pub echo_interval: Time,
    /// Patience with a silent switch.
    pub echo_timeout: Time,
    /// Between LLDP packets out of a port.
    pub discovery_interval: Time,
    /// A link not confirmed for this long is gone.
    pub link_timeout: Time,
    /// Between polls of counters.
    pub poll_interval: Time,
    /// Of counting rules, s.
    pub flow_idle_timeout_s: u16,
    /// Whether hosts are configured, or learnt when they speak.
    pub knows_hosts: bool,
    /// Most hosts learnt at one port: no port has more than one, but some make others up.
    pub hosts_per_port: usize,
}

/// Which directions of a cable are cut, and who sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CutKind {
    /// Both, and both ends see it.
    Both,
    /// Both, and only the first end sees it.
    BothSeenByOne,
    /// Both, and nobody sees it.
    BothUnseen,
    /// From the first end to the second, which sees it.
    OneWay,
    /// From the first end to the second; nobody sees it.
    OneWayUnseen,
}

impl CutKind {
    /// Whether each direction is cut: from the first end, from the second.
    pub fn is_cut(self) -> [bool; 2] {
        match self {
            CutKind::Both | CutKind::BothSeenByOne | CutKind::BothUnseen => [true, true],
            CutKind::OneWay | CutKind::OneWayUnseen => [true, false],
        }
    }
    /// Whether each end sees it.
    pub fn is_seen(self) -> [bool; 2] {
        match self {
            CutKind::Both => [true, true],
            CutKind::BothSeenByOne => [true, false],
            CutKind::OneWay => [false, true],
            CutKind::BothUnseen | CutKind::OneWayUnseen => [false, false],
        }
    }
    /// Whether someone may send into a hole that no port status tells of.
    pub fn is_hidden(self) -> bool {
        self.is_seen() == [false, false]
    }
}

/// Something that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A host sends frames to another.
    Flow {
        /// Sender.
        from: usize,
        /// Receiver.
        to: usize,
        /// What names it.
        tuple: FiveTuple,
        /// Between two frames.
        interval: Time,
        /// Bytes above UDP or TCP.
        payload: usize,
    },
    /// A client keeps a connection to a virtual service: it asks every so often, and whoever serves answers.
    Client {
        /// The client.
        from: usize,
        /// What it puts on the wire.
        tuple: FiveTuple,
        /// Between two questions.
        interval: Time,
    },
    /// Other virtual services are wanted.
    Services {
        /// Which of [`Plan::services`].
        version: usize,
    },
    /// What serves on a host hangs: it answers neither clients nor checks.
    ServerDown {
        /// Where.
        host: usize,
    },
    /// A cable between switches, or to a host, fails.
    Cut {
        /// Which.
        cable: usize,
        /// How.
        kind: CutKind,
    },
    /// A switch loses power.
    SwitchOff {
        /// Which.
        switch: usize,
        /// Whether its tables are as before when it is back.
        is_keeping_tables: bool,
        /// A port it no longer has when it is back without its tables, until it is back without them once more.
        without: Option<PortNo>,
    },
    /// Nothing passes on a control channel.
    Stall {
        /// Whose.
        switch: usize,
    },
    /// A control channel breaks; it is opened again when the action ends.
    Break {
        /// Whose.
        switch: usize,
        /// How long the controller does not notice.
        unnoticed: Time,
    },
    /// The controller dies and another one, which knows nothing, starts when the action ends.
    Restart,
    /// Someone else puts rules on a switch, and removes one of them when the action ends.
    Foreign {
        /// Which switch.
        switch: usize,
        /// Draws the rules.
        seed: u64,
    },
    /// A host is plugged into another port.
    Move {
        /// Which.
        host: usize,
        /// Where it will be.
        switch: usize,
        /// Port there, spare until then.
        port: PortNo,
    },
    /// A switch takes longer for changes.
    Slow {
        /// Which.
        switch: usize,
        /// Time for one change.
        per_change: Time,
    },
}

/// Something that happens, with when and how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// Its number in the whole plan of the seed, which it keeps when others are left out.
    pub number: u32,
    /// When it begins.
    pub at: Time,
    /// When it ends; [`Time::MAX`] for never: a drawn core stays broken.
    pub until: Time,
    /// What.
    pub what: What,
}

impl Action {
    /// Whether something breaks, as opposed to traffic.
    pub fn is_fault(&self) -> bool {
        !matches!(self.what, What::Flow { .. } | What::Client { .. })
    }
}

/// A storm.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it was drawn from.
    pub seed: u64,
    /// Network.
    pub wiring: Wiring,
    /// Central balancer with its parameters.
    pub balancer: String,
    /// Controller.
    pub control: ControlTraits,
    /// Switches.
    pub switches: Vec<SwitchTraits>,
    /// How long an end takes to see a cut.
    pub notice: Time,
    /// Delay from host agents to the controller and back.
    pub agent_latency: Time,
    /// Between two times a host announces itself.
    pub announce_interval: Time,
    /// Virtual services as they are wanted one after the other, the first ones from the beginning; none in some storms.
    pub services: Vec<Services>,
    /// Most connections to them the controller remembers.
    pub connections_max: usize,
    /// When faults and flows end.
    pub calm_at: Time,
    /// What happens.
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
    /// The plan in words, one line per action.
    pub fn words(&self) -> Vec<String> {
        let control = &self.control;
        let mut lines = vec![
            format!("{} with {} hosts; balancer {}", self.wiring.name, self.wiring.hosts, self.balancer),
            format!(
                "controller: echo {}/{}, discovery {}, link timeout {}, poll {}, hosts {}, {} at a port{}; calm at {}",
                control.echo_interval,
                control.echo_timeout,
                control.discovery_interval,
                control.link_timeout,
                control.poll_interval,
                if control.knows_hosts { "configured" } else { "learnt" },
                control.hosts_per_port,
                match self.connections_max {
                    usize::MAX => String::new(),
                    few => format!(", {few} connections"),
                },
                self.calm_at
            ),
        ];
        for (version, services) in self.services.iter().enumerate() {
            lines.extend(crate::words::services(version, services));
        }
        lines.extend(self.actions.iter().map(|action| self.describe(action)));
        lines
    }

    pub(crate) fn describe(&self, action: &Action) -> String {
        let what = match &action.what {
            What::Flow { from, to, tuple, interval, payload } => format!(
                "h{from} sends to h{to} (protocol {}, ports {} to {}) {payload} B every {interval}",
                tuple.protocol, tuple.src_port, tuple.dst_port
            ),
            What::Client { from, tuple, interval } => format!(
                "h{from} is a client of {} (protocol {}, ports {} to {}), every {interval}",
                tuple.dst, tuple.protocol, tuple.src_port, tuple.dst_port
            ),
            What::Services { version } => format!("services are wanted as in version {version}"),
            What::ServerDown { host } => format!("what serves on h{host} hangs"),
            What::Cut { cable, kind } => {
                let [a, b] = self.wiring.cables[*cable].ends;
                format!("cable {a} - {b} is cut ({kind:?})")
            }
            What::SwitchOff { switch, is_keeping_tables, without } => {
                let port = without.map_or_else(String::new, |port| format!(", and port {} with them", port.0));
                format!("s{switch} is off, its tables {}{port}", if *is_keeping_tables { "kept" } else { "lost" })
            }
            What::Stall { switch } => format!("the channel of s{switch} stalls"),
            What::Break { switch, unnoticed } => {
                format!("the channel of s{switch} breaks, the controller notices after {unnoticed}")
            }
            What::Restart => "the controller is gone, another one starts at the end".to_owned(),
            What::Foreign { switch, .. } => format!("someone else puts rules on s{switch}"),
            What::Move { host, switch, port } => format!("h{host} moves to s{switch}:{}", port.0),
            What::Slow { switch, per_change } => format!("s{switch} takes {per_change} for a change"),
        };
        let until = if action.until == Time::MAX { "ever".to_owned() } else { action.until.to_string() };
        format!("{:>4}. {} to {until}: {what}", action.number, action.at)
    }
}
