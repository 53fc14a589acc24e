//! Virtual services: what happens to connections when controllers, switches, hosts and configurations change.

mod services;
mod world;

use core::net::Ipv4Addr;

use anabranch_control::vip::{MemberId, PoolId, Protocol, Service, ServiceId, Services, mac_of};
use anabranch_control::{Config, Controller, Event, KnownHost};
use net::{FiveTuple, HostIx, NodeIx, Time, address};
use openflow::frame::{self};
use openflow::headers::protocol;
use openflow::{DatapathId, MacAddr};
use services::*;
use world::{Scripted, World, fat_tree};

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

/// Its member left when its last rule idled out; it is remembered all the same, and the connection goes on with it.
#[test]
fn a_connection_that_pauses_goes_on_with_a_member_that_has_left() {
    let mut world = up(one(all_protocols()));
    assert_eq!(request(&mut world, tcp(0, 5000)), Some(12));
    let mut services = one(all_protocols());
    services.pools[0].members.remove(0);
    set(&mut world, services.clone());
    assert!(world.controller.services()[0].members[0].is_leaving);
    world.run(Time::from_s(60));
    assert_eq!(connection_rules(&world).len(), 0);
    assert_eq!(world.controller.services()[0].members.len(), 3, "nobody waits for it");
    // Not a SYN: whoever opens a connection gets another member.
    let macs = [MacAddr(address::host_mac(HostIx(0))), mac_of(VIP)];
    let data = frame::Segment { flags: frame::flags::ACK, seq: 100, ack: 4242, window: 1000, payload: b"more" };
    world.to_hosts.clear();
    world.transmit(HostIx(0), frame::tcp(macs, [ip(0), VIP], [5000, 80], &data), None);
    world.run(Time::from_ms(20));
    assert_eq!((told(&world, 12).len(), told(&world, 0).len()), (1, 0));
    assert!(world.controller.services()[0].members[0].is_leaving, "it is waited for again");
    assert_eq!(request(&mut world, tcp(0, 5001)).map(|host| host != 12), Some(true));
    world.run(Time::from_s(60));
    world.assert_exact();
}
