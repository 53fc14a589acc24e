//! Rules of modes that forward by the switch of the receiver.
//!
//! SEATTLE and TRILL encapsulate a packet in the address of the switch of its receiver. Here the VLAN
//! label is the number of that switch; packets from hosts are untagged. All rules are in table 1, which
//! gets IPv4 packets only.
//!
//! | priority | switches | match | action |
//! | --- | --- | --- | --- |
//! | 3100 | of hosts | own label, Ethernet address of a host here | remove the label; its port |
//! | 3000 | of hosts | untagged, Ethernet address of a host here | its port |
//! | 2900 | all | own label | the host has left: to the controller (SEATTLE), or drop (TRILL) |
//! | 2800 | ingress | untagged, Ethernet address in the cache | label of the switch of the host; the next hop, or a group |
//! | 2000 | all | label of another switch | the next hop, or a group of next hops |
//! | 1500 | of hosts | untagged | to the controller: the location is not in the cache |

use openflow::headers::ether;
use openflow::{Action, Bucket, FlowStats, GroupId, Instructions, MacAddr, Masked, Match, PortNo, SetField, VlanMatch};

use crate::KnownHost;
use crate::updater::compile::{Compiler, Entry, FORWARD, Purpose};
use crate::updater::store::{DesiredRule, RuleKey};

const TO_HOST_TAGGED: u16 = 3100;
const TO_HOST: u16 = 3000;
const HOST_LEFT: u16 = 2900;
const CACHED: u16 = 2800;
const TO_SWITCH: u16 = 2000;
const UNKNOWN: u16 = 1500;

/// Time after which a location that no packet has used leaves the cache of a switch, s.
pub(super) const CACHE_IDLE_S: u16 = 60;

fn to(host: Option<MacAddr>, vlan: VlanMatch) -> Match {
    Match { eth_dst: host.map(Masked::<MacAddr>::exact), vlan: Some(vlan), ..Match::default() }
}

pub(super) fn to_host_key(host: &KnownHost) -> RuleKey {
    RuleKey::new(FORWARD, TO_HOST, to(Some(host.mac), VlanMatch::Untagged))
}

/// Returns the rules to a host of the switch itself, without and with its own label.
pub(super) fn to_host(compiler: Compiler, host: &KnownHost, here: u16) -> [Entry; 2] {
    let tagged = RuleKey::new(FORWARD, TO_HOST_TAGGED, to(Some(host.mac), VlanMatch::Id(here)));
    let out = Action::output(host.port);
    [
        (to_host_key(host), compiler.rule(Purpose::Address, vec![out])),
        (tagged, compiler.rule(Purpose::Address, vec![Action::PopVlan, out])),
    ]
}

/// Treatment of a packet whose receiver is not, or no longer, at its ports.
#[derive(Clone, Copy, Debug)]
pub(super) enum HostLeft {
    ToController,
    Drop,
}

impl HostLeft {
    fn actions(self) -> Vec<Action> {
        match self {
            HostLeft::ToController => vec![Action::to_controller()],
            HostLeft::Drop => Vec::new(),
        }
    }
}

pub(super) fn host_left(compiler: Compiler, here: u16, what: HostLeft) -> Entry {
    let key = RuleKey::new(FORWARD, HOST_LEFT, to(None, VlanMatch::Id(here)));
    (key, compiler.rule(Purpose::Address, what.actions()))
}

pub(super) fn cached_key(host: MacAddr) -> RuleKey {
    RuleKey::new(FORWARD, CACHED, to(Some(host), VlanMatch::Untagged))
}

/// Returns the cached location of a host as a rule; `None` without a path.
pub(super) fn cached(compiler: Compiler, host: MacAddr, location: u16, ports: &[PortNo]) -> Option<Entry> {
    let encapsulate = || vec![Action::PushVlan(ether::VLAN), Action::SetField(SetField::VlanVid(location))];
    let bucket = |port: &PortNo| {
        let actions = encapsulate().into_iter().chain([Action::output(*port)]).collect();
        Bucket { weight: 1, watch_port: *port, watch_group: GroupId::ANY, actions }
    };
    let rule = match ports {
        [] => return None,
        [port] => compiler.rule(Purpose::Address, encapsulate().into_iter().chain([Action::output(*port)]).collect()),
        _ => {
            let group = Some(ports.iter().map(bucket).collect());
            DesiredRule { group, ..compiler.rule(Purpose::Address, Vec::new()) }
        }
    };
    Some((cached_key(host), DesiredRule { idle_timeout_s: CACHE_IDLE_S, ..rule }))
}

/// Returns the host that a cache rule is about.
pub(super) fn host_of_cache(key: &RuleKey) -> Option<MacAddr> {
    let mac = key.match_.eth_dst?.value;
    (*key == cached_key(mac)).then_some(mac)
}

pub(super) fn to_switch(compiler: Compiler, number: u16, ports: &[PortNo]) -> Option<Entry> {
    let key = RuleKey::new(FORWARD, TO_SWITCH, to(None, VlanMatch::Id(number)));
    Some((key, compiler.spread_alike(Purpose::Address, ports)?))
}

pub(super) fn unknown(compiler: Compiler) -> Entry {
    let key = RuleKey::new(FORWARD, UNKNOWN, to(None, VlanMatch::Untagged));
    (key, compiler.rule(Purpose::Address, vec![Action::to_controller()]))
}

/// Returns the number of a switch that one of its rules shows.
pub(super) fn number_of(rule: &FlowStats) -> Option<u16> {
    let is_treatment = |left: &HostLeft| rule.instructions == Instructions::apply(left.actions());
    let is_meant = rule.table == FORWARD
        && rule.priority == HOST_LEFT
        && [HostLeft::ToController, HostLeft::Drop].iter().any(is_treatment);
    match rule.match_.vlan.filter(|_| is_meant)? {
        VlanMatch::Id(number) => Some(number),
        _ => None,
    }
}
