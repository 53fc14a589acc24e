//! Virtual services with a mux: one switch has their slot rules, and the controller is the backstop.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{TestNetwork, config_for, fat_tree, marked};
use crate::services::*;
use anabranch_control::Config;
use anabranch_control::vip::{Rules, ServiceId, Services, mac_of};
use net::{Bandwidth, FiveTuple, NodeIx, Time, address};

const CLIENTS: [u32; 12] = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 15];
const SLOTS: u16 = 16;

fn muxed(services: usize) -> Services {
    let mut all = by("maglev", SERVERS.len());
    all.services[0].rules = Rules::Mux { buckets: SLOTS, traffic: Bandwidth::from_mbps(100) };
    for number in 1..services as u16 {
        let first = all.services[0].clone();
        let (mut pool, id) = (all.pools[0].clone(), ServiceId(number + 10));
        pool.id.0 = number + 10;
        pool.members.iter_mut().for_each(|member| member.port = Some(9000 + number));
        let service = anabranch_control::vip::Service { id, port: 80 + number, pool: pool.id, ..first };
        all.services.push(service);
        all.pools.push(pool);
    }
    all
}

/// Returns a network whose muxes may have this number of rules.
fn up_with(services: Services, mux_rules: u32) -> TestNetwork {
    let config = Config { mux_rules, ..config_for(&fat_tree()) };
    let mut network = connected(TestNetwork::fat_tree(config, quiet()), services);
    network.run(Time::from_s(2));
    network.settle();
    network
}

fn mux(network: &TestNetwork, service: usize) -> Option<NodeIx> {
    let datapath = network.controller.inspect().services()[service].mux?;
    network.switches.keys().find(|node| address::datapath_of(**node) == datapath.0).copied()
}

/// Returns the switches with slot rules to members.
fn holders(network: &TestNetwork) -> BTreeMap<NodeIx, usize> {
    let count = |switch: &switch::Switch| {
        let entries = switch.entries().into_iter();
        entries.filter(|entry| entry.cookie >> 40 == 0xa7_ab07 && entry.priority == 460).count()
    };
    let all = network.switches.iter().map(|(node, switch)| (*node, count(switch)));
    all.filter(|(_, count)| *count > 0).collect()
}

fn number_of(network: &mut TestNetwork, tuple: FiveTuple, is_new: bool) -> u32 {
    let client = address::host_of_ipv4(tuple.src, 16).expect("a host");
    if is_new {
        return ask(network, tuple);
    }
    let macs = [mac(client.0), mac_of(tuple.dst)];
    network.transmit_packet(client, |number| marked::later(macs, &tuple, number))
}

/// Sends a packet and waits. Returns the member that received it and the switches on the way, if the
/// reply came from the virtual address.
fn via(network: &mut TestNetwork, tuple: FiveTuple, is_new: bool) -> Option<(u32, Vec<NodeIx>)> {
    let number = number_of(network, tuple, is_new);
    network.run(Time::from_ms(20));
    let packet = &network.packets[number as usize];
    let (server, _) = packet.delivered?;
    assert_eq!(packet.deliveries, 1);
    let answer = &network.packets[packet.answer? as usize];
    let (client, _) = answer.delivered?;
    let back = answer.arrived.expect("a packet");
    assert_eq!((ip(client.0), back.ipv4_src, back.l4_src), (tuple.src, tuple.dst, tuple.dst_port));
    Some((server.0, packet.visited.clone()))
}

fn all_served(network: &mut TestNetwork, port: u16, is_new: bool) -> BTreeMap<u32, (u32, Vec<NodeIx>)> {
    CLIENTS.iter().map(|client| (*client, via(network, tcp(*client, port), is_new).expect("served"))).collect()
}

fn members(served: &BTreeMap<u32, (u32, Vec<NodeIx>)>) -> BTreeMap<u32, u32> {
    served.iter().map(|(client, (member, _))| (*client, *member)).collect()
}

#[test]
fn all_packets_cross_the_mux_without_the_controller() {
    let mut network = up_with(muxed(1), 512);
    let mux = mux(&network, 0).expect("a mux");
    assert_eq!(holders(&network), BTreeMap::from([(mux, usize::from(SLOTS))]));
    let before = network.sent.len();
    for is_new in [true, false] {
        let served = all_served(&mut network, 5000, is_new);
        for (client, (_, visited)) in &served {
            assert!(visited.contains(&mux), "{client}: {visited:?}");
            assert!(visited.len() <= 9, "no loop: {visited:?}");
        }
        let used: BTreeSet<u32> = members(&served).into_values().collect();
        assert_eq!(used.len(), SERVERS.len(), "every member serves clients");
    }
    assert_eq!((mods(&network, before), sent_on(&network, before)), (0, 0));
}

