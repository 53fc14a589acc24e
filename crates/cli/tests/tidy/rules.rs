//! The rules. Each checker takes text and returns findings, so that a test can plant a fault.

use std::fmt;
use std::path::Path;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};
use serde_json::Value;

use crate::source::{Kind, Source, is_word};

/// Maximum columns of a comment or a line of prose.
const COLUMNS_MAX: usize = 120;
/// Maximum lines of a function, from `fn` to the closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Maximum lines of a Rust file.
const FILE_LINES_MAX: usize = 600;
/// A doc comment of at most this many words cannot say more than a name.
const SHORT_DOC_WORDS_MAX: usize = 4;

/// The rules whose findings are counted in `ratchet.tsv`, in the order of [`ratchet_findings`].
pub const RATCHETS: [&str; 5] = ["banned-words", "long-lines", "long-functions", "long-files", "short-docs"];

#[derive(Debug)]
pub struct Finding {
    /// The path below the workspace.
    pub path: String,
    /// The first line of the place, from 1.
    pub line: usize,
    /// The last line of the place; equals `line` except for functions and files.
    pub last_line: usize,
    pub problem: String,
    /// The replacement, or a description of it.
    pub instead: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}; write: {}", self.path, self.line, self.problem, self.instead)
    }
}

impl Finding {
    fn new(path: &str, line: usize, problem: impl Into<String>, instead: &str) -> Self {
        let (path, instead) = (path.to_owned(), instead.to_owned());
        Self { path, line, last_line: line, problem: problem.into(), instead }
    }
}

/// Returns the findings of one file, per rule of [`RATCHETS`].
pub fn ratchet_findings(file: &Source) -> [Vec<Finding>; RATCHETS.len()] {
    let glossary = Glossary::get();
    [glossary.banned_words(file), long_lines(file), long_functions(file), long_files(file), short_docs(file)]
}

