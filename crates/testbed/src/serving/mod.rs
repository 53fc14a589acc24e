//! Runs whose flows are requests to services: real servers on the hosts of `[[server]]`, agents beside them, and clients.
//!
//! | service | its members run | a request is |
//! | --- | --- | --- |
//! | of pages | nginx | a page (HTTP) over a connection of its own |
//! | of files | vsftpd | a file (FTP, passive): a control connection, and a data connection |
//! | of jobs | `anabranch testbed jobs` | work handed in, computed, and answered |
//!
//! FTP's data connection goes to another port, which the server names, and has to reach the server of the control connection: each
//! member's ports of that kind are its own, and each is a service with this member alone.

mod asking;
pub mod check;
pub mod config;
pub mod programs;
mod record;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use experiment::file::TestbedConfig;
use experiment::world::{RequestClass, Scenario, ServerConfig, ServicesConfig, VirtualService};
use net::address;

use crate::beside::Beside;
use crate::error::TestbedError;
use crate::live::Live;
use crate::plan::host_name;
use crate::traffic::Span;

pub use programs::Programs;
pub use record::Served;

/// Data connections of FTP: first port, and how many ports each server has, so that as many transfers may begin at the same moment.
const DATA_PORT: u32 = 61_000;
const DATA_PORTS: u32 = 8;

/// What the members of a service run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx.
    Pages,
    /// vsftpd.
    Files,
    /// A program that computes.
    Jobs,
}

/// A place where a program serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// What runs there.
    pub kind: Kind,
    /// Position of the server.
    pub server: usize,
    /// Where it listens.
    pub at: SocketAddrV4,
    /// Positions of the services it is a member of.
    pub services: Vec<usize>,
}

/// The services of a run, and how they are made real.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// As the file has them.
    pub services: &'a ServicesConfig,
    /// The section `[testbed]`.
    pub testbed: &'a TestbedConfig,
}

impl Plan<'_> {
    /// What the members of a service run.
    pub fn kind(&self, service: &VirtualService) -> Kind {
        let is_named = |list: &[String]| list.contains(&service.name);
        let is_ftp = self.testbed.ftp.as_deref().map_or(service.port == 21, is_named);
        match () {
            () if is_named(&self.testbed.jobs) => Kind::Jobs,
            () if is_ftp => Kind::Files,
            () => Kind::Pages,
        }
    }

    /// The service of a class, by its position, and what its members run.
    pub fn kind_of_class(&self, class: &RequestClass) -> Kind {
        self.kind(&self.services.services[class.service as usize])
    }

    /// All places where programs serve, by server and port.
    pub fn seats(&self) -> Vec<Seat> {
        let mut seats: BTreeMap<(usize, u16), Seat> = BTreeMap::new();
        for (number, service) in self.services.services.iter().enumerate() {
            let port = service.member_port.unwrap_or(service.port);
            for (server, config) in self.members(service) {
                let at = SocketAddrV4::new(address::host_ipv4(config.host), port);
                let new = || Seat { kind: self.kind(service), server, at, services: Vec::new() };
                seats.entry((server, port)).or_insert_with(new).services.push(number);
            }
        }
        seats.into_values().collect()
    }

    /// The members of a service, with their positions among the servers.
    pub fn members<'b>(&'b self, service: &'b VirtualService) -> impl Iterator<Item = (usize, &'b ServerConfig)> {
        self.services.servers.iter().enumerate().filter(move |(_, server)| service.members.contains(&server.host))
    }

    /// The server that calls itself so.
    pub fn server_named(&self, name: &str) -> Option<usize> {
        self.services.servers.iter().position(|server| host_name(server.host) == name)
    }
}

/// Makes the requests of a run, and puts together what came of them.
///
/// # Errors
/// A program ended by itself, or the run is to be abandoned.
pub fn run(
    live: &mut Live,
    plan: &Plan<'_>,
    programs: &Programs,
    scenario: &Scenario<'_>,
    span: Span,
    beside: &mut Beside<'_>,
) -> Result<Served, TestbedError> {
    let before = programs.core_s(plan);
    let requests = asking::ask(live, plan, programs, scenario, span, beside)?;
    let busy: Vec<f64> = programs.core_s(plan).iter().zip(before).map(|(after, before)| after - before).collect();
    Ok(record::served(plan, scenario, &requests, &busy))
}

/// Ports of a server's data connections.
pub fn data_ports(server: usize) -> std::ops::Range<u32> {
    let first = DATA_PORT + server as u32 * DATA_PORTS;
    first..first + DATA_PORTS
}

/// The file or page of a class.
pub fn page_name(class: usize) -> String {
    format!("class{class}")
}

#[cfg(test)]
mod tests;
