//! Read-only copies of the controller's state, for display.

use balance::central::{FlowId, FlowInfo, HopTable, Path};
use core::net::Ipv4Addr;
use net::{Bandwidth, HostIx, LinkIx, NodeIx, Time};
use openflow::{ConnectionId, DatapathId, Features, PortDesc, PortNo};

use crate::rules::store::Installer;
use crate::{Controller, KnownHost};

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
    /// How it distributes flows over next hops: `native` (its own hash), `bundle` (Open vSwitch's, with
    /// a basis per switch) or `shuffled`.
    pub spread: &'static str,
    /// Whether its desired state is installed and confirmed.
    pub is_settled: bool,
}

/// A directed link between switches that was found at some time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkInfo {
    /// Its number in the current [`Controller::topology`].
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

impl Controller {
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns every switch that has been ready at least once, by number.
    pub fn switches(&self) -> impl Iterator<Item = SwitchInfo> {
        self.status.iter().map(|(datapath, status)| {
            let connection = self.connections.get(datapath).copied();
            let session = self.session_of(*datapath);
            let installer = self.installer_of(*datapath);
            SwitchInfo {
                datapath: *datapath,
                connection,
                since: status.since,
                features: session.and_then(|session| session.features),
                rtt: session.and_then(|session| session.rtt),
                ports: self.ports.of.get(datapath).into_iter().flat_map(|ports| ports.values().cloned()).collect(),
                rules_wanted: installer.map_or(0, |installer| installer.desired.len()),
                groups_wanted: installer.map_or(0, |installer| installer.groups.len()),
                rules_refused: installer.map_or(0, |installer| installer.refused.len()),
                spread: installer.map_or_else(Default::default, |installer| installer.hashing_method).words(),
                is_settled: installer.is_none_or(Installer::is_settled),
            }
        })
    }

    /// Returns every directed link between switches that was ever found, by its ends.
    pub fn links(&self) -> impl Iterator<Item = LinkInfo> {
        let mut links: Vec<_> = self.network.switch_links().into_iter().collect();
        links.sort_unstable_by_key(|(_, ends)| *ends);
        links.into_iter().map(|(link, (from, to))| LinkInfo {
            link,
            from,
            to,
            is_alive: self.network.is_alive(link),
            capacity: self.config.capacity(from),
            latency: self.discovery.latency(from, to),
            load: self.load.get(link.ix()).filter(|_| self.needs.counters).and_then(|load| load.rate),
        })
    }

    pub fn hosts(&self) -> impl Iterator<Item = HostInfo> {
        self.network.current_hosts().map(|(host, facts)| HostInfo {
            host,
            known: facts.known,
            is_alive: self.network.is_alive(facts.uplink),
        })
    }

    pub fn flows(&self) -> impl Iterator<Item = FlowDetail> {
        let table = &self.flows.table;
        table.iter().map(|(flow, facts)| {
            let path = self.placements().pin_of(flow).map(|pin| pin.path.clone());
            FlowDetail { flow, facts: *facts, path }
        })
    }

    /// Returns the balancer's default next hops by switch and destination switch; `None` before its
    /// first decision.
    pub fn hops(&self) -> Option<&HopTable> {
        self.placements().default_routes().map(|balance::central::DefaultRoutes::Hops(table)| &**table)
    }

    pub fn datapath_of(&self, node: NodeIx) -> Option<DatapathId> {
        self.network.datapath_of(node)
    }
    /// Returns the sending port of a link that leaves a switch.
    pub fn port_of(&self, link: LinkIx) -> Option<PortNo> {
        self.network.port_of(link)
    }
    pub fn find_host(&self, address: Ipv4Addr) -> Option<KnownHost> {
        Some(self.network.host_at(address)?.known)
    }
    /// Returns the number of connections of switches, ready or in the handshake.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }
}
