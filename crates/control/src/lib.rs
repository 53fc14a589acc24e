//! The controller without input or output: it carries out the decisions of a central balancer on
//! OpenFlow 1.3 switches.
//!
//! A driver owns the sockets (or simulated channels) and the clock:
//! - it passes input to [`Controller::handle`] and [`Controller::handle_agent_report`], and calls
//!   [`Controller::handle_timeout`] at the time that [`Controller::poll_timeout`] returns;
//! - after each of these calls it calls [`Controller::poll_output`] until that returns `None`.
//!
//! The same calls produce the same outputs: there is no clock, no randomness but the balancer's
//! random stream, and no unordered iteration.
//!
//! Outputs are computed when the driver takes the first of them, so simultaneous events cause one
//! decision.

#![allow(missing_docs, reason = "only the program's own crates use this one")]

pub mod addressing;
mod changes;
mod channels;
mod controller;
pub mod edge;
pub mod format;
mod hosts;
mod inspect;
mod limits;
mod observer;
mod planner;
mod updater;
pub mod vip;

use std::collections::{BTreeMap, BTreeSet};

use balance::central::AgentCommand;
use core::net::Ipv4Addr;
pub use net::Addressing;
use net::{Bandwidth, Time};
use openflow::{ConnectionId, DatapathId, FromController, PortNo};

pub use channels::close_reason::CloseReason;
pub use controller::Controller;
pub use hosts::{AddressConflict, Departure, HostLimit, KnownHost, PortRole, PortRoles};
pub use inspect::{FlowDetail, HostInfo, Inspection, LinkInfo, SwitchInfo};

/// A port of a switch.
pub(crate) type SwitchPort = (DatapathId, PortNo);

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Config {
    /// Seed of the balancer's random draws.
    pub seed: u64,
    /// Secret key of discovery probes: with it a host could forge links. A live controller must
    /// draw it from the operating system. `None`: derived from [`Config::seed`], for simulations.
    pub discovery_key: Option<[u8; 16]>,
    /// Whether the controller requests to be the master of each switch, so that another instance
    /// with the same owner cannot change rules there. Otherwise it shares full access with others.
    pub requests_mastership: bool,
    /// Upper 16 bits of the cookies of all rules of this controller. Rules with other values are
    /// foreign and never changed.
    pub owner: u16,
    /// Configured capacity of links by sending port; takes precedence because switches report wrong
    /// values.
    pub capacities: BTreeMap<(DatapathId, PortNo), Bandwidth>,
    /// Capacity of links that are not in [`Config::capacities`].
    pub default_capacity: Bandwidth,
    /// Configured hosts, in addition to those learned from ARP.
    pub hosts: Vec<KnownHost>,
    /// Legacy switches, which report links and counters and forward by shortest paths, regardless of rules
    /// (`NetworkView::legacy`).
    #[serde(default)]
    pub legacy: std::collections::BTreeSet<DatapathId>,
    /// Hosts learned by a previous controller instance. They count towards the limits of learned
    /// hosts.
    pub persisted_hosts: Vec<KnownHost>,
    /// Time between two echo requests to a switch.
    pub echo_interval: Time,
    /// Time between two audits of a switch's rules, if any: rules that were changed behind the
    /// controller's back are found and restored.
    pub audit_interval: Option<Time>,
    /// Time without any message after which a switch is disconnected.
    pub echo_timeout: Time,
    /// Time between two LLDP packets out of a port.
    pub discovery_interval: Time,
    /// Time after which an unconfirmed link expires. Port-status messages report most failures
    /// sooner.
    pub link_timeout: Time,
    /// Time between two counter polls, if the balancer uses counters.
    pub poll_interval: Time,
    /// Idle timeout of counting rules (flows known by their first packet), s.
    pub flow_idle_timeout_s: u16,
    /// Maximum number of flows reported to the balancer (about 200 bytes each). Further flows use
    /// the default routes; switches still count them. When a flow ends, a poll or an agent reports
    /// one of the others again.
    pub flows_max: usize,
    /// Maximum number of learned hosts. Each needs a rule or two at every switch, and here about
    /// 500 bytes and its rules. Hosts of [`Config::hosts`] are always accepted and do not count.
    pub hosts_max: usize,
    /// Maximum number of learned hosts at one port. A port may lead to a switch of virtual
    /// machines, or to a host that forges addresses.
    pub hosts_per_port: usize,
    /// Whether configured hosts stay at their ports. Otherwise they move like learned ones.
    pub pins_hosts: bool,
    /// Time after which a learned host that has sent no ARP packet is probed, and forgotten if it
    /// does not reply.
    pub host_idle_timeout: Time,
    /// Time after which a learned host whose port is down or missing is forgotten.
    pub host_port_down_timeout: Time,
    /// What may be at each port.
    pub port_roles: PortRoles,
    /// Maximum memory of the table read-back of one switch, bytes. A switch that reports more
    /// ports, groups and rules is disconnected. All read-backs in progress together may use four
    /// times as much.
    pub read_back_bytes_max: usize,
    /// How switches distribute flows over equal-cost next hops.
    pub ecmp_hashing: EcmpHashing,
    /// How hosts are addressed, and how switches find them.
    pub addressing: Addressing,
    /// Pairs of addresses, source first, of which the directory of VL2 does not tell the first the
    /// location of the second.
    pub refused: BTreeSet<(Ipv4Addr, Ipv4Addr)>,
    /// Whether to use extensions of OpenFlow 1.3 on switches whose manufacturer supports them:
    /// matches on TCP control bits with Open vSwitch ([`vip`]).
    pub uses_extensions: bool,
    /// Source address of health checks; `None` disables them.
    pub health_check_address: Option<vip::Checker>,
    /// Maximum number of connections to virtual services. Further ones are rejected
    /// ([`vip::Refusal`]).
    pub connections_max: usize,
    /// Maximum number of slot rules of services that a switch has as their mux (DUET: 512 tunnel
    /// entries).
    pub mux_rules: u32,
    /// How long the member of a connection is remembered after its rules have gone.
    pub connection_retention: Time,
    /// Uplinks to BGP peers; `None` without.
    pub edge: Option<edge::EdgeConfig>,
}

