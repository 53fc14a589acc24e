//! The results of an experiment from the folders of its parts ([`super::shard`]).
//!
//! The folder that results is byte for byte the one that a single machine writes, apart from the
//! measured times. The order of the folders does not matter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::input::{Experiment, FileError};
use crate::run::execute::Options;
use crate::run::plan::{self, PlannedRun};
use crate::run::runner::Runner;
use crate::run::store::{Store, StoreError};
use crate::run::{self, Error, captures};
use crate::summary::{RunRecord, Summary};

#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("{path} has no experiment that can be read")]
    Experiment {
        path: PathBuf,
        #[source]
        cause: Box<FileError>,
    },
    #[error("{other} has another experiment than {first}")]
    OtherExperiment { first: PathBuf, other: PathBuf },
    #[error("{missing} of {total} runs are in none of the folders, such as {example}")]
    Missing { missing: usize, total: usize, example: String },
    #[error("{done} of {total} runs have ended, and no seed with all balancers at one load is among them")]
    NothingComplete { done: usize, total: usize },
    #[error(
        "{missing} of {total} runs are in the folders from another build of this program only: all parts need the \
         same one"
    )]
    OtherBuild { missing: usize, total: usize },
}

/// Reads the experiment that folders of parts have.
///
/// # Errors
/// A folder has none, or another one than the first.
pub fn experiment_of(folders: &[PathBuf]) -> Result<Experiment, MergeError> {
    let load = |folder: &Path| {
        let path = folder.join("experiment.toml");
        Experiment::load(&path, &[]).map_err(|cause| MergeError::Experiment { path, cause: Box::new(cause) })
    };
    let mut experiments = folders.iter().map(|folder| load(folder));
    let first = experiments.next().expect("the caller names a folder")?;
    for (folder, other) in folders[1..].iter().zip(experiments) {
        if other?.file != first.file {
            return Err(MergeError::OtherExperiment { first: folders[0].clone(), other: folder.clone() });
        }
    }
    Ok(first)
}

/// Merges the results in `folders` into `options.out`, which keeps the runs that it has.
///
/// # Errors
/// A run is in none of the folders, a file cannot be read or was changed, or the folder cannot be
/// written.
pub fn merge(
    platform: &dyn Runner,
    experiment: &Experiment,
    folders: &[PathBuf],
    options: &Options,
) -> Result<Summary, Error> {
    let runs = plan::plan_in(experiment, platform);
    let mut found = Found::default();
    for folder in [&options.out].into_iter().chain(folders) {
        found.add(folder, options.flows)?;
    }
    found.check(platform, experiment, &runs)?;
    let store = Store::create(&options.out)?;
    for run in &runs {
        let (from, record) = &found.runs[&run.fingerprint];
        if options.flows {
            store.copy_part(from, &run.fingerprint)?;
        }
        let capture = captures::name(&record.summary);
        if from.path(&capture).is_file() {
            store.copy(from, &capture)?;
        }
    }
    let own: Vec<RunRecord> = store.records()?;
    let merged = runs.iter().map(|run| &found.runs[&run.fingerprint].1);
    store.write_records(merged.chain(own.iter().filter(|record| !found.runs.contains_key(&record.fingerprint))))?;
    drop(store);
    // All runs are known: none is executed.
    run::run_in(platform, experiment, options, &(), &AtomicBool::new(false))
}

/// Writes the results so far: `options.out` gets no rows of flows, and each comparison has the seeds that
/// all its balancers have completed.
///
/// # Errors
/// No seed is complete, a file cannot be read or was changed, or the folder cannot be written.
pub fn merge_partial(
    platform: &dyn Runner,
    experiment: &Experiment,
    folders: &[PathBuf],
    options: &Options,
) -> Result<Summary, Error> {
    let runs = plan::plan_in(experiment, platform);
    let mut found = Found::default();
    folders.iter().try_for_each(|folder| found.add(folder, false))?;
    let panel = |run: &PlannedRun| (run.variant, run.load.map(f64::to_bits), run.seed);
    let mut missing = BTreeSet::new();
    let mut done = 0;
    for run in &runs {
        match found.runs.contains_key(&run.fingerprint) {
            true => done += 1,
            false => _ = missing.insert(panel(run)),
        }
    }
    let total = runs.len();
    let kept: Vec<PlannedRun> = runs.into_iter().filter(|run| !missing.contains(&panel(run))).collect();
    if kept.is_empty() {
        return Err(MergeError::NothingComplete { done, total }.into());
    }
    let records: Vec<RunRecord> = kept.iter().map(|run| found.runs[&run.fingerprint].1.clone()).collect();
    let store = Store::create(&options.out)?;
    let published = run::write_inputs(experiment, &store)?;
    let warning = (kept.len() < total).then(|| {
        let shown = kept.len();
        format!(
            "Partial results: {done} of {total} runs had ended. {shown} are shown: the seeds that all balancers of a \
             comparison had completed."
        )
    });
    let done = run::Done { records, others: Vec::new(), published, warning };
    run::finish(experiment, &store, &kept, done, &Options { flows: false, ..options.clone() })
}

/// What folders have, by fingerprint.
#[derive(Default)]
struct Found {
    runs: BTreeMap<String, (Store, RunRecord)>,
    /// Runs of other builds, by what the plan calls them.
    of_other_builds: BTreeSet<String>,
}

impl Found {
    /// Adds the runs of a folder. With `flows`, a run without its flows does not count.
    fn add(&mut self, folder: &Path, flows: bool) -> Result<(), StoreError> {
        for record in Store::open(folder).records()? {
            let store = Store::open(folder);
            if record.build != plan::BUILD {
                self.of_other_builds.insert(run::identity(&record.summary));
            } else if !flows || store.has_part(&record.fingerprint) {
                self.runs.entry(record.fingerprint.clone()).or_insert((store, record));
            }
        }
        Ok(())
    }

