//! Virtual services: connections are delivered to one member and back, or refused.

mod services;
mod world;

use std::collections::BTreeSet;

use anabranch_control::vip::{Established, MemberId, MemberState, Refusal, Services, mac_of};
use anabranch_control::{Config, Event};
use net::{HostIx, Time, address};
use openflow::frame::{self, flags, segment};
use openflow::headers::protocol;
use openflow::{DatapathId, FlowStats, Headers, MacAddr};
use services::*;
use world::{World, fat_tree};

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

/// A network of which nothing is known but where the client is, which knows the virtual address already.
fn young() -> World {
    let mut world = World::new(fat_tree(), Config::default(), quiet(), (100_000, 10_000));
    world.answering = SERVERS.into_iter().map(HostIx).collect();
    set(&mut world, one(all_protocols()));
    world.connect_all();
    world.run(Time::from_s(2));
    announce(&mut world, 0);
    world
}
fn announce(world: &mut World, host: u32) {
    let mac = MacAddr(address::host_mac(HostIx(host)));
    world.transmit(HostIx(host), frame::arp_request(mac, ip(host), ip(host)), None);
    world.run(Time::from_ms(100));
}

/// A client need not try again because it was faster than the members' switches.
#[test]
fn first_packets_wait_for_members_that_may_yet_be_found() {
    let mut world = young();
    let number = ask(&mut world, tcp(0, 5000));
    world.run(Time::from_s(1));
    assert!(served(&world, number, tcp(0, 5000)).is_none() && told(&world, 0).is_empty(), "nothing is said yet");
    announce(&mut world, SERVERS[1]);
    assert_eq!(served(&world, number, tcp(0, 5000)), Some(SERVERS[1]));
    assert!(told(&world, 0).is_empty());
    // Now somebody is known: when that one goes nobody is waited for who was never there.
    world.run(Time::from_s(10));
    let cable = world.topology.out_links(world.topology.host(HostIx(SERVERS[1])))[0];
    world.set_cable(cable, false);
    world.run(Time::from_ms(100));
    assert_eq!(request(&mut world, tcp(0, 5001)), None);
    assert!(segment(&told(&world, 0)[0]).unwrap().unwrap().has(flags::RST));
}

#[test]
fn first_packets_that_waited_in_vain_are_refused() {
    let mut world = young();
    ask(&mut world, tcp(0, 5000));
    ask(&mut world, tcp(0, 5000));
    world.run(Time::from_s(12));
    let [reset] = &told(&world, 0)[..] else { panic!("one answer for a packet and its copy") };
    assert!(segment(reset).unwrap().unwrap().has(flags::RST));
    assert_eq!(request(&mut world, tcp(0, 5001)), None);
    assert_eq!(told(&world, 0).len(), 2, "the next one is told at once");
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

/// Clients use ports again; that one of them once led to a member that is drained now is no reason to go there.
#[test]
fn a_port_used_again_does_not_lead_to_a_drained_member() {
    let mut services = one(all_protocols());
    let mut world = up(services.clone());
    let first = request(&mut world, tcp(0, 5000)).expect("served");
    assert_eq!(first, SERVERS[0]);
    world.run(Time::from_s(40));
    assert!(connection_rules(&world).is_empty(), "the rules have idled out");
    services.pools[0].members[0].is_enabled = false;
    set(&mut world, services);
    let again = request(&mut world, tcp(0, 5000)).expect("served");
    assert_ne!(again, first);
}

#[test]
fn switches_that_can_tell_show_what_opens_a_connection_whatever_rules_there_are() {
    let mut services = one(all_protocols());
    let mut world = up_with_extensions(services.clone());
    let first = request(&mut world, tcp(0, 5000)).expect("served");
    let total = |world: &World| {
        let now = world.controller.services();
        now[0].members.iter().map(|member| member.counts.connections_total).sum::<u64>()
    };
    // A copy of what opened it, and what follows, go where it goes.
    assert_eq!((request(&mut world, tcp(0, 5000)), total(&world)), (Some(first), 1));
    services.pools[0].members[0].is_enabled = false;
    set(&mut world, services);
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(first), "a copy that comes late");
    world.opening = None;
    let before = world.controller.tally().packet_ins;
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(first), "it keeps its member");
    assert_eq!(world.controller.tally().packet_ins, before, "nobody asks the controller");
    world.opening = Some(8);
    let again = request(&mut world, tcp(0, 5000)).expect("served");
    assert_ne!(again, first, "another connection, while the rules of the one before are there");
    assert_eq!(total(&world), 2);
    world.opening = None;
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(again));
    assert_eq!(connection_rules(&world).len(), 3, "the old member may still have something to say");
    world.opening = Some(9);
    let third = request(&mut world, tcp(0, 5000)).expect("served");
    assert!(third != first && total(&world) == 3, "round robin goes on");
    world.assert_exact();
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
