//! Virtual services: connections are delivered to one member and back, whatever happens meanwhile.

mod world;

use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};

use anabranch_control::vip::{
    Check, Checker, Established, Failure, Member, MemberId, MemberState, Monitor, Pool, PoolId, Protocol, Refusal,
    Service, ServiceId, Services, mac_of,
};
use anabranch_control::{Config, Controller, Event, KnownHost};
use balance::central::{CentralNeeds, FlowSource};
use net::{FiveTuple, HostIx, NodeIx, Time, address};
use openflow::frame::{self, flags, segment};
use openflow::headers::protocol;
use openflow::{Action, DatapathId, FlowStats, Headers, MacAddr, Message, PortNo};
use world::{Scripted, World, fat_tree, needs};

const VIP: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);
/// Hosts that serve; the others are clients.
const SERVERS: [u32; 4] = [12, 13, 14, 7];

fn quiet() -> CentralNeeds {
    CentralNeeds { period: None, ..needs(FlowSource::None, false) }
}
fn ip(host: u32) -> Ipv4Addr {
    address::host_ipv4(HostIx(host))
}
fn member(id: u32, host: u32, port: Option<u16>) -> Member {
    Member { id: MemberId(id), address: ip(host), port, weight: 1, is_enabled: true }
}
fn service(id: u16, protocol: Protocol, port: u16) -> Service {
    let (id, pool) = (ServiceId(id), PoolId(1));
    Service { id, address: VIP, mac: None, protocol, port, pool, idle_timeout_s: 30 }
}
fn pool(port: Option<u16>) -> Pool {
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
fn all_protocols() -> Services {
    let services = vec![service(1, Protocol::Tcp, 80), service(2, Protocol::Udp, 53), service(3, Protocol::Icmp, 0)];
    Services { services, pools: vec![pool(Some(8080))] }
}
fn one(services: Services) -> Services {
    Services { services: services.services.into_iter().take(1).collect(), ..services }
}

fn up(services: Services) -> World {
    let mut world = World::up(fat_tree(), quiet());
    world.answering = SERVERS.into_iter().map(HostIx).collect();
    set(&mut world, services);
    world.settle();
    world
}
fn set(world: &mut World, services: Services) {
    let now = world.now;
    world.controller.set_services(now, services).expect("services that can be had");
    world.drain_controller();
}

fn tuple(client: u32, ip_proto: u8, ports: [u16; 2]) -> FiveTuple {
    FiveTuple { src: ip(client), dst: VIP, protocol: ip_proto, src_port: ports[0], dst_port: ports[1] }
}
fn tcp(client: u32, port: u16) -> FiveTuple {
    tuple(client, protocol::TCP, [port, 80])
}
fn ask(world: &mut World, tuple: FiveTuple) -> u32 {
    let client = address::host_of_ipv4(tuple.src, 16).expect("a host");
    world.ask(client, mac_of(tuple.dst), tuple)
}

/// Sends a packet and waits: who got it, if its answer came back to the client from the virtual address.
fn request(world: &mut World, tuple: FiveTuple) -> Option<u32> {
    let number = ask(world, tuple);
    world.run(Time::from_ms(20));
    served(world, number, tuple)
}
fn served(world: &World, number: u32, tuple: FiveTuple) -> Option<u32> {
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

fn connection_rules(world: &World) -> Vec<(DatapathId, FlowStats)> {
    let rules = |switch: &switch::Switch| {
        let datapath = switch.datapath();
        switch.entries().into_iter().map(move |entry| (datapath, entry)).collect::<Vec<_>>()
    };
    let all = world.switches.values().flat_map(rules);
    all.filter(|(_, entry)| entry.cookie >> 40 == 0xa7_ab06).collect()
}
fn edge_of(world: &World, host: u32) -> NodeIx {
    let routes = net::Routes::intact(&world.topology);
    routes.class_node(routes.class_of(HostIx(host)))
}
fn mods(world: &World, from: usize) -> usize {
    world.sent[from..].iter().filter(|(_, _, message)| matches!(message, Message::FlowMod(_))).count()
}
/// Packets sent through the tables.
fn sent_on(world: &World, from: usize) -> usize {
    let to_tables = Action::output(PortNo::TABLE);
    let is_one = |message: &Message| matches!(message, Message::PacketOut(packet) if packet.actions == [to_tables]);
    world.sent[from..].iter().filter(|(_, _, message)| is_one(message)).count()
}
/// What came to a host besides marked packets, except probes.
fn told(world: &World, host: u32) -> Vec<Vec<u8>> {
    let is_ip = |bytes: &Vec<u8>| frame::parse(bytes).is_ok_and(|headers| headers.eth_type == 0x0800);
    let here = world.to_hosts.iter().filter(|(at, bytes)| *at == HostIx(host) && is_ip(bytes));
    here.map(|(_, bytes)| bytes.clone()).collect()
}

#[test]
fn the_first_packet_is_delivered_and_answered_and_so_are_the_next() {
    let mut world = up(all_protocols());
    for (ip_proto, ports) in [(protocol::TCP, [5000, 80]), (protocol::UDP, [5000, 53]), (protocol::ICMP, [8, 0])] {
        let tuple = tuple(0, ip_proto, ports);
        let before = world.sent.len();
        let first = request(&mut world, tuple).expect("the first packet is served");
        assert_eq!(mods(&world, before), 2, "two rules, at one switch");
        assert_eq!(sent_on(&world, before), 1, "and the packet");
        let before = world.sent.len();
        for _ in 0..5 {
            assert_eq!(request(&mut world, tuple), Some(first));
        }
        assert_eq!((mods(&world, before), sent_on(&world, before)), (0, 0), "the switch knows");
    }
    let rules = connection_rules(&world);
    let edge = DatapathId(address::datapath_of(edge_of(&world, 0)));
    assert_eq!(rules.len(), 6);
    assert!(rules.iter().all(|(datapath, _)| *datapath == edge), "only where the client is");
    world.assert_exact();
    // The member's port is written; answers are from the service's (`served` has looked).
    let at_server = world.packets[0].arrived.expect("it was delivered");
    assert_eq!((at_server.l4_src, at_server.l4_dst), (5000, 8080));
}

#[test]
fn connections_go_to_the_members_in_turn_and_stay() {
    let mut world = up(one(all_protocols()));
    let members: Vec<u32> =
        (0..8).map(|number| request(&mut world, tcp(number % 3, 6000 + number as u16)).expect("served")).collect();
    assert_eq!(members, [12, 13, 14, 7, 12, 13, 14, 7]);
    for (number, member) in members.iter().enumerate() {
        let again = request(&mut world, tcp(number as u32 % 3, 6000 + number as u16));
        assert_eq!(again, Some(*member));
    }
    let now = world.controller.services();
    assert_eq!((now[0].counts.connections, now[0].counts.connections_total), (8, 8));
    assert!(now[0].members.iter().all(|member| member.counts.connections == 2 && member.state == MemberState::Up));
}

#[test]
fn copies_of_a_first_packet_go_to_the_same_member() {
    let mut world = up(all_protocols());
    let tuple = tuple(1, protocol::UDP, [9000, 53]);
    let numbers: Vec<u32> = (0..20)
        .map(|_| {
            let number = ask(&mut world, tuple);
            world.run(Time::from_us(50));
            number
        })
        .collect();
    world.run(Time::from_ms(20));
    let members: BTreeSet<Option<u32>> = numbers.iter().map(|number| served(&world, *number, tuple)).collect();
    assert!(members.len() == 1 && !members.contains(&None), "{members:?}");
    assert_eq!(connection_rules(&world).len(), 2);
}

#[test]
fn arp_for_a_virtual_address_is_answered_at_once() {
    let mut world = up(all_protocols());
    let (mac, address) = (MacAddr(address::host_mac(HostIx(3))), ip(3));
    world.transmit(HostIx(3), frame::arp_request(mac, address, VIP), None);
    world.run(Time::from_ms(2));
    let answers: Vec<Headers> = world.to_hosts.iter().filter_map(|(_, bytes)| frame::parse(bytes).ok()).collect();
    let answers: Vec<&Headers> = answers.iter().filter(|headers| headers.arp_op == 2).collect();
    let [answer] = answers[..] else { panic!("one answer: {answers:?}") };
    assert_eq!((answer.ipv4_src, answer.eth_src, answer.ipv4_dst), (VIP, mac_of(VIP), address));
}

/// Nothing is known but what the client's question tells: its first packet waits until rules lead both ways.
#[test]
fn hosts_nobody_has_heard_of_are_served_too() {
    let mut world = World::new(fat_tree(), Config::default(), quiet(), (100_000, 10_000));
    world.answering = SERVERS.into_iter().map(HostIx).collect();
    set(&mut world, one(all_protocols()));
    world.connect_all();
    world.run(Time::from_s(2));
    // Members are asked for; they answer.
    let is_question = |bytes: &[u8]| frame::parse(bytes).is_ok_and(|headers| headers.arp_op == 1);
    let asked: BTreeSet<HostIx> =
        world.to_hosts.iter().filter(|(_, bytes)| is_question(bytes)).map(|(host, _)| *host).collect();
    assert_eq!(asked.len(), 16, "at every edge port");
    for host in SERVERS {
        let mac = MacAddr(address::host_mac(HostIx(host)));
        world.transmit(HostIx(host), frame::arp_request(mac, ip(host), ip(host)), None);
    }
    world.run(Time::from_s(2));
    let mac = MacAddr(address::host_mac(HostIx(0)));
    world.to_hosts.clear();
    world.transmit(HostIx(0), frame::arp_request(mac, ip(0), VIP), None);
    let is_answer = |world: &World| {
        world.to_hosts.iter().any(|(_, bytes)| frame::parse(bytes).is_ok_and(|headers| headers.arp_op == 2))
    };
    for _ in 0..1000 {
        world.run(Time::from_us(100));
        if is_answer(&world) {
            break;
        }
    }
    assert!(is_answer(&world));
    let number = ask(&mut world, tcp(0, 5000));
    world.run(Time::from_ms(100));
    assert!(served(&world, number, tcp(0, 5000)).is_some());
}

#[test]
fn nobody_to_serve_is_told_and_never_silence() {
    let mut services = all_protocols();
    services.pools[0].members.clear();
    let mut world = up(services.clone());
    assert_eq!(request(&mut world, tcp(0, 5000)), None);
    let [reset] = &told(&world, 0)[..] else { panic!("one answer") };
    let got = segment(reset).unwrap().unwrap();
    assert_eq!((got.flags, got.ack), (flags::RST | flags::ACK, 7 + 1 + 12));
    assert_eq!(frame::parse(reset).unwrap().ipv4_src, VIP);
    for (client, tuple, kind) in [
        (1, tuple(1, protocol::UDP, [5000, 53]), (3, 3)),
        (2, tuple(2, protocol::ICMP, [8, 0]), (3, 1)),
        (3, tuple(3, protocol::UDP, [5000, 99]), (3, 3)),
    ] {
        assert_eq!(request(&mut world, tuple), None);
        let [answer] = &told(&world, client)[..] else { panic!("one answer") };
        let headers = frame::parse(answer).unwrap();
        assert_eq!((headers.ip_proto, headers.l4_src, headers.l4_dst), (protocol::ICMP, kind.0, kind.1));
    }
    // Nobody listens at port 81.
    assert_eq!(request(&mut world, tuple(4, protocol::TCP, [5000, 81])), None);
    assert!(segment(&told(&world, 4)[0]).unwrap().unwrap().has(flags::RST));
    services.pools[0].refusal = Refusal::Unreachable;
    set(&mut world, services.clone());
    assert_eq!(request(&mut world, tcp(5, 5000)), None);
    let headers = frame::parse(&told(&world, 5)[0]).unwrap();
    assert_eq!((headers.ip_proto, headers.l4_src, headers.l4_dst), (protocol::ICMP, 3, 1));
    services.pools[0].refusal = Refusal::Drop;
    set(&mut world, services);
    assert_eq!(request(&mut world, tcp(6, 5000)), None);
    assert!(told(&world, 6).is_empty() && connection_rules(&world).is_empty());
}

#[test]
fn answers_to_a_flood_are_limited() {
    let mut world = up(one(all_protocols()));
    for port in 0..1000 {
        ask(&mut world, tuple(0, protocol::TCP, [port, 81]));
    }
    world.run(Time::from_ms(20));
    let answers = told(&world, 0).len();
    assert!((100..150).contains(&answers), "{answers}");
    assert!(request(&mut world, tcp(0, 5000)).is_some(), "others are served");
}

#[test]
fn a_member_that_is_removed_keeps_its_connections_and_gets_no_others() {
    let mut world = up(one(all_protocols()));
    let old: Vec<u32> = (0..4).map(|port| request(&mut world, tcp(0, 5000 + port)).expect("served")).collect();
    assert_eq!(old, [12, 13, 14, 7]);
    let mut services = one(all_protocols());
    services.pools[0].members.remove(0);
    services.pools[0].members[0].is_enabled = false;
    let before = world.sent.len();
    set(&mut world, services.clone());
    world.settle();
    assert_eq!(mods(&world, before), 0, "nothing is changed on switches");
    for port in 0..4 {
        assert_eq!(request(&mut world, tcp(0, 5000 + port)), Some(old[port as usize]));
    }
    let new: BTreeSet<u32> = (0..6).map(|port| request(&mut world, tcp(0, 7000 + port)).expect("served")).collect();
    assert_eq!(new, BTreeSet::from([14, 7]));
    let now = world.controller.services();
    let leaving: Vec<(u32, bool)> = now[0].members.iter().map(|member| (member.id.0, member.is_leaving)).collect();
    assert_eq!(leaving, [(1, true), (2, false), (3, false), (4, false)]);
    // When its last connection is over it is forgotten, and nothing is left.
    world.run(Time::from_s(60));
    assert_eq!(world.controller.services()[0].members.len(), 3);
    assert!(connection_rules(&world).is_empty());
    world.assert_exact();
    assert_eq!(request(&mut world, tcp(0, 5000)).map(|host| host != 12), Some(true));
}

#[test]
fn deleting_services_leaves_nothing_behind() {
    let mut world = up(all_protocols());
    for client in 0..6 {
        request(&mut world, tcp(client, 5000)).expect("served");
        request(&mut world, tuple(client, protocol::UDP, [5000, 53])).expect("served");
    }
    assert_eq!(connection_rules(&world).len(), 24);
    set(&mut world, one(all_protocols()));
    world.settle();
    assert_eq!(connection_rules(&world).len(), 12, "those of the other services are gone");
    assert!(request(&mut world, tcp(0, 5000)).is_some());
    set(&mut world, Services::default());
    world.settle();
    assert!(connection_rules(&world).is_empty());
    let is_about = |entry: &FlowStats| entry.match_.ipv4_dst.is_some_and(|to| to.value == VIP);
    assert!(!world.switches.values().flat_map(switch::Switch::entries).any(|entry| is_about(&entry)));
    world.assert_exact();
    world.to_hosts.clear();
    let mac = MacAddr(address::host_mac(HostIx(3)));
    world.transmit(HostIx(3), frame::arp_request(mac, ip(3), VIP), None);
    world.run(Time::from_ms(50));
    let is_answer = |bytes: &[u8]| frame::parse(bytes).is_ok_and(|headers| headers.arp_op == 2);
    assert!(!world.to_hosts.iter().any(|(_, bytes)| is_answer(bytes)));
}

/// The port of the member goes down: what becomes of its connections is a choice, new ones go elsewhere.
#[test]
fn a_member_that_fails_loses_its_connections_only_as_wanted() {
    for established in [Established::Keep, Established::Move, Established::Reset] {
        let mut services = one(all_protocols());
        services.pools[0].established = established;
        let mut world = up(services);
        assert_eq!(request(&mut world, tcp(0, 5000)), Some(12));
        let other = request(&mut world, tcp(0, 5001)).expect("served");
        let cable = world.topology.out_links(edge_of(&world, 12)).iter().copied();
        let cable = { cable }.find(|link| world.topology.link(*link).to == world.topology.host(HostIx(12)));
        let cable = cable.expect("the member's cable");
        world.set_cable(cable, false);
        world.run(Time::from_ms(50));
        let is_told = |(_, event): &(Time, Event)| {
            matches!(event, Event::Member { member: MemberId(1), state: MemberState::Unplugged, .. })
        };
        assert!(world.events.iter().any(is_told));
        assert_eq!(request(&mut world, tcp(0, 5001)), Some(other), "others stay");
        let again = request(&mut world, tcp(0, 5000));
        let new: BTreeSet<Option<u32>> = (0..6).map(|port| request(&mut world, tcp(1, port + 1))).collect();
        assert_eq!(new, BTreeSet::from([13, 14, 7].map(Some)), "new ones go elsewhere");
        match established {
            Established::Keep => {
                assert_eq!(again, None, "its packets are lost");
                world.set_cable(cable, true);
                world.run(Time::from_ms(50));
                assert_eq!(request(&mut world, tcp(0, 5000)), Some(12), "it is as it was");
            }
            Established::Move => assert!(again.is_some_and(|host| host != 12), "{again:?}"),
            // A SYN opens a new one at once; anything else is reset.
            Established::Reset => assert!(again.is_some_and(|host| host != 12), "{again:?}"),
        }
        world.run(Time::from_s(60));
        assert!(connection_rules(&world).is_empty());
    }
}

#[test]
fn what_a_client_still_sends_to_a_failed_member_is_reset() {
    let mut services = one(all_protocols());
    services.pools[0].established = Established::Reset;
    let mut world = up(services);
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(12));
    let cable = { world.topology.out_links(edge_of(&world, 12)).iter().copied() }
        .find(|link| world.topology.link(*link).to == world.topology.host(HostIx(12)))
        .expect("the member's cable");
    world.set_cable(cable, false);
    world.run(Time::from_ms(50));
    let macs = [MacAddr(address::host_mac(HostIx(0))), mac_of(VIP)];
    let data = frame::Segment { flags: flags::ACK, seq: 100, ack: 4242, window: 1000, payload: b"more" };
    for _ in 0..2 {
        world.to_hosts.clear();
        world.transmit(HostIx(0), frame::tcp(macs, [ip(0), VIP], [5000, 80], &data), None);
        world.run(Time::from_ms(20));
        let [reset] = &told(&world, 0)[..] else { panic!("one answer") };
        let got = segment(reset).unwrap().unwrap();
        assert_eq!((got.flags, got.seq), (flags::RST, 4242));
    }
    assert!(connection_rules(&world).is_empty());
    assert!(request(&mut world, tcp(0, 5000)).is_some_and(|host| host != 12), "it may connect again");
}

/// Another life of the controller takes up what is there: no rule is changed, and counting goes on.
#[test]
fn a_restarted_controller_keeps_connections() {
    let mut world = up(all_protocols());
    let flows: Vec<FiveTuple> = (0..6)
        .flat_map(|client| [tcp(client, 5000), tuple(client, protocol::UDP, [5000, 53]), tuple(client, 1, [8, 0])])
        .collect();
    let members: Vec<Option<u32>> = flows.iter().map(|tuple| request(&mut world, *tuple)).collect();
    let rules = |world: &World| -> Vec<_> {
        connection_rules(world).into_iter().map(|(at, rule)| (at, rule.match_, rule.instructions)).collect()
    };
    let before = rules(&world);
    let nodes: Vec<NodeIx> = world.switches.keys().copied().collect();
    nodes.iter().for_each(|node| world.disconnect(*node));
    // While nobody is there, what is known goes on.
    assert_eq!(request(&mut world, flows[0]), members[0]);
    let balancer = Scripted { script: world.script.clone(), needs: quiet() };
    let config = Config { hosts: KnownHost::all_of(&world.topology), ..Config::default() };
    world.controller = Controller::new(config, Box::new(balancer));
    let mut services = all_protocols();
    services.pools[0].members.remove(0); // Changed while it was away: its connections stay.
    set(&mut world, services);
    let sent = world.sent.len();
    world.connect_all();
    world.run(Time::from_ms(1));
    world.settle();
    assert!(rules(&world) == before, "no rule is changed");
    assert_eq!(mods(&world, sent), 0, "nor sent again");
    for (tuple, member) in flows.iter().zip(&members) {
        assert_eq!(request(&mut world, *tuple), *member);
    }
    let now = world.controller.services();
    assert_eq!(now.iter().map(|service| service.counts.connections).sum::<u64>(), 18);
    assert!(now[0].members[0].is_leaving);
    world.assert_exact();
    // Services that are not wanted any more when it starts leave nothing.
    nodes.iter().for_each(|node| world.disconnect(*node));
    let balancer = Scripted { script: world.script.clone(), needs: quiet() };
    let config = Config { hosts: KnownHost::all_of(&world.topology), ..Config::default() };
    world.controller = Controller::new(config, Box::new(balancer));
    world.connect_all();
    world.run(Time::from_ms(1));
    world.settle();
    assert!(connection_rules(&world).is_empty());
    world.assert_exact();
}

#[test]
fn an_edge_switch_that_was_away_or_lost_its_rules_serves_again() {
    let mut world = up(one(all_protocols()));
    let member = request(&mut world, tcp(0, 5000)).expect("served");
    let edge = edge_of(&world, 0);
    world.disconnect(edge);
    world.run(Time::from_ms(100));
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(member));
    // The service changes meanwhile: a member goes, which keeps what it has.
    let mut services = one(all_protocols());
    services.pools[0].members.retain(|other| other.address != ip(member));
    set(&mut world, services);
    world.connect(edge);
    world.run(Time::from_ms(1));
    world.settle();
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(member));
    world.assert_exact();
    // Power loss: its rules are gone.
    world.disconnect(edge);
    let fresh = World::new(fat_tree(), Config::default(), quiet(), (100_000, 10_000));
    world.switches.insert(edge, fresh.switches.into_iter().find(|(other, _)| *other == edge).unwrap().1);
    world.connect(edge);
    world.run(Time::from_ms(1));
    world.settle();
    assert!(request(&mut world, tcp(0, 5000)).is_some());
    world.assert_exact();
}

