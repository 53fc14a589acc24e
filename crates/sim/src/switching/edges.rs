//! Edges of the fabric: the switches or hosts where packets get their path and overlays begin and
//! end. Edges also send control packets, set timers and hold packets back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use balance::{
    Arrival, Build, Commands, Control, ControlArrival, Cx, Delivery, Duplicate, EdgeBalancer, EdgeEnv, EdgeHooks, Loss,
    PathFeedback, PathLoss, Paths, Scale, Shared,
};
use net::routes::ClassIx;
use net::{HostIx, LinkIx, RandomStream, Routes, Time, Topology};

use crate::links::network::Network;
use crate::packet::{
    ACK, CE, CONTROL, DATA, DETOUR, DIRECT, ECT, NACK, NO_PATH, NOTIFY, Packet, TAG_WITHOUT_UTILISATION, since, stamp,
};
use crate::queue::NIL;
use crate::scenario::Scenario;
use crate::switching::fabric::{Fabric, Hop, edge_rtt, view};
use crate::switching::tables::scaled_weights;
use crate::timers::WakeTimer;

pub(crate) struct Edge {
    balancer: Box<dyn EdgeBalancer>,
    rng: RandomStream,
    class: ClassIx,
    /// Paths assumed to be up, by class; `None` while all are.
    live: Vec<Option<Box<[u16]>>>,
    counts: Vec<u16>,
    /// Weights of the live paths by class, if the mechanism needs them; else empty.
    weights: Vec<Box<[u32]>>,
}

#[derive(Clone, Copy)]
struct FlowPaths {
    data: u16,
    ack: u16,
    changes: u32,
    /// Payload of the flow, if its sender is here.
    bytes: u64,
}

impl FlowPaths {
    #[inline]
    fn take(&mut self, path: u16) {
        self.changes += u32::from(self.data != path && self.data != NO_PATH);
        self.data = path;
    }
}

/// Packets of one flow held back at its last edge, in order of arrival.
#[derive(Clone, Copy)]
struct HeldPackets {
    first: u32,
    last: u32,
}

/// Timer of an edge: time, serial number, node, timer value.
type EdgeTimer = Reverse<(u64, u64, u32, u64)>;

/// All edges of a run whose balancer decides at edges; otherwise `list` is empty.
#[derive(Default)]
pub(crate) struct Edges {
    list: Vec<Option<Edge>>,
    /// Node of each class, and a host behind it.
    nodes: Vec<(u32, u32)>,
    duties: EdgeHooks,
    pub(crate) are_links_sensed: bool,
    /// Whether receivers of go-back-N keep early packets, which they do not in general.
    pub(crate) are_early_packets_kept: bool,
    /// 0, 1, 2, …: the live list of an intact pair.
    all_paths: Vec<u16>,
    /// Paths or entropy values by flow slot.
    current: Vec<FlowPaths>,
    held: Vec<HeldPackets>,
    /// Commands of `issuer` that are not carried out yet.
    pub(crate) commands: Commands,
    pub(crate) issuer: u32,
    timers: BinaryHeap<EdgeTimer>,
    serial: u64,
    /// Time of the earliest pending event that checks the timers.
    awaited: WakeTimer,
}

