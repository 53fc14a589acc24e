//! Verdict rules one by one, and indexes with errors.

use std::path::{Path, PathBuf};

use super::grade::{grade, standing};
use super::verdict::{reason, verdict, verdict_of};
use super::*;
use crate::claims::{Claim, Comparison, Metric, Selection};
use crate::summary::{CoreBin, Judgement, RunSummary, Summary};

fn number(comparison: Comparison) -> Number {
    Number {
        claim: Claim {
            id: "E1".to_owned(),
            claim: "what".to_owned(),
            metric: Metric::CoreCllblRx,
            balancer: "ecmp".to_owned(),
            comparison,
            factor: 1.0,
            window: None,
            class: None,
            server: None,
            at: vec![Selection { variant: String::new(), loads: vec![None] }],
            reason: None,
        },
        kind: Some(Kind::Magnitude),
        reading: None,
        printed: "4".to_owned(),
        value: Some(4.0),
        run: 0,
        other: None,
        equals: None,
        tolerance: 1e-9,
        every_seed: false,
        baseline: None,
        per: None,
        bound: None,
        inconsistent: None,
        found: None,
        figure: None,
    }
}

fn at_most() -> Comparison {
    Comparison::AtMost("spt".to_owned())
}

fn ratio(comparison: Comparison, factor: f64) -> Number {
    let other =
        ComparedFigure { run: 0, balancer: "spt".to_owned(), variant: None, window: None, is_difference: false };
    let mut number = Number { other: Some(other), ..number(comparison) };
    number.claim.factor = factor;
    number
}

fn at(number: &Number, mean: f64, ci95: f64) -> PointResult {
    let outcome = match number.claim.comparison {
        Comparison::Within(low, high) if (low..=high).contains(&mean) => Some(Judgement::Holds),
        Comparison::Unjudged => None,
        _ => Some(Judgement::Fails),
    };
    let measured = Some(Measured { mean, ci95, min: mean - ci95, max: mean + ci95 });
    PointResult { variant: String::new(), load: None, measured, outcome }
}

fn of(number: &Number, mean: f64, ci95: f64) -> Option<Verdict> {
    verdict(number, &[at(number, mean, ci95)])
}

#[test]
fn exact_is_equal_to_the_closed_form_in_every_seed() {
    let closed = Number { equals: Some(4.0), tolerance: 1e-3, ..number(Comparison::Within(3.9, 4.1)) };
    assert_eq!(of(&closed, 4.001, 0.001), Some(Verdict::Exact));
    assert_eq!(of(&closed, 4.001, 0.02), Some(Verdict::Reproduced), "one seed is off");
    assert_eq!(of(&closed, 4.05, 0.0), Some(Verdict::Reproduced));
    assert_eq!(of(&closed, 4.2, 0.0), Some(Verdict::NotReproduced));
    // With only a closed form, a number is exact or not judged.
    let only = Number { equals: Some(0.0), ..number(Comparison::Unjudged) };
    assert_eq!((of(&only, 0.0, 0.0), of(&only, 1e-12, 0.0)), (Some(Verdict::Exact), Some(Verdict::NotReproduced)));
}

#[test]
fn a_band_has_its_ends() {
    let band = number(Comparison::Within(1.8, 2.8));
    for (measured, expected) in [(1.8, Verdict::Reproduced), (2.8, Verdict::Reproduced), (2.81, Verdict::NotReproduced)]
    {
        assert_eq!(of(&band, measured, 0.0), Some(expected), "{measured}");
    }
    assert_eq!(of(&number(Comparison::Unjudged), 1.0, 0.0), None, "without a band nothing is judged");
}

#[test]
fn a_value_outside_its_band_never_looks_as_if_inside() {
    let band = number(Comparison::Within(0.45, 0.5));
    let text = |mean: f64| super::table::measured_text(&band, &[at(&band, mean, 0.0)]);
    assert_eq!((text(0.44996).as_str(), text(0.46).as_str()), ("0.44996", "0.46"));
    assert_eq!(super::table::band_text(&band), "0.45 to 0.5");
}

