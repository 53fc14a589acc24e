//! A small deterministic world: a controller, real `switch::Switch` objects, and links and channels with delay.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anabranch_control::{Config, Controller, Event, KnownHost, Output};
use balance::central::{
    AgentReport, Base, CentralBalancer, CentralCx, CentralNeeds, FlowSource, HopTable, NetworkView, NextHop, Path, Pin,
    Placements, WeightedPath, Why,
};
use net::{Bandwidth, FiveTuple, HostIx, LinkIx, NodeIx, NodeKind, Time, Topology, address};
use openflow::frame::flags;
use openflow::{
    ConnectionId, DatapathId, Description, FlowStats, FromController, Headers, MacAddr, PortDesc, PortNo, ToController,
    frame,
};
use switch::{HashFields, Select, Switch};

/// Paths by datapath ids, with their shares.
pub type Division = Vec<(Vec<u64>, u16)>;

/// What tests tell their balancer to want.
#[derive(Default)]
pub struct Script {
    /// Paths of flows by datapath ids; those not named are released.
    pub pins: BTreeMap<FiveTuple, Vec<u64>>,
    /// Whether the other way of TCP connections goes along.
    pub are_acks_along: bool,
    /// Divisions by datapath ids.
    pub divisions: BTreeMap<(u64, u64), Division>,
    /// Why it was asked.
    pub asked: Vec<Why>,
    /// Rates of flows seen when asked.
    pub rates: Vec<Bandwidth>,
    /// Bytes of the flow that ended last.
    pub last_bytes: u64,
    /// Greatest load of any link seen when asked.
    pub load: Vec<Bandwidth>,
}

/// Equal-cost base, and whatever the script says besides.
pub struct Scripted {
    pub script: Arc<Mutex<Script>>,
    pub needs: CentralNeeds,
}

impl CentralBalancer for Scripted {
    fn needs(&self) -> CentralNeeds {
        self.needs
    }
    fn decide(&mut self, _: &mut CentralCx<'_>, view: &NetworkView<'_>, why: Why, placements: &mut Placements) {
        let mut script = self.script.lock().expect("no test panics while it holds the script");
        script.asked.push(why);
        script.rates.extend(view.flows.iter().filter_map(|(_, facts)| facts.rate));
        script.load.extend(view.load.iter().filter_map(|load| load.rate).max());
        if let Why::FlowEnded(flow) = why {
            script.last_bytes = view.flows.get(flow).expect("facts of a flow that ended").bytes;
        }
        if why == Why::Network {
            placements.set_base(equal_cost(view));
        }
        placements.set_acks_along(script.are_acks_along);
        for (flow, facts) in view.flows.iter() {
            match script.pins.get(&facts.tuple).and_then(|names| path(view, names)) {
                Some(path) => placements.pin(flow, Pin { path, rate: None }),
                None => placements.release(flow),
            }
        }
        let wanted = script.divisions.iter().filter_map(|((from, to), paths)| {
            let paths: Vec<WeightedPath> = paths
                .iter()
                .filter_map(|(names, weight)| Some(WeightedPath { path: path(view, names)?, weight: *weight }))
                .collect();
            Some((node(view.topology, *from)?, node(view.topology, *to)?, paths))
        });
        let wanted: Vec<_> = wanted.collect();
        let gone: Vec<_> = placements.pairs().keys().copied().collect();
        for (from, to) in gone {
            if !wanted.iter().any(|(a, b, _)| (*a, *b) == (from, to)) {
                placements.divide(from, to, Arc::new([]));
            }
        }
        for (from, to, paths) in wanted {
            placements.divide(from, to, paths.into());
        }
    }
}

fn equal_cost(view: &NetworkView<'_>) -> Base {
    let mut table = HopTable::default();
    let switches = (0u32..).map(NodeIx).zip(view.topology.nodes()).filter(|(_, node)| node.kind == NodeKind::Switch);
    for (from, _) in switches {
        for class in 0..view.routes.class_count() {
            let class = net::routes::ClassIx(class as u32);
            let to = view.routes.class_node(class);
            let hops: Vec<NextHop> =
                view.routes.next_hops(from, class).iter().map(|link| NextHop { link: *link, weight: 1 }).collect();
            if !hops.is_empty() && view.topology.node(to).kind == NodeKind::Switch {
                table.0.insert((from, to), hops.into());
            }
        }
    }
    Base::Hops(Arc::new(table))
}

