//! One file per command. Those of the feature `network` run a controller, real or emulated networks.

#[cfg(feature = "network")]
pub mod agent;
pub mod bench;
#[cfg(feature = "network")]
pub mod bench_controller;
pub mod bound;
pub mod check;
pub mod cluster;
pub mod compare;
pub mod completions;
pub mod import;
mod import_traffic;
pub mod list;
pub mod manual;
pub mod matrix;
pub mod merge;
#[cfg(feature = "network")]
pub mod replay;
pub mod report;
#[cfg(feature = "network")]
pub mod reproduce;
pub mod run;
#[cfg(feature = "network")]
pub mod serve;
#[cfg(feature = "network")]
pub mod simtest;
#[cfg(feature = "network")]
pub mod testbed;
pub mod topology;
#[cfg(feature = "network")]
pub mod validate;
