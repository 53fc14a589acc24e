//! `anabranch testbed validate`: validation of the simulator against the testbed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};
use experiment::Experiment;
use experiment::claims::Window;
use experiment::summary::{Judgement, Summary};
use experiment::validation::{ClaimRow, Row, Validation, ValidationCriteria};

use crate::commands::agent::share;
use crate::error::CliError;

/// Compare the results of two platforms, and report whether they agree
///
/// Compares runs with the same flows: those of the same variant, load, balancer and seed. The
/// `[validation]` section of the experiment file in the first folder sets the compared figures, the
/// start of the comparison and the tolerance. Exits with 1 if a figure differs by more than the
/// tolerance and more than random draws explain, or if a claim of the file does not hold on one of
/// the platforms.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  anabranch run FILE.toml --out results/sim\n  anabranch testbed run FILE.toml --out results/real\n  \
                        anabranch testbed validate results/sim results/real"
)]
pub struct Args {
    /// Results folder of the first platform, such as the simulator
    #[arg(value_name = "DIR")]
    first: PathBuf,
    /// Results folder of the second platform
    #[arg(value_name = "OTHER_DIR")]
    second: PathBuf,
    /// Largest difference, as a share of the first platform's value, instead of the file's
    /// tolerance
    #[arg(long, value_name = "SHARE", value_parser = share)]
    tolerance: Option<f64>,
    /// Also count differences that more seeds might explain
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    let (first, second) = (load(&args.first)?, load(&args.second)?);
    let experiment = Experiment::load(&args.first.join("experiment.toml"), &[])?;
    let terms = ValidationCriteria {
        tolerance: args.tolerance.unwrap_or(experiment.validation.tolerance),
        ..experiment.validation
    };
    let validation = Validation::of(&first, &second, &terms, &experiment.claims);
    let mut stdout = io::stdout().lock();
    if args.json {
        let text = serde_json::to_string_pretty(&validation)
            .map_err(|cause| CliError::new("cannot write the comparison as JSON").caused_by(cause))?;
        writeln!(stdout, "{text}")?;
    } else {
        stdout.write_all(text(&validation, terms.window).as_bytes())?;
    }
    stdout.flush()?;
    judge(&validation, args.strict)
}

fn load(folder: &Path) -> Result<Summary, CliError> {
    if !folder.join("summary.json").is_file() {
        let failure = CliError::new(format!("{} holds no finished results", folder.display()));
        return Err(failure
            .caused_by("there is no summary.json")
            .with_hint("name a results folder of `anabranch run` or `anabranch testbed run`"));
    }
    Ok(experiment::load(folder)?.0)
}

fn judge(validation: &Validation, is_strict: bool) -> Result<(), CliError> {
    if validation.rows.is_empty() {
        let failure = CliError::new("the two folders have no comparable runs in common");
        return Err(failure
            .with_hint("they must come from the same experiment file, with at least one balancer and seed in common"));
    }
    let off = validation.count(Judgement::Fails) + if is_strict { validation.count(Judgement::WithinNoise) } else { 0 };
    let broken: Vec<&str> = validation.broken_claims().map(|claim| claim.id.as_str()).collect();
    if off == 0 && broken.is_empty() {
        return Ok(());
    }
    let mut words = Vec::new();
    if off > 0 {
        words.push(format!("{off} of {} figures differ", validation.rows.len()));
    }
    if !broken.is_empty() {
        words.push(format!("claims do not hold: {}", broken.join(", ")));
    }
    Err(CliError::new(format!("the platforms do not agree: {}", words.join("; "))).found_by_check())
}

fn text(validation: &Validation, window: Option<Window>) -> String {
    let [first, second] = &validation.platforms;
    let when = match window {
        None => "over all the time".to_owned(),
        Some(Window { from_s, until_s }) if until_s.is_finite() => format!("from {from_s} to {until_s} s"),
        Some(Window { from_s, .. }) => format!("from {from_s} s on"),
    };
    let percent = digits(validation.tolerance * 100.0);
    let mut out = format!("{}: {first} and {second} {when}, to agree within {percent} %\n", validation.experiment);
    out += &format!("{}\n", table(validation));
    validation.claims.iter().for_each(|row| out += &claim(row, [first, second]));
    validation.left_out.iter().for_each(|words| out += &format!("not compared: {words}\n"));
    let [agrees, noise, differs] = Judgement::ALL.map(|verdict| validation.count(verdict));
    let verdict =
        format!("{agrees} of {} figures agree, {noise} within noise, {differs} differ\n", validation.rows.len());
    out + &verdict + "the figures: anabranch list metrics\n"
}

fn table(validation: &Validation) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    let [first, second] = &validation.platforms;
    table.set_header(["variant", "balancer", "seeds", "figure", first, second, "difference", "noise", ""]);
    let mut before: Option<&Row> = None;
    for row in &validation.rows {
        let is_same = before.is_some_and(|before| name(before) == name(row));
        table.add_row(cells(row, is_same));
        before = Some(row);
    }
    table
}

fn name(row: &Row) -> (&str, Option<f64>, &str) {
    (&row.variant, row.load, &row.balancer)
}

/// Returns the cells of a figure, without those that repeat the row above.
fn cells(row: &Row, is_same: bool) -> Vec<Cell> {
    let place =
        [Some(row.variant.clone()).filter(|text| !text.is_empty()), row.load.map(|load| format!("load {load}"))];
    let place = place.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let own = |text: String| if is_same { String::new() } else { text };
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let verdict = Cell::new(row.verdict_text());
    vec![
        Cell::new(own(place)),
        Cell::new(own(row.balancer.clone())),
        number(own(row.seeds.to_string())),
        Cell::new(&row.metric),
        number(digits(row.first.mean)),
        number(digits(row.second.mean)),
        number(format!("{:+.1} %", row.difference * 100.0)),
        number(if row.noise > 0.0 { format!("± {:.1} %", row.noise * 100.0) } else { "–".to_owned() }),
        match row.verdict {
            Judgement::Holds => verdict,
            Judgement::WithinNoise => verdict.fg(Color::Yellow),
            Judgement::Fails => verdict.fg(Color::Red).add_attribute(Attribute::Bold),
        },
    ]
}

/// Formats four significant digits: differences of a few percent must be visible.
fn digits(value: f64) -> String {
    match value.abs() {
        x if x >= 1000.0 => format!("{value:.0}"),
        x if x >= 100.0 => format!("{value:.1}"),
        x if x >= 1.0 || x == 0.0 => format!("{value:.2}"),
        x if x >= 0.01 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

fn claim(row: &ClaimRow, [first, second]: [&String; 2]) -> String {
    let words = |outcome: Option<Judgement>| outcome.map_or("not judged", Judgement::as_str);
    let (of_first, of_second) = (words(row.first), words(row.second));
    let shared = row
        .otherwise()
        .map_or(String::new(), |outcome| format!(" (over the seeds of {second} alone: {})", outcome.as_str()));
    format!("{}: {} — {first}: {of_first}{shared}; {second}: {of_second}; {}\n", row.id, row.claim, row.sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_differ() {
        assert_eq!(
            [4.0, 0.2503, 0.0, 12_345.6, 123.45, 0.0001].map(digits),
            ["4.00", "0.2503", "0.00", "12346", "123.5", "1.00e-4"]
        );
        assert!(share("0.1").is_ok());
        assert!(["0", "-1", "1.5", "x", "NaN"].iter().all(|text| share(text).is_err()));
    }
}