pub fn node(topology: &Topology, datapath: u64) -> Option<NodeIx> {
    let name = format!("{datapath:016x}");
    topology.nodes().iter().position(|node| node.name == name).map(|ix| NodeIx(ix as u32))
}

fn path(view: &NetworkView<'_>, names: &[u64]) -> Option<Path> {
    let nodes: Option<Vec<NodeIx>> = names.iter().map(|name| node(view.topology, *name)).collect();
    let link = |ends: &[NodeIx]| {
        let out = view.topology.out_links(ends[0]).iter().copied();
        out.into_iter().find(|link| view.topology.link(*link).to == ends[1] && view.alive[link.ix()])
    };
    nodes?.windows(2).map(link).collect::<Option<Vec<LinkIx>>>().map(Into::into)
}

enum Happening {
    ToController(ToController),
    ToSwitch(NodeIx, ConnectionId, openflow::Envelope),
    Frame { node: NodeIx, port: PortNo, bytes: Vec<u8>, packet: Option<u32> },
}

/// What became of a packet a test sent.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    pub visited: Vec<NodeIx>,
    pub delivered: Option<(HostIx, Time)>,
    pub has_looped: bool,
    pub arrived: Option<Headers>,
    /// What the host it was delivered to answered ([`World::answering`]).
    pub answer: Option<u32>,
    /// How often it was delivered.
    pub deliveries: u32,
    is_answer: bool,
}

pub struct World {
    pub now: Time,
    pub topology: Topology,
    pub controller: Controller,
    pub switches: BTreeMap<NodeIx, Switch>,
    pub script: Arc<Mutex<Script>>,
    pub events: Vec<(Time, Event)>,
    pub packets: Vec<Packet>,
    pub to_hosts: Vec<(HostIx, Vec<u8>)>,
    /// Every message to a switch, in order.
    pub sent: Vec<(Time, NodeIx, openflow::Message)>,
    /// Number of the latest message to each switch.
    pub last_xid: BTreeMap<NodeIx, openflow::Xid>,
    pub connections: BTreeMap<NodeIx, ConnectionId>,
    pub link_down: BTreeSet<LinkIx>,
    /// Hosts that answer marked packets ([`World::ask`]) at once, swapping addresses and ports.
    pub answering: BTreeSet<HostIx>,
    /// Hosts with a server of pages at every port, which also answer echoes: the status of its pages; 0: nobody listens.
    pub pages: BTreeMap<HostIx, u16>,
    /// Sequence number of the segments of TCP that open a connection; `None`: those that are sent are of ones that stand.
    pub opening: Option<u32>,
    /// Extra delay of the channel of a switch.
    pub stall: BTreeMap<NodeIx, Time>,
    queue: BTreeMap<(Time, u64), Happening>,
    next: u64,
    next_connection: u32,
}

pub fn needs(flows: FlowSource, counters: bool) -> CentralNeeds {
    CentralNeeds { flows, counters, period: Some(Time::from_ms(50)) }
}

impl World {
    /// Switches of `topology`, not connected yet.
    pub fn new(topology: Topology, config: Config, needs: CentralNeeds, limits: (u32, u32)) -> World {
        let script = Arc::new(Mutex::new(Script::default()));
        let balancer = Scripted { script: script.clone(), needs };
        World { script, ..World::with(topology, config, Box::new(balancer), limits) }
    }
    /// The same with another balancer.
    pub fn with(
        topology: Topology,
        mut config: Config,
        balancer: Box<dyn CentralBalancer>,
        limits: (u32, u32),
    ) -> World {
        config.seed = 7;
        let nodes = (0u32..).map(NodeIx).zip(topology.nodes()).filter(|(_, node)| node.kind == NodeKind::Switch);
        let switches = nodes.map(|(node, _)| (node, make_switch(&topology, node, limits))).collect();
        World {
            now: Time::ZERO,
            controller: Controller::new(config, balancer),
            switches,
            script: Arc::default(),
            events: Vec::new(),
            packets: Vec::new(),
            to_hosts: Vec::new(),
            sent: Vec::new(),
            last_xid: BTreeMap::new(),
            connections: BTreeMap::new(),
            link_down: BTreeSet::new(),
            opening: Some(7),
            stall: BTreeMap::new(),
            answering: BTreeSet::new(),
            pages: BTreeMap::new(),
            queue: BTreeMap::new(),
            next: 0,
            next_connection: 1,
            topology,
        }
    }

