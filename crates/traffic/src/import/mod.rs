//! Flow lists and traces: own CSV, htsim, Facebook coflows, AICB training, execution traces of
//! Chakra and GOAL, traffic matrices.

use net::HostIx;

pub mod aicb;
pub mod chakra;
pub mod coflow;
pub mod csv;
pub mod goal;
pub mod htsim;
pub mod matrix;

/// A file of flows or flow sizes that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", after_colon(*.line))]
pub struct ImportError {
    pub file: String,
    /// Line, counted from 1; the last one where the file as a whole is wrong. 0 for a binary file,
    /// whose problems name the byte.
    pub line: u64,
    /// The violated rule and accepted values.
    pub problem: String,
}

fn after_colon(line: u64) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}

impl ImportError {
    pub(crate) fn new(file: &str, line: u64, problem: String) -> ImportError {
        ImportError { file: file.to_owned(), line, problem }
    }
}

fn missing(what: &str) -> String {
    format!("{what} is missing")
}

fn unknown(found: &str, expected: &str) -> String {
    format!("`{found}` is unknown here; expected {expected}")
}

fn twice(what: &str) -> String {
    format!("{what} is there twice")
}

fn never_starts(why: &str) -> String {
    format!("{why}; it would never start")
}

/// The problem of a text that is not `expected`.
fn not(what: &str, found: &str, expected: &str) -> String {
    format!("{what} `{found}` is not {expected}")
}

fn check_count(what: &str, promised: usize, found: usize) -> Result<(), String> {
    if promised == found {
        return Ok(());
    }
    Err(format!("the header promises {promised} {what}, but there are {found}"))
}

fn whole<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| not(what, text, "a whole number in range"))
}

/// A number of one of `count` things, numbered from 0.
fn number_below(what: &str, text: &str, count: u32) -> Result<u32, String> {
    let found: u64 = whole(what, text)?;
    let below = u32::try_from(found).ok().filter(|found| *found < count);
    below.ok_or_else(|| format!("{what} {found} does not exist; there are {count}, numbered from 0"))
}

/// The sender and the receiver of a flow.
fn ends(src: &str, dst: &str, host_count: u32) -> Result<(HostIx, HostIx), String> {
    let (src, dst) = (number_below("host", src, host_count)?, number_below("host", dst, host_count)?);
    if src == dst {
        return Err(format!("host {src} sends to itself; sender and receiver must differ"));
    }
    Ok((HostIx(src), HostIx(dst)))
}

/// A finite number, 0 or more.
fn amount(what: &str, text: &str, expected: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| not(what, text, expected))
}

fn size_bytes(text: &str) -> Result<u64, String> {
    whole("size", text).and_then(|size| if size == 0 { Err(not("size", text, "at least 1 byte")) } else { Ok(size) })
}

/// A time written as a plain decimal number of `unit`; digits below a picosecond are dropped.
fn time(text: &str, unit: &'static str) -> Result<net::Time, String> {
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let parsed = plain.then(|| format!("{text}{unit}").parse().ok()).flatten();
    parsed.ok_or_else(|| not("time", text, "a decimal number, 0 or more, in range"))
}
