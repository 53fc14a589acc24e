//! The report of a matrix: balancers × scenarios as a table in one hue, then every scenario and
//! every balancer.

use super::balancers::{PointRow, block, times};
use super::tables::{TABLE_END, begin_table, pairs};
use super::text::{
    caveat_list, count_text, esc, join_few, number, plural, put, ranked, share, share_with_interval, spread,
};
use super::view::distinct;
use super::{GLOSSARY, document_end, document_head, end_header};
use crate::matrix::{Cell, Column, Matrix, Row};
use crate::summary::{Measure, Standing, Stat};

/// Upper ends of the steps of the colour scale, in multiples of the best; the last step is open.
const STEPS: [f64; 7] = [1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0];

pub fn matrix_html(matrix: &Matrix) -> String {
    let mut out = String::with_capacity(1 << 18);
    document_head(&mut out, &matrix.name);
    head(&mut out, matrix);
    out.push_str("<main>\n");
    answer(&mut out, matrix);
    table_section(&mut out, matrix);
    scenarios(&mut out, matrix);
    balancers(&mut out, matrix);
    repeat(&mut out, matrix);
    out.push_str(GLOSSARY);
    document_end(&mut out, &matrix.anabranch, "matrix.json");
    out
}

fn head(out: &mut String, matrix: &Matrix) {
    out.push_str("<header class=\"top\">\n<p class=\"eyebrow\">Load balancers × scenarios</p>\n");
    put!(out, "<h1>{}</h1>\n<ul class=\"meta\">", esc(&matrix.name));
    let bounds = matrix.rows.iter().filter(|row| row.balancer.is_bound).count() as u64;
    let runs: u64 = matrix.columns.iter().flat_map(|column| &column.cells).map(|cell| u64::from(cell.seeds)).sum();
    let flows: u64 = matrix.columns.iter().flat_map(|column| &column.cells).map(|cell| cell.flows_started).sum();
    let counts = [
        (matrix.rows.len() as u64 - bounds, "balancer"),
        (bounds, "bound"),
        (matrix.columns.len() as u64, "scenario"),
        (runs, "run"),
        (flows, "flow"),
    ];
    let warnings = matrix.columns.iter().flat_map(|column| {
        column.warnings.iter().map(|warning| (&column.experiment, format!("{}: {warning}", column.title)))
    });
    let warnings: Vec<String> = distinct(warnings).into_iter().map(|(_, warning)| warning).collect();
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    end_header(out, counts, &matrix.anabranch, &warnings);
}

/// Writes the best balancer over all scenarios in large type. Geometric means have no interval, so
/// the text declares no winner.
fn answer(out: &mut String, matrix: &Matrix) {
    out.push_str("<section class=\"verdicts\" aria-labelledby=\"who\">\n<h2 id=\"who\">The answer</h2>\n");
    let all = matrix.columns.len() as u32;
    let is_everywhere = |row: &&Row| !row.balancer.is_bound && row.scenarios == all && row.ratio.is_some();
    let rows: Vec<&Row> = matrix.rows.iter().filter(is_everywhere).collect();
    let lead = match rows.first() {
        Some(row) => format!(
            "Over {} {} comes closest to the best: {} on geometric mean, {}.",
            plural(u64::from(all), "scenario"),
            row.balancer.label,
            overall(row),
            standing(row)
        ),
        None => "No balancer has results in every scenario: see the table.".to_owned(),
    };
    put!(out, "<article class=\"verdict\"><p class=\"sentence\">{}</p>", esc(&lead));
    let next = rows.iter().skip(1).take(3);
    let next: Vec<String> =
        next.map(|row| format!("{} ({}, {})", row.balancer.label, overall(row), standing(row))).collect();
    if !next.is_empty() {
        put!(out, "<p class=\"rest\">Then {}.</p>", esc(&super::text::join(&next)));
    }
    // The first of those with most: rows are ordered best first.
    let most = rows.iter().rev().max_by_key(|row| row.best_or_tied);
    if let Some(most) = most.filter(|most| rows[0].best_or_tied < most.best_or_tied) {
        let label = format!("{} is {}, more often than any balancer above it.", most.balancer.label, standing(most));
        put!(out, "<p class=\"rest\">{}</p>", esc(&label));
    }
    caveats(out, matrix, all);
    out.push_str("</article>\n</section>\n");
}

/// Formats `1.12×` or `at least 1.12×`.
fn overall(row: &Row) -> String {
    let at_least = if row.unranked > 0 { "at least " } else { "" };
    row.ratio.map_or_else(|| "—".to_owned(), |ratio| format!("{at_least}{}", times(ratio)))
}

fn standing(row: &Row) -> String {
    let unranked = if row.unranked > 0 { format!(", not ranked in {}", row.unranked) } else { String::new() };
    let undecided = if row.undecided > 0 { format!(", undecided in {}", row.undecided) } else { String::new() };
    format!("best or tied in {}{undecided}{unranked}", row.best_or_tied)
}