    /// All hosts known beforehand, all switches connected, settled.
    pub fn up(topology: Topology, needs: CentralNeeds) -> World {
        let config = Config { hosts: KnownHost::all_of(&topology), ..Config::default() };
        let mut world = World::new(topology, config, needs, (100_000, 10_000));
        world.connect_all();
        world.settle();
        world
    }

    /// The same with switches that say they are Open vSwitch, and take its matches.
    pub fn up_with_extensions(topology: Topology, needs: CentralNeeds) -> World {
        let config = Config { hosts: KnownHost::all_of(&topology), uses_extensions: true, ..Config::default() };
        let mut world = World::new(topology, config, needs, (100_000, 10_000));
        for (node, switch) in &mut world.switches {
            let config = switch_config(&world.topology, *node, (100_000, 10_000), None);
            let description = Description { manufacturer: "Nicira, Inc.".into(), ..Description::default() };
            *switch = Switch::new(switch::Config { takes_tcp_flags: true, description, ..config });
        }
        world.connect_all();
        world.settle();
        world
    }

    pub fn switch_of(&self, datapath: u64) -> &Switch {
        let found = self.switches.values().find(|switch| switch.datapath() == DatapathId(datapath));
        found.expect("a switch of that number")
    }

    pub fn connect_all(&mut self) {
        let nodes: Vec<NodeIx> = self.switches.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.connect(node));
    }
    pub fn connect(&mut self, node: NodeIx) {
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(node, connection);
        self.put(self.now, Happening::ToController(ToController::Connected(connection)));
        self.switches.get_mut(&node).expect("a switch").connected(self.now, connection);
        self.drain_switch(node, None);
    }
    pub fn disconnect(&mut self, node: NodeIx) {
        let connection = self.connections.remove(&node).expect("a connection");
        self.forget_messages(connection);
        self.switches.get_mut(&node).expect("a switch").disconnected(self.now, connection);
        self.controller.handle(self.now, ToController::Disconnected(connection));
        self.drain_controller();
    }

    /// What is on its way on a connection that is gone is lost.
    fn forget_messages(&mut self, connection: ConnectionId) {
        self.queue.retain(|_, happening| match happening {
            Happening::ToSwitch(_, other, _) => *other != connection,
            Happening::ToController(ToController::Message(other, _)) => *other != connection,
            _ => true,
        });
    }

    /// Cuts or mends a cable; both ends notice at once.
    pub fn set_cable(&mut self, link: LinkIx, is_live: bool) {
        for link in [link, link.reverse()] {
            if is_live {
                self.link_down.remove(&link)
            } else {
                self.link_down.insert(link)
            };
            let from = self.topology.link(link).from;
            let port = PortNo(address::port_of(&self.topology, link));
            if let Some(switch) = self.switches.get_mut(&from) {
                switch.set_port_live(self.now, port, is_live);
                self.drain_switch(from, None);
            }
        }
    }

    /// The cable between two switches.
    pub fn cable(&self, a: NodeIx, b: NodeIx) -> LinkIx {
        let mut out = self.topology.out_links(a).iter().copied();
        out.find(|link| self.topology.link(*link).to == b).expect("a cable between them")
    }

    /// A packet of a flow; its number in `packets`.
    pub fn send(&mut self, tuple: FiveTuple) -> u32 {
        let from = address::host_of_ipv4(tuple.src, self.topology.hosts().len()).expect("a host's address");
        let to = address::host_of_ipv4(tuple.dst, self.topology.hosts().len()).expect("a host's address");
        let macs = [from, to].map(|host| MacAddr(address::host_mac(host)));
        let headers = Headers::ipv4(macs, [tuple.src, tuple.dst], tuple.protocol, [tuple.src_port, tuple.dst_port]);
        let packet = self.packets.len() as u32;
        self.packets.push(Packet::default());
        self.transmit(from, frame::build(&headers, 100), Some(packet));
        packet
    }
    pub fn transmit(&mut self, from: HostIx, bytes: Vec<u8>, packet: Option<u32>) {
        let link = self.topology.out_links(self.topology.host(from))[0];
        self.travel(link, bytes, packet);
    }

    /// Sends a frame along a link.
    pub fn travel(&mut self, link: LinkIx, bytes: Vec<u8>, packet: Option<u32>) {
        if self.link_down.contains(&link) {
            return;
        }
        let facts = self.topology.link(link).clone();
        let port = PortNo(address::port_of(&self.topology, link.reverse()));
        self.put(self.now + facts.delay, Happening::Frame { node: facts.to, port, bytes, packet });
    }

    fn put(&mut self, at: Time, happening: Happening) {
        self.next += 1;
        self.queue.insert((at, self.next), happening);
    }

    fn channel_delay(&self, node: NodeIx) -> Time {
        let base = Time::from_us(200 + 37 * u64::from(node.0 % 7));
        base + self.stall.get(&node).copied().unwrap_or(Time::ZERO)
    }

    /// Lets the time pass until then.
    pub fn run_until(&mut self, until: Time) {
        self.drain_controller();
        loop {
            let next = self.queue.keys().next().map(|(at, _)| *at);
            let timer = self.controller.poll_timeout();
            let expiry = self.switches.values().filter_map(Switch::poll_timeout).min();
            let Some(at) = [next, timer, expiry].into_iter().flatten().min().filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            if next == Some(at) {
                let (_, happening) = self.queue.pop_first().expect("something happens");
                self.happen(happening);
            } else if expiry == Some(at) {
                let nodes: Vec<NodeIx> = self.switches.keys().copied().collect();
                for node in nodes {
                    self.switches.get_mut(&node).expect("a switch").handle_timeout(self.now);
                    self.drain_switch(node, None);
                }
            } else {
                self.controller.handle_timeout(self.now);
                self.drain_controller();
            }
        }
        self.now = until;
    }
    pub fn run(&mut self, time: Time) {
        self.run_until(self.now + time);
    }
    /// Runs until the controller says that everything is done, at most 30 s.
    pub fn settle(&mut self) {
        let limit = self.now + Time::from_s(30);
        loop {
            self.run(Time::from_ms(1));
            if self.controller.is_settled() && !self.is_busy() {
                break;
            }
            assert!(self.now < limit, "the controller does not settle");
        }
    }
    fn is_busy(&self) -> bool {
        self.queue.values().any(|happening| !matches!(happening, Happening::Frame { packet: Some(_), .. }))
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::ToController(input) => {
                self.controller.handle(self.now, input);
                self.drain_controller();
            }
            Happening::ToSwitch(node, connection, envelope) => {
                self.sent.push((self.now, node, envelope.message.clone()));
                self.last_xid.insert(node, envelope.xid);
                self.switches.get_mut(&node).expect("a switch").handle(self.now, connection, envelope);
                self.drain_switch(node, None);
            }
            Happening::Frame { node, port, bytes, packet } => self.arrive(node, port, bytes, packet),
        }
    }

    fn arrive(&mut self, node: NodeIx, port: PortNo, bytes: Vec<u8>, packet: Option<u32>) {
        // Packets that were with the controller tell their numbers themselves.
        let packet = packet.or_else(|| marked::number(&bytes));
        if self.topology.node(node).kind == NodeKind::Host {
            let host = self.topology.hosts().iter().position(|host| *host == node).expect("a host");
            let host = HostIx(host as u32);
            match packet {
                Some(number) => {
                    let packet = &mut self.packets[number as usize];
                    packet.delivered = Some((host, self.now));
                    packet.arrived = frame::parse(&bytes).ok();
                    packet.deliveries += 1;
                    if self.answering.contains(&host) {
                        self.answer(host, number);
                    }
                }
                None => {
                    let answer = self.pages.get(&host).and_then(|status| serve(&bytes, *status));
                    self.to_hosts.push((host, bytes));
                    if let Some(answer) = answer {
                        self.transmit(host, answer, None);
                    }
                }
            }
            return;
        }
        if let Some(packet) = packet {
            let packet = &mut self.packets[packet as usize];
            packet.has_looped |= packet.visited.contains(&node);
            packet.visited.push(node);
            if packet.visited.len() > 64 {
                return;
            }
        }
        self.switches.get_mut(&node).expect("a switch").receive(self.now, port, &bytes);
        self.drain_switch(node, packet);
    }

    /// A marked packet of a host that counts as sent: its number in `packets`.
    pub fn ask(&mut self, from: HostIx, mac: MacAddr, tuple: FiveTuple) -> u32 {
        let number = self.packets.len() as u32;
        self.packets.push(Packet::default());
        let macs = [MacAddr(address::host_mac(from)), mac];
        let flags = if self.opening.is_some() { flags::SYN } else { flags::ACK };
        let seq = self.opening.unwrap_or(1_000_000);
        self.transmit(from, marked::frame_with(macs, &tuple, (flags, seq), number), Some(number));
        number
    }

    /// A host answers a marked packet.
    fn answer(&mut self, host: HostIx, question: u32) {
        let asked = &self.packets[question as usize];
        let (Some(headers), false) = (asked.arrived, asked.is_answer) else { return };
        let number = self.packets.len() as u32;
        self.packets[question as usize].answer = Some(number);
        self.packets.push(Packet { is_answer: true, ..Packet::default() });
        let tuple = FiveTuple {
            src: headers.ipv4_dst,
            dst: headers.ipv4_src,
            protocol: headers.ip_proto,
            src_port: headers.l4_dst,
            dst_port: headers.l4_src,
        };
        let bytes = marked::frame([headers.eth_dst, headers.eth_src], &tuple, true, number);
        self.transmit(host, bytes, Some(number));
    }

    fn drain_switch(&mut self, node: NodeIx, packet: Option<u32>) {
        while let Some(output) = self.switches.get_mut(&node).expect("a switch").poll_output() {
            match output {
                switch::Output::Message(connection, envelope) => {
                    let at = self.now + self.channel_delay(node);
                    self.put(at, Happening::ToController(ToController::Message(connection, envelope)));
                }
                switch::Output::Frame(port, bytes) => {
                    let link = self.topology.out_links(node)[port.0 as usize - 1];
                    self.travel(link, bytes, packet);
                }
            }
        }
    }

    pub fn drain_controller(&mut self) {
        while let Some(output) = self.controller.poll_output() {
            match output {
                Output::Channel(FromController::Message(connection, envelope)) => {
                    let node = self.connections.iter().find(|(_, other)| **other == connection).map(|(node, _)| *node);
                    if let Some(node) = node {
                        let at = self.now + self.channel_delay(node);
                        self.put(at, Happening::ToSwitch(node, connection, envelope));
                    }
                }
                Output::Channel(FromController::Close(connection)) => {
                    let node = self.connections.iter().find(|(_, other)| **other == connection).map(|(node, _)| *node);
                    if let Some(node) = node {
                        self.connections.remove(&node);
                        self.forget_messages(connection);
                        self.switches.get_mut(&node).expect("a switch").disconnected(self.now, connection);
                    }
                }
                Output::Agents(_) => {}
                Output::Event(event) => self.events.push((self.now, event)),
            }
        }
    }

    pub fn report(&mut self, report: AgentReport) {
        self.controller.report(self.now, report);
        self.drain_controller();
    }
    /// Lets the balancer know of a flow, as agents do.
    pub fn start(&mut self, tuple: FiveTuple) {
        self.report(AgentReport::Started { tuple, bytes: 1, size: None });
    }
    /// What the balancer wants from its next period on.
    pub fn want(&mut self, edit: impl FnOnce(&mut Script)) {
        edit(&mut self.script.lock().expect("the script"));
    }

    /// What is on every switch is what should be.
    pub fn assert_exact(&self) {
        for switch in self.switches.values() {
            let mut entries = switch.entries();
            for entry in &mut entries {
                (entry.duration_ns, entry.packets, entry.bytes) = (0, 0, 0);
            }
            let is_left = |entry: &FlowStats| self.controller.is_counting_rule(switch.datapath(), entry);
            let is_kept = |entry: &FlowStats| is_left(entry) || self.controller.is_connection_rule(entry);
            entries.retain(|entry| entry.cookie >> 48 == 0xa7ab && !is_kept(entry));
            let desired = self.controller.desired_entries(switch.datapath());
            let surplus = entries.iter().find(|entry| !desired.contains(entry));
            let missing = desired.iter().find(|entry| !entries.contains(entry));
            assert_eq!((surplus, missing), (None, None), "surplus and missing on {:?}", switch.datapath());
            assert!(entries == desired, "{:?}: the order differs", switch.datapath());
            let groups: Vec<_> = switch.groups().into_iter().filter(|group| group.group.0 >> 16 == 0xa7ab).collect();
            assert_eq!(groups, self.controller.desired_groups(switch.datapath()), "{:?}", switch.datapath());
        }
        for (tuple, datapath) in self.controller.counted_flows() {
            let is_of = |entry: &FlowStats| {
                let match_ = &entry.match_;
                (match_.ipv4_src.map(|src| src.value), match_.ipv4_dst.map(|dst| dst.value))
                    == (Some(tuple.src), Some(tuple.dst))
                    && (match_.tcp_src.or(match_.udp_src), match_.tcp_dst.or(match_.udp_dst))
                        == (Some(tuple.src_port), Some(tuple.dst_port))
                    && self.controller.is_counting_rule(datapath, entry)
            };
            let switch = self.switches.values().find(|switch| switch.datapath() == datapath).expect("its switch");
            assert!(switch.entries().iter().any(is_of), "{tuple:?} is not counted on {datapath:?}");
        }
    }

    /// Sends one packet from every host to every other; those that were lost or looped.
    pub fn unreached(&mut self) -> Vec<(FiveTuple, Packet)> {
        let hosts = self.topology.hosts().len() as u32;
        let mut sent = Vec::new();
        for src in 0..hosts {
            for dst in (0..hosts).filter(|dst| *dst != src) {
                let tuple = udp(src, dst, 1000 + (src * 31 + dst) as u16);
                sent.push((tuple, HostIx(dst), self.send(tuple)));
            }
        }
        self.run(Time::from_ms(20));
        let packet = |number: u32| self.packets[number as usize].clone();
        let is_right = |dst: HostIx, packet: &Packet| {
            packet.delivered.is_some_and(|(at, _)| at == dst)
                && !packet.has_looped
                && packet.arrived.is_some_and(|headers| headers.vlan.is_none())
        };
        let checked = sent.into_iter().map(|(tuple, dst, number)| (tuple, dst, packet(number)));
        checked.filter(|(_, dst, packet)| !is_right(*dst, packet)).map(|(tuple, _, packet)| (tuple, packet)).collect()
    }
}

