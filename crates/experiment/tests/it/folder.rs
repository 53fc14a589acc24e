//! Results folders: repeated, interrupted, resumed, damaged.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{self, NEVER, options};
use anabranch_experiment::store::{Store, StoreError};
use anabranch_experiment::summary::Judgement;
use anabranch_experiment::{Error, Experiment, Observer, Options, Progress, load, run, write_report};

const FILE: &str = include_str!("../data/small.toml");

fn experiment(overrides: &[(&str, &str)]) -> Experiment {
    support::experiment(FILE, overrides).unwrap()
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

struct StopsAfterTwo<'a>(&'a AtomicBool);

impl Observer for StopsAfterTwo<'_> {
    fn progress(&self, progress: &Progress) {
        if progress.runs_done >= 2 {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn results_do_not_depend_on_threads_or_interruptions() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two, three) = (folder.path().join("1"), folder.path().join("2"), folder.path().join("3"));
    run(&experiment(&[]), &options(&one, 1), &(), &NEVER).unwrap();
    run(&experiment(&[]), &options(&two, 2), &(), &NEVER).unwrap();
    let stop = AtomicBool::new(false);
    let error = run(&experiment(&[]), &options(&three, 1), &StopsAfterTwo(&stop), &stop).unwrap_err();
    assert!(matches!(error, Error::Interrupted { done: 2, total: 8, .. }), "{error}");
    assert!(!three.join("summary.json").exists() && !three.join("flows.parquet").exists());
    // As if killed in the middle of a line.
    let mut records = read(&three, "runs.jsonl");
    let whole = records.len();
    records.extend_from_within(..100);
    fs::write(three.join("runs.jsonl"), &records).unwrap();
    assert!(records.len() > whole);
    run(&experiment(&[]), &options(&three, 2), &Resumed(2), &NEVER).unwrap();
    let names =
        ["summary.json", "flows.parquet", "flows.csv", "points.csv", "experiment.toml", "report.html", "SHA256SUMS"];
    for name in names {
        assert_eq!(read(&one, name), read(&two, name), "{name} on two threads");
        assert_eq!(read(&one, name), read(&three, name), "{name} after an interruption");
    }
    assert!(!one.join("parts").exists());
}

struct Resumed(u64);

impl Observer for Resumed {
    fn progress(&self, progress: &Progress) {
        assert_eq!(progress.runs_resumed, self.0);
    }
}

#[test]
fn complete_folder_is_reused_and_extended() {
    let folder = tempfile::tempdir().unwrap();
    let out = options(folder.path(), 2);
    let first = run(&experiment(&[]), &out, &(), &NEVER).unwrap();
    let flows = read(folder.path(), "flows.parquet");
    let again = run(&experiment(&[]), &out, &Resumed(8), &NEVER).unwrap();
    assert_eq!((first.clone(), flows), (again, read(folder.path(), "flows.parquet")));
    let more = run(&experiment(&[("seeds", "3")]), &out, &(), &NEVER).unwrap();
    assert_eq!(more.runs.len(), 12);
    assert_eq!(more.runs[0], first.runs[0]);
    let (summary, records) = load(folder.path()).unwrap();
    assert_eq!((summary, records.len()), (more, 12));
}

#[test]
fn the_written_file_repeats_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("1"), folder.path().join("2"));
    let first =
        run(&experiment(&[("traffic.flows", "20"), ("transport.kind", "newreno")]), &options(&one, 2), &(), &NEVER);
    let again = Experiment::load(&one.join("experiment.toml"), &[]).unwrap();
    let second = run(&again, &options(&two, 2), &(), &NEVER).unwrap();
    assert_eq!(first.unwrap(), second);
}

#[test]
fn reason_added_after_the_runs_repeats_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = options(folder.path(), 2);
    let judged = |reason: &str, observer: &dyn Observer| {
        let claim = "[[expect]]\nid = \"X\"\nclaim = \"too fast to be true\"\nmetric = \"fct_mean_us\"\n\
                     balancer = \"ecmp\"\nwithin = [0, 0.5]\n";
        let text = format!("{FILE}{claim}reason = \"{reason}\"\n");
        let experiment = Experiment::parse("small.toml", &text, "small", Path::new("."), &[]).unwrap();
        run(&experiment, &out, observer, &NEVER).unwrap().claims.remove(0)
    };
    let first = judged("", &());
    assert_eq!((first.verdict, first.points.len(), &first.reason), (Judgement::Fails, 2, &None));
    let again = judged("light is slower", &Resumed(8));
    assert_eq!(again.reason.as_deref(), Some("light is slower"));
    assert!(String::from_utf8(read(folder.path(), "report.html")).unwrap().contains("light is slower"));
    // Results of versions without claims are still readable.
    let text = String::from_utf8(read(folder.path(), "summary.json")).unwrap();
    let old = text.split(",\n  \"claims\": [").next().unwrap().to_owned() + "\n}\n";
    assert!(old.len() < text.len());
    fs::write(folder.path().join("summary.json"), old).unwrap();
    assert!(Store::open(folder.path()).summary().unwrap().claims.is_empty());
}

