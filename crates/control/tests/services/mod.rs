//! Virtual services on a fat-tree: what every test of them uses.

#![allow(dead_code, reason = "each test file uses its part")]

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use crate::world::{World, fat_tree, needs};
use anabranch_control::vip::{
    Check, Checker, Established, Member, MemberId, MemberState, Monitor, Pool, PoolId, Protocol, Refusal, Rules,
    Service, ServiceId, Services, mac_of,
};
use anabranch_control::{Config, KnownHost};
use balance::central::{CentralNeeds, FlowSource};
use net::{FiveTuple, HostIx, NodeIx, Time, address};
use openflow::frame::{self};
use openflow::headers::protocol;
use openflow::{Action, DatapathId, FlowStats, MacAddr, Message, PortNo};

pub const VIP: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);
/// Hosts that serve; the others are clients.
pub const SERVERS: [u32; 4] = [12, 13, 14, 7];

pub fn quiet() -> CentralNeeds {
    CentralNeeds { period: None, ..needs(FlowSource::None, false) }
}
pub fn ip(host: u32) -> Ipv4Addr {
    address::host_ipv4(HostIx(host))
}
pub fn member(id: u32, host: u32, port: Option<u16>) -> Member {
    Member { id: MemberId(id), address: ip(host), port, weight: 1, is_enabled: true }
}
pub fn service(id: u16, protocol: Protocol, port: u16) -> Service {
    let (id, pool, rules) = (ServiceId(id), PoolId(1), Rules::Connection);
    Service { id, address: VIP, mac: None, protocol, port, pool, idle_timeout_s: 30, rules }
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

pub fn up(services: Services) -> World {
    serve(World::up(fat_tree(), quiet()), services)
}
/// The same on switches that can tell what opens a connection.
pub fn up_with_extensions(services: Services) -> World {
    serve(World::up_with_extensions(fat_tree(), quiet()), services)
}
fn serve(mut world: World, services: Services) -> World {
    world.answering = SERVERS.into_iter().map(HostIx).collect();
    set(&mut world, services);
    world.settle();
    world
}
pub fn set(world: &mut World, services: Services) {
    let now = world.now;
    world.controller.set_services(now, services).expect("services that can be had");
    world.drain_controller();
}

pub fn tuple(client: u32, ip_proto: u8, ports: [u16; 2]) -> FiveTuple {
    FiveTuple { src: ip(client), dst: VIP, protocol: ip_proto, src_port: ports[0], dst_port: ports[1] }
}
pub fn tcp(client: u32, port: u16) -> FiveTuple {
    tuple(client, protocol::TCP, [port, 80])
}
pub fn ask(world: &mut World, tuple: FiveTuple) -> u32 {
    let client = address::host_of_ipv4(tuple.src, 16).expect("a host");
    world.ask(client, mac_of(tuple.dst), tuple)
}

/// Sends a packet and waits: who got it, if its answer came back to the client from the virtual address.
pub fn request(world: &mut World, tuple: FiveTuple) -> Option<u32> {
    let number = ask(world, tuple);
    world.run(Time::from_ms(20));
    served(world, number, tuple)
}
pub fn served(world: &World, number: u32, tuple: FiveTuple) -> Option<u32> {
    let question = &world.packets[number as usize];
    let (server, _) = question.delivered?;
    assert_eq!(question.deliveries, 1, "once");
    let at_server = question.arrived.expect("a packet");
    assert_eq!((at_server.eth_dst, at_server.ipv4_dst), (MacAddr(address::host_mac(server)), ip(server.0)));
    assert_eq!((at_server.ipv4_src, at_server.l4_src), (tuple.src, at_server.l4_src));
    assert!(!question.has_looped && at_server.vlan.is_none());
    let answer = &world.packets[question.answer? as usize];
    let (client, _) = answer.delivered?;
    let back = answer.arrived.expect("a packet");
    assert_eq!((ip(client.0), answer.has_looped), (tuple.src, false));
    assert_eq!((back.eth_src, back.ipv4_src, back.ipv4_dst), (mac_of(tuple.dst), tuple.dst, tuple.src));
    if tuple.protocol != protocol::ICMP {
        assert_eq!((back.l4_src, back.l4_dst), (tuple.dst_port, tuple.src_port));
    }
    Some(server.0)
}

pub fn connection_rules(world: &World) -> Vec<(DatapathId, FlowStats)> {
    let rules = |switch: &switch::Switch| {
        let datapath = switch.datapath();
        switch.entries().into_iter().map(move |entry| (datapath, entry)).collect::<Vec<_>>()
    };
    let all = world.switches.values().flat_map(rules);
    all.filter(|(_, entry)| entry.cookie >> 40 == 0xa7_ab06).collect()
}
pub fn edge_of(world: &World, host: u32) -> NodeIx {
    let routes = net::Routes::intact(&world.topology);
    routes.class_node(routes.class_of(HostIx(host)))
}
pub fn mods(world: &World, from: usize) -> usize {
    world.sent[from..].iter().filter(|(_, _, message)| matches!(message, Message::FlowMod(_))).count()
}
/// Packets sent through the tables.
pub fn sent_on(world: &World, from: usize) -> usize {
    let to_tables = Action::output(PortNo::TABLE);
    let is_one = |message: &Message| matches!(message, Message::PacketOut(packet) if packet.actions == [to_tables]);
    world.sent[from..].iter().filter(|(_, _, message)| is_one(message)).count()
}
/// What came to a host besides marked packets, except probes.
pub fn told(world: &World, host: u32) -> Vec<Vec<u8>> {
    let is_ip = |bytes: &Vec<u8>| frame::parse(bytes).is_ok_and(|headers| headers.eth_type == 0x0800);
    let here = world.to_hosts.iter().filter(|(at, bytes)| *at == HostIx(host) && is_ip(bytes));
    here.map(|(_, bytes)| bytes.clone()).collect()
}

pub fn checked(check: Check, pages: BTreeMap<HostIx, u16>) -> World {
    let checker = Some(Checker { ipv4: Ipv4Addr::new(10, 250, 0, 250), mac: MacAddr([6, 1, 1, 1, 1, 1]) });
    let config = Config { hosts: KnownHost::all_of(&fat_tree()), checker, ..Config::default() };
    let mut world = World::new(fat_tree(), config, quiet(), (100_000, 10_000));
    world.answering = SERVERS.into_iter().map(HostIx).collect();
    world.pages = pages;
    let mut services = one(all_protocols());
    let (interval, timeout) = (Time::from_s(1), Time::from_ms(300));
    services.pools[0].monitor = Some(Monitor { check, port: None, interval, timeout, rise: 2, fall: 1 });
    set(&mut world, services);
    world.connect_all();
    world.settle();
    world.run(Time::from_s(5));
    world
}
pub fn states(world: &World) -> Vec<MemberState> {
    world.controller.services()[0].members.iter().map(|member| member.state).collect()
}
