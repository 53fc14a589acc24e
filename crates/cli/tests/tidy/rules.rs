//! The rules. Each takes text and returns findings, so that a test can plant a fault.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};
use toml::{Table, Value};

use crate::source::{Kind, Prose, Source};

/// Maximum columns of a comment or a line of prose.
const COLUMNS_MAX: usize = 120;
/// Maximum lines of a Rust file.
const FILE_LINES_MAX: usize = 600;
/// A doc comment of at most this many words cannot say more than a name.
const SHORT_DOC_WORDS_MAX: usize = 4;

type Rule = fn(&Source) -> Vec<Finding>;

/// The rules by the names in `ratchet.tsv`.
pub const RULES: [(&str, Rule); 6] = [
    ("banned-words", |file| Glossary::get().banned_words(file)),
    ("long-lines", long_lines),
    ("long-files", long_files),
    ("short-docs", short_docs),
    ("file-names", file_names),
    ("machine-paths", machine_paths),
];

#[derive(Debug)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    /// The text of the line, without indentation.
    pub text: String,
    /// The problem, and its replacement or a description of it.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

impl Finding {
    fn new(file: &Source, line: usize, problem: &str, instead: &str) -> Self {
        let text = file.text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
        Self { path: file.path.clone(), line, text, message: format!("{problem}; write: {instead}") }
    }
}

pub struct Glossary {
    set: RegexSet,
    banned: Vec<(Regex, String)>,
    allowed: Vec<(Regex, Regex)>,
}

impl Glossary {
    /// Returns the glossary of `banned-words.tsv` and `allowed.tsv`, compiled once.
    pub fn get() -> &'static Self {
        static GLOSSARY: LazyLock<Glossary> =
            LazyLock::new(|| Glossary::parse(include_str!("banned-words.tsv"), include_str!("allowed.tsv")));
        &GLOSSARY
    }

    /// Compiles `pattern TAB replacement` rows and `path TAB pattern TAB reason` rows; panics on any other row.
    pub fn parse(banned: &str, allowed: &str) -> Self {
        let banned: Vec<(Regex, String)> =
            table::<2>(banned).map(|[pattern, instead]| (regex(pattern), instead.to_owned())).collect();
        let allowed = table::<3>(allowed).map(|[path, pattern, _]| (regex(path), regex(pattern))).collect();
        let set = RegexSet::new(banned.iter().map(|(pattern, _)| pattern.as_str()));
        Self { set: set.expect("each pattern compiles alone"), banned, allowed }
    }

    /// Returns one finding per line and banned pattern, in comments, string literals and documents outside `data/`.
    pub fn banned_words(&self, file: &Source) -> Vec<Finding> {
        if file.path.starts_with("data/") {
            return Vec::new();
        }
        // `{name:?}` in a format string is code.
        static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| regex(r#"\{[A-Za-z0-9_]*(:[^{}"\s]*)?\}"#));
        let allowed: Vec<&Regex> =
            self.allowed.iter().filter(|(path, _)| path.is_match(&file.path)).map(|(_, pattern)| pattern).collect();
        let mut findings = Vec::new();
        let mut seen = BTreeSet::new();
        for row in file.prose.iter().filter(|row| !row.fenced) {
            // The ellipsis is no word character: a banned word next to an allowed title is still found.
            let placeholder = Some(&*PLACEHOLDER).filter(|_| row.kind == Kind::Literal);
            let exempt = allowed.iter().copied().chain(placeholder);
            let text = exempt.fold(row.text.clone(), |text, exempt| exempt.replace_all(&text, "…").into_owned());
            for index in self.set.matches(&text).into_iter().filter(|index| seen.insert((row.line, *index))) {
                let (pattern, instead) = &self.banned[index];
                let word = pattern.find(&text).map_or("", |found| found.as_str());
                findings.push(Finding::new(file, row.line, &format!("banned `{}`", word.trim()), instead));
            }
        }
        findings
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| panic!("`{pattern}` is not a valid regular expression: {error}"))
}

/// Splits a table into rows of `N` columns, without empty lines and `#` comments.
fn table<const N: usize>(text: &str) -> impl Iterator<Item = [&str; N]> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        columns.try_into().unwrap_or_else(|_| panic!("row `{line}` must have {N} columns separated by tabs"))
    })
}

