//! Numbers and curves of an index.

use net::document::{Data, Value};
use net::mistake::FileError;
use net::section::{Section, number};
use net::words::hint;

use super::{check_id, ids, run_at, text_at, texts};
use crate::claims::{Comparison, Metric};
use crate::file::{Experiment, expect};
use crate::reproduction::{BoundOf, Check, CurvePlan, Index, Number, Other, PrintedSeries};

fn real(section: &Section<'_>, key: &str) -> Result<Option<f64>, FileError> {
    match section.get(key) {
        None => Ok(None),
        Some(value) => match number(value).filter(|number| number.is_finite()) {
            None => Err(section.error(key, "must be a number")),
            number => Ok(number),
        },
    }
}

/// `above` or `below`: a band with one end, which stands alone.
fn half_band(section: &Section<'_>) -> Result<Option<Check>, FileError> {
    let given: Vec<&str> = ["above", "below", "within", "at_most", "at_least", "rises_with_load"]
        .into_iter()
        .filter(|key| section.has(key))
        .collect();
    if let [first, second, ..] = given[..] {
        return Err(section.error(second, format!("cannot go with `{first}`")).with_hint("make two numbers of it"));
    }
    Ok(match (real(section, "above")?, real(section, "below")?) {
        (Some(low), _) => Some(Check::Band(low, f64::INFINITY)),
        (None, Some(high)) => Some(Check::Band(f64::NEG_INFINITY, high)),
        (None, None) => None,
    })
}

pub(super) fn number_of(section: &Section<'_>, index: &Index) -> Result<Number, FileError> {
    let run = run_at(section, "run", index)?;
    let other_run = if section.has("other_run") { run_at(section, "other_run", index)? } else { run };
    let (own, other_experiment) = (&index.runs[run].experiment, &index.runs[other_run].experiment);
    let claim = expect::number_of_index(section, own, other_experiment)?;
    check_id(section, "id", &claim.id, index)?;
    let other = other(section, &claim.comparison, (other_run, other_experiment))?;
    let half = half_band(section)?;
    let check = match claim.comparison {
        Comparison::Within(..) if let Some(half) = half => half,
        Comparison::AtMost(_) => Check::AtMost,
        Comparison::AtLeast(_) => Check::AtLeast,
        Comparison::RisesWithLoad => Check::Rises,
        Comparison::Within(low, high) if low.is_finite() || high.is_finite() => Check::Band(low, high),
        Comparison::Within(..) => Check::Beside,
    };
    if let Some(other) = other.as_ref().filter(|other| other.is_difference) {
        let is_ordered = matches!(check, Check::AtMost | Check::AtLeast);
        if is_ordered {
            return Err(section.error("difference_to", format!("stands beside `{}`", other.balancer)));
        }
    }
    let found = expect::range_of_index(section, "found")?;
    if claim.reason.is_some() != found.is_some() {
        let key = if found.is_some() { "reason" } else { "found" };
        let hint = "a reason holds for what was found when it was written: write both, or neither";
        return Err(section.missing(key).with_hint(hint));
    }
    let figure = match (section.text("figure")?, section.text("label")?) {
        (Some(figure), Some(label)) => Some((figure.to_owned(), label.to_owned())),
        (None, None) => None,
        (Some(_), None) => return Err(section.missing("label").with_hint("say what stands under it in the figure")),
        (None, Some(_)) => return Err(section.missing("figure").with_hint("say which figure it is drawn in")),
    };
    Ok(Number {
        printed: text_at(section, "printed")?,
        value: real(section, "value")?,
        run,
        check,
        other,
        equals: real(section, "equals")?,
        tolerance: section.positive("tolerance", 0.5)?.unwrap_or(1e-9),
        direction: expect::range_of_index(section, "direction")?,
        bound: bound(section, own)?,
        inconsistent: section.text("inconsistent")?.map(str::to_owned),
        found,
        figure,
        claim,
    })
}

