use super::*;
use crate::results::statistics::tests::run;
use crate::summary::{ClaimVerdict, CoreBin, SCHEMA_VERSION};

/// A run with two time bins, of which the second counts: CLLBL 9 before it settles, then `settled`;
/// utilisation a tenth of that.
fn settled(balancer: &str, seed: u64, platform: &str, settled: f64) -> RunSummary {
    let bin = |until_s: f64, value: f64| CoreBin {
        until_s,
        cllbl_rx: value,
        cllbl_tx: value,
        bb_rx: value / 10.0,
        bb_tx: value / 10.0,
    };
    let mut run = run(balancer, seed, 1.0, 0);
    run.platform = platform.to_owned();
    run.core.bins = vec![bin(10.0, 9.0), bin(20.0, settled)];
    run
}

fn platform(name: &str, balancers: &[(&str, &[f64])]) -> Summary {
    let of = |(balancer, values): &(&str, &[f64])| -> Vec<RunSummary> {
        values.iter().zip(1..).map(|(value, seed)| settled(balancer, seed, name, *value)).collect()
    };
    Summary {
        schema: SCHEMA_VERSION,
        experiment: "x".to_owned(),
        runs: balancers.iter().flat_map(of).collect(),
        ..Summary::default()
    }
}

fn criteria() -> ValidationCriteria {
    ValidationCriteria { window: Some(Window { from_s: 10.0, until_s: 20.0 }), ..ValidationCriteria::default() }
}

#[test]
fn only_bins_in_the_window_count_and_the_tolerance_is_relative_to_the_first_platform() {
    let (sim, real) =
        (platform("sim", &[("a", &[4.0]), ("b", &[2.0])]), platform("testbed", &[("a", &[4.39]), ("b", &[1.79])]));
    let validation = Validation::of(&sim, &real, &criteria(), &[]);
    assert_eq!(validation.platforms, ["sim", "testbed"]);
    assert_eq!((validation.from_s, validation.until_s), (10.0, Some(20.0)));
    let row = &validation.rows[0];
    assert_eq!((row.metric.as_str(), row.balancer.as_str(), row.seeds), ("core_cllbl_rx", "a", 1));
    assert_eq!((row.first.mean, row.second.mean), (4.0, 4.39));
    assert!((row.difference - 0.0975).abs() < 1e-12);
    assert_eq!(row.verdict, Judgement::Holds);
    let b = &validation.rows[4];
    assert_eq!((b.balancer.as_str(), b.verdict), ("b", Judgement::Fails), "10.5 % below");
    assert_eq!((validation.count(Judgement::Holds), validation.count(Judgement::Fails)), (4, 4));
    // If the earlier time counts too, all figures agree.
    let all = Validation::of(
        &sim,
        &real,
        &ValidationCriteria { window: Some(Window { from_s: 0.0, until_s: 20.0 }), ..criteria() },
        &[],
    );
    assert_eq!(all.count(Judgement::Holds), 8);
}

#[test]
fn common_seeds_are_compared_and_all_seeds_give_the_noise() {
    // The simulator's seeds differ by draws; the testbed has one run, with the second seed.
    let sim = platform("sim", &[("a", &[1.4, 1.6, 1.8, 2.0])]);
    let mut real = platform("testbed", &[("a", &[9.0, 1.9])]);
    real.runs.remove(0);
    let row = Validation::of(&sim, &real, &criteria(), &[]).rows.remove(0);
    assert_eq!((row.seeds, row.first.mean, row.second.mean), (1, 1.6, 1.9));
    // sd 0.2582 with 3 degrees of freedom: 3.182 * 0.2582 * sqrt(2) / 1.6.
    assert!((row.noise - 0.7263).abs() < 1e-3, "{}", row.noise);
    assert_eq!(row.verdict, Judgement::WithinNoise);
    // If the simulator gives the same value with every seed, no difference is noise.
    let row = Validation::of(&platform("sim", &[("a", &[1.6; 4])]), &real, &criteria(), &[]).rows.remove(0);
    assert_eq!((row.noise, row.verdict), (0.0, Judgement::Fails));
}

