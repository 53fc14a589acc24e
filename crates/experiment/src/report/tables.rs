//! The tables: results, accounting, settings, and instructions to repeat the run.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::iter;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::figures::swatch;
use super::testbed;
use super::text::{self, TimeUnit, count_text, esc, put};
use super::view::{Entry, Panel, View};
use crate::results::statistics;
use crate::summary::{FlowCounts, Measure, PacketCounts, Point, RunSummary, Standing, Stat};

/// Text of a cell, and the value to sort by.
type Cell = (String, f64);

struct Column<'a> {
    heading: String,
    explanation: &'a str,
    cell: Box<dyn Fn(&Entry<'_>) -> Cell + 'a>,
}

fn column<'a>(heading: impl Into<String>, explanation: &'a str, cell: impl Fn(&Entry<'_>) -> Cell + 'a) -> Column<'a> {
    Column { heading: heading.into(), explanation, cell: Box::new(cell) }
}

/// Begins a table that scrolls on narrow screens, up to the first row of its body.
pub(super) fn begin_table(
    label: &str,
    class: &str,
    caption: &str,
    headings: impl IntoIterator<Item: Display>,
) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let mut out =
        format!("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\"><table{class}>\n");
    if !caption.is_empty() {
        put!(out, "<caption><span>{caption}</span></caption>\n");
    }
    out.push_str("<thead><tr>");
    headings.into_iter().for_each(|heading| put!(out, "<th scope=\"col\">{heading}</th>"));
    out.push_str("</tr></thead>\n<tbody>\n");
    out
}

pub(super) const TABLE_END: &str = "</tbody></table></div>\n";

/// Writes cells with numbers; zeros and missing numbers are pale.
pub(super) fn number_cells(out: &mut String, numbers: impl IntoIterator<Item = String>) {
    for number in numbers {
        let class = if number == "0" || number == "—" { " class=\"zero\"" } else { "" };
        put!(out, "<td{class}>{}</td>", esc(&number));
    }
}

pub(super) fn results(panel: &Panel<'_>) -> String {
    let columns = result_columns(panel);
    let mut out = String::from(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Results\"><table class=\"results sortable\">\n",
    );
    put!(out, "<caption><span>{}: {}</span></caption>\n", esc(&panel.title()), panel.seeds_text());
    out.push_str("<thead><tr><th scope=\"col\">Balancer</th>");
    for column in &columns {
        put!(out, "<th scope=\"col\" title=\"{}\">{}</th>", esc(column.explanation), esc(&column.heading));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let row = |out: &mut String, entry: &Entry<'_>| {
        let (class, badge) = standing(panel, entry);
        put!(out, "<tr{class}><th scope=\"row\">{}{}{badge}</th>", swatch(entry.colour), esc(entry.balancer));
        for column in &columns {
            let (text, value) = (column.cell)(entry);
            put!(out, "<td data-v=\"{value}\">{}</td>", esc(&text));
        }
        out.push_str("</tr>\n");
    };
    panel.rivals().into_iter().for_each(|entry| row(&mut out, entry));
    out.push_str("</tbody>\n");
    // In a separate body, so that sorting leaves them in place.
    let bounds: Vec<&Entry<'_>> = panel.entries.iter().filter(|entry| entry.point.is_bound).collect();
    if !bounds.is_empty() {
        out.push_str("<tbody class=\"bounds\">\n");
        bounds.into_iter().for_each(|entry| row(&mut out, entry));
        out.push_str("</tbody>\n");
    }
    out.push_str("</table></div>\n");
    out
}

fn standing(panel: &Panel<'_>, entry: &Entry<'_>) -> (&'static str, &'static str) {
    let Some(verdict) = panel.verdict else { return ("", "") };
    if entry.point.is_bound {
        return (" class=\"bound-row\"", "<span class=\"badge none\">bound</span>");
    }
    let is_long = panel.rivals().len() > RANKED_FROM;
    match entry.point.standing {
        Standing::Best => match verdict.tied.is_empty() && verdict.undecided.is_empty() {
            true => (" class=\"best\"", "<span class=\"badge win\">best</span>"),
            false => (" class=\"best\"", "<span class=\"badge tie\">lowest</span>"),
        },
        // The ranks show ties, and a badge on every row would carry no information.
        Standing::Tied | Standing::Undecided if is_long => (" class=\"tied\"", ""),
        Standing::Tied => (" class=\"tied\"", "<span class=\"badge tie\">as good</span>"),
        Standing::Undecided => (" class=\"tied\"", "<span class=\"badge none\">undecided</span>"),
        _ if starts_group(panel, entry) => (" class=\"group\"", ""),
        _ => ("", ""),
    }
}

