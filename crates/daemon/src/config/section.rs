//! Reading one table of a configuration: typed values, each mistake with its place and key.

use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::sync::Arc;

use net::mistake::{FileError, Place};
use net::{UnitError, words::hint};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The file a configuration is read from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: Arc<str>,
}

/// A table being read; one that is not there reads as empty.
pub(super) struct Section<'a> {
    source: &'a Source,
    /// Dotted path, such as `host.0`; empty for the top of the file.
    path: String,
    table: Option<&'a DeTable<'a>>,
    span: Range<usize>,
}

type Value<'a> = Spanned<DeValue<'a>>;

impl<'a> Section<'a> {
    /// The top of the file, with the keys there are.
    pub(super) fn top(source: &'a Source, table: &'a DeTable<'a>, known: &[&str]) -> Result<Section<'a>, FileError> {
        Section { source, path: String::new(), table: Some(table), span: 0..0 }.checked(known)
    }

    /// Refuses keys that are not `known`.
    fn checked(self, known: &[&str]) -> Result<Section<'a>, FileError> {
        for key in self.table.into_iter().flat_map(|table| table.keys()) {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let error = self.error_at(key.span(), name, "there is no such key");
                return Err(error.with_hint(hint(name, known.iter().copied())));
            }
        }
        Ok(self)
    }

    fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        let (_, value) = self.table?.iter().find(|(name, _)| &**name.get_ref() == key)?;
        Some(value)
    }
    fn full(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path if key.is_empty() => path.to_owned(),
            path => format!("{path}.{key}"),
        }
    }
    fn error_at(&self, span: Range<usize>, key: &str, message: impl Into<String>) -> FileError {
        let place = Place::Text { file: self.source.name.clone(), text: self.source.text.clone(), span };
        FileError::new(place, self.full(key), message)
    }
    /// An error at the value of a key, or at the section where the key is missing.
    pub(super) fn error(&self, key: &str, message: impl Into<String>) -> FileError {
        let span = self.get(key).map_or(self.span.clone(), Spanned::span);
        self.error_at(span, key, message)
    }

    fn table_of(&self, name: &str, path: String, value: &'a Value<'a>) -> Result<Section<'a>, FileError> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(Section { source: self.source, path, table: Some(table), span: value.span() }),
            other => Err(self.error_at(value.span(), name, format!("must be a table, not {}", kind(other)))),
        }
    }
    /// A table of this one.
    pub(super) fn section(&self, name: &str, known: &[&str]) -> Result<Section<'a>, FileError> {
        match self.get(name) {
            None => Ok(Section { source: self.source, path: self.full(name), table: None, span: self.span.clone() }),
            Some(value) => self.table_of(name, self.full(name), value)?.checked(known),
        }
    }
    /// A list of tables of this one.
    pub(super) fn sections(&self, name: &str, known: &[&str]) -> Result<Vec<Section<'a>>, FileError> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.error(name, "must be a list of tables").with_hint(format!("write `[[{name}]]`")));
        };
        let item = |(ix, item): (usize, &'a Value<'a>)| {
            self.table_of(name, format!("{}.{ix}", self.full(name)), item)?.checked(known)
        };
        items.iter().enumerate().map(item).collect()
    }
    /// Whether the table is there.
    pub(super) fn is_there(&self) -> bool {
        self.table.is_some()
    }

    /// Text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, FileError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.error(key, format!("must be text in quotes, not {}", kind(other)))),
        }
    }
    /// Text that stands for something.
    pub(super) fn parsed<T: FromStr>(&self, key: &str, what: &str) -> Result<Option<T>, FileError> {
        let parse = |text: &str| text.parse().map_err(|_| self.error(key, format!("`{text}` is not {what}")));
        self.text(key)?.map(parse).transpose()
    }
    /// Text that must be there.
    pub(super) fn required<T: FromStr>(&self, key: &str, what: &str) -> Result<T, FileError> {
        self.parsed(key, what)?.ok_or_else(|| self.missing(key))
    }
    /// The error of a key that must be there.
    pub(super) fn missing(&self, key: &str) -> FileError {
        self.error(key, "is missing")
    }
    /// A quantity with its unit, above zero.
    pub(super) fn quantity<T>(&self, key: &str) -> Result<Option<T>, FileError>
    where
        T: FromStr<Err = UnitError> + Default + PartialEq,
    {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::String(text) = value.get_ref() else {
            let error = self.error(key, format!("must be a quantity with its unit, not {}", kind(value.get_ref())));
            return Err(error.with_hint("write the number with its unit, in quotes, such as \"5s\" or \"10Gbps\""));
        };
        match text.parse::<T>() {
            Ok(quantity) if quantity == T::default() => Err(self.error(key, "must be above zero")),
            Ok(quantity) => Ok(Some(quantity)),
            Err(error) => Err(self.error(key, error.to_string())),
        }
    }
    /// A whole number in a range.
    pub(super) fn count(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, FileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::Integer(number) = value.get_ref() else {
            return Err(self.error(key, format!("must be a whole number, not {}", kind(value.get_ref()))));
        };
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(count) if range.contains(&count) => Ok(Some(count)),
            _ => {
                let message = format!("{} is not from {} to {}", number.as_str(), range.start(), range.end());
                Err(self.error(key, message))
            }
        }
    }
    /// The position of a word in `words`.
    pub(super) fn choice(&self, key: &str, words: &[&str]) -> Result<Option<usize>, FileError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match words.iter().position(|word| *word == text) {
            Some(position) => Ok(Some(position)),
            None => {
                Err(self.error(key, format!("`{text}` is not possible")).with_hint(hint(text, words.iter().copied())))
            }
        }
    }
    /// The number of a switch: a number, or text of hexadecimal digits, in pairs with colons or not.
    pub(super) fn datapath(&self, key: &str) -> Result<u64, FileError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Err(self.missing(key)),
            Some(DeValue::String(text)) => super::datapath(text)
                .ok_or_else(|| self.error(key, format!("`{text}` is not the number of a switch")))
                .map_err(|error| error.with_hint("write up to 16 hexadecimal digits, such as \"00000000000000a1\"")),
            Some(_) => Ok(self.count(key, 0..=u64::MAX)?.unwrap_or_default()),
        }
    }
}

/// What a value is, for messages.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
