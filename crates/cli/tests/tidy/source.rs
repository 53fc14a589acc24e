//! Splits Rust, TOML and Markdown text into lines of prose.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A file of the tree and its prose.
pub struct Source {
    /// The path below the workspace, with `/` as separator.
    pub path: String,
    pub text: String,
    /// Comments, string literals and Markdown lines in file order.
    pub prose: Vec<Prose>,
}

/// One line of a comment, of a string literal or of a document.
#[derive(Debug, PartialEq)]
pub struct Prose {
    pub line: usize,
    /// The syntax that contains the text.
    pub kind: Kind,
    pub text: String,
    /// Whether the line belongs to a fenced code block.
    pub fenced: bool,
}

/// The syntax that contains a line of prose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A comment in Rust or TOML that is not documentation.
    Comment,
    /// A doc comment that begins with `///`.
    OuterDoc,
    /// A doc comment that begins with `//!`.
    InnerDoc,
    /// A string literal in Rust.
    Literal,
    /// A line of a Markdown document.
    Markdown,
}

/// Comments and literals of Rust. A character is a token, because `'"'` begins no string; a lifetime is not.
static RUST: LazyLock<Regex> = LazyLock::new(|| {
    let raw = r##"\b[bc]?r(?:"(?<raw>[^"]*)"|\#"(?<raw1>.*?)"\#|\#\#"(?<raw2>.*?)"\#\#)"##;
    let comment = r"(?<line>//[^\n]*) | /\*(?<block>.*?)\*/";
    let pattern = format!(r#"(?sx) {comment} | {raw} | "(?<escaped>(?:\\.|[^"\\])*)" | '(?:\\.[^'\n]*|[^'\\])'"#);
    Regex::new(&pattern).expect("a valid pattern")
});
/// Comments and strings of TOML.
static TOML: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?sx) """.*?""" | '''.*?''' | "(?:\\.|[^"\\\n])*" | '[^'\n]*' | (?<line>\#[^\n]*)"#;
    Regex::new(pattern).expect("a valid pattern")
});
/// An escape sequence in a literal.
static ESCAPE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\(.?)").expect("a valid pattern"));

impl Source {
    /// Splits a text by the extension of its path. Other formats have no prose.
    pub fn parse(path: &str, text: &str) -> Self {
        let mut prose = match path.rsplit_once('.').map(|(_, extension)| extension) {
            Some("rs") => tokens(&RUST, text),
            Some("toml") => tokens(&TOML, text),
            Some("md") => (1..).zip(text.lines()).map(|(line, text)| Prose::new(line, Kind::Markdown, text)).collect(),
            _ => Vec::new(),
        };
        mark_fenced(&mut prose);
        Self { path: path.to_owned(), text: text.to_owned(), prose }
    }
}

impl Prose {
    fn new(line: usize, kind: Kind, text: &str) -> Self {
        Self { line, kind, text: text.trim().to_owned(), fenced: false }
    }
}

fn tokens(pattern: &Regex, text: &str) -> Vec<Prose> {
    let mut prose = Vec::new();
    let (mut line, mut end) = (1, 0);
    for token in pattern.captures_iter(text) {
        let start = token.get_match().start();
        line += text[end..start].matches('\n').count();
        end = start;
        let named = |name: &str| token.name(name).map(|group| group.as_str());
        if let Some(comment) = named("line") {
            let kind = match comment.as_bytes() {
                [b'/', b'/', b'/', b'/', ..] => Kind::Comment,
                [b'/', b'/', b'/', ..] => Kind::OuterDoc,
                [b'/', b'/', b'!', ..] => Kind::InnerDoc,
                _ => Kind::Comment,
            };
            let text = comment.trim_start_matches(['/', '#']);
            prose.push(Prose::new(line, kind, text.strip_prefix('!').unwrap_or(text)));
        }
        for (line, row) in (line..).zip(named("block").unwrap_or_default().split('\n')) {
            prose.push(Prose::new(line, Kind::Comment, row.trim_start_matches([' ', '*', '!'])));
        }
        let raw = ["raw", "raw1", "raw2"].into_iter().find_map(named);
        for (line, row) in (line..).zip(raw.unwrap_or_default().split('\n')) {
            prose.push(Prose::new(line, Kind::Literal, row));
        }
        for (line, row) in (line..).zip(named("escaped").unwrap_or_default().split('\n')) {
            let unescape = |escape: &Captures<'_>| match &escape[1] {
                "n" => "\n".to_owned(),
                quoted @ ("\"" | "'" | "\\") => quoted.to_owned(),
                _ => " ".to_owned(),
            };
            let rows = ESCAPE.replace_all(row, unescape);
            prose.extend(rows.split('\n').map(|row| Prose::new(line, Kind::Literal, row)));
        }
    }
    // An empty doc line separates two paragraphs; any other empty line carries nothing.
    prose.retain(|row| !row.text.is_empty() || matches!(row.kind, Kind::OuterDoc | Kind::InnerDoc));
    prose
}

/// Sets [`Prose::fenced`] in Markdown and in doc comments.
fn mark_fenced(prose: &mut [Prose]) {
    let mut fence: Option<String> = None;
    let mut previous = (0, Kind::Literal);
    for row in prose.iter_mut().filter(|row| !matches!(row.kind, Kind::Comment | Kind::Literal)) {
        // A fence ends with its doc comment.
        if (row.line, row.kind) != (previous.0 + 1, previous.1) {
            fence = None;
        }
        previous = (row.line, row.kind);
        row.fenced = fence.is_some();
        let marker: String = match row.text.chars().next() {
            Some(first @ ('`' | '~')) => row.text.chars().take_while(|c| *c == first).collect(),
            _ => continue,
        };
        match &fence {
            Some(open) if row.text.starts_with(open.as_str()) && marker.len() == row.text.len() => fence = None,
            None if marker.len() >= 3 && !row.text[marker.len()..].contains('`') => {
                fence = Some(marker);
                row.fenced = true;
            }
            _ => {}
        }
    }
}
