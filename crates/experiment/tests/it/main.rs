//! The integration tests of the crate, linked once.

mod addressing;
mod background;
mod content;
mod controlled;
mod flows_out;
mod folder;
mod migration;
mod probes;
mod report;
mod request_files;
mod requests;
mod support;
mod timetable;
mod tunnel;
mod uet_htsim;
