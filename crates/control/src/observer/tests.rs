//! The observer alone: messages in, changes and frames out.

use balance::central::{CentralNeeds, FlowSource};
use net::{NodeIx, Time};
use openflow::frame::{Lldp, arp_request};
use openflow::{
    Action, ConnectionId, DatapathId, Envelope, Features, FromController, MacAddr, Match, Message, MultipartReply,
    PacketIn, PacketInReason, PortDesc, PortNo, TableId, Xid,
};

use super::network::CONTROLLER_MAC;
use super::*;
use crate::changes::ChangedState;
use crate::channels::Received;
use crate::updater::Updater;
use crate::{KnownHost, Output, PortRole};

const CONNECTION: ConnectionId = ConnectionId(1);

pub(super) struct Alone {
    pub(super) now: Time,
    pub(super) config: Config,
    pub(super) channels: Channels,
    pub(super) changes: ChangeQueue,
    pub(super) observer: Observer,
    pub(super) updater: Updater,
}

fn port(number: u32) -> PortDesc {
    PortDesc::up(PortNo(number), MacAddr([2, 0, 0, 0, 1, number as u8]), "p", 0)
}

impl Alone {
    pub(super) fn new(config: Config) -> Alone {
        let needs = CentralNeeds { flows: FlowSource::None, counters: false, period: None };
        let observer = Observer::new(&config, needs);
        let (channels, changes, updater) = (Channels::default(), ChangeQueue::default(), Updater::new(config.owner));
        Alone { now: Time::ZERO, config, channels, changes, observer, updater }
    }

    pub(super) fn with<T>(&mut self, act: impl FnOnce(&mut Observer, &mut Cx<'_>, &mut Updater) -> T) -> T {
        let Alone { now, config, channels, changes, observer, updater } = self;
        act(observer, &mut Cx { now: *now, config, channels, changes }, updater)
    }

    fn receive(&mut self, connection: ConnectionId, message: Message) -> Received {
        let xid = Xid(self.channels.sessions[&connection].next_xid() - 1);
        self.channels.receive(self.now, &self.config, connection, &Envelope { xid, message })
    }

    /// Connects a switch with two ports and no rules.
    pub(super) fn connect(&mut self, connection: ConnectionId, datapath: DatapathId) {
        self.channels.open(self.now, &self.config, connection);
        let features = Features { datapath, buffers: 0, tables: 4, auxiliary: 0, capabilities: 0 };
        let ports = MultipartReply::PortDesc(vec![port(1), port(2)]);
        let replies = [ports, MultipartReply::GroupDesc(Vec::new()), MultipartReply::Flow(Vec::new())];
        self.receive(connection, Message::Hello { versions: 1 << 4 });
        self.receive(connection, Message::FeaturesReply(features));
        for reply in replies {
            let received = self.receive(connection, Message::MultipartReply { reply, has_more: false });
            if let Received::Ready(read_back) = received {
                self.with(|observer, cx, _| {
                    observer.switch_connected(cx, &read_back);
                    observer.switch_ready(cx, read_back);
                });
            }
        }
    }

    pub(super) fn packet_in(&mut self, (datapath, port): SwitchPort, data: Vec<u8>) -> Packet {
        let packet = PacketIn {
            buffer: openflow::BufferId::NO_BUFFER,
            total_len: data.len() as u16,
            reason: PacketInReason::Action,
            table: TableId(0),
            cookie: 0,
            match_: Match { in_port: Some(port), ..Match::default() },
            other_fields: Vec::new(),
            data,
        };
        let connection = self.channels.connection_of(datapath).expect("a connected switch");
        self.with(|observer, cx, updater| observer.packet_in(cx, updater, (connection, datapath), &packet))
    }

    pub(super) fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.channels.next_output()).collect()
    }
    /// Returns the frames sent out of ports since the last call.
    pub(super) fn frames(&mut self) -> Vec<(PortNo, Vec<u8>)> {
        let frame = |output| {
            let Output::Channel(FromController::Message(_, envelope)) = output else { return None };
            let Message::PacketOut(packet) = envelope.message else { return None };
            let [Action::Output { port, .. }] = packet.actions[..] else { return None };
            Some((port, packet.data))
        };
        self.outputs().into_iter().filter_map(frame).collect()
    }
}

fn host(number: u8, at: SwitchPort) -> KnownHost {
    let (mac, ipv4) = (MacAddr([2, 0, 0, 0, 0, number]), [10, 0, 0, number].into());
    KnownHost { mac, ipv4, datapath: at.0, port: at.1 }
}

