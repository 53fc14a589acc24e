//! `report.html`: the results as one self-contained page.
//!
//! [`html`] is a function of the results alone and omits values that differ between repeats (wall
//! times, memory), so the page of a repeated experiment is byte-identical. It is well-formed XML as
//! well as HTML and loads no other resource, which a content security policy enforces in the
//! browser. It is readable without scripts, on phones, with dark themes and on paper.

mod balancers;
mod claims;
mod fidelity;
mod figures;
mod matrix;
mod plot;
mod reproduction;
mod requests;
mod stats;
mod tables;
mod testbed;
pub(crate) mod text;
mod validation;
mod verdict;
mod view;

use crate::summary::{Measure, RunRecord, Summary};
pub use matrix::matrix_html;
pub use reproduction::reproduction_html;
use text::{esc, join, plural, put};
use view::{Panel, View};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Returns the report page of an experiment.
///
/// `records` adds data that the summary lacks (distributions, load over time); only these figures
/// are missing for runs without a record.
pub fn html(summary: &Summary, records: &[RunRecord]) -> String {
    let view = View::new(summary, records);
    let mut out = String::with_capacity(1 << 18);
    let name = view.setting("title").unwrap_or(&summary.experiment);
    document_head(&mut out, name);
    head(&mut out, &view, name);
    out.push_str("<main>\n");
    out.push_str(&verdict::section(&view));
    out.push_str(&claims::section(&view));
    out.push_str(&fidelity::section(&view));
    for variant in view.variants() {
        sweep(&mut out, &view, variant);
    }
    if view.panels.len() > 1 {
        out.push_str("<nav class=\"tabs\" id=\"panels\" aria-label=\"Results at\">");
        for panel in &view.panels {
            put!(out, "<a href=\"#{}\">{}</a>", panel.id, esc(&panel.title()));
        }
        out.push_str("</nav>\n");
    }
    for panel in &view.panels {
        panel_section(&mut out, panel, &view);
    }
    out.push_str(&balancers::of_experiment(&view));
    out.push_str(&tables::setting(&view));
    out.push_str(&tables::repeat(&view));
    out.push_str(GLOSSARY);
    document_end(&mut out, &summary.anabranch, "summary.json and runs.jsonl");
    out
}

fn document_end(out: &mut String, version: &str, files: &str) {
    let version = esc(version);
    put!(out, "</main>\n<footer>Made by anabranch {version} from {files} in the folder of this page.</footer>\n");
    put!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
}

fn document_head(out: &mut String, name: &str) {
    out.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
    out.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\"/>\n");
    put!(out, "<title>{} · anabranch</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n", esc(name));
}

fn head(out: &mut String, view: &View<'_>, name: &str) {
    let summary = view.summary;
    let eyebrow = if name == summary.experiment { String::new() } else { format!(" · {}", esc(&summary.experiment)) };
    put!(out, "<header class=\"top\">\n<p class=\"eyebrow\">Load balancer comparison{eyebrow}</p>\n");
    put!(out, "<h1>{}</h1>\n<p class=\"question\">{}</p>\n<ul class=\"meta\">", esc(name), esc(&question(view)));
    let seeds = summary.points.iter().map(|point| point.seeds).max().unwrap_or(0);
    let started: u64 = summary.points.iter().map(|point| point.flows_started).sum();
    let counts = [
        (view.rivals() as u64, "balancer"),
        (view.panels.len() as u64, "operating point"),
        (u64::from(seeds), "seed"),
        (summary.runs.len() as u64, "run"),
        (started, "flow"),
    ];
    end_header(out, counts, &summary.anabranch, &summary.warnings);
}

