//! A test bench for one instance: fixed candidates, port state and time set by the test.

use std::collections::{BTreeMap, BTreeSet};

use net::routes::ClassIx;
use net::{Bandwidth, HostIx, LinkIx, NodeIx, RandomStream, Routes, Time, Topology};

use super::{
    Arrival, Commands, ControlArrival, Cx, Delivery, Duplicate, EdgeBalancer, EdgeEnv, HostBalancer, HostEnv,
    HostFeedback, HostLoss, HostPacket, Loss, Needs, NeighbourMessage, NextHops, PacketView, PathFeedback, PathLoss,
    Paths, PortTelemetry, Scale, Shared, SwitchBalancer, SwitchEnv,
};
use crate::entry::Build;
use crate::hash::flow_key;
use crate::registry::Spec;

pub(crate) const BASE_RTT: Time = Time::from_us(100);

pub(crate) const SCALE: Scale = Scale {
    base_rtt: BASE_RTT,
    hop_delay: Time::from_us(80),
    packet_bytes: 1500,
    host_rate: Bandwidth::from_bps(10_000_000_000),
};

/// Makes a data packet of a flow from class 0 to class 1; each flow has its own source port.
pub(crate) fn packet(flow: u32) -> PacketView {
    let (src, dst) = (HostIx(0), HostIx(9));
    let hash = flow_key(src, dst, 6, flow as u16, (flow >> 16) as u16);
    PacketView {
        flow,
        hash,
        bytes: 1500,
        src,
        dst,
        to: ClassIx(1),
        seq: 0,
        is_data: true,
        is_retransmission: false,
        priority: 0,
        subflow: 0,
    }
}

/// Makes feedback about an unmarked data packet of a flow to class 1 that met no queue.
pub(crate) fn path_feedback(flow: u32, path: u16) -> PathFeedback {
    PathFeedback { flow, to: ClassIx(1), path, via: None, ack: 0, is_nack: false, rtt: BASE_RTT, marked: false }
}

