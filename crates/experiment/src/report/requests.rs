//! Requests to services: response times by class, and the load of servers.

use super::figures::{figure, legend_of, swatch};
use super::plot::{self, Axes, GREY, Group, Scale, Shape, Unit, Value};
use super::tables::pairs;
use super::text::{self, esc, put};
use super::view::{Entry, Panel};
use crate::results::responses::{self, ClassPoint};
use crate::summary::RunSummary;

pub(super) fn section(panel: &Panel<'_>) -> String {
    let points: Vec<(&Entry<'_>, Vec<ClassPoint>)> =
        panel.entries.iter().map(|entry| (entry, points_of(entry))).filter(|(_, points)| !points.is_empty()).collect();
    if points.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<h3>Response times</h3>\n<p>From the first packet of the client to the last byte of the last page, the way over the \
         controller included. Quantiles are means of those of the seeds.</p>\n",
    );
    put!(out, "<div class=\"figs\">\n{}</div>\n", picture(panel, &points));
    out.push_str(&table(&points));
    out.push_str(&servers(panel));
    out
}

fn points_of(entry: &Entry<'_>) -> Vec<ClassPoint> {
    let runs: Vec<RunSummary> = entry.runs.iter().map(|run| (*run).clone()).collect();
    responses::points(&runs)
}

fn picture(panel: &Panel<'_>, points: &[(&Entry<'_>, Vec<ClassPoint>)]) -> String {
    let categories: Vec<String> = points[0].1.iter().map(|point| point.class.clone()).collect();
    let value = |entry: &Entry<'_>, point: &ClassPoint| {
        let [_, low, median, high, _] = point.times_us.each_ref().map(|stat| stat.mean);
        let hint = format!(
            "{}, {}: median {}, 10 % to 90 %: {} to {}",
            point.balancer,
            point.class,
            text::micros(median),
            text::micros(low),
            text::micros(high)
        );
        // Whiskers of dozens of points at one position would hide each other.
        let whiskers = if entry.colour == GREY { (median, median) } else { (low, high) };
        (point.counts[1] > 0).then_some(Value { value: median, whiskers, hint })
    };
    let groups: Vec<Group> = points
        .iter()
        .map(|(entry, points)| Group {
            colour: entry.colour,
            values: points.iter().map(|point| value(entry, point)).collect(),
        })
        .collect();
    let shown = groups.iter().flat_map(|group| group.values.iter().flatten());
    let ends: Vec<f64> = shown.flat_map(|value| [value.whiskers.0, value.value, value.whiskers.1]).collect();
    let (low, high) = ends.iter().fold((f64::INFINITY, 0.0f64), |(low, high), end| (low.min(*end), high.max(*end)));
    if !low.is_finite() {
        return String::new();
    }
    let axes = Axes {
        label: "Response time by class of requests".to_owned(),
        x_title: "Class of requests",
        y_title: "Response time",
        y: if high > 8.0 * low { Scale::log(low, high, Unit::Micros) } else { Scale::linear(0.0, high, Unit::Micros) },
    };
    let caption = "Median response time; whiskers reach from the 10th to the 90th percentile.";
    figure(&plot::grouped(&axes, &categories, &groups, Shape::Dot), &legend_of(&panel.by_colour()), caption)
}

fn table(points: &[(&Entry<'_>, Vec<ClassPoint>)]) -> String {
    let mut out = String::from(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Response times\">\n<table>\n<thead><tr>",
    );
    for heading in
        ["Balancer", "Class", "Median", "10 %", "90 %", "Mean", "99 %", "Download rate", "Completed", "Failed", "Open"]
    {
        put!(out, "<th scope=\"col\">{heading}</th>");
    }
    let servers = points[0].1[0].shares.iter().map(|(host, _)| host.trim_end_matches("/host"));
    servers.for_each(|host| put!(out, "<th scope=\"col\">{} served</th>", esc(host)));
    out.push_str("</tr></thead>\n<tbody>\n");
    let classes = points[0].1.len();
    for class in 0..classes {
        for (entry, points) in points {
            let Some(point) = points.get(class) else { continue };
            row(&mut out, entry, point);
        }
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn row(out: &mut String, entry: &Entry<'_>, point: &ClassPoint) {
    put!(
        out,
        "<tr><th scope=\"row\">{}{}</th><td>{}</td>",
        swatch(entry.colour),
        esc(entry.balancer),
        esc(&point.class)
    );
    let [mean, p10, p50, p90, p99] = &point.times_us;
    for stat in [p50, p10, p90, mean, p99] {
        let shown = if point.counts[1] == 0 { "–".to_owned() } else { text::micros(stat.mean) };
        put!(out, "<td>{shown}</td>");
    }
    let [started, completed, failed, running] = point.counts;
    put!(
        out,
        "<td>{}/s</td><td>{completed} / {started}</td><td>{failed}</td><td>{running}</td>",
        text::bytes(point.download_bytes_per_s.mean)
    );
    point.shares.iter().for_each(|(_, share)| put!(out, "<td>{}</td>", text::share(*share)));
    out.push_str("</tr>\n");
}

fn servers(panel: &Panel<'_>) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    for entry in &panel.entries {
        let Some(requests) = entry.runs.first().and_then(|run| run.requests.as_ref()) else { continue };
        let servers = requests.servers.iter().map(|server| {
            format!(
                "{} ({}): {} connections, {} busy, {} jobs at most",
                server.host,
                text::plural(u64::from(server.cores), "core"),
                server.connections,
                text::share(server.busy_share),
                server.jobs_max
            )
        });
        let counts = requests.connections;
        let line = format!(
            "{}; connections {} = {} completed + {} failed + {} open; {} packets misaddressed",
            servers.collect::<Vec<_>>().join("; "),
            counts.opened,
            counts.completed,
            counts.failed,
            counts.open,
            requests.misaddressed
        );
        rows.push((entry.balancer.to_owned(), line));
    }
    pairs("Servers and connections (first seed)", &rows)
}
