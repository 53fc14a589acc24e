//! The error of flow fidelity, measured on a small copy of an experiment.

use std::io::{self, Write};
use std::path::Path;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use experiment::fidelity::{self, CopyError};
use experiment::summary::FidelityCheck;
use experiment::{Experiment, Override};

use crate::error::CliError;
use crate::results::RunArgs;
use crate::{interrupt, progress};

/// Runs the copy in both fidelities into the folder `fidelity` of the results, prints the errors and
/// adds them to the report.
pub fn check(file: &Path, experiment: &Experiment, overrides: &[Override], args: &RunArgs) -> Result<(), CliError> {
    let out = args.folder(experiment);
    let copies = fidelity::copy(experiment, file, overrides).map_err(|cause| match cause {
        CopyError::NoCopy { .. } => CliError::new(cause.to_string())
            .with_hint("check a smaller network: set another one with --set topology.spec=…"),
        CopyError::File(cause) => CliError::from(cause),
    })?;
    let bar = progress::Bar::new(args.quiet);
    let jobs = usize::from(args.on.jobs.unwrap_or(0));
    let found = fidelity::check(&copies, &out.join("fidelity"), jobs, &bar, interrupt::listen(None));
    bar.finish();
    let found = found?;
    experiment::add_fidelity_check(&out, &found)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}\n{}", heading(&found), table(&found))?;
    Ok(stdout.flush()?)
}

fn heading(check: &FidelityCheck) -> String {
    let FidelityCheck { topology, hosts, flows, seeds, .. } = check;
    format!("fidelity on {topology}: {hosts} hosts, {flows} flows, {seeds} seeds")
}

fn table(check: &FidelityCheck) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["balancer", "load", "figure", "packets", "rates", "error", "range over seeds"]);
    for error in &check.errors {
        let load = error.load.map_or_else(String::new, |load| load.to_string());
        let percent = |value: f64| format!("{:+.1} %", value * 100.0);
        let numbers = [
            format!("{:.2}", error.packets),
            format!("{:.2}", error.rates),
            percent(error.mean()),
            format!("{} … {}", percent(error.low), percent(error.high)),
        ];
        let balancer = [error.balancer.as_str(), &error.variant].join(" ");
        let mut row = vec![Cell::new(balancer.trim_end()), Cell::new(load), Cell::new(&error.figure)];
        row.extend(numbers.map(|number| Cell::new(number).set_alignment(CellAlignment::Right)));
        table.add_row(row);
    }
    table
}
