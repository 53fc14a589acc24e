//! Runs of an index on the testbed.

use std::path::Path;

use config::diagnostic::FileError;
use config::section::Section;
use net::did_you_mean::suggestion;

use super::{ids, overrides, text_at};
use crate::claims::Metric;
use crate::input::{Experiment, check_folder_name, expect};
use crate::reproduction::{Explanation, Index, TestbedRun};

pub(super) fn testbed(section: &Section<'_>, folder: &Path, index: &Index) -> Result<TestbedRun, FileError> {
    let file = text_at(section, "file")?;
    let path = folder.join(&file);
    let emulated = Experiment::load(&path, &overrides(section, "seeds")?)?;
    let simulated = Experiment::load(&path, &overrides(section, "simulated_seeds")?)?;
    if let Some(seed) = emulated.seeds.iter().find(|seed| !simulated.seeds.contains(seed)) {
        let error = section.error("seeds", format!("the testbed runs seed {seed}, but the simulator does not"));
        return Err(error.with_hint("give at least as many `simulated_seeds`: runs with the same flows are compared"));
    }
    let name = section.text("name")?.map_or_else(|| emulated.name.clone(), str::to_owned);
    check_folder_name(section, &name)?;
    let explanations = section.sections("testbed.explanation")?;
    let explanations = explanations.iter().map(|section| explanation(section, &emulated)).collect::<Result<_, _>>()?;
    Ok(TestbedRun { name, ids: ids(section, index)?, simulated, emulated, file, explanations })
}

/// Reads `[[testbed.explanation]]`. Its figure must be one that is compared, because otherwise the
/// reason never appears.
fn explanation(section: &Section<'_>, experiment: &Experiment) -> Result<Explanation, FileError> {
    let balancer = expect::label_of_index(section, experiment, "balancer")?;
    let name = text_at(section, "metric")?;
    let compared = &experiment.validation.metrics;
    let metric = Metric::named(&name).filter(|metric| compared.contains(metric)).ok_or_else(|| {
        let error =
            section.error("metric", format!("`{name}` is not compared by the `[validation]` section of the file"));
        error.with_hint(suggestion(&name, compared.iter().map(|metric| metric.name())))
    })?;
    let variant = expect::variant_of_index(section, experiment, "variant")?;
    let found = expect::range_of_index(section, "found")?.ok_or_else(|| {
        section.missing("found").with_hint(
            "give the range of the difference that the reason explains, as shares of the simulated value: [0.1, 0.2]",
        )
    })?;
    Ok(Explanation {
        variant: variant.map(str::to_owned),
        balancer: balancer.ok_or_else(|| section.missing("balancer"))?,
        metric,
        found,
        reason: text_at(section, "reason")?,
    })
}
