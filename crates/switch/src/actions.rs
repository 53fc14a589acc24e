//! The effect of actions on headers, and action sets.

use std::mem::discriminant;

use openflow::headers::{ether, protocol};
use openflow::{Action, GroupId, Headers, PortNo, SetField};

/// Number of fields that can be set.
const FIELDS: usize = 12;

/// An action set: at most one action of each kind, executed in the order of 5.10, not of writing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ActionSet {
    pops_vlan: bool,
    push_vlan: Option<u16>,
    pushes_ipv4: bool,
    /// At most one value of each field.
    fields: [Option<SetField>; FIELDS],
    pub group: Option<GroupId>,
    pub output: Option<(PortNo, u16)>,
}

impl ActionSet {
    /// Returns the set of a list; later actions replace earlier ones of their kind.
    pub fn of(actions: &[Action]) -> ActionSet {
        let mut set = ActionSet::default();
        actions.iter().for_each(|action| set.write(action));
        set
    }

    pub fn write(&mut self, action: &Action) {
        match *action {
            Action::Output { port, max_len } => self.output = Some((port, max_len)),
            Action::Group(group) => self.group = Some(group),
            Action::SetField(field) => {
                let is_its = |slot: &&mut Option<SetField>| {
                    slot.is_none_or(|other| discriminant(&other) == discriminant(&field))
                };
                *self.fields.iter_mut().find(is_its).expect("every kind of field has a slot") = Some(field);
            }
            Action::PushVlan(tag) => self.push_vlan = Some(tag),
            Action::PopVlan => self.pops_vlan = true,
            Action::PushIpv4 => self.pushes_ipv4 = true,
            // Refused when entries and groups are added.
            Action::SetQueue(_) | Action::DecNwTtl | Action::Bundle(_) => {}
        }
    }

    pub fn change(&self, headers: &mut Headers) -> Result<(), UnsupportedAction> {
        if self.pops_vlan {
            change(&Action::PopVlan, headers)?;
        }
        if let Some(tag) = self.push_vlan {
            change(&Action::PushVlan(tag), headers)?;
        }
        if self.pushes_ipv4 {
            change(&Action::PushIpv4, headers)?;
        }
        self.fields.iter().flatten().for_each(|field| set_field(*field, headers));
        Ok(())
    }
}

/// The error of an action that cannot be applied to a packet: a second VLAN tag, a second outer header,
/// or one around other than IPv4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnsupportedAction;

/// Applies an action that changes headers; other actions have no effect.
pub fn change(action: &Action, headers: &mut Headers) -> Result<(), UnsupportedAction> {
    match *action {
        Action::SetField(field) => set_field(field, headers),
        Action::PushVlan(_) if headers.vlan.is_some() => return Err(UnsupportedAction),
        Action::PushVlan(_) => (headers.vlan, headers.vlan_pcp) = (Some(0), 0),
        Action::PopVlan => (headers.vlan, headers.vlan_pcp) = (None, 0),
        Action::PushIpv4 if headers.eth_type != ether::IPV4 || headers.ip_proto == protocol::IP_IN_IP => {
            return Err(UnsupportedAction);
        }
        // The ports are those of the inner packet, which switches do not read.
        Action::PushIpv4 => {
            *headers = Headers { ip_proto: protocol::IP_IN_IP, l4_src: 0, l4_dst: 0, tcp_flags: 0, ..*headers };
        }
        Action::Output { .. } | Action::Group(_) | Action::SetQueue(_) | Action::DecNwTtl | Action::Bundle(_) => {}
    }
    Ok(())
}

fn set_field(field: SetField, headers: &mut Headers) {
    let is_ipv4 = headers.eth_type == ether::IPV4;
    let is_tcp = is_ipv4 && headers.ip_proto == protocol::TCP;
    let is_udp = is_ipv4 && headers.ip_proto == protocol::UDP;
    match field {
        SetField::EthDst(mac) => headers.eth_dst = mac,
        SetField::EthSrc(mac) => headers.eth_src = mac,
        SetField::VlanVid(vid) if headers.vlan.is_some() => headers.vlan = Some(vid),
        SetField::VlanPcp(pcp) if headers.vlan.is_some() => headers.vlan_pcp = pcp,
        SetField::IpDscp(dscp) if is_ipv4 => headers.ip_dscp = dscp,
        SetField::IpEcn(ecn) if is_ipv4 => headers.ip_ecn = ecn,
        SetField::Ipv4Src(ip) if is_ipv4 => headers.ipv4_src = ip,
        SetField::Ipv4Dst(ip) if is_ipv4 => headers.ipv4_dst = ip,
        SetField::TcpSrc(port) if is_tcp => headers.l4_src = port,
        SetField::TcpDst(port) if is_tcp => headers.l4_dst = port,
        SetField::UdpSrc(port) if is_udp => headers.l4_src = port,
        SetField::UdpDst(port) if is_udp => headers.l4_dst = port,
        _ => {}
    }
}
