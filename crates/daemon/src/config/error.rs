//! What is wrong with a configuration, and where it is written.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(Box<Mistake>);

/// A mistake: the place, the key, what is wrong with it and what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is written.
    pub place: Place,
    /// The key in full, such as `control.echo_interval`; empty where no key is at fault.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What lies behind it.
    pub cause: Option<String>,
    /// What would do.
    pub hint: Option<String>,
}

/// Where something was written.
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
    /// In a file as a whole.
    File(String),
    /// In an argument of the command line, such as `--balancer`.
    Argument(String),
}

impl std::ops::Deref for ConfigError {
    type Target = Mistake;
    fn deref(&self) -> &Mistake {
        &self.0
    }
}

impl ConfigError {
    /// A mistake about `key`, which may be empty.
    pub fn new(place: Place, key: impl Into<String>, message: impl Into<String>) -> ConfigError {
        ConfigError(Box::new(Mistake { place, key: key.into(), message: message.into(), cause: None, hint: None }))
    }
    /// The same with what would do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> ConfigError {
        self.0.hint = Some(hint.into());
        self
    }
    /// The same with what lies behind it.
    #[must_use]
    pub fn with_cause(mut self, cause: impl fmt::Display) -> ConfigError {
        self.0.cause = Some(cause.to_string());
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Text { file, text, span } => {
                let before = text.get(..span.start).unwrap_or(text);
                write!(f, "{file}:{}", before.matches('\n').count() + 1)
            }
            Place::File(name) | Place::Argument(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        self.cause.iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl std::error::Error for ConfigError {}
