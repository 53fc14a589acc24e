//! The rules a controller installs, by table.
//!
//! **Table 0, classification**, where packets enter the updater:
//!
//! | priority | match | action |
//! | --- | --- | --- |
//! | 65000 | LLDP | to the controller only |
//! | 64900 | ARP | to the controller, which replies; nothing is ever flooded |
//! | 530 | opening TCP segment to a virtual service, if the switch can match it | to the controller only |
//! | 520 | a connection to a virtual address, at its client's switch | destination: the member (tunnelled: in an outer header); as from a host; table 1 |
//! | 510 | the same, from the member to the client | source: the virtual address; table 1 |
//! | 480 | with wildcard rules, from the member of a client to it, at its switch | source: the virtual address; table 1 |
//! | 470 | the same, from a client that is a member itself | to the controller only |
//! | 460 | the same, from clients of a slot to the virtual address | destination: their member; as from a host; table 1 |
//! | 455 | a service with a mux, at switches of clients other than the mux | as from a host; table 1 |
//! | 450 | a virtual address | to the controller only ([`crate::vip`]) |
//! | 320 | from an uplink to a host ([`crate::edge`]) | destination: the host; as from outside; table 1 |
//! | 310 | from an uplink | as from outside; table 1 |
//! | 300 | a counted flow (addresses, or the five-tuple; its port, if known by its first packet) | counts; as from a host; table 1 |
//! | 200 | TCP or UDP from a port with a host, if first packets are used | a copy to the controller; as from a host; table 1 |
//! | 100 | IPv4 from a port with a host | as from a host; table 1 |
//! | 20 | IPv4 from a port with an unknown peer | a copy to the controller; as from a host; table 1 |
//! | 1 | IPv4 | table 1 |
//!
//! "As from a host" is bit 0 of the metadata: traffic splits apply to such packets only, and not
//! again to those in transit. "As from outside" is bit 1. A copy goes to the controller while the
//! packet itself is forwarded, so a slow or absent controller delays nothing.
//!
//! **Table 1, forwarding**:
//!
//! | priority | match | action |
//! | --- | --- | --- |
//! | 60100 | tagged, destination here | pop the label, the host's port |
//! | 60000 | untagged, destination here | the host's port |
//! | 50000–59999 | untagged, five-tuple of a pinned flow | its port |
//! | 40000–49999 | untagged, addresses of a pinned pair of hosts | its port |
//! | 10000–10032 | VLAN label and a block of destinations | the port of the label |
//! | 6000 | translated by a mux, to a member behind the input port | another next hop, or back |
//! | 5000–5032 | untagged, from a host, a block of destinations | group: label and first port of a path |
//! | 1000–1032 | a block of destinations | the next hop, or a group of next hops |
//! | 900 | a service with a mux | the next hop towards the mux |
//! | 500–532 | not from outside, a prefix outside ([`crate::edge`]) | destination: the peer; its uplink |
//!
//! The last digits of the priority of a block are the length of its prefix. Other destinations are exact
//! addresses of hosts. A block has addresses of hosts at one switch and no
//! others ([`crate::updater::block`]). A labelled packet without a rule for its label uses
//! the default routes, and in any case loses its label at the last switch. Apart from priority 6000, no
//! rule of table 1 matches `in_port`: packets from an old path must match the rules of the new one.

use std::sync::Arc;

use core::net::Ipv4Addr;
use net::FiveTuple;
use openflow::headers::{ether, protocol};
use openflow::{Action, Bucket, GroupId, Instructions, Masked, Match, PortNo, SetField, TableId, VlanMatch};

use crate::updater::block::Block;
use crate::updater::store::{DesiredRule, RuleKey};

pub(crate) const CLASSIFY: TableId = TableId(0);
pub(crate) const FORWARD: TableId = TableId(1);

/// Priorities of pinned flows. New paths get lower ones than the old (mechanisms.md P10.3), so they
/// descend.
pub(crate) const PINS: std::ops::RangeInclusive<u16> = 50_000..=59_999;
pub(crate) const PAIR_PINS: std::ops::RangeInclusive<u16> = 40_000..=49_999;
pub(crate) const LABELLED: u16 = 10_000;
pub(crate) const DIVIDED: u16 = 5_000;
/// A host of the switch itself comes first: at its former attachment, labels and pins lead
/// elsewhere.
pub(crate) const LAST_TAGGED: u16 = 60_100;
pub(crate) const LAST: u16 = 60_000;
pub(crate) const BASE: u16 = 1_000;
/// Priority of prefixes outside, below all hosts.
pub(crate) const OUTWARD: u16 = 500;

