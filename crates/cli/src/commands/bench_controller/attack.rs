//! `anabranch bench controller --attack`: well-behaved switches with and without attackers.

use std::io::Write as _;
use std::time::Duration;

use comfy_table::Table;
use ofload::{Attack, AttackIntensity, AttackReport, AttackStats, Load, LoopStats, Schedule};
use serde_json::json;

use super::{Args, Placement, RATE_UNDER_ATTACK, failure, place, serve, target, write_json};
use crate::error::CliError;

/// Runs the command.
pub(super) fn execute(args: &Args) -> Result<(), CliError> {
    let placement = place(args);
    let load = Load::Rate(args.rate.unwrap_or(RATE_UNDER_ATTACK));
    let own = serve(args, &placement)?;
    let target = target(args, load, own.as_ref())?.expect("the options require a controller or a peer");
    let attacks: Vec<Attack> = args.attack.iter().map(|attack| attack.attack()).collect();
    let force =
        AttackIntensity { connections: args.attack_connections, rate: args.attack_rate, ..AttackIntensity::default() };
    let duration = Duration::from_secs_f64(args.seconds);
    let schedule = Schedule { loops: args.loops, warm_up: args.warm_up, duration };
    let mut tell = |words: &str| eprintln!("{words}");
    let ordeals = ofload::measure_under_attack(target, &attacks, force, schedule, &mut tell).map_err(failure)?;
    show(args, &ordeals, &placement)?;
    findings(&ordeals)
}

fn show(args: &Args, ordeals: &[AttackReport], placement: &Placement) -> Result<(), CliError> {
    if write_json(args, placement, json!({"ordeals": ordeals}))? {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", table(ordeals))?;
    for ordeal in ordeals {
        writeln!(out, "{}: {}", ordeal.attack, deeds(&ordeal.deeds))?;
        ordeal.faults().iter().try_for_each(|fault| writeln!(out, "  {fault}"))?;
    }
    placement.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
    Ok(())
}

fn table(ordeals: &[AttackReport]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "attack",
        "others' load",
        "usual p50 / p99 / max ms",
        "attacked p50 / p99 / max ms",
        "unanswered",
        "controller's core",
        "memory before / most / after MB",
        "others are served",
    ]);
    let latency = |column: &LoopStats| match column.latency {
        Some(l) => [l.p50_us, l.p99_us, l.max_us].map(|us| format!("{:.3}", us / 1e3)).join(" / "),
        None => "—".to_owned(),
    };
    let share = |column: &LoopStats| column.controller_share.map_or("—".to_owned(), |share| format!("{share:.2}"));
    let memory = |bytes: Option<u64>| bytes.map_or("—".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
    for ordeal in ordeals {
        let AttackReport { usual, attacked, resident_before, resident_max, resident_after, .. } = ordeal;
        table.add_row([
            ordeal.attack.to_owned(),
            ordeal.load.clone(),
            latency(usual),
            latency(attacked),
            format!("{} / {}", usual.counts.unanswered, attacked.counts.unanswered),
            format!("{} / {}", share(usual), share(attacked)),
            [*resident_before, *resident_max, *resident_after].map(memory).join(" / "),
            if ordeal.faults().is_empty() { "yes".to_owned() } else { "no".to_owned() },
        ]);
    }
    table
}

/// Summarises what an attacker sent in all loops.
fn deeds(all: &[AttackStats]) -> String {
    let sum = |of: fn(&AttackStats) -> u64| all.iter().map(of).sum::<u64>();
    let open = all.iter().map(|deeds| deeds.open_max).max().unwrap_or(0);
    format!(
        "{} connections made, {open} at once at most, {} ended by the controller, {} refused; {:.1} MB sent; {} packet-ins, {} \
         answered",
        sum(|deeds| deeds.connections),
        sum(|deeds| deeds.closed),
        sum(|deeds| deeds.refused),
        sum(|deeds| deeds.bytes) as f64 / 1e6,
        sum(|deeds| deeds.packet_ins),
        sum(|deeds| deeds.answered)
    )
}

fn findings(ordeals: &[AttackReport]) -> Result<(), CliError> {
    let failed = ordeals.iter().find_map(|ordeal| Some((ordeal.attack, ordeal.faults().into_iter().next()?)));
    match failed {
        Some((attack, fault)) => Err(CliError::new(format!("under the attack {attack}, {fault}"))
            .with_hint("both columns are from the same run; repeat it on an idle machine")
            .found_by_check()),
        None => Ok(()),
    }
}