#[test]
fn a_client_that_moves_keeps_its_member() {
    let mut world = up(one(all_protocols()));
    let member = request(&mut world, tcp(0, 5000)).expect("served");
    let (mac, address) = (MacAddr(address::host_mac(HostIx(0))), ip(0));
    world.transmit(HostIx(10), frame::arp_request(mac, address, address), None);
    world.run(Time::from_ms(500));
    world.settle();
    // The world answers at the port of host 10 now, and sends as host 0 from there.
    let number = world.packets.len() as u32;
    world.packets.push(world::Packet::default());
    let bytes = world::marked::frame([mac, mac_of(VIP)], &tcp(0, 5000), false, number);
    world.transmit(HostIx(10), bytes, Some(number));
    world.run(Time::from_ms(50));
    let packet = &world.packets[number as usize];
    assert_eq!(packet.delivered.map(|(host, _)| host.0), Some(member));
    let answer = &world.packets[packet.answer.expect("answered") as usize];
    assert_eq!(answer.delivered.map(|(host, _)| host.0), Some(10));
    assert_eq!(answer.arrived.map(|headers| headers.ipv4_src), Some(VIP));
    let edge = DatapathId(address::datapath_of(edge_of(&world, 10)));
    assert!(connection_rules(&world).iter().all(|(datapath, _)| *datapath == edge), "none is left where it was");
}

