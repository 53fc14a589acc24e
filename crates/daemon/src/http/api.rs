//! Calls about network, traffic, operation and balancer.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use balance::Spec;
use balance::registry::{CENTRAL, SERVER};
use openflow::DatapathId;
use xxhash_rust::xxh3::xxh3_64;

use super::change::{ChangeRequest, etag};
use super::model::{Balancer, BalancerKind, BalancerRequest, Flow, Group, Host, Link, Paths, Statistics, Switch};
use super::problem::Problem;
use crate::audit::Change;
use crate::engine::Engine;
use crate::server::Handle;
use crate::services::{ChangeError, FieldError};

async fn reply<T: Send + 'static>(
    handle: &Handle,
    read: impl FnOnce(&mut Engine) -> T + Send + 'static,
) -> Result<Json<T>, Problem> {
    Ok(Json(handle.ask(read).await?))
}

/// Returns the switches that have connected since the controller started.
#[utoipa::path(get, path = "/v1/switches", tag = "network", responses((status = 200, body = Vec<Switch>)))]
pub(super) async fn switches(State(handle): State<Handle>) -> Result<Json<Vec<Switch>>, Problem> {
    reply(&handle, |engine| engine.controller.inspect().switches().map(|info| Switch::new(engine, info)).collect())
        .await
}

/// Returns a switch.
#[utoipa::path(get, path = "/v1/switches/{switch}", tag = "network", responses((status = 200, body = Switch)))]
pub(super) async fn switch(State(handle): State<Handle>, Path(text): Path<String>) -> Result<Json<Switch>, Problem> {
    let wrong = || Problem::not_found(format!("`{text}` is not a datapath id; write up to 16 hexadecimal digits"));
    let datapath = DatapathId(crate::config::datapath(&text).ok_or_else(wrong)?);
    let one = move |engine: &mut Engine| {
        let info = engine.controller.inspect().switches().find(|info| info.datapath == datapath)?;
        Some(Switch::new(engine, info))
    };
    let unknown = || Problem::not_found(format!("unknown switch {text}; GET /v1/switches lists all switches"));
    handle.ask(one).await?.map(Json).ok_or_else(unknown)
}

/// Returns the directed links between switches, including those that are down.
#[utoipa::path(get, path = "/v1/links", tag = "network", responses((status = 200, body = Vec<Link>)))]
pub(super) async fn links(State(handle): State<Handle>) -> Result<Json<Vec<Link>>, Problem> {
    reply(&handle, |engine| engine.controller.inspect().links().map(Link::new).collect()).await
}

/// Returns the hosts at their current locations.
#[utoipa::path(get, path = "/v1/hosts", tag = "network", responses((status = 200, body = Vec<Host>)))]
pub(super) async fn hosts(State(handle): State<Handle>) -> Result<Json<Vec<Host>>, Problem> {
    reply(&handle, |engine| engine.controller.inspect().hosts().map(Host::new).collect()).await
}

/// Returns the flows known to the balancer; empty if it requests no flows.
#[utoipa::path(get, path = "/v1/flows", tag = "traffic", responses((status = 200, body = Vec<Flow>)))]
pub(super) async fn flows(State(handle): State<Handle>) -> Result<Json<Vec<Flow>>, Problem> {
    reply(&handle, |engine| engine.controller.inspect().flows().map(|flow| Flow::new(engine, &flow)).collect()).await
}

/// Returns the desired routing.
#[utoipa::path(get, path = "/v1/paths", tag = "traffic", responses((status = 200, body = Paths)))]
pub(super) async fn paths(State(handle): State<Handle>) -> Result<Json<Paths>, Problem> {
    reply(&handle, |engine| Paths::new(engine)).await
}

/// Returns the desired select groups.
#[utoipa::path(get, path = "/v1/groups", tag = "traffic", responses((status = 200, body = Vec<Group>)))]
pub(super) async fn groups(State(handle): State<Handle>) -> Result<Json<Vec<Group>>, Problem> {
    let all = |engine: &mut Engine| {
        let of = |info: control::SwitchInfo| {
            let groups = engine.controller.inspect().desired_groups(info.datapath);
            groups.into_iter().map(move |group| Group::new(info.datapath, group))
        };
        engine.controller.inspect().switches().flat_map(of).collect()
    };
    reply(&handle, all).await
}

/// Returns the counters of the controller.
#[utoipa::path(get, path = "/v1/statistics", tag = "operation", responses((status = 200, body = Statistics)))]
pub(super) async fn statistics(State(handle): State<Handle>) -> Result<Json<Statistics>, Problem> {
    reply(&handle, |engine| Statistics::new(engine)).await
}

/// Returns the current balancer.
#[utoipa::path(get, path = "/v1/balancer", tag = "balancer", responses((status = 200, body = Balancer)))]
pub(super) async fn balancer(State(handle): State<Handle>) -> Result<impl IntoResponse, Problem> {
    let spec = handle.ask(|engine| engine.balancer.clone()).await?;
    Ok((etag(revision_of(&spec)), Json(Balancer::new(&spec))))
}

/// Returns the revision of a balancer: a hash of its specification, since the balancer is not
/// stored and a counter would start again with the daemon.
fn revision_of(spec: &Spec) -> String {
    format!("{:016x}", xxh3_64(spec.label().as_bytes()))
}

/// Replaces the balancer or its parameters. No traffic is lost: installed rules stay until their
/// replacements have been confirmed.
#[utoipa::path(
    put, path = "/v1/balancer", tag = "balancer",
    request_body = BalancerRequest,
    responses((status = 200, description = "The new balancer", body = Balancer))
)]
pub(super) async fn set_balancer(
    request: ChangeRequest,
    requested: Result<Json<BalancerRequest>, JsonRejection>,
) -> Result<impl IntoResponse, Problem> {
    let Json(requested) = requested?;
    let spec = crate::balancer::parse(&requested.spec).map_err(|error| FieldError::new("", error.to_string()))?;
    let (handle, by) = (request.handle.clone(), request.actor.clone());
    let _changing = handle.services.lock().await;
    let set = spec.clone();
    let change = move |engine: &mut Engine| {
        request.check(Some(&revision_of(&engine.balancer)))?;
        let mode = engine.controller.inspect().addressing();
        mode.check_balancer(set.entry.name).map_err(|reason| FieldError::new("", reason))?;
        let before = engine.balancer.label();
        engine.set_balancer(set);
        Ok::<_, ChangeError>(before)
    };
    let before = handle.ask(change).await??;
    handle.audit.record(Change::of_balancer(by, before, spec.label())).await;
    Ok((etag(revision_of(&spec)), Json(Balancer::new(&spec))))
}

/// Returns the available balancers. `ecmp`, `wcmp`, `vlb` and `spt` are short for `sdn-ecmp` and so
/// on.
#[utoipa::path(get, path = "/v1/balancers", tag = "balancer", responses((status = 200, body = Vec<BalancerKind>)))]
pub(super) async fn balancers() -> Json<Vec<BalancerKind>> {
    Json(CENTRAL.iter().map(|entry| BalancerKind::new(entry)).collect())
}

/// Returns the available server balancers, for pools.
#[utoipa::path(get, path = "/v1/server-balancers", tag = "services", responses((status = 200, body = Vec<BalancerKind>)))]
pub(super) async fn server_balancers() -> Json<Vec<BalancerKind>> {
    Json(SERVER.iter().map(|entry| BalancerKind::new(entry)).collect())
}
