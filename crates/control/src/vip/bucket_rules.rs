//! Rules of a service that stand beforehand, at every switch with clients: those of buckets, and those of clients.
//!
//! Clients are divided by the lowest bits of their addresses. These differ most: hosts of a subnet are numbered one after the other,
//! while all its prefixes are the same at a switch. OpenFlow 1.3 has no masks for ports, so all connections of a client go to
//! one member. The way there has one rule for each bucket. The way back has one for each client of the switch and no mask: what the
//! member sends to others, and to hosts behind other switches, is not touched on its way.

use core::net::Ipv4Addr;
use openflow::headers::protocol;
use openflow::{Action, FlowStats, Instructions, MacAddr, Masked, Match};

use super::rules::{Lead, Owner, member_in, written_mac};
use crate::compile::{CLASSIFY, Compiler, Entry, PURPOSE_MASK, Purpose, key, to, tuple_match, tuple_of};
use crate::install::{RuleKey, Wanted};

/// Priorities in table 0, below those of connections. Rules of higher priorities are sent first: what leads to a member is not there
/// before what leads back.
const BACK: u16 = 480;
const OWN: u16 = 470;
const FORTH: u16 = 460;

/// Clients with the same lowest bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Bucket {
    pub(super) index: usize,
    /// How many there are: a power of two.
    pub(super) count: usize,
}

impl Bucket {
    /// Of a client. Where there are none, all are in the same.
    pub(super) fn of(client: Ipv4Addr, count: usize) -> Bucket {
        Bucket { index: client.to_bits() as usize & count.saturating_sub(1), count }
    }
    /// Whether all of its clients are in the other one, too.
    pub(super) fn is_within(self, other: Bucket) -> bool {
        other.count <= self.count && self.index & (other.count - 1) == other.index
    }

    fn clients(self) -> Masked<Ipv4Addr> {
        let bits = |bits: usize| Ipv4Addr::from_bits(bits as u32);
        Masked { value: bits(self.index), mask: bits(self.count - 1) }
    }

    /// What a match divides clients by, if it does.
    fn found(clients: Masked<Ipv4Addr>) -> Option<Bucket> {
        let count = (clients.mask.to_bits() as usize).checked_add(1).filter(|count| count.is_power_of_two())?;
        Some(Bucket { index: clients.value.to_bits() as usize, count })
    }
}

/// A rule of a bucket or of a client that was found on a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FoundRule {
    /// Leads clients to a member, at this address, port (if it is another than the service's) and interface.
    Leads(Bucket, (Ipv4Addr, Option<u16>), MacAddr),
    /// Clients ask the controller: the bucket is moving away from the member.
    Asks(Bucket),
    /// Leads back from the member, at this address and port.
    Back(Ipv4Addr, u16),
}

impl Compiler {
    fn bucket_rule(self, priority: u16, match_: Match, owner: Owner, instructions: Instructions) -> Entry {
        let cookie = self.cookie(Purpose::Bucket) | owner.bits();
        (key(CLASSIFY, priority, match_), Wanted { cookie, idle_timeout_s: 0, instructions, group: None })
    }

    /// Clients of a bucket go to the member at `mac`.
    pub(super) fn bucket_leads(self, lead: &Lead, owner: Owner, bucket: Bucket, mac: MacAddr) -> Entry {
        self.bucket_rule(FORTH, from_clients(lead, bucket.clients()), owner, lead.forth(mac))
    }
    /// Clients of a bucket ask the controller; its member was that of `owner`.
    pub(super) fn bucket_asks(self, lead: &Lead, owner: Owner, bucket: Bucket) -> Entry {
        self.bucket_rule(FORTH, from_clients(lead, bucket.clients()), owner, asks())
    }
    /// A client asks the controller, whatever its bucket: it is a member itself.
    pub(super) fn client_asks(self, lead: &Lead, owner: Owner, client: Ipv4Addr) -> Entry {
        self.bucket_rule(OWN, from_clients(lead, Masked::<Ipv4Addr>::exact(client)), owner, asks())
    }
    /// What a member sends to a client is from the virtual address.
    pub(super) fn bucket_back(self, lead: &Lead, owner: Owner, client: Ipv4Addr) -> Entry {
        let (src, src_port) = lead.member;
        let tuple = net::FiveTuple { src, dst: client, protocol: lead.protocol, src_port, dst_port: 0 };
        let match_ = Match { tcp_dst: None, udp_dst: None, ..tuple_match(&tuple) };
        self.bucket_rule(BACK, match_, owner, lead.back())
    }

