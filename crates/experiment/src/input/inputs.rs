//! Files an experiment refers to. They are read once, relative to the experiment file, and copied
//! to the results folder so that it can repeat the experiment on its own.

use std::path::{Path, PathBuf};

use config::diagnostic::FileError;
use config::section::Section;

/// Prefix of a workload that is a file.
pub(crate) const WORKLOAD_FILE: &str = "file:path=";

/// Hint for files that cannot be read.
const PATHS_COUNT_FROM: &str =
    "paths are relative to the folder of the experiment file, and on the command line to the current folder";

/// A file an experiment refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Path in the experiment file.
    pub written: String,
    /// Name in the `inputs` folder of the results.
    pub stored: String,
    pub text: String,
}

/// All referenced files, read on first use.
#[derive(Debug)]
pub(crate) struct Inputs {
    base: PathBuf,
    pub files: Vec<Input>,
}

impl Inputs {
    /// Creates an empty collection; paths are relative to `base`.
    pub fn new(base: &Path) -> Inputs {
        Inputs { base: base.to_owned(), files: Vec::new() }
    }

    /// Returns the text of a file, or the reason why it cannot be read.
    pub fn read(&mut self, written: &str) -> Result<String, String> {
        if let Some(input) = self.files.iter().find(|input| input.written == written) {
            return Ok(input.text.clone());
        }
        let text = std::fs::read_to_string(self.base.join(written)).map_err(|error| error.to_string())?;
        let stored = self.stored_name(written);
        self.files.push(Input { written: written.to_owned(), stored, text: text.clone() });
        Ok(text)
    }

    /// Returns name and text of the file that a key names.
    pub fn of<'a>(&mut self, section: &Section<'a>, key: &str) -> Result<(&'a str, String), FileError> {
        let file = section.text(key)?.unwrap_or_default();
        let unreadable =
            |reason| section.error(key, format!("cannot read {file}")).with_cause(reason).with_hint(PATHS_COUNT_FROM);
        Ok((file, self.read(file).map_err(unreadable)?))
    }

    /// Returns the file name, with a number appended if files of different folders share it.
    fn stored_name(&self, written: &str) -> String {
        let name = Path::new(written).file_name().and_then(|name| name.to_str()).unwrap_or("input");
        let taken = |name: &str| self.files.iter().any(|input| input.stored == name);
        let mut number = 1;
        let mut stored = name.to_owned();
        while taken(&stored) {
            number += 1;
            stored = format!("{number}-{name}");
        }
        stored
    }

    /// Replaces the path of a known file in a value of the key and keeps the rest.
    pub fn replace(&self, key: &str, value: &str, with: impl Fn(&Input) -> String) -> Option<String> {
        let (prefix, path) = match key {
            "topology.file" | "traffic.flow_list" | "traffic.trace" | "traffic.matrix" => ("", value),
            "traffic.workload" => (WORKLOAD_FILE, value.strip_prefix(WORKLOAD_FILE)?),
            _ => return None,
        };
        let input = self.files.iter().find(|input| input.written == path)?;
        Some(format!("{prefix}{}", with(input)))
    }
}
