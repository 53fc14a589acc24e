//! Proactive rules of a service at every switch with clients: slot rules, and return rules of
//! clients.
//!
//! Clients are divided by the lowest bits of their addresses. These differ most: hosts of a subnet
//! are numbered consecutively, while their prefixes are the same at a switch. OpenFlow 1.3 has no
//! masks for ports, so all connections of a client go to one member. The direction to members has
//! one rule per slot. The return direction has one per client of the switch and no mask: other
//! packets of members, and those to hosts behind other switches, stay unchanged.

use core::net::Ipv4Addr;
use openflow::headers::protocol;
use openflow::{FlowStats, Instructions, MacAddr, Masked, Match};

use super::rules::{Owner, Rewrite, member_in, written_mac};
use crate::updater::compile::{
    CLASSIFY, Compiler, Entry, PURPOSE_MASK, Purpose, to, to_controller, tuple_match, tuple_of,
};
use crate::updater::store::{DesiredRule, RuleKey};

/// Priorities in table 0, below those of connections. Rules of higher priorities are sent first, so
/// that the rule to a member is never installed before the return rule.
const TO_CLIENT: u16 = 480;
const OWN: u16 = 470;
const TO_MEMBER: u16 = 460;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ClientSlot {
    pub(super) index: usize,
    /// Number of slots: a power of two.
    pub(super) count: usize,
}

impl ClientSlot {
    pub(super) fn of(client: Ipv4Addr, count: usize) -> ClientSlot {
        ClientSlot { index: client.to_bits() as usize & count.saturating_sub(1), count }
    }
    pub(super) fn is_within(self, other: ClientSlot) -> bool {
        other.count <= self.count && self.index & (other.count - 1) == other.index
    }

    fn clients(self) -> Masked<Ipv4Addr> {
        let bits = |bits: usize| Ipv4Addr::from_bits(bits as u32);
        Masked { value: bits(self.index), mask: bits(self.count - 1) }
    }

