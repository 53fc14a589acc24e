//! The `[validation]` section: criteria for comparing the simulator with the testbed, fixed before
//! running. It changes no run.

use config::diagnostic::FileError;
use net::Time;

use super::Experiment;
use super::expect::metric_named;
use crate::claims::{Metric, Window};
use crate::validation::ValidationCriteria;
use config::document::Data;
use config::section::Section;

pub(crate) fn read(top: &Section<'_>, experiment: &Experiment) -> Result<ValidationCriteria, FileError> {
    let section = top.section("validation")?;
    let default = ValidationCriteria::default();
    let metrics = metrics(&section)?.unwrap_or(default.metrics);
    let (from, until) = (section.quantity::<Time>("from")?, section.quantity::<Time>("until")?);
    let window = match ["from", "until"].into_iter().find(|key| section.has(key)) {
        None => None,
        Some(key) if experiment.variants.iter().any(|variant| !variant.config.probes.fixed_bins) => {
            let error = section.error(key, "needs time bins of a fixed width");
            return Err(error.with_hint("write `fixed_bins = true` and `bin = \"10s\"` in `[probes]`"));
        }
        Some(_) => Some(Window {
            from_s: from.map_or(0.0, Time::as_s_f64),
            until_s: until.map_or(f64::INFINITY, Time::as_s_f64),
        }),
    };
    if window.is_some_and(|window| window.from_s >= window.until_s) {
        return Err(section.error("until", "is not after `from`"));
    }
    let tolerance = section.positive("tolerance")?.unwrap_or(default.tolerance);
    Ok(ValidationCriteria { metrics, window, tolerance })
}

fn metrics(section: &Section<'_>) -> Result<Option<Vec<Metric>>, FileError> {
    if !section.has("metrics") {
        return Ok(None);
    }
    let mut metrics = Vec::new();
    for value in section.list("metrics") {
        let Data::Text(name) = &value.data else {
            return Err(section.error("metrics", "must be names of metrics in quotes"));
        };
        metrics.push(metric_named(section, "metrics", name)?);
    }
    if metrics.is_empty() {
        return Err(section
            .error("metrics", "is an empty list")
            .with_hint("leave it out for the four metrics of the core"));
    }
    Ok(Some(metrics))
}
