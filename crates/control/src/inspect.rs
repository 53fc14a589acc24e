//! What a controller knows, for whoever shows it: copies of facts, no handles into the state.

use balance::central::{FlowFacts, FlowId, HopTable, Path};
use core::net::Ipv4Addr;
use net::{Bandwidth, HostIx, LinkIx, NodeIx, Time};
use openflow::{ConnectionId, DatapathId, Features, PortDesc, PortNo};

use crate::{Controller, KnownHost};

/// A switch that has been ready at least once.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchFacts {
    /// Its number.
    pub datapath: DatapathId,
    /// Its connection, if it is connected.
    pub connection: Option<ConnectionId>,
    /// Since when it has been connected, or away.
    pub since: Time,
    /// What it says it is, while it is connected.
    pub features: Option<Features>,
    /// Round trip of the latest echo, while it is connected.
    pub rtt: Option<Time>,
    /// Its ports as they were described last.
    pub ports: Vec<PortDesc>,
    /// Rules it should have.
    pub rules_wanted: usize,
    /// Groups it should have.
    pub groups_wanted: usize,
    /// Rules it would not have.
    pub rules_refused: usize,
    /// How it divides flows among next hops: `groups` (by its own hash), `bundles` (Open vSwitch's, with a basis of its
    /// own) or `shuffled-groups`.
    pub spread: &'static str,
    /// Whether all of it has been confirmed.
    pub is_settled: bool,
}

/// A directed link between switches, found at some time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkFacts {
    /// Its number in [`Controller::topology`], once that has been brought up to date.
    pub link: LinkIx,
    /// Sending end.
    pub from: (DatapathId, PortNo),
    /// Receiving end.
    pub to: (DatapathId, PortNo),
    /// Whether it is believed alive.
    pub is_alive: bool,
    /// Configured capacity.
    pub capacity: Bandwidth,
    /// One-way latency as measured, if it has been.
    pub latency: Option<Time>,
    /// Load by the latest counters, if the balancer has them polled.
    pub load: Option<Bandwidth>,
}

/// A host where it is now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostAt {
    /// Its number.
    pub host: HostIx,
    /// Addresses and place.
    pub known: KnownHost,
    /// Whether its port is alive.
    pub is_alive: bool,
}

/// A flow the balancer knows, with the path of its own it has, if any.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowAt {
    /// Its number.
    pub flow: FlowId,
    /// What is known of it.
    pub facts: FlowFacts,
    /// Path of its own; `None` if it goes with its pair or by the base.
    pub path: Option<Path>,
}

impl Controller {
    /// Now, as it was told last.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Every switch that has been ready at least once, by number.
    pub fn switches(&self) -> impl Iterator<Item = SwitchFacts> {
        self.status.iter().map(|(datapath, status)| {
            let connection = self.connections.get(datapath).copied();
            let session = connection.and_then(|connection| self.sessions.get(&connection));
            let node = self.network.node_of(*datapath);
            let installer = node.and_then(|node| self.fabric.switches.get(&node));
            SwitchFacts {
                datapath: *datapath,
                connection,
                since: status.since,
                features: session.and_then(|session| session.features),
                rtt: session.and_then(|session| session.rtt),
                ports: self.ports.of.get(datapath).into_iter().flat_map(|ports| ports.values().cloned()).collect(),
                rules_wanted: installer.map_or(0, |installer| installer.desired.len()),
                groups_wanted: installer.map_or(0, |installer| installer.groups.len()),
                rules_refused: installer.map_or(0, |installer| installer.refused.len()),
                spread: installer.map_or_else(Default::default, crate::install::Installer::means).words(),
                is_settled: installer.is_none_or(crate::install::Installer::is_settled),
            }
        })
    }

    /// Every directed link between switches that was ever found, by its ends.
    pub fn links(&self) -> impl Iterator<Item = LinkFacts> {
        let mut links: Vec<_> = self.network.switch_links().into_iter().collect();
        links.sort_unstable_by_key(|(_, ends)| *ends);
        links.into_iter().map(|(link, (from, to))| LinkFacts {
            link,
            from,
            to,
            is_alive: self.network.is_alive(link),
            capacity: self.config.capacity(from),
            latency: self.discovery.latency(from, to),
            load: self.load.get(link.ix()).filter(|_| self.needs.counters).and_then(|load| load.rate),
        })
    }

    /// Hosts where they are now, by number.
    pub fn hosts(&self) -> impl Iterator<Item = HostAt> {
        self.network.current_hosts().map(|(host, facts)| HostAt {
            host,
            known: facts.known,
            is_alive: self.network.is_alive(facts.uplink()),
        })
    }

    /// Flows the balancer knows, by number.
    pub fn flows(&self) -> impl Iterator<Item = FlowAt> {
        let table = &self.flows.table;
        table.iter().map(|(flow, facts)| {
            let path = self.placements().pin_of(flow).map(|pin| pin.path.clone());
            FlowAt { flow, facts: *facts, path }
        })
    }

    /// Next hops by switch and switch of the destination, as the balancer wants them; `None` before it has said.
    pub fn hops(&self) -> Option<&HopTable> {
        self.placements().base().map(|balance::central::Base::Hops(table)| &**table)
    }

    /// The switch of a node, if it is one.
    pub fn datapath_of(&self, node: NodeIx) -> Option<DatapathId> {
        self.network.datapath_of(node)
    }
    /// The sending port of a link that leaves a switch.
    pub fn port_of(&self, link: LinkIx) -> Option<PortNo> {
        self.network.port_of(link)
    }
    /// Where an address is now.
    pub fn find_host(&self, address: Ipv4Addr) -> Option<KnownHost> {
        let host = self.network.find_host(address)?;
        Some(self.network.host(host)?.known)
    }
    /// Connections of switches, ready or shaking hands.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }
}
