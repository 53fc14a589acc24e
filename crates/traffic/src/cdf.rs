//! Reader of flow-size tables: `size_bytes cumulative_probability` lines and `# key: value`.

use crate::import::ImportError;
use crate::sizes::{CdfPoint, Interpolation, SizeDistribution, check_range};

/// How far the last probability may be from 1: files are written with 6 to 15 digits.
const END_TOLERANCE: f64 = 1e-9;

/// Reads a flow-size table. `name` names it in errors and reports.
///
/// `#` starts a comment. The comment `# interpolation: linear|step` says how probability lies
/// between two points; a table without it is read as linear, as most published programs do. A first
/// probability above 0 sits exactly on the first size, and two lines of equal size are an atom.
pub fn parse_cdf(name: &str, text: &str) -> Result<SizeDistribution, ImportError> {
    let fail = |line: u64, problem| ImportError::new(name, line, problem);
    let mut interpolation = None;
    let mut points: Vec<(u64, CdfPoint)> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        if let Some(value) = interpolation_key(content) {
            let value = value.map_err(|problem| fail(line, problem))?;
            if interpolation.is_some_and(|before| before != value) {
                let problem = "the interpolation is given twice, differently; keep one of the lines";
                return Err(fail(line, problem.to_owned()));
            }
            interpolation = Some(value);
        }
        if let Some(point) = point(content).map_err(|problem| fail(line, problem))? {
            points.push((line, point));
        }
    }
    let last_line = text.lines().count().max(1) as u64;
    let none = "there are no points; write lines of `size_bytes cumulative_probability`";
    let (end_line, end) = *points.last().ok_or_else(|| fail(last_line, none.to_owned()))?;
    let in_percent = (end.probability - 100.0).abs() < 1e-6;
    // Only the end becomes 1: a heavy tail within the tolerance can hold most of the bytes.
    if let Some((_, last)) = points.last_mut()
        && (1.0 - END_TOLERANCE..1.0).contains(&last.probability)
    {
        last.probability = 1.0;
    }
    let mut before = CdfPoint { size_bytes: 0.0, probability: 0.0 };
    for (line, point) in &mut points {
        check_point(before, point, in_percent).map_err(|problem| fail(*line, problem))?;
        before = *point;
    }
    if before.probability < 1.0 {
        let end = before.probability;
        return Err(fail(end_line, format!("the last probability is {end}; the table must end at 1")));
    }
    let points: Vec<CdfPoint> = points.into_iter().map(|(_, point)| point).collect();
    let interpolation = interpolation.unwrap_or(Interpolation::Linear);
    let sizes = SizeDistribution::of_points(name.to_owned(), interpolation, &points);
    if sizes.mean_bytes() <= 0.0 {
        return Err(fail(end_line, "all flows have size 0; a flow needs at least 1 byte".to_owned()));
    }
    Ok(sizes)
}

/// The value of an interpolation key in this line, if it holds one.
fn interpolation_key(content: &str) -> Option<Result<Interpolation, String>> {
    let comment = content.trim_start().strip_prefix('#')?;
    let (key, value) = comment.split_once(':')?;
    if key.trim() != "interpolation" {
        return None;
    }
    Some(match value.trim() {
        "linear" => Ok(Interpolation::Linear),
        "step" => Ok(Interpolation::Step),
        other => Err(format!("interpolation `{other}` is unknown; write `# interpolation: linear` or `step`")),
    })
}

/// The point in this line, if it is not blank or a comment.
fn point(content: &str) -> Result<Option<CdfPoint>, String> {
    let content = content.split('#').next().unwrap_or("");
    let columns: Vec<&str> = content.split_whitespace().collect();
    let (size, probability) = match columns[..] {
        [] => return Ok(None),
        [size, probability] => (size, probability),
        _ => {
            let expected = "expected `size_bytes cumulative_probability`, separated by a space";
            return Err(format!("{expected}; this line has {} columns", columns.len()));
        }
    };
    Ok(Some(CdfPoint { size_bytes: number("size", size)?, probability: number("probability", probability)? }))
}