impl Edges {
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        !self.list.is_empty()
    }

    #[inline]
    pub(crate) fn takes_gap_reports(&self) -> bool {
        self.duties.gap_reports
    }

    /// Begins a flow in a slot, of which this many bytes are sent from here.
    pub(crate) fn forget_paths(&mut self, slot: u32, bytes: u64) {
        let none = FlowPaths { data: NO_PATH, ack: NO_PATH, changes: 0, bytes };
        if self.current.len() <= slot as usize {
            self.current.resize(slot as usize + 1, none);
            self.held.resize(slot as usize + 1, HeldPackets { first: NIL, last: NIL });
        }
        self.current[slot as usize] = none;
    }

    pub(crate) fn path_changes(&self, slot: u32) -> u32 {
        self.current[slot as usize].changes
    }

    #[inline]
    pub(crate) fn note_path(&mut self, flow: u32, path: u16) {
        self.current[flow as usize].take(path);
    }

    /// Returns when to check the timers, if no pending event does so in time.
    fn await_timer(&mut self) -> Option<u64> {
        let next = self.timers.peek().map(|Reverse((at, ..))| *at);
        self.awaited.set(0, next)
    }

    /// Handles an event that checks timers. Returns the time of the next, if one is needed.
    pub(crate) fn timers_seen(&mut self, now: u64) -> Option<u64> {
        // An event that an earlier one superseded must not change the order of the others.
        self.awaited.is_valid(now);
        self.await_timer()
    }

    fn hold(&mut self, network: &mut Network, flow: u32, ix: u32) {
        network.arena.get_mut(ix).next = NIL;
        // In a partition of the receiver, packets of a flow may wait before the first is delivered,
        // which opens the flow there.
        if self.held.len() <= flow as usize {
            self.forget_paths(flow, 0);
        }
        let held = &mut self.held[flow as usize];
        match std::mem::replace(&mut held.last, ix) {
            NIL => held.first = ix,
            before => network.arena.get_mut(before).next = ix,
        }
    }

    pub(crate) fn take_held(&mut self, network: &Network, flow: u32) -> Option<u32> {
        let held = self.held.get_mut(flow as usize)?;
        let first = held.first;
        if first == NIL {
            return None;
        }
        held.first = network.arena.get(first).next;
        if held.first == NIL {
            held.last = NIL;
        }
        Some(first)
    }
}

impl Fabric {
    /// Creates the edges if the balancer decides there.
    pub(crate) fn install_edges(
        &mut self,
        scenario: &Scenario<'_>,
        scale: Scale,
        shared: &Shared,
        is_local: impl Fn(u32) -> bool,
    ) {
        let Scenario { topology, seed, config, balancer: spec, .. } = *scenario;
        let Build::Edge(build) = spec.entry.build else { return };
        let routes = self.intact_routes.clone();
        let classes = || (0..routes.class_count() as u32).map(ClassIx);
        self.edges.list = (0..self.numbering.to_topology.len()).map(|_| None).collect();
        for class in classes() {
            let node = routes.class_node(class);
            let counts: Vec<u16> =
                classes().map(|to| u64::from(routes.path_count(node, to)).min(u64::from(NO_PATH) - 1) as u16).collect();
            let base_rtt: Vec<Time> =
                classes().map(|to| Time::from_ps(edge_rtt(topology, &routes, node, to, &config.transport))).collect();
            let env = EdgeEnv {
                seed,
                edge: node,
                class,
                path_counts: &counts,
                base_rtt: &base_rtt,
                topology,
                routes: &routes,
                scale,
                shared,
            };
            let number = self.numbering.of(node);
            let host = self.host_class.iter().position(|c| *c == class.0).unwrap_or(0) as u32;
            self.edges.nodes.push((number, host));
            if !is_local(number) {
                continue;
            }
            let balancer = build(&env, &spec.params);
            self.edges.duties = balancer.hooks();
            let most = self.edges.all_paths.len().max(counts.iter().copied().max().map_or(0, usize::from));
            self.edges.all_paths = (0..most as u16).collect();
            let rng = RandomStream::new(seed, &format!("edge {}", topology.node(node).name));
            let live = vec![None; counts.len()];
            let mut edge = Edge { balancer, rng, class, live, counts, weights: Vec::new() };
            if self.edges.duties.weights {
                edge.weights = classes().map(|to| edge.path_weights(topology, &routes, to)).collect();
            }
            self.edges.list[number as usize] = Some(edge);
        }
    }

    /// Lets an edge set its first timers; the caller runs its commands. False after the last.
    pub(crate) fn start_edge(&mut self, network: &Network, class: usize) -> bool {
        let Some((node, _)) = self.edges.nodes.get(class).copied() else { return false };
        self.with_edge(network, node, |edge, cx, _| edge.on_start(cx));
        true
    }

    pub(crate) fn update_edges(&mut self, topology: &Topology, alive: &[bool]) {
        let intact = self.intact_routes.clone();
        for edge in self.edges.list.iter_mut().flatten() {
            for class in 0..edge.counts.len() {
                let to = ClassIx(class as u32);
                let node = intact.class_node(edge.class);
                let is_live =
                    |path: &u16| intact.path(topology, node, to, u32::from(*path)).iter().all(|link| alive[link.ix()]);
                let live: Vec<u16> = (0..edge.counts[class]).filter(is_live).collect();
                edge.live[class] = (live.len() != usize::from(edge.counts[class])).then(|| live.into());
                if self.edges.duties.weights {
                    edge.weights[class] = edge.path_weights(topology, &intact, to);
                }
            }
        }
    }

