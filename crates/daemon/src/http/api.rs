//! The paths of the API.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use balance::registry::{CENTRAL, SERVER};
use openflow::DatapathId;

use super::body::BodyFaults;
use super::model::{Balancer, BalancerKind, BalancerWanted, Flow, Group, Host, Link, Paths, Statistics, Switch};
use super::problem::Problem;
use crate::server::Handle;

/// Switches that have been in use since the controller started.
#[utoipa::path(get, path = "/v1/switches", tag = "network", responses((status = 200, body = Vec<Switch>)))]
pub(super) async fn switches(State(handle): State<Handle>) -> Result<Json<Vec<Switch>>, Problem> {
    let all = |engine: &mut crate::engine::Engine| {
        engine.controller.switches().map(|facts| Switch::new(engine, facts)).collect()
    };
    Ok(Json(handle.ask(all).await?))
}

/// One switch.
#[utoipa::path(
    get,
    path = "/v1/switches/{switch}",
    tag = "network",
    params(("switch" = String, Path, description = "Number, up to 16 hexadecimal digits, in pairs with colons or not")),
    responses(
        (status = 200, body = Switch),
        (status = 404, description = "There is no such switch", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn switch(State(handle): State<Handle>, Path(text): Path<String>) -> Result<Json<Switch>, Problem> {
    let wrong = || Problem::not_found(format!("`{text}` is not the number of a switch: up to 16 hexadecimal digits"));
    let datapath = DatapathId(crate::config::datapath(&text).ok_or_else(wrong)?);
    let one = move |engine: &mut crate::engine::Engine| {
        let facts = engine.controller.switches().find(|facts| facts.datapath == datapath)?;
        Some(Switch::new(engine, facts))
    };
    let found = handle.ask(one).await?;
    found.map(Json).ok_or_else(|| Problem::not_found(format!("no switch {text} has been in use; GET /v1/switches")))
}

/// Directed links between switches, those that are down included.
#[utoipa::path(get, path = "/v1/links", tag = "network", responses((status = 200, body = Vec<Link>)))]
pub(super) async fn links(State(handle): State<Handle>) -> Result<Json<Vec<Link>>, Problem> {
    Ok(Json(handle.ask(|engine| engine.controller.links().map(Link::new).collect()).await?))
}

/// Hosts where they are now.
#[utoipa::path(get, path = "/v1/hosts", tag = "network", responses((status = 200, body = Vec<Host>)))]
pub(super) async fn hosts(State(handle): State<Handle>) -> Result<Json<Vec<Host>>, Problem> {
    Ok(Json(handle.ask(|engine| engine.controller.hosts().map(Host::new).collect()).await?))
}

/// Flows the balancer knows; none where it does not ask for any.
#[utoipa::path(get, path = "/v1/flows", tag = "traffic", responses((status = 200, body = Vec<Flow>)))]
pub(super) async fn flows(State(handle): State<Handle>) -> Result<Json<Vec<Flow>>, Problem> {
    let all =
        |engine: &mut crate::engine::Engine| engine.controller.flows().map(|flow| Flow::new(engine, &flow)).collect();
    Ok(Json(handle.ask(all).await?))
}

/// Where traffic should go, as the balancer wants it.
#[utoipa::path(get, path = "/v1/paths", tag = "traffic", responses((status = 200, body = Paths)))]
pub(super) async fn paths(State(handle): State<Handle>) -> Result<Json<Paths>, Problem> {
    Ok(Json(handle.ask(|engine| Paths::new(engine)).await?))
}

/// Select groups that should be on switches.
#[utoipa::path(get, path = "/v1/groups", tag = "traffic", responses((status = 200, body = Vec<Group>)))]
pub(super) async fn groups(State(handle): State<Handle>) -> Result<Json<Vec<Group>>, Problem> {
    let all = |engine: &mut crate::engine::Engine| {
        let of = |facts: control::SwitchFacts| {
            let groups = engine.controller.desired_groups(facts.datapath);
            groups.into_iter().map(move |group| Group::new(facts.datapath, group))
        };
        engine.controller.switches().flat_map(of).collect()
    };
    Ok(Json(handle.ask(all).await?))
}

/// What control has cost.
#[utoipa::path(get, path = "/v1/statistics", tag = "operation", responses((status = 200, body = Statistics)))]
pub(super) async fn statistics(State(handle): State<Handle>) -> Result<Json<Statistics>, Problem> {
    Ok(Json(handle.ask(|engine| Statistics::new(engine)).await?))
}

/// The balancer that decides now.
#[utoipa::path(get, path = "/v1/balancer", tag = "balancer", responses((status = 200, body = Balancer)))]
pub(super) async fn balancer(State(handle): State<Handle>) -> Result<Json<Balancer>, Problem> {
    Ok(Json(handle.ask(|engine| Balancer::new(&engine.balancer)).await?))
}

/// Another balancer, or the same with other parameters, decides from now on. Nothing is lost meanwhile: what was
/// installed stays until what is to follow it has been confirmed.
#[utoipa::path(
    put,
    path = "/v1/balancer",
    tag = "balancer",
    request_body = BalancerWanted,
    responses(
        (status = 200, description = "It decides now", body = Balancer),
        BodyFaults,
        (status = 422, description = "No such balancer or parameter", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn set_balancer(
    State(handle): State<Handle>,
    wanted: Result<Json<BalancerWanted>, JsonRejection>,
) -> Result<Json<Balancer>, Problem> {
    let Json(wanted) = wanted?;
    let spec = crate::balancer::parse(&wanted.spec).map_err(|error| Problem::unprocessable(error.to_string()))?;
    let change = |engine: &mut crate::engine::Engine| {
        engine.set_balancer(spec);
        Balancer::new(&engine.balancer)
    };
    Ok(Json(handle.ask(change).await?))
}

/// The balancers there are. `ecmp`, `wcmp`, `vlb` and `spt` are other names of `sdn-ecmp` and so on.
#[utoipa::path(get, path = "/v1/balancers", tag = "balancer", responses((status = 200, body = Vec<BalancerKind>)))]
pub(super) async fn balancers() -> Json<Vec<BalancerKind>> {
    Json(CENTRAL.iter().map(|entry| BalancerKind::new(entry)).collect())
}

/// The balancers of servers there are, for pools.
#[utoipa::path(get, path = "/v1/server-balancers", tag = "services", responses((status = 200, body = Vec<BalancerKind>)))]
pub(super) async fn server_balancers() -> Json<Vec<BalancerKind>> {
    Json(SERVER.iter().map(|entry| BalancerKind::new(entry)).collect())
}
