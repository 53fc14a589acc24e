//! Forwarding: compiled routing tables, and the balancers that pick among equal-cost next hops.

use std::sync::Arc;

use balance::{Build, Commands, Cx, NextHops, PacketView, Scale, Shared, Spec, SwitchBalancer, SwitchEnv};
use net::routes::ClassIx;
use net::{Bandwidth, HostIx, LinkIx, NodeIx, RandomStream, Routes, Time, Topology};
use prefetch_index::prefetch_index;

use crate::links::network::{Loss, Network};
use crate::links::port::serialisation_ps;
use crate::numbering::Numbering;
use crate::packet::{DATA, FRESH, NO_PATH, PRIORITY_SHIFT, Packet, RETRANSMIT};
use crate::queue::NIL;
use crate::scenario::{Scenario, TransportConfig};
use crate::switching::edges::Edges;

/// Table entry for (node, class): one link, a group, the class node itself, or nothing.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Link or group number; the top two bits hold the kind.
    target: u32,
    /// Paths beyond each next hop if equal for all, else 0. For ranked paths.
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

/// A switch that loses the pairs whose hash lies below a bound, perhaps between two racks only.
#[derive(Clone, Copy, Debug)]
struct Blackhole {
    node: u32,
    below: u64,
    racks: Option<(u32, u32)>,
}

struct Decider {
    balancer: Option<Box<dyn SwitchBalancer>>,
    rng: RandomStream,
}

/// Next hops of all nodes to all classes, as routing knows them. All partitions share them.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    entries: Vec<Entry>,
    groups: Vec<Group>,
}

