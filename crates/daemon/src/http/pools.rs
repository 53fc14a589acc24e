//! `/v1/pools`: pools of members.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::body::{Body, BodyFaults, NewPool, PoolPatch};
use super::problem::Problem;
use super::resource::{self, Resource};
use super::vips::{Overview, Pool};
use crate::server::Handle;
use crate::services::{ChangeError, Desired, ErrorScope, Name, Origin, PoolSpec};

impl Resource for PoolSpec {
    const WHAT: &'static str = "pool";
    type View = Pool;

    fn find<'a>(desired: &'a Desired, name: &Name) -> Option<&'a PoolSpec> {
        desired.pools.get(name).map(|pool| &pool.spec)
    }
    fn insert(self, desired: &mut Desired, name: &Name) -> Result<bool, ChangeError> {
        desired.put_pool(Origin::Api, name, self)
    }
    fn remove(desired: &mut Desired, name: &Name) -> Result<bool, ChangeError> {
        desired.remove_pool(Origin::Api, name)
    }
    fn error_scope(name: &Name) -> ErrorScope<'_> {
        ErrorScope::Pool(name)
    }
    fn view(overview: &Overview, name: &Name) -> Option<Pool> {
        overview.pool(name)
    }
}

/// Returns all pools, of any origin.
#[utoipa::path(get, path = "/v1/pools", tag = "services", responses((status = 200, body = Vec<Pool>)))]
pub(super) async fn pools(State(handle): State<Handle>) -> Result<Json<Vec<Pool>>, Problem> {
    Ok(Json(Overview::of(&handle).await?.pools()))
}

/// Creates a pool.
#[utoipa::path(
    post,
    path = "/v1/pools",
    tag = "services",
    request_body(content = inline(NewPool), content_type = "application/json"),
    responses(
        (status = 201, description = "Created; `Location` is its path", body = Pool),
        (status = 409, description = "The name is used", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn make_pool(State(handle): State<Handle>, body: Result<Body, Problem>) -> Result<Response, Problem> {
    resource::make::<PoolSpec>(&handle, body).await
}

/// Returns a pool.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}",
    tag = "services",
    params(("pool" = Name, Path, description = "Name of the pool")),
    responses(
        (status = 200, body = Pool),
        (status = 404, description = "Unknown name", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn pool(State(handle): State<Handle>, Path(text): Path<String>) -> Result<Json<Pool>, Problem> {
    resource::get::<PoolSpec>(&handle, &text).await
}

/// Creates or replaces the pool of this name. Members that are no longer listed keep their
/// connections.
#[utoipa::path(
    put,
    path = "/v1/pools/{pool}",
    tag = "services",
    params(("pool" = Name, Path, description = "Name of the pool")),
    request_body(content = PoolSpec, content_type = "application/json"),
    responses(
        (status = 200, description = "Replaced or changed", body = Pool),
        (status = 201, description = "Created", body = Pool),
        (status = 404, description = "Not a valid name", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It has another origin", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn put_pool(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    resource::put::<PoolSpec>(&handle, &text, body).await
}

/// Changes some fields of a pool (JSON merge patch, RFC 7396); `members` replaces the whole list.
#[utoipa::path(
    patch,
    path = "/v1/pools/{pool}",
    tag = "services",
    params(("pool" = Name, Path, description = "Name of the pool")),
    request_body(content = inline(PoolPatch), content_type = "application/merge-patch+json"),
    responses(
        (status = 200, description = "Replaced or changed", body = Pool),
        (status = 404, description = "Unknown name", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It has another origin", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn patch_pool(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Json<Pool>, Problem> {
    resource::patch::<PoolSpec>(&handle, &text, body).await
}

/// Removes a pool that no service uses.
#[utoipa::path(
    delete,
    path = "/v1/pools/{pool}",
    tag = "services",
    params(("pool" = Name, Path, description = "Name of the pool")),
    responses(
        (status = 204, description = "Removed"),
        (status = 404, description = "Unknown name", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "A service uses it, or it has another origin", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn delete_pool(State(handle): State<Handle>, Path(text): Path<String>) -> Result<StatusCode, Problem> {
    resource::delete::<PoolSpec>(&handle, &text).await
}
