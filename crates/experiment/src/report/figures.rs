//! The figures of the page: curves, dots and rasters from results.

use super::plot::{self, Axes, BOUND, Curve, GREY, Group, Raster, Scale, Shape, Stroke, Unit, Value};
use super::stats::{self, pooled_cdf};
use super::testbed::time_title;
use super::text::{self, esc, join, put};
use super::view::{Detail, Entry, Panel, View};
use crate::results::statistics::stat;
use crate::summary::{Point, Queue, RunDetail, SizeBucket, Stat};

pub(super) fn figure(picture: &str, legend: &str, caption: &str) -> String {
    if picture.is_empty() {
        return String::new();
    }
    format!("<figure>{legend}{picture}<figcaption>{caption}</figcaption></figure>\n")
}

/// Returns the balancers with their colours and marks; grey ones share an entry.
pub(super) fn legend<'a>(entries: impl IntoIterator<Item = (usize, &'a str)>) -> String {
    let mut entries: Vec<(usize, &str)> = entries.into_iter().collect();
    entries.sort_by_key(|(colour, _)| *colour);
    let mut out = String::from("<ul class=\"legend\">");
    for (colour, name) in entries.iter().filter(|(colour, _)| *colour != GREY) {
        let bound = if *colour == BOUND { " (bound)" } else { "" };
        put!(out, "<li>{}{}{bound}</li>", swatch(*colour), esc(name));
    }
    let others = entries.iter().filter(|(colour, _)| *colour == GREY).count();
    if others > 0 {
        put!(out, "<li>{}{}, by name on hovering</li>", swatch(GREY), text::plural(others as u64, "other"));
    }
    out.push_str("</ul>");
    out
}

pub(super) fn swatch(colour: usize) -> String {
    format!(
        r#"<svg class="swatch" viewBox="-14 -8 28 16" aria-hidden="true"><path class="line {0}" d="M-14 0H14"/><path class="mark {0}" d="{1}"/></svg>"#,
        plot::colour_class(colour),
        plot::mark_shape(colour)
    )
}

type StatOf = fn(&Point) -> &Stat;
type QuantilesOf = fn(&RunDetail) -> &[f64];
type BucketValue = fn(&SizeBucket) -> f64;

const SWEEPS: [(&str, StatOf, Unit); 6] = [
    ("Mean slowdown", |point| &point.slowdown_lower_bound, Unit::Plain),
    ("Mean time of groups", |point| &point.group_lower_bound_us, Unit::Micros),
    ("99th percentile slowdown", |point| &point.slowdown_p99, Unit::Plain),
    ("Mean FCT of flows up to 100 KB", |point| &point.small_fct_mean_us, Unit::Micros),
    ("Mean FCT of flows above 1 MB", |point| &point.large_fct_mean_us, Unit::Micros),
    ("Throughput, share of host links", |point| &point.throughput_share, Unit::Share),
];

