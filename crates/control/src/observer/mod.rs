//! The observer: what is known of the network, from the messages of switches.
//!
//! It owns links, ports, hosts, flows and their counters, and records what has changed. It
//! probes for links and hosts, and polls counters. It decides nothing about forwarding; the only
//! rules it sends are those that count ([`first_packets`], [`flows`]).

mod alarms;
pub(crate) mod arp;
mod counters;
pub(crate) mod damping;
pub(crate) mod discovery;
pub(crate) mod first_packets;
pub(crate) mod flows;
mod host_ageing;
mod host_candidates;
mod host_limits;
mod host_recovery;
mod hosts;
mod links;
pub(crate) mod network;
mod packets;
mod ports;
pub(crate) mod sample;
mod timers;

use std::collections::{BTreeMap, BTreeSet};

use balance::central::{CentralNeeds, LinkLoad};
use balance::server::ServerNeeds;
use core::net::Ipv4Addr;
use net::{Addressing, Time};
use openflow::{DatapathId, MacAddr, PortDesc, PortNo};

use crate::changes::{Change, ChangeQueue};
use crate::channels::{Channels, ReadBack};
use crate::limits::RateLimiter;
use crate::updater::compile::Compiler;
use crate::{Config, Event, SwitchPort};
use alarms::Alarms;
use arp::{AnnouncedMacs, Arp};
use counters::PendingPoll;
use damping::Damping;
use discovery::{Discovery, Status};
use flows::Flows;
use host_ageing::HostAgeing;
use host_candidates::HostCandidates;
use host_limits::HostLimits;
use host_recovery::HostRecovery;
use network::Network;
use sample::Sample;

pub(crate) use packets::Packet;

/// The time, the configuration and the queues that a part uses while it handles an input.
pub(crate) struct Cx<'a> {
    pub(crate) now: Time,
    pub(crate) config: &'a Config,
    pub(crate) channels: &'a mut Channels,
    pub(crate) changes: &'a mut ChangeQueue,
}

impl Cx<'_> {
    pub(crate) fn compiler(&self) -> Compiler {
        Compiler { owner: self.config.owner }
    }
}

#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) network: Network,
    pub(crate) discovery: Discovery,
    /// Ports as the switches reported them; flapping ones count as down.
    pub(crate) ports: BTreeMap<DatapathId, BTreeMap<PortNo, PortDesc>>,
    damping: Damping,
    pub(crate) status: BTreeMap<DatapathId, Status>,
    /// Switches that were connected, and are not now.
    offline: BTreeSet<DatapathId>,
    /// Switches in recovery hold, with its end.
    pub(crate) recovering: BTreeMap<DatapathId, Time>,
    pub(crate) arp: Arp,
    /// Virtual addresses, which no host may claim, with their Ethernet addresses.
    pub(crate) virtual_macs: BTreeMap<Ipv4Addr, MacAddr>,
    /// The Ethernet addresses that hosts send to, where these are not those of the receivers.
    pub(crate) announced: Option<AnnouncedMacs>,
    host_candidates: HostCandidates,
    host_limits: HostLimits,
    host_ageing: HostAgeing,
    alarms: Alarms,
    /// Limits on the moves of addresses.
    moves: BTreeMap<Ipv4Addr, RateLimiter>,
    host_recovery: HostRecovery,
    /// No further probe of ports for host candidates is needed before this time.
    candidates_probed_until: Time,
    /// Measurements that the central balancer needs.
    pub(crate) needs: CentralNeeds,
    /// Measurements that server balancers need.
    pub(crate) server_needs: ServerNeeds,
    pub(crate) has_services: bool,
    pub(crate) flows: Flows,
    port_samples: BTreeMap<SwitchPort, [Sample; 2]>,
    pub(crate) load: Vec<LinkLoad>,
    polls_out: BTreeMap<DatapathId, PendingPoll>,
    next_poll_number: u32,
    next_poll: Option<Time>,
    /// When the first link may expire or a port become an edge port. Confirmations only postpone
    /// it.
    expiry_at: Option<Time>,
    /// When the next port becomes an edge port.
    edge_at: Option<Time>,
}

