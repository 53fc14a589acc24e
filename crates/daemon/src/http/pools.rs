//! `/v1/pools`: who serves.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::body::{Body, NewPool, PoolPatch, made};
use super::problem::Problem;
use super::services::{name_in, no_such};
use super::vips::{Overview, Pool};
use crate::server::Handle;
use crate::services::{Desired, Focus, Keeper, Name, Origin, PoolSpec, Refused};

/// Puts a pool in place and checks what follows; whether it is new.
pub(super) fn put(desired: &mut Desired, keeper: &Keeper, name: &Name, spec: PoolSpec) -> Result<bool, Refused> {
    let is_new = desired.put_pool(Origin::Api, name, spec)?;
    desired.check(keeper.checker(), Focus::Pool(name))?;
    Ok(is_new)
}

/// What is wanted of a pool.
pub(super) fn spec_of(desired: &Desired, name: &Name) -> Result<PoolSpec, Refused> {
    let found = desired.pools.get(name).map(|pool| pool.spec.clone());
    found.ok_or_else(|| Refused::NotFound(format!("there is no pool `{name}`")))
}

async fn one(handle: &Handle, name: &Name) -> Result<Json<Pool>, Problem> {
    Overview::of(handle).await?.pool(name).map(Json).ok_or_else(|| no_such("pool", name))
}

/// Pools, whoever made them.
#[utoipa::path(get, path = "/v1/pools", tag = "services", responses((status = 200, body = Vec<Pool>)))]
pub(super) async fn pools(State(handle): State<Handle>) -> Result<Json<Vec<Pool>>, Problem> {
    Ok(Json(Overview::of(&handle).await?.pools()))
}

/// Makes a pool.
#[utoipa::path(
    post,
    path = "/v1/pools",
    tag = "services",
    request_body(content = inline(NewPool), content_type = "application/json"),
    responses(
        (status = 201, description = "It is there now; `Location` is where", body = Pool),
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "There is one of its name", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "More than 64 KiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not called JSON", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field is wrong: it is named", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn make_pool(State(handle): State<Handle>, body: Result<Body, Problem>) -> Result<Response, Problem> {
    let (name, spec) = body?.read_named::<PoolSpec>()?;
    let wanted = name.clone();
    let change = move |desired: &mut Desired, keeper: &Keeper| {
        if desired.pools.contains_key(&wanted) {
            return Err(Refused::Conflict(format!("there is a pool `{wanted}` already: PUT or PATCH changes it")));
        }
        put(desired, keeper, &wanted, spec)
    };
    Keeper::change(&handle, change).await?;
    Ok(made(true, &format!("/v1/pools/{name}"), one(&handle, &name).await?))
}

/// One pool.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}",
    tag = "services",
    params(("pool" = Name, Path, description = "Its name")),
    responses(
        (status = 200, body = Pool),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn pool(State(handle): State<Handle>, Path(text): Path<String>) -> Result<Json<Pool>, Problem> {
    one(&handle, &name_in(&text, "pool")?).await
}

/// Makes a pool of this name, or puts this in the place of the one there is. Members that are not named any more keep the
/// connections they have.
#[utoipa::path(
    put,
    path = "/v1/pools/{pool}",
    tag = "services",
    params(("pool" = Name, Path, description = "Its name")),
    request_body(content = PoolSpec, content_type = "application/json"),
    responses(
        (status = 200, description = "It is another now", body = Pool),
        (status = 201, description = "It is there now", body = Pool),
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No name", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Made elsewhere", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "More than 64 KiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not called JSON", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field is wrong: it is named", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn put_pool(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    let name = name_in(&text, "pool")?;
    let spec = body?.read::<PoolSpec>()?;
    let wanted = name.clone();
    let is_new = Keeper::change(&handle, move |desired, keeper| put(desired, keeper, &wanted, spec)).await?;
    Ok(made(is_new, &format!("/v1/pools/{name}"), one(&handle, &name).await?))
}

/// Changes some fields of a pool (JSON merge patch, RFC 7396); `members` is all of them.
#[utoipa::path(
    patch,
    path = "/v1/pools/{pool}",
    tag = "services",
    params(("pool" = Name, Path, description = "Its name")),
    request_body(content = inline(PoolPatch), content_type = "application/merge-patch+json"),
    responses(
        (status = 200, description = "It is another now", body = Pool),
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Made elsewhere", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "More than 64 KiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not called JSON", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field is wrong: it is named", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn patch_pool(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Json<Pool>, Problem> {
    let name = name_in(&text, "pool")?;
    let body = body?;
    let wanted = name.clone();
    let change = move |desired: &mut Desired, keeper: &Keeper| {
        let current = spec_of(desired, &wanted)?;
        put(desired, keeper, &wanted, body.patch(&current)?)
    };
    Keeper::change(&handle, change).await?;
    one(&handle, &name).await
}

/// Ends a pool that no service uses.
#[utoipa::path(
    delete,
    path = "/v1/pools/{pool}",
    tag = "services",
    params(("pool" = Name, Path, description = "Its name")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "A service uses it, or it was made elsewhere", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn delete_pool(State(handle): State<Handle>, Path(text): Path<String>) -> Result<StatusCode, Problem> {
    let name = name_in(&text, "pool")?;
    let change = move |desired: &mut Desired, _: &Keeper| match desired.remove_pool(Origin::Api, &name)? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Refused::NotFound(format!("there is no pool `{name}`"))),
    };
    Ok(Keeper::change(&handle, change).await?)
}
