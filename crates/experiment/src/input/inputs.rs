//! Files an experiment refers to. They are read once, relative to the experiment file, and copied
//! to the results folder so that it can repeat the experiment on its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::diagnostic::FileError;
use config::section::Section;

pub(crate) const WORKLOAD_FILE: &str = "file:path=";

const PATHS_COUNT_FROM: &str =
    "paths are relative to the folder of the experiment file, and on the command line to the current folder";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub written: String,
    /// Name in the `inputs` folder of the results.
    pub stored: String,
    pub text: String,
}

/// The files and balancers that an experiment refers to.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Folder that paths are relative to.
    pub folder: PathBuf,
    /// Texts of files that exist only in memory, by path; they come first.
    pub texts: BTreeMap<String, String>,
    /// Balancers that are not in the registry.
    pub balancers: Vec<&'static balance::Entry>,
}

impl Context {
    /// Returns a context of files only, whose paths are relative to a folder.
    pub fn below(folder: &Path) -> Context {
        Context { folder: folder.to_owned(), ..Context::default() }
    }

    fn read(&self, path: &str) -> std::io::Result<String> {
        self.texts.get(path).map_or_else(|| std::fs::read_to_string(self.folder.join(path)), |text| Ok(text.clone()))
    }
}

#[derive(Debug)]
pub(crate) struct Inputs {
    from: Context,
    pub files: Vec<Input>,
}

impl Inputs {
    /// Creates a collection, which [`Inputs::read`] fills.
    pub fn new(from: Context) -> Inputs {
        Inputs { from, files: Vec::new() }
    }

    pub fn read(&mut self, written: &str) -> Result<String, String> {
        if let Some(input) = self.files.iter().find(|input| input.written == written) {
            return Ok(input.text.clone());
        }
        let text = self.from.read(written).map_err(|error| error.to_string())?;
        let stored = self.stored_name(written);
        self.files.push(Input { written: written.to_owned(), stored, text: text.clone() });
        Ok(text)
    }

    pub fn of<'a>(&mut self, section: &Section<'a>, key: &str) -> Result<(&'a str, String), FileError> {
        let file = section.text(key)?.unwrap_or_default();
        let unreadable =
            |reason| section.error(key, format!("cannot read {file}")).with_cause(reason).with_hint(PATHS_COUNT_FROM);
        Ok((file, self.read(file).map_err(unreadable)?))
    }

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
