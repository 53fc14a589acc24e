//! The report of a reproduction: printed and measured results, the figures of documents drawn
//! again, and errata.

use super::figures::{figure, legend};
use super::plot::{self, Axes, Curve as Line, Group, Scale, Shape, Stroke, Unit, Value};
use super::text::{esc, plural, put};
use super::{document_end, document_head, validation};
use crate::claims::Metric;
use crate::reproduction::{
    ClaimCounts, Curve, DocumentResult, EntryResult, Erratum, Grade, Kind, NumberResult, PointResult, Reproduction,
    RunResult, Series, Standing, ValidationRow, Verdict, kind_text,
};

/// Returns the report page of a reproduction: printed results compared with the simulator, then the
/// simulator compared with real switches, as far as results of either exist. One self-contained
/// file; it links to the reports of runs in the neighbouring folders.
pub fn reproduction_html(reproduction: Option<&Reproduction>, validations: &[&ValidationRow]) -> String {
    let mut out = String::with_capacity(1 << 18);
    document_head(&mut out, "Reproduction of published documents");
    head(&mut out, reproduction, validations);
    out.push_str("<main class=\"reproduction\">\n");
    if let Some(reproduction) = reproduction {
        summary(&mut out, reproduction);
        errata(&mut out, reproduction);
        reproduction.documents.iter().for_each(|document| self::document(&mut out, document));
    }
    validation::section(&mut out, validations);
    out.push_str(if reproduction.is_some() { RULES } else { "" });
    out.push_str(if validations.is_empty() { "" } else { validation::RULES });
    let files = match (reproduction, validations) {
        (Some(_), []) => "reproduction.json",
        (None, _) => "validation.json",
        (Some(_), _) => "reproduction.json and validation.json",
    };
    document_end(&mut out, env!("CARGO_PKG_VERSION"), files);
    out
}

fn head(out: &mut String, reproduction: Option<&Reproduction>, validations: &[&ValidationRow]) {
    out.push_str("<header class=\"top\">\n<p class=\"eyebrow\">Reproduction</p>\n");
    let title = match reproduction {
        Some(_) => "Printed results of the documents, and measured results",
        None => "The documents' experiments, simulated and on real switches",
    };
    put!(out, "<h1>{title}</h1>\n<ul class=\"meta\">");
    let documents = || reproduction.iter().flat_map(|reproduction| &reproduction.documents);
    let entries = || documents().flat_map(|document| &document.entries);
    let figures: usize = validations.iter().map(|row| row.validation.rows.len()).sum();
    for (count, noun, more) in [
        (documents().count(), "document", ""),
        (entries().count(), "experiment", ""),
        (entries().map(|entry| entry.numbers.len()).sum(), "number", ""),
        (documents().flat_map(|document| &document.runs).map(|run| run.runs).sum(), "run", ""),
        (figures, "figure", " on switches, too"),
    ] {
        if count > 0 {
            let label = plural(count as u64, noun);
            let (number, noun) = label.split_once(' ').unwrap_or((&label, ""));
            put!(out, "<li><b>{number}</b> {noun}{more}</li>");
        }
    }
    let simulated = if validations.is_empty() { ", simulated" } else { "" };
    put!(
        out,
        "<li>anabranch <b>{}</b>{simulated}</li></ul>\n<p>{INTRODUCTION}</p>\n</header>\n",
        env!("CARGO_PKG_VERSION")
    );
}

pub(super) fn table(out: &mut String, label: &str, headings: &[&str], rows: impl FnOnce(&mut String)) {
    put!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"claims sums\">\n",
        esc(label)
    );
    out.push_str("<thead><tr>");
    headings.iter().for_each(|heading| put!(out, "<th scope=\"col\" data-head=\"{heading}\">{heading}</th>"));
    out.push_str("</tr></thead>\n<tbody>\n");
    rows(out);
    out.push_str("</tbody></table></div>\n");
}

fn grade_badge(grade: Grade) -> String {
    let class = match grade {
        grade if grade.holds() => "win",
        Grade::Contradicted => "lost",
        _ => "tie",
    };
    format!("<span class=\"badge {class}\">{}</span>", grade.as_str())
}

fn badge(verdict: Verdict) -> String {
    let class = match verdict {
        Verdict::Exact | Verdict::Reproduced => "win",
        Verdict::DocumentInconsistent | Verdict::DirectionOnly => "tie",
        Verdict::NotReproduced => "lost",
    };
    format!("<span class=\"badge {class}\">{}</span>", verdict.as_str())
}

pub(super) fn cell(out: &mut String, heading: &str, text: &str) {
    if text.is_empty() {
        out.push_str("<td class=\"empty\">–</td>");
    } else {
        put!(out, "<td data-head=\"{heading}\">{}</td>", text_of(text));
    }
}

