//! Read-only copies of the controller's state, for display.

use balance::central::{FlowId, FlowInfo, HopTable, Path, Placements};
use core::net::Ipv4Addr;
use net::{Bandwidth, FiveTuple, HostIx, LinkIx, NodeIx, Time, Topology};
use openflow::{ConnectionId, DatapathId, Features, FlowStats, GroupDescription, MacAddr, PortDesc, PortNo};

use crate::addressing::Location;
use crate::channels::Channels;
use crate::edge::{EdgeService, EdgeStatus};
use crate::observer::Observer;
use crate::planner::Planner;
use crate::updater::Updater;
use crate::updater::store::Installer;
use crate::vip::{ServiceStatus, VipService};
use crate::{Config, KnownHost};

/// A switch that has been ready at least once.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchInfo {
    pub datapath: DatapathId,
    /// Its connection; `None` while it is disconnected.
    pub connection: Option<ConnectionId>,
    /// Since when it has been connected or disconnected.
    pub since: Time,
    /// Features it reported; `None` while it is disconnected.
    pub features: Option<Features>,
    /// Round trip of the latest echo; `None` while it is disconnected.
    pub rtt: Option<Time>,
    pub ports: Vec<PortDesc>,
    pub rules_wanted: usize,
    pub groups_wanted: usize,
    pub rules_refused: usize,
    /// Number of rules with one next hop instead of several, because the switch rejects groups.
    pub rules_single: usize,
    /// Whether the switch has another master, so that the controller changes nothing there.
    pub is_slave: bool,
    /// How it distributes flows over next hops: `native` (its own hash), `bundle` (Open vSwitch's, with
    /// a basis per switch) or `shuffled`.
    pub spread: &'static str,
    /// Whether its desired state is installed and confirmed.
    pub is_settled: bool,
}

/// A directed link between switches that was found at some time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkInfo {
    /// Its number in the current [`Inspection::topology`].
    pub link: LinkIx,
    /// Sending end: switch and port.
    pub from: (DatapathId, PortNo),
    /// Receiving end: switch and port.
    pub to: (DatapathId, PortNo),
    /// Whether it was confirmed in time and both ports are up.
    pub is_alive: bool,
    pub capacity: Bandwidth,
    /// Measured one-way latency, if there is a measurement.
    pub latency: Option<Time>,
    /// Load by the latest counters; `None` if the balancer does not use them.
    pub load: Option<Bandwidth>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostInfo {
    pub host: HostIx,
    pub known: KnownHost,
    pub is_alive: bool,
}

/// A flow the balancer knows, with its path if it is pinned.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowDetail {
    pub flow: FlowId,
    pub facts: FlowInfo,
    /// Path of a pinned flow; `None` if it is forwarded with its pair or by the default routes.
    pub path: Option<Path>,
}

/// The state of a controller, for display and for tests.
#[derive(Clone, Copy)]
pub struct Inspection<'a> {
    pub(crate) now: Time,
    pub(crate) config: &'a Config,
    pub(crate) channels: &'a Channels,
    pub(crate) observer: &'a Observer,
    pub(crate) planner: &'a Planner,
    pub(crate) updater: &'a Updater,
    pub(crate) vips: &'a VipService,
    pub(crate) edge: Option<&'a EdgeService>,
}

impl<'a> Inspection<'a> {
    pub fn addressing(self) -> net::Addressing {
        self.config.addressing
    }
    pub fn now(self) -> Time {
        self.now
    }

