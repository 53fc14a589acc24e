//! Virtual services whose rules stand beforehand: connections need no controller, and stay where they are while clients get other
//! members.

mod services;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use anabranch_control::vip::{Established, MemberState, Rules, Services, mac_of};
use anabranch_control::{Config, Controller, KnownHost};
use net::{FiveTuple, HostIx, LinkIx, NodeIx, Time, address};
use openflow::headers::protocol;
use openflow::{FlowStats, MacAddr};
use services::*;
use world::{Scripted, World, marked};

const CLIENTS: [u32; 12] = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 15];
/// As long as connections may be silent, and a little more.
const MOVED: Time = Time::from_s(32);

fn wild(buckets: u16) -> Services {
    let mut services = one(all_protocols());
    services.services[0].rules = Rules::Wildcard { buckets };
    services.pools[0].balancer = "maglev".into();
    services
}
fn without(services: &Services, host: u32) -> Services {
    let mut less = services.clone();
    less.pools[0].members.retain(|member| member.address != ip(host));
    less
}
fn drained(services: &Services, host: u32) -> Services {
    let mut less = services.clone();
    let member = less.pools[0].members.iter_mut().find(|member| member.address == ip(host));
    member.expect("a member").is_enabled = false;
    less
}
fn with(services: &Services, established: Established) -> Services {
    let mut other = services.clone();
    other.pools[0].established = established;
    other
}

/// Rules and packets that were sent since then because somebody asked.
fn asked(world: &World, since: usize) -> usize {
    mods(world, since) + sent_on(world, since)
}
/// A packet of a connection that stands: who got it, if its answer came back.
fn go_on(world: &mut World, tuple: FiveTuple) -> Option<u32> {
    let client = address::host_of_ipv4(tuple.src, 16).expect("a host");
    let number = world.packets.len() as u32;
    world.packets.push(world::Packet::default());
    let macs = [MacAddr(address::host_mac(client)), mac_of(tuple.dst)];
    world.transmit(client, marked::later(macs, &tuple, number), Some(number));
    world.run(Time::from_ms(20));
    served(world, number, tuple)
}
fn bucket_rules(world: &World) -> Vec<FlowStats> {
    let all = world.switches.values().flat_map(switch::Switch::entries);
    all.filter(|entry| entry.cookie >> 40 == 0xa7_ab07).collect()
}
/// Who serves each client, asked by a new connection from that port.
fn serving(world: &mut World, port: u16) -> BTreeMap<u32, Option<u32>> {
    CLIENTS.iter().map(|client| (*client, request(world, tcp(*client, port)))).collect()
}
/// A client that a member serves.
fn client_of(serving: &BTreeMap<u32, Option<u32>>, member: u32) -> u32 {
    *serving.iter().find(|(_, served)| **served == Some(member)).expect("it serves somebody").0
}
fn restart(world: &mut World, services: Services) {
    let nodes: Vec<NodeIx> = world.switches.keys().copied().collect();
    nodes.iter().for_each(|node| world.disconnect(*node));
    let balancer = Scripted { script: world.script.clone(), needs: quiet() };
    let config = Config { hosts: KnownHost::all_of(&world.topology), ..Config::default() };
    world.controller = Controller::new(config, Box::new(balancer));
    set(world, services);
    world.connect_all();
    world.run(Time::from_ms(1));
    world.settle();
}
fn cable_of(world: &World, host: u32) -> LinkIx {
    world.topology.out_links(world.topology.host(HostIx(host)))[0]
}

#[test]
fn connections_need_no_controller() {
    for (rules, balancer) in
        [(Rules::Wildcard { buckets: 64 }, "maglev"), (Rules::Wildcard { buckets: 2 }, "server-random")]
    {
        let mut services = all_protocols();
        services.services.truncate(2);
        services.services.iter_mut().for_each(|service| service.rules = rules);
        services.pools[0].balancer = balancer.into();
        let mut world = up(services);
        let before = world.sent.len();
        let first = serving(&mut world, 5000);
        assert!(first.values().all(Option::is_some), "{first:?}");
        for port in 5001..5010 {
            assert_eq!(serving(&mut world, port), first, "all connections of a client go to one member");
        }
        for client in CLIENTS {
            assert_eq!(request(&mut world, tuple(client, protocol::UDP, [7000, 53])), first[&client]);
        }
        assert_eq!(asked(&world, before), 0, "nobody asked");
        assert!(connection_rules(&world).is_empty());
        world.assert_exact();
        let nodes: Vec<NodeIx> = world.switches.keys().copied().collect();
        nodes.iter().for_each(|node| world.disconnect(*node));
        assert_eq!(serving(&mut world, 6000), first, "nor is anybody there who could be asked");
    }
}

