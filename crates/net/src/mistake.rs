//! What is wrong with a file a user wrote (an experiment, a configuration), and where it is written.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A mistake in a file; boxed, so that results stay small where all is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError(Box<Mistake>);

/// A mistake: the place, the key, what is wrong with it and what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is written.
    pub place: Place,
    /// The key in full, such as `transport.min_rto`; empty where no key is at fault.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What lies behind it: the message of a reader or builder.
    pub cause: Option<String>,
    /// What would do.
    pub hint: Option<String>,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file whose text is known.
    Text {
        /// Name of the file.
        file: String,
        /// All of it.
        text: Arc<str>,
        /// The bytes at fault.
        span: Range<usize>,
    },
    /// In an argument of the command line, such as `--set traffic.load=2`.
    Argument(String),
    /// In a file as a whole.
    File(String),
}

impl std::ops::Deref for FileError {
    type Target = Mistake;
    fn deref(&self) -> &Mistake {
        &self.0
    }
}

impl FileError {
    /// A mistake about `key`, which may be empty.
    pub fn new(place: Place, key: impl Into<String>, message: impl Into<String>) -> FileError {
        FileError(Box::new(Mistake { place, key: key.into(), message: message.into(), cause: None, hint: None }))
    }
    /// The same with what would do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> FileError {
        self.0.hint = Some(hint.into());
        self
    }
    /// The same with what lies behind it.
    #[must_use]
    pub fn with_cause(mut self, cause: impl fmt::Display) -> FileError {
        self.0.cause = Some(cause.to_string());
        self
    }
    /// `key: message`, or the message alone.
    pub fn headline(&self) -> String {
        if self.key.is_empty() { self.message.clone() } else { format!("{}: {}", self.key, self.message) }
    }
}

impl Place {
    /// Line and column, both counted from 1, of the beginning of a span.
    pub fn position(text: &str, at: usize) -> (usize, usize) {
        // The reader of TOML may point one past the end, and never inside a character; be safe all the same.
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &text[..at];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Text { file, text, span } => write!(f, "{file}:{}", Place::position(text, span.start).0),
            Place::Argument(argument) => write!(f, "{argument}"),
            Place::File(file) => write!(f, "{file}"),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.headline())?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FileError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_from_one_and_survive_odd_offsets() {
        assert_eq!(Place::position("a\nbc\n", 3), (2, 2));
        assert_eq!(Place::position("", 9), (1, 1));
        assert_eq!(Place::position("é", 1), (1, 1));
    }
}