#[test]
fn direction_is_half_of_the_printed_effect() {
    // Printed: from 4 to 2, required at most 2.5.
    let banded = Number { value: Some(2.0), baseline: Some(4.0), ..number(Comparison::Within(1.5, 2.5)) };
    for (measured, ci95, expected) in [
        (2.9, 0.1, Verdict::DirectionOnly),
        (3.0, 0.9, Verdict::DirectionOnly),
        (3.01, 0.1, Verdict::NotReproduced),
        (2.9, 1.2, Verdict::NotReproduced),
        (4.5, 0.1, Verdict::NotReproduced),
        (1.2, 0.1, Verdict::DirectionOnly),
    ] {
        assert_eq!(of(&banded, measured, ci95), Some(expected), "{measured} ± {ci95}");
    }
    let no_baseline = Number { baseline: None, ..banded.clone() };
    assert_eq!(of(&no_baseline, 2.9, 0.1), Some(Verdict::NotReproduced), "an effect on what?");
    let inside = Number { baseline: Some(2.5), ..banded };
    assert_eq!(of(&inside, 2.6, 0.0), Some(Verdict::NotReproduced), "no effect at all would be in the band");
}

#[test]
fn ratios_are_effects_on_one() {
    let above = Number { value: Some(1.4), ..ratio(Comparison::Within(1.3, f64::INFINITY), 1.0) };
    assert_eq!(of(&above, 1.2, 0.1), Some(Verdict::DirectionOnly));
    assert_eq!(of(&above, 1.19, 0.1), Some(Verdict::NotReproduced), "less than half");
    assert_eq!(of(&above, 1.2, 0.3), Some(Verdict::NotReproduced), "1 is inside the interval");
    let below = Number { value: Some(0.5), ..ratio(at_most(), 0.6) };
    assert_eq!(of(&below, 0.7, 0.1), Some(Verdict::DirectionOnly));
    assert_eq!(of(&below, 0.8, 0.1), Some(Verdict::NotReproduced));
    let nothing = Number { value: None, ..ratio(at_most(), 0.6) };
    assert_eq!(of(&nothing, 0.7, 0.1), Some(Verdict::NotReproduced), "the document printed no size");
    let order = Number { value: Some(0.5), ..ratio(at_most(), 1.0) };
    assert_eq!(of(&order, 0.7, 0.1), Some(Verdict::NotReproduced), "an order is its own direction");
    // Printed above 1, required at least 0.9: below 0.9 is the opposite direction.
    let tie = Number { value: Some(1.06), ..ratio(Comparison::Within(0.9, f64::INFINITY), 1.0) };
    assert_eq!(of(&tie, 0.8, 0.0), Some(Verdict::NotReproduced));
}

fn core_runs(balancer: &str, runs: &[(f64, f64, f64)]) -> Vec<RunSummary> {
    let one = |(seed, (first, last, tx)): (usize, &(f64, f64, f64))| {
        let bin = |until_s, cllbl_rx| CoreBin { until_s, cllbl_rx, cllbl_tx: *tx, ..CoreBin::default() };
        let mut run = crate::results::statistics::tests::run(balancer, seed as u64, 1.0, 0);
        run.core.bins = vec![bin(10.0, *first), bin(20.0, *last)];
        run
    };
    runs.iter().enumerate().map(one).collect()
}

fn judged(keys: &str, ecmp: &[(f64, f64, f64)], spray: &[(f64, f64, f64)]) -> NumberResult {
    let probes = "\nset = [\"probes.bin=10s\", \"probes.fixed_bins=true\"]\nreason = \"bins\"";
    let text = GOOD.replace("file = \"small.toml\"", &format!("file = \"small.toml\"{probes}"));
    let text = text.replace("metric = \"slowdown_mean\"", "metric = \"core_cllbl_rx\"");
    let text =
        text.replace("ratio_to = \"ecmp\"\nbelow = 1\n", &format!("from = \"10s\"\nlowest_load_only = true\n{keys}"));
    let index = load(&text).unwrap_or_else(|error| panic!("{error}"));
    let mut runs = core_runs("ecmp", ecmp);
    runs.extend(core_runs("spray", spray));
    let at = &index.numbers[0].claim.at[0];
    runs.iter_mut().for_each(|run| (run.variant, run.load) = (at.variant.clone(), at.loads[0]));
    let summary = Summary { runs, ..Summary::default() };
    let result = judge(&index, &["E9".to_owned()], &[(0, summary)].into_iter().collect());
    result.entries[0].numbers[0].clone()
}