/// Hosts that differ in their lowest bits alone are divided among all members as evenly as buckets can be.
#[test]
fn buckets_are_shared_evenly_and_by_weight() {
    let mut services = wild(64);
    let world = up(services.clone());
    let buckets = |world: &World| -> Vec<usize> {
        world.controller.services()[0].members.iter().map(|member| member.buckets).collect()
    };
    assert_eq!(buckets(&world), [16; 4]);
    services.pools[0].members[2].weight = 5;
    assert_eq!(buckets(&up(services)), [8, 8, 40, 8]);
}

/// Every edge switch has a rule for each bucket, and one for each of its hosts.
#[test]
fn what_stands_is_bounded_by_buckets_and_clients() {
    let world = up(wild(64));
    let rules = bucket_rules(&world);
    let forth = rules.iter().filter(|rule| rule.priority == 460).count();
    assert_eq!((forth, rules.len() - forth), (8 * 64, 16));
}

#[test]
fn what_a_member_says_otherwise_is_left_alone() {
    let mut world = up(wild(64));
    let first = serving(&mut world, 5000);
    let member = SERVERS[0];
    let others: Vec<u32> = CLIENTS.into_iter().filter(|client| first[client] != Some(member)).collect();
    for client in others {
        // From the port of the service, to somebody another member serves.
        let tuple = FiveTuple { src: ip(member), dst: ip(client), protocol: 6, src_port: 8080, dst_port: 5000 };
        let mac = MacAddr(address::host_mac(HostIx(client)));
        let number = world.ask(HostIx(member), mac, tuple);
        world.run(Time::from_ms(20));
        let packet = &world.packets[number as usize];
        assert_eq!(packet.delivered.map(|(host, _)| host.0), Some(client));
        assert_eq!(packet.arrived.map(|headers| (headers.ipv4_src, headers.l4_src)), Some((ip(member), 8080)));
    }
    // From another port, to its own clients.
    let client = client_of(&first, member);
    let number = world.send(world::udp(member, client, 9000));
    world.run(Time::from_ms(20));
    assert_eq!(world.packets[number as usize].arrived.map(|headers| headers.ipv4_src), Some(ip(member)));
}

#[test]
fn a_member_is_served_by_another_one_and_speaks_with_the_others_as_before() {
    let mut world = up(wild(64));
    for (member, other) in SERVERS.into_iter().flat_map(|member| SERVERS.map(|other| (member, other))) {
        if member == other {
            continue;
        }
        let tuple = FiveTuple { src: ip(member), dst: ip(other), protocol: 6, src_port: 8080, dst_port: 5000 };
        let number = world.ask(HostIx(member), MacAddr(address::host_mac(HostIx(other))), tuple);
        world.run(Time::from_ms(20));
        assert_eq!(world.packets[number as usize].arrived.map(|headers| headers.ipv4_src), Some(ip(member)));
    }
    for member in SERVERS {
        let served = request(&mut world, tcp(member, 5000));
        assert!(served.is_some_and(|host| host != member && SERVERS.contains(&host)), "{member}: {served:?}");
    }
    world.assert_exact();
}

