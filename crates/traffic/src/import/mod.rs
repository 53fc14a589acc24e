//! Flow lists and traces from files: our own CSV, htsim connection matrices, Facebook coflows, AICB
//! training traces, traffic matrices.

pub mod aicb;
pub mod coflow;
pub mod csv;
pub mod htsim;
pub mod matrix;

/// A file of flows that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct ImportError {
    /// Name of the file, as given by the caller.
    pub file: String,
    /// Line, counted from 1; the last one where the file as a whole is wrong.
    pub line: u64,
    /// The violated rule and accepted values.
    pub problem: ImportProblem,
}

/// The errors of a file of flows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportProblem {
    /// A required line or column is not there.
    #[error("{0} is missing")]
    Missing(String),
    /// A column or key of no meaning.
    #[error("`{found}` is unknown here; expected {expected}")]
    Unknown { found: String, expected: &'static str },
    /// Something there twice.
    #[error("{0} is there twice")]
    Twice(String),
    /// No whole number, or one out of range.
    #[error("{what} `{found}` is not {expected}")]
    Number {
        /// What it is the number of.
        what: &'static str,
        found: String,
        expected: &'static str,
    },
    /// A host or rack beyond those there are.
    #[error("{what} {found} does not exist; there are {count}, numbered from 0")]
    OutOfRange {
        /// Host or rack.
        what: &'static str,
        found: u64,
        count: u64,
    },
    /// A flow from a host to itself.
    #[error("host {0} sends to itself; sender and receiver must differ")]
    ToItself(u64),
    /// A header that promises another number of lines.
    #[error("the header promises {promised} {what}, but there are {found}")]
    Count { what: &'static str, promised: u64, found: u64 },
    /// A flow waits for something that does not happen.
    #[error("{0}; it would never start")]
    NeverStarts(String),
    /// Anything else, in words.
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

/// A whole number.
fn whole<T: std::str::FromStr>(what: &'static str, text: &str) -> Result<T, ImportProblem> {
    text.parse().map_err(|_| ImportProblem::Number {
        what,
        found: text.to_owned(),
        expected: "a whole number in range",
    })
}

/// A size of at least one byte.
fn size_bytes(text: &str) -> Result<u64, ImportProblem> {
    match whole("size", text)? {
        0 => Err(ImportProblem::Number { what: "size", found: text.to_owned(), expected: "at least 1 byte" }),
        size => Ok(size),
    }
}

/// A host number below `host_count`.
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
