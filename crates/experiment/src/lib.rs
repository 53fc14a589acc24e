//! Experiment files to plans, plans to runs, runs to records, records to statistics and reports.

pub mod file;
pub mod flows_out;
pub mod metrics;
pub mod plan;
pub mod quantiles;
pub mod report;
pub mod rows;
pub mod statistics;
pub mod student;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod tiers;

pub use file::{Experiment, FileError, Override, Variant};
