//! Errors as users see them: `error:`, the location, `caused by:`, `hint:`.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;

use experiment::input::{FileError, SourceLocation};
use experiment::merge::MergeError;
use experiment::store::StoreError;

/// Reason why a command ended early.
#[derive(Debug)]
pub enum CliError {
    /// The reader of the output has read enough.
    BrokenPipe,
    /// Any other reason, with its message.
    Failure(Box<Failure>),
}

/// An error with its place and a hint.
#[derive(Debug, Default)]
pub struct Failure {
    message: String,
    /// Lines that show the place in a file; empty for none.
    place: String,
    causes: Vec<String>,
    /// How to fix the error.
    hint: Option<String>,
    kind: Kind,
}

/// Kinds of failures, by their exit codes.
#[derive(Clone, Copy, Debug, Default)]
enum Kind {
    /// A failed check: not an error of the user.
    Check = 1,
    /// Usage, configuration or environment, as [`CliError::new`] creates it.
    #[default]
    Error = 2,
    /// Ctrl-C: 128 and the number of its signal, as of a program that the signal ended.
    Interrupted = 130,
}

/// Exit code after Ctrl-C, of this program and of the process that runs tasks on a cluster.
pub const INTERRUPTED: u8 = Kind::Interrupted as u8;

impl CliError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> CliError {
        CliError::Failure(Box::new(Failure { message: message.into(), ..Failure::default() }))
    }
    /// Creates an error with the message of another one and of its causes.
    pub fn of(error: &dyn Error) -> CliError {
        let causes = std::iter::successors(error.source(), |&cause| cause.source());
        causes.fold(CliError::new(error.to_string()), CliError::caused_by)
    }
    fn with(mut self, change: impl FnOnce(&mut Failure)) -> CliError {
        if let CliError::Failure(failure) = &mut self {
            change(failure);
        }
        self
    }
    /// Marks the error as the result of a failed check.
    pub fn found_by_check(self) -> CliError {
        self.with(|failure| failure.kind = Kind::Check)
    }
    /// Marks the error as the end of a command by Ctrl-C.
    pub fn interrupted(self) -> CliError {
        self.with(|failure| failure.kind = Kind::Interrupted)
    }
    /// Returns the exit code: 1 if a check failed, 130 after Ctrl-C, 2 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::BrokenPipe => Kind::Error as u8,
            CliError::Failure(failure) => failure.kind as u8,
        }
    }
    /// Adds a cause, shown below the message.
    #[must_use]
    pub fn caused_by(self, cause: impl fmt::Display) -> CliError {
        self.with(|failure| failure.causes.push(cause.to_string()))
    }
    /// Adds advice on what to do.
    #[must_use]
    pub fn with_hint(self, text: impl Into<String>) -> CliError {
        self.with(|failure| failure.hint = Some(text.into()))
    }
}

impl From<FileError> for CliError {
    fn from(error: FileError) -> CliError {
        CliError::new(error.headline()).with(|failure| {
            failure.place = place(&error.place);
            failure.causes.extend(error.cause.clone());
            failure.hint.clone_from(&error.hint);
        })
    }
}

impl From<experiment::Error> for CliError {
    fn from(error: experiment::Error) -> CliError {
        let hint = match &error {
            experiment::Error::Interrupted { .. } => {
                return CliError::of(&error).interrupted().with_hint("repeat the command to resume");
            }
            experiment::Error::Merge(MergeError::Missing { .. }) => {
                Some("run the parts that are missing, all with --no-flows or all without; --partial shows the others")
            }
            experiment::Error::Store(error) => store_hint(error),
            _ => None,
        };
        let failure = CliError::of(&error);
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

fn store_hint(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::Read { .. } => None,
        StoreError::Write { .. } => Some("name a folder that can be written to with --out"),
        StoreError::InUse { .. } => Some("wait until it ends, or name another folder with --out"),
        StoreError::Content { .. } => Some("rename the folder, or name another one with --out"),
        StoreError::ChangedLine { .. } => Some("delete the line; the next `run` into the folder repeats its run"),
        StoreError::ChangedFile { .. } => {
            Some("restore the file, or delete it and repeat the command that wrote the folder")
        }
        StoreError::Unfinished { .. } => Some("repeat the command that writes the folder; finished runs are kept"),
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::BrokenPipe,
            _ => CliError::new("cannot write the output").caused_by(error),
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CliError::Failure(failure) = self else { return Ok(()) };
        let Failure { message, place, causes, hint, .. } = &**failure;
        write!(f, "error: {message}\n{place}")?;
        causes.iter().try_for_each(|cause| writeln!(f, "caused by: {cause}"))?;
        hint.iter().try_for_each(|hint| writeln!(f, "hint: {hint}"))
    }
}

/// Formats a location and underlines the key at fault, if it is known.
fn place(place: &SourceLocation) -> String {
    let SourceLocation::Text { file, text, span } = place else { return format!("  --> {place}\n") };
    let (line, column) = SourceLocation::position(text, span.start);
    let content = text.lines().nth(line - 1).unwrap_or("");
    // Tabs have any width on a terminal; one column each keeps the caret in place.
    let content: String = content.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    let rest = content.chars().count().saturating_sub(column - 1);
    let marked = text.get(span.clone()).unwrap_or("").lines().next().unwrap_or("").chars().count();
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let mut out = String::new();
    let _ = writeln!(out, "{margin}--> {file}:{line}:{column}");
    let _ = writeln!(out, "{margin} |");
    let _ = writeln!(out, "{number} | {content}");
    let _ = writeln!(out, "{margin} | {}{}", " ".repeat(column - 1), "^".repeat(marked.clamp(1, rest.max(1))));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_at_fault_is_underlined() {
        let place =
            SourceLocation::Text { file: "f.toml".into(), text: "a = 1\nload = [0.1, 0]\n".into(), span: 19..20 };
        let error = FileError::new(place, "load", "0 is not a valid load")
            .with_cause("why")
            .with_hint("write a number above zero");
        let expected = "error: load: 0 is not a valid load\n --> f.toml:2:14\n  |\n2 | load = [0.1, 0]\n  |              ^\n\
                        caused by: why\nhint: write a number above zero\n";
        assert_eq!(CliError::from(error).to_string(), expected);
    }

    #[test]
    fn spans_beyond_the_text_do_no_harm() {
        for span in [0..0, 5..99, 99..100, 2..3] {
            let text = place(&SourceLocation::Text { file: "f".into(), text: "é\nb".into(), span });
            assert!(text.contains('^'), "{text}");
        }
    }
}
