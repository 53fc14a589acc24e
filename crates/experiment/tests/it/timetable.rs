//! Timetables in experiment files: what is in effect at a simulated time.

use crate::support::{NEVER, experiment, options};
use anabranch_experiment::summary::RunSummary;
use anabranch_experiment::{Options, run};

/// Stride over a fat-tree at constant rates: one shortest path carries a quarter, and paths chosen
/// by receiver carry about 0.44.
const FILE: &str = r#"
name = "t"
seeds = 1
balancers = ["sdn-spt"]
[topology]
spec = "fat-tree:k=4,host_rate=100Mbps,fabric_rate=100Mbps"
[traffic]
workload = "fixed:size=100MB"
pattern = "stride"
arrivals = "all-at-once"
[transport]
kind = "udp"
rate = "100Mbps"
[calendar]
start = "2026-11-27T07:00:00"
[[timetable]]
from = "08:00"
to = "12:00"
balancer = "sdn-ecmp"
[stop]
until = "2s"
"#;

fn of(text: &str, start: &str) -> RunSummary {
    let folder = tempfile::tempdir().unwrap();
    let experiment = experiment(text, &[("calendar.start", start)]).unwrap_or_else(|error| panic!("{error}"));
    let options = Options { flows: false, ..options(folder.path(), 1) };
    let mut summary = run(&experiment, &options, &(), &NEVER).unwrap_or_else(|error| panic!("{error:?}"));
    summary.runs.remove(0)
}

#[test]
fn balancer_changes_in_the_middle_of_a_run_without_loss() {
    let (before, after) = (of(FILE, "2026-11-27T07:00:00"), of(FILE, "2026-11-27T08:00:00"));
    let middle = of(FILE, "2026-11-27T07:59:59");
    let share = |run: &RunSummary| run.throughput_share;
    // A quarter of the rate, of which 1460 of 1500 bytes are payload.
    assert!((share(&before) - 0.25 * 1460.0 / 1500.0).abs() < 0.001, "{}", share(&before));
    assert!(share(&after) > 0.4, "{}", share(&after));
    let expected = f64::midpoint(share(&before), share(&after));
    assert!((share(&middle) - expected).abs() < 0.01, "{} is not half of both: {expected}", share(&middle));
    for run in [&before, &middle, &after] {
        let lost = &run.packets.dropped;
        assert_eq!((lost["no_route"], lost["loop"]), (0, 0), "{lost:?}");
    }
    // The end of an entry brings back the balancer of the run.
    let end = of(FILE, "2026-11-27T11:59:59");
    assert!((share(&end) - expected).abs() < 0.01, "{}", share(&end));
}

#[test]
fn the_run_with_the_entry_in_effect_is_that_of_its_balancer() {
    let plain =
        FILE.replace("\"sdn-spt\"", "\"sdn-ecmp\"").replace("balancer = \"sdn-ecmp\"", "balancer = \"sdn-spt\"");
    let (entry, own) = (of(FILE, "2026-11-27T08:00:00"), of(&plain, "2026-11-27T07:00:00"));
    assert_eq!(entry.throughput_share, own.throughput_share);
    assert_eq!(entry.packets.dropped, own.packets.dropped);
}

#[test]
fn errors_name_line_and_key() {
    let error = |text: &str| experiment(text, &[]).expect_err(text).to_string();
    let replaced = |from: &str, to: &str| error(&FILE.replace(from, to));
    assert!(replaced("start = \"2026-11-27T07:00:00\"\n", "").contains("calendar.start: is missing"));
    assert!(replaced("balancer = \"sdn-ecmp\"\n", "").contains("timetable.0: the entry is empty"));
    assert!(replaced("balancer = \"sdn-ecmp\"", "balancer = \"spray\"").contains("`spray` is not a central balancer"));
    assert!(replaced("balancers = [\"sdn-spt\"]", "balancers = [\"ecmp\"]").contains("`ecmp` has no controller"));
    let addressed = FILE.replace("[calendar]", "[control]\naddressing = \"portland\"\n[calendar]");
    let cause = experiment(&addressed, &[]).expect_err("there is a timetable");
    let (text, hint) = (cause.to_string(), cause.hint.as_deref().unwrap_or_default());
    assert!(text.contains("test.toml:15: control.addressing: \"portland\" cannot go with [[timetable]]"), "{text}");
    assert!(hint.contains("timetables need addressing = \"flat\""), "{hint}");
    assert!(replaced("balancer = \"sdn-ecmp\"", "weights = { h0 = 1 }").contains("are for files with requests"));
}