fn caveats(out: &mut String, matrix: &Matrix, all: u32) {
    let mut caveats: Vec<(&str, String)> = Vec::new();
    let rivals = || matrix.rows.iter().filter(|row| !row.balancer.is_bound);
    let unranked: Vec<String> = rivals()
        .filter(|row| row.unranked > 0)
        .map(|row| format!("{} ({})", row.balancer.label, plural(u64::from(row.unranked), "scenario")))
        .collect();
    if !unranked.is_empty() {
        let text = format!(
            "Not ranked somewhere, because more flows or groups were left unfinished than by others: {}. What is unfinished counts with the slowdown or time it had reached, so the overall figure is a lower bound that depends on when runs stop.",
            join_few(&unranked)
        );
        caveats.push(("unfinished", text));
    }
    let missing: Vec<String> = rivals()
        .filter(|row| row.scenarios < all)
        .map(|row| format!("{} ({} of {all})", row.balancer.label, row.scenarios))
        .collect();
    if !missing.is_empty() {
        caveats.push((
            "noise",
            format!("Without results in every scenario, and therefore listed last: {}.", join_few(&missing)),
        ));
    }
    let few = matrix.columns.iter().map(|column| column.seeds).min().unwrap_or(0);
    if few == 1 {
        caveats.push((
            "noise",
            "Some scenarios have only one seed: they have no interval, and a difference may be chance.".to_owned(),
        ));
    }
    out.push_str(&caveat_list(&caveats));
}

fn table_section(out: &mut String, matrix: &Matrix) {
    out.push_str("<section class=\"matrix\" id=\"matrix\">\n<h2>Every balancer in every scenario</h2>\n");
    out.push_str("<p>Slowdown; in throughput scenarios the share of the host links, of collectives the mean time of a group; ± half the width of the 95 % interval over seeds. Colour: how many times worse than the best of the column. Outlined: the best; ≈: as good within the margin; ?: undecided, more seeds would tell; hatched: not ranked because of unfinished flows or groups, which count with what they had reached (≥).</p>\n");
    out.push_str("<input type=\"radio\" name=\"quantity\" id=\"by-mean\" value=\"mean\" checked=\"checked\"/><label for=\"by-mean\">Mean</label>\n<input type=\"radio\" name=\"quantity\" id=\"by-p99\" value=\"p99\"/><label for=\"by-p99\">99th percentile</label>\n");
    legend(out);
    out.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Balancers and scenarios\"><table class=\"heat sortable\">\n<thead><tr><th scope=\"col\">Balancer</th>");
    out.push_str("<th scope=\"col\" title=\"Geometric mean over scenarios of how many times worse than the best\">Overall, × best</th>");
    if matrix.has_optimum() {
        out.push_str("<th scope=\"col\" title=\"Geometric mean over scenarios\">Share of optimum</th>");
    }
    for column in &matrix.columns {
        let point =
            if column.point.is_empty() { String::new() } else { format!(" <small>{}</small>", esc(&column.point)) };
        put!(out, "<th scope=\"col\" title=\"{}\">{}{point}</th>", esc(&column.question), esc(&column.title));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (index, row) in matrix.rows.iter().enumerate() {
        if row.balancer.is_bound && (index == 0 || !matrix.rows[index - 1].balancer.is_bound) {
            out.push_str("</tbody>\n<tbody class=\"bounds\">\n");
        }
        table_row(out, matrix, index, row);
    }
    out.push_str("</tbody></table></div>\n<output class=\"detail\" id=\"detail\">Point at a number, or tap it, for its details.</output>\n</section>\n");
}

fn legend(out: &mut String) {
    out.push_str("<ul class=\"steps\" aria-label=\"Colour scale, in times the best\">");
    for step in 0..=STEPS.len() {
        let label = match step {
            0 => format!("≤\u{a0}{}×", STEPS[0]),
            step if step < STEPS.len() => format!("{}×", STEPS[step]),
            _ => format!(">\u{a0}{}×", STEPS[STEPS.len() - 1]),
        };
        put!(out, "<li class=\"h{step}\">{}</li>", esc(&label));
    }
    out.push_str("</ul>\n");
}

