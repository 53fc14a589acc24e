//! The controller on sockets: OpenFlow listener, HTTP API, metrics. The only async crate.
//!
//! ```text
//! sockets ─► channel: decode, batches ─► engine: control::Controller ─► encode, one write per round ─► sockets
//!                                          ▲ jobs        │ events
//!                                          └──── http ◄──┘
//! ```

#![forbid(unsafe_code)]

pub mod access;
pub mod balancer;
mod channel;
mod clock;
pub mod config;
mod engine;
mod events;
mod files;
pub mod http;
pub mod logs;
mod metrics;
mod orders;
mod server;
mod services;
pub mod settings;
mod state;
pub mod tls;

pub use control::vip::REPORT_PORT;
pub use server::{Daemon, StartError};
pub use services::{Defined, StoreError};
pub use settings::Settings;
pub use state::StateError;
