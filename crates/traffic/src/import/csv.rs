//! Flow lists as CSV, read and written without loss.
//!
//! ```text
//! # description: what the list is
//! id,src,dst,size_bytes,start_us,after,group
//! 0,0,5,1000000,0,,0
//! 1,0,6,1000000,2.5,0,0
//! ```
//!
//! Columns come in any order, named by the header. `src`, `dst`: host numbers from 0. `size_bytes`:
//! payload, at least 1. One of `start_ps`, `start_ns`, `start_us`, `start_ms`, `start_s`: when it
//! starts, decimals allowed. Optional: `id` (default the position of the row, from 0), `after` (the
//! id of a flow: this one starts when that one is delivered, plus its start column), `group` (job,
//! coflow or collective, default 0), `after_group` (`3` or `3-18`: this one starts when every flow
//! of these groups is delivered, plus its start column). `#` starts a comment line; `\n`, `\r` and
//! `\\` in a description are escapes of the characters.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use net::{Time, Topology};

use super::{ImportError, check_count, ends, missing, never_starts, not, size_bytes, time, twice, unknown, whole};
use crate::flow::{Flow, FlowList, Start};
use crate::triggers::BadTrigger;

const COLUMNS: &str =
    "id, src, dst, size_bytes, start_ps, start_ns, start_us, start_ms, start_s, after, group, after_group";
const DESCRIPTION: &str = "# description: ";

/// Reads a CSV flow list for the hosts of `topology`. `file` names it in errors.
///
/// The list is sorted by start; rows that start `after` another keep their positions.
pub fn read_csv(file: &str, text: &str, topology: &Topology) -> Result<FlowList, ImportError> {
    let fail = |line: u64, problem| ImportError::new(file, line, problem);
    let mut columns = None;
    let mut rows: Vec<Row> = Vec::new();
    // Spreadsheets begin UTF-8 files with a byte-order mark.
    let content = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, content) in (1..).zip(content.lines()) {
        let Some(fields) = fields(content) else { continue };
        match &columns {
            None => columns = Some(Columns::of(&fields).map_err(|problem| fail(line, problem))?),
            Some(columns) => {
                let position = rows.len() as u32;
                let row = columns.row(&fields, line, position, topology.hosts().len() as u32);
                rows.push(row.map_err(|problem| fail(line, problem))?);
            }
        }
    }
    if columns.is_none() {
        let header = "the header line, such as `src,dst,size_bytes,start_ns`,";
        return Err(fail(1, missing(header)));
    }
    let mut by_id = BTreeMap::new();
    for (position, row) in rows.iter().enumerate() {
        if by_id.insert(row.id, position as u32).is_some() {
            return Err(fail(row.line, twice(&format!("id {}", row.id))));
        }
    }
    let mut flows = Vec::with_capacity(rows.len());
    for row in &rows {
        flows.push(row.flow(&by_id).map_err(|problem| fail(row.line, problem))?);
    }
    FlowList::sorted(flows, description(text)).map_err(|bad| {
        let Row { line, id, after_groups, .. } = rows[bad.place()];
        let problem = match (bad, after_groups) {
            (BadTrigger::Missing(_), Some((first, last))) => {
                never_starts(&format!("it waits for groups {first} to {last}, of which there are no flows"))
            }
            (BadTrigger::TooWide(_), _) => "the ranges of `after_group` are too many and too wide".to_owned(),
            _ => never_starts(&format!("flow {id} waits, directly or through others, for itself")),
        };
        fail(line, problem)
    })
}

