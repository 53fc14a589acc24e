//! Text of the form `name:key=value,key=value`: topologies, traffic and balancers are written so.

use std::collections::BTreeMap;

use crate::did_you_mean;
use crate::units::{Bandwidth, Bytes, Time};

/// A text split into a name and values by key, all trimmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecText<'a> {
    /// The text before the colon.
    pub name: &'a str,
    /// The values by key; empty parts between commas are skipped.
    pub values: BTreeMap<&'a str, &'a str>,
}

/// The reason why a text does not have the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecTextError<'a> {
    /// This part is not `key=value`.
    NotKeyValue(&'a str),
    /// This key occurs twice.
    Repeated(&'a str),
}

impl<'a> SpecText<'a> {
    /// Splits a text.
    pub fn parse(text: &'a str) -> Result<SpecText<'a>, SpecTextError<'a>> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut values = BTreeMap::new();
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or(SpecTextError::NotKeyValue(part))?;
            if values.insert(key.trim(), value.trim()).is_some() {
                return Err(SpecTextError::Repeated(key.trim()));
            }
        }
        Ok(SpecText { name: name.trim(), values })
    }
}

/// A parameter of a registered name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param {
    /// The key before `=` in texts.
    pub name: &'static str,
    /// The value of an omitted parameter, words that describe it, or `required`.
    pub default: &'static str,
    /// Meaning in one line, with the unit.
    pub doc: &'static str,
}

impl Param {
    /// Returns a row of a parameter table.
    pub const fn new(name: &'static str, default: &'static str, doc: &'static str) -> Param {
        Param { name, default, doc }
    }
}

/// The reason why a text describes nothing of its kind, with a hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub String);

/// A text with the parameters of its name. Omitted parameters have their default values.
#[derive(Clone, Debug)]
pub struct Spec<'a> {
    /// The kind, for messages: `topology`.
    what: &'static str,
    /// The registered name, which the text begins with.
    pub name: &'a str,
    values: BTreeMap<&'a str, &'a str>,
    params: &'static [Param],
}

impl<'a> Spec<'a> {
    /// Returns the spec of a name without values.
    pub(crate) fn defaults(what: &'static str, name: &'a str, params: &'static [Param]) -> Spec<'a> {
        Spec { what, name, values: BTreeMap::new(), params }
    }

    /// Splits a text; [`Spec::find`] or [`Spec::with`] adds the parameters.
    pub fn parse(what: &'static str, text: &'a str) -> Result<Spec<'a>, SpecError> {
        let SpecText { name, values } = SpecText::parse(text).map_err(|error| match error {
            SpecTextError::NotKeyValue(part) => {
                SpecError(format!("in `{text}`: `{part}` is not of the form key=value"))
            }
            SpecTextError::Repeated(key) => SpecError(format!("in `{text}`: `{key}` is given twice; keep one")),
        })?;
        Ok(Spec { what, name, values, params: &[] })
    }