pub(super) fn sweep(panels: &[&Panel<'_>], balancers: &[(&str, usize)]) -> String {
    let mut out = String::new();
    let loads: Vec<f64> = panels.iter().filter_map(|panel| panel.load).collect();
    let x = Scale::through(&loads, Unit::Share);
    let legend = legend(balancers.iter().map(|(name, colour)| (*colour, *name)));
    let names = all_names(balancers.iter().map(|(name, _)| *name));
    for (title, quantity, unit) in SWEEPS {
        let curves = sweep_curves(panels, balancers, quantity, unit);
        // Below saturation all balancers carry the offered load, and their curves coincide.
        if curves.is_empty() || (unit == Unit::Share && !differ(&curves)) {
            continue;
        }
        let edges = curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
        let edges = edges.chain(curves.iter().flat_map(|curve| curve.band.iter().map(|band| band.1)));
        // Slowdowns begin at 1, the empty network.
        let floor = if unit == Unit::Plain { 1.0 } else { 0.0 };
        let y = Scale::fit(edges, floor, 12.0, unit);
        let axes = Axes { label: format!("{title} against load for {names}"), x_title: "Load", y_title: title, y };
        let bands =
            if panels.iter().any(|panel| panel.seeds() > 1) { "; bands are 95 % intervals over seeds" } else { "" };
        let caption = format!("{title} against load{bands}.");
        out.push_str(&figure(&plot::curves(&axes, &x, &curves), &legend, &caption));
    }
    out
}

fn differ(curves: &[Curve]) -> bool {
    let points = curves.iter().map(|curve| curve.points.len()).max().unwrap_or(0);
    (0..points).any(|index| {
        let (low, high) = range(curves.iter().filter_map(|curve| Some(curve.points.get(index)?.1)));
        high > low * 1.02
    })
}

fn sweep_curves(panels: &[&Panel<'_>], balancers: &[(&str, usize)], quantity: StatOf, unit: Unit) -> Vec<Curve> {
    let mut curves = Vec::new();
    let mut balancers: Vec<&(&str, usize)> = balancers.iter().collect();
    balancers.sort_by_key(|(_, colour)| (*colour < GREY, *colour));
    for (balancer, colour) in balancers {
        let mut curve = Curve::new(*colour, balancer, Vec::new());
        for panel in panels {
            let Some(entry) = panel.entries.iter().find(|entry| entry.balancer == *balancer) else { continue };
            let (stat, load) = (quantity(entry.point), panel.load.unwrap_or(0.0));
            // A mean of zero indicates that no flow of the kind completed.
            if stat.mean > 0.0 {
                curve.points.push((load, stat.mean));
                if *colour < GREY {
                    curve.band.push((stat.mean - stat.ci95, stat.mean + stat.ci95));
                }
                let interval = if stat.ci95 > 0.0 { format!(" ± {}", unit.label(stat.ci95)) } else { String::new() };
                let value = unit.label(stat.mean);
                curve.hints.push(format!("{balancer}, load {}: {value}{interval}", text::load_text(load)));
            }
        }
        if !curve.points.is_empty() {
            curves.push(curve);
        }
    }
    curves
}

pub(super) fn distributions(panel: &Panel<'_>, view: &View<'_>) -> String {
    let quantities: [(&str, &str, Unit, QuantilesOf); 2] = [
        ("Flow completion time", "FCT", Unit::Micros, |detail| &detail.fct_quantiles_us),
        ("Slowdown (FCT / FCT in an empty network)", "slowdown", Unit::Plain, |detail| &detail.slowdown_quantiles),
    ];
    let mut out = String::new();
    for (x_title, name, unit, quantiles) in quantities {
        let mut curves = Vec::new();
        for entry in panel.by_colour() {
            let samples: Vec<(&[f64], u64)> =
                entry.details.iter().map(|(run, detail)| (quantiles(detail), run.fct_us.count)).collect();
            let points = pooled_cdf(&samples, view.detail.curve_points);
            if !points.is_empty() {
                curves.push(Curve::new(entry.colour, entry.balancer, points));
            }
        }
        if curves.is_empty() {
            continue;
        }
        let (low, high) = range(curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)));
        let axes = Axes {
            label: format!("Cumulative distribution of {name} for {}", names(&panel.by_colour())),
            x_title: &format!("{x_title}, log scale"),
            y_title: "Completed flows at or below",
            y: Scale::linear(0.0, 1.0, Unit::Share),
        };
        let caption = format!("Cumulative distribution of {name} over completed flows of all seeds. Left is better.");
        let picture = plot::curves(&axes, &Scale::log(low, high, unit), &curves);
        out.push_str(&figure(&picture, &legend_of(&panel.by_colour()), &caption));
    }
    out
}

