//! The two rules of a connection at its client's switch, and the rule of a virtual address.
//!
//! Both directions are translated at the client's switch, before packets are forwarded by
//! destination: elsewhere a connection is between the client and the member, like any other.
//! A tunnelled connection has only the rule to the member, which adds an outer header from the
//! virtual address to the member.

use core::net::Ipv4Addr;
use net::FiveTuple;
use openflow::frame::{flags, icmp_type};
use openflow::headers::protocol;
use openflow::{Action, FlowStats, Instructions, MacAddr, Masked, Match, SetField};

use super::spec::{MEMBER_MAX, MemberId, ServiceId};
use crate::updater::compile::{
    CLASSIFY, Compiler, Entry, FORWARD, FROM_HOST, Purpose, to, to_controller, tuple_match, tuple_of,
};
use crate::updater::store::{DesiredRule, RuleKey};

/// Priorities in table 0, above all rules about hosts.
const OPENING: u16 = 530;
const TO_MEMBER: u16 = 520;
const TO_CLIENT: u16 = 510;
const ADDRESS: u16 = 450;

/// Additional idle timeout of the return rule: a client that continues finds either both rules or
/// none.
const BACK_LATER_S: u16 = 10;

const SERVICE_SHIFT: u32 = 24;
/// Bits of a cookie with the owner of a connection: of a service, of a member.
pub(super) const SERVICE_MASK: u64 = !0 << SERVICE_SHIFT;
pub(super) const MEMBER_MASK: u64 = !0;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Owner {
    pub(crate) service: ServiceId,
    pub(crate) member: MemberId,
}

