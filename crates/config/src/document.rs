//! A TOML file as a tree of values with their origin: parsed, overridden, rendered.
//! [`crate::section`] reads typed values from it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::diagnostic::{FileError, SourceLocation};
use crate::keys::Layout;

/// The origin of a key or value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueOrigin {
    /// These bytes of the file.
    Span(Range<usize>),
    /// An argument, such as `--set seeds=3`.
    Argument(Arc<str>),
}

/// A value with its origin.
#[derive(Clone, Debug)]
pub struct Value {
    /// The data, typed as TOML types it.
    pub data: Data,
    /// The location of the value in its file.
    pub at: ValueOrigin,
}

/// The data types of TOML; dates are texts.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the types of TOML")]
pub enum Data {
    Text(String),
    /// A whole number, signed as in TOML or an unsigned 64-bit number such as a datapath id.
    Integer(i128),
    /// A finite number.
    Real(f64),
    Flag(bool),
    List(Vec<Value>),
    Table(Table),
}

/// A table, ordered by key.
pub type Table = BTreeMap<String, Entry>;

/// A key of a table, with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The location of the key in its file.
    pub key_origin: ValueOrigin,
    /// The value of the key.
    pub value: Value,
}

/// A parsed file: its name and text, for messages, and the tree.
#[derive(Clone, Debug)]
pub struct Document {
    /// The file name in messages.
    pub name: String,
    /// The complete text, from which messages quote lines.
    pub text: Arc<str>,
    /// The structure of this kind of file.
    pub layout: &'static Layout,
    /// The top of the file.
    pub root: Table,
}

impl Document {
    /// Parses the text of a file.
    pub fn parse(name: &str, text: &str, layout: &'static Layout) -> Result<Document, FileError> {
        let text: Arc<str> = text.into();
        let table = DeTable::parse(&text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let place = SourceLocation::Text { file: name.to_owned(), text: text.clone(), span };
            let message = error.message().trim().replace('\n', ", ");
            FileError::new(place, "", message)
        })?;
        let mut document = Document { name: name.to_owned(), text: text.clone(), layout, root: Table::new() };
        document.root = convert_table(&document, table.get_ref(), "", &ValueOrigin::Span)?;
        Ok(document)
    }

    /// Returns the location of a key or value.
    pub fn place(&self, at: &ValueOrigin) -> SourceLocation {
        match at {
            ValueOrigin::Span(span) => {
                SourceLocation::Text { file: self.name.clone(), text: self.text.clone(), span: span.clone() }
            }
            ValueOrigin::Argument(argument) => SourceLocation::Argument(argument.to_string()),
        }
    }

    /// Returns an error about `key`, located at `at`.
    pub fn error(&self, at: &ValueOrigin, key: &str, message: impl Into<String>) -> FileError {
        FileError::new(self.place(at), key, message)
    }

    /// Applies an override `key=value`; `argument` is the complete option as the user wrote it.
    pub fn set(&mut self, key: &str, value: &str, argument: &str) -> Result<(), FileError> {
        let argument: Arc<str> = argument.into();
        let at = ValueOrigin::Argument(argument.clone());
        // Text that is not a TOML value is taken as a string, so that `--set
        // traffic.workload=web-search` works.
        let text = format!("value = {value}");
        let parsed = DeTable::parse(&text).ok().filter(|table| table.get_ref().len() == 1);
        let value = match parsed.as_ref().and_then(|table| table.get_ref().values().next()) {
            Some(value) => convert(self, value.get_ref(), key, at, &|_| ValueOrigin::Argument(argument.clone()))?,
            None => Value { data: Data::Text(value.to_owned()), at },
        };
        self.put(key, value)
    }

    /// Puts a value at a dotted key; creates missing tables and enters lists by position.
    ///
    /// # Errors
    /// The key is empty, or passes through a value that is not a table.
    pub fn put(&mut self, key: &str, value: Value) -> Result<(), FileError> {
        let at = value.at.clone();
        if key.split('.').any(|part| part.trim().is_empty()) {
            return Err(self.error(&at, key, "is not a key").with_hint("write `key=value`, such as `seeds=3`"));
        }
        let axis = |flat: &&'static str| Some((*flat, key.strip_prefix(*flat)?.strip_prefix('.')?));
        let parts: Vec<&str> = match self.layout.flat.iter().find_map(axis) {
            Some((flat, axis)) => flat.split('.').chain([axis]).collect(),
            None => key.split('.').map(str::trim).collect(),
        };
        let wrong = self.error(&at, key, "passes through a value that is not a table");
        put_in(&mut self.root, &parts, value).map_err(|()| wrong)
    }

    /// Appends a value to the list at a key of the top; a missing list is created.
    ///
    /// # Errors
    /// The value at the key is not a list.
    pub fn append(&mut self, key: &str, value: Value) -> Result<(), FileError> {
        let at = value.at.clone();
        let entry = self.root.entry(key.to_owned()).or_insert_with(|| Entry {
            key_origin: at.clone(),
            value: Value { data: Data::List(Vec::new()), at: at.clone() },
        });
        let Data::List(items) = &mut entry.value.data else {
            return Err(self.error(&at, key, "cannot be appended: the value at this key is not a list"));
        };
        items.push(value);
        Ok(())
    }

    /// Returns the text of an equivalent file, with the keys in the order of the layout.
    pub fn render(&self) -> String {
        let mut out = String::new();
        render_table(&mut out, "", &self.root, self.layout);
        out
    }
}

