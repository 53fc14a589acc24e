//! Checks of experiments with services that run on emulated networks.

use std::collections::BTreeMap;

use experiment::input::{RequestClient, RuleSource, TestbedConfig, Variant};
use experiment::runner::{RequestClass, ServerConfig, ServicesConfig, TransportKind};
use net::Time;

use super::{Plan, ServerKind, data_ports};
use crate::error::{Result, not_here};
use crate::run::checks::{check_congestion_control, refuse_if};

/// Maximum bytes of a page request: nginx reads heads of this size.
const HEAD_MAX: u64 = 4096;

/// Share of the processors without the switches' one that compute servers may use; clients,
/// controller and other servers need the rest.
const ROOM: f64 = 0.8;

/// Returns the programs that members and clients of a variant run, with their Debian packages.
pub fn tools(variant: &Variant) -> Vec<(&'static str, &'static str)> {
    let Some(services) = &variant.config.services else { return Vec::new() };
    let plan = Plan { services, testbed: &variant.testbed };
    let has = |kind| services.services.iter().any(|service| plan.kind(service) == kind);
    let all = [
        (has(ServerKind::Http), ("nginx", "nginx-light")),
        (has(ServerKind::Ftp), ("vsftpd", "vsftpd")),
        (variant.testbed.request_client == RequestClient::Wget, ("wget", "wget")),
    ];
    all.into_iter().filter_map(|(is_needed, tool)| is_needed.then_some(tool)).collect()
}

/// Returns an error if the services of a variant cannot run on an emulated network.
pub fn check(variant: &Variant) -> Result<()> {
    check_switches(variant)?;
    let Some(services) = &variant.config.services else { return Ok(()) };
    let plan = Plan { services, testbed: &variant.testbed };
    let is_static = variant.testbed.rules == RuleSource::Static;
    refuse_if(is_static, "testbed.rules", "virtual services need a controller; leave out \"static\"")?;
    let is_cubic = matches!(variant.config.transport.kind, TransportKind::Cubic(_));
    refuse_if(!is_cubic, "transport.kind", "servers and clients support only \"cubic\"")?;
    check_congestion_control("cubic")?;
    check_names(services, "testbed.ftp", variant.testbed.ftp.as_deref().unwrap_or_default())?;
    check_names(services, "testbed.compute", &variant.testbed.compute)?;
    check_instances(&plan)?;
    let is_tunnelled = services.services.iter().any(|service| service.is_tunnelled);
    let reason = "switches cannot add an outer IP header, for which OpenFlow has no action; use \"rewrite\"";
    refuse_if(is_tunnelled, "service.forwarding", reason)?;
    for class in &services.classes {
        check_class(&plan, class)?;
    }
    check_content(&plan, &variant.testbed)?;
    check_cores(&plan)
}

fn check_switches(variant: &Variant) -> Result<()> {
    let control = &variant.config.control;
    let reason = "counters of Open vSwitch are never stale; set control.poll_interval instead, the time for which the controller uses one sample";
    refuse_if(control.stats_refresh != Time::ZERO, "control.stats_refresh", reason)?;
    let reason = "Open vSwitch has no limit of packets per second for all ports together; set the rate of the links that all packets cross instead";
    refuse_if(control.packets_per_s.is_some(), "control.packets_per_s", reason)
}

fn check_names(services: &ServicesConfig, key: &str, names: &[String]) -> Result<()> {
    let is_known = |name: &&String| services.services.iter().any(|service| service.name == **name);
    let unknown = names.iter().find(|name| !is_known(name));
    unknown.map_or(Ok(()), |name| Err(not_here(key, format!("there is no service `{name}`"))))
}

fn check_instances(plan: &Plan<'_>) -> Result<()> {
    let mut kinds: BTreeMap<(usize, u16), ServerKind> = BTreeMap::new();
    for service in &plan.services.services {
        let (kind, port) = (plan.kind(service), service.member_port.unwrap_or(service.port));
        for (server, config) in plan.members(service) {
            if data_ports(server).end > 65_536 && kind == ServerKind::Ftp {
                return Err(not_here("server", format!("there are FTP data ports for only {server} servers")));
            }
            if *kinds.entry((server, port)).or_insert(kind) != kind {
                let reason = format!("two services of different kinds use port {port} of host {}", config.host.0);
                return Err(not_here("service.port", reason));
            }
        }
    }
    Ok(())
}

fn check_content(plan: &Plan<'_>, testbed: &TestbedConfig) -> Result<()> {
    let mut by_content = plan.services.services.iter().filter(|service| service.content.is_some());
    let Some(first) = by_content.clone().next() else { return Ok(()) };
    let is_wget = testbed.request_client == RequestClient::Wget;
    let reason = format!("front ends of `{}` need the built-in client", first.name);
    refuse_if(is_wget, "testbed.request_client", reason)?;
    let ftp = by_content.find(|service| plan.kind(service) == ServerKind::Ftp);
    let name = ftp.map_or("", |service| service.name.as_str());
    refuse_if(ftp.is_some(), "service.forwarding", format!("`{name}` is FTP, which front ends cannot read"))
}

fn check_class(plan: &Plan<'_>, class: &RequestClass) -> Result<()> {
    let kind = plan.kind_of_class(class);
    let (bytes, name) = (class.request_bytes, &class.name);
    let reason = format!(
        "{bytes} bytes are too long for a page request (`{name}`): nginx reads {HEAD_MAX}; list the service in testbed.compute to submit more"
    );
    refuse_if(kind == ServerKind::Http && bytes > HEAD_MAX, "requests.request_size", reason)?;
    let reason = format!("is missing, but `{}` is a compute service", class.name);
    refuse_if(kind == ServerKind::Compute && class.cpu == Time::ZERO, "requests.cpu_time", reason)
}

fn check_cores(plan: &Plan<'_>) -> Result<()> {
    let works = |server: usize| {
        plan.instances().iter().any(|instance| instance.server == server && instance.kind == ServerKind::Compute)
    };
    let servers = plan.services.servers.iter().enumerate();
    let speed = |(_, config): (usize, &ServerConfig)| f64::from(config.cores) * config.speed;
    let cores: f64 = servers.filter(|(server, _)| works(*server)).map(speed).sum();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // With several processors, one belongs to the switches.
    let free = processors.saturating_sub(1).max(1) as f64 * ROOM;
    if cores * plan.testbed.core_share > free {
        let most = (free / cores * 1000.0).floor() / 1000.0;
        let reason = format!(
            "{cores} cores of {} processors each exceed the free processors of this machine ({free:.1}); set it to at most {most}",
            plan.testbed.core_share
        );
        return Err(not_here("testbed.core_share", reason));
    }
    Ok(())
}
