//! The comparison over all settings of an experiment.
//!
//! Model: the settings are those that were asked for, with equal weights, and seeds are drawn at
//! random. For each seed the logarithms of the ratios are averaged over the settings; the interval
//! is that of these means over seeds. So it holds even if a seed has like effects in all settings.

use super::paired::{Decision, Judge, LogRatio, Quantity, Rule};
use super::setting::Setting;
use super::variance::Prior;
use super::verdict;
use crate::summary::{Overall, Rival, RunSummary};

/// Compares the balancers that are ranked in every setting; `None` with fewer than two settings or
/// such balancers, or if settings have different seeds.
pub(super) fn overall(settings: &[Setting<'_>], quantity: &Quantity<'_>, rule: &Rule) -> Option<Overall> {
    let first = settings.first().filter(|_| settings.len() > 1)?;
    let seeds: Vec<u64> = first.rivals.first()?.iter().map(|run| run.seed).collect();
    let runs_of =
        |name: &str| -> Option<Vec<&[RunSummary]>> { settings.iter().map(|setting| setting.able(name)).collect() };
    let mut lines: Vec<Line<'_>> = first
        .rivals
        .iter()
        .filter_map(|rival| Line::of(&rival[0].balancer, runs_of(&rival[0].balancer)?, &seeds, quantity))
        .collect();
    let left_out = first.rivals.len() - lines.len();
    let mean = |line: &Line<'_>| line.by_seed.iter().sum::<f64>();
    lines.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
    let (best, others) = lines.split_first().filter(|(_, others)| !others.is_empty())?;
    let ratio = |line: &Line<'_>| {
        let differences: Vec<f64> = line.by_seed.iter().zip(&best.by_seed).map(|(own, best)| own - best).collect();
        LogRatio::of(&differences).filter(|ratio| ratio.mean.is_finite())
    };
    let ratios: Vec<(&Line<'_>, LogRatio)> = others.iter().filter_map(|line| Some((line, ratio(line)?))).collect();
    let prior = Prior::fit(ratios.iter().map(|(_, ratio)| (ratio.variance, ratio.seeds - 1)));
    let judge = Judge::new(rule, ratios.len(), prior);
    let rivals: Vec<Rival> = ratios
        .iter()
        .map(|(line, ratio)| Rival {
            balancer: line.balancer.to_owned(),
            standing: judge.decide(ratio).standing(),
            ratio: judge.shown(ratio),
            behind: line.pairs(best).filter(|(own, best)| own > best).count() as u32,
            pairs: line.pairs(best).count() as u32,
        })
        .collect();
    let undecided = ratios.iter().map(|(_, ratio)| ratio).filter(|ratio| judge.decide(ratio) == Decision::Undecided);
    let seeds_needed = undecided.map(|ratio| judge.seeds_needed(ratio)).max_by_key(|seeds| seeds.unwrap_or(u32::MAX));
    let mut overall = Overall {
        best: best.balancer.to_owned(),
        settings: settings.len() as u32,
        seeds: seeds.len() as u32,
        rivals,
        left_out: left_out as u32,
        seeds_needed: seeds_needed.flatten(),
        sentence: String::new(),
    };
    overall.sentence = verdict::overall_sentence(&overall, rule);
    Some(overall)
}

/// The costs of a balancer in every setting.
struct Line<'a> {
    balancer: &'a str,
    /// Logarithms of the costs by setting and seed.
    costs: Vec<Vec<f64>>,
    /// Means over settings, by seed.
    by_seed: Vec<f64>,
}

impl<'a> Line<'a> {
    fn of(balancer: &'a str, runs: Vec<&[RunSummary]>, seeds: &[u64], quantity: &Quantity<'_>) -> Option<Line<'a>> {
        let of_setting = |runs: &&[RunSummary]| -> Option<Vec<f64>> {
            let has_seeds = runs.iter().map(|run| run.seed).eq(seeds.iter().copied());
            runs.iter().filter(|_| has_seeds).map(|run| quantity.log_cost(run)).collect()
        };
        let costs: Vec<Vec<f64>> = runs.iter().map(of_setting).collect::<Option<_>>()?;
        if costs.iter().any(|of_setting| of_setting.len() != seeds.len()) {
            return None;
        }
        let mean = |seed: usize| costs.iter().map(|of_setting| of_setting[seed]).sum::<f64>() / costs.len() as f64;
        Some(Line { balancer, by_seed: (0..seeds.len()).map(mean).collect(), costs })
    }

    fn pairs<'b>(&'b self, other: &'b Line<'_>) -> impl Iterator<Item = (f64, f64)> + 'b {
        self.costs.iter().flatten().copied().zip(other.costs.iter().flatten().copied())
    }
}