fn starts_group(panel: &Panel<'_>, entry: &Entry<'_>) -> bool {
    let first = panel.entries.iter().find(|other| other.point.rank == entry.point.rank && !other.point.is_bound);
    first.is_some_and(|first| first.balancer == entry.balancer)
}

fn result_columns<'a>(panel: &'a Panel<'_>) -> Vec<Column<'a>> {
    let slowdown = column(
        "Mean slowdown",
        "FCT / FCT in an empty network, mean over flows; ≥ if some did not complete",
        mean_slowdown,
    );
    let versus =
        column("× best", "Cost / that of the best, seed by seed, with the interval by which it is judged", versus);
    let explanation = "Mean completion time of groups of flows (jobs, coflows, collectives): first start to last byte; ≥ if some did not complete";
    let group_time = group_time(panel, explanation);
    let has = |of: fn(&Point) -> &Stat| panel.entries.iter().any(|entry| of(entry.point).mean > 0.0);
    let has_groups = has(|point| &point.group_lower_bound_us);
    // What ranks balancers comes first.
    let mut columns = match panel.rank_by {
        Measure::Slowdown if has_groups => vec![slowdown, versus, group_time],
        Measure::Slowdown => vec![slowdown, versus],
        Measure::Throughput if has_groups => vec![throughput(), versus, slowdown, group_time],
        Measure::Throughput => vec![throughput(), versus, slowdown],
        Measure::GroupTime => vec![group_time, versus, slowdown],
    };
    if has(|point| &point.bus_gbps) {
        let explanation =
            "Bus bandwidth of collectives as nccl-tests define it; it compares with the rate of a host link";
        let place = columns.len() - usize::from(panel.rank_by == Measure::GroupTime);
        columns.insert(place, stat("Bus bandwidth, Gb/s", explanation, |point| &point.bus_gbps));
    }
    columns.extend([
        stat("p99 slowdown", "99th percentile of slowdown", |point| &point.slowdown_p99),
        time(panel, "FCT ≤\u{a0}100\u{a0}KB", "Mean completion time of flows up to 100 KB", |point| {
            &point.small_fct_mean_us
        }),
        time(panel, "FCT >\u{a0}1\u{a0}MB", "Mean completion time of flows above 1 MB", |point| {
            &point.large_fct_mean_us
        }),
        column("Completed", "Flows completed / started, over all seeds", completed),
        share("Dropped", "Packets dropped / packets sent", statistics::drop_share),
        share("Retransmitted", "Retransmitted data packets / data packets sent", |run| run.loss.retransmitted_share),
        share("Reordered", "Data packets that arrived below the highest sequence number received", |run| {
            run.reordering.fraction
        }),
    ]);
    if panel.has_optimum() {
        let explanation = match panel.rank_by {
            Measure::Slowdown => "Mean slowdown of the fluid optimum / of this balancer",
            Measure::Throughput => "Throughput of this balancer / of the fluid optimum",
            Measure::GroupTime => "Mean group time of the fluid optimum / of this balancer",
        };
        let cell = |entry: &Entry<'_>| match &entry.point.share_of_optimum {
            Some(stat) => (text::share_with_interval(stat), stat.mean),
            None => ("—".to_owned(), 0.0),
        };
        columns.insert(1, column("Share of optimum", explanation, cell));
    }
    if panel.rivals().len() > RANKED_FROM {
        let cell = |entry: &Entry<'_>| match entry.point.rank {
            0 => ("—".to_owned(), f64::MAX),
            rank => (rank.to_string(), f64::from(rank)),
        };
        let explanation = "Equal for a balancer and all that are not surely worse; — is not ranked";
        columns.insert(0, column("Rank", explanation, cell));
    }
    columns
}

/// With fewer balancers the badges suffice.
const RANKED_FROM: usize = 8;

fn throughput<'a>() -> Column<'a> {
    let cell = |entry: &Entry<'_>| {
        let stat = &entry.point.throughput_share;
        (text::share_with_interval(stat), stat.mean)
    };
    column("Throughput", "Delivered payload / capacity of the host links", cell)
}

fn stat<'a>(heading: &str, explanation: &'a str, of: fn(&Point) -> &Stat) -> Column<'a> {
    column(heading, explanation, move |entry| measured(of(entry.point), 1.0))
}

