//! Malicious hosts and switches.

use crate::common::{Scripted, TestNetwork, fat_tree, mac, needs, udp};
use anabranch_control::{Config, Controller, Event, KnownHost, Output, PortRole, PortRoles};
use balance::central::FlowSource;
use net::{HostIx, NodeIx, RandomStream, Time, Topology, address};
use openflow::frame::Lldp;
use openflow::{
    ConnectionId, DatapathId, Envelope, FlowStats, FromController, MacAddr, Message, MultipartReply, PortDesc, PortNo,
    ToController, Xid,
};

const ATTACKER: u32 = 0;
const VICTIM: u32 = 15;

fn attachment(topology: &Topology, host: u32) -> (DatapathId, PortNo) {
    let known = KnownHost::all_of(topology)[host as usize];
    (known.datapath, known.port)
}

fn links_up(network: &TestNetwork) -> usize {
    network.count_events(|event| matches!(event, Event::LinkUp { .. }))
}

/// Nonces were once derived from the seed, whose default is public.
#[test]
fn forged_lldp_makes_no_link() {
    let mut network = TestNetwork::up(fat_tree(), needs(FlowSource::None, false));
    network.run(Time::from_s(16));
    let links = links_up(&network);
    let (datapath, port) = attachment(&network.topology, VICTIM);
    // `TestNetwork` has seed 7.
    let mut guesses = RandomStream::new(7, "discovery");
    for _ in 0..2000 {
        let probe = Lldp { datapath, port, ttl_s: 120, nonce: guesses.next_u64() };
        network.transmit(HostIx(ATTACKER), probe.build(mac(ATTACKER)), None);
        network.run(Time::from_us(10));
    }
    network.run(Time::from_s(1));
    assert_eq!(links_up(&network), links);
    assert!(network.deliver(udp(3, VICTIM, 7000)).is_some());
}

/// Two hosts that relay each other's frames look like a cable. No nonce prevents it, but the roles
/// of their ports do.
#[test]
fn relay_between_hosts_makes_a_link_only_where_ports_may_have_one() {
    let ends = [ATTACKER, VICTIM].map(|host| attachment(&fat_tree(), host));
    let listed = ends.map(|end| (end, PortRole::Host)).into();
    let roles = [PortRoles::default(), PortRoles { listed, ..PortRoles::default() }];
    for (port_roles, links) in roles.into_iter().zip([2, 0]) {
        let mut network = TestNetwork::without_hosts(Config { port_roles, ..Config::default() });
        let before = links_up(&network);
        // A frame that the attacker has kept, and all that the two hosts receive.
        let lldp = Lldp { datapath: ends[1].0, port: ends[1].1, ttl_s: 120, nonce: 7 }.build(mac(VICTIM));
        network.transmit(HostIx(ATTACKER), lldp, None);
        for _ in 0..6_000 {
            for (host, bytes) in std::mem::take(&mut network.to_hosts) {
                let other = HostIx(if host.0 == ATTACKER { VICTIM } else { ATTACKER });
                if [HostIx(ATTACKER), HostIx(VICTIM)].contains(&host) {
                    network.transmit(other, bytes, None);
                }
            }
            network.run(Time::from_ms(10));
        }
        assert_eq!(links_up(&network) - before, links);
        let (datapath, port) = ends[0];
        let alarms = network.count_events(|event| *event == Event::ProbeAtHostPort { datapath, port });
        assert_eq!(alarms, usize::from(links == 0), "the port is reported");
        assert_eq!(network.controller.tally().probes_rejected, u64::from(links == 0));
    }
}

#[test]
fn link_is_found_between_ports_for_links() {
    let topology = fat_tree();
    let hosts: Vec<_> = KnownHost::all_of(&topology).iter().map(|host| (host.datapath, host.port)).collect();
    let listed = hosts.iter().map(|end| (*end, PortRole::Host)).collect();
    let port_roles = PortRoles { listed, default: PortRole::Link };
    let mut network = TestNetwork::without_hosts(Config { port_roles, ..Config::default() });
    (0..16).for_each(|host| network.announce(host));
    network.settle();
    assert_eq!(links_up(&network), 64);
    network.assert_served();
    // A host at a port for links is not accepted.
    let cable = network.topology.out_links(network.topology.link(network.uplink(0)).to)[3];
    network.travel(
        cable.reverse(),
        openflow::frame::arp_request(mac(99), [10, 9, 9, 9].into(), [10, 9, 9, 9].into()),
        None,
    );
    network.run(Time::from_s(2));
    assert_eq!(network.controller.inspect().hosts().count(), 16);
}

