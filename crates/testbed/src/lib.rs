//! Experiments on emulated networks: Mininet and Open vSwitch run the simulator's files and return
//! its records.
//!
//! ```text
//! experiment::run_in ─► run::testbed ─► network::driver ─► testbed/driver.py ─► Mininet, OVS, tc
//!                          │  network::preflight: no packet is lost below the network's capacity
//!                          │  network::rules: static, or `anabranch serve` as the controller
//!                          │  traffic: sockets, D-ITG or iperf3; or services: servers and clients
//!                          ▼
//!                       run::outcome: the record of the simulator, for the same metrics
//! ```
//!
//! The driver records every object in a journal before it creates it; [`network::driver::down`]
//! removes them after a crash.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "only the program's own crates use this one")]

pub mod clock;
mod error;
pub mod http_client;
pub mod measure;
pub mod network;
pub mod processes;
pub mod run;
pub mod services;
pub mod traffic;

pub use error::TestbedError;
pub use run::testbed::Testbed;