/// How switches distribute flows over equal-cost next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum EcmpHashing {
    /// Select groups with the switch's own hash: for switches with independent hashes.
    #[default]
    Native,
    /// Open vSwitch's hash with a basis per switch on Open vSwitch; [`EcmpHashing::Shuffled`] on
    /// other switches.
    Auto,
    /// Select groups that repeat every bucket several times, in an order that differs per switch.
    Shuffled,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            seed: 1,
            discovery_key: None,
            requests_mastership: false,
            owner: 0xa7ab,
            capacities: BTreeMap::new(),
            default_capacity: Bandwidth::from_gbps(10),
            hosts: Vec::new(),
            persisted_hosts: Vec::new(),
            echo_interval: Time::from_s(5),
            audit_interval: None,
            echo_timeout: Time::from_s(15),
            discovery_interval: Time::from_s(15),
            link_timeout: Time::from_s(35),
            poll_interval: Time::from_s(5),
            flow_idle_timeout_s: 5,
            legacy: std::collections::BTreeSet::new(),
            flows_max: 32_768,
            hosts_max: 10_000,
            hosts_per_port: 256,
            pins_hosts: true,
            host_idle_timeout: Time::from_s(600),
            host_port_down_timeout: Time::from_s(60),
            port_roles: PortRoles::default(),
            read_back_bytes_max: 64 << 20,
            ecmp_hashing: EcmpHashing::Native,
            addressing: Addressing::Flat,
            refused: BTreeSet::new(),
            uses_extensions: false,
            health_check_address: None,
            connections_max: 250_000,
            mux_rules: 512,
            connection_retention: Time::from_s(600),
            edge: None,
        }
    }
}

impl Config {
    fn discovery_key(&self) -> [u8; 16] {
        self.discovery_key.unwrap_or_else(|| {
            let mut stream = net::RandomStream::new(self.seed, "discovery");
            (u128::from(stream.next_u64()) << 64 | u128::from(stream.next_u64())).to_be_bytes()
        })
    }
}

/// An output of the controller, for the driver to execute.
#[derive(Clone, PartialEq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all values are of the large variant; a box would add an allocation to each"
)]
pub enum Output {
    /// A message for a switch, or the end of its connection.
    Channel(FromController),
    Agents(AgentCommand),
    /// A notification that requires no action.
    Event(Event),
}

