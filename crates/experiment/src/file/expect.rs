//! The `[[expect]]` tables: claims of a document, fixed before running.

use net::Time;
use net::words::hint;

use super::Experiment;
use crate::claims::{Claim, Comparison, Metric, Selection, Window};
use net::document::{At, Data, Document, Entry, Value};
use net::mistake::FileError;
use net::section::{Section, number};

const COMPARISONS: [&str; 4] = ["at_most", "at_least", "within", "rises_with_load"];

impl Unfit {
    /// The mistake, wherever it is one.
    fn error(self) -> FileError {
        match self {
            Unfit::To(_, error) | Unfit::Wrong(error) => error,
        }
    }
}

/// What the tables say.
pub(crate) struct Expected {
    pub claims: Vec<Claim>,
    /// Claims that balancers, loads or variants given on the command line leave without meaning.
    pub left_out: Vec<String>,
    /// Which tables are kept.
    pub kept: Vec<bool>,
}

/// A mistake that is one in any experiment, or one only in this.
enum Unfit {
    Wrong(FileError),
    /// The key of the experiment it does not fit to.
    To(&'static str, FileError),
}

impl From<FileError> for Unfit {
    fn from(error: FileError) -> Unfit {
        Unfit::Wrong(error)
    }
}

/// Keys of a claim that may be lists, which make a claim of each of their values.
const LISTS: [&str; 3] = ["balancer", "at_most", "at_least"];

/// A claim about several balancers is one about each.
pub(crate) fn expand(document: &mut Document) {
    let Some(Data::List(items)) = document.root.get_mut("expect").map(|entry| &mut entry.value.data) else { return };
    for key in LISTS {
        let expanded = std::mem::take(items).into_iter().flat_map(|item| spread(item, key)).collect();
        *items = expanded;
    }
}

/// A claim for each value of a key.
fn spread(item: Value, key: &str) -> Vec<Value> {
    let Data::Table(table) = &item.data else { return vec![item] };
    let Some(Entry { value: Value { data: Data::List(values), .. }, .. }) = table.get(key) else { return vec![item] };
    let with = |value: &Value| {
        let mut table = table.clone();
        if let Some(entry) = table.get_mut(key) {
            entry.value = value.clone();
        }
        // Claims of one sentence are told apart by whom they are about.
        if let (Data::Text(label), Some(Data::Text(words))) =
            (&value.data, table.get_mut("claim").map(|entry| &mut entry.value.data))
        {
            let of = if key == "balancer" { "" } else { "against " };
            *words = format!("{words} ({of}{label})");
        }
        Value { data: Data::Table(table), at: item.at.clone() }
    };
    values.iter().map(with).collect()
}

/// Reads all tables, for an experiment whose balancers and variants are known. One that `is_reduced` to what represents it
/// may have left the loads of some claims behind.
pub(crate) fn read(top: &Section<'_>, experiment: &Experiment, is_reduced: bool) -> Result<Expected, FileError> {
    let mut expected = Expected { claims: Vec::new(), left_out: Vec::new(), kept: Vec::new() };
    for section in top.sections("expect")? {
        let claim = claim(&section, experiment);
        expected.kept.push(claim.is_ok());
        match claim {
            Ok(claim) => expected.claims.push(claim),
            // Whoever asks for other loads or balancers than the file has wants those and not its claims.
            Err(Unfit::To(key, error)) if is_given_as_argument(top, key) || (is_reduced && key != "balancers") => {
                let id = section.text("id")?.unwrap_or_default();
                expected.left_out.push(format!("{id} is not judged: {}", error.headline()));
            }
            Err(Unfit::To(_, error) | Unfit::Wrong(error)) => return Err(error),
        }
    }
    Ok(expected)
}

/// Whether the command line gives this key, or for a section one in it.
fn is_given_as_argument(top: &Section<'_>, key: &str) -> bool {
    let is_argument = |at: &At| matches!(at, At::Argument(_));
    let (section, key) = key.split_once('.').unwrap_or((key, ""));
    let Some(value) = top.get(section) else { return false };
    match &value.data {
        Data::Table(table) => {
            let wanted = |name: &str| key.is_empty() || name == key;
            table.iter().any(|(name, entry)| wanted(name) && is_argument(&entry.value.at))
        }
        _ => is_argument(&value.at),
    }
}

fn claim(section: &Section<'_>, experiment: &Experiment) -> Result<Claim, Unfit> {
    let comparison = comparison(section, experiment)?;
    let claim = about(section, experiment, comparison)?;
    if let Comparison::AtMost(other) | Comparison::AtLeast(other) = &claim.comparison
        && *other == claim.balancer
    {
        return Err(section.error("balancer", format!("`{other}` is compared with itself")).into());
    }
    Ok(claim)
}

/// A number of a reproduction's index, which has the keys of a claim: what it is compared with may be of another experiment, and
/// nothing at all is a number that is only looked at.
pub(crate) fn number_of_index(
    section: &Section<'_>,
    experiment: &Experiment,
    other: &Experiment,
) -> Result<Claim, FileError> {
    let is_compared = COMPARISONS.into_iter().any(|key| section.has(key));
    let read = || -> Result<Claim, Unfit> {
        let anything = Comparison::Within(f64::NEG_INFINITY, f64::INFINITY);
        let comparison = if is_compared { comparison(section, other)? } else { anything };
        about(section, experiment, comparison)
    };
    read().map_err(Unfit::error)
}

/// The metric of a name that a key gives.
pub(crate) fn metric_named(section: &Section<'_>, key: &str, name: &str) -> Result<Metric, FileError> {
    let unknown = || section.error(key, format!("there is no metric `{name}`")).with_hint(hint(name, Metric::NAMES));
    Metric::named(name).ok_or_else(unknown)
}

/// Everything but the comparison.
fn about(section: &Section<'_>, experiment: &Experiment, comparison: Comparison) -> Result<Claim, Unfit> {
    let required = |key: &str| section.text(key)?.ok_or_else(|| section.missing(key));
    let metric = metric_named(section, "metric", required("metric")?)?;
    let (id, words) = (required("id")?.to_owned(), required("claim")?.to_owned());
    let reason = section.text("reason")?.map(str::to_owned);
    let at = selections(section, experiment, &comparison)?;
    let balancer = balancer(section, experiment)?;
    let times = times(section, &comparison)?;
    let window = window_of_index(section, experiment, metric, ("from", "until"))?;
    let (class, server) = requests(section, experiment, metric)?;
    Ok(Claim { id, claim: words, metric, balancer, comparison, times, window, class, server, at, reason })
}

/// `from` and `until`, or the keys of an index for what it compares with: a part of the time for metrics that have bins.
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

/// `class` and `server` of metrics of requests.
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
            Some(key) => Err(section.error(key, "is about requests to services, and this is about flows")),
        };
    };
    if let Some(class) = class
        && !services.classes.iter().any(|known| known.name == class)
    {
        let names: Vec<&str> = services.classes.iter().map(|known| known.name.as_str()).collect();
        let error = section.error("class", format!("there is no class of requests `{class}`"));
        return Err(error.with_hint(hint(class, names)));
    }
    match (server, metric) {
        (None, Metric::ServerShare) => return Err(section.missing("server").with_hint("name a [[server]]'s host")),
        (Some(_), Metric::ServerShare) | (None, _) => {}
        (Some(_), _) => return Err(section.error("server", "only `server_share` is about one server")),
    }
    let variant = &experiment.variants[0].topology;
    let hosts = services.servers.iter().map(|server| variant.node(variant.host(server.host)).name.as_str());
    if let Some(server) = server
        && !hosts.clone().any(|host| host == server)
    {
        let error = section.error("server", format!("there is no server `{server}`"));
        return Err(error.with_hint(hint(server, hosts.collect::<Vec<_>>())));
    }
    Ok((class.map(str::to_owned), server.map(str::to_owned)))
}

