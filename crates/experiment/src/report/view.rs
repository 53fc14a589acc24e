//! The results arranged as on the page: panels of (variant, load), balancers inside in rank order.

use super::plot::{BOUND, GREY};
use super::text;
use crate::summary::{Measure, Point, RunDetail, RunRecord, RunSummary, Summary, Verdict};

pub(super) struct View<'a> {
    pub summary: &'a Summary,
    /// Balancers in the order of the experiment, each with its colour on all figures.
    pub balancers: Vec<(&'a str, usize)>,
    pub panels: Vec<Panel<'a>>,
    pub detail: Detail,
}

/// Maximum number of balancers that colours can distinguish. With more, only the best few are
/// coloured and the rest is grey.
const COLOURED_MAX: usize = 8;
/// Number of coloured balancers in that case.
const BEST_FEW: usize = 6;

/// Resolution of pictures, so that the page of a sweep of hundreds of points stays small enough to
/// open.
pub(super) struct Detail {
    pub curve_points: usize,
    pub time_cells: usize,
    pub heat_rows: usize,
}

pub(super) struct Panel<'a> {
    pub id: String,
    pub variant: &'a str,
    pub load: Option<f64>,
    pub verdict: Option<&'a Verdict>,
    pub rank_by: Measure,
    /// Best first; unranked balancers and bounds last.
    pub entries: Vec<Entry<'a>>,
}

pub(super) struct Entry<'a> {
    pub balancer: &'a str,
    pub colour: usize,
    pub point: &'a Point,
    pub runs: Vec<&'a RunSummary>,
    /// With their summaries, ordered by seed; those of resumed or old results may be missing.
    pub details: Vec<(&'a RunSummary, &'a RunDetail)>,
}

impl<'a> View<'a> {
    pub(super) fn new(summary: &'a Summary, records: &'a [RunRecord]) -> View<'a> {
        let points = || summary.points.iter();
        let balancers: Vec<&str> = distinct(points().map(|point| point.balancer.as_str()));
        let keys: Vec<(&str, Option<f64>)> = distinct(points().map(|point| (point.variant.as_str(), point.load)));
        let balancers = coloured(&balancers, &keys, summary);
        let panels = keys.into_iter().enumerate();
        let panels = panels.map(|(index, key)| Panel::new(index, key, summary, records, &balancers)).collect();
        let detail = Detail::for_points(summary.points.len());
        View { summary, balancers, panels, detail }
    }

    pub(super) fn rivals(&self) -> usize {
        self.balancers.iter().filter(|(_, colour)| *colour != BOUND).count()
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.balancers.iter().any(|(_, colour)| *colour == GREY)
    }

    pub(super) fn setting(&self, name: &str) -> Option<&'a str> {
        self.summary.setting.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn variants(&self) -> Vec<&'a str> {
        distinct(self.panels.iter().map(|panel| panel.variant))
    }

    pub(super) fn sweep(&self, variant: &str) -> Vec<&Panel<'a>> {
        let chosen = self.panels.iter().filter(|panel| panel.variant == variant && panel.load.is_some());
        let mut panels: Vec<&Panel<'a>> = chosen.collect();
        panels.sort_by(|a, b| a.load.unwrap_or(0.0).total_cmp(&b.load.unwrap_or(0.0)));
        panels
    }
}

/// Returns the first of equal items each, in their order.
pub(super) fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    items.for_each(|item| {
        if !found.contains(&item) {
            found.push(item);
        }
    });
    found
}

/// Returns a colour for each balancer: its position if there are few; with many, only the best few
/// over all panels have one.
fn coloured<'a>(balancers: &[&'a str], keys: &[(&str, Option<f64>)], summary: &'a Summary) -> Vec<(&'a str, usize)> {
    let is_bound = |name: &str| summary.points.iter().any(|point| point.balancer == name && point.is_bound);
    let rivals: Vec<&str> = balancers.iter().copied().filter(|name| !is_bound(name)).collect();
    let mut first: Vec<&str> = rivals.clone();
    if rivals.len() > COLOURED_MAX {
        let mut by_cost: Vec<(f64, &str)> = rivals.iter().map(|name| (cost(name, keys, summary), *name)).collect();
        by_cost.sort_by(|a, b| a.0.total_cmp(&b.0));
        first = by_cost.into_iter().take(BEST_FEW).map(|(_, name)| name).collect();
    }
    let colour = |name: &str| match first.iter().position(|other| *other == name) {
        Some(position) => position,
        None if is_bound(name) => BOUND,
        None => GREY,
    };
    balancers.iter().map(|name| (*name, colour(name))).collect()
}

/// Returns the mean over panels of the logarithm of a balancer's cost; panels without its rank
/// count against it.
fn cost(balancer: &str, keys: &[(&str, Option<f64>)], summary: &Summary) -> f64 {
    const NOT_RANKED: f64 = 10.0;
    let at = |(variant, load): &(&str, Option<f64>)| {
        let mut points = summary.points.iter().filter(|point| point.variant == *variant && point.load == *load);
        let Some(point) = points.find(|point| point.balancer == balancer) else { return NOT_RANKED };
        let unranked = if point.rank == 0 { NOT_RANKED } else { 0.0 };
        summary.rank_by.cost(summary.rank_by.of_point(point).mean.max(f64::MIN_POSITIVE).ln()) + unranked
    };
    keys.iter().map(at).sum::<f64>() / keys.len().max(1) as f64
}

