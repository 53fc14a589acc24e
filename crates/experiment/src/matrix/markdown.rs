//! `matrix.md`: the table as Markdown.

use super::{Cell, Column, Matrix, Row};
use crate::report::text;
use crate::summary::Measure;

pub(super) fn markdown(matrix: &Matrix) -> String {
    let mut out = format!("# {}: balancers × scenarios\n\n", plain(&matrix.name));
    let mut head = vec!["balancer".to_owned(), "vs best".to_owned()];
    if matrix.has_optimum() {
        head.push("share of the optimum".to_owned());
    }
    head.extend(matrix.columns.iter().map(|column| plain(&column.name())));
    out += &line(&head);
    out += &format!("| --- |{}\n", " ---: |".repeat(head.len() - 1));
    for row in &matrix.rows {
        out += &line(&cells(matrix, row));
    }
    out + "\n" + &notes(matrix)
}

fn cells(matrix: &Matrix, row: &Row) -> Vec<String> {
    let name = plain(&row.balancer.label);
    let name = if row.balancer.is_bound { format!("*{name}* (bound)") } else { name };
    let at_least = if row.unranked > 0 { "≥ " } else { "" };
    let ratio = row.ratio.map_or_else(|| "—".to_owned(), |ratio| format!("{at_least}{}×", text::number(ratio)));
    let missing = matrix.columns.len() as u32 - row.scenarios;
    let missing = if missing > 0 { format!(" ({missing} missing)") } else { String::new() };
    let mut cells = vec![name, format!("{ratio}{missing}")];
    if matrix.has_optimum() {
        cells.push(row.share_of_optimum.map_or_else(|| "—".to_owned(), |share| spaced(&text::share(share))));
    }
    cells.extend(matrix.columns.iter().map(|column| match column.cell(&row.balancer.label) {
        Some(found) => cell(column, found),
        None => "—".to_owned(),
    }));
    cells
}

fn cell(column: &Column, cell: &Cell) -> String {
    let bold = |text: String, is_best: bool| if is_best { format!("**{text}**") } else { text };
    let at_least = if cell.is_lower_bound { "≥ " } else { "" };
    let mean = format!("{at_least}{}", spaced(&text::ranked(column.rank_by, &cell.mean)));
    let mut out = bold(mean, cell.balancer == column.best);
    if let Some(p99) = &cell.p99 {
        let p99 = spaced(&text::spread(p99, 1.0));
        out += &format!(" / {}", bold(p99, cell.balancer == column.best_p99));
    } else if column.rank_by == Measure::Slowdown {
        out += " / —";
    }
    if cell.unfinished() > 0 {
        out += &format!(" ({} of {} flows unfinished)", cell.unfinished(), cell.flows_started);
    }
    out
}

fn notes(matrix: &Matrix) -> String {
    let mut notes = String::from(
        "Cells: mean slowdown / 99th percentile slowdown, ± half the width of the 95 % interval over seeds; of throughput \
         experiments the share of the host links, of collectives the mean time of a group. Bold: best of the column. ≥: flows or groups were left unfinished and count with \
         what they had reached. vs best: geometric mean over scenarios of how many times worse than the best.\n",
    );
    if matrix.has_optimum() {
        notes += "Share of the optimum: geometric mean over scenarios; a bound is computed, not a balancer, and never ranked.\n";
    }
    notes += "\n";
    for column in &matrix.columns {
        let seeds = text::plural(u64::from(column.seeds), "seed");
        notes += &format!(
            "- {} ({}, {seeds}): {}\n",
            plain(&column.name()),
            plain(&column.experiment),
            plain(&column.sentence)
        );
    }
    notes
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '*' | '_' | '`' | '[' | ']' | '<' | '\\' => out.extend(['\\', character]),
            '\n' | '\r' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

fn spaced(text: &str) -> String {
    text.replace('\u{a0}', " ")
}