/// A link that has expired, although both ends are connected and their ports are up, may have been
/// replaced by a host.
#[test]
fn host_is_reached_where_a_link_has_expired() {
    let mut network = TestNetwork::up(fat_tree(), needs(FlowSource::None, false));
    // Both directions of a cable between an edge switch and its aggregation switch lose everything,
    // silently.
    let (datapath, _) = attachment(&network.topology, VICTIM);
    let edge = network.topology.link(network.uplink(VICTIM)).to;
    let is_switch = |node: NodeIx| network.topology.node(node).kind == net::NodeKind::Switch;
    let up = network.topology.out_links(edge).iter().copied().find(|link| is_switch(network.topology.link(*link).to));
    let up = up.expect("a link to the aggregation layer");
    network.cut_silently(up);
    network.run(Time::from_s(60));
    // A host is plugged in there now.
    let port = PortNo(address::port_of(&network.topology, up));
    let (mac, ipv4) = (MacAddr([2, 0, 0, 0, 9, 9]), [10, 99, 0, 1].into());
    let announcement = openflow::frame::arp_request(mac, ipv4, ipv4);
    for _ in 0..3 {
        network.arrive(edge, port, announcement.clone(), None);
        network.run(Time::from_s(1));
    }
    let known = KnownHost { mac, ipv4, datapath, port };
    assert!(network.events.iter().any(|(_, event)| *event == Event::Host(known)), "the new host is not known");
}

/// A flapping port changes rules a few times, and then no more until it is quiet.
#[test]
fn flapping_port_is_damped() {
    let mut network = TestNetwork::up(fat_tree(), needs(FlowSource::None, false));
    let before = network.controller.tally().flow_mods;
    let cable = network.uplink(VICTIM);
    for _ in 0..200 {
        for is_live in [false, true] {
            network.set_cable(cable, is_live);
            network.run(Time::from_ms(50));
        }
    }
    let flow_mods = network.controller.tally().flow_mods - before;
    assert!(flow_mods <= 20, "200 flaps cost {flow_mods} flow-mods");
    assert_eq!(network.count_events(|event| matches!(event, Event::PortDamped { .. })), 1);
    network.run(Time::from_s(20));
    assert!(network.deliver(udp(3, VICTIM, 7000)).is_some(), "it has been quiet");
    network.assert_exact();
}

/// A controller, and what it has sent to its only peer.
pub struct Peer {
    pub controller: Controller,
    pub connection: ConnectionId,
    /// The latest message that the peer has received.
    pub request: Option<(Xid, Message)>,
    pub is_closed: bool,
    pub events: Vec<Event>,
}

impl Peer {
    pub fn connect(config: Config) -> Peer {
        let balancer = Scripted { script: Default::default(), needs: needs(FlowSource::None, false) };
        let controller = Controller::new(config, Box::new(balancer));
        let connection = ConnectionId(1);
        let mut peer = Peer { controller, connection, request: None, is_closed: false, events: Vec::new() };
        peer.pass(ToController::Connected(connection));
        peer
    }
    pub fn pass(&mut self, input: ToController) {
        self.controller.handle(Time::ZERO, input);
        while let Some(output) = self.controller.poll_output() {
            match output {
                Output::Channel(FromController::Message(_, envelope)) => {
                    self.request = Some((envelope.xid, envelope.message));
                }
                Output::Channel(FromController::Close(_)) => self.is_closed = true,
                Output::Event(event) => self.events.push(event),
                Output::Agents(_) => {}
            }
        }
    }
    fn answer(&mut self, message: Message) {
        let (xid, _) = self.request.clone().expect("a request");
        self.pass(ToController::Message(self.connection, Envelope { xid, message }));
    }
}

/// A peer with an endless table read-back is disconnected before it fills the memory.
#[test]
fn endless_read_back_is_cut_off() {
    let limit = 1 << 20;
    let mut peer = Peer::connect(Config { read_back_bytes_max: limit, ..Config::default() });
    peer.answer(Message::Hello { versions: 1 << 4 });
    let datapath = DatapathId(1);
    peer.answer(Message::FeaturesReply(openflow::Features {
        datapath,
        buffers: 0,
        tables: 4,
        auxiliary: 0,
        capabilities: 0,
    }));
    let reply = |reply, has_more| Message::MultipartReply { reply, has_more };
    peer.answer(reply(MultipartReply::PortDesc(Vec::<PortDesc>::new()), false));
    peer.answer(reply(MultipartReply::GroupDesc(Vec::new()), false));
    let rules: Vec<FlowStats> = (0..100).map(|priority| FlowStats { priority, ..FlowStats::default() }).collect();
    let mut sent = 0;
    while !peer.is_closed {
        peer.answer(reply(MultipartReply::Flow(rules.clone()), true));
        sent += rules.len();
        assert!(sent * size_of::<FlowStats>() < 2 * limit, "{sent} rules are stored, and the connection stays open");
    }
    assert_eq!(peer.events, [Event::ReadBackTooLarge { datapath, limit_bytes: limit }]);
}
