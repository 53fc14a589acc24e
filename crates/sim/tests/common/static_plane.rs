//! A controller for tests that is configured with the network. It installs shortest paths when a
//! switch connects, and again when a port changes. No discovery, no balancing.

use std::collections::{BTreeMap, VecDeque};

use anabranch_sim::{ControlPlane, PlaneOutput, PlaneTally};
use balance::central::{AgentCommand, AgentReport};
use net::{Bandwidth, HostIx, LinkIx, NodeIx, Routes, Time, Topology, address};
use openflow::headers::ether;
use openflow::{
    Action, Bucket, ConnectionId, Envelope, FlowMod, FlowModCommand, FlowSelection, FromController, GroupId, GroupKind,
    GroupMod, GroupModCommand, Instructions, Masked, Match, Message, MultipartReply, MultipartRequest, PacketOut,
    PortNo, TableId, ToController, Xid,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Single,
    Groups,
    /// A table-miss entry only: all packets go to the controller, which forwards them.
    Reactive,
    /// A table-miss entry only; the controller does not forward packets.
    Sink,
    /// Packets of hosts go to the next switch, which sends them back, and so on.
    Loop,
}

pub struct StaticPlane<'a> {
    topology: &'a Topology,
    kind: Kind,
    alive: Vec<bool>,
    routes: Routes,
    switches: BTreeMap<ConnectionId, NodeIx>,
    outputs: VecDeque<PlaneOutput>,
    xid: u32,
    pub reports: Vec<(Time, AgentReport)>,
    pub paced: u64,
    pace: Option<Bandwidth>,
    /// Changes of rules that follow those of a switch when it connects.
    more: Vec<(NodeIx, FlowMod)>,
    pub disconnected: u64,
    pub connected: u64,
    pub packet_ins: u64,
    /// Times at which it requests the statistics of all switches, ascending.
    polls: VecDeque<Time>,
    /// Packets counted by all entries of a switch, in the order of the replies.
    pub counted: Vec<u64>,
    pub tally: PlaneTally,
}

impl<'a> StaticPlane<'a> {
    pub fn new(topology: &'a Topology, kind: Kind) -> StaticPlane<'a> {
        StaticPlane {
            topology,
            kind,
            alive: vec![true; topology.links().len()],
            routes: Routes::intact(topology),
            switches: BTreeMap::new(),
            outputs: VecDeque::new(),
            xid: 0,
            reports: Vec::new(),
            paced: 0,
            pace: None,
            more: Vec::new(),
            disconnected: 0,
            connected: 0,
            packet_ins: 0,
            polls: VecDeque::new(),
            counted: Vec::new(),
            tally: PlaneTally::default(),
        }
    }

    pub fn ordering(mut self, order: AgentCommand) -> StaticPlane<'a> {
        self.outputs.push_back(PlaneOutput::Agents(order));
        self
    }

