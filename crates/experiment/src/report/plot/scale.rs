//! Axes: positions of values, ticks, and tick labels.

use crate::report::text;

/// Unit of an axis; decides the format of its ticks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::report) enum Unit {
    Plain,
    Micros,
    /// A share of 1, written in per cent.
    Share,
    Bytes,
}

impl Unit {
    pub(in crate::report) fn label(self, value: f64) -> String {
        match self {
            _ if value == 0.0 => "0".to_owned(),
            Unit::Plain => text::short(value),
            Unit::Micros => text::micros(value),
            Unit::Share => format!("{}\u{a0}%", text::short(value * 100.0)),
            Unit::Bytes => text::bytes(value),
        }
    }
}

#[derive(Clone, Debug)]
pub(in crate::report) struct Scale {
    log: bool,
    min: f64,
    max: f64,
    ticks: Vec<f64>,
    pub unit: Unit,
}

impl Scale {
    pub(in crate::report) fn linear(min: f64, max: f64, unit: Unit) -> Scale {
        let max = if max > min { max } else { min + 1.0 };
        let step = nice_step((max - min) / 5.0);
        let first = (min / step + 1e-9).floor();
        let count = ((max / step - 1e-9).ceil() - first).max(1.0) as usize;
        let ticks: Vec<f64> = (0..=count).map(|i| (first + i as f64) * step).collect();
        Scale { log: false, min: ticks[0], max: ticks[count], ticks, unit }
    }

    /// Creates a linear axis between exactly these ends, for time and load, where additional space
    /// would be misleading.
    pub(in crate::report) fn exact(min: f64, max: f64, unit: Unit) -> Scale {
        let mut scale = Scale::linear(min, max, unit);
        scale.min = min;
        scale.max = if max > min { max } else { min + 1.0 };
        let (low, high) = (scale.min - 1e-9 * scale.max.abs(), scale.max * (1.0 + 1e-9));
        scale.ticks.retain(|tick| (low..=high).contains(tick));
        scale
    }

    pub(in crate::report) fn log(min: f64, max: f64, unit: Unit) -> Scale {
        let min = if min > 0.0 { min } else { 1.0 };
        let max = if max > min { max } else { min * 2.0 };
        // The densest set that fits on a narrow screen; beyond decades, every other decade.
        let sets: [&[f64]; 3] = [&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0]];
        let axes = sets.map(|digits| log_ticks(min, max, digits));
        let mut ticks = axes.iter().find(|ticks| ticks.len() <= 7).unwrap_or(&axes[2]).clone();
        if ticks.len() < 3 {
            ticks.clone_from(&axes[1]);
        }
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        let ticks = if ticks.len() > 7 { ticks.into_iter().step_by(2).collect() } else { ticks };
        // Whole decades would leave much of the axis empty: it ends nearer to the values, with or
        // without a label.
        let (low, high) = (low.max(min / 1.5), high.min(max * 1.5));
        let ticks = Vec::from_iter(ticks.into_iter().filter(|tick| (low * 0.999..=high * 1.001).contains(tick)));
        Scale { log: true, min: low, max: high, ticks, unit }
    }

    pub(in crate::report) fn through(values: &[f64], unit: Unit) -> Scale {
        let (first, last) = (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(1.0));
        let ticks = values.iter().copied().step_by(values.len().div_ceil(7).max(1)).collect();
        Scale { ticks, ..Scale::exact(first, last, unit) }
    }

    /// Creates a logarithmic axis if the values span more than `factor`, else a linear one from
    /// `floor`.
    pub(in crate::report) fn fit(values: impl Iterator<Item = f64>, floor: f64, factor: f64, unit: Unit) -> Scale {
        let (mut min, mut max) = (f64::INFINITY, 0f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            (min, max) = (min.min(value), max.max(value));
        }
        if max > min * factor { Scale::log(min, max, unit) } else { Scale::linear(floor, max, unit) }
    }

    pub(in crate::report) fn fraction(&self, value: f64) -> f64 {
        let fraction = if self.log {
            (value.max(self.min) / self.min).ln() / (self.max / self.min).ln()
        } else {
            (value - self.min) / (self.max - self.min)
        };
        if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.0 }
    }

    pub(in crate::report) fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    pub(in crate::report) fn is_log(&self) -> bool {
        self.log
    }
}

/// Returns ticks at these digits in every decade, from the last at or below `min` to the first at
/// or above `max`.
fn log_ticks(min: f64, max: f64, digits: &[f64]) -> Vec<f64> {
    let decades = (min.log10().floor() as i32)..=(max.log10().ceil() as i32);
    let all: Vec<f64> = decades.flat_map(|decade| digits.iter().map(move |d| d * 10f64.powi(decade))).collect();
    let first = all.iter().rposition(|tick| *tick <= min * 1.001).unwrap_or(0);
    let last = all.iter().position(|tick| *tick >= max * 0.999).unwrap_or(all.len() - 1);
    all[first..=last].to_vec()
}

/// Returns the smallest of 1, 2, 2.5, 5, 10 × 10ⁿ that is not below `step`.
fn nice_step(step: f64) -> f64 {
    let decade = 10f64.powf(step.log10().floor());
    let digit = [1.0, 2.0, 2.5, 5.0].into_iter().find(|digit| digit * decade >= step * 0.999);
    digit.unwrap_or(10.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_end_on_round_ticks() {
        let scale = Scale::linear(0.0, 0.93, Unit::Share);
        assert_eq!(scale.ticks().len(), 6);
        assert_eq!(Unit::Share.label(scale.ticks()[5]), "100\u{a0}%");
        assert_eq!(scale.fraction(0.5), 0.5);
    }

    #[test]
    fn log_axes_thin_their_ticks_with_their_span() {
        assert_eq!(Scale::log(12.0, 98.0, Unit::Plain).ticks(), [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(Scale::log(1.1, 2.8, Unit::Plain).ticks(), [1.0, 1.5, 2.0, 3.0]);
        assert_eq!(Scale::log(1.1, 8.0, Unit::Plain).ticks(), [1.0, 2.0, 5.0, 10.0]);
        let wide = Scale::log(12.0, 2.3e6, Unit::Micros);
        assert!(wide.ticks().len() <= 7, "{:?}", wide.ticks());
        assert!((wide.fraction(12.0) - 0.0).abs() < 0.2);
    }

    #[test]
    fn degenerate_ranges_still_give_an_axis() {
        for scale in [
            Scale::linear(0.0, 0.0, Unit::Plain),
            Scale::exact(0.6, 0.6, Unit::Share),
            Scale::log(0.0, 0.0, Unit::Plain),
            Scale::fit(std::iter::empty(), 0.0, 10.0, Unit::Plain),
        ] {
            assert!(scale.fraction(0.5).is_finite() && !scale.ticks().is_empty(), "{scale:?}");
        }
    }
}