/// Writes the counts, the version and the warnings of a header, and ends it.
fn end_header<'a>(
    out: &mut String,
    counts: impl IntoIterator<Item = (u64, &'a str)>,
    version: &str,
    warnings: &[String],
) {
    for (count, noun) in counts {
        let text = plural(count, noun);
        let (number, noun) = text.split_once(' ').unwrap_or((&text, ""));
        put!(out, "<li><b>{number}</b> {noun}</li>");
    }
    put!(out, "<li>anabranch <b>{}</b></li></ul>\n", esc(version));
    if !warnings.is_empty() {
        let warnings: String = warnings.iter().map(|warning| format!("<li>{}</li>", esc(warning))).collect();
        put!(out, "<div class=\"warnings\" role=\"alert\"><b>Before you trust this</b><ul>{warnings}</ul></div>\n");
    }
    out.push_str("</header>\n");
}

fn question(view: &View<'_>) -> String {
    if let Some(own) = view.setting("question") {
        return own.to_owned();
    }
    let rivals = view.balancers.iter().filter(|(_, colour)| *colour != plot::BOUND);
    let names: Vec<String> = rivals.map(|(name, _)| (*name).to_owned()).collect();
    let names = if view.is_crowded() { plural(names.len() as u64, "balancer") } else { join(&names) };
    // The first part names the network; the table of settings has the details.
    let brief = |text: &str| text.split(": ").next().unwrap_or(text).to_owned();
    let place = view.setting("topology").map(|topology| format!(" on {}", brief(topology))).unwrap_or_default();
    match view.summary.rank_by {
        Measure::Slowdown => format!("Which of {names} completes flows soonest{place}?"),
        Measure::Throughput => format!("Which of {names} carries most{place}?"),
        Measure::GroupTime => format!("Which of {names} completes collectives soonest{place}?"),
    }
}

fn sweep(out: &mut String, view: &View<'_>, variant: &str) {
    let panels = view.sweep(variant);
    if panels.len() < 2 {
        return;
    }
    let of = if variant.is_empty() { String::new() } else { format!(", {}", esc(variant)) };
    put!(out, "<section><h2>Against load{of}</h2>\n<div class=\"figs\">\n");
    out.push_str(&figures::sweep(&panels, &view.balancers));
    out.push_str("</div>\n</section>\n");
}

fn panel_section(out: &mut String, panel: &Panel<'_>, view: &View<'_>) {
    put!(out, "<section class=\"panel\" id=\"{}\">\n<h2>{}</h2>\n", panel.id, esc(&panel.title()));
    out.push_str(&tables::results(panel));
    out.push_str(&requests::section(panel));
    out.push_str(&testbed::faults(panel));
    block(out, "Completion times", "", &figures::distributions(panel, view));
    block(out, "By flow size", "", &figures::by_size(panel));
    let seed = panel.entries.iter().find_map(|entry| entry.details.first()).map(|(run, _)| run.seed);
    let of_seed = seed.map(|seed| format!("Seed {seed}: the same flows for every balancer.")).unwrap_or_default();
    block(out, "Load of the links over time", &of_seed, &figures::time_series(panel, view));
    let heat = figures::heat_maps(panel, view);
    let of_seed = format!("{of_seed}{}", figures::few_sentence(panel));
    if !heat.is_empty() {
        put!(
            out,
            "<h3>Load of every link</h3>\n<p>{of_seed} A row is a link, left to right is time; even colour means even load.</p>\n{heat}"
        );
    }
    block(out, "Queues", "", &figures::queues(panel));
    block(out, "Queues of single links over time", &of_seed, &figures::probed_queues(panel, view));
    out.push_str(
        "<h3>Accounting</h3>\n<p>Every flow and every packet is accounted for. Packets include acknowledgements.</p>\n",
    );
    out.push_str(&tables::accounting(panel));
    out.push_str("</section>\n");
}

fn block(out: &mut String, heading: &str, note: &str, figures: &str) {
    if figures.is_empty() {
        return;
    }
    let note = if note.is_empty() { String::new() } else { format!("<p>{}</p>\n", esc(note)) };
    put!(out, "<h3>{heading}</h3>\n{note}<div class=\"figs\">\n{figures}</div>\n");
}

const GLOSSARY: &str = include_str!("glossary.html");
