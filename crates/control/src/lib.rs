//! The controller without input or output: what a central balancer wants, done on OpenFlow 1.3 switches.
//!
//! A driver owns sockets (or simulated channels) and the clock:
//! - what happens is told by [`Controller::handle`] and [`Controller::report`], and time by
//!   [`Controller::handle_timeout`] when [`Controller::poll_timeout`] has come;
//! - what is wanted is taken by [`Controller::poll_output`], to be called until it answers `None` after each of these.
//!
//! Same calls, same answers: there is no clock, no randomness but the balancer's stream, and no unordered iteration.

//!
//! Outputs are thought out when the first of them is taken: several things that happened at once make one decision.

mod base;
mod compile;
mod controller;
mod discovery;
mod fabric;
mod flows;
mod hints;
mod hosts;
mod inspect;
mod install;
mod labels;
mod moves;
mod network;
mod order;
mod packets;
mod pairs;
mod pins;
mod ports;
mod room;
mod sequence;
mod session;
mod soft;
mod spread;
mod stage;
mod stats;
mod timing;
mod unsure;
pub mod vip;

use std::collections::BTreeMap;

use balance::central::AgentOrder;
use core::net::Ipv4Addr;
use net::{Bandwidth, HostIx, NodeIx, Time, Topology, address};
use openflow::{DatapathId, FromController, MacAddr, PortNo};

pub use controller::Controller;
pub use inspect::{FlowAt, HostAt, LinkFacts, SwitchFacts};

/// How a controller works.
#[derive(Clone, Debug)]
pub struct Config {
    /// Seed of the balancer's random draws.
    pub seed: u64,
    /// Upper 16 bits of the cookies of all its rules: rules with others are foreign and left alone.
    pub owner: u16,
    /// Capacity of links by sending port, where it is known: switches report wrong ones.
    pub capacities: BTreeMap<(DatapathId, PortNo), Bandwidth>,
    /// Capacity of the others.
    pub default_capacity: Bandwidth,
    /// Hosts known beforehand, besides those that are seen to speak.
    pub hosts: Vec<KnownHost>,
    /// Hosts that were learnt in an earlier life: known beforehand, too, but bounded as those learnt now.
    pub remembered: Vec<KnownHost>,
    /// Time between two echo requests to a switch.
    pub echo_interval: Time,
    /// A switch that has not answered for this long is disconnected.
    pub echo_timeout: Time,
    /// Time between two LLDP packets out of a port.
    pub discovery_interval: Time,
    /// A link not confirmed for this long is gone. Port-status messages tell sooner.
    pub link_timeout: Time,
    /// Time between two polls of counters, where the balancer wants them.
    pub poll_interval: Time,
    /// Idle timeout of rules that count flows (first packets), s.
    pub flow_idle_timeout_s: u16,
    /// Most flows the balancer is told of at once, where first packets or agents tell of them; some 200 bytes each. Others go by the base like flows
    /// that were not noticed. Switches count them all the same, and when there is room again the balancer is told of those
    /// that a poll finds; agents report theirs again.
    pub flows_max: usize,
    /// Most hosts learnt that are known at once. Each costs a rule or two at every switch and some 3 kB here. Hosts of
    /// [`Config::hosts`] always fit, and do not count.
    pub hosts_max: usize,
    /// Most hosts learnt at one port: a switch of virtual machines may be behind it, or somebody who makes up addresses.
    pub hosts_per_port: usize,
    /// How switches divide flows among several next hops.
    pub spread: Spread,
    /// Whether to use what switches take beyond OpenFlow 1.3 where their maker is known for it: matches on control bits of TCP with
    /// Open vSwitch ([`vip`]).
    pub uses_extensions: bool,
    /// The address health checks of members come from; `None`: there are none.
    pub checker: Option<vip::Checker>,
    /// Most connections to virtual services known at once; further ones are refused ([`vip::Refusal`]).
    pub connections_max: usize,
    /// How long it is remembered who served a connection after its rules have gone.
    pub connection_memory: Time,
}

