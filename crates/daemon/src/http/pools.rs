//! `/v1/pools`: who serves.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::body::{Body, BodyFaults, NewPool, PoolPatch};
use super::named::{self, Named};
use super::problem::Problem;
use super::vips::{Overview, Pool};
use crate::server::Handle;
use crate::services::{Desired, Focus, Name, Origin, PoolSpec, Refused};

impl Named for PoolSpec {
    const WHAT: &'static str = "pool";
    type Shown = Pool;

    fn find<'a>(desired: &'a Desired, name: &Name) -> Option<&'a PoolSpec> {
        desired.pools.get(name).map(|pool| &pool.spec)
    }
    fn insert(self, desired: &mut Desired, name: &Name) -> Result<bool, Refused> {
        desired.put_pool(Origin::Api, name, self)
    }
    fn remove(desired: &mut Desired, name: &Name) -> Result<bool, Refused> {
        desired.remove_pool(Origin::Api, name)
    }
    fn focus(name: &Name) -> Focus<'_> {
        Focus::Pool(name)
    }
    fn shown(overview: &Overview, name: &Name) -> Option<Pool> {
        overview.pool(name)
    }
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
        (status = 409, description = "There is one of its name", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn make_pool(State(handle): State<Handle>, body: Result<Body, Problem>) -> Result<Response, Problem> {
    named::make::<PoolSpec>(&handle, body).await
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
    named::get::<PoolSpec>(&handle, &text).await
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
        (status = 404, description = "No name", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Made elsewhere", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn put_pool(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    named::put::<PoolSpec>(&handle, &text, body).await
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
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Made elsewhere", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn patch_pool(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Json<Pool>, Problem> {
    named::patch::<PoolSpec>(&handle, &text, body).await
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
    named::delete::<PoolSpec>(&handle, &text).await
}
