//! Errors as JSON problems (RFC 9457).

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{self, ContentBuilder, Ref, ResponseBuilder};

use crate::services::ChangeError;

const CONTENT: &str = "application/problem+json";

/// The error of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Type of the problem; `about:blank` if the status describes it completely.
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    /// Invalid field of the request, such as `members[0].address`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let title = status.canonical_reason().unwrap_or("Problem");
        Problem { kind: "about:blank", title, status: status.as_u16(), detail: detail.into(), field: None }
    }
    pub(crate) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }
    pub(super) fn described(message: &str) -> openapi::Response {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        ResponseBuilder::new().description(message).content(CONTENT, content).build()
    }
}

pub(super) fn status_of(refused: &ChangeError) -> StatusCode {
    match refused {
        ChangeError::Fault(_) => StatusCode::UNPROCESSABLE_ENTITY,
        ChangeError::NotFound(_) => StatusCode::NOT_FOUND,
        ChangeError::Conflict(_) => StatusCode::CONFLICT,
        ChangeError::Stale(_) => StatusCode::PRECONDITION_FAILED,
        ChangeError::Store(_) => StatusCode::INSUFFICIENT_STORAGE,
        ChangeError::StoreUnavailable(_) | ChangeError::Stopping(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl<E: Into<ChangeError>> From<E> for Problem {
    fn from(error: E) -> Problem {
        let refused = error.into();
        let problem = Problem::new(status_of(&refused), refused.to_string());
        match refused {
            ChangeError::Fault(fault) if !fault.field.is_empty() => Problem { field: Some(fault.field), ..problem },
            _ => problem,
        }
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
        (status, [(header::CONTENT_TYPE, CONTENT)], Json(self)).into_response()
    }
}
