//! Virtual addresses as Floodlight's load balancer and F1's MALOB know them: VIPs, pools, members, monitors, and a table of
//! algorithms by port. They are kept as they were told, and lowered to services and pools of ours after every change.
//!
//! What a VIP serves: the port it names, in the protocol it names. One that names no port (F1: "optional fields") serves
//! the ports of the table of algorithms, and echo.

mod lower;
mod table;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use openflow::headers::protocol;
use serde::{Deserialize, Serialize};

pub(crate) use table::{Algorithm, Table, balancer_of};

/// Greatest weight a member may be given (Floodlight).
pub(crate) const WEIGHT_MAX: u32 = 10;

/// All of it, by the identifiers users gave.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Floodlight {
    pub(crate) vips: BTreeMap<String, Vip>,
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) members: BTreeMap<String, Member>,
    pub(crate) monitors: BTreeMap<String, Monitor>,
    pub(crate) table: Table,
    pub(crate) monitoring: Monitoring,
}

/// Whether members are checked at all, and how often where a monitor does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Monitoring {
    pub(crate) is_on: bool,
    pub(crate) period_s: u16,
}

impl Default for Monitoring {
    fn default() -> Monitoring {
        Monitoring { is_on: false, period_s: 10 }
    }
}

/// A virtual address.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vip {
    pub(crate) name: Option<String>,
    /// Number of the protocol in IPv4; 0 for none named.
    pub(crate) protocol: u8,
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    /// The first of these that is there serves it.
    pub(crate) pools: Vec<String>,
}

impl Default for Vip {
    fn default() -> Vip {
        Vip { name: None, protocol: 0, address: Ipv4Addr::UNSPECIFIED, port: 0, pools: Vec::new() }
    }
}

/// Who picks members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    /// None that is known: round robin, or the table of algorithms once somebody has written to it.
    #[default]
    Unset,
    RoundRobin,
    WeightedRoundRobin,
    Statistics,
    /// The table of algorithms.
    Malob,
}

impl Method {
    pub(crate) fn parse(text: &str) -> Method {
        match text.to_ascii_uppercase().as_str() {
            "RR" => Method::RoundRobin,
            "WRR" => Method::WeightedRoundRobin,
            "STATISTICS" => Method::Statistics,
            "MALOB" => Method::Malob,
            _ => Method::Unset,
        }
    }
    /// As answers have it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Method::Unset => "Invalid Method",
            Method::RoundRobin => "Round-Robin",
            Method::WeightedRoundRobin => "Weighted Round-Robin",
            Method::Statistics => "Statistics",
            Method::Malob => "MALOB",
        }
    }
}

/// Those who serve a virtual address.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pool {
    pub(crate) name: Option<String>,
    pub(crate) method: Method,
    pub(crate) vip: Option<String>,
}

/// A server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) pool: String,
    pub(crate) weight: u32,
    pub(crate) is_enabled: bool,
}

/// How members of a pool are checked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Monitor {
    pub(crate) name: Option<String>,
    /// Number of the protocol in IPv4; 0 for none named.
    pub(crate) kind: u8,
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) pool: Option<String>,
    pub(crate) delay_s: Option<u16>,
    pub(crate) timeout_s: Option<u16>,
    pub(crate) attempts: Option<u16>,
}

impl Default for Monitor {
    fn default() -> Monitor {
        let (name, address, pool) = (None, Ipv4Addr::UNSPECIFIED, None);
        Monitor { name, kind: 0, address, port: 0, pool, delay_s: None, timeout_s: None, attempts: None }
    }
}

/// The number of a protocol by its name; 0 for one that is not known.
pub(crate) fn protocol_of(text: &str) -> u8 {
    match text.to_ascii_lowercase().as_str() {
        "tcp" | "tls" | "6" => protocol::TCP,
        "udp" | "17" => protocol::UDP,
        "icmp" | "1" => protocol::ICMP,
        _ => 0,
    }
}

impl Floodlight {
    /// An identifier for something that was given none.
    pub(crate) fn free_id<T>(taken: &BTreeMap<String, T>) -> String {
        (1..).map(|number: u32| number.to_string()).find(|id| !taken.contains_key(id)).unwrap_or_default()
    }

    /// Puts a pool in place, at the virtual address it names if that is there.
    pub(crate) fn put_pool(&mut self, id: &str, mut pool: Pool) {
        pool.vip = pool.vip.filter(|vip| self.vips.contains_key(vip));
        for (vip, facts) in &mut self.vips {
            let is_its = pool.vip.as_ref() == Some(vip);
            let is_there = facts.pools.iter().any(|other| other == id);
            match (is_its, is_there) {
                (true, false) => facts.pools.push(id.to_owned()),
                (false, true) => facts.pools.retain(|other| other != id),
                _ => {}
            }
        }
        self.pools.insert(id.to_owned(), pool);
    }

    /// Ends a virtual address; its pools stay.
    pub(crate) fn remove_vip(&mut self, id: &str) -> bool {
        self.pools.values_mut().filter(|pool| pool.vip.as_deref() == Some(id)).for_each(|pool| pool.vip = None);
        self.vips.remove(id).is_some()
    }

    /// Ends a pool with its members; monitors stay, and watch nothing.
    pub(crate) fn remove_pool(&mut self, id: &str) -> bool {
        self.vips.values_mut().for_each(|vip| vip.pools.retain(|pool| pool != id));
        self.members.retain(|_, member| member.pool != id);
        self.monitors.values_mut().filter(|monitor| monitor.pool.as_deref() == Some(id)).for_each(|it| it.pool = None);
        self.pools.remove(id).is_some()
    }

    /// Puts a monitor in place. A pool has one: the others watch nothing then.
    pub(crate) fn attach(&mut self, id: &str, monitor: Monitor) {
        if monitor.pool.is_some() {
            let others = self.monitors.values_mut().filter(|other| other.pool == monitor.pool);
            others.for_each(|other| other.pool = None);
        }
        self.monitors.insert(id.to_owned(), monitor);
    }

    /// Members of a pool.
    pub(crate) fn members_of(&self, pool: &str) -> impl Iterator<Item = (&String, &Member)> {
        self.members.iter().filter(move |(_, member)| member.pool == pool)
    }

    /// Gives a member of a pool a weight of half of all more than one, and the others one (Floodlight's priority); whether
    /// it is there.
    pub(crate) fn prefer(&mut self, pool: &str, member: &str) -> bool {
        if !self.members_of(pool).any(|(id, _)| id == member) {
            return false;
        }
        let preferred = 1 + self.members_of(pool).count() as u32 / 2;
        for (id, facts) in self.members.iter_mut().filter(|(_, facts)| facts.pool == pool) {
            facts.weight = if id == member { preferred } else { 1 };
        }
        true
    }
}
