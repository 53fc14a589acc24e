//! What is wanted: virtual services, pools, members.

use std::collections::{BTreeMap, BTreeSet};

pub use balance::server::MemberId;
use core::net::Ipv4Addr;
use net::Time;
use openflow::MacAddr;
use openflow::headers::protocol;

use super::pools::picker;
use super::wildcard_spec::Rules;

/// Number of a virtual service; not used again soon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServiceId(pub u16);

/// Number of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub u16);

/// Greatest number of a member: it stands in 24 bits of a cookie.
pub const MEMBER_MAX: MemberId = MemberId(0x00ff_ffff);

/// What a virtual service speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP echo; it has no port.
    Icmp,
}

impl Protocol {
    /// Its number in IPv4.
    pub const fn number(self) -> u8 {
        match self {
            Protocol::Tcp => protocol::TCP,
            Protocol::Udp => protocol::UDP,
            Protocol::Icmp => protocol::ICMP,
        }
    }
    /// Whether it has ports.
    pub const fn has_ports(self) -> bool {
        !matches!(self, Protocol::Icmp)
    }
}

/// A virtual service: an address (and port) at which the members of a pool are reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its number.
    pub id: ServiceId,
    /// Its address: no host has it.
    pub address: Ipv4Addr,
    /// The Ethernet address ARP is answered with; `None`: derived from the address ([`mac_of`]). The same for all services of
    /// an address.
    pub mac: Option<MacAddr>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Its port; 0 for ICMP.
    pub port: u16,
    /// Who serves it.
    pub pool: PoolId,
    /// A connection that has been silent for this long is over, s; above 0.
    pub idle_timeout_s: u16,
    /// Which rules lead to members.
    pub rules: Rules,
}

/// Those who serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Its number.
    pub id: PoolId,
    /// Who picks members for new connections: a balancer of servers with its parameters, such as `server-rr` or
    /// `maglev:size=65537`. Its state begins anew when this text changes.
    pub balancer: String,
    /// How members are checked; `None`: they count as well while their ports are up.
    pub monitor: Option<Monitor>,
    /// Its members.
    pub members: Vec<Member>,
    /// What becomes of the connections of a member that fails.
    pub established: Established,
    /// What clients are told when nobody can serve.
    pub refusal: Refusal,
}

/// A server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its number, at most [`MEMBER_MAX`]. Another address or port is another member, and its connections are over.
    pub id: MemberId,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its port; `None`: that of the service.
    pub port: Option<u16>,
    /// Its share of new connections relative to the others'; 0 for none.
    pub weight: u32,
    /// Whether it may get new connections. Those it has stay.
    pub is_enabled: bool,
}

/// How members are checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Monitor {
    /// What is asked.
    pub check: Check,
    /// Where; `None`: the member's port, or that of the first service of the pool.
    pub port: Option<u16>,
    /// Time from the beginning of a check to that of the next one; above 0.
    pub interval: Time,
    /// How long an answer is waited for; above 0 and at most the interval.
    pub timeout: Time,
    /// Checks in a row that must succeed before a member that failed may serve again; above 0.
    pub rise: u32,
    /// Checks in a row that must fail before a member counts as failing; above 0.
    pub fall: u32,
}

/// What is asked of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check {
    /// An echo, of ICMP.
    Icmp,
    /// A connection of TCP, which is broken off at once.
    Tcp,
    /// A page, over HTTP/1.0; the beginning of the answer tells.
    Http {
        /// Its path, beginning with `/`.
        path: String,
        /// Least and greatest status that is well.
        statuses: (u16, u16),
    },
}

impl Monitor {
    fn fault(&self) -> Option<&'static str> {
        if self.interval == Time::ZERO || self.timeout == Time::ZERO || self.timeout > self.interval {
            return Some("its monitor needs an interval above 0, and a timeout above 0 and at most the interval");
        }
        if self.rise == 0 || self.fall == 0 {
            return Some("rise and fall of its monitor must be above 0");
        }
        if self.port == Some(0) {
            return Some("the port of its monitor must be above 0");
        }
        match &self.check {
            Check::Http { path, .. } if !is_path(path) => {
                Some("the path of its monitor must begin with `/`, in ASCII without spaces, at most 1,000 bytes")
            }
            Check::Http { statuses, .. } if statuses.0 > statuses.1 => {
                Some("no status is within those its monitor expects")
            }
            _ => None,
        }
    }
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.len() <= 1000 && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What becomes of the connections of a member that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Established {
    /// They stay: it may come back.
    #[default]
    Keep,
    /// Their next packet goes to another member.
    Move,
    /// Clients are told: TCP is reset, others get an ICMP error. New connections of the same client go to another member.
    Reset,
}

/// What clients are told when nobody can serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Refusal {
    /// What a host without the service says: TCP is reset, UDP gets "port unreachable", ICMP "host unreachable".
    #[default]
    Reset,
    /// "Host unreachable".
    Unreachable,
    /// Nothing.
    Drop,
}

/// All that is wanted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Services {
    /// Virtual services.
    pub services: Vec<Service>,
    /// Pools; those no service uses are not watched.
    pub pools: Vec<Pool>,
}

