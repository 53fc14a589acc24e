//! Collectives with stragglers and with other flows in the background; warm-up.

use crate::support::{NEVER, experiment, options};
use anabranch_experiment::run;
use anabranch_experiment::summary::{RunSummary, Summary};

const COLLECTIVE: &str = r#"
seeds = 1
balancers = ["ecmp"]
topology = { spec = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=4" }
traffic = { collective = "ring-all-reduce:size=800KB,repeat=3" }
"#;

fn run_of(text: &str, overrides: &[(&str, &str)]) -> RunSummary {
    let folder = tempfile::tempdir().unwrap();
    let experiment = experiment(text, overrides).unwrap_or_else(|error| panic!("{error}"));
    let summary: Summary = run(&experiment, &options(folder.path(), 1), &(), &NEVER).unwrap();
    summary.runs.into_iter().next().expect("there is one run")
}

const BACKGROUND: [(&str, &str); 4] = [
    ("traffic.workload", "fixed:size=20KB"),
    ("traffic.load", "0.5"),
    ("traffic.flows", "150"),
    ("traffic.pattern", "random-pairs"),
];

#[test]
fn statistics_of_background_and_collectives_are_apart() {
    let alone = run_of(COLLECTIVE, &[]);
    let both = run_of(COLLECTIVE, &BACKGROUND);
    // Eight ranks send 14 times in each all-reduce.
    let collective_flows = 3 * 8 * 14;
    assert_eq!((alone.flows.completed, alone.slowdown.count), (collective_flows, collective_flows));
    assert_eq!((both.flows.completed, both.slowdown.count), (collective_flows + 150, 150));
    assert_eq!(both.fct_us_by_size.iter().map(|bucket| bucket.fct_us.count).sum::<u64>(), 150);
    assert_eq!((alone.groups.time_us.count, both.groups.time_us.count), (3, 3));
    assert!(both.groups.time_us.mean > alone.groups.time_us.mean, "other flows delay the collectives");
    assert!(both.load == Some(0.5) && alone.load.is_none());
}

#[test]
fn straggler_delays_a_ring_each_time_it_passes() {
    let alone = run_of(COLLECTIVE, &[]);
    let late = [("traffic.stragglers", "[3]"), ("traffic.straggler_delay", "100us")];
    let late = run_of(COLLECTIVE, &late);
    let added = late.groups.time_us.mean - alone.groups.time_us.mean;
    // A transfer waits for the previous one of its neighbour: a chain of 14 transfers over eight
    // ranks passes the late rank twice. Less contention may make up for a part of it.
    assert!((150.0..=201.0).contains(&added), "{added} us");
    let drawn = |seeds: &str| {
        let late = [("traffic.stragglers", "25%"), ("traffic.straggler_delay", "100us"), ("seeds", seeds)];
        run_of(COLLECTIVE, &late).groups.time_us.mean
    };
    assert_eq!(drawn("[5]"), drawn("[5]"));
    assert!((5..9).any(|seed| drawn(&format!("[{seed}]")) != drawn("[4]")), "the seed draws the ranks");
}

#[test]
fn flows_of_the_warm_up_run_and_do_not_count() {
    let generated =
        [("traffic.workload", "fixed:size=20KB"), ("traffic.load", "0.5"), ("traffic.flows", "200"), ("traffic", "{}")];
    let generated: Vec<_> = generated[3..].iter().chain(&generated[..3]).copied().collect();
    let whole = run_of(COLLECTIVE, &generated);
    let warm: Vec<_> = generated.iter().copied().chain([("probes.warm_up", "200us")]).collect();
    let warm = run_of(COLLECTIVE, &warm);
    assert_eq!((whole.flows.warm_up, whole.slowdown.count), (0, 200));
    assert!(warm.flows.warm_up > 20 && warm.flows.warm_up < 180, "{}", warm.flows.warm_up);
    assert_eq!(warm.slowdown.count + warm.flows.warm_up, 200);
    assert_eq!((warm.engine.events, warm.packets.sent), (whole.engine.events, whole.packets.sent), "the same packets");
    // Groups: the first all-reduce starts at 0.
    let groups = run_of(COLLECTIVE, &[("probes.warm_up", "1us")]).groups;
    assert_eq!(groups.time_us.count + groups.unfinished, 2);
}

#[test]
fn impossible_combinations_are_refused() {
    for (overrides, key, part) in [
        (&[("traffic.load", "0.5")][..], "traffic.load", "background of a collective"),
        (&[("traffic.stragglers", "[3]")], "traffic.straggler_delay", "is missing"),
        (&[("traffic.straggler_delay", "1us")], "traffic.stragglers", "is missing"),
        (&[("traffic.stragglers", "[8]"), ("traffic.straggler_delay", "1us")], "traffic.stragglers", "no rank 8"),
        (&[("traffic.stragglers", "120%"), ("traffic.straggler_delay", "1us")], "traffic.stragglers", "at most 100%"),
        (&[("traffic.stragglers", "many"), ("traffic.straggler_delay", "1us")], "traffic.stragglers", "share"),
        (&[("traffic.workload", "fixed:size=1KB"), ("traffic.load", "0.5")], "traffic.flows", "when to stop"),
    ] {
        let error = experiment(COLLECTIVE, overrides).err().unwrap_or_else(|| panic!("{overrides:?} is possible"));
        let text = error.to_string();
        assert!(text.contains(key) && text.contains(part), "{text}");
    }
}
