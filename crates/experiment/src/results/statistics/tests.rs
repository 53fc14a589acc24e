use super::*;
use crate::summary::{FlowCounts, Quantiles};

pub(crate) fn run(balancer: &str, seed: u64, slowdown: f64, unfinished: u64) -> RunSummary {
    let completed = 1000 - unfinished;
    let quantiles = Quantiles { count: completed, mean: slowdown, ..Quantiles::default() };
    RunSummary {
        balancer: balancer.to_owned(),
        platform: "sim".to_owned(),
        seed,
        load: Some(0.5),
        flows: FlowCounts { listed: 1000, started: 1000, completed, failed: 0, running: unfinished, warm_up: 0 },
        fct_us: quantiles.clone(),
        slowdown: quantiles,
        slowdown_min: 1.0,
        slowdown_lower_bound_mean: slowdown,
        end_us: 1.0,
        ..RunSummary::default()
    }
}

fn judged(runs: &[RunSummary]) -> (Vec<Point>, Vec<Verdict>) {
    by(runs, Measure::Slowdown)
}

fn by(runs: &[RunSummary], rank_by: Measure) -> (Vec<Point>, Vec<Verdict>) {
    let Evaluation { points, verdicts, .. } = evaluate(runs, &Rule { rank_by, ..Rule::default() });
    (points, verdicts)
}

fn runs(rivals: &[(&str, &[f64], u64)]) -> Vec<RunSummary> {
    let of = |(name, slowdowns, unfinished): &(&str, &[f64], u64)| -> Vec<RunSummary> {
        slowdowns.iter().zip(1..).map(|(slowdown, seed)| run(name, seed, *slowdown, *unfinished)).collect()
    };
    rivals.iter().flat_map(of).collect()
}

#[test]
fn stat_matches_textbook_formulas() {
    let stat = stat(&[1.0, 2.0, 3.0]);
    assert_eq!((stat.mean, stat.sd, stat.min, stat.max), (2.0, 1.0, 1.0, 3.0));
    assert!((stat.ci95 - 4.302_652_73 / 3f64.sqrt()).abs() < 1e-9);
    assert_eq!(super::stat(&[5.0]).ci95, 0.0);
    assert_eq!(super::stat(&[]), Stat::default());
}

#[test]
fn pairing_sees_a_small_ratio_under_large_noise() {
    // Seeds differ far more than balancers, but equally for both.
    let (points, verdicts) = judged(&runs(&[("a", &[2.0, 9.0, 4.0], 0), ("b", &[2.04, 9.19, 4.08], 0)]));
    assert_eq!((verdicts[0].best.as_str(), verdicts[0].tied.len(), verdicts[0].undecided.len()), ("a", 0, 0));
    let expected = "a wins: mean slowdown 5.00 over 3 seeds; b takes 1.020 times as long (1.019 to 1.022).";
    assert_eq!(verdicts[0].sentence, expected);
    assert_eq!((points[0].ratio.value, points[0].standing, points[1].standing), (1.0, Standing::Best, Standing::Worse));
}

#[test]
fn undecided_comparisons_say_how_many_seeds_would_decide() {
    let rivals: [(&str, &[f64], u64); 4] = [
        ("a", &[2.0, 3.0, 4.0], 0),
        ("b", &[2.5, 2.9, 4.0], 0),
        ("c", &[9.0, 13.6, 18.1], 0),
        ("d", &[2.001, 3.002, 4.002], 0),
    ];
    let (_, verdicts) = judged(&runs(&rivals));
    let verdict = &verdicts[0];
    assert_eq!(
        (verdict.best.as_str(), &verdict.tied[..], &verdict.undecided[..]),
        ("a", &["d".into()][..], &["b".into()][..])
    );
    let expected = "a has the lowest mean slowdown, 3.00 over 3 seeds; c takes 4.52 times as long (4.44 to 4.60). \
                    Within 1 % of it: d. Undecided: b; about 33 seeds would decide (--seeds 33).";
    assert_eq!(verdict.sentence, expected);
    let (_, verdicts) = judged(&runs(&[("a", &[2.0], 0), ("b", &[2.01], 0)]));
    let expected = "a has the lowest mean slowdown, 2.00 over 1 seed, which may be chance. Within 1 % of it: b.";
    assert_eq!(verdicts[0].sentence, expected);
    let (_, verdicts) = judged(&runs(&[("a", &[2.0], 0), ("b", &[3.0], 0)]));
    let expected = "a has the lowest mean slowdown, 2.00 over 1 seed; b takes 1.50 times as long, which may be chance with one seed.";
    assert_eq!(verdicts[0].sentence, expected);
}

