//! Rules of PortLand.
//!
//! **Table 0**, in addition to the rules that every switch has, at edge switches:
//!
//! | priority | match | action |
//! | --- | --- | --- |
//! | 110 | IPv4 from the port, Ethernet and IPv4 address of a host | source: its pseudo-MAC address; table 1 |
//! | 20 | IPv4 from a port with an unknown peer | a copy to the controller; table 1 |
//!
//! **Table 1**, by destination address:
//!
//! | priority | switches | match | action |
//! | --- | --- | --- | --- |
//! | 3000 | edge | pseudo-MAC address of a host here | destination: its Ethernet address; its port |
//! | 2500 | all | pod and position of an edge switch | the next hop, or a group of next hops |
//! | 2400 | edge | own pod and position | to the controller: the host has left |
//! | 2300 | all | pod | the next hop, or a group; for its own pod an aggregation switch drops |
//! | 2200 | edge, aggregation | any | group of all switches above |

use core::net::Ipv4Addr;
use openflow::headers::ether;
use openflow::{Action, FlowStats, Instructions, MacAddr, Masked, Match, PortNo, SetField};

use crate::KnownHost;
use crate::addressing::Location;
use crate::addressing::pmac::{Pmac, Prefix};
use crate::addressing::routes::Destinations;
use crate::updater::compile::{CLASSIFY, Compiler, Entry, FORWARD, Purpose};
use crate::updater::store::{DesiredRule, RuleKey};

const FROM_HOST: u16 = 110;
const TO_HOST: u16 = 3000;
const TO_EDGE: u16 = 2500;
const HOST_LEFT: u16 = 2400;
const TO_POD: u16 = 2300;
const UP: u16 = 2200;

/// Returns the rule that translates the source address of packets from a host.
pub(super) fn from_host(compiler: Compiler, host: &KnownHost, pmac: Pmac) -> Entry {
    let match_ = Match {
        in_port: Some(host.port),
        eth_src: Some(Masked::<MacAddr>::exact(host.mac)),
        eth_type: Some(ether::IPV4),
        ipv4_src: Some(Masked::<Ipv4Addr>::exact(host.ipv4)),
        ..Match::default()
    };
    let translate = vec![Action::SetField(SetField::EthSrc(pmac.encode()))];
    let rule = compiler.rule(Purpose::Address, translate);
    let instructions = Instructions { goto: Some(FORWARD), ..rule.instructions };
    (RuleKey::new(CLASSIFY, FROM_HOST, match_), DesiredRule { instructions, ..rule })
}

/// Returns the rule to a host of the switch itself.
pub(super) fn to_host(compiler: Compiler, host: &KnownHost, pmac: Pmac) -> Entry {
    let actions = vec![Action::SetField(SetField::EthDst(host.mac)), Action::output(host.port)];
    (to_host_key(pmac), compiler.rule(Purpose::Address, actions))
}

pub(super) fn to_host_key(pmac: Pmac) -> RuleKey {
    RuleKey::new(FORWARD, TO_HOST, to(Some(Masked::<MacAddr>::exact(pmac.encode()))))
}

/// Returns the rule for packets to hosts that are no longer at an edge switch.
pub(super) fn host_left(compiler: Compiler, pod: u8, position: u8) -> Entry {
    let rule = compiler.rule(Purpose::Address, vec![Action::to_controller()]);
    (RuleKey::new(FORWARD, HOST_LEFT, to(Some(Prefix::Edge(pod, position).to_masked()))), rule)
}

/// Returns the rule of a route; without ports it drops.
pub(super) fn route(compiler: Compiler, destinations: Destinations, ports: &[PortNo]) -> Entry {
    let rule = compiler.spread_alike(Purpose::Address, ports);
    (route_key(destinations), rule.unwrap_or_else(|| compiler.rule(Purpose::Address, Vec::new())))
}

pub(super) fn route_key(destinations: Destinations) -> RuleKey {
    let (priority, prefix) = match destinations {
        Destinations::All => (UP, None),
        Destinations::These(prefix @ Prefix::Pod(_)) => (TO_POD, Some(prefix)),
        Destinations::These(prefix @ Prefix::Edge(..)) => (TO_EDGE, Some(prefix)),
    };
    RuleKey::new(FORWARD, priority, to(prefix.map(Prefix::to_masked)))
}

/// Returns the location of a switch that one of its rules shows.
pub(super) fn location_of(rule: &FlowStats) -> Option<Location> {
    let prefix = Prefix::of_masked(rule.match_.eth_dst.filter(|_| rule.table == FORWARD)?)?;
    match (rule.priority, prefix) {
        (HOST_LEFT, Prefix::Edge(pod, position)) => Some(Location::Edge { pod, position }),
        (TO_POD, Prefix::Pod(pod)) if rule.instructions == Instructions::default() => {
            Some(Location::Aggregation { pod })
        }
        _ => None,
    }
}

/// Returns the port, the Ethernet address and the pseudo-MAC address of the host that a rule
/// translates.
pub(super) fn host_of(rule: &FlowStats) -> Option<(PortNo, MacAddr, Pmac)> {
    let (port, mac) = (rule.match_.in_port?, rule.match_.eth_src?.value);
    let pmac = rule.instructions.apply.iter().find_map(|action| match action {
        Action::SetField(SetField::EthSrc(mac)) => Pmac::decode(*mac),
        _ => None,
    });
    Some((port, mac, pmac.filter(|_| rule.table == CLASSIFY)?))
}

fn to(eth_dst: Option<Masked<MacAddr>>) -> Match {
    Match { eth_dst, ..Match::default() }
}
