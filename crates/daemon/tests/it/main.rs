//! The integration tests of the crate, linked once.

mod api;
mod auth;
mod bmp;
mod changes;
mod channels;
#[path = "../common/mod.rs"]
mod common;
mod floodlight;
mod http_limits;
mod recording;
mod services;
mod tls;