/// Escapes text; a line break must not separate a number from its sign.
pub(super) fn text_of(text: &str) -> String {
    esc(&text.replace(" %", "\u{a0}%").replace(" ± ", "\u{a0}±\u{a0}").replace(" ×", "\u{a0}×"))
}

fn summary(out: &mut String, reproduction: &Reproduction) {
    out.push_str("<section class=\"verdicts\"><h2>The answer</h2>\n<article class=\"verdict\"><p class=\"sentence\">");
    let counts = reproduction.claims();
    let ClaimCounts { held, part, inconclusive, contradicted } = counts;
    let claims = plural(counts.all() as u64, "claim");
    put!(
        out,
        "Of {claims} in the documents, <b>{held}</b> hold, {part} hold in part, {inconclusive} are inconclusive and \
         <b>{contradicted}</b> are contradicted."
    );
    let all = plural(reproduction.entries().count() as u64, "experiment");
    put!(out, "</p><p class=\"rest\">Grades of {all}: {}. ", esc(&reproduction.grades_text()));
    let kinds = Kind::ALL.map(|kind| plural(reproduction.numbers_of(kind) as u64, kind.as_str()));
    put!(out, "Judged numbers: {}. The number shown is the one that decides the strict verdict.</p>", kinds.join(", "));
    out.push_str("</article>\n");
    table(out, "Experiments", &["Id", "Question", "Grade", "Strict", "Printed", "Here", "Bound", "Why"], |out| {
        reproduction.entries().for_each(|entry| entry_row(out, entry));
    });
    out.push_str("</section>\n");
}

fn entry_row(out: &mut String, entry: &EntryResult) {
    let deciding = entry.numbers.iter().find(|number| number.verdict == Some(entry.verdict));
    let Some(number) = deciding.or(entry.numbers.first()) else { return };
    put!(out, "<tr><th scope=\"row\"><a href=\"#{0}\">{0}</a></th>", esc(&entry.id));
    let (question, what) = (text_of(&entry.question), text_of(&number.what));
    put!(out, "<td data-head=\"Question\">{question}<p class=\"reason\">{what}</p></td>");
    put!(out, "<td data-head=\"Grade\">{}</td>", grade_badge(entry.grade));
    put!(out, "<td data-head=\"Strict\">{}</td>", badge(entry.verdict));
    cell(out, "Printed", &number.printed);
    cell(out, "Here", &number.measured);
    cell(out, "Bound", &number.bound);
    cell(out, "Why", &entry.why());
    out.push_str("</tr>\n");
}

fn errata(out: &mut String, reproduction: &Reproduction) {
    let all: Vec<(&DocumentResult, &Erratum)> = reproduction
        .documents
        .iter()
        .flat_map(|document| document.errata.iter().map(move |erratum| (document, erratum)))
        .collect();
    if all.is_empty() {
        return;
    }
    out.push_str("<section id=\"errata\"><h2>Errors in the documents</h2>\n");
    table(out, "Errors in the documents", &["Where", "It says", "Arithmetic", "What holds"], |out| {
        for (document, erratum) in all {
            let of = if erratum.id == document.document { String::new() } else { format!(" ({})", document.document) };
            put!(out, "<tr><th scope=\"row\">{}{}</th>", esc(&erratum.id), esc(&of));
            cell(out, "It says", &erratum.says);
            cell(out, "Arithmetic", &erratum.arithmetic);
            cell(out, "What holds", &erratum.instead);
            out.push_str("</tr>\n");
        }
    });
    out.push_str("</section>\n");
}

fn document(out: &mut String, document: &DocumentResult) {
    put!(
        out,
        "<section class=\"panel\" id=\"{0}\">\n<h2>{0}: {1}</h2>\n",
        esc(&document.document),
        esc(&document.title)
    );
    put!(out, "<p>{}</p>\n", esc(&document.source));
    let figures: String = dots(document) + &document.curves.iter().map(curve).collect::<String>();
    if !figures.is_empty() {
        put!(out, "<h3>Its figures, drawn from our runs</h3>\n<div class=\"figs\">\n{figures}</div>\n");
    }
    for entry in &document.entries {
        let grade = grade_badge(entry.grade);
        put!(out, "<h3 id=\"{0}\">{0}: {1} {grade}</h3>\n", esc(&entry.id), esc(&entry.question));
        put!(out, "<p>{} · runs: {}</p>\n", esc(&entry.section), esc(&entry.runs.join(", ")));
        readings(out, entry);
        table(out, &entry.id, &["Number", "Kind", "Printed", "Here", "Asked", "Bound", "Verdict"], |out| {
            let above = [None].into_iter().chain(entry.numbers.iter().map(|number| number.reason.as_deref()));
            entry.numbers.iter().zip(above).for_each(|(number, above)| number_row(out, number, above));
        });
    }
    runs(out, document);
    out.push_str("</section>\n");
}