#[test]
fn every_seed_must_be_in_the_band_if_required() {
    let seeds = [(2.0, 2.0, 2.0), (2.6, 2.6, 2.0)];
    let of = |keys: &str| judged(keys, &[], &seeds).verdict;
    assert_eq!(of("within = [1, 2.5]\n"), Some(Verdict::Reproduced), "the mean is 2.3");
    assert_eq!(of("within = [1, 2.5]\nevery_seed = true\n"), Some(Verdict::NotReproduced));
    let result = judged("within = [1, 2.7]\nevery_seed = true\n", &[], &seeds);
    assert_eq!(
        (result.verdict, result.measured.as_str(), result.band.as_str()),
        (Some(Verdict::Reproduced), "2.3, seeds 2 to 2.6", "1 to 2.7, every seed")
    );
}

#[test]
fn metric_is_divided_by_per_and_compared_across_windows() {
    let seeds = [(4.0, 2.0, 4.0), (4.0, 2.0, 4.0)];
    let measured = |keys: &str| judged(keys, &[(8.0, 8.0, 4.0); 2], &seeds).points[0].measured.expect("measured").mean;
    assert_eq!(measured("per = \"core_cllbl_tx\"\nwithin = [0, 1]\n"), 0.5);
    assert_eq!(measured("per = \"core_cllbl_tx\"\nratio_to = \"ecmp\"\nbelow = 1\n"), 0.25);
    let times = "ratio_to = \"spray\"\nother_from = \"0s\"\nother_until = \"10s\"\nbelow = 1\n";
    assert_eq!(measured(times), 0.5);
}

#[test]
fn order_shows_the_ratio_of_means() {
    let (ecmp, spray) = ([(0.0, 2.0, 0.0), (0.0, 20.0, 0.0)], [(0.0, 4.0, 0.0), (0.0, 10.0, 0.0)]);
    let of = |keys: &str| {
        let result = judged(keys, &ecmp, &spray);
        (result.verdict, result.points[0].measured.expect("measured"))
    };
    let (verdict, order) = of("at_most = \"ecmp\"\n");
    assert_eq!((verdict, order.mean), (Some(Verdict::Reproduced), 14.0 / 22.0), "7 is less than 11");
    // Residuals of 2.727 and -2.727 around the ratio, of 11; Student's t for two seeds is 12.706.
    assert!((order.ci95 - 3.150).abs() < 0.001, "{order:?}");
    assert_eq!((order.min, order.max), (0.5, 2.0));
    let (verdict, ratios) = of("ratio_to = \"ecmp\"\nbelow = 1\n");
    assert_eq!((verdict, ratios.mean), (Some(Verdict::NotReproduced), 1.25), "seed by seed");
}

#[test]
fn a_tie_is_an_interval_with_one_in_it() {
    let of = |spray: &[(f64, f64, f64)]| {
        judged("ties_with = \"ecmp\"\n", &[(0.0, 2.0, 0.0), (0.0, 2.0, 0.0), (0.0, 2.0, 0.0)], spray).verdict
    };
    assert_eq!(of(&[(0.0, 2.1, 0.0), (0.0, 1.9, 0.0), (0.0, 2.02, 0.0)]), Some(Verdict::Reproduced));
    assert_eq!(of(&[(0.0, 2.1, 0.0), (0.0, 2.11, 0.0), (0.0, 2.12, 0.0)]), Some(Verdict::NotReproduced));
    assert_eq!(of(&[(0.0, 2.0, 0.0); 3]), Some(Verdict::Reproduced));
}

#[test]
fn contradiction_gives_document_inconsistent() {
    let wrong = Number { inconsistent: Some("1 + 1 is 2".to_owned()), ..number(Comparison::Unjudged) };
    let points = [at(&wrong, 5.0, 0.0)];
    let verdict = verdict(&wrong, &points);
    assert_eq!(verdict, Some(Verdict::DocumentInconsistent));
    assert_eq!(reason(&wrong, None, verdict, &points), Some("1 + 1 is 2".to_owned()));
}

