//! A block per balancer with its description and its costs at each point, initially closed.

use super::figures::swatch;
use super::tables::{TABLE_END, begin_table, number_cells};
use super::text::{self, bytes, count_text, esc, micros, put, share, share_with_interval, spread};
use super::view::View;
use crate::results::balancer_info::BalancerInfo;
use crate::results::cost::Cost;
use crate::summary::Stat;

pub(super) struct PointRow<'a> {
    pub name: String,
    pub mean: String,
    pub p99: Option<&'a Stat>,
    pub versus: String,
    pub share_of_optimum: Option<&'a Stat>,
    pub rank: u32,
    pub flows_started: u64,
    pub cost: Cost,
}

pub(super) fn of_experiment(view: &View<'_>) -> String {
    let mut out = String::from("<section id=\"balancers\"><h2>The balancers</h2>\n");
    for (index, (label, colour)) in view.balancers.iter().enumerate() {
        let runs = view.summary.runs.iter().find(|run| run.balancer == *label);
        let (parameters, is_bound) = runs.map_or((&[][..], false), |run| (run.parameters.as_slice(), run.is_bound));
        let about = BalancerInfo { is_bound, ..BalancerInfo::of(label, parameters) };
        let mut rows = Vec::new();
        for panel in &view.panels {
            let Some(entry) = panel.entries.iter().find(|entry| entry.balancer == *label) else { continue };
            rows.push(PointRow {
                name: panel.title(),
                mean: super::tables::headline_value(panel, entry),
                p99: Some(&entry.point.slowdown_p99).filter(|stat| stat.mean > 0.0),
                versus: panel.ratio(entry).map_or_else(|| "—".to_owned(), times),
                share_of_optimum: entry.point.share_of_optimum.as_ref(),
                rank: entry.point.rank,
                flows_started: entry.point.flows_started,
                cost: Cost::of(&entry.runs),
            });
        }
        let is_open = view.balancers.len() == 1;
        out.push_str(&block(&format!("b{}", index + 1), &about, &swatch(*colour), "Point", &rows, is_open));
    }
    out.push_str("</section>\n");
    out
}

pub(super) fn times(ratio: f64) -> String {
    format!("{}×", text::number(ratio))
}

