//! Validation on the page: every figure of the simulator compared with real switches.

use super::claims::{badge, class};
use super::reproduction::{cell, table, text_of};
use super::text::{esc, put};
use crate::claims::{Metric, sentence};
use crate::reproduction::{ValidationRow, ValidationVerdict};
use crate::summary::{Judgement, Stat};
use crate::validation::{Row, Validation};

pub(super) const RULES: &str = include_str!("validation-rules.html");

pub(super) fn section(out: &mut String, rows: &[&ValidationRow]) {
    if rows.is_empty() {
        return;
    }
    out.push_str("<section class=\"panel\" id=\"validation\">\n<h2>On real switches</h2>\n");
    put!(out, "<article class=\"verdict\"><p class=\"sentence\">{}</p></article>\n", answer(rows));
    table(out, "Files run in the simulator and on real switches", &["Experiments", "File", "Verdict", "Why"], |out| {
        for (at, row) in rows.iter().enumerate() {
            let ids = text_of(&row.ids.join(", "));
            put!(out, "<tr><th scope=\"row\"><a href=\"#validation-{at}\">{ids}</a></th>");
            cell(out, "File", &row.file);
            put!(out, "<td data-head=\"Verdict\">{}</td>", verdict_badge(row.verdict));
            cell(out, "Why", &row.reason);
            out.push_str("</tr>\n");
        }
    });
    for (at, row) in rows.iter().enumerate() {
        file(out, at, row);
    }
    out.push_str("</section>\n");
}

fn answer(rows: &[&ValidationRow]) -> String {
    let count = |verdict| rows.iter().map(|row| row.validation.count(verdict)).sum::<usize>();
    let [agree, noise, differ] = Judgement::ALL.map(count);
    let explained: usize = rows.iter().map(|row| row.validation.explained()).sum();
    let all = agree + noise + differ;
    let mut parts = vec![format!("{agree} of {all} figures agree with the simulator")];
    let are = |count: usize| if count == 1 { "is" } else { "are" };
    if noise > 0 {
        parts.push(format!("{noise} {} within noise", are(noise)));
    }
    let differs = |count: usize| if count == 1 { "differs" } else { "differ" };
    if explained > 0 {
        parts.push(format!("{explained} {} and {} explained", differs(explained), are(explained)));
    }
    if let unknown @ 1.. = differ.saturating_sub(explained) {
        parts.push(format!("{unknown} {} for reasons unknown", differs(unknown)));
    }
    parts.join(", ") + "."
}

fn file(out: &mut String, at: usize, row: &ValidationRow) {
    let validation = &row.validation;
    put!(
        out,
        "<h3 id=\"validation-{at}\">{}: {} {}</h3>\n",
        text_of(&row.ids.join(", ")),
        esc(&row.file),
        verdict_badge(row.verdict)
    );
    let span = match (validation.from_s, validation.until_s) {
        (from, Some(until)) => format!(" from {from} to {until} s"),
        (from, None) if from > 0.0 => format!(" from {from} s on"),
        _ => String::new(),
    };
    let links = [link(row, "sim", "simulated"), link(row, "testbed", "on switches")];
    let percent = sentence::significant(validation.tolerance * 100.0, 3);
    put!(out, "<p>To agree{span} within {percent}\u{a0}%. Runs: {}.</p>\n", links.join(", "));
    let headings = ["Figure", "Simulated", "On switches", "Difference", "Tolerance", "Verdict"];
    table(out, &row.file, &headings, |out| {
        validation.rows.iter().for_each(|figure| figure_row(out, validation, figure));
    });
    for label in &validation.left_out {
        put!(out, "<p class=\"reason\">Not compared: {}</p>\n", esc(label));
    }
    claims(out, validation);
}

fn link(row: &ValidationRow, platform: &str, label: &str) -> String {
    // Results of earlier versions do not name their folder.
    if row.name.is_empty() {
        return label.to_owned();
    }
    let folder = esc(&row.document.to_lowercase());
    format!("<a href=\"{folder}/{}/{platform}/report.html\">{label}</a>", esc(&row.name))
}