#[test]
fn several_points_hold_if_none_fails_and_most_hold() {
    let order = ratio(at_most(), 1.0);
    let point = |outcome| PointResult { outcome: Some(outcome), ..at(&order, 1.0, 0.0) };
    use Judgement::{Fails, Holds, WithinNoise};
    for (outcomes, expected) in [
        (vec![Holds, Holds, WithinNoise], Verdict::Reproduced),
        (vec![Holds, WithinNoise], Verdict::NotReproduced),
        (vec![Holds, Holds, Holds, Fails], Verdict::NotReproduced),
        (vec![], Verdict::NotReproduced),
    ] {
        let points: Vec<PointResult> = outcomes.iter().map(|outcome| point(*outcome)).collect();
        assert_eq!(verdict(&order, &points), Some(expected), "{outcomes:?}");
    }
    let missing = PointResult { measured: None, ..point(Holds) };
    assert_eq!(verdict(&order, &[missing]), Some(Verdict::NotReproduced), "nothing was measured");
}

#[test]
fn reason_applies_only_in_its_range() {
    let mut number = Number { found: Some((2.1, 2.4)), ..number(Comparison::Within(1.0, 2.0)) };
    number.claim.reason = Some("one round".to_owned());
    let reason_at = |measured: f64| {
        let points = [at(&number, measured, 0.0)];
        reason(&number, None, verdict(&number, &points), &points)
    };
    assert_eq!(reason_at(2.2).as_deref(), Some("one round"));
    assert_eq!(reason_at(1.5), None, "what is reproduced needs no reason");
    assert!(reason_at(3.0).expect("a text without a reason").starts_with("not explained"));
}

#[test]
fn number_of_refuted_reading_has_the_reason_of_the_reading() {
    let number = number(Comparison::Within(1.0, 2.0));
    let reason_of = |status, measured: f64| {
        let [id, name, why] = ["E9", "first", "a figure excludes it"].map(str::to_owned);
        let (reading, points) = (Reading { id, name, status, reason: why }, [at(&number, measured, 0.0)]);
        reason(&number, Some(&reading), verdict(&number, &points), &points)
    };
    assert_eq!(reason_of(Status::Refuted, 3.0).as_deref(), Some("a figure excludes it"));
    assert_eq!(reason_of(Status::Refuted, 1.5), None, "what is reproduced needs no reason");
    assert_eq!(reason_of(Status::Open, 3.0), None, "an open reading may be right");
}

fn blank() -> NumberResult {
    NumberResult {
        what: "a number".to_owned(),
        kind: None,
        reading: None,
        printed: String::new(),
        value: None,
        metric: String::new(),
        form: "value".to_owned(),
        points: Vec::new(),
        measured: "2".to_owned(),
        band: "1".to_owned(),
        bound: String::new(),
        verdict: None,
        standing: None,
        reason: None,
        figure: None,
        run: String::new(),
    }
}

#[test]
fn experiment_has_the_verdict_of_its_worst_number() {
    let result = |verdict| NumberResult { verdict, ..blank() };
    // Every verdict is worse than all before it.
    for (at, worst) in Verdict::ALL.into_iter().enumerate() {
        let numbers: Vec<NumberResult> = Verdict::ALL[..=at].iter().map(|verdict| result(Some(*verdict))).collect();
        assert_eq!(verdict_of(&numbers).0, worst);
    }
    let (verdict, why) =
        verdict_of(&[result(Some(Verdict::Reproduced)), result(None), result(Some(Verdict::NotReproduced))]);
    assert_eq!(verdict, Verdict::NotReproduced);
    assert_eq!(why, "1 of 2 hold; a number: measured 2, expected 1; not explained");
    assert_eq!(verdict_of(&[result(None)]).0, Verdict::NotReproduced, "nothing judged is nothing reproduced");
}

fn result_of(kind: Kind, standing: Standing, reading: Option<&Reading>) -> NumberResult {
    let verdict = if standing == Standing::Holds { Verdict::Reproduced } else { Verdict::NotReproduced };
    NumberResult {
        kind: Some(kind),
        standing: Some(standing),
        verdict: Some(verdict),
        reading: reading.cloned(),
        ..blank()
    }
}

