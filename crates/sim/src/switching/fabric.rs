//! Forwarding: compiled routing tables, and the balancers that pick among equal-cost next hops.

use std::sync::Arc;

use balance::{Build, Commands, Cx, NeighbourMessage, PacketView, Scale, Shared, Spec, SwitchBalancer, SwitchEnv};
use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, RandomStream, Routes, Time, Topology};
use prefetch_index::prefetch_index;

use crate::links::network::{Loss, Network};
use crate::links::port::serialisation_ps;
use crate::numbering::Numbering;
use crate::packet::{CONTROL, DATA, FRESH, NO_PATH, PRIORITY_SHIFT, Packet, RETRANSMIT};
use crate::queue::NIL;
use crate::scenario::{Scenario, TransportConfig};
use crate::switching::edges::Edges;
use crate::switching::tables::{Group, Tables, Target};

/// A switch that loses the pairs whose hash lies below a bound, perhaps between two racks only.
#[derive(Clone, Copy, Debug)]
struct Blackhole {
    node: u32,
    below: u64,
    racks: Option<(u32, u32)>,
}

pub(crate) struct Fabric {
    pub(crate) numbering: Arc<Numbering>,
    /// First node with a table row: hosts with one link never forward.
    first_row: u32,
    tables: Arc<Tables>,
    /// Tables of the intact network for ranked paths, once they differ; with edge balancers.
    intact: Option<Arc<Tables>>,
    pub(crate) intact_routes: Arc<Routes>,
    link_ends: Arc<[NodeIx]>,
    /// Link from the class node down to each host, or [`NIL`].
    last_link: Arc<[u32]>,
    pub(crate) host_class: Arc<[u32]>,
    /// The only link of each single-homed host, or [`NIL`].
    pub(crate) uplink: Arc<[u32]>,
    /// The balancer and the random stream of each node with a table row.
    balancers: Vec<Option<Box<dyn SwitchBalancer>>>,
    random: Vec<RandomStream>,
    /// Command list passed to choices of switches, which issue none.
    no_commands: Commands,
    /// Whether switches send messages to neighbours and set timers.
    pub(crate) has_messages: bool,
    pub(crate) edges: Edges,
    pub(crate) wants_weights: bool,
    blackholes: Vec<Blackhole>,
    host_rack: Arc<[Option<u32>]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hop {
    Link(u32),
    Drop(Loss),
    Consumed,
    Held,
}

impl Fabric {
    /// Makes a fabric without balancers and tables.
    pub(crate) fn new(scenario: &Scenario<'_>, routes: Arc<Routes>) -> Fabric {
        let topology = scenario.topology;
        let numbering = Arc::new(Numbering::new(topology));
        let hosts = numbering.host_count as usize;
        let host_ix = |host: usize| HostIx(host as u32);
        let host_class: Arc<[u32]> = (0..hosts).map(|h| routes.class_of(host_ix(h)).0).collect();
        let last_link: Arc<[u32]> = (0..hosts).map(|h| routes.last_link(host_ix(h)).map_or(NIL, |l| l.0)).collect();
        let uplink: Arc<[u32]> = last_link.iter().map(|l| if *l == NIL { NIL } else { *l ^ 1 }).collect();
        let first_row = if uplink.contains(&NIL) { 0 } else { hosts as u32 };
        Fabric {
            first_row,
            tables: Arc::default(),
            intact: None,
            link_ends: topology.links().iter().map(|link| link.to).collect(),
            last_link,
            host_class,
            uplink,
            balancers: Vec::new(),
            random: Vec::new(),
            no_commands: Commands::default(),
            has_messages: false,
            edges: Edges::default(),
            wants_weights: false,
            blackholes: Vec::new(),
            host_rack: topology.hosts().iter().map(|host| topology.node(*host).rack).collect(),
            numbering,
            intact_routes: routes,
        }
    }

    /// Makes a fabric with balancers and tables, for a run without partitions.
    pub(crate) fn whole(scenario: &Scenario<'_>, routes: Arc<Routes>, scale: Scale) -> Fabric {
        let mut fabric = Fabric::new(scenario, routes);
        fabric.install(scenario, scale, &Shared::default(), |_| true);
        fabric.tables = fabric.compile_intact(scenario.topology);
        fabric
    }

    /// Returns a fabric for another partition, without balancers and tables.
    pub(crate) fn share(&self) -> Fabric {
        Fabric {
            numbering: Arc::clone(&self.numbering),
            tables: Arc::default(),
            intact: None,
            intact_routes: Arc::clone(&self.intact_routes),
            link_ends: Arc::clone(&self.link_ends),
            last_link: Arc::clone(&self.last_link),
            host_class: Arc::clone(&self.host_class),
            uplink: Arc::clone(&self.uplink),
            balancers: Vec::new(),
            random: Vec::new(),
            no_commands: Commands::default(),
            edges: Edges::default(),
            blackholes: Vec::new(),
            host_rack: Arc::clone(&self.host_rack),
            ..*self
        }
    }

