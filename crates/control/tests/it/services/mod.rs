//! Virtual services on a fat-tree: shared by their tests.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use crate::common::{TestNetwork, config_for, fat_tree, marked};
pub use crate::common::{ip, mac, quiet};
use anabranch_control::Config;
use anabranch_control::vip::{
    Check, Checker, Established, Member, MemberId, MemberState, Monitor, Pool, PoolId, Protocol, Refusal, Rules,
    Service, ServiceId, Services, mac_of,
};
use net::{FiveTuple, HostIx, NodeIx, Time, address};
use openflow::frame::{self};
use openflow::headers::protocol;
use openflow::{Action, DatapathId, FlowStats, MacAddr, Message, PortNo};

pub const VIP: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);
/// Hosts that are servers; the others are clients.
pub const SERVERS: [u32; 4] = [12, 13, 14, 7];

pub fn member(id: u32, host: u32, port: Option<u16>) -> Member {
    Member { id: MemberId(id), address: ip(host), port, weight: 1, is_enabled: true }
}
pub fn service(id: u16, protocol: Protocol, port: u16) -> Service {
    let (id, pool, rules) = (ServiceId(id), PoolId(1), Rules::Connection);
    Service { id, address: VIP, mac: None, protocol, port, pool, idle_timeout_s: 30, rules, is_tunnelled: false }
}
pub fn pool(port: Option<u16>) -> Pool {
    let members = (1..).zip(SERVERS).map(|(id, host)| member(id, host, port)).collect();
    Pool {
        id: PoolId(1),
        balancer: "server-rr".into(),
        monitor: None,
        members,
        established: Established::Keep,
        refusal: Refusal::Reset,
    }
}
pub fn all_protocols() -> Services {
    let services = vec![service(1, Protocol::Tcp, 80), service(2, Protocol::Udp, 53), service(3, Protocol::Icmp, 0)];
    Services { services, pools: vec![pool(Some(8080))] }
}
pub fn one(services: Services) -> Services {
    Services { services: services.services.into_iter().take(1).collect(), ..services }
}

pub fn up(services: Services) -> TestNetwork {
    serve(TestNetwork::up(fat_tree(), quiet()), services)
}
/// Returns the same on switches that match TCP flags.
pub fn up_with_extensions(services: Services) -> TestNetwork {
    serve(TestNetwork::up_with_extensions(fat_tree(), quiet()), services)
}
fn serve(mut network: TestNetwork, services: Services) -> TestNetwork {
    network.answering = SERVERS.into_iter().map(HostIx).collect();
    set(&mut network, services);
    network.settle();
    network
}
pub fn set(network: &mut TestNetwork, services: Services) {
    let now = network.now;
    network.controller.set_services(now, services).expect("valid services");
    network.drain_controller();
}

pub fn tuple(client: u32, ip_proto: u8, ports: [u16; 2]) -> FiveTuple {
    FiveTuple { src: ip(client), dst: VIP, protocol: ip_proto, src_port: ports[0], dst_port: ports[1] }
}
pub fn tcp(client: u32, port: u16) -> FiveTuple {
    tuple(client, protocol::TCP, [port, 80])
}
pub fn ask(network: &mut TestNetwork, tuple: FiveTuple) -> u32 {
    let client = address::host_of_ipv4(tuple.src, 16).expect("a host");
    network.ask(client, mac_of(tuple.dst), tuple)
}

/// Sends a packet and waits. Returns the host that served it, if its reply returned to the client
/// from the virtual address.
pub fn request(network: &mut TestNetwork, tuple: FiveTuple) -> Option<u32> {
    let number = ask(network, tuple);
    network.run(Time::from_ms(20));
    served(network, number, tuple)
}
pub fn served(network: &TestNetwork, number: u32, tuple: FiveTuple) -> Option<u32> {
    let question = &network.packets[number as usize];
    let (server, _) = question.delivered?;
    assert_eq!(question.deliveries, 1, "once");
    let at_server = question.arrived.expect("a packet");
    assert_eq!((at_server.eth_dst, at_server.ipv4_dst), (mac(server.0), ip(server.0)));
    assert_eq!((at_server.ipv4_src, at_server.l4_src), (tuple.src, at_server.l4_src));
    assert!(!question.has_looped && at_server.vlan.is_none());
    let answer = &network.packets[question.answer? as usize];
    let (client, _) = answer.delivered?;
    let back = answer.arrived.expect("a packet");
    assert_eq!((ip(client.0), answer.has_looped), (tuple.src, false));
    assert_eq!((back.eth_src, back.ipv4_src, back.ipv4_dst), (mac_of(tuple.dst), tuple.dst, tuple.src));
    if tuple.protocol != protocol::ICMP {
        assert_eq!((back.l4_src, back.l4_dst), (tuple.dst_port, tuple.src_port));
    }
    Some(server.0)
}

pub fn connection_rules(network: &TestNetwork) -> Vec<(DatapathId, FlowStats)> {
    let rules = |switch: &switch::Switch| {
        let datapath = switch.datapath();
        switch.entries().into_iter().map(move |entry| (datapath, entry)).collect::<Vec<_>>()
    };
    let all = network.switches.values().flat_map(rules);
    all.filter(|(_, entry)| entry.cookie >> 40 == 0xa7_ab86).collect()
}
pub fn edge_of(network: &TestNetwork, host: u32) -> NodeIx {
    let routes = net::Routes::intact(&network.topology);
    routes.class_node(routes.class_of(HostIx(host)))
}
pub fn mods(network: &TestNetwork, from: usize) -> usize {
    network.sent[from..].iter().filter(|(_, _, message)| matches!(message, Message::FlowMod(_))).count()
}
pub fn sent_on(network: &TestNetwork, from: usize) -> usize {
    let to_tables = Action::output(PortNo::TABLE);
    let is_one = |message: &Message| matches!(message, Message::PacketOut(packet) if packet.actions == [to_tables]);
    network.sent[from..].iter().filter(|(_, _, message)| is_one(message)).count()
}
/// Returns the frames a host received except marked packets and probes.
pub fn received_frames(network: &TestNetwork, host: u32) -> Vec<Vec<u8>> {
    let is_ip = |bytes: &Vec<u8>| frame::parse(bytes).is_ok_and(|headers| headers.eth_type == 0x0800);
    let here = network.to_hosts.iter().filter(|(at, bytes)| *at == HostIx(host) && is_ip(bytes));
    here.map(|(_, bytes)| bytes.clone()).collect()
}