#[test]
fn grade_asks_claims_first_and_then_magnitudes() {
    use Kind::{Check, Claim, Magnitude};
    use Standing::{Contradicted, Holds, Inconsistent, Noise, Part};
    let of = |numbers: &[(Kind, Standing)]| {
        let numbers: Vec<NumberResult> =
            numbers.iter().map(|(kind, standing)| result_of(*kind, *standing, None)).collect();
        grade(&numbers, &[], None).0
    };
    for (numbers, expected) in [
        (vec![(Claim, Holds), (Magnitude, Holds), (Check, Contradicted)], Grade::Numbers),
        (vec![(Claim, Holds), (Magnitude, Noise)], Grade::ClaimOnly),
        (vec![(Claim, Holds), (Claim, Contradicted)], Grade::Part),
        (vec![(Claim, Part)], Grade::Part),
        (vec![(Claim, Noise), (Claim, Contradicted)], Grade::Inconclusive),
        (vec![(Claim, Contradicted), (Magnitude, Holds)], Grade::Contradicted),
        (vec![(Magnitude, Contradicted)], Grade::Contradicted),
        (vec![(Magnitude, Noise)], Grade::Inconclusive),
        (vec![(Magnitude, Holds), (Magnitude, Contradicted)], Grade::Part),
        (vec![(Claim, Inconsistent)], Grade::DocumentInconsistent),
        (vec![(Claim, Inconsistent), (Claim, Holds)], Grade::Numbers),
        (vec![(Check, Holds)], Grade::Calibrated),
        (vec![], Grade::Calibrated),
    ] {
        assert_eq!(of(&numbers), expected, "{numbers:?}");
    }
    let half = NumberResult { verdict: Some(Verdict::DirectionOnly), ..result_of(Magnitude, Contradicted, None) };
    assert_eq!(grade(&[result_of(Claim, Holds, None), half], &[], None).0, Grade::ClaimAndSize);
}

#[test]
fn readings_decide_unless_corrected_or_refuted() {
    let reading =
        |name: &str, status| Reading { id: "E1".to_owned(), name: name.to_owned(), status, reason: String::new() };
    let of = |readings: &[(Status, Standing)]| {
        let names = ["a", "b", "c"];
        let readings: Vec<(Reading, Standing)> =
            readings.iter().zip(names).map(|((status, standing), name)| (reading(name, *status), *standing)).collect();
        let numbers: Vec<NumberResult> =
            readings.iter().map(|(reading, standing)| result_of(Kind::Claim, *standing, Some(reading))).collect();
        let readings: Vec<Reading> = readings.into_iter().map(|(reading, _)| reading).collect();
        grade(&numbers, &readings, None)
    };
    use Standing::{Contradicted, Holds, Noise};
    use Status::{Corrected, Open, Printed, Refuted};
    let (depends, text) = of(&[(Printed, Holds), (Open, Contradicted)]);
    assert_eq!(
        (depends, text.as_str()),
        (Grade::DependsOnReading, "holds in 1 of 2 readings (a: numbers; b: contradicted)")
    );
    assert_eq!(of(&[(Open, Holds), (Refuted, Contradicted), (Corrected, Contradicted)]).0, Grade::Numbers);
    assert_eq!(of(&[(Open, Contradicted), (Open, Contradicted)]).0, Grade::Contradicted);
    assert_eq!(of(&[(Open, Contradicted), (Open, Noise)]).0, Grade::Inconclusive);
    assert_eq!(of(&[(Open, Holds), (Open, Holds)]).0, Grade::Numbers);
}

#[test]
fn missing_input_leaves_failures_inconclusive() {
    let of = |standing| grade(&[result_of(Kind::Claim, standing, None)], &[], Some("no length of a job")).0;
    assert_eq!((of(Standing::Contradicted), of(Standing::Holds)), (Grade::Inconclusive, Grade::Numbers));
    let checks = |missing| grade(&[result_of(Kind::Check, Standing::Holds, None)], &[], missing).0;
    assert_eq!((checks(Some("no length of a job")), checks(None)), (Grade::Inconclusive, Grade::Calibrated));
}

#[test]
fn interval_that_excludes_a_number_contradicts_it() {
    let of = |number: &Number, mean: f64, ci95: f64| {
        let points = [at(number, mean, ci95)];
        standing(number, verdict(number, &points), &points)
    };
    let band = number(Comparison::Within(1.0, 2.0));
    assert_eq!(of(&band, 1.5, 1.0), Some(Standing::Holds));
    assert_eq!(of(&band, 2.1, 0.2), Some(Standing::Noise));
    assert_eq!(of(&band, 2.3, 0.2), Some(Standing::Contradicted));
    assert_eq!(of(&ratio(at_most(), 1.0), 1.2, 0.1), Some(Standing::Contradicted), "an order that fails");
    let closed = Number { equals: Some(4.0), tolerance: 1e-3, ..number(Comparison::Unjudged) };
    assert_eq!(of(&closed, 4.1, 0.2), Some(Standing::Noise));
    assert_eq!(of(&closed, 4.1, 0.05), Some(Standing::Contradicted));
    assert_eq!(of(&number(Comparison::Unjudged), 4.1, 0.05), None);
}