impl Observer {
    /// Returns an observer that knows only the configuration.
    pub(crate) fn new(config: &Config, needs: CentralNeeds) -> Observer {
        let mut network = Network::new(config);
        for (_, end) in network.host_ends() {
            network.set_hosts_alive(end, false); // Until their switches connect.
        }
        network.refresh(|_, _| Time::ZERO);
        Observer {
            network,
            discovery: Discovery::new(config.discovery_key(), config.port_roles_with_pins()),
            ports: BTreeMap::new(),
            damping: Damping::default(),
            offline: BTreeSet::new(),
            status: BTreeMap::new(),
            recovering: BTreeMap::new(),
            arp: Arp::new(config.addressing == Addressing::Trill),
            virtual_macs: BTreeMap::new(),
            announced: None,
            host_candidates: HostCandidates::default(),
            host_limits: HostLimits::default(),
            host_ageing: HostAgeing::default(),
            alarms: Alarms::default(),
            moves: BTreeMap::new(),
            host_recovery: HostRecovery::default(),
            candidates_probed_until: Time::ZERO,
            needs,
            server_needs: ServerNeeds::default(),
            has_services: false,
            flows: Flows::new(needs.flows, config.flow_idle_timeout_s),
            port_samples: BTreeMap::new(),
            load: Vec::new(),
            polls_out: BTreeMap::new(),
            next_poll_number: 0,
            next_poll: None,
            expiry_at: None,
            edge_at: None,
        }
    }

    pub(crate) fn is_virtual(&self, address: Ipv4Addr) -> bool {
        self.virtual_macs.contains_key(&address)
    }

    /// Handles the connection of a switch. Returns whether it is the first one of this switch.
    pub(crate) fn switch_connected(&mut self, cx: &Cx<'_>, read_back: &ReadBack) -> bool {
        if read_back.is_only_switch {
            // The controller itself was cut off: the timeout of the other switches starts now.
            for datapath in &self.offline {
                self.status.insert(*datapath, Status { is_online: false, since: cx.now });
            }
        }
        if read_back.is_replacement {
            self.forget_polls_of(read_back.datapath);
        }
        let is_first_time = !self.status.contains_key(&read_back.datapath);
        self.status.insert(read_back.datapath, Status { is_online: true, since: cx.now });
        self.offline.remove(&read_back.datapath);
        self.network.add_switch(read_back.datapath);
        is_first_time
    }

    /// Begins the recovery hold of a switch with these rules of a previous controller instance.
    pub(crate) fn begin_recovery(&mut self, cx: &Cx<'_>, read_back: &ReadBack) {
        self.recovering.insert(read_back.datapath, cx.now.saturating_add(host_recovery::RECOVERY_HOLD));
        self.record_installed_hosts(cx.config, read_back.datapath, &read_back.rules);
    }

    /// Begins to observe a switch whose rules have been compared.
    pub(crate) fn switch_ready(&mut self, cx: &mut Cx<'_>, read_back: ReadBack) {
        let ReadBack { connection, datapath, ports, .. } = read_back;
        cx.channels.event(Event::SwitchUp(datapath));
        // Before the probes: their loop time is compared with this round trip.
        cx.channels.echo(cx.now, cx.config, connection);
        self.set_ports(cx, datapath, ports);
        cx.changes.push(Change::Network);
        cx.changes.push(Change::Ports);
        // Probes that reached a neighbour before its rules were installed are lost: probe again
        // before ports count as edge ports.
        self.probe_soon(cx);
        if self.wants_polls() && self.next_poll.is_none() {
            self.next_poll = Some(cx.now.saturating_add(cx.config.poll_interval));
        }
    }

    /// Handles the loss of a switch's connection.
    pub(crate) fn switch_lost(&mut self, cx: &mut Cx<'_>, datapath: DatapathId) {
        self.forget_polls_of(datapath);
        self.recovering.remove(&datapath);
        self.status.insert(datapath, Status { is_online: false, since: cx.now });
        self.offline.insert(datapath);
        cx.changes.push(Change::Switches);
    }
}

#[cfg(test)]
mod memory;
#[cfg(test)]
mod tests;
