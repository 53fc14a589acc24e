//! Errors of definitions: the invalid field and the message.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}{}{message}", if .field.is_empty() { "" } else { ": " })]
pub(crate) struct FieldError {
    /// Dotted path, such as `members[2].address`; empty for the whole definition.
    pub(crate) field: String,
    pub(crate) message: String,
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> FieldError {
        FieldError { field: field.into(), message: message.into() }
    }
    pub(crate) fn within(self, part: impl Display) -> FieldError {
        let field = if self.field.is_empty() { part.to_string() } else { format!("{part}.{}", self.field) };
        FieldError { field, ..self }
    }
    /// Returns the error with the field relative to `part` if it is below that.
    pub(crate) fn relative_to(self, part: &str) -> FieldError {
        let rest = self.field.strip_prefix(part).map(|rest| rest.trim_start_matches('.').to_owned());
        FieldError { field: rest.unwrap_or(self.field), ..self }
    }
}

/// Returns an error about a field unless a requirement is met.
pub(crate) fn require(is_met: bool, field: &str, message: impl Display) -> Result<(), FieldError> {
    if is_met { Ok(()) } else { Err(FieldError::new(field, message.to_string())) }
}

pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let (path, message) = (error.path().to_string(), error.inner().to_string());
        // The path ends at the table of a missing field; the message has the name.
        let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        let fault = missing.map_or(FieldError::new("", &message), |field| FieldError::new(field, "is missing"));
        if path == "." { fault } else { fault.within(path) }
    })
}

#[cfg(test)]
mod tests {
    use super::super::spec::{PoolSpec, ServiceSpec};
    use super::*;
    use serde_json::json;

    #[test]
    fn error_names_invalid_field() {
        let service = |value| read::<ServiceSpec>(value).unwrap_err();
        assert_eq!(service(json!({"port": 80})), FieldError::new("address", "is missing"));
        let fault = service(json!({"address": "10.0.0.1", "prot": 80}));
        assert!(fault.field == "prot" && fault.message.contains("unknown field `prot`"), "{fault:?}");
        let fault = service(json!({"address": "10.0.0.300"}));
        assert_eq!((fault.field.as_str(), fault.message.as_str()), ("address", "invalid IPv4 address syntax"));
        let fault = service(json!({"address": "10.0.0.1", "port": 70000}));
        assert!(fault.field == "port" && fault.message.contains("70000"), "{fault:?}");
        let pool = |value| read::<PoolSpec>(value).unwrap_err();
        let fault = pool(json!({"members": [{"name": "a", "address": "10.0.0.1"}, {"name": "b"}]}));
        assert_eq!(fault, FieldError::new("members[1].address", "is missing"));
        let fault = pool(json!({"members": [{"name": "a b", "address": "10.0.0.1"}]}));
        assert!(
            fault.field == "members[0].name" && fault.message.starts_with("`a b` is not a valid name"),
            "{fault:?}"
        );
        assert_eq!(FieldError::new("", "x").within("a").within("b"), FieldError::new("b.a", "x"));
    }
}