    pub fn pacing(mut self, rate: Bandwidth) -> StaticPlane<'a> {
        self.pace = Some(rate);
        self
    }

    pub fn polling(mut self, at: impl IntoIterator<Item = Time>) -> StaticPlane<'a> {
        self.polls.extend(at);
        self
    }

    pub fn changing(mut self, more: impl IntoIterator<Item = (NodeIx, FlowMod)>) -> StaticPlane<'a> {
        self.more.extend(more);
        self
    }

    fn send(&mut self, connection: ConnectionId, message: Message) {
        self.xid += 1;
        let envelope = Envelope { xid: Xid(self.xid), message };
        self.outputs.push_back(PlaneOutput::Channel(FromController::Message(connection, envelope)));
    }

    fn port(&self, link: LinkIx) -> PortNo {
        PortNo(address::port_of(self.topology, link))
    }

    /// Returns the links from a switch to a host; empty without a path.
    fn hops(&self, node: NodeIx, host: HostIx) -> Vec<LinkIx> {
        let class = self.routes.class_of(host);
        if self.routes.class_node(class) == node {
            return self.routes.last_link(host).into_iter().filter(|link| self.alive[link.ix()]).collect();
        }
        self.routes.next_hops(node, class).to_vec()
    }

    /// Installs everything again: entries replace those with the same match.
    fn install(&mut self, connection: ConnectionId, node: NodeIx) {
        match self.kind {
            Kind::Single | Kind::Groups => self.install_paths(connection, node),
            Kind::Reactive | Kind::Sink => self.add(connection, 0, Match::default(), vec![Action::to_controller()]),
            Kind::Loop => self.install_loop(connection, node),
        }
        let more: Vec<FlowMod> = self.more.iter().filter(|(at, _)| *at == node).map(|(_, more)| more.clone()).collect();
        more.into_iter().for_each(|change| self.send(connection, Message::FlowMod(change)));
        self.send(connection, Message::BarrierRequest);
    }

    fn install_paths(&mut self, connection: ConnectionId, node: NodeIx) {
        for host in (0..self.topology.hosts().len() as u32).map(HostIx) {
            let ports: Vec<PortNo> = self.hops(node, host).iter().map(|link| self.port(*link)).collect();
            let dst = Masked::<core::net::Ipv4Addr>::exact(address::host_ipv4(host));
            let m = Match { eth_type: Some(ether::IPV4), ipv4_dst: Some(dst), ..Match::default() };
            match (self.kind, ports.as_slice()) {
                (_, []) => {
                    let delete = FlowMod { command: FlowModCommand::DeleteStrict, ..rule(1, m, Vec::new()) };
                    self.send(connection, Message::FlowMod(delete));
                }
                (Kind::Groups, [_, _, ..]) => {
                    let buckets = ports.iter().map(|port| Bucket::watching(*port, 1)).collect();
                    self.group(connection, GroupId(host.0 + 1), buckets);
                    self.add(connection, 1, m, vec![Action::Group(GroupId(host.0 + 1))]);
                }
                (_, [first, ..]) => self.add(connection, 1, m, vec![Action::output(*first)]),
            }
        }
    }

    fn install_loop(&mut self, connection: ConnectionId, node: NodeIx) {
        self.add(connection, 0, Match::default(), vec![Action::output(PortNo::IN_PORT)]);
        let out = self.topology.out_links(node);
        let (hosts, others): (Vec<LinkIx>, Vec<LinkIx>) =
            out.iter().partition(|link| self.topology.is_host_link(**link));
        for host in hosts {
            let from_host = Match { in_port: Some(self.port(host)), ..Match::default() };
            self.add(connection, 1, from_host, vec![Action::output(self.port(others[0]))]);
        }
    }

    fn group(&mut self, connection: ConnectionId, group: GroupId, buckets: Vec<Bucket>) {
        let kind = GroupKind::Select;
        // The switch rejects one of the two and applies the other.
        for command in [GroupModCommand::Add, GroupModCommand::Modify] {
            let change = GroupMod { command, kind, group, buckets: buckets.clone() };
            self.send(connection, Message::GroupMod(change));
        }
    }

    fn add(&mut self, connection: ConnectionId, priority: u16, m: Match, actions: Vec<Action>) {
        self.send(connection, Message::FlowMod(rule(priority, m, actions)));
    }

    fn on_message(&mut self, connection: ConnectionId, message: Message) {
        match message {
            Message::Hello { .. } => self.send(connection, Message::FeaturesRequest),
            Message::FeaturesReply(features) => {
                let node = NodeIx(features.datapath.0 as u32 - 1);
                self.switches.insert(connection, node);
                self.install(connection, node);
            }
            Message::PortStatus { port, .. } => {
                let Some(node) = self.switches.get(&connection).copied() else { return };
                let out = self.topology.out_links(node)[port.port.0 as usize - 1];
                // The end that receives nothing reports it; the other direction may be lost too.
                self.alive[out.ix()] = port.is_live();
                self.alive[out.reverse().ix()] = port.is_live();
                self.routes = Routes::new(self.topology, &self.alive);
                self.tally.decisions += 1;
                for (connection, node) in self.switches.clone() {
                    self.install(connection, node);
                }
            }
            Message::MultipartReply { reply: MultipartReply::Aggregate { packets, .. }, .. } => {
                self.counted.push(packets);
            }
            Message::PacketIn(packet) => {
                self.packet_ins += 1;
                if self.kind == Kind::Reactive {
                    self.send_on(connection, packet.data);
                }
            }
            _ => {}
        }
    }

    fn send_on(&mut self, connection: ConnectionId, data: Vec<u8>) {
        let Some(node) = self.switches.get(&connection).copied() else { return };
        let headers = openflow::frame::parse(&data).expect("switches send whole frames");
        let host = address::host_of_ipv4(headers.ipv4_dst, self.topology.hosts().len()).expect("a host");
        let Some(port) = self.hops(node, host).first().map(|link| self.port(*link)) else { return };
        let out = PacketOut {
            buffer: openflow::BufferId::NO_BUFFER,
            in_port: PortNo::CONTROLLER,
            actions: vec![Action::output(port)],
            data,
        };
        self.send(connection, Message::PacketOut(out));
    }
}

fn rule(priority: u16, m: Match, actions: Vec<Action>) -> FlowMod {
    FlowMod::add(TableId(0), priority, m, Instructions::apply(actions))
}

impl ControlPlane for StaticPlane<'_> {
    fn handle(&mut self, _: Time, input: ToController) {
        match input {
            ToController::Connected(connection) => {
                self.connected += 1;
                self.send(connection, Message::Hello { versions: 1 << 4 });
            }
            ToController::Message(connection, envelope) => self.on_message(connection, envelope.message),
            ToController::Disconnected(connection) => {
                self.disconnected += 1;
                self.switches.remove(&connection);
            }
        }
    }
    fn report(&mut self, now: Time, report: AgentReport) {
        self.reports.push((now, report));
        if let (AgentReport::Started { tuple, .. }, Some(_)) = (report, self.pace) {
            self.paced += 1;
            self.outputs.push_back(PlaneOutput::Agents(AgentCommand::SetRateLimit { tuple, rate: self.pace }));
        }
    }
    fn poll_output(&mut self) -> Option<PlaneOutput> {
        self.outputs.pop_front()
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.polls.front().copied()
    }
    fn handle_timeout(&mut self, now: Time) {
        if self.polls.pop_front_if(|at| *at <= now).is_some() {
            for connection in self.switches.keys().copied().collect::<Vec<_>>() {
                let all = MultipartRequest::Aggregate(FlowSelection::all());
                self.send(connection, Message::MultipartRequest(all));
            }
        }
    }
    fn is_settled(&self) -> bool {
        self.outputs.is_empty()
    }
    fn tally(&self) -> PlaneTally {
        self.tally
    }
}