    fn with_edge<T>(
        &mut self,
        network: &Network,
        node: u32,
        f: impl FnOnce(&mut dyn EdgeBalancer, &mut Cx<'_>, ClassIx) -> T,
    ) -> Option<T> {
        let edge = self.edges.list.get_mut(node as usize)?.as_mut()?;
        let commands = &mut self.edges.commands;
        let mut cx = Cx { now: Time::from_ps(network.now), rng: &mut edge.rng, ports: network, commands };
        self.edges.issuer = node;
        Some(f(edge.balancer.as_mut(), &mut cx, edge.class))
    }

    pub(crate) fn enter(&mut self, network: &mut Network, node: u32, ix: u32) {
        // The flow's state belongs to its own edges: at the intermediate edge, path numbers are of another
        // pair, and another thread may simulate the flow's hosts.
        let is_second_half = network.arena.get(ix).is(DETOUR);
        if self.edges.duties.detours && !is_second_half {
            self.pick_detour(network, node, ix);
        }
        let Edges { list, all_paths, current, commands, issuer, duties, are_links_sensed, .. } = &mut self.edges;
        let Some(edge) = &mut list[node as usize] else { return };
        let packet = network.arena.get(ix);
        let class = packet.class as usize;
        let count = usize::from(edge.counts[class]);
        let live: &[u16] = edge.live[class].as_deref().unwrap_or(&all_paths[..count]);
        let is_data = packet.is(DATA);
        if count < 2 || live.is_empty() {
            if duties.detours && is_data && !is_second_half {
                network.arena.get_mut(ix).edge = stamp(network.now);
            }
            return;
        }
        // The first packet of a handshake begins the path of its data.
        let is_forward = !packet.is(ACK);
        let (now_on, flow_bytes) = if is_second_half {
            (NO_PATH, 0)
        } else {
            let flow = &current[packet.flow as usize];
            if is_forward { (flow.data, flow.bytes) } else { (flow.ack, 0) }
        };
        let is_intact = edge.live[class].is_none();
        let is_live = |path: &u16| if is_intact { usize::from(*path) < count } else { live.contains(path) };
        let weights = edge.weights.get(class).map_or(&[][..], |weights| weights);
        let paths = Paths { live, current: Some(now_on).filter(is_live), weights, flow_bytes };
        let mut cx = Cx { now: Time::from_ps(network.now), rng: &mut edge.rng, ports: network, commands };
        *issuer = node;
        let seen = view(packet);
        let path = edge.balancer.choose_path(&mut cx, &seen, paths);
        let mut tag = 0;
        if duties.overlay {
            tag = edge.balancer.encapsulate(&mut cx, &seen, path);
            tag &= if *are_links_sensed { TAG_WITHOUT_UTILISATION } else { u32::MAX };
        }
        if !is_second_half {
            let flow = &mut current[packet.flow as usize];
            if is_forward {
                flow.take(path);
            } else {
                flow.ack = path;
            }
        }
        let now = network.now;
        let packet = network.arena.get_mut(ix);
        packet.path = path;
        packet.rank = u32::from(path);
        if is_data || duties.overlay {
            packet.tag = tag;
        }
        // Of a detour, the round trip includes the first half.
        if is_data && !is_second_half {
            packet.edge = stamp(now);
        }
    }

    /// Returns whether an edge takes away a packet that enters the fabric there, because it reports a gap
    /// that the edge takes for reordering.
    pub(crate) fn takes_gap_report(&mut self, network: &mut Network, node: u32, ix: u32) -> bool {
        let packet = *network.arena.get(ix);
        // A trimmed packet is certainly lost, as is an early one if go-back-N discards it.
        let is_kept = !packet.is(NACK) || self.edges.are_early_packets_kept;
        if !packet.is(ACK) || packet.is(DIRECT) || packet.sack == 0 || packet.sack == u16::MAX || !is_kept {
            return false;
        }
        let cause = packet.seq + u32::from(packet.sack) - 1;
        let seen = view(&packet);
        let passes = self.with_edge(network, node, |edge, cx, _| edge.passes_gap_report(cx, &seen, cause));
        if passes != Some(false) {
            return false;
        }
        if packet.is(NOTIFY) {
            let entry = network.arena.get_mut(ix);
            (entry.sack, entry.flags) = (0, entry.flags & !NACK);
            return false;
        }
        true
    }

    fn pick_detour(&mut self, network: &mut Network, node: u32, ix: u32) {
        let seen = view(network.arena.get(ix));
        let via = self.with_edge(network, node, |edge, cx, own| {
            edge.detour(cx, &seen).filter(|via| *via != own && *via != seen.to)
        });
        let is_reachable = |via: &ClassIx| {
            let (between, _) = self.edges.nodes[via.0 as usize];
            self.has_route(node, *via) && self.has_route(between, seen.to)
        };
        if let Some(via) = via.flatten().filter(is_reachable) {
            let packet = network.arena.get_mut(ix);
            packet.class = via.0 as u16;
            packet.flags |= DETOUR;
            if packet.is(DATA) {
                packet.sack = via.0 as u16 + 1;
            }
        }
    }

    /// Handles a packet at the edge it was routed to; `None` if it goes on to its receiver.
    pub(crate) fn leave(&mut self, network: &mut Network, node: u32, ix: u32) -> Option<Hop> {
        let packet = *network.arena.get(ix);
        if packet.is(CONTROL) {
            self.take_control(network, node, &packet);
            return Some(Hop::Consumed);
        }
        if packet.is(DETOUR) {
            let turned = network.arena.get_mut(ix);
            turned.class = self.host_class[packet.dst as usize] as u16;
            turned.path = NO_PATH;
            // The flag stays while the edge picks the second half: no further detour.
            self.enter(network, node, ix);
            network.arena.get_mut(ix).flags &= !DETOUR;
            return Some(self.route(network, node, ix));
        }
        if packet.is(DIRECT) {
            return None;
        }
        if packet.is(ACK) && (packet.echo_path != NO_PATH || self.edges.duties.detours) {
            self.feed_back(network, node, &packet);
        }
        if self.edges.duties.overlay && packet.path != NO_PATH { self.decapsulate(network, node, ix) } else { None }
    }

    fn decapsulate(&mut self, network: &mut Network, node: u32, ix: u32) -> Option<Hop> {
        let packet = *network.arena.get(ix);
        let is_data = packet.is(DATA);
        let arrival = Arrival {
            from: ClassIx(self.host_class[packet.src as usize]),
            path: packet.path,
            tag: packet.tag & self.tag_mask(),
            utilisation: self.utilisation_of(&packet),
            marked: is_data && packet.is(CE),
            one_way: if is_data { Time::from_ps(since(packet.edge, network.now)) } else { Time::ZERO },
        };
        let delivery = self.with_edge(network, node, |edge, cx, _| edge.decapsulate(cx, &view(&packet), &arrival));
        match delivery {
            Some(Delivery::Hold) if is_data => {
                self.edges.hold(network, packet.flow, ix);
                Some(Hop::Held)
            }
            Some(Delivery::PassUnmarked) if is_data => {
                network.arena.get_mut(ix).flags &= !CE;
                None
            }
            _ => None,
        }
    }

    fn tag_mask(&self) -> u32 {
        if self.edges.are_links_sensed { TAG_WITHOUT_UTILISATION } else { u32::MAX }
    }

    fn utilisation_of(&self, packet: &Packet) -> u8 {
        if self.edges.are_links_sensed { packet.utilisation() } else { 0 }
    }

    fn take_control(&mut self, network: &Network, node: u32, packet: &Packet) {
        let control = ControlArrival {
            from: ClassIx(self.host_class[packet.src as usize]),
            path: packet.path,
            word: packet.seq,
            tag: packet.tag & self.tag_mask(),
            utilisation: self.utilisation_of(packet),
            marked: packet.is(CE),
            one_way: Time::from_ps(since(packet.edge, network.now)),
        };
        self.with_edge(network, node, |edge, cx, _| edge.on_control(cx, &control));
    }

    pub(crate) fn control_packet(&self, now: u64, node: u32, control: &Control) -> Option<Packet> {
        let class = self.edges.list[node as usize].as_ref()?.class;
        let (_, src) = self.edges.nodes[class.0 as usize];
        let (_, dst) = *self.edges.nodes.get(control.to.0 as usize)?;
        Some(Packet {
            hash: balance::hash::flow_key(HostIx(src), HostIx(dst), 253, control.path, 0),
            src,
            dst,
            seq: control.word,
            rank: u32::from(control.path),
            sent: stamp(now),
            edge: stamp(now),
            tag: control.tag & self.tag_mask(),
            class: control.to.0 as u16,
            bytes: control.bytes.max(1),
            path: control.path,
            flags: CONTROL | if control.is_ecn_capable { ECT } else { 0 },
            ..Packet::BLANK
        })
    }

    fn feed_back(&mut self, network: &Network, node: u32, packet: &Packet) {
        let duties = self.edges.duties;
        let feedback = PathFeedback {
            flow: packet.flow,
            // The data packet went to the sender of the ACK.
            to: ClassIx(self.host_class[packet.src as usize]),
            path: packet.echo_path,
            via: if duties.detours { (packet.tag & TAG_WITHOUT_UTILISATION).checked_sub(1).map(ClassIx) } else { None },
            ack: packet.seq,
            is_nack: packet.is(NACK),
            rtt: Time::from_ps(since(packet.edge, network.now)),
            marked: packet.is(CE),
        };
        self.with_edge(network, node, |edge, cx, _| edge.on_feedback(cx, &feedback));
    }

    /// Notifies the edge of a loss at the sender, which a real edge can see in the traffic.
    pub(crate) fn note_loss(&mut self, network: &Network, flow: u32, (src, dst): (u32, u32), una: u32, loss: Loss) {
        let path = self.edges.current[flow as usize].data;
        if path == NO_PATH && !self.edges.duties.detours {
            return;
        }
        let (node, _) = self.edges.nodes[self.host_class[src as usize] as usize];
        let noticed = PathLoss { flow, to: ClassIx(self.host_class[dst as usize]), path, una, loss };
        self.with_edge(network, node, |edge, cx, _| edge.on_loss(cx, &noticed));
    }

    /// Notifies the edge of duplicate data, which a real edge can see in the traffic.
    pub(crate) fn note_duplicate(&mut self, network: &Network, flow: u32, src: u32, dst: u32) {
        let path = self.edges.current[flow as usize].ack;
        if path == NO_PATH {
            return;
        }
        let (node, _) = self.edges.nodes[self.host_class[src as usize] as usize];
        let to = ClassIx(self.host_class[dst as usize]);
        let noticed = Duplicate { flow, src: HostIx(src), dst: HostIx(dst), to, path };
        self.with_edge(network, node, |edge, cx, _| edge.on_duplicate(cx, &noticed));
    }

    /// Adds the requested timers. Returns the time of the next event, if one is needed.
    pub(crate) fn keep_timers(&mut self, now: u64) -> Option<u64> {
        let edges = &mut self.edges;
        for (at, token) in edges.commands.timers.drain(..) {
            edges.serial += 1;
            edges.timers.push(Reverse((at.as_ps().max(now), edges.serial, edges.issuer, token)));
        }
        self.edges.await_timer()
    }

    pub(crate) fn call_timer(&mut self, network: &Network) -> bool {
        let Some(Reverse((at, _, node, token))) = self.edges.timers.peek().copied() else { return false };
        if at > network.now {
            return false;
        }
        self.edges.timers.pop();
        if self.has_messages {
            self.with_switch(network, node, |switch, cx| switch.on_timer(cx, token));
        } else {
            self.with_edge(network, node, |edge, cx, _| edge.on_timer(cx, token));
        }
        true
    }
}

impl Edge {
    fn path_weights(&self, topology: &Topology, routes: &Routes, to: ClassIx) -> Box<[u32]> {
        let node = routes.class_node(self.class);
        let live = self.live[to.0 as usize].clone().unwrap_or_else(|| (0..self.counts[to.0 as usize]).collect());
        let slowest = |path: &u16| {
            let links: Vec<LinkIx> = routes.path(topology, node, to, u32::from(*path));
            links.iter().map(|link| topology.link(*link).rate.as_bps()).min().unwrap_or(0)
        };
        scaled_weights(live.iter().map(slowest).collect())
    }
}
