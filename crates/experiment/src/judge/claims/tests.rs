use super::*;
use crate::results::statistics::tests::run;
use crate::summary::CoreBin;

fn runs(load: f64, rivals: &[(&str, &[f64])]) -> Vec<RunSummary> {
    let of = |(balancer, values): &(&str, &[f64])| -> Vec<RunSummary> {
        let one = |(value, seed): (&f64, u64)| {
            let mut run = run(balancer, seed, 1.5, 0);
            run.load = Some(load);
            run.fct_us.mean = *value;
            run
        };
        values.iter().zip(1..).map(one).collect()
    };
    rivals.iter().flat_map(of).collect()
}

fn claim(comparison: Comparison, loads: &[f64]) -> Claim {
    Claim {
        id: "X1".to_owned(),
        claim: "a does what was said".to_owned(),
        metric: Metric::FctMean,
        balancer: "a".to_owned(),
        comparison,
        factor: 1.0,
        window: None,
        class: None,
        server: None,
        at: vec![Selection { variant: String::new(), loads: loads.iter().copied().map(Some).collect() }],
        reason: Some("seen in the packets".to_owned()),
    }
}

fn judged(claim: Claim, runs: &[RunSummary]) -> ClaimVerdict {
    judge(&[claim], runs).remove(0)
}

fn at_most() -> Comparison {
    Comparison::AtMost("b".to_owned())
}

const BETTER: [(&str, &[f64]); 2] = [("a", &[10.0, 20.0, 30.0]), ("b", &[11.0, 21.5, 31.0])];
const WORSE: [(&str, &[f64]); 2] = [("a", &[11.0, 21.5, 31.0]), ("b", &[10.0, 20.0, 30.0])];
const NOISY: [(&str, &[f64]); 2] = [("a", &[10.0, 26.0, 30.0]), ("b", &[12.0, 20.0, 31.0])];

#[test]
fn a_right_sign_holds_a_wrong_one_fails_or_is_noise() {
    let outcomes = |comparison: Comparison, rivals: &[(&str, &[f64])]| {
        let verdict = judged(claim(comparison, &[0.5]), &runs(0.5, rivals));
        (verdict.verdict, verdict.points[0].outcome)
    };
    let holds = (Judgement::Holds, Judgement::Holds);
    let noise = (Judgement::WithinNoise, Judgement::WithinNoise);
    let fails = (Judgement::Fails, Judgement::Fails);
    assert_eq!(outcomes(at_most(), &BETTER), holds);
    assert_eq!(outcomes(at_most(), &WORSE), fails);
    assert_eq!(outcomes(at_most(), &NOISY), noise);
    let at_least = || Comparison::AtLeast("b".to_owned());
    assert_eq!(outcomes(at_least(), &BETTER), fails);
    assert_eq!(outcomes(at_least(), &WORSE), holds);
    assert_eq!(outcomes(at_least(), &NOISY), holds);
    // A tie confirms no claim.
    assert_eq!(outcomes(at_most(), &[("a", &[1.0, 2.0]), ("b", &[1.0, 2.0])]), noise);
    assert_eq!(outcomes(at_least(), &[("a", &[1.0, 2.0]), ("b", &[1.0, 2.001])]), noise);
    // One seed has no interval: within 2 % is noise.
    assert_eq!(outcomes(at_most(), &[("a", &[10.1]), ("b", &[10.0])]), noise);
    assert_eq!(outcomes(at_most(), &[("a", &[10.3]), ("b", &[10.0])]), fails);
    // A claim without comparable runs does not hold.
    assert_eq!(outcomes(at_most(), &[("a", &[10.0])]), fails);
}

