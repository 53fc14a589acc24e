//! Virtual services: paths that pickers pick, through failures, moves and restarts; and central balancers that hear of
//! connections.

mod services;
mod world;

use anabranch_control::vip::Services;
use anabranch_control::{Config, Controller, KnownHost};
use balance::central::{CentralNeeds, FlowSource, Why};
use net::{FiveTuple, HostIx, NodeIx, Time, address};
use openflow::{FlowStats, MacAddr, frame};
use services::*;
use world::{Scripted, World, fat_tree, needs};

/// One member, and a picker of paths.
fn along() -> Services {
    let mut services = one(all_protocols());
    services.pools[0].balancer = "server-rr:path=spl".into();
    services.pools[0].members.truncate(1);
    services
}
fn pins(world: &World) -> usize {
    let of_pin = |entry: &FlowStats| entry.cookie >> 40 == 0xa7_ab05;
    world.switches.values().flat_map(switch::Switch::entries).filter(of_pin).count()
}
/// The switches a packet and its answer pass.
fn way(world: &mut World, tuple: FiveTuple) -> Vec<NodeIx> {
    let number = ask(world, tuple);
    world.run(Time::from_ms(20));
    assert_eq!(served(world, number, tuple), Some(12));
    let question = &world.packets[number as usize];
    let mut back = world.packets[question.answer.expect("answered") as usize].visited.clone();
    back.reverse();
    assert_eq!(question.visited, back, "the same way");
    back
}

/// The balancer picked a path too: the connection goes along it, and its answers back. When a link of it dies it gets another.
#[test]
fn paths_that_balancers_pick_are_taken_both_ways() {
    let mut world = up(along());
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(12));
    world.settle();
    assert_eq!(pins(&world), 8, "four switches each way, the last one of each has the host");
    for _ in 0..2 {
        let before = way(&mut world, tcp(0, 5000));
        let cable = world.cable(before[1], before[2]);
        world.set_cable(cable, false);
        world.run(Time::from_ms(100));
        world.settle();
        let now = way(&mut world, tcp(0, 5000));
        assert_ne!(now, before);
        assert_eq!(pins(&world), 8, "a path of its own again");
    }
    // No path is left of those that go there by the shortest: it waits for one.
    let first = way(&mut world, tcp(0, 5000));
    let up: Vec<_> = (0..2).map(|port| world.topology.out_links(first[0])[2 + port]).collect();
    up.iter().for_each(|link| world.set_cable(*link, false));
    world.run(Time::from_ms(100));
    world.settle();
    assert_eq!((pins(&world), request(&mut world, tcp(0, 5000))), (0, None));
    up.iter().for_each(|link| world.set_cable(*link, true));
    world.run(Time::from_s(1));
    world.settle();
    assert!(pins(&world) >= 8, "the first that came back");
    way(&mut world, tcp(0, 5000));
    world.run(Time::from_s(60));
    world.settle();
    assert_eq!((pins(&world), connection_rules(&world).len()), (0, 0));
    world.assert_exact();
}

#[test]
fn another_life_of_the_controller_picks_paths_again() {
    let mut world = up(along());
    let flows: Vec<FiveTuple> = (0..4).map(|port| tcp(port, 5000)).collect();
    let members: Vec<_> = flows.iter().map(|tuple| request(&mut world, *tuple)).collect();
    world.settle();
    let ways: Vec<_> = flows.iter().map(|tuple| way(&mut world, *tuple)).collect();
    let (before, rules) = (pins(&world), connection_rules(&world).len());
    assert!(before >= 16 && members == [Some(12); 4]);
    let nodes: Vec<NodeIx> = world.switches.keys().copied().collect();
    nodes.iter().for_each(|node| world.disconnect(*node));
    let balancer = Scripted { script: world.script.clone(), needs: quiet() };
    let config = Config { hosts: KnownHost::all_of(&world.topology), ..Config::default() };
    world.controller = Controller::new(config, Box::new(balancer));
    set(&mut world, along());
    world.connect_all();
    world.run(Time::from_s(2));
    world.settle();
    assert_eq!((pins(&world), connection_rules(&world).len()), (before, rules));
    let again: Vec<_> = flows.iter().map(|tuple| way(&mut world, *tuple)).collect();
    assert_eq!(again, ways);
    world.assert_exact();
}

