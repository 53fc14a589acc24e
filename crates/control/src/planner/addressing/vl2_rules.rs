//! Rules of VL2.
//!
//! VL2 encapsulates packets twice, in the location address of the receiver's switch and in that of an
//! intermediate switch. OpenFlow 1.3 has no tunnels that every switch must support, so the location
//! address is the destination Ethernet address, which hosts learn from ARP replies, and the
//! intermediate switch is a VLAN label. The IPv4 address is the application address.
//!
//! | table | priority | switches | match | action |
//! | --- | --- | --- | --- | --- |
//! | 0 | 100 | rack | IPv4 from a port with a host | as from a host; table 1 |
//! | 0 | 20 | rack | IPv4 from a port with an unknown peer | a copy to the controller; table 1 |
//! | 1 | 3000 | rack | own location address, IPv4 address of a host here | destination: its Ethernet address; its port |
//! | 1 | 2900 | rack | own location address | to the controller: the host has left |
//! | 1 | 2500 | rack | with sdn-vlb: as from a host, a location address | group: label of an intermediate switch and first port |
//! | 1 | 2400 | all | label of an intermediate switch | the port towards it; that switch removes the label: table 2 |
//! | 1 | 2 | all | IPv4 | table 2 |
//! | 2 | 1000 | all | location address | the next hop, or a group of next hops |

use openflow::headers::ether;
use openflow::{Action, DatapathId, Instructions, MacAddr, Masked, Match, PortNo, SetField, TableId, VlanMatch};

use crate::KnownHost;
use crate::updater::compile::{Compiler, Entry, FORWARD, FROM_HOST, Purpose, to};
use crate::updater::store::{DesiredRule, RuleKey};

const TO_HOST: u16 = 3000;
const HOST_LEFT: u16 = 2900;
const SPREAD: u16 = 2500;
const VIA: u16 = 2400;
const OTHERS: u16 = 2;
const TO_SWITCH: u16 = 1000;
const BY_LOCATION: TableId = TableId(2);

/// Returns the location address of a switch: its datapath id, or a hash of a long one.
pub(super) fn location_mac(datapath: DatapathId) -> MacAddr {
    let is_short = datapath.0 >> 40 == 0;
    let number = if is_short { datapath.0 } else { balance::hash::mix(datapath.0) };
    let [.., a, b, c, d, e] = number.to_be_bytes();
    MacAddr([if is_short { 0x0e } else { 0x1e }, a, b, c, d, e])
}

fn by_location(datapath: DatapathId) -> Match {
    Match { eth_dst: Some(Masked::<MacAddr>::exact(location_mac(datapath))), ..Match::default() }
}

pub(super) fn to_host_key(host: &KnownHost) -> RuleKey {
    let eth_dst = by_location(host.datapath).eth_dst;
    RuleKey::new(FORWARD, TO_HOST, Match { eth_dst, ..to(host.ipv4) })
}

pub(super) fn to_host(compiler: Compiler, host: &KnownHost) -> Entry {
    let actions = vec![Action::SetField(SetField::EthDst(host.mac)), Action::output(host.port)];
    (to_host_key(host), compiler.rule(Purpose::Address, actions))
}

pub(super) fn host_left(compiler: Compiler, here: DatapathId) -> Entry {
    let key = RuleKey::new(FORWARD, HOST_LEFT, by_location(here));
    (key, compiler.rule(Purpose::Address, vec![Action::to_controller()]))
}

/// Returns the rule that sends packets of hosts to intermediate switches: first port, weight and label
/// of each.
pub(super) fn spread(compiler: Compiler, datapath: DatapathId, paths: &[(PortNo, u16, Option<u16>)]) -> Entry {
    let match_ = Match { metadata: Some(FROM_HOST), vlan: Some(VlanMatch::Untagged), ..by_location(datapath) };
    let cookie = compiler.cookie(Purpose::Address);
    (RuleKey::new(FORWARD, SPREAD, match_), DesiredRule { cookie, ..compiler.divided(paths) })
}

fn via_key(label: u16) -> RuleKey {
    RuleKey::new(FORWARD, VIA, Match { vlan: Some(VlanMatch::Id(label)), ..Match::default() })
}

/// Returns the rule towards an intermediate switch.
pub(super) fn via(compiler: Compiler, label: u16, port: PortNo) -> Entry {
    (via_key(label), compiler.rule(Purpose::Address, vec![Action::output(port)]))
}

/// Returns the rule of the intermediate switch itself.
pub(super) fn at_intermediate(compiler: Compiler, label: u16) -> Entry {
    (via_key(label), next_table(compiler, vec![Action::PopVlan]))
}

pub(super) fn others(compiler: Compiler) -> Entry {
    let match_ = Match { eth_type: Some(ether::IPV4), ..Match::default() };
    (RuleKey::new(FORWARD, OTHERS, match_), next_table(compiler, Vec::new()))
}

fn next_table(compiler: Compiler, actions: Vec<Action>) -> DesiredRule {
    let rule = compiler.rule(Purpose::Address, actions);
    DesiredRule { instructions: Instructions { goto: Some(BY_LOCATION), ..rule.instructions }, ..rule }
}

pub(super) fn to_switch_key(datapath: DatapathId) -> RuleKey {
    RuleKey::new(BY_LOCATION, TO_SWITCH, by_location(datapath))
}

pub(super) fn to_switch(compiler: Compiler, datapath: DatapathId, ports: &[PortNo]) -> Option<Entry> {
    Some((to_switch_key(datapath), compiler.spread_alike(Purpose::Address, ports)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_addresses_are_unicast_and_different() {
        let ids = [1, 2, (1 << 40) - 1, 1 << 40, 0x0000_c4ff_1fd1_0a41, u64::MAX];
        let macs = ids.map(|id| location_mac(DatapathId(id)));
        assert_eq!(macs[0], MacAddr([0x0e, 0, 0, 0, 0, 1]));
        assert!(macs.iter().all(|mac| !mac.is_multicast() && mac.0[0] & 2 != 0));
        let mut unique = macs.to_vec();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len());
    }
}
