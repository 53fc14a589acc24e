//! The configuration of virtual services, pools and members.

use std::collections::{BTreeMap, BTreeSet};

pub use balance::server::MemberId;
use core::net::Ipv4Addr;
use net::Time;
use openflow::MacAddr;
use openflow::headers::protocol;

use super::pool_state::picker;
use super::wildcard_spec::Rules;
use crate::observer::arp::is_unicast;

/// Number of a virtual service; not reused soon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct ServiceId(pub u16);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct PoolId(pub u16);

/// Largest number of a member: cookies have 24 bits for it.
pub const MEMBER_MAX: MemberId = MemberId(0x00ff_ffff);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub enum Protocol {
    Tcp,
    Udp,
    /// ICMP echo; it has no port.
    Icmp,
}

impl Protocol {
    /// Returns the protocol number in IPv4.
    pub const fn number(self) -> u8 {
        match self {
            Protocol::Tcp => protocol::TCP,
            Protocol::Udp => protocol::UDP,
            Protocol::Icmp => protocol::ICMP,
        }
    }
    pub const fn has_ports(self) -> bool {
        !matches!(self, Protocol::Icmp)
    }
}

/// A virtual service: an address (and port) at which the members of a pool are reached.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Service {
    pub id: ServiceId,
    /// Virtual address; not the address of a host.
    pub address: Ipv4Addr,
    /// Ethernet address in ARP replies; `None`: derived from the address ([`mac_of`]). The same for
    /// all services of an address.
    pub mac: Option<MacAddr>,
    pub protocol: Protocol,
    /// Port; 0 for ICMP.
    pub port: u16,
    pub pool: PoolId,
    /// Idle time after which a connection counts as closed, s; above 0.
    pub idle_timeout_s: u16,
    pub rules: Rules,
    /// Whether packets to members get an outer IPv4 header (IP-in-IP, RFC 2003) instead of other
    /// addresses. Members have the virtual address, too, and reply directly: no rule rewrites replies.
    /// Switches need [`openflow::Action::PushIpv4`], which only simulated ones have.
    #[serde(default)]
    pub is_tunnelled: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Pool {
    pub id: PoolId,
    /// Server balancer for new connections with its parameters, such as `server-rr` or
    /// `maglev:size=65537`. A change of this text resets its state.
    pub balancer: String,
    /// Health checks of members; `None`: members count as healthy while their ports are up.
    pub monitor: Option<Monitor>,
    pub members: Vec<Member>,
    /// Handling of the connections of a member that fails.
    pub established: Established,
    /// Response to clients when no member is up.
    pub refusal: Refusal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Member {
    /// Number, at most [`MEMBER_MAX`]. Another address or port is another member, and the
    /// connections of the former one are closed.
    pub id: MemberId,
    /// IPv4 address of the server.
    pub address: Ipv4Addr,
    /// Port; `None`: that of the service.
    pub port: Option<u16>,
    /// Share of new connections relative to the other members; 0 for none.
    pub weight: u32,
    /// Whether it may get new connections. Existing ones stay.
    pub is_enabled: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Monitor {
    pub check: Check,
    /// Checked port; `None`: the member's port, or that of the first service of the pool.
    pub port: Option<u16>,
    /// Time from the start of a check to the start of the next one; above 0.
    pub interval: Time,
    /// Time within which a reply must arrive; above 0 and at most the interval.
    pub timeout: Time,
    /// Number of consecutive successes after which a failed member is up again; above 0.
    pub rise: u32,
    /// Number of consecutive failures after which a member is down; above 0.
    pub fall: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Check {
    Icmp,
    Tcp,
    // HTTP/1.0 request; statuses from the first to the second one are healthy.
    Http { path: String, statuses: (u16, u16) },
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
                Some("the range of statuses its monitor expects is empty")
            }
            _ => None,
        }
    }
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.len() <= 1000 && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Handling of the connections of a member that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Established {
    /// They stay: the member may recover.
    #[default]
    Keep,
    /// Their next packet goes to another member.
    Move,
    /// Clients receive a TCP reset or, for other protocols, an ICMP error. New connections of the
    /// same client go to another member.
    Reset,
}

/// Response to clients when no member is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Refusal {
    /// Response of a host without the service: TCP reset; for UDP "port unreachable"; for ICMP
    /// "host unreachable".
    #[default]
    Reset,
    Unreachable,
    Drop,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Services {
    pub services: Vec<Service>,
    /// Pools; those that no service uses are not checked.
    pub pools: Vec<Pool>,
}

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
    pub(super) fn of_addressing(mode: net::Addressing) -> ServicesError {
        let name = mode.name();
        let what = format!("virtual services cannot go with addressing = \"{name}\"; they need \"flat\"");
        ServicesError::new(what)
    }
    pub(super) fn of_rules(service: ServiceId, what: &str) -> ServicesError {
        ServicesError { what: format!("service {}: {what}", service.0), rules_of: Some(service) }
    }
    /// Returns the service whose [`Rules`] do not suit its pool, or conflict with another service,
    /// if that is the error.
    pub fn rules_of(&self) -> Option<ServiceId> {
        self.rules_of
    }
}

/// Returns the derived Ethernet address of a virtual address: locally administered, with the
/// address in it.
pub fn mac_of(address: Ipv4Addr) -> MacAddr {
    let [a, b, c, d] = address.octets();
    MacAddr([0x06, 0xa7, a, b, c, d])
}

impl Services {
    /// Checks the configuration; `checker` is the health-check address, if one is configured.
    ///
    /// # Errors
    ///
    /// [`ServicesError`] names the first invalid setting and where it is.
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
                    "pool {}: it has a monitor, but no health-check address is configured",
                    pool.id.0
                ));
            }
        }
        if let Some(service) = self.services.iter().find(|service| Some(service.address) == checker) {
            return fault(format!("service {}: {} is the health-check address", service.id.0, service.address));
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
                let what = "another service has the same address, protocol and port";
                return fault(format!("service {id} ({address} port {}): {what}", service.port));
            }
            if !pools.contains(&service.pool) {
                return fault(format!("service {id}: there is no pool {}", service.pool.0));
            }
            let mac = service.mac();
            if *macs.entry(address).or_insert(mac) != mac {
                return fault(format!("service {id}: another service has {address} with another Ethernet address"));
            }
        }
        self.check_wildcards()?;
        self.check_tunnels()?;
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
    /// Returns the Ethernet address in ARP replies.
    pub fn mac(&self) -> MacAddr {
        self.mac.unwrap_or_else(|| mac_of(self.address))
    }

    fn check(&self) -> Result<(), ServicesError> {
        let fault = |what: &str| Err(ServicesError::new(format!("service {}: {what}", self.id.0)));
        if !is_unicast(self.address) {
            return fault(&format!("{} is not a unicast address", self.address));
        }
        if self.mac.is_some_and(|mac| mac.is_multicast() || mac == MacAddr::default()) {
            return fault("its Ethernet address is not a unicast address");
        }
        match (self.protocol.has_ports(), self.port) {
            (true, 0) => return fault("TCP and UDP need a port above 0"),
            (false, 1..) => return fault("ICMP has no ports: it must be 0"),
            _ => {}
        }
        if self.idle_timeout_s == 0 {
            return fault("its idle timeout must be above 0: rules would never expire");
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
                return fault("another member has its number");
            }
            if !is_unicast(member.address) {
                return fault(&format!("{} is not a unicast address", member.address));
            }
            if member.port == Some(0) {
                return fault("its port must be above 0");
            }
        }
        Ok(())
    }
}