fn readings(out: &mut String, entry: &EntryResult) {
    if entry.readings.is_empty() {
        return;
    }
    out.push_str("<p>Readings of the document:</p>\n<ul>\n");
    for reading in &entry.readings {
        put!(
            out,
            "<li>{}: <b>{}</b>. {}</li>\n",
            esc(&reading.name),
            reading.status.as_str(),
            text_of(&reading.reason)
        );
    }
    out.push_str("</ul>\n");
}

fn number_row(out: &mut String, number: &NumberResult, above: Option<&str>) {
    put!(out, "<tr><th scope=\"row\">{}</th>", text_of(&number.what));
    cell(out, "Kind", &kind_text(number));
    cell(out, "Printed", &number.printed);
    cell(out, "Here", &number.measured);
    cell(out, "Asked", &number.band);
    cell(out, "Bound", &number.bound);
    match number.verdict {
        None => out.push_str("<td data-head=\"Verdict\" class=\"zero\">not judged</td>"),
        Some(verdict) => {
            put!(out, "<td data-head=\"Verdict\">{}", badge(verdict));
            if let Some(standing @ (Standing::Part | Standing::Noise | Standing::Contradicted)) = number.standing {
                put!(out, " <span class=\"rest\">{}</span>", standing.as_str());
            }
            if let Some(reason) = &number.reason {
                let label = if above == Some(reason.as_str()) { "as above" } else { reason };
                put!(out, "<p class=\"reason\">{}</p>", text_of(label));
            }
            out.push_str("</td>");
        }
    }
    out.push_str("</tr>\n");
}

fn runs(out: &mut String, document: &DocumentResult) {
    put!(out, "<details><summary>What was run for {}</summary>\n", esc(&document.document));
    table(out, "Runs", &["Results", "File", "Seeds", "Runs", "Flows completed"], |out| {
        for RunResult { name, file, seeds, seeds_of_file, reason, runs, flows_started, flows_completed } in
            &document.runs
        {
            let (folder, name) = (esc(&document.document.to_lowercase()), esc(name));
            put!(out, "<tr><th scope=\"row\"><a href=\"{folder}/{name}/report.html\">{name}</a></th>");
            cell(out, "File", file);
            let few = if seeds < seeds_of_file { format!("{seeds} of {seeds_of_file}") } else { seeds.to_string() };
            let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            cell(out, "Seeds", &format!("{few}{why}"));
            cell(out, "Runs", &runs.to_string());
            cell(out, "Flows completed", &format!("{flows_completed} of {flows_started}"));
            out.push_str("</tr>\n");
        }
    });
    out.push_str("</details>\n");
}

/// Returns the unit of a drawn metric, and the divisor of its values.
fn drawn(metric: &str, form: &str) -> (Unit, f64) {
    match Metric::named(metric) {
        _ if form == "ratio" => (Unit::Plain, 1.0),
        Some(Metric::DownloadRate) => (Unit::Plain, 1e3),
        Some(metric) => match crate::claims::sentence::unit(metric, 1.0) {
            (_, " %") => (Unit::Share, 1.0),
            (_, "") => (Unit::Plain, 1.0),
            _ => (Unit::Micros, 1.0),
        },
        None => (Unit::Plain, 1.0),
    }
}

fn dots(document: &DocumentResult) -> String {
    let numbers: Vec<&NumberResult> = document.entries.iter().flat_map(|entry| &entry.numbers).collect();
    let mut titles: Vec<&str> = Vec::new();
    for (title, _) in numbers.iter().filter_map(|number| number.figure.as_ref()) {
        if !titles.contains(&title.as_str()) {
            titles.push(title);
        }
    }
    titles.into_iter().map(|title| dot_figure(title, &numbers)).collect()
}