/// Finds comments and Markdown lines over [`COLUMNS_MAX`] columns. Tables, code blocks and URLs do not count.
pub fn long_lines(file: &Source) -> Vec<Finding> {
    static URL: LazyLock<Regex> = LazyLock::new(|| regex(r"[a-z]+://[^\s)>]+"));
    let lines: Vec<&str> = file.text.lines().collect();
    let columns = |line: usize| URL.replace_all(lines[line - 1], "").chars().count();
    let counts = |row: &&Prose| row.kind != Kind::Literal && !row.fenced && !row.text.starts_with('|');
    let mut rows: Vec<(usize, usize)> =
        file.prose.iter().filter(counts).map(|row| (row.line, columns(row.line))).collect();
    rows.dedup();
    let long = rows.into_iter().filter(|(_, columns)| *columns > COLUMNS_MAX);
    let instead = "lines of at most 100 columns";
    long.map(|(line, columns)| Finding::new(file, line, &format!("prose of {columns} columns"), instead)).collect()
}

pub fn long_files(file: &Source) -> Vec<Finding> {
    let lines = file.text.lines().count();
    let is_long = file.path.ends_with(".rs") && lines > FILE_LINES_MAX;
    let instead = || format!("modules of at most {FILE_LINES_MAX} lines");
    is_long.then(|| Finding::new(file, 1, &format!("file of {lines} lines"), &instead())).into_iter().collect()
}

/// Finds `///` comments of one line and at most [`SHORT_DOC_WORDS_MAX`] words.
pub fn short_docs(file: &Source) -> Vec<Finding> {
    let docs: Vec<_> = file.prose.iter().filter(|row| row.kind == Kind::OuterDoc).collect();
    let blocks = docs.chunk_by(|above, below| above.line + 1 == below.line).filter(|block| block.len() == 1);
    let short = blocks.map(|block| block[0]).filter(|doc| doc.text.split_whitespace().count() <= SHORT_DOC_WORDS_MAX);
    let instead = "unit, range, meaning of `None`, who sets it, or the source";
    short.map(|doc| Finding::new(file, doc.line, &format!("doc comment `{}`", doc.text), instead)).collect()
}

/// Finds Rust files named like their folder (`name/name.rs`) or `utils.rs`.
pub fn file_names(file: &Source) -> Vec<Finding> {
    let mut parts = file.path.rsplit('/');
    let (name, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if name.strip_suffix(".rs") == Some(folder) {
        let instead = format!("`{folder}/mod.rs`, or the name of what the file contains");
        vec![Finding::new(file, 1, &format!("file named like its folder `{folder}`"), &instead)]
    } else if name == "utils.rs" {
        vec![Finding::new(file, 1, "file named `utils.rs`", "the name of what the file contains")]
    } else {
        Vec::new()
    }
}

/// Finds paths of the machine on which the file was written.
pub fn machine_paths(file: &Source) -> Vec<Finding> {
    static PATH: LazyLock<Regex> = LazyLock::new(|| regex("(?:^|[^a-z])(/(?:work|farm)/)"));
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(file.text.lines()) {
        let problems = PATH.captures_iter(text).map(|found| format!("path `{}` of one machine", &found[1]));
        findings.extend(problems.map(|problem| Finding::new(file, line, &problem, "a path below the workspace")));
    }
    findings
}

/// Compares the `[[bin]]` sections of `fuzz/Cargo.toml` with the files of the tree and the root manifest.
pub fn fuzz_targets(root: &Table, fuzz: &Table, paths: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    let excluded = root["workspace"].get("exclude").and_then(Value::as_array);
    if !excluded.is_some_and(|folders| folders.iter().any(|folder| folder.as_str() == Some("fuzz"))) {
        problems.push("Cargo.toml: fuzz/ belongs to the workspace; write: exclude = [\"fuzz\"]".to_owned());
    }
    if !fuzz.contains_key("workspace") {
        problems.push("fuzz/Cargo.toml: fuzz/ is not its own workspace; write: a section [workspace]".to_owned());
    }
    let bins = fuzz.get("bin").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let listed: Vec<String> =
        bins.iter().filter_map(|bin| Some(format!("fuzz/{}", bin.get("path")?.as_str()?))).collect();
    if listed.is_empty() {
        problems.push("fuzz/Cargo.toml: no fuzz target is listed; write: a section [[bin]] for each".to_owned());
    }
    let missing = listed.iter().filter(|path| !paths.contains(&path.as_str()));
    problems.extend(missing.map(|path| format!("fuzz/Cargo.toml: fuzz target `{path}` does not exist")));
    let present = paths.iter().filter(|path| path.starts_with("fuzz/fuzz_targets/") && path.ends_with(".rs"));
    let unlisted = present.filter(|path| !listed.iter().any(|listed| listed == *path));
    problems.extend(unlisted.map(|path| format!("{path}: fuzz target is not listed in fuzz/Cargo.toml")));
    problems
}
