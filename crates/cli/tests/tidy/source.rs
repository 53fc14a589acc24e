//! Splits Rust, TOML and Markdown text into code and prose.

/// A file of the tree, split into code and prose.
pub struct Source {
    /// The path below the workspace, with `/` as separator.
    pub path: String,
    pub text: String,
    /// Rust code without comments; a string literal is `""` if empty and `"_"` otherwise. Line breaks are kept.
    pub code: String,
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

impl Source {
    /// Splits a text by the extension of its path. Other formats have neither code nor prose.
    pub fn parse(path: &str, text: &str) -> Self {
        let (code, mut prose) = match path.rsplit_once('.').map(|(_, extension)| extension) {
            Some("rs") => RustLexer::split(text),
            Some("toml") => (String::new(), toml_comments(text)),
            Some("md") => (String::new(), markdown_lines(text)),
            _ => (String::new(), Vec::new()),
        };
        mark_fenced(&mut prose);
        Self { path: path.to_owned(), text: text.to_owned(), code, prose }
    }

    /// Returns whether the path ends with the extension.
    pub fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, own)| own == extension)
    }
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

fn markdown_lines(text: &str) -> Vec<Prose> {
    let row = |(index, line): (usize, &str)| Prose {
        line: index + 1,
        kind: Kind::Markdown,
        text: line.trim().to_owned(),
        fenced: false,
    };
    text.lines().enumerate().map(row).collect()
}

fn toml_comments(text: &str) -> Vec<Prose> {
    let mut comments = Vec::new();
    let mut multi_line: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if let Some(quotes) = multi_line {
                let Some(end) = rest.find(quotes) else { break };
                rest = &rest[end + quotes.len()..];
                multi_line = None;
            } else if let Some(quotes) = ["\"\"\"", "'''"].into_iter().find(|quotes| rest.starts_with(quotes)) {
                multi_line = Some(quotes);
                rest = &rest[quotes.len()..];
            } else if matches!(first, '"' | '\'') {
                rest = after_string(rest, first);
            } else if first == '#' {
                let text = rest.trim_start_matches('#').trim().to_owned();
                comments.push(Prose { line: index + 1, kind: Kind::Comment, text, fenced: false });
                break;
            } else {
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    comments
}

/// Returns what follows a TOML string of one line; `rest` begins with its quote.
fn after_string(rest: &str, quote: char) -> &str {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            _ if c == quote => return &rest[at + 1..],
            _ => {}
        }
    }
    ""
}

/// Reads Rust text once, from the first character to the last.
struct RustLexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    code: String,
    prose: Vec<Prose>,
}

