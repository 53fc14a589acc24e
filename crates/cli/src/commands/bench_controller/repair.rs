//! `anabranch bench controller --repair`: rules deleted behind the controller's back.

use std::io::Write as _;
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::Table;
use ofload::{AuditRequests, Deletion, Load, Repair, RepairReport, RepairSchedule};
use serde_json::json;

use super::{Args, Placement, failure, place, positive, serve, target, write_json};
use crate::error::CliError;

/// Maximum time until the controller has installed its rules.
const INSTALL_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Args)]
pub struct RepairArgs {
    /// Delete rules behind the controller's back, as another program would, and measure the time
    /// until they are back; before, the controller's CPU time and requests without any load
    #[arg(long, value_enum, value_name = "SWITCHES", value_delimiter = ',', conflicts_with_all = ["reference", "window", "rate", "attack"])]
    pub(super) repair: Vec<DeletionArg>,
    /// Time without load before the rules are deleted, s
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = positive)]
    repair_idle: f64,
    /// Time limit of a repair, s
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = positive)]
    repair_timeout: f64,
    /// Give the emulated switches flow monitors, as Open vSwitch has them; without, a controller
    /// must compare flow statistics
    #[arg(long)]
    pub(super) flow_monitors: bool,
}

#[derive(Clone, Copy, PartialEq, Debug, ValueEnum)]
pub(super) enum DeletionArg {
    /// All rules of one switch
    One,
    /// All rules of all switches
    All,
}

impl DeletionArg {
    fn deletion(self) -> Deletion {
        match self {
            DeletionArg::One => Deletion::One,
            DeletionArg::All => Deletion::All,
        }
    }
}

/// Runs the command if `--repair` is given.
pub(super) fn execute(args: &Args) -> Result<(), CliError> {
    let placement = place(args);
    let own = serve(args, &placement)?;
    // No packet-ins are sent: the load is the smallest one.
    let target = target(args, Load::Window(1), own.as_ref())?.expect("the options require a controller");
    let deletions: Vec<Deletion> = args.repair.repair.iter().map(|deletion| deletion.deletion()).collect();
    let schedule = RepairSchedule {
        install_max: INSTALL_MAX,
        idle: Duration::from_secs_f64(args.repair.repair_idle),
        repair_max: Duration::from_secs_f64(args.repair.repair_timeout),
    };
    let report = ofload::measure_repair(target, &deletions, schedule, &mut |text| eprintln!("{text}"));
    let report = report.map_err(failure)?;
    show(args, &report, &placement)?;
    match report.faults().into_iter().next() {
        Some(fault) => Err(CliError::new(fault)
            .with_hint("the controller does not audit its rules, or needs longer: see --repair-timeout")
            .found_by_check()),
        None => Ok(()),
    }
}

fn show(args: &Args, report: &RepairReport, placement: &Placement) -> Result<(), CliError> {
    if write_json(args, placement, json!({"repair": report}))? {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    let monitors = if report.has_flow_monitors { "with" } else { "without" };
    writeln!(out, "{}: {}, {monitors} flow monitors", report.name, report.shape)?;
    let idle = &report.idle;
    writeln!(
        out,
        "  idle for {:.1} s with {} rules: {} of a core, {} memory; {}; before: {}",
        idle.seconds,
        idle.rules,
        idle.controller_cpu_share.map_or("—".to_owned(), |share| format!("{:.2} %", share * 100.0)),
        memory(idle.resident_bytes),
        requests(idle.requests),
        requests(idle.requests_before),
    )?;
    writeln!(out, "{}", table(&report.repairs))?;
    report.faults().iter().try_for_each(|fault| writeln!(out, "  {fault}"))?;
    placement.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
    Ok(())
}

fn memory(bytes: Option<u64>) -> String {
    bytes.map_or("—".to_owned(), |bytes| format!("{:.1} MB", bytes as f64 / 1e6))
}

fn requests(requests: AuditRequests) -> String {
    let AuditRequests { flow_statistics, flow_monitors } = requests;
    format!("{flow_statistics} requests for flow statistics, {flow_monitors} for flow monitors")
}

fn table(repairs: &[Repair]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "deleted",
        "switches",
        "rules",
        "missing",
        "repair p50 / p99 / max s",
        "flow-mods",
        "requests",
        "CPU s",
        "memory",
    ]);
    for repair in repairs {
        let seconds = repair.seconds.map(|times| times.map(|time| format!("{time:.2}")).join(" / "));
        table.add_row([
            repair.deletion.to_owned(),
            repair.switches.to_string(),
            repair.rules.to_string(),
            repair.missing.to_string(),
            seconds.unwrap_or_else(|| "—".to_owned()),
            repair.flow_mods.to_string(),
            requests(repair.requests),
            repair.controller_cpu_s.map_or("—".to_owned(), |cpu_s| format!("{cpu_s:.2}")),
            memory(repair.resident_max),
        ]);
    }
    table
}
