//! The known network: an append-only graph with numbers that never change their meaning.
//!
//! Switches, hosts and cables get a number when first seen; those that are gone are dead in
//! `alive`. A host seen at another port is a new one (its paths, edge switch and class differ), and
//! the old one is dead. The number of a host that has left is given to the next host at the same
//! port, when every component has processed the departure. For all but the users of addresses the
//! number means the port, and hosts that come and go must not fill the memory.

mod refresh;

use std::collections::{BTreeMap, BTreeSet};

use core::net::Ipv4Addr;
use net::routes::IncrementalRoutes;
use net::{Bandwidth, HostIx, LinkIx, NodeIx, Time, Topology, TopologyBuilder};
use openflow::{DatapathId, MacAddr, PortNo};

use crate::{Config, KnownHost, PortRole, PortRoles, SwitchPort};

#[derive(Clone, Debug)]
pub(crate) struct HostRecord {
    pub(crate) known: KnownHost,
    pub(crate) edge: NodeIx,
    pub(crate) uplink: LinkIx,
    is_current: bool,
    /// When a packet of the host was last seen.
    pub(crate) last_seen: Time,
}

impl HostRecord {
    /// Returns a unique name: an address has one attachment only.
    fn name(&self, host: HostIx) -> String {
        let address = self.known.ipv4;
        if self.is_current { address.to_string() } else { format!("{address}, gone, #{}", host.0) }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Switch(DatapathId),
    Host(HostIx),
}

#[derive(Clone, Copy, Debug)]
struct DirectedLink {
    from: NodeIx,
    to: NodeIx,
    /// Port at the sending end; `None` at hosts.
    port: Option<PortNo>,
    rate: Bandwidth,
    /// Time to send what may be queued: 256 KB.
    queue_time: Time,
}

impl DirectedLink {
    fn new(from: NodeIx, to: NodeIx, port: Option<PortNo>, rate: Bandwidth) -> DirectedLink {
        DirectedLink { from, to, port, rate, queue_time: rate.time_for(256 << 10) }
    }
}

pub(crate) enum PortPeer {
    /// Hosts only.
    Host,
    /// These switches, now or before.
    Switches(BTreeSet<NodeIx>),
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Network {
    nodes: Vec<Kind>,
    switches: BTreeMap<DatapathId, NodeIx>,
    hosts: Vec<HostRecord>,
    /// By address as a number: looked up several times for every packet.
    by_ipv4: BTreeMap<u32, HostIx>,
    at: BTreeMap<SwitchPort, BTreeSet<HostIx>>,
    /// Reusable numbers of hosts that have left, by port.
    vacant: BTreeMap<SwitchPort, Vec<HostIx>>,
    /// Hosts that have left and that some component may still use.
    left: Vec<HostIx>,
    configured: BTreeSet<Ipv4Addr>,
    /// Whether a number was reused, so that its name in the topology changes.
    is_renamed: bool,
    /// Hosts whose name may have changed since the topology was last extended.
    renamed: BTreeSet<HostIx>,
    wires: Vec<DirectedLink>,
    links: BTreeMap<(SwitchPort, SwitchPort), LinkIx>,
    alive: Vec<bool>,
    /// Datapath ids of legacy switches.
    legacy_ids: BTreeSet<DatapathId>,
    /// Whether each node is a legacy switch; up to the last one.
    legacy: Vec<bool>,
    /// Height of every node ([`Network::update_tiers`]).
    tiers: Vec<u8>,
    /// Longest time on a live link between switches ([`Network::drain_time_of`]).
    slowest_hop: Time,
    pub(crate) topology: Topology,
    pub(crate) routes: IncrementalRoutes,
}

impl Network {
    /// Returns a network of the configured hosts and as many persisted ones as the limits allow.
    pub(crate) fn new(config: &Config) -> Network {
        let mut network = Network { legacy_ids: config.legacy.clone(), ..Network::empty() };
        for host in &config.hosts {
            network.configured.insert(host.ipv4);
            network.add_host(config, *host, Time::ZERO);
        }
        let mut learnt = 0;
        for host in &config.persisted_hosts {
            let end = host.end();
            let is_learnt = |other: &HostIx| !network.is_configured(network.hosts[other.ix()].known.ipv4);
            let is_known = network.find_host(host.ipv4).is_some();
            let may_be_there = config.port_roles.of(end) != PortRole::Link;
            let has_room = may_be_there && network.hosts_at(end).filter(is_learnt).count() < config.hosts_per_port;
            if !is_known && has_room && learnt < config.hosts_max {
                network.add_host(config, *host, Time::ZERO);
                learnt += 1;
            }
        }
        network
    }

