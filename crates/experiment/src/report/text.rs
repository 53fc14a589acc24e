//! Human-readable text and numbers, and the escaping of markup.

use crate::summary::{Measure, Stat};

macro_rules! put {
    ($out:expr, $($arg:tt)*) => {{
        use std::fmt::Write as _;
        write!($out, $($arg)*).expect("a String takes any text")
    }};
}
pub(super) use put;

/// Returns text that is safe as element content and inside a double-quoted attribute.
pub(super) fn esc(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in XML, nor useful in a page.
            control if control.is_control() && !matches!(control, '\n' | '\t') => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

pub(super) fn join(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// Returns caveats, each with its class, as a list; empty for none.
pub(super) fn caveat_list(caveats: &[(&str, String)]) -> String {
    let items: String =
        caveats.iter().map(|(class, text)| format!("<li class=\"{class}\">{}</li>", esc(text))).collect();
    if items.is_empty() { items } else { format!("<ul class=\"caveats\">{items}</ul>") }
}

pub(crate) fn join_few(items: &[String]) -> String {
    const SHOWN: usize = 4;
    if items.len() <= SHOWN + 1 {
        return join(items);
    }
    format!("{} and {} others", items[..SHOWN].join(", "), items.len() - SHOWN)
}

pub(crate) fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", count_text(count), if count == 1 { "" } else { "s" })
}

pub(super) fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn decimals(value: f64) -> usize {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    }
}

fn fixed(value: f64, decimals: usize) -> String {
    if decimals == 0 && value >= 0.0 { count_text(value.round() as u64) } else { format!("{value:.decimals$}") }
}

pub(crate) fn number(value: f64) -> String {
    if value.is_finite() { fixed(value, decimals(value)) } else { "—".to_owned() }
}

/// Formats `1.83 ± 0.04`, the interval with the decimals of the mean; without the interval if it is
/// 0.
pub(crate) fn with_interval(mean: f64, half_width: f64) -> String {
    if !(half_width.is_finite() && half_width > 0.0) {
        return number(mean);
    }
    // A positive interval is never shown as 0, which would claim more precision than was measured.
    let digits = decimals(mean);
    let digits = (digits..digits + 3).find(|digits| half_width >= 0.5 * 0.1f64.powi(*digits as i32)).unwrap_or(digits);
    format!("{}\u{a0}±\u{a0}{}", fixed(mean, digits), fixed(half_width, digits))
}

/// Formats a positive quantity over seeds in a unit: the mean with its interval, or the range of the
/// seeds if they differ so much that the interval would reach below half of the mean.
pub(crate) fn spread(stat: &Stat, unit: f64) -> String {
    match stat.ci95 > stat.mean / 2.0 {
        true => format!("{} ({} … {})", number(stat.mean / unit), number(stat.min / unit), number(stat.max / unit))
            .replace(' ', "\u{a0}"),
        false => with_interval(stat.mean / unit, stat.ci95 / unit),
    }
}

/// Formats the quantity that ranks balancers, with its interval and its unit: `1.83 ± 0.04`,
/// `83 ± 1 %`, `1.93 ± 0.02 ms`.
pub(crate) fn ranked(measure: Measure, stat: &Stat) -> String {
    match measure {
        _ if stat.mean <= 0.0 => "—".to_owned(),
        Measure::Slowdown => spread(stat, 1.0),
        Measure::Throughput => share_with_interval(stat),
        Measure::GroupTime => {
            let unit = TimeUnit::of(stat.mean);
            format!("{}\u{a0}{}", spread(stat, unit.us()), unit.name())
        }
    }
}

pub(crate) fn share_with_interval(stat: &Stat) -> String {
    format!("{}\u{a0}%", spread(stat, 0.01))
}