#[test]
fn large_platform_differences_are_not_noise() {
    let (sim, real) = (platform("sim", &[("a", &[1.0, 1.1, 0.9])]), platform("testbed", &[("a", &[3.0, 3.1, 2.9])]));
    let validation = Validation::of(&sim, &real, &criteria(), &[]);
    assert_eq!(validation.count(Judgement::Fails), 4, "{:?}", validation.rows[0]);
    assert_eq!(validation.rows[0].seeds, 3);
}

#[test]
fn points_missing_on_one_platform_are_listed() {
    let (sim, real) =
        (platform("sim", &[("a", &[1.0]), ("b", &[1.0])]), platform("testbed", &[("a", &[1.0]), ("c", &[1.0])]));
    let validation = Validation::of(&sim, &real, &criteria(), &[]);
    assert_eq!(validation.rows.len(), 4);
    assert_eq!(validation.left_out, ["b, load 0.5: no run of it in testbed", "c, load 0.5: no run of it in sim"]);
    // A window without bins leaves no figure to compare.
    let late =
        ValidationCriteria { window: Some(Window { from_s: 50.0, until_s: 60.0 }), ..ValidationCriteria::default() };
    let validation = Validation::of(&sim, &sim, &late, &[]);
    assert!(validation.rows.is_empty());
    assert!(validation.left_out[0].ends_with("core_bb_rx has no value"), "{:?}", validation.left_out);
}

#[test]
fn claim_failing_on_one_platform_is_broken() {
    let verdict = |id: &str, verdict| ClaimVerdict {
        id: id.to_owned(),
        claim: "it is so".to_owned(),
        verdict,
        sentence: format!("{id} was looked at"),
        points: Vec::new(),
        reason: None,
    };
    let (mut sim, mut real) = (platform("sim", &[("a", &[1.0])]), platform("testbed", &[("a", &[1.0])]));
    sim.claims = vec![verdict("X1", Judgement::Holds), verdict("X2", Judgement::Holds)];
    real.claims = vec![verdict("X1", Judgement::Holds), verdict("X2", Judgement::Fails)];
    let validation = Validation::of(&sim, &real, &criteria(), &[]);
    let broken: Vec<&str> = validation.broken_claims().map(|claim| claim.id.as_str()).collect();
    assert_eq!((validation.claims.len(), broken), (2, vec!["X2"]));
    assert_eq!(validation.claims[1].first, Some(Judgement::Holds));
}

#[test]
fn claim_is_also_judged_over_common_seeds() {
    let (mut sim, real) = (platform("sim", &[("a", &[2.2, 1.6, 1.6])]), platform("testbed", &[("a", &[2.2])]));
    let claim = Claim {
        id: "X1".to_owned(),
        claim: "it is even".to_owned(),
        metric: Metric::CoreCllblRx,
        balancer: "a".to_owned(),
        comparison: claims::Comparison::Within(1.0, 2.0),
        factor: 1.0,
        window: criteria().window,
        class: None,
        server: None,
        at: vec![claims::Selection { variant: sim.runs[0].variant.clone(), loads: vec![sim.runs[0].load] }],
        reason: None,
    };
    let claims = [claim];
    sim.claims = claims::judge(&claims, &sim.runs);
    let row = Validation::of(&sim, &real, &criteria(), &claims).claims.remove(0);
    assert_eq!(row.first, Some(Judgement::Holds), "1.8 in the mean");
    assert_eq!(row.otherwise(), Some(Judgement::Fails), "2.2 with the first seed");
    let row = Validation::of(&sim, &sim, &criteria(), &claims).claims.remove(0);
    assert_eq!((row.first_shared, row.otherwise()), (None, None), "there are no others");
}
