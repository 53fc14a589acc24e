//! HTTP over TLS. Handshakes run concurrently, so that a slow client does not delay others.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::serve;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::clock::duration;
use crate::live::Live;
use crate::settings::Limits;

type Opened = (TlsStream<TcpStream>, SocketAddr);

pub(super) struct Listener {
    listener: TcpListener,
    config: Arc<Live<Arc<ServerConfig>>>,
    limits: Arc<Live<Limits>>,
    handshakes: JoinSet<Option<Opened>>,
    /// Unfinished handshakes, oldest first.
    oldest: VecDeque<AbortHandle>,
}

impl Listener {
    /// Creates a listener. Handshakes are bounded in number by the limit of
    /// connections, and in time by the limit for switches.
    pub(super) fn new(
        listener: TcpListener,
        config: Arc<Live<Arc<ServerConfig>>>,
        limits: Arc<Live<Limits>>,
    ) -> Listener {
        Listener { listener, config, limits, handshakes: JoinSet::new(), oldest: VecDeque::new() }
    }

    fn begin(&mut self, stream: TcpStream, from: SocketAddr) {
        let limits = self.limits.get();
        if self.handshakes.len() >= limits.http_connections {
            self.oldest.retain(|handshake| !handshake.is_finished());
            // The oldest handshake is aborted to make way for this one.
            let _ = self.oldest.pop_front().map(|handshake| handshake.abort());
        }
        // Each response is written in one piece.
        let _ = stream.set_nodelay(true);
        let handshake =
            timeout(duration(limits.handshake_timeout), TlsAcceptor::from(self.config.get()).accept(stream));
        let handshake = self.handshakes.spawn(async move {
            let stream = handshake.await.ok()?;
            let stream = stream.inspect_err(|error| tracing::debug!(%from, "TLS handshake failed: {error}"));
            Some((stream.ok()?, from))
        });
        self.oldest.push_back(handshake);
    }
}

impl serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Opened {
        loop {
            tokio::select! {
                (stream, from) = serve::Listener::accept(&mut self.listener) => self.begin(stream, from),
                Some(over) = self.handshakes.join_next() => {
                    while self.oldest.front().is_some_and(AbortHandle::is_finished) {
                        self.oldest.pop_front();
                    }
                    if let Ok(Some(opened)) = over {
                        return opened;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