#[test]
fn a_member_that_moves_is_followed() {
    let mut world = up(one(all_protocols()));
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(12));
    // It answers with another interface at the port of host 2.
    let mac = MacAddr([2, 9, 9, 9, 9, 9]);
    world.transmit(HostIx(2), frame::arp_request(mac, ip(12), ip(12)), None);
    world.run(Time::from_ms(500));
    world.settle();
    world.answering.insert(HostIx(2));
    let number = ask(&mut world, tcp(0, 5000));
    world.run(Time::from_ms(50));
    let packet = &world.packets[number as usize];
    assert_eq!(packet.delivered.map(|(host, _)| host.0), Some(2));
    assert_eq!(packet.arrived.map(|headers| (headers.eth_dst, headers.ipv4_dst)), Some((mac, ip(12))));
    let answer = &world.packets[packet.answer.expect("answered") as usize];
    assert_eq!(answer.arrived.map(|headers| (headers.ipv4_src, headers.ipv4_dst)), Some((VIP, ip(0))));
    // It gets another one while the client's switch is away.
    let edge = edge_of(&world, 0);
    world.disconnect(edge);
    let mac = MacAddr([2, 8, 8, 8, 8, 8]);
    world.transmit(HostIx(2), frame::arp_request(mac, ip(12), ip(12)), None);
    world.run(Time::from_ms(500));
    world.connect(edge);
    world.run(Time::from_ms(1));
    world.settle();
    let number = ask(&mut world, tcp(0, 5000));
    world.run(Time::from_ms(50));
    assert_eq!(world.packets[number as usize].arrived.map(|headers| headers.eth_dst), Some(mac));
}