pub(super) fn block(
    id: &str,
    about: &BalancerInfo,
    swatch: &str,
    points: &str,
    rows: &[PointRow<'_>],
    is_open: bool,
) -> String {
    let open = if is_open { " open=\"open\"" } else { "" };
    let title =
        if about.title == about.label { String::new() } else { format!(" <small>{}</small>", esc(&about.title)) };
    let badge = if about.is_bound { "<span class=\"badge none\">bound</span>" } else { "" };
    let mut out = format!(
        "<details class=\"about\" id=\"{id}\"{open}><summary>{swatch}{}{title}{badge}</summary>\n",
        esc(&about.label)
    );
    match about.summary.is_empty() {
        true => out.push_str("<p>This version of the program does not know this balancer.</p>\n"),
        false => put!(out, "<p>{}</p>\n", esc(&about.summary)),
    }
    out.push_str("<dl class=\"properties\">");
    for (name, value) in [("Source", &about.source), ("Reacts to", &about.senses)] {
        if !value.is_empty() {
            put!(out, "<dt>{name}</dt><dd>{}</dd>", esc(value));
        }
    }
    for setting in &about.parameters {
        let unit = if setting.unit.is_empty() { String::new() } else { format!(" {}", esc(&setting.unit)) };
        let meaning = esc(&setting.meaning);
        put!(out, "<dt>{} = {}{unit}</dt><dd>{meaning}</dd>", esc(&setting.name), esc(&setting.value));
    }
    out.push_str("</dl>\n");
    out.push_str(&table(about, points, rows));
    out.push_str(&control_table(about, points, rows));
    out.push_str("</details>\n");
    out
}

fn table(about: &BalancerInfo, points: &str, rows: &[PointRow<'_>]) -> String {
    let has_optimum = rows.iter().any(|row| row.share_of_optimum.is_some());
    let label = format!("{} at each point", esc(&about.label));
    let mut headings = vec![points, "Rank", "Mean", "p99 slowdown", "× best"];
    if has_optimum {
        headings.push("Share of optimum");
    }
    headings.extend(["Reordered", "Extent, packets", "Held by hosts, packets", "Path changes per flow"]);
    headings.extend(["Control packets", "Control bytes", "Retransmitted", "Time-outs", "Unfinished flows"]);
    let mut out = begin_table(&label, "costs", "", headings);
    for row in rows {
        put!(out, "<tr><th scope=\"row\">{}</th>", esc(&row.name));
        let p99 = row.p99.map_or_else(|| "—".to_owned(), |stat| spread(stat, 1.0));
        let rank = if row.rank == 0 { "—".to_owned() } else { row.rank.to_string() };
        let mut cells = vec![rank, row.mean.clone(), p99, row.versus.clone()];
        if has_optimum {
            cells.push(row.share_of_optimum.map_or_else(|| "—".to_owned(), share_with_interval));
        }
        match about.is_bound {
            // A bound sends no packets.
            true => cells.extend(std::iter::repeat_n("—".to_owned(), 8)),
            false => cells.extend(costs(&row.cost)),
        }
        cells.push(unfinished(row));
        number_cells(&mut out, cells);
        out.push_str("</tr>\n");
    }
    out + TABLE_END
}

fn control_table(about: &BalancerInfo, points: &str, rows: &[PointRow<'_>]) -> String {
    if rows.iter().all(|row| row.cost.control_plane.is_none()) {
        return String::new();
    }
    let label = format!("What controlling {} costs at each point", esc(&about.label));
    const HEADINGS: &str = "Messages to switches|Messages from switches|Flow-table changes|Most per second|Packet-ins|\
                            Suppressed|Entries per switch|Decisions|Moves|Stale samples|Errors";
    let headings = [points].into_iter().chain(HEADINGS.split('|'));
    let mut out = begin_table(&label, "costs", "The controller, per run", headings);
    for row in rows {
        let Some(plane) = row.cost.control_plane else { continue };
        put!(out, "<tr><th scope=\"row\">{}</th>", esc(&row.name));
        let number = |value: f64| if value == 0.0 { "0".to_owned() } else { text::number(value) };
        let cells = [
            number(plane.to_switches),
            number(plane.to_controller),
            number(plane.flow_mods),
            count_text(plane.flow_mods_per_s_peak),
            number(plane.packet_ins),
            number(plane.packet_ins_suppressed),
            format!("{}, mean {}", count_text(plane.entries_max.into()), number(plane.entries_mean)),
            number(plane.decisions),
            number(plane.moves),
            number(plane.stale_samples),
            number(plane.errors),
        ];
        number_cells(&mut out, cells);
        out.push_str("</tr>\n");
    }
    out + TABLE_END
}

fn costs(cost: &Cost) -> [String; 8] {
    let held = match (cost.resequencing, cost.held_max) {
        (false, _) => "off".to_owned(),
        (true, 0) => "0".to_owned(),
        (true, most) => format!("{}, mean {}", count_text(most.into()), micros(cost.hold_mean_us)),
    };
    let control = match cost.control_bytes {
        0 => "0".to_owned(),
        sent => format!("{}, {} of data", bytes(sent as f64), share(cost.control_share)),
    };
    [
        share(cost.reordered),
        count_text(cost.reorder_extent_max.into()),
        held,
        if cost.path_changes_per_flow == 0.0 { "0".to_owned() } else { text::number(cost.path_changes_per_flow) },
        count_text(cost.control_packets),
        control,
        share(cost.retransmitted),
        count_text(cost.timeouts),
    ]
}

fn unfinished(row: &PointRow<'_>) -> String {
    match (row.cost.unfinished, row.cost.failed) {
        (0, _) => "0".to_owned(),
        (open, 0) => format!("{} of {}", count_text(open), count_text(row.flows_started)),
        (open, failed) => {
            format!("{} of {}, {} failed", count_text(open), count_text(row.flows_started), count_text(failed))
        }
    }
}
