//! The controller on sockets: OpenFlow listener, HTTP API and metrics. The only asynchronous crate.
//!
//! ```text
//! sockets ─► channel: decode, batches ─► engine: control::Controller ─► encode, one write per round ─► sockets
//!                                          ▲ jobs        │ events
//!                                          └──── http ◄──┘
//! ```

#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    reason = "only the program's own crates use this one; schema types of the API are documented for OpenAPI"
)]

mod agent_commands;
mod alarm;
mod audit;
pub mod auth;
pub mod balancer;
mod bmp;
mod channel;
mod clock;
pub mod config;
mod engine;
mod events;
mod fd_limit;
mod host_store;
pub mod http;
mod live;
pub mod logs;
mod metrics;
pub mod recording;
mod reload;
pub(crate) mod schedule;
mod server;
mod services;
pub mod settings;
mod source;
mod storage;
mod switch_identity;
pub mod tls;
mod token_bucket;

pub use audit::AuditError;
pub use control::vip::REPORT_PORT;
pub use host_store::StateError;
pub use reload::ReloadError;
pub use server::{Daemon, StartError};
pub use services::{ConfiguredServices, StoreError};
pub use settings::Settings;