fn time<'a>(panel: &Panel<'_>, heading: &str, explanation: &'a str, of: fn(&Point) -> &Stat) -> Column<'a> {
    let unit = TimeUnit::of_column(panel.entries.iter().map(|entry| of(entry.point).mean));
    let heading = format!("{heading}, {}", unit.name());
    column(heading, explanation, move |entry| measured(of(entry.point), unit.us()))
}

/// Incomplete groups count with the time until the end of the run, so it is then a lower bound.
fn group_time<'a>(panel: &Panel<'_>, explanation: &'a str) -> Column<'a> {
    let of = |entry: &Entry<'_>| entry.point.group_lower_bound_us.clone();
    let unit = TimeUnit::of_column(panel.entries.iter().map(|entry| of(entry).mean));
    column(format!("Group time, {}", unit.name()), explanation, move |entry| {
        let (text, value) = measured(&of(entry), unit.us());
        (format!("{}{text}", at_least(Measure::GroupTime, entry)), value)
    })
}

/// Returns the sign of a lower bound, if the quantity is one.
fn at_least(measure: Measure, entry: &Entry<'_>) -> &'static str {
    if measure.is_lower_bound(entry.point) { "≥\u{a0}" } else { "" }
}

fn measured(stat: &Stat, unit: f64) -> Cell {
    match stat.mean > 0.0 {
        true => (text::spread(stat, unit), stat.mean),
        false => ("—".to_owned(), f64::MAX),
    }
}

fn share<'a>(heading: &str, explanation: &'a str, of: fn(&RunSummary) -> f64) -> Column<'a> {
    column(heading, explanation, move |entry| {
        let mean = statistics::stat(&entry.of_runs(of)).mean;
        (text::share(mean), mean)
    })
}

/// Formats the mean slowdown. Flows that did not complete count with the slowdown they had reached,
/// so it is a lower bound.
fn mean_slowdown(entry: &Entry<'_>) -> Cell {
    let (text, value) = measured(&entry.point.slowdown_lower_bound, 1.0);
    let at_least = if value < f64::MAX { at_least(Measure::Slowdown, entry) } else { "" };
    (format!("{at_least}{text}"), value)
}

pub(super) fn headline_value(panel: &Panel<'_>, entry: &Entry<'_>) -> String {
    let value = text::ranked(panel.rank_by, panel.rank_by.of_point(entry.point));
    format!("{}{value}", at_least(panel.rank_by, entry))
}

fn versus(entry: &Entry<'_>) -> Cell {
    if entry.point.is_bound {
        return ("bound".to_owned(), f64::MAX);
    }
    let ratio = &entry.point.ratio;
    match entry.point.standing {
        Standing::Best => ("best".to_owned(), 1.0),
        _ if ratio.value > 0.0 => (ratio.to_string(), ratio.value),
        _ => ("—".to_owned(), f64::MAX),
    }
}

fn completed(entry: &Entry<'_>) -> Cell {
    let (done, started) = (entry.point.flows_completed, entry.point.flows_started);
    let part = done as f64 / started.max(1) as f64;
    match done == started {
        true => (format!("all {}", count_text(started)), part),
        false => (format!("{}\u{a0}/\u{a0}{}", count_text(done), count_text(started)), part),
    }
}

pub(super) fn accounting(panel: &Panel<'_>) -> String {
    let mut out = String::from("<div class=\"stack\">\n");
    let causes = causes(panel);
    let flow_headings =
        ["Started", "=\u{a0}completed", "+\u{a0}failed", "+\u{a0}running", "Balance"].map(str::to_owned);
    // A bound sends no packets, and its flows end as computed.
    let flows = panel.rivals().into_iter().map(|entry| {
        let sum = |of: fn(&FlowCounts) -> u64| entry.runs.iter().map(|run| of(&run.flows)).sum::<u64>();
        vec![sum(|f| f.started), sum(|f| f.completed), sum(|f| f.failed), sum(|f| f.running)]
    });
    out.push_str(&accounting_table("Flows", &flow_headings, panel, flows));
    let mut headings: Vec<String> = vec!["Sent".into(), "=\u{a0}delivered".into()];
    let has_controller = panel.entries.iter().flat_map(|entry| &entry.runs).any(|run| run.packets.to_controller > 0);
    headings.extend(has_controller.then(|| "+\u{a0}to\u{a0}controller".into()));
    headings.extend(causes.iter().map(|cause| format!("+\u{a0}dropped: {}", cause.replace('_', "\u{a0}"))));
    // Without losses there are no causes.
    headings.extend(causes.is_empty().then(|| "+\u{a0}dropped".into()));
    headings.extend(["+\u{a0}in\u{a0}flight".into(), "Balance".into()]);
    let packets = panel.rivals().into_iter().map(|entry| {
        let sum = |of: &dyn Fn(&PacketCounts) -> u64| entry.runs.iter().map(|run| of(&run.packets)).sum::<u64>();
        let lost = causes.iter().map(|cause| sum(&|p| p.dropped.get(*cause).copied().unwrap_or(0)));
        let taken = has_controller.then(|| sum(&|p| p.to_controller));
        let arrived = [sum(&|p| p.sent), sum(&|p| p.delivered)].into_iter().chain(taken);
        arrived.chain(lost).chain(causes.is_empty().then_some(0)).chain([sum(&|p| p.in_flight)]).collect()
    });
    out.push_str(&accounting_table("Packets", &headings, panel, packets));
    out.push_str("</div>\n");
    out
}

