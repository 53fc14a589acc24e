//! `/v1/services`: virtual services.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::body::{Body, BodyFaults, NewService, ServicePatch};
use super::named::{self, Named};
use super::problem::Problem;
use super::vips::{Overview, Service};
use crate::server::Handle;
use crate::services::{Desired, Focus, Name, Origin, Refused, ServiceSpec};

impl Named for ServiceSpec {
    const WHAT: &'static str = "service";
    type Shown = Service;

    fn find<'a>(desired: &'a Desired, name: &Name) -> Option<&'a ServiceSpec> {
        desired.services.get(name).map(|service| &service.spec)
    }
    fn insert(self, desired: &mut Desired, name: &Name) -> Result<bool, Refused> {
        desired.put_service(Origin::Api, name, self)
    }
    fn remove(desired: &mut Desired, name: &Name) -> Result<bool, Refused> {
        desired.remove_service(Origin::Api, name)
    }
    fn focus(name: &Name) -> Focus<'_> {
        Focus::Service(name)
    }
    fn shown(overview: &Overview, name: &Name) -> Option<Service> {
        overview.service(name)
    }
}

/// Virtual services, whoever made them.
#[utoipa::path(get, path = "/v1/services", tag = "services", responses((status = 200, body = Vec<Service>)))]
pub(super) async fn services(State(handle): State<Handle>) -> Result<Json<Vec<Service>>, Problem> {
    Ok(Json(Overview::of(&handle).await?.services()))
}

/// Makes a service. It is written down, and the controller does it, when this is answered.
#[utoipa::path(
    post,
    path = "/v1/services",
    tag = "services",
    request_body(content = inline(NewService), content_type = "application/json"),
    responses(
        (status = 201, description = "It is there now; `Location` is where", body = Service),
        (status = 409, description = "There is one of its name", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn make_service(
    State(handle): State<Handle>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    named::make::<ServiceSpec>(&handle, body).await
}

/// One service.
#[utoipa::path(
    get,
    path = "/v1/services/{service}",
    tag = "services",
    params(("service" = Name, Path, description = "Its name")),
    responses(
        (status = 200, body = Service),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn service(State(handle): State<Handle>, Path(text): Path<String>) -> Result<Json<Service>, Problem> {
    named::get::<ServiceSpec>(&handle, &text).await
}

/// Makes a service of this name, or puts this in the place of the one there is. Its connections go on if address, protocol
/// and port stay.
#[utoipa::path(
    put,
    path = "/v1/services/{service}",
    tag = "services",
    params(("service" = Name, Path, description = "Its name")),
    request_body(content = ServiceSpec, content_type = "application/json"),
    responses(
        (status = 200, description = "It is another now", body = Service),
        (status = 201, description = "It is there now", body = Service),
        (status = 404, description = "No name", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Made elsewhere", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn put_service(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    named::put::<ServiceSpec>(&handle, &text, body).await
}

/// Changes some fields of a service (JSON merge patch, RFC 7396).
#[utoipa::path(
    patch,
    path = "/v1/services/{service}",
    tag = "services",
    params(("service" = Name, Path, description = "Its name")),
    request_body(content = inline(ServicePatch), content_type = "application/merge-patch+json"),
    responses(
        (status = 200, description = "It is another now", body = Service),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Made elsewhere", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn patch_service(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Json<Service>, Problem> {
    named::patch::<ServiceSpec>(&handle, &text, body).await
}

/// Ends a service: its address is not answered for any more, unless another has it, and its connections are over.
#[utoipa::path(
    delete,
    path = "/v1/services/{service}",
    tag = "services",
    params(("service" = Name, Path, description = "Its name")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Made elsewhere", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn delete_service(
    State(handle): State<Handle>,
    Path(text): Path<String>,
) -> Result<StatusCode, Problem> {
    named::delete::<ServiceSpec>(&handle, &text).await
}
