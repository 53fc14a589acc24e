//! The task of one connection: decodes received bytes into batches and writes the output.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};
use std::time::Duration;

use openflow::{Envelope, Message, Xid, wire};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

use super::hub::Hub;
use super::kinds;
use super::peer::{Closing, KEPT_BYTES, Peer, Phase};
use crate::clock::duration;
use crate::token_bucket::TokenBucket;

/// Maximum number of messages of one connection that the engine handles in a round.
pub(crate) const MESSAGES_PER_BATCH: usize = 256;
/// Burst of messages after a pause, as time at the message rate.
pub(super) const BURST: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// Shared read buffer: idle connections need no memory for reading.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

pub(crate) async fn serve<R, W>(hub: &Hub, peer: &Arc<Peer>, reader: R, writer: W) -> Closing
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let limits = hub.limits();
    let rate_limit = TokenBucket::new(limits.messages_per_s, BURST);
    let output_pause = limits.output_pause();
    let mut reading = Reading {
        hub,
        peer,
        reader,
        rest: Vec::new(),
        batch: Vec::new(),
        rate_limit,
        output_pause,
        is_finished: false,
    };
    send(peer, &hello());
    let write_timeout = duration(limits.write_timeout);
    let mut writing = std::pin::pin!(write(peer, writer, write_timeout));
    let reason = tokio::select! {
        biased;
        reason = &mut writing => return reason,
        reason = reading.run() => {
            if reason == Closing::ByPeer {
                // The peer has closed its sending side only: it may still read replies.
                let _ = timeout(write_timeout, reading.until_processed()).await;
            }
            reason
        }
        () = handshake_timeout(duration(limits.handshake_timeout), peer) => Closing::HandshakeTimeout,
    };
    // The writer still sends pending output, such as the error reply to malformed bytes.
    peer.close(reason.clone());
    writing.await;
    reason
}

/// Returns the hello of this side. The controller learns of a connection with the peer's first
/// message, and the controller's own hello is dropped in favour of this one.
fn hello() -> Envelope {
    Envelope { xid: Xid(1), message: Message::Hello { versions: 1 << wire::VERSION } }
}

async fn handshake_timeout(limit: Duration, peer: &Peer) {
    tokio::time::sleep(limit).await;
    if matches!(peer.phase(), Phase::Ready(_)) {
        std::future::pending::<()>().await;
    }
}

struct Reading<'a, R> {
    hub: &'a Hub,
    peer: &'a Arc<Peer>,
    reader: R,
    /// Bytes of an incomplete message, or of messages beyond a full batch.
    rest: Vec<u8>,
    batch: Vec<Envelope>,
    rate_limit: TokenBucket,
    /// Number of pending output bytes from which on nothing is read.
    output_pause: usize,
    /// Whether the handshake has finished.
    is_finished: bool,
}

impl<R: AsyncRead + Unpin> Reading<'_, R> {
    async fn run(&mut self) -> Closing {
        loop {
            self.until_read().await;
            if let Err(reason) = self.read().await {
                return reason;
            }
            // One read may contain more than a batch.
            while !self.batch.is_empty() {
                let wait = self.rate_limit.spend(self.batch.len()).max(self.spend_unfinished());
                self.hand_over().await;
                if !wait.is_zero() {
                    self.hub.metrics.throttled.inc();
                    tokio::time::sleep(wait).await;
                }
                if let Err(reason) = self.decode_rest() {
                    return reason;
                }
            }
        }
    }

    /// Takes the batch from the budget of the source until the handshake has finished. Returns how
    /// long to wait.
    fn spend_unfinished(&mut self) -> Duration {
        self.is_finished |= matches!(self.peer.phase(), Phase::Ready(_));
        if self.is_finished { Duration::ZERO } else { self.hub.spend_unfinished(self.peer, self.batch.len()) }
    }

    async fn hand_over(&mut self) {
        while !self.peer.is_inbox_empty() {
            self.peer.progress.notified().await;
        }
        self.hub.mark_active(self.peer);
        self.peer.put_batch(&mut self.batch);
        self.hub.ready(self.peer);
    }
    /// Waits until the engine has processed everything that was read. Polls: it is needed only at
    /// the end of a connection.
    async fn until_processed(&self) {
        while !self.peer.is_processed() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    /// Waits while too much output is pending: a switch that does not read replies is not read
    /// from.
    async fn until_read(&self) {
        while self.peer.out_bytes.load(Ordering::Relaxed) > self.output_pause {
            self.peer.progress.notified().await;
        }
    }

    async fn read(&mut self) -> Result<(), Closing> {
        poll_fn(|context| {
            SCRATCH.with_borrow_mut(|scratch| {
                let mut buffer = ReadBuf::new(scratch);
                let read = ready!(Pin::new(&mut self.reader).poll_read(context, &mut buffer));
                Poll::Ready(match (read, buffer.filled()) {
                    (Err(error), _) => Err(Closing::Io(error.to_string())),
                    (Ok(()), []) => Err(Closing::ByPeer),
                    (Ok(()), bytes) => self.take_bytes(bytes),
                })
            })
        })
        .await
    }

    fn take_bytes(&mut self, bytes: &[u8]) -> Result<(), Closing> {
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(bytes);
            return self.decode_rest();
        }
        let used = decode(self.hub, self.peer, bytes, &mut self.batch)?;
        self.rest.extend_from_slice(&bytes[used..]);
        Ok(())
    }
    fn decode_rest(&mut self) -> Result<(), Closing> {
        let used = decode(self.hub, self.peer, &self.rest, &mut self.batch)?;
        self.rest.drain(..used);
        if self.rest.is_empty() && self.rest.capacity() > KEPT_BYTES {
            self.rest = Vec::new();
        }
        Ok(())
    }
}

