//! A part of the runs of an experiment, for one of several machines.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use crate::Error;
use crate::input::Experiment;
use crate::run::execute::{Observer, Options};
use crate::run::plan::{self, PlannedRun};
use crate::run::runner::Runner;
use crate::run::store::Store;

/// One of `count` parts of the runs. Part 1 has the runs 1, 1 + `count`, and so on: runs next to each
/// other take about as long, so the parts do, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Number of the part, from 1.
    number: usize,
    count: usize,
}

impl Shard {
    /// Returns `None` unless `number` is between 1 and `count`.
    #[must_use]
    pub fn new(number: usize, count: usize) -> Option<Shard> {
        (1..=count).contains(&number).then_some(Shard { number, count })
    }

    fn has(self, run: &PlannedRun) -> bool {
        run.index % self.count == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers =
            text.split_once('/').and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        let (number, count) = numbers.ok_or_else(|| format!("`{text}` is not a part such as 2/8"))?;
        Shard::new(number, count).ok_or_else(|| format!("there is no part {number} of {count}: parts count from 1"))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-of-{}", self.number, self.count)
    }
}

/// Executes a part of the runs. The folder then has their records and flows, for
/// [`merge`](crate::run::merge::merge). Returns the number of its runs, and of those of the experiment.
///
/// # Errors
/// As [`run_in`](crate::run::run_in).
pub fn run_shard(
    platform: &dyn Runner,
    experiment: &Experiment,
    shard: Shard,
    options: &Options,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<(usize, usize), Error> {
    platform.check(experiment).map_err(Error::UnsupportedExperiment)?;
    let store = Store::create(&options.out)?;
    let mut runs = plan::plan_in(experiment, platform);
    let total = runs.len();
    runs.retain(|run| shard.has(run));
    super::execute_missing(platform, experiment, &store, (&runs, options), (observer, stop))?;
    Ok((runs.len(), total))
}

/// Returns the numbers, from 1, of the runs that a folder lacks: the part of this number of
/// [`Experiment::run_count`] parts is that run alone.
///
/// # Errors
/// The folder cannot be read, or its files were changed.
pub fn missing(platform: &dyn Runner, experiment: &Experiment, options: &Options) -> Result<Vec<usize>, Error> {
    let runs = plan::plan_in(experiment, platform);
    let known = super::known(&Store::open(&options.out), platform, experiment, &runs, options)?.runs;
    Ok(runs.iter().filter(|run| !known.contains_key(&run.fingerprint)).map(|run| run.index + 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::small;

    #[test]
    fn shards_divide_the_runs() {
        let runs = plan::plan(&small(&[("seeds", "3")]));
        for count in 1..8 {
            let shards: Vec<Shard> = (1..=count).filter_map(|number| Shard::new(number, count)).collect();
            for run in &runs {
                assert_eq!(shards.iter().filter(|shard| shard.has(run)).count(), 1, "run {} of {count}", run.index);
            }
            let sizes = shards.iter().map(|shard| runs.iter().filter(|run| shard.has(run)).count());
            let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
            assert!(most - least <= 1, "{count} parts: {least} to {most} runs");
        }
    }

    #[test]
    fn number_and_count_are_checked() {
        assert_eq!("2/8".parse(), Ok(Shard { number: 2, count: 8 }));
        for bad in ["", "3", "a/b", "1/0", "0/4", "5/4", "-1/4", "1/4/2", "1.5/4"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