    fn empty() -> Network {
        let topology = TopologyBuilder::new("discovered").build_partial().expect("an empty network has no faults");
        let routes = IncrementalRoutes::new(&topology, &[]);
        Network {
            nodes: Vec::new(),
            switches: BTreeMap::new(),
            hosts: Vec::new(),
            by_ipv4: BTreeMap::new(),
            at: BTreeMap::new(),
            legacy_ids: BTreeSet::new(),
            legacy: Vec::new(),
            vacant: BTreeMap::new(),
            left: Vec::new(),
            configured: BTreeSet::new(),
            is_renamed: false,
            renamed: BTreeSet::new(),
            wires: Vec::new(),
            links: BTreeMap::new(),
            alive: Vec::new(),
            tiers: Vec::new(),
            slowest_hop: Time::ZERO,
            topology,
            routes,
        }
    }

    pub(crate) fn alive(&self) -> &[bool] {
        &self.alive[..self.topology.links().len()]
    }
    pub(crate) fn is_alive(&self, link: LinkIx) -> bool {
        self.alive.get(link.ix()).copied().unwrap_or(false)
    }
    pub(crate) fn is_path_alive(&self, path: &[LinkIx]) -> bool {
        path.iter().all(|link| self.is_alive(*link))
    }
    /// Returns whether each node is a legacy switch; nodes past the end are none.
    pub(crate) fn legacy(&self) -> &[bool] {
        &self.legacy
    }
    pub(crate) fn node_of(&self, datapath: DatapathId) -> Option<NodeIx> {
        self.switches.get(&datapath).copied()
    }
    pub(crate) fn datapath_of(&self, node: NodeIx) -> Option<DatapathId> {
        match self.nodes.get(node.ix())? {
            Kind::Switch(datapath) => Some(*datapath),
            Kind::Host(_) => None,
        }
    }
    pub(crate) fn port_of(&self, link: LinkIx) -> Option<PortNo> {
        self.wires.get(link.ix())?.port
    }
    pub(crate) fn far_end(&self, link: LinkIx) -> Option<NodeIx> {
        Some(self.wires.get(link.ix())?.to)
    }
    pub(crate) fn near_end(&self, link: LinkIx) -> Option<NodeIx> {
        Some(self.wires.get(link.ix())?.from)
    }
    pub(crate) fn ends(&self, link: LinkIx) -> impl Iterator<Item = NodeIx> {
        self.near_end(link).into_iter().chain(self.far_end(link))
    }
    pub(crate) fn links_from(&self, from: SwitchPort) -> impl Iterator<Item = LinkIx> {
        let range = (from, (DatapathId(0), PortNo(0)))..=(from, (DatapathId(u64::MAX), PortNo(u32::MAX)));
        let switches = self.links.range(range).map(|(_, link)| *link);
        switches.chain(self.hosts_at(from).map(|host| self.hosts[host.ix()].uplink.reverse()))
    }
    pub(crate) fn host(&self, host: HostIx) -> Option<&HostRecord> {
        self.hosts.get(host.ix())
    }
    pub(crate) fn beyond(&self, node: NodeIx, port: PortNo) -> PortPeer {
        let Some(datapath) = self.datapath_of(node) else { return PortPeer::Unknown };
        let links: Vec<LinkIx> = self.links_from((datapath, port)).collect();
        let switches = links.iter().filter(|link| !self.is_host_link(**link));
        let switches: BTreeSet<NodeIx> = switches.filter_map(|link| self.far_end(*link)).collect();
        match (switches.is_empty(), self.has_host_at((datapath, port))) {
            (true, true) => PortPeer::Host,
            (true, false) => PortPeer::Unknown,
            (false, _) => PortPeer::Switches(switches),
        }
    }
    pub(crate) fn find_host(&self, address: Ipv4Addr) -> Option<HostIx> {
        self.by_ipv4.get(&address.to_bits()).copied()
    }
    /// Returns the current attachment of an address.
    pub(crate) fn host_at(&self, address: Ipv4Addr) -> Option<&HostRecord> {
        self.host(self.find_host(address)?)
    }
    pub(crate) fn current_hosts(&self) -> impl Iterator<Item = (HostIx, &HostRecord)> {
        (0u32..).map(HostIx).zip(&self.hosts).filter(|(_, host)| host.is_current)
    }
    /// Returns the time within which packets on a path arrive: its latency, and 256 KB queued at
    /// each link.
    pub(crate) fn drain_time(&self, path: &[LinkIx]) -> Time {
        bounded(path.iter().map(|link| self.hop_time(*link)).fold(Time::ZERO, Time::saturating_add))
    }
    /// Returns the time within which packets arrive over this number of links, whichever they are.
    pub(crate) fn drain_time_of(&self, hops: u32) -> Time {
        bounded(Time::from_ps(self.slowest_hop.as_ps().saturating_mul(u64::from(hops))))
    }
    fn hop_time(&self, link: LinkIx) -> Time {
        let delay = self.topology.links().get(link.ix()).map_or(Time::ZERO, |link| link.delay);
        self.wires.get(link.ix()).map_or(delay, |wire| delay.saturating_add(wire.queue_time))
    }
    pub(crate) fn has_host_at(&self, end: SwitchPort) -> bool {
        self.at.contains_key(&end)
    }

