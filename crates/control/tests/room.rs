//! Hosts are bounded, questions for unknown ones are rationed, and hosts at ports that are gone have no rules.

mod world;

use anabranch_control::{Config, Event, HostLimit, KnownHost};
use balance::central::{CentralNeeds, FlowSource};
use core::net::Ipv4Addr;
use net::{HostIx, Time, address};
use openflow::{MacAddr, frame};
use world::{World, fat_tree, make_switch_without, needs, udp};

fn quiet() -> CentralNeeds {
    CentralNeeds { period: None, ..needs(FlowSource::None, false) }
}

fn up(config: Config) -> World {
    let mut world = World::new(fat_tree(), config, quiet(), (100_000, 10_000));
    world.connect_all();
    world.run(Time::from_s(1));
    world.settle();
    world
}

fn mac(host: u32) -> MacAddr {
    MacAddr(address::host_mac(HostIx(host)))
}
fn ip(host: u32) -> Ipv4Addr {
    address::host_ipv4(HostIx(host))
}

/// A host of the topology says who it is.
fn announce(world: &mut World, host: u32) {
    world.transmit(HostIx(host), frame::arp_request(mac(host), ip(host), ip(host)), None);
    world.run(Time::from_ms(2));
}

fn made_up(number: u32) -> (MacAddr, Ipv4Addr) {
    let [_, a, b, c] = number.to_be_bytes();
    (MacAddr([2, 0xee, 0, a, b, c]), Ipv4Addr::new(172, 16 + a, b, c))
}

/// At the port of a host somebody says to be another one.
fn make_up(world: &mut World, at: u32, number: u32) {
    let (mac, ip) = made_up(number);
    world.transmit(HostIx(at), frame::arp_request(mac, ip, ip), None);
    world.run(Time::from_ms(2));
}

/// Hosts answer the questions they got, once.
fn answer_questions(world: &mut World) {
    for (host, bytes) in std::mem::take(&mut world.to_hosts) {
        let Ok(headers) = frame::parse(&bytes) else { continue };
        if headers.arp_op == 1 && headers.ipv4_dst == ip(host.0) {
            let answer = frame::arp_reply(mac(host.0), ip(host.0), headers.eth_src, headers.ipv4_src);
            world.transmit(host, answer, None);
        }
    }
    world.run(Time::from_ms(2));
}

fn refusals(world: &World) -> Vec<(KnownHost, HostLimit)> {
    let refusal = |event: &Event| match event {
        Event::HostRefused { host, limit } => Some((*host, *limit)),
        _ => None,
    };
    world.events.iter().filter_map(|(_, event)| refusal(event)).collect()
}

fn at_port_of(world: &World, host: u32) -> usize {
    let place = |known: &KnownHost| (known.datapath, known.port);
    let wanted = KnownHost::all_of(&world.topology).iter().find(|known| known.ipv4 == ip(host)).map(place);
    world.controller.hosts().filter(|at| Some(place(&at.known)) == wanted).count()
}

#[test]
fn whoever_makes_up_hosts_fills_his_own_port_only() {
    let mut world = up(Config { hosts_per_port: 8, ..Config::default() });
    (0..15).for_each(|host| announce(&mut world, host));
    for number in 0..3_000 {
        make_up(&mut world, 0, number);
        answer_questions(&mut world);
    }
    announce(&mut world, 15);
    world.settle();
    assert_eq!(at_port_of(&world, 0), 8);
    assert_eq!(world.controller.find_host(ip(0)).map(|known| known.mac), Some(mac(0)), "he answers, so he stays");
    assert!(world.controller.find_host(ip(15)).is_some(), "others are taken in");
    let [(_, HostLimit::Port)] = refusals(&world)[..] else { panic!("told once: {:?}", refusals(&world)) };
    let refused = world.controller.tally().hosts_refused;
    assert!((2_900..3_000).contains(&refused), "{refused}");
    // Six seconds make room for one address a second; each takes the number of one that is gone.
    let numbers = world.controller.topology().hosts().len();
    assert!(numbers <= 15 + 1 + 8 + 1, "{numbers}");
    world.assert_exact();
    assert!(world.unreached().is_empty());
}

#[test]
fn a_host_that_does_not_answer_makes_room_for_another() {
    let mut world = up(Config { hosts_per_port: 2, ..Config::default() });
    (0..3).for_each(|number| make_up(&mut world, 0, number));
    world.settle();
    let is_known = |world: &World, number| world.controller.find_host(made_up(number).1).is_some();
    assert!(is_known(&world, 0) && is_known(&world, 1) && !is_known(&world, 2));
    // The one that spoke longest ago was asked, and is silent.
    world.run(Time::from_ms(1_100));
    make_up(&mut world, 0, 2);
    world.settle();
    assert!(!is_known(&world, 0) && is_known(&world, 1) && is_known(&world, 2));
    world.assert_exact();
    // The third comes when there is room: another one has gone. It is told once only.
    assert_eq!(refusals(&world).len(), 1);
}

