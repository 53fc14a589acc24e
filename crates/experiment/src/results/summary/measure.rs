//! The quantity that ranks balancers.

use serde::{Deserialize, Serialize};

use super::{Point, RunSummary, Stat};

/// The quantity by which an experiment ranks balancers: `slowdown`, `throughput` or `group-time`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Mean slowdown; lower is better.
    #[default]
    Slowdown,
    /// Throughput share; higher is better. For senders that do not react to congestion, such as
    /// UDP, and for flows that never end.
    Throughput,
    /// Mean completion time of groups of flows; lower is better. For collectives, which end with their
    /// last flow: how soon the others end does not matter.
    GroupTime,
}

impl Measure {
    /// Names in experiment files and results.
    pub const NAMES: [&'static str; 3] = ["slowdown", "throughput", "group-time"];
    const ALL: [Measure; 3] = [Measure::Slowdown, Measure::Throughput, Measure::GroupTime];

    /// Returns the measure of one of [`Measure::NAMES`].
    pub fn from_name(name: &str) -> Option<Measure> {
        Measure::ALL.into_iter().find(|measure| measure.name() == name)
    }

    pub fn name(self) -> &'static str {
        Measure::NAMES[self as usize]
    }

    /// Returns the quantity of a run. Where flows or groups are unfinished, it is a lower bound, except
    /// for throughput.
    pub fn of_run(self, run: &RunSummary) -> f64 {
        match self {
            Measure::Slowdown => run.slowdown_lower_bound_mean,
            Measure::Throughput => run.throughput_share,
            Measure::GroupTime => run.groups.time_lower_bound_mean_us,
        }
    }

    pub fn of_point(self, point: &Point) -> &Stat {
        match self {
            Measure::Slowdown => &point.slowdown_lower_bound,
            Measure::Throughput => &point.throughput_share,
            Measure::GroupTime => &point.group_lower_bound_us,
        }
    }

    /// Returns a number that is lower for better balancers.
    pub fn cost(self, value: f64) -> f64 {
        if self.is_higher_better() { -value } else { value }
    }

    pub fn is_higher_better(self) -> bool {
        self == Measure::Throughput
    }

    /// Returns how many times worse than `best` a value is.
    pub fn ratio(self, value: f64, best: f64) -> f64 {
        if self.is_higher_better() { best / value } else { value / best }
    }

    /// Returns the name of the quantity for sentences, such as "mean slowdown".
    pub fn quantity(self) -> &'static str {
        match self {
            Measure::Slowdown => "mean slowdown",
            Measure::Throughput => "throughput",
            Measure::GroupTime => "mean group time",
        }
    }

    /// Returns the number of unfinished flows or groups of a run that make its quantity a lower bound.
    pub fn unfinished(self, run: &RunSummary) -> u64 {
        match self {
            Measure::Slowdown => run.flows.failed + run.flows.running,
            Measure::Throughput => 0,
            Measure::GroupTime => run.groups.unfinished,
        }
    }

    /// Returns the number of flows or groups of a run over which its quantity is a mean.
    pub fn started(self, run: &RunSummary) -> u64 {
        match self {
            Measure::GroupTime => run.groups.unfinished + run.groups.time_us.count,
            Measure::Slowdown | Measure::Throughput => run.flows.started,
        }
    }

    /// Returns whether unfinished flows or groups make the quantity of a point a lower bound.
    pub fn is_lower_bound(self, point: &Point) -> bool {
        match self {
            Measure::Slowdown => point.flows_completed < point.flows_started,
            Measure::Throughput => false,
            Measure::GroupTime => point.groups_unfinished > 0,
        }
    }

    /// Returns the noun of what is counted as unfinished: "flow" or "group".
    pub fn noun(self) -> &'static str {
        if self == Measure::GroupTime { "group" } else { "flow" }
    }
}