pub(crate) struct Fabric {
    pub(crate) numbering: Arc<Numbering>,
    class_count: usize,
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
    deciders: Vec<Decider>,
    /// Command list passed to switch balancers, which issue none.
    no_commands: Commands,
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
            class_count: routes.class_count(),
            first_row,
            tables: Arc::default(),
            intact: None,
            link_ends: topology.links().iter().map(|link| link.to).collect(),
            last_link,
            host_class,
            uplink,
            deciders: Vec::new(),
            no_commands: Commands::default(),
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
            deciders: Vec::new(),
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
        for number in 0..self.numbering.to_topology.len() as u32 {
            let node = self.numbering.to_topology[number as usize];
            let info = topology.node(node);
            let rng = RandomStream::new(seed, &format!("switch {}", info.name));
            let balancer = (number >= self.first_row && is_local(number)).then(|| {
                let class_count = self.class_count;
                let env = SwitchEnv { seed, switch: node, name: &info.name, tier: info.tier, class_count, scale };
                switch_build(&env, switch_params)
            });
            self.wants_weights |= balancer.as_ref().is_some_and(|b| b.needs_weights());
            self.deciders.push(Decider { balancer, rng });
        }
        self.install_edges(scenario, scale, shared, is_local);
    }

    fn compile(&self, topology: &Topology, routes: &Routes) -> Tables {
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
        Tables { entries: table, groups }
    }

    /// Compiles the tables of the intact network, after the balancers have been installed.
    pub(crate) fn compile_intact(&self, topology: &Topology) -> Arc<Tables> {
        let has_tables = !self.deciders.is_empty();
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
        if self.is_lost_silently(node, network.arena.get(ix)) {
            return Hop::Drop(Loss::Blackhole);
        }
        let packet = network.arena.get_mut(ix);
        if packet.flags & FRESH != 0 {
            packet.flags &= !FRESH;
            if self.edges.is_used() {
                self.enter(network, node, ix);
            }
        }
        let packet = network.arena.get_mut(ix);
        let class = u32::from(packet.class);
        let at = (node - self.first_row) as usize * self.class_count + class as usize;
        if self.edges.is_used() && packet.path != NO_PATH {
            let Tables { entries, groups } = &**self.intact.as_ref().unwrap_or(&self.tables);
            let entry = entries[at];
            match entry.target & KIND {
                LINK => return Hop::Link(entry.target),
                GROUP => {
                    let group = &groups[(entry.target & !KIND) as usize];
                    return Hop::Link(self.follow(packet, entry, group, ClassIx(class)));
                }
                _ => {}
            }
        }
        let entry = self.tables.entries[at];
        match entry.target & KIND {
            LINK => Hop::Link(entry.target),
            GROUP => {
                let packet = view(packet);
                self.choose(network, node, &packet, entry.target & !KIND).map_or(Hop::Drop(Loss::NoRoute), Hop::Link)
            }
            LOCAL => {
                let dst = packet.dst;
                if self.edges.is_used()
                    && let Some(hop) = self.leave(network, node, ix)
                {
                    return hop;
                }
                self.last_hop(dst)
            }
            _ => Hop::Drop(Loss::NoRoute),
        }
    }

    #[inline]
    fn place(&self, node: u32, class: u16) -> usize {
        (node.wrapping_sub(self.first_row) as usize).wrapping_mul(self.class_count).wrapping_add(usize::from(class))
    }

    /// Loads a route into the caches.
    #[inline]
    pub(crate) fn prefetch(&self, node: u32, class: u16) {
        prefetch_index(&self.tables.entries, self.place(node, class));
    }

    /// Returns the next hop that a packet which is about to arrive will probably take.
    #[inline]
    pub(crate) fn foresee(&self, node: u32, packet: &Packet) -> Option<u32> {
        let target = self.tables.entries.get(self.place(node, packet.class))?.target;
        match target & KIND {
            LINK => Some(target),
            GROUP => {
                let group = &self.tables.groups[(target & !KIND) as usize];
                let members = NextHops { links: &group.links, weights: &group.weights };
                let choice = self.deciders[node as usize].balancer.as_ref()?.foresee(&view(packet), members)?;
                group.links.get(choice).map(|link| link.0)
            }
            LOCAL => self.last_link.get(packet.dst as usize).copied(),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn has_route(&self, node: u32, class: ClassIx) -> bool {
        let at = (node - self.first_row) as usize * self.class_count + class.0 as usize;
        self.tables.entries[at].target & KIND != NOTHING
    }

    /// Lets the balancer of a switch choose a link of a group; `None` for a node without a balancer.
    #[inline]
    fn choose(&mut self, network: &Network, node: u32, packet: &PacketView, group: u32) -> Option<u32> {
        let Decider { balancer, rng } = &mut self.deciders[node as usize];
        let group = &self.tables.groups[group as usize];
        let commands = &mut self.no_commands;
        let mut cx = Cx { now: Time::from_ps(network.now), rng, ports: network, commands };
        let members = NextHops { links: &group.links, weights: &group.weights };
        Some(group.links[balancer.as_mut()?.choose(&mut cx, packet, members)].0)
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
        let entry = self.tables.entries[(node - self.first_row) as usize * self.class_count + to.0 as usize];
        if entry.target & KIND != GROUP {
            return None;
        }
        let (src, dst, class) = (src.0, dst.0, to.0 as u16);
        let packet = Packet { flow: 0, hash, bytes: 1500, src, dst, class, flags: DATA, ..Packet::BLANK };
        self.choose(network, node, &view(&packet), entry.target & !KIND)
    }

    #[inline]
    pub(crate) fn last_hop(&self, dst: u32) -> Hop {
        match self.last_link[dst as usize] {
            NIL => Hop::Drop(Loss::NoRoute),
            link => Hop::Link(link),
        }
    }

    #[inline]
    fn follow(&self, packet: &mut Packet, entry: Entry, group: &Group, class: ClassIx) -> u32 {
        if let Some(member) = packet.rank.checked_div(entry.each) {
            packet.rank -= member * entry.each;
            return group.links[(member as usize).min(group.links.len() - 1)].0;
        }
        for link in &group.links {
            let beyond = self.intact_routes.path_count(self.link_ends[link.ix()], class);
            if packet.rank < beyond {
                return link.0;
            }
            packet.rank -= beyond;
        }
        group.links[0].0
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

#[inline]
pub(crate) fn view(packet: &Packet) -> PacketView {
    PacketView {
        flow: packet.flow,
        hash: packet.hash,
        bytes: u32::from(packet.bytes),
        src: HostIx(packet.src),
        dst: HostIx(packet.dst),
        to: ClassIx(u32::from(packet.class)),
        is_data: packet.flags & DATA != 0,
        is_retransmission: packet.flags & RETRANSMIT != 0,
        priority: (packet.flags >> PRIORITY_SHIFT) as u8,
    }
}

/// Returns weights of next hops by capacity, at most 2^16 in total; empty without capacities.
fn hop_weights(topology: &Topology, capacity: &[Bandwidth], hops: &[LinkIx]) -> Vec<u32> {
    if capacity.is_empty() {
        return Vec::new();
    }
    let through = |link: &LinkIx| {
        let link = topology.link(*link);
        link.rate.min(capacity[link.to.ix()]).as_bps()
    };
    scaled_weights(hops.iter().map(through).collect()).into_vec()
}

/// Returns weights in proportion to rates, scaled to at most 2^16 in total and at least 1 each.
pub(crate) fn scaled_weights(rates: Vec<u64>) -> Box<[u32]> {
    let total = rates.iter().fold(0, |sum: u64, rate| sum.saturating_add(*rate)).max(1);
    rates.iter().map(|rate| (u128::from(*rate) * 65_536 / u128::from(total)).max(1) as u32).collect()
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
