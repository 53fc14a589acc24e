//! Errors as users see them: `error:`, the location, `caused by:`, `hint:`.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;

use experiment::input::{FileError, SourceLocation};

/// Reason why a command ended early.
#[derive(Debug)]
pub enum CliError {
    BrokenPipe,
    File(FileError),
    /// A failed check: not an error of the user.
    Check(Box<CliError>),
    Other {
        message: String,
        causes: Vec<String>,
        /// How to fix the error.
        hint: Option<String>,
    },
}

impl CliError {
    pub fn new(message: impl Into<String>) -> CliError {
        CliError::Other { message: message.into(), causes: Vec::new(), hint: None }
    }
    pub fn of(error: &dyn Error) -> CliError {
        let mut causes = Vec::new();
        let mut behind = error.source();
        while let Some(cause) = behind {
            causes.push(cause.to_string());
            behind = cause.source();
        }
        CliError::Other { message: error.to_string(), causes, hint: None }
    }
    /// Marks the error as the result of a failed check.
    pub fn found_by_check(self) -> CliError {
        CliError::Check(Box::new(self))
    }
    /// Returns the exit code: 1 if a check failed, 2 otherwise.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, CliError::Check(_)) { 1 } else { 2 }
    }
    pub fn caused_by(mut self, cause: impl fmt::Display) -> CliError {
        if let CliError::Other { causes, .. } = &mut self {
            causes.push(cause.to_string());
        }
        self
    }
    pub fn with_hint(mut self, text: impl Into<String>) -> CliError {
        if let CliError::Other { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }
}

impl From<FileError> for CliError {
    fn from(error: FileError) -> CliError {
        CliError::File(error)
    }
}

impl From<experiment::Error> for CliError {
    fn from(error: experiment::Error) -> CliError {
        let hint = match &error {
            experiment::Error::Interrupted { .. } => Some("repeat the command to resume"),
            experiment::Error::Store(experiment::store::StoreError::Write { .. }) => {
                Some("name a folder that can be written to with --out")
            }
            experiment::Error::Store(experiment::store::StoreError::Content { .. }) => {
                Some("rename the folder, or name another one with --out")
            }
            _ => None,
        };
        let failure = CliError::of(&error);
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
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
        match self {
            CliError::BrokenPipe => Ok(()),
            CliError::Check(finding) => fmt::Display::fmt(finding, f),
            CliError::File(error) => {
                writeln!(f, "error: {}", error.headline())?;
                f.write_str(&place(&error.place))?;
                error.cause.iter().try_for_each(|cause| writeln!(f, "caused by: {cause}"))?;
                error.hint.iter().try_for_each(|hint| writeln!(f, "hint: {hint}"))
            }
            CliError::Other { message, causes, hint } => {
                writeln!(f, "error: {message}")?;
                causes.iter().try_for_each(|cause| writeln!(f, "caused by: {cause}"))?;
                hint.iter().try_for_each(|hint| writeln!(f, "hint: {hint}"))
            }
        }
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
