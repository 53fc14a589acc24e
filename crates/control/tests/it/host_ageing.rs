//! Hosts that have left are forgotten, and floods do not evict the hosts of other ports.

use crate::common::{TestNetwork, config_for, fat_tree, ip, mac, quiet, udp};
use anabranch_control::{Config, Departure, Event};
use core::net::Ipv4Addr;
use net::{HostIx, Time};
use openflow::MacAddr;

const HOST: u32 = 5;

fn config() -> Config {
    Config { host_idle_timeout: Time::from_s(40), host_port_down_timeout: Time::from_s(10), ..Config::default() }
}

fn learned(config: Config) -> TestNetwork {
    let mut network = TestNetwork::without_hosts(config);
    (0..16).for_each(|host| network.announce(host));
    network.run_and_settle(Time::from_ms(100));
    network
}

fn departures(network: &TestNetwork) -> Vec<(Ipv4Addr, Departure)> {
    let departure = |event: &Event| match event {
        Event::HostGone { host, why } => Some((host.ipv4, *why)),
        _ => None,
    };
    network.events.iter().filter_map(|(_, event)| departure(event)).collect()
}

fn rules_about(network: &TestNetwork, host: u32) -> usize {
    let is_about = |entry: &openflow::FlowStats| entry.match_.ipv4_dst.is_some_and(|to| to.value == ip(host));
    network.entries().filter(is_about).count()
}

/// Once, a host that was unplugged kept its rules for good.
#[test]
fn unplugged_host_is_forgotten_with_its_rules() {
    let mut network = learned(config());
    assert!(rules_about(&network, HOST) > 0);
    let cable = network.uplink(HOST);
    network.set_cable(cable, false);
    network.run_answering(Time::from_s(9));
    assert!(departures(&network).is_empty(), "it may be plugged in again");
    network.run_answering(Time::from_s(3));
    assert_eq!(departures(&network), [(ip(HOST), Departure::PortDown)]);
    assert_eq!(rules_about(&network, HOST), 0);
    network.set_cable(cable, true);
    network.announce(HOST);
    network.run_and_settle(Time::from_s(1));
    assert_eq!(network.deliver(udp(0, HOST, 1)), Some(HostIx(HOST)));
    network.assert_exact();
}

#[test]
fn silent_host_is_forgotten_and_one_that_replies_stays() {
    let mut network = learned(config());
    let until = network.now + Time::from_s(120);
    while network.now < until {
        network.run(Time::from_ms(20));
        network.to_hosts.retain(|(host, _)| *host != HostIx(HOST));
        network.answer_arp();
    }
    assert_eq!(departures(&network), [(ip(HOST), Departure::Idle)]);
    assert_eq!((rules_about(&network, HOST), network.controller.inspect().hosts().count()), (0, 15));
    network.assert_exact();
}

/// Nothing is known about the hosts of a disconnected switch, and its rules still forward packets.
#[test]
fn hosts_of_a_disconnected_switch_and_configured_hosts_stay() {
    let mut network = learned(config());
    let edge = network.topology.link(network.uplink(HOST)).to;
    network.disconnect(edge);
    network.run_answering(Time::from_s(120));
    assert!(departures(&network).is_empty());
    let config = Config { pins_hosts: false, ..Config { hosts: config_for(&fat_tree()).hosts, ..config() } };
    let mut network = TestNetwork::new(fat_tree(), config, quiet(), crate::common::AMPLE).connected();
    network.set_cable(network.uplink(HOST), false);
    network.run(Time::from_s(120));
    assert!(departures(&network).is_empty());
    assert_eq!(network.controller.inspect().hosts().count(), 16);
}

/// Once, forged addresses at other ports evicted the host that had been silent for longest.
#[test]
fn floods_from_other_ports_do_not_evict_a_silent_host() {
    let mut network = TestNetwork::without_hosts(Config { hosts_max: 40, ..Config::default() });
    network.announce(HOST);
    network.run(Time::from_s(1));
    let attackers = [0, 1, 2, 3];
    for number in 0..200u32 {
        let [_, _, high, low] = number.to_be_bytes();
        let (mac, address) = (MacAddr([2, 0xee, 0, 0, high, low]), Ipv4Addr::new(172, 16, high, low));
        network.announce_at(attackers[number as usize % 4], mac, address);
        network.run(Time::from_ms(300));
    }
    assert!(departures(&network).len() > 10, "forged addresses replace each other: {:?}", departures(&network));
    assert!(departures(&network).iter().all(|(address, _)| *address != ip(HOST)));
    assert_eq!(network.controller.inspect().find_host(ip(HOST)).map(|known| known.mac), Some(mac(HOST)));
    // A host at another port is accepted, although the limit is reached.
    network.announce(9);
    network.run(Time::from_ms(1_100));
    network.announce(9);
    network.run(Time::from_ms(100));
    assert!(network.controller.inspect().find_host(ip(9)).is_some());
}
