//! A small deterministic network: a controller, `switch::Native` objects, links and channels with delay.

mod arp;
pub mod cost;
pub mod marked;
mod packet_record;
mod replies;
mod scripted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anabranch_control::edge::RouteInput;
use anabranch_control::{Config, Controller, Event, KnownHost, Output};
pub use arp::is_arp;
use balance::central::{AgentReport, CentralBalancer, CentralNeeds, FlowSource};
use core::net::Ipv4Addr;
use net::{FiveTuple, HostIx, LinkIx, NodeIx, NodeKind, Time, Topology, address};
use openflow::frame::flags;
use openflow::{ConnectionId, Envelope, FlowStats, FromController, MacAddr, Message, PortNo, ToController, Xid, frame};
pub use packet_record::Packet;
use replies::serve;
pub use scripted::{Script, Scripted};
use switch::Switch;
pub use switch::testing::{fat_tree, udp};
use switch::testing::{packet, switches};

enum TestEvent {
    ToController(ToController),
    ToSwitch(NodeIx, ConnectionId, openflow::Envelope),
    Frame { node: NodeIx, port: PortNo, bytes: Vec<u8>, packet: Option<u32> },
    Reply(HostIx, Vec<u8>),
}

pub struct TestNetwork {
    pub now: Time,
    pub topology: Topology,
    pub controller: Controller,
    pub switches: BTreeMap<NodeIx, Switch>,
    pub script: Arc<Mutex<Script>>,
    pub events: Vec<(Time, Event)>,
    pub packets: Vec<Packet>,
    pub to_hosts: Vec<(HostIx, Vec<u8>)>,
    pub sent: Vec<(Time, NodeIx, openflow::Message)>,
    pub last_xid: BTreeMap<NodeIx, openflow::Xid>,
    pub connections: BTreeMap<NodeIx, ConnectionId>,
    pub link_down: BTreeSet<LinkIx>,
    /// Hosts that reply to marked packets ([`TestNetwork::run_balancer`]) immediately, swapping
    /// addresses and ports.
    pub answering: BTreeSet<HostIx>,
    /// Hosts with an HTTP server at every port, which also reply to echoes: its status; 0: no
    /// process listens.
    pub pages: BTreeMap<HostIx, u16>,
    /// Time that such a host takes for a reply.
    pub page_time: BTreeMap<HostIx, Time>,
    /// Sequence number of opening TCP segments; `None`: sent segments belong to established
    /// connections.
    pub opening: Option<u32>,
    /// Messages to switches that are lost.
    pub is_lost: fn(&openflow::Message) -> bool,
    /// Additional delay of the channel of a switch.
    pub stall: BTreeMap<NodeIx, Time>,
    queue: BTreeMap<(Time, u64), TestEvent>,
    next: u64,
    next_connection: u32,
}

pub fn needs(flows: FlowSource, counters: bool) -> CentralNeeds {
    CentralNeeds { flows, counters, period: Some(Time::from_ms(50)) }
}
/// Returns the needs of a balancer that runs only when the network changes.
pub fn quiet() -> CentralNeeds {
    CentralNeeds { period: None, ..needs(FlowSource::None, false) }
}

/// Capacity of switches for rules and groups, unless a test is about it.
pub const AMPLE: (u32, u32) = (100_000, 10_000);

pub fn mac(host: u32) -> MacAddr {
    MacAddr(address::host_mac(HostIx(host)))
}
pub fn ip(host: u32) -> Ipv4Addr {
    address::host_ipv4(HostIx(host))
}
pub fn config_for(topology: &Topology) -> Config {
    Config { hosts: KnownHost::all_of(topology), pins_hosts: false, ..Config::default() }
}