#[test]
fn verdict_covers_all_loads_and_sentence_names_them() {
    let all = [runs(0.1, &BETTER), runs(0.2, &NOISY), runs(0.3, &WORSE), runs(0.4, &WORSE)].concat();
    let verdict = judged(claim(at_most(), &[0.1, 0.2, 0.3, 0.4]), &all);
    assert_eq!(verdict.verdict, Judgement::Fails);
    assert_eq!(verdict.reason.as_deref(), Some("seen in the packets"));
    assert_eq!(
        verdict.sentence,
        "holds at 1 of 4 loads; within noise at 20 %: 22 µs against 21 µs; fails at 30 %, 40 %, worst at 40 %: 21.2 µs \
         against 20 µs"
    );
    assert!((verdict.points[2].difference.mean - 1.1667).abs() < 1e-3, "{:?}", verdict.points[2]);
    // Holding at half of the points is not enough: noise of the wrong sign does not confirm the
    // claim.
    let seen = Some("seen in the packets".to_owned());
    let verdict = judged(claim(at_most(), &[0.1, 0.2]), &all);
    assert_eq!((verdict.verdict, verdict.reason), (Judgement::WithinNoise, seen.clone()));
    let verdict = judged(claim(at_most(), &[0.2]), &all);
    assert_eq!((verdict.verdict, verdict.reason), (Judgement::WithinNoise, seen));
    let mostly = [runs(0.1, &BETTER), runs(0.2, &NOISY), runs(0.3, &BETTER)].concat();
    let verdict = judged(claim(at_most(), &[0.1, 0.2, 0.3]), &mostly);
    assert_eq!((verdict.verdict, verdict.reason), (Judgement::Holds, None));
    let mut silent = claim(at_most(), &[0.3]);
    silent.reason = Some(" ".to_owned());
    assert_eq!(judged(silent, &all).reason, None);
}

#[test]
fn pairing_is_over_the_seeds_both_have() {
    let mut all = runs(0.5, &BETTER);
    all[0].fct_us.count = 0;
    (all[0].flows.completed, all[0].flows.running) = (0, 1000);
    let verdict = judged(claim(at_most(), &[0.5]), &all);
    assert_eq!((verdict.points[0].value, verdict.points[0].against), (Some(25.0), Some(26.25)));
    assert_eq!(verdict.points[0].unfinished, 1000);
    assert_eq!(verdict.sentence, "holds at 50 %: 25 µs against 26.2 µs; not every flow completed at 50 %");
    all.iter_mut().for_each(|run| run.fct_us.count = 0);
    let verdict = judged(claim(at_most(), &[0.5]), &all);
    assert_eq!((verdict.verdict, verdict.points[0].value), (Judgement::Fails, None));
    assert!(verdict.sentence.starts_with("fails at 50 %: no flow completed"), "{}", verdict.sentence);
}

#[test]
fn a_range_holds_its_ends() {
    let all = runs(0.1, &[("a", &[50.0, 52.0])]);
    let outcome = |low, high| judged(claim(Comparison::Within(low, high), &[0.1]), &all);
    assert_eq!(outcome(51.0, 51.0).verdict, Judgement::Holds);
    assert_eq!(outcome(51.0, 51.0).sentence, "holds at 10 %: 51 µs");
    assert_eq!(outcome(51.5, 60.0).sentence, "fails at 10 %: 51 µs, below 51.5 µs to 60 µs");
    assert_eq!(outcome(40.0, 50.96).sentence, "fails at 10 %: 51 µs, above 40 µs to 50.96 µs");
}

#[test]
fn the_least_slowdown_is_that_of_all_runs() {
    let mut all = runs(0.1, &[("a", &[50.0, 52.0])]);
    (all[0].slowdown_min, all[1].slowdown_min) = (0.9, 1.3);
    let bound = Claim { metric: Metric::SlowdownMin, ..claim(Comparison::Within(1.0, 1e9), &[0.1]) };
    let verdict = judged(bound.clone(), &all);
    assert_eq!((verdict.verdict, verdict.points[0].value), (Judgement::Fails, Some(0.9)));
    all[0].slowdown_min = 1.0;
    assert_eq!(judged(bound, &all).verdict, Judgement::Holds);
    let complete = Claim { metric: Metric::CompletedShare, ..claim(Comparison::Within(1.0, 1.0), &[0.1]) };
    assert_eq!(judged(complete.clone(), &all).sentence, "holds at 10 %: 100 %");
    (all[0].flows.completed, all[0].flows.running) = (999, 1);
    assert_eq!(judged(complete, &all).sentence, "fails at 10 %: 99.95 %, below 100 % to 100 %");
}

