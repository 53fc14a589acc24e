//! Traffic matrices over time as CSV.
//!
//! `#` lines are comments. The header is `time_s` and one column `from>to` for each pair of nodes;
//! then one row for each time, in seconds and rising, with the rate of each pair in Mbit/s from
//! that time until the next row. The last row holds for as long as the one before it; a single row
//! holds indefinitely.

use std::collections::BTreeSet;

use net::Time;

use super::{ImportError, amount, check_count, missing, time, twice, unknown};

/// Rates between named nodes, changing over time.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficMatrix {
    pub(crate) file: String,
    pub(crate) pairs: Vec<(String, String)>,
    /// When each row begins, counted from the first.
    pub(crate) begins: Vec<Time>,
    /// Mbit/s, row by row.
    pub(crate) rates_mbps: Vec<f64>,
}

pub fn read_matrix(file: &str, text: &str) -> Result<TrafficMatrix, ImportError> {
    let fail = |line: u64, problem| ImportError::new(file, line, problem);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_content = |(_, content): &(u64, &str)| !content.trim().is_empty() && !content.trim_start().starts_with('#');
    let mut lines = (1..).zip(text.lines()).filter(is_content);
    let (line, header) = lines.next().ok_or_else(|| fail(1, missing("the header line, such as `time_s,a>b,b>a`,")))?;
    let pairs = pairs(header).map_err(|problem| fail(line, problem))?;
    let mut matrix = TrafficMatrix { file: file.to_owned(), pairs, begins: Vec::new(), rates_mbps: Vec::new() };
    let (mut first, mut last_line) = (Time::ZERO, line);
    for (line, content) in lines {
        let at = matrix.row(content).map_err(|problem| fail(line, problem))?;
        if matrix.begins.is_empty() {
            first = at;
        }
        let begin = at.saturating_sub(first);
        if matrix.begins.last().is_some_and(|last| begin <= *last) || at < first {
            let problem = "the time is not later than that of the row before; sort the rows by time";
            return Err(fail(line, problem.to_owned()));
        }
        matrix.begins.push(begin);
        last_line = line;
    }
    if matrix.begins.is_empty() {
        return Err(fail(last_line, missing("a row of rates")));
    }
    Ok(matrix)
}

fn pairs(header: &str) -> Result<Vec<(String, String)>, String> {
    let mut names = header.split(',').map(str::trim);
    if names.next() != Some("time_s") {
        return Err(missing("`time_s` as the first column"));
    }
    let mut seen = BTreeSet::new();
    let mut pairs = Vec::new();
    for name in names {
        let ends = name.split_once('>').map(|(from, to)| (from.trim(), to.trim()));
        let ends = ends.filter(|(from, to)| !from.is_empty() && !to.is_empty());
        let (from, to) = ends.ok_or_else(|| unknown(name, "a pair of nodes such as `a>b`"))?;
        if !seen.insert((from, to)) {
            return Err(twice(&format!("column `{name}`")));
        }
        pairs.push((from.to_owned(), to.to_owned()));
    }
    if pairs.is_empty() {
        return Err(missing("a pair of nodes such as `a>b`"));
    }
    Ok(pairs)
}

impl TrafficMatrix {
    fn row(&mut self, content: &str) -> Result<Time, String> {
        check_count("columns", self.pairs.len() + 1, content.split(',').count())?;
        let mut fields = content.split(',').map(str::trim);
        let at = time(fields.next().unwrap_or_default(), "s")?;
        for field in fields {
            self.rates_mbps.push(amount("rate", field, "a number of Mbit/s, 0 or more")?);
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_where_they_belong() {
        let text = "# comment\n\ntime_s, a>b , b>a\n300,1,2.5\n# more\n600,0,4e1\n";
        let matrix = read_matrix("m.csv", text).unwrap();
        assert_eq!(matrix.pairs, [("a".to_owned(), "b".to_owned()), ("b".to_owned(), "a".to_owned())]);
        assert_eq!(matrix.begins, [Time::ZERO, Time::from_s(300)]);
        assert_eq!(matrix.rates_mbps, [1.0, 2.5, 0.0, 40.0]);
    }
}