/// What a server of pages answers, if anything: it keeps nothing in mind.
fn serve(bytes: &[u8], status: u16) -> Option<Vec<u8>> {
    use openflow::frame::{Echo, Segment, echo, flags, icmp_echo, segment, tcp, tcp_reset};
    let headers = frame::parse(bytes).ok()?;
    let (macs, addresses) = ([headers.eth_dst, headers.eth_src], [headers.ipv4_dst, headers.ipv4_src]);
    if let Some(asked) = echo(bytes).filter(|echo| !echo.is_reply) {
        return Some(icmp_echo(macs, addresses, Echo { is_reply: true, ..asked }));
    }
    let got = segment(bytes).ok()??;
    let ports = [headers.l4_dst, headers.l4_src];
    let ack = got.seq.wrapping_add(got.sequence_len());
    let answer =
        |flags, seq, payload: &[u8]| tcp(macs, addresses, ports, &Segment { flags, seq, ack, window: 9, payload });
    match (got.has(flags::SYN), got.payload.is_empty()) {
        (true, _) if status == 0 => tcp_reset(bytes),
        (true, _) => Some(answer(flags::SYN | flags::ACK, 1_000_000, b"")),
        (false, false) => {
            let page = format!("HTTP/1.1 {status} Whatever\r\nContent-Length: 0\r\n\r\n");
            Some(answer(flags::ACK | flags::PSH, 1_000_001, page.as_bytes()))
        }
        (false, true) => None,
    }
}