/// `at_most`, `at_least`, `ratio_to` or `difference_to`, of which there is one at most.
fn other(
    section: &Section<'_>,
    comparison: &Comparison,
    (run, experiment): (usize, &Experiment),
) -> Result<Option<Other>, FileError> {
    let ordered = match comparison {
        Comparison::AtMost(label) | Comparison::AtLeast(label) => Some(label.clone()),
        _ => None,
    };
    let ratio = expect::label_of_index(section, experiment, "ratio_to")?;
    let difference = expect::label_of_index(section, experiment, "difference_to")?;
    let is_difference = difference.is_some();
    let given: Vec<String> = [ordered, ratio, difference].into_iter().flatten().collect();
    let variant = section.text("other_variant")?;
    let balancer = match given.as_slice() {
        [] => {
            return match ["other_run", "other_variant"].into_iter().find(|key| section.has(key)) {
                None => Ok(None),
                Some(key) => Err(section.error(key, "needs `at_most`, `at_least`, `ratio_to` or `difference_to`")),
            };
        }
        [only] => only.clone(),
        _ => return Err(section.error("", "is compared in two ways").with_hint("make two numbers of it")),
    };
    if let Some(text) = variant {
        let labels: Vec<&str> = experiment.variants.iter().map(|variant| variant.label.as_str()).collect();
        if !labels.contains(&text) {
            let error = section.error("other_variant", format!("there is no variant `{text}`"));
            return Err(error.with_hint(hint(text, labels)));
        }
    }
    Ok(Some(Other { run, balancer, variant: variant.map(str::to_owned), is_difference }))
}

fn bound(section: &Section<'_>, experiment: &Experiment) -> Result<Option<BoundOf>, FileError> {
    match (real(section, "bound")?, expect::label_of_index(section, experiment, "bound_by")?) {
        (Some(_), Some(_)) => Err(section.error("bound", "cannot go with `bound_by`")),
        (Some(value), None) => Ok(Some(BoundOf::Value(value))),
        (None, Some(label)) => Ok(Some(BoundOf::Balancer(label))),
        (None, None) => Ok(None),
    }
}

pub(super) fn curve(section: &Section<'_>, index: &Index) -> Result<CurvePlan, FileError> {
    let run = run_at(section, "run", index)?;
    let experiment = &index.runs[run].experiment;
    let name = text_at(section, "metric")?;
    let metric = Metric::named(&name).ok_or_else(|| {
        section.error("metric", format!("there is no metric `{name}`")).with_hint(hint(&name, Metric::NAMES))
    })?;
    let labels: Vec<String> = experiment.balancers.iter().map(balance::Spec::label).collect();
    let balancers = texts(section, "balancers")?;
    if let Some(stranger) = balancers.iter().find(|label| !labels.contains(label)) {
        let error = section.error("balancers", format!("`{stranger}` is not among the balancers of the run"));
        return Err(error.with_hint(hint(stranger, labels.iter().map(String::as_str))));
    }
    let variants: Vec<&str> = experiment.variants.iter().map(|variant| variant.label.as_str()).collect();
    let variant = section.text("variant")?.unwrap_or(variants[0]);
    if !variants.contains(&variant) {
        let error = section.error("variant", format!("there is no variant `{variant}`"));
        return Err(error.with_hint(hint(variant, variants)));
    }
    let over_time = section.choice("over", &["load", "time"])? == Some(1);
    if over_time && !metric.is_of_core() {
        return Err(section.error("over", "only metrics of the core have time bins"));
    }
    Ok(CurvePlan {
        figure: text_at(section, "figure")?,
        ids: ids(section, index)?,
        run,
        metric,
        balancers,
        variant: variant.to_owned(),
        over_time,
        shift_s: real(section, "shift_s")?.unwrap_or(0.0),
        printed: printed(section)?,
    })
}

/// `printed = [[[x, y], …], …]`, one list of points for each of `printed_name`.
fn printed(section: &Section<'_>) -> Result<Vec<PrintedSeries>, FileError> {
    let names = texts(section, "printed_name")?;
    let series = section.list("printed");
    let wrong = || {
        let error = section.error("printed", "must be one list of points for each of `printed_name`");
        error.with_hint("write printed_name = [\"ECMP\"] and printed = [[[10, 1.6], [20, 1.5]]]")
    };
    if names.len() != series.len() {
        return Err(wrong());
    }
    let point = |value: &Value| match &value.data {
        Data::List(pair) => match pair.iter().map(number).collect::<Vec<_>>()[..] {
            [Some(x), Some(y)] => Ok((x, y)),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    };
    let points = |value: &Value| match &value.data {
        Data::List(points) => points.iter().map(point).collect::<Result<Vec<_>, _>>(),
        _ => Err(wrong()),
    };
    names.into_iter().zip(series).map(|(name, value)| Ok(PrintedSeries { name, points: points(value)? })).collect()
}
