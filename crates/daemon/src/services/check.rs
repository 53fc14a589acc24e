//! Checks that all desired services and pools are consistent. An error names the field.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use balance::{Build, Spec};
use control::vip;
use openflow::MacAddr;

use super::spec::{Mac, MemberSpec, Name, PoolSpec, Protocol, ServiceSpec};
use super::{Desired, FieldError, require};

/// The changed object. Of two conflicting definitions, the changed one is reported.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ErrorScope<'a> {
    Service(&'a Name),
    Pool(&'a Name),
    All,
}

impl ErrorScope<'_> {
    fn relative(self, fault: FieldError) -> FieldError {
        let part = match self {
            ErrorScope::Service(name) => format!("services.{name}"),
            ErrorScope::Pool(name) => format!("pools.{name}"),
            ErrorScope::All => return fault,
        };
        fault.relative_to(&part)
    }
}

fn require_station(address: Ipv4Addr) -> Result<(), FieldError> {
    let is_other =
        address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback();
    require(!is_other, "address", format_args!("{address} is not the address of one host"))
}

/// Addresses of virtual services with the Ethernet address that is set first.
#[derive(Default)]
struct Virtual {
    places: BTreeSet<(Ipv4Addr, u8, u16)>,
    macs: BTreeMap<Ipv4Addr, MacAddr>,
}

impl Desired {
    /// Checks all definitions; `checker` is the health-check address.
    pub(crate) fn check(&self, checker: Option<Ipv4Addr>, focus: ErrorScope<'_>) -> Result<(), FieldError> {
        self.check_all(checker, focus).map_err(|fault| focus.relative(fault))
    }

    fn check_all(&self, checker: Option<Ipv4Addr>, focus: ErrorScope<'_>) -> Result<(), FieldError> {
        for (name, pool) in &self.pools {
            check_pool(&pool.spec, checker).map_err(|fault| fault.within(format!("pools.{name}")))?;
        }
        let mut seen = Virtual::default();
        // The changed service comes last, so that conflicts are reported for it.
        let is_last = |name: &Name| matches!(focus, ErrorScope::Service(last) if last == name);
        let (others, last): (Vec<_>, Vec<_>) = self.services.iter().partition(|(name, _)| !is_last(name));
        for (name, service) in others.into_iter().chain(last) {
            self.check_service(&service.spec, checker, &mut seen)
                .map_err(|fault| fault.within(format!("services.{name}")))?;
        }
        self.check_members(&seen, focus)?;
        // The controller makes the final check. The checks above report its errors by field.
        self.compile().check(checker).map_err(|error| {
            let at_fault = error.rules_of().and_then(|id| self.services.iter().find(|(_, one)| one.id == id.0));
            let field = at_fault.map_or_else(String::new, |(name, _)| format!("services.{name}.rules"));
            FieldError::new(field, error.to_string())
        })
    }

    fn check_service(
        &self,
        spec: &ServiceSpec,
        checker: Option<Ipv4Addr>,
        seen: &mut Virtual,
    ) -> Result<(), FieldError> {
        let address = spec.address;
        require_station(address)?;
        require(Some(address) != checker, "address", format_args!("{address} is the health-check address"))?;
        let is_icmp = spec.protocol == Protocol::Icmp;
        require(!is_icmp || spec.port == 0, "port", "ICMP has no ports: omit it")?;
        require(is_icmp || spec.port > 0, "port", "TCP and UDP need a port above 0")?;
        let message = "must be above 0: otherwise connections never expire";
        require(spec.idle_timeout_s > 0, "idle_timeout_s", message)?;
        let is_possible = vip::BUCKETS.contains(&spec.client_slots) && spec.client_slots.is_power_of_two();
        let (least, most) = (vip::BUCKETS.start(), vip::BUCKETS.end());
        require(is_possible, "client_slots", format_args!("must be a power of two from {least} to {most}"))?;
        require(spec.expected_mbps > 0, "expected_mbps", "must be above 0")?;
        let is_station = |mac: Mac| !mac.0.is_multicast() && mac.0 != MacAddr::default();
        require(spec.mac.is_none_or(is_station), "mac", "is not the address of one host")?;
        if let Some(pool) = &spec.pool {
            require(self.pools.contains_key(pool), "pool", format_args!("unknown pool `{pool}`"))?;
        }
        let protocol = vip::Protocol::from(spec.protocol);
        let is_free = seen.places.insert((address, protocol.number(), spec.port));
        let message = format_args!("another service uses {address} with this protocol and port");
        require(is_free, if is_icmp { "address" } else { "port" }, message)?;
        let mac = spec.mac.map_or_else(|| vip::mac_of(address), |mac| mac.0);
        let first = *seen.macs.entry(address).or_insert(mac);
        require(first == mac, "mac", format_args!("another service of {address} sends ARP replies with {first}"))
    }

    fn check_members(&self, seen: &Virtual, focus: ErrorScope<'_>) -> Result<(), FieldError> {
        let changed = match focus {
            ErrorScope::Service(name) => self.services.get(name).map(|service| (name, service.spec.address)),
            _ => None,
        };
        for (name, pool) in &self.pools {
            let addresses = pool.spec.members.iter().map(|member| member.spec().address);
            let Some((ix, address)) = addresses.enumerate().find(|(_, address)| seen.macs.contains_key(address)) else {
                continue;
            };
            let (field, message) = match changed.filter(|(_, at)| *at == address) {
                Some((service, _)) => (
                    format!("services.{service}.address"),
                    format!("{address} is the address of a member of pool `{name}`"),
                ),
                None => (
                    format!("pools.{name}.members[{ix}].address"),
                    format!("{address} is the address of a virtual service, which cannot be a member"),
                ),
            };
            return Err(FieldError::new(field, message));
        }
        Ok(())
    }
}

fn check_pool(spec: &PoolSpec, checker: Option<Ipv4Addr>) -> Result<(), FieldError> {
    let balancer = Spec::parse(&spec.balancer).map_err(|error| FieldError::new("balancer", error.to_string()))?;
    let (name, is_server) = (balancer.entry.name, matches!(balancer.entry.build, Build::Server(_)));
    let message = format_args!("`{name}` does not pick servers; use a server balancer such as server-rr");
    require(is_server, "balancer", message)?;
    if let Some(monitor) = &spec.monitor {
        monitor.check().map_err(|fault| fault.within("monitor"))?;
        let message =
            "health checks need a source address: set `health_check_address` of [services] in the configuration";
        require(checker.is_some(), "monitor", message)?;
    }
    let mut names = BTreeSet::new();
    for (ix, member) in spec.members.iter().enumerate() {
        let MemberSpec { address, port, .. } = member.spec();
        let message = format_args!("another member has the name `{}`", member.name);
        require(names.insert(&member.name), "name", message)
            .and_then(|()| require_station(address))
            .and_then(|()| require(port != Some(0), "port", "must be above 0"))
            .map_err(|fault| fault.within(format!("members[{ix}]")))?;
    }
    Ok(())
}
