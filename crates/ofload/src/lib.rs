//! Emulated switches that load an OpenFlow 1.3 controller and measure its responses.
//!
//! The switches connect to any controller by TCP. Their protocol is that of the strict `switch`
//! crate: handshake, roles, groups, statistics, barriers and errors. Packet-ins are written from a
//! template, and responses are recognised by the lengths in their headers (`probe.rs`, `scan.rs`),
//! so that the generator is not the bottleneck.
//!
//! In a run all switches connect and finish the handshake. Every host sends two gratuitous ARP
//! requests. After a pause of one second, loops follow in which each packet-in is the first packet
//! of a new flow. A packet-in is answered if the response with its number arrives within the
//! response timeout. Duplicates, late responses, errors and lost connections are counted
//! separately. The loops of controllers measured together alternate ([`measure::measure`]).
//!
//! One thread drives everything with one poll, and nothing lies between a socket and the clock.

#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    reason = "only the program's own crates use this one; schema types of the API are documented for OpenAPI"
)]

mod attack;
mod attack_bench;
mod channel;
mod control;
mod fabric;
mod fleet;
mod hostile_peers;
mod load;
mod measure;
mod options;
mod outstanding;
mod probe;
pub mod process;
mod repair_bench;
mod report;
mod scan;
mod service;

use std::net::SocketAddr;
use std::time::Duration;

pub use attack::{Attack, AttackIntensity, AttackStats};
pub use attack_bench::{AttackReport, LoopStats, measure_under_attack};
pub use fabric::{HOSTS_MAX, SWITCHES_MAX};
pub use measure::{Schedule, Target, measure};
pub use options::{Load, Options, ResponseCriterion, Shape};
pub use outstanding::Counts;
pub use repair_bench::{AuditRequests, Deletion, IdleReport, Repair, RepairReport, RepairSchedule, measure_repair};
pub use report::{Latency, Links, Loop, Report, Spread};
pub use service::Carried;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Shape(String),
    /// Outstanding ARP requests are identified by their pair of hosts.
    #[error(
        "{waiting} packet-ins of a switch may be outstanding, but its hosts form only {pairs} pairs, which identify ARP \
         requests; use more hosts or less load"
    )]
    TooFewPairs { waiting: u32, pairs: u32 },
    #[error("cannot connect to the controller at {controller}: {message}")]
    Connect { controller: SocketAddr, message: String },
    #[error("switch {switch} lost its connection to the controller at {controller}: {message}")]
    Lost { switch: usize, controller: SocketAddr, message: String },
    #[error(
        "the controller at {controller} sent no features request to {silent} of {switches} switches within {} s: does it \
         support OpenFlow 1.3?", after.as_secs_f64()
    )]
    Silent { silent: usize, switches: usize, controller: SocketAddr, after: Duration },
    #[error("the controller at {controller} installed no rules, so there is nothing to repair")]
    NoRules { controller: SocketAddr },
    #[error("cannot poll sockets: {0}")]
    Poll(std::io::Error),
    #[error("an attack needs more connections than the limit of this process allows: {0}")]
    Files(String),
    #[error("no ARP reply for virtual address {address}; configure a service at this address first")]
    NoService { address: std::net::Ipv4Addr },
    #[error("cannot measure {program}: {message}")]
    Reference { program: String, message: String },
}