#[test]
fn worse_balancer_turns_the_claims() {
    let index = load(GOOD).unwrap_or_else(|error| panic!("{error}"));
    let selected = &index.numbers[0].claim.at[0];
    let runs = [("ecmp", 3.0), ("spray", 2.0)].into_iter().flat_map(|(balancer, slowdown)| {
        (1..4).map(move |seed| crate::results::statistics::tests::run(balancer, seed, slowdown, 0))
    });
    let runs = selected
        .loads
        .iter()
        .flat_map(|load| runs.clone().map(|run| RunSummary { variant: selected.variant.clone(), load: *load, ..run }));
    let mut summaries = [(0, Summary { runs: runs.collect(), ..Summary::default() })].into_iter().collect();
    let grade_of = |summaries: &_| judge(&index, &["E9".to_owned()], summaries).entries[0].grade;
    assert_eq!(grade_of(&summaries), Grade::Numbers);
    let swapped = swap(&index, &mut summaries, "spray", "ecmp");
    assert_eq!(swapped, 6 * selected.loads.len());
    assert_eq!(grade_of(&summaries), Grade::Contradicted);
    // A balancer that equals the other one is not below it.
    let runs = &mut summaries.get_mut(&0).expect("judged above").runs;
    let of_ecmp: Vec<RunSummary> = runs.iter().filter(|run| run.balancer == "ecmp").cloned().collect();
    runs.retain(|run| run.balancer == "ecmp");
    runs.extend(of_ecmp.into_iter().map(|run| RunSummary { balancer: "spray".to_owned(), ..run }));
    assert_eq!(grade_of(&summaries), Grade::Inconclusive);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

#[test]
fn every_experiment_of_the_documents_has_an_entry() {
    let ids = [
        "E0.1", "E0.2", "E0.3", "E0.4", "E1.1", "E1.2", "E1.3", "E1.4", "E1.5", "E2.0", "E2.1", "E2.2", "E2.3", "E2.4",
        "E2.5", "E2.6", "E3.1", "E3.2", "E3.3", "E4.1", "E4.2", "E4.3", "E5.1", "E5.2", "E5.3", "E5.4", "E5.5", "E6.1",
        "E6.2", "E6.3", "E7.1", "E7.2", "E7.3",
    ];
    let mut found = Vec::new();
    for name in ["f0-macedonia", "f1-lisbon", "f2-ofpt", "f3-ucsc", "f4-ufmg", "f5-ofan", "f6-reps", "f7-mrc"] {
        let index = Index::load(&folder().join(name).join("reproduce.toml")).unwrap_or_else(|error| panic!("{error}"));
        for entry in &index.entries {
            let own = index.numbers.iter().filter(|number| number.claim.id == entry.id);
            let is_judged =
                |number: &Number| number.claim.comparison != Comparison::Unjudged || number.equals.is_some();
            assert!(own.clone().any(is_judged), "{} has no number that could fail", entry.id);
            assert!(!index.runs_of(std::slice::from_ref(&entry.id)).is_empty(), "{} runs nothing", entry.id);
            found.push(entry.id.clone());
        }
        let is_testbed = |id: &str| index.testbed.iter().any(|run| run.ids.iter().any(|other| other == id));
        for id in ["E0.1", "E0.2", "E0.3", "E0.4", "E1.1", "E1.2", "E1.3", "E2.6", "E4.3"] {
            assert!(index.entries.iter().all(|entry| entry.id != id) || is_testbed(id), "{id} is not on the testbed");
        }
    }
    assert_eq!(found, ids);
}

fn load(index: &str) -> Result<Index, String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("small.toml"), crate::testing::SMALL).expect("it can be written");
    let path = folder.path().join("reproduce.toml");
    std::fs::write(&path, index).expect("it can be written");
    Index::load(&path).map_err(|error| format!("{}\n{:?}", error.headline(), error.hint))
}

const GOOD: &str = include_str!("../../../tests/data/reproduce.toml");

