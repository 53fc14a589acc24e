//! The HTTP interface: versioned API, metrics, events and dashboard.

mod agents;
mod api;
mod auth;
mod body;
mod change;
mod connections;
mod dashboard;
mod describe;
mod edge;
mod floodlight;
mod model;
mod problem;
mod resource;
mod services;
mod stream;
mod strict_json;
mod tls;
mod vips;
mod wrong_tokens;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse};
use axum::routing::{any, get};
use net::Time;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpUserTimeout;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use agents::ServerStats;
pub(crate) use vips::ConnectionStats;
pub(crate) use wrong_tokens::WrongTokens;

use crate::live::Live;
use crate::server::Handle;
use crate::services::{MemberSpec, PoolSpec, ServiceSpec};
use problem::Problem;

const BODY_BYTES: usize = 64 << 10;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Anabranch controller",
        version = "1",
        description = "State and operation of a controller of OpenFlow switches. Datapath ids are 16 hexadecimal digits. \
                       Errors are returned as problems (RFC 9457).",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "network", description = "Switches, links and hosts"),
        (name = "traffic", description = "Flows, paths and groups"),
        (name = "services", description = "Virtual services, pools and members"),
        (name = "balancer", description = "The balancer"),
        (name = "operation", description = "Operation of the controller")
    )
)]
struct Document;

fn router() -> (Router<Handle>, utoipa::openapi::OpenApi) {
    let [services, service] = resource::routes::<ServiceSpec>();
    let [pools, pool] = resource::routes::<PoolSpec>();
    let [members, member] = resource::routes::<MemberSpec>();
    let (api, mut document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(api::switches))
        .routes(routes!(api::switch))
        .routes(routes!(api::links))
        .routes(routes!(api::hosts))
        .routes(routes!(api::flows))
        .routes(routes!(api::paths))
        .routes(routes!(api::groups))
        .routes(routes!(edge::edge))
        .routes(routes!(edge::prefixes))
        .routes(routes!(api::statistics))
        .routes(routes!(api::balancer, api::set_balancer))
        .routes(routes!(api::balancers))
        .routes(services)
        .routes(service)
        .routes(pools)
        .routes(pool)
        .routes(members)
        .routes(member)
        .routes(routes!(api::server_balancers))
        .routes(routes!(stream::events))
        .routes(routes!(agents::commands))
        .routes(routes!(agents::reports))
        .routes(routes!(agents::stats))
        .routes(routes!(agents::agents))
        .split_for_parts();
    describe::complete(&mut document);
    (api, document)
}

pub fn openapi() -> String {
    let (_, document) = router();
    let mut text = document.to_pretty_json().expect("the document is plain data");
    text.push('\n');
    text
}

fn app(handle: Handle) -> Router {
    let (api, _) = router();
    let document = openapi();
    api.route("/v1/openapi.json", get(move || async move { ([(header::CONTENT_TYPE, "application/json")], document) }))
        .route("/quantum/v1.0", any(floodlight::answer))
        .route("/quantum/v1.0/{*rest}", any(floodlight::answer))
        .route("/wm/{*rest}", any(floodlight::answer))
        .route("/metrics", get(metrics))
        .route("/", get(home))
        .fallback(|| async { Problem::not_found("unknown path; GET /v1/openapi.json lists all paths") })
        .method_not_allowed_fallback(|| async {
            let message = "method not allowed for this path; GET /v1/openapi.json lists the methods";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, message)
        })
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES))
        .layer(axum::middleware::from_fn_with_state(handle.clone(), auth::guard))
        .with_state(handle)
}

async fn metrics(State(handle): State<Handle>) -> Result<impl IntoResponse, Problem> {
    handle.ask(|engine| engine.note_metrics()).await?;
    let services = vips::Overview::of(&handle).await?.services();
    handle.metrics.services.replace(services.iter().flat_map(vips::Service::figures));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], handle.metrics.text()))
}

async fn home(State(handle): State<Handle>) -> Result<impl IntoResponse, Problem> {
    let overview = vips::Overview::of(&handle).await?;
    let snapshot = handle.ask(|engine| dashboard::Snapshot::of(engine)).await?;
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    Ok((
        [(header::CONTENT_SECURITY_POLICY, policy)],
        Html(dashboard::render(&snapshot, &overview.services(), &overview.pools())),
    ))
}

pub(crate) async fn serve(
    handle: Handle,
    (listener, tls): (TcpListener, Option<Arc<Live<Arc<ServerConfig>>>>),
    stop: oneshot::Receiver<()>,
) {
    let limits = handle.limits.clone();
    let app = app(handle);
    // Accepted sockets inherit the option.
    let timeout_ms = limits.get().write_timeout.as_ps() / Time::from_ms(1).as_ps();
    if let Err(error) = setsockopt(&listener, TcpUserTimeout, &(timeout_ms as u32)) {
        tracing::debug!(
            "TCP_USER_TIMEOUT cannot be set, so HTTP clients that read nothing are not disconnected: {error}"
        );
    }
    let served = async {
        match tls {
            None => connections::serve(listener, app, limits).await,
            Some(tls) => connections::serve(tls::Listener::new(listener, tls, limits.clone()), app, limits).await,
        }
    };
    tokio::select! {
        _ = stop => {}
        () = served => {}
    }
}