impl TestNetwork {
    /// Returns a network of the switches of `topology`, not connected yet.
    pub fn new(topology: Topology, config: Config, needs: CentralNeeds, limits: (u32, u32)) -> TestNetwork {
        let script = Arc::new(Mutex::new(Script::default()));
        let balancer = Scripted { script: script.clone(), needs };
        TestNetwork { script, ..TestNetwork::with(topology, config, Box::new(balancer), limits) }
    }
    pub fn with(
        topology: Topology,
        mut config: Config,
        balancer: Box<dyn CentralBalancer>,
        limits: (u32, u32),
    ) -> TestNetwork {
        config.seed = 7;
        let switch = |node| (node, Switch::new(switch::testing::config(&topology, node)));
        let mut network = TestNetwork {
            now: Time::ZERO,
            controller: Controller::new(config, balancer),
            switches: switches(&topology).map(switch).collect(),
            script: Arc::default(),
            events: Vec::new(),
            packets: Vec::new(),
            to_hosts: Vec::new(),
            sent: Vec::new(),
            last_xid: BTreeMap::new(),
            connections: BTreeMap::new(),
            link_down: BTreeSet::new(),
            opening: Some(7),
            is_lost: |_| false,
            stall: BTreeMap::new(),
            answering: BTreeSet::new(),
            pages: BTreeMap::new(),
            page_time: BTreeMap::new(),
            queue: BTreeMap::new(),
            next: 0,
            next_connection: 1,
            topology,
        };
        network.replace_switches(|config| (config.max_entries, config.max_groups) = limits);
        network
    }

    /// Returns a settled network with all hosts configured and all switches connected.
    pub fn up(topology: Topology, needs: CentralNeeds) -> TestNetwork {
        let config = config_for(&topology);
        TestNetwork::new(topology, config, needs, AMPLE).connected()
    }

    /// Returns the same with switches that identify as Open vSwitch, and support its matches.
    pub fn up_with_extensions(topology: Topology, needs: CentralNeeds) -> TestNetwork {
        let config = Config { uses_extensions: true, ..config_for(&topology) };
        let mut network = TestNetwork::new(topology, config, needs, AMPLE);
        network.replace_switches(|config| {
            config.supports_tcp_flags = true;
            config.description.manufacturer = "Nicira, Inc.".into();
        });
        network.connected()
    }

    /// Returns a fat-tree, not connected yet, with this configuration and all hosts configured.
    pub fn fat_tree(config: Config, needs: CentralNeeds) -> TestNetwork {
        let hosts = KnownHost::all_of(&fat_tree());
        TestNetwork::new(fat_tree(), Config { hosts, ..config }, needs, AMPLE)
    }

    /// Replaces the switches, which must be disconnected, by others without rules.
    pub fn replace_switches(&mut self, edit: impl Fn(&mut switch::Config)) {
        for (node, switch) in &mut self.switches {
            let mut config = switch::testing::config(&self.topology, *node);
            edit(&mut config);
            *switch = Switch::new(config);
        }
    }

    /// Connects all switches and waits until the controller is settled.
    pub fn connected(mut self) -> TestNetwork {
        self.connect_all();
        self.settle();
        self
    }

    /// Returns a fat-tree whose hosts are unknown to the controller.
    pub fn without_hosts(config: Config) -> TestNetwork {
        let mut network = TestNetwork::new(fat_tree(), config, quiet(), AMPLE);
        network.connect_all();
        network.run_and_settle(Time::from_s(1));
        network
    }

    /// Replaces the controller by one that knows only its configuration, and disconnects all
    /// switches.
    pub fn restart_controller(&mut self, config: Config, needs: CentralNeeds) {
        self.disconnect_all();
        let balancer = Scripted { script: self.script.clone(), needs };
        self.controller = Controller::new(config, Box::new(balancer));
    }

    /// Replaces a switch by one without rules, which must be disconnected.
    pub fn lose_power(&mut self, node: NodeIx) {
        self.switches.insert(node, Switch::new(switch::testing::config(&self.topology, node)));
    }