#[test]
fn two_services_of_an_address_do_not_meet() {
    let mut services = all_protocols();
    services.services[1] = Service { protocol: Protocol::Tcp, port: 443, ..services.services[1].clone() };
    // Both lead to port 8080 of the same members: the same ports of a client must not meet there.
    let mut world = up(services);
    let flows: Vec<FiveTuple> = [80, 443].map(|port| tuple(0, protocol::TCP, [5000, port])).into();
    for round in 0..3 {
        let members: Vec<Option<u32>> = flows.iter().map(|tuple| request(&mut world, *tuple)).collect();
        assert!(members[0].is_some() && members[1].is_some() && members[0] != members[1], "{round}: {members:?}");
    }
    assert_eq!(connection_rules(&world).len(), 4);
}

#[test]
fn a_connection_that_pauses_goes_on_with_its_member() {
    let mut world = up(one(all_protocols()));
    let member = request(&mut world, tcp(0, 5000)).expect("served");
    world.run(Time::from_s(50));
    assert!(connection_rules(&world).is_empty());
    assert_eq!(world.controller.services()[0].counts.connections, 0);
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(member));
    let now = world.controller.services();
    assert_eq!((now[0].counts.connections, now[0].counts.connections_total), (1, 1), "the same one");
    assert!(now[0].counts.bytes_in > 0 && now[0].counts.bytes_out > 0, "{:?}", now[0].counts);
}