/// Writes a flow list as CSV; [`read_csv`] reads it back if it is sorted by start. Flows that wait
/// for tasks are marked with `after-tasks`, which it refuses.
pub fn write_csv(list: &FlowList) -> String {
    let mut text = String::new();
    if !list.description.is_empty() {
        let escaped = list.description.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
        let _ = writeln!(text, "{DESCRIPTION}{escaped}");
    }
    // The column of the rarest kind of start is written where there is one.
    let has_barriers = list.flows.iter().any(|flow| matches!(flow.start, Start::AfterGroups { .. }));
    text.push_str("id,src,dst,size_bytes,start_ps,after,group");
    text.push_str(if has_barriers { ",after_group\n" } else { "\n" });
    for (id, flow) in list.flows.iter().enumerate() {
        let (start, after, groups) = match flow.start {
            Start::At(time) => (time, String::new(), String::new()),
            Start::After { flow, delay } => (delay, flow.to_string(), String::new()),
            Start::AfterGroups { first, last, delay } => (delay, String::new(), format!("{first}-{last}")),
            // A reader refuses it, since a list does not have the tasks.
            Start::AfterTasks => (Time::ZERO, "after-tasks".to_owned(), String::new()),
        };
        let (src, dst, size, ps) = (flow.src.0, flow.dst.0, flow.size_bytes, start.as_ps());
        let _ = write!(text, "{id},{src},{dst},{size},{ps},{after},{}", flow.group);
        let _ = if has_barriers { writeln!(text, ",{groups}") } else { writeln!(text) };
    }
    text
}

/// The fields of a line; none for comments and blank lines. Every field is a number or a column
/// name, so there is nothing to escape; quotes around a whole field are dropped.
fn fields(line: &str) -> Option<Vec<&str>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    Some(line.split(',').map(unquoted).collect())
}

fn unquoted(field: &str) -> &str {
    let field = field.trim();
    let inside = field.strip_prefix('"').and_then(|field| field.strip_suffix('"'));
    inside.unwrap_or(field)
}

/// One line, before the flow it waits for is looked up.
struct Row {
    line: u64,
    id: u64,
    after: Option<u64>,
    after_groups: Option<(u32, u32)>,
    start: Time,
    flow: Flow,
}

impl Row {
    fn flow(&self, by_id: &BTreeMap<u64, u32>) -> Result<Flow, String> {
        let start = match (self.after, self.after_groups) {
            (None, None) => Start::At(self.start),
            (None, Some((first, last))) => Start::AfterGroups { first, last, delay: self.start },
            (Some(_), Some(_)) => {
                return Err("`after` and `after_group` exclude each other; keep one".to_owned());
            }
            (Some(id), None) => {
                let absent = || never_starts(&format!("it waits for flow {id}, which is not in the file"));
                Start::After { flow: by_id.get(&id).copied().ok_or_else(absent)?, delay: self.start }
            }
        };
        Ok(Flow { start, ..self.flow })
    }
}

struct Columns {
    count: usize,
    src: usize,
    dst: usize,
    size: usize,
    start: usize,
    start_unit: &'static str,
    id: Option<usize>,
    after: Option<usize>,
    group: Option<usize>,
    after_group: Option<usize>,
}

impl Columns {
    fn of(names: &[&str]) -> Result<Columns, String> {
        for (ix, name) in names.iter().enumerate() {
            if !COLUMNS.split(", ").any(|column| column == *name) {
                return Err(unknown(name, COLUMNS));
            }
            if names[..ix].contains(name) {
                return Err(twice(&format!("column `{name}`")));
            }
        }
        let find = |name: &str| names.iter().position(|column| *column == name);
        let need = |name: &str| find(name).ok_or_else(|| missing(&format!("column `{name}`")));
        let units = ["ps", "ns", "us", "ms", "s"];
        let mut starts = units.iter().filter_map(|unit| find(&format!("start_{unit}")).map(|ix| (ix, *unit)));
        let (start, start_unit) = starts.next().ok_or_else(|| missing("a start column, such as `start_ns`,"))?;
        if starts.next().is_some() {
            return Err(twice("the start column"));
        }
        Ok(Columns {
            count: names.len(),
            src: need("src")?,
            dst: need("dst")?,
            size: need("size_bytes")?,
            start,
            start_unit,
            id: find("id"),
            after: find("after"),
            group: find("group"),
            after_group: find("after_group"),
        })
    }

