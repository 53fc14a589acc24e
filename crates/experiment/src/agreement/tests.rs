use super::*;
use crate::statistics::tests::run;
use crate::summary::{ClaimVerdict, CoreBin, SCHEMA_VERSION};

/// Two time bins, of which the second counts: CLLBL 9 before it settles, then `settled`; utilisation a tenth of that.
fn settled(balancer: &str, seed: u64, world: &str, settled: f64) -> RunSummary {
    let bin = |until_s: f64, value: f64| CoreBin {
        until_s,
        cllbl_rx: value,
        cllbl_tx: value,
        bb_rx: value / 10.0,
        bb_tx: value / 10.0,
    };
    let mut run = run(balancer, seed, 1.0, 0);
    run.world = world.to_owned();
    run.core.bins = vec![bin(10.0, 9.0), bin(20.0, settled)];
    run
}

/// Results of one world: of each balancer a value per seed, from seed 1 on.
fn world(name: &str, balancers: &[(&str, &[f64])]) -> Summary {
    let of = |(balancer, values): &(&str, &[f64])| -> Vec<RunSummary> {
        values.iter().zip(1..).map(|(value, seed)| settled(balancer, seed, name, *value)).collect()
    };
    Summary {
        schema: SCHEMA_VERSION,
        anabranch: String::new(),
        experiment: "x".to_owned(),
        file: String::new(),
        measure: Default::default(),
        setting: Vec::new(),
        warnings: Vec::new(),
        runs: balancers.iter().flat_map(of).collect(),
        points: Vec::new(),
        verdicts: Vec::new(),
        claims: Vec::new(),
    }
}

fn terms() -> Terms {
    Terms { window: Some(Window { from_s: 10.0, until_s: 20.0 }), ..Terms::default() }
}

#[test]
fn only_settled_bins_count_and_the_tolerance_is_of_the_first_world() {
    let (sim, real) =
        (world("sim", &[("a", &[4.0]), ("b", &[2.0])]), world("testbed", &[("a", &[4.39]), ("b", &[1.79])]));
    let agreement = Agreement::of(&sim, &real, &terms(), &[]);
    assert_eq!(agreement.worlds, ["sim", "testbed"]);
    assert_eq!((agreement.from_s, agreement.until_s), (10.0, Some(20.0)));
    let row = &agreement.rows[0];
    assert_eq!((row.metric.as_str(), row.balancer.as_str(), row.seeds), ("core_cllbl_rx", "a", 1));
    assert_eq!((row.first.mean, row.second.mean), (4.0, 4.39));
    assert!((row.difference - 0.0975).abs() < 1e-12);
    assert_eq!(row.closeness, Closeness::Agrees);
    let b = &agreement.rows[4];
    assert_eq!((b.balancer.as_str(), b.closeness), ("b", Closeness::Differs), "10.5 % below");
    assert_eq!((agreement.count(Closeness::Agrees), agreement.count(Closeness::Differs)), (4, 4));
    // With the time before it counts too, nothing differs.
    let all =
        Agreement::of(&sim, &real, &Terms { window: Some(Window { from_s: 0.0, until_s: 20.0 }), ..terms() }, &[]);
    assert_eq!(all.count(Closeness::Agrees), 8);
}

#[test]
fn seeds_that_both_have_are_compared_and_all_tell_of_noise() {
    // The simulator's seeds differ by draws; of the testbed there is one run, with the second seed.
    let sim = world("sim", &[("a", &[1.4, 1.6, 1.8, 2.0])]);
    let mut real = world("testbed", &[("a", &[9.0, 1.9])]);
    real.runs.remove(0);
    let row = Agreement::of(&sim, &real, &terms(), &[]).rows.remove(0);
    assert_eq!((row.seeds, row.first.mean, row.second.mean), (1, 1.6, 1.9));
    // sd 0.2582 with 3 degrees of freedom: 3.182 * 0.2582 * sqrt(2) / 1.6.
    assert!((row.noise - 0.7263).abs() < 1e-3, "{}", row.noise);
    assert_eq!(row.closeness, Closeness::WithinNoise);
    // Where the simulator always says the same, nothing is excused.
    let row = Agreement::of(&world("sim", &[("a", &[1.6; 4])]), &real, &terms(), &[]).rows.remove(0);
    assert_eq!((row.noise, row.closeness), (0.0, Closeness::Differs));
}