#[test]
fn a_switch_without_room_tells_the_client() {
    let mut world = World::new(
        fat_tree(),
        Config { hosts: KnownHost::all_of(&fat_tree()), ..Config::default() },
        quiet(),
        (19, 10_000),
    );
    world.answering = SERVERS.into_iter().map(HostIx).collect();
    set(&mut world, one(all_protocols()));
    world.connect_all();
    world.settle();
    let free = 19 - { world.switches[&edge_of(&world, 0)].entries() }.iter().filter(|entry| entry.table.0 == 0).count();
    for port in 0..40 {
        request(&mut world, tcp(0, 5000 + port));
    }
    let served = world.packets.iter().filter(|packet| packet.answer.is_some()).count();
    assert_eq!(served, free / 2);
    assert_eq!(told(&world, 0).len(), 40 - served, "the others are told");
    let refused = world.events.iter().filter(|(_, event)| matches!(event, Event::Refused { .. })).count();
    assert_eq!(refused, 1, "once for many");
    world.assert_exact();
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut world = up(one(all_protocols()));
    type Fault = Box<dyn Fn(&mut Services)>;
    let faults: Vec<(&str, Fault)> = vec![
        ("no pool", Box::new(|wanted| wanted.services[0].pool = PoolId(9))),
        ("port above 0", Box::new(|wanted| wanted.services[0].port = 0)),
        ("must be 0", Box::new(|wanted| wanted.services[2].port = 1)),
        ("idle timeout", Box::new(|wanted| wanted.services[0].idle_timeout_s = 0)),
        ("not the address", Box::new(|wanted| wanted.services[0].address = Ipv4Addr::BROADCAST)),
        (
            "same address, protocol and port",
            Box::new(|wanted| {
                let twin = Service { id: ServiceId(9), ..wanted.services[0].clone() };
                wanted.services.push(twin);
            }),
        ),
        ("have the number", Box::new(|wanted| wanted.services[1].id = ServiceId(1))),
        ("another Ethernet address", Box::new(|wanted| wanted.services[1].mac = Some(MacAddr([2; 6])))),
        ("does not pick servers", Box::new(|wanted| wanted.pools[0].balancer = "ecmp".into())),
        ("did you mean", Box::new(|wanted| wanted.pools[0].balancer = "server-r".into())),
        ("has its number", Box::new(|wanted| wanted.pools[0].members[1].id = MemberId(1))),
        ("number is above", Box::new(|wanted| wanted.pools[0].members[1].id = MemberId(1 << 24))),
        ("cannot serve another", Box::new(|wanted| wanted.pools[0].members[1].address = VIP)),
    ];
    let before = world.controller.services();
    for (words, fault) in faults {
        let mut wanted = all_protocols();
        fault(&mut wanted);
        let now = world.now;
        let error = world.controller.set_services(now, wanted).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(world.controller.services(), before);
    }
}