    fn found(clients: Masked<Ipv4Addr>) -> Option<ClientSlot> {
        let count = (clients.mask.to_bits() as usize).checked_add(1).filter(|count| count.is_power_of_two())?;
        Some(ClientSlot { index: clients.value.to_bits() as usize, count })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FoundRule {
    /// Leads clients to a member, at this address, port (if it differs from the service's) and
    /// Ethernet address.
    ToMember(ClientSlot, (Ipv4Addr, Option<u16>), MacAddr),
    /// Sends clients to the controller: the slot migrates away from the member.
    ToController(ClientSlot),
    Return(Ipv4Addr, u16),
}

impl Compiler {
    fn slot_rule(self, priority: u16, match_: Match, owner: Owner, instructions: Instructions) -> Entry {
        let cookie = self.cookie(Purpose::ClientSlot) | owner.bits();
        (RuleKey::new(CLASSIFY, priority, match_), DesiredRule { cookie, idle_timeout_s: 0, instructions, group: None })
    }

    pub(super) fn slot_to_member(self, lead: &Rewrite, owner: Owner, bucket: ClientSlot, mac: MacAddr) -> Entry {
        self.slot_rule(TO_MEMBER, from_clients(lead, bucket.clients()), owner, lead.to_member(mac))
    }
    /// Returns the rule that sends clients of a slot to the controller; `owner` is its former
    /// member.
    pub(super) fn slot_to_controller(self, lead: &Rewrite, owner: Owner, bucket: ClientSlot) -> Entry {
        self.slot_rule(TO_MEMBER, from_clients(lead, bucket.clients()), owner, to_controller())
    }
    /// Returns the rule that sends a client to the controller, regardless of its slot: it is a
    /// member itself.
    pub(super) fn client_to_controller(self, lead: &Rewrite, owner: Owner, client: Ipv4Addr) -> Entry {
        self.slot_rule(OWN, from_clients(lead, Masked::<Ipv4Addr>::exact(client)), owner, to_controller())
    }
    /// Returns the return rule of a client; `None` if replies need none.
    pub(super) fn slot_return(self, lead: &Rewrite, owner: Owner, client: Ipv4Addr) -> Option<Entry> {
        let (src, src_port) = lead.member;
        let tuple = net::FiveTuple { src, dst: client, protocol: lead.protocol, src_port, dst_port: 0 };
        let match_ = Match { tcp_dst: None, udp_dst: None, ..tuple_match(&tuple) };
        Some(self.slot_rule(TO_CLIENT, match_, owner, lead.to_client()?))
    }

    pub(super) fn parse_slot_rule(self, rule: &FlowStats) -> Option<(Owner, FoundRule)> {
        if rule.cookie & PURPOSE_MASK != self.cookie(Purpose::ClientSlot) || rule.table != CLASSIFY {
            return None;
        }
        let found = match rule.priority {
            TO_MEMBER => {
                let bucket = ClientSlot::found(rule.match_.ipv4_src?)?;
                match (written_mac(&rule.instructions), member_in(rule)) {
                    (Some(mac), Some(member)) => FoundRule::ToMember(bucket, member, mac),
                    _ => FoundRule::ToController(bucket),
                }
            }
            TO_CLIENT => {
                let tuple = tuple_of(&rule.match_)?;
                FoundRule::Return(tuple.src, tuple.src_port)
            }
            _ => return None,
        };
        Some((Owner::of(rule.cookie), found))
    }

    pub(crate) fn is_slot_rule(key: &RuleKey) -> bool {
        key.table == CLASSIFY && [TO_CLIENT, OWN, TO_MEMBER].contains(&key.priority.0)
    }
}

fn from_clients(lead: &Rewrite, clients: Masked<Ipv4Addr>) -> Match {
    let (address, port) = lead.at;
    let at = Match { ipv4_src: Some(clients), ip_proto: Some(lead.protocol), ..to(address) };
    match lead.protocol {
        protocol::TCP => Match { tcp_dst: Some(port), ..at },
        _ => Match { udp_dst: Some(port), ..at },
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{MemberId, ServiceId};
    use super::*;

    fn found(compiler: Compiler, (key, wanted): Entry) -> Option<(Owner, FoundRule)> {
        let DesiredRule { cookie, idle_timeout_s, instructions, .. } = wanted;
        let RuleKey { table, priority, match_ } = key;
        let rule = FlowStats {
            table,
            priority: priority.0,
            match_,
            idle_timeout_s,
            cookie,
            instructions,
            ..FlowStats::default()
        };
        compiler.parse_slot_rule(&rule)
    }

    #[test]
    fn slot_rules_parse_to_slot_and_member() {
        let compiler = Compiler { owner: 7 };
        let owner = Owner { service: ServiceId(0xfffe), member: MemberId(0x00ab_cdef) };
        let (vip, member, mac) = (Ipv4Addr::new(10, 9, 9, 9), Ipv4Addr::new(10, 0, 0, 2), MacAddr([2; 6]));
        for (protocol, port, written) in [(6, 8080, Some(8080)), (17, 80, None)] {
            let (vip_mac, member_at) = (MacAddr([6; 6]), (member, port));
            let lead = Rewrite { protocol, at: (vip, 80), vip_mac, member: member_at, is_tunnelled: false };
            let bucket = ClientSlot { index: 5, count: 64 };
            let leads = compiler.slot_to_member(&lead, owner, bucket, mac);
            let to_controller = compiler.slot_to_controller(&lead, owner, bucket);
            assert_eq!(leads.0, to_controller.0, "one replaces the other");
            assert_eq!(found(compiler, leads), Some((owner, FoundRule::ToMember(bucket, (member, written), mac))));
            assert_eq!(found(compiler, to_controller), Some((owner, FoundRule::ToController(bucket))));
            let client = Ipv4Addr::new(10, 0, 0, 9);
            let to_client = compiler.slot_return(&lead, owner, client).unwrap();
            assert_eq!(
                (to_client.0.match_.tcp_dst, to_client.0.match_.udp_dst),
                (None, None),
                "to any port of the client"
            );
            assert_eq!(found(compiler, to_client), Some((owner, FoundRule::Return(member, port))));
            let own = compiler.client_to_controller(&lead, owner, client);
            assert!(Compiler::is_slot_rule(&own.0) && found(compiler, own).is_none());
        }
        let (key, _) = compiler.virtual_address(vip);
        assert!(!Compiler::is_slot_rule(&key));
    }

    #[test]
    fn neighbours_are_in_different_slots() {
        let buckets: Vec<usize> =
            (1..=16u8).map(|host| ClientSlot::of(Ipv4Addr::new(10, 0, 0, host), 16).index).collect();
        assert!((0..16).all(|index| buckets.contains(&index)));
        assert_eq!(ClientSlot { index: 3, count: 4 }.clients().mask, Ipv4Addr::new(0, 0, 0, 3));
        let prefix = Masked { value: Ipv4Addr::new(10, 0, 0, 0), mask: Ipv4Addr::new(255, 0, 0, 0) };
        assert_eq!(ClientSlot::found(prefix), None);
    }
}
