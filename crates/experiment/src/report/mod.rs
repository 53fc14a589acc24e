//! `report.html`: the results as one self-contained page.
//!
//! [`html`] is a function of the results alone and omits values that differ between repeats (wall
//! times, memory), so the page of a repeated experiment is byte-identical. It is well-formed XML as
//! well as HTML and loads no other resource, which a content security policy enforces in the
//! browser. It is readable without scripts, on phones, with dark themes and on paper.

mod balancers;
mod claims;
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

/// Writes the document up to the page itself.
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
    for (count, noun) in [
        (view.rivals() as u64, "balancer"),
        (view.panels.len() as u64, "operating point"),
        (u64::from(seeds), "seed"),
        (summary.runs.len() as u64, "run"),
        (started, "flow"),
    ] {
        let text = plural(count, noun);
        let (number, noun) = text.split_once(' ').unwrap_or((&text, ""));
        put!(out, "<li><b>{number}</b> {noun}</li>");
    }
    put!(out, "<li>anabranch <b>{}</b></li></ul>\n", esc(&summary.anabranch));
    if !summary.warnings.is_empty() {
        out.push_str("<div class=\"warnings\" role=\"alert\"><b>Before you trust this</b><ul>");
        for warning in &summary.warnings {
            put!(out, "<li>{}</li>", esc(warning));
        }
        out.push_str("</ul></div>\n");
    }
    out.push_str("</header>\n");
}

/// Returns the question of the experiment file, else a default one.
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
    match view.summary.measure {
        Measure::Slowdown => format!("Which of {names} completes flows soonest{place}?"),
        Measure::Throughput => format!("Which of {names} carries most{place}?"),
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
    out.push_str(
        "<h3>The books</h3>\n<p>Every flow and every packet is accounted for. Packets include acknowledgements.</p>\n",
    );
    out.push_str(&tables::accounting(panel));
    out.push_str("</section>\n");
}

/// Writes a heading over figures, if there are figures.
fn block(out: &mut String, heading: &str, note: &str, figures: &str) {
    if figures.is_empty() {
        return;
    }
    let note = if note.is_empty() { String::new() } else { format!("<p>{}</p>\n", esc(note)) };
    put!(out, "<h3>{heading}</h3>\n{note}<div class=\"figs\">\n{figures}</div>\n");
}

const GLOSSARY: &str = "<details><summary>How to read this page</summary><dl>
<dt>FCT</dt><dd>Flow completion time: last byte received − first byte offered to the socket.</dd>
<dt>Slowdown</dt><dd>FCT divided by the FCT of the same flow alone in an empty network; 1 is the best possible.</dd>
<dt>±, bands and whiskers</dt><dd>Half width of the 95 % interval of the mean over seeds (Student t). One seed has no interval.</dd>
<dt>≥</dt><dd>Some flows did not complete. They count with the slowdown they had reached, so the true mean is at least this. All other averages are over completed flows.</dd>
<dt>Best, tied</dt><dd>Best has the lowest mean slowdown among the balancers that completed as many flows as any (within 0.1 %). Every balancer gets the same flows for the same seed, so differences are taken pairwise; a balancer is tied if the 95 % interval of its difference from the best contains 0, or, with one seed, if it is within 2 %.</dd>
<dt>Rank, groups</dt><dd>The best and all balancers indistinguishable from it have rank 1; the best of the rest and all indistinguishable from it have the next rank, and so on.</dd>
<dt>Bound, share of optimum</dt><dd>A bound is computed from the network and the flows without packets; it is drawn dashed and never ranked. The fluid optimum shares links max-min fairly by default, which does not minimise the mean slowdown, so a share above 100 % is possible. The share is the mean slowdown of the optimum divided by that of the balancer, seed by seed (of throughput, the balancer's divided by the optimum's).</dd>
<dt>Control traffic</dt><dd>Packets that a balancer sends, such as probes; their bytes as a share of payload bytes delivered.</dd>
<dt>Published claims</dt><dd>Reproduced: holds at more than half of the points and fails nowhere. Not reproduced, within noise: fails nowhere, but at half of the points or more the difference has the wrong sign, with a 95 % interval that contains 0 (with one seed: within 2 %). Not reproduced: fails at one point at least.</dd>
<dt>Response time</dt><dd>For requests to services: first packet of the client to the last byte of the last page. A slowdown is measured against the best server over the best path of an empty network, regardless of the server that is chosen.</dd>
<dt>Source of a balancer</dt><dd>Papers and RFCs by name; P… and S… are numbers of mechanisms in the project's catalogue, F0 to F4 the studies it reproduces (anabranch reproduce --list).</dd>
<dt>Completed</dt><dd>Flows completed / started. The accounting below lists flows that were running at the end of a run and flows that failed.</dd>
<dt>Reordered</dt><dd>Share of first-sent data packets that arrived below the highest sequence number seen (RFC 4737).</dd>
</dl></details>
";
