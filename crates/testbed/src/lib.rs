//! Experiments on Mininet and Open vSwitch: the same files, the same records.
//!
//! ```text
//! experiment::run_in ─► Testbed (World) ─► Driver ─► testbed/driver.py ─► Mininet, Open vSwitch, tc
//!                          │  proof: nothing is lost that fits
//!                          │  rules: static, or `anabranch serve` as the controller
//!                          │  traffic: sockets of our own, D-ITG, iperf3; or servers and their clients (serving)
//!                          ▼
//!                       outcome: the simulator's own form, for the same metrics
//! ```
//!
//! Everything made on the machine is in a journal first; [`driver::down`] undoes it after a crash.

#![forbid(unsafe_code)]

pub mod agents;
pub mod beside;
pub mod checks;
pub mod clock;
pub mod controller;
pub mod driver;
mod error;
pub mod faults;
pub mod jobs;
pub mod live;
pub mod outcome;
pub mod plan;
pub mod proof;
pub mod requests;
mod room;
pub mod rules;
pub mod seen;
pub mod series;
pub mod servers;
pub mod serving;
pub mod sockets;
pub mod tcp_table;
mod testbed;
mod told;
pub mod traffic;
pub mod web;

pub use error::TestbedError;
pub use testbed::Testbed;
