//! Experiment files to plans, plans to runs, runs to records, records to statistics and reports.
//!
//! [`Experiment::load`] reads and checks a file, [`run`] executes it into a results folder, [`load`] reads such a
//! folder back. A folder holds
//!
//! | file | what |
//! | --- | --- |
//! | `summary.json` | [`summary::Summary`]; the same to the byte whenever the experiment is repeated |
//! | `runs.jsonl` | one [`summary::RunRecord`] per run, appended as it ends; a run found here is not done again |
//! | `flows.parquet`, `flows.csv` | one row per flow and run |
//! | `points.csv` | statistics over seeds |
//! | `responses.csv` | response times over seeds, by class of requests, where there are any |
//! | `timings.json` | wall time and memory of each run, and of central balancers the time of a decision |
//! | `report.html` | the report |
//! | `experiment.toml`, `inputs/` | the experiment, to run again |
//!
//! [`matrix`] puts the results of many experiments side by side.
//! [`reproduction`] holds them against what documents printed.

pub mod about;
pub mod agreement;
pub mod bounds;
pub mod claims;
pub mod controller;
pub mod cost;
pub mod execute;
pub mod file;
pub mod flows_out;
pub mod matrix;
pub mod metrics;
pub mod plan;
mod points_out;
pub mod quantiles;
pub mod report;
pub mod reproduction;
pub mod responses;
pub mod rows;
pub mod statistics;
pub mod store;
pub mod student;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod tiers;
pub mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub use execute::{Observer, Options, Progress, peak_rss_bytes};
pub use file::{Experiment, FileError, Override, Variant};

use flows_out::FlowsWriter;
use plan::PlannedRun;
use store::{Store, StoreError};
use summary::{RunRecord, RunSummary, SCHEMA_VERSION, Summary};
use world::World;

