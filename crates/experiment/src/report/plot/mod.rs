//! The figures as SVG text: curves with bands, grouped dots and bars, heat maps.
//!
//! The page's style sheet controls everything visual that depends on the reader (text size, theme,
//! colours of balancers) through classes. One picture therefore serves wide and narrow screens,
//! light and dark themes, and paper. `docs/decisions/0001-plots.md` explains why the program draws
//! them itself.

mod heat;
mod scale;

pub(super) use heat::{Raster, heat, ramp};
pub(super) use scale::{Scale, Unit};

use super::text::{esc, put};

/// Size of every picture in its own units. The style sheet sets text at 13 of these, 17 on narrow
/// screens.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 350.0;
/// Minimum space on the left; [`Axes::left`] adds more for longer labels.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 54.0;

/// The shared colour of balancers outside the coloured best few.
pub(super) const GREY: usize = 1000;
/// The colour of bounds: dashed, so that none is mistaken for a balancer.
pub(super) const BOUND: usize = 1001;

pub(super) struct Axes<'a> {
    pub label: String,
    pub x_title: &'a str,
    pub y_title: &'a str,
    pub y: Scale,
}

impl Axes<'_> {
    /// Returns the position of the y axis: to the right of its longest label in the size of narrow
    /// screens.
    fn left(&self) -> f64 {
        let widest = self.y.ticks().iter().map(|tick| text_width(&self.y.unit.label(*tick))).fold(0.0, f64::max);
        (widest + LABEL_GAP + 2.0).max(LEFT)
    }
    fn x_at(&self, fraction: f64) -> f64 {
        let left = self.left();
        left + fraction * (WIDTH - left - RIGHT)
    }
}

const LABEL_GAP: f64 = 8.0;

/// Returns the width of a label in the largest text of the style sheet and the widest of its fonts
/// (DejaVu Sans, 17).
fn text_width(text: &str) -> f64 {
    let share = |letter: char| match letter {
        '.' | ',' | ' ' | '\u{a0}' => 0.32,
        '%' | 'm' | 'M' => 0.97,
        'A'..='Z' => 0.72,
        _ => 0.64,
    };
    17.0 * text.chars().map(share).sum::<f64>()
}

pub(super) struct Curve {
    pub colour: usize,
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Low and high edge at each point; empty for none.
    pub band: Vec<(f64, f64)>,
    pub stroke: Stroke,
    /// Text shown on hovering each point; empty for curves without point marks.
    pub hints: Vec<String>,
}