/// Clients of a member that is drained, or taken away: connections that stand keep it and new ones get others, at once; later without
/// the controller.
#[test]
fn connections_stay_with_a_member_that_drains_and_new_ones_do_not_get_it() {
    let member = SERVERS[1];
    for less in [drained(&wild(64), member), without(&wild(64), member)] {
        let mut world = up(wild(64));
        let first = serving(&mut world, 5000);
        set(&mut world, less);
        world.settle();
        let mine: Vec<u32> = CLIENTS.into_iter().filter(|client| first[client] == Some(member)).collect();
        assert!(!mine.is_empty() && world.controller.services()[0].moving >= 16);
        for client in &mine {
            let new = request(&mut world, tcp(*client, 6000));
            assert!(new.is_some_and(|host| host != member), "{new:?}");
            assert_eq!(go_on(&mut world, tcp(*client, 5000)), Some(member));
            assert_eq!(go_on(&mut world, tcp(*client, 6000)), new, "and that one stays, too");
        }
        for client in CLIENTS.iter().filter(|client| !mine.contains(client)) {
            assert_eq!(go_on(&mut world, tcp(*client, 5000)), first[client], "others notice nothing");
        }
        // All that say something in time stay until they end.
        for _ in 0..6 {
            world.run(Time::from_s(9));
            for client in CLIENTS {
                assert_eq!(go_on(&mut world, tcp(client, 5000)), first[&client]);
            }
        }
        assert_eq!(world.controller.services()[0].moving, 0);
        let before = world.sent.len();
        assert!(serving(&mut world, 7000).values().all(|host| host.is_some_and(|host| host != member)));
        assert_eq!(asked(&world, before), 0, "the controller is not asked any more");
        world.run(Time::from_s(60));
        assert!(connection_rules(&world).is_empty());
        assert!(world.controller.services()[0].members.iter().all(|now| !now.is_leaving), "it is forgotten");
        world.assert_exact();
    }
}

#[test]
fn a_member_that_is_added_gets_its_share_of_new_connections_only() {
    let member = SERVERS[3];
    let mut world = up(without(&wild(64), member));
    let first = serving(&mut world, 5000);
    set(&mut world, wild(64));
    world.settle();
    for client in CLIENTS {
        assert_eq!(go_on(&mut world, tcp(client, 5000)), first[&client]);
    }
    let new = serving(&mut world, 6000);
    assert!(new.values().any(|host| *host == Some(member)), "{new:?}");
    world.run(MOVED);
    let before = world.sent.len();
    assert_eq!(serving(&mut world, 6001), new);
    assert_eq!(asked(&world, before), 0);
    world.assert_exact();
}

/// What becomes of connections that stand when their member fails; new ones get another one in any case.
#[test]
fn a_member_that_fails_loses_its_clients_at_once() {
    for established in [Established::Keep, Established::Move, Established::Reset] {
        let mut world = up(with(&wild(64), established));
        let first = serving(&mut world, 5000);
        let (member, cable) = (SERVERS[0], cable_of(&world, SERVERS[0]));
        let mine: Vec<u32> = CLIENTS.into_iter().filter(|client| first[client] == Some(member)).collect();
        world.set_cable(cable, false);
        world.run(Time::from_ms(5));
        world.settle();
        for client in &mine {
            let new = request(&mut world, tcp(*client, 6000));
            assert!(new.is_some_and(|host| host != member), "{established:?}: {new:?}");
            world.to_hosts.clear();
            let old = go_on(&mut world, tcp(*client, 5000));
            match established {
                Established::Keep => assert_eq!((old, told(&world, *client).len()), (None, 0), "it may come back"),
                Established::Move => assert_eq!(old, new, "whoever serves gets it"),
                Established::Reset => assert_eq!((old, told(&world, *client).len()), (None, 1), "its client is told"),
            }
        }
        // It is back before those who wait for it have given up.
        world.set_cable(cable, true);
        world.run(Time::from_ms(50));
        world.settle();
        assert_eq!(world.controller.services()[0].members[0].state, MemberState::Up);
        if established == Established::Keep {
            for client in &mine {
                assert_eq!(go_on(&mut world, tcp(*client, 5000)), Some(member));
                assert!(go_on(&mut world, tcp(*client, 6000)).is_some_and(|host| host != member), "that one stays");
            }
        }
        world.run(MOVED);
        assert_eq!(serving(&mut world, 7000), first, "all is as it was");
        world.assert_exact();
    }
}