pub(crate) fn share(value: f64) -> String {
    let percent = value * 100.0;
    match percent {
        value if !value.is_finite() => "—".to_owned(),
        0.0 => "0".to_owned(),
        value if value < 0.01 => "<0.01\u{a0}%".to_owned(),
        value if value < 1.0 => format!("{value:.2}\u{a0}%"),
        value if value < 10.0 => format!("{value:.1}\u{a0}%"),
        value => format!("{value:.0}\u{a0}%"),
    }
}

pub(crate) fn load_text(load: f64) -> String {
    let percent = format!("{:.1}", load * 100.0);
    format!("{}\u{a0}%", percent.trim_end_matches('0').trim_end_matches('.'))
}

pub(super) fn bytes(value: f64) -> String {
    let (size, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "GB"),
        value if value >= 1e6 => (value / 1e6, "MB"),
        value if value >= 1e3 => (value / 1e3, "KB"),
        value => (value, "B"),
    };
    format!("{}\u{a0}{unit}", short(size))
}

pub(super) fn micros(value: f64) -> String {
    let unit = TimeUnit::of(value);
    format!("{}\u{a0}{}", short(value / unit.us()), unit.name())
}

pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.*}", decimals(value));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum TimeUnit {
    Micro,
    Milli,
    Second,
}

impl TimeUnit {
    pub(super) fn of(value_us: f64) -> TimeUnit {
        match value_us.abs() {
            us if us >= 999_500.0 => TimeUnit::Second,
            us if us >= 999.5 => TimeUnit::Milli,
            _ => TimeUnit::Micro,
        }
    }

    /// Returns one unit for a whole column: that of its smallest value, so that rounding leaves no
    /// value at 0.
    pub(super) fn of_column(values_us: impl Iterator<Item = f64>) -> TimeUnit {
        TimeUnit::of(values_us.filter(|us| *us > 0.0).min_by(f64::total_cmp).unwrap_or(0.0))
    }

    pub(super) fn us(self) -> f64 {
        match self {
            TimeUnit::Micro => 1.0,
            TimeUnit::Milli => 1e3,
            TimeUnit::Second => 1e6,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            TimeUnit::Micro => "µs",
            TimeUnit::Milli => "ms",
            TimeUnit::Second => "s",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(with_interval(1.8312, 0.0423), "1.83\u{a0}±\u{a0}0.04");
        assert_eq!(with_interval(107.2, 0.31), "107.2\u{a0}±\u{a0}0.3");
        assert_eq!(with_interval(12345.6, 0.0), "12,346");
        let stat = Stat { mean: 27.8, ci95: 81.8, min: 2.0, max: 78.1, sd: 33.0 };
        assert_eq!(spread(&stat, 1.0), "27.8\u{a0}(2.00\u{a0}…\u{a0}78.1)");
        assert_eq!(share(0.0), "0");
        assert_eq!(share(0.00001), "<0.01\u{a0}%");
        assert_eq!(share(0.1234), "12\u{a0}%");
        assert_eq!(load_text(0.6), "60\u{a0}%");
        assert_eq!(load_text(0.125), "12.5\u{a0}%");
        assert_eq!(micros(1500.0), "1.5\u{a0}ms");
        assert_eq!(micros(100.0), "100\u{a0}µs");
        assert_eq!(bytes(64_000.0), "64\u{a0}KB");
        assert_eq!(number(f64::NAN), "—");
    }

    #[test]
    fn markup_in_names_is_defused() {
        assert_eq!(esc("<script>\"&'\u{1}"), "&lt;script&gt;&quot;&amp;&#39;\u{fffd}");
    }

    #[test]
    fn lists_read_as_a_sentence() {
        assert_eq!(join(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        let many: Vec<String> = (1..=7).map(|n| n.to_string()).collect();
        assert_eq!((join_few(&many), join_few(&many[..5])), ("1, 2, 3, 4 and 3 others".into(), join(&many[..5])));
        assert_eq!(plural(1, "flow"), "1 flow");
        assert_eq!(plural(1200, "flow"), "1,200 flows");
    }
}