pub fn checked(check: Check, pages: BTreeMap<HostIx, u16>) -> TestNetwork {
    let checker = Some(Checker { ipv4: Ipv4Addr::new(10, 250, 0, 250), mac: MacAddr([6, 1, 1, 1, 1, 1]) });
    let config = Config { health_check_address: checker, ..Config::default() };
    let mut network = TestNetwork::fat_tree(config, quiet());
    network.pages = pages;
    let mut services = one(all_protocols());
    let (interval, timeout) = (Time::from_s(1), Time::from_ms(300));
    services.pools[0].monitor = Some(Monitor { check, port: None, interval, timeout, rise: 2, fall: 1 });
    let mut network = connected(network, services);
    network.run(Time::from_s(5));
    network
}
pub fn connected(mut network: TestNetwork, services: Services) -> TestNetwork {
    network.answering = SERVERS.into_iter().map(HostIx).collect();
    set(&mut network, services);
    network.connected()
}
/// Restarts the controller, with its configured hosts and these services.
pub fn restart(network: &mut TestNetwork, services: Services) {
    network.restart_controller(config_for(&network.topology), quiet());
    set(network, services);
    network.reconnect(None);
}
/// Returns a copy of `pool` 1 of the services by another balancer, with this number of members.
pub fn by(balancer: &str, members: usize) -> Services {
    let mut services = one(all_protocols());
    services.pools[0].balancer = balancer.into();
    services.pools[0].members.truncate(members);
    services
}
/// Sends a segment of an established connection from host 0, port 5000, and waits.
pub fn send_data(network: &mut TestNetwork) {
    let macs = [mac(0), mac_of(VIP)];
    let data = frame::Segment { flags: frame::flags::ACK, seq: 100, ack: 4242, window: 1000, payload: b"more" };
    network.to_hosts.clear();
    network.transmit(HostIx(0), frame::tcp(macs, [ip(0), VIP], [5000, 80], &data), None);
    network.run(Time::from_ms(20));
}
pub type Fault = fn(&mut Services);
/// Asserts that a configuration that `valid` returns is rejected, with this message, after each
/// fault, and that nothing changes.
pub fn assert_rejected(network: &mut TestNetwork, valid: impl Fn() -> Services, faults: &[(&str, Fault)]) {
    let before = network.controller.inspect().services();
    for (message, fault) in faults {
        let mut wanted = valid();
        fault(&mut wanted);
        let error = network.controller.set_services(network.now, wanted).expect_err(message).to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(network.controller.inspect().services(), before, "{message}");
    }
}
/// Moves a member of the connection of host 0, port 5000, to the port of host 2, with another
/// Ethernet address. Asserts that the connection follows.
pub fn assert_member_is_followed(network: &mut TestNetwork, member: u32) {
    let moved = MacAddr([2, 9, 9, 9, 9, 9]);
    network.move_to(2, moved, ip(member));
    network.run_and_settle(Time::from_ms(500));
    network.answering.insert(HostIx(2));
    let number = ask(network, tcp(0, 5000));
    network.run(Time::from_ms(50));
    let packet = &network.packets[number as usize];
    assert_eq!(packet.delivered.map(|(host, _)| host.0), Some(2));
    assert_eq!(packet.arrived.map(|headers| (headers.eth_dst, headers.ipv4_dst)), Some((moved, ip(member))));
    let answer = &network.packets[packet.answer.expect("answered") as usize];
    assert_eq!(answer.arrived.map(|headers| (headers.ipv4_src, headers.ipv4_dst)), Some((VIP, ip(0))));
}
/// Moves host 0 to the port of host 10. Asserts that a packet from its port there is answered from
/// the virtual address. Returns the member that received it.
pub fn assert_client_is_followed(network: &mut TestNetwork, port: u16) -> Option<u32> {
    network.move_to(10, mac(0), ip(0));
    network.run_and_settle(Time::from_ms(500));
    let packet = |number| marked::frame([mac(0), mac_of(VIP)], &tcp(0, port), false, number);
    let number = network.transmit_packet(HostIx(10), packet);
    network.run(Time::from_ms(50));
    let packet = &network.packets[number as usize];
    let answer = &network.packets[packet.answer.expect("answered") as usize];
    assert_eq!(answer.delivered.map(|(host, _)| host.0), Some(10));
    assert_eq!(answer.arrived.map(|headers| headers.ipv4_src), Some(VIP));
    packet.delivered.map(|(host, _)| host.0)
}
/// Returns the flags, sequence and acknowledgement number of the only frame a host received.
pub fn only_segment(network: &TestNetwork, host: u32) -> (u8, u32, u32) {
    let [bytes] = &received_frames(network, host)[..] else { panic!("one frame") };
    let got = frame::segment(bytes).expect("a valid frame").expect("a segment");
    (got.flags, got.seq, got.ack)
}
pub fn states(network: &TestNetwork) -> Vec<MemberState> {
    network.controller.inspect().services()[0].members.iter().map(|member| member.state).collect()
}