    /// Installs the balancers of the nodes that `is_local`. Edges of all partitions share `shared`.
    /// With a controller switches forward by rules, and only the numbering of the fabric is used.
    pub(crate) fn install(
        &mut self,
        scenario: &Scenario<'_>,
        scale: Scale,
        shared: &Shared,
        is_local: impl Fn(u32) -> bool,
    ) {
        if let Build::Central(_) | Build::Server(_) = scenario.balancer.entry.build {
            return;
        }
        let Scenario { topology, balancer: spec, seed, .. } = *scenario;
        // Plain ECMP replaces dead paths of edges, and serves host balancers.
        let fallback = Spec::parse("ecmp").expect("ecmp is registered");
        let (switch_build, switch_params) = match (spec.entry.build, fallback.entry.build) {
            (Build::Switch(build), _) => (build, &spec.params),
            (Build::Bound(_), _) => unreachable!("bounds are computed without a fabric"),
            (_, Build::Switch(build)) => (build, &fallback.params),
            _ => unreachable!("ecmp is a switch mechanism"),
        };
        for number in self.first_row..self.numbering.to_topology.len() as u32 {
            let node = self.numbering.to_topology[number as usize];
            let info = topology.node(node);
            let rng = RandomStream::new(seed, &format!("switch {}", info.name));
            let balancer = is_local(number).then(|| {
                let routes = &*self.intact_routes;
                let class_count = routes.class_count();
                let (name, tier) = (&*info.name, info.tier);
                let env = SwitchEnv { seed, switch: node, name, tier, class_count, topology, routes, scale };
                switch_build(&env, switch_params)
            });
            self.wants_weights |= balancer.as_ref().is_some_and(|b| b.needs_weights());
            self.balancers.push(balancer);
            self.random.push(rng);
        }
        self.install_edges(scenario, scale, shared, is_local);
    }

    fn compile(&self, topology: &Topology, routes: &Routes) -> Tables {
        let nodes = &self.numbering.to_topology[self.first_row as usize..];
        Tables::compile(topology, routes, nodes, self.wants_weights)
    }

    /// Compiles the tables of the intact network, after the balancers have been installed.
    pub(crate) fn compile_intact(&self, topology: &Topology) -> Arc<Tables> {
        let has_tables = !self.balancers.is_empty();
        Arc::new(if has_tables { self.compile(topology, &self.intact_routes) } else { Tables::default() })
    }

    /// Compiles the tables for a network whose links are `alive` or not.
    pub(crate) fn compile_for(&self, topology: &Topology, alive: &[bool]) -> Arc<Tables> {
        Arc::new(self.compile(topology, &Routes::new(topology, alive)))
    }

    pub(crate) fn use_tables(&mut self, tables: &Arc<Tables>) {
        self.tables = Arc::clone(tables);
    }

    pub(crate) fn reroute(&mut self, tables: &Arc<Tables>, topology: &Topology, alive: &[bool]) {
        let old = std::mem::replace(&mut self.tables, Arc::clone(tables));
        if !self.edges.is_used() {
            return;
        }
        self.intact.get_or_insert(old);
        self.update_edges(topology, alive);
    }

    pub(crate) fn set_blackhole(&mut self, node: u32, fraction: Option<f64>, racks: Option<(u32, u32)>) {
        self.blackholes.retain(|hole| hole.node != node || hole.racks != racks);
        if let Some(fraction) = fraction {
            self.blackholes.push(Blackhole { node, below: (fraction * u64::MAX as f64) as u64, racks });
        }
    }

    #[inline(always)]
    pub(crate) fn route(&mut self, network: &mut Network, node: u32, ix: u32) -> Hop {
        if self.has_messages && network.arena.get(ix).is(CONTROL) {
            self.take_message(network, node, ix);
            return Hop::Consumed;
        }
        if self.is_lost_silently(node, network.arena.get(ix)) {
            return Hop::Drop(Loss::Blackhole);
        }
        let packet = network.arena.get_mut(ix);
        if packet.flags & FRESH != 0 {
            packet.flags &= !FRESH;
            if self.edges.is_used() {
                if self.edges.takes_gap_reports() && self.takes_gap_report(network, node, ix) {
                    return Hop::Consumed;
                }
                self.enter(network, node, ix);
            }
        }
        let packet = network.arena.get_mut(ix);
        let class = u32::from(packet.class);
        let (row, column) = (node - self.first_row, class as usize);
        if self.has_chosen_path(packet) {
            let tables = self.intact.as_ref().unwrap_or(&self.tables);
            match tables.get(row, column) {
                Target::Link(link) => return Hop::Link(link),
                Target::Group(group) => return Hop::Link(self.follow(&mut packet.rank, tables, group, ClassIx(class))),
                _ => {}
            }
        }
        match self.tables.get(row, column) {
            Target::Link(link) => Hop::Link(link),
            Target::Group(group) => {
                let packet = view(packet);
                self.choose(network, node, &packet, group).map_or(Hop::Drop(Loss::NoRoute), Hop::Link)
            }
            Target::Local => {
                let dst = packet.dst;
                if self.edges.is_used()
                    && let Some(hop) = self.leave(network, node, ix)
                {
                    return hop;
                }
                self.last_hop(dst)
            }
            Target::Nothing => Hop::Drop(Loss::NoRoute),
        }
    }