fn table_row(out: &mut String, matrix: &Matrix, index: usize, row: &Row) {
    let badge = if row.balancer.is_bound { "<span class=\"badge none\">bound</span>" } else { "" };
    put!(out, "<tr><th scope=\"row\"><a href=\"#b{}\">{}</a>{badge}</th>", index + 1, breakable(&row.balancer.label));
    let missing = matrix.columns.len() as u32 - row.scenarios;
    let note = if missing > 0 { format!("<i>{missing} missing</i>") } else { String::new() };
    let text = |ratio: Option<f64>| ratio.map_or_else(|| "—".to_owned(), |ratio| number(ratio) + "×");
    let at_least = if row.unranked > 0 { "≥\u{a0}" } else { "" };
    let (mean, p99) = (row.ratio, row.ratio_p99);
    put!(
        out,
        "<td{} data-v=\"{}\" data-p=\"{}\"><span class=\"m\">{at_least}{}</span><span class=\"p\">{}</span>{note}</td>",
        classes(row.balancer.is_bound, mean, p99, &[]),
        sort_key(mean),
        sort_key(p99),
        text(mean),
        text(p99)
    );
    if matrix.has_optimum() {
        let value = row.share_of_optimum.unwrap_or(0.0);
        let label = row.share_of_optimum.map_or_else(|| "—".to_owned(), share);
        put!(out, "<td data-v=\"{}\">{label}</td>", -value);
    }
    for column in &matrix.columns {
        match column.cell(&row.balancer.label) {
            Some(found) => cell(out, row, column, found),
            None => out.push_str("<td class=\"none\" data-v=\"Infinity\" title=\"not run here\">—</td>"),
        }
    }
    out.push_str("</tr>\n");
}

/// Allows line breaks after the signs between the parts of a label.
fn breakable(label: &str) -> String {
    let mut out = String::new();
    for part in label.split_inclusive([':', ',', '=']) {
        out.push_str(&esc(part));
        out.push_str("<wbr/>");
    }
    out.trim_end_matches("<wbr/>").to_owned()
}

fn sort_key(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "Infinity".to_owned(), |ratio| ratio.to_string())
}

fn classes(is_bound: bool, mean: Option<f64>, p99: Option<f64>, more: &[&str]) -> String {
    let step = |ratio: f64| STEPS.iter().position(|end| ratio <= *end).unwrap_or(STEPS.len());
    let mut classes: Vec<String> = more.iter().map(|class| (*class).to_owned()).collect();
    if !is_bound {
        classes.extend(mean.map(|ratio| format!("h{}", step(ratio))));
        classes.extend(p99.map(|ratio| format!("q{}", step(ratio))));
    }
    if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) }
}

fn cell(out: &mut String, row: &Row, column: &Column, cell: &Cell) {
    let is_bound = row.balancer.is_bound;
    let mut more = Vec::new();
    if column.best == cell.balancer {
        more.push("top-m");
    }
    if column.best_p99 == cell.balancer {
        more.push("top-p");
    }
    if cell.rank == 0 && !is_bound {
        more.push("open");
    }
    // Throughput and group time are the same for either quantity.
    let has_tail = column.rank_by == Measure::Slowdown;
    let (p99, ratio_p99) = if has_tail { (cell.p99.as_ref(), cell.ratio_p99) } else { (None, cell.ratio) };
    let at_least = at_least(cell);
    let mark = match cell.standing {
        Standing::Tied => "≈\u{a0}",
        Standing::Undecided => "?\u{a0}",
        _ => "",
    };
    let mean = stacked(&cell.mean, column.rank_by);
    // Paper shows both quantities; this one appears only once.
    let same = if has_tail { "" } else { " same" };
    let tail = match p99 {
        Some(p99) => stacked(p99, Measure::Slowdown),
        None if has_tail => "—".to_owned(),
        None => mean.clone(),
    };
    put!(
        out,
        "<td{} data-v=\"{}\" data-p=\"{}\" title=\"{}\"><span class=\"m\">{mark}{at_least}{mean}</span><span class=\"p{same}\">{tail}</span></td>",
        classes(is_bound, cell.ratio, ratio_p99, &more),
        sort_key(cell.ratio),
        sort_key(ratio_p99),
        esc(&detail(column, cell, is_bound))
    );
}

/// Formats a quantity with the interval, which gets a line of a smaller type, after the unit.
fn stacked(stat: &Stat, measure: Measure) -> String {
    let label = ranked(measure, stat);
    let Some((mean, rest)) = label.split_once("\u{a0}±\u{a0}") else { return label };
    let (interval, unit) =
        rest.split_once('\u{a0}').map_or((rest, String::new()), |(interval, unit)| (interval, format!("\u{a0}{unit}")));
    format!("{mean}{unit}<i>±\u{a0}{interval}</i>")
}

fn at_least(cell: &Cell) -> &'static str {
    if cell.is_lower_bound { "≥\u{a0}" } else { "" }
}