/// Packets that carry their number, so that they are known again after a visit to the controller.
pub mod marked {
    use net::FiveTuple;
    use openflow::frame::{Echo, Segment, build, echo, flags, icmp_echo, tcp};
    use openflow::headers::protocol;
    use openflow::{Headers, MacAddr};

    const MARK: &[u8; 8] = b"anabranc";
    const ECHO_ID: u16 = 0x6d6b;

    /// A question that opens a connection, or an answer that does.
    pub fn frame(macs: [MacAddr; 2], tuple: &FiveTuple, is_answer: bool, number: u32) -> Vec<u8> {
        let flags = if is_answer { flags::SYN | flags::ACK } else { flags::SYN };
        frame_with(macs, tuple, (flags, 7), number)
    }

    /// With flags and a sequence number, if it is TCP. An answer has the flag of acknowledgements besides that of openings.
    pub fn frame_with(macs: [MacAddr; 2], tuple: &FiveTuple, (flags, seq): (u8, u32), number: u32) -> Vec<u8> {
        let (addresses, ports) = ([tuple.src, tuple.dst], [tuple.src_port, tuple.dst_port]);
        let payload = [&MARK[..], &number.to_be_bytes()].concat();
        match tuple.protocol {
            protocol::ICMP => {
                let is_reply = flags == flags::SYN | flags::ACK;
                let (id, seq) = (ECHO_ID, u16::try_from(number).expect("few packets"));
                icmp_echo(macs, addresses, Echo { is_reply, id, seq })
            }
            protocol::TCP => {
                tcp(macs, addresses, ports, &Segment { flags, seq, ack: 0, window: 1000, payload: &payload })
            }
            _ => {
                let mut frame = build(&Headers::ipv4(macs, addresses, tuple.protocol, ports), payload.len());
                let at = frame.len() - payload.len();
                frame[at..].copy_from_slice(&payload);
                frame[40..42].fill(0); // Without checksum.
                frame
            }
        }
    }

