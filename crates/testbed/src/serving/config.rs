//! Services and pools as the controller's configuration file has them.

use std::fmt::Write as _;

use balance::Spec;
use experiment::world::VirtualService;
use net::address;

use super::{Kind, Plan, data_ports};

/// The balancer that table of services is for.
const TABLE: &str = "malob";

/// The tables `[services.NAME]` and `[pools.NAME]`; `picker` is the balancer of every pool.
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
        if plan.kind(service) == Kind::Files {
            data_tables(&mut text, plan, number, &of_port(picker, service.port));
        }
    }
    text
}

/// Names of all pools.
pub fn pools(plan: &Plan<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (number, service) in plan.services.services.iter().enumerate() {
        names.push(format!("pool{}", service.pool));
        if plan.kind(service) == Kind::Files {
            names.extend(plan.members(service).map(|(server, _)| data_pool(number, server)));
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Ports of data connections: whoever connects to one of a member's gets this member, over a path picked as for the service.
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

/// What picks for a port: of a table of services its algorithm, since the ports of data connections are not in it.
fn of_port(picker: &Spec, port: u16) -> String {
    match picker.entry.name == TABLE {
        true => picker.params.services("services").of(port).label(),
        false => picker.label(),
    }
}

fn service_table(text: &mut String, name: &str, service: &VirtualService, port: u16, pool: &str) {
    let _ = write!(
        text,
        "\n# {}\n[services.{name}]\naddress = \"{}\"\nport = {port}\npool = \"{pool}\"\nidle_timeout_s = {}\n",
        service.name.replace('\n', " "),
        service.address,
        service.idle_timeout_s
    );
}

fn pool_table(text: &mut String, name: &str, picker: &str, members: &str) {
    let _ = write!(text, "\n[pools.{name}]\nbalancer = \"{picker}\"\nmembers = [{members}]\n");
}

/// Members in the order of the file, which is that of their names too: it decides ties. For data connections only one, and every port is
/// the one that was asked for.
fn members(plan: &Plan<'_>, service: &VirtualService, only: Option<usize>) -> String {
    let wanted = |(server, _): &(usize, _)| only.is_none_or(|only| only == *server);
    let member = |(server, config): (usize, &experiment::world::ServerConfig)| {
        let address = address::host_ipv4(config.host);
        let port = match service.member_port.filter(|_| only.is_none()) {
            Some(port) => format!(", port = {port}"),
            None => String::new(),
        };
        format!("{{ name = \"server{server:04}\", address = \"{address}\"{port}, weight = {} }}", config.weight)
    };
    plan.members(service).filter(wanted).map(member).collect::<Vec<_>>().join(", ")
}
