//! Runs whose flows are requests: real servers on the hosts of `[[server]]`, their agents, and
//! clients.
//!
//! | service | program of the members | request |
//! | --- | --- | --- |
//! | pages | nginx | an HTTP page over a separate connection |
//! | files | vsftpd | a file by passive FTP: a control connection and a data connection |
//! | compute | `anabranch testbed jobs` | a job that is submitted, computed and answered |
//! | any, by content | `anabranch testbed front-end` before the members | a page or a job, relayed or redirected |
//!
//! The data connection of FTP goes to another port, which the server names, and must reach the
//! server of the control connection. Each member therefore has separate data ports, and each of
//! those is a service with this member alone.

pub mod check;
mod clients;
pub mod config;
mod content;
pub mod programs;
mod record;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use experiment::input::TestbedConfig;
use experiment::runner::{RequestClass, ServerConfig, ServicesConfig, VirtualService};
use net::address;

use crate::error::Result;
use crate::network::plan::host_name;
use crate::run::active_run::ActiveRun;

pub use programs::Programs;
pub use record::Served;

/// Data connections of FTP: first port, and ports per server, which limit the transfers that start
/// at the same time.
const DATA_PORT: u32 = 61_000;
const DATA_PORTS: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    Http,
    Ftp,
    Compute,
    FrontEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInstance {
    pub kind: ServerKind,
    pub server: usize,
    pub at: SocketAddrV4,
    pub services: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    pub services: &'a ServicesConfig,
    pub testbed: &'a TestbedConfig,
}

impl Plan<'_> {
    /// Returns the kind of program that the members of a service run.
    pub fn kind(&self, service: &VirtualService) -> ServerKind {
        let is_named = |list: &[String]| list.contains(&service.name);
        let is_ftp = self.testbed.ftp.as_deref().map_or(service.port == 21, is_named);
        match () {
            () if is_named(&self.testbed.compute) => ServerKind::Compute,
            () if is_ftp => ServerKind::Ftp,
            () => ServerKind::Http,
        }
    }

    /// Returns how much of a processor makes one core of a server, for its programs of `kind`.
    ///
    /// Only compute programs run at the server's configured speed; the others have a whole processor.
    pub fn core_of(&self, server: usize, kind: ServerKind) -> f64 {
        if kind == ServerKind::Compute { self.testbed.core_share * self.services.servers[server].speed } else { 1.0 }
    }

    pub fn kind_of_class(&self, class: &RequestClass) -> ServerKind {
        self.kind(&self.services.services[class.service as usize])
    }

    pub fn instances(&self) -> Vec<ServerInstance> {
        let mut instances: BTreeMap<(usize, u16), ServerInstance> = BTreeMap::new();
        for (number, service) in self.services.services.iter().enumerate() {
            let port = service.member_port.unwrap_or(service.port);
            let serving = self.serving(service).map(|(server, config)| (server, config, self.kind(service)));
            let fronts = self.members(service).filter(|_| service.content.is_some());
            let fronts = fronts.map(|(server, config)| (server, config, ServerKind::FrontEnd));
            for (server, config, kind) in serving.chain(fronts) {
                let at = SocketAddrV4::new(address::host_ipv4(config.host), port);
                let new = || ServerInstance { kind, server, at, services: Vec::new() };
                instances.entry((server, port)).or_insert_with(new).services.push(number);
            }
        }
        instances.into_values().collect()
    }

    /// Returns the members of a service with their positions among the servers.
    pub fn members<'b>(&'b self, service: &'b VirtualService) -> impl Iterator<Item = (usize, &'b ServerConfig)> {
        self.services.servers.iter().enumerate().filter(move |(_, server)| service.members.contains(&server.host))
    }

    /// Returns the servers of the pages of a service: its members, or those behind its front ends.
    pub fn serving<'b>(&'b self, service: &'b VirtualService) -> impl Iterator<Item = (usize, &'b ServerConfig)> {
        let is_behind = |host| {
            let rules = service.content.iter().flat_map(|content| &content.rules);
            rules.flat_map(|rule| &rule.members).any(|member| *member == host)
        };
        let all = self.services.servers.iter().enumerate();
        all.filter(move |(_, server)| match service.content {
            None => service.members.contains(&server.host),
            Some(_) => is_behind(server.host),
        })
    }

    pub fn server_named(&self, name: &str) -> Option<usize> {
        self.services.servers.iter().position(|server| host_name(server.host) == name)
    }
}

pub fn run(run: &mut ActiveRun<'_, '_>, plan: &Plan<'_>, programs: &Programs) -> Result<Served> {
    let before = programs.core_s(plan);
    let requests = clients::run_requests(run, plan, programs)?;
    let busy: Vec<f64> = programs.core_s(plan).iter().zip(before).map(|(after, before)| after - before).collect();
    Ok(record::served(plan, run.scenario, &requests, &busy))
}

pub fn data_ports(server: usize) -> std::ops::Range<u32> {
    let first = DATA_PORT + server as u32 * DATA_PORTS;
    first..first + DATA_PORTS
}

/// Returns the path of the pages of a class, without the first slash.
pub fn page_name(number: usize, class: &RequestClass) -> String {
    let folder = class.path.trim_matches('/');
    if folder.is_empty() { format!("class{number}") } else { format!("{folder}/class{number}") }
}

#[cfg(test)]
mod tests;