    /// A packet of a connection of TCP that stands.
    pub fn later(macs: [MacAddr; 2], tuple: &FiveTuple, number: u32) -> Vec<u8> {
        let (addresses, ports) = ([tuple.src, tuple.dst], [tuple.src_port, tuple.dst_port]);
        let payload = [&MARK[..], &number.to_be_bytes()].concat();
        tcp(macs, addresses, ports, &Segment { flags: flags::ACK, seq: 9, ack: 4, window: 1000, payload: &payload })
    }

    pub fn number(bytes: &[u8]) -> Option<u32> {
        if let Some(echo) = echo(bytes).filter(|echo| echo.id == ECHO_ID) {
            return Some(u32::from(echo.seq));
        }
        let (rest, number) = bytes.split_last_chunk::<4>()?;
        rest.ends_with(MARK).then(|| u32::from_be_bytes(*number))
    }
}

pub fn udp(src: u32, dst: u32, port: u16) -> FiveTuple {
    let (src, dst) = (address::host_ipv4(HostIx(src)), address::host_ipv4(HostIx(dst)));
    FiveTuple { src, dst, protocol: 17, src_port: port, dst_port: 7000 }
}

pub fn fat_tree() -> Topology {
    net::spec::parse("fat-tree:k=4").expect("a fat-tree")
}

