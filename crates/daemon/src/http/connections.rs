//! HTTP connections, bounded in number and in the time to send a request.
//!
//! An idle client or one that sends byte by byte occupies a descriptor and memory. Its connection
//! is closed when the header or the body takes longer than [`Limits::http_request_timeout`], or
//! when it has been idle for that time. At [`Limits::http_connections`] a new connection evicts one
//! of the source that has most: the oldest one without a request in progress, or the oldest one if
//! the source has at least two more than the source of the new connection. The kernel detects peers
//! that do not read (`TCP_USER_TIMEOUT`).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
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
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::timeout;
use tower_service::Service as _;

use super::problem::Problem;
use crate::clock::duration;
use crate::live::Live;
use crate::settings::Limits;
use crate::source::source_of;

struct Connection {
    task: AbortHandle,
    source: IpAddr,
    /// Whether a request is in progress.
    is_busy: Arc<AtomicBool>,
}

/// The open connections, oldest first.
#[derive(Default)]
struct Open {
    tasks: JoinSet<()>,
    by_age: BTreeMap<u64, Connection>,
    ages: BTreeMap<Id, u64>,
    count: u64,
}

impl Open {
    /// Evicts a connection if `max` or more are open. Returns whether one of this source can be
    /// accepted.
    fn evict(&mut self, max: usize, from: IpAddr) -> bool {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(ended.map_or_else(|error| error.id(), |(id, ())| id));
        }
        if self.by_age.len() < max {
            return true;
        }
        let Some(victim) = self.victim(from) else { return false };
        victim.abort();
        self.forget(victim.id());
        true
    }

    /// Returns the connection that makes way for one of this source, if any.
    fn victim(&self, from: IpAddr) -> Option<AbortHandle> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::from([(from, 0)]);
        self.by_age.values().for_each(|open| *counts.entry(open.source).or_default() += 1);
        let own = counts[&from];
        let mut sources: Vec<(usize, IpAddr)> = counts.into_iter().map(|(source, count)| (count, source)).collect();
        sources.sort_unstable_by_key(|(count, _)| Reverse(*count));
        let of_source = |(count, source): (usize, IpAddr)| {
            let all = || self.by_age.values().filter(move |open| open.source == source);
            let idle = all().find(|open| !open.is_busy.load(Ordering::Relaxed));
            idle.or_else(|| all().next().filter(|_| count > own + 1))
        };
        let larger = sources.into_iter().filter(|(count, source)| *count > own || *source == from);
        larger.filter_map(of_source).next().map(|open| open.task.clone())
    }

    fn forget(&mut self, id: Id) {
        if let Some(age) = self.ages.remove(&id) {
            self.by_age.remove(&age);
        }
    }
    fn spawn(
        &mut self,
        source: IpAddr,
        is_busy: Arc<AtomicBool>,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        self.count += 1;
        let task = self.tasks.spawn(connection);
        self.ages.insert(task.id(), self.count);
        self.by_age.insert(self.count, Connection { task, source, is_busy });
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
        let source = source_of(from.ip());
        if !open.evict(limits.http_connections, source) {
            tracing::debug!(%from, "HTTP connection closed: [limits] http_connections is reached");
            continue;
        }
        let is_busy = Arc::new(AtomicBool::new(false));
        open.spawn(source, is_busy.clone(), connection(stream, from, app.clone(), limits, is_busy));
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
