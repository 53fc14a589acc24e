//! Where packets go: routing tables compiled for speed, and the balancers that pick among equal-cost hops.

use std::rc::Rc;

use balance::{
    Build, Cx, EdgeBalancer, EdgeEnv, Members, PacketView, PathFeedback, Paths, Spec, SwitchBalancer, SwitchEnv,
};
use net::routes::ClassIx;
use net::{Bandwidth, HostIx, LinkIx, NodeIx, Routes, Stream, Time, Topology};

use crate::network::{Network, Telemetry, serialisation_ps};
use crate::packet::{ACK, DATA, FRESH, NO_PATH, Packet, since, stamp};
use crate::queue::NIL;
use crate::scenario::TransportConfig;

/// Node numbers of the engine: hosts 0..H as in the topology's host list, then switches in its order.
#[derive(Clone, Debug)]
pub(crate) struct Numbering {
    pub(crate) host_count: u32,
    to_engine: Vec<u32>,
    pub(crate) to_topology: Vec<NodeIx>,
}

impl Numbering {
    pub(crate) fn new(topology: &Topology) -> Numbering {
        let host_count = topology.hosts().len() as u32;
        let mut to_engine = vec![NIL; topology.nodes().len()];
        let mut to_topology: Vec<NodeIx> = topology.hosts().to_vec();
        for (host, node) in topology.hosts().iter().enumerate() {
            to_engine[node.ix()] = host as u32;
        }
        for (node, number) in to_engine.iter_mut().enumerate() {
            if *number == NIL {
                *number = to_topology.len() as u32;
                to_topology.push(NodeIx(node as u32));
            }
        }
        Numbering { host_count, to_engine, to_topology }
    }

    pub(crate) fn of(&self, node: NodeIx) -> u32 {
        self.to_engine[node.ix()]
    }
}

/// Table entry for (node, class): one link, a group, the class node itself, or nothing.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Link, or group number, by `kind` in the top two bits.
    target: u32,
    /// Paths beyond each member if that is the same for all, else 0. For ranked paths.
    each: u32,
}

const KIND: u32 = 3 << 30;
const LINK: u32 = 0;
const GROUP: u32 = 1 << 30;
const LOCAL: u32 = 2 << 30;
const NOTHING: u32 = 3 << 30;

#[derive(Clone, Debug, Default)]
struct Group {
    links: Vec<LinkIx>,
    weights: Vec<u32>,
}

/// What one node decides with.
struct Decider {
    balancer: Option<Box<dyn SwitchBalancer>>,
    rng: Stream,
}

struct Edge {
    balancer: Box<dyn EdgeBalancer>,
    rng: Stream,
    /// Paths believed alive per class; `None` while all are.
    live: Vec<Option<Box<[u16]>>>,
    /// Paths per class on the intact network.
    counts: Vec<u16>,
}

/// Paths a flow uses now, and how often its data changed path.
#[derive(Clone, Copy)]
struct FlowPaths {
    data: u16,
    ack: u16,
    changes: u32,
}

/// Routing and balancing of the whole network.
pub(crate) struct Fabric {
    numbering: Numbering,
    class_count: usize,
    /// Nodes before this have no row: hosts with one link never forward.
    first_row: u32,
    /// Tables over links believed alive.
    table: Vec<Entry>,
    groups: Vec<Group>,
    /// Tables of the intact network, for ranked paths; only with edge balancers and only once they differ.
    intact: Option<(Vec<Entry>, Vec<Group>)>,
    intact_routes: Rc<Routes>,
    /// Far end of every link.
    link_ends: Vec<NodeIx>,
    /// Link from the class node down to each host, or [`NIL`].
    last_link: Vec<u32>,
    pub(crate) host_class: Vec<u32>,
    /// The only link of each single-homed host, or [`NIL`].
    pub(crate) uplink: Vec<u32>,
    deciders: Vec<Decider>,
    edges: Vec<Option<Edge>>,
    has_edges: bool,
    wants_weights: bool,
    /// 0, 1, 2, …: the live list of an intact pair.
    all_paths: Vec<u16>,
    /// Paths of each flow slot.
    current: Vec<FlowPaths>,
    /// Switches that lose a share of pairs: (node, threshold on the pair's hash).
    blackholes: Vec<(u32, u64)>,
}