    /// Loads into the caches where a route is, and the balancer of the node.
    #[inline]
    pub(crate) fn prefetch_index(&self, node: u32, class: u16) {
        let row = node.wrapping_sub(self.first_row);
        self.tables.prefetch_index(row, usize::from(class));
        prefetch_index(&self.balancers, row as usize);
    }

    /// Loads a route into the caches.
    #[inline]
    pub(crate) fn prefetch(&self, node: u32, class: u16) {
        self.tables.prefetch_block(node.wrapping_sub(self.first_row), usize::from(class));
    }

    /// Returns the next hop that a packet which is about to arrive will probably take.
    #[inline]
    pub(crate) fn foresee(&self, node: u32, packet: &Packet) -> Option<u32> {
        let row = node.wrapping_sub(self.first_row);
        match self.tables.find(row, usize::from(packet.class))? {
            Target::Link(link) => Some(link),
            Target::Group(group) => {
                if self.has_chosen_path(packet) {
                    let class = ClassIx(u32::from(packet.class));
                    return Some(self.follow(&mut { packet.rank }, &self.tables, group, class));
                }
                let members = self.tables.next_hops(group);
                let choice = self.balancers[row as usize].as_ref()?.foresee(&view(packet), members)?;
                members.links.get(choice).map(|link| link.0)
            }
            Target::Local => self.last_link.get(packet.dst as usize).copied(),
            Target::Nothing => None,
        }
    }

    #[inline]
    pub(crate) fn has_route(&self, node: u32, class: ClassIx) -> bool {
        self.tables.has_route(node - self.first_row, class.0 as usize)
    }

    /// Lets the balancer of a switch choose a link of a group; `None` for a node without a balancer.
    #[inline]
    fn choose(&mut self, network: &Network, node: u32, packet: &PacketView, group: Group) -> Option<u32> {
        let row = (node - self.first_row) as usize;
        let balancer = self.balancers[row].as_mut()?;
        let (rng, commands) = (&mut self.random[row], &mut self.no_commands);
        let mut cx = Cx { now: Time::from_ps(network.now), rng, ports: network, commands };
        let members = self.tables.next_hops(group);
        Some(members.links[balancer.choose(&mut cx, packet, members)].0)
    }