/// A notification about switches, links, hosts, flows and members.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A switch is reconciled and accepts rules.
    SwitchUp(DatapathId),
    /// A switch has disconnected.
    SwitchDown(DatapathId),
    /// A directed link was found.
    LinkUp { from: (DatapathId, PortNo), to: (DatapathId, PortNo) },
    /// A directed link has failed or expired.
    LinkDown { from: (DatapathId, PortNo), to: (DatapathId, PortNo) },
    /// A flapping port counts as down from now on, until it has been quiet for some seconds.
    PortDamped { datapath: DatapathId, port: PortNo },
    /// A host was found, or has moved.
    Host(KnownHost),
    /// A host was ignored because a limit is reached. Reported once per port (or for the network)
    /// until there is capacity again.
    HostRefused { host: KnownHost, limit: HostLimit },
    /// A learned host was forgotten.
    HostGone { host: KnownHost, why: Departure },
    /// Alarm: `claim` uses the address of `host`, and is ignored. Reported at most once a minute
    /// for an address and a port.
    AddressConflict { host: KnownHost, claim: KnownHost, why: AddressConflict },
    /// Alarm: a discovery probe arrived at a port with the role [`PortRole::Host`]. Two hosts may
    /// relay probes, or a switch is connected there. Reported at most once a minute for a port.
    ProbeAtHostPort { datapath: DatapathId, port: PortNo },
    /// The network is not one that the addressing mode can describe; the reason is human-readable. The
    /// rules stay as they were until it is.
    AddressingRefused { reason: String },
    /// A flow has migrated to another path, and its old rules are deleted.
    FlowMigrated(net::FiveTuple),
    /// The state of a pool member has changed; `address` is that of the server.
    Member { pool: vip::PoolId, member: vip::MemberId, address: Ipv4Addr, state: vip::MemberState },
    /// A switch was disconnected because it reported more ports, groups and rules than
    /// [`Config::read_back_bytes_max`] allows.
    ReadBackTooLarge { datapath: DatapathId, limit_bytes: usize },
    /// Rules with the owner of this controller were removed, changed or added behind its back, and
    /// are restored. `audits`: the number of audits that found any, without two in between
    /// that found none; above 2, another program probably writes with the same owner.
    RulesRestored { datapath: DatapathId, removed: usize, changed: usize, added: usize, audits: u32 },
    /// A switch has another master, which took over after this controller. The controller changes
    /// nothing there until the switch connects again and accepts it as master.
    Demoted(DatapathId),
    /// The controller closes a connection, which need not be one of a switch yet.
    Closed { connection: ConnectionId, reason: CloseReason },
    /// A switch rejected a message; `message` is the human-readable consequence for the network.
    SwitchError { datapath: DatapathId, error: openflow::ErrorKind, message: String },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControllerStats {
    /// Rule additions, changes and deletions sent.
    pub flow_mods: u64,
    pub group_mods: u64,
    pub packet_ins: u64,
    pub packet_outs: u64,
    pub polls: u64,
    pub decisions: u64,
    /// Migrations of flows from one path to another, or to and from the default routes.
    pub moves: u64,
    /// Counter samples equal to the previous one, which were not used.
    pub stale_samples: u64,
    /// First packets and reports of flows beyond [`Config::flows_max`], which the balancer did not
    /// receive at that time.
    pub flows_over_limit: u64,
    /// Rules and groups restored after they were removed, changed or added behind the controller's
    /// back.
    pub rules_restored: u64,
    /// Packets from hosts beyond [`Config::hosts_max`] and [`Config::hosts_per_port`].
    pub hosts_refused: u64,
    /// ARP requests that the controller has answered from its knowledge of hosts.
    pub arp_requests_answered: u64,
    /// ARP requests that were relayed to all edge ports: those for unknown hosts, and all with TRILL.
    pub arp_requests_relayed: u64,
    /// Frames of the relayed requests.
    pub arp_request_copies: u64,
    /// Locations that the directory of an addressing mode has told a switch or a host: SEATTLE's
    /// resolver switches, VL2's directory.
    pub lookups: u64,
    /// Packets of hosts to locations that their switch did not have in its cache (SEATTLE, TRILL).
    pub cache_misses: u64,
    /// Locations that the directory of VL2 has refused to tell.
    pub lookups_refused: u64,
    /// Locations of hosts that were published, changed or withdrawn in such a directory.
    pub directory_updates: u64,
    /// ARP requests for unknown hosts that were not relayed: repeated too soon, or over the limit
    /// of their port.
    pub arp_requests_suppressed: u64,
    /// ARP packets whose sender address is virtual, or belongs to a host at another port. They are
    /// neither answered nor relayed.
    pub arp_packets_rejected: u64,
    /// Packets that claimed the address of a host that is still at its port, or is pinned there.
    pub host_claims_rejected: u64,
    /// Discovery probes that arrived at ports for hosts.
    pub probes_rejected: u64,
}