/// Fails with all findings of a rule that allows none.
pub fn expect_none(rule: &str, findings: Vec<Finding>) {
    let places: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(places.is_empty(), "rule {rule}, findings: {}\n{}", places.len(), places.join("\n"));
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
        let mut seen: Vec<(usize, usize)> = Vec::new();
        for row in file.prose.iter().filter(|row| !row.fenced) {
            // The ellipsis is no word character: a banned word next to an allowed title is still found.
            let placeholder = Some(&*PLACEHOLDER).filter(|_| row.kind == Kind::Literal);
            let exempt = allowed.iter().copied().chain(placeholder);
            let text = exempt.fold(row.text.clone(), |text, exempt| exempt.replace_all(&text, "…").into_owned());
            for index in self.set.matches(&text) {
                if seen.contains(&(row.line, index)) {
                    continue;
                }
                seen.retain(|(line, _)| *line == row.line);
                seen.push((row.line, index));
                let (pattern, instead) = &self.banned[index];
                let word = pattern.find(&text).map_or("", |found| found.as_str());
                findings.push(Finding::new(&file.path, row.line, format!("banned `{}`", word.trim()), instead));
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
    let columns = |line: usize| {
        let line = lines.get(line - 1).copied().unwrap_or_default();
        line.chars().count() - URL.find_iter(line).map(|url| url.as_str().chars().count()).sum::<usize>()
    };
    let mut rows: Vec<(usize, usize)> = file
        .prose
        .iter()
        .filter(|row| row.kind != Kind::Literal && !row.fenced && !row.text.starts_with('|'))
        .map(|row| (row.line, columns(row.line)))
        .filter(|(_, columns)| *columns > COLUMNS_MAX)
        .collect();
    rows.dedup();
    let instead = "lines of at most 100 columns";
    let finding = |(line, columns)| Finding::new(&file.path, line, format!("prose of {columns} columns"), instead);
    rows.into_iter().map(finding).collect()
}

pub fn long_functions(file: &Source) -> Vec<Finding> {
    let instead = format!("functions of at most {FUNCTION_LINES_MAX} lines, one per step");
    let long = functions(&file.code).into_iter().filter(|(_, first, last)| last - first >= FUNCTION_LINES_MAX);
    long.map(|(name, first, last)| {
        let problem = format!("function `{name}` of {} lines", last - first + 1);
        Finding { last_line: last, ..Finding::new(&file.path, first, problem, &instead) }
    })
    .collect()
}

/// Returns name, first line and last line of every function with a body.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let chars: Vec<char> = code.chars().collect();
    let (mut found, mut line) = (Vec::new(), 1);
    for (at, c) in chars.iter().enumerate() {
        line += usize::from(*c == '\n');
        let starts_word = at == 0 || !is_word(chars[at - 1]);
        if !starts_word || *c != 'f' || chars.get(at + 1) != Some(&'n') {
            continue;
        }
        // `fn(` is a type, `fname` a longer word.
        if !chars.get(at + 2).is_some_and(|c| c.is_whitespace()) {
            continue;
        }
        let start = at + 3;
        let name: String = chars[start..].iter().take_while(|c| is_word(**c) || matches!(c, '$' | '#')).collect();
        if let Some(end) = body_end(&chars[start..]).filter(|_| !name.is_empty()) {
            let breaks = chars[at..start + end].iter().filter(|c| **c == '\n').count();
            found.push((name, line, line + breaks));
        }
    }
    found
}

/// Returns the position of the brace that closes the first block, or `None` if `;` or `}` comes before a block.
fn body_end(signature: &[char]) -> Option<usize> {
    let (mut brackets, mut braces) = (0, 0);
    for (at, c) in signature.iter().enumerate() {
        match c {
            '(' | '[' if braces == 0 => brackets += 1,
            ')' | ']' if braces == 0 => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' if brackets == 0 => braces += 1,
            '}' if brackets == 0 && braces == 0 => return None,
            '}' if brackets == 0 => {
                braces -= 1;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

pub fn long_files(file: &Source) -> Vec<Finding> {
    let lines = file.text.lines().count();
    if !file.is("rs") || lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    let instead = format!("modules of at most {FILE_LINES_MAX} lines");
    vec![Finding { last_line: lines, ..Finding::new(&file.path, 1, format!("file of {lines} lines"), &instead) }]
}

/// Finds `///` comments of one line and at most [`SHORT_DOC_WORDS_MAX`] words.
pub fn short_docs(file: &Source) -> Vec<Finding> {
    let docs: Vec<_> = file.prose.iter().filter(|row| row.kind == Kind::OuterDoc).collect();
    let blocks = docs.chunk_by(|above, below| above.line + 1 == below.line).filter(|block| block.len() == 1);
    let short = blocks.map(|block| block[0]).filter(|doc| doc.text.split_whitespace().count() <= SHORT_DOC_WORDS_MAX);
    let instead = "unit, range, meaning of `None`, who sets it, or the source";
    short.map(|doc| Finding::new(&file.path, doc.line, format!("doc comment `{}`", doc.text), instead)).collect()
}

/// Finds Rust files named like their folder (`name/name.rs`) or `utils.rs`.
pub fn file_names(paths: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in paths.iter().filter(|path| path.ends_with(".rs")) {
        let mut parts = path.rsplit('/');
        let (file, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if file.strip_suffix(".rs") == Some(folder) {
            let instead = format!("`{folder}/mod.rs`, or the name of what the file contains");
            findings.push(Finding::new(path, 1, format!("file named like its folder `{folder}`"), &instead));
        } else if file == "utils.rs" {
            findings.push(Finding::new(path, 1, "file named `utils.rs`", "the name of what the file contains"));
        }
    }
    findings
}

/// Finds paths of the machine on which the file was written.
pub fn machine_paths(file: &Source) -> Vec<Finding> {
    static PATH: LazyLock<Regex> = LazyLock::new(|| regex("(^|[^a-z])/(work|farm)/"));
    matching_lines(
        &PATH,
        file,
        &file.text,
        |path| format!("path `{path}` of one machine"),
        "a path below the workspace",
    )
}

/// Finds `todo!`, `unimplemented!` and `#[ignore]` without a reason in Rust code.
pub fn placeholders(file: &Source) -> Vec<Finding> {
    static MACRO: LazyLock<Regex> = LazyLock::new(|| regex(r"\b(todo|unimplemented)\s*!"));
    static IGNORE: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r#"#\[\s*ignore\s*(=\s*""\s*)?\]|#\[\s*cfg_attr\([^\]]*,\s*ignore\s*(=\s*""\s*)?\)\s*\]"#;
        regex(pattern)
    });
    let problem = |found: &str| format!("`{found}`");
    let mut findings = matching_lines(&MACRO, file, &file.code, problem, "the code, or an error for the caller");
    findings.extend(matching_lines(
        &IGNORE,
        file,
        &file.code,
        problem,
        "#[ignore = \"needs …: command that runs it\"]",
    ));
    findings
}

fn matching_lines(
    pattern: &Regex,
    file: &Source,
    text: &str,
    problem: impl Fn(&str) -> String,
    instead: &str,
) -> Vec<Finding> {
    let finding = |found: regex::Match<'_>| {
        let trimmed = found.as_str().trim();
        let line = 1 + text[..found.end() - 1].matches('\n').count();
        Finding::new(&file.path, line, problem(trimmed), instead)
    };
    pattern.find_iter(text).map(finding).collect()
}

/// Compares the targets of `cargo metadata` for `fuzz/` with the files of the tree and the root manifest.
pub fn fuzz_targets(metadata: &Value, root: &Path, manifest: &str, paths: &[&str]) -> Vec<Finding> {
    static EXCLUDE: LazyLock<Regex> = LazyLock::new(|| regex(r#"(?m)^exclude\s*=\s*\[[^\]]*"fuzz""#));
    let mut findings = Vec::new();
    let fuzz = "fuzz/Cargo.toml";
    let mut add = |path: &str, problem: String, instead: &str| findings.push(Finding::new(path, 1, problem, instead));
    if !EXCLUDE.is_match(manifest) {
        add("Cargo.toml", "fuzz/ belongs to the workspace".into(), "exclude = [\"fuzz\"] below [workspace]");
    }
    if metadata["workspace_root"].as_str().map(Path::new) != Some(&root.join("fuzz")) {
        add(fuzz, "fuzz/ is not its own workspace".into(), "a section [workspace] with members = [\".\"]");
    }
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().map_or(&[][..], Vec::as_slice));
    let sources = targets.filter_map(|target| Path::new(target["src_path"].as_str()?).strip_prefix(root).ok());
    let listed: Vec<String> = sources.map(|path| path.to_string_lossy().into_owned()).collect();
    if listed.is_empty() {
        add(fuzz, "no fuzz target is listed".into(), "a section [[bin]] for each file of fuzz/fuzz_targets");
    }
    for path in listed.iter().filter(|path| !paths.contains(&path.as_str())) {
        add(fuzz, format!("fuzz target `{path}` does not exist"), "the path of an existing file");
    }
    for path in paths.iter().filter(|path| path.starts_with("fuzz/fuzz_targets/") && path.ends_with(".rs")) {
        if !listed.iter().any(|listed| listed == path) {
            add(path, "fuzz target is not listed in fuzz/Cargo.toml".into(), "a section [[bin]] with this path");
        }
    }
    findings
}
