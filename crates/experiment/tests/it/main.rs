//! The integration tests of the crate, linked once.

mod controlled;
mod flows_out;
mod folder;
mod migration;
mod report;
mod request_files;
mod requests;
mod support;
