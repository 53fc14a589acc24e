//! A measurement: the CPU time of a controller whose switches connect one after the other.

use std::collections::{BTreeMap, VecDeque};

use crate::common::config_for;
use crate::common::cost::{cpu_ms, resident_mib};
use anabranch_control::{Controller, Output};
use balance::central::CentralEnv;
use balance::{Build, Spec};
use net::{LinkIx, NodeIx, NodeKind, Time, Topology, address};
use openflow::{
    Action, BufferId, ConnectionId, DatapathId, Envelope, Features, FromController, Match, Message, MultipartReply,
    MultipartRequest, PacketIn, PacketInReason, PortNo, TableId, ToController,
};
use switch::testing::{config, switches};

/// Switches that confirm everything and keep nothing, so that nearly all time is the controller's.
struct Fakes {
    topology: Topology,
    controller: Controller,
    now: Time,
    connected: Vec<bool>,
    pending: VecDeque<ToController>,
    sent: BTreeMap<&'static str, u64>,
}

impl Fakes {
    fn new(topology: Topology) -> Fakes {
        let spec = Spec::parse("sdn-ecmp").expect("a balancer of the registry");
        let Build::Central(build) = spec.entry.build else { panic!("a central balancer") };
        let balancer = build(&CentralEnv { seed: 1 }, &spec.params);
        let controller = Controller::new(config_for(&topology), balancer);
        let connected = vec![false; topology.nodes().len()];
        Fakes { topology, controller, now: Time::ZERO, connected, pending: VecDeque::new(), sent: BTreeMap::new() }
    }

    fn connect(&mut self, node: NodeIx) {
        self.connected[node.ix()] = true;
        self.pending.push_back(ToController::Connected(ConnectionId(node.0)));
        self.run();
    }

    /// Returns the CPU time, ms, until some seconds after the loss of a connection, and after its
    /// return.
    fn reconnect(&mut self, node: NodeIx) -> [f64; 2] {
        let began = cpu_ms();
        self.connected[node.ix()] = false;
        self.pending.push_back(ToController::Disconnected(ConnectionId(node.0)));
        self.run();
        self.run_until(self.now.saturating_add(Time::from_s(3)));
        let lost = cpu_ms();
        self.connect(node);
        self.run_until(self.now.saturating_add(Time::from_s(3)));
        [lost - began, cpu_ms() - lost]
    }

    /// Delivers all messages; each one that the controller receives may cause a decision.
    fn run(&mut self) {
        let mut outputs = VecDeque::new();
        loop {
            while self.controller.take_outputs(&mut outputs) {
                for output in outputs.drain(..) {
                    let Output::Channel(FromController::Message(to, envelope)) = output else { continue };
                    self.receive(NodeIx(to.0), envelope);
                }
            }
            let Some(input) = self.pending.pop_front() else { return };
            self.controller.handle(self.now, input);
        }
    }

    fn run_until(&mut self, end: Time) {
        while let Some(due) = self.controller.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.controller.handle_timeout(self.now);
            self.run();
        }
        self.now = end;
    }

    fn receive(&mut self, node: NodeIx, Envelope { xid, message }: Envelope) {
        let multipart = |reply| Some(Message::MultipartReply { reply, has_more: false });
        let kind = match &message {
            Message::FlowMod(_) => "flow-mods",
            Message::GroupMod(_) => "group-mods",
            Message::PacketOut(_) => "packet-outs",
            _ => "others",
        };
        *self.sent.entry(kind).or_default() += 1;
        let reply = match message {
            Message::Hello { versions } => Some(Message::Hello { versions }),
            Message::FeaturesRequest => {
                let datapath = DatapathId(address::datapath_of(node));
                Some(Message::FeaturesReply(Features {
                    datapath,
                    buffers: 0,
                    tables: 4,
                    auxiliary: 0,
                    capabilities: 0,
                }))
            }
            Message::MultipartRequest(MultipartRequest::PortDesc) => {
                multipart(MultipartReply::PortDesc(config(&self.topology, node).ports))
            }
            Message::MultipartRequest(MultipartRequest::GroupDesc) => multipart(MultipartReply::GroupDesc(Vec::new())),
            Message::MultipartRequest(MultipartRequest::Flow(_)) => multipart(MultipartReply::Flow(Vec::new())),
            Message::BarrierRequest => Some(Message::BarrierReply),
            Message::EchoRequest(data) => Some(Message::EchoReply(data)),
            Message::PacketOut(packet) => return self.forward(node, &packet.actions, packet.data),
            _ => None,
        };
        if let Some(message) = reply {
            self.pending.push_back(ToController::Message(ConnectionId(node.0), Envelope { xid, message }));
        }
    }

    /// Passes a discovery probe to the switch at the other end of a link.
    fn forward(&mut self, node: NodeIx, actions: &[Action], data: Vec<u8>) {
        let [Action::Output { port, .. }] = actions else { panic!("a probe leaves by one port") };
        let link: LinkIx = self.topology.out_links(node)[port.0 as usize - 1];
        let to = self.topology.link(link).to;
        if self.topology.node(to).kind != NodeKind::Switch || !self.connected[to.ix()] {
            return;
        }
        let in_port = PortNo(address::port_of(&self.topology, link.reverse()));
        let packet = PacketIn {
            buffer: BufferId::NO_BUFFER,
            total_len: data.len() as u16,
            reason: PacketInReason::Action,
            table: TableId(0),
            cookie: 0,
            match_: Match { in_port: Some(in_port), ..Match::default() },
            other_fields: Vec::new(),
            data,
        };
        let envelope = Envelope { xid: openflow::Xid(0), message: Message::PacketIn(packet) };
        self.pending.push_back(ToController::Message(ConnectionId(to.0), envelope));
    }
}

/// Prints the CPU time and memory of a controller of a fat-tree whose switches connect every 10 ms;
/// then the CPU time when the last switch disconnects and returns without rules.
/// `CONNECTING_K` lists other sizes.
#[test]
#[ignore = "a measurement: cargo test --release -p anabranch-control --test it connecting -- --ignored --nocapture"]
fn connecting_of_fat_trees_is_measured() {
    let sizes = std::env::var("CONNECTING_K").unwrap_or_else(|_| "8,12".to_owned());
    println!("   k  switches  CPU ms   MiB |  lost  back | decisions and messages sent until connected");
    for k in sizes.split(',').map(|k| k.trim().parse::<u32>().expect("a number")) {
        let topology = net::spec::parse(&format!("fat-tree:k={k}")).expect("a topology");
        let nodes: Vec<NodeIx> = switches(&topology).collect();
        let links = topology.links().len() - 2 * topology.hosts().len();
        let (memory, began) = (resident_mib(), cpu_ms());
        let mut fakes = Fakes::new(topology);
        for node in &nodes {
            fakes.connect(*node);
            fakes.run_until(fakes.now.saturating_add(Time::from_ms(10)));
        }
        fakes.run_until(fakes.now.saturating_add(Time::from_s(3)));
        let (time, memory) = (cpu_ms() - began, resident_mib() - memory);
        assert!(fakes.controller.is_settled());
        assert_eq!(fakes.controller.inspect().links().count(), links);
        let decisions = fakes.controller.tally().decisions;
        let sent = format!("{:?}", fakes.sent);
        let [lost, back] = fakes.reconnect(nodes[nodes.len() - 1]);
        println!("{k:4} {:9} {time:7.0} {memory:5} | {lost:5.0} {back:5.0} | {decisions} {sent}", nodes.len());
    }
}
