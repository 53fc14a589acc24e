//! Verdicts: what the comparisons say, as sentences.

use super::paired::{Decision, Judge, LogRatio, Quantity, Rule};
use super::setting::Setting;
use super::variance::Prior;
use super::{is_complete, ranked_mean, settings, small_fct_mean_us, started, unfinished};
use crate::report::text::{join_few, plural};
use crate::summary::{Disagreement, Measure, Overall, Ratio, RunSummary, Standing, Verdict};

/// Maximum number of names in a list: longer ones are not readable.
const NAMES_MAX: usize = 5;

type OfRun = fn(&RunSummary) -> Option<f64>;

/// Metrics by which a comparison by mean slowdown is checked: names, texts and values.
const OTHER_METRICS: [(&str, &str, OfRun); 2] = [
    ("slowdown_p99", "the 99th percentile of slowdown", |run| (run.slowdown.p99 > 0.0).then_some(run.slowdown.p99)),
    ("small_fct_mean_us", "the mean time of flows up to 100 KB", small_fct_mean_us),
];

/// The comparisons by another metric than that of the ranking.
pub(super) struct OtherMetric<'a> {
    name: &'static str,
    text: &'static str,
    settings: Vec<Setting<'a>>,
    prior: Prior,
}

impl<'a> OtherMetric<'a> {
    /// Returns the comparisons of all settings by other metrics, if mean slowdown ranks balancers.
    pub(super) fn all(runs: &'a [RunSummary], rule: &Rule) -> Vec<OtherMetric<'a>> {
        let has_others = rule.rank_by == Measure::Slowdown;
        let of = |(name, text, of): (&'static str, &'static str, OfRun)| {
            let settings = settings(runs, rule.rank_by, &Quantity { of: &of, is_higher_better: false });
            let prior = Prior::fit(settings.iter().flat_map(Setting::variances));
            OtherMetric { name, text, settings, prior }
        };
        OTHER_METRICS.into_iter().filter(|_| has_others).map(of).collect()
    }

    /// Returns the disagreement in a setting: a balancer is surely worse by this metric than another one.
    fn disagreement(&self, setting: usize, balancer: &str, rule: &Rule) -> Option<Disagreement> {
        let setting = &self.settings[setting];
        let judge = Judge::new(rule, setting.comparisons(), self.prior);
        let (_, ratio) = setting.others().find(|(runs, ratio)| runs[0].balancer == balancer && ratio.seeds > 1)?;
        (judge.decide(&ratio) == Decision::Worse).then(|| Disagreement {
            metric: self.name.to_owned(),
            best: setting.best().map_or_else(String::new, |best| best[0].balancer.clone()),
            ratio: judge.shown(&ratio),
        })
    }
}

pub(super) fn verdict(
    setting: &Setting<'_>,
    judge: &Judge,
    (index, others): (usize, &[OtherMetric<'_>]),
    rule: &Rule,
) -> Verdict {
    let of = setting.all[0];
    let empty = Verdict {
        variant: of[0].variant.clone(),
        load: of[0].load,
        best: String::new(),
        tied: Vec::new(),
        undecided: Vec::new(),
        seeds_needed: None,
        disagreements: Vec::new(),
        sentence: String::new(),
    };
    let Some(best) = setting.best() else {
        let sentence = match setting.rivals.is_empty() {
            true => "There are bounds only and no balancer to compare.",
            false if rule.rank_by == Measure::GroupTime => "No group of flows started, so nothing can be compared.",
            false if setting.rivals.iter().all(|runs| started(runs, rule.rank_by) == 0) => {
                "No flow started, so nothing can be compared."
            }
            false => "No flow completed, so nothing can be compared.",
        };
        return Verdict { sentence: sentence.to_owned(), ..empty };
    };
    let of_decision = |decision: Decision| setting.others().filter(move |(_, ratio)| judge.decide(ratio) == decision);
    let names = |decision| of_decision(decision).map(|(runs, _)| runs[0].balancer.clone()).collect();
    let needed =
        of_decision(Decision::Undecided).map(|(_, ratio)| judge.seeds_needed(&ratio).unwrap_or(u32::MAX)).max();
    let mut verdict = Verdict {
        best: best[0].balancer.clone(),
        tied: names(Decision::Tied),
        undecided: names(Decision::Undecided),
        seeds_needed: needed.filter(|seeds| *seeds < u32::MAX),
        disagreements: others.iter().filter_map(|other| other.disagreement(index, &best[0].balancer, rule)).collect(),
        ..empty
    };
    let next = of_decision(Decision::Worse).next();
    verdict.sentence = comparison(best, &verdict, next.map(|(runs, ratio)| (runs, ratio, judge)), rule)
        + &disagreements(&verdict, others)
        + &unfinished_text(&setting.rivals, rule.rank_by);
    verdict
}

fn comparison(
    best: &[RunSummary],
    verdict: &Verdict,
    next: Option<(&[RunSummary], LogRatio, &Judge)>,
    rule: &Rule,
) -> String {
    let (name, measure) = (&verdict.best, rule.rank_by);
    let (quantity, extreme) = (measure.quantity(), if measure.is_higher_better() { "highest" } else { "lowest" });
    let mean = describe(measure, ranked_mean(best, measure));
    let seeds = plural(best.len() as u64, "seed");
    let lead = next.map(|(runs, ratio, judge)| lead(measure, &runs[0].balancer, &judge.shown(&ratio)));
    let is_alone = verdict.tied.is_empty() && verdict.undecided.is_empty();
    let mut sentence = match lead {
        // A single seed does not show how much seeds differ.
        Some(lead) if best.len() == 1 => {
            format!(
                "{name} has the {extreme} {quantity}, {mean} over {seeds}; {lead}, which may be chance with one seed."
            )
        }
        None if best.len() == 1 && !is_alone => {
            format!("{name} has the {extreme} {quantity}, {mean} over {seeds}, which may be chance.")
        }
        Some(lead) if is_alone => format!("{name} wins: {quantity} {mean} over {seeds}; {lead}."),
        Some(lead) => format!("{name} has the {extreme} {quantity}, {mean} over {seeds}; {lead}."),
        None if is_alone => format!("{name} has {quantity} {mean} over {seeds}."),
        None if verdict.undecided.is_empty() => format!("All are equally good: {quantity} {mean} over {seeds}."),
        None => format!("{name} has the {extreme} {quantity}, {mean} over {seeds}, but not surely."),
    };
    if !verdict.tied.is_empty() {
        sentence += &format!(" Within {} of it: {}.", percent(rule.margin), names(&verdict.tied));
    }
    sentence + &undecided(&names(&verdict.undecided), verdict.seeds_needed)
}

/// Returns a sentence on undecided comparisons; nothing without any.
fn undecided(names: &str, seeds_needed: Option<u32>) -> String {
    match seeds_needed {
        _ if names.is_empty() => String::new(),
        Some(seeds) => format!(" Undecided: {names}; about {seeds} seeds would decide (--seeds {seeds})."),
        None => format!(" Undecided: {names}; the difference is too small for a thousand seeds."),
    }
}

fn disagreements(verdict: &Verdict, others: &[OtherMetric<'_>]) -> String {
    let text = |disagreement: &Disagreement| {
        let other = others.iter().find(|other| other.name == disagreement.metric)?;
        let (best, name, ratio) = (&disagreement.best, &verdict.best, &disagreement.ratio);
        Some(format!(
            " By {} {best} is better: {name} has {} times its value{}.",
            other.text,
            ratio.factor(),
            ratio.interval()
        ))
    };
    verdict.disagreements.iter().filter_map(text).collect()
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e6).round() / 1e4)
}

fn lead(measure: Measure, other: &str, ratio: &Ratio) -> String {
    match measure {
        _ if ratio.value == 0.0 => format!("{other} carries nothing"),
        Measure::Throughput => format!("{} times that of {other}{}", ratio.factor(), ratio.interval()),
        Measure::Slowdown | Measure::GroupTime => {
            format!("{other} takes {} times as long{}", ratio.factor(), ratio.interval())
        }
    }
}

fn describe(measure: Measure, mean: f64) -> String {
    match measure {
        Measure::Slowdown => format!("{mean:.2}"),
        Measure::Throughput => format!("{:.1} % of the host links", mean * 100.0),
        Measure::GroupTime if mean >= 1e6 => format!("{:.2} s", mean / 1e6),
        Measure::GroupTime if mean >= 1e3 => format!("{:.2} ms", mean / 1e3),
        Measure::GroupTime => format!("{mean:.1} us"),
    }
}

pub(super) fn overall_sentence(overall: &Overall, rule: &Rule) -> String {
    let with = |standing: Standing| overall.rivals.iter().filter(move |rival| rival.standing == standing);
    let list = |standing| names(&with(standing).map(|rival| rival.balancer.clone()).collect::<Vec<_>>());
    let (best, settings, seeds) = (&overall.best, overall.settings, plural(u64::from(overall.seeds), "seed"));
    let nearest = with(Standing::Worse).next().map(|rival| {
        let (behind, pairs) = (rival.behind, rival.pairs);
        let lead = lead(rule.rank_by, &rival.balancer, &rival.ratio);
        format!("{lead}; {best} is ahead in {behind} of {pairs} pairs of runs")
    });
    let (tied, open) = (list(Standing::Tied), list(Standing::Undecided));
    let mut sentence = match nearest {
        Some(nearest) => format!("Over all {settings} points and {seeds} {best} is best; {nearest}."),
        None if open.is_empty() => format!("Over all {settings} points and {seeds} all are equally good."),
        None => format!("Over all {settings} points and {seeds} {best} is ahead, but not surely."),
    };
    if !tied.is_empty() {
        sentence += &format!(" Within {} of it: {tied}.", percent(rule.margin));
    }
    sentence += &undecided(&open, overall.seeds_needed);
    match overall.left_out {
        0 => sentence,
        count => format!(
            "{sentence} {} not ranked at every point.",
            if count == 1 { "1 other is".to_owned() } else { format!("{count} others are") }
        ),
    }
}

fn unfinished_text(rivals: &[&[RunSummary]], measure: Measure) -> String {
    let unfinished = |runs: &[RunSummary]| unfinished(runs, measure);
    let started = |runs: &[RunSummary]| started(runs, measure);
    let noun = measure.noun();
    let least_unfinished = rivals.iter().map(|runs| unfinished(runs)).min().unwrap_or(0);
    let is_ranked = |runs: &[RunSummary]| is_complete(unfinished(runs), least_unfinished, started(runs));
    let open: Vec<&[RunSummary]> = rivals.iter().copied().filter(|runs| unfinished(runs) > 0).collect();
    if open.len() > NAMES_MAX {
        let unranked = open.iter().filter(|runs| !is_ranked(runs)).count();
        let most = open.iter().max_by_key(|runs| unfinished(runs)).expect("there are several");
        let judged = if unranked > 0 { format!("; {unranked} of them are not ranked for it") } else { String::new() };
        let (name, count, all) = (&most[0].balancer, unfinished(most), started(most));
        return format!(
            " {} balancers left {noun}s unfinished, most of all {name}, {count} of {all}{judged}.",
            open.len()
        );
    }
    let sentence = |runs: &&[RunSummary]| {
        let judged = if is_ranked(runs) { "" } else { ", so it is not ranked" };
        format!(" {} left {} of {} {noun}s unfinished{judged}.", runs[0].balancer, unfinished(runs), started(runs))
    };
    open.iter().map(sentence).collect()
}

fn names(names: &[String]) -> String {
    match names.len() <= NAMES_MAX {
        true => join_few(names),
        false => format!("{} and {} others", names[..NAMES_MAX - 2].join(", "), names.len() - (NAMES_MAX - 2)),
    }
}
