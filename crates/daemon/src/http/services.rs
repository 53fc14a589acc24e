//! `/v1/services`: virtual services.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::body::{Body, BodyFaults, NewService, ServicePatch};
use super::problem::Problem;
use super::resource::{self, Resource};
use super::vips::{Overview, Service};
use crate::server::Handle;
use crate::services::{ChangeError, Desired, ErrorScope, Name, Origin, ServiceSpec};

impl Resource for ServiceSpec {
    const WHAT: &'static str = "service";
    type View = Service;

    fn find<'a>(desired: &'a Desired, name: &Name) -> Option<&'a ServiceSpec> {
        desired.services.get(name).map(|service| &service.spec)
    }
    fn insert(self, desired: &mut Desired, name: &Name) -> Result<bool, ChangeError> {
        desired.put_service(Origin::Api, name, self)
    }
    fn remove(desired: &mut Desired, name: &Name) -> Result<bool, ChangeError> {
        desired.remove_service(Origin::Api, name)
    }
    fn error_scope(name: &Name) -> ErrorScope<'_> {
        ErrorScope::Service(name)
    }
    fn view(overview: &Overview, name: &Name) -> Option<Service> {
        overview.service(name)
    }
}

/// Returns all virtual services, of any origin.
#[utoipa::path(get, path = "/v1/services", tag = "services", responses((status = 200, body = Vec<Service>)))]
pub(super) async fn services(State(handle): State<Handle>) -> Result<Json<Vec<Service>>, Problem> {
    Ok(Json(Overview::of(&handle).await?.services()))
}

/// Creates a service. The response is sent when the service is stored and active in the controller.
#[utoipa::path(
    post,
    path = "/v1/services",
    tag = "services",
    request_body(content = inline(NewService), content_type = "application/json"),
    responses(
        (status = 201, description = "Created; `Location` is its path", body = Service),
        (status = 409, description = "The name is used", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn make_service(
    State(handle): State<Handle>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    resource::make::<ServiceSpec>(&handle, body).await
}

/// Returns a service.
#[utoipa::path(
    get,
    path = "/v1/services/{service}",
    tag = "services",
    params(("service" = Name, Path, description = "Name of the service")),
    responses(
        (status = 200, body = Service),
        (status = 404, description = "Unknown name", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn service(State(handle): State<Handle>, Path(text): Path<String>) -> Result<Json<Service>, Problem> {
    resource::get::<ServiceSpec>(&handle, &text).await
}

/// Creates or replaces the service of this name. Its connections stay if address, protocol and port
/// stay.
#[utoipa::path(
    put,
    path = "/v1/services/{service}",
    tag = "services",
    params(("service" = Name, Path, description = "Name of the service")),
    request_body(content = ServiceSpec, content_type = "application/json"),
    responses(
        (status = 200, description = "Replaced or changed", body = Service),
        (status = 201, description = "Created", body = Service),
        (status = 404, description = "Not a valid name", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It has another origin", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn put_service(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    resource::put::<ServiceSpec>(&handle, &text, body).await
}

/// Changes some fields of a service (JSON merge patch, RFC 7396).
#[utoipa::path(
    patch,
    path = "/v1/services/{service}",
    tag = "services",
    params(("service" = Name, Path, description = "Name of the service")),
    request_body(content = inline(ServicePatch), content_type = "application/merge-patch+json"),
    responses(
        (status = 200, description = "Replaced or changed", body = Service),
        (status = 404, description = "Unknown name", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It has another origin", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn patch_service(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Json<Service>, Problem> {
    resource::patch::<ServiceSpec>(&handle, &text, body).await
}

/// Removes a service. Its connections end, and the controller stops replying to ARP requests for
/// its address unless another service has it.
#[utoipa::path(
    delete,
    path = "/v1/services/{service}",
    tag = "services",
    params(("service" = Name, Path, description = "Name of the service")),
    responses(
        (status = 204, description = "Removed"),
        (status = 404, description = "Unknown name", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It has another origin", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn delete_service(
    State(handle): State<Handle>,
    Path(text): Path<String>,
) -> Result<StatusCode, Problem> {
    resource::delete::<ServiceSpec>(&handle, &text).await
}
