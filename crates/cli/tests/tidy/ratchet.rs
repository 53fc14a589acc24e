//! Compares the number of findings with the committed numbers, which only fall.
//!
//! `UPDATE_TIDY=1` lowers numbers and raises none. A number that has to rise, because code has moved from one crate to
//! another, is edited by hand and explained in the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::{env, fs};

use crate::rules::{Finding, RATCHETS, ratchet_findings};
use crate::tree::{Tree, changed_lines, group, workspace};

const PLACES_MAX: usize = 20;
const FILE: &str = "crates/cli/tests/tidy/ratchet.tsv";
/// The command that lowers the committed numbers.
const UPDATE: &str = "UPDATE_TIDY=1 cargo test -p anabranch --test tidy";

/// Numbers of findings by rule and by crate or folder, without zeros.
pub type Counts = BTreeMap<(String, String), usize>;

/// The findings of the tree and the committed numbers.
struct Measured {
    findings: BTreeMap<(String, String), Vec<Finding>>,
    committed: Counts,
}

/// Fails if the findings of a rule in any crate differ from the committed number.
pub fn check(rule: &str) {
    static MEASURED: LazyLock<Measured> = LazyLock::new(measure);
    let Measured { findings, committed } = &*MEASURED;
    let measured: Counts = findings.iter().map(|(key, findings)| (key.clone(), findings.len())).collect();
    let differences = differences(rule, committed, &measured);
    if differences.is_empty() {
        return;
    }
    let changed = changed_lines();
    let is_changed = |finding: &Finding| {
        let overlaps =
            |range: &RangeInclusive<usize>| *range.start() <= finding.last_line && finding.line <= *range.end();
        changed.get(&finding.path).is_some_and(|ranges| ranges.iter().any(overlaps))
    };
    let mut message = String::new();
    for Difference { group, committed, measured } in differences {
        if measured < committed {
            let action = format!("commit the lower number: {UPDATE}");
            message.push_str(&format!("{group}: {measured} findings, committed {committed}; {action}\n"));
            continue;
        }
        let action = format!("remove {} of them", measured - committed);
        message.push_str(&format!("{group}: {measured} findings, committed {committed}; {action}:\n"));
        let key = (rule.to_owned(), group);
        let mut places: Vec<&Finding> = findings.get(&key).into_iter().flatten().collect();
        // The lines of the current change are most likely the new findings.
        places.sort_by_key(|finding| !is_changed(finding));
        for place in places.iter().take(PLACES_MAX) {
            message.push_str(&format!("  {place}{}\n", if is_changed(place) { " [changed line]" } else { "" }));
        }
        if places.len() > PLACES_MAX {
            message.push_str(&format!("  and {} more\n", places.len() - PLACES_MAX));
        }
    }
    panic!("rule {rule}:\n{message}");
}

/// Reads tree and committed numbers. Lowers the committed numbers first if the developer asked for it.
fn measure() -> Measured {
    let mut findings: BTreeMap<(String, String), Vec<Finding>> = BTreeMap::new();
    for file in &Tree::get().files {
        for (rule, found) in RATCHETS.iter().zip(ratchet_findings(file)).filter(|(_, found)| !found.is_empty()) {
            findings.entry(((*rule).to_owned(), group(&file.path).to_owned())).or_default().extend(found);
        }
    }
    let path = workspace().join(FILE);
    let mut committed = fs::read_to_string(&path).ok().map(|text| parse(&text));
    let variable = |name| env::var(name).ok();
    if is_update_allowed(variable("UPDATE_TIDY").as_deref(), variable("CI").as_deref()) {
        let measured = findings.iter().map(|(key, findings)| (key.clone(), findings.len())).collect();
        let lower = lowered(committed.as_ref(), &measured);
        fs::write(&path, render(&lower)).unwrap_or_else(|error| panic!("cannot write {FILE}: {error}"));
        committed = Some(lower);
    }
    let committed = committed.unwrap_or_else(|| panic!("cannot read {FILE}; create it: {UPDATE}"));
    Measured { findings, committed }
}

/// Returns whether the committed numbers may be rewritten: on request, and never in CI.
pub fn is_update_allowed(update: Option<&str>, ci: Option<&str>) -> bool {
    update == Some("1") && ci.is_none_or(|ci| matches!(ci, "" | "0" | "false"))
}

/// Returns the numbers to commit: none rises, except that a missing file is created from the measured numbers.
pub fn lowered(committed: Option<&Counts>, measured: &Counts) -> Counts {
    let Some(committed) = committed else { return measured.clone() };
    let lower = committed.iter().filter_map(|(key, count)| Some((key.clone(), *measured.get(key)?.min(count))));
    lower.collect()
}

#[derive(Debug, PartialEq)]
pub struct Difference {
    /// The crate or folder, as [`group`] returns it.
    pub group: String,
    /// The committed number; 0 without a row.
    pub committed: usize,
    /// The number in the tree.
    pub measured: usize,
}

pub fn differences(rule: &str, committed: &Counts, measured: &Counts) -> Vec<Difference> {
    let keys = committed.keys().chain(measured.keys()).filter(|(name, _)| name == rule);
    let groups: BTreeSet<_> = keys.collect();
    let compare = |key: &(String, String)| Difference {
        group: key.1.clone(),
        committed: committed.get(key).copied().unwrap_or(0),
        measured: measured.get(key).copied().unwrap_or(0),
    };
    groups.into_iter().map(compare).filter(|difference| difference.committed != difference.measured).collect()
}

/// Reads `rule TAB crate-or-folder TAB count` rows; panics on any other row.
pub fn parse(text: &str) -> Counts {
    let row = |line: &str| {
        let mut columns = line.split('\t');
        let rule = columns.next().filter(|rule| RATCHETS.contains(rule))?.to_owned();
        let group = columns.next()?.to_owned();
        let count = columns.next()?.parse().ok().filter(|count| *count > 0)?;
        columns.next().is_none().then_some(((rule, group), count))
    };
    let rows = text.lines().map(|line| row(line).unwrap_or_else(|| panic!("{FILE}: not a valid row: `{line}`")));
    rows.collect()
}

/// Writes the rows that [`parse`] reads.
pub fn render(counts: &Counts) -> String {
    counts.iter().map(|((rule, group), count)| format!("{rule}\t{group}\t{count}\n")).collect()
}
