//! Virtual services with proactive rules: connections need no controller, and keep their member
//! while clients get others.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{TestNetwork, config_for, fat_tree, marked};
use crate::services::*;
use anabranch_control::vip::{Established, MemberState, Rules, Service, ServiceId, Services, mac_of};
use net::{FiveTuple, HostIx, LinkIx, NodeIx, Time, address};
use openflow::FlowStats;
use openflow::headers::protocol;

const CLIENTS: [u32; 12] = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 15];
/// The idle timeout of connections, and a little more.
const MOVED: Time = Time::from_s(32);

fn wild(buckets: u16) -> Services {
    let mut services = by("maglev", SERVERS.len());
    services.services[0].rules = Rules::Wildcard { buckets };
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

/// Returns the number of rules and packets sent since a message because of packet-ins.
fn reactive_messages(network: &TestNetwork, since: usize) -> usize {
    mods(network, since) + sent_on(network, since)
}
/// Sends a packet of an established connection. Returns the host that received it, if its reply
/// returned.
fn send_established(network: &mut TestNetwork, tuple: FiveTuple) -> Option<u32> {
    let client = address::host_of_ipv4(tuple.src, 16).expect("a host");
    let macs = [mac(client.0), mac_of(tuple.dst)];
    let number = network.transmit_packet(client, |number| marked::later(macs, &tuple, number));
    network.run(Time::from_ms(20));
    served(network, number, tuple)
}
fn bucket_rules(network: &TestNetwork) -> Vec<FlowStats> {
    network.entries().filter(|entry| entry.cookie >> 40 == 0xa7_ab07).collect()
}
/// Returns the member of each client, by a new connection from that port.
fn serving(network: &mut TestNetwork, port: u16) -> BTreeMap<u32, Option<u32>> {
    CLIENTS.iter().map(|client| (*client, request(network, tcp(*client, port)))).collect()
}
/// Returns a network, and the member of each client.
fn up_and_serving(services: Services) -> (TestNetwork, BTreeMap<u32, Option<u32>>) {
    let mut network = up(services);
    let first = serving(&mut network, 5000);
    (network, first)
}
/// Returns the clients that a member serves.
fn clients_of(serving: &BTreeMap<u32, Option<u32>>, member: u32) -> Vec<u32> {
    CLIENTS.into_iter().filter(|client| serving[client] == Some(member)).collect()
}
/// Asserts that all slots of a member have migrated: new connections get others, without the
/// controller.
fn assert_migrated(network: &mut TestNetwork, member: u32) {
    assert_eq!(network.controller.inspect().services()[0].moving, 0);
    let before = network.sent.len();
    assert!(serving(network, 7000).values().all(|host| host.is_some_and(|host| host != member)));
    assert_eq!(reactive_messages(network, before), 0, "no packet goes to the controller any more");
}
fn client_of(serving: &BTreeMap<u32, Option<u32>>, member: u32) -> u32 {
    *serving.iter().find(|(_, served)| **served == Some(member)).expect("it has a client").0
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
        let mut network = up(services);
        let before = network.sent.len();
        let first = serving(&mut network, 5000);
        assert!(first.values().all(Option::is_some), "{first:?}");
        for port in 5001..5010 {
            assert_eq!(serving(&mut network, port), first, "all connections of a client go to one member");
        }
        for client in CLIENTS {
            assert_eq!(request(&mut network, tuple(client, protocol::UDP, [7000, 53])), first[&client]);
        }
        assert_eq!(reactive_messages(&network, before), 0, "no packet-in");
        assert!(connection_rules(&network).is_empty());
        network.assert_exact();
        network.disconnect_all();
        assert_eq!(serving(&mut network, 6000), first, "and without a connected controller");
    }
}

/// Hosts that differ in their lowest bits alone are divided among all members as evenly as slots
/// allow.
#[test]
fn slots_are_assigned_evenly_and_by_weight() {
    let mut services = wild(64);
    let network = up(services.clone());
    let buckets = |network: &TestNetwork| -> Vec<usize> {
        network.controller.inspect().services()[0].members.iter().map(|member| member.buckets).collect()
    };
    assert_eq!(buckets(&network), [16; 4]);
    services.pools[0].members[2].weight = 5;
    assert_eq!(buckets(&up(services)), [8, 8, 40, 8]);
}