    /// What a rule found on a switch says of a bucket, and whose it is, if it is about one.
    pub(super) fn bucket_found(self, rule: &FlowStats) -> Option<(Owner, FoundRule)> {
        if rule.cookie & PURPOSE_MASK != self.cookie(Purpose::Bucket) || rule.table != CLASSIFY {
            return None;
        }
        let found = match rule.priority {
            FORTH => {
                let bucket = Bucket::found(rule.match_.ipv4_src?)?;
                match (written_mac(&rule.instructions), member_in(rule)) {
                    (Some(mac), Some(member)) => FoundRule::Leads(bucket, member, mac),
                    _ => FoundRule::Asks(bucket),
                }
            }
            BACK => {
                let tuple = tuple_of(&rule.match_)?;
                FoundRule::Back(tuple.src, tuple.src_port)
            }
            _ => return None,
        };
        Some((Owner::of(rule.cookie), found))
    }

    /// Whether a rule is about a bucket, or a client of one.
    pub(crate) fn is_of_bucket(key: &RuleKey) -> bool {
        key.table == CLASSIFY && [BACK, OWN, FORTH].contains(&key.priority.0)
    }
}

fn asks() -> Instructions {
    Instructions::apply(vec![Action::to_controller()])
}

/// Packets of clients to a service.
fn from_clients(lead: &Lead, clients: Masked<Ipv4Addr>) -> Match {
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
        let Wanted { cookie, idle_timeout_s, instructions, .. } = wanted;
        let rule = FlowStats {
            table: key.table,
            duration_ns: 0,
            priority: key.priority.0,
            idle_timeout_s,
            hard_timeout_s: 0,
            flags: openflow::FlowModFlags::default(),
            cookie,
            packets: 0,
            bytes: 0,
            match_: key.match_,
            instructions,
        };
        compiler.bucket_found(&rule)
    }

    #[test]
    fn rules_tell_their_bucket_and_member() {
        let compiler = Compiler { owner: 7 };
        let owner = Owner { service: ServiceId(0xfffe), member: MemberId(0x00ab_cdef) };
        let (vip, member, mac) = (Ipv4Addr::new(10, 9, 9, 9), Ipv4Addr::new(10, 0, 0, 2), MacAddr([2; 6]));
        for (protocol, port, written) in [(6, 8080, Some(8080)), (17, 80, None)] {
            let lead = Lead { protocol, at: (vip, 80), vip_mac: MacAddr([6; 6]), member: (member, port) };
            let bucket = Bucket { index: 5, count: 64 };
            let leads = compiler.bucket_leads(&lead, owner, bucket, mac);
            let asks = compiler.bucket_asks(&lead, owner, bucket);
            assert_eq!(leads.0, asks.0, "one takes the place of the other");
            assert_eq!(found(compiler, leads), Some((owner, FoundRule::Leads(bucket, (member, written), mac))));
            assert_eq!(found(compiler, asks), Some((owner, FoundRule::Asks(bucket))));
            let client = Ipv4Addr::new(10, 0, 0, 9);
            let back = compiler.bucket_back(&lead, owner, client);
            assert_eq!((back.0.match_.tcp_dst, back.0.match_.udp_dst), (None, None), "to whichever port of the client");
            assert_eq!(found(compiler, back), Some((owner, FoundRule::Back(member, port))));
            let own = compiler.client_asks(&lead, owner, client);
            assert!(Compiler::is_of_bucket(&own.0) && found(compiler, own).is_none());
        }
        let (key, _) = compiler.virtual_address(vip);
        assert!(!Compiler::is_of_bucket(&key));
    }

    #[test]
    fn neighbours_are_in_different_buckets() {
        let buckets: Vec<usize> = (1..=16u8).map(|host| Bucket::of(Ipv4Addr::new(10, 0, 0, host), 16).index).collect();
        assert!((0..16).all(|index| buckets.contains(&index)));
        assert_eq!(Bucket { index: 3, count: 4 }.clients().mask, Ipv4Addr::new(0, 0, 0, 3));
        let prefix = Masked { value: Ipv4Addr::new(10, 0, 0, 0), mask: Ipv4Addr::new(255, 0, 0, 0) };
        assert_eq!(Bucket::found(prefix), None);
    }
}
