//! `--until-sure`: seeds are added until the comparisons are decided.
//!
//! Each look at the results could decide by chance, so the numbers of seeds at which results are
//! looked at are fixed before, and the confidence is divided among them (Bonferroni). The last
//! experiment holds its number of seeds, margin and confidence, so running its file again gives the
//! same results.

use experiment::runner::Simulator;
use experiment::summary::Summary;
use experiment::{Experiment, Override};

use crate::error::CliError;
use crate::results::{self, RunArgs};

/// Fewer seeds do not show how much seeds differ.
const SEEDS_MIN: u64 = 3;

/// Options of how surely balancers are compared.
#[derive(Debug, clap::Args)]
pub struct Sureness {
    /// Difference that does not matter, such as 1%: balancers that surely differ by less are tied
    #[arg(long, value_name = "SHARE", value_parser = share)]
    margin: Option<f64>,
    /// Add seeds until each balancer is surely worse than the best, or surely within this share of it
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "margin")]
    until_sure: Option<f64>,
    /// Maximum number of seeds with --until-sure
    #[arg(long, value_name = "N", default_value_t = 60, requires = "until_sure")]
    #[arg(value_parser = clap::value_parser!(u64).range(SEEDS_MIN..=100_000))]
    seeds_max: u64,
}

/// Parses a share such as `5%` or `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map_or_else(|| text.trim().parse(), |percent| percent.trim().parse());
    let share = number.map(|number: f64| if text.contains('%') { number / 100.0 } else { number });
    share.ok().filter(|share| *share > 0.0 && *share < 1.0).ok_or_else(|| "write a share such as 5% or 0.05".to_owned())
}

impl Sureness {
    /// Returns whether seeds are added.
    pub fn adds_seeds(&self) -> bool {
        self.until_sure.is_some()
    }

    /// Returns what these options set in an experiment.
    pub fn overrides(&self) -> Vec<Override> {
        let margin = self.margin.or(self.until_sure);
        margin
            .map(|share| Override::value("margin", &share.to_string(), format!("--margin {share}")))
            .into_iter()
            .collect()
    }

    /// Runs an experiment, which `load` returns with more values, into its folder; prints the results.
    ///
    /// # Errors
    /// The experiment is wrong, or a run fails.
    pub fn run(
        &self,
        load: impl Fn(Vec<Override>) -> Result<Experiment, CliError>,
        args: &RunArgs,
    ) -> Result<Experiment, CliError> {
        let experiment = load(self.overrides())?;
        if !self.adds_seeds() {
            results::run_in(&Simulator, &experiment, args)?;
            return Ok(experiment);
        }
        let looks = looks(experiment.seeds.len() as u64, self.seeds_max);
        // Digits beyond the sixth are of no use to readers of the file.
        let error = ((1.0 - experiment.rule.confidence) / looks.len() as f64 * 1e6).round() / 1e6;
        for (number, seeds) in (1..).zip(&looks) {
            let set = |key: &str, value: String| Override::value(key, &value, format!("--until-sure ({key} {value})"));
            let mut more = self.overrides();
            more.extend([set("seeds", seeds.to_string()), set("confidence", (1.0 - error).to_string())]);
            let experiment = load(more)?;
            let out = args.folder(&experiment);
            let summary = results::execute_in(&Simulator, &experiment, &out, args)?;
            let open = undecided(&summary);
            if open == 0 || number == looks.len() {
                results::print(&summary, &out, args.quiet)?;
                if !args.quiet {
                    println!("{}", outcome(open, *seeds));
                }
                return Ok(experiment);
            }
            if !args.quiet {
                eprintln!("{open} comparisons are undecided with {seeds} seeds, so more follow");
            }
        }
        Ok(experiment)
    }
}

/// Returns the numbers of seeds at which results are looked at: each a half more than the one before.
fn looks(first: u64, last: u64) -> Vec<u64> {
    let mut looks = vec![first.clamp(SEEDS_MIN, last)];
    while let Some(seeds) = looks.last().copied().filter(|seeds| *seeds < last) {
        looks.push((seeds + seeds.div_ceil(2)).min(last));
    }
    looks
}

fn undecided(summary: &Summary) -> usize {
    summary.verdicts.iter().map(|verdict| verdict.undecided.len()).sum()
}

fn outcome(open: usize, seeds: u64) -> String {
    match open {
        0 => format!("every comparison with a best balancer is decided with {seeds} seeds"),
        1 => format!("1 comparison is undecided with {seeds} seeds; --seeds-max allows more"),
        _ => format!("{open} comparisons are undecided with {seeds} seeds; --seeds-max allows more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_end_at_the_maximum() {
        assert_eq!(looks(3, 60), [3, 5, 8, 12, 18, 27, 41, 60]);
        assert_eq!((looks(1, 3), looks(100, 60)), (vec![3], vec![60]));
    }

    #[test]
    fn shares_are_percentages_or_fractions() {
        assert_eq!((share("5%"), share("0.5 %"), share("0.05")), (Ok(0.05), Ok(0.005), Ok(0.05)));
        for wrong in ["5", "0", "-1%", "100%", "x%", "nan", ""] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