/// Why an experiment has no results.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A run could not be done.
    #[error("the run of {run} failed")]
    Run {
        /// Balancer, seed, load and variant.
        run: String,
        /// Why.
        #[source]
        cause: Box<sim::SimError>,
    },
    /// A run could not be done in another world than the simulator.
    #[error("the run of {run} failed")]
    World {
        /// Balancer, seed, load and variant.
        run: String,
        /// Why.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The experiment asks for what a world does not have.
    #[error("the experiment cannot be run here")]
    NotHere(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The flows of a run could not be made.
    #[error("no flows could be made for the run of {run}")]
    Traffic {
        /// Balancer, seed, load and variant.
        run: String,
        /// Why.
        #[source]
        cause: Box<traffic::TrafficError>,
    },
    /// Asked to stop. What is done is kept.
    #[error("interrupted after {done} of {total} runs, which are kept in {out}")]
    Interrupted {
        /// Runs done.
        done: usize,
        /// Runs planned.
        total: usize,
        /// The results folder.
        out: PathBuf,
    },
    /// The results folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The rows of flows.
    #[error(transparent)]
    Flows(#[from] flows_out::FlowsError),
}

/// Runs an experiment into a folder. What the folder has of it already is taken over; with `stop` set it finishes
/// early and cleanly, and goes on from there the next time.
///
/// # Errors
/// The folder cannot be written, a run fails, or it was stopped. Whole files of an earlier attempt stay.
pub fn run(
    experiment: &Experiment,
    options: &Options,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, Error> {
    run_in(&world::Simulator, experiment, options, observer, stop)
}

/// The same in any world.
///
/// # Errors
/// As [`run`], and what the world cannot do.
pub fn run_in(
    world: &dyn World,
    experiment: &Experiment,
    options: &Options,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, Error> {
    world.check(experiment).map_err(Error::NotHere)?;
    let store = Store::create(&options.out)?;
    let runs = plan::plan_in(experiment, world);
    let (known, others) = known(&store, &runs, options)?;
    write_inputs(experiment, &store)?;
    if options.flow_lists {
        write_flow_lists(experiment, &store, &runs)?;
    }
    let control = execute::Control { world, observer, stop };
    let records = execute::execute(experiment, &runs, known, &store, options, control)?;
    let summary = summarise(experiment, &records);
    if options.flows {
        write_flows(&store, &runs, &records)?;
    }
    // The plan's own records first: `load` takes the first that fits.
    store.write_records(records.iter().chain(&others))?;
    store.write_timings(&records)?;
    store.write("points.csv", points_out::csv(&summary.points).as_bytes())?;
    let responses = responses::points(&summary.runs);
    if !responses.is_empty() {
        store.write("responses.csv", responses::csv(&responses).as_bytes())?;
    }
    store.write("report.html", report::html(&summary, &records).as_bytes())?;
    store.write("summary.json", &store::pretty(&summary))?;
    store.remove_parts()?;
    Ok(summary)
}

/// Reads a results folder: the summary, and the record of each of its runs where there is one.
///
/// # Errors
/// There is no summary, or a file is broken.
pub fn load(folder: &Path) -> Result<(Summary, Vec<RunRecord>), Error> {
    let store = Store::open(folder);
    let summary = store.summary()?;
    let mut of_run: BTreeMap<String, RunRecord> = BTreeMap::new();
    for record in store.records()? {
        of_run.entry(identity(&record.summary)).or_insert(record);
    }
    let records = summary.runs.iter().filter_map(|run| of_run.remove(&identity(run))).collect();
    Ok((summary, records))
}

/// Writes the report of a results folder anew; answers its path.
///
/// # Errors
/// The folder cannot be read or written.
pub fn write_report(folder: &Path) -> Result<PathBuf, Error> {
    let (summary, records) = load(folder)?;
    let store = Store::open(folder);
    store.write("report.html", report::html(&summary, &records).as_bytes())?;
    Ok(store.path("report.html"))
}

fn identity(run: &RunSummary) -> String {
    format!("{}\n{}\n{}\n{:?}\n{}", run.world, run.variant, run.balancer, run.load, run.seed)
}

/// Records of the plan that can be taken over, and records of other plans. A record whose flows are gone can be
/// taken over only if nothing is left to do, for then the flows have been written.
fn known(
    store: &Store,
    runs: &[PlannedRun],
    options: &Options,
) -> Result<(BTreeMap<String, RunRecord>, Vec<RunRecord>), Error> {
    let planned: BTreeSet<&str> = runs.iter().map(|run| run.fingerprint.as_str()).collect();
    let (known, others): (Vec<_>, Vec<_>) =
        store.records()?.into_iter().partition(|record| planned.contains(record.fingerprint.as_str()));
    let mut known: BTreeMap<String, RunRecord> =
        known.into_iter().map(|record| (record.fingerprint.clone(), record)).collect();
    let is_complete = known.len() == planned.len() && store.path("flows.parquet").is_file();
    if options.flows && !is_complete {
        known.retain(|fingerprint, _| store.has_part(fingerprint));
    }
    Ok((known, others))
}

fn write_inputs(experiment: &Experiment, store: &Store) -> Result<(), Error> {
    for input in &experiment.inputs {
        store.write(&format!("inputs/{}", input.stored), input.text.as_bytes())?;
    }
    Ok(store.write("experiment.toml", experiment.file.as_bytes())?)
}

/// One file per variant, load and seed: what every balancer there is given.
fn write_flow_lists(experiment: &Experiment, store: &Store, runs: &[PlannedRun]) -> Result<(), Error> {
    let mut written = BTreeSet::new();
    for run in runs {
        let load = run.load.map_or_else(String::new, |load| format!("load-{load}-"));
        let variant =
            if experiment.variants.len() > 1 { format!("variant-{}-", run.variant + 1) } else { String::new() };
        let name = format!("flow-lists/{variant}{load}seed-{}.csv", run.seed);
        if !written.insert(name.clone()) {
            continue;
        }
        let variant = &experiment.variants[run.variant];
        let flows = variant
            .traffic
            .flows(&variant.topology, run.load, run.seed)
            .map_err(|cause| Error::Traffic { run: name.clone(), cause: Box::new(cause) })?;
        store.write(&name, traffic::write_csv(&flows).as_bytes())?;
    }
    Ok(())
}

fn summarise(experiment: &Experiment, records: &[RunRecord]) -> Summary {
    let runs: Vec<RunSummary> = records
        .iter()
        .map(|record| {
            let mut run = record.summary.clone();
            (run.engine.wall_s, run.engine.peak_rss_bytes, run.engine.decision_us) = (0.0, 0, 0.0);
            run
        })
        .collect();
    let (points, verdicts) = statistics::evaluate(&runs, experiment.measure);
    let claims = claims::judge(&experiment.claims, &runs);
    Summary {
        schema: SCHEMA_VERSION,
        anabranch: env!("CARGO_PKG_VERSION").to_owned(),
        experiment: experiment.name.clone(),
        file: experiment.file.clone(),
        measure: experiment.measure,
        setting: experiment.setting(),
        warnings: experiment.warnings.clone(),
        runs,
        points,
        verdicts,
        claims,
    }
}

/// All flows in the order of the plan, from the parts the runs left; nothing to do if there are none.
fn write_flows(store: &Store, runs: &[PlannedRun], records: &[RunRecord]) -> Result<(), Error> {
    if !runs.iter().all(|run| store.has_part(&run.fingerprint)) {
        return Ok(());
    }
    let write = |name: &str| -> Result<(), Error> {
        let mut writer = FlowsWriter::create(&store.path(name))?;
        for (run, record) in runs.iter().zip(records) {
            writer.append(&store.part(&run.fingerprint, &execute::row_like(run.index as u32, record))?)?;
        }
        Ok(writer.finish()?)
    };
    // Side by side: for sweeps of short runs writing is as much work as simulating.
    let (parquet, csv) = std::thread::scope(|scope| {
        let parquet = scope.spawn(|| write("flows.parquet"));
        let csv = write("flows.csv");
        (parquet.join(), csv)
    });
    parquet.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    csv
}