/// A loses by its slowest flows although it wins by the mean.
#[test]
fn verdict_names_metrics_that_disagree() {
    let mut runs = runs(&[("a", &[2.0, 2.2, 2.4], 0), ("b", &[3.0, 3.3, 3.6], 0)]);
    for run in &mut runs {
        run.slowdown.p99 = if run.balancer == "a" { 20.0 + run.seed as f64 } else { 10.0 + run.seed as f64 / 2.0 };
    }
    let (_, verdicts) = judged(&runs);
    let disagreement = &verdicts[0].disagreements[0];
    assert_eq!((disagreement.metric.as_str(), disagreement.best.as_str()), ("slowdown_p99", "b"));
    let expected = "By the 99th percentile of slowdown b is better: a has 2.00 times its value";
    assert!(verdicts[0].sentence.contains(expected), "{}", verdicts[0].sentence);
}

/// The case of an engineer: each load alone leaves it open, all together decide.
#[test]
fn all_points_together_decide_what_one_does_not() {
    let mut all = Vec::new();
    for (load, of_a, of_b) in [
        (0.2, [2.0, 2.2, 2.1], [2.3, 2.1, 2.3]),
        (0.5, [4.0, 4.1, 4.2], [4.6, 5.4, 4.5]),
        (0.8, [9.0, 9.1, 9.2], [10.9, 9.5, 10.8]),
    ] {
        for (name, values) in [("a", of_a), ("b", of_b)] {
            let of_load =
                (1..).zip(values).map(|(seed, value)| RunSummary { load: Some(load), ..run(name, seed, value, 0) });
            all.extend(of_load);
        }
    }
    let evaluation = evaluate(&all, &Rule::default());
    assert!(evaluation.verdicts.iter().all(|verdict| verdict.undecided == ["b"]), "{:#?}", evaluation.verdicts);
    let overall = evaluation.overall.unwrap();
    let rival = &overall.rivals[0];
    assert_eq!((overall.best.as_str(), rival.standing, rival.behind, rival.pairs), ("a", Standing::Worse, 8, 9));
    assert!(
        overall.sentence.starts_with("Over all 3 points and 3 seeds a is best; b takes 1.13 times as long"),
        "{}",
        overall.sentence
    );
    // A balancer that is not ranked everywhere is not compared.
    all.iter_mut().filter(|run| run.balancer == "b" && run.load == Some(0.8)).for_each(|run| run.flows.running = 100);
    assert_eq!(evaluate(&all, &Rule::default()).overall, None);
}

#[test]
fn unfinished_flows_prevent_winning() {
    let (_, verdicts) = judged(&runs(&[("fast", &[1.5, 1.5], 100), ("whole", &[2.0, 2.1], 0)]));
    assert_eq!(verdicts[0].best, "whole");
    assert!(verdicts[0].sentence.contains("fast left 200 of 2000 flows unfinished, so it is not ranked"));
    // A few more unfinished flows of many, as with a time limit, are no disadvantage: the bound
    // counts them.
    let (_, verdicts) = judged(&runs(&[("fast", &[1.5, 1.5], 1), ("whole", &[2.0, 2.1], 0)]));
    assert_eq!(verdicts[0].best, "fast");
    assert!(verdicts[0].sentence.contains("fast left 2 of 2000 flows unfinished."));
}

#[test]
fn runs_without_completions_do_not_count_as_fast() {
    let (points, verdicts) = judged(&runs(&[("a", &[2.0, 9.0], 1000)]));
    assert_eq!(points[0].fct_mean_us, Stat::default());
    assert_eq!((points[0].slowdown_lower_bound.mean, points[0].rank), (5.5, 0));
    assert_eq!(verdicts[0].sentence.split_once('.').unwrap().0, "No flow completed, so nothing can be compared");
}

#[test]
fn loads_and_variants_are_judged_separately() {
    let mut all = runs(&[("a", &[1.0], 0), ("b", &[2.0], 0)]);
    let mut second = runs(&[("a", &[3.0], 0), ("b", &[2.0], 0)]);
    second.iter_mut().for_each(|run| run.load = Some(0.9));
    all.append(&mut second);
    let (points, verdicts) = judged(&all);
    assert_eq!((points.len(), verdicts.len()), (4, 2));
    assert_eq!((verdicts[0].best.as_str(), verdicts[1].best.as_str()), ("a", "b"));
}

#[test]
fn indistinguishable_balancers_share_a_rank() {
    let rivals: [(&str, &[f64], u64); 6] = [
        ("far", &[9.0, 13.5, 18.0], 0),
        ("near", &[2.1, 2.9, 4.0], 0),
        ("best", &[2.0, 3.0, 4.0], 0),
        ("as-far", &[9.1, 13.4, 18.1], 0),
        ("middle", &[5.0, 7.5, 10.0], 0),
        ("lossy", &[1.0, 1.0, 1.0], 100),
    ];
    let (points, verdicts) = judged(&runs(&rivals));
    assert_eq!(points.iter().map(|point| point.rank).collect::<Vec<_>>(), [4, 1, 1, 4, 3, 0]);
    assert_eq!((verdicts[0].best.as_str(), &verdicts[0].undecided[..]), ("best", &["near".to_owned()][..]));
}

