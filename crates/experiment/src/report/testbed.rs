//! Tables that only testbed runs have: injected faults with their losses, and the machine.

use super::figures::swatch;
use super::tables::{TABLE_END, begin_table, pairs};
use super::text::esc;
use super::view::{Entry, Panel, View};
use crate::summary::{Fault, Testbed};

/// Returns whether runs were made on real switches: their time is real, and no two are equal.
pub(super) fn is_real(view: &View<'_>) -> bool {
    view.summary.runs.iter().any(|run| run.testbed.is_some())
}

pub(super) fn time_title(view: &View<'_>) -> &'static str {
    if is_real(view) { "Time" } else { "Simulated time" }
}

pub(super) fn faults(panel: &Panel<'_>) -> String {
    let of = |entry: &Entry<'_>, run: &crate::summary::RunSummary, fault: &Fault| {
        let gap = if fault.longest_gap_us > 0.0 {
            format!("{:.0}\u{a0}ms", fault.longest_gap_us / 1e3)
        } else {
            "–".into()
        };
        let name = fault.link.iter().fold(fault.kind.clone(), |kind, link| format!("{kind} {link}"));
        format!(
            "<tr><th scope=\"row\">{}{}</th><td>{}</td><td>{:.2}\u{a0}s</td><td>{}</td><td>{}</td><td>{gap}</td></tr>\n",
            swatch(entry.colour),
            esc(entry.balancer),
            run.seed,
            fault.at_us / 1e6,
            esc(&name),
            fault.lost
        )
    };
    let mut rows = String::new();
    for entry in &panel.entries {
        for run in &entry.runs {
            let faults = run.testbed.iter().flat_map(|testbed| &testbed.faults);
            faults.for_each(|fault| rows.push_str(&of(entry, run, fault)));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let headings = ["Balancer", "Seed", "At", "Fault", "Packets lost", "Longest gap"];
    let table = begin_table("Injected faults", "", "", headings);
    format!(
        "<h3>Injected faults</h3>\n<p>UDP packets lost, and the longest gap of a flow, between this fault and the next row. \
         Gaps below 10 ms are not listed.</p>\n{table}{rows}{TABLE_END}"
    )
}

pub(super) fn machine(view: &View<'_>) -> String {
    let Some(testbed) = view.summary.runs.iter().find_map(|run| run.testbed.as_ref()) else { return String::new() };
    let Testbed { versions, datapath, source, preflight_sent, preflight_packets_per_s, has_dedicated_core, .. } =
        testbed;
    let mut rows: Vec<(String, String)> =
        versions.iter().map(|(name, version)| (name.clone(), version.clone())).collect();
    let room = match (datapath.as_str(), has_dedicated_core) {
        ("user", true) => ", with a dedicated CPU",
        ("user", false) => ", sharing its CPU: gaps are partly due to other programs",
        _ => "",
    };
    rows.push(("datapath".into(), format!("Open vSwitch, {datapath}{room}")));
    rows.push(("traffic source".into(), source.clone()));
    if *preflight_sent > 0 {
        let check = format!("{preflight_sent} packets at {preflight_packets_per_s:.0}/s before the run, none lost");
        rows.push(("preflight check".into(), check));
    }
    pairs("Real switches (first run)", &rows)
}
