//! Experiment files to plans, plans to runs, runs to records, records to statistics and reports.
//!
//! | module | content |
//! | --- | --- |
//! | [`input`] | experiment files: keys, checks, [`Experiment`] |
//! | [`run`](mod@run) | plans, threads, the results folder, and the simulator as a [`runner::Runner`] |
//! | [`results`] | the schema of `summary.json`, metrics of a run, statistics over seeds, tables of flows |
//! | [`judge`] | claims, reproductions of documents, validation of the simulator against the testbed |
//! | [`report`] | `report.html` |
//! | [`matrix`] | balancers by scenarios: the results of many experiments side by side |
//!
//! [`Experiment::load`] reads and checks a file, [`run()`] executes it into a results folder, and [`load`] reads such a
//! folder. A folder contains
//!
//! | file | content |
//! | --- | --- |
//! | `summary.json` | [`summary::Summary`]; byte-identical whenever the experiment is repeated |
//! | `runs.jsonl` | one [`summary::RunRecord`] per run with the hash of its line, appended as it ends; a run found here is not repeated |
//! | `flows.parquet`, `flows.csv` | one row per flow and run |
//! | `series.parquet` | one row per run, link of `probes.links` and time bin; absent without such links |
//! | `captures/` | packets of the links of `probes.capture`, one pcapng file per run |
//! | `points.csv` | statistics over seeds |
//! | `responses.csv` | response times over seeds, by request class; absent without requests |
//! | `timings.json` | wall time and memory of each run; of central balancers also the time of a decision |
//! | `report.html` | the report |
//! | `experiment.toml`, `inputs/` | the experiment, to run it again |
//! | `SHA256SUMS` | hashes of the files above that repeat byte for byte |
//! | `.lock` | locked by the process that writes to the folder |

#![allow(missing_docs, reason = "only the program's own crates use this one")]

pub mod input;
pub mod judge;
pub mod matrix;
pub mod report;
pub mod results;
pub mod run;
#[cfg(test)]
mod testing;

pub use input::{Experiment, FileError, Override, Variant};
pub use judge::{claims, fidelity, reproduction, validation};
pub use results::{statistics, summary};
pub use run::execute::{Observer, Options, Progress, peak_rss_bytes};
pub use run::{
    Error, Threads, add_fidelity_check, load, merge, run, run_in, run_watched, runner, shard, store, write_report,
};
use run::{checksums, records};