/// Where a packet goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hop {
    Link(u32),
    NoRoute,
    Blackhole,
}

impl Fabric {
    /// `routes` are those of the intact topology.
    pub(crate) fn new(
        topology: &Topology,
        routes: Rc<Routes>,
        spec: &Spec,
        seed: u64,
        transport: &TransportConfig,
    ) -> Fabric {
        let numbering = Numbering::new(topology);
        let hosts = numbering.host_count as usize;
        let host_ix = |host: usize| HostIx(host as u32);
        let host_class: Vec<u32> = (0..hosts).map(|h| routes.class_of(host_ix(h)).0).collect();
        let last_link: Vec<u32> = (0..hosts).map(|h| routes.last_link(host_ix(h)).map_or(NIL, |l| l.0)).collect();
        let uplink: Vec<u32> = last_link.iter().map(|l| if *l == NIL { NIL } else { *l ^ 1 }).collect();
        let first_row = if uplink.contains(&NIL) { 0 } else { hosts as u32 };
        let mut fabric = Fabric {
            class_count: routes.class_count(),
            first_row,
            table: Vec::new(),
            groups: Vec::new(),
            intact: None,
            link_ends: topology.links().iter().map(|link| link.to).collect(),
            last_link,
            host_class,
            uplink,
            deciders: Vec::new(),
            edges: Vec::new(),
            has_edges: false,
            wants_weights: false,
            all_paths: Vec::new(),
            current: Vec::new(),
            blackholes: Vec::new(),
            numbering,
            intact_routes: routes,
        };
        fabric.install(topology, spec, seed, transport);
        (fabric.table, fabric.groups) = fabric.compile(topology, &fabric.intact_routes);
        fabric
    }

    /// Makes the balancer instances.
    fn install(&mut self, topology: &Topology, spec: &Spec, seed: u64, transport: &TransportConfig) {
        // Edge mechanisms decide the whole path; where that path is gone, plain ECMP takes over.
        let fallback = Spec::parse("ecmp").expect("ecmp is registered");
        let (switch_build, switch_params) = match (spec.entry.build, fallback.entry.build) {
            (Build::Switch(build), _) => (build, &spec.params),
            (Build::Edge(_), Build::Switch(build)) => (build, &fallback.params),
            (Build::Edge(_), Build::Edge(_)) => unreachable!("ecmp is a switch mechanism"),
        };
        for number in 0..self.numbering.to_topology.len() as u32 {
            let node = self.numbering.to_topology[number as usize];
            let info = topology.node(node);
            let rng = Stream::new(seed, &format!("switch {}", info.name));
            let balancer = (number >= self.first_row).then(|| {
                let env =
                    SwitchEnv { seed, switch: node, name: &info.name, tier: info.tier, class_count: self.class_count };
                switch_build(&env, switch_params)
            });
            self.wants_weights |= balancer.as_ref().is_some_and(|b| b.wants_weights());
            self.deciders.push(Decider { balancer, rng });
        }
        self.edges = (0..self.deciders.len()).map(|_| None).collect();
        if let Build::Edge(build) = spec.entry.build {
            self.has_edges = true;
            self.install_edges(topology, seed, transport, &|env| build(env, &spec.params));
        }
    }