fn make_switch(topology: &Topology, node: NodeIx, limits: (u32, u32)) -> Switch {
    make_switch_without(topology, node, limits, None)
}

/// A switch that may lack one of its ports.
pub fn make_switch_without(topology: &Topology, node: NodeIx, limits: (u32, u32), without: Option<PortNo>) -> Switch {
    Switch::new(switch_config(topology, node, limits, without))
}

/// How a switch of a topology is made.
pub fn switch_config(
    topology: &Topology,
    node: NodeIx,
    (max_entries, max_groups): (u32, u32),
    without: Option<PortNo>,
) -> switch::Config {
    let datapath = DatapathId(address::datapath_of(node));
    let port = |number: usize| PortDesc {
        port: PortNo(number as u32 + 1),
        hw_addr: MacAddr([2, 0xff, 0, node.0 as u8, 0, number as u8]),
        name: format!("p{}", number + 1),
        is_admin_down: false,
        is_link_down: false,
        speed_kbps: 10_000_000,
    };
    switch::Config {
        datapath,
        ports: (0..topology.out_links(node).len()).map(port).filter(|port| Some(port.port) != without).collect(),
        tables: 4,
        max_entries,
        max_groups,
        buffers: 0,
        select: Select { seed: u64::from(node.0), fields: HashFields::FiveTuple },
        stats_refresh: Time::ZERO,
        packet_in_per_s: None,
        takes_tcp_flags: false,
        description: Description::default(),
    }
}