pub(super) fn by_size(panel: &Panel<'_>) -> String {
    let Some(buckets) = panel.entries.iter().find_map(|entry| entry.runs.first()).map(|run| &run.fct_us_by_size) else {
        return String::new();
    };
    let categories = bucket_labels(buckets);
    let quantities: [(&str, BucketValue); 2] =
        [("Mean slowdown", |bucket| bucket.slowdown.mean), ("99th percentile slowdown", |bucket| bucket.slowdown.p99)];
    let mut out = String::new();
    for (title, quantity) in quantities {
        let groups: Vec<Group> = panel
            .by_colour()
            .into_iter()
            .map(|entry| Group { colour: entry.colour, values: bucket_values(entry, &categories, quantity) })
            .collect();
        let shown = groups.iter().flat_map(|group| group.values.iter().flatten());
        // Flows that never end have no completion times to draw.
        if shown.clone().next().is_none() {
            continue;
        }
        let (low, high) = range(shown.flat_map(|value| [value.value, value.whiskers.0.max(1.0), value.whiskers.1]));
        let axes = Axes {
            label: format!("{title} by flow size for {}", names(&panel.by_colour())),
            x_title: "Flow size",
            y_title: title,
            y: if high > 4.0 {
                Scale::log(low.min(1.0), high, Unit::Plain)
            } else {
                Scale::linear(1.0, high, Unit::Plain)
            },
        };
        let whiskers = if panel.seeds() > 1 { "; whiskers are 95 % intervals over seeds" } else { "" };
        let caption = format!("{title} by flow size{whiskers}. 1 is an empty network.");
        out.push_str(&figure(
            &plot::grouped(&axes, &categories, &groups, Shape::Dot),
            &legend_of(&panel.by_colour()),
            &caption,
        ));
    }
    out
}

fn bucket_values(entry: &Entry<'_>, categories: &[String], quantity: BucketValue) -> Vec<Option<Value>> {
    let value = |(index, category): (usize, &String)| {
        let buckets = entry.runs.iter().filter_map(|run| run.fct_us_by_size.get(index));
        let values: Vec<f64> = buckets.filter(|bucket| bucket.slowdown.count > 0).map(quantity).collect();
        if values.is_empty() {
            return None;
        }
        let Stat { mean, ci95, .. } = stat(&values);
        let hint = format!("{}, {category}: {}", entry.balancer, text::with_interval(mean, ci95));
        // Whiskers of dozens of points at one position would hide each other.
        let reach = if entry.colour == GREY { 0.0 } else { ci95 };
        Some(Value { value: mean, whiskers: (mean - reach, mean + reach), hint })
    };
    categories.iter().enumerate().map(value).collect()
}

/// Returns labels such as `≤ 10 KB`, short enough to fit next to each other on a phone.
fn bucket_labels(buckets: &[SizeBucket]) -> Vec<String> {
    let mut below = None;
    let mut labels = Vec::new();
    for bucket in buckets {
        labels.push(match (bucket.max_bytes, below) {
            (u64::MAX, Some(limit)) => format!("> {}", text::bytes(limit as f64)),
            (u64::MAX, None) => "all".to_owned(),
            (limit, _) => format!("≤ {}", text::bytes(limit as f64)),
        });
        below = Some(bucket.max_bytes);
    }
    labels
}

