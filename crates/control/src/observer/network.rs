//! The known network: an append-only graph with numbers that never change their meaning.
//!
//! Switches, hosts and cables get a number when first seen; those that are gone are dead in
//! `alive`. A host seen at another port is a new one (its paths, edge switch and class differ), and
//! the old one is dead. The number of a host that has left is given to the next host at the same
//! port, when every component has processed the departure. For all but the users of addresses the
//! number means the port, and hosts that come and go must not fill the memory.

use std::collections::{BTreeMap, BTreeSet};

use core::net::Ipv4Addr;
use net::{Bandwidth, HostIx, LinkIx, Node, NodeIx, NodeKind, Routes, Tier, Time, Topology, TopologyBuilder};
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
    wires: Vec<DirectedLink>,
    links: BTreeMap<(SwitchPort, SwitchPort), LinkIx>,
    alive: Vec<bool>,
    pub(crate) topology: Topology,
    pub(crate) routes: Routes,
}

impl Network {
    /// Returns a network of the configured hosts and as many persisted ones as the limits allow.
    pub(crate) fn new(config: &Config) -> Network {
        let mut network = Network::empty();
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
        let routes = Routes::intact(&topology);
        Network {
            nodes: Vec::new(),
            switches: BTreeMap::new(),
            hosts: Vec::new(),
            by_ipv4: BTreeMap::new(),
            at: BTreeMap::new(),
            vacant: BTreeMap::new(),
            left: Vec::new(),
            configured: BTreeSet::new(),
            is_renamed: false,
            wires: Vec::new(),
            links: BTreeMap::new(),
            alive: Vec::new(),
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
    pub(crate) fn rate_of(&self, link: LinkIx) -> Option<Bandwidth> {
        Some(self.wires.get(link.ix())?.rate)
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
        let switch_links = self.links.values().filter(|link| self.is_alive(**link));
        let slowest = switch_links.map(|link| self.hop_time(*link)).max().unwrap_or(Time::ZERO);
        bounded(Time::from_ps(slowest.as_ps().saturating_mul(u64::from(hops))))
    }
    fn hop_time(&self, link: LinkIx) -> Time {
        let delay = self.topology.links().get(link.ix()).map_or(Time::ZERO, |link| link.delay);
        self.rate_of(link).map_or(delay, |rate| delay.saturating_add(rate.time_for(256 << 10)))
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
        self.wires.push(DirectedLink { from: a, to: b, port: Some(from.1), rate: config.capacity(from) });
        self.wires.push(DirectedLink { from: b, to: a, port: Some(to.1), rate: config.capacity(to) });
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
        host
    }

    fn new_place(&mut self, config: &Config, known: KnownHost) -> HostIx {
        let edge = self.add_switch(known.datapath);
        let (host, node) = (HostIx(self.hosts.len() as u32), NodeIx(self.nodes.len() as u32));
        let uplink = LinkIx(self.wires.len() as u32);
        let rate = config.capacity(known.end());
        self.nodes.push(Kind::Host(host));
        self.wires.push(DirectedLink { from: node, to: edge, port: None, rate });
        self.wires.push(DirectedLink { from: edge, to: node, port: Some(known.port), rate });
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

    /// Updates topology and routes after additions, marks and measurements.
    pub(crate) fn refresh(&mut self, latency: impl Fn(LinkIx) -> Time) {
        let is_larger =
            self.topology.nodes().len() != self.nodes.len() || self.topology.links().len() != self.wires.len();
        if is_larger || self.is_renamed {
            self.is_renamed = false;
            self.rebuild(latency);
        }
        self.routes = Routes::new(&self.topology, &self.alive);
    }

    fn rebuild(&mut self, latency: impl Fn(LinkIx) -> Time) {
        let tiers = self.tiers();
        let mut builder = TopologyBuilder::new("discovered");
        for (kind, tier) in self.nodes.iter().zip(tiers) {
            builder.add(match kind {
                Kind::Switch(datapath) => Node {
                    name: format!("{:016x}", datapath.0),
                    kind: NodeKind::Switch,
                    tier: Tier(tier),
                    forwards: true,
                    pod: None,
                    rack: None,
                },
                Kind::Host(host) => Node {
                    name: self.hosts[host.ix()].name(*host),
                    kind: NodeKind::Host,
                    tier: Tier(0),
                    forwards: false,
                    pod: None,
                    rack: Some(self.hosts[host.ix()].edge.0),
                },
            });
        }
        for (cable, pair) in self.wires.chunks_exact(2).enumerate() {
            let delay = latency(LinkIx(2 * cable as u32));
            builder.connect_asymmetric(pair[0].from, pair[0].to, pair[0].rate, pair[1].rate, delay);
        }
        let built = builder.build_partial();
        let built = built.expect("names are unique, capacities above zero, and no port leads to its own switch");
        // "The first of equal next hops" must not depend on which was found first.
        self.topology = built.with_out_links_by(|link| self.wires[link.ix()].port);
    }

    /// Sets the known latencies of links that differ by more than an eighth. Smaller differences
    /// are noise, and would invalidate cached paths.
    pub(crate) fn set_delays(&mut self, latency: impl Fn(LinkIx) -> Option<Time>) {
        let before = self.topology.links();
        let delays: Vec<Option<Time>> = (0..before.len())
            .map(|ix| {
                // Both directions of a cable have the latency of the first.
                let known = before[ix].delay;
                let measured = latency(LinkIx(ix as u32 & !1))?;
                let difference = measured.max(known).saturating_sub(measured.min(known));
                (difference > Time::from_ps(known.as_ps() / 8)).then_some(measured)
            })
            .collect();
        if delays.iter().any(Option::is_some) {
            let changed = self.topology.with_links_changed(|ix, link| {
                link.delay = delays[ix.ix()].unwrap_or(link.delay);
            });
            self.topology = changed;
        }
    }

    /// Returns the height of every node: hosts 0, switches the smallest number of cables to a host
    /// (1 if a network has no hosts).
    fn tiers(&self) -> Vec<u8> {
        let mut tier = vec![u8::MAX; self.nodes.len()];
        let mut queue: std::collections::VecDeque<NodeIx> = std::collections::VecDeque::new();
        for (node, kind) in (0u32..).map(NodeIx).zip(&self.nodes) {
            if matches!(kind, Kind::Host(_)) {
                tier[node.ix()] = 0;
                queue.push_back(node);
            }
        }
        let mut next: Vec<Vec<NodeIx>> = vec![Vec::new(); self.nodes.len()];
        for wire in &self.wires {
            next[wire.from.ix()].push(wire.to);
        }
        while let Some(node) = queue.pop_front() {
            for to in &next[node.ix()] {
                if tier[to.ix()] == u8::MAX {
                    tier[to.ix()] = tier[node.ix()].saturating_add(1).min(u8::MAX - 1);
                    queue.push_back(*to);
                }
            }
        }
        tier.into_iter().map(|tier| if tier == u8::MAX { 1 } else { tier }).collect()
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
