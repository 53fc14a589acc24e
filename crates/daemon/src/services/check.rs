//! Whether all that is wanted can be done together; what cannot is named by its field.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use balance::{Build, Spec};
use control::vip;
use openflow::MacAddr;

use super::spec::{Name, PoolSpec, Protocol, ServiceSpec};
use super::{Desired, Fault};

/// What was changed: of two that do not go together, that one is wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Focus<'a> {
    /// A service.
    Service(&'a Name),
    /// A pool.
    Pool(&'a Name),
    /// Everything.
    All,
}

impl Focus<'_> {
    /// The fault with its field as whoever changed this sees it.
    fn seen(self, fault: Fault) -> Fault {
        let part = match self {
            Focus::Service(name) => format!("services.{name}"),
            Focus::Pool(name) => format!("pools.{name}"),
            Focus::All => return fault,
        };
        let rest = fault.field.strip_prefix(&part).map(|rest| rest.trim_start_matches('.').to_owned());
        Fault { field: rest.unwrap_or(fault.field), ..fault }
    }
}

fn is_station(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback())
}

fn no_station(address: Ipv4Addr) -> Fault {
    Fault::at("address", format!("{address} is not the address of one host"))
}

/// Addresses of virtual services, with what each was given first.
#[derive(Default)]
struct Virtual {
    places: BTreeSet<(Ipv4Addr, u8, u16)>,
    macs: BTreeMap<Ipv4Addr, MacAddr>,
}

impl Desired {
    /// Whether all of it can be done; `checker` is the address health checks come from.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn check(&self, checker: Option<Ipv4Addr>, focus: Focus<'_>) -> Result<(), Fault> {
        self.check_all(checker, focus).map_err(|fault| focus.seen(fault))
    }

    fn check_all(&self, checker: Option<Ipv4Addr>, focus: Focus<'_>) -> Result<(), Fault> {
        for (name, pool) in &self.pools {
            check_pool(&pool.spec, checker).map_err(|fault| fault.within(format!("pools.{name}")))?;
        }
        let mut seen = Virtual::default();
        // What was changed comes last: it is what does not go with the others.
        let is_last = |name: &Name| matches!(focus, Focus::Service(last) if last == name);
        let (others, last): (Vec<_>, Vec<_>) = self.services.iter().partition(|(name, _)| !is_last(name));
        for (name, service) in others.into_iter().chain(last) {
            self.check_service(&service.spec, checker, &mut seen)
                .map_err(|fault| fault.within(format!("services.{name}")))?;
        }
        self.check_members(&seen, focus)?;
        // The controller has the last word; what it says is said here first, by field.
        self.compile().check(checker).map_err(|error| {
            let at_fault = error.rules_of().and_then(|id| self.services.iter().find(|(_, one)| one.number == id.0));
            let field = at_fault.map_or_else(String::new, |(name, _)| format!("services.{name}.rules"));
            Fault::at(field, error.to_string())
        })
    }

    fn check_service(&self, spec: &ServiceSpec, checker: Option<Ipv4Addr>, seen: &mut Virtual) -> Result<(), Fault> {
        let address = spec.address;
        if !is_station(address) {
            return Err(no_station(address));
        }
        if Some(address) == checker {
            return Err(Fault::at("address", format!("{address} is where health checks come from")));
        }
        match (spec.protocol, spec.port) {
            (Protocol::Icmp, 1..) => return Err(Fault::at("port", "ICMP has no ports: leave it out")),
            (Protocol::Tcp | Protocol::Udp, 0) => return Err(Fault::at("port", "TCP and UDP need a port above 0")),
            _ => {}
        }
        if spec.idle_timeout_s == 0 {
            return Err(Fault::at("idle_timeout_s", "must be above 0: connections would stay for ever"));
        }
        if !vip::BUCKETS.contains(&spec.buckets) || !spec.buckets.is_power_of_two() {
            let (least, most) = (vip::BUCKETS.start(), vip::BUCKETS.end());
            return Err(Fault::at("buckets", format!("must be a power of two from {least} to {most}")));
        }
        if spec.mac.is_some_and(|mac| mac.0.is_multicast() || mac.0 == MacAddr::default()) {
            return Err(Fault::at("mac", "is not the address of one host"));
        }
        if let Some(pool) = spec.pool.as_ref().filter(|pool| !self.pools.contains_key(pool)) {
            return Err(Fault::at("pool", format!("there is no pool `{pool}`")));
        }
        let protocol = vip::Protocol::from(spec.protocol);
        if !seen.places.insert((address, protocol.number(), spec.port)) {
            let field = if spec.protocol == Protocol::Icmp { "address" } else { "port" };
            return Err(Fault::at(field, format!("another service has {address}, this protocol and port")));
        }
        let mac = spec.mac.map_or_else(|| vip::mac_of(address), |mac| mac.0);
        let first = *seen.macs.entry(address).or_insert(mac);
        if first != mac {
            return Err(Fault::at("mac", format!("another service of {address} answers ARP with {first}")));
        }
        Ok(())
    }

    fn check_members(&self, seen: &Virtual, focus: Focus<'_>) -> Result<(), Fault> {
        let is_virtual = |address: &Ipv4Addr| seen.macs.contains_key(address);
        for (name, pool) in &self.pools {
            let members = pool.spec.members.iter().enumerate();
            for (ix, address) in members.map(|(ix, member)| (ix, member.spec().address)) {
                if !is_virtual(&address) {
                    continue;
                }
                let service = match focus {
                    Focus::Service(service) => self.services.get(service).map(|found| (service, found.spec.address)),
                    _ => None,
                };
                return Err(match service.filter(|(_, at)| *at == address) {
                    Some((service, _)) => {
                        let words = format!("{address} is the address of a member of pool `{name}`");
                        Fault::at(format!("services.{service}.address"), words)
                    }
                    None => {
                        let words =
                            format!("{address} is the address of a virtual service, which cannot serve another");
                        Fault::at(format!("pools.{name}.members[{ix}].address"), words)
                    }
                });
            }
        }
        Ok(())
    }
}

fn check_pool(spec: &PoolSpec, checker: Option<Ipv4Addr>) -> Result<(), Fault> {
    let balancer = Spec::parse(&spec.balancer).map_err(|error| Fault::at("balancer", error.to_string()))?;
    if !matches!(balancer.entry.build, Build::Server(_)) {
        let words = format!("`{}` does not pick servers; server-rr, for one, does", balancer.entry.name);
        return Err(Fault::at("balancer", words));
    }
    if let Some(monitor) = &spec.monitor {
        monitor.check().map_err(|fault| fault.within("monitor"))?;
        if checker.is_none() {
            let words = "health checks need an address of their own: set `checker` of [services] in the configuration";
            return Err(Fault::at("monitor", words));
        }
    }
    let mut names = BTreeSet::new();
    for (ix, member) in spec.members.iter().enumerate() {
        let part = format!("members[{ix}]");
        if !names.insert(&member.name) {
            return Err(Fault::at("name", format!("another member is `{}`", member.name)).within(part));
        }
        let member = member.spec();
        if !is_station(member.address) {
            return Err(no_station(member.address).within(part));
        }
        if member.port == Some(0) {
            return Err(Fault::at("port", "must be above 0").within(part));
        }
    }
    Ok(())
}
