//! What requests to services may ask of an emulated network.

use std::collections::BTreeMap;

use experiment::file::{Asking, RuleSource, Variant};
use experiment::world::{RequestClass, ServicesConfig, TransportKind};
use net::Time;

use super::{Kind, Plan, data_ports};
use crate::checks::check_law;
use crate::error::{TestbedError, not_here};

/// Most bytes of a request for a page: nginx reads heads of this size.
const HEAD_MAX: u64 = 4096;

/// Share of the processors beside the switches' that jobs may be promised: clients, controller and servers need some too.
const ROOM: f64 = 0.8;

/// Programs that members and clients of a variant run, and the packages that bring them.
pub fn tools(variant: &Variant) -> Vec<(&'static str, &'static str)> {
    let Some(services) = &variant.config.services else { return Vec::new() };
    let plan = Plan { services, testbed: &variant.testbed };
    let has = |kind| services.services.iter().any(|service| plan.kind(service) == kind);
    let all = [
        (has(Kind::Pages), ("nginx", "nginx-light")),
        (has(Kind::Files), ("vsftpd", "vsftpd")),
        (variant.testbed.client == Asking::Wget, ("wget", "wget")),
    ];
    all.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, tool)| tool).collect()
}

/// Refuses what cannot be made real.
///
/// # Errors
/// The first key at fault.
pub fn check(variant: &Variant) -> Result<(), TestbedError> {
    check_switches(variant)?;
    let Some(services) = &variant.config.services else { return Ok(()) };
    let plan = Plan { services, testbed: &variant.testbed };
    if variant.testbed.rules == RuleSource::Static {
        return Err(not_here("testbed.rules", "only a controller has virtual services; leave out \"static\""));
    }
    if !matches!(variant.config.transport.kind, TransportKind::Cubic) {
        let reason = "servers and clients control congestion by \"cubic\"";
        return Err(not_here("transport.kind", reason));
    }
    check_law("cubic")?;
    check_names(services, "testbed.ftp", variant.testbed.ftp.as_deref().unwrap_or_default())?;
    check_names(services, "testbed.jobs", &variant.testbed.jobs)?;
    check_seats(&plan)?;
    for class in &services.classes {
        check_class(&plan, class)?;
    }
    check_cores(&plan)
}

/// What the simulator's switches can be and real ones are not.
fn check_switches(variant: &Variant) -> Result<(), TestbedError> {
    let control = &variant.config.control;
    if control.stats_refresh != Time::ZERO {
        let reason = "counters of Open vSwitch are never old; set control.poll instead, which leaves the controller with \
                      what it read last";
        return Err(not_here("control.stats_refresh", reason));
    }
    if control.packets_per_s.is_some() {
        let reason = "Open vSwitch handles packets as fast as the machine can, and nothing here counts and holds them for all \
                      ports together; give the links that all packets cross the rate that so many of them are";
        return Err(not_here("control.packets_per_s", reason));
    }
    Ok(())
}

fn check_names(services: &ServicesConfig, key: &str, names: &[String]) -> Result<(), TestbedError> {
    let is_known = |name: &&String| services.services.iter().any(|service| service.name == **name);
    match names.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(not_here(key, format!("there is no service `{name}`"))),
    }
}

/// One program at each port of a server.
fn check_seats(plan: &Plan<'_>) -> Result<(), TestbedError> {
    let mut kinds: BTreeMap<(usize, u16), Kind> = BTreeMap::new();
    for service in &plan.services.services {
        let (kind, port) = (plan.kind(service), service.member_port.unwrap_or(service.port));
        for (server, config) in plan.members(service) {
            if data_ports(server).end > 65_536 && kind == Kind::Files {
                return Err(not_here("server", format!("there are ports for data of FTP for {server} servers only")));
            }
            if *kinds.entry((server, port)).or_insert(kind) != kind {
                let reason = format!("two services of different kinds are at port {port} of host {}", config.host.0);
                return Err(not_here("service.port", reason));
            }
        }
    }
    Ok(())
}

fn check_class(plan: &Plan<'_>, class: &RequestClass) -> Result<(), TestbedError> {
    let kind = plan.kind_of_class(class);
    if kind == Kind::Pages && class.request_bytes > HEAD_MAX {
        let reason = format!(
            "{} bytes are too long for a request for a page (`{}`), of which nginx reads {HEAD_MAX}; work is handed in \
             to services in testbed.jobs",
            class.request_bytes, class.name
        );
        return Err(not_here("requests.request", reason));
    }
    if kind == Kind::Jobs && class.cpu == Time::ZERO {
        return Err(not_here("requests.cpu", format!("is missing: `{}` is a service of jobs", class.name)));
    }
    Ok(())
}

fn check_cores(plan: &Plan<'_>) -> Result<(), TestbedError> {
    let works = |server: usize| plan.seats().iter().any(|seat| seat.server == server && seat.kind == Kind::Jobs);
    let servers = plan.services.servers.iter().enumerate();
    let cores: u32 = servers.filter(|(server, _)| works(*server)).map(|(_, config)| config.cores).sum();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // One is the switches' where there are several.
    let free = processors.saturating_sub(1).max(1) as f64 * ROOM;
    if f64::from(cores) * plan.testbed.core > free {
        let most = (free / f64::from(cores) * 1000.0).floor() / 1000.0;
        let reason = format!(
            "{cores} cores of {} processors each are more than this machine has to give ({free:.1}); set it to at most {most}",
            plan.testbed.core
        );
        return Err(not_here("testbed.core", reason));
    }
    Ok(())
}
