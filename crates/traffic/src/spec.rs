//! Specifications such as `stride:step=30`: a name, then parameters, as experiment files and
//! options write them.

use std::fmt::Display;
use std::str::FromStr;

/// One parameter of a registry entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// Its default, or `required`.
    pub default: &'static str,
    /// What it does, with its unit.
    pub doc: &'static str,
}

/// A specification that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No entry of this name.
    #[error("there is no {what} called `{name}`{hint}")]
    UnknownName {
        what: &'static str,
        name: String,
        /// The nearest name, or all names.
        hint: String,
    },
    /// A parameter the entry does not have.
    #[error("{what} `{name}` has no parameter `{key}`{hint}")]
    UnknownKey {
        what: &'static str,
        name: String,
        key: String,
        /// The nearest key, or all of them.
        hint: String,
    },
    /// A parameter without a default was left out.
    #[error("{what} `{name}` needs `{key}`; write `{name}:{key}=...`")]
    MissingKey { what: &'static str, name: String, key: &'static str },
    /// Not of the form `key=value`.
    #[error("in `{text}`: `{part}` is not of the form key=value")]
    NotKeyValue { text: String, part: String },
    /// A key given twice.
    #[error("in `{text}`: `{key}` is given twice")]
    KeyTwice { text: String, key: String },
    /// A value of the wrong type or out of range.
    #[error("{what} `{name}`: {key} = `{value}`: {reason}")]
    Value {
        what: &'static str,
        name: String,
        key: String,
        value: String,
        /// The violated rule and accepted values.
        reason: String,
    },
}

/// A specification taken apart; values are turned into quantities as they are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Spec<'a> {
    what: &'static str,
    pub(crate) name: &'a str,
    values: Vec<(&'a str, &'a str)>,
}

impl<'a> Spec<'a> {
    /// Splits `name:key=value,key=value`.
    pub(crate) fn parse(what: &'static str, text: &'a str) -> Result<Spec<'a>, SpecError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut values: Vec<(&str, &str)> = Vec::new();
        for part in rest.split(',').filter(|part| !part.trim().is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| SpecError::NotKeyValue { text: text.to_owned(), part: part.to_owned() })?;
            let key = key.trim();
            if values.iter().any(|(seen, _)| *seen == key) {
                return Err(SpecError::KeyTwice { text: text.to_owned(), key: key.to_owned() });
            }
            values.push((key, value.trim()));
        }
        Ok(Spec { what, name: name.trim(), values })
    }

    /// Refuses keys that are not among `parameters`.
    pub(crate) fn check_keys(&self, parameters: &[Parameter]) -> Result<(), SpecError> {
        let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
        let unknown = self.values.iter().find(|(key, _)| !known.contains(key));
        match unknown {
            None => Ok(()),
            Some((key, _)) => Err(SpecError::UnknownKey {
                what: self.what,
                name: self.name.to_owned(),
                key: (*key).to_owned(),
                hint: hint(key, &known),
            }),
        }
    }

    /// The error for a name that is not among `known`.
    pub(crate) fn unknown_name(&self, known: &[&str]) -> SpecError {
        SpecError::UnknownName { what: self.what, name: self.name.to_owned(), hint: hint(self.name, known) }
    }

    /// The text of a parameter, if it was given.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        let found = self.values.iter().find(|(given, _)| *given == key);
        found.map(|(_, value)| *value)
    }

    /// A parameter, if it was given.
    pub(crate) fn get<T: FromStr>(&self, key: &'static str) -> Result<Option<T>, SpecError>
    where
        T::Err: Display,
    {
        self.text(key).map(|value| value.parse().map_err(|cause: T::Err| self.bad(key, cause.to_string()))).transpose()
    }

    /// A parameter without a default.
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
        assert_eq!(spec.name, "incast");
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
