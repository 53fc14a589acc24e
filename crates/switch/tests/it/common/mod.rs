//! Switches and packets for tests.

#![allow(dead_code, reason = "each test uses some of it")]

use core::net::Ipv4Addr;

use anabranch_switch::{Config, Decision, HashFields, Output, Select, Support, Switch};
use net::Time;
use openflow::headers::{ether, protocol};
use openflow::{
    Action, Bucket, ConnectionId, DatapathId, Description, Envelope, FlowMod, GroupId, GroupKind, GroupMod,
    GroupModCommand, Headers, Instructions, MacAddr, Masked, Match, Message, MultipartReply, MultipartRequest,
    PortDesc, PortNo, TableId, Xid,
};

pub const C: ConnectionId = ConnectionId(1);

pub fn port_desc(port: u32) -> PortDesc {
    PortDesc::up(PortNo(port), MacAddr([2, 0, 0, 0, 0, port as u8]), format!("eth{port}"), 1_000_000)
}

/// Returns a configuration: 4 ports, 3 tables of 8 entries, 4 groups, 2 buffers.
pub fn config() -> Config {
    Config {
        datapath: DatapathId(7),
        ports: (1..=4).map(port_desc).collect(),
        tables: 3,
        max_entries: 8,
        max_groups: 4,
        buffers: 2,
        select: Select { seed: 1, fields: HashFields::FiveTuple },
        stats_refresh: Time::ZERO,
        packet_in_per_s: None,
        supports_tcp_flags: false,
        support: Support::default(),
        description: Description { manufacturer: "Anabranch".into(), ..Description::default() },
    }
}

/// A switch with an open connection, and the time of its driver.
pub struct Bench {
    pub switch: Switch,
    pub now: Time,
    next_xid: u32,
}

impl Bench {
    pub fn new(config: Config) -> Bench {
        Bench::of(Switch::new(config))
    }

    pub fn of(switch: Switch) -> Bench {
        let mut bench = Bench::unopened(switch);
        bench.open(C);
        bench
    }

    pub fn unopened(switch: Switch) -> Bench {
        Bench { switch, now: Time::ZERO, next_xid: 100 }
    }

    pub fn open(&mut self, connection: ConnectionId) {
        self.switch.connected(self.now, connection);
        self.handle(connection, Xid(1), Message::Hello { versions: 1 << 4 });
        let hello = self.drain();
        let [Output::Message(to, Envelope { message: Message::Hello { versions: 16 }, .. })] = &hello[..] else {
            panic!("{hello:?}")
        };
        assert_eq!(*to, connection);
    }

    pub fn handle(&mut self, connection: ConnectionId, xid: Xid, message: Message) {
        self.switch.handle(self.now, connection, Envelope { xid, message });
    }

    pub fn drain(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.switch.poll_output()).collect()
    }

    /// Sends a message and returns the replies, which must have its transaction id.
    pub fn ask(&mut self, message: Message) -> Vec<Message> {
        self.ask_as(C, message)
    }

    pub fn ask_as(&mut self, connection: ConnectionId, message: Message) -> Vec<Message> {
        let xid = Xid(self.next_xid);
        self.next_xid += 1;
        self.handle(connection, xid, message);
        let answers = self.drain().into_iter().filter_map(|output| match output {
            Output::Message(to, envelope) if to == connection && envelope.xid == xid => Some(envelope.message),
            _ => None,
        });
        answers.collect()
    }

    pub fn tell(&mut self, message: Message) {
        let answers = self.ask(message.clone());
        assert_eq!(answers, [], "{message:?}");
    }

    /// Returns the reply to a statistics request, which must have one part.
    pub fn statistics(&mut self, request: MultipartRequest) -> MultipartReply {
        match &self.ask(Message::MultipartRequest(request))[..] {
            [Message::MultipartReply { reply, has_more: false }] => reply.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn messages(&mut self) -> Vec<(ConnectionId, Message)> {
        let messages = self.drain().into_iter().filter_map(|output| match output {
            Output::Message(to, envelope) => Some((to, envelope.message)),
            Output::Frame(..) => None,
        });
        messages.collect()
    }

    pub fn add(&mut self, table: u8, priority: u16, match_: Match, instructions: Instructions) {
        self.tell(Message::FlowMod(FlowMod::add(TableId(table), priority, match_, instructions)));
    }

    pub fn decide(&mut self, in_port: u32, headers: &Headers) -> Decision {
        let mut decision = Decision::default();
        self.switch.decide(self.now, PortNo(in_port), headers, &mut decision);
        decision
    }

    pub fn ports(&mut self, in_port: u32, headers: &Headers) -> Vec<u32> {
        self.decide(in_port, headers).egress.iter().map(|egress| egress.port.0).collect()
    }
}

pub fn tcp(src: u8, dst: u8, src_port: u16) -> Headers {
    Headers {
        eth_dst: MacAddr([2, 0, 0, 0, 1, dst]),
        eth_src: MacAddr([2, 0, 0, 0, 1, src]),
        eth_type: ether::IPV4,
        ip_proto: protocol::TCP,
        ipv4_src: Ipv4Addr::new(10, 0, 0, src),
        ipv4_dst: Ipv4Addr::new(10, 0, 0, dst),
        l4_src: src_port,
        l4_dst: 80,
        ..Headers::default()
    }
}

pub fn to(dst: u8) -> Match {
    let ipv4_dst = Some(Masked::<Ipv4Addr>::exact(Ipv4Addr::new(10, 0, 0, dst)));
    Match { eth_type: Some(ether::IPV4), ipv4_dst, ..Match::default() }
}

pub fn out(port: u32) -> Instructions {
    Instructions::apply(vec![Action::output(PortNo(port))])
}

pub fn group(command: GroupModCommand, kind: GroupKind, id: u32, buckets: Vec<Bucket>) -> Message {
    Message::GroupMod(GroupMod { command, kind, group: GroupId(id), buckets })
}

pub fn to_port(port: u32) -> Bucket {
    let actions = vec![Action::output(PortNo(port))];
    Bucket { weight: 0, watch_port: PortNo::ANY, watch_group: GroupId::ANY, actions }
}