fn number(column: &str, text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Err(_) => Err(format!("`{text}` is not a number")),
        Ok(value) if !value.is_finite() => Err(format!("{column} is {value}; give a finite number")),
        Ok(value) if value < 0.0 => Err(format!("{column} is {value}; it cannot be negative")),
        Ok(value) => Ok(value),
    }
}

/// Compares a point with the one before it; one above 1 by no more than rounding becomes 1.
fn check_point(before: CdfPoint, point: &mut CdfPoint, in_percent: bool) -> Result<(), String> {
    if point.probability > 1.0 && point.probability <= 1.0 + END_TOLERANCE {
        point.probability = 1.0;
    }
    let CdfPoint { size_bytes: size, probability } = *point;
    check_range(size).map_err(|_| format!("size {size} is above 2^53 bytes; check the unit"))?;
    if probability > 1.0 {
        let percent = ": the table seems to be in percent (its last value is 100); divide the second column by 100";
        return Err(format!("probability {probability} is above 1{}", if in_percent { percent } else { "" }));
    }
    if size < before.size_bytes {
        return Err(format!("size {size} is below the {} before it; sort the lines by size", before.size_bytes));
    }
    if probability < before.probability {
        let rule = "cumulative probabilities never fall";
        return Err(format!("probability {probability} is below the {} before it; {rule}", before.probability));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_tables_spread_and_step_tables_do_not() {
        let linear = parse_cdf("t", "# interpolation: linear\n0 0\n100 1\n").unwrap();
        let step = parse_cdf("t", "# interpolation: step\n0 0\n100 1\n").unwrap();
        let silent = parse_cdf("t", "0 0\n100 1\n").unwrap();
        assert_eq!((linear.mean_bytes(), step.mean_bytes()), (50.0, 100.0));
        assert_eq!((linear.quantile(0.25), step.quantile(0.25)), (25, 100));
        assert_eq!(silent, linear);
        // A size of 0 is never drawn.
        assert_eq!(linear.quantile(0.0), 1);
    }

    #[test]
    fn first_probabilities_and_equal_sizes_are_atoms() {
        let first = parse_cdf("t", "100 0.5\n300 1").unwrap();
        assert_eq!(first.mean_bytes(), 0.5 * 100.0 + 0.5 * 200.0);
        assert_eq!(first.quantile(0.5), 100);
        let twin = parse_cdf("t", "100 0\n100 0.5\n300 1 # to the end").unwrap();
        assert_eq!(twin.quantile(0.1), 100);
        assert_eq!(twin.mean_bytes(), first.mean_bytes());
    }

    #[test]
    fn a_tail_within_the_rounding_of_1_is_kept() {
        let sizes = parse_cdf("t", "100 0\n100 0.9999999999\n1e12 0.99999999999\n1e12 1").unwrap();
        assert_eq!(sizes.largest_bytes(), 1_000_000_000_000);
        assert!((sizes.mean_bytes() - 155.0).abs() < 0.1);
        let rounded = parse_cdf("t", "0 0\n10 0.9999999999").unwrap();
        assert_eq!(rounded.mean_bytes(), 5.0);
    }

    #[test]
    fn shares_of_flows_and_bytes_are_exact() {
        let sizes = parse_cdf("t", "0 0\n100 0.5\n100 0.6\n200 1").unwrap();
        assert!((sizes.flows_below(50.0) - 0.25).abs() < 1e-12);
        assert!((sizes.flows_below(100.0) - 0.5).abs() < 1e-12);
        let mean = 0.5 * 50.0 + 0.1 * 100.0 + 0.4 * 150.0;
        assert!((sizes.mean_bytes() - mean).abs() < 1e-12);
        assert!((sizes.bytes_share_above(150.0) - 0.2 * 175.0 / mean).abs() < 1e-12);
    }
}