/// Returns the causes that lost packets.
fn causes<'a>(panel: &Panel<'a>) -> BTreeSet<&'a str> {
    let dropped = panel.entries.iter().flat_map(|entry| &entry.runs).flat_map(|run| &run.packets.dropped);
    dropped.filter(|(_, lost)| **lost > 0).map(|(cause, _)| cause.as_str()).collect()
}

fn accounting_table(
    name: &str,
    headings: &[String],
    panel: &Panel<'_>,
    rows: impl Iterator<Item = Vec<u64>>,
) -> String {
    let headings = headings.iter().map(|heading| esc(heading));
    let headings = iter::once("Balancer".to_owned()).chain(headings);
    let mut out = begin_table(name, "", &format!("{name}, all seeds"), headings);
    for (entry, numbers) in panel.rivals().into_iter().zip(rows) {
        put!(out, "<tr><th scope=\"row\">{}{}</th>", swatch(entry.colour), esc(entry.balancer));
        number_cells(&mut out, numbers.iter().map(|number| count_text(*number)));
        out.push_str(match numbers[0] == numbers[1..].iter().sum::<u64>() {
            true => "<td class=\"ok\">✓</td></tr>\n",
            false => "<td class=\"bad\">✗ does not balance</td></tr>\n",
        });
    }
    out + TABLE_END
}

pub(super) fn setting(view: &View<'_>) -> String {
    let mut out = String::from("<section id=\"setting\"><h2>Setting</h2>\n<div class=\"figs\">\n");
    // The top of the page shows title and question.
    let stated = |key: &str| matches!(key, "title" | "question");
    let rows: Vec<(String, String)> = view.summary.setting.iter().filter(|(key, _)| !stated(key)).cloned().collect();
    out.push_str(&pairs("Common to all runs", &rows));
    out.push_str(&testbed::machine(view));
    out.push_str("</div>\n</section>\n");
    out
}

pub(super) fn pairs(caption: &str, rows: &[(String, String)]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">");
    put!(out, "<table class=\"pairs\"><caption>{caption}</caption><tbody>\n");
    for (key, value) in rows {
        put!(out, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", esc(key), esc(value));
    }
    out.push_str("</tbody></table></div>\n");
    out
}

pub(super) fn repeat(view: &View<'_>) -> String {
    let summary = view.summary;
    let mut seeds: Vec<u64> = summary.runs.iter().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let name = file_name(&summary.experiment);
    let is_real = testbed::is_real(view);
    let run = if is_real { "testbed run" } else { "run" };
    let mut out = String::from("<section id=\"repeat\"><h2>How to repeat this</h2>\n");
    put!(
        out,
        "<ol><li>Take anabranch <b>{}</b>.</li>\n<li>Save the experiment file: <a download=\"{name}\" href=\"data:text/plain;base64,{}\">{name}</a>.</li>\n<li>Run it: <code>anabranch {run} {name}</code></li></ol>\n",
        esc(&summary.anabranch),
        BASE64.encode(&summary.file)
    );
    let same = match is_real {
        true => {
            "The same file and seeds give the same flows and failures. Real switches have real timing, so the numbers vary slightly from run to run."
        }
        false => "The same file and seeds give the same numbers, to the last digit, on any number of cores.",
    };
    put!(out, "<p>Seeds: {}. {same}</p>\n", esc(&seeds.join(", ")));
    put!(
        out,
        "<details class=\"file\"><summary>The experiment file, in full</summary><pre>{}</pre></details>\n",
        esc(&summary.file)
    );
    out.push_str("</section>\n");
    out
}

fn file_name(experiment: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let stem: String = experiment.chars().map(safe).collect();
    let stem = stem.trim_matches(['-', '.']).trim_end_matches(".toml");
    format!("{}.toml", if stem.is_empty() { "experiment" } else { stem })
}