/// `times = 0.8` beside `at_most` or `at_least`.
fn times(section: &Section<'_>, comparison: &Comparison) -> Result<f64, FileError> {
    match (section.positive("times", f64::INFINITY)?, comparison) {
        (None, _) => Ok(1.0),
        (Some(times), Comparison::AtMost(_) | Comparison::AtLeast(_)) => Ok(times),
        (Some(_), _) => Err(section.error("times", "needs `at_most` or `at_least`")),
    }
}

/// The label at a key of an index, if it is one of the experiment.
pub(crate) fn label_of_index(
    section: &Section<'_>,
    experiment: &Experiment,
    key: &str,
) -> Result<Option<String>, FileError> {
    label(section, experiment, key).map_err(Unfit::error)
}

/// Two numbers at a key of an index, the low one first.
pub(crate) fn range_of_index(section: &Section<'_>, key: &'static str) -> Result<Option<(f64, f64)>, FileError> {
    if !section.has(key) {
        return Ok(None);
    }
    match range_at(section, key)? {
        Comparison::Within(low, high) => Ok(Some((low, high))),
        _ => Ok(None),
    }
}

/// The label at a key, if it is one of the experiment.
fn label(section: &Section<'_>, experiment: &Experiment, key: &str) -> Result<Option<String>, Unfit> {
    let Some(text) = section.text(key)? else { return Ok(None) };
    let labels: Vec<String> = experiment.balancers.iter().map(balance::Spec::label).collect();
    if labels.iter().any(|label| label == text) {
        return Ok(Some(text.to_owned()));
    }
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let error = section.error(key, format!("`{text}` is not among the balancers of the experiment"));
    Err(Unfit::To("balancers", error.with_hint(hint(text, labels))))
}

