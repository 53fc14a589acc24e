//! Mistakes as JSON problems (RFC 9457).

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

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
}

impl Problem {
    fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let title = status.canonical_reason().unwrap_or("Problem");
        Problem { kind: "about:blank", title, status: status.as_u16(), detail: detail.into() }
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
    pub(crate) fn stopping() -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the controller is stopping")
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Problem {
        Problem::new(rejection.status(), rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, [(header::CONTENT_TYPE, "application/problem+json")], Json(self)).into_response()
    }
}