impl Owner {
    pub(super) fn of(cookie: u64) -> Owner {
        Owner { service: ServiceId((cookie >> SERVICE_SHIFT) as u16), member: MemberId(cookie as u32 & MEMBER_MAX.0) }
    }
    pub(super) fn bits(self) -> u64 {
        u64::from(self.service.0) << SERVICE_SHIFT | u64::from(self.member.0 & MEMBER_MAX.0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionEndpoints {
    /// Five-tuple of packets from the client: its own address and port, the virtual ones.
    pub(crate) tuple: FiveTuple,
    pub(crate) vip_mac: MacAddr,
    pub(crate) owner: Owner,
    pub(crate) member: Ipv4Addr,
    pub(crate) member_port: u16,
    pub(crate) idle_timeout_s: u16,
    pub(crate) is_tunnelled: bool,
}

impl ConnectionEndpoints {
    pub(crate) fn translated(&self) -> FiveTuple {
        FiveTuple { dst: self.member, dst_port: self.member_port, ..self.tuple }
    }
    fn lead(&self) -> Rewrite {
        let (protocol, at) = (self.tuple.protocol, (self.tuple.dst, self.tuple.dst_port));
        let (vip_mac, member, is_tunnelled) = (self.vip_mac, (self.member, self.member_port), self.is_tunnelled);
        Rewrite { protocol, at, vip_mac, member, is_tunnelled }
    }
}

/// Translation between a virtual address and a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rewrite {
    pub(super) protocol: u8,
    pub(super) at: (Ipv4Addr, u16),
    pub(super) vip_mac: MacAddr,
    pub(super) member: (Ipv4Addr, u16),
    /// Packets to the member get an outer header, and replies are not translated.
    pub(super) is_tunnelled: bool,
}

impl Rewrite {
    pub(super) fn to_member(self, mac: MacAddr) -> Instructions {
        let (address, port) = self.member;
        let mut actions = vec![Action::SetField(SetField::EthDst(mac))];
        if self.is_tunnelled {
            actions.extend([Action::PushIpv4, Action::SetField(SetField::Ipv4Src(self.at.0))]);
        }
        actions.push(Action::SetField(SetField::Ipv4Dst(address)));
        actions.extend(set_port(self.protocol, port, SetField::TcpDst, SetField::UdpDst).filter(|_| port != self.at.1));
        Instructions { metadata: Some(FROM_HOST), ..onward(actions) }
    }
    /// Returns the instructions for packets from the member; `None` if they need no rule. They lack
    /// "as from a host": the packet may come from afar.
    pub(super) fn to_client(self) -> Option<Instructions> {
        if self.is_tunnelled {
            return None;
        }
        let (address, port) = self.at;
        let actions = [Action::SetField(SetField::EthSrc(self.vip_mac)), Action::SetField(SetField::Ipv4Src(address))];
        let port = set_port(self.protocol, port, SetField::TcpSrc, SetField::UdpSrc).filter(|_| port != self.member.1);
        Some(onward(actions.into_iter().chain(port).collect()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ParsedRule {
    pub(crate) owner: Owner,
    /// Direction of the matched packets: to the client, or to the member.
    pub(crate) is_to_client: bool,
    /// Five-tuple of the matched packets: of the client, or of the member.
    pub(crate) tuple: FiveTuple,
}

impl Compiler {
    pub(super) fn connection_cookie(self, owner: Owner) -> u64 {
        self.cookie(Purpose::Connect) | owner.bits()
    }

    pub(super) fn to_member(self, ends: &ConnectionEndpoints, mac: MacAddr) -> Entry {
        self.connection(
            TO_MEMBER,
            connection_match(&ends.tuple, icmp_type::ECHO_REQUEST),
            ends,
            ends.lead().to_member(mac),
        )
    }

    /// Returns the return rule of a connection; `None` if replies need none.
    pub(super) fn to_client(self, ends: &ConnectionEndpoints) -> Option<Entry> {
        let match_ = connection_match(&ends.translated().reverse(), icmp_type::ECHO_REPLY);
        let (key, wanted) = self.connection(TO_CLIENT, match_, ends, ends.lead().to_client()?);
        Some((key, DesiredRule { idle_timeout_s: wanted.idle_timeout_s.saturating_add(BACK_LATER_S), ..wanted }))
    }

    fn connection(self, priority: u16, match_: Match, ends: &ConnectionEndpoints, instructions: Instructions) -> Entry {
        let (cookie, idle_timeout_s) = (self.connection_cookie(ends.owner), ends.idle_timeout_s);
        (RuleKey::new(CLASSIFY, priority, match_), DesiredRule { cookie, idle_timeout_s, instructions, group: None })
    }

    /// Returns the rule that sends first packets to a virtual address to the controller, whole and
    /// only there, and also packets without a serving member.
    pub(super) fn virtual_address(self, address: Ipv4Addr) -> Entry {
        self.classify(ADDRESS, to(address), to_controller())
    }

    /// Returns the rule that sends opening segments to the controller, regardless of rules of
    /// a connection from the same port. It excludes segments the controller has sent on, which have
    /// the Ethernet address of the member.
    pub(super) fn opening(self, mac: MacAddr, address: Ipv4Addr, port: u16) -> Entry {
        let (syn, ack) = (u16::from(flags::SYN), u16::from(flags::ACK));
        let tcp_flags = Some(Masked { value: syn, mask: syn | ack });
        let eth_dst = Some(Masked::<MacAddr>::exact(mac));
        let match_ = Match { eth_dst, ip_proto: Some(protocol::TCP), tcp_dst: Some(port), tcp_flags, ..to(address) };
        self.classify(OPENING, match_, to_controller())
    }

    pub(super) fn connection_of(self, cookie: u64, key: &RuleKey) -> Option<ParsedRule> {
        if cookie & crate::updater::compile::PURPOSE_MASK != self.cookie(Purpose::Connect) || key.table != CLASSIFY {
            return None;
        }
        let is_to_client = match key.priority.0 {
            TO_MEMBER => false,
            TO_CLIENT => true,
            _ => return None,
        };
        Some(ParsedRule { owner: Owner::of(cookie), is_to_client, tuple: tuple_of(&key.match_)? })
    }

    /// Returns whether a rule is exactly the one of a connection, with any Ethernet address of the
    /// member.
    pub(super) fn is_rule_of(self, rule: &FlowStats, ends: &ConnectionEndpoints, is_to_client: bool) -> bool {
        let entry = match is_to_client {
            false => Some(self.to_member(ends, written_mac(&rule.instructions).unwrap_or_default())),
            true => self.to_client(ends),
        };
        entry.is_some_and(|(key, wanted)| wanted.is_switch_owned(&key, rule))
    }
}

/// Returns the address and port to which a rule translates packets from the client.
pub(super) fn member_in(rule: &FlowStats) -> Option<(Ipv4Addr, Option<u16>)> {
    let mut port = None;
    let mut address = None;
    for action in &rule.instructions.apply {
        match action {
            Action::SetField(SetField::Ipv4Dst(to)) => address = Some(*to),
            Action::SetField(SetField::TcpDst(to) | SetField::UdpDst(to)) => port = Some(*to),
            _ => {}
        }
    }
    Some((address?, port))
}

pub(super) fn written_mac(instructions: &Instructions) -> Option<MacAddr> {
    instructions.apply.iter().find_map(|action| match action {
        Action::SetField(SetField::EthDst(mac)) => Some(*mac),
        _ => None,
    })
}

fn onward(apply: Vec<Action>) -> Instructions {
    Instructions { goto: Some(FORWARD), ..Instructions::apply(apply) }
}

fn connection_match(tuple: &FiveTuple, icmp: u8) -> Match {
    let icmpv4_type = (tuple.protocol == protocol::ICMP).then_some(icmp);
    Match { icmpv4_type, ..tuple_match(tuple) }
}

/// Returns the action that writes a port, if the protocol has ports.
fn set_port(ip_proto: u8, port: u16, tcp: fn(u16) -> SetField, udp: fn(u16) -> SetField) -> Option<Action> {
    match ip_proto {
        protocol::TCP => Some(Action::SetField(tcp(port))),
        protocol::UDP => Some(Action::SetField(udp(port))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(ip_proto: u8, ports: [u16; 2], member_port: u16) -> ConnectionEndpoints {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 9, 9, 9));
        let tuple = FiveTuple { src, dst, protocol: ip_proto, src_port: ports[0], dst_port: ports[1] };
        let owner = Owner { service: ServiceId(0xfffe), member: MemberId(0x00ab_cdef) };
        let member = Ipv4Addr::new(10, 0, 0, 2);
        let (vip_mac, idle_timeout_s, is_tunnelled) = (MacAddr([6; 6]), 30, false);
        ConnectionEndpoints { tuple, vip_mac, owner, member, member_port, idle_timeout_s, is_tunnelled }
    }

    #[test]
    fn rule_names_its_connection_service_and_member() {
        let compiler = Compiler { owner: 0xa7ab };
        for ends in [ends(6, [5000, 80], 8080), ends(17, [5000, 53], 53), ends(1, [0, 0], 0)] {
            let (to_member, wanted) = compiler.to_member(&ends, MacAddr([2; 6]));
            let found = compiler.connection_of(wanted.cookie, &to_member).unwrap();
            assert_eq!((found.owner, found.is_to_client, found.tuple), (ends.owner, false, ends.tuple));
            let (to_client, wanted) = compiler.to_client(&ends).unwrap();
            let found = compiler.connection_of(wanted.cookie, &to_client).unwrap();
            assert_eq!((found.owner, found.is_to_client, found.tuple), (ends.owner, true, ends.translated().reverse()));
            let is_port = |action: &Action| matches!(action, Action::SetField(SetField::TcpSrc(_)));
            assert_eq!(wanted.instructions.apply.iter().any(is_port), ends.tuple.protocol == 6);
        }
        let (key, wanted) = compiler.virtual_address(Ipv4Addr::new(10, 9, 9, 9));
        assert_eq!(compiler.connection_of(wanted.cookie, &key), None);
    }

    #[test]
    fn tunnelled_connection_has_one_rule_with_the_outer_addresses() {
        let compiler = Compiler { owner: 7 };
        let ends = ConnectionEndpoints { is_tunnelled: true, ..ends(6, [5000, 80], 80) };
        assert_eq!(compiler.to_client(&ends), None);
        let (key, wanted) = compiler.to_member(&ends, MacAddr([2; 6]));
        let [src, dst] = [SetField::Ipv4Src(ends.tuple.dst), SetField::Ipv4Dst(ends.member)].map(Action::SetField);
        let mac = Action::SetField(SetField::EthDst(MacAddr([2; 6])));
        assert_eq!(wanted.instructions.apply, [mac, Action::PushIpv4, src, dst]);
        let found = compiler.connection_of(wanted.cookie, &key).unwrap();
        assert_eq!((found.owner, found.is_to_client, found.tuple), (ends.owner, false, ends.tuple));
    }

    #[test]
    fn masks_select_a_service_or_a_member() {
        let compiler = Compiler { owner: 7 };
        let cookie = |service: u16, member: u32| {
            compiler.connection_cookie(Owner { service: ServiceId(service), member: MemberId(member) })
        };
        assert_eq!(cookie(1, 2) & SERVICE_MASK, cookie(1, 0xff_ffff) & SERVICE_MASK);
        assert_ne!(cookie(1, 2) & SERVICE_MASK, cookie(2, 2) & SERVICE_MASK);
        assert_ne!(cookie(1, 2) & MEMBER_MASK, cookie(1, 3) & MEMBER_MASK);
        assert_eq!(
            cookie(0xffff, 0xff_ffff) & crate::updater::compile::PURPOSE_MASK,
            compiler.cookie(Purpose::Connect)
        );
    }
}
