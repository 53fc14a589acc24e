//! The HTTP interface: versioned API, metrics, events, and a page for people.

mod agents;
mod api;
mod body;
mod describe;
mod floodlight;
mod guard;
mod members;
mod model;
mod named;
mod page;
mod pools;
mod problem;
mod services;
mod stream;
mod tls;
mod vips;

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse};
use axum::routing::{any, get};
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use agents::ServerFacts;

use crate::server::Handle;
use crate::settings::Limits;
use problem::Problem;

/// Bytes a request may carry.
const BODY_BYTES: usize = 64 << 10;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Anabranch controller",
        version = "1",
        description = "What a controller of OpenFlow switches knows and does. Numbers of switches are 16 hexadecimal \
                       digits. Mistakes are answered with a problem (RFC 9457).",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "network", description = "What was found"),
        (name = "traffic", description = "Where it goes"),
        (name = "services", description = "Virtual addresses and who serves them"),
        (name = "balancer", description = "Who decides where it goes"),
        (name = "operation", description = "How the controller does")
    )
)]
struct Document;

/// The API, and its document.
fn router() -> (Router<Handle>, utoipa::openapi::OpenApi) {
    let (api, mut document) = paths();
    describe::complete(&mut document);
    (api, document)
}

fn paths() -> (Router<Handle>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(api::switches))
        .routes(routes!(api::switch))
        .routes(routes!(api::links))
        .routes(routes!(api::hosts))
        .routes(routes!(api::flows))
        .routes(routes!(api::paths))
        .routes(routes!(api::groups))
        .routes(routes!(api::statistics))
        .routes(routes!(api::balancer, api::set_balancer))
        .routes(routes!(api::balancers))
        .routes(routes!(services::services, services::make_service))
        .routes(routes!(services::service, services::put_service, services::patch_service, services::delete_service))
        .routes(routes!(pools::pools, pools::make_pool))
        .routes(routes!(pools::pool, pools::put_pool, pools::patch_pool, pools::delete_pool))
        .routes(routes!(members::members, members::make_member))
        .routes(routes!(members::member, members::put_member, members::patch_member, members::delete_member))
        .routes(routes!(api::server_balancers))
        .routes(routes!(stream::events))
        .routes(routes!(agents::standing_orders))
        .routes(routes!(agents::reports))
        .routes(routes!(agents::facts))
        .routes(routes!(agents::agents))
        .split_for_parts()
}

/// The OpenAPI document, as it is served and committed.
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
        .fallback(|| async { Problem::not_found("there is no such path; GET /v1/openapi.json lists them") })
        .method_not_allowed_fallback(|| async { Problem::method() })
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES))
        .layer(axum::middleware::from_fn_with_state(handle.clone(), guard::guard))
        .with_state(handle)
}

async fn metrics(State(handle): State<Handle>) -> Result<impl IntoResponse, Problem> {
    handle.ask(|engine| engine.note_metrics()).await?;
    let services = vips::Overview::of(&handle).await?.services();
    handle.metrics.services.note(services.iter().flat_map(vips::Service::figures));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], handle.metrics.text()))
}

async fn home(State(handle): State<Handle>) -> Result<impl IntoResponse, Problem> {
    let served = vips::Overview::of(&handle).await?.into();
    let snapshot = handle.ask(|engine| page::Snapshot::of(engine)).await?;
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    Ok(([(header::CONTENT_SECURITY_POLICY, policy)], Html(page::render(&snapshot, &served))))
}

/// Where requests come in.
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    /// With it, nothing is answered in the clear.
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) limits: Limits,
}

/// Answers requests until it is told to stop.
pub(crate) async fn serve(handle: Handle, door: Door, stop: oneshot::Receiver<()>) {
    let app = app(handle).into_make_service_with_connect_info::<SocketAddr>();
    let Door { listener, tls, limits } = door;
    let served = async {
        match tls {
            None => axum::serve(listener, app).await,
            // Whoever answers hears the address of the other end from this wrapper only.
            Some(tls) => axum::serve(tls::Listener::new(listener, tls, &limits).tap_io(|_| {}), app).await,
        }
    };
    tokio::select! {
        _ = stop => {}
        served = served => {
            if let Err(error) = served {
                tracing::error!("HTTP has ended: {error}");
            }
        }
    }
}
