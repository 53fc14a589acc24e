//! Experiment files to plans, plans to runs, runs to records, records to statistics and reports.

pub mod flows_out;
pub mod report;
pub mod rows;
pub mod summary;