/// Decodes messages up to a full batch. Returns how many bytes they took. Malformed messages get an
/// error reply.
fn decode(hub: &Hub, peer: &Peer, bytes: &[u8], batch: &mut Vec<Envelope>) -> Result<usize, Closing> {
    let (mut used, share) = (0, hub.share());
    let mut received = kinds::Count::new(&hub.metrics.received);
    while batch.len() < share {
        match wire::decode(&bytes[used..]) {
            Ok(None) => break,
            Ok(Some((envelope, length))) => {
                received.note(kinds::of(&envelope.message));
                batch.push(envelope);
                used += length;
            }
            Err(error) => {
                hub.metrics.decode_errors.inc();
                if let Some(reply) = error.error_reply(&bytes[used..]) {
                    send(peer, &reply);
                }
                let Some(length) = error.skip else { return Err(malformed(&bytes[used..], &error.message)) };
                hub.log_rejection(format_args!(
                    "connection {} from {}: message rejected at offset {}: {}",
                    peer.id.0, peer.address, error.offset, error.message
                ));
                used += length;
            }
        }
    }
    Ok(used)
}

/// Returns the reason for bytes that are not OpenFlow, with the protocol that they look like.
fn malformed(bytes: &[u8], message: &str) -> Closing {
    const METHODS: [&[u8]; 4] = [b"GET ", b"PUT ", b"POST", b"HEAD"];
    let text = match bytes {
        [0x16, 3, ..] => {
            "a TLS handshake, but [tls] is not configured: add [tls], or configure tcp: on the switch".to_owned()
        }
        _ if METHODS.iter().any(|method| bytes.starts_with(method)) => {
            "an HTTP request, but this address is for switches: the address of the API is `listen` of [http]".to_owned()
        }
        _ => format!("not an OpenFlow 1.3 message: {message}; check that the peer is an OpenFlow 1.3 switch"),
    };
    Closing::Malformed(text)
}

/// Sends a message of bounded length: a hello, or an error that repeats a beginning.
fn send(peer: &Peer, envelope: &Envelope) {
    let (written, _) = peer.append(|out| wire::encode(envelope, out));
    debug_assert!(written.is_ok(), "it fits into a message");
    peer.out_ready.notify_one();
}

async fn write<W: AsyncWrite + Unpin>(peer: &Peer, mut writer: W, write_timeout: Duration) -> Closing {
    let mut bytes = Vec::new();
    loop {
        peer.take_out(&mut bytes);
        if bytes.is_empty() {
            if let Some(reason) = peer.closing() {
                // Best effort: the peer may already have disconnected.
                let _ = timeout(write_timeout, writer.shutdown()).await;
                return reason;
            }
            tokio::select! {
                biased;
                () = peer.out_ready.notified() => {}
                () = peer.close_requested.notified() => {}
            }
            continue;
        }
        if let Err(reason) = write_all(peer, &mut writer, &bytes, write_timeout).await {
            return reason;
        }
        if bytes.capacity() > KEPT_BYTES {
            bytes = Vec::new();
        } else {
            bytes.clear();
        }
    }
}

/// Writes bytes. Every write must progress within `write_timeout`, and a requested close is not
/// delayed.
async fn write_all<W: AsyncWrite + Unpin>(
    peer: &Peer,
    writer: &mut W,
    mut bytes: &[u8],
    write_timeout: Duration,
) -> Result<(), Closing> {
    let mut is_ending = false;
    while !bytes.is_empty() {
        // The socket almost always accepts bytes immediately, and then no timer is needed.
        let mut write = std::pin::pin!(writer.write(bytes));
        let written = match poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await {
            Poll::Ready(written) => written,
            Poll::Pending => tokio::select! {
                written = timeout(write_timeout, write) => written.map_err(|_| Closing::NotReading)?,
                () = peer.close_requested.notified(), if !is_ending => {
                    is_ending = true;
                    match peer.closing() {
                        // The reply that explains the close is still sent.
                        None | Some(Closing::ByController | Closing::Refused(_) | Closing::Malformed(_)) => continue,
                        Some(reason) => return Err(reason),
                    }
                }
            },
        };
        let written = written.map_err(|error| Closing::Io(error.to_string()))?;
        if written == 0 {
            return Err(Closing::ByPeer);
        }
        bytes = &bytes[written..];
        peer.out_bytes.fetch_sub(written, Ordering::Relaxed);
        peer.progress.notify_one();
    }
    // TLS may hold encrypted bytes back until they are flushed.
    writer.flush().await.map_err(|error| Closing::Io(error.to_string()))
}