#[test]
fn another_life_of_the_controller_changes_nothing() {
    let mut world = up(wild(64));
    let first = serving(&mut world, 5000);
    let bare = |rule: FlowStats| (rule.match_, rule.cookie, rule.instructions);
    let before: Vec<_> = bucket_rules(&world).into_iter().map(bare).collect();
    let sent = world.sent.len();
    restart(&mut world, wild(64));
    assert_eq!(bucket_rules(&world).into_iter().map(bare).collect::<Vec<_>>(), before);
    assert_eq!(mods(&world, sent), 0, "no rule is sent again");
    assert_eq!(serving(&mut world, 6000), first);
    world.assert_exact();
}

/// What changed while nobody was there is done afterwards, as if somebody had been.
#[test]
fn connections_outlive_a_restart_with_other_members_and_one_in_the_middle_of_a_move() {
    let member = SERVERS[1];
    for less in [drained(&wild(64), member), without(&wild(64), member)] {
        let mut world = up(wild(64));
        let first = serving(&mut world, 5000);
        for round in 0..3 {
            restart(&mut world, less.clone());
            for client in CLIENTS {
                assert_eq!(go_on(&mut world, tcp(client, 5000)), first[&client], "life {round}");
                let new = request(&mut world, tcp(client, 6000 + round));
                assert!(new.is_some_and(|host| host != member), "life {round}");
            }
        }
        world.run(MOVED);
        assert_eq!(world.controller.services()[0].moving, 0);
        let before = world.sent.len();
        assert!(serving(&mut world, 7000).values().all(|host| host.is_some_and(|host| host != member)));
        assert_eq!(asked(&world, before), 0);
        world.assert_exact();
    }
}

/// Other rules, or other numbers of buckets, move nobody.
#[test]
fn connections_outlive_other_kinds_of_rules() {
    let mut world = up(wild(64));
    let first = serving(&mut world, 5000);
    let mut plain = wild(64);
    plain.services[0].rules = Rules::Connection;
    let mut quick = wild(8);
    quick.services[0].idle_timeout_s = 20;
    for (round, services) in (0..).zip([wild(256), wild(8), quick, plain.clone(), wild(2), plain]) {
        set(&mut world, services);
        world.settle();
        for client in CLIENTS {
            assert_eq!(go_on(&mut world, tcp(client, 5000)), first[&client], "round {round}");
            assert!(request(&mut world, tcp(client, 6000 + round)).is_some());
        }
        for _ in 0..3 {
            world.run(Time::from_s(11));
            for client in CLIENTS {
                assert_eq!(go_on(&mut world, tcp(client, 5000)), first[&client], "round {round}, later");
            }
        }
        world.assert_exact();
    }
    assert!(bucket_rules(&world).is_empty(), "each connection has its own rules at last");
    set(&mut world, Services::default());
    world.settle();
    assert!(connection_rules(&world).is_empty() && bucket_rules(&world).is_empty());
}

#[test]
fn a_client_and_a_member_that_move_are_followed() {
    let mut world = up(wild(64));
    let first = serving(&mut world, 5000);
    let member = first[&0].expect("served");
    let mac = MacAddr([2, 9, 9, 9, 9, 9]);
    world.transmit(HostIx(2), openflow::frame::arp_request(mac, ip(member), ip(member)), None);
    world.run(Time::from_ms(500));
    world.settle();
    world.answering.insert(HostIx(2));
    let number = ask(&mut world, tcp(0, 5000));
    world.run(Time::from_ms(50));
    let packet = &world.packets[number as usize];
    assert_eq!(packet.delivered.map(|(host, _)| host.0), Some(2));
    assert_eq!(packet.arrived.map(|headers| (headers.eth_dst, headers.ipv4_dst)), Some((mac, ip(member))));
    let answer = &world.packets[packet.answer.expect("answered") as usize];
    assert_eq!(answer.arrived.map(|headers| (headers.ipv4_src, headers.ipv4_dst)), Some((VIP, ip(0))));
    // The client goes to the port of host 10.
    let (mac, address) = (MacAddr(address::host_mac(HostIx(0))), ip(0));
    world.transmit(HostIx(10), openflow::frame::arp_request(mac, address, address), None);
    world.run(Time::from_ms(500));
    world.settle();
    let number = world.packets.len() as u32;
    world.packets.push(world::Packet::default());
    world.transmit(HostIx(10), marked::frame([mac, mac_of(VIP)], &tcp(0, 5001), false, number), Some(number));
    world.run(Time::from_ms(50));
    let answer = world.packets[number as usize].answer.expect("answered") as usize;
    assert_eq!(world.packets[answer].delivered.map(|(host, _)| host.0), Some(10));
    assert_eq!(world.packets[answer].arrived.map(|headers| headers.ipv4_src), Some(VIP));
    world.assert_exact();
}

