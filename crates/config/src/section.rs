//! Typed access to one table of a [`Document`]. A reader fails if a value has another type or is out
//! of range; every error has its location, its key and a hint.

use std::str::FromStr;

use crate::diagnostic::FileError;
use crate::document::{Data, Document, Table, Value, ValueOrigin};
use crate::kind::{Kind, amount};
use net::did_you_mean::suggestion;
use net::{Bytes, UnitError};

/// A table of a document; a missing table reads as empty.
pub struct Section<'a> {
    /// The document of the table.
    pub document: &'a Document,
    /// The name in the layout, such as `failure`; empty for the top of the file.
    name: &'static str,
    /// The dotted path, such as `failure.0`; empty for the top of the file.
    path: String,
    table: Option<&'a Table>,
    at: ValueOrigin,
}

impl<'a> Section<'a> {
    /// Returns the top of the file and checks its sections and keys.
    pub fn top(document: &'a Document) -> Result<Section<'a>, FileError> {
        let top = Section {
            document,
            name: "",
            path: String::new(),
            table: Some(&document.root),
            at: ValueOrigin::Span(0..0),
        };
        top.check_keys()?;
        Ok(top)
    }

    /// Returns a table of the top and checks its keys.
    pub fn section(&self, name: &'static str) -> Result<Section<'a>, FileError> {
        let section = match self.get(name) {
            None => Section { document: self.document, name, path: name.to_owned(), table: None, at: self.at.clone() },
            Some(value) => self.table(name, name.to_owned(), value)?,
        };
        section.check_keys()?;
        Ok(section)
    }

    /// Returns a list of tables below this section, each checked as the section `name` of the layout, such as
    /// `failure` or `testbed.explanation`.
    pub fn sections(&self, name: &'static str) -> Result<Vec<Section<'a>>, FileError> {
        let key = name.rsplit_once('.').map_or(name, |(_, key)| key);
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let Data::List(items) = &value.data else {
            return Err(self.error(key, "must be a list of tables").with_hint(format!("write `[[{name}]]`")));
        };
        let section = |(ix, item)| {
            let section = self.table(name, format!("{key}.{ix}"), item)?;
            section.check_keys().map(|()| section)
        };
        items.iter().enumerate().map(section).collect()
    }

    /// Returns a value that must be a table, such as a ramp of `switch.ecn`, as the section `name` of the
    /// layout.
    pub fn table(&self, name: &'static str, path: String, value: &'a Value) -> Result<Section<'a>, FileError> {
        match &value.data {
            Data::Table(table) => {
                Ok(Section { document: self.document, name, path, table: Some(table), at: value.at.clone() })
            }
            _ => Err(self.document.error(&value.at, &path, format!("must be a table, not {}", value.kind()))),
        }
    }

    /// Checks that all keys are declared.
    pub fn check_keys(&self) -> Result<(), FileError> {
        let Some(known) = self.document.layout.names(self.name) else { return Ok(()) };
        for (key, entry) in self.table.into_iter().flatten() {
            if !known.contains(&key.as_str()) {
                let error = self.document.error(&entry.key_origin, &self.dotted_key(key), "there is no such key");
                return Err(error.with_hint(suggestion(key, known)));
            }
        }
        Ok(())
    }

    /// Returns the declared types of a key.
    fn kinds(&self, key: &str) -> &'static [Kind] {
        let key = self.document.layout.key(self.name, key);
        match key.map(|key| &key.kind) {
            Some(Kind::Either(kinds)) => kinds,
            Some(kind) => std::slice::from_ref(kind),
            None => &[],
        }
    }

    /// Returns the value at a key.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        let is_declared = |names: Vec<&str>| key.is_empty() || names.contains(&key);
        debug_assert!(self.document.layout.names(self.name).is_none_or(is_declared), "{key} is not in the layout");
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
        let Data::Text(text) = &value.data else { return error };
        match text.strip_suffix('%').and_then(|share| share.trim().parse::<f64>().ok()) {
            Some(percent) => error.with_hint(format!("shares are numbers: write {} for {text}", percent / 100.0)),
            None => error,
        }
    }
    /// Returns the value that `pick` finds at a key; a value of another type is an error.
    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        pick: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, FileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        pick(value).map(Some).ok_or_else(|| self.kind_error(key, value, expected))
    }

    /// Returns a text; `None` without the key, as the other readers.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, FileError> {
        let text = |value: &'a Value| if let Data::Text(text) = &value.data { Some(text.as_str()) } else { None };
        self.read(key, "text in quotes", text)
    }
    /// Returns a text parsed as `T`.
    pub fn parsed<T: FromStr>(&self, key: &str, what: &str) -> Result<Option<T>, FileError> {
        let parse = |text: &str| text.parse().map_err(|_| self.error(key, format!("`{text}` is not {what}")));
        self.text(key)?.map(parse).transpose()
    }
    /// Returns a required text parsed as `T`.
    pub fn required<T: FromStr>(&self, key: &str, what: &str) -> Result<T, FileError> {
        self.parsed(key, what)?.ok_or_else(|| self.missing(key))
    }
    /// Returns `true` or `false`.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, FileError> {
        self.read(key, "true or false", |value| if let Data::Flag(flag) = value.data { Some(flag) } else { None })
    }
    /// Returns a whole number in the declared range.
    pub fn count<T: TryFrom<u64>>(&self, key: &str) -> Result<Option<T>, FileError> {
        let whole = |value: &Value| if let Data::Integer(number) = value.data { Some(number) } else { None };
        let Some(number) = self.read(key, "a whole number", whole)? else { return Ok(None) };
        let range = |kind: &Kind| if let Kind::Count(min, max) = *kind { Some((min, max)) } else { None };
        let (min, max) = self.kinds(key).iter().find_map(range).unwrap_or((0, u64::MAX));
        let count = u64::try_from(number).ok().filter(|count| (min..=max).contains(count));
        match count.and_then(|count| T::try_from(count).ok()) {
            Some(count) => Ok(Some(count)),
            None if max == u64::MAX => Err(self.error(key, format!("{number} is not {min} or more"))),
            None => Err(self.error(key, format!("{number} is not from {min} to {max}"))),
        }
    }
    /// Returns a number above 0, up to the declared maximum.
    pub fn positive(&self, key: &str) -> Result<Option<f64>, FileError> {
        let Some(number) = self.read(key, "a number", number)? else { return Ok(None) };
        let limit = |kind: &Kind| if let Kind::Positive(max) = *kind { Some(max) } else { None };
        let max = self.kinds(key).iter().find_map(limit).unwrap_or(f64::INFINITY);
        if number > 0.0 && number <= max {
            return Ok(Some(number));
        }
        let range = if max.is_finite() { format!("above 0 and at most {max}") } else { "above 0".to_owned() };
        Err(self.error(key, format!("{number} is not {range}")))
    }
    /// Returns a quantity with its unit, such as a time or a bandwidth.
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
    pub fn above_zero<T>(&self, key: &str) -> Result<Option<T>, FileError>
    where
        T: FromStr<Err = UnitError> + Default + PartialEq,
    {
        match self.quantity::<T>(key)? {
            Some(value) if value == T::default() => Err(self.error(key, "must be above zero")),
            value => Ok(value),
        }
    }
    /// Returns a size in bytes in the declared range.
    pub fn size<T: TryFrom<u64>>(&self, key: &str) -> Result<Option<T>, FileError> {
        let Some(bytes) = self.quantity::<Bytes>(key)? else { return Ok(None) };
        let range = |kind: &Kind| if let Kind::Size(min, max) = *kind { Some((min, max)) } else { None };
        let (min, max) = self.kinds(key).iter().find_map(range).unwrap_or((0, u64::MAX));
        let size = Some(bytes.as_u64()).filter(|size| (min..=max).contains(size));
        let out_of_range = || self.error(key, format!("{bytes} is not from {} to {}", amount(min), amount(max)));
        size.and_then(|size| T::try_from(size).ok()).map(Some).ok_or_else(out_of_range)
    }
    /// Returns one of the declared texts.
    pub fn choice(&self, key: &str) -> Result<Option<&'static str>, FileError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let texts = self.choices(key);
        let unknown = || self.error(key, format!("`{text}` is not possible"));
        let choice = texts.iter().copied().find(|choice| *choice == text);
        choice.map(Some).ok_or_else(|| unknown().with_hint(suggestion(text, texts.iter().copied())))
    }
    fn choices(&self, key: &str) -> &'static [&'static str] {
        let texts = |kind: &Kind| if let Kind::Choice(texts) = *kind { Some(texts) } else { None };
        self.kinds(key).iter().find_map(texts).unwrap_or_default()
    }
    /// Returns the one of `values` that is at the position of the value in the declared texts.
    pub fn chosen<T: Copy>(&self, key: &str, values: &[T]) -> Result<Option<T>, FileError> {
        let text = self.choice(key)?;
        Ok(self.choices(key).iter().zip(values).find(|(choice, _)| Some(**choice) == text).map(|(_, value)| *value))
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
