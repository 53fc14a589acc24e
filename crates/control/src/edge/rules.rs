//! The rules of the edge.

use bgp::Prefix;
use openflow::{Action, FlowStats, Instructions, MacAddr, Masked, Match, PortNo, SetField};

use super::EdgeConfig;
use crate::KnownHost;
use crate::updater::block::Block;
use crate::updater::compile::{CLASSIFY, Compiler, Entry, FORWARD, OUTWARD, PURPOSE_MASK, Purpose, ipv4, to};
use crate::updater::store::{DesiredRule, RuleKey};
use crate::vip::mac_of;

/// Priorities in table 0: above those of ports with hosts, below those of virtual services.
const INWARD: u16 = 320;
const FROM_UPLINK: u16 = 310;

/// The bit of the metadata of packets from uplinks.
const FROM_OUTSIDE: Masked<u64> = Masked { value: 2, mask: 2 };
const NOT_FROM_OUTSIDE: Masked<u64> = Masked { value: 0, mask: 2 };

/// Returns the key of the rule for packets to a prefix outside.
pub(super) fn outward_key(prefix: Prefix) -> RuleKey {
    let block = Block::around(prefix.first(), prefix.length());
    let ipv4_dst = (prefix != Prefix::ALL).then(|| block.to_masked());
    let match_ = Match { ipv4_dst, metadata: Some(NOT_FROM_OUTSIDE), ..ipv4() };
    RuleKey::new(FORWARD, OUTWARD + u16::from(prefix.length()), match_)
}

/// Returns the prefix of the rule with a match.
pub(super) fn prefix_of(match_: &Match) -> Option<Prefix> {
    let Some(to) = match_.ipv4_dst else { return Some(Prefix::ALL) };
    Block::of(to).map(|block| Prefix::around(block.first(), block.length()))
}

impl Compiler {
    pub(super) fn edge_cookie(self) -> u64 {
        self.cookie(Purpose::Edge)
    }

    fn edge_rule(self, instructions: Instructions) -> DesiredRule {
        DesiredRule { cookie: self.edge_cookie(), idle_timeout_s: 0, instructions, group: None }
    }

    /// Returns the rule that sends packets to a peer.
    pub(super) fn outward(self, config: &EdgeConfig, port: PortNo, peer: MacAddr) -> DesiredRule {
        let addresses = [SetField::EthSrc(mac_of(config.gateway)), SetField::EthDst(peer)];
        let actions = hop(config).chain(addresses.map(Action::SetField)).chain([Action::output(port)]);
        self.edge_rule(Instructions::apply(actions.collect()))
    }

    /// Returns the rule that marks packets from an uplink.
    pub(super) fn uplink_port(self, port: PortNo) -> Entry {
        let match_ = Match { in_port: Some(port), ..ipv4() };
        let instructions =
            Instructions { metadata: Some(FROM_OUTSIDE), goto: Some(FORWARD), ..Instructions::default() };
        (RuleKey::new(CLASSIFY, FROM_UPLINK, match_), self.edge_rule(instructions))
    }

    /// Returns the rule that marks packets from an uplink to a host, and gives them its Ethernet
    /// address.
    pub(super) fn inward(self, config: &EdgeConfig, port: PortNo, host: &KnownHost) -> Entry {
        let match_ = Match { in_port: Some(port), ..to(host.ipv4) };
        let addresses = [SetField::EthSrc(mac_of(config.gateway)), SetField::EthDst(host.mac)];
        let actions = hop(config).chain(addresses.map(Action::SetField));
        let apply = Instructions::apply(actions.collect());
        let instructions = Instructions { metadata: Some(FROM_OUTSIDE), goto: Some(FORWARD), ..apply };
        (RuleKey::new(CLASSIFY, INWARD, match_), self.edge_rule(instructions))
    }

    /// Returns the prefix and the port of a rule to a peer, which a controller with this owner wrote.
    pub(super) fn parse_outward(self, rule: &FlowStats) -> Option<(Prefix, PortNo)> {
        let is_own = rule.cookie & PURPOSE_MASK == self.edge_cookie() && rule.table == FORWARD;
        let port = rule.instructions.apply.iter().find_map(|action| match action {
            Action::Output { port, .. } => Some(*port),
            _ => None,
        });
        let prefix = prefix_of(&rule.match_).filter(|_| is_own)?;
        (RuleKey::from(rule) == outward_key(prefix)).then_some((prefix, port?))
    }
}

/// Returns the action of a router on the TTL.
fn hop(config: &EdgeConfig) -> impl Iterator<Item = Action> + use<> {
    config.decrements_ttl.then_some(Action::DecNwTtl).into_iter()
}