/// Every edge switch has a rule for each slot, and one for each of its hosts.
#[test]
fn proactive_rules_are_bounded_by_slots_and_clients() {
    let network = up(wild(64));
    let rules = bucket_rules(&network);
    let forth = rules.iter().filter(|rule| rule.priority == 460).count();
    assert_eq!((forth, rules.len() - forth), (8 * 64, 16));
}

#[test]
fn other_packets_of_a_member_are_left_alone() {
    let (mut network, first) = up_and_serving(wild(64));
    let member = SERVERS[0];
    let others: Vec<u32> = CLIENTS.into_iter().filter(|client| first[client] != Some(member)).collect();
    for client in others {
        // From the port of the service, to a client of another member.
        let tuple = FiveTuple { src: ip(member), dst: ip(client), protocol: 6, src_port: 8080, dst_port: 5000 };
        let number = network.ask(HostIx(member), mac(client), tuple);
        network.run(Time::from_ms(20));
        let packet = &network.packets[number as usize];
        assert_eq!(packet.delivered.map(|(host, _)| host.0), Some(client));
        assert_eq!(packet.arrived.map(|headers| (headers.ipv4_src, headers.l4_src)), Some((ip(member), 8080)));
    }
    // From another port, to its own clients.
    let client = client_of(&first, member);
    let number = network.send(crate::common::udp(member, client, 9000));
    network.run(Time::from_ms(20));
    assert_eq!(network.packets[number as usize].arrived.map(|headers| headers.ipv4_src), Some(ip(member)));
}

#[test]
fn member_is_client_of_another_member() {
    let mut network = up(wild(64));
    for (member, other) in SERVERS.into_iter().flat_map(|member| SERVERS.map(|other| (member, other))) {
        if member == other {
            continue;
        }
        let tuple = FiveTuple { src: ip(member), dst: ip(other), protocol: 6, src_port: 8080, dst_port: 5000 };
        let number = network.ask(HostIx(member), mac(other), tuple);
        network.run(Time::from_ms(20));
        assert_eq!(network.packets[number as usize].arrived.map(|headers| headers.ipv4_src), Some(ip(member)));
    }
    for member in SERVERS {
        let served = request(&mut network, tcp(member, 5000));
        assert!(served.is_some_and(|host| host != member && SERVERS.contains(&host)), "{member}: {served:?}");
    }
    network.assert_exact();
}

/// Clients of a drained or removed member: established connections keep it and new ones get others,
/// at once; later without the controller.
#[test]
fn draining_member_keeps_connections_and_gets_no_others() {
    let member = SERVERS[1];
    for less in [drained(&wild(64), member), without(&wild(64), member)] {
        let (mut network, first) = up_and_serving(wild(64));
        set(&mut network, less);
        network.settle();
        let mine = clients_of(&first, member);
        assert!(!mine.is_empty() && network.controller.inspect().services()[0].moving >= 16);
        for client in &mine {
            let new = request(&mut network, tcp(*client, 6000));
            assert!(new.is_some_and(|host| host != member), "{new:?}");
            assert_eq!(send_established(&mut network, tcp(*client, 5000)), Some(member));
            assert_eq!(send_established(&mut network, tcp(*client, 6000)), new, "and that one stays, too");
        }
        for client in CLIENTS.iter().filter(|client| !mine.contains(client)) {
            assert_eq!(send_established(&mut network, tcp(*client, 5000)), first[client], "others are not affected");
        }
        // Connections that send in time stay until they end.
        for _ in 0..6 {
            network.run(Time::from_s(9));
            for client in CLIENTS {
                assert_eq!(send_established(&mut network, tcp(client, 5000)), first[&client]);
            }
        }
        assert_migrated(&mut network, member);
        network.run(Time::from_s(60));
        assert!(connection_rules(&network).is_empty());
        assert!(
            network.controller.inspect().services()[0].members.iter().all(|now| !now.is_leaving),
            "it is forgotten"
        );
        network.assert_exact();
    }
}