fn detail(column: &Column, cell: &Cell, is_bound: bool) -> String {
    let mut parts = Vec::new();
    let versus = |ratio: Option<f64>, best: &str| match ratio {
        Some(ratio) if best != cell.balancer && !best.is_empty() => format!(" ({} {best})", times(ratio)),
        _ => String::new(),
    };
    let of_best = versus(cell.ratio, &column.best);
    let at_least = if cell.is_lower_bound { "at least " } else { "" };
    let of_links = if column.rank_by == Measure::Throughput { " of the host links" } else { "" };
    let (quantity, value) = (column.rank_by.quantity(), ranked(column.rank_by, &cell.mean));
    parts.push(format!("{quantity} {at_least}{value}{of_links}{of_best}"));
    if let Some(p99) = &cell.p99 {
        let of_best = versus(cell.ratio_p99, &column.best_p99);
        parts.push(format!("p99 {}{of_best}", spread(p99, 1.0)));
    }
    if let Some(optimum) = &cell.share_of_optimum {
        parts.push(format!("{} of the optimum", share_with_interval(optimum)));
    }
    parts.push(match (is_bound, cell.rank) {
        (true, _) => "a bound, not ranked".to_owned(),
        (false, 0) => "not ranked".to_owned(),
        (false, rank) => format!("rank {rank}"),
    });
    if cell.unfinished() > 0 {
        parts.push(format!("{} of {} unfinished", count_text(cell.unfinished()), plural(cell.flows_started, "flow")));
    }
    if !is_bound {
        parts.push(format!("reordered {}", share(cell.cost.reordered)));
        parts.push(format!("retransmitted {}", share(cell.cost.retransmitted)));
        parts.push(format!("control bytes {} of data", share(cell.cost.control_share)));
    }
    parts.push(plural(u64::from(cell.seeds), "seed"));
    format!("{} in {}: {}.", cell.balancer, column.name(), parts.join("; "))
}

fn scenarios(out: &mut String, matrix: &Matrix) {
    out.push_str("<section id=\"scenarios\"><h2>The scenarios</h2>\n");
    let headings = ["Scenario", "Question", "Result", "Full report"];
    out.push_str(&begin_table("Scenarios", "claims scenarios", "", headings));
    for column in &matrix.columns {
        put!(out, "<tr><th scope=\"row\">{}</th><td>{}</td>", esc(&column.name()), esc(&column.question));
        put!(out, "<td>{}</td>", esc(&column.sentence.replace(" %", "\u{a0}%")));
        let link = format!("{}/report.html", link_part(&column.folder));
        put!(out, "<td><a href=\"{link}\">{}</a></td></tr>\n", esc(&column.experiment));
    }
    out.push_str(TABLE_END);
    let mut done: Vec<&str> = Vec::new();
    for column in &matrix.columns {
        if done.contains(&column.experiment.as_str()) {
            continue;
        }
        done.push(&column.experiment);
        let is_shown = |key: &str| !matches!(key, "title" | "question");
        let rows: Vec<(String, String)> = column.setting.iter().filter(|(key, _)| is_shown(key)).cloned().collect();
        put!(
            out,
            "<details><summary>Setting of {}</summary>\n{}</details>\n",
            esc(&column.title),
            pairs("Common to all runs", &rows)
        );
    }
    out.push_str("</section>\n");
}

/// Returns a folder name for a link: experiment names contain only letters, digits and a few signs,
/// but in any script.
fn link_part(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte as char),
            other => put!(out, "%{other:02X}"),
        }
    }
    out
}

fn balancers(out: &mut String, matrix: &Matrix) {
    out.push_str("<section id=\"balancers\"><h2>The balancers</h2>\n");
    for (index, row) in matrix.rows.iter().enumerate() {
        let places: Vec<PointRow<'_>> = matrix
            .columns
            .iter()
            .filter_map(|column| Some((column, column.cell(&row.balancer.label)?)))
            .map(|(column, cell)| place(column, cell))
            .collect();
        out.push_str(&block(&format!("b{}", index + 1), &row.balancer, "", "Scenario", &places, false));
    }
    out.push_str("</section>\n");
}

fn place<'a>(column: &Column, cell: &'a Cell) -> PointRow<'a> {
    PointRow {
        name: column.name(),
        mean: format!("{}{}", at_least(cell), ranked(column.rank_by, &cell.mean)),
        p99: cell.p99.as_ref(),
        versus: cell.ratio.map_or_else(|| "—".to_owned(), times),
        share_of_optimum: cell.share_of_optimum.as_ref(),
        rank: cell.rank,
        flows_started: cell.flows_started,
        cost: cell.cost.clone(),
    }
}

fn repeat(out: &mut String, matrix: &Matrix) {
    let version = esc(&matrix.anabranch);
    out.push_str("<section id=\"repeat\"><h2>How to repeat this</h2>\n");
    put!(
        out,
        "<p>Take anabranch <b>{version}</b> and run <code>anabranch matrix FOLDER/*/experiment.toml</code> on the folder of this page: every scenario's folder holds its experiment file, as it was run. The same files give the same page, to the byte, on any number of cores.</p>\n</section>\n"
    );
}