/// Cuts every cable of a switch and its channel, as a power failure does.
fn kill(network: &mut TestNetwork, node: NodeIx) {
    let links: Vec<_> = network.topology.out_links(node).to_vec();
    network.disconnect(node);
    links.into_iter().for_each(|link| network.set_cable(link, false));
}

#[test]
fn connections_keep_their_member_when_the_mux_fails() {
    let mut network = up_with(muxed(1), 512);
    let dead = mux(&network, 0).expect("a mux");
    // Clients and members of the dead switch itself are cut off.
    let is_whole =
        |(client, member): &(u32, u32)| edge_of(&network, *client) != dead && edge_of(&network, *member) != dead;
    let mut first = members(&all_served(&mut up_with(muxed(1), 512), 5000, true));
    first.retain(|client, member| is_whole(&(*client, *member)));
    assert!(first.len() >= 5, "{first:?}");
    let served_now = |network: &mut TestNetwork, port: u16, is_new: bool| -> BTreeMap<u32, (u32, Vec<NodeIx>)> {
        first.keys().map(|client| (*client, via(network, tcp(*client, port), is_new).expect("served"))).collect()
    };
    assert_eq!(members(&served_now(&mut network, 5000, true)), first);
    kill(&mut network, dead);
    network.run(Time::from_ms(60));
    let now = members(&served_now(&mut network, 5000, false));
    assert_eq!(now, first, "established connections, through the backstop or the next mux");
    network.run(Time::from_s(2));
    let next = mux(&network, 0).expect("another mux");
    assert_ne!(next, dead);
    assert_eq!(holders(&network).keys().filter(|node| **node != dead).collect::<Vec<_>>(), [&next]);
    assert_eq!(members(&served_now(&mut network, 5000, false)), first);
    let new = served_now(&mut network, 6000, true);
    assert!(new.values().all(|(_, visited)| visited.contains(&next)));
}

#[test]
fn memory_of_muxes_limits_them_and_the_rest_uses_the_backstop() {
    // 20 switches hold 2 services each; of 41, one is left.
    let network = up_with(muxed(41), u32::from(2 * SLOTS));
    let muxes: Vec<Option<NodeIx>> = (0..41).map(|service| mux(&network, service)).collect();
    assert_eq!(muxes.iter().filter(|mux| mux.is_none()).count(), 1);
    let mut counts: BTreeMap<NodeIx, usize> = BTreeMap::new();
    muxes.iter().flatten().for_each(|mux| *counts.entry(*mux).or_insert(0) += 1);
    assert!(counts.len() == 20 && counts.values().all(|count| *count == 2), "{counts:?}");
    assert!(holders(&network).values().all(|count| *count == 2 * usize::from(SLOTS)));
    let without = muxes.iter().position(Option::is_none).expect("one") as u16;
    let mut network = network;
    let before = network.sent.len();
    let tuple = FiveTuple { dst_port: 80 + without, ..tcp(0, 5000) };
    let number = ask(&mut network, tuple);
    network.run(Time::from_ms(20));
    assert!(network.packets[number as usize].delivered.is_some());
    assert!(mods(&network, before) > 0, "the controller picks the member");
}

/// A member that leaves migrates its slots through the backstop: its connections stay.
#[test]
fn drained_member_keeps_its_connections() {
    let services = muxed(1);
    let mut network = up_with(services.clone(), 512);
    let first = members(&all_served(&mut network, 5000, true));
    let mut less = services;
    less.pools[0].members[0].is_enabled = false;
    set(&mut network, less);
    network.run(Time::from_s(1));
    for _ in 0..8 {
        assert_eq!(members(&all_served(&mut network, 5000, false)), first);
        network.run(Time::from_s(4));
    }
    assert!(mux(&network, 0).is_some(), "the slots have migrated");
    let new = members(&all_served(&mut network, 6000, true));
    assert!(new.values().all(|member| *member != SERVERS[0]), "{new:?}");
}
