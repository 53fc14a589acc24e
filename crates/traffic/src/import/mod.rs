//! Flow lists and traces: own CSV, htsim, Facebook coflows, AICB training, traffic matrices.

pub mod aicb;
pub mod coflow;
pub mod csv;
pub mod htsim;
pub mod matrix;

/// A file of flows that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct ImportError {
    pub file: String,
    /// Line, counted from 1; the last one where the file as a whole is wrong.
    pub line: u64,
    /// The violated rule and accepted values.
    pub problem: ImportProblem,
}

/// The errors of a file of flows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportProblem {
    #[error("{0} is missing")]
    Missing(String),
    #[error("`{found}` is unknown here; expected {expected}")]
    Unknown { found: String, expected: &'static str },
    #[error("{0} is there twice")]
    Twice(String),
    #[error("{what} `{found}` is not {expected}")]
    Number { what: &'static str, found: String, expected: &'static str },
    #[error("{what} {found} does not exist; there are {count}, numbered from 0")]
    OutOfRange { what: &'static str, found: u64, count: u64 },
    #[error("host {0} sends to itself; sender and receiver must differ")]
    ToItself(u64),
    #[error("the header promises {promised} {what}, but there are {found}")]
    Count { what: &'static str, promised: u64, found: u64 },
    #[error("{0}; it would never start")]
    NeverStarts(String),
    #[error("{0}")]
    Other(String),
}

impl ImportError {
    fn new(file: &str, line: u64, problem: ImportProblem) -> ImportError {
        ImportError { file: file.to_owned(), line, problem }
    }
}

impl ImportProblem {
    fn missing(what: impl Into<String>) -> ImportProblem {
        ImportProblem::Missing(what.into())
    }
}

fn whole<T: std::str::FromStr>(what: &'static str, text: &str) -> Result<T, ImportProblem> {
    text.parse().map_err(|_| ImportProblem::Number {
        what,
        found: text.to_owned(),
        expected: "a whole number in range",
    })
}

fn size_bytes(text: &str) -> Result<u64, ImportProblem> {
    match whole("size", text)? {
        0 => Err(ImportProblem::Number { what: "size", found: text.to_owned(), expected: "at least 1 byte" }),
        size => Ok(size),
    }
}

fn host(text: &str, host_count: u32) -> Result<net::HostIx, ImportProblem> {
    let found: u64 = whole("host", text)?;
    match u32::try_from(found) {
        Ok(host) if host < host_count => Ok(net::HostIx(host)),
        _ => Err(ImportProblem::OutOfRange { what: "host", found, count: u64::from(host_count) }),
    }
}

/// A time written as a plain decimal number of `unit`; digits below a picosecond are dropped.
fn time(text: &str, unit: &'static str) -> Result<net::Time, ImportProblem> {
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let parsed = plain.then(|| format!("{text}{unit}").parse().ok()).flatten();
    parsed.ok_or_else(|| ImportProblem::Number {
        what: "time",
        found: text.to_owned(),
        expected: "a decimal number, 0 or more, in range",
    })
}
