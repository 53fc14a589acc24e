//! Numbers and curves of an index.

use config::diagnostic::FileError;
use config::document::{Data, Value};
use config::section::{Section, number};
use net::did_you_mean::suggestion;

use super::{check_id, ids, run_at, text_at, texts};
use crate::claims::{Claim, Comparison, Metric};
use crate::input::Experiment;
use crate::input::expect::{self, real};
use crate::reproduction::{BoundOf, ComparedFigure, CurvePlan, Index, Kind, Number, PrintedSeries};

pub(super) fn number_of(section: &Section<'_>, index: &Index) -> Result<Number, FileError> {
    let run = run_at(section, "run", index)?;
    let other_run = if section.has("other_run") { run_at(section, "other_run", index)? } else { run };
    let (own, other_experiment) = (&index.runs[run].experiment, &index.runs[other_run].experiment);
    let claim = expect::number_of_index(section, own, other_experiment)?;
    check_id(section, "id", &claim.id, index)?;
    let other = other(section, &claim, (other_run, other_experiment))?;
    let is_ordered = matches!(claim.comparison, Comparison::AtMost(_) | Comparison::AtLeast(_));
    if let Some(other) = other.as_ref().filter(|other| other.is_difference && is_ordered) {
        let message = format!("cannot go with an order relative to `{}`", other.balancer);
        return Err(section.error("difference_to", message));
    }
    let every_seed = section.flag("every_seed")?.unwrap_or(false);
    if every_seed && !matches!(claim.comparison, Comparison::Within(..)) {
        return Err(section.error("every_seed", "needs a band: `within`, `above` or `below`"));
    }
    let per = per(section, &claim)?;
    let (value, baseline) = (real(section, "value")?, real(section, "baseline")?);
    if baseline.is_some() && (value.is_none() || value == baseline) {
        let error = section.error("baseline", "needs a different `value`");
        return Err(error.with_hint("the direction is from the baseline to the printed value"));
    }
    let found = expect::range_of_index(section, "found")?;
    if claim.reason.is_some() != found.is_some() {
        let key = if found.is_some() { "reason" } else { "found" };
        let hint = "a reason applies to a range of measured values: write both keys, or neither";
        return Err(section.missing(key).with_hint(hint));
    }
    let figure = match (section.text("figure")?, section.text("label")?) {
        (Some(figure), Some(label)) => Some((figure.to_owned(), label.to_owned())),
        (None, None) => None,
        (Some(_), None) => return Err(section.missing("label").with_hint("name its label in the figure")),
        (None, Some(_)) => return Err(section.missing("figure").with_hint("name the figure that shows it")),
    };
    let (equals, inconsistent) = (real(section, "equals")?, section.text("inconsistent")?.map(str::to_owned));
    let is_judged = claim.comparison != Comparison::Unjudged || equals.is_some() || inconsistent.is_some();
    Ok(Number {
        kind: kind(section, is_judged)?,
        reading: reading(section, &claim.id, index)?,
        printed: text_at(section, "printed")?,
        value,
        run,
        other,
        equals,
        tolerance: section.positive("tolerance")?.unwrap_or(1e-9),
        every_seed,
        baseline,
        per,
        bound: bound(section, own)?,
        inconsistent,
        found,
        figure,
        claim,
    })
}

fn kind(section: &Section<'_>, is_judged: bool) -> Result<Option<Kind>, FileError> {
    match (section.choice("kind")?, is_judged) {
        (Some(name), true) => Ok(Kind::ALL.into_iter().find(|kind| kind.as_str() == name)),
        (None, false) => Ok(None),
        (None, true) => {
            let hint = "write kind = \"claim\" for a sentence that the document concludes, \"magnitude\" for a printed \
                        figure, or \"check\" for a calibration or closed form of this project";
            Err(section.missing("kind").with_hint(hint))
        }
        (Some(_), false) => {
            let error = section.error("kind", "cannot be given for a number that is not judged");
            Err(error.with_hint("give a band, an order or a closed form, or remove the kind"))
        }
    }
}

fn reading(section: &Section<'_>, id: &str, index: &Index) -> Result<Option<usize>, FileError> {
    let Some(name) = section.text("reading")? else { return Ok(None) };
    let position = index.readings.iter().position(|reading| reading.id == id && reading.name == name);
    let known = index.readings.iter().filter(|reading| reading.id == id).map(|reading| reading.name.as_str());
    position.map(Some).ok_or_else(|| {
        section.error("reading", format!("{id} has no reading `{name}`")).with_hint(suggestion(name, known))
    })
}

fn per(section: &Section<'_>, claim: &Claim) -> Result<Option<Metric>, FileError> {
    let Some(name) = section.text("per")? else { return Ok(None) };
    let metric = expect::metric_named(section, "per", name)?;
    if matches!(claim.comparison, Comparison::AtMost(_) | Comparison::AtLeast(_) | Comparison::RisesWithLoad) {
        return Err(section.error("per", "needs a band").with_hint("write `ratio_to` and `above = 1` or `below = 1`"));
    }
    if metric.is_of_core() != claim.metric.is_of_core() || metric.is_of_requests() != claim.metric.is_of_requests() {
        return Err(section.error("per", format!("`{name}` is not of the same kind as `{}`", claim.metric.name())));
    }
    Ok(Some(metric))
}

fn other(
    section: &Section<'_>,
    claim: &Claim,
    (run, experiment): (usize, &Experiment),
) -> Result<Option<ComparedFigure>, FileError> {
    let ratio = expect::label_of_index(section, experiment, "ratio_to")?;
    let difference = expect::label_of_index(section, experiment, "difference_to")?;
    let is_difference = difference.is_some();
    let compared = claim.comparison.other().map(str::to_owned);
    let given: Vec<String> = [compared, ratio, difference].into_iter().flatten().collect();
    let balancer = match given.as_slice() {
        [] => {
            let keys = ["other_run", "other_variant", "other_from", "other_until"];
            return match keys.into_iter().find(|key| section.has(key)) {
                None => Ok(None),
                Some(key) => Err(section.error(key, "needs `at_most`, `at_least`, `ratio_to` or `difference_to`")),
            };
        }
        [only] => only.clone(),
        _ => return Err(section.error("", "has two comparisons").with_hint("split it into two numbers")),
    };
    let variant = expect::variant_of_index(section, experiment, "other_variant")?;
    let window = expect::window_of_index(section, experiment, claim.metric, ("other_from", "other_until"))?;
    if window.is_some() && matches!(claim.comparison, Comparison::AtMost(_) | Comparison::AtLeast(_)) {
        let error = section.error("other_from", "cannot go with `at_most` and `at_least`");
        return Err(error.with_hint("write `ratio_to` and `below = 1` or `above = 1`"));
    }
    Ok(Some(ComparedFigure { run, balancer, variant: variant.map(str::to_owned), window, is_difference }))
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
    let metric = expect::metric_named(section, "metric", &name)?;
    let labels: Vec<String> = experiment.balancers.iter().map(balance::Spec::label).collect();
    let balancers = texts(section, "balancers")?;
    if let Some(unknown) = balancers.iter().find(|label| !labels.contains(label)) {
        let error = section.error("balancers", format!("`{unknown}` is not among the balancers of the run"));
        return Err(error.with_hint(suggestion(unknown, labels.iter().map(String::as_str))));
    }
    let first = experiment.variants[0].label.as_str();
    let variant = expect::variant_of_index(section, experiment, "variant")?.unwrap_or(first);
    let over_time = section.choice("over")? == Some("time");
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
