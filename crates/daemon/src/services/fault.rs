//! What is wrong with something wanted: which field, and why.

use std::fmt::{self, Display};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A wrong field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// Its dotted path, such as `members[2].address`; empty for the whole.
    pub(crate) field: String,
    /// What is wrong with it.
    pub(crate) words: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.words),
            field => write!(f, "{field}: {}", self.words),
        }
    }
}

impl Fault {
    pub(crate) fn at(field: impl Into<String>, words: impl Into<String>) -> Fault {
        Fault { field: field.into(), words: words.into() }
    }

    /// The same, in a part of something greater.
    pub(crate) fn within(self, part: impl Display) -> Fault {
        let field = if self.field.is_empty() { part.to_string() } else { format!("{part}.{}", self.field) };
        Fault { field, ..self }
    }
}

/// Something from JSON; the field that is wrong is named.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let words = error.inner().to_string();
        let path = if path == "." { String::new() } else { path };
        // What is missing is not on the path: it is named in the words.
        let missing = words.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        match missing {
            Some(field) => {
                let fault = Fault::at(field, "is missing");
                if path.is_empty() { fault } else { fault.within(path) }
            }
            None => Fault::at(path, words),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::spec::{PoolSpec, ServiceSpec};
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_fields_are_named() {
        let service = |value| read::<ServiceSpec>(value).unwrap_err();
        assert_eq!(service(json!({"port": 80})), Fault::at("address", "is missing"));
        let fault = service(json!({"address": "10.0.0.1", "prot": 80}));
        assert!(fault.field == "prot" && fault.words.contains("unknown field `prot`"), "{fault:?}");
        let fault = service(json!({"address": "10.0.0.300"}));
        assert_eq!((fault.field.as_str(), fault.words.as_str()), ("address", "invalid IPv4 address syntax"));
        let fault = service(json!({"address": "10.0.0.1", "port": 70000}));
        assert!(fault.field == "port" && fault.words.contains("70000"), "{fault:?}");
        let pool = |value| read::<PoolSpec>(value).unwrap_err();
        let fault = pool(json!({"members": [{"name": "a", "address": "10.0.0.1"}, {"name": "b"}]}));
        assert_eq!(fault, Fault::at("members[1].address", "is missing"));
        let fault = pool(json!({"members": [{"name": "a b", "address": "10.0.0.1"}]}));
        assert!(fault.field == "members[0].name" && fault.words.starts_with("`a b` is no name"), "{fault:?}");
        assert_eq!(Fault::at("", "x").within("a").within("b"), Fault::at("b.a", "x"));
    }
}