fn put_in(table: &mut Table, parts: &[&str], value: Value) -> Result<(), ()> {
    let (first, rest) = parts.split_first().ok_or(())?;
    if rest.is_empty() {
        table.insert((*first).to_owned(), Entry { key_origin: value.at.clone(), value });
        return Ok(());
    }
    let at = value.at.clone();
    let entry = table
        .entry((*first).to_owned())
        .or_insert_with(|| Entry { key_origin: at.clone(), value: Value { data: Data::Table(Table::new()), at } });
    match &mut entry.value.data {
        Data::Table(inner) => put_in(inner, rest, value),
        Data::List(items) => {
            let index: usize = rest[0].parse().map_err(|_| ())?;
            match items.get_mut(index).map(|item| &mut item.data) {
                Some(Data::Table(inner)) if rest.len() > 1 => put_in(inner, &rest[1..], value),
                _ => Err(()),
            }
        }
        _ => Err(()),
    }
}

fn convert_table(
    document: &Document,
    table: &DeTable<'_>,
    path: &str,
    at: &dyn Fn(Range<usize>) -> ValueOrigin,
) -> Result<Table, FileError> {
    let mut out = Table::new();
    for (key, value) in table {
        let name = key.get_ref().to_string();
        let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let value = convert(document, value.get_ref(), &inner, at(value.span()), at)?;
        let is_in = |flat: &&str| path == *flat || path.strip_prefix(flat).is_some_and(|rest| rest.starts_with('.'));
        match value.data {
            // `[sweep.transport] min_rto = […]` is stored as `"transport.min_rto" = […]`.
            Data::Table(inner) if document.layout.flat.iter().any(is_in) => {
                out.extend(inner.into_iter().map(|(key, entry)| (format!("{name}.{key}"), entry)));
            }
            _ => drop(out.insert(name, Entry { key_origin: at(key.span()), value })),
        }
    }
    Ok(out)
}

fn convert(
    document: &Document,
    value: &DeValue<'_>,
    path: &str,
    here: ValueOrigin,
    at: &dyn Fn(Range<usize>) -> ValueOrigin,
) -> Result<Value, FileError> {
    let data = match value {
        DeValue::String(text) => Data::Text(text.to_string()),
        DeValue::Boolean(flag) => Data::Flag(*flag),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number) => Data::Integer(number),
            _ => return Err(document.error(&here, path, "the number is too large")),
        },
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => Data::Real(number),
            _ => return Err(document.error(&here, path, "must be a finite number")),
        },
        DeValue::Array(items) => {
            let items = items.iter().map(|item| convert(document, item.get_ref(), path, at(item.span()), at));
            Data::List(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Data::Table(convert_table(document, table, path, at)?),
        DeValue::Datetime(date) => Data::Text(date.to_string()),
    };
    Ok(Value { data, at: here })
}