    /// Calls the balancer of a switch that may issue commands; the caller runs them.
    pub(crate) fn with_switch(
        &mut self,
        network: &Network,
        node: u32,
        f: impl FnOnce(&mut dyn SwitchBalancer, &mut Cx<'_>),
    ) {
        let Some(row) = node.checked_sub(self.first_row) else { return };
        let Some(Some(balancer)) = self.balancers.get_mut(row as usize) else { return };
        let (rng, commands) = (&mut self.random[row as usize], &mut self.edges.commands);
        let mut cx = Cx { now: Time::from_ps(network.now), rng, ports: network, commands };
        self.edges.issuer = node;
        f(balancer.as_mut(), &mut cx);
    }

    /// Lets a switch set its first timers; the caller runs its commands. False after the last.
    pub(crate) fn start_switch(&mut self, network: &Network, row: usize) -> bool {
        if !self.has_messages || row >= self.balancers.len() {
            return false;
        }
        self.with_switch(network, self.first_row + row as u32, |switch, cx| switch.on_start(cx));
        true
    }

    #[inline(never)]
    fn take_message(&mut self, network: &Network, node: u32, ix: u32) {
        let packet = network.arena.get(ix);
        let words = [packet.hash, u64::from(packet.seq) | u64::from(packet.rank) << 32];
        let message = NeighbourMessage { link: LinkIx(packet.sent), words, bytes: packet.bytes };
        self.with_switch(network, node, |switch, cx| switch.on_message(cx, &message));
    }

    /// Returns the link on which `node` would send data with this hash, if its balancer has a
    /// choice. Only for balancers that merely hash: others would count the call as a packet.
    pub(crate) fn first_hop(
        &mut self,
        network: &Network,
        node: u32,
        src: HostIx,
        dst: HostIx,
        hash: u64,
    ) -> Option<u32> {
        let to = ClassIx(self.host_class[dst.ix()]);
        let Target::Group(group) = self.tables.get(node - self.first_row, to.0 as usize) else { return None };
        let (src, dst, class) = (src.0, dst.0, to.0 as u16);
        let packet = Packet { flow: 0, hash, bytes: 1500, src, dst, class, flags: DATA, ..Packet::BLANK };
        self.choose(network, node, &view(&packet), group)
    }

    #[inline]
    pub(crate) fn last_hop(&self, dst: u32) -> Hop {
        match self.last_link[dst as usize] {
            NIL => Hop::Drop(Loss::NoRoute),
            link => Hop::Link(link),
        }
    }

    /// Returns whether an edge chose the path of a packet. Other packets may have an entropy value there.
    #[inline(always)]
    fn has_chosen_path(&self, packet: &Packet) -> bool {
        self.edges.is_used() && packet.path != NO_PATH
    }

    #[inline(always)]
    fn follow(&self, rank: &mut u32, tables: &Tables, group: Group, class: ClassIx) -> u32 {
        let links = tables.links(group);
        let each = tables.paths_beyond_each(group);
        if let Some(member) = rank.checked_div(each) {
            *rank -= member * each;
            return links[(member as usize).min(links.len() - 1)].0;
        }
        for link in links {
            let beyond = self.intact_routes.path_count(self.link_ends[link.ix()], class);
            if *rank < beyond {
                return link.0;
            }
            *rank -= beyond;
        }
        links[0].0
    }

    #[inline]
    pub(crate) fn is_lost_silently(&self, node: u32, packet: &Packet) -> bool {
        !self.blackholes.is_empty() && self.is_blackholed(node, packet)
    }

    fn is_blackholed(&self, node: u32, packet: &Packet) -> bool {
        let pair = u64::from(packet.src) << 32 | u64::from(packet.dst);
        let is_lost =
            |hole: &&Blackhole| hole.node == node && balance::hash::mix(pair ^ u64::from(node) << 20) < hole.below;
        let rack = |host: u32| self.host_rack[host as usize];
        self.blackholes.iter().filter(is_lost).any(|hole| {
            hole.racks.is_none_or(|(from, to)| (rack(packet.src), rack(packet.dst)) == (Some(from), Some(to)))
        })
    }
}

/// Returns the packet of a message to a neighbour: it has no hosts, and is not routed.
pub(crate) fn message_packet(message: &NeighbourMessage) -> Packet {
    Packet {
        hash: message.words[0],
        seq: message.words[1] as u32,
        rank: (message.words[1] >> 32) as u32,
        // The receiver gets the link instead of a time stamp.
        sent: message.link.0,
        bytes: message.bytes.max(1),
        flags: CONTROL,
        ..Packet::BLANK
    }
}

#[inline]
pub(crate) fn view(packet: &Packet) -> PacketView {
    PacketView {
        flow: packet.flow,
        hash: packet.hash,
        bytes: u32::from(packet.bytes),
        src: HostIx(packet.src),
        dst: HostIx(packet.dst),
        to: ClassIx(u32::from(packet.class)),
        seq: packet.seq,
        is_data: packet.flags & DATA != 0,
        is_retransmission: packet.flags & RETRANSMIT != 0,
        priority: (packet.flags >> PRIORITY_SHIFT) as u8,
        subflow: packet.rank as u8,
    }
}

/// Returns the empty-network round-trip time from an edge to a host of class `to` and back to the
/// edge: a full packet out, an ACK back. The host is the first one of the class.
pub(crate) fn edge_rtt(topology: &Topology, routes: &Routes, edge: NodeIx, to: ClassIx, t: &TransportConfig) -> u64 {
    let mut links = routes.path(topology, edge, to, 0);
    let is_of_class = |host: &usize| routes.class_of(HostIx(*host as u32)) == to;
    let host = (0..topology.hosts().len()).find(is_of_class).map(|host| HostIx(host as u32));
    links.extend(host.and_then(|host| routes.last_link(host)));
    round_trip(topology, &links, t)
}

/// Returns the time of a full packet along `links` and an ACK back without queueing, picoseconds.
pub(crate) fn round_trip(topology: &Topology, links: &[LinkIx], transport: &TransportConfig) -> u64 {
    let one_way = |link: LinkIx, bytes: u32| {
        let link = topology.link(link);
        serialisation_ps(u64::from(bytes), link.rate.as_bps()) + link.delay.as_ps()
    };
    links.iter().map(|l| one_way(*l, transport.packet_bytes()) + one_way(l.reverse(), transport.ack_bytes)).sum()
}