    fn install_edges(
        &mut self,
        topology: &Topology,
        seed: u64,
        transport: &TransportConfig,
        build: &dyn Fn(&EdgeEnv<'_>) -> Box<dyn EdgeBalancer>,
    ) {
        let routes = &self.intact_routes;
        let mut most = 0;
        for class in 0..self.class_count {
            let node = routes.class_node(ClassIx(class as u32));
            let each =
                |f: &dyn Fn(ClassIx) -> u64| (0..self.class_count as u32).map(|c| f(ClassIx(c))).collect::<Vec<_>>();
            let counts: Vec<u16> = each(&|to| u64::from(routes.path_count(node, to)).min(u64::from(NO_PATH) - 1))
                .into_iter()
                .map(|count| count as u16)
                .collect();
            let base_rtt: Vec<Time> =
                each(&|to| edge_rtt(topology, routes, node, to, transport)).into_iter().map(Time::from_ps).collect();
            let env = EdgeEnv { seed, edge: node, path_counts: &counts, base_rtt: &base_rtt };
            most = most.max(counts.iter().copied().max().unwrap_or(0));
            let rng = Stream::new(seed, &format!("edge {}", topology.node(node).name));
            let live = vec![None; self.class_count];
            let edge = Edge { balancer: build(&env), rng, live, counts };
            self.edges[self.numbering.of(node) as usize] = Some(edge);
        }
        self.all_paths = (0..most).collect();
    }

    /// Tables of next hops over the links that are alive.
    fn compile(&self, topology: &Topology, routes: &Routes) -> (Vec<Entry>, Vec<Group>) {
        let rows = self.numbering.to_topology.len() - self.first_row as usize;
        let mut table = vec![Entry { target: NOTHING, each: 0 }; rows * self.class_count];
        let mut groups: Vec<Group> = Vec::new();
        let mut known = std::collections::BTreeMap::new();
        for class in 0..self.class_count {
            let ix = ClassIx(class as u32);
            let capacity = if self.wants_weights { routes.capacities(topology, ix) } else { Vec::new() };
            for row in 0..rows {
                let node = self.numbering.to_topology[row + self.first_row as usize];
                let hops = routes.next_hops(node, ix);
                let target = match hops {
                    _ if node == routes.class_node(ix) => LOCAL,
                    [] => NOTHING,
                    [only] => LINK | only.0,
                    _ => {
                        let weights = hop_weights(topology, &capacity, hops);
                        let key = (hops.to_vec(), weights.clone());
                        GROUP
                            | *known.entry(key).or_insert_with(|| {
                                groups.push(Group { links: hops.to_vec(), weights });
                                groups.len() as u32 - 1
                            })
                    }
                };
                let beyond = |link: &LinkIx| routes.path_count(topology.link(*link).to, ix);
                let each = match hops.first().map(beyond) {
                    Some(first) if hops.iter().all(|link| beyond(link) == first) => first,
                    _ => 0,
                };
                table[row * self.class_count + class] = Entry { target, each };
            }
        }
        (table, groups)
    }

    /// Routing has noticed which links are alive: new tables, new live paths.
    pub(crate) fn reroute(&mut self, topology: &Topology, alive: &[bool]) {
        let routes = Routes::new(topology, alive);
        let (table, groups) = self.compile(topology, &routes);
        let old = (std::mem::replace(&mut self.table, table), std::mem::replace(&mut self.groups, groups));
        if !self.has_edges {
            return;
        }
        self.intact.get_or_insert(old);
        let intact = &self.intact_routes;
        for edge_class in 0..self.class_count {
            let node = intact.class_node(ClassIx(edge_class as u32));
            let Some(edge) = &mut self.edges[self.numbering.of(node) as usize] else { continue };
            for class in 0..self.class_count {
                let to = ClassIx(class as u32);
                let is_live =
                    |path: &u16| intact.path(topology, node, to, u32::from(*path)).iter().all(|link| alive[link.ix()]);
                let live: Vec<u16> = (0..edge.counts[class]).filter(is_live).collect();
                edge.live[class] = (live.len() != usize::from(edge.counts[class])).then(|| live.into());
            }
        }
    }

    pub(crate) fn numbering(&self) -> &Numbering {
        &self.numbering
    }

    /// A new flow takes a slot.
    pub(crate) fn forget_paths(&mut self, slot: u32) {
        let none = FlowPaths { data: NO_PATH, ack: NO_PATH, changes: 0 };
        if self.current.len() <= slot as usize {
            self.current.resize(slot as usize + 1, none);
        }
        self.current[slot as usize] = none;
    }

    /// How often the data of a flow changed path.
    pub(crate) fn path_changes(&self, slot: u32) -> u32 {
        self.current[slot as usize].changes
    }

    pub(crate) fn set_blackhole(&mut self, node: u32, fraction: Option<f64>) {
        self.blackholes.retain(|(n, _)| *n != node);
        if let Some(fraction) = fraction {
            self.blackholes.push((node, (fraction * u64::MAX as f64) as u64));
        }
    }

    /// Decides the next link of a packet at `node`.
    #[inline]
    pub(crate) fn route(&mut self, network: &mut Network, node: u32, ix: u32) -> Hop {
        let packet = network.arena.get_mut(ix);
        if !self.blackholes.is_empty() && self.is_blackholed(node, packet) {
            return Hop::Blackhole;
        }
        let class = packet.class;
        if packet.flags & FRESH != 0 {
            packet.flags &= !FRESH;
            if self.has_edges {
                self.enter(network, node, ix);
            }
        }
        let packet = network.arena.get_mut(ix);
        let at = (node - self.first_row) as usize * self.class_count + class as usize;
        if packet.path != NO_PATH {
            let (table, groups) = self.intact.as_ref().map_or((&self.table, &self.groups), |(t, g)| (t, g));
            let entry = table[at];
            match entry.target & KIND {
                LINK => return Hop::Link(entry.target),
                GROUP => {
                    let group = &groups[(entry.target & !KIND) as usize];
                    return Hop::Link(self.follow(packet, entry, group, ClassIx(class)));
                }
                _ => {}
            }
        }
        let entry = self.table[at];
        match entry.target & KIND {
            LINK => Hop::Link(entry.target),
            GROUP => Hop::Link(self.balance(network, node, ix, entry.target & !KIND)),
            LOCAL => {
                if packet.flags & ACK != 0 && packet.echo_path != NO_PATH {
                    self.feed_back(network.now, node, packet);
                }
                match self.last_link[packet.dst as usize] {
                    NIL => Hop::NoRoute,
                    link => Hop::Link(link),
                }
            }
            _ => Hop::NoRoute,
        }
    }

    /// Asks the switch's balancer.
    #[inline]
    fn balance(&mut self, network: &Network, node: u32, ix: u32, group: u32) -> u32 {
        let Decider { balancer, rng } = &mut self.deciders[node as usize];
        let group = &self.groups[group as usize];
        let telemetry = Telemetry { now: network.now, arena: &network.arena, ports: &network.ports };
        let mut cx = Cx { now: Time::from_ps(network.now), rng, ports: &telemetry };
        let view = view(network.arena.get(ix));
        let members = Members { links: &group.links, weights: &group.weights };
        let choice = balancer.as_mut().map_or(0, |balancer| balancer.choose(&mut cx, &view, members));
        group.links[choice].0
    }

    /// A packet enters the fabric: its edge picks a path.
    fn enter(&mut self, network: &mut Network, node: u32, ix: u32) {
        let Some(edge) = &mut self.edges[node as usize] else { return };
        let packet = network.arena.get(ix);
        let class = packet.class as usize;
        let count = usize::from(edge.counts[class]);
        let live: &[u16] = edge.live[class].as_deref().unwrap_or(&self.all_paths[..count]);
        if count < 2 || live.is_empty() {
            return;
        }
        let is_data = packet.flags & DATA != 0;
        let flow = &mut self.current[packet.flow as usize];
        let current = if is_data { &mut flow.data } else { &mut flow.ack };
        let is_intact = edge.live[class].is_none();
        let is_live = |path: &u16| if is_intact { usize::from(*path) < count } else { live.contains(path) };
        let paths = Paths { live, current: Some(*current).filter(is_live) };
        let telemetry = Telemetry { now: network.now, arena: &network.arena, ports: &network.ports };
        let mut cx = Cx { now: Time::from_ps(network.now), rng: &mut edge.rng, ports: &telemetry };
        let path = edge.balancer.choose_path(&mut cx, &view(packet), paths);
        let old = std::mem::replace(current, path);
        flow.changes += u32::from(is_data && old != path && old != NO_PATH);
        let now = network.now;
        let packet = network.arena.get_mut(ix);
        packet.path = path;
        packet.rank = u32::from(path);
        if is_data {
            packet.edge = stamp(now);
        }
    }

    /// The member that carries the packet's ranked path on; updates its rank.
    #[inline]
    fn follow(&self, packet: &mut Packet, entry: Entry, group: &Group, class: ClassIx) -> u32 {
        if let Some(member) = packet.rank.checked_div(entry.each) {
            packet.rank -= member * entry.each;
            return group.links[(member as usize).min(group.links.len() - 1)].0;
        }
        for link in &group.links {
            let beyond = self.intact_routes.path_count(self.far_end(*link), class);
            if packet.rank < beyond {
                return link.0;
            }
            packet.rank -= beyond;
        }
        group.links[0].0
    }

    fn far_end(&self, link: LinkIx) -> NodeIx {
        self.link_ends[link.ix()]
    }

    fn feed_back(&mut self, now: u64, node: u32, packet: &Packet) {
        // The data packet went to where the ACK comes from.
        let to = ClassIx(self.host_class[packet.src as usize]);
        if let Some(edge) = &mut self.edges[node as usize] {
            let rtt = Time::from_ps(since(packet.edge, now));
            let marked = packet.flags & crate::packet::CE != 0;
            edge.balancer.on_feedback(
                Time::from_ps(now),
                &PathFeedback { flow: packet.flow, to, path: packet.echo_path, rtt, marked },
            );
        }
    }

    /// An ACK reached a host that is its own edge (multi-homed servers).
    pub(crate) fn feed_back_at_host(&mut self, now: u64, packet: &Packet) {
        if self.has_edges && packet.echo_path != NO_PATH && self.uplink[packet.dst as usize] == NIL {
            self.feed_back(now, packet.dst, packet);
        }
    }

    fn is_blackholed(&self, node: u32, packet: &Packet) -> bool {
        let pair = u64::from(packet.src) << 32 | u64::from(packet.dst);
        self.blackholes.iter().any(|(n, below)| *n == node && balance::hash::mix(pair ^ u64::from(node) << 20) < *below)
    }
}

#[inline]
fn view(packet: &Packet) -> PacketView {
    PacketView {
        flow: packet.flow,
        hash: packet.hash,
        bytes: u32::from(packet.bytes),
        src: HostIx(packet.src),
        dst: HostIx(packet.dst),
        to: ClassIx(packet.class),
        is_data: packet.flags & DATA != 0,
    }
}

/// Weights of next hops in proportion to capacity, scaled to at most 2^16 in all; empty without capacities.
fn hop_weights(topology: &Topology, capacity: &[Bandwidth], hops: &[LinkIx]) -> Vec<u32> {
    if capacity.is_empty() {
        return Vec::new();
    }
    let through = |link: &LinkIx| {
        let link = topology.link(*link);
        link.rate.min(capacity[link.to.ix()]).as_bps()
    };
    let total: u64 = hops.iter().map(through).fold(0, u64::saturating_add).max(1);
    hops.iter().map(|link| (u128::from(through(link)) * 65_536 / u128::from(total)).max(1) as u32).collect()
}

/// Empty-network round-trip time from an edge to a host of class `to` and back to the edge: a full packet
/// out, an ACK home. The host behind `to` is its first one.
fn edge_rtt(topology: &Topology, routes: &Routes, edge: NodeIx, to: ClassIx, transport: &TransportConfig) -> u64 {
    let mut links = routes.path(topology, edge, to, 0);
    let is_of_class = |host: &usize| routes.class_of(HostIx(*host as u32)) == to;
    let host = (0..topology.hosts().len()).find(is_of_class).map(|host| HostIx(host as u32));
    links.extend(host.and_then(|host| routes.last_link(host)));
    round_trip(topology, &links, transport)
}

/// A full data packet along `links` and an ACK back, without queueing, picoseconds.
pub(crate) fn round_trip(topology: &Topology, links: &[LinkIx], transport: &TransportConfig) -> u64 {
    let one_way = |link: LinkIx, bytes: u32| {
        let link = topology.link(link);
        serialisation_ps(u64::from(bytes), link.rate.as_bps()) + link.delay.as_ps()
    };
    links.iter().map(|l| one_way(*l, transport.packet_bytes()) + one_way(l.reverse(), transport.ack_bytes)).sum()
}
