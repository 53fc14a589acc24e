//! Accepting connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tracing::Span;

use super::allowance::Allowance;
use super::connection::serve;
use super::hub::Hub;
use super::outlet::Outlet;
use super::peer::{Closing, Peer, Phase};
use crate::clock::duration;

/// How long to wait after a failure to accept that concerns the process, such as no more descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

/// Connections accepted at once after a rest, as the time they are allowed for that.
const BURST: Duration = Duration::from_millis(10);

/// Accepts connections for as long as it is polled.
pub(crate) async fn listen(hub: Arc<Hub>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    // Accepting costs those who are connected already: whoever opens and closes without end is not to take all of it.
    let mut allowance = Allowance::new(hub.limits.accepts_per_s, BURST);
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let wait = allowance.spend(1);
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                let Some(peer) = hub.admit(address) else {
                    hub.metrics.refused_connections.inc();
                    continue;
                };
                let span = tracing::info_span!("connection", id = peer.id.0, peer = %address);
                tokio::spawn(attend(hub.clone(), peer, stream, tls.clone(), span));
            }
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                tracing::error!("cannot accept connections now: {error}");
                hub.make_room();
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

/// Failures of a connection that ended before it was accepted (accept(2): to be treated like a try again).
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// The span is for what is logged here: entered whenever the task runs it would cost a hundredth of handling a message.
async fn attend(hub: Arc<Hub>, peer: Arc<Peer>, stream: TcpStream, tls: Option<TlsAcceptor>, span: Span) {
    span.in_scope(|| tracing::debug!("connected"));
    let why = converse(&hub, &peer, stream, tls).await;
    hub.metrics.closed(&why);
    let _inside = span.enter(); // Nothing is awaited from here on.
    match (peer.phase(), &why) {
        (Phase::Ready(_), Closing::ByPeer | Closing::ByController) => tracing::info!("closed: {why}"),
        (Phase::Ready(_), _) => tracing::warn!("closed: {why}"),
        _ => hub.complain(format_args!("closed before it was a switch: {why}")),
    }
    hub.gone(&peer);
}

async fn converse(hub: &Hub, peer: &Arc<Peer>, stream: TcpStream, tls: Option<TlsAcceptor>) -> Closing {
    // Answers are written in one piece each round; waiting for more would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        return Closing::Io(error.to_string());
    }
    let Some(tls) = tls else {
        let (reader, writer) = stream.into_split();
        let outlet = Outlet::new(writer);
        peer.set_outlet(Some(outlet.clone()));
        let why = serve(hub, peer, reader, outlet).await;
        peer.set_outlet(None); // The engine may know of the connection for longer; its socket is closed now.
        return why;
    };
    let handshake = tokio::time::timeout(duration(hub.handshake_timeout()), tls.accept(stream));
    let stream = tokio::select! {
        biased;
        () = peer.close_wanted.notified() => return peer.closing().unwrap_or(Closing::Displaced),
        shaken = handshake => match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Closing::Io(format!("TLS: {error}")),
            Err(_) => return Closing::HandshakeTimeout,
        },
    };
    let (reader, writer) = tokio::io::split(stream);
    serve(hub, peer, reader, writer).await
}