/// What the member sends meanwhile must not come to the client from the member's own address: its rules are at the new switch
/// before anything leads there, without a word of the client to the service.
#[test]
fn connections_of_a_client_that_moves_go_along_before_it_sends() {
    let mut world = up(along());
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(12));
    world.settle();
    let (mac, client) = (MacAddr(address::host_mac(HostIx(0))), ip(0));
    world.transmit(HostIx(10), frame::arp_request(mac, client, client), None);
    let mut seen = Vec::new();
    for _ in 0..200 {
        world.run(Time::from_ms(5));
        let back = FiveTuple { dst: ip(12), dst_port: 8080, ..tcp(0, 5000) }.reverse();
        let number = world.packets.len() as u32;
        world.packets.push(world::Packet::default());
        let macs = [MacAddr(address::host_mac(HostIx(12))), mac];
        world.transmit(HostIx(12), world::marked::frame(macs, &back, true, number), Some(number));
        seen.push(number);
    }
    world.run(Time::from_ms(50));
    let moved = seen.iter().filter(|number| {
        let packet = &world.packets[**number as usize];
        assert!(!packet.has_looped);
        let Some((host, _)) = packet.delivered else { return false };
        let from = packet.arrived.expect("a packet").ipv4_src;
        assert_eq!(from, VIP, "at host {}", host.0);
        host == HostIx(10)
    });
    assert!(moved.count() > 100, "it is reached where it is now");
    world.settle();
    let edge = openflow::DatapathId(address::datapath_of(edge_of(&world, 10)));
    assert!(connection_rules(&world).iter().all(|(at, _)| *at == edge) && connection_rules(&world).len() == 2);
    assert!(pins(&world) > 0, "and has a path from there");
    world.assert_exact();
}

/// A central balancer that learns of flows by their first packets hears of both ways, with the addresses they have in the network,
/// and of what they carry.
#[test]
fn first_packet_learners_hear_of_connections_both_ways() {
    let topology = fat_tree();
    let learner: CentralNeeds = needs(FlowSource::FirstPackets, true);
    let hosts = KnownHost::all_of(&topology);
    let config = Config { hosts, poll_interval: Time::from_s(1), flow_idle_timeout_s: 5, ..Config::default() };
    let mut world = World::new(topology, config, learner, (100_000, 10_000));
    world.answering = SERVERS.into_iter().map(HostIx).collect();
    set(&mut world, one(all_protocols()));
    world.connect_all();
    world.settle();
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(12));
    let inner = FiveTuple { dst: ip(12), dst_port: 8080, ..tcp(0, 5000) };
    let known = |world: &World| -> Vec<FiveTuple> { world.controller.flows().map(|flow| flow.facts.tuple).collect() };
    let mut both = known(&world);
    both.sort_unstable();
    assert_eq!(both, [inner, inner.reverse()]);
    for _ in 0..30 {
        assert_eq!(request(&mut world, tcp(0, 5000)), Some(12));
        world.run(Time::from_ms(100));
    }
    let rates: Vec<bool> =
        world.controller.flows().map(|flow| flow.facts.rate.is_some_and(|rate| rate.as_bps() > 0)).collect();
    assert_eq!(rates, [true, true], "polls count both");
    world.run(Time::from_s(60));
    assert!(known(&world).is_empty());
    let asked = world.script.lock().expect("the script").asked.clone();
    let ends = asked.iter().filter(|why| matches!(why, Why::FlowEnded(_))).count();
    assert_eq!(ends, 2);
    world.assert_exact();
}
