//! All keys of an index with their meaning; `docs/reproduction.md` explains how they work together.

use config::keys::{Key, Kind, Layout, key};
use config::kind::TEXT;

const LABEL: Kind = Kind::Text("label");
const LABELS: Kind = Kind::List(&LABEL);
const RANGE: Kind = Kind::Form("[low, high]");
const METRIC: Kind = Kind::Choice(&crate::claims::NAMES);

/// The layout of an index.
pub static LAYOUT: Layout = Layout {
    keys: KEYS,
    repeated: &["experiment", "reading", "run", "testbed", "testbed.explanation", "number", "curve", "erratum"],
    flat: &[],
};

#[rustfmt::skip]
const KEYS: &[Key] = &[
    key("", "document", TEXT, "required", "short name of the document, such as F2"),
    key("", "title", TEXT, "required", "title of the document"),
    key("", "source", TEXT, "required", "authors, publisher and year"),

    key("experiment", "id", TEXT, "required", "id of an experiment of the document, such as E3.1"),
    key("experiment", "question", TEXT, "required", "question it answers"),
    key("experiment", "section", TEXT, "required", "its section in the document"),
    key("experiment", "missing", TEXT, "none", "input that the document does not print and that the result depends on"),

    key("reading", "id", TEXT, "required", "experiment of the document"),
    key("reading", "name", TEXT, "required", "name of a reading of the document"),
    key("reading", "status", Kind::Choice(&super::grade::Status::NAMES), "required", "what the reading rests on; corrected and refuted ones decide nothing"),
    key("reading", "reason", TEXT, "required", "text or experiment that the status follows from"),

    key("run", "name", TEXT, "the name of the experiment file", "folder of the results"),
    key("run", "file", Kind::Text("path"), "required", "experiment file, relative to the index"),
    key("run", "seeds", Kind::Count(1, 100_000), "those of the file", "number of seeds; needs a reason"),
    key("run", "balancers", LABELS, "those of the file", "balancers; need a reason"),
    key("run", "set", Kind::List(&Kind::Text("key=value")), "none", "further changes of the file; need a reason"),
    key("run", "reason", TEXT, "none", "reason for not running the file as it is"),

    key("testbed", "name", TEXT, "the name of the experiment file", "folder of the results"),
    key("testbed", "file", Kind::Text("path"), "required", "experiment file, relative to the index"),
    key("testbed", "ids", Kind::List(&TEXT), "required", "experiments of the document that it is about"),
    key("testbed", "seeds", Kind::Count(1, 100_000), "those of the file", "number of seeds on switches"),
    key("testbed", "simulated_seeds", Kind::Count(1, 100_000), "those of the file", "number of seeds in the simulator"),
    key("testbed", "set", Kind::List(&Kind::Text("key=value")), "none", "further changes of the file"),
    key("testbed", "balancers", LABELS, "those of the file", "balancers"),

    key("testbed.explanation", "variant", TEXT, "all variants", "variant of the figure that differs between the platforms"),
    key("testbed.explanation", "balancer", LABEL, "required", "balancer of the figure"),
    key("testbed.explanation", "metric", METRIC, "required", "metric of the figure"),
    key("testbed.explanation", "found", RANGE, "required", "differences that the reason explains, as shares of the simulated value"),
    key("testbed.explanation", "reason", TEXT, "required", "reason for the difference"),

    key("number", "id", TEXT, "required", "experiment of the document"),
    key("number", "claim", TEXT, "required", "what the number says, in a sentence"),
    key("number", "kind", Kind::Choice(&super::grade::Kind::NAMES), "required if the number is judged", "a sentence that the document concludes, a printed figure, or a check, which never counts"),
    key("number", "reading", TEXT, "all readings", "the `[[reading]]` that the number belongs to"),
    key("number", "printed", TEXT, "required", "text of the document for the number"),
    key("number", "value", Kind::Number, "none", "the printed value in the unit of the metric (times in us), for figures"),
    key("number", "run", TEXT, "the only run", "the `[[run]]` that measures it"),
    key("number", "metric", METRIC, "required", "metric, see `anabranch list metrics`"),
    key("number", "balancer", LABEL, "the only one", "balancer of the number"),
    key("number", "at_most", LABEL, "none", "the metric is not above that of this balancer, paired over seeds"),
    key("number", "at_least", LABEL, "none", "the metric is not below that of this balancer, paired over seeds"),
    key("number", "within", RANGE, "none", "the measured figure is in this range"),
    key("number", "above", Kind::Number, "none", "the measured figure is not below this value"),
    key("number", "below", Kind::Number, "none", "the measured figure is not above this value"),
    key("number", "factor", Kind::Positive(f64::INFINITY), "1", "with at_most or at_least: factor on the other balancer's metric"),
    key("number", "rises_with_load", Kind::Flag, "none", "the mean over seeds does not fall from one load to the next"),
    key("number", "load_min", Kind::Positive(f64::INFINITY), "all loads", "only loads from this value on"),
    key("number", "load_max", Kind::Positive(f64::INFINITY), "all loads", "only loads up to this value"),
    key("number", "lowest_load_only", Kind::Flag, "false", "only the lowest load"),
    key("number", "variant", TEXT, "all variants", "only this variant, as reports name it"),
    key("number", "from", Kind::Time, "all the time", "metrics of the core: only time bins that end after this"),
    key("number", "until", Kind::Time, "all the time", "metrics of the core: only time bins that have ended by this"),
    key("number", "class", TEXT, "all requests", "metrics of requests: only those of this class"),
    key("number", "server", TEXT, "required by server_share and server_busy_us", "host whose share or time is compared"),
    key("number", "ratio_to", LABEL, "none", "the measured figure is the ratio to that of this balancer, seed by seed"),
    key("number", "difference_to", LABEL, "none", "the measured figure is the difference from that of this balancer, seed by seed"),
    key("number", "ties_with", LABEL, "none", "holds if the 95 % interval of the ratio to this balancer contains 1"),
    key("number", "other_run", TEXT, "the same run", "run of the compared figure"),
    key("number", "other_variant", TEXT, "the same variant", "variant of the compared figure"),
    key("number", "other_from", Kind::Time, "the same time", "time window of the compared figure: its beginning"),
    key("number", "other_until", Kind::Time, "the same time", "time window of the compared figure: its end"),
    key("number", "equals", Kind::Number, "none", "closed form that the figure of every seed equals"),
    key("number", "tolerance", Kind::Positive(0.5), "1e-9", "share of the closed form that counts as equal"),
    key("number", "every_seed", Kind::Flag, "false", "every seed must be in the band, not only the mean"),
    key("number", "baseline", Kind::Number, "1 for ratios", "value from which the printed value is an effect: outside the band, half of it is the right direction"),
    key("number", "per", METRIC, "none", "metric that divides the metric, run by run"),
    key("number", "bound", Kind::Number, "none", "best possible value of the metric"),
    key("number", "bound_by", LABEL, "none", "balancer of the run whose value is the best possible, such as `optimum`"),
    key("number", "inconsistent", TEXT, "none", "arithmetic by which the document contradicts itself about the number"),
    key("number", "reason", TEXT, "none", "reason why the number is not reproduced"),
    key("number", "found", RANGE, "none", "measured figures that the reason explains"),
    key("number", "figure", TEXT, "none", "figure of the report that shows it as a dot"),
    key("number", "label", TEXT, "none", "text below the dot"),

    key("curve", "figure", TEXT, "required", "title of the figure"),
    key("curve", "ids", Kind::List(&TEXT), "required", "experiments of the document that it is about"),
    key("curve", "run", TEXT, "the only run", "the `[[run]]` that measures it"),
    key("curve", "metric", METRIC, "required", "metric, see `anabranch list metrics`"),
    key("curve", "balancers", LABELS, "required", "balancers that it shows"),
    key("curve", "variant", TEXT, "the first", "variant that it shows"),
    key("curve", "over", Kind::Choice(&["load", "time"]), "load", "quantity of the horizontal axis"),
    key("curve", "shift_s", Kind::Number, "0", "seconds that are added to the measured times"),
    key("curve", "printed_name", Kind::List(&TEXT), "none", "names of the curves of the document"),
    key("curve", "printed", Kind::Form("lists of [x, y]"), "none", "points of the document, one list for each of printed_name"),

    key("erratum", "id", TEXT, "required", "experiment of the document, or the document"),
    key("erratum", "says", TEXT, "required", "what the document says"),
    key("erratum", "arithmetic", TEXT, "required", "arithmetic that contradicts it"),
    key("erratum", "instead", TEXT, "required", "what is right"),
];