#[test]
fn configured_hosts_always_fit() {
    let topology = fat_tree();
    let hosts = KnownHost::all_of(&topology);
    let mut world = up(Config { hosts: hosts.clone(), hosts_max: 1, hosts_per_port: 1, ..Config::default() });
    assert_eq!(world.controller.hosts().count(), 16);
    // One learnt host fits besides, and no more.
    make_up(&mut world, 3, 0);
    make_up(&mut world, 4, 1);
    world.settle();
    assert_eq!(world.controller.hosts().count(), 17);
    let [(_, HostLimit::Network)] = refusals(&world)[..] else { panic!("{:?}", refusals(&world)) };
    // A configured host that moves needs no room either.
    world.transmit(HostIx(9), frame::arp_request(mac(2), ip(2), ip(2)), None);
    world.run(Time::from_ms(10));
    let place = |host: u32| world.controller.find_host(ip(host)).map(|known| (known.datapath, known.port));
    assert_eq!(place(2), Some((hosts[9].datapath, hosts[9].port)));
}

#[test]
fn hosts_at_dead_ports_make_room_first() {
    let mut world = up(Config { hosts_max: 3, ..Config::default() });
    (0..3).for_each(|host| announce(&mut world, host));
    announce(&mut world, 1); // The silent one is another, but this one cannot be there.
    let uplink = world.topology.out_links(world.topology.host(HostIx(1)))[0];
    world.set_cable(uplink, false);
    world.run(Time::from_ms(10));
    announce(&mut world, 3);
    world.settle();
    let known: Vec<bool> = (0..4).map(|host| world.controller.find_host(ip(host)).is_some()).collect();
    assert_eq!(known, [true, false, true, true]);
    world.assert_exact();
}

#[test]
fn hosts_that_come_and_go_take_no_more_numbers() {
    let mut world = up(Config { hosts_per_port: 1, hosts_max: 16, ..Config::default() });
    for number in 0..40 {
        make_up(&mut world, 5, number);
        world.run(Time::from_ms(1_100));
        make_up(&mut world, 5, number + 1);
        world.settle();
    }
    // And one that goes to and fro between two ports.
    for turn in 0..40 {
        world.transmit(HostIx([2, 9][turn % 2]), frame::arp_request(mac(2), ip(2), ip(2)), None);
        world.run(Time::from_ms(20));
        world.settle();
    }
    assert_eq!(world.controller.find_host(made_up(40).1).map(|known| known.mac), Some(made_up(40).0));
    let topology = world.controller.topology();
    assert!(topology.hosts().len() <= 5, "{}", topology.hosts().len());
    let names: Vec<&str> = topology.hosts().iter().map(|node| topology.node(*node).name.as_str()).collect();
    assert!(names.contains(&"172.16.0.40") && !names.contains(&"172.16.0.3"), "{names:?}");
    world.assert_exact();
}

/// Questions that reached hosts, for addresses nobody has.
fn questions(world: &World, at: u32) -> usize {
    let is_question = |(host, bytes): &&(HostIx, Vec<u8>)| {
        *host == HostIx(at) && frame::parse(bytes).is_ok_and(|headers| headers.arp_op == 1)
    };
    world.to_hosts.iter().filter(is_question).count()
}

#[test]
fn questions_for_addresses_nobody_has_are_rationed_and_hosts_are_found_all_the_same() {
    let mut world = up(Config::default());
    announce(&mut world, 0);
    announce(&mut world, 1);
    world.settle();
    world.to_hosts.clear();
    let began = world.now;
    for number in 0..2_000 {
        world.transmit(HostIx(0), frame::arp_request(mac(0), ip(0), made_up(number).1), None);
        world.run(Time::from_ms(1));
    }
    let took = (world.now - began).as_s_f64();
    let most = 128.0 + 32.0 * took;
    let passed = questions(&world, 7);
    assert!((passed as f64) <= most && (passed as f64) >= most - 2.0, "{passed} of {most}");
    assert_eq!(world.controller.tally().questions_dropped, 2_000 - passed as u64);
    // Someone else's question for a host that is there is passed on at once, and answered.
    world.to_hosts.clear();
    world.transmit(HostIx(1), frame::arp_request(mac(1), ip(1), ip(12)), None);
    world.run(Time::from_ms(5));
    assert_eq!(questions(&world, 12), 1);
    answer_questions(&mut world);
    world.run(Time::from_ms(20));
    let is_answer =
        |(host, bytes): &(HostIx, Vec<u8>)| *host == HostIx(1) && frame::parse(bytes).is_ok_and(|arp| arp.arp_op == 2);
    assert!(world.to_hosts.iter().any(is_answer));
}