pub(crate) fn with_edge_env<T>(family: &str, class: u32, f: impl FnOnce(&EdgeEnv<'_>) -> T) -> T {
    let topology = net::spec::parse(family).unwrap();
    let routes = Routes::intact(&topology);
    let edge = routes.class_node(ClassIx(class));
    let classes = || (0..routes.class_count() as u32).map(ClassIx);
    let path_counts: Vec<u16> = classes().map(|to| routes.path_count(edge, to) as u16).collect();
    let base_rtt = vec![BASE_RTT; path_counts.len()];
    f(&EdgeEnv {
        seed: 1,
        edge,
        class: ClassIx(class),
        path_counts: &path_counts,
        base_rtt: &base_rtt,
        topology: &topology,
        routes: &routes,
        scale: SCALE,
        shared: &Shared::default(),
    })
}

/// Makes an arrival without utilisation or mark, 50 us after the packet entered the fabric.
pub(crate) fn arrival(from: ClassIx, path: u16, tag: u32) -> Arrival {
    Arrival { from, path, tag, utilisation: 0, marked: false, one_way: Time::from_us(50) }
}

/// Makes the arrival of a control packet, as [`arrival`].
pub(crate) fn control_arrival(from: ClassIx, path: u16, word: u32, tag: u32) -> ControlArrival {
    ControlArrival { from, path, word, tag, utilisation: 0, marked: false, one_way: Time::from_us(50) }
}

/// Returns the needs of a specification.
pub(crate) fn needs(spec: &str) -> Needs {
    let spec = Spec::parse(spec).unwrap();
    (spec.entry.needs)(&SCALE, &spec.params)
}

#[derive(Default)]
pub(crate) struct Ports {
    pub(crate) queued: BTreeMap<u32, u64>,
    pub(crate) utilisation: BTreeMap<u32, f64>,
    pub(crate) delay: BTreeMap<u32, Time>,
    pub(crate) down: BTreeSet<u32>,
    /// Drain bytes by link and priority, if they differ from the queued bytes.
    pub(crate) drain: BTreeMap<(u32, u8), u64>,
}

impl PortTelemetry for Ports {
    fn queued_bytes(&self, link: LinkIx) -> u64 {
        self.queued.get(&link.0).copied().unwrap_or(0)
    }
    fn drain_bytes(&self, link: LinkIx, priority: u8) -> u64 {
        self.drain.get(&(link.0, priority)).copied().unwrap_or_else(|| self.queued_bytes(link))
    }
    fn queueing_delay(&self, link: LinkIx) -> Time {
        self.delay.get(&link.0).copied().unwrap_or(Time::ZERO)
    }
    fn is_up(&self, link: LinkIx) -> bool {
        !self.down.contains(&link.0)
    }
    fn utilisation(&self, link: LinkIx) -> f64 {
        self.utilisation.get(&link.0).copied().unwrap_or(0.0)
    }
}

enum Subject {
    Switch(Box<dyn SwitchBalancer>),
    Edge(Box<dyn EdgeBalancer>),
    Host(Box<dyn HostBalancer>),
}

/// One instance of a balancer with its environment.
pub(crate) struct Bench {
    subject: Subject,
    rng: RandomStream,
    pub(crate) links: Vec<LinkIx>,
    pub(crate) live: Vec<u16>,
    pub(crate) weights: Vec<u32>,
    /// Size of the flows whose paths are chosen.
    pub(crate) flow_bytes: u64,
    pub(crate) now: Time,
    pub(crate) ports: Ports,
    /// Requests of the edge since the test last read them.
    pub(crate) commands: Commands,
    topology: Topology,
    routes: Routes,
    /// The switch, if it has a place in the network.
    pub(crate) node: NodeIx,
}

impl Bench {
    fn new(subject: Subject, topology: Topology) -> Bench {
        Bench {
            subject,
            rng: RandomStream::new(1, "bench"),
            links: vec![],
            live: vec![],
            weights: vec![],
            flow_bytes: 0,
            now: Time::ZERO,
            ports: Ports::default(),
            commands: Commands::default(),
            routes: Routes::intact(&topology),
            topology,
            node: NodeIx(0),
        }
    }
    pub(crate) fn switch(spec: &str, ports: u32) -> Bench {
        // The links are none of the network.
        let links: Vec<LinkIx> = (0..ports).map(|port| LinkIx(10 + 2 * port)).collect();
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=2").unwrap();
        let bench = Bench::switch_in(spec, topology, NodeIx(3), 64);
        Bench { weights: vec![1; links.len()], links, ..bench }
    }
    /// A switch of a network, by its name; the links are its next hops towards `class`.
    pub(crate) fn switch_on(spec: &str, family: &str, name: &str, class: u32) -> Bench {
        let topology = net::spec::parse(family).unwrap();
        let node = topology.nodes().iter().position(|node| node.name == name).expect("a node of the network");
        let node = NodeIx(node as u32);
        let class_count = Routes::intact(&topology).class_count();
        let mut bench = Bench::switch_in(spec, topology, node, class_count);
        bench.links = bench.routes.next_hops(node, ClassIx(class)).to_vec();
        bench.weights = vec![1; bench.links.len()];
        bench.call_switch(|switch, cx| switch.on_start(cx));
        bench
    }
    fn switch_in(spec: &str, topology: Topology, switch: NodeIx, class_count: usize) -> Bench {
        let spec = Spec::parse(spec).unwrap();
        let Build::Switch(build) = spec.entry.build else { panic!("not a switch mechanism") };
        let routes = Routes::intact(&topology);
        let (name, tier) = (&*topology.node(switch).name, topology.node(switch).tier);
        let (topology, routes) = (&topology, &routes);
        let env = SwitchEnv { seed: 1, switch, name, tier, class_count, topology, routes, scale: SCALE };
        let subject = Subject::Switch(build(&env, &spec.params));
        Bench { node: switch, ..Bench::new(subject, topology.clone()) }
    }
    /// The edge of class 0 in a leaf-spine of 4 leaves with one spine per path.
    pub(crate) fn edge(spec: &str, paths: u16) -> Bench {
        let family = format!("leaf-spine:leaves=4,spines={paths},hosts_per_leaf=4");
        Bench { live: (0..paths).collect(), ..Bench::edge_on(spec, &family, 0) }
    }
    /// Makes a bench for an edge in any network; `live` starts with the paths to the next class.
    pub(crate) fn edge_on(spec: &str, family: &str, class: u32) -> Bench {
        let spec = Spec::parse(spec).unwrap();
        let Build::Edge(build) = spec.entry.build else { panic!("not an edge mechanism") };
        let mut bench = with_edge_env(family, class, |env| {
            let next = (class as usize + 1) % env.path_counts.len();
            let live = (0..env.path_counts[next]).collect();
            let subject = Subject::Edge(build(env, &spec.params));
            Bench { live, ..Bench::new(subject, env.topology.clone()) }
        });
        bench.call_edge(|edge, cx| edge.on_start(cx));
        bench
    }
    pub(crate) fn host(spec: &str) -> Bench {
        let spec = Spec::parse(spec).unwrap();
        let Build::Host(build) = spec.entry.build else { panic!("not a host mechanism") };
        let subject = Subject::Host(build(&HostEnv { seed: 1, scale: SCALE, window_packets: 83 }, &spec.params));
        Bench::new(subject, net::spec::parse("leaf-spine:leaves=2,spines=2").unwrap())
    }
    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }
    /// Returns the number of paths from class 0 to another class.
    pub(crate) fn path_count(&self, class: u32) -> u32 {
        self.routes.path_count(self.routes.class_node(ClassIx(0)), ClassIx(class))
    }
    /// Returns the links of a path from class 0 to another class.
    pub(crate) fn path(&self, class: u32, path: u32) -> Vec<LinkIx> {
        let from = self.routes.class_node(ClassIx(0));
        self.routes.path(&self.topology, from, ClassIx(class), path)
    }
    /// Sets the utilisation of a hop of a path from class 0 to another class.
    pub(crate) fn load(&mut self, (class, path): (u32, u32), hop: usize, utilisation: f64) {
        let link = self.path(class, path)[hop];
        self.ports.utilisation.insert(link.0, utilisation);
    }
    pub(crate) fn wait(&mut self, time: Time) {
        self.now = self.now.saturating_add(time);
    }
    fn call_edge<T>(&mut self, f: impl FnOnce(&mut dyn EdgeBalancer, &mut Cx<'_>) -> T) -> T {
        let Subject::Edge(subject) = &mut self.subject else { panic!("not an edge bench") };
        let mut cx = Cx { now: self.now, rng: &mut self.rng, ports: &self.ports, commands: &mut self.commands };
        f(subject.as_mut(), &mut cx)
    }
    fn call_host<T>(&mut self, f: impl FnOnce(&mut dyn HostBalancer, &mut Cx<'_>) -> T) -> T {
        let Subject::Host(subject) = &mut self.subject else { panic!("not a host bench") };
        let mut cx = Cx { now: self.now, rng: &mut self.rng, ports: &self.ports, commands: &mut self.commands };
        f(subject.as_mut(), &mut cx)
    }
    fn call_switch<T>(&mut self, f: impl FnOnce(&mut dyn SwitchBalancer, &mut Cx<'_>) -> T) -> T {
        let Subject::Switch(subject) = &mut self.subject else { panic!("not a switch bench") };
        let mut cx = Cx { now: self.now, rng: &mut self.rng, ports: &self.ports, commands: &mut self.commands };
        f(subject.as_mut(), &mut cx)
    }
    pub(crate) fn message(&mut self, message: &NeighbourMessage) {
        self.call_switch(|switch, cx| switch.on_message(cx, message));
    }
    /// Calls the timers that the switch has set up to a time, each at its own time.
    pub(crate) fn timers_until(&mut self, end: Time) {
        while let Some(at) = (0..self.commands.timers.len()).min_by_key(|at| self.commands.timers[*at].0)
            && self.commands.timers[at].0 <= end
        {
            let (time, token) = self.commands.timers.remove(at);
            self.now = time;
            self.call_switch(|switch, cx| switch.on_timer(cx, token));
        }
        self.now = end;
    }
    pub(crate) fn choose(&mut self, packet: &PacketView) -> usize {
        let (links, weights) = (self.links.clone(), self.weights.clone());
        let choice =
            self.call_switch(|switch, cx| switch.choose(cx, packet, NextHops { links: &links, weights: &weights }));
        assert!(choice < self.links.len(), "answer out of range");
        choice
    }
    pub(crate) fn choose_link(&mut self, packet: &PacketView) -> LinkIx {
        let choice = self.choose(packet);
        self.links[choice]
    }
    /// Returns how many of these packets, each of a flow without a path, take each path.
    pub(crate) fn hits<const N: usize>(&mut self, packets: impl Iterator<Item = PacketView>) -> [u32; N] {
        let mut hits = [0; N];
        packets.for_each(|packet| hits[usize::from(self.choose_path(&packet, None))] += 1);
        hits
    }

    /// Returns the share of these packets, each of a flow without a path, that takes each path.
    pub(crate) fn shares<const N: usize>(&mut self, packets: std::ops::Range<u32>) -> [f64; N] {
        let count = f64::from(packets.end - packets.start);
        self.hits(packets.map(packet)).map(|hits| f64::from(hits) / count)
    }
    /// Returns how many of these packets take each port.
    pub(crate) fn port_hits<const N: usize>(&mut self, packets: impl Iterator<Item = PacketView>) -> [u32; N] {
        let mut hits = [0; N];
        packets.for_each(|packet| hits[self.choose(&packet)] += 1);
        hits
    }

    pub(crate) fn choose_path(&mut self, packet: &PacketView, current: Option<u16>) -> u16 {
        let (live, weights) = (self.live.clone(), self.weights.clone());
        let paths = Paths { live: &live, current, weights: &weights, flow_bytes: self.flow_bytes };
        let choice = self.call_edge(|edge, cx| edge.choose_path(cx, packet, paths));
        assert!(self.live.contains(&choice), "answer is not a live path");
        choice
    }
    /// Delivers an RTT sample of `path` for flow 1, in base RTTs.
    pub(crate) fn feedback(&mut self, path: u16, base_rtts: f64) {
        self.feedback_marked(1, path, base_rtts, false);
    }
    /// Delivers an RTT sample of `path` to class 1, in base RTTs, with its ECN echo.
    pub(crate) fn feedback_marked(&mut self, flow: u32, path: u16, base_rtts: f64, marked: bool) {
        let rtt = Time::from_ps((BASE_RTT.as_ps() as f64 * base_rtts) as u64);
        self.path_feedback(&PathFeedback { rtt, marked, ..path_feedback(flow, path) });
    }
    pub(crate) fn path_feedback(&mut self, feedback: &PathFeedback) {
        self.call_edge(|edge, cx| edge.on_feedback(cx, feedback));
    }
    pub(crate) fn passes_gap_report(&mut self, packet: &PacketView, cause: u32) -> bool {
        self.call_edge(|edge, cx| edge.passes_gap_report(cx, packet, cause))
    }
    pub(crate) fn loss(&mut self, flow: u32, path: u16, loss: Loss) {
        self.path_loss(&PathLoss { flow, to: ClassIx(1), path, una: 0, loss });
    }
    pub(crate) fn path_loss(&mut self, loss: &PathLoss) {
        self.call_edge(|edge, cx| edge.on_loss(cx, loss));
    }
    /// Delivers repeated data to host `src` of this edge; its ACKs take `path` to `dst`, class 1.
    pub(crate) fn duplicate(&mut self, flow: u32, (src, dst): (u32, u32), path: u16) {
        let duplicate = Duplicate { flow, src: HostIx(src), dst: HostIx(dst), to: ClassIx(1), path };
        self.call_edge(|edge, cx| edge.on_duplicate(cx, &duplicate));
    }
    pub(crate) fn encapsulate(&mut self, packet: &PacketView, path: u16) -> u32 {
        self.call_edge(|edge, cx| edge.encapsulate(cx, packet, path))
    }
    pub(crate) fn decapsulate(&mut self, packet: &PacketView, arrival: &Arrival) -> Delivery {
        self.call_edge(|edge, cx| edge.decapsulate(cx, packet, arrival))
    }
    pub(crate) fn control(&mut self, control: &ControlArrival) {
        self.call_edge(|edge, cx| edge.on_control(cx, control));
    }
    pub(crate) fn timer(&mut self, token: u64) {
        self.call_edge(|edge, cx| edge.on_timer(cx, token));
    }
    pub(crate) fn detour(&mut self, packet: &PacketView) -> Option<ClassIx> {
        self.call_edge(|edge, cx| edge.detour(cx, packet))
    }
    pub(crate) fn entropy(&mut self, flow: u32, seq: u32) -> u16 {
        self.host_packet(&HostPacket { flow, seq, is_first: seq == 0, is_retransmission: false })
    }
    pub(crate) fn host_packet(&mut self, packet: &HostPacket) -> u16 {
        self.call_host(|host, cx| host.entropy(cx, packet))
    }
    pub(crate) fn ack_entropy(&mut self, flow: u32) -> u16 {
        self.call_host(|host, _| host.ack_entropy(flow))
    }
    /// Delivers data to the receiver of a flow that it has already.
    pub(crate) fn host_duplicate(&mut self, flow: u32) {
        self.call_host(|host, cx| host.on_duplicate(cx, flow));
    }
    pub(crate) fn ack(&mut self, feedback: &HostFeedback) {
        self.call_host(|host, cx| host.on_ack(cx, feedback));
    }
    /// Acknowledges a window packet by packet, the first `marked` of it marked; `una` is the lowest
    /// unacknowledged packet. The round ends with the last one, when `in_flight` others are out.
    pub(crate) fn ack_window(&mut self, flow: u32, una: &mut u32, window: u32, marked: u32, in_flight: u32) {
        for i in 0..window {
            *una += 1;
            let next = *una + if i + 1 == window { in_flight } else { window - 1 - i };
            let (una, marked) = (*una, i < marked);
            self.ack(&HostFeedback { flow, entropy: 0, marked, acked: 1, una, next, rtt: BASE_RTT });
        }
    }
    pub(crate) fn host_loss(&mut self, flow: u32, loss: HostLoss) {
        self.call_host(|host, cx| host.on_loss(cx, flow, loss));
    }
    pub(crate) fn remove(&mut self, position: usize) -> LinkIx {
        self.weights.remove(position);
        self.links.remove(position)
    }
    pub(crate) fn restore(&mut self, position: usize, link: LinkIx) {
        self.weights.insert(position, 1);
        self.links.insert(position, link);
    }
}
