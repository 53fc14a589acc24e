//! The fidelity of the runs, and the measured errors of rates.

use super::tables::{TABLE_END, begin_table};
use super::text::{esc, number, plural, put};
use super::view::View;
use crate::fidelity::figures;
use crate::summary::{FidelityCheck, FidelityError};

/// Error above which a figure is marked: the goal of flow fidelity.
const GOAL: f64 = 0.1;

pub(super) fn section(view: &View<'_>) -> String {
    let summary = view.summary;
    if summary.runs.iter().all(|run| run.fidelity.is_empty()) {
        return String::new();
    }
    let mut out = String::from("<section aria-labelledby=\"fidelity\">\n<h2 id=\"fidelity\">Fidelity</h2>\n");
    let Some(check) = &summary.fidelity_check else {
        out.push_str(
            "<p>Rates of flows were simulated, not packets. The error was not measured: run with \
             <code>--check-fidelity</code>.</p>\n</section>\n",
        );
        return out;
    };
    let FidelityCheck { topology, hosts, flows, seeds, .. } = check;
    put!(
        out,
        "<p>Rates of flows were simulated, not packets. The error is that of the same flows in both fidelities on \
         {}: {}, {}, {}. An interval is the figure corrected by the smallest and the largest error of a seed.</p>\n",
        esc(topology),
        plural(*hosts, "host"),
        plural(*flows, "flow"),
        plural(u64::from(*seeds), "seed"),
    );
    let headings = ["Balancer", "Figure", "Here", "Interval", "By packets", "By rates", "Error"];
    out.push_str(&begin_table("Fidelity", "", "", headings));
    check.errors.iter().for_each(|error| row(&mut out, view, error));
    out.push_str(TABLE_END);
    out.push_str("</section>\n");
    out
}

fn row(out: &mut String, view: &View<'_>, error: &FidelityError) {
    let runs = view
        .summary
        .runs
        .iter()
        .filter(|run| (&run.variant, &run.balancer, run.load) == (&error.variant, &error.balancer, error.load));
    let values = runs.flat_map(figures).filter(|(figure, _)| *figure == error.figure).map(|(_, value)| value);
    let values: Vec<f64> = values.collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let mut place = error.balancer.clone();
    place.extend(error.load.map(|load| format!(", load {load}")));
    if !error.variant.is_empty() {
        place += &format!(", {}", error.variant);
    }
    let corrected = |by: f64| if by > -1.0 { number(mean / (1.0 + by)) } else { "—".to_owned() };
    let mark = if error.mean().abs() > GOAL { "<span class=\"badge none\">over 10 %</span>" } else { "" };
    put!(out, "<tr><th scope=\"row\">{}</th><td>{}{mark}</td>", esc(&place), esc(&error.figure));
    put!(out, "<td>{}</td><td>{} … {}</td>", number(mean), corrected(error.high), corrected(error.low));
    put!(out, "<td>{}</td><td>{}</td>", number(error.packets), number(error.rates));
    put!(out, "<td>{}</td></tr>\n", esc(&percent(error)));
}

/// Returns the error of the means and its range over seeds, such as `+3 % (−1 % … +6 %)`.
fn percent(error: &FidelityError) -> String {
    let signed = |value: f64| format!("{:+.0}\u{a0}%", value * 100.0).replace('-', "−");
    format!("{} ({} … {})", signed(error.mean()), signed(error.low), signed(error.high))
}