fn with_optimum(rivals: &[(&str, &[f64], u64)]) -> Vec<RunSummary> {
    let mut runs = runs(rivals);
    runs.iter_mut().for_each(|run| run.is_bound = run.balancer.starts_with("optimum"));
    runs
}

#[test]
fn bound_is_compared_and_never_wins() {
    let (points, verdicts) =
        judged(&with_optimum(&[("optimum", &[1.0, 2.0], 0), ("a", &[2.0, 4.0], 0), ("b", &[4.0, 8.0], 3)]));
    assert_eq!(verdicts[0].best, "a");
    assert!(!verdicts[0].sentence.contains("optimum"), "{}", verdicts[0].sentence);
    let share = |ix: usize| points[ix].share_of_optimum.as_ref().map(|stat| (stat.mean, stat.ci95));
    assert_eq!((share(0), share(1), share(2)), (Some((1.0, 0.0)), Some((0.5, 0.0)), Some((0.25, 0.0))));
    assert_eq!((points[0].rank, points[1].rank, points[0].is_bound), (0, 1, true));
    assert!(judged(&runs(&[("a", &[2.0], 0)])).0[0].share_of_optimum.is_none());
    let (_, verdicts) = judged(&with_optimum(&[("optimum", &[1.0], 0)]));
    assert_eq!((verdicts[0].best.as_str(), verdicts[0].tied.len()), ("", 0));
}

#[test]
fn throughput_is_ranked_the_other_way_round() {
    let mut runs = with_optimum(&[("a", &[2.0, 2.0], 1000), ("b", &[1.5, 1.5], 0), ("optimum", &[1.0, 1.0], 0)]);
    for run in &mut runs {
        run.throughput_share = match run.balancer.as_str() {
            "a" => 0.6,
            "b" => 0.3,
            _ => 0.8,
        };
    }
    let (points, verdicts) = by(&runs, Measure::Throughput);
    assert_eq!(verdicts[0].best, "a");
    let expected = "a wins: throughput 60.0 % of the host links over 2 seeds; 2.00 times that of b.";
    assert_eq!(verdicts[0].sentence, expected);
    let share = points[0].share_of_optimum.as_ref().expect("there is an optimum").mean;
    assert!((share - 0.75).abs() < 1e-12, "{share}");
}

#[test]
fn collectives_are_ranked_by_their_time() {
    // b completes flows later, and collectives sooner; c left a group unfinished.
    let mut runs = runs(&[("a", &[2.0, 2.0], 0), ("b", &[3.0, 3.0], 0), ("c", &[1.0, 1.0], 0)]);
    for run in &mut runs {
        let (mean, unfinished) = match run.balancer.as_str() {
            "a" => (1500.0, 0),
            "b" => (1200.0, 0),
            _ => (900.0, 1),
        };
        run.groups.time_us = Quantiles { count: 4 - unfinished, mean, ..Quantiles::default() };
        run.groups.time_lower_bound_mean_us = mean;
        run.groups.unfinished = unfinished;
    }
    let (points, verdicts) = by(&runs, Measure::GroupTime);
    let expected = "b wins: mean group time 1.20 ms over 2 seeds; a takes 1.25 times as long. \
                    c left 2 of 8 groups unfinished, so it is not ranked.";
    assert_eq!(verdicts[0].sentence, expected);
    assert_eq!(points.iter().map(|point| point.rank).collect::<Vec<_>>(), [2, 1, 0]);
    assert!((points[0].ratio.value - 1.25).abs() < 1e-12 && points[2].groups_unfinished == 2);
    assert!(Measure::GroupTime.is_lower_bound(&points[2]) && !Measure::GroupTime.is_lower_bound(&points[0]));
}

#[test]
fn sentences_about_many_stay_short() {
    let names: Vec<String> = (0..30).map(|ix| format!("balancer-{ix}")).collect();
    let many = |unfinished: u64| -> Vec<RunSummary> {
        names.iter().map(|name| run(name, 1, 2.0, if name == "balancer-0" { 0 } else { unfinished })).collect()
    };
    let (_, verdicts) = judged(&many(0));
    let expected = "Within 1 % of it: balancer-1, balancer-2, balancer-3 and 26 others.";
    assert!(verdicts[0].sentence.contains(expected), "{}", verdicts[0].sentence);
    let (_, verdicts) = judged(&many(200));
    let expected =
        "29 balancers left flows unfinished, most of all balancer-29, 200 of 1000; 29 of them are not ranked";
    assert!(verdicts[0].sentence.contains(expected), "{}", verdicts[0].sentence);
}
