//! Parameters of balancers: declared as data, checked when a specification is read.

use std::collections::BTreeMap;

use net::Time;

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamKind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A real number in this closed range.
    Number {
        /// Least allowed.
        min: f64,
        /// Greatest allowed.
        max: f64,
    },
    /// A whole number in this closed range.
    Count {
        /// Least allowed.
        min: u64,
        /// Greatest allowed.
        max: u64,
    },
    /// A time such as `500us`.
    Duration,
}

/// One declared parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name as users write it.
    pub name: &'static str,
    /// Values it takes.
    pub kind: ParamKind,
    /// Default, in the form users write.
    pub default: &'static str,
    /// Unit of a number, or empty.
    pub unit: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// A checked set of values, one for each declared parameter.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Params(BTreeMap<&'static str, String>);

impl Param {
    /// Checks one value.
    ///
    /// # Errors
    /// A sentence that says which values are allowed.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match self.kind {
            ParamKind::Choice(words) if words.contains(&value) => Ok(()),
            ParamKind::Choice(words) => Err(format!("it is one of {}", words.join(", "))),
            ParamKind::Number { min, max } => match value.parse::<f64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(()),
                _ => Err(format!("it is a number from {min} to {max}")),
            },
            ParamKind::Count { min, max } => match value.parse::<u64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(()),
                _ => Err(format!("it is a whole number from {min} to {max}")),
            },
            ParamKind::Duration => value.parse::<Time>().map(|_| ()).map_err(|error| error.to_string()),
        }
    }
}

impl Params {
    /// The defaults of `declared`, overridden by `given`, which must already have been checked.
    pub(crate) fn with_defaults(declared: &'static [Param], given: &BTreeMap<String, String>) -> Params {
        Params(
            declared
                .iter()
                .map(|p| (p.name, given.get(p.name).map_or_else(|| p.default.to_owned(), Clone::clone)))
                .collect(),
        )
    }
    /// The value as text.
    ///
    /// # Panics
    /// If no such parameter is declared: a slip in the balancer's own file, caught by its first test.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or_else(|| panic!("parameter `{name}` is not declared"), String::as_str)
    }
    /// A real number.
    pub fn number(&self, name: &str) -> f64 {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// A whole number.
    pub fn count(&self, name: &str) -> u64 {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// A time.
    pub fn duration(&self, name: &str) -> Time {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// All values in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}