    /// # Errors
    /// A run is missing.
    fn check(&self, platform: &dyn Runner, experiment: &Experiment, runs: &[PlannedRun]) -> Result<(), MergeError> {
        let total = runs.len();
        let missing: Vec<&PlannedRun> = runs.iter().filter(|run| !self.runs.contains_key(&run.fingerprint)).collect();
        let Some(first) = missing.first() else { return Ok(()) };
        let is_of_other_build =
            |run: &&PlannedRun| self.of_other_builds.contains(&run::planned_identity(platform, experiment, run));
        match missing.iter().all(is_of_other_build) {
            true => Err(MergeError::OtherBuild { missing: missing.len(), total }),
            false => {
                let example = first.name(experiment);
                Err(MergeError::Missing { missing: missing.len(), total, example })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::run::runner::Simulator;
    use crate::run::shard::{Shard, run_shard};
    use crate::testing::small;

    const PARTS: usize = 3;

    fn options(out: PathBuf, flows: bool) -> Options {
        Options { out, jobs: 1, threads: 1, flows, flow_lists: false }
    }

    fn run_part(experiment: &Experiment, number: usize, out: PathBuf, flows: bool) {
        let shard = Shard::new(number, PARTS).expect("a part");
        let stop = AtomicBool::new(false);
        run_shard(&Simulator, experiment, shard, &options(out, flows), &(), &stop).expect("it runs");
    }

    /// Returns the files that repeat, with their hashes.
    fn sums(folder: &Path) -> String {
        fs::read_to_string(folder.join("SHA256SUMS")).expect("a finished folder")
    }

    #[test]
    fn merged_parts_are_the_bytes_of_one_machine_in_any_order() {
        let experiment = small(&[("seeds", "3")]);
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for flows in [true, false] {
            let one = at(&format!("one-{flows}"));
            run::run(&experiment, &options(one.clone(), flows), &(), &AtomicBool::new(false)).expect("it runs");
            let parts: Vec<PathBuf> = (1..=PARTS).map(|number| at(&format!("part-{number}-{flows}"))).collect();
            for (number, part) in (1..).zip(&parts) {
                run_part(&experiment, number, part.clone(), flows);
                assert!(!part.join("summary.json").exists(), "a part has no results of the experiment");
            }
            for (name, order) in [("a", [0, 1, 2]), ("b", [2, 0, 1])] {
                let folders: Vec<PathBuf> = order.map(|place| parts[place].clone()).to_vec();
                let found = experiment_of(&folders).expect("one experiment");
                let out = at(&format!("{name}-{flows}"));
                // Twice: a merge that is repeated changes nothing.
                for _ in 0..2 {
                    merge(&Simulator, &found, &folders, &options(out.clone(), flows)).expect("all runs are there");
                    assert_eq!(sums(&out), sums(&one), "flows {flows}, order {order:?}");
                }
            }
        }
    }

    #[test]
    fn partial_results_have_the_seeds_that_all_balancers_have() {
        let experiment = small(&[("seeds", "3")]);
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let whole = at("whole");
        let whole = run::run(&experiment, &options(whole, false), &(), &AtomicBool::new(false)).expect("it runs");
        for number in 1..=PARTS {
            run_part(&experiment, number, at(&number.to_string()), false);
        }
        let folders = [at("1"), at("2")];
        let partial = merge_partial(&Simulator, &experiment, &folders, &options(at("partial"), true)).unwrap();
        assert!(partial.warnings[0].starts_with("Partial results: "), "{:?}", partial.warnings);
        assert!(!partial.runs.is_empty() && partial.runs.len() < whole.runs.len());
        assert!(partial.runs.iter().all(|run| whole.runs.contains(run)));
        let key = |run: &crate::summary::RunSummary| (run.variant.clone(), run.load.map(f64::to_bits), run.seed);
        for run in &partial.runs {
            let rivals = partial.runs.iter().filter(|other| key(other) == key(run)).count();
            assert_eq!(rivals, experiment.balancers.len(), "seed {}", run.seed);
        }
        run::load(&at("partial")).expect("a folder that `report` reads");
        // With all parts it is the whole, without a warning.
        let folders = [at("1"), at("2"), at("3")];
        let all = merge_partial(&Simulator, &experiment, &folders, &options(at("all"), true)).unwrap();
        assert_eq!(all, whole);
        let none = merge_partial(&Simulator, &experiment, &[], &options(at("none"), true)).unwrap_err().to_string();
        assert!(none.contains("0 of"), "{none}");
    }

    #[test]
    fn missing_runs_and_other_experiments_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let experiment = small(&[]);
        run_part(&experiment, 1, at("1"), false);
        run_part(&experiment, 3, at("3"), false);
        let folders = [at("1"), at("3")];
        let text = merge(&Simulator, &experiment, &folders, &options(at("out"), false)).unwrap_err().to_string();
        assert!(text.contains("runs are in none of the folders, such as"), "{text}");
        assert!(!at("out").exists(), "nothing is written");
        // Without its flows a run does not count.
        run_part(&experiment, 2, at("2"), false);
        let folders = [at("1"), at("2"), at("3")];
        assert!(merge(&Simulator, &experiment, &folders, &options(at("out"), true)).is_err());
        merge(&Simulator, &experiment, &folders, &options(at("out"), false)).expect("all runs are there");
        run_part(&small(&[("seeds", "3")]), 2, at("other"), false);
        let text = experiment_of(&[at("1"), at("other")]).unwrap_err().to_string();
        assert!(text.contains("has another experiment than"), "{text}");
    }
}
