//! Tables of services and pools for the controller's configuration file.

use std::fmt::Write as _;

use balance::Spec;
use experiment::runner::VirtualService;
use net::address;

use super::{Plan, ServerKind, data_ports};

const TABLE: &str = "malob";

/// Returns the tables `[services.NAME]` and `[pools.NAME]`; `picker` is the balancer of every pool.
pub fn tables(plan: &Plan<'_>, picker: &Spec) -> String {
    let mut text = String::new();
    let mut pools = Vec::new();
    for (number, service) in plan.services.services.iter().enumerate() {
        let pool = format!("pool{}", service.pool);
        service_table(&mut text, &format!("service{number}"), service, service.port, &pool);
        if !pools.contains(&service.pool) {
            pools.push(service.pool);
            pool_table(&mut text, &pool, &picker.label(), &members(plan, service, None));
        }
        if plan.kind(service) == ServerKind::Ftp {
            data_tables(&mut text, plan, number, &of_port(picker, service.port));
        }
    }
    text
}

pub fn pools(plan: &Plan<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (number, service) in plan.services.services.iter().enumerate() {
        names.push(format!("pool{}", service.pool));
        if plan.kind(service) == ServerKind::Ftp {
            names.extend(plan.members(service).map(|(server, _)| data_pool(number, server)));
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Adds a service per data port. A connection to a data port of a member goes to this member, over
/// a path chosen as for the service.
fn data_tables(text: &mut String, plan: &Plan<'_>, number: usize, picker: &str) {
    let service = &plan.services.services[number];
    for (server, _) in plan.members(service) {
        let pool = data_pool(number, server);
        for port in data_ports(server) {
            service_table(text, &format!("{pool}-{port}"), service, port as u16, &pool);
        }
        pool_table(text, &pool, picker, &members(plan, service, Some(server)));
    }
}

fn data_pool(service: usize, server: usize) -> String {
    format!("data{service}-{server}")
}

/// Returns the balancer of a port. The table of services lacks data ports, so the algorithm of the
/// service's port is used.
fn of_port(picker: &Spec, port: u16) -> String {
    if picker.entry.name == TABLE { picker.params.services("services").of(port).label() } else { picker.label() }
}

fn service_table(text: &mut String, name: &str, service: &VirtualService, port: u16, pool: &str) {
    let _ = write!(
        text,
        "\n# {}\n[services.{name}]\naddress = \"{}\"\nport = {port}\npool = \"{pool}\"\nidle_timeout_s = {}\n",
        service.name.replace('\n', " "),
        service.address,
        service.idle_timeout_s
    );
    let Some(slots) = service.buckets else { return };
    let _ = match service.mux_traffic {
        None => writeln!(text, "rules = \"wildcard\"\nclient_slots = {slots}"),
        Some(traffic) => {
            let mbps = traffic.as_bps().div_ceil(1_000_000);
            writeln!(text, "rules = \"mux\"\nclient_slots = {slots}\nexpected_mbps = {mbps}")
        }
    };
}

fn pool_table(text: &mut String, name: &str, picker: &str, members: &str) {
    let _ = write!(text, "\n[pools.{name}]\nbalancer = \"{picker}\"\nmembers = [{members}]\n");
}

/// Returns the members in the order of the file, which is the order of their names and decides
/// ties. A data pool has one member (`only`) and keeps the requested port.
fn members(plan: &Plan<'_>, service: &VirtualService, only: Option<usize>) -> String {
    let wanted = |(server, _): &(usize, _)| only.is_none_or(|only| only == *server);
    let member = |(server, config): (usize, &experiment::runner::ServerConfig)| {
        let address = address::host_ipv4(config.host);
        let port = service.member_port.filter(|_| only.is_none());
        let port = port.map_or_else(String::new, |port| format!(", port = {port}"));
        format!("{{ name = \"server{server:04}\", address = \"{address}\"{port}, weight = {} }}", config.weight)
    };
    plan.members(service).filter(wanted).map(member).collect::<Vec<_>>().join(", ")
}
