//! `/v1/pools/{pool}/members`: the servers of a pool, one by one.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::body::{Body, BodyFaults, MemberPatch, made};
use super::named::{name_in, no_such, put_in, wanted};
use super::problem::Problem;
use super::vips::{Member, Overview};
use crate::server::Handle;
use crate::services::{Desired, Fault, Keeper, MemberSpec, Name, NamedMember, PoolSpec, Refused};

fn names(pool: &str, member: &str) -> Result<(Name, Name), Problem> {
    Ok((name_in(pool, "pool")?, name_in(member, "member")?))
}

async fn one(handle: &Handle, pool: &Name, member: &Name) -> Result<Json<Member>, Problem> {
    Overview::of(handle).await?.member(pool, member).map(Json).ok_or_else(|| no_such("member", member))
}

/// What is wanted of a member.
fn member_of(spec: &PoolSpec, member: &Name) -> Result<MemberSpec, Refused> {
    let found = spec.member(member).map(NamedMember::spec);
    found.ok_or_else(|| Refused::NotFound(format!("there is no member `{member}`")))
}

/// Puts a member in place and checks what follows; whether it is new. Faults are named as those of the member.
fn put_member_in(desired: &mut Desired, keeper: &Keeper, pool: &Name, member: NamedMember) -> Result<bool, Refused> {
    let mut spec: PoolSpec = wanted(desired, pool)?;
    let at = spec.members.iter().position(|other| other.name == member.name);
    let ix = at.unwrap_or(spec.members.len());
    match at {
        Some(ix) => spec.members[ix] = member,
        None => spec.members.push(member),
    }
    put_in(desired, keeper, pool, spec).map_err(|refused| match refused {
        Refused::Fault(fault) => {
            let part = format!("members[{ix}].");
            let field = fault.field.strip_prefix(&part).map(str::to_owned).unwrap_or(fault.field);
            Refused::Fault(Fault { field, ..fault })
        }
        other => other,
    })?;
    Ok(at.is_none())
}

/// Members of a pool; last those that are not wanted any more and still have connections.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}/members",
    tag = "services",
    params(("pool" = Name, Path, description = "Name of the pool")),
    responses(
        (status = 200, body = Vec<Member>),
        (status = 404, description = "There is no such pool", body = Problem, content_type = "application/problem+json")
    )
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
    post,
    path = "/v1/pools/{pool}/members",
    tag = "services",
    params(("pool" = Name, Path, description = "Name of the pool")),
    request_body(content = NamedMember, content_type = "application/json"),
    responses(
        (status = 201, description = "It is there now; `Location` is where", body = Member),
        (status = 404, description = "There is no such pool", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "There is one of its name, or the pool was made elsewhere", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn make_member(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    let pool = name_in(&text, "pool")?;
    let member = body?.read::<NamedMember>()?;
    let (name, of) = (member.name.clone(), pool.clone());
    let change = move |desired: &mut Desired, keeper: &Keeper| {
        if wanted::<PoolSpec>(desired, &of)?.member(&member.name).is_some() {
            let words = format!("there is a member `{}` already: PUT or PATCH changes it", member.name);
            return Err(Refused::Conflict(words));
        }
        put_member_in(desired, keeper, &of, member)
    };
    Keeper::change(&handle, change).await?;
    Ok(made(true, &format!("/v1/pools/{pool}/members/{name}"), one(&handle, &pool, &name).await?))
}

/// One member.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}/members/{member}",
    tag = "services",
    params(("pool" = Name, Path, description = "Name of the pool"), ("member" = Name, Path, description = "Its name")),
    responses(
        (status = 200, body = Member),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn member(
    State(handle): State<Handle>,
    Path((pool, member)): Path<(String, String)>,
) -> Result<Json<Member>, Problem> {
    let (pool, member) = names(&pool, &member)?;
    one(&handle, &pool, &member).await
}

/// Adds a member of this name, or puts this in the place of the one there is. With another address or port it is another
/// server: the one there was keeps the connections it has.
#[utoipa::path(
    put,
    path = "/v1/pools/{pool}/members/{member}",
    tag = "services",
    params(("pool" = Name, Path, description = "Name of the pool"), ("member" = Name, Path, description = "Its name")),
    request_body(content = MemberSpec, content_type = "application/json"),
    responses(
        (status = 200, description = "It is another now", body = Member),
        (status = 201, description = "It is there now", body = Member),
        (status = 404, description = "There is no such pool", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The pool was made elsewhere", body = Problem, content_type = "application/problem+json"),
        BodyFaults
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
    let is_new = Keeper::change(&handle, move |desired, keeper| put_member_in(desired, keeper, &of, member)).await?;
    Ok(made(is_new, &format!("/v1/pools/{pool}/members/{name}"), one(&handle, &pool, &name).await?))
}

/// Changes some fields of a member (JSON merge patch, RFC 7396). `{"is_enabled": false}` drains it.
#[utoipa::path(
    patch,
    path = "/v1/pools/{pool}/members/{member}",
    tag = "services",
    params(("pool" = Name, Path, description = "Name of the pool"), ("member" = Name, Path, description = "Its name")),
    request_body(content = inline(MemberPatch), content_type = "application/merge-patch+json"),
    responses(
        (status = 200, description = "It is another now", body = Member),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The pool was made elsewhere", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn patch_member(
    State(handle): State<Handle>,
    Path((pool, member)): Path<(String, String)>,
    body: Result<Body, Problem>,
) -> Result<Json<Member>, Problem> {
    let (pool, name) = names(&pool, &member)?;
    let body = body?;
    let (of, at) = (pool.clone(), name.clone());
    let change = move |desired: &mut Desired, keeper: &Keeper| {
        let current = member_of(&wanted(desired, &of)?, &at)?;
        let member = NamedMember::new(at, body.patch(&current)?);
        put_member_in(desired, keeper, &of, member)
    };
    Keeper::change(&handle, change).await?;
    one(&handle, &pool, &name).await
}

/// Removes a member: it keeps the connections it has, and gets no others.
#[utoipa::path(
    delete,
    path = "/v1/pools/{pool}/members/{member}",
    tag = "services",
    params(("pool" = Name, Path, description = "Name of the pool"), ("member" = Name, Path, description = "Its name")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The pool was made elsewhere", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn delete_member(
    State(handle): State<Handle>,
    Path((pool, member)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let (pool, name) = names(&pool, &member)?;
    let change = move |desired: &mut Desired, keeper: &Keeper| {
        let mut spec: PoolSpec = wanted(desired, &pool)?;
        member_of(&spec, &name)?;
        spec.members.retain(|other| other.name != name);
        put_in(desired, keeper, &pool, spec).map(|_| StatusCode::NO_CONTENT)
    };
    Ok(Keeper::change(&handle, change).await?)
}