/// The balancer picked a path too: the connection goes along it, and its answers back, until a link of it dies.
#[test]
fn paths_that_balancers_pick_are_taken_both_ways() {
    let mut services = one(all_protocols());
    services.pools[0].balancer = "server-rr:path=spl".into();
    services.pools[0].members.truncate(1);
    let mut world = up(services);
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(12));
    world.settle();
    let pins = |world: &World| -> usize {
        let of_pin = |entry: &FlowStats| entry.cookie >> 40 == 0xa7_ab05;
        world.switches.values().flat_map(switch::Switch::entries).filter(of_pin).count()
    };
    assert_eq!(pins(&world), 8, "four switches each way, the last one of each has the host");
    let way = |world: &mut World| {
        let number = ask(world, tcp(0, 5000));
        world.run(Time::from_ms(20));
        assert_eq!(served(world, number, tcp(0, 5000)), Some(12));
        let question = &world.packets[number as usize];
        let mut back = world.packets[question.answer.expect("answered") as usize].visited.clone();
        back.reverse();
        assert_eq!(question.visited, back, "the same way");
        back
    };
    let before = way(&mut world);
    let cable = world.cable(before[1], before[2]);
    world.set_cable(cable, false);
    world.run(Time::from_ms(100));
    world.settle();
    assert_eq!(pins(&world), 0);
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(12), "by the base");
    // A new connection gets a path that is alive; when it is over nothing is left.
    assert_eq!(request(&mut world, tcp(0, 5001)), Some(12));
    world.settle();
    assert_eq!(pins(&world), 8);
    world.run(Time::from_s(60));
    world.settle();
    assert_eq!((pins(&world), connection_rules(&world).len()), (0, 0));
    world.assert_exact();
}

