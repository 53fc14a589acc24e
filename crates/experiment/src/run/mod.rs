//! Runs an experiment into a results folder.

pub(crate) mod captures;
pub mod checksums;
pub mod controller;
pub mod execute;
pub mod merge;
pub mod plan;
pub mod records;
pub mod runner;
mod schedule;
pub mod shard;
pub mod store;
mod threads;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use checksums::Checksums;
use plan::PlannedRun;
use runner::Runner;
use store::{Store, StoreError};

use crate::input::Experiment;
use crate::results::flow_writer::{FlowsError, FlowsWriter};
use crate::results::{link_rows, points_csv, responses};
use crate::summary::{FidelityCheck, RunRecord, RunSummary, SCHEMA_VERSION, Summary};
use crate::{claims, report, statistics};
use execute::{Observer, Options};
pub use threads::Threads;
pub use watched::run_watched;

const FLOWS: [&str; 2] = ["flows.parquet", "flows.csv"];
const REPORT: &str = "report.html";
const SERIES: &str = "series.parquet";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the run of {run} failed")]
    Run {
        run: String,
        #[source]
        cause: Box<sim::SimError>,
    },
    #[error("the run of {run} failed")]
    Platform {
        run: String,
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the platform does not support the experiment")]
    UnsupportedExperiment(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot generate the flows of the run of {run}")]
    Traffic {
        run: String,
        #[source]
        cause: Box<traffic::TrafficError>,
    },
    /// The stop flag was set. Completed runs are kept.
    #[error("interrupted after {done} of {total} runs; {out} keeps their results")]
    Interrupted { done: usize, total: usize, out: PathBuf },
    #[error(transparent)]
    Merge(#[from] merge::MergeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Flows(#[from] FlowsError),
}

/// Runs an experiment into a folder. Results in the folder are reused. If `stop` is set, the
/// function returns early, and a later call resumes.
///
/// # Errors
/// The folder cannot be written, a run fails, or `stop` was set. Complete files of an earlier
/// attempt stay.
pub fn run(
    experiment: &Experiment,
    options: &Options,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, Error> {
    run_in(&runner::Simulator, experiment, options, observer, stop)
}

pub fn run_in(
    platform: &dyn Runner,
    experiment: &Experiment,
    options: &Options,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, Error> {
    platform.check(experiment).map_err(Error::UnsupportedExperiment)?;
    let store = Store::create(&options.out)?;
    let runs = plan::plan_in(experiment, platform);
    let done = execute_missing(platform, experiment, &store, (&runs, options), (observer, stop))?;
    finish(experiment, &store, &runs, done, options)
}

/// Runs of a plan with their records.
struct Done {
    records: Vec<RunRecord>,
    /// Records of other plans in the folder.
    others: Vec<RunRecord>,
    /// Files in the folder that repeat byte for byte.
    published: Vec<String>,
    /// Warning that heads the results; `None` unless runs are missing.
    warning: Option<String>,
}

/// Executes the runs that the folder does not have.
fn execute_missing(
    platform: &dyn Runner,
    experiment: &Experiment,
    store: &Store,
    (runs, options): (&[PlannedRun], &Options),
    (observer, stop): (&dyn Observer, &AtomicBool),
) -> Result<Done, Error> {
    let known = known(store, platform, experiment, runs, options)?;
    let runs_outdated = known.outdated(platform, experiment, runs);
    let mut published = write_inputs(experiment, store)?;
    if options.flow_lists {
        write_flow_lists(experiment, store, runs)?;
    }
    if options.flows || known.has_flows {
        published.extend(FLOWS.map(str::to_owned));
    }
    let control = execute::Control { platform, runs_outdated, observer, stop };
    let records = execute::execute(experiment, runs, known.runs, store, options, control)?;
    Ok(Done { records, others: known.others, published, warning: None })
}

/// Writes the results of all runs of an experiment.
fn finish(
    experiment: &Experiment,
    store: &Store,
    runs: &[PlannedRun],
    done: Done,
    options: &Options,
) -> Result<Summary, Error> {
    let Done { records, others, mut published, warning } = done;
    let mut summary = summarise(experiment, &records);
    summary.warnings.splice(0..0, warning);
    if options.flows {
        write_flows(store, runs, &records)?;
    }
    // Records of other plans stay, unless these records replace them.
    let replaced: BTreeSet<String> = records.iter().map(|record| identity(&record.summary)).collect();
    let others = others.iter().filter(|record| !replaced.contains(&identity(&record.summary)));
    store.write_records(records.iter().chain(others))?;
    store.write_timings(&records)?;
    let mut publish = |name: &str, content: &[u8]| {
        published.push(name.to_owned());
        store.write(name, content)
    };
    publish("points.csv", points_csv::csv(&summary.points).as_bytes())?;
    let responses = responses::points(&summary.runs);
    if !responses.is_empty() {
        publish("responses.csv", responses::csv(&responses).as_bytes())?;
    }
    let is_captured = |run: &&PlannedRun| !experiment.variants[run.variant].config.probes.capture.links.is_empty();
    let captured = runs.iter().zip(&records).filter(|(run, _)| is_captured(run));
    let captures: Vec<String> = captured.map(|(_, record)| captures::name(&record.summary)).collect();
    if let Some(series) = link_rows::parquet(&records) {
        let cause =
            |cause: parquet::errors::ParquetError| FlowsError { path: options.out.join(SERIES), cause: cause.into() };
        publish(SERIES, &series.map_err(cause)?)?;
    }
    publish(REPORT, report::html(&summary, &records).as_bytes())?;
    publish(store::SUMMARY, &store::pretty(&summary))?;
    published.extend(captures.into_iter().filter(|name| store.path(name).is_file()));
    Checksums::of(store, published)?.write(store)?;
    store.remove_parts()?;
    Ok(summary)
}

/// Reads a finished results folder.
///
/// # Errors
/// A file cannot be read, or was changed after it was written.
pub fn load(folder: &Path) -> Result<(Summary, Vec<RunRecord>), Error> {
    let store = Store::open(folder);
    let summary = store.intact_summary()?;
    let mut of_run: BTreeMap<String, RunRecord> = BTreeMap::new();
    for record in store.records()? {
        of_run.entry(identity(&record.summary)).or_insert(record);
    }
    let records = summary.runs.iter().filter_map(|run| of_run.remove(&identity(run))).collect();
    Ok((summary, records))
}

pub fn write_report(folder: &Path) -> Result<PathBuf, Error> {
    let store = Store::create(folder)?;
    let (summary, records) = load(folder)?;
    store.write(REPORT, report::html(&summary, &records).as_bytes())?;
    let mut checksums = Checksums::read(&store)?.unwrap_or_default();
    checksums.update(&store, REPORT)?;
    checksums.write(&store)?;
    Ok(store.path(REPORT))
}

/// Adds measured errors of flow fidelity to the summary and the report of a results folder.
pub fn add_fidelity_check(folder: &Path, check: &FidelityCheck) -> Result<(), Error> {
    let store = Store::create(folder)?;
    let (mut summary, records) = load(folder)?;
    summary.fidelity_check = Some(check.clone());
    let mut checksums = Checksums::read(&store)?.unwrap_or_default();
    store.write(REPORT, report::html(&summary, &records).as_bytes())?;
    store.write(store::SUMMARY, &store::pretty(&summary))?;
    for name in [REPORT, store::SUMMARY] {
        checksums.update(&store, name)?;
    }
    checksums.write(&store)?;
    Ok(())
}

fn identity(run: &RunSummary) -> String {
    identity_of(&run.platform, &run.variant, &run.balancer, run.load, run.seed)
}

fn identity_of(platform: &str, variant: &str, balancer: &str, load: Option<f64>, seed: u64) -> String {
    format!("{platform}\n{variant}\n{balancer}\n{load:?}\n{seed}")
}

struct Known {
    runs: BTreeMap<String, RunRecord>,
    others: Vec<RunRecord>,
    /// Whether the folder has the flows of exactly this plan.
    has_flows: bool,
}

/// Reads the existing records. A record without its flows is reusable only if the folder has the
/// flows of exactly this plan.
fn known(
    store: &Store,
    platform: &dyn Runner,
    experiment: &Experiment,
    runs: &[PlannedRun],
    options: &Options,
) -> Result<Known, Error> {
    let planned: BTreeSet<&str> = runs.iter().map(|run| run.fingerprint.as_str()).collect();
    let (known, others): (Vec<_>, Vec<_>) =
        store.records()?.into_iter().partition(|record| planned.contains(record.fingerprint.as_str()));
    let mut known: BTreeMap<String, RunRecord> =
        known.into_iter().map(|record| (record.fingerprint.clone(), record)).collect();
    let identities = runs.iter().map(|run| planned_identity(platform, experiment, run));
    let has_flows = known.len() == planned.len() && has_flows_of(store, identities)?;
    if options.flows && !has_flows {
        known.retain(|fingerprint, _| store.has_part(fingerprint));
    }
    Ok(Known { runs: known, others, has_flows })
}

/// Returns whether the folder is finished and has the flows of these runs, in this order.
///
/// # Errors
/// Its files were changed after they were written.
fn has_flows_of(store: &Store, planned: impl Iterator<Item = String>) -> Result<bool, Error> {
    let checksums = Checksums::read(store)?.unwrap_or_default();
    if !FLOWS.iter().all(|name| checksums.has(name) && store.path(name).is_file()) {
        return Ok(false);
    }
    let summary: Option<Summary> = store.json(store::SUMMARY)?;
    let Some(summary) = summary.filter(|summary| summary.runs.iter().map(identity).eq(planned)) else {
        return Ok(false);
    };
    drop(summary);
    [store::SUMMARY].iter().chain(&FLOWS).try_for_each(|name| checksums.check(store, name))?;
    Ok(true)
}

fn planned_identity(platform: &dyn Runner, experiment: &Experiment, run: &PlannedRun) -> String {
    let (variant, balancer) = (&experiment.variants[run.variant].label, &experiment.balancers[run.balancer]);
    identity_of(platform.name(), variant, &balancer.label(), run.load, run.seed)
}

impl Known {
    fn outdated(&self, platform: &dyn Runner, experiment: &Experiment, runs: &[PlannedRun]) -> u64 {
        let of_other_builds = self.others.iter().filter(|record| record.build != plan::BUILD);
        let of_other_builds: BTreeSet<String> = of_other_builds.map(|record| identity(&record.summary)).collect();
        let is_outdated = |run: &&PlannedRun| {
            !self.runs.contains_key(&run.fingerprint)
                && of_other_builds.contains(&planned_identity(platform, experiment, run))
        };
        runs.iter().filter(is_outdated).count() as u64
    }
}

/// Writes the experiment file and its inputs. Returns their names.
fn write_inputs(experiment: &Experiment, store: &Store) -> Result<Vec<String>, Error> {
    let inputs = experiment.inputs.iter().map(|input| (format!("inputs/{}", input.stored), input.text.as_bytes()));
    let files: Vec<(String, &[u8])> =
        inputs.chain([("experiment.toml".to_owned(), experiment.file.as_bytes())]).collect();
    files.iter().try_for_each(|(name, content)| store.write(name, content))?;
    let mut names: Vec<String> = files.into_iter().map(|(name, _)| name).collect();
    for (path, stored) in experiment.traces.iter().flat_map(|trace| trace.copies()) {
        let name = format!("inputs/{stored}");
        store.copy_file(&name, path)?;
        names.push(name);
    }
    Ok(names)
}

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
    let evaluation = statistics::evaluate(&runs, &experiment.rule);
    let claims = claims::judge(&experiment.claims, &runs);
    Summary {
        schema: SCHEMA_VERSION,
        anabranch: env!("CARGO_PKG_VERSION").to_owned(),
        experiment: experiment.name.clone(),
        file: experiment.file.clone(),
        rank_by: experiment.rule.rank_by,
        margin: experiment.rule.margin,
        confidence: experiment.rule.confidence,
        setting: experiment.setting(),
        warnings: experiment.warnings.clone(),
        runs,
        points: evaluation.points,
        verdicts: evaluation.verdicts,
        overall: evaluation.overall,
        claims,
        fidelity_check: None,
    }
}

/// Writes all flows in the order of the plan, from the parts of the runs; does nothing if parts are
/// missing.
fn write_flows(store: &Store, runs: &[PlannedRun], records: &[RunRecord]) -> Result<(), Error> {
    if !runs.iter().all(|run| store.has_part(&run.fingerprint)) {
        return Ok(());
    }
    let write = |name: &str| -> Result<(), Error> {
        let mut writer = FlowsWriter::create(&store.path(name))?;
        for (run, record) in runs.iter().zip(records) {
            writer.append(&store.part(&run.fingerprint, &execute::row_template(run.index as u32, record))?)?;
        }
        Ok(writer.finish()?)
    };
    // In parallel: in sweeps of short runs, writing takes as long as simulating.
    std::thread::scope(|scope| {
        let [parquet, csv] = FLOWS;
        let thread = std::thread::Builder::new().spawn_scoped(scope, || write(parquet));
        let written = write(csv);
        match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            // Without memory for a second thread, one after the other.
            Err(_) => write(parquet)?,
        }
        written
    })
}
