//! Errors as JSON problems (RFC 9457).

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{self, ContentBuilder, Ref, ResponseBuilder};

use crate::services::{ChangeError, FieldError};

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
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem::from(FieldError::new(field, message))
    }
    pub(crate) fn conflict(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, detail)
    }
    pub(crate) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }
    pub(crate) fn method() -> Problem {
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method not allowed for this path; GET /v1/openapi.json lists the methods",
        )
    }
    pub(crate) fn unprocessable(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }
    pub(super) fn described(message: &str) -> openapi::Response {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        ResponseBuilder::new().description(message).content(CONTENT, content).build()
    }
}

impl From<FieldError> for Problem {
    fn from(fault: FieldError) -> Problem {
        let problem = Problem::unprocessable(fault.to_string());
        Problem { field: (!fault.field.is_empty()).then_some(fault.field), ..problem }
    }
}

impl From<ChangeError> for Problem {
    fn from(refused: ChangeError) -> Problem {
        let message = refused.to_string();
        match refused {
            ChangeError::Fault(fault) => Problem::from(fault),
            ChangeError::NotFound(_) => Problem::not_found(message),
            ChangeError::Conflict(_) => Problem::conflict(message),
            ChangeError::Store(_) => Problem::new(StatusCode::INSUFFICIENT_STORAGE, message),
            ChangeError::Stopping => Problem::from(crate::server::Stopping),
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
