//! A file a user wrote in TOML (an experiment, a configuration) as a tree of values that know where they were written: parsed,
//! overridden, rendered. [`crate::section`] reads typed values from it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::mistake::{FileError, Place};

/// Where a key or value was written.
#[derive(Clone, Debug, PartialEq)]
pub enum At {
    /// These bytes of the file.
    Span(Range<usize>),
    /// This argument, such as `--set seeds=3`.
    Argument(Arc<str>),
}

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Value {
    /// The value.
    pub data: Data,
    /// Where it was written.
    pub at: At,
}

/// The values TOML has, dates left out: no key takes one.
#[derive(Clone, Debug)]
pub enum Data {
    /// Text.
    Text(String),
    /// A whole number. TOML has 64 bits and a sign; numbers of switches are unsigned ones.
    Integer(i128),
    /// A number that is finite.
    Real(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<Value>),
    /// A table.
    Table(Table),
}

/// A table by key, in the order of its keys.
pub type Table = BTreeMap<String, Entry>;

/// What stands at a key.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where the key was written.
    pub key_at: At,
    /// The value.
    pub value: Value,
}

/// What files of a kind look like.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The keys of a section, and of the top of the file (an empty name) with its sections; `None` for a section that may
    /// have any.
    pub keys: fn(&str) -> Option<Vec<&'static str>>,
    /// Tables whose keys are dotted keys of the rest of the file.
    pub flat: &'static [&'static str],
}

/// The file: its name and text, for messages, and the tree.
#[derive(Clone, Debug)]
pub struct Document {
    /// Name of the file.
    pub name: String,
    /// All of it.
    pub text: Arc<str>,
    /// What files of its kind look like.
    pub layout: &'static Layout,
    /// The top of the file.
    pub root: Table,
}

impl Document {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is no TOML, or has a value that no key takes.
    pub fn parse(name: &str, text: &str, layout: &'static Layout) -> Result<Document, FileError> {
        let text: Arc<str> = text.into();
        let table = DeTable::parse(&text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let place = Place::Text { file: name.to_owned(), text: text.clone(), span };
            let message = error.message().trim().replace('\n', ", ");
            FileError::new(place, "", message)
        })?;
        let mut document = Document { name: name.to_owned(), text: text.clone(), layout, root: Table::new() };
        document.root = convert_table(&document, table.get_ref(), "", &At::Span)?;
        Ok(document)
    }

    /// The place of something in this document.
    pub fn place(&self, at: &At) -> Place {
        match at {
            At::Span(span) => Place::Text { file: self.name.clone(), text: self.text.clone(), span: span.clone() },
            At::Argument(argument) => Place::Argument(argument.to_string()),
        }
    }

    /// An error about `key`, written at `at`.
    pub fn error(&self, at: &At, key: &str, message: impl Into<String>) -> FileError {
        FileError::new(self.place(at), key, message)
    }

    /// Applies one override written as `key=value`; `argument` is how the user wrote the whole option.
    ///
    /// # Errors
    /// As [`Document::put`], and a value that no key takes.
    pub fn set(&mut self, key: &str, value: &str, argument: &str) -> Result<(), FileError> {
        let argument: Arc<str> = argument.into();
        let at = At::Argument(argument.clone());
        // Anything that is no TOML value is meant as text, so that `--set traffic.workload=web-search` works.
        let text = format!("value = {value}");
        let parsed = DeTable::parse(&text).ok().filter(|table| table.get_ref().len() == 1);
        let value = match parsed.as_ref().and_then(|table| table.get_ref().values().next()) {
            Some(value) => convert(self, value.get_ref(), key, at, &|_| At::Argument(argument.clone()))?,
            None => Value { data: Data::Text(value.to_owned()), at },
        };
        self.put(key, value)
    }

    /// Puts a value at a dotted key; tables on the way are made, lists of tables are entered by position.
    ///
    /// # Errors
    /// The key is none, or leads through something that is no table.
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
        let wrong = self.error(&at, key, "goes through something that is not a table");
        put_in(&mut self.root, &parts, value).map_err(|()| wrong)
    }

    /// Adds a value to the list at a key of the top, which is made where there is none.
    ///
    /// # Errors
    /// There is something else at the key.
    pub fn append(&mut self, key: &str, value: Value) -> Result<(), FileError> {
        let at = value.at.clone();
        let entry = self.root.entry(key.to_owned()).or_insert_with(|| Entry {
            key_at: at.clone(),
            value: Value { data: Data::List(Vec::new()), at: at.clone() },
        });
        let Data::List(items) = &mut entry.value.data else {
            return Err(self.error(&at, key, "is added to something that is not a list"));
        };
        items.push(value);
        Ok(())
    }

    /// The text of an equivalent file.
    pub fn render(&self, order: &dyn Fn(&str, &str) -> usize) -> String {
        let mut out = String::new();
        render_table(&mut out, "", &self.root, order);
        out
    }
}