/// How switches divide flows among several next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// Select groups, by whatever hash the switch has: for switches whose hashes are independent of each other.
    #[default]
    Switch,
    /// Open vSwitch's hash with a basis per switch, on Open vSwitch; elsewhere as [`Spread::Shuffled`].
    Auto,
    /// Select groups with every bucket several times, in an order of the switch's own.
    Shuffled,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            seed: 1,
            owner: 0xa7ab,
            capacities: BTreeMap::new(),
            default_capacity: Bandwidth::from_gbps(10),
            hosts: Vec::new(),
            remembered: Vec::new(),
            echo_interval: Time::from_s(5),
            echo_timeout: Time::from_s(15),
            discovery_interval: Time::from_s(15),
            link_timeout: Time::from_s(35),
            poll_interval: Time::from_s(5),
            flow_idle_timeout_s: 5,
            flows_max: 32_768,
            hosts_max: 10_000,
            hosts_per_port: 256,
            spread: Spread::Switch,
            uses_extensions: false,
            checker: None,
            connections_max: 250_000,
            connection_memory: Time::from_s(600),
        }
    }
}

/// A host and where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KnownHost {
    /// Ethernet address.
    pub mac: MacAddr,
    /// IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Its switch.
    pub datapath: DatapathId,
    /// Port there.
    pub port: PortNo,
}

impl KnownHost {
    /// The hosts of a topology that has the project's addresses and numbers ([`net::address`]), each at the switch of its
    /// first link; hosts without a link are left out.
    pub fn all_of(topology: &Topology) -> Vec<KnownHost> {
        let host = |(host, node): (HostIx, &NodeIx)| {
            let up = *topology.out_links(*node).first()?;
            Some(KnownHost {
                mac: MacAddr(address::host_mac(host)),
                ipv4: address::host_ipv4(host),
                datapath: DatapathId(address::datapath_of(topology.link(up).to)),
                port: PortNo(address::port_of(topology, up.reverse())),
            })
        };
        (0u32..).map(HostIx).zip(topology.hosts()).filter_map(host).collect()
    }
}

/// What a controller wants done.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are of the large kind; a box would cost more than it saves")]
pub enum Output {
    /// On a channel to a switch.
    Channel(FromController),
    /// By agents on hosts.
    Agents(AgentOrder),
    /// Nothing: something worth knowing happened.
    Event(Event),
}

/// Something worth knowing.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A switch is ready for rules.
    SwitchUp(DatapathId),
    /// It is gone.
    SwitchDown(DatapathId),
    /// A directed link was found.
    LinkUp {
        /// Sending end.
        from: (DatapathId, PortNo),
        /// Receiving end.
        to: (DatapathId, PortNo),
    },
    /// It is gone.
    LinkDown {
        /// Sending end.
        from: (DatapathId, PortNo),
        /// Receiving end.
        to: (DatapathId, PortNo),
    },
    /// A host was seen for the first time, or elsewhere than before.
    Host(KnownHost),
    /// There is no room for a host that spoke. Told once for a port (or for the network) until there is room again.
    HostRefused {
        /// The first one refused.
        host: KnownHost,
        /// What is full.
        limit: HostLimit,
    },
    /// A flow has been moved to another path, and its old rules are gone.
    Migrated(net::FiveTuple),
    /// A member of a pool can serve, or cannot any more.
    Member {
        /// Its pool.
        pool: vip::PoolId,
        /// Its number.
        member: vip::MemberId,
        /// Its address.
        address: Ipv4Addr,
        /// What it is now.
        state: vip::MemberState,
    },
    /// A switch refused something.
    Refused {
        /// Which switch.
        datapath: DatapathId,
        /// Why.
        error: openflow::ErrorKind,
        /// What this means for the network, in words.
        words: String,
    },
}

/// What leaves no room for a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostLimit {
    /// [`Config::hosts_per_port`].
    Port,
    /// [`Config::hosts_max`].
    Network,
}

/// What control has cost so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Rule additions, changes and deletions sent.
    pub flow_mods: u64,
    /// Group changes sent.
    pub group_mods: u64,
    /// Packet-ins received.
    pub packet_ins: u64,
    /// Packet-outs sent.
    pub packet_outs: u64,
    /// Statistics requests sent.
    pub polls: u64,
    /// Times the balancer was asked.
    pub decisions: u64,
    /// Flows moved from one path of their own to another, or to and from the default.
    pub moves: u64,
    /// Counter samples that were the same as the one before, and not used.
    pub stale_samples: u64,
    /// First packets and reports of flows beyond [`Config::flows_max`]: the balancer was not told, or not then.
    pub flows_untold: u64,
    /// Packets from hosts beyond [`Config::hosts_max`] and [`Config::hosts_per_port`].
    pub hosts_refused: u64,
    /// Questions for unknown hosts that were not passed on: asked a moment ago, or more than a port may ask.
    pub questions_dropped: u64,
}