pub(super) fn time_series(panel: &Panel<'_>, view: &View<'_>) -> String {
    let mut out = String::new();
    let entries = panel.few();
    let Some(model) = entries.iter().find_map(|entry| first_detail(entry)) else { return out };
    for (index, tier) in model.tiers.iter().enumerate() {
        let (mut curves, mut end_us) = (Vec::new(), 0f64);
        for entry in &entries {
            let Some(detail) = first_detail(entry) else { continue };
            let Some(series) = detail.tiers.get(index).filter(|series| !series.mean.is_empty()) else { continue };
            end_us = end_us.max(detail.bin_us * series.mean.len() as f64);
            for (values, merge, stroke) in [
                (&series.max, stats::max_f32 as fn(&[f32]) -> f32, Stroke::Thin),
                (&series.mean, stats::mean_f32, Stroke::Main),
            ] {
                let points = time_points(values, detail.bin_us, &view.detail, merge);
                curves.push(Curve { stroke, ..Curve::new(entry.colour, entry.balancer, points) });
            }
        }
        if curves.is_empty() {
            continue;
        }
        let axes = Axes {
            label: format!("Utilisation of {} links over time for {}", tier.name, names(&panel.few())),
            x_title: time_title(view),
            y_title: "Utilisation",
            y: Scale::linear(0.0, 1.0, Unit::Share),
        };
        let few = few_note(panel);
        let caption = format!("<b>{}</b> links: mean (bold) and busiest link (thin) over time{few}.", esc(&tier.name));
        let picture = plot::curves(&axes, &Scale::exact(0.0, end_us, Unit::Micros), &curves);
        out.push_str(&figure(&picture, &legend_of(&panel.few()), &caption));
    }
    out
}

/// Returns a figure of the queue of each link of `probes.links`.
pub(super) fn probed_queues(panel: &Panel<'_>, view: &View<'_>) -> String {
    let mut out = String::new();
    let entries = panel.few();
    let Some(model) = entries.iter().find_map(|entry| first_probed(entry)) else { return out };
    for (index, link) in model.links.iter().enumerate() {
        let (mut curves, mut end_us, mut highest) = (Vec::new(), 0f64, 0f64);
        for entry in &entries {
            let Some(series) = first_probed(entry).and_then(|detail| detail.links.get(index)) else { continue };
            end_us = end_us.max(series.bin_us * series.queue_max_bytes.len() as f64);
            let largest: Vec<f32> = series.queue_max_bytes.iter().map(|bytes| *bytes as f32).collect();
            let mean: Vec<f32> = series.queue_mean_bytes.iter().map(|bytes| *bytes as f32).collect();
            highest = largest.iter().fold(highest, |highest, bytes| highest.max(f64::from(*bytes)));
            for (values, merge, stroke) in
                [(&largest, stats::max_f32 as fn(&[f32]) -> f32, Stroke::Thin), (&mean, stats::mean_f32, Stroke::Main)]
            {
                let points = time_points(values, series.bin_us, &view.detail, merge);
                curves.push(Curve { stroke, ..Curve::new(entry.colour, entry.balancer, points) });
            }
        }
        if curves.is_empty() || highest == 0.0 {
            continue;
        }
        let axes = Axes {
            label: format!("Queue of {} over time for {}", link.name, names(&panel.few())),
            x_title: time_title(view),
            y_title: "Queue",
            y: Scale::linear(0.0, highest, Unit::Bytes),
        };
        let few = few_note(panel);
        let caption = format!("<b>{}</b>: mean (bold) and largest queue (thin) over time{few}.", esc(&link.name));
        let picture = plot::curves(&axes, &Scale::exact(0.0, end_us, Unit::Micros), &curves);
        out.push_str(&figure(&picture, &legend_of(&panel.few()), &caption));
    }
    out
}

fn first_probed<'a>(entry: &Entry<'a>) -> Option<&'a RunDetail> {
    entry.details.iter().map(|(_, detail)| *detail).find(|detail| !detail.links.is_empty())
}

fn time_points(values: &[f32], bin_us: f64, detail: &Detail, merge: fn(&[f32]) -> f32) -> Vec<(f64, f64)> {
    let width = bin_us * stats::bins_per_cell(values.len(), detail.time_cells) as f64;
    let cells = stats::thin(values, detail.time_cells, merge);
    cells.iter().enumerate().map(|(index, value)| ((index as f64 + 0.5) * width, f64::from(*value))).collect()
}

/// Returns the first common seed of all balancers: with the same flows their pictures are
/// comparable.
fn first_detail<'a>(entry: &Entry<'a>) -> Option<&'a RunDetail> {
    entry.details.iter().map(|(_, detail)| *detail).find(|detail| !detail.tiers.is_empty())
}

