//! Typed access to one table of a [`Document`]; every error has its location and key.

use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::diagnostic::FileError;
use crate::document::{Data, Document, Table, Value, ValueOrigin};
use net::did_you_mean::suggestion;
use net::{Bytes, UnitError};

/// A table of a document; a missing table reads as empty.
pub struct Section<'a> {
    /// The document of the table.
    pub document: &'a Document,
    /// The dotted path, such as `failure.0`; empty for the top of the file.
    path: String,
    table: Option<&'a Table>,
    at: ValueOrigin,
}

impl<'a> Section<'a> {
    /// Returns the top of the file and checks its sections and keys.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn top(document: &'a Document) -> Result<Section<'a>, FileError> {
        let top = Section { document, path: String::new(), table: Some(&document.root), at: ValueOrigin::Span(0..0) };
        top.check_as("")?;
        Ok(top)
    }

    /// Returns a table of the top and checks its keys.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn section(&self, name: &'static str) -> Result<Section<'a>, FileError> {
        let section = match self.get(name) {
            None => Section { document: self.document, path: name.to_owned(), table: None, at: self.at.clone() },
            Some(value) => self.table(name.to_owned(), value)?,
        };
        section.check_as(name)?;
        Ok(section)
    }

    /// Returns a list of tables of the top, each checked as `name`.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
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

    /// Returns a value that must be a table, such as a ramp of `switch.ecn`.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
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

    /// Checks that all keys are `known`.
    ///
    /// # Errors
    /// An unknown key; the nearest is suggested.
    pub fn check_keys(&self, known: &[&str]) -> Result<(), FileError> {
        for (key, entry) in self.table.into_iter().flatten() {
            if !known.contains(&key.as_str()) {
                let error = self.document.error(&entry.key_origin, &self.dotted_key(key), "there is no such key");
                return Err(error.with_hint(suggestion(key, known.iter().copied())));
            }
        }
        Ok(())
    }

    /// Returns the value at a key.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.table?.get(key).map(|entry| &entry.value)
    }
    /// Returns whether the table exists.
    pub fn exists(&self) -> bool {
        self.table.is_some()
    }
    /// Returns whether the key exists.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
    /// Returns all entries, by key.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.table.into_iter().flatten().map(|(key, entry)| (key.as_str(), &entry.value))
    }

    /// Returns the key with its section; the section alone for an empty key.
    pub fn dotted_key(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            ("", _) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, _) => format!("{path}.{key}"),
        }
    }
    /// Returns an error at the value of a key, or at the section if the key is missing.
    pub fn error(&self, key: &str, message: impl Into<String>) -> FileError {
        let at = self.get(key).map_or(&self.at, |value| &value.at);
        self.document.error(at, &self.dotted_key(key), message)
    }
    /// Returns the error for a missing key.
    pub fn missing(&self, key: &str) -> FileError {
        let message = if self.table.is_none() { "is missing, as is its section" } else { "is missing" };
        self.error(key, message)
    }
    fn kind_error(&self, key: &str, value: &Value, expected: &str) -> FileError {
        let error = self.error(key, format!("must be {expected}, not {}", value.kind()));
        match &value.data {
            Data::Text(text) => match text.strip_suffix('%').and_then(|share| share.trim().parse::<f64>().ok()) {
                Some(percent) => error.with_hint(format!("shares are numbers: write {} for {text}", percent / 100.0)),
                None => error,
            },
            _ => error,
        }
    }

    /// Returns a text.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, FileError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value { data: Data::Text(text), .. }) => Ok(Some(text)),
            Some(value) => Err(self.kind_error(key, value, "text in quotes")),
        }
    }
    /// Returns a text parsed as `T`.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn parsed<T: FromStr>(&self, key: &str, what: &str) -> Result<Option<T>, FileError> {
        let parse = |text: &str| text.parse().map_err(|_| self.error(key, format!("`{text}` is not {what}")));
        self.text(key)?.map(parse).transpose()
    }
    /// Returns a required text parsed as `T`.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn required<T: FromStr>(&self, key: &str, what: &str) -> Result<T, FileError> {
        self.parsed(key, what)?.ok_or_else(|| self.missing(key))
    }
    /// Returns `true` or `false`.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, FileError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value { data: Data::Flag(flag), .. }) => Ok(Some(*flag)),
            Some(value) => Err(self.kind_error(key, value, "true or false")),
        }
    }
    /// Returns a whole number in a range.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn count(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, FileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let Data::Integer(number) = value.data else {
            return Err(self.kind_error(key, value, "a whole number"));
        };
        match u64::try_from(number) {
            Ok(count) if range.contains(&count) => Ok(Some(count)),
            _ => Err(self.error(key, format!("{number} is not {}", describe(&range)))),
        }
    }
    /// Returns a whole number of 32 bits in a range.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn count32(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, FileError> {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        Ok(self.count(key, range)?.map(|count| count as u32))
    }
    /// Returns a number above 0, up to `max`.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn positive(&self, key: &str, max: f64) -> Result<Option<f64>, FileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = number(value).ok_or_else(|| self.kind_error(key, value, "a number"))?;
        if number > 0.0 && number <= max {
            return Ok(Some(number));
        }
        let range = if max.is_finite() { format!("above 0 and at most {max}") } else { "above 0".to_owned() };
        Err(self.error(key, format!("{number} is not {range}")))
    }
    /// Returns a quantity with its unit, such as a time or a bandwidth.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
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
    /// Returns a quantity above zero.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn above_zero<T>(&self, key: &str) -> Result<Option<T>, FileError>
    where
        T: FromStr<Err = UnitError> + Default + PartialEq,
    {
        match self.quantity::<T>(key)? {
            Some(value) if value == T::default() => Err(self.error(key, "must be above zero")),
            value => Ok(value),
        }
    }
    /// Returns a size in bytes in a range.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn size(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, FileError> {
        let Some(bytes) = self.quantity::<Bytes>(key)? else { return Ok(None) };
        match u32::try_from(bytes.as_u64()) {
            Ok(size) if range.contains(&size) => Ok(Some(size)),
            _ => Err(self.error(key, format!("{bytes} is not from {} to {} bytes", range.start(), range.end()))),
        }
    }
    /// Returns the position of the value in `words`.
    ///
    /// # Errors
    /// The value has another type or is out of range; the error has location, key and hint.
    pub fn choice(&self, key: &str, words: &[&str]) -> Result<Option<usize>, FileError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match words.iter().position(|word| *word == text) {
            Some(position) => Ok(Some(position)),
            None => Err(self
                .error(key, format!("`{text}` is not possible"))
                .with_hint(suggestion(text, words.iter().copied()))),
        }
    }
    /// Returns the items of a list; a single value counts as a list of one.
    pub fn list(&self, key: &str) -> Vec<&'a Value> {
        match self.get(key) {
            None => Vec::new(),
            Some(Value { data: Data::List(items), .. }) => items.iter().collect(),
            Some(value) => vec![value],
        }
    }
}

/// Returns a value as a real number.
pub fn number(value: &Value) -> Option<f64> {
    match value.data {
        Data::Integer(number) => Some(number as f64),
        Data::Real(number) => Some(number),
        _ => None,
    }
}

fn describe(range: &RangeInclusive<u64>) -> String {
    match (*range.start(), *range.end()) {
        (start, u64::MAX) => format!("{start} or more"),
        (start, end) => format!("from {start} to {end}"),
    }
}
