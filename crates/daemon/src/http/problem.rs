//! Mistakes as JSON problems (RFC 9457).

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{self, ContentBuilder, Ref, ResponseBuilder};

use crate::services::{Fault, Refused};

/// What problems are called as content.
const CONTENT: &str = "application/problem+json";

/// What was wrong with a request, and what would do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Kind of problem; `about:blank` where the status says it all.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// HTTP status.
    status: u16,
    /// What was wrong here.
    detail: String,
    /// The field of the request that is wrong, if one is, such as `members[0].address`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let title = status.canonical_reason().unwrap_or("Problem");
        Problem { kind: "about:blank", title, status: status.as_u16(), detail: detail.into(), field: None }
    }
    /// A field of the request is wrong.
    pub(crate) fn field(field: impl Into<String>, words: impl Into<String>) -> Problem {
        Problem::from(Fault::at(field, words))
    }
    pub(crate) fn conflict(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, detail)
    }
    pub(crate) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }
    pub(crate) fn method() -> Problem {
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the path does not take this method; GET /v1/openapi.json tells")
    }
    pub(crate) fn unprocessable(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }
    /// An answer with a problem, as the document of the API has it.
    pub(super) fn described(words: &str) -> openapi::Response {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        ResponseBuilder::new().description(words).content(CONTENT, content).build()
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Problem {
        let problem = Problem::unprocessable(fault.to_string());
        Problem { field: (!fault.field.is_empty()).then_some(fault.field), ..problem }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        let words = refused.to_string();
        match refused {
            Refused::Fault(fault) => Problem::from(fault),
            Refused::NotFound(_) => Problem::not_found(words),
            Refused::Conflict(_) => Problem::conflict(words),
            Refused::Store(_) => Problem::new(StatusCode::INSUFFICIENT_STORAGE, words),
            Refused::Stopping => Problem::from(crate::server::Stopping),
        }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Problem {
        Problem::new(rejection.status(), rejection.body_text())
    }
}

impl From<crate::server::Stopping> for Problem {
    fn from(_: crate::server::Stopping) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the controller is stopping")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, [(header::CONTENT_TYPE, CONTENT)], Json(self)).into_response()
    }
}
