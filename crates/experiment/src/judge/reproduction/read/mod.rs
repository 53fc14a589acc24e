//! Reader of an index and of the experiment files it names.

mod numbers;
mod testbed;

use std::path::Path;

use config::diagnostic::{FileError, SourceLocation};
use config::document::{Data, Document, Value};
use config::section::Section;
use net::did_you_mean::suggestion;

use super::grade::Status;
use super::{Entry, Erratum, Index, Reading, Run};
use crate::input::{Experiment, Override, check_folder_name};

/// Returns whether a file name is that of an index instead of an experiment.
pub fn is_index(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "reproduce.toml")
}

impl Index {
    pub fn load(path: &Path) -> Result<Index, FileError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            FileError::new(SourceLocation::File(name.clone()), "", "cannot read the index").with_cause(error)
        })?;
        let document = Document::parse(&name, &text, &super::keys::LAYOUT)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let top = Section::top(&document)?;
        let mut index = Index {
            document: text_at(&top, "document")?,
            title: text_at(&top, "title")?,
            source: text_at(&top, "source")?,
            path: path.to_owned(),
            entries: top.sections("experiment")?.iter().map(entry).collect::<Result<_, _>>()?,
            readings: Vec::new(),
            runs: Vec::new(),
            testbed: Vec::new(),
            numbers: Vec::new(),
            curves: Vec::new(),
            errata: Vec::new(),
        };
        if index.entries.is_empty() {
            return Err(top.missing("experiment").with_hint("write an [[experiment]] with id, question and section"));
        }
        for section in top.sections("reading")? {
            let reading = reading(&section, &index)?;
            index.readings.push(reading);
        }
        for section in top.sections("run")? {
            let run = run(&section, folder)?;
            if index.runs.iter().any(|other| other.name == run.name) {
                return Err(section.error("name", format!("two runs have the name `{}`", run.name)));
            }
            index.runs.push(run);
        }
        for section in top.sections("testbed")? {
            let run = testbed::testbed(&section, folder, &index)?;
            index.testbed.push(run);
        }
        for section in top.sections("number")? {
            let number = numbers::number_of(&section, &index)?;
            index.numbers.push(number);
        }
        for section in top.sections("curve")? {
            let curve = numbers::curve(&section, &index)?;
            index.curves.push(curve);
        }
        index.errata = top.sections("erratum")?.iter().map(erratum).collect::<Result<_, _>>()?;
        let is_answered = |entry: &&Entry| !index.numbers.iter().any(|number| number.claim.id == entry.id);
        if let Some(entry) = index.entries.iter().find(is_answered) {
            let error = top.error("number", format!("experiment {} has no number", entry.id));
            return Err(error.with_hint("add a [[number]]: an experiment without one has no verdict"));
        }
        Ok(index)
    }
}

fn text_at(section: &Section<'_>, key: &str) -> Result<String, FileError> {
    section.text(key)?.map(str::to_owned).ok_or_else(|| section.missing(key))
}

fn entry(section: &Section<'_>) -> Result<Entry, FileError> {
    Ok(Entry {
        id: text_at(section, "id")?,
        question: text_at(section, "question")?,
        section: text_at(section, "section")?,
        missing: section.text("missing")?.map(str::to_owned),
    })
}

fn reading(section: &Section<'_>, index: &Index) -> Result<Reading, FileError> {
    let (id, name) = (text_at(section, "id")?, text_at(section, "name")?);
    check_id(section, "id", &id, index)?;
    if index.readings.iter().any(|other| other.id == id && other.name == name) {
        return Err(section.error("name", format!("{id} has two readings with the name `{name}`")));
    }
    let status = section.choice("status")?.ok_or_else(|| section.missing("status"))?;
    let status = Status::ALL.into_iter().find(|known| known.as_str() == status).expect("a choice of the layout");
    Ok(Reading { id, name, status, reason: text_at(section, "reason")? })
}

fn erratum(section: &Section<'_>) -> Result<Erratum, FileError> {
    Ok(Erratum {
        id: text_at(section, "id")?,
        says: text_at(section, "says")?,
        arithmetic: text_at(section, "arithmetic")?,
        instead: text_at(section, "instead")?,
    })
}

fn texts(section: &Section<'_>, key: &str) -> Result<Vec<String>, FileError> {
    let text = |value: &Value| match &value.data {
        Data::Text(text) => Ok(text.clone()),
        _ => Err(section.error(key, "must be texts in quotes")),
    };
    section.list(key).into_iter().map(text).collect()
}

fn overrides(section: &Section<'_>, seeds: &str) -> Result<Vec<Override>, FileError> {
    let mut overrides = Vec::new();
    for text in texts(section, "set")? {
        let Some((key, value)) = text.split_once('=') else {
            return Err(section.error("set", format!("`{text}` has no `=`")).with_hint("write \"key=value\""));
        };
        overrides.push(Override::set(key.trim(), value.trim()));
    }
    if let Some(count) = section.count::<u64>(seeds)? {
        overrides.push(Override::set("seeds", &count.to_string()));
    }
    if section.has("balancers") {
        overrides.push(Override::text("balancers", &texts(section, "balancers")?.join(","), "balancers".to_owned()));
    }
    Ok(overrides)
}

fn run(section: &Section<'_>, folder: &Path) -> Result<Run, FileError> {
    let file = text_at(section, "file")?;
    let whole = Experiment::load(&folder.join(&file), &[])?;
    let overrides = overrides(section, "seeds")?;
    let reason = section.text("reason")?.map(str::to_owned);
    if !overrides.is_empty() && reason.is_none() {
        let error = section.missing("reason");
        return Err(error.with_hint("give the reason for not running the file as it is"));
    }
    let experiment =
        if overrides.is_empty() { whole.clone() } else { Experiment::load(&folder.join(&file), &overrides)? };
    let name = section.text("name")?.map_or_else(|| whole.name.clone(), str::to_owned);
    check_folder_name(section, &name)?;
    Ok(Run { name, experiment, file, seeds_of_file: whole.seeds.len(), reason })
}

fn ids(section: &Section<'_>, index: &Index) -> Result<Vec<String>, FileError> {
    let ids = texts(section, "ids")?;
    if ids.is_empty() {
        return Err(section.missing("ids").with_hint("name at least one experiment of the document"));
    }
    ids.iter().try_for_each(|id| check_id(section, "ids", id, index))?;
    Ok(ids)
}

fn check_id(section: &Section<'_>, key: &str, id: &str, index: &Index) -> Result<(), FileError> {
    if index.entries.iter().any(|entry| entry.id == id) {
        return Ok(());
    }
    let error = section.error(key, format!("unknown experiment `{id}`"));
    Err(error.with_hint(suggestion(id, index.entries.iter().map(|entry| entry.id.as_str()))))
}

/// Returns the run that a key names; without a key the only run.
fn run_at(section: &Section<'_>, key: &str, index: &Index) -> Result<usize, FileError> {
    match (section.text(key)?, index.runs.len()) {
        (None, 1) => Ok(0),
        (None, _) => Err(section.missing(key).with_hint("name the [[run]] that measures it")),
        (Some(name), _) => index.runs.iter().position(|run| run.name == name).ok_or_else(|| {
            let error = section.error(key, format!("unknown run `{name}`"));
            error.with_hint(suggestion(name, index.runs.iter().map(|run| run.name.as_str())))
        }),
    }
}
