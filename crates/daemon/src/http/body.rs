//! Request bodies: JSON, with errors that name the invalid field.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::PartialSchema;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{self, RefOr};

use super::problem::Problem;
use super::strict_json;
use crate::services::{self, FieldError, Name};

pub(super) struct Body(pub(super) Value);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Body, Problem> {
        if !is_json(request.headers()) {
            let message = "the body must be JSON with the header Content-Type: application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()))?;
        let value = strict_json::parse(&bytes);
        value
            .map(Body)
            .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not valid JSON: {error}")))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

impl Body {
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, Problem> {
        Ok(services::read(self.object()?.into())?)
    }
    pub(super) fn read_named<T: DeserializeOwned>(self) -> Result<(Name, T), Problem> {
        let mut object = self.object()?;
        let name = object.remove("name").ok_or_else(|| FieldError::new("name", "is missing"))?;
        let name = services::read(name).map_err(|fault| fault.within("name"))?;
        Ok((name, services::read(Value::Object(object))?))
    }
    /// Merges the body into the current value (RFC 7396).
    pub(super) fn patch<T: Serialize + DeserializeOwned>(self, current: &T) -> Result<T, FieldError> {
        let patch = self.object()?;
        let mut merged = serde_json::to_value(current).map_err(|error| FieldError::new("", error.to_string()))?;
        merge(&mut merged, patch.into());
        services::read(merged)
    }
    fn object(self) -> Result<Map<String, Value>, FieldError> {
        let Value::Object(object) = self.0 else {
            return Err(FieldError::new("", "the body must be a JSON object"));
        };
        Ok(object)
    }
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(&key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn schema_of<T: PartialSchema>(edit: impl FnOnce(&mut openapi::Object)) -> RefOr<Schema> {
    let mut schema = T::schema();
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        edit(object);
    }
    schema
}

pub(super) fn new_schema<T: PartialSchema>() -> RefOr<Schema> {
    schema_of::<T>(|object| {
        object.properties.insert("name".to_owned(), Name::schema());
        object.required.insert(0, "name".to_owned());
    })
}

/// Returns the schema of a merge patch; null sets the default.
pub(super) fn patch_schema<T: PartialSchema>() -> RefOr<Schema> {
    schema_of::<T>(|object| object.required.clear())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patch_follows_rfc_7396_examples() {
        for (target, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, patch.clone());
            assert_eq!(merged, expected, "{target} with {patch}");
        }
    }
}
