//! HTTP connections, bounded in number and in the time to send a request.
//!
//! An idle client or one that sends byte by byte occupies a descriptor and memory. Its connection
//! is closed when the header or the body takes longer than [`Limits::http_request_timeout`], or
//! when it has been idle for that time. At [`Limits::http_connections`] a new connection evicts the
//! oldest one without a request in progress. The kernel detects peers that do not read
//! (`TCP_USER_TIMEOUT`).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;
use tower_service::Service as _;

use super::problem::Problem;
use crate::clock::duration;
use crate::live::Live;
use crate::settings::Limits;

/// The open connections, oldest first.
#[derive(Default)]
struct Open {
    tasks: JoinSet<()>,
    by_age: BTreeMap<u64, (tokio::task::AbortHandle, Arc<AtomicBool>)>,
    ages: BTreeMap<Id, u64>,
    count: u64,
}

impl Open {
    /// Evicts a connection if `max` or more are open. Returns whether another one can be accepted.
    fn evict(&mut self, max: usize) -> bool {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(ended.map_or_else(|error| error.id(), |(id, ())| id));
        }
        if self.by_age.len() < max {
            return true;
        }
        let mut idle = self.by_age.values().filter(|(_, is_busy)| !is_busy.load(Ordering::Relaxed));
        let Some(victim) = idle.next().map(|(task, _)| task.clone()) else { return false };
        victim.abort();
        self.forget(victim.id());
        true
    }

    fn forget(&mut self, id: Id) {
        if let Some(age) = self.ages.remove(&id) {
            self.by_age.remove(&age);
        }
    }
    fn spawn(&mut self, is_busy: Arc<AtomicBool>, connection: impl Future<Output = ()> + Send + 'static) {
        self.count += 1;
        let task = self.tasks.spawn(connection);
        self.ages.insert(task.id(), self.count);
        self.by_age.insert(self.count, (task, is_busy));
    }
}

pub(super) async fn serve<L>(mut listener: L, app: Router, limits: Arc<Live<Limits>>)
where
    L: Listener<Addr = SocketAddr>,
{
    let mut open = Open::default();
    loop {
        let (stream, from) = listener.accept().await;
        let limits = limits.get();
        if !open.evict(limits.http_connections) {
            tracing::debug!(%from, "HTTP connection closed: [limits] http_connections is reached");
            continue;
        }
        let is_busy = Arc::new(AtomicBool::new(false));
        open.spawn(is_busy.clone(), connection(stream, from, app.clone(), limits, is_busy));
    }
}

async fn connection<S>(stream: S, from: SocketAddr, app: Router, limits: Limits, is_busy: Arc<AtomicBool>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
{
    let patience = duration(limits.http_request_timeout);
    let service = service_fn(|request: Request<Incoming>| answer(app.clone(), from, request, patience, &is_busy));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%from, "HTTP connection ended: {error}");
    }
}

/// Handles a request. The time limit includes reading the body, but not sending the body of the
/// response.
async fn answer(
    mut app: Router,
    from: SocketAddr,
    request: Request<Incoming>,
    patience: Duration,
    is_busy: &AtomicBool,
) -> Result<Response, Infallible> {
    is_busy.store(true, Ordering::Relaxed);
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(from));
    let response = match timeout(patience, app.call(request)).await {
        Ok(response) => response,
        Err(_) => Ok(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "the request was not received within [limits] http_request_timeout",
        )
        .into_response()),
    };
    is_busy.store(false, Ordering::Relaxed);
    response
}
