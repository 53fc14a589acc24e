//! `anabranch bench controller --attack`: well-behaved switches with and without attackers.

use std::io::Write as _;

use comfy_table::Table;
use ofload::{Attack, AttackIntensity, AttackReport, AttackStats, Load, LoopStats};
use serde_json::json;

use super::{Args, Placement, RATE_UNDER_ATTACK, failure, place, schedule, serve, target, write_json};
use crate::error::CliError;

/// Runs the command.
pub(super) fn execute(args: &Args) -> Result<(), CliError> {
    let placement = place(args);
    let load = Load::Rate(args.rate.unwrap_or(RATE_UNDER_ATTACK));
    let own = serve(args, &placement)?;
    let target = target(args, load, own.as_ref())?.expect("the options require a controller");
    let attacks: Vec<Attack> = args.attack.iter().map(|attack| attack.attack()).collect();
    let intensity =
        AttackIntensity { connections: args.attack_connections, rate: args.attack_rate, ..AttackIntensity::default() };
    let mut progress = |text: &str| eprintln!("{text}");
    let reports =
        ofload::measure_under_attack(target, &attacks, intensity, schedule(args), &mut progress).map_err(failure)?;
    show(args, &reports, &placement)?;
    findings(&reports)
}

fn show(args: &Args, reports: &[AttackReport], placement: &Placement) -> Result<(), CliError> {
    if write_json(args, placement, json!({"attacks": reports}))? {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", table(reports))?;
    for report in reports {
        writeln!(out, "{}: {}", report.attack, attacker_text(&report.attacker))?;
        report.faults().iter().try_for_each(|fault| writeln!(out, "  {fault}"))?;
    }
    placement.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
    Ok(())
}

fn table(reports: &[AttackReport]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "attack",
        "load",
        "baseline p50 / p99 / max ms",
        "attacked p50 / p99 / max ms",
        "unanswered",
        "controller's core",
        "memory before / maximum / after MB",
        "well-behaved switches served",
    ]);
    let latency = |column: &LoopStats| match column.latency {
        Some(l) => [l.p50_us, l.p99_us, l.max_us].map(|us| format!("{:.3}", us / 1e3)).join(" / "),
        None => "—".to_owned(),
    };
    let share =
        |column: &LoopStats| column.controller_cpu_share.map_or("—".to_owned(), |share| format!("{share:.2}"));
    let memory = |bytes: Option<u64>| bytes.map_or("—".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
    for report in reports {
        let AttackReport { baseline, attacked, resident_before, resident_max, resident_after, .. } = report;
        table.add_row([
            report.attack.to_owned(),
            report.load.clone(),
            latency(baseline),
            latency(attacked),
            format!("{} / {}", baseline.counts.unanswered, attacked.counts.unanswered),
            format!("{} / {}", share(baseline), share(attacked)),
            [*resident_before, *resident_max, *resident_after].map(memory).join(" / "),
            if report.faults().is_empty() { "yes".to_owned() } else { "no".to_owned() },
        ]);
    }
    table
}

/// Summarises what an attacker sent in all loops.
fn attacker_text(all: &[AttackStats]) -> String {
    let sum = |of: fn(&AttackStats) -> u64| all.iter().map(of).sum::<u64>();
    let open = all.iter().map(|stats| stats.open_max).max().unwrap_or(0);
    format!(
        "{} connections opened, at most {open} at once, {} closed by the controller, {} refused; {:.1} MB sent; {} \
         packet-ins, {} answered",
        sum(|stats| stats.connections),
        sum(|stats| stats.closed),
        sum(|stats| stats.refused),
        sum(|stats| stats.bytes) as f64 / 1e6,
        sum(|stats| stats.packet_ins),
        sum(|stats| stats.answered)
    )
}

fn findings(reports: &[AttackReport]) -> Result<(), CliError> {
    let failed = reports.iter().find_map(|report| Some((report.attack, report.faults().into_iter().next()?)));
    match failed {
        Some((attack, fault)) => Err(CliError::new(format!("under the attack {attack}, {fault}"))
            .with_hint("both columns are from the same run; repeat it on an idle machine")
            .found_by_check()),
        None => Ok(()),
    }
}
