//! What an experiment file says of itself, without reading the rest.

use std::path::Path;

use net::document::Document;
use net::mistake::{FileError, Place};
use net::section::Section;

/// The words of an experiment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// Its title, or else its question, or else its name.
    pub words: String,
    /// Where it comes from; empty where it does not say.
    pub source: String,
}

impl Headline {
    /// Reads them.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has keys unknown at the top.
    pub fn read(path: &Path) -> Result<Headline, FileError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            FileError::new(Place::File(name.clone()), "", "cannot read the experiment file").with_cause(error)
        })?;
        let document = Document::parse(&name, &text, &super::keys::LAYOUT)?;
        let top = Section::top(&document)?;
        let words = match (top.text("title")?, top.text("question")?) {
            (Some(words), _) | (None, Some(words)) => words,
            (None, None) => top.text("name")?.unwrap_or("an experiment"),
        };
        Ok(Headline { words: words.to_owned(), source: top.text("source")?.unwrap_or_default().to_owned() })
    }
}