pub(super) fn heat_maps(panel: &Panel<'_>, view: &View<'_>) -> String {
    let mut maps = Vec::new();
    for entry in panel.few() {
        let kept = entry.details.iter().find_map(|(_, detail)| Some((*detail, detail.heat.as_ref()?)));
        if let Some((detail, heat)) = kept.filter(|(_, heat)| heat.bins > 0) {
            maps.push((entry, detail.bin_us * heat.bins as f64, strips(detail, &view.detail)));
        }
    }
    if maps.is_empty() {
        return String::new();
    }
    let cells = maps.iter().flat_map(|(_, _, strips)| strips.iter().flat_map(|strip| &strip.values));
    let busiest = f64::from(cells.copied().fold(0f32, f32::max));
    let top = [0.1, 0.2, 0.4, 0.6, 0.8].into_iter().find(|top| busiest <= *top).unwrap_or(1.0);
    let end_us = maps.iter().map(|(_, end_us, _)| *end_us).fold(0.0, f64::max);
    let mut out = format!(
        "<div class=\"scale\"><span>Utilisation</span>{}</div>\n<div class=\"figs thirds\">\n",
        plot::ramp(top)
    );
    for (entry, own_end_us, strips) in &maps {
        // A run that ended sooner fills less of the common axis.
        let strips: Vec<Raster> = strips.iter().map(|strip| padded(strip, end_us / own_end_us)).collect();
        let label = format!("Load of each link over time under {}", entry.balancer);
        let x = Scale::exact(0.0, end_us, Unit::Micros);
        let picture = plot::heat(&label, &x, time_title(view), &strips, top);
        let caption = format!("{}{}", swatch(entry.colour), esc(entry.balancer));
        out.push_str(&figure(&picture, "", &caption));
    }
    out.push_str("</div>\n");
    out
}

fn strips(detail: &RunDetail, limits: &Detail) -> Vec<Raster> {
    let Some(heat) = &detail.heat else { return Vec::new() };
    let mut strips = Vec::new();
    for (group, tier) in detail.tiers.iter().enumerate() {
        let rows: Vec<&[f32]> = heat
            .values
            .chunks_exact(heat.bins)
            .zip(&heat.group)
            .filter(|(_, of)| usize::from(**of) == group)
            .map(|(row, _)| row)
            .collect();
        if rows.is_empty() {
            continue;
        }
        let merged = stats::bins_per_cell(rows.len(), limits.heat_rows);
        let mut values = Vec::new();
        let mut columns = 0;
        for links in rows.chunks(merged) {
            let busiest: Vec<f32> =
                (0..heat.bins).map(|bin| links.iter().map(|row| row[bin]).fold(0.0, f32::max)).collect();
            let cells = stats::thin(&busiest, limits.time_cells, stats::mean_f32);
            columns = cells.len();
            values.extend(cells);
        }
        let each = if merged > 1 { format!(", a row is the busiest of {merged}") } else { String::new() };
        strips.push(Raster {
            name: format!("{}: {}{each}", tier.name, text::plural(rows.len() as u64, "link")),
            columns,
            values,
        });
    }
    strips
}

fn padded(strip: &Raster, stretch: f64) -> Raster {
    let columns = (strip.columns as f64 * stretch).round().max(strip.columns as f64) as usize;
    let mut values = Vec::with_capacity(strip.values.len());
    for row in strip.values.chunks_exact(strip.columns.max(1)) {
        values.extend(row);
        values.resize(values.len() + columns - strip.columns, 0.0);
    }
    Raster { name: strip.name.clone(), columns, values }
}