/// A client whose member is beyond what its switch reaches gets another one.
#[test]
fn who_cannot_be_reached_is_passed_over() {
    let mut world = up(wild(64));
    let first = serving(&mut world, 5000);
    // The switch of hosts 12 and 13 loses its uplinks: the two can serve nobody but each other.
    let edge = edge_of(&world, 12);
    let uplinks: Vec<LinkIx> = world.topology.out_links(edge).to_vec();
    let hosts: BTreeSet<NodeIx> = [12, 13].map(|host| world.topology.host(HostIx(host))).into();
    for link in uplinks {
        if !hosts.contains(&world.topology.link(link).to) {
            world.set_cable(link, false);
        }
    }
    world.run(Time::from_ms(5));
    world.settle();
    for client in CLIENTS {
        let new = request(&mut world, tcp(client, 6000));
        assert!(matches!(new, Some(14 | 7)), "{client}, served by {:?} before, by {new:?} now", first[&client]);
    }
    world.assert_exact();
}

/// A switch without room for what leads back leads nobody there; whoever can be served is, one by one, and the others are told.
#[test]
fn a_switch_without_room_serves_as_many_as_it_can() {
    // Forwarding takes 18.
    for room in [18, 20, 40, 70, 75, 80] {
        let config = Config { hosts: KnownHost::all_of(&world::fat_tree()), ..Config::default() };
        let mut world = World::new(world::fat_tree(), config, quiet(), (room, 10_000));
        world.answering = SERVERS.into_iter().map(HostIx).collect();
        set(&mut world, wild(64));
        world.connect_all();
        world.run(Time::from_s(2));
        for client in CLIENTS {
            world.to_hosts.clear();
            let served = request(&mut world, tcp(client, 5000));
            assert!(served.is_some() || told(&world, client).len() == 1, "room for {room}: {client} meets silence");
        }
    }
}

#[test]
fn what_wildcards_cannot_do_is_refused() {
    let mut world = up(wild(64));
    type Fault = Box<dyn Fn(&mut Services)>;
    let faults: Vec<(&str, Fault)> = vec![
        ("a power of two", Box::new(|wanted| wanted.services[0].rules = Rules::Wildcard { buckets: 63 })),
        ("a power of two", Box::new(|wanted| wanted.services[0].rules = Rules::Wildcard { buckets: 1 })),
        ("a power of two", Box::new(|wanted| wanted.services[0].rules = Rules::Wildcard { buckets: 8192 })),
        ("maglev or server-random", Box::new(|wanted| wanted.pools[0].balancer = "server-rr".into())),
        ("maglev or server-random", Box::new(|wanted| wanted.pools[0].balancer = "maglev:path=spl".into())),
        ("ICMP cannot", Box::new(|wanted| wanted.services[2].rules = Rules::Wildcard { buckets: 64 })),
        (
            "service 9 leads to the same port",
            Box::new(|wanted| {
                let twin = anabranch_control::vip::ServiceId(9);
                wanted.services.push(anabranch_control::vip::Service {
                    id: twin,
                    port: 81,
                    ..wanted.services[0].clone()
                });
            }),
        ),
    ];
    let before = world.controller.services();
    for (words, fault) in faults {
        let mut wanted = Services { services: all_protocols().services, ..wild(64) };
        wanted.services[0].rules = Rules::Wildcard { buckets: 64 };
        fault(&mut wanted);
        let now = world.now;
        let error = world.controller.set_services(now, wanted).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(world.controller.services(), before);
    }
}