/// Something wanted that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct ServicesError {
    what: String,
    rules_of: Option<ServiceId>,
}

impl ServicesError {
    fn new(what: String) -> ServicesError {
        ServicesError { what, rules_of: None }
    }
    pub(super) fn of_rules(service: ServiceId, what: &str) -> ServicesError {
        ServicesError { what: format!("service {}: {what}", service.0), rules_of: Some(service) }
    }
    /// The service whose [`Rules`] do not go with its pool, or with another service, if that is the fault.
    pub fn rules_of(&self) -> Option<ServiceId> {
        self.rules_of
    }
}

/// The Ethernet address of a virtual address, where none was configured: locally administered, with the address in it.
pub fn mac_of(address: Ipv4Addr) -> MacAddr {
    let [a, b, c, d] = address.octets();
    MacAddr([0x06, 0xa7, a, b, c, d])
}

impl Services {
    /// Whether all of it can be done; `checker` is the controller's own address, if it has one.
    ///
    /// # Errors
    /// [`ServicesError`] names the first fault and where it is.
    pub fn check(&self, checker: Option<Ipv4Addr>) -> Result<(), ServicesError> {
        let fault = |what: String| Err(ServicesError::new(what));
        let mut pools = BTreeSet::new();
        for pool in &self.pools {
            if !pools.insert(pool.id) {
                return fault(format!("two pools have the number {}", pool.id.0));
            }
            pool.check()?;
            if pool.monitor.is_some() && checker.is_none() {
                return fault(format!(
                    "pool {}: it has a monitor, and no address of a checker is configured",
                    pool.id.0
                ));
            }
        }
        if let Some(service) = self.services.iter().find(|service| Some(service.address) == checker) {
            return fault(format!("service {}: {} is the checker's address", service.id.0, service.address));
        }
        let (mut numbers, mut places) = (BTreeSet::new(), BTreeSet::new());
        let mut macs: BTreeMap<Ipv4Addr, MacAddr> = BTreeMap::new();
        for service in &self.services {
            let (id, address) = (service.id.0, service.address);
            service.check()?;
            if !numbers.insert(id) {
                return fault(format!("two services have the number {id}"));
            }
            if !places.insert((address, service.protocol, service.port)) {
                let what = "another one has the same address, protocol and port";
                return fault(format!("service {id} ({address} port {}): {what}", service.port));
            }
            if !pools.contains(&service.pool) {
                return fault(format!("service {id}: there is no pool {}", service.pool.0));
            }
            let mac = service.mac();
            if *macs.entry(address).or_insert(mac) != mac {
                return fault(format!("service {id}: another one has {address} with another Ethernet address"));
            }
        }
        self.check_wildcards()?;
        let mut members = self.pools.iter().flat_map(|pool| pool.members.iter().map(move |member| (pool, member)));
        match members.find(|(_, member)| macs.contains_key(&member.address)) {
            None => Ok(()),
            Some((pool, member)) => fault(format!(
                "pool {}, member {}: {} is the address of a virtual service, which cannot serve another",
                pool.id.0, member.id.0, member.address
            )),
        }
    }
}

impl Service {
    /// The Ethernet address ARP is answered with.
    pub fn mac(&self) -> MacAddr {
        self.mac.unwrap_or_else(|| mac_of(self.address))
    }

    fn check(&self) -> Result<(), ServicesError> {
        let fault = |what: &str| Err(ServicesError::new(format!("service {}: {what}", self.id.0)));
        if !is_station(self.address) {
            return fault(&format!("{} is not the address of one host", self.address));
        }
        if self.mac.is_some_and(|mac| mac.is_multicast() || mac == MacAddr::default()) {
            return fault("its Ethernet address is not that of one host");
        }
        match (self.protocol.has_ports(), self.port) {
            (true, 0) => return fault("TCP and UDP need a port above 0"),
            (false, 1..) => return fault("ICMP has no ports: it must be 0"),
            _ => {}
        }
        if self.idle_timeout_s == 0 {
            return fault("its idle timeout must be above 0: rules would stay for ever");
        }
        self.check_rules()
    }
}

impl Pool {
    fn check(&self) -> Result<(), ServicesError> {
        if let Err(why) = picker(&self.balancer, 0) {
            return Err(ServicesError::new(format!("pool {}: {why}", self.id.0)));
        }
        if let Some(what) = self.monitor.as_ref().and_then(Monitor::fault) {
            return Err(ServicesError::new(format!("pool {}: {what}", self.id.0)));
        }
        let mut numbers = BTreeSet::new();
        for member in &self.members {
            let fault =
                |what: &str| Err(ServicesError::new(format!("pool {}, member {}: {what}", self.id.0, member.id.0)));
            if member.id > MEMBER_MAX {
                return fault(&format!("its number is above {}", MEMBER_MAX.0));
            }
            if !numbers.insert(member.id) {
                return fault("another one has its number");
            }
            if !is_station(member.address) {
                return fault(&format!("{} is not the address of one host", member.address));
            }
            if member.port == Some(0) {
                return fault("its port must be above 0");
            }
        }
        Ok(())
    }
}

fn is_station(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback())
}
