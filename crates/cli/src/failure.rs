//! What went wrong, in the form users see it: `error:`, the place, `caused by:`, `hint:`.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;

use experiment::file::{FileError, Place};

/// Why a command ended early.
#[derive(Debug)]
pub enum Failure {
    /// Somebody stopped reading our output.
    BrokenPipe,
    /// A mistake in an experiment.
    File(FileError),
    /// A check found something: not a mistake of whoever gave the command.
    Check(Box<Failure>),
    /// Anything else.
    Other {
        /// What could not be done.
        message: String,
        /// What lies behind it, outermost first.
        causes: Vec<String>,
        /// What would do.
        hint: Option<String>,
    },
}

impl Failure {
    /// From words.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure::Other { message: message.into(), causes: Vec::new(), hint: None }
    }
    /// From an error and what lies behind it.
    pub fn of(error: &dyn Error) -> Failure {
        let mut causes = Vec::new();
        let mut behind = error.source();
        while let Some(cause) = behind {
            causes.push(cause.to_string());
            behind = cause.source();
        }
        Failure::Other { message: error.to_string(), causes, hint: None }
    }
    /// The same as the finding of a check.
    pub fn found_by_check(self) -> Failure {
        Failure::Check(Box::new(self))
    }
    /// What the program answers its caller: 1 if a check failed, 2 otherwise.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Failure::Check(_)) { 1 } else { 2 }
    }
    /// The same with something behind it.
    pub fn caused_by(mut self, cause: impl fmt::Display) -> Failure {
        if let Failure::Other { causes, .. } = &mut self {
            causes.push(cause.to_string());
        }
        self
    }
    /// The same with what would do.
    pub fn with_hint(mut self, words: impl Into<String>) -> Failure {
        if let Failure::Other { hint, .. } = &mut self {
            *hint = Some(words.into());
        }
        self
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure::File(error)
    }
}

impl From<experiment::Error> for Failure {
    fn from(error: experiment::Error) -> Failure {
        let hint = match &error {
            experiment::Error::Interrupted { .. } => Some("give the same command again to go on from there"),
            experiment::Error::Store(experiment::store::StoreError::Write { .. }) => {
                Some("name a folder that can be written to with --out")
            }
            experiment::Error::Store(experiment::store::StoreError::Content { .. }) => {
                Some("move the folder away, or name another one with --out")
            }
            _ => None,
        };
        let failure = Failure::of(&error);
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::new("cannot write the output").caused_by(error),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::BrokenPipe => Ok(()),
            Failure::Check(finding) => fmt::Display::fmt(finding, f),
            Failure::File(error) => {
                writeln!(f, "error: {}", error.headline())?;
                f.write_str(&place(&error.place))?;
                error.cause.iter().try_for_each(|cause| writeln!(f, "caused by: {cause}"))?;
                error.hint.iter().try_for_each(|hint| writeln!(f, "hint: {hint}"))
            }
            Failure::Other { message, causes, hint } => {
                writeln!(f, "error: {message}")?;
                causes.iter().try_for_each(|cause| writeln!(f, "caused by: {cause}"))?;
                hint.iter().try_for_each(|hint| writeln!(f, "hint: {hint}"))
            }
        }
    }
}

/// The place, with the line at fault underlined where there is one.
fn place(place: &Place) -> String {
    let Place::Text { file, text, span } = place else { return format!("  --> {place}\n") };
    let (line, column) = Place::position(text, span.start);
    let content = text.lines().nth(line - 1).unwrap_or("");
    // Tabs are as wide as the terminal likes; one column each keeps the caret in place.
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
        let place = Place::Text { file: "f.toml".into(), text: "a = 1\nload = [0.1, 0]\n".into(), span: 19..20 };
        let error = FileError::new(place, "load", "0 is not a load").with_cause("why").with_hint("what would do");
        let expected = "error: load: 0 is not a load\n --> f.toml:2:14\n  |\n2 | load = [0.1, 0]\n  |              ^\n\
                        caused by: why\nhint: what would do\n";
        assert_eq!(Failure::from(error).to_string(), expected);
    }

    #[test]
    fn spans_beyond_the_text_do_no_harm() {
        for span in [0..0, 5..99, 99..100, 2..3] {
            let text = place(&Place::Text { file: "f".into(), text: "é\nb".into(), span });
            assert!(text.contains('^'), "{text}");
        }
    }
}
