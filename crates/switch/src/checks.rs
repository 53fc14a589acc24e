//! Validation of matches, actions, instructions and buckets, and the resulting errors.

use std::mem::discriminant;

use openflow::headers::{ether, protocol};
use openflow::{
    Action, BadAction, BadInstruction, BadMatch, Bucket, ErrorKind, GroupId, GroupKind, GroupMod, GroupModFailed,
    Headers, Instructions, Masked, Match, PortNo, SetField, TableId, VlanMatch,
};

use crate::groups::Groups;
use crate::ports::Ports;

pub const ACTIONS_MAX: usize = 64;
pub const BUCKETS_MAX: usize = 256;
/// Longest chain of groups that call or watch one another; it bounds the copies of a packet.
pub const CHAIN_MAX: usize = 2;
/// Largest packet length a controller may request (`OFPCML_MAX`), except for "whole packet".
pub const CONTROLLER_LEN_MAX: u16 = 0xffe5;

pub fn match_(m: &Match, ports: &Ports, takes_tcp_flags: bool) -> Result<(), ErrorKind> {
    let check = |is_good: bool, why| if is_good { Ok(()) } else { Err(ErrorKind::BadMatch(why)) };
    let is_port = |port| ports.get(port).is_some() || port == PortNo::CONTROLLER;
    check(m.in_port.is_none_or(is_port), BadMatch::BadValue)?;
    check(m.tcp_flags.is_none() || takes_tcp_flags, BadMatch::BadField)?;
    check(m.tcp_flags.is_none_or(|Masked { value, mask }| value & !mask == 0), BadMatch::BadWildcards)?;
    check(m.metadata.is_none_or(|Masked { value, mask }| value & !mask == 0), BadMatch::BadWildcards)?;
    for mac in [m.eth_dst, m.eth_src].into_iter().flatten() {
        let is_inside = |(value, mask): (u8, u8)| value & !mask == 0;
        check(mac.value.0.into_iter().zip(mac.mask.0).all(is_inside), BadMatch::BadWildcards)?;
    }
    for ip in [m.ipv4_src, m.ipv4_dst, m.arp_spa, m.arp_tpa].into_iter().flatten() {
        check(u32::from(ip.value) & !u32::from(ip.mask) == 0, BadMatch::BadWildcards)?;
    }
    check(!matches!(m.vlan, Some(VlanMatch::Id(vid)) if vid > 0xfff), BadMatch::BadValue)?;
    check(m.vlan_pcp.is_none_or(|pcp| pcp < 8), BadMatch::BadValue)?;
    check(m.ip_dscp.is_none_or(|dscp| dscp < 64), BadMatch::BadValue)?;
    check(m.ip_ecn.is_none_or(|ecn| ecn < 4), BadMatch::BadValue)?;
    let is_tagged = matches!(m.vlan, Some(VlanMatch::Tagged | VlanMatch::Id(_)));
    check(m.vlan_pcp.is_none() || is_tagged, BadMatch::BadPrereq)?;
    let is_ipv4 = m.eth_type == Some(ether::IPV4);
    let names_ip = m.ip_dscp.is_some() || m.ip_ecn.is_some() || m.ip_proto.is_some();
    check(is_ipv4 || !(names_ip || m.ipv4_src.is_some() || m.ipv4_dst.is_some()), BadMatch::BadPrereq)?;
    let is_arp = m.eth_type == Some(ether::ARP);
    check(is_arp || !(m.arp_op.is_some() || m.arp_spa.is_some() || m.arp_tpa.is_some()), BadMatch::BadPrereq)?;
    for (is_named, proto) in [
        (m.tcp_src.is_some() || m.tcp_dst.is_some() || m.tcp_flags.is_some(), protocol::TCP),
        (m.udp_src.is_some() || m.udp_dst.is_some(), protocol::UDP),
        (m.icmpv4_type.is_some() || m.icmpv4_code.is_some(), protocol::ICMP),
    ] {
        check(!is_named || m.ip_proto == Some(proto), BadMatch::BadPrereq)?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
pub enum PacketContext {
    Unknown,
    Known { eth_type: Option<u16>, ip_proto: Option<u8>, is_tagged: bool },
}

impl PacketContext {
    pub fn of_match(m: &Match) -> PacketContext {
        let is_tagged = matches!(m.vlan, Some(VlanMatch::Tagged | VlanMatch::Id(_)));
        PacketContext::Known { eth_type: m.eth_type, ip_proto: m.ip_proto, is_tagged }
    }

    pub fn of_headers(headers: &Headers) -> PacketContext {
        let ip_proto = (headers.eth_type == ether::IPV4).then_some(headers.ip_proto);
        PacketContext::Known { eth_type: Some(headers.eth_type), ip_proto, is_tagged: headers.vlan.is_some() }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    pub ports: &'a Ports,
    pub groups: &'a Groups,
    /// Whether packets may be sent to the first table: only in packet-outs.
    pub is_table_allowed: bool,
    /// Whether the switch adds outer IPv4 headers ([`crate::Support::ip_in_ip`]).
    pub takes_ip_in_ip: bool,
}

impl Targets<'_> {
    /// Checks a list of actions. Returns the known properties of packets after them.
    pub fn check(&self, actions: &[Action], mut subject: PacketContext) -> Result<PacketContext, ErrorKind> {
        if actions.len() > ACTIONS_MAX {
            return Err(ErrorKind::BadAction(BadAction::TooMany));
        }
        for action in actions {
            self.check_one(action, &mut subject).map_err(ErrorKind::BadAction)?;
        }
        Ok(subject)
    }

    fn check_one(&self, action: &Action, subject: &mut PacketContext) -> Result<(), BadAction> {
        let good = |is_good: bool, why| if is_good { Ok(()) } else { Err(why) };
        match *action {
            Action::Output { port, max_len } => {
                good(self.is_output(port), BadAction::BadOutPort)?;
                let is_len = max_len <= CONTROLLER_LEN_MAX || max_len == Action::WHOLE_PACKET;
                good(port != PortNo::CONTROLLER || is_len, BadAction::BadArgument)
            }
            Action::Group(group) => good(self.groups.by_id.contains_key(&group), BadAction::BadOutGroup),
            Action::SetField(field) => set_field(field, subject),
            Action::PushVlan(tag) => {
                good(tag == ether::VLAN, BadAction::BadTag)?;
                if let PacketContext::Known { is_tagged, .. } = subject {
                    good(!*is_tagged, BadAction::BadTag)?;
                    *is_tagged = true;
                }
                Ok(())
            }
            Action::PopVlan => {
                if let PacketContext::Known { is_tagged, .. } = subject {
                    good(*is_tagged, BadAction::MatchInconsistent)?;
                    *is_tagged = false;
                }
                Ok(())
            }
            Action::PushIpv4 if self.takes_ip_in_ip => {
                if let PacketContext::Known { eth_type, ip_proto, .. } = subject {
                    good(*eth_type == Some(ether::IPV4), BadAction::MatchInconsistent)?;
                    *ip_proto = Some(protocol::IP_IN_IP);
                }
                Ok(())
            }
            // Ports have a single queue, and headers have no TTL: both actions are optional.
            Action::SetQueue(_) => Err(BadAction::BadQueue),
            Action::DecNwTtl => Err(BadAction::BadType),
            // Plain OpenFlow 1.3: experimenter actions are not supported.
            Action::Bundle(_) | Action::PushIpv4 => Err(BadAction::BadExperimenter),
        }
    }

    fn is_output(&self, port: PortNo) -> bool {
        match port {
            PortNo::IN_PORT | PortNo::FLOOD | PortNo::ALL | PortNo::CONTROLLER => true,
            PortNo::TABLE => self.is_table_allowed,
            // The switch has neither its own forwarding nor a network stack.
            _ => self.ports.get(port).is_some(),
        }
    }
}

fn set_field(field: SetField, subject: &PacketContext) -> Result<(), BadAction> {
    let is_possible = match field {
        SetField::VlanVid(vid) => vid < 0x1000,
        SetField::VlanPcp(pcp) => pcp < 8,
        SetField::IpDscp(dscp) => dscp < 64,
        SetField::IpEcn(ecn) => ecn < 4,
        _ => true,
    };
    if !is_possible {
        return Err(BadAction::BadSetArgument);
    }
    let PacketContext::Known { eth_type, ip_proto, is_tagged } = *subject else { return Ok(()) };
    let is_consistent = match field {
        SetField::EthDst(_) | SetField::EthSrc(_) => true,
        SetField::VlanVid(_) | SetField::VlanPcp(_) => is_tagged,
        SetField::IpDscp(_) | SetField::IpEcn(_) | SetField::Ipv4Src(_) | SetField::Ipv4Dst(_) => {
            eth_type == Some(ether::IPV4)
        }
        SetField::TcpSrc(_) | SetField::TcpDst(_) => ip_proto == Some(protocol::TCP),
        SetField::UdpSrc(_) | SetField::UdpDst(_) => ip_proto == Some(protocol::UDP),
    };
    if is_consistent { Ok(()) } else { Err(BadAction::MatchInconsistent) }
}

pub fn instructions(
    instructions: &Instructions,
    (table, tables): (TableId, u8),
    match_: &Match,
    targets: &Targets<'_>,
) -> Result<(), ErrorKind> {
    let refuse = |why| Err(ErrorKind::BadInstruction(why));
    if instructions.meter.is_some() {
        return refuse(BadInstruction::UnsupInst);
    }
    if instructions.metadata.is_some_and(|Masked { value, mask }| value & !mask != 0) {
        return refuse(BadInstruction::UnsupMetadataMask);
    }
    if instructions.goto.is_some_and(|next| next <= table || next.0 >= tables) {
        return refuse(BadInstruction::BadTableId);
    }
    let subject = targets.check(&instructions.apply, PacketContext::of_match(match_))?;
    // Written actions are not executed in the given order.
    let mut set = instructions.write.clone();
    set.sort_by_key(|action| match action {
        Action::PopVlan => 0,
        Action::PushVlan(_) | Action::PushIpv4 => 1,
        _ => 2,
    });
    targets.check(&set, subject).map(|_| ())
}

/// Checks type and buckets of a group that does not reach itself (specification 6.7).
pub fn group(group_mod: &GroupMod, ports: &Ports, groups: &Groups) -> Result<(), ErrorKind> {
    let check = |is_good: bool, why| if is_good { Ok(()) } else { Err(ErrorKind::GroupModFailed(why)) };
    let buckets = &group_mod.buckets;
    check(buckets.len() <= BUCKETS_MAX, GroupModFailed::OutOfBuckets)?;
    check(group_mod.kind != GroupKind::Indirect || buckets.len() == 1, GroupModFailed::InvalidGroup)?;
    let targets = Targets { ports, groups, is_table_allowed: false, takes_ip_in_ip: false };
    for bucket in buckets {
        check(group_mod.kind == GroupKind::Select || bucket.weight == 0, GroupModFailed::WeightUnsupported)?;
        let is_watching = bucket.watch_port != PortNo::ANY || bucket.watch_group != GroupId::ANY;
        let can_watch = matches!(group_mod.kind, GroupKind::Select | GroupKind::FastFailover);
        check(can_watch || !is_watching, GroupModFailed::WatchUnsupported)?;
        let is_port = bucket.watch_port == PortNo::ANY || ports.get(bucket.watch_port).is_some();
        let is_group = bucket.watch_group == GroupId::ANY || groups.by_id.contains_key(&bucket.watch_group);
        check(is_port && is_group, GroupModFailed::BadWatch)?;
        targets.check(&bucket.actions, PacketContext::Unknown)?;
        check(!has_twice(bucket), GroupModFailed::BadBucket)?;
    }
    Ok(())
}

/// Returns whether a bucket has two actions of a kind, of which one would be lost silently.
fn has_twice(bucket: &Bucket) -> bool {
    let is_same_kind = |a: &Action, b: &Action| match (a, b) {
        (Action::SetField(a), Action::SetField(b)) => discriminant(a) == discriminant(b),
        _ => discriminant(a) == discriminant(b),
    };
    let actions = &bucket.actions;
    actions.iter().enumerate().any(|(ix, a)| actions[..ix].iter().any(|b| is_same_kind(a, b)))
}
