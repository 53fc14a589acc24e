//! `/v1/pools/{pool}/members`: the members of a pool.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::body::{Body, MemberPatch, made};
use super::problem::Problem;
use super::resource::{definition, name_in, no_such, put_in};
use super::vips::{Member, Overview};
use crate::server::Handle;
use crate::services::{ChangeError, Desired, FieldError, MemberSpec, Name, NamedMember, PoolSpec, ServiceManager};

fn names(pool: &str, member: &str) -> Result<(Name, Name), Problem> {
    Ok((name_in(pool, "pool")?, name_in(member, "member")?))
}

async fn one(handle: &Handle, pool: &Name, member: &Name) -> Result<Json<Member>, Problem> {
    Overview::of(handle).await?.member(pool, member).map(Json).ok_or_else(|| no_such("member", member))
}

/// Returns the definition of a member.
fn member_of(spec: &PoolSpec, member: &Name) -> Result<MemberSpec, ChangeError> {
    let found = spec.member(member).map(NamedMember::spec);
    found.ok_or_else(|| ChangeError::NotFound(format!("unknown member `{member}`")))
}

/// Adds or replaces a member and checks the result. Returns whether it is new. Errors name fields
/// of the member.
fn put_member_in(
    desired: &mut Desired,
    manager: &ServiceManager,
    pool: &Name,
    member: NamedMember,
) -> Result<bool, ChangeError> {
    let mut spec: PoolSpec = definition(desired, pool)?;
    let at = spec.members.iter().position(|other| other.name == member.name);
    let ix = at.unwrap_or(spec.members.len());
    match at {
        Some(ix) => spec.members[ix] = member,
        None => spec.members.push(member),
    }
    put_in(desired, manager, pool, spec).map_err(|refused| match refused {
        ChangeError::Fault(fault) => {
            let part = format!("members[{ix}].");
            let field = fault.field.strip_prefix(&part).map(str::to_owned).unwrap_or(fault.field);
            ChangeError::Fault(FieldError { field, ..fault })
        }
        other => other,
    })?;
    Ok(at.is_none())
}

/// Returns the members of a pool, followed by removed members that still have connections.
#[utoipa::path(
    get, path = "/v1/pools/{pool}/members", tag = "services",
    responses((status = 200, body = Vec<Member>))
)]
pub(super) async fn members(
    State(handle): State<Handle>,
    Path(text): Path<String>,
) -> Result<Json<Vec<Member>>, Problem> {
    let pool = name_in(&text, "pool")?;
    let found = Overview::of(&handle).await?.pool(&pool);
    found.map(|pool| Json(pool.members)).ok_or_else(|| no_such("pool", pool))
}

/// Adds a member.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/members", tag = "services",
    request_body(content = NamedMember, content_type = "application/json"),
    responses((status = 201, description = "Created; `Location` is its path", body = Member))
)]
pub(super) async fn make_member(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    let pool = name_in(&text, "pool")?;
    let member = body?.read::<NamedMember>()?;
    let (name, of) = (member.name.clone(), pool.clone());
    let change = move |desired: &mut Desired, manager: &ServiceManager| {
        if definition::<PoolSpec>(desired, &of)?.member(&member.name).is_some() {
            let message = format!("member `{}` exists already: change it with PUT or PATCH", member.name);
            return Err(ChangeError::Conflict(message));
        }
        put_member_in(desired, manager, &of, member)
    };
    ServiceManager::change(&handle, change).await?;
    Ok(made(true, &format!("/v1/pools/{pool}/members/{name}"), one(&handle, &pool, &name).await?))
}

/// Returns a member.
#[utoipa::path(
    get, path = "/v1/pools/{pool}/members/{member}", tag = "services",
    responses((status = 200, body = Member))
)]
pub(super) async fn member(
    State(handle): State<Handle>,
    Path((pool, member)): Path<(String, String)>,
) -> Result<Json<Member>, Problem> {
    let (pool, member) = names(&pool, &member)?;
    one(&handle, &pool, &member).await
}

/// Adds or replaces the member of this name. Another address or port makes it another member: the
/// old one keeps its connections.
#[utoipa::path(
    put, path = "/v1/pools/{pool}/members/{member}", tag = "services",
    request_body(content = MemberSpec, content_type = "application/json"),
    responses(
        (status = 200, description = "Replaced or changed", body = Member),
        (status = 201, description = "Created", body = Member)
    )
)]
pub(super) async fn put_member(
    State(handle): State<Handle>,
    Path((pool, member)): Path<(String, String)>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    let (pool, name) = names(&pool, &member)?;
    let member = NamedMember::new(name.clone(), body?.read::<MemberSpec>()?);
    let of = pool.clone();
    let is_new =
        ServiceManager::change(&handle, move |desired, manager| put_member_in(desired, manager, &of, member)).await?;
    Ok(made(is_new, &format!("/v1/pools/{pool}/members/{name}"), one(&handle, &pool, &name).await?))
}

/// Changes some fields of a member (JSON merge patch, RFC 7396). `{"is_enabled": false}` drains it.
#[utoipa::path(
    patch, path = "/v1/pools/{pool}/members/{member}", tag = "services",
    request_body(content = inline(MemberPatch), content_type = "application/merge-patch+json"),
    responses((status = 200, description = "Replaced or changed", body = Member))
)]
pub(super) async fn patch_member(
    State(handle): State<Handle>,
    Path((pool, member)): Path<(String, String)>,
    body: Result<Body, Problem>,
) -> Result<Json<Member>, Problem> {
    let (pool, name) = names(&pool, &member)?;
    let body = body?;
    let (of, at) = (pool.clone(), name.clone());
    let change = move |desired: &mut Desired, manager: &ServiceManager| {
        let current = member_of(&definition(desired, &of)?, &at)?;
        let member = NamedMember::new(at, body.patch(&current)?);
        put_member_in(desired, manager, &of, member)
    };
    ServiceManager::change(&handle, change).await?;
    one(&handle, &pool, &name).await
}

/// Removes a member. It keeps its connections and gets no new ones.
#[utoipa::path(
    delete, path = "/v1/pools/{pool}/members/{member}", tag = "services",
    responses((status = 204, description = "Removed"))
)]
pub(super) async fn delete_member(
    State(handle): State<Handle>,
    Path((pool, member)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let (pool, name) = names(&pool, &member)?;
    let change = move |desired: &mut Desired, manager: &ServiceManager| {
        let mut spec: PoolSpec = definition(desired, &pool)?;
        member_of(&spec, &name)?;
        spec.members.retain(|other| other.name != name);
        put_in(desired, manager, &pool, spec).map(|_| StatusCode::NO_CONTENT)
    };
    Ok(ServiceManager::change(&handle, change).await?)
}