fn balancer(section: &Section<'_>, experiment: &Experiment) -> Result<String, Unfit> {
    match (label(section, experiment, "balancer")?, experiment.balancers.as_slice()) {
        (Some(label), _) => Ok(label),
        (None, [only]) => Ok(only.label()),
        (None, several) => {
            let labels: Vec<String> = several.iter().map(balance::Spec::label).collect();
            let hint = format!("say which balancer the claim is about: {}", labels.join(", "));
            Err(Unfit::To("balancers", section.missing("balancer").with_hint(hint)))
        }
    }
}

fn comparison(section: &Section<'_>, experiment: &Experiment) -> Result<Comparison, Unfit> {
    let given: Vec<&str> = COMPARISONS.into_iter().filter(|key| section.has(key)).collect();
    match given.as_slice() {
        [] => {
            let error = section.error("", "the claim compares nothing");
            return Err(error.with_hint(format!("write one of {}", COMPARISONS.join(", "))).into());
        }
        [_] => {}
        [first, second, ..] => {
            let error = section.error(second, format!("cannot go with `{first}`"));
            return Err(error.with_hint("make two claims of it").into());
        }
    }
    if let Some(other) = label(section, experiment, "at_most")? {
        return Ok(Comparison::AtMost(other));
    }
    if let Some(other) = label(section, experiment, "at_least")? {
        return Ok(Comparison::AtLeast(other));
    }
    match section.flag("rises_with_load")? {
        Some(true) => Ok(Comparison::RisesWithLoad),
        Some(false) => {
            let error = section.error("rises_with_load", "can only be true");
            Err(error.with_hint("leave it out, or compare with something else").into())
        }
        None => Ok(range(section)?),
    }
}

fn range(section: &Section<'_>) -> Result<Comparison, FileError> {
    range_at(section, "within")
}

fn range_at(section: &Section<'_>, key: &str) -> Result<Comparison, FileError> {
    let ends: Vec<Option<f64>> = section.list(key).into_iter().map(number).collect();
    let [Some(low), Some(high)] = ends[..] else {
        return Err(section.error(key, "must be two numbers").with_hint(format!("write {key} = [low, high]")));
    };
    if low > high {
        let error = section.error(key, format!("the low end {low} is above the high end {high}"));
        return Err(error.with_hint(format!("write {key} = [{high}, {low}]")));
    }
    Ok(Comparison::Within(low, high))
}

/// The loads of each variant the claim is about.
fn selections(
    section: &Section<'_>,
    experiment: &Experiment,
    comparison: &Comparison,
) -> Result<Vec<Selection>, Unfit> {
    let from = section.positive("loads_from", f64::INFINITY)?;
    let up_to = section.positive("loads_up_to", f64::INFINITY)?;
    let lightest = section.flag("lightest_load")?.unwrap_or(false);
    if lightest && (from.is_some() || up_to.is_some()) {
        return Err(section.error("lightest_load", "cannot go with `loads_from` or `loads_up_to`").into());
    }
    let is_bounded = lightest || from.is_some() || up_to.is_some();
    let wanted = |load: &Option<f64>| match load {
        Some(load) => from.is_none_or(|from| from <= *load) && up_to.is_none_or(|up_to| *load <= up_to),
        None => !is_bounded,
    };
    let variant = variant(section, experiment)?;
    let mut selections = Vec::new();
    for other in experiment.variants.iter().filter(|other| variant.is_none_or(|label| label == other.label)) {
        let mut loads: Vec<Option<f64>> = other.loads.iter().copied().filter(wanted).collect();
        loads.sort_by(|a, b| a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0)));
        if lightest {
            loads.truncate(1);
        }
        if *comparison == Comparison::RisesWithLoad && loads.len() < 2 {
            let error =
                section.error("rises_with_load", format!("needs two loads at least, and selects {}", loads.len()));
            return Err(Unfit::To("traffic.load", error.with_hint(loads_hint(experiment))));
        }
        if !loads.is_empty() {
            selections.push(Selection { variant: other.label.clone(), loads });
        }
    }
    if selections.is_empty() {
        let key = ["loads_up_to", "loads_from", "lightest_load"].into_iter().find(|key| section.has(key));
        let error = section.error(key.unwrap_or_default(), "selects no load of the experiment");
        return Err(Unfit::To("traffic.load", error.with_hint(loads_hint(experiment))));
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

fn variant<'a>(section: &Section<'a>, experiment: &Experiment) -> Result<Option<&'a str>, Unfit> {
    variant_of_index(section, experiment, "variant").map_err(|error| Unfit::To("sweep", error))
}

/// The label of a variant, as the file or an index gives it.
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
    let error = section.error(key, format!("there is no variant `{text}`"));
    let hint = match labels.as_slice() {
        [""] => "the experiment sweeps over nothing, so it has no variants".to_owned(),
        labels => hint(text, labels.iter().copied()),
    };
    Err(error.with_hint(hint))
}