fn dot_figure(title: &str, numbers: &[&NumberResult]) -> String {
    let own: Vec<(&NumberResult, &str)> = numbers
        .iter()
        .filter_map(|number| number.figure.as_ref().map(|figure| (*number, figure)))
        .filter(|(_, (figure, _))| figure == title)
        .map(|(number, (_, label))| (number, label.as_str()))
        .collect();
    let Some((first, _)) = own.first() else { return String::new() };
    let (unit, size) = drawn(&first.metric, &first.form);
    let value_of = |number: &NumberResult| match number.points.as_slice() {
        [PointResult { measured: Some(measured), .. }] => Some(Value {
            value: measured.mean / size,
            whiskers: ((measured.mean - measured.ci95) / size, (measured.mean + measured.ci95) / size),
            hint: format!("here: {}", number.measured),
        }),
        _ => None,
    };
    let printed = |number: &NumberResult| {
        let value = number.value? / size;
        Some(Value { value, whiskers: (value, value), hint: format!("printed: {}", number.printed) })
    };
    let groups = [
        Group { colour: 0, values: own.iter().map(|(number, _)| value_of(number)).collect() },
        Group { colour: 1, values: own.iter().map(|(number, _)| printed(number)).collect() },
    ];
    let all = groups.iter().flat_map(|group| &group.values).flatten().map(|value| value.value);
    let y = Scale::fit(all, 0.0, 50.0, unit);
    let axes = Axes { label: title.to_owned(), x_title: "", y_title: axis_title(&first.metric, &first.form), y };
    let labels: Vec<String> = own.iter().map(|(_, label)| (*label).to_owned()).collect();
    let picture = plot::grouped(&axes, &labels, &groups, Shape::Dot);
    figure(&picture, &legend([(0, "here, with 95 % interval"), (1, "printed")]), &esc(title))
}

fn axis_title(metric: &str, form: &str) -> &'static str {
    match Metric::named(metric) {
        _ if form == "ratio" => "ratio",
        Some(Metric::CoreCllblRx | Metric::CoreCllblTx) => "CLLBL (maximum / mean load)",
        Some(Metric::CoreBbRx | Metric::CoreBbTx) => "BB (mean utilisation)",
        Some(Metric::DownloadRate) => "kB/s",
        Some(Metric::FlowShareMean | Metric::ThroughputShare) => "throughput",
        Some(Metric::ResponseMedian) => "median response time",
        Some(Metric::FctP95) => "95th percentile of FCT",
        Some(Metric::FctP99) => "99th percentile of FCT",
        Some(Metric::FctMax) => "largest FCT",
        Some(Metric::QueueMax) => "largest queue, bytes",
        Some(Metric::FctMean | Metric::SmallFctMean) => "mean FCT",
        _ => "",
    }
}

fn curve(curve: &Curve) -> String {
    let (unit, size) = drawn(&curve.metric, "value");
    let scaled = |series: &Series| -> Vec<[f64; 4]> {
        series.points.iter().map(|[x, mean, low, high]| [*x, mean / size, low / size, high / size]).collect()
    };
    let mut lines = Vec::new();
    for (colour, series) in curve.measured.iter().enumerate() {
        let points = scaled(series);
        lines.push(Line {
            band: points.iter().map(|[_, _, low, high]| (*low, *high)).collect(),
            hints: points
                .iter()
                .map(|[x, mean, ..]| format!("{}: {} at {x}", series.name, unit.label(*mean)))
                .collect(),
            ..Line::new(colour, &series.name, points.iter().map(|[x, mean, ..]| (*x, *mean)).collect())
        });
    }
    for (at, series) in curve.printed.iter().enumerate() {
        let points = scaled(series);
        lines.push(Line {
            stroke: Stroke::Thin,
            hints: points.iter().map(|[x, y, ..]| format!("{}: {} at {x}", series.name, unit.label(*y))).collect(),
            ..Line::new(curve.measured.len() + at, &series.name, points.iter().map(|[x, y, ..]| (*x, *y)).collect())
        });
    }
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let y = Scale::fit(values, 0.0, 20.0, unit);
    let mut xs: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let (Some(first), Some(last)) = (xs.first().copied(), xs.last().copied()) else { return String::new() };
    let (x, x_title) = match curve.over_time {
        true => (Scale::exact(first, last, Unit::Plain), "time of the document (s)"),
        false => (Scale::through(&xs, Unit::Share), "load"),
    };
    let axes = Axes { label: curve.figure.clone(), x_title, y_title: axis_title(&curve.metric, "value"), y };
    let picture = plot::curves(&axes, &x, &lines);
    let printed = |at: usize| curve.printed.get(at).map(|series| format!("{} (printed)", series.name));
    let names: Vec<(usize, String)> = lines
        .iter()
        .enumerate()
        .map(|(at, line)| {
            let name = at.checked_sub(curve.measured.len()).and_then(printed).unwrap_or_else(|| line.name.clone());
            (line.colour, name)
        })
        .collect();
    figure(&picture, &legend(names.iter().map(|(colour, name)| (*colour, name.as_str()))), &esc(&curve.figure))
}

const INTRODUCTION: &str = "The documents are published studies: F0 to F4, with which the project began, and F5 to F7, later ones. \
    Their experiments are called E0.1 and so on. Each experiment was repeated. <b>Printed</b> is the value in the study, <b>Here</b> the measured value, <b>Bound</b> the best possible value.";

const RULES: &str = include_str!("reproduction-rules.html");