#[test]
fn a_rise_may_stay_and_may_fall_within_noise() {
    let rise = |second: &[f64]| {
        let all = [runs(0.1, &[("a", &[10.0, 11.0])]), runs(0.2, &[("a", second)]), runs(0.3, &[("a", &[90.0, 91.0])])];
        judged(claim(Comparison::RisesWithLoad, &[0.1, 0.2, 0.3]), &all.concat())
    };
    let holds = rise(&[10.0, 11.0]);
    assert_eq!((holds.verdict, holds.points.len()), (Judgement::Holds, 2));
    assert_eq!(holds.sentence, "holds at all 2 steps of load: from 10.5 µs to 90.5 µs");
    let noise = rise(&[9.0, 11.0]);
    assert_eq!((noise.verdict, noise.points[0].outcome), (Judgement::WithinNoise, Judgement::WithinNoise));
    let fails = rise(&[1.0, 1.001]);
    assert_eq!(fails.verdict, Judgement::Fails);
    assert!(fails.sentence.ends_with("fails at 20 %: 1 µs after 10.5 µs"), "{}", fails.sentence);
    let one_seed = |second: f64| {
        let all = [runs(0.1, &[("a", &[10.0])]), runs(0.2, &[("a", &[second])])].concat();
        judged(claim(Comparison::RisesWithLoad, &[0.1, 0.2]), &all).verdict
    };
    assert_eq!(one_seed(9.9), Judgement::WithinNoise);
    assert_eq!(one_seed(9.0), Judgement::Fails);
}

#[test]
fn sentence_distinguishes_variants() {
    let mut all = [runs(0.1, &BETTER), runs(0.1, &WORSE)].concat();
    for (ix, run) in all.iter_mut().enumerate() {
        run.variant = if ix < 6 { "x=1" } else { "x=2" }.to_owned();
    }
    let mut claim = claim(at_most(), &[]);
    claim.at = ["x=1", "x=2"].map(|v| Selection { variant: v.to_owned(), loads: vec![Some(0.1)] }).to_vec();
    let sentence = judged(claim, &all).sentence;
    assert_eq!(sentence, "holds at 1 of 2 settings; fails at 10 % (x=2): 21.2 µs against 20 µs");
}

#[test]
fn verdicts_serialise_as_text() {
    let verdict = judged(claim(at_most(), &[0.3]), &runs(0.3, &WORSE));
    let text = serde_json::to_string(&verdict).unwrap();
    assert!(text.contains("\"verdict\":\"fails\"") && text.contains("\"outcome\":\"fails\""), "{text}");
    assert_eq!(serde_json::from_str::<ClaimVerdict>(&text).unwrap(), verdict);
    assert_eq!(Judgement::Fails.as_str(), "fails");
}

#[test]
fn a_margin_multiplies_the_other_side() {
    let runs = runs(0.5, &[("a", &[79.0, 80.0, 81.0]), ("b", &[100.0, 100.0, 100.0])]);
    let with = |factor| judged(Claim { factor, ..claim(at_most(), &[0.5]) }, &runs);
    assert_eq!(with(0.9).verdict, Judgement::Holds);
    assert_eq!(with(0.7).verdict, Judgement::Fails);
    assert!(with(0.9).sentence.contains("80 µs against 90 µs (0.9 × 100 µs)"), "{}", with(0.9).sentence);
}

#[test]
fn core_metrics_accept_time_windows() {
    let bin = |until_s: f64| CoreBin { until_s, cllbl_rx: until_s, ..CoreBin::default() };
    let mut run = run("ecmp", 1, 1.5, 0);
    run.core.bins = [10.0, 20.0, 30.0, 40.0].map(bin).to_vec();
    let window = |from_s, until_s| Some(Window { from_s, until_s });
    let about = |window| Claim { metric: Metric::CoreCllblRx, window, ..claim(Comparison::Within(0.0, 99.0), &[0.1]) };
    assert_eq!(about(window(10.0, 30.0)).value(&run), Some(25.0), "the bins that end at 20 and 30");
    assert_eq!(about(window(0.0, f64::INFINITY)).value(&run), Some(25.0));
    assert_eq!(about(window(50.0, 60.0)).value(&run), None);
    assert_eq!(about(None).value(&run), Some(run.core.cllbl_rx));
}