pub(crate) const FROM_HOST: Masked<u64> = Masked { value: 1, mask: 1 };

/// Purpose of a rule: bits 40–47 of its cookie; the owner has the 16 bits above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Classify = 1,
    /// A counting rule of the desired state: of a pair of hosts, or of a flow an agent reported.
    Count = 2,
    /// A switch-owned counting rule, of a flow known by its first packet.
    CountFirst = 0x82,
    Base = 3,
    Divide = 4,
    Pin = 5,
    Connect = 0x86,
    ClientSlot = 7,
    /// A rule of an addressing mode ([`crate::planner::addressing`]).
    Address = 8,
    Edge = 9,
}

pub(crate) const PURPOSE_MASK: u64 = 0xffff_ff00_0000_0000;

/// The bit of a cookie that marks switch-owned rules: those that are not part of the desired state.
pub(crate) const SWITCH_OWNED: u64 = 0x80 << 40;

pub(crate) fn is_switch_owned(cookie: u64) -> bool {
    cookie & SWITCH_OWNED != 0
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiler {
    pub(crate) owner: u16,
}

pub(crate) type Entry = (RuleKey, DesiredRule);

impl Compiler {
    pub(crate) fn cookie(self, purpose: Purpose) -> u64 {
        u64::from(self.owner) << 48 | (purpose as u64) << 40
    }

    pub(crate) fn always(self) -> [Entry; 3] {
        let of_type = |eth_type| Match { eth_type: Some(eth_type), ..Match::default() };
        [
            self.classify(65_000, of_type(ether::LLDP), to_controller()),
            self.classify(64_900, of_type(ether::ARP), to_controller()),
            self.classify(1, of_type(ether::IPV4), Instructions { goto: Some(FORWARD), ..Instructions::default() }),
        ]
    }

    pub(crate) fn host_port(self, port: PortNo, wants_first_packets: bool) -> Vec<Entry> {
        let from = Match { in_port: Some(port), ..ipv4() };
        let mut entries = vec![self.classify(100, from, from_host(Vec::new()))];
        if wants_first_packets {
            entries.extend(self.first_packets(port));
        }
        entries
    }

    /// Returns the rules that copy first packets of flows from a port to the controller.
    pub(crate) fn first_packets(self, port: PortNo) -> [Entry; 2] {
        [protocol::TCP, protocol::UDP].map(|ip_proto| {
            let first = Match { ip_proto: Some(ip_proto), in_port: Some(port), ..ipv4() };
            self.classify(200, first, from_host(vec![Action::to_controller()]))
        })
    }

    pub(crate) fn unknown_port(self, port: PortNo) -> Entry {
        let from = Match { in_port: Some(port), ..ipv4() };
        self.classify(20, from, from_host(vec![Action::to_controller()]))
    }

    /// Returns the rule that counts a flow at the switch of its source.
    pub(crate) fn counter(self, tuple: &FiveTuple, idle_timeout_s: u16) -> Entry {
        let (key, wanted) = self.classify(300, tuple_match(tuple), from_host(Vec::new()));
        (key, DesiredRule { cookie: self.cookie(Purpose::Count), idle_timeout_s, ..wanted })
    }

    /// Returns the rule that counts a flow known by its first packet, at its source port
    /// ([`crate::observer::first_packets`]).
    pub(crate) fn counter_at(self, tuple: &FiveTuple, port: PortNo, idle_timeout_s: u16) -> Entry {
        let (key, wanted) = self.counter(tuple, idle_timeout_s);
        let match_ = Match { in_port: Some(port), ..key.match_ };
        (RuleKey { match_, ..key }, DesiredRule { cookie: self.cookie(Purpose::CountFirst), ..wanted })
    }

    pub(crate) fn classify(self, priority: u16, match_: Match, instructions: Instructions) -> Entry {
        let cookie = self.cookie(Purpose::Classify);
        (RuleKey::new(CLASSIFY, priority, match_), DesiredRule { cookie, idle_timeout_s: 0, instructions, group: None })
    }

    pub(crate) fn rule(self, purpose: Purpose, actions: Vec<Action>) -> DesiredRule {
        let cookie = self.cookie(purpose);
        DesiredRule { cookie, idle_timeout_s: 0, instructions: Instructions::apply(actions), group: None }
    }

    fn forward(self, purpose: Purpose, key: RuleKey, actions: Vec<Action>) -> Entry {
        (key, self.rule(purpose, actions))
    }

    fn through_group(self, purpose: Purpose, buckets: Arc<[Bucket]>) -> DesiredRule {
        DesiredRule { group: Some(buckets), ..self.rule(purpose, Vec::new()) }
    }

    /// Returns the rules to a host of the switch itself: untagged, and with a label to pop.
    pub(crate) fn last_hop(self, host: Ipv4Addr, port: PortNo) -> [Entry; 2] {
        // The order of their removal does not matter: no host ever receives a label.
        [
            self.forward(Purpose::Base, last_hop_key(host), vec![Action::output(port)]),
            self.forward(Purpose::Base, tagged_last_hop_key(host), vec![Action::PopVlan, Action::output(port)]),
        ]
    }

    /// Returns the rule to distant hosts, by their next hops with weights.
    pub(crate) fn default_route(self, hops: &[(PortNo, u16)]) -> Option<DesiredRule> {
        self.spread(Purpose::Base, hops)
    }

    /// Returns a rule that sends to one of some ports, by their weights; `None` without ports.
    pub(crate) fn spread(self, purpose: Purpose, hops: &[(PortNo, u16)]) -> Option<DesiredRule> {
        match hops {
            [] => None,
            [(port, _)] => Some(self.rule(purpose, vec![Action::output(*port)])),
            _ => {
                let buckets = hops.iter().map(|(port, weight)| Bucket::watching(*port, (*weight).max(1)));
                Some(self.through_group(purpose, buckets.collect()))
            }
        }
    }

    /// Returns a rule that sends to one of some ports alike; `None` without ports.
    pub(crate) fn spread_alike(self, purpose: Purpose, ports: &[PortNo]) -> Option<DesiredRule> {
        let hops: Vec<(PortNo, u16)> = ports.iter().map(|port| (*port, 1)).collect();
        self.spread(purpose, &hops)
    }

    pub(crate) fn labelled(self, port: PortNo) -> DesiredRule {
        self.rule(Purpose::Divide, vec![Action::output(port)])
    }

    /// Returns the rule that splits packets of local hosts to distant hosts over paths: first
    /// port, weight, and a label if the path needs one.
    pub(crate) fn divided(self, paths: &[(PortNo, u16, Option<u16>)]) -> DesiredRule {
        let bucket = |(port, weight, label): &(PortNo, u16, Option<u16>)| {
            let mut actions = Vec::with_capacity(3);
            if let Some(label) = label {
                actions.push(Action::PushVlan(ether::VLAN));
                actions.push(Action::SetField(SetField::VlanVid(*label)));
            }
            actions.push(Action::output(*port));
            Bucket { weight: (*weight).max(1), watch_port: *port, watch_group: GroupId::ANY, actions }
        };
        self.through_group(Purpose::Divide, paths.iter().map(bucket).collect())
    }

    pub(crate) fn pin(self, tuple: &FiveTuple, priority: u16, port: PortNo) -> Entry {
        self.forward(Purpose::Pin, pin_key(tuple, priority), vec![Action::output(port)])
    }
}

/// Returns the key of a rule to a block of hosts. Where blocks overlap during a change, the smaller one has
/// the higher priority.
fn block_key(priority: u16, to: Block, match_: Match) -> RuleKey {
    let match_ = Match { ipv4_dst: Some(to.to_masked()), ..match_ };
    RuleKey::new(FORWARD, priority + u16::from(to.length()), match_)
}
pub(crate) fn default_route_key(to: Block) -> RuleKey {
    block_key(BASE, to, ipv4())
}
pub(crate) fn labelled_key(label: u16, to: Block) -> RuleKey {
    block_key(LABELLED, to, Match { vlan: Some(VlanMatch::Id(label)), ..ipv4() })
}
pub(crate) fn divided_key(to: Block) -> RuleKey {
    block_key(DIVIDED, to, Match { vlan: Some(VlanMatch::Untagged), metadata: Some(FROM_HOST), ..ipv4() })
}
/// Returns the keys of the rules that take the place of one to a block when an address leaves the block;
/// `None`: the rule leads to no such block.
pub(crate) fn keys_without(key: &RuleKey, address: Ipv4Addr) -> Option<Vec<RuleKey>> {
    let block = destinations(key).filter(|block| block.contains(address))?;
    let priority = key.priority.0.checked_sub(u16::from(block.length()))?;
    Some(block.without(address).into_iter().map(|rest| block_key(priority, rest, key.match_)).collect())
}
/// Returns the key of the last-hop rule of a host, for packets without a label.
pub(crate) fn last_hop_key(host: Ipv4Addr) -> RuleKey {
    RuleKey::new(FORWARD, LAST, Match { vlan: Some(VlanMatch::Untagged), ..to(host) })
}
/// Returns the key of the last-hop rule of a host, for packets with a label.
pub(crate) fn tagged_last_hop_key(host: Ipv4Addr) -> RuleKey {
    RuleKey::new(FORWARD, LAST_TAGGED, Match { vlan: Some(VlanMatch::Tagged), ..to(host) })
}
/// Returns the hosts that a rule of table 1 leads to.
pub(crate) fn destinations(key: &RuleKey) -> Option<Block> {
    Block::of(key.match_.ipv4_dst.filter(|_| key.table == FORWARD)?)
}
/// Returns the host that a rule of table 1 leads to, if it is one.
pub(crate) fn destination(key: &RuleKey) -> Option<Ipv4Addr> {
    destinations(key).filter(|to| to.length() == 32).map(Block::first)
}
/// Returns the key of a pinned flow. A labelled packet is on the path of its label and stays there:
/// two halves of different paths may be a loop.
pub(crate) fn pin_key(tuple: &FiveTuple, priority: u16) -> RuleKey {
    RuleKey::new(FORWARD, priority, Match { vlan: Some(VlanMatch::Untagged), ..tuple_match(tuple) })
}
pub(crate) fn pin_priorities(tuple: &FiveTuple) -> std::ops::RangeInclusive<u16> {
    if tuple.protocol == 0 { PAIR_PINS } else { PINS }
}

pub(crate) fn ipv4() -> Match {
    Match { eth_type: Some(ether::IPV4), ..Match::default() }
}
pub(crate) fn to(host: Ipv4Addr) -> Match {
    Match { ipv4_dst: Some(Masked::<Ipv4Addr>::exact(host)), ..ipv4() }
}
pub(crate) fn to_controller() -> Instructions {
    Instructions::apply(vec![Action::to_controller()])
}
fn from_host(apply: Vec<Action>) -> Instructions {
    Instructions { metadata: Some(FROM_HOST), goto: Some(FORWARD), ..Instructions::apply(apply) }
}

/// Returns the match of a flow; protocol 0 is all traffic of a pair of hosts. Ports are matched for
/// TCP and UDP only.
pub(crate) fn tuple_match(tuple: &FiveTuple) -> Match {
    let pair = Match { ipv4_src: Some(Masked::<Ipv4Addr>::exact(tuple.src)), ..to(tuple.dst) };
    let (src, dst) = (Some(tuple.src_port), Some(tuple.dst_port));
    match tuple.protocol {
        0 => pair,
        protocol::TCP => Match { ip_proto: Some(protocol::TCP), tcp_src: src, tcp_dst: dst, ..pair },
        protocol::UDP => Match { ip_proto: Some(protocol::UDP), udp_src: src, udp_dst: dst, ..pair },
        other => Match { ip_proto: Some(other), ..pair },
    }
}

pub(crate) fn tuple_of(match_: &Match) -> Option<FiveTuple> {
    let (src, dst) = (match_.ipv4_src?.value, match_.ipv4_dst?.value);
    let protocol = match_.ip_proto.unwrap_or(0);
    let src_port = match_.tcp_src.or(match_.udp_src).unwrap_or(0);
    let dst_port = match_.tcp_dst.or(match_.udp_dst).unwrap_or(0);
    Some(FiveTuple { src, dst, protocol, src_port, dst_port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_rule_names_its_flow() {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        for protocol in [6, 17] {
            let tuple = FiveTuple { src, dst, protocol, src_port: 7, dst_port: 80 };
            assert_eq!(tuple_of(&tuple_match(&tuple)), Some(tuple));
        }
        let pair = FiveTuple { src, dst, protocol: 0, src_port: 0, dst_port: 0 };
        assert_eq!(tuple_of(&tuple_match(&pair)), Some(pair));
        assert_eq!(tuple_of(&Match::default()), None);
    }

    #[test]
    fn one_next_hop_is_an_output_and_several_are_a_group() {
        let compiler = Compiler { owner: 7 };
        assert_eq!(compiler.default_route(&[]), None);
        let one = compiler.default_route(&[(PortNo(3), 1)]).unwrap();
        assert_eq!((one.instructions.apply, one.group), (vec![Action::output(PortNo(3))], None));
        let two = compiler.default_route(&[(PortNo(3), 1), (PortNo(4), 2)]).unwrap();
        let buckets = two.group.unwrap();
        assert_eq!(buckets[1], Bucket::watching(PortNo(4), 2));
        assert_eq!(two.cookie >> 48, 7);
    }
}