#[test]
fn errors_show_line_and_key() {
    let index = load(GOOD).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((index.numbers.len(), index.runs[0].name.as_str()), (1, "small"));
    for (from, to, expected) in [
        ("metric = \"slowdown_mean\"", "metric = \"slowness\"", "unknown metric `slowness`"),
        ("balancer = \"spray\"", "balancer = \"sprai\"", "`sprai` is not among the balancers"),
        ("ratio_to = \"ecmp\"", "ratio_to = \"hedera\"", "number.0.ratio_to"),
        ("below = 1", "below = 1\nwithin = [0, 1]", "cannot go with `below`"),
        ("below = 1", "below = 1\nreason = \"r\"", "number.0.found: is missing"),
        ("below = 1", "below = 1\nlabel = \"l\"", "number.0.figure: is missing"),
        ("below = 1", "belov = 1", "there is no such key"),
        ("below = 1", "below = 1\nbaseline = 1", "number.0.baseline: needs a different `value`"),
        ("below = 1", "below = 1\nper = \"slowness\"", "unknown metric `slowness`"),
        ("below = 1", "below = 1\nper = \"core_bb_rx\"", "is not of the same kind"),
        ("below = 1", "every_seed = true", "number.0.every_seed: needs a band"),
        ("below = 1", "ties_with = \"ecmp\"", "has two comparisons"),
        ("below = 1", "below = 1\nties_with = \"ecmp\"", "number.0.ties_with: cannot go with `below`"),
        ("below = 1", "below = 1\nother_from = \"1s\"", "this metric is about the whole run"),
        ("id = \"E9\"\nclaim", "id = \"E8\"\nclaim", "unknown experiment `E8`"),
        ("file = \"small.toml\"", "file = \"small.toml\"\nseeds = 1", "run.0.reason: is missing"),
        ("file = \"small.toml\"", "file = \"none.toml\"", "cannot read the experiment file"),
        ("below = 1", "below = 1\nother_variant = \"v\"", "unknown variant `v`"),
        (
            "section = \"1\"",
            "section = \"1\"\n[[experiment]]\nid = \"E7\"\nquestion = \"q\"\nsection = \"2\"",
            "experiment E7 has no number",
        ),
        ("printed = \"2\"\n", "", "number.0.printed: is missing"),
        ("kind = \"claim\"\n", "", "number.0.kind: is missing"),
        ("below = 1", "", "number.0.kind: cannot be given for a number that is not judged"),
        ("below = 1", "below = 1\nreading = \"r\"", "number.0.reading: E9 has no reading `r`"),
        (
            "[[run]]",
            "[[reading]]\nid = \"E9\"\nname = \"r\"\nstatus = \"maybe\"\nreason = \"t\"\n[[run]]",
            "reading.0.status",
        ),
    ] {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD, "{from}");
        let error = load(&text).expect_err(to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}

const TESTBED: &str = include_str!("../../../tests/data/reproduce-testbed.toml");

#[test]
fn explanation_requires_a_compared_figure() {
    let good = format!("{GOOD}{TESTBED}");
    let index = load(&good).unwrap_or_else(|error| panic!("{error}"));
    let run = &index.testbed[0];
    assert_eq!((run.emulated.seeds.len(), run.simulated.seeds.len()), (1, 2));
    assert_eq!((run.explanations.len(), run.explanations[0].found), (1, (0.1, 0.2)));
    for (from, to, expected) in [
        ("balancer = \"ecmp\"\nmetric = \"core", "metric = \"core", "explanation.0.balancer: is missing"),
        ("balancer = \"ecmp\"", "balancer = \"ecmq\"", "`ecmq` is not among the balancers"),
        ("core_bb_rx", "fct_mean_us", "`fct_mean_us` is not compared"),
        ("found = [0.1, 0.2]\n", "", "explanation.0.found: is missing"),
        ("[0.1, 0.2]", "[0.2, 0.1]", "the low end 0.2 is above the high end 0.1"),
        ("reason = \"r\"", "", "explanation.0.reason: is missing"),
        ("reason = \"r\"", "reason = \"r\"\nvariant = \"v\"", "unknown variant `v`"),
        ("reason = \"r\"", "raison = \"r\"", "there is no such key"),
        ("seeds = 1", "seeds = 3", "the testbed runs seed 3, but the simulator does not"),
    ] {
        let text = TESTBED.replace(from, to);
        assert_ne!(text, TESTBED, "{from}");
        let error = load(&format!("{GOOD}{text}")).expect_err(to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}