#[test]
fn links_are_found_by_probes_and_recorded_as_changes() {
    let mut alone = Alone::new(Config::default());
    let (a, b) = (DatapathId(1), DatapathId(2));
    alone.connect(CONNECTION, a);
    alone.connect(ConnectionId(2), b);
    assert_eq!(alone.changes.take_changes(), ChangedState { network: true, ports: true, ..ChangedState::default() });
    let probes = alone.frames();
    let lldp = |frame: &Vec<u8>| Lldp::parse(frame).map(|probe| (probe.datapath, probe.port)).ok();
    let probe = probes.iter().find(|(_, frame)| lldp(frame) == Some((a, PortNo(2)))).expect("port 2 is probed");
    assert_eq!(alone.packet_in((b, PortNo(1)), probe.1.clone()), Packet::Handled);
    assert!(alone.changes.take_changes().network);
    let found = alone.observer.network.link((a, PortNo(2)), (b, PortNo(1))).expect("a link");
    assert!(alone.observer.network.is_alive(found) && !alone.observer.network.is_alive(found.reverse()));
    assert_eq!(alone.observer.network.far_end(found), Some(NodeIx(1)));
}

/// Hosts announce themselves as soon as their port is up.
#[test]
fn host_that_announces_itself_once_is_accepted_when_its_port_becomes_an_edge_port() {
    let mut alone = Alone::new(Config::default());
    alone.connect(CONNECTION, DatapathId(1));
    let (at, known) = ((DatapathId(1), PortNo(1)), host(1, (DatapathId(1), PortNo(1))));
    alone.frames();
    alone.packet_in(at, arp_request(known.mac, known.ipv4, known.ipv4));
    let probes = alone.frames();
    assert!(probes.iter().all(|(port, frame)| *port == at.1 && Lldp::parse(frame).is_ok()), "{probes:?}");
    assert_eq!(probes.len(), 1, "the port is probed again");
    alone.changes.take_changes();
    let is_known = |alone: &mut Alone, ms| {
        alone.now = Time::from_ms(ms);
        alone.with(|observer, cx, updater| observer.expire(cx, updater));
        alone.observer.network.host_at(known.ipv4).map(|host| host.known) == Some(known)
    };
    assert!(!is_known(&mut alone, 499), "a switch may still be behind the port");
    assert!(is_known(&mut alone, 500));
    assert!(alone.changes.take_changes().hosts);
}

#[test]
fn host_at_a_port_for_hosts_is_accepted_at_once_and_no_probe_is_sent_there() {
    let mut config = Config::default();
    let (at, for_links) = ((DatapathId(1), PortNo(1)), (DatapathId(1), PortNo(2)));
    config.port_roles.listed.extend([(at, PortRole::Host), (for_links, PortRole::Link)]);
    let mut alone = Alone::new(config);
    alone.connect(CONNECTION, DatapathId(1));
    assert!(alone.frames().iter().all(|(port, _)| *port == for_links.1));
    for (number, at, is_accepted) in [(1, at, true), (2, for_links, false)] {
        let known = host(number, at);
        alone.packet_in(at, arp_request(known.mac, known.ipv4, known.ipv4));
        assert_eq!(alone.observer.network.find_host(known.ipv4).is_some(), is_accepted, "{at:?}");
        alone.now = Time::from_s(1);
    }
}

#[test]
fn arp_request_for_a_known_host_is_passed_on_as_a_pending_reply() {
    let config = Config {
        hosts: vec![host(1, (DatapathId(1), PortNo(1))), host(2, (DatapathId(1), PortNo(2)))],
        ..Config::default()
    };
    let mut alone = Alone::new(config);
    alone.connect(CONNECTION, DatapathId(1));
    let (asker, asked) = (alone.config.hosts[0], alone.config.hosts[1]);
    let Packet::Arp(reply) = alone.packet_in(asker.end(), arp_request(asker.mac, asker.ipv4, asked.ipv4)) else {
        panic!("the planner answers");
    };
    assert_eq!((reply.to, reply.requester, reply.target), (asker.end(), asker.ipv4, asked.ipv4));
    assert_ne!(CONTROLLER_MAC, asked.mac);
}

#[test]
fn lost_switch_is_recorded_and_its_links_expire_later() {
    let mut alone = Alone::new(Config::default());
    alone.connect(CONNECTION, DatapathId(1));
    alone.changes.take_changes();
    alone.channels.disconnected(CONNECTION);
    assert_eq!(alone.channels.take_lost(), [DatapathId(1)]);
    alone.with(|observer, cx, _| observer.switch_lost(cx, DatapathId(1)));
    assert_eq!(alone.changes.take_changes(), ChangedState { switches: true, ..ChangedState::default() });
    assert!(!alone.observer.status[&DatapathId(1)].is_online);
}