fn figure_row(out: &mut String, validation: &Validation, row: &Row) {
    let load = row.load.map(|load| format!("load {load}"));
    let place: Vec<String> =
        [Some(row.variant.clone()).filter(|text| !text.is_empty()), load].into_iter().flatten().collect();
    let place = if place.is_empty() { String::new() } else { format!(", {}", place.join(", ")) };
    put!(
        out,
        "<tr><th scope=\"row\">{}<p class=\"reason\">{}{}</p></th>",
        esc(&row.balancer),
        esc(&row.metric),
        esc(&place)
    );
    let metric = Metric::named(&row.metric);
    let mut simulated = value(metric, &row.first, row.first.mean);
    let all = value(metric, &row.first_all, row.first.mean);
    // Without random draws all seeds are equal.
    if row.first_seeds > row.seeds && all != simulated {
        simulated += &format!(" ({all} over {} seeds)", row.first_seeds);
    }
    cell(out, "Simulated", &simulated);
    cell(out, "On switches", &value(metric, &row.second, row.first.mean));
    let noise = if row.noise >= 0.0005 { format!(" (noise ±{:.1} %)", row.noise * 100.0) } else { String::new() };
    let difference =
        if row.difference.abs() < 1e3 { format!("{:+.1} %", row.difference * 100.0) } else { "from 0".to_owned() };
    cell(out, "Difference", &format!("{difference}{noise}"));
    cell(out, "Tolerance", &format!("{} %", sentence::significant(validation.tolerance * 100.0, 3)));
    let class = if row.reason.is_some() { "tie" } else { class(row.verdict) };
    put!(out, "<td data-head=\"Verdict\"><span class=\"badge {class}\">{}</span>", row.verdict_text());
    if let Some(reason) = &row.reason {
        put!(out, "<p class=\"reason\">{}</p>", text_of(reason));
    }
    out.push_str("</td></tr>\n");
}

fn value(metric: Option<Metric>, stat: &Stat, like: f64) -> String {
    let (size, unit) = metric.map_or((1.0, ""), |metric| sentence::unit(metric, like));
    sentence::spread(&sentence::significant(stat.mean / size, 4), stat.mean, stat.ci95, (size, unit))
}

fn claims(out: &mut String, validation: &Validation) {
    if validation.claims.is_empty() {
        return;
    }
    let name = esc(&validation.experiment);
    put!(out, "<details><summary>Claims of the file on both platforms</summary>\n");
    table(out, &format!("Claims of {name}"), &["Claim", "Simulated", "On switches", "Found"], |out| {
        for claim in &validation.claims {
            put!(out, "<tr><th scope=\"row\">{}: {}</th>", esc(&claim.id), text_of(&claim.claim));
            let shared = claim.otherwise().map_or(String::new(), |outcome| {
                format!("<p>over the seeds of the switches alone: {}</p>", outcome.as_str())
            });
            put!(out, "<td data-head=\"Simulated\">{}{shared}</td>", outcome_badge(claim.first));
            put!(out, "<td data-head=\"On switches\">{}</td>", outcome_badge(claim.second));
            cell(out, "Found", &claim.sentence);
            out.push_str("</tr>\n");
        }
    });
    out.push_str("</details>\n");
}

fn outcome_badge(outcome: Option<Judgement>) -> String {
    outcome.map_or_else(|| "<span class=\"badge none\">not judged</span>".to_owned(), badge)
}

fn verdict_badge(verdict: ValidationVerdict) -> String {
    let class = match verdict {
        ValidationVerdict::Reproduced => "win",
        ValidationVerdict::ClaimsBroken | ValidationVerdict::Explained => "tie",
        ValidationVerdict::Differ | ValidationVerdict::Nothing => "lost",
    };
    format!("<span class=\"badge {class}\">{}</span>", verdict.as_str())
}
