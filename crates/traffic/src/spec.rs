//! Specifications such as `stride:step=30`: a name, then parameters.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use net::spec_text::{SpecText, SpecTextError};

/// One parameter of a registry entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// Its default, or `required`.
    pub default: &'static str,
    /// Meaning, with its unit.
    pub doc: &'static str,
}

pub(crate) const fn parameter(name: &'static str, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, default, doc }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("there is no {what} called `{name}`{hint}")]
    UnknownName { what: &'static str, name: String, hint: String },
    #[error("{what} `{name}` has no parameter `{key}`{hint}")]
    UnknownKey { what: &'static str, name: String, key: String, hint: String },
    #[error("{what} `{name}` needs `{key}`; write `{name}:{key}=...`")]
    MissingKey { what: &'static str, name: String, key: &'static str },
    #[error("in `{text}`: `{part}` is not of the form key=value")]
    NotKeyValue { text: String, part: String },
    #[error("in `{text}`: `{key}` is given twice")]
    KeyTwice { text: String, key: String },
    #[error("{what} `{name}`: {key} = `{value}`: {reason}")]
    Value { what: &'static str, name: String, key: String, value: String, reason: String },
}

/// A specification taken apart; values are turned into quantities as they are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Spec<'a> {
    what: &'static str,
    pub(crate) name: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Spec<'a> {
    pub(crate) fn parse(what: &'static str, text: &'a str) -> Result<Spec<'a>, SpecError> {
        let SpecText { name, values } = SpecText::parse(text).map_err(|error| match error {
            SpecTextError::NotKeyValue(part) => SpecError::NotKeyValue { text: text.to_owned(), part: part.to_owned() },
            SpecTextError::Repeated(key) => SpecError::KeyTwice { text: text.to_owned(), key: key.to_owned() },
        })?;
        Ok(Spec { what, name, values })
    }

    pub(crate) fn check_keys(&self, parameters: &[Parameter]) -> Result<(), SpecError> {
        let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
        let Some(key) = self.values.keys().find(|key| !known.contains(key)) else { return Ok(()) };
        let (name, key, hint) = (self.name.to_owned(), (*key).to_owned(), hint(key, &known));
        Err(SpecError::UnknownKey { what: self.what, name, key, hint })
    }

    pub(crate) fn unknown_name(&self, known: &[&str]) -> SpecError {
        SpecError::UnknownName { what: self.what, name: self.name.to_owned(), hint: hint(self.name, known) }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.values.get(key).copied()
    }

    pub(crate) fn get<T: FromStr>(&self, key: &'static str) -> Result<Option<T>, SpecError>
    where
        T::Err: Display,
    {
        self.text(key).map(|value| value.parse().map_err(|cause: T::Err| self.bad(key, cause.to_string()))).transpose()
    }

    pub(crate) fn require<T: FromStr>(&self, key: &'static str) -> Result<T, SpecError>
    where
        T::Err: Display,
    {
        self.get(key)?.ok_or_else(|| SpecError::MissingKey { what: self.what, name: self.name.to_owned(), key })
    }

    /// The error for a value that was parsed but will not do.
    pub(crate) fn bad(&self, key: &'static str, reason: impl Into<String>) -> SpecError {
        SpecError::Value {
            what: self.what,
            name: self.name.to_owned(),
            key: key.to_owned(),
            value: self.text(key).unwrap_or_default().to_owned(),
            reason: reason.into(),
        }
    }
}

fn hint(given: &str, known: &[&str]) -> String {
    format!("; {}", net::did_you_mean::suggestion(given, known.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_apart_and_typed() {
        let spec = Spec::parse("thing", "incast: fan_in = 8 ,target=fixed").unwrap();
        assert_eq!(spec.get::<u32>("fan_in").unwrap(), Some(8));
        assert_eq!(spec.text("target"), Some("fixed"));
        assert_eq!(spec.get::<u32>("other").unwrap(), None);
    }

    #[test]
    fn mistakes_name_what_was_meant() {
        let spec = Spec::parse("pattern", "stide").unwrap();
        let error = spec.unknown_name(&["stride", "shuffle"]);
        assert_eq!(error.to_string(), "there is no pattern called `stide`; did you mean `stride`?");
        let error = Spec::parse("pattern", "stride:30").unwrap_err();
        assert_eq!(error.to_string(), "in `stride:30`: `30` is not of the form key=value");
        assert!(matches!(Spec::parse("pattern", "a:b=1,b=2"), Err(SpecError::KeyTwice { .. })));
        let error = Spec::parse("pattern", "stride:step=x").unwrap();
        assert_eq!(
            error.get::<u32>("step").unwrap_err().to_string(),
            "pattern `stride`: step = `x`: invalid digit found in string"
        );
    }
}
