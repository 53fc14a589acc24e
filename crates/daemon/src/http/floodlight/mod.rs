//! The calls of Floodlight that scripts use, and those of F1's MALOB, over the same state as `/v1`:
//! load balancer under `/quantum/v1.0`, listings under `/wm`. Paths, fields and responses are those
//! of recorded Floodlight 1.2 calls (data/floodlight); docs/floodlight.md lists the intended
//! differences.

mod balancing;
mod fields;
mod listings;
mod monitors;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::problem::status_of;
use crate::audit::Actor;
use crate::server::Handle;
use crate::services::{ChangeError, FieldError, Floodlight, ServiceManager};

/// A response: status, and JSON with `charset` where Floodlight's handwritten responses have it.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    body: String,
    is_by_hand: bool,
}

impl Answer {
    fn of(body: impl Into<String>) -> Answer {
        Answer { status: StatusCode::OK, body: body.into(), is_by_hand: false }
    }
    fn one(item: Option<String>) -> Answer {
        Answer::of(fields::list([item.unwrap_or_else(|| "null".to_owned())]))
    }
    fn status(text: &str) -> Answer {
        let body = format!("{{\"status\" : {}}}", json!(text));
        Answer { status: StatusCode::OK, body, is_by_hand: true }
    }
    fn removed(what: &str, was_there: bool) -> Answer {
        if was_there { Answer::status("200 OK!") } else { Answer::status(&format!("Error: {what} cannot be deleted!")) }
    }
    fn number(is_done: bool) -> Answer {
        Answer::of(if is_done { "0" } else { "-1" })
    }
    fn nothing() -> Answer {
        Answer { status: StatusCode::NO_CONTENT, ..Answer::of("") }
    }
    fn error(status: StatusCode, description: &str) -> Answer {
        let section = match status {
            StatusCode::BAD_REQUEST => "10.4.1",
            StatusCode::NOT_FOUND => "10.4.5",
            StatusCode::METHOD_NOT_ALLOWED => "10.4.6",
            StatusCode::CONFLICT => "10.4.10",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "10.4.16",
            _ => "10.5.1",
        };
        let is_client = status.is_client_error();
        let body = json!({
            "code": status.as_u16(),
            "description": description,
            "reasonPhrase": status.canonical_reason(),
            "throwable": null,
            "uri": format!("http://www.w3.org/Protocols/rfc2616/rfc2616-sec10.html#sec{section}"),
            "globalError": false,
            "redirection": false,
            "recoverableError": false,
            "error": true,
            "success": false,
            "informational": false,
            "serverError": !is_client,
            "connectorError": false,
            "clientError": is_client,
        });
        Answer { status, body: body.to_string(), is_by_hand: false }
    }
    fn not_found() -> Answer {
        Answer::error(StatusCode::NOT_FOUND, "The server has not found anything matching the request URI")
    }
    /// Returns the error of a method that the resource does not have.
    fn require_method(is_allowed: bool) -> Result<(), Answer> {
        let description =
            "The method specified in the request is not allowed for the resource identified by the request URI";
        if is_allowed { Ok(()) } else { Err(Answer::error(StatusCode::METHOD_NOT_ALLOWED, description)) }
    }
}

impl<E: Into<ChangeError>> From<E> for Answer {
    fn from(error: E) -> Answer {
        let refused = error.into();
        let status = match &refused {
            ChangeError::Fault(_) => StatusCode::BAD_REQUEST,
            other => status_of(other),
        };
        Answer::error(status, &refused.to_string())
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        if self.status == StatusCode::NO_CONTENT {
            return self.status.into_response();
        }
        let kind = if self.is_by_hand { "application/json; charset=UTF-8" } else { "application/json" };
        (self.status, [(header::CONTENT_TYPE, kind)], self.body).into_response()
    }
}

struct Call<'a> {
    handle: &'a Handle,
    actor: Actor,
    method: Method,
    /// Path segments without empty ones: a trailing slash makes no difference.
    path: Vec<&'a str>,
    headers: &'a HeaderMap,
    body: &'a [u8],
}

impl Call<'_> {
    fn is_get(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }
    fn is_put_or_post(&self) -> bool {
        self.method == Method::PUT || self.method == Method::POST
    }
    /// Rejects a JSON content type for calls without a body, as Floodlight does; forms without
    /// content pass.
    fn no_body(&self) -> Result<(), Answer> {
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if self.body.is_empty() || !kind.starts_with("application/json") {
            return Ok(());
        }
        let description = "The server is refusing to service the request because the entity of the request is in a format not \
                     supported by the requested resource for the requested method";
        Err(Answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, description))
    }
    async fn change(
        &self,
        edit: impl FnOnce(&mut Floodlight) -> Result<Answer, FieldError> + Send + 'static,
    ) -> Result<Answer, Answer> {
        let done = ServiceManager::change(self.handle, self.actor.clone(), move |desired, manager| {
            let answer = edit(&mut desired.floodlight)?;
            desired.follow_floodlight(manager.checker)?;
            Ok(answer)
        });
        Ok(done.await?)
    }
}

pub(super) async fn answer(
    State(handle): State<Handle>,
    Extension(actor): Extension<Actor>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut path: Vec<&str> = uri.path().split('/').filter(|piece| !piece.is_empty()).collect();
    let is_balancing = path.first() == Some(&"quantum");
    path.drain(..if is_balancing { 2.min(path.len()) } else { 1 });
    let call = Call { handle: &handle, actor, method, path, headers: &headers, body: &body };
    let answer = if is_balancing { balancing::answer(&call).await } else { listings::answer(&call, uri.query()).await };
    answer.unwrap_or_else(|error| error).into_response()
}
