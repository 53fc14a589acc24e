//! Fake switches that load an OpenFlow 1.3 controller and measure its answers.
//!
//! The switches speak TCP to any controller. Their protocol is that of the `switch` crate: handshake, roles, groups,
//! statistics, barriers and refusals are those of a strict switch. Packet-ins are written from a template and answers are
//! recognised by the lengths in their headers (`probe.rs`, `scan.rs`), so that the generator is not what is measured.
//!
//! A run: all switches connect and introduce themselves; every host says twice where it is (gratuitous ARP); a second of
//! quiet; then loops in which each packet-in is the first packet of a flow never seen before. A packet-in counts as
//! answered when the answer that carries its number comes, within the patience; duplicates, late answers, errors and lost
//! connections are counted apart. Controllers measured together take turns, loop by loop ([`measure::measure`]).
//!
//! One thread drives everything with one poll. Nothing lies between a socket and the clock.

#![forbid(unsafe_code)]

mod attack;
mod book;
mod channel;
mod control;
mod crowd;
mod fabric;
mod features;
mod fleet;
mod load;
mod measure;
mod options;
mod probe;
pub mod process;
mod report;
mod scan;
mod service;
mod siege;

use std::net::SocketAddr;
use std::time::Duration;

pub use attack::{Attack, Deeds, Force};
pub use fabric::{HOSTS_MAX, SWITCHES_MAX};
pub use measure::{Schedule, Target, measure};
pub use options::{Answer, Load, Options, Shape};
pub use report::{Counts, Latency, Links, Loop, Report, Spread};
pub use service::Carried;
pub use siege::{Column, Ordeal, besiege};

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Switches that cannot be.
    #[error("{0}")]
    Shape(String),
    /// ARP requests are told apart by the hosts that ask and are asked for.
    #[error(
        "{waiting} packet-ins of a switch may wait at once, but its hosts form {pairs} pairs, which is all that tells ARP \
         requests apart: more hosts or less load"
    )]
    TooFewPairs {
        /// Packet-ins of one switch that may wait.
        waiting: u32,
        /// Pairs of hosts.
        pairs: u32,
    },
    /// No socket.
    #[error("cannot connect to the controller at {controller}: {words}")]
    Connect {
        /// Where.
        controller: SocketAddr,
        /// Why.
        words: String,
    },
    /// A connection ended when it was needed.
    #[error("switch {switch} lost its connection to the controller at {controller}: {words}")]
    Lost {
        /// Which, from 1.
        switch: usize,
        /// Where.
        controller: SocketAddr,
        /// Why.
        words: String,
    },
    /// The controller does not ask what the switches are.
    #[error(
        "the controller at {controller} did not ask {silent} of {switches} switches for their features within {} s: does \
         it speak OpenFlow 1.3?", after.as_secs_f64()
    )]
    Silent {
        /// Switches not asked.
        silent: usize,
        /// All switches.
        switches: usize,
        /// Where.
        controller: SocketAddr,
        /// How long was waited.
        after: Duration,
    },
    /// The operating system refuses.
    #[error("cannot wait for sockets: {0}")]
    Poll(std::io::Error),
    /// The operating system does not allow as many connections as an attack needs.
    #[error("an attack needs more connections than this process may have: {0}")]
    Files(String),
    /// Connections to a virtual address need one.
    #[error("nobody answers for the virtual address {address}: does the controller have a service there?")]
    NoService {
        /// The address.
        address: std::net::Ipv4Addr,
    },
    /// A peer does not start.
    #[error("cannot measure {program}: {words}")]
    Peer {
        /// Program.
        program: String,
        /// Why.
        words: String,
    },
}
