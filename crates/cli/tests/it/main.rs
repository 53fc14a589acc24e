//! Integration tests of the command, in one binary because each binary is linked separately.
//!
//! `testbed`, `switches` and `services` are other binaries: they run real switches and need a
//! machine without other load.

mod agent;
mod architecture;
mod bench_controller;
mod cli;
mod common;
mod deployment;
mod examples;
mod fidelity;
mod import;
mod messages;
mod replay;
mod reproduce;
mod schema;
mod sequential;
mod serve;
mod shipped;
mod store;
mod validate;