    /// Returns every switch that has been ready at least once, by number.
    pub fn switches(self) -> impl Iterator<Item = SwitchInfo> + use<'a> {
        self.observer.status.iter().map(move |(datapath, status)| {
            let connection = self.channels.connection_of(*datapath);
            let session = self.channels.session_of(*datapath);
            let installer = self.installer_of(*datapath);
            SwitchInfo {
                datapath: *datapath,
                connection,
                since: status.since,
                features: session.and_then(|session| session.features),
                rtt: session.and_then(|session| session.rtt),
                ports: self
                    .observer
                    .ports
                    .get(datapath)
                    .into_iter()
                    .flat_map(|ports| ports.values().cloned())
                    .collect(),
                rules_wanted: installer.map_or(0, |installer| installer.desired.len()),
                groups_wanted: installer.map_or(0, |installer| installer.groups.len()),
                rules_refused: installer.map_or(0, |installer| installer.refused.len()),
                rules_single: installer.map_or(0, Installer::single_count),
                is_slave: installer.is_some_and(|installer| installer.is_slave),
                spread: installer.map_or_else(Default::default, |installer| installer.hashing_method).words(),
                is_settled: installer.is_none_or(Installer::is_settled),
            }
        })
    }

    /// Returns every directed link between switches that was ever found, by its ends.
    pub fn links(self) -> impl Iterator<Item = LinkInfo> + use<'a> {
        let mut links: Vec<_> = self.observer.network.switch_links().into_iter().collect();
        links.sort_unstable_by_key(|(_, ends)| *ends);
        links.into_iter().map(|(link, (from, to))| LinkInfo {
            link,
            from,
            to,
            is_alive: self.observer.network.is_alive(link),
            capacity: self.config.capacity(from),
            latency: self.observer.discovery.latency(from, to),
            load: self.observer.load.get(link.ix()).filter(|_| self.observer.needs.counters).and_then(|load| load.rate),
        })
    }

    pub fn hosts(self) -> impl Iterator<Item = HostInfo> + use<'a> {
        self.observer.network.current_hosts().map(|(host, facts)| HostInfo {
            host,
            known: facts.known,
            is_alive: self.observer.network.is_alive(facts.uplink),
        })
    }

    pub fn flows(self) -> impl Iterator<Item = FlowDetail> + use<'a> {
        let table = &self.observer.flows.table;
        table.iter().map(move |(flow, facts)| {
            let path = self.planner.placements.pin_of(flow).map(|pin| pin.path.clone());
            FlowDetail { flow, facts: *facts, path }
        })
    }

    /// Returns the balancer's default next hops by switch and destination switch; `None` before its
    /// first decision.
    pub fn hops(self) -> Option<&'a HopTable> {
        self.planner.placements.default_routes().map(|balance::central::DefaultRoutes::Hops(table)| &**table)
    }

    pub fn datapath_of(self, node: NodeIx) -> Option<DatapathId> {
        self.observer.network.datapath_of(node)
    }
    /// Returns the sending port of a link that leaves a switch.
    pub fn port_of(self, link: LinkIx) -> Option<PortNo> {
        self.observer.network.port_of(link)
    }
    /// Returns the place of a switch in the tree, if the addressing mode uses it.
    pub fn location_of(self, datapath: DatapathId) -> Option<Location> {
        self.planner.addressing.as_ref()?.location_of(datapath)
    }
    /// Returns the Ethernet address that others send to in order to reach a host; `None` if it cannot
    /// be reached yet.
    pub fn announced_mac_of(self, address: Ipv4Addr) -> Option<MacAddr> {
        match &self.observer.announced {
            None => Some(self.find_host(address)?.mac),
            Some(announced) => announced.get(&address).copied(),
        }
    }
    pub fn find_host(self, address: Ipv4Addr) -> Option<KnownHost> {
        Some(self.observer.network.host_at(address)?.known)
    }
    /// Returns the number of connections of switches, ready or in the handshake.
    pub fn session_count(self) -> usize {
        self.channels.sessions.len()
    }

    /// Returns the topology of everything ever seen. Links that are gone are dead in
    /// [`Inspection::alive`].
    pub fn topology(self) -> &'a Topology {
        &self.observer.network.topology
    }
    pub fn alive(self) -> &'a [bool] {
        self.observer.network.alive()
    }
    pub fn placements(self) -> &'a Placements {
        &self.planner.placements
    }
    /// Returns the rules of a settled switch in the order of `Native::entries`, with counters zero.
    /// If the switch rejected a rule, the rule it should replace is listed instead, if there is
    /// one.
    pub fn desired_entries(self, datapath: DatapathId) -> Vec<FlowStats> {
        self.installer_of(datapath).map_or_else(Vec::new, Installer::entries)
    }
    pub fn desired_groups(self, datapath: DatapathId) -> Vec<GroupDescription> {
        self.installer_of(datapath).map_or_else(Vec::new, Installer::group_entries)
    }
    fn installer_of(self, datapath: DatapathId) -> Option<&'a Installer> {
        self.updater.switches.get(&self.observer.network.node_of(datapath)?)
    }
    /// Returns the connection of a switch, or `None` if it is disconnected.
    pub fn connection_of(self, datapath: DatapathId) -> Option<ConnectionId> {
        self.channels.connection_of(datapath)
    }

    /// Returns whether a rule counts a flow known by its first packet, exactly as this controller
    /// writes it. Such rules are owned by the switch: they are not among
    /// [`Inspection::desired_entries`].
    pub fn is_counting_rule(self, datapath: DatapathId, rule: &FlowStats) -> bool {
        self.observer.is_counting_rule(self.config, datapath, rule)
    }
    /// Returns the running flows known by their first packet, with the switch that counts them.
    pub fn counted_flows(self) -> impl Iterator<Item = (FiveTuple, DatapathId)> + use<'a> {
        self.observer.counted_flows()
    }

    /// Returns the state of the uplinks to BGP peers, if there are any.
    pub fn edge(self) -> Option<EdgeStatus> {
        self.edge.map(EdgeService::status)
    }
    /// Returns the rules to BGP peers: the prefix, the number of its uplink, and its estimated rate.
    pub fn edge_prefixes(self) -> impl Iterator<Item = (bgp::Prefix, u8, Bandwidth)> + use<'a> {
        self.edge.into_iter().flat_map(EdgeService::prefixes)
    }

    /// Returns the status of all virtual services, by number. Byte counts are those of polls and of
    /// removed rules.
    pub fn services(self) -> Vec<ServiceStatus> {
        self.vips.services()
    }
    /// Returns whether a rule is one of a connection to a virtual service, exactly as this
    /// controller writes it. Such rules are owned by the switch: they are not among
    /// [`Inspection::desired_entries`].
    pub fn is_connection_rule(self, rule: &FlowStats) -> bool {
        self.vips.is_connection_rule(self.updater.compiler, rule)
    }
    /// Returns the connections with rules, with the switch that has them and the member.
    pub fn virtual_connections(
        self,
    ) -> impl Iterator<Item = (FiveTuple, DatapathId, crate::vip::ServiceId, crate::vip::MemberId)> + use<'a> {
        self.vips.virtual_connections()
    }
}