impl RustLexer {
    fn split(text: &str) -> (String, Vec<Prose>) {
        let chars = text.chars().collect();
        let mut lexer = Self { chars, at: 0, line: 1, code: String::with_capacity(text.len()), prose: Vec::new() };
        while let Some(c) = lexer.peek(0) {
            match c {
                '/' if lexer.peek(1) == Some('/') => lexer.line_comment(),
                '/' if lexer.peek(1) == Some('*') => lexer.block_comment(),
                '"' | 'b' | 'c' | 'r' => lexer.literal_or_code(),
                '\'' => lexer.char_or_lifetime(),
                _ => lexer.code_char(),
            }
        }
        (lexer.code, lexer.prose)
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Consumes one character and counts lines.
    fn next(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        if c == '\n' {
            self.line += 1;
            self.code.push('\n');
        }
        Some(c)
    }

    fn code_char(&mut self) {
        if let Some(c) = self.next().filter(|c| *c != '\n') {
            self.code.push(c);
        }
    }

    fn push(&mut self, line: usize, kind: Kind, text: &str) {
        let text = text.trim();
        // An empty doc line separates two paragraphs; any other empty line carries nothing.
        if !text.is_empty() || matches!(kind, Kind::OuterDoc | Kind::InnerDoc) {
            self.prose.push(Prose { line, kind, text: text.to_owned(), fenced: false });
        }
    }

    fn line_comment(&mut self) {
        let mut text = String::new();
        while self.peek(0).is_some_and(|c| c != '\n') {
            text.extend(self.next());
        }
        let kind = match text.as_bytes() {
            [b'/', b'/', b'/', b'/', ..] => Kind::Comment,
            [b'/', b'/', b'/', ..] => Kind::OuterDoc,
            [b'/', b'/', b'!', ..] => Kind::InnerDoc,
            _ => Kind::Comment,
        };
        let text = text.trim_start_matches('/');
        self.push(self.line, kind, text.strip_prefix('!').unwrap_or(text));
    }

    fn block_comment(&mut self) {
        let (mut depth, mut text) = (0, String::new());
        loop {
            let line = self.line;
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (Some('\n') | None, _) => {
                    self.push(line, Kind::Comment, text.trim_start_matches([' ', '*', '!']));
                    text.clear();
                    if self.next().is_none() {
                        return;
                    }
                    continue;
                }
                (Some(c), _) => {
                    text.push(c);
                    self.at += 1;
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                self.push(line, Kind::Comment, text.trim_start_matches([' ', '*', '!']));
                return;
            }
        }
    }

    /// Reads a string literal with its prefix (`b`, `c`, `r`, `br`, `cr`), or one character of an identifier.
    fn literal_or_code(&mut self) {
        let inside_word = self.at > 0 && is_word(self.chars[self.at - 1]);
        let prefix = usize::from(matches!(self.peek(0), Some('b' | 'c')));
        let raw = self.peek(prefix) == Some('r');
        let quote = prefix + usize::from(raw);
        let hashes = if raw { (quote..).take_while(|at| self.peek(*at) == Some('#')).count() } else { 0 };
        if self.peek(quote + hashes) != Some('"') || (inside_word && quote > 0) {
            return self.code_char();
        }
        self.at += quote + hashes + 1;
        self.code.push('"');
        let start = self.at;
        let end = if raw { self.raw_string(hashes) } else { self.escaped_string() };
        self.code.push_str(if end > start { "_\"" } else { "\"" });
    }

    /// Consumes a raw string and its closing quote. Returns the position of that quote.
    fn raw_string(&mut self, hashes: usize) -> usize {
        let mut text = String::new();
        loop {
            let (line, at) = (self.line, self.at);
            let c = self.peek(0);
            let closes = c == Some('"') && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if closes || matches!(c, None | Some('\n')) {
                self.push(line, Kind::Literal, &text);
                text.clear();
            }
            if closes || c.is_none() {
                self.at += 1 + hashes;
                return at;
            }
            text.extend(self.next().filter(|c| *c != '\n'));
        }
    }

    /// Consumes a string with escapes and its closing quote. Returns the position of that quote.
    fn escaped_string(&mut self) -> usize {
        let mut text = String::new();
        loop {
            let (line, at) = (self.line, self.at);
            let c = self.next();
            let escaped = if c == Some('\\') { self.next() } else { None };
            match (c, escaped) {
                (None | Some('"' | '\n'), _) | (_, Some('\n' | 'n')) => {
                    self.push(line, Kind::Literal, &text);
                    text.clear();
                }
                (_, Some(quoted @ ('"' | '\'' | '\\'))) => text.push(quoted),
                (_, Some(_)) => text.push(' '),
                (Some(c), None) => text.push(c),
            }
            if matches!(c, None | Some('"')) {
                return at;
            }
        }
    }

    /// Consumes a character literal, or the quote of a lifetime.
    fn char_or_lifetime(&mut self) {
        self.code.push('\'');
        self.at += 1;
        if self.peek(0) == Some('\\') {
            self.at += 2;
            while self.peek(0).is_some_and(|c| c != '\'') {
                self.at += 1;
            }
            self.at += 1;
        } else if self.peek(1) == Some('\'') {
            self.at += 2;
        } else {
            return;
        }
        self.code.push_str("_'");
    }
}

/// Returns whether an identifier may contain the character.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
