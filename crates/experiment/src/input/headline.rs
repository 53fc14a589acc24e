//! Title and source of an experiment file, read without the rest.

use std::path::Path;

use config::diagnostic::{FileError, SourceLocation};
use config::document::Document;
use config::section::Section;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// The title; without one the question, else the name.
    pub text: String,
    /// Origin of the experiment; empty if the file does not name it.
    pub source: String,
}

impl Headline {
    pub fn read(path: &Path) -> Result<Headline, FileError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            FileError::new(SourceLocation::File(name.clone()), "", "cannot read the experiment file").with_cause(error)
        })?;
        let document = Document::parse(&name, &text, &super::keys::LAYOUT)?;
        let top = Section::top(&document)?;
        let text = match (top.text("title")?, top.text("question")?) {
            (Some(first), _) | (None, Some(first)) => first,
            (None, None) => top.text("name")?.unwrap_or("an experiment"),
        };
        Ok(Headline { text: text.to_owned(), source: top.text("source")?.unwrap_or_default().to_owned() })
    }
}