#[test]
fn every_flow_is_accounted_for_and_none_beats_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let summary = run(&experiment(&[]), &options(folder.path(), 2), &(), &NEVER).unwrap();
    for run in &summary.runs {
        assert_eq!(run.flows.listed, 30);
        assert_eq!(run.flows.started, run.flows.completed + run.flows.failed + run.flows.running);
        assert!(run.slowdown_min >= 1.0, "{}: {}", run.balancer, run.slowdown_min);
        assert_eq!((run.engine.wall_s, run.engine.peak_rss_bytes), (0.0, 0));
    }
    let timings = String::from_utf8(read(folder.path(), "timings.json")).unwrap();
    assert_eq!(timings.matches("wall_s").count(), 8);
    assert_eq!(summary.points.len(), 4);
    let report = folder.path().join("report.html");
    let before = fs::read(&report).unwrap();
    fs::remove_file(&report).unwrap();
    write_report(folder.path()).unwrap();
    assert_eq!(fs::read(&report).unwrap(), before);
}

#[test]
fn unusable_folders_are_rejected_before_running() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = run(&experiment(&[]), &options(&file.join("x"), 1), &(), &NEVER).unwrap_err();
    assert!(error.to_string().starts_with("cannot write to"), "{error}");
    assert!(load(folder.path()).unwrap_err().to_string().contains("cannot read"));
    fs::write(folder.path().join("runs.jsonl"), "nonsense\n{}\n").unwrap();
    let error = run(&experiment(&[]), &options(folder.path(), 1), &(), &NEVER).unwrap_err();
    assert!(error.to_string().contains("runs.jsonl:1 is not a record"), "{error}");
}

#[test]
fn folder_that_another_process_writes_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Store::create(folder.path()).unwrap();
    let error = run(&experiment(&[]), &options(folder.path(), 1), &(), &NEVER).unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::InUse { .. })), "{error}");
    assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}");
    assert!(write_report(folder.path()).is_err());
    drop(writer);
    run(&experiment(&[]), &options(folder.path(), 1), &(), &NEVER).unwrap();
}

#[test]
fn edited_results_are_refused_by_resuming_and_by_reports() {
    let folder = tempfile::tempdir().unwrap();
    let out = options(folder.path(), 2);
    run(&experiment(&[]), &out, &(), &NEVER).unwrap();
    let edit = |name: &str, from: &str, to: &str| {
        let before = read(folder.path(), name);
        let text = String::from_utf8(before.clone()).unwrap();
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text, "{name} has {from}");
        fs::write(folder.path().join(name), edited).unwrap();
        before
    };
    for (name, from, to, message) in [
        ("runs.jsonl", "\"seed\":2", "\"seed\":3", "runs.jsonl:2 was changed after its run"),
        ("summary.json", "\"seed\": 2", "\"seed\": 3", "summary.json is not the file that SHA256SUMS lists"),
    ] {
        let before = edit(name, from, to);
        let report = write_report(folder.path()).unwrap_err().to_string();
        assert!(report.contains(message), "{report}");
        fs::write(folder.path().join(name), before).unwrap();
        write_report(folder.path()).unwrap();
    }
    for (name, from, to) in [
        ("runs.jsonl", "\"completed\":30", "\"completed\":31"),
        ("summary.json", "\"completed\": 30", "\"completed\": 31"),
        ("flows.csv", "completed", "running"),
    ] {
        let before = edit(name, from, to);
        let error = run(&experiment(&[]), &out, &(), &NEVER).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        fs::write(folder.path().join(name), before).unwrap();
    }
    run(&experiment(&[]), &out, &Resumed(8), &NEVER).unwrap();
}

#[test]
fn flows_of_a_larger_plan_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("1"), folder.path().join("2"));
    run(&experiment(&[]), &options(&small, 2), &(), &NEVER).unwrap();
    run(&experiment(&[("seeds", "3")]), &options(&large, 2), &(), &NEVER).unwrap();
    run(&experiment(&[]), &options(&large, 2), &(), &NEVER).unwrap();
    for name in ["summary.json", "flows.csv", "flows.parquet", "SHA256SUMS"] {
        assert_eq!(read(&small, name), read(&large, name), "{name}");
    }
}

#[test]
fn checksums_list_what_was_published() {
    let folder = tempfile::tempdir().unwrap();
    run(&experiment(&[]), &options(folder.path(), 2), &(), &NEVER).unwrap();
    let listed = String::from_utf8(read(folder.path(), "SHA256SUMS")).unwrap();
    let names: Vec<&str> = listed.lines().map(|line| line.split_once("  ").unwrap().1).collect();
    let expected = ["experiment.toml", "flows.csv", "flows.parquet", "points.csv", "report.html", "summary.json"];
    assert_eq!(names, expected);
    // The flows stay listed when a repeated command does not write them.
    let quick = Options { flows: false, ..options(folder.path(), 2) };
    run(&experiment(&[]), &quick, &Resumed(8), &NEVER).unwrap();
    assert_eq!(String::from_utf8(read(folder.path(), "SHA256SUMS")).unwrap(), listed);
}