#[test]
fn least_connections_hears_of_their_ends() {
    let mut services = one(all_protocols());
    services.pools[0].balancer = "server-lc".into();
    services.pools[0].members.truncate(2);
    let mut world = up(services);
    let members: Vec<u32> = (0..4).map(|port| request(&mut world, tcp(0, 5000 + port)).expect("served")).collect();
    assert_eq!(members.iter().filter(|member| **member == 12).count(), 2, "{members:?}");
    // Those of member 12 end; those of 13 go on.
    for _ in 0..8 {
        world.run(Time::from_s(5));
        for (port, _) in members.iter().enumerate().filter(|(_, member)| **member == 13) {
            assert_eq!(request(&mut world, tcp(0, 5000 + port as u16)), Some(13));
        }
    }
    let next: Vec<u32> = (0..2).map(|port| request(&mut world, tcp(0, 7000 + port)).expect("served")).collect();
    assert_eq!(next, [12, 12]);
}

fn checked(check: Check, pages: BTreeMap<HostIx, u16>) -> World {
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
fn states(world: &World) -> Vec<MemberState> {
    world.controller.services()[0].members.iter().map(|member| member.state).collect()
}

#[test]
fn checks_find_members_that_do_not_serve_within_an_interval() {
    let http = Check::Http { path: "/health".into(), statuses: (200, 299) };
    let pages: BTreeMap<HostIx, u16> =
        [(12, 200), (13, 0), (14, 503)].map(|(host, status)| (HostIx(host), status)).into();
    for (check, expected) in [
        (Check::Icmp, [None, None, None, Some(Failure::NoAnswer)]),
        (Check::Tcp, [None, Some(Failure::Refused), None, Some(Failure::NoAnswer)]),
        (http, [None, Some(Failure::Refused), Some(Failure::Status(503)), Some(Failure::NoAnswer)]),
    ] {
        let mut world = checked(check.clone(), pages.clone());
        let expected = expected.map(|failure| failure.map_or(MemberState::Up, MemberState::Failing));
        assert_eq!(states(&world), expected, "{check:?}");
        let good: BTreeSet<u32> = SERVERS
            .into_iter()
            .zip(expected)
            .filter(|(_, state)| *state == MemberState::Up)
            .map(|(host, _)| host)
            .collect();
        let got: BTreeSet<u32> = (0..8).map(|port| request(&mut world, tcp(0, port + 1)).expect("served")).collect();
        assert_eq!(got, good, "{check:?}");
        // It fails, and new connections go elsewhere within an interval (and the time an answer is waited for).
        world.pages.remove(&HostIx(12));
        world.pages.insert(HostIx(7), 204);
        world.run(Time::from_ms(1300));
        assert_eq!(states(&world)[0], MemberState::Failing(Failure::NoAnswer), "{check:?}");
        assert_ne!(states(&world)[3], MemberState::Up, "{check:?}: two in a row are needed");
        world.run(Time::from_s(1));
        assert_eq!(states(&world)[3], MemberState::Up, "{check:?}");
        let got: BTreeSet<u32> = (0..8).map(|port| request(&mut world, tcp(1, port + 1)).expect("served")).collect();
        assert!(got.contains(&7) && !got.contains(&12), "{check:?}");
        world.assert_exact();
    }
}

#[test]
fn a_checker_closes_what_it_opened_and_can_be_found_by_arp() {
    let mut world = checked(Check::Tcp, SERVERS.into_iter().map(|host| (HostIx(host), 200)).collect());
    let to_member: Vec<u8> = told(&world, 12).iter().filter_map(|bytes| Some(segment(bytes).ok()??.flags)).collect();
    assert!(to_member.len() >= 8 && to_member.chunks(2).all(|pair| pair == [flags::SYN, flags::RST]), "{to_member:?}");
    world.to_hosts.clear();
    let (mac, checker) = (MacAddr(address::host_mac(HostIx(12))), Ipv4Addr::new(10, 250, 0, 250));
    world.transmit(HostIx(12), frame::arp_request(mac, ip(12), checker), None);
    world.run(Time::from_ms(2));
    let is_answer = |bytes: &[u8]| {
        frame::parse(bytes).is_ok_and(|headers| headers.arp_op == 2 && headers.eth_src == MacAddr([6, 1, 1, 1, 1, 1]))
    };
    assert!(world.to_hosts.iter().any(|(_, bytes)| is_answer(bytes)));
}

/// F1's agents tell in band; who is busy gets less.
#[test]
fn reports_in_band_reach_the_balancer() {
    let checker = Ipv4Addr::new(10, 250, 0, 250);
    let config = Config {
        hosts: KnownHost::all_of(&fat_tree()),
        checker: Some(Checker { ipv4: checker, mac: MacAddr([6, 1, 1, 1, 1, 1]) }),
        ..Config::default()
    };
    let mut world = World::new(fat_tree(), config, quiet(), (100_000, 10_000));
    world.answering = SERVERS.into_iter().map(HostIx).collect();
    let mut services = one(all_protocols());
    services.pools[0].balancer = "server-cpu".into();
    services.pools[0].members.truncate(2);
    set(&mut world, services);
    world.connect_all();
    world.settle();
    let tell = |world: &mut World, from: u32, text: &[u8]| {
        let macs = [MacAddr(address::host_mac(HostIx(from))), MacAddr([6, 1, 1, 1, 1, 1])];
        let headers = Headers::ipv4(macs, [ip(from), checker], protocol::UDP, [4000, 9876]);
        let mut report = frame::build(&headers, text.len());
        let start = report.len() - text.len();
        report[start..].copy_from_slice(text);
        world.transmit(HostIx(from), report, None);
        world.run(Time::from_ms(5));
    };
    tell(&mut world, 12, b"1.0 10 90");
    tell(&mut world, 13, b"1.0 10 10");
    let got: Vec<u32> = (0..4).map(|port| request(&mut world, tcp(0, port + 1)).expect("served")).collect();
    assert_eq!(got, [13; 4]);
    assert!(told(&world, 12).is_empty(), "a report is not answered");
}