    fn row(&self, record: &[&str], line: u64, position: u32, host_count: u32) -> Result<Row, String> {
        check_count("columns", self.count, record.len())?;
        let optional = |column: Option<usize>| column.map(|ix| record[ix]).filter(|text| !text.is_empty());
        let (src, dst) = ends(record[self.src], record[self.dst], host_count)?;
        let start = time(record[self.start], self.start_unit)?;
        Ok(Row {
            line,
            id: optional(self.id).map_or(Ok(u64::from(position)), |text| whole("id", text))?,
            after: optional(self.after).map(|text| whole("after", text)).transpose()?,
            after_groups: optional(self.after_group).map(groups).transpose()?,
            start,
            flow: Flow {
                src,
                dst,
                size_bytes: size_bytes(record[self.size])?,
                start: Start::At(start),
                group: optional(self.group).map_or(Ok(0), |text| whole("group", text))?,
            },
        })
    }
}

/// `3` or `3-18`.
fn groups(text: &str) -> Result<(u32, u32), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u32, u32) = (whole("after_group", first)?, whole("after_group", last)?);
    if first == 0 || last < first {
        return Err(not("after_group", text, "a group above 0, or a range such as 3-18"));
    }
    Ok((first, last))
}

fn description(text: &str) -> String {
    let found = text.lines().find_map(|line| line.strip_prefix(DESCRIPTION));
    let mut plain = String::new();
    let mut letters = found.unwrap_or_default().chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::single_rack;
    use net::HostIx;
    use proptest::prelude::*;

    #[test]
    fn columns_come_in_any_order_and_unit() {
        let text = "# a comment\nstart_us,dst,src,size_bytes\n7.25,1,0,10\n\n2,2,1,20\n";
        let list = read_csv("t.csv", text, &single_rack(3)).unwrap();
        assert_eq!(list.flows.len(), 2);
        assert_eq!(list.flows[1].start, Start::At(Time::from_ns(7_250)));
        assert_eq!((list.flows[0].src, list.flows[0].size_bytes), (HostIx(1), 20));
    }

    #[test]
    fn triggers_follow_their_flows() {
        let text = "id,src,dst,size_bytes,start_ns,after\n70,0,1,10,9,\n80,1,2,10,5,70\n90,2,0,10,1,\n";
        let list = read_csv("t.csv", text, &single_rack(3)).unwrap();
        let delay = Time::from_ns(5);
        assert_eq!(list.flows[1].start, Start::After { flow: 2, delay });
        assert_eq!(list.flows[2].src, HostIx(0));
    }

    #[test]
    fn barriers_are_kept() {
        let text = "src,dst,size_bytes,start_us,group,after_group\n0,1,10,0,4,\n1,2,10,2,6,4\n2,0,10,0,7,4-6\n";
        let topology = single_rack(3);
        let list = read_csv("t.csv", text, &topology).unwrap();
        assert_eq!(list.flows[1].start, Start::AfterGroups { first: 4, last: 4, delay: Time::from_us(2) });
        assert_eq!(list.flows[2].start, Start::AfterGroups { first: 4, last: 6, delay: Time::ZERO });
        assert_eq!(read_csv("t.csv", &write_csv(&list), &topology).unwrap(), list);
    }

    /// Sender, step to the receiver, size, start, flow waited for, group.
    type Drawn = (u32, u32, u64, u64, Option<u32>, u32);

    fn flow() -> impl Strategy<Value = Drawn> {
        let after = proptest::option::of(0u32..60);
        (0u32..8, 1u32..8, 1u64..u64::MAX, any::<u64>(), after, any::<u32>())
    }

    proptest! {
        #[test]
        fn lists_round_trip(
            flows in proptest::collection::vec(flow(), 0..60),
            description in "[^\u{0}]{0,30}",
        ) {
            let make = |(ix, drawn): (usize, Drawn)| {
                let (src, step, size_bytes, ps, after, group) = drawn;
                // Waiting for earlier flows only leaves no circles.
                let before = after.filter(|_| ix > 0).map(|after| after % ix as u32);
                let time = Time::from_ps(ps);
                Flow {
                    src: HostIx(src),
                    dst: HostIx((src + step) % 8),
                    size_bytes,
                    start: before.map_or(Start::At(time), |flow| Start::After { flow, delay: time }),
                    group,
                }
            };
            let flows = flows.into_iter().enumerate().map(make).collect();
            let list = FlowList::sorted(flows, description).unwrap();
            let back = read_csv("t.csv", &write_csv(&list), &single_rack(8)).unwrap();
            prop_assert_eq!(back, list);
        }
    }
}