impl Curve {
    pub fn new(colour: usize, name: &str, points: Vec<(f64, f64)>) -> Curve {
        Curve { colour, name: name.to_owned(), points, band: Vec::new(), stroke: Stroke::Main, hints: Vec::new() }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Stroke {
    Main,
    Thin,
}

pub(super) fn curves(axes: &Axes<'_>, x: &Scale, curves: &[Curve]) -> String {
    let mut out = open(&axes.label, HEIGHT);
    frame(&mut out, axes);
    for tick in x.ticks() {
        let at = axes.x_at(x.fraction(*tick));
        put!(out, r#"<path class="grid" d="M{at:.1} {TOP}V{:.1}"/>"#, HEIGHT - BOTTOM);
        put!(out, r#"<text class="tx" x="{at:.1}" y="{:.1}">{}</text>"#, HEIGHT - BOTTOM + 20.0, x.unit.label(*tick));
    }
    let place = |(px, py): (f64, f64)| (axes.x_at(x.fraction(px)), y_at(axes.y.fraction(py)));
    for curve in curves.iter().filter(|curve| !curve.band.is_empty()) {
        let lower = curve.points.iter().zip(&curve.band).map(|(point, band)| place((point.0, band.0)));
        let upper = curve.points.iter().zip(&curve.band).rev().map(|(point, band)| place((point.0, band.1)));
        put!(out, r#"<path class="band {}" d="{}Z"/>"#, colour_class(curve.colour), path(lower.chain(upper)));
    }
    // Companions first: the quantity of the figure stays on top.
    for stroke in [Stroke::Thin, Stroke::Main] {
        for curve in curves.iter().filter(|curve| curve.stroke == stroke) {
            let class = if stroke == Stroke::Thin { "thin" } else { "line" };
            let line = path(curve.points.iter().map(|point| place(*point)));
            let colour = colour_class(curve.colour);
            if curve.colour >= GREY {
                put!(out, r#"<path class="{class} {colour}" d="{line}"><title>{}</title></path>"#, esc(&curve.name));
                // Marks of dozens of curves would hide those in colour.
                continue;
            }
            put!(out, r#"<path class="{class} {colour}" d="{line}"/>"#);
            for (point, hint) in curve.points.iter().zip(&curve.hints) {
                mark(&mut out, curve.colour, place(*point), hint);
            }
        }
    }
    out.push_str("</svg>");
    out
}

pub(super) struct Group {
    pub colour: usize,
    /// One per category; `None` for no value.
    pub values: Vec<Option<Value>>,
}

pub(super) struct Value {
    pub value: f64,
    /// Whiskers, or for bars a single inner mark at `whiskers.0`.
    pub whiskers: (f64, f64),
    pub hint: String,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape {
    Dot,
    /// A bar from the bottom with a notch: only for linear scales from zero.
    Bar,
}

pub(super) fn grouped(axes: &Axes<'_>, categories: &[String], groups: &[Group], shape: Shape) -> String {
    let mut out = open(&axes.label, HEIGHT);
    frame(&mut out, axes);
    let start = axes.left();
    let width = (WIDTH - start - RIGHT) / categories.len().max(1) as f64;
    // With many categories, every other label is one line lower so that neighbours do not touch.
    let stagger = if categories.len() > 5 { 17.0 } else { 0.0 };
    for (index, category) in categories.iter().enumerate() {
        let left = start + width * index as f64;
        if index > 0 {
            put!(out, r#"<path class="grid" d="M{left:.1} {TOP}V{:.1}"/>"#, HEIGHT - BOTTOM);
        }
        let below = 20.0 + if index % 2 == 1 { stagger } else { 0.0 };
        let (x, y) = (left + width / 2.0, HEIGHT - BOTTOM + below);
        put!(out, r#"<text class="tx" x="{x:.1}" y="{y:.1}">{}</text>"#, esc(category));
    }
    // All grey balancers share the first slot.
    let shared = usize::from(groups.iter().any(|group| group.colour == GREY));
    let own = groups.iter().filter(|group| group.colour != GREY).count();
    let slot = width * 0.8 / (own + shared).max(1) as f64;
    let mut next = shared;
    for group in groups {
        let position = if group.colour == GREY { 0 } else { next };
        next += usize::from(group.colour != GREY);
        for (index, value) in group.values.iter().enumerate() {
            let Some(value) = value else { continue };
            let x = start + width * (index as f64 + 0.1) + slot * (position as f64 + 0.5);
            match shape {
                Shape::Dot => dot(&mut out, axes, group.colour, x, value),
                Shape::Bar => bar(&mut out, axes, group.colour, (x, slot), value),
            }
        }
    }
    out.push_str("</svg>");
    out
}

fn dot(out: &mut String, axes: &Axes<'_>, colour: usize, x: f64, value: &Value) {
    let class = colour_class(colour);
    let (low, high) = (y_at(axes.y.fraction(value.whiskers.0)), y_at(axes.y.fraction(value.whiskers.1)));
    if low - high > 0.5 {
        let cap = 4.0;
        put!(
            out,
            r#"<path class="whisker {class}" d="M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h{}M{:.1} {high:.1}h{}"/>"#,
            x - cap,
            cap * 2.0,
            x - cap,
            cap * 2.0
        );
    }
    mark(out, colour, (x, y_at(axes.y.fraction(value.value))), &value.hint);
}

fn bar(out: &mut String, axes: &Axes<'_>, colour: usize, (x, slot): (f64, f64), value: &Value) {
    let class = colour_class(colour);
    let (top, bottom) = (y_at(axes.y.fraction(value.value)), y_at(0.0));
    // A value of zero is still visible as a line on the axis, because it was measured.
    let height = (bottom - top).max(1.5);
    let width = (slot * 0.86).min(30.0);
    let left = x - width / 2.0;
    put!(
        out,
        r#"<g class="{class}"><title>{}</title><rect class="bar" x="{left:.1}" y="{:.1}" width="{width:.1}" height="{height:.1}"/>"#,
        esc(&value.hint),
        bottom - height
    );
    let notch = y_at(axes.y.fraction(value.whiskers.0));
    put!(out, r#"<path class="notch" d="M{left:.1} {notch:.1}h{width:.1}"/></g>"#);
}

/// Draws a point mark. Its shape repeats the balancer, for readers who cannot distinguish the
/// colours.
fn mark(out: &mut String, colour: usize, (x, y): (f64, f64), hint: &str) {
    put!(
        out,
        r#"<path class="mark {}" transform="translate({x:.1} {y:.1})" d="{}"><title>{}</title></path>"#,
        colour_class(colour),
        mark_shape(colour),
        esc(hint)
    );
}

pub(super) fn mark_shape(colour: usize) -> &'static str {
    match colour {
        GREY => return "M-2.6 0a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0 -5.2 0Z",
        BOUND => return "M-6 -1.5h12v3h-12Z",
        _ => {}
    }
    match colour % 4 {
        0 => "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z",
        1 => "M-4.5 -4.5h9v9h-9Z",
        2 => "M0 -5.8L5.6 4.2H-5.6Z",
        _ => "M0 -6L6 0L0 6L-6 0Z",
    }
}

pub(super) fn colour_class(colour: usize) -> String {
    match colour {
        GREY => "grey".to_owned(),
        BOUND => "bound".to_owned(),
        _ => format!("c{}", colour % 8),
    }
}

fn open(label: &str, height: f64) -> String {
    format!(r#"<svg class="plot" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#, esc(label))
}

fn frame(out: &mut String, axes: &Axes<'_>) {
    let left = axes.left();
    for tick in axes.y.ticks() {
        let at = y_at(axes.y.fraction(*tick));
        put!(out, r#"<path class="grid" d="M{left:.1} {at:.1}H{:.1}"/>"#, WIDTH - RIGHT);
        put!(
            out,
            r#"<text class="ty" x="{:.1}" y="{:.1}">{}</text>"#,
            left - LABEL_GAP,
            at + 4.5,
            axes.y.unit.label(*tick)
        );
    }
    put!(out, r#"<path class="axis" d="M{left:.1} {TOP}V{:.1}H{:.1}"/>"#, HEIGHT - BOTTOM, WIDTH - RIGHT);
    let log = if axes.y.is_log() { " (log scale)" } else { "" };
    put!(out, r#"<text class="title" x="6" y="16">{}{log}</text>"#, esc(axes.y_title));
    let (x, y) = (axes.x_at(0.5), HEIGHT - 9.0);
    put!(out, r#"<text class="title tx" x="{x:.1}" y="{y:.1}">{}</text>"#, esc(axes.x_title));
}

fn y_at(fraction: f64) -> f64 {
    HEIGHT - BOTTOM - fraction * (HEIGHT - TOP - BOTTOM)
}

/// Returns a path through the points, without those that fall on the pixel of their predecessor.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut out = String::new();
    let mut last = String::new();
    for (x, y) in points {
        let next = format!("{x:.1} {y:.1}");
        if next != last {
            out.push(if out.is_empty() { 'M' } else { 'L' });
            out.push_str(&next);
            last = next;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_of_y_have_room_inside_the_picture() {
        for (high, unit) in [(1.0, Unit::Share), (0.0004, Unit::Plain), (2.5e6, Unit::Bytes), (1.25e7, Unit::Micros)] {
            let axes = Axes { label: String::new(), x_title: "", y_title: "", y: Scale::linear(0.0, high, unit) };
            let widest = axes.y.ticks().iter().map(|tick| text_width(&unit.label(*tick))).fold(0.0, f64::max);
            assert!(axes.left() - LABEL_GAP >= widest && axes.left() >= LEFT, "{widest} in {}", axes.left());
            assert!((axes.x_at(1.0) - (WIDTH - RIGHT)).abs() < 1e-9, "the right edge stays");
        }
    }
}
