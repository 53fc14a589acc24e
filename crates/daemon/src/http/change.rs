//! Requests that change something: their sender, and the condition of `If-Match` (RFC 9110,
//! section 13.1.1).

use std::convert::Infallible;

use axum::Extension;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};

use crate::audit::Actor;
use crate::server::Handle;
use crate::services::{ChangeError, Desired, ServiceManager};

/// The revisions that a request accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Condition {
    Always,
    /// Any revision of an object that exists.
    Exists,
    OneOf(Vec<String>),
}

impl Condition {
    /// Reads the header. Text that is not an entity tag matches no revision.
    fn of(headers: &HeaderMap) -> Condition {
        let values: Vec<&HeaderValue> = headers.get_all(header::IF_MATCH).iter().collect();
        if values.is_empty() {
            return Condition::Always;
        }
        let tags = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        let tags: Vec<String> = tags.map(|tag| tag.trim().to_owned()).collect();
        if tags == ["*"] { Condition::Exists } else { Condition::OneOf(tags) }
    }

    fn check(&self, revision: Option<&str>) -> Result<(), ChangeError> {
        let is_met = match self {
            Condition::Always => true,
            Condition::Exists => revision.is_some(),
            Condition::OneOf(tags) => {
                revision.is_some_and(|revision| tags.iter().any(|tag| *tag == format!("\"{revision}\"")))
            }
        };
        if is_met { Ok(()) } else { Err(ChangeError::Stale(revision.map(str::to_owned))) }
    }
}

/// Returns the header `ETag` of a revision.
pub(super) fn etag(revision: impl std::fmt::Display) -> [(header::HeaderName, String); 1] {
    [(header::ETAG, format!("\"{revision}\""))]
}

/// A request for a change: its sender and its condition.
pub(super) struct ChangeRequest {
    pub(super) handle: Handle,
    pub(super) actor: Actor,
    condition: Condition,
}

impl FromRequestParts<Handle> for ChangeRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, handle: &Handle) -> Result<ChangeRequest, Infallible> {
        let State(handle) = State::<Handle>::from_request_parts(parts, handle).await?;
        let actor = Extension::<Actor>::from_request_parts(parts, &handle).await;
        let Extension(actor) = actor.expect("the guard names the sender of every request");
        Ok(ChangeRequest { handle, actor, condition: Condition::of(&parts.headers) })
    }
}

impl ChangeRequest {
    /// Returns that the condition of the request is not met.
    pub(super) fn check(&self, revision: Option<&str>) -> Result<(), ChangeError> {
        self.condition.check(revision)
    }

    /// Changes the services if the condition is met by the revision that `revision` returns.
    pub(super) async fn change<T: Send + 'static>(
        self,
        revision: impl FnOnce(&Desired) -> Option<u64> + Send + 'static,
        edit: impl FnOnce(&mut Desired, &ServiceManager) -> Result<T, ChangeError> + Send + 'static,
    ) -> Result<T, ChangeError> {
        let ChangeRequest { handle, actor, condition } = self;
        let checked = move |desired: &mut Desired, manager: &ServiceManager| {
            condition.check(revision(desired).map(|revision| revision.to_string()).as_deref())?;
            edit(desired, manager)
        };
        ServiceManager::change(&handle, actor, checked).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_follows_rfc_9110() {
        let met = |values: &[&str], revision| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, value.parse().expect("a value"));
            }
            Condition::of(&headers).check(revision).is_ok()
        };
        for (values, at_7, at_none) in [
            (&[][..], true, true),
            (&["*"], true, false),
            (&["\"7\""], true, false),
            (&["\"6\""], false, false),
            (&["\"6\", \"7\""], true, false),
            (&["\"6\"", "\"7\""], true, false),
            // A weak tag never matches, nor does text that is not a tag.
            (&["W/\"7\""], false, false),
            (&["7"], false, false),
            (&[""], false, false),
        ] {
            assert_eq!((met(values, Some("7")), met(values, None)), (at_7, at_none), "{values:?}");
        }
    }
}