pub(super) fn queues(panel: &Panel<'_>) -> String {
    let Some(model) = panel.few().iter().find_map(|entry| entry.runs.first().copied()).map(|run| &run.queues) else {
        return String::new();
    };
    let ports: Vec<String> = model.iter().map(|queue| queue.port.clone()).collect();
    let lengths = queue_groups(panel, &ports, |entry, index, port| {
        let p50 = over_seeds(entry, index, |queue| queue.p50_bytes as f64)?;
        let p99 = over_seeds(entry, index, |queue| queue.p99_bytes as f64)?;
        let values_text = [text::bytes(p50), text::bytes(p99)];
        let hint = format!("{}, {port}: median {}, 99th percentile {}", entry.balancer, values_text[0], values_text[1]);
        Some(Value { value: p99, whiskers: (p50, p50), hint })
    });
    let marked = queue_groups(panel, &ports, |entry, index, port| {
        let value = over_seeds(entry, index, |queue| queue.above_mark_share)?;
        let hint = format!("{}, {port}: {}", entry.balancer, text::share(value));
        Some(Value { value, whiskers: (value, value), hint })
    });
    let mut out = String::new();
    for (groups, unit, y_title, caption) in [
        (
            lengths,
            Unit::Bytes,
            "Queue found by arriving packets",
            "Bytes queued before an arriving packet: 99th percentile (bar) and median (notch), mean over seeds; bars in the order of the legend.",
        ),
        (
            marked,
            Unit::Share,
            "Packets that arrived at or above the marking threshold",
            "Share of packets that found the queue at or above its marking threshold, mean over seeds; bars in the order of the legend.",
        ),
    ] {
        let highest = groups.iter().flat_map(|group| group.values.iter().flatten()).map(|value| value.value);
        let highest = highest.fold(0.0, f64::max);
        if highest > 0.0 {
            let label = format!("{y_title}, by kind of port, for {}", names(&panel.few()));
            let caption = format!("{}{}.", caption.trim_end_matches('.'), few_note(panel));
            let axes = Axes { label, x_title: "Kind of port", y_title, y: Scale::linear(0.0, highest, unit) };
            let picture = plot::grouped(&axes, &ports, &groups, Shape::Bar);
            out.push_str(&figure(&picture, &legend_of(&panel.few()), &caption));
        }
    }
    out
}

fn queue_groups(
    panel: &Panel<'_>,
    ports: &[String],
    value: impl Fn(&Entry<'_>, usize, &str) -> Option<Value>,
) -> Vec<Group> {
    let of = |entry: &Entry<'_>| ports.iter().enumerate().map(|(index, port)| value(entry, index, port)).collect();
    panel.few().into_iter().map(|entry| Group { colour: entry.colour, values: of(entry) }).collect()
}

fn over_seeds(entry: &Entry<'_>, index: usize, quantity: fn(&Queue) -> f64) -> Option<f64> {
    let queues = entry.runs.iter().filter_map(|run| run.queues.get(index));
    let values: Vec<f64> = queues.map(quantity).collect();
    (!values.is_empty()).then(|| stat(&values).mean)
}

pub(super) fn legend_of(entries: &[&Entry<'_>]) -> String {
    legend(entries.iter().map(|entry| (entry.colour, entry.balancer)))
}

fn few_note(panel: &Panel<'_>) -> String {
    match panel.few().len() < panel.rivals().len() {
        true => format!("; the {} best of {} balancers", panel.few().len(), panel.rivals().len()),
        false => String::new(),
    }
}

pub(super) fn few_sentence(panel: &Panel<'_>) -> String {
    match few_note(panel).trim_start_matches("; ") {
        "" => String::new(),
        few => format!(" Of {few}."),
    }
}

fn names(entries: &[&Entry<'_>]) -> String {
    all_names(entries.iter().map(|entry| entry.balancer))
}

/// Returns all names, or their number if the list is too long for an accessible label.
fn all_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.len() > 10 { text::plural(names.len() as u64, "balancer") } else { join(&names) }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let positive = values.filter(|value| value.is_finite() && *value > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0f64), |(low, high), value| (low.min(value), high.max(value)));
    if high > 0.0 { (low, high) } else { (1.0, 1.0) }
}
