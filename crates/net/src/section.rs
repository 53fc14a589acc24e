//! Reading one table of a [`Document`]: typed values, each mistake with its place and key.

use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::document::{At, Data, Document, Table, Value};
use crate::mistake::FileError;
use crate::{Bytes, UnitError, words::hint};

/// A table being read; a table that is not there reads as empty.
pub struct Section<'a> {
    /// The file.
    pub document: &'a Document,
    /// Dotted path, such as `failure.0`; empty for the top of the file.
    path: String,
    table: Option<&'a Table>,
    at: At,
}

impl<'a> Section<'a> {
    /// The top of the file; unknown sections and keys are refused.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn top(document: &'a Document) -> Result<Section<'a>, FileError> {
        let top = Section { document, path: String::new(), table: Some(&document.root), at: At::Span(0..0) };
        top.check_as("")?;
        Ok(top)
    }

    /// A table of the top; its keys are checked.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn section(&self, name: &'static str) -> Result<Section<'a>, FileError> {
        let section = match self.get(name) {
            None => Section { document: self.document, path: name.to_owned(), table: None, at: self.at.clone() },
            Some(value) => self.table(name.to_owned(), value)?,
        };
        section.check_as(name)?;
        Ok(section)
    }

    /// A list of tables of the top, each checked as `name`.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn sections(&self, name: &'static str) -> Result<Vec<Section<'a>>, FileError> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let Data::List(items) = &value.data else {
            return Err(self.error(name, "must be a list of tables").with_hint(format!("write `[[{name}]]`")));
        };
        let mut sections = Vec::new();
        for (ix, item) in items.iter().enumerate() {
            let section = self.table(format!("{name}.{ix}"), item)?;
            section.check_as(name)?;
            sections.push(section);
        }
        Ok(sections)
    }

    /// A value that must be a table, such as a ramp of `switch.ecn`.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn table(&self, path: String, value: &'a Value) -> Result<Section<'a>, FileError> {
        match &value.data {
            Data::Table(table) => {
                Ok(Section { document: self.document, path, table: Some(table), at: value.at.clone() })
            }
            _ => Err(self.document.error(&value.at, &path, format!("must be a table, not {}", value.kind()))),
        }
    }

    fn check_as(&self, name: &str) -> Result<(), FileError> {
        (self.document.layout.keys)(name).map_or(Ok(()), |known| self.check_keys(&known))
    }

    /// Refuses keys that are not `known`.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn check_keys(&self, known: &[&str]) -> Result<(), FileError> {
        for (key, entry) in self.table.into_iter().flatten() {
            if !known.contains(&key.as_str()) {
                let error = self.document.error(&entry.key_at, &self.full(key), "there is no such key");
                return Err(error.with_hint(hint(key, known.iter().copied())));
            }
        }
        Ok(())
    }

    /// The value at a key, if it is there.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.table?.get(key).map(|entry| &entry.value)
    }
    /// Whether the table is there.
    pub fn is_there(&self) -> bool {
        self.table.is_some()
    }
    /// Whether the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
    /// All entries, by key.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.table.into_iter().flatten().map(|(key, entry)| (key.as_str(), &entry.value))
    }

    /// The key with its section; the section alone for no key.
    pub fn full(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            ("", _) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, _) => format!("{path}.{key}"),
        }
    }
    /// An error at the value of a key, or at the section where the key is missing.
    pub fn error(&self, key: &str, message: impl Into<String>) -> FileError {
        let at = self.get(key).map_or(&self.at, |value| &value.at);
        self.document.error(at, &self.full(key), message)
    }
    /// The error of a key that must be there.
    pub fn missing(&self, key: &str) -> FileError {
        let message = if self.table.is_none() { "is missing, with its whole section" } else { "is missing" };
        self.error(key, message)
    }
    fn kind_error(&self, key: &str, value: &Value, wanted: &str) -> FileError {
        let error = self.error(key, format!("must be {wanted}, not {}", value.kind()));
        match &value.data {
            Data::Text(text) => match text.strip_suffix('%').and_then(|share| share.trim().parse::<f64>().ok()) {
                Some(percent) => error.with_hint(format!("shares are numbers: write {} for {text}", percent / 100.0)),
                None => error,
            },
            _ => error,
        }
    }

    /// Text.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, FileError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value { data: Data::Text(text), .. }) => Ok(Some(text)),
            Some(value) => Err(self.kind_error(key, value, "text in quotes")),
        }
    }
    /// Text that stands for something.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn parsed<T: FromStr>(&self, key: &str, what: &str) -> Result<Option<T>, FileError> {
        let parse = |text: &str| text.parse().map_err(|_| self.error(key, format!("`{text}` is not {what}")));
        self.text(key)?.map(parse).transpose()
    }
    /// The same where it must be there.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn required<T: FromStr>(&self, key: &str, what: &str) -> Result<T, FileError> {
        self.parsed(key, what)?.ok_or_else(|| self.missing(key))
    }
    /// `true` or `false`.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, FileError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value { data: Data::Flag(flag), .. }) => Ok(Some(*flag)),
            Some(value) => Err(self.kind_error(key, value, "true or false")),
        }
    }
    /// A whole number in a range.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn count(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, FileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let Data::Integer(number) = value.data else {
            return Err(self.kind_error(key, value, "a whole number"));
        };
        match u64::try_from(number) {
            Ok(count) if range.contains(&count) => Ok(Some(count)),
            _ => Err(self.error(key, format!("{number} is not {}", words(&range)))),
        }
    }
    /// The same, of 32 bits.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn count32(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, FileError> {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        Ok(self.count(key, range)?.map(|count| count as u32))
    }
    /// A number above 0, up to `max`.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn positive(&self, key: &str, max: f64) -> Result<Option<f64>, FileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = number(value).ok_or_else(|| self.kind_error(key, value, "a number"))?;
        if number > 0.0 && number <= max {
            return Ok(Some(number));
        }
        let wanted = if max.is_finite() { format!("above 0 and at most {max}") } else { "above 0".to_owned() };
        Err(self.error(key, format!("{number} is not {wanted}")))
    }
    /// A quantity with its unit, such as a time or a bandwidth.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn quantity<T: FromStr<Err = UnitError>>(&self, key: &str) -> Result<Option<T>, FileError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value { data: Data::Text(text), .. }) => {
                text.parse().map(Some).map_err(|error: UnitError| self.error(key, error.to_string()))
            }
            Some(value @ Value { data: Data::Integer(_) | Data::Real(_), .. }) => {
                let error = self.error(key, format!("{} has no unit", value.inline()));
                Err(error
                    .with_hint("write the number with its unit, in quotes, such as \"10us\", \"10Gbps\" or \"10KB\""))
            }
            Some(value) => Err(self.kind_error(key, value, "a quantity with its unit, in quotes")),
        }
    }
    /// A quantity above zero.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn above_zero<T>(&self, key: &str) -> Result<Option<T>, FileError>
    where
        T: FromStr<Err = UnitError> + Default + PartialEq,
    {
        match self.quantity::<T>(key)? {
            Some(value) if value == T::default() => Err(self.error(key, "must be above zero")),
            value => Ok(value),
        }
    }
    /// A size in bytes in a range.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn size(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, FileError> {
        let Some(bytes) = self.quantity::<Bytes>(key)? else { return Ok(None) };
        match u32::try_from(bytes.as_u64()) {
            Ok(size) if range.contains(&size) => Ok(Some(size)),
            _ => Err(self.error(key, format!("{bytes} is not from {} to {} bytes", range.start(), range.end()))),
        }
    }
    /// The position of a word in `words`.
    ///
    /// # Errors
    /// What is there is something else, with its place and what would do.
    pub fn choice(&self, key: &str, words: &[&str]) -> Result<Option<usize>, FileError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match words.iter().position(|word| *word == text) {
            Some(position) => Ok(Some(position)),
            None => {
                Err(self.error(key, format!("`{text}` is not possible")).with_hint(hint(text, words.iter().copied())))
            }
        }
    }
    /// A list, or one value alone.
    pub fn list(&self, key: &str) -> Vec<&'a Value> {
        match self.get(key) {
            None => Vec::new(),
            Some(Value { data: Data::List(items), .. }) => items.iter().collect(),
            Some(value) => vec![value],
        }
    }
}

/// A value as a real number.
pub fn number(value: &Value) -> Option<f64> {
    match value.data {
        Data::Integer(number) => Some(number as f64),
        Data::Real(number) => Some(number),
        _ => None,
    }
}

fn words(range: &RangeInclusive<u64>) -> String {
    match (*range.start(), *range.end()) {
        (start, u64::MAX) => format!("{start} or more"),
        (start, end) => format!("from {start} to {end}"),
    }
}