    /// Adds a switch. Returns its number.
    pub(crate) fn add_switch(&mut self, datapath: DatapathId) -> NodeIx {
        let next = NodeIx(self.nodes.len() as u32);
        let node = *self.switches.entry(datapath).or_insert(next);
        if node == next {
            self.nodes.push(Kind::Switch(datapath));
            if self.legacy_ids.contains(&datapath) {
                self.legacy.resize(node.ix() + 1, false);
                self.legacy[node.ix()] = true;
            }
        }
        node
    }

    /// Adds a confirmed link. The other direction gets its number, but stays dead until it is
    /// confirmed itself.
    pub(crate) fn add_link(&mut self, config: &Config, from: SwitchPort, to: SwitchPort) {
        if let Some(link) = self.links.get(&(from, to)) {
            self.alive[link.ix()] = true;
            return;
        }
        let (a, b) = (self.add_switch(from.0), self.add_switch(to.0));
        let link = LinkIx(self.wires.len() as u32);
        self.wires.push(DirectedLink::new(a, b, Some(from.1), config.capacity(from)));
        self.wires.push(DirectedLink::new(b, a, Some(to.1), config.capacity(to)));
        self.alive.extend([true, false]);
        self.links.insert((from, to), link);
        self.links.insert((to, from), link.reverse());
    }

    /// Records a host at a port. Returns whether this is new.
    pub(crate) fn add_host(&mut self, config: &Config, known: KnownHost, now: Time) -> bool {
        if let Some(host) = self.find_host(known.ipv4) {
            if self.hosts[host.ix()].known == known {
                return false;
            }
            self.retire(host);
        }
        let end = known.end();
        let host = match self.take_vacant(end) {
            Some(host) => host,
            None => self.new_place(config, known),
        };
        let facts = &mut self.hosts[host.ix()];
        (facts.known, facts.is_current, facts.last_seen) = (known, true, now);
        let uplink = facts.uplink;
        (self.alive[uplink.ix()], self.alive[uplink.reverse().ix()]) = (true, true);
        self.by_ipv4.insert(known.ipv4.to_bits(), host);
        self.at.entry(end).or_default().insert(host);
        true
    }

    fn take_vacant(&mut self, end: SwitchPort) -> Option<HostIx> {
        let numbers = self.vacant.get_mut(&end)?;
        let host = numbers.pop();
        if numbers.is_empty() {
            self.vacant.remove(&end);
        }
        self.is_renamed |= host.is_some();
        self.renamed.extend(host);
        host
    }

    fn new_place(&mut self, config: &Config, known: KnownHost) -> HostIx {
        let edge = self.add_switch(known.datapath);
        let (host, node) = (HostIx(self.hosts.len() as u32), NodeIx(self.nodes.len() as u32));
        let uplink = LinkIx(self.wires.len() as u32);
        let rate = config.capacity(known.end());
        self.nodes.push(Kind::Host(host));
        self.wires.push(DirectedLink::new(node, edge, None, rate));
        self.wires.push(DirectedLink::new(edge, node, Some(known.port), rate));
        self.alive.extend([true, true]);
        self.hosts.push(HostRecord { known, edge, uplink, is_current: true, last_seen: Time::ZERO });
        host
    }

    /// Makes the numbers of all departed hosts reusable.
    pub(crate) fn vacate(&mut self) {
        for host in std::mem::take(&mut self.left) {
            let known = self.hosts[host.ix()].known;
            self.vacant.entry(known.end()).or_default().push(host);
        }
    }

