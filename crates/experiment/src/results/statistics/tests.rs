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
    evaluate(runs, Measure::Slowdown)
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
    assert!((stat.ci95 - 4.302_653 / 3f64.sqrt()).abs() < 1e-9);
    assert_eq!(super::stat(&[5.0]).ci95, 0.0);
    assert_eq!(super::stat(&[]), Stat::default());
}

#[test]
fn pairing_sees_a_small_difference_under_large_noise() {
    // Seeds differ far more than balancers, but equally for both.
    let (points, verdicts) = judged(&runs(&[("a", &[2.0, 9.0, 4.0], 0), ("b", &[2.1, 9.1, 4.11], 0)]));
    assert_eq!((verdicts[0].best.as_str(), verdicts[0].tied.len()), ("a", 0));
    assert!(verdicts[0].sentence.starts_with("a wins: mean slowdown 5.00 over 3 seeds, 2.0 % below b (5.10)"));
    assert!((points[1].vs_best.mean - 0.1033).abs() < 1e-3);
    assert_eq!(points[0].vs_best.mean, 0.0);
}

#[test]
fn differences_within_noise_are_ties() {
    let (_, verdicts) =
        judged(&runs(&[("a", &[2.0, 3.0, 4.0], 0), ("b", &[2.5, 2.9, 4.0], 0), ("c", &[9.0, 9.5, 9.9], 0)]));
    assert_eq!((verdicts[0].best.as_str(), verdicts[0].tied.as_slice()), ("a", &["b".to_owned()][..]));
    assert!(verdicts[0].sentence.contains("b is within noise"), "{}", verdicts[0].sentence);
    assert!(verdicts[0].sentence.contains("below c"), "{}", verdicts[0].sentence);
    let (_, verdicts) = judged(&runs(&[("a", &[2.0], 0), ("b", &[2.01], 0)]));
    assert!(verdicts[0].sentence.starts_with("No clear winner over 1 seed"), "{}", verdicts[0].sentence);
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
    let (points, _) = judged(&runs(&[("a", &[2.0, 9.0], 1000)]));
    assert_eq!(points[0].fct_mean_us, Stat::default());
    assert_eq!(points[0].slowdown_lower_bound.mean, 5.5);
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
        ("far", &[9.0, 9.5, 9.9], 0),
        ("near", &[2.5, 2.9, 4.0], 0),
        ("best", &[2.0, 3.0, 4.0], 0),
        ("as-far", &[9.1, 9.4, 9.9], 0),
        ("middle", &[5.0, 6.0, 7.0], 0),
        ("lossy", &[1.0, 1.0, 1.0], 100),
    ];
    let (points, verdicts) = judged(&runs(&rivals));
    assert_eq!(points.iter().map(|point| point.rank).collect::<Vec<_>>(), [4, 1, 1, 4, 3, 0]);
    assert_eq!((verdicts[0].best.as_str(), &verdicts[0].tied[..]), ("best", &["near".to_owned()][..]));
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
    let (points, verdicts) = evaluate(&runs, Measure::Throughput);
    assert_eq!(verdicts[0].best, "a");
    let expected = "a wins: throughput 60.0 % of the host links over 2 seeds, 100.0 % above b (30.0 %).";
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
    let (points, verdicts) = evaluate(&runs, Measure::GroupTime);
    let expected = "b wins: mean group time 1.20 ms over 2 seeds, 20.0 % below a (1.50 ms). \
                    c left 2 of 8 groups unfinished, so it is not ranked.";
    assert_eq!(verdicts[0].sentence, expected);
    assert_eq!(points.iter().map(|point| point.rank).collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!((points[0].vs_best.mean, points[2].groups_unfinished), (300.0, 2));
    assert!(Measure::GroupTime.is_lower_bound(&points[2]) && !Measure::GroupTime.is_lower_bound(&points[0]));
}

#[test]
fn sentences_about_many_stay_short() {
    let names: Vec<String> = (0..30).map(|ix| format!("balancer-{ix}")).collect();
    let many = |unfinished: u64| -> Vec<RunSummary> {
        names.iter().map(|name| run(name, 1, 2.0, if name == "balancer-0" { 0 } else { unfinished })).collect()
    };
    let (_, verdicts) = judged(&many(0));
    let expected = "balancer-1, balancer-2, balancer-3 and 26 others are within 2 %";
    assert!(verdicts[0].sentence.contains(expected), "{}", verdicts[0].sentence);
    let (_, verdicts) = judged(&many(200));
    let expected =
        "29 balancers left flows unfinished, most of all balancer-29, 200 of 1000; 29 of them are not ranked";
    assert!(verdicts[0].sentence.contains(expected), "{}", verdicts[0].sentence);
}