#[test]
fn two_worlds_that_are_far_apart_are_no_noise() {
    let (sim, real) = (world("sim", &[("a", &[1.0, 1.1, 0.9])]), world("testbed", &[("a", &[3.0, 3.1, 2.9])]));
    let agreement = Agreement::of(&sim, &real, &terms(), &[]);
    assert_eq!(agreement.count(Closeness::Differs), 4, "{:?}", agreement.rows[0]);
    assert_eq!(agreement.rows[0].seeds, 3);
}

#[test]
fn what_one_world_lacks_is_named() {
    let (sim, real) =
        (world("sim", &[("a", &[1.0]), ("b", &[1.0])]), world("testbed", &[("a", &[1.0]), ("c", &[1.0])]));
    let agreement = Agreement::of(&sim, &real, &terms(), &[]);
    assert_eq!(agreement.rows.len(), 4);
    assert_eq!(agreement.left_out, ["b, load 0.5: no run of it in testbed", "c, load 0.5: no run of it in sim"]);
    // A window no bin lies in leaves nothing to compare.
    let late = Terms { window: Some(Window { from_s: 50.0, until_s: 60.0 }), ..Terms::default() };
    let agreement = Agreement::of(&sim, &sim, &late, &[]);
    assert!(agreement.rows.is_empty());
    assert!(agreement.left_out[0].ends_with("core_bb_rx has no value"), "{:?}", agreement.left_out);
}

#[test]
fn a_claim_that_fails_in_one_world_is_broken() {
    let verdict = |id: &str, verdict| ClaimVerdict {
        id: id.to_owned(),
        claim: "it is so".to_owned(),
        verdict,
        sentence: format!("{id} was looked at"),
        points: Vec::new(),
        reason: None,
    };
    let (mut sim, mut real) = (world("sim", &[("a", &[1.0])]), world("testbed", &[("a", &[1.0])]));
    sim.claims = vec![verdict("X1", ClaimOutcome::Reproduced), verdict("X2", ClaimOutcome::Reproduced)];
    real.claims = vec![verdict("X1", ClaimOutcome::Reproduced), verdict("X2", ClaimOutcome::NotReproduced)];
    let agreement = Agreement::of(&sim, &real, &terms(), &[]);
    let broken: Vec<&str> = agreement.broken_claims().map(|claim| claim.id.as_str()).collect();
    assert_eq!((agreement.claims.len(), broken), (2, vec!["X2"]));
    assert_eq!(agreement.claims[1].first, Some(ClaimOutcome::Reproduced));
}

#[test]
fn a_claim_is_looked_at_over_the_seeds_of_both_too() {
    let (mut sim, real) = (world("sim", &[("a", &[2.2, 1.6, 1.6])]), world("testbed", &[("a", &[2.2])]));
    let claim = Claim {
        id: "X1".to_owned(),
        claim: "it is even".to_owned(),
        metric: Metric::CoreCllblRx,
        balancer: "a".to_owned(),
        comparison: claims::Comparison::Within(1.0, 2.0),
        times: 1.0,
        window: terms().window,
        class: None,
        server: None,
        at: vec![claims::Selection { variant: sim.runs[0].variant.clone(), loads: vec![sim.runs[0].load] }],
        reason: None,
    };
    let claims = [claim];
    sim.claims = claims::judge(&claims, &sim.runs);
    let row = Agreement::of(&sim, &real, &terms(), &claims).claims.remove(0);
    assert_eq!(row.first, Some(ClaimOutcome::Reproduced), "1.8 in the mean");
    assert_eq!(row.otherwise(), Some(ClaimOutcome::NotReproduced), "2.2 with the first seed");
    let row = Agreement::of(&sim, &sim, &terms(), &claims).claims.remove(0);
    assert_eq!((row.first_shared, row.otherwise()), (None, None), "there are no others");
}