#[test]
fn added_member_gets_its_share_of_new_connections_only() {
    let member = SERVERS[3];
    let mut network = up(without(&wild(64), member));
    let first = serving(&mut network, 5000);
    set(&mut network, wild(64));
    network.settle();
    for client in CLIENTS {
        assert_eq!(send_established(&mut network, tcp(client, 5000)), first[&client]);
    }
    let new = serving(&mut network, 6000);
    assert!(new.values().any(|host| *host == Some(member)), "{new:?}");
    network.run(MOVED);
    let before = network.sent.len();
    assert_eq!(serving(&mut network, 6001), new);
    assert_eq!(reactive_messages(&network, before), 0);
    network.assert_exact();
}

/// Established connections of a failed member are handled as configured; new ones get another
/// member in any case.
#[test]
fn failed_member_loses_its_clients_at_once() {
    for established in [Established::Keep, Established::Move, Established::Reset] {
        let mut network = up(with(&wild(64), established));
        let first = serving(&mut network, 5000);
        let (member, cable) = (SERVERS[0], network.uplink(SERVERS[0]));
        let mine = clients_of(&first, member);
        network.set_cable(cable, false);
        network.run_and_settle(Time::from_ms(5));
        for client in &mine {
            let new = request(&mut network, tcp(*client, 6000));
            assert!(new.is_some_and(|host| host != member), "{established:?}: {new:?}");
            network.to_hosts.clear();
            let old = send_established(&mut network, tcp(*client, 5000));
            match established {
                Established::Keep => {
                    assert_eq!((old, received_frames(&network, *client).len()), (None, 0), "it may come back")
                }
                Established::Move => assert_eq!(old, new, "another member gets it"),
                Established::Reset => {
                    assert_eq!((old, received_frames(&network, *client).len()), (None, 1), "its client is rejected")
                }
            }
        }
        // It recovers before the waiting packets time out.
        network.set_cable(cable, true);
        network.run_and_settle(Time::from_ms(50));
        assert_eq!(network.controller.inspect().services()[0].members[0].state, MemberState::Up);
        if established == Established::Keep {
            for client in &mine {
                assert_eq!(send_established(&mut network, tcp(*client, 5000)), Some(member));
                let other = send_established(&mut network, tcp(*client, 6000));
                assert!(other.is_some_and(|host| host != member), "that one stays");
            }
        }
        network.run(MOVED);
        assert_eq!(serving(&mut network, 7000), first, "all is as it was");
        network.assert_exact();
    }
}

#[test]
fn controller_restart_changes_nothing() {
    let (mut network, first) = up_and_serving(wild(64));
    let bare = |rule: FlowStats| (rule.match_, rule.cookie, rule.instructions);
    let before: Vec<_> = bucket_rules(&network).into_iter().map(bare).collect();
    let sent = network.sent.len();
    restart(&mut network, wild(64));
    assert_eq!(bucket_rules(&network).into_iter().map(bare).collect::<Vec<_>>(), before);
    assert_eq!(mods(&network, sent), 0, "no rule is sent again");
    assert_eq!(serving(&mut network, 6000), first);
    network.assert_exact();
}

/// Changes made during the restart take effect afterwards.
#[test]
fn connections_survive_a_restart_during_a_slot_migration() {
    let member = SERVERS[1];
    for less in [drained(&wild(64), member), without(&wild(64), member)] {
        let (mut network, first) = up_and_serving(wild(64));
        for round in 0..3 {
            restart(&mut network, less.clone());
            for client in CLIENTS {
                assert_eq!(send_established(&mut network, tcp(client, 5000)), first[&client], "life {round}");
                let new = request(&mut network, tcp(client, 6000 + round));
                assert!(new.is_some_and(|host| host != member), "life {round}");
            }
        }
        network.run(MOVED);
        assert_migrated(&mut network, member);
        network.assert_exact();
    }
}

/// Other kinds of rules, or other numbers of slots, move no connection.
#[test]
fn connections_survive_other_kinds_of_rules() {
    let (mut network, first) = up_and_serving(wild(64));
    let mut plain = wild(64);
    plain.services[0].rules = Rules::Connection;
    let mut quick = wild(8);
    quick.services[0].idle_timeout_s = 20;
    for (round, services) in (0..).zip([wild(256), wild(8), quick, plain.clone(), wild(2), plain]) {
        set(&mut network, services);
        network.settle();
        for client in CLIENTS {
            assert_eq!(send_established(&mut network, tcp(client, 5000)), first[&client], "round {round}");
            assert!(request(&mut network, tcp(client, 6000 + round)).is_some());
        }
        for _ in 0..3 {
            network.run(Time::from_s(11));
            for client in CLIENTS {
                assert_eq!(send_established(&mut network, tcp(client, 5000)), first[&client], "round {round}, later");
            }
        }
        network.assert_exact();
    }
    assert!(bucket_rules(&network).is_empty(), "each connection has its own rules at last");
    set(&mut network, Services::default());
    network.settle();
    assert!(connection_rules(&network).is_empty() && bucket_rules(&network).is_empty());
}