#[test]
fn a_target_is_asked_for_once_at_a_time() {
    let mut world = up(Config::default());
    (0..3).for_each(|host| announce(&mut world, host));
    world.settle();
    world.to_hosts.clear();
    let ask = |world: &mut World, from: u32| {
        world.transmit(HostIx(from), frame::arp_request(mac(from), ip(from), ip(12)), None);
        world.run(Time::from_ms(100));
    };
    (0..3).for_each(|from| ask(&mut world, from));
    ask(&mut world, 0);
    assert_eq!(questions(&world, 12), 1);
    // Whoever asks again after a second, as hosts do, is heard.
    world.run(Time::from_ms(600));
    ask(&mut world, 0);
    assert_eq!(questions(&world, 12), 2);
}

#[test]
fn a_switch_that_comes_back_with_fewer_ports_gets_no_rules_for_their_hosts() {
    let mut world = World::up(fat_tree(), quiet());
    assert!(world.unreached().is_empty());
    let known = KnownHost::all_of(&world.topology)[3];
    let edge = world.topology.link(world.topology.out_links(world.topology.host(HostIx(3)))[0]).to;
    let replace = |world: &mut World, without: Option<openflow::PortNo>| {
        world.disconnect(edge);
        let switch = make_switch_without(&world.topology, edge, (100_000, 10_000), without);
        world.switches.insert(edge, switch);
        world.connect(edge);
        world.run(Time::from_s(2));
        world.settle();
        world.assert_exact();
    };
    let about = |world: &World| -> usize {
        let is_about = |entry: &openflow::FlowStats| {
            let to = entry.match_.ipv4_dst.is_some_and(|to| to.value == known.ipv4);
            entry.match_.in_port == Some(known.port) && entry.table.0 == 0 || to && entry.table.0 == 1
        };
        world.switches[&edge].entries().iter().filter(|entry| is_about(entry)).count()
    };
    let had = about(&world);
    assert!(had >= 3, "{had}");
    replace(&mut world, Some(known.port));
    let refused = |event: &Event| matches!(event, Event::Refused { .. });
    assert!(!world.events.iter().any(|(_, event)| refused(event)), "nothing is sent that would be refused");
    assert_eq!(about(&world), 0);
    let lost = world.unreached();
    let concerns = |tuple: &net::FiveTuple| tuple.src == known.ipv4 || tuple.dst == known.ipv4;
    assert!(lost.len() == 30 && lost.iter().all(|(tuple, _)| concerns(tuple)), "only that host: {}", lost.len());
    // The port is there again, with the host.
    replace(&mut world, None);
    assert_eq!(about(&world), had);
    assert!(world.unreached().is_empty());
    let packet = world.send(udp(0, 3, 9));
    world.run(Time::from_ms(5));
    assert!(world.packets[packet as usize].delivered.is_some());
}

/// A controller that remembers nothing takes over a network with traffic; hosts answer questions and say nothing else.
#[test]
fn hosts_that_rules_lead_to_are_asked_for_before_anything_is_removed() {
    let mut before = up(Config::default());
    (0..16).for_each(|host| announce(&mut before, host));
    before.settle();
    before.run(Time::from_s(1));
    let nodes: Vec<net::NodeIx> = before.switches.keys().copied().collect();
    nodes.iter().for_each(|node| before.disconnect(*node));
    let mut world = World::new(fat_tree(), Config::default(), quiet(), (100_000, 10_000));
    (world.now, world.switches) = (before.now, before.switches);
    for node in nodes {
        world.connect(node);
        world.run(Time::from_ms(10)); // Not all come at once.
    }
    let (gone, mut about_others) = (7, Vec::new());
    for turn in 0..2_000u16 {
        let (from, to) = (u32::from(turn) % 16, (u32::from(turn) + 5) % 16);
        let is_about = [from, to].contains(&gone);
        let packet = world.send(udp(from, to, turn));
        about_others.extend((!is_about).then_some(packet));
        world.run(Time::from_ms(2));
        world.to_hosts.retain(|(host, _)| *host != HostIx(gone));
        answer_questions(&mut world);
    }
    world.settle();
    let ips: Vec<Ipv4Addr> = world.controller.hosts().map(|at| at.known.ipv4).collect();
    assert_eq!(ips.len(), 15, "all but the one that does not answer: {ips:?}");
    let to_others = world.sent.iter().filter(|(_, _, message)| match message {
        openflow::Message::FlowMod(change) => change.match_.ipv4_dst.is_none_or(|to| to.value != ip(gone)),
        _ => false,
    });
    assert_eq!(to_others.count(), 2, "only what is about the port of the host that is gone");
    assert!(world.controller.find_host(ip(gone)).is_none());
    let is_lost = |packet: &&u32| world.packets[**packet as usize].delivered.is_none();
    assert_eq!(about_others.iter().filter(is_lost).count(), 0);
    world.assert_exact();
}