    pub(crate) fn hosts_at(&self, end: SwitchPort) -> impl Iterator<Item = HostIx> {
        self.at.get(&end).into_iter().flatten().copied()
    }
    /// Returns whether an address is configured, and so never over a limit.
    pub(crate) fn is_configured(&self, address: Ipv4Addr) -> bool {
        self.configured.contains(&address)
    }
    pub(crate) fn has_hosts(&self) -> bool {
        !self.by_ipv4.is_empty()
    }
    /// Returns every port with hosts, and its hosts.
    pub(crate) fn hosts_by_port(&self) -> impl Iterator<Item = (SwitchPort, &BTreeSet<HostIx>)> {
        self.at.iter().map(|(end, hosts)| (*end, hosts))
    }
    pub(crate) fn host_counts(&self) -> (usize, usize) {
        (self.by_ipv4.len(), self.hosts.len())
    }
    pub(crate) fn has_vacancy(&self, end: SwitchPort) -> bool {
        self.vacant.contains_key(&end)
    }
    pub(crate) fn last_seen(&mut self, host: HostIx, now: Time) {
        self.hosts[host.ix()].last_seen = now;
    }

    pub(crate) fn host_ends(&self) -> Vec<(HostIx, SwitchPort)> {
        self.current_hosts().map(|(host, facts)| (host, facts.known.end())).collect()
    }
    pub(crate) fn link(&self, from: SwitchPort, to: SwitchPort) -> Option<LinkIx> {
        self.links.get(&(from, to)).copied()
    }
    pub(crate) fn switch_links(&self) -> BTreeMap<LinkIx, (SwitchPort, SwitchPort)> {
        self.links.iter().map(|(ends, link)| (*link, *ends)).collect()
    }
    pub(crate) fn is_host_link(&self, link: LinkIx) -> bool {
        let is_host = |link: LinkIx| self.wires.get(link.ix()).is_some_and(|wire| wire.port.is_none());
        is_host(link) || is_host(link.reverse())
    }
    pub(crate) fn retire(&mut self, host: HostIx) {
        let facts = &mut self.hosts[host.ix()];
        if !std::mem::take(&mut facts.is_current) {
            return;
        }
        self.left.push(host);
        self.renamed.insert(host);
        let end = facts.known.end();
        if let Some(hosts) = self.at.get_mut(&end) {
            hosts.remove(&host);
            if hosts.is_empty() {
                self.at.remove(&end);
            }
        }
        self.alive[facts.uplink.ix()] = false;
        self.alive[facts.uplink.reverse().ix()] = false;
        if self.by_ipv4.get(&facts.known.ipv4.to_bits()) == Some(&host) {
            self.by_ipv4.remove(&facts.known.ipv4.to_bits());
        }
    }
    pub(crate) fn is_current(&self, host: HostIx) -> bool {
        self.host(host).is_some_and(|facts| facts.is_current)
    }

    /// Marks a directed link. Returns whether this changes it.
    pub(crate) fn set_alive(&mut self, link: LinkIx, is_alive: bool) -> bool {
        std::mem::replace(&mut self.alive[link.ix()], is_alive) != is_alive
    }
    /// Marks the links of hosts at a port. Returns whether this changes any.
    pub(crate) fn set_hosts_alive(&mut self, end: SwitchPort, is_alive: bool) -> bool {
        let uplinks: Vec<LinkIx> = self.hosts_at(end).map(|host| self.hosts[host.ix()].uplink).collect();
        let mut is_news = false;
        for link in uplinks {
            is_news |= self.set_alive(link, is_alive);
            is_news |= self.set_alive(link.reverse(), is_alive);
        }
        is_news
    }
}

/// Bounds a time: shorter ones are dominated by jitter, and longer ones would stop all migrations.
fn bounded(time: Time) -> Time {
    time.clamp(Time::from_ms(10), Time::from_s(10))
}

impl Config {
    /// Returns the roles of ports. Only hosts are at the ports of pinned hosts, unless their role is
    /// configured.
    pub(crate) fn port_roles_with_pins(&self) -> PortRoles {
        let mut roles = self.port_roles.clone();
        for host in self.hosts.iter().filter(|_| self.pins_hosts) {
            roles.listed.entry(host.end()).or_insert(PortRole::Host);
        }
        roles
    }
    pub(crate) fn capacity(&self, from: SwitchPort) -> Bandwidth {
        let known = self.capacities.get(&from).copied().unwrap_or(self.default_capacity);
        known.max(Bandwidth::from_bps(1)) // A link needs a positive rate; balancers divide by capacities.
    }
}

pub(crate) const CONTROLLER_MAC: MacAddr = MacAddr([0x02, 0xa7, 0xab, 0, 0, 1]);