    pub fn connect_all(&mut self) {
        let nodes: Vec<NodeIx> = self.switches.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.connect(node));
    }
    pub fn disconnect_all(&mut self) {
        let nodes: Vec<NodeIx> = self.connections.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.disconnect(node));
    }
    /// Connects all switches, or one, and waits until the controller has settled.
    pub fn reconnect(&mut self, node: Option<NodeIx>) {
        match node {
            Some(node) => self.connect(node),
            None => self.connect_all(),
        }
        self.run_and_settle(Time::from_ms(1));
    }
    pub fn connect(&mut self, node: NodeIx) {
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(node, connection);
        self.put(self.now, TestEvent::ToController(ToController::Connected(connection)));
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

    fn forget_messages(&mut self, connection: ConnectionId) {
        self.queue.retain(|_, event| match event {
            TestEvent::ToSwitch(_, other, _) => *other != connection,
            TestEvent::ToController(ToController::Message(other, _)) => *other != connection,
            _ => true,
        });
    }

    /// Passes what a router reports of its BGP peers to the controller.
    pub fn report_routes(&mut self, input: &RouteInput) {
        self.controller.handle_routes(self.now, input);
        self.drain_controller();
    }

    /// Cuts or restores a cable; both ends notice immediately.
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

    /// Makes a cable lose everything while its ports stay up.
    pub fn cut_silently(&mut self, link: LinkIx) {
        self.link_down.extend([link, link.reverse()]);
    }

    pub fn cable(&self, a: NodeIx, b: NodeIx) -> LinkIx {
        let mut out = self.topology.out_links(a).iter().copied();
        out.find(|link| self.topology.link(*link).to == b).expect("a cable between them")
    }

    pub fn uplink(&self, host: u32) -> LinkIx {
        self.topology.out_links(self.topology.host(HostIx(host)))[0]
    }

    /// Returns the datapath ids of the shortest path of this rank between the switches of two
    /// hosts.
    pub fn path(&self, from: u32, to: u32, rank: u32) -> Vec<u64> {
        let routes = net::Routes::intact(&self.topology);
        let start = routes.class_node(routes.class_of(HostIx(from)));
        let links = routes.path(&self.topology, start, routes.class_of(HostIx(to)), rank);
        net::paths::nodes(&self.topology, start, &links).into_iter().map(address::datapath_of).collect()
    }

    /// Sends a packet of a flow. Returns its number in `packets`.
    pub fn send(&mut self, tuple: FiveTuple) -> u32 {
        let (from, headers) = packet(&self.topology, &tuple);
        self.transmit_packet(from, |_| frame::build(&headers, 100))
    }
    /// Sends a packet and runs for 5 ms. Returns the host it was delivered to.
    pub fn deliver(&mut self, tuple: FiveTuple) -> Option<HostIx> {
        let packet = self.send(tuple);
        self.run(Time::from_ms(5));
        self.packets[packet as usize].delivered.map(|(host, _)| host)
    }
    /// Sends a packet and runs for 5 ms. Returns the switches it visited.
    pub fn route_of(&mut self, tuple: FiveTuple) -> Vec<NodeIx> {
        let packet = self.send(tuple);
        self.run(Time::from_ms(5));
        self.packets[packet as usize].visited.clone()
    }
    /// Sends a packet, whose bytes may contain its number in `packets`. Returns this number.
    pub fn transmit_packet(&mut self, from: HostIx, bytes: impl FnOnce(u32) -> Vec<u8>) -> u32 {
        let number = self.packets.len() as u32;
        self.packets.push(Packet::default());
        self.transmit(from, bytes(number), Some(number));
        number
    }
    pub fn transmit(&mut self, from: HostIx, bytes: Vec<u8>, packet: Option<u32>) {
        self.travel(self.uplink(from.0), bytes, packet);
    }
    /// Passes a message to a switch that the controller did not send.
    pub fn inject(&mut self, node: NodeIx, message: Message) {
        let (connection, now) = (self.connections[&node], self.now);
        let switch = self.switches.get_mut(&node).expect("a switch");
        switch.handle(now, connection, Envelope { xid: Xid(1_000_000), message });
    }

    pub fn entries(&self) -> impl Iterator<Item = FlowStats> {
        self.switches.values().flat_map(Switch::entries)
    }
    pub fn count_events(&self, is_meant: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, event)| is_meant(event)).count()
    }
    pub fn rejections(&self) -> usize {
        self.count_events(|event| matches!(event, Event::SwitchError { .. }))
    }
    pub fn dead_links(&self) -> usize {
        self.controller.inspect().alive().iter().filter(|alive| !**alive).count()
    }

    pub fn travel(&mut self, link: LinkIx, bytes: Vec<u8>, packet: Option<u32>) {
        if self.link_down.contains(&link) {
            return;
        }
        let facts = self.topology.link(link).clone();
        let port = PortNo(address::port_of(&self.topology, link.reverse()));
        self.put(self.now + facts.delay, TestEvent::Frame { node: facts.to, port, bytes, packet });
    }

    fn put(&mut self, at: Time, event: TestEvent) {
        self.next += 1;
        self.queue.insert((at, self.next), event);
    }

    fn channel_delay(&self, node: NodeIx) -> Time {
        let base = Time::from_us(200 + 37 * u64::from(node.0 % 7));
        base + self.stall.get(&node).copied().unwrap_or(Time::ZERO)
    }

    /// Runs until a time.
    pub fn run_until(&mut self, until: Time) {
        self.drain_controller();
        let mut timers_now = 0;
        loop {
            let next = self.queue.keys().next().map(|(at, _)| *at);
            let timer = self.controller.poll_timeout();
            let expiry = self.switches.values().filter_map(Switch::poll_timeout).min();
            let Some(at) = [next, timer, expiry].into_iter().flatten().min().filter(|at| *at <= until) else { break };
            timers_now = if at > self.now { 0 } else { timers_now + 1 };
            assert!(timers_now < 100_000, "the same timers stay due at {}", self.now);
            self.now = self.now.max(at);
            if next == Some(at) {
                let (_, event) = self.queue.pop_first().expect("an event is due");
                self.execute(event);
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
    /// Runs until the controller is settled, at most 30 s.
    pub fn settle(&mut self) {
        let limit = self.now + Time::from_s(30);
        loop {
            self.run(Time::from_ms(1));
            let is_busy = self.queue.values().any(|event| !matches!(event, TestEvent::Frame { packet: Some(_), .. }));
            if self.controller.is_settled() && !is_busy {
                break;
            }
            assert!(self.now < limit, "the controller does not settle");
        }
    }
    pub fn run_and_settle(&mut self, time: Time) {
        self.run(time);
        self.settle();
    }

    fn execute(&mut self, event: TestEvent) {
        match event {
            TestEvent::ToController(input) => {
                self.controller.handle(self.now, input);
                self.drain_controller();
            }
            TestEvent::ToSwitch(_, _, envelope) if (self.is_lost)(&envelope.message) => {}
            TestEvent::ToSwitch(node, connection, envelope) => {
                self.sent.push((self.now, node, envelope.message.clone()));
                self.last_xid.insert(node, envelope.xid);
                self.switches.get_mut(&node).expect("a switch").handle(self.now, connection, envelope);
                self.drain_switch(node, None);
            }
            TestEvent::Frame { node, port, bytes, packet } => self.arrive(node, port, bytes, packet),
            TestEvent::Reply(host, bytes) => self.transmit(host, bytes, None),
        }
    }

    /// Delivers a frame to a port of a switch, or to a host.
    pub fn arrive(&mut self, node: NodeIx, port: PortNo, bytes: Vec<u8>, packet: Option<u32>) {
        // Packets that were with the controller carry their numbers.
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
                        let pause = self.page_time.get(&host).copied().unwrap_or(Time::ZERO);
                        self.put(self.now + pause, TestEvent::Reply(host, answer));
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

    /// Sends a marked packet of a host. Returns its number in `packets`.
    pub fn ask(&mut self, from: HostIx, mac: MacAddr, tuple: FiveTuple) -> u32 {
        let macs = [self::mac(from.0), mac];
        let flags = if self.opening.is_some() { flags::SYN } else { flags::ACK };
        let seq = self.opening.unwrap_or(1_000_000);
        self.transmit_packet(from, |number| marked::frame_with(macs, &tuple, (flags, seq), number))
    }

    /// Makes a host reply to a marked packet.
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
                    self.put(at, TestEvent::ToController(ToController::Message(connection, envelope)));
                }
                switch::Output::Frame(port, bytes) => {
                    let link = self.topology.out_links(node)[port.0 as usize - 1];
                    self.travel(link, bytes, packet);
                }
            }
        }
    }

    fn node_of(&self, connection: ConnectionId) -> Option<NodeIx> {
        self.connections.iter().find(|(_, other)| **other == connection).map(|(node, _)| *node)
    }

    pub fn drain_controller(&mut self) {
        while let Some(output) = self.controller.poll_output() {
            match output {
                Output::Channel(FromController::Message(connection, envelope)) => {
                    if let Some(node) = self.node_of(connection) {
                        let at = self.now + self.channel_delay(node);
                        self.put(at, TestEvent::ToSwitch(node, connection, envelope));
                    }
                }
                Output::Channel(FromController::Close(connection)) => {
                    if let Some(node) = self.node_of(connection) {
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
        self.controller.handle_agent_report(self.now, report);
        self.drain_controller();
    }
    /// Reports a flow to the balancer, as agents do.
    pub fn start(&mut self, tuple: FiveTuple) {
        self.report(AgentReport::Started { tuple, bytes: 1, size: None });
    }
    /// Changes what the balancer requests from its next period on.
    pub fn want(&mut self, edit: impl FnOnce(&mut Script)) {
        edit(&mut self.script.lock().expect("the script"));
    }

    /// Asserts that every switch has exactly the desired rules and groups.
    #[track_caller]
    pub fn assert_exact(&self) {
        for switch in self.switches.values() {
            let mut entries = switch.entries();
            for entry in &mut entries {
                (entry.duration_ns, entry.packets, entry.bytes) = (0, 0, 0);
            }
            let is_left = |entry: &FlowStats| self.controller.inspect().is_counting_rule(switch.datapath(), entry);
            let is_kept = |entry: &FlowStats| is_left(entry) || self.controller.inspect().is_connection_rule(entry);
            entries.retain(|entry| entry.cookie >> 48 == 0xa7ab && !is_kept(entry));
            let desired = self.controller.inspect().desired_entries(switch.datapath());
            let surplus = entries.iter().find(|entry| !desired.contains(entry));
            let missing = desired.iter().find(|entry| !entries.contains(entry));
            assert_eq!((surplus, missing), (None, None), "surplus and missing on {:?}", switch.datapath());
            assert!(entries == desired, "{:?}: the order differs", switch.datapath());
            let groups: Vec<_> = switch.groups().into_iter().filter(|group| group.group.0 >> 16 == 0xa7ab).collect();
            assert_eq!(groups, self.controller.inspect().desired_groups(switch.datapath()), "{:?}", switch.datapath());
        }
        for (tuple, datapath) in self.controller.inspect().counted_flows() {
            let is_of = |entry: &FlowStats| {
                let match_ = &entry.match_;
                (match_.ipv4_src.map(|src| src.value), match_.ipv4_dst.map(|dst| dst.value))
                    == (Some(tuple.src), Some(tuple.dst))
                    && (match_.tcp_src.or(match_.udp_src), match_.tcp_dst.or(match_.udp_dst))
                        == (Some(tuple.src_port), Some(tuple.dst_port))
                    && self.controller.inspect().is_counting_rule(datapath, entry)
            };
            let switch = self.switches.values().find(|switch| switch.datapath() == datapath).expect("its switch");
            assert!(switch.entries().iter().any(is_of), "{tuple:?} is not counted on {datapath:?}");
        }
    }

    /// Settles. Asserts that every switch has exactly the desired rules and groups.
    #[track_caller]
    pub fn assert_settled(&mut self) {
        self.settle();
        self.assert_exact();
    }

    /// Asserts that every switch has exactly the desired rules and groups, and that every host
    /// reaches every other.
    #[track_caller]
    pub fn assert_served(&mut self) {
        self.assert_exact();
        let unreached = self.unreached();
        assert!(unreached.is_empty(), "{unreached:?}");
    }

    /// Sends one packet from every host to every other. Returns those that were lost or looped.
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