fn put_in(table: &mut Table, parts: &[&str], value: Value) -> Result<(), ()> {
    let (first, rest) = parts.split_first().ok_or(())?;
    if rest.is_empty() {
        table.insert((*first).to_owned(), Entry { key_at: value.at.clone(), value });
        return Ok(());
    }
    let at = value.at.clone();
    let entry = table
        .entry((*first).to_owned())
        .or_insert_with(|| Entry { key_at: at.clone(), value: Value { data: Data::Table(Table::new()), at } });
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
    at: &dyn Fn(Range<usize>) -> At,
) -> Result<Table, FileError> {
    let mut out = Table::new();
    for (key, value) in table {
        let name = key.get_ref().to_string();
        let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let value = convert(document, value.get_ref(), &inner, at(value.span()), at)?;
        let is_in = |flat: &&str| path == *flat || path.strip_prefix(flat).is_some_and(|rest| rest.starts_with('.'));
        if document.layout.flat.iter().any(is_in) {
            flatten(&mut out, name, at(key.span()), value);
        } else {
            out.insert(name, Entry { key_at: at(key.span()), value });
        }
    }
    Ok(out)
}

/// `[sweep.transport] min_rto = […]` is kept as `"transport.min_rto" = […]`.
fn flatten(out: &mut Table, name: String, key_at: At, value: Value) {
    match value.data {
        Data::Table(inner) => {
            for (key, entry) in inner {
                out.insert(format!("{name}.{key}"), entry);
            }
        }
        _ => {
            out.insert(name, Entry { key_at, value });
        }
    }
}

fn convert(
    document: &Document,
    value: &DeValue<'_>,
    path: &str,
    here: At,
    at: &dyn Fn(Range<usize>) -> At,
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
        DeValue::Datetime(_) => return Err(document.error(&here, path, "is a date; no key takes one")),
    };
    Ok(Value { data, at: here })
}

impl Value {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self.data {
            Data::Text(_) => "text",
            Data::Integer(_) | Data::Real(_) => "a number",
            Data::Flag(_) => "true or false",
            Data::List(_) => "a list",
            Data::Table(_) => "a table",
        }
    }

    /// As labels show it: text without quotes, everything else as in the file.
    pub fn plain(&self) -> String {
        match &self.data {
            Data::Text(text) => text.clone(),
            Data::Table(table) if table.is_empty() => "none".to_owned(),
            Data::List(items) if items.is_empty() => "none".to_owned(),
            _ => self.inline(),
        }
    }

    /// As a TOML value on one line.
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

/// A list of tables is written as `[[key]]`; an empty list is a plain value.
fn is_list_of_tables(value: &Value) -> bool {
    match &value.data {
        Data::List(items) => !items.is_empty() && items.iter().all(|item| matches!(item.data, Data::Table(_))),
        _ => false,
    }
}

fn render_table(out: &mut String, path: &str, table: &Table, order: &dyn Fn(&str, &str) -> usize) {
    let mut entries: Vec<(&String, &Entry)> = table.iter().collect();
    entries.sort_by_key(|(key, _)| (order(path, key), (*key).clone()));
    let is_block = |value: &Value| matches!(value.data, Data::Table(_)) || is_list_of_tables(value);
    for (key, entry) in entries.iter().filter(|(_, entry)| !is_block(&entry.value)) {
        let _ = writeln!(out, "{} = {}", bare_or_quoted(key), entry.value.inline());
    }
    for (key, entry) in entries.iter().filter(|(_, entry)| is_block(&entry.value)) {
        let inner = if path.is_empty() { bare_or_quoted(key) } else { format!("{path}.{}", bare_or_quoted(key)) };
        match &entry.value.data {
            Data::Table(table) => {
                let _ = writeln!(out, "\n[{inner}]");
                render_table(out, &inner, table, order);
            }
            Data::List(items) => {
                for item in items {
                    let _ = writeln!(out, "\n[[{inner}]]");
                    if let Data::Table(table) = &item.data {
                        render_table(out, &inner, table, order);
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

    const LAYOUT: Layout = Layout { keys: |_| None, flat: &["sweep"] };

    fn rendered(document: &Document) -> String {
        document.render(&|_, _| 0)
    }

    #[test]
    fn rendering_is_a_fixed_point() {
        let once = rendered(&Document::parse("t", TEXT, &LAYOUT).unwrap());
        assert_eq!(rendered(&Document::parse("t", &once, &LAYOUT).unwrap()), once);
        assert!(once.contains("\"transport.min_rto\" = [\"5ms\"]"), "{once}");
        assert!(once.contains("[[failure]]\nat = \"1ms\""), "{once}");
    }

    #[test]
    fn overrides_reach_every_depth() {
        let mut document = Document::parse("t", TEXT, &LAYOUT).unwrap();
        for (key, value) in [
            ("traffic.load", "[0.1, 0.2]"),
            ("stop.until", "10s"),
            ("failure.0.at", "2ms"),
            ("sweep.switch.ecn", "[\"off\"]"),
        ] {
            document.set(key, value, "--set").unwrap();
        }
        let text = rendered(&document);
        for part in ["load = [0.1, 0.2]", "[stop]\nuntil = \"10s\"", "at = \"2ms\"", "\"switch.ecn\" = [\"off\"]"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let error = document.set("name.x", "1", "--set name.x=1").unwrap_err();
        assert_eq!(error.to_string(), "--set name.x=1: name.x: goes through something that is not a table");
    }

    #[test]
    fn syntax_errors_name_the_line() {
        let error = Document::parse("bad.toml", "a = 1\nb = = 2\n", &LAYOUT).unwrap_err();
        assert_eq!(error.place.to_string(), "bad.toml:2");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_quoted_so_that_it_comes_back(text in ".{0,30}") {
            let document = Document::parse("t", &format!("a = {}", quote(&text)), &LAYOUT).unwrap();
            let Data::Text(back) = &document.root["a"].value.data else { panic!("not text") };
            proptest::prop_assert_eq!(back, &text);
        }
    }
}
