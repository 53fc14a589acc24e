//! `/v1/services`: virtual services.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::body::{Body, NewService, ServicePatch, made};
use super::problem::Problem;
use super::vips::{Overview, Service};
use crate::server::Handle;
use crate::services::{Desired, Focus, Keeper, Name, Origin, Refused, ServiceSpec};

/// The name in a path.
pub(super) fn name_in(text: &str, what: &str) -> Result<Name, Problem> {
    Name::try_from(text.to_owned()).map_err(|_| no_such(what, text))
}

pub(super) fn no_such(what: &str, name: impl std::fmt::Display) -> Problem {
    Problem::not_found(format!("there is no {what} `{name}`"))
}

/// Puts a service in place and checks what follows; whether it is new.
fn put(desired: &mut Desired, keeper: &Keeper, name: &Name, spec: ServiceSpec) -> Result<bool, Refused> {
    let is_new = desired.put_service(Origin::Api, name, spec)?;
    desired.check(keeper.checker(), Focus::Service(name))?;
    Ok(is_new)
}

async fn one(handle: &Handle, name: &Name) -> Result<Json<Service>, Problem> {
    Overview::of(handle).await?.service(name).map(Json).ok_or_else(|| no_such("service", name))
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
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "There is one of its name", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "More than 64 KiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not called JSON", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field is wrong: it is named", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn make_service(
    State(handle): State<Handle>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    let (name, spec) = body?.read_named::<ServiceSpec>()?;
    let wanted = name.clone();
    let change = move |desired: &mut Desired, keeper: &Keeper| {
        if desired.services.contains_key(&wanted) {
            return Err(Refused::Conflict(format!("there is a service `{wanted}` already: PUT or PATCH changes it")));
        }
        put(desired, keeper, &wanted, spec)
    };
    Keeper::change(&handle, change).await?;
    Ok(made(true, &format!("/v1/services/{name}"), one(&handle, &name).await?))
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
    one(&handle, &name_in(&text, "service")?).await
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
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No name", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Made elsewhere", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "More than 64 KiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not called JSON", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field is wrong: it is named", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn put_service(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    let name = name_in(&text, "service")?;
    let spec = body?.read::<ServiceSpec>()?;
    let wanted = name.clone();
    let is_new = Keeper::change(&handle, move |desired, keeper| put(desired, keeper, &wanted, spec)).await?;
    Ok(made(is_new, &format!("/v1/services/{name}"), one(&handle, &name).await?))
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
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Made elsewhere", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "More than 64 KiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not called JSON", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field is wrong: it is named", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn patch_service(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Json<Service>, Problem> {
    let name = name_in(&text, "service")?;
    let body = body?;
    let wanted = name.clone();
    let change = move |desired: &mut Desired, keeper: &Keeper| {
        let current = desired.services.get(&wanted).map(|service| service.spec.clone());
        let current = current.ok_or_else(|| Refused::NotFound(format!("there is no service `{wanted}`")))?;
        put(desired, keeper, &wanted, body.patch(&current)?)
    };
    Keeper::change(&handle, change).await?;
    one(&handle, &name).await
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
    let name = name_in(&text, "service")?;
    let change = move |desired: &mut Desired, _: &Keeper| match desired.remove_service(Origin::Api, &name)? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Refused::NotFound(format!("there is no service `{name}`"))),
    };
    Ok(Keeper::change(&handle, change).await?)
}
