//! The `[[expect]]` tables: published claims, fixed before running.

use net::Time;
use net::did_you_mean::suggestion;

use super::Experiment;
use crate::claims::{Claim, Comparison, Metric, Selection, Window};
use config::diagnostic::FileError;
use config::document::{Data, Document, Entry, Value, ValueOrigin};
use config::section::{Section, number};

const COMPARISONS: [&str; 4] = ["at_most", "at_least", "within", "rises_with_load"];
const COMPARISONS_OF_INDEX: [&str; 7] =
    ["above", "below", "within", "at_most", "at_least", "rises_with_load", "ties_with"];

impl ClaimError {
    fn error(self) -> FileError {
        match self {
            ClaimError::DoesNotFit(_, error) | ClaimError::Invalid(error) => error,
        }
    }
}

pub(crate) struct Expected {
    pub claims: Vec<Claim>,
    /// Claims that name balancers, loads or variants which the command line has replaced.
    pub left_out: Vec<String>,
    /// One flag per table of the file: whether its claim is kept.
    pub kept: Vec<bool>,
}

/// A claim that cannot be judged: wrong in every experiment, or only in this one.
enum ClaimError {
    Invalid(FileError),
    DoesNotFit(&'static str, FileError),
}

impl From<FileError> for ClaimError {
    fn from(error: FileError) -> ClaimError {
        ClaimError::Invalid(error)
    }
}

/// Keys of a claim that may be lists; every value of a list becomes a claim.
const LISTS: [&str; 3] = ["balancer", "at_most", "at_least"];

pub(crate) fn expand(document: &mut Document) {
    let Some(Data::List(items)) = document.root.get_mut("expect").map(|entry| &mut entry.value.data) else { return };
    for key in LISTS {
        let expanded = std::mem::take(items).into_iter().flat_map(|item| spread(item, key)).collect();
        *items = expanded;
    }
}

fn spread(item: Value, key: &str) -> Vec<Value> {
    let Data::Table(table) = &item.data else { return vec![item] };
    let Some(Entry { value: Value { data: Data::List(values), .. }, .. }) = table.get(key) else { return vec![item] };
    let with = |value: &Value| {
        let mut table = table.clone();
        if let Some(entry) = table.get_mut(key) {
            entry.value = value.clone();
        }
        // Claims with the same sentence are distinguished by the balancer they are about.
        if let (Data::Text(label), Some(Data::Text(sentence))) =
            (&value.data, table.get_mut("claim").map(|entry| &mut entry.value.data))
        {
            let of = if key == "balancer" { "" } else { "against " };
            *sentence = format!("{sentence} ({of}{label})");
        }
        Value { data: Data::Table(table), at: item.at.clone() }
    };
    values.iter().map(with).collect()
}

/// Reads all tables of an experiment whose balancers and variants are known. If the experiment
/// `is_reduced` for a matrix, its loads may lack those of some claims.
pub(crate) fn read(top: &Section<'_>, experiment: &Experiment, is_reduced: bool) -> Result<Expected, FileError> {
    let mut expected = Expected { claims: Vec::new(), left_out: Vec::new(), kept: Vec::new() };
    for section in top.sections("expect")? {
        let claim = claim(&section, experiment);
        expected.kept.push(claim.is_ok());
        match claim {
            Ok(claim) => expected.claims.push(claim),
            // A command line with other loads or balancers than the file leaves out the claims
            // about the old ones.
            Err(ClaimError::DoesNotFit(key, error))
                if is_given_as_argument(top, key) || (is_reduced && key != "balancers") =>
            {
                let id = section.text("id")?.unwrap_or_default();
                expected.left_out.push(format!("{id} is not judged: {}", error.headline()));
            }
            Err(ClaimError::DoesNotFit(_, error) | ClaimError::Invalid(error)) => return Err(error),
        }
    }
    Ok(expected)
}

fn is_given_as_argument(top: &Section<'_>, key: &str) -> bool {
    let is_argument = |at: &ValueOrigin| matches!(at, ValueOrigin::Argument(_));
    let (section, key) = key.split_once('.').unwrap_or((key, ""));
    let Some(value) = top.get(section) else { return false };
    match &value.data {
        Data::Table(table) => {
            let is_section_or_key = |name: &str| key.is_empty() || name == key;
            table.iter().any(|(name, entry)| is_section_or_key(name) && is_argument(&entry.value.at))
        }
        _ => is_argument(&value.at),
    }
}

fn claim(section: &Section<'_>, experiment: &Experiment) -> Result<Claim, ClaimError> {
    let comparison = comparison(section, experiment, (&COMPARISONS, "claims"))?.ok_or_else(|| {
        let error = section.error("", "the claim has no comparison");
        error.with_hint(format!("write one of {}", COMPARISONS.join(", ")))
    })?;
    let claim = about(section, experiment, comparison)?;
    match claim.comparison.other() {
        Some(other) if other == claim.balancer => {
            Err(section.error("balancer", format!("`{other}` is compared with itself")).into())
        }
        _ => Ok(claim),
    }
}

/// Reads a number of a reproduction's index. It has the keys of a claim, with two differences: the
/// compared figure may come from another experiment, and a number without a comparison is not
/// judged.
pub(crate) fn number_of_index(
    section: &Section<'_>,
    experiment: &Experiment,
    other: &Experiment,
) -> Result<Claim, FileError> {
    let comparison = comparison(section, other, (&COMPARISONS_OF_INDEX, "numbers")).map_err(ClaimError::error)?;
    about(section, experiment, comparison.unwrap_or(Comparison::Unjudged)).map_err(ClaimError::error)
}

pub(crate) fn metric_named(section: &Section<'_>, key: &str, name: &str) -> Result<Metric, FileError> {
    let unknown =
        || section.error(key, format!("unknown metric `{name}`")).with_hint(suggestion(name, crate::claims::NAMES));
    Metric::named(name).ok_or_else(unknown)
}

fn about(section: &Section<'_>, experiment: &Experiment, comparison: Comparison) -> Result<Claim, ClaimError> {
    let required = |key: &str| section.text(key)?.ok_or_else(|| section.missing(key));
    let metric = metric_named(section, "metric", required("metric")?)?;
    let (id, sentence) = (required("id")?.to_owned(), required("claim")?.to_owned());
    let reason = section.text("reason")?.map(str::to_owned);
    let at = selections(section, experiment, &comparison)?;
    let balancer = balancer(section, experiment)?;
    let factor = factor(section, &comparison)?;
    let window = window_of_index(section, experiment, metric, ("from", "until"))?;
    let (class, server) = requests(section, experiment, metric)?;
    Ok(Claim { id, claim: sentence, metric, balancer, comparison, factor, window, class, server, at, reason })
}

/// Reads `from` and `until`, or the corresponding keys of an index for the compared figure: the
/// time window of metrics that have bins.
pub(crate) fn window_of_index(
    section: &Section<'_>,
    experiment: &Experiment,
    metric: Metric,
    (first, last): (&'static str, &'static str),
) -> Result<Option<Window>, FileError> {
    let (from, until) = (section.quantity::<Time>(first)?, section.quantity::<Time>(last)?);
    let Some(key) = [first, last].into_iter().find(|key| section.has(key)) else { return Ok(None) };
    if !metric.is_of_core() {
        let error = section.error(key, "this metric is about the whole run");
        return Err(error.with_hint("only core_cllbl_rx, core_cllbl_tx, core_bb_rx and core_bb_tx have time bins"));
    }
    if experiment.variants.iter().any(|variant| !variant.config.probes.fixed_bins) {
        let error = section.error(key, "needs time bins of a fixed width");
        return Err(error.with_hint("write `fixed_bins = true` and `bin = \"10s\"` in `[probes]`"));
    }
    let window =
        Window { from_s: from.map_or(0.0, Time::as_s_f64), until_s: until.map_or(f64::INFINITY, Time::as_s_f64) };
    if window.from_s >= window.until_s {
        return Err(section.error(last, format!("is not after `{first}`")));
    }
    Ok(Some(window))
}

fn requests(
    section: &Section<'_>,
    experiment: &Experiment,
    metric: Metric,
) -> Result<(Option<String>, Option<String>), FileError> {
    let (class, server) = (section.text("class")?, section.text("server")?);
    let services = experiment.variants.first().and_then(|variant| variant.config.services.as_ref());
    let Some(services) = services.filter(|_| metric.is_of_requests()) else {
        let key = ["class", "server"].into_iter().find(|key| section.has(key));
        let key = key.or(metric.is_of_requests().then_some("metric"));
        return match key {
            None => Ok((None, None)),
            Some(key) => Err(section.error(key, "belongs to metrics of requests, and this metric is about flows")),
        };
    };
    if let Some(class) = class
        && !services.classes.iter().any(|known| known.name == class)
    {
        let names: Vec<&str> = services.classes.iter().map(|known| known.name.as_str()).collect();
        let error = section.error("class", format!("unknown request class `{class}`"));
        return Err(error.with_hint(suggestion(class, names)));
    }
    if class.is_some() && metric == Metric::ServerBusy {
        let error = section.error("class", "`server_busy_us` is the time of all classes together");
        return Err(error.with_hint("remove class, or run the classes one by one"));
    }
    match (server, metric) {
        (None, metric) if metric.is_of_server() => {
            return Err(section.missing("server").with_hint("name a [[server]]'s host"));
        }
        (Some(_), metric) if !metric.is_of_server() => {
            return Err(section.error("server", "only `server_share` and `server_busy_us` are about one server"));
        }
        _ => {}
    }
    let variant = &experiment.variants[0].topology;
    let hosts = services.servers.iter().map(|server| variant.node(variant.host(server.host)).name.as_str());
    if let Some(server) = server
        && !hosts.clone().any(|host| host == server)
    {
        let error = section.error("server", format!("unknown server `{server}`"));
        return Err(error.with_hint(suggestion(server, hosts.collect::<Vec<_>>())));
    }
    Ok((class.map(str::to_owned), server.map(str::to_owned)))
}

fn factor(section: &Section<'_>, comparison: &Comparison) -> Result<f64, FileError> {
    match (section.positive("factor")?, comparison) {
        (None, _) => Ok(1.0),
        (Some(factor), Comparison::AtMost(_) | Comparison::AtLeast(_)) => Ok(factor),
        (Some(_), _) => Err(section.error("factor", "needs `at_most` or `at_least`")),
    }
}

pub(crate) fn label_of_index(
    section: &Section<'_>,
    experiment: &Experiment,
    key: &str,
) -> Result<Option<String>, FileError> {
    label(section, experiment, key).map_err(ClaimError::error)
}

pub(crate) fn range_of_index(section: &Section<'_>, key: &'static str) -> Result<Option<(f64, f64)>, FileError> {
    if section.has(key) { range_at(section, key).map(Some) } else { Ok(None) }
}

fn label(section: &Section<'_>, experiment: &Experiment, key: &str) -> Result<Option<String>, ClaimError> {
    let Some(text) = section.text(key)? else { return Ok(None) };
    let labels: Vec<String> = experiment.balancers.iter().map(balance::Spec::label).collect();
    if labels.iter().any(|label| label == text) {
        return Ok(Some(text.to_owned()));
    }
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let error = section.error(key, format!("`{text}` is not among the balancers of the experiment"));
    Err(ClaimError::DoesNotFit("balancers", error.with_hint(suggestion(text, labels))))
}

fn balancer(section: &Section<'_>, experiment: &Experiment) -> Result<String, ClaimError> {
    match (label(section, experiment, "balancer")?, experiment.balancers.as_slice()) {
        (Some(label), _) => Ok(label),
        (None, [only]) => Ok(only.label()),
        (None, several) => {
            let labels: Vec<String> = several.iter().map(balance::Spec::label).collect();
            let hint = format!("name the balancer of the claim: {}", labels.join(", "));
            Err(ClaimError::DoesNotFit("balancers", section.missing("balancer").with_hint(hint)))
        }
    }
}

/// Reads the comparison under one of the `keys`; `None` if the section has none of them. `things` is
/// what users call such sections.
fn comparison(
    section: &Section<'_>,
    experiment: &Experiment,
    (keys, things): (&[&'static str], &str),
) -> Result<Option<Comparison>, ClaimError> {
    let given: Vec<&str> = keys.iter().copied().filter(|key| section.has(key)).collect();
    Ok(match given[..] {
        [] => None,
        [first, second, ..] => {
            let error = section.error(second, format!("cannot go with `{first}`"));
            return Err(error.with_hint(format!("split it into two {things}")).into());
        }
        ["at_most"] => label(section, experiment, "at_most")?.map(Comparison::AtMost),
        ["at_least"] => label(section, experiment, "at_least")?.map(Comparison::AtLeast),
        ["ties_with"] => label(section, experiment, "ties_with")?.map(Comparison::TiesWith),
        ["above"] => real(section, "above")?.map(|low| Comparison::Within(low, f64::INFINITY)),
        ["below"] => real(section, "below")?.map(|high| Comparison::Within(f64::NEG_INFINITY, high)),
        ["rises_with_load"] if section.flag("rises_with_load")? == Some(false) => {
            let error = section.error("rises_with_load", "can only be true");
            return Err(error.with_hint("leave it out, or use another comparison").into());
        }
        ["rises_with_load"] => Some(Comparison::RisesWithLoad),
        [_] => range_at(section, "within").map(|(low, high)| Some(Comparison::Within(low, high)))?,
    })
}

pub(crate) fn real(section: &Section<'_>, key: &str) -> Result<Option<f64>, FileError> {
    match section.get(key).map(|value| number(value).filter(|number| number.is_finite())) {
        Some(None) => Err(section.error(key, "must be a number")),
        known => Ok(known.flatten()),
    }
}

fn range_at(section: &Section<'_>, key: &str) -> Result<(f64, f64), FileError> {
    let ends: Vec<Option<f64>> = section.list(key).into_iter().map(number).collect();
    let [Some(low), Some(high)] = ends[..] else {
        return Err(section.error(key, "must be two numbers").with_hint(format!("write {key} = [low, high]")));
    };
    if low > high {
        let error = section.error(key, format!("the low end {low} is above the high end {high}"));
        return Err(error.with_hint(format!("write {key} = [{high}, {low}]")));
    }
    Ok((low, high))
}

fn selections(
    section: &Section<'_>,
    experiment: &Experiment,
    comparison: &Comparison,
) -> Result<Vec<Selection>, ClaimError> {
    let from = section.positive("load_min")?;
    let up_to = section.positive("load_max")?;
    let lowest_only = section.flag("lowest_load_only")?.unwrap_or(false);
    if lowest_only && (from.is_some() || up_to.is_some()) {
        return Err(section.error("lowest_load_only", "cannot go with `load_min` or `load_max`").into());
    }
    let is_bounded = lowest_only || from.is_some() || up_to.is_some();
    let is_selected = |load: &Option<f64>| match load {
        Some(load) => from.is_none_or(|from| from <= *load) && up_to.is_none_or(|up_to| *load <= up_to),
        None => !is_bounded,
    };
    let variant = variant(section, experiment)?;
    let mut selections = Vec::new();
    for other in experiment.variants.iter().filter(|other| variant.is_none_or(|label| label == other.label)) {
        let mut loads: Vec<Option<f64>> = other.loads.iter().copied().filter(is_selected).collect();
        loads.sort_by(|a, b| a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0)));
        if lowest_only {
            loads.truncate(1);
        }
        if *comparison == Comparison::RisesWithLoad && loads.len() < 2 {
            let error =
                section.error("rises_with_load", format!("needs at least two loads, and selects {}", loads.len()));
            return Err(ClaimError::DoesNotFit("traffic.load", error.with_hint(loads_hint(experiment))));
        }
        if !loads.is_empty() {
            selections.push(Selection { variant: other.label.clone(), loads });
        }
    }
    if selections.is_empty() {
        let key = ["load_max", "load_min", "lowest_load_only"].into_iter().find(|key| section.has(key));
        let error = section.error(key.unwrap_or_default(), "selects no load of the experiment");
        return Err(ClaimError::DoesNotFit("traffic.load", error.with_hint(loads_hint(experiment))));
    }
    Ok(selections)
}

fn loads_hint(experiment: &Experiment) -> String {
    let mut loads: Vec<f64> =
        experiment.variants.iter().flat_map(|variant| variant.loads.iter().flatten()).copied().collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    match loads.as_slice() {
        [] => "the traffic of the experiment sets its own rate, so it has no loads".to_owned(),
        loads => format!("its loads are {}", loads.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn variant<'a>(section: &Section<'a>, experiment: &Experiment) -> Result<Option<&'a str>, ClaimError> {
    variant_of_index(section, experiment, "variant").map_err(|error| ClaimError::DoesNotFit("sweep", error))
}

pub(crate) fn variant_of_index<'a>(
    section: &Section<'a>,
    experiment: &Experiment,
    key: &str,
) -> Result<Option<&'a str>, FileError> {
    let Some(text) = section.text(key)? else { return Ok(None) };
    let labels: Vec<&str> = experiment.variants.iter().map(|variant| variant.label.as_str()).collect();
    if labels.contains(&text) {
        return Ok(Some(text));
    }
    let error = section.error(key, format!("unknown variant `{text}`"));
    let hint = match labels.as_slice() {
        [""] => "the experiment has no [sweep], so it has no variants".to_owned(),
        labels => suggestion(text, labels.iter().copied()),
    };
    Err(error.with_hint(hint))
}