    /// Returns the row of the name in a registry, and the spec with the parameters of that row.
    /// `of` returns name and parameters of a row.
    pub fn find<T>(
        self,
        registry: &'static [T],
        of: fn(&'static T) -> (&'static str, &'static [Param]),
    ) -> Result<(&'static T, Spec<'a>), SpecError> {
        match registry.iter().find(|row| of(row).0 == self.name) {
            Some(row) => Ok((row, self.with(of(row).1)?)),
            None => Err(self.unknown_name(registry.iter().map(|row| of(row).0))),
        }
    }

    /// Sets the parameters of the name; an unknown key is an error.
    pub fn with(self, params: &'static [Param]) -> Result<Spec<'a>, SpecError> {
        let known = params.iter().map(|param| param.name);
        if let Some(key) = self.values.keys().find(|key| !known.clone().any(|known| known == **key)) {
            let hint = did_you_mean::suggestion(key, known);
            return Err(SpecError(format!("{} `{}` has no parameter `{key}`; {hint}", self.what, self.name)));
        }
        Ok(Spec { params, ..self })
    }

    /// Returns the error of a name that is not registered.
    pub fn unknown_name(&self, known: impl IntoIterator<Item = &'static str> + Clone) -> SpecError {
        let hint = did_you_mean::suggestion(self.name, known);
        SpecError(format!("there is no {} called `{}`; {hint}", self.what, self.name))
    }

    /// Returns the value of a declared parameter: the given one, or the default.
    pub fn get<T: Value>(&self, key: &str) -> Result<T, SpecError> {
        let param = self.params.iter().find(|param| param.name == key).expect("only declared parameters are read");
        let given = self.values.get(key).copied();
        if given.is_none() && param.default == "required" {
            let (what, name) = (self.what, self.name);
            return Err(SpecError(format!("{what} `{name}` needs `{key}`; write `{name}:{key}=...`")));
        }
        T::read_or(given, param.default).map_err(|reason| self.wrong(key, reason))
    }

    /// Returns a whole number; zero is an error.
    pub fn positive(&self, key: &str) -> Result<u32, SpecError> {
        self.get(key).and_then(|count| if count == 0 { Err(self.wrong(key, "give 1 or more")) } else { Ok(count) })
    }

    /// Returns the error of a value that will not do.
    pub fn wrong(&self, key: &str, reason: impl std::fmt::Display) -> SpecError {
        let value = self.values.get(key).copied().unwrap_or_default();
        SpecError(format!("{} `{}`: {key} = `{value}`: {reason}", self.what, self.name))
    }
}

/// The type of a parameter.
pub trait Value: Sized {
    /// Reads a value; the error is the violated rule.
    fn read(text: &str) -> Result<Self, String>;

    /// Reads a value if one is given, else the default.
    fn read_or(given: Option<&str>, default: &str) -> Result<Self, String> {
        Self::read(given.unwrap_or(default))
    }
}

impl Value for u32 {
    fn read(text: &str) -> Result<u32, String> {
        text.parse().map_err(|_| format!("must be a whole number from 0 to {}", u32::MAX))
    }
}

impl Value for f64 {
    fn read(text: &str) -> Result<f64, String> {
        text.parse().map_err(|_| "must be a number".to_owned())
    }
}

impl Value for String {
    fn read(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }
}

macro_rules! quantity {
    ($($type:ident)+) => {
        $(impl Value for $type {
            fn read(text: &str) -> Result<$type, String> {
                text.parse().map_err(|error: crate::UnitError| format!("{} (write it as {})", error.reason, error.example))
            }
        })+
    };
}

quantity!(Bandwidth Bytes Time);

/// `None` if the parameter is omitted.
impl<T: Value> Value for Option<T> {
    fn read(text: &str) -> Result<Option<T>, String> {
        T::read(text).map(Some)
    }
    fn read_or(given: Option<&str>, _: &str) -> Result<Option<T>, String> {
        given.map(T::read).transpose()
    }
}

/// A list separated by `/`.
impl<T: Value> Value for Vec<T> {
    fn read(text: &str) -> Result<Vec<T>, String> {
        text.split('/')
            .map(str::trim)
            .map(|item| T::read(item).map_err(|reason| format!("`{item}` {reason}")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_and_trimmed() {
        let spec = SpecText::parse(" incast : fan_in = 8 ,target=a=b").unwrap();
        assert_eq!((spec.name, spec.values), ("incast", [("fan_in", "8"), ("target", "a=b")].into()));
        for text in ["stride", "stride:", "stride: ", "stride:,"] {
            assert_eq!(SpecText::parse(text), Ok(SpecText { name: "stride", values: BTreeMap::new() }));
        }
        for (text, error) in
            [("stride:30", SpecTextError::NotKeyValue("30")), ("a:b=1,b=2", SpecTextError::Repeated("b"))]
        {
            assert_eq!(SpecText::parse(text), Err(error), "{text}");
        }
    }

    const REGISTRY: &[(&str, &[Param])] = &[
        (
            "incast",
            &[Param::new("fan_in", "8", ""), Param::new("target", "rotating", ""), Param::new("other", "all", "")],
        ),
        ("shuffle", &[Param::new("size", "required", "")]),
    ];

    fn find(text: &str) -> Result<Spec<'_>, SpecError> {
        Ok(Spec::parse("pattern", text)?.find(REGISTRY, |row| *row)?.1)
    }

    #[test]
    fn values_are_taken_apart_and_typed() {
        let spec = find("incast: fan_in = 9 ,target=fixed").unwrap();
        assert_eq!(spec.get("fan_in"), Ok(Some(9)));
        assert_eq!(spec.get::<String>("target").unwrap(), "fixed");
        assert_eq!(spec.get::<Option<u32>>("other"), Ok(None));
        assert_eq!(find("incast").unwrap().positive("fan_in"), Ok(8));
    }

    #[test]
    fn mistakes_name_what_was_meant() {
        let value = |text, key| find(text).and_then(|spec| spec.positive(key)).unwrap_err().to_string();
        for (text, key, message) in [
            ("incsat", "", "there is no pattern called `incsat`; did you mean `incast`?"),
            ("incast:30", "", "in `incast:30`: `30` is not of the form key=value"),
            ("a:b=1,b=2", "", "in `a:b=1,b=2`: `b` is given twice; keep one"),
            ("incast:fan=1", "", "pattern `incast` has no parameter `fan`; did you mean `fan_in`?"),
            (
                "incast:fan_in=x",
                "fan_in",
                "pattern `incast`: fan_in = `x`: must be a whole number from 0 to 4294967295",
            ),
            ("incast:fan_in=0", "fan_in", "pattern `incast`: fan_in = `0`: give 1 or more"),
            ("shuffle", "size", "pattern `shuffle` needs `size`; write `shuffle:size=...`"),
        ] {
            assert_eq!(value(text, key), message);
        }
    }
}
