//! The listener for switch connections.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tracing::Span;

use super::connection::serve;
use super::hub::Hub;
use super::peer::{Closing, Peer, Phase};
use super::shared_writer::SharedWriter;
use crate::clock::duration;
use crate::tls::PeerCertificate;
use crate::token_bucket::TokenBucket;

/// Wait after an accept error of the whole process, such as a lack of descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

/// Burst of accepted connections after a pause, as time at the accept rate.
const BURST: Duration = Duration::from_millis(10);

pub(crate) async fn listen(hub: Arc<Hub>, listener: TcpListener) {
    // Accepting takes time from existing connections: a peer that connects in a loop must not get
    // all of it.
    let mut per_s = hub.limits().accepts_per_s;
    let mut rate_limit = TokenBucket::new(per_s, BURST);
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let now = hub.limits().accepts_per_s;
                if now != per_s {
                    (per_s, rate_limit) = (now, TokenBucket::new(now, BURST));
                }
                let wait = rate_limit.spend(1);
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                let Some(peer) = hub.admit(address) else {
                    hub.metrics.refused_connections.inc();
                    continue;
                };
                let span = tracing::info_span!("connection", id = peer.id.0, peer = %address);
                tokio::spawn(handle_connection(hub.clone(), peer, stream, span));
            }
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                hub.log_rejection(format_args!("cannot accept connections now: {error}; raise `ulimit -n`"));
                hub.evict_oldest();
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

/// Returns whether only the accepted connection failed (accept(2): retry immediately).
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Serves one connection. The span covers only the log lines here: entering it at every poll would
/// cost 1 % of the message rate.
async fn handle_connection(hub: Arc<Hub>, peer: Arc<Peer>, stream: TcpStream, span: Span) {
    span.in_scope(|| tracing::debug!("connected"));
    // The number stays valid as long as the engine can use it: the socket is closed in the last
    // poll of this task, which also clears the number, and the engine runs on the same thread.
    peer.set_socket(Some(stream.as_raw_fd()));
    let reason = run_connection(&hub, &peer, stream).await;
    peer.set_socket(None);
    hub.metrics.closed(&reason);
    let _inside = span.enter(); // No await follows.
    match (peer.phase(), &reason) {
        (Phase::Ready(_), Closing::ByPeer | Closing::ByController) => tracing::info!("closed: {reason}"),
        (Phase::Ready(_), _) => tracing::warn!("closed: {reason}"),
        _ => hub.log_rejection(format_args!("closed before the handshake finished: {reason}")),
    }
    hub.gone(&peer);
}

async fn run_connection(hub: &Hub, peer: &Arc<Peer>, stream: TcpStream) -> Closing {
    // Each round writes its output in one piece; Nagle's algorithm would only delay it.
    if let Err(error) = stream.set_nodelay(true) {
        return Closing::Io(error.to_string());
    }
    let Some(tls) = hub.tls() else {
        let (reader, writer) = stream.into_split();
        let outlet = SharedWriter::new(writer);
        peer.set_outlet(Some(outlet.clone()));
        let reason = serve(hub, peer, reader, outlet).await;
        peer.set_outlet(None); // The engine may keep the peer; the socket closes now.
        return reason;
    };
    let handshake = tokio::time::timeout(duration(hub.limits().handshake_timeout), tls.acceptor().accept(stream));
    let stream = tokio::select! {
        biased;
        () = peer.close_requested.notified() => return peer.closing().unwrap_or(Closing::Evicted),
        shaken = handshake => match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Closing::TlsHandshake(with_remedy(&error)),
            Err(_) => return Closing::HandshakeTimeout,
        },
    };
    if let Some(chain) = stream.get_ref().1.peer_certificates() {
        peer.set_certificate(PeerCertificate::new(chain));
    }
    // A reload during the handshake may have revoked the certificate.
    if let Some(tls) = hub.tls() {
        peer.check_certificate(&tls);
    }
    let (reader, writer) = tokio::io::split(stream);
    serve(hub, peer, reader, writer).await
}

/// Returns the error of a TLS handshake with its remedy.
fn with_remedy(error: &io::Error) -> String {
    use rustls::{AlertDescription, CertificateError, Error};
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let remedy = match cause {
        Some(Error::InvalidMessage(_)) => "the peer does not use TLS: configure ssl: instead of tcp: on the switch",
        Some(Error::NoCertificatesPresented) => "give the switch a certificate of an authority in [tls] ca",
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "sign the certificate of the switch by an authority in [tls] ca"
        }
        Some(Error::InvalidCertificate(CertificateError::Revoked)) => {
            "[tls] crl lists the certificate: issue a new one if the switch is trusted"
        }
        Some(Error::InvalidCertificate(CertificateError::UnknownRevocationStatus)) => {
            "add the revocation list of its authority to [tls] crl"
        }
        Some(Error::InvalidCertificate(_)) => "issue a new certificate for the switch",
        Some(Error::AlertReceived(
            AlertDescription::UnknownCA | AlertDescription::BadCertificate | AlertDescription::CertificateUnknown,
        )) => "the switch does not trust [tls] certificate: give it the authority of the controller",
        _ => "check that the peer is a switch that uses TLS 1.2 or 1.3",
    };
    format!("{error}; {remedy}")
}
