//! Files an experiment refers to. They are read once, relative to the experiment file, and copied
//! to the results folder so that it can repeat the experiment on its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::diagnostic::FileError;
use config::section::Section;
use traffic::TaskTrace;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

pub(crate) const WORKLOAD_FILE: &str = "file:path=";

const PATHS_COUNT_FROM: &str =
    "paths are relative to the folder of the experiment file, and on the command line to the current folder";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub written: String,
    /// Name in the `inputs` folder of the results.
    pub stored: String,
    pub text: String,
    pub(crate) digest: u128,
}

/// Placeholder of the number of a rank in the name of its file.
const RANK: &str = "{rank}";

/// An execution trace. Its files are too large to be kept: results have copies of them.
#[derive(Clone, Debug)]
pub struct TraceFiles {
    pub written: String,
    /// Name in the `inputs` folder of the results, perhaps with `{rank}`.
    stored: String,
    paths: Vec<PathBuf>,
    digest: u128,
    trace: Arc<TaskTrace>,
}

impl TraceFiles {
    /// Returns each file with its name in the `inputs` folder of the results.
    pub fn copies(&self) -> impl Iterator<Item = (&Path, String)> {
        let name = |rank: usize| self.stored.replace(RANK, &rank.to_string());
        self.paths.iter().enumerate().map(move |(rank, path)| (path.as_path(), name(rank)))
    }
}

/// A file whose content is hashed as it is read.
struct Hashed<'h> {
    file: File,
    hash: &'h RefCell<Xxh3>,
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hash.borrow_mut().update(&buffer[..count]);
        Ok(count)
    }
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
    pub traces: Vec<TraceFiles>,
}

impl Inputs {
    /// Creates a collection, which [`Inputs::read`] fills.
    pub fn new(from: Context) -> Inputs {
        Inputs { from, files: Vec::new(), traces: Vec::new() }
    }

    pub fn read(&mut self, written: &str) -> Result<String, String> {
        if let Some(input) = self.files.iter().find(|input| input.written == written) {
            return Ok(input.text.clone());
        }
        let text = self.from.read(written).map_err(|error| error.to_string())?;
        let stored = self.stored_name(written);
        let digest = xxh3_128(text.as_bytes());
        self.files.push(Input { written: written.to_owned(), stored, text: text.clone(), digest });
        Ok(text)
    }

    pub fn of<'a>(&mut self, section: &Section<'a>, key: &str) -> Result<(&'a str, String), FileError> {
        let file = section.text(key)?.unwrap_or_default();
        let unreadable =
            |reason| section.error(key, format!("cannot read {file}")).with_cause(reason).with_hint(PATHS_COUNT_FROM);
        Ok((file, self.read(file).map_err(unreadable)?))
    }

    /// Reads the execution trace of `traffic.trace`, which is read once for all variants.
    pub fn task_trace(&mut self, section: &Section<'_>, hosts: usize) -> Result<Arc<TaskTrace>, FileError> {
        let written = section.text("trace")?.unwrap_or_default();
        if let Some(known) = self.traces.iter().find(|known| known.written == written) {
            return Ok(Arc::clone(&known.trace));
        }
        let is_goal = written.to_ascii_lowercase().ends_with(".goal");
        let names = if is_goal { vec![written.to_owned()] } else { self.names_of_ranks(section, written, hosts)? };
        let paths: Vec<PathBuf> = names.iter().map(|name| self.from.folder.join(name)).collect();
        let (hash, mut failure) = (RefCell::new(Xxh3::new()), None);
        let mut files = names.iter().zip(&paths).map_while(|(name, path)| -> Option<(String, Box<dyn BufRead>)> {
            match File::open(path) {
                Ok(file) => Some((name.clone(), Box::new(BufReader::new(Hashed { file, hash: &hash })))),
                Err(error) => {
                    failure = Some((name, error));
                    None
                }
            }
        });
        let read = match is_goal {
            true => files.next().map(|(name, mut input)| traffic::read_goal(&name, &mut *input)),
            false => Some(traffic::read_chakra(written, &mut files)),
        };
        drop(files);
        if let Some((name, error)) = failure {
            let failure = section.error("trace", format!("cannot read {name}"));
            return Err(failure.with_cause(error).with_hint(PATHS_COUNT_FROM));
        }
        let unusable = |cause| section.error("trace", "is not usable").with_cause(cause);
        let trace = read.transpose().map_err(unusable)?.ok_or_else(|| section.error("trace", "names no file"))?;
        let mut stored = self.stored_name(written);
        if !is_goal && !stored.contains(RANK) {
            stored = format!("{RANK}-{stored}");
        }
        let (digest, trace) = (hash.borrow().digest128(), Arc::new(trace));
        self.traces.push(TraceFiles { written: written.to_owned(), stored, paths, digest, trace: Arc::clone(&trace) });
        Ok(trace)
    }

    /// Returns the names of the files of all ranks, from rank 0 to the last that has one.
    fn names_of_ranks(&self, section: &Section<'_>, written: &str, hosts: usize) -> Result<Vec<String>, FileError> {
        if !written.contains(RANK) {
            let error = section.error("trace", "names one file, but Chakra traces have one for each rank");
            return Err(error.with_hint(format!("write {RANK} for the number, such as all_reduce.{RANK}.et")));
        }
        let name = |rank: usize| written.replace(RANK, &rank.to_string());
        let is_there = |rank: &usize| self.from.folder.join(name(*rank)).is_file();
        // One more than there are hosts is too many already.
        let count = (0..=hosts).take_while(is_there).count();
        match (count + 1..=hosts).find(is_there) {
            Some(later) => {
                let message = format!("rank {count} has no file, but rank {later} has `{}`", name(later));
                Err(section.error("trace", message).with_hint("name files that are numbered from 0 without gaps"))
            }
            // A missing first file is reported when it is opened.
            None => Ok((0..count.max(1)).map(name).collect()),
        }
    }

    fn stored_name(&self, written: &str) -> String {
        let name = Path::new(written).file_name().and_then(|name| name.to_str()).unwrap_or("input");
        let known = self.files.iter().map(|input| &input.stored).chain(self.traces.iter().map(|trace| &trace.stored));
        let taken = |name: &str| known.clone().any(|known| known == name);
        let mut number = 1;
        let mut stored = name.to_owned();
        while taken(&stored) {
            number += 1;
            stored = format!("{number}-{name}");
        }
        stored
    }

    /// Returns the text that replaces a path, by the stored name and the digest of its file.
    pub fn replace(&self, key: &str, value: &str, with: impl Fn(&str, u128) -> String) -> Option<String> {
        let (prefix, path) = match key {
            "topology.file" | "traffic.flow_list" | "traffic.trace" | "traffic.matrix" => ("", value),
            "traffic.workload" => (WORKLOAD_FILE, value.strip_prefix(WORKLOAD_FILE)?),
            _ => return None,
        };
        let files = self.files.iter().map(|file| (&file.written, &file.stored, file.digest));
        let traces = self.traces.iter().map(|trace| (&trace.written, &trace.stored, trace.digest));
        let (_, stored, digest) = files.chain(traces).find(|(written, ..)| *written == path)?;
        Some(format!("{prefix}{}", with(stored, digest)))
    }
}
