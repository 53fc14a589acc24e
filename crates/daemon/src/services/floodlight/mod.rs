//! Virtual addresses in the model of Floodlight's load balancer and F1's MALOB: VIPs, pools,
//! members, monitors, and a table of algorithms by port. They are stored as received and converted
//! to services and pools after every change.
//!
//! A VIP serves its port in its protocol. A VIP without a port (F1: "optional fields") serves the
//! ports of the table of algorithms, and ICMP echo.

mod lower;
mod table;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use openflow::headers::protocol;
use serde::{Deserialize, Serialize};

pub(crate) use table::{Algorithm, Table, balancer_of};

/// Maximum weight of a member (Floodlight).
pub(crate) const WEIGHT_MAX: u32 = 10;

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

/// Whether members are checked at all, and the interval of monitors that set none.
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

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vip {
    pub(crate) name: Option<String>,
    /// IPv4 protocol number; 0 if unset.
    pub(crate) protocol: u8,
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    /// Pools by identifier; the first that exists is used.
    pub(crate) pools: Vec<String>,
}

impl Default for Vip {
    fn default() -> Vip {
        Vip { name: None, protocol: 0, address: Ipv4Addr::UNSPECIFIED, port: 0, pools: Vec::new() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    /// No known method: round robin, or the table of algorithms once it has been written.
    #[default]
    Unset,
    RoundRobin,
    WeightedRoundRobin,
    Statistics,
    Malob,
}

/// Methods as requests and responses name them.
const METHODS: [(Method, &str, &str); 4] = [
    (Method::RoundRobin, "RR", "Round-Robin"),
    (Method::WeightedRoundRobin, "WRR", "Weighted Round-Robin"),
    (Method::Statistics, "STATISTICS", "Statistics"),
    (Method::Malob, "MALOB", "MALOB"),
];

impl Method {
    pub(crate) fn parse(text: &str) -> Method {
        let known = METHODS.iter().find(|(_, requested, _)| text.eq_ignore_ascii_case(requested));
        known.map_or(Method::Unset, |(method, ..)| *method)
    }
    pub(crate) fn as_str(self) -> &'static str {
        METHODS.iter().find(|(method, ..)| *method == self).map_or("Invalid Method", |(.., shown)| shown)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pool {
    pub(crate) name: Option<String>,
    pub(crate) method: Method,
    pub(crate) vip: Option<String>,
}

/// A member of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) pool: String,
    pub(crate) weight: u32,
    pub(crate) is_enabled: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Monitor {
    pub(crate) name: Option<String>,
    /// IPv4 protocol number; 0 if unset.
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

pub(crate) fn protocol_of(text: &str) -> u8 {
    match text.to_ascii_lowercase().as_str() {
        "tcp" | "tls" | "6" => protocol::TCP,
        "udp" | "17" => protocol::UDP,
        "icmp" | "1" => protocol::ICMP,
        _ => 0,
    }
}

impl Floodlight {
    pub(crate) fn put_pool(&mut self, id: &str, mut pool: Pool) {
        pool.vip = pool.vip.filter(|vip| self.vips.contains_key(vip));
        for (vip, known) in &mut self.vips {
            let is_its = pool.vip.as_ref() == Some(vip);
            let is_there = known.pools.iter().any(|other| other == id);
            match (is_its, is_there) {
                (true, false) => known.pools.push(id.to_owned()),
                (false, true) => known.pools.retain(|other| other != id),
                _ => {}
            }
        }
        self.pools.insert(id.to_owned(), pool);
    }

    pub(crate) fn remove_vip(&mut self, id: &str) -> bool {
        self.pools.values_mut().filter(|pool| pool.vip.as_deref() == Some(id)).for_each(|pool| pool.vip = None);
        self.vips.remove(id).is_some()
    }
    pub(crate) fn remove_pool(&mut self, id: &str) -> bool {
        self.vips.values_mut().for_each(|vip| vip.pools.retain(|pool| pool != id));
        self.members.retain(|_, member| member.pool != id);
        self.monitors.values_mut().filter(|monitor| monitor.pool.as_deref() == Some(id)).for_each(|it| it.pool = None);
        self.pools.remove(id).is_some()
    }
    /// Adds or replaces a monitor. It replaces other monitors of its pool, which then check
    /// nothing.
    pub(crate) fn attach(&mut self, id: &str, monitor: Monitor) {
        if monitor.pool.is_some() {
            let others = self.monitors.values_mut().filter(|other| other.pool == monitor.pool);
            others.for_each(|other| other.pool = None);
        }
        self.monitors.insert(id.to_owned(), monitor);
    }
    pub(crate) fn members_of(&self, pool: &str) -> impl Iterator<Item = (&String, &Member)> {
        self.members.iter().filter(move |(_, member)| member.pool == pool)
    }
    /// Gives a member half of the total weight plus one, and the other members weight one
    /// (Floodlight's priority). Returns whether the member exists.
    pub(crate) fn prefer(&mut self, pool: &str, member: &str) -> bool {
        if !self.members_of(pool).any(|(id, _)| id == member) {
            return false;
        }
        let preferred = 1 + self.members_of(pool).count() as u32 / 2;
        for (id, known) in self.members.iter_mut().filter(|(_, known)| known.pool == pool) {
            known.weight = if id == member { preferred } else { 1 };
        }
        true
    }
}
