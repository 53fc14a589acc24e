//! Errors in files that users write (experiments, configurations), with their location.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// An error in a file; boxed, so that results stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError(Box<Diagnostic>);

/// An error with its location, key and hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The location of the value in its file.
    pub place: SourceLocation,
    /// The dotted key, such as `transport.min_rto`; empty if no key is at fault.
    pub key: String,
    /// The violated rule, as a sentence without its subject, such as "must be above zero".
    pub message: String,
    /// The underlying error of a parser or builder.
    pub cause: Option<String>,
    /// An instruction that fixes the error.
    pub hint: Option<String>,
}

/// The location of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceLocation {
    /// A part of a file whose text is known.
    Text {
        /// File name.
        file: String,
        /// Complete text of the file.
        text: Arc<str>,
        /// The bytes at fault.
        span: Range<usize>,
    },
    /// An argument of the command line, such as `--set traffic.load=2`.
    Argument(String),
    /// A file as a whole.
    File(String),
}

impl std::ops::Deref for FileError {
    type Target = Diagnostic;
    fn deref(&self) -> &Diagnostic {
        &self.0
    }
}

impl FileError {
    /// Creates an error about `key`, which may be empty.
    pub fn new(place: SourceLocation, key: impl Into<String>, message: impl Into<String>) -> FileError {
        FileError(Box::new(Diagnostic { place, key: key.into(), message: message.into(), cause: None, hint: None }))
    }
    /// Adds an instruction that the command prints below the message.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> FileError {
        self.0.hint = Some(hint.into());
        self
    }
    /// Adds the error of the system or of a parser that led to this one.
    #[must_use]
    pub fn with_cause(mut self, cause: impl fmt::Display) -> FileError {
        self.0.cause = Some(cause.to_string());
        self
    }
    /// Returns `key: message`, or the message alone.
    pub fn headline(&self) -> String {
        if self.key.is_empty() { self.message.clone() } else { format!("{}: {}", self.key, self.message) }
    }
}

impl SourceLocation {
    /// Returns line and column of a byte offset, both counted from 1.
    pub fn position(text: &str, at: usize) -> (usize, usize) {
        // The TOML parser may point one past the end, but never inside a character.
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &text[..at];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceLocation::Text { file, text, span } => {
                write!(f, "{file}:{}", SourceLocation::position(text, span.start).0)
            }
            SourceLocation::Argument(argument) => write!(f, "{argument}"),
            SourceLocation::File(file) => write!(f, "{file}"),
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
    fn positions_count_from_one_for_any_offset() {
        assert_eq!(SourceLocation::position("a\nbc\n", 3), (2, 2));
        assert_eq!(SourceLocation::position("", 9), (1, 1));
        assert_eq!(SourceLocation::position("é", 1), (1, 1));
    }
}
