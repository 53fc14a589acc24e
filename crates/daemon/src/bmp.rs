//! The listener for BMP sessions: routers report the routes of their BGP peers.
//!
//! Sessions have their own thread, so that decoding a full table delays no switch. Each session is a
//! task: a defect of the decoder would end this session only. A router has one session; a new one
//! replaces it. A session waits for the engine after each read, so a router that sends faster than
//! routes are handled waits in TCP.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bgp::bmp::{BmpError, Decoder, Policy};
use bgp::{RouteEvent, RouterId};
use control::edge::RouteInput;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{KeepAlive, TcpKeepCount, TcpKeepIdle, TcpKeepInterval};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::metrics::Metrics;
use crate::server::{Handle, Stopping};
use crate::token_bucket::TokenBucket;

const READ_BYTES: usize = 64 << 10;
/// Wait after a failed accept: a lack of descriptors does not end at once.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Log lines about rejected connections per second.
const REJECTIONS_LOGGED_PER_S: u32 = 1;
/// BMP has no keep-alive messages. A router that vanished is found by TCP within 25 s.
const KEEP_IDLE_S: u32 = 10;
const KEEP_INTERVAL_S: u32 = 5;
const KEEP_COUNT: u32 = 3;

/// A session in progress: how to end it, and its task, which reports the end.
struct Session {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// The reason for the end of a session.
#[derive(Debug, thiserror::Error)]
enum SessionEnd {
    #[error("the router closed it")]
    Closed,
    #[error("the router has opened another session")]
    Replaced,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}; nothing of this message is used, and routes stay until they are reported again")]
    Message(#[from] BmpError),
    #[error(transparent)]
    Stopping(#[from] Stopping),
}

/// Accepts sessions of these routers.
pub(crate) async fn serve(
    handle: Handle,
    listener: TcpListener,
    (routers, policy): (BTreeSet<Ipv4Addr>, Policy),
    stop: oneshot::Receiver<()>,
) {
    let accepting = async {
        let mut sessions: BTreeMap<Ipv4Addr, Session> = BTreeMap::new();
        let mut log = TokenBucket::new(REJECTIONS_LOGGED_PER_S, Duration::from_secs(10));
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("cannot accept BMP sessions now: {error}");
                    tokio::time::sleep(AFTER_FAILURE).await;
                    continue;
                }
            };
            let Some(router) = router_of(address).filter(|router| routers.contains(router)) else {
                handle.metrics.edge.rejected.inc();
                if log.take() {
                    tracing::warn!(peer = %address, "BMP session rejected: [edge] routers does not list this address");
                }
                continue;
            };
            if let Some(before) = sessions.remove(&router) {
                // The end of the former session must not follow the routes of the new one.
                let _ = before.stop.send(());
                let _ = before.task.await;
            }
            let (stop, stopped) = oneshot::channel();
            let task = tokio::spawn(supervise(handle.clone(), stream, RouterId(router), policy, stopped));
            sessions.insert(router, Session { stop, task });
        }
    };
    tokio::select! {
        _ = stop => {}
        () = accepting => {}
    }
}

fn router_of(address: SocketAddr) -> Option<Ipv4Addr> {
    match address.ip() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(address) => address.to_ipv4_mapped(),
    }
}

/// Runs a session and reports its end, even after a panic.
async fn supervise(
    handle: Handle,
    stream: TcpStream,
    router: RouterId,
    policy: Policy,
    stopped: oneshot::Receiver<()>,
) {
    tracing::info!(router = %router.0, "BMP session begins");
    handle.metrics.edge.sessions.inc();
    let session = tokio::spawn(run(handle.clone(), stream, router, policy, stopped));
    let end = session.await;
    handle.metrics.edge.sessions.dec();
    match end {
        Ok(SessionEnd::Closed | SessionEnd::Replaced | SessionEnd::Stopping(_)) => {
            tracing::info!(router = %router.0, "BMP session ends");
        }
        Ok(end) => {
            handle.metrics.edge.malformed.inc_by(u64::from(matches!(end, SessionEnd::Message(_))));
            tracing::warn!(router = %router.0, "BMP session closed: {end}");
        }
        Err(_) => tracing::error!(router = %router.0, "BMP session closed: the decoder panicked; please report this"),
    }
    // An error means that the daemon is stopping.
    let _ = pass(&handle, RouteInput::SessionLost(router)).await;
}

async fn run(
    handle: Handle,
    stream: TcpStream,
    router: RouterId,
    policy: Policy,
    mut stopped: oneshot::Receiver<()>,
) -> SessionEnd {
    keep_alive(&stream);
    tokio::select! {
        _ = &mut stopped => SessionEnd::Replaced,
        end = read(handle, stream, router, policy) => end.unwrap_or_else(|end| end),
    }
}

async fn read(
    handle: Handle,
    mut stream: TcpStream,
    router: RouterId,
    policy: Policy,
) -> Result<SessionEnd, SessionEnd> {
    let (mut decoder, mut buffer) = (Decoder::new(policy), vec![0; READ_BYTES]);
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(SessionEnd::Closed);
        }
        let mut events = Vec::new();
        let result = decoder.push(&buffer[..length], &mut events);
        log_peers(router, &events);
        count(&handle.metrics, &events);
        if !events.is_empty() {
            pass(&handle, RouteInput::Events(router, events)).await?;
        }
        result?;
    }
}

async fn pass(handle: &Handle, input: RouteInput) -> Result<(), Stopping> {
    handle.ask(move |engine| engine.handle_routes(&input)).await
}

fn log_peers(router: RouterId, events: &[RouteEvent]) {
    for event in events {
        match event {
            RouteEvent::PeerUp(peer) => tracing::info!(router = %router.0, %peer, "BGP peer is up"),
            RouteEvent::PeerDown(peer) => tracing::warn!(router = %router.0, %peer, "BGP peer is down"),
            RouteEvent::EndOfRib(peer) => tracing::debug!(router = %router.0, %peer, "all routes were reported"),
            RouteEvent::Announce { .. } | RouteEvent::Withdraw { .. } => {}
        }
    }
}

fn count(metrics: &Metrics, events: &[RouteEvent]) {
    let is_announced = |event: &&RouteEvent| matches!(event, RouteEvent::Announce { .. });
    let is_withdrawn = |event: &&RouteEvent| matches!(event, RouteEvent::Withdraw { .. });
    metrics.edge.announced.inc_by(events.iter().filter(is_announced).count() as u64);
    metrics.edge.withdrawn.inc_by(events.iter().filter(is_withdrawn).count() as u64);
}

fn keep_alive(stream: &TcpStream) {
    let set = || -> nix::Result<()> {
        setsockopt(stream, KeepAlive, &true)?;
        setsockopt(stream, TcpKeepIdle, &KEEP_IDLE_S)?;
        setsockopt(stream, TcpKeepInterval, &KEEP_INTERVAL_S)?;
        setsockopt(stream, TcpKeepCount, &KEEP_COUNT)
    };
    if let Err(error) = set() {
        tracing::debug!("TCP keep-alive cannot be set, so a vanished router is not found: {error}");
    }
}
