//! Bodies of requests as the API takes them: JSON, with the field named that is wrong.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{self, RefOr};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use super::problem::Problem;
use crate::services::{self, Fault, MemberSpec, Name, PoolSpec, ServiceSpec};

/// A body that is any JSON.
pub(super) struct Body(pub(super) Value);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Body, Problem> {
        if !is_json(request.headers()) {
            let words = "the body must be JSON, and be called so: Content-Type: application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
        }
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()))?;
        let value = serde_json::from_slice(&bytes);
        value.map(Body).map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("the body is no JSON: {error}")))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

impl Body {
    /// What was sent.
    ///
    /// # Errors
    /// The field that is wrong.
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, Problem> {
        self.object()?;
        services::read(self.0).map_err(Problem::from)
    }

    /// What was sent, and the name it is to have.
    ///
    /// # Errors
    /// The field that is wrong.
    pub(super) fn read_named<T: DeserializeOwned>(self) -> Result<(Name, T), Problem> {
        self.object()?;
        let Value::Object(mut object) = self.0 else { unreachable!("it is an object") };
        let name = object.remove("name").ok_or_else(|| Problem::field("name", "is missing"))?;
        let name = services::read(name).map_err(|fault| Problem::from(fault.within("name")))?;
        Ok((name, services::read(Value::Object(object))?))
    }

    /// What there is, with what was sent in its place where something was (RFC 7396).
    ///
    /// # Errors
    /// The field that is wrong.
    pub(super) fn patch<T: Serialize + DeserializeOwned>(self, current: &T) -> Result<T, Fault> {
        self.object()?;
        let mut merged = serde_json::to_value(current).map_err(|error| Fault::at("", error.to_string()))?;
        merge(&mut merged, self.0);
        services::read(merged)
    }

    fn object(&self) -> Result<&Map<String, Value>, Fault> {
        self.0.as_object().ok_or_else(|| Fault::at("", "the body must be a JSON object"))
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

fn schema_of<T: PartialSchema>(edit: impl FnOnce(&mut utoipa::openapi::schema::Object)) -> RefOr<Schema> {
    let mut schema = T::schema();
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        edit(object);
    }
    schema
}

/// What is made: the same with its name. Only for the document.
pub(super) struct New<T>(std::marker::PhantomData<T>);

impl<T: PartialSchema> PartialSchema for New<T> {
    fn schema() -> RefOr<Schema> {
        schema_of::<T>(|object| {
            object.properties.insert("name".to_owned(), Name::schema());
            object.required.insert(0, "name".to_owned());
        })
    }
}

impl<T: ToSchema> ToSchema for New<T> {
    fn name() -> std::borrow::Cow<'static, str> {
        format!("New{}", T::name().trim_end_matches("Spec")).into()
    }
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        T::schemas(schemas);
    }
}

/// Fields that are to be others; null for what they are if nothing is said. Only for the document.
pub(super) struct Patch<T>(std::marker::PhantomData<T>);

impl<T: PartialSchema> PartialSchema for Patch<T> {
    fn schema() -> RefOr<Schema> {
        schema_of::<T>(|object| object.required.clear())
    }
}

impl<T: ToSchema> ToSchema for Patch<T> {
    fn name() -> std::borrow::Cow<'static, str> {
        format!("{}Patch", T::name().trim_end_matches("Spec")).into()
    }
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        T::schemas(schemas);
    }
}

// The macros that collect the document take no types with parameters.
pub(super) type NewService = New<ServiceSpec>;
pub(super) type NewPool = New<PoolSpec>;
pub(super) type ServicePatch = Patch<ServiceSpec>;
pub(super) type PoolPatch = Patch<PoolSpec>;
pub(super) type MemberPatch = Patch<MemberSpec>;

/// Answers to bodies that cannot be taken. Only for the document.
pub(super) struct BodyFaults;

impl IntoResponses for BodyFaults {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let all = [
            ("400", "No JSON"),
            ("413", "More than 64 KiB"),
            ("415", "Not called JSON"),
            ("422", "A field is wrong: it is named"),
        ];
        all.into_iter().map(|(status, words)| (status.to_owned(), Problem::described(words).into())).collect()
    }
}

/// An answer to what was made: 201 with where it is, or 200 if it was there.
pub(super) fn made(is_new: bool, path: &str, body: impl IntoResponse) -> Response {
    if is_new { (StatusCode::CREATED, [(header::LOCATION, path)], body).into_response() } else { body.into_response() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patches_are_merged_as_the_standard_has_it() {
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