#[test]
fn moved_client_and_member_are_followed() {
    let (mut network, first) = up_and_serving(wild(64));
    let member = first[&0].expect("served");
    assert_member_is_followed(&mut network, member);
    assert_client_is_followed(&mut network, 5001);
    network.assert_exact();
}

/// A client whose switch has no path to its member gets another one.
#[test]
fn unreachable_member_is_skipped() {
    let (mut network, first) = up_and_serving(wild(64));
    // The switch of hosts 12 and 13 loses its uplinks: the two can serve each other only.
    let edge = edge_of(&network, 12);
    let uplinks: Vec<LinkIx> = network.topology.out_links(edge).to_vec();
    let hosts: BTreeSet<NodeIx> = [12, 13].map(|host| network.topology.host(HostIx(host))).into();
    for link in uplinks {
        if !hosts.contains(&network.topology.link(link).to) {
            network.set_cable(link, false);
        }
    }
    network.run_and_settle(Time::from_ms(5));
    for client in CLIENTS {
        let new = request(&mut network, tcp(client, 6000));
        assert!(matches!(new, Some(14 | 7)), "{client}, served by {:?} before, by {new:?} now", first[&client]);
    }
    network.assert_exact();
}

/// A switch without capacity for the return rules gets no rules to members; it serves as many
/// connections as it can, one by one, and rejects the others.
#[test]
fn full_switch_serves_as_many_as_it_can() {
    // Forwarding uses 18.
    for room in [18, 20, 40, 70, 75, 80] {
        let mut network = TestNetwork::new(fat_tree(), config_for(&fat_tree()), quiet(), (room, 10_000));
        network.answering = SERVERS.into_iter().map(HostIx).collect();
        set(&mut network, wild(64));
        network.connect_all();
        network.run(Time::from_s(2));
        for client in CLIENTS {
            network.to_hosts.clear();
            let served = request(&mut network, tcp(client, 5000));
            assert!(
                served.is_some() || received_frames(&network, client).len() == 1,
                "capacity {room}: {client} gets no response"
            );
        }
    }
}

#[test]
fn invalid_wildcard_services_are_rejected() {
    let mut network = up(wild(64));
    let valid = || {
        let mut wanted = Services { services: all_protocols().services, ..wild(64) };
        wanted.services[0].rules = Rules::Wildcard { buckets: 64 };
        wanted
    };
    assert_rejected(
        &mut network,
        valid,
        &[
            ("a power of two", |wanted| wanted.services[0].rules = Rules::Wildcard { buckets: 63 }),
            ("a power of two", |wanted| wanted.services[0].rules = Rules::Wildcard { buckets: 1 }),
            ("a power of two", |wanted| wanted.services[0].rules = Rules::Wildcard { buckets: 8192 }),
            ("maglev or server-random", |wanted| wanted.pools[0].balancer = "server-rr".into()),
            ("maglev or server-random", |wanted| wanted.pools[0].balancer = "maglev:path=spl".into()),
            ("ICMP cannot", |wanted| wanted.services[2].rules = Rules::Wildcard { buckets: 64 }),
            ("service 9 leads to the same port", |wanted| {
                let twin = Service { id: ServiceId(9), port: 81, ..wanted.services[0].clone() };
                wanted.services.push(twin);
            }),
        ],
    );
}

/// A slot migration that was due when its service was deleted stayed due forever: the controller
/// never settled.
#[test]
fn deleting_a_wildcard_service_leaves_no_timer() {
    let mut services = wild(64);
    services.pools[0].members = vec![member(9, 99, Some(8080))]; // No host has this address.
    let mut network = TestNetwork::up(fat_tree(), quiet());
    set(&mut network, services);
    network.run(Time::from_s(1));
    set(&mut network, Services::default());
    network.run(Time::from_s(40));
}