impl Value {
    /// Returns the data type for messages.
    pub fn kind(&self) -> &'static str {
        match self.data {
            Data::Text(_) => "text",
            Data::Integer(_) | Data::Real(_) => "a number",
            Data::Flag(_) => "true or false",
            Data::List(_) => "a list",
            Data::Table(_) => "a table",
        }
    }

    /// Returns the value for labels: text without quotes, everything else as in the file.
    pub fn plain(&self) -> String {
        match &self.data {
            Data::Text(text) => text.clone(),
            Data::Table(table) if table.is_empty() => "none".to_owned(),
            Data::List(items) if items.is_empty() => "none".to_owned(),
            _ => self.inline(),
        }
    }

    /// Returns the TOML value on one line.
    pub fn inline(&self) -> String {
        match &self.data {
            Data::Text(text) => quote(text),
            Data::Integer(number) => number.to_string(),
            Data::Real(number) => format!("{number:?}"),
            Data::Flag(flag) => flag.to_string(),
            Data::List(items) => {
                format!("[{}]", items.iter().map(Value::inline).collect::<Vec<_>>().join(", "))
            }
            Data::Table(table) => {
                let pairs =
                    table.iter().map(|(key, entry)| format!("{} = {}", bare_or_quoted(key), entry.value.inline()));
                format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Returns whether the value is written as `[[key]]`; an empty list is a plain value.
fn is_list_of_tables(value: &Value) -> bool {
    match &value.data {
        Data::List(items) => !items.is_empty() && items.iter().all(|item| matches!(item.data, Data::Table(_))),
        _ => false,
    }
}

fn render_table(out: &mut String, path: &str, table: &Table, layout: &Layout) {
    let mut entries: Vec<(&String, &Entry)> = table.iter().collect();
    entries.sort_by_key(|(key, _)| (layout.position(path, key), (*key).clone()));
    let is_block = |value: &Value| matches!(value.data, Data::Table(_)) || is_list_of_tables(value);
    for (key, entry) in entries.iter().filter(|(_, entry)| !is_block(&entry.value)) {
        let _ = writeln!(out, "{} = {}", bare_or_quoted(key), entry.value.inline());
    }
    for (key, entry) in entries.iter().filter(|(_, entry)| is_block(&entry.value)) {
        let inner = if path.is_empty() { bare_or_quoted(key) } else { format!("{path}.{}", bare_or_quoted(key)) };
        match &entry.value.data {
            Data::Table(table) => {
                let _ = writeln!(out, "\n[{inner}]");
                render_table(out, &inner, table, layout);
            }
            Data::List(items) => {
                for item in items {
                    let _ = writeln!(out, "\n[[{inner}]]");
                    if let Data::Table(table) = &item.data {
                        render_table(out, &inner, table, layout);
                    }
                }
            }
            _ => {}
        }
    }
}

fn bare_or_quoted(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { key.to_owned() } else { quote(key) }
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"a \\\"b\\\"\"\nseeds = [1, 2]\n[traffic]\nload = 0.5\n[[failure]]\nat = \"1ms\"\n\
                        [sweep]\ntransport.min_rto = [\"5ms\"]\n\"host.resequencing\" = [\"on\"]\n";

    static LAYOUT: Layout = Layout { keys: &[], repeated: &[], flat: &["sweep"] };

    #[test]
    fn rendering_is_a_fixed_point() {
        let once = Document::parse("t", TEXT, &LAYOUT).unwrap().render();
        assert_eq!(Document::parse("t", &once, &LAYOUT).unwrap().render(), once);
        assert!(once.contains("\"transport.min_rto\" = [\"5ms\"]"), "{once}");
        assert!(once.contains("[[failure]]\nat = \"1ms\""), "{once}");
    }

    #[test]
    fn set_overrides_values_at_every_depth() {
        let mut document = Document::parse("t", TEXT, &LAYOUT).unwrap();
        for (key, value) in [
            ("traffic.load", "[0.1, 0.2]"),
            ("stop.until", "10s"),
            ("failure.0.at", "2ms"),
            ("sweep.switch.ecn", "[\"off\"]"),
        ] {
            document.set(key, value, "--set").unwrap();
        }
        let text = document.render();
        for part in ["load = [0.1, 0.2]", "[stop]\nuntil = \"10s\"", "at = \"2ms\"", "\"switch.ecn\" = [\"off\"]"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let error = document.set("name.x", "1", "--set name.x=1").unwrap_err();
        assert_eq!(error.to_string(), "--set name.x=1: name.x: passes through a value that is not a table");
    }

    #[test]
    fn syntax_error_names_line() {
        let error = Document::parse("bad.toml", "a = 1\nb = = 2\n", &LAYOUT).unwrap_err();
        assert_eq!(error.place.to_string(), "bad.toml:2");
    }

    proptest::proptest! {
        #[test]
        fn quoted_text_parses_to_itself(text in ".{0,30}") {
            let document = Document::parse("t", &format!("a = {}", quote(&text)), &LAYOUT).unwrap();
            let Data::Text(back) = &document.root["a"].value.data else { panic!("not text") };
            proptest::prop_assert_eq!(back, &text);
        }
    }
}
