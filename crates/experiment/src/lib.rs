//! Experiment files to plans, plans to runs, runs to records, records to statistics and reports.

pub mod file;
pub mod metrics;
pub mod plan;
pub mod quantiles;
pub mod statistics;
pub mod student;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod tiers;

pub use file::{Experiment, FileError, Override, Variant};