impl Detail {
    fn for_points(points: usize) -> Detail {
        match points {
            0..=12 => Detail { curve_points: 250, time_cells: 150, heat_rows: 128 },
            13..=40 => Detail { curve_points: 160, time_cells: 100, heat_rows: 64 },
            _ => Detail { curve_points: 100, time_cells: 60, heat_rows: 48 },
        }
    }
}

impl<'a> Panel<'a> {
    fn new(
        index: usize,
        (variant, load): (&'a str, Option<f64>),
        summary: &'a Summary,
        records: &'a [RunRecord],
        balancers: &[(&'a str, usize)],
    ) -> Panel<'a> {
        let points = summary.points.iter().filter(|point| point.variant == variant && point.load == load);
        let mut entries: Vec<Entry<'a>> = points.map(|point| Entry::new(point, summary, records, balancers)).collect();
        let verdict = summary.verdicts.iter().find(|verdict| verdict.variant == variant && verdict.load == load);
        let best = verdict.map_or("", |verdict| verdict.best.as_str());
        // The verdict shows the balancers that are not ranked because of unfinished flows, also in
        // results of versions without ranks; a mean of 0 means that no flow completed.
        let has_ranks = entries.iter().any(|entry| entry.point.rank > 0);
        let order = |entry: &Entry<'_>| {
            let rank = if has_ranks && entry.point.rank == 0 { u32::MAX } else { entry.point.rank };
            (entry.point.is_bound, entry.balancer != best, rank, summary.rank_by.of_point(entry.point).mean <= 0.0)
        };
        let cost = |entry: &Entry<'_>| summary.rank_by.cost(summary.rank_by.of_point(entry.point).mean);
        entries.sort_by(|a, b| order(a).cmp(&order(b)).then(cost(a).total_cmp(&cost(b))));
        Panel { id: format!("p{}", index + 1), variant, load, verdict, rank_by: summary.rank_by, entries }
    }

    pub(super) fn title(&self) -> String {
        let load = self.load.map(|load| format!("Load {}", text::load_text(load)));
        let variant = (!self.variant.is_empty()).then(|| self.variant.to_owned());
        let parts: Vec<String> = load.into_iter().chain(variant).collect();
        if parts.is_empty() { "Results".to_owned() } else { parts.join(", ") }
    }

    pub(super) fn seeds(&self) -> u32 {
        self.entries.iter().map(|entry| entry.point.seeds).max().unwrap_or(0)
    }

    pub(super) fn seeds_text(&self) -> String {
        match self.seeds() {
            0 | 1 => "one seed".to_owned(),
            seeds => format!("means over {seeds} seeds ± half width of the 95 % interval, or the range (least … most)"),
        }
    }

    pub(super) fn best(&self) -> Option<&Entry<'a>> {
        let best = self.verdict?.best.as_str();
        self.entries.iter().find(|entry| entry.balancer == best)
    }

    /// Returns the entries for figures, in the order of drawing: grey ones at the bottom.
    pub(super) fn by_colour(&self) -> Vec<&Entry<'a>> {
        let mut entries: Vec<&Entry<'a>> = self.entries.iter().collect();
        entries.sort_by_key(|entry| (entry.colour < GREY, entry.colour));
        entries
    }

    /// Returns the entries for packet figures with space for a few: neither grey ones nor bounds,
    /// which send no packets.
    pub(super) fn few(&self) -> Vec<&Entry<'a>> {
        self.by_colour().into_iter().filter(|entry| entry.colour < GREY).collect()
    }

    pub(super) fn rivals(&self) -> Vec<&Entry<'a>> {
        self.entries.iter().filter(|entry| !entry.point.is_bound).collect()
    }

    /// Returns the ratio of an entry to the best; `None` if a mean is 0.
    pub(super) fn ratio(&self, entry: &Entry<'_>) -> Option<f64> {
        let mean = |entry: &Entry<'_>| self.rank_by.of_point(entry.point).mean;
        Some(self.rank_by.ratio(mean(entry), mean(self.best()?))).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
    }

    pub(super) fn has_optimum(&self) -> bool {
        self.entries.iter().any(|entry| entry.point.share_of_optimum.is_some())
    }
}

impl<'a> Entry<'a> {
    fn new(
        point: &'a Point,
        summary: &'a Summary,
        records: &'a [RunRecord],
        balancers: &[(&'a str, usize)],
    ) -> Entry<'a> {
        let here =
            |run: &RunSummary| run.variant == point.variant && run.load == point.load && run.balancer == point.balancer;
        let mut runs: Vec<&RunSummary> = summary.runs.iter().filter(|run| here(run)).collect();
        runs.sort_by_key(|run| run.seed);
        let found = records.iter().filter(|record| here(&record.summary));
        let mut details: Vec<(&RunSummary, &RunDetail)> =
            found.map(|record| (&record.summary, &record.detail)).collect();
        // Records are in the order in which runs ended, which varies.
        details.sort_by_key(|(run, _)| run.seed);
        let colour = balancers.iter().find(|(name, _)| *name == point.balancer).map_or(GREY, |(_, colour)| *colour);
        Entry { balancer: &point.balancer, colour, point, runs, details }
    }

    pub(super) fn unfinished(&self) -> u64 {
        self.point.flows_started.saturating_sub(self.point.flows_completed)
    }

    pub(super) fn of_runs(&self, quantity: impl Fn(&RunSummary) -> f64) -> Vec<f64> {
        self.runs.iter().map(|run| quantity(run)).collect()
    }
}
