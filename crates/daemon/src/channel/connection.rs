//! One connection: bytes in, batches out, and the other way round.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};
use std::time::Duration;

use openflow::wire::{self, DecodeError};
use openflow::{Envelope, Message, Xid};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

use super::allowance::Allowance;
use super::hub::Hub;
use super::kinds;
use super::peer::{Closing, KEPT_BYTES, Peer, Phase};
use crate::clock::duration;

/// Messages of one connection the engine handles at most before it looks at the next.
pub(crate) const MESSAGES_PER_BATCH: usize = 256;
/// What a switch may send at once after a rest, as the time it is allowed for that.
const BURST: Duration = Duration::from_millis(100);
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// What is read lands here first: connections that say nothing need no memory of their own.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// Serves a connection until it ends; why it ended.
pub(crate) async fn serve<R, W>(hub: &Hub, peer: &Arc<Peer>, reader: R, writer: W) -> Closing
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let allowance = Allowance::new(hub.limits.messages_per_s, BURST);
    let mut reading = Reading { hub, peer, reader, rest: Vec::new(), batch: Vec::new(), allowance };
    let (hello, _) = peer.append(|out| wire::encode(&hello(), out));
    debug_assert!(hello.is_ok(), "a hello fits into a message");
    peer.out_ready.notify_one();
    let mut writing = std::pin::pin!(write(hub, peer, writer));
    let why = tokio::select! {
        biased;
        why = &mut writing => return why,
        why = reading.run() => {
            if why == Closing::ByPeer {
                // Who has said all may still listen.
                let patience = duration(hub.limits.write_timeout);
                let _ = timeout(patience, reading.until_heard()).await;
            }
            why
        }
        () = handshake_time(hub, peer) => Closing::HandshakeTimeout,
    };
    // Last words, such as why its bytes were refused, are for the writer to bring out.
    peer.close(why.clone());
    writing.await;
    why
}

/// What opens every conversation. The controller is told of a connection with the peer's first message, and its own hello
/// is this one.
fn hello() -> Envelope {
    Envelope { xid: Xid(1), message: Message::Hello { versions: 1 << wire::VERSION } }
}

/// Ends when the time for the handshake is over, unless it was finished.
async fn handshake_time(hub: &Hub, peer: &Peer) {
    tokio::time::sleep(duration(hub.handshake_timeout())).await;
    if matches!(peer.phase(), Phase::Ready(_)) {
        std::future::pending::<()>().await;
    }
}

struct Reading<'a, R> {
    hub: &'a Hub,
    peer: &'a Arc<Peer>,
    reader: R,
    /// Bytes read that are no whole message yet, or wait for the engine.
    rest: Vec<u8>,
    batch: Vec<Envelope>,
    allowance: Allowance,
}

impl<R: AsyncRead + Unpin> Reading<'_, R> {
    async fn run(&mut self) -> Closing {
        loop {
            self.until_read().await;
            if let Err(why) = self.read().await {
                return why;
            }
            // A read may hold more than a batch.
            while !self.batch.is_empty() {
                let wait = self.allowance.spend(self.batch.len());
                self.hand_over().await;
                if !wait.is_zero() {
                    self.hub.metrics.throttled.inc();
                    tokio::time::sleep(wait).await;
                }
                if let Err(why) = self.decode_rest() {
                    return why;
                }
            }
        }
    }

    /// Waits until the engine has taken the batch before, and leaves this one.
    async fn hand_over(&mut self) {
        while !self.peer.is_inbox_empty() {
            self.peer.progress.notified().await;
        }
        self.hub.spoke(self.peer);
        self.peer.put_batch(&mut self.batch);
        self.hub.ready(self.peer);
    }

    /// Waits until the engine has answered all that was read. Only at the end: nobody is woken for it.
    async fn until_heard(&self) {
        while !self.peer.is_heard() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// A switch that does not read the answers is not heard either.
    async fn until_read(&self) {
        while self.peer.out_bytes.load(Ordering::Relaxed) > self.hub.limits.output_pause() {
            self.peer.progress.notified().await;
        }
    }

    /// Reads once, and decodes what has come as far as a batch goes.
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

/// Decodes messages up to a full batch; how many bytes they took. What is no message is refused.
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
                refuse(peer, &error, &bytes[used..]);
                let Some(length) = error.skip else { return Err(Closing::Malformed(error.words)) };
                hub.complain(format_args!(
                    "connection {} of {}: a message was refused at offset {}: {}",
                    peer.id.0, peer.address, error.offset, error.words
                ));
                used += length;
            }
        }
    }
    Ok(used)
}

/// Answers with the error the specification names for what is no message.
fn refuse(peer: &Peer, error: &DecodeError, bytes: &[u8]) {
    let Some(envelope) = error.answer(bytes) else { return };
    let (written, _) = peer.append(|out| wire::encode(&envelope, out));
    debug_assert!(written.is_ok(), "an error that repeats a beginning fits into a message");
    peer.out_ready.notify_one();
}

/// Writes whatever there is to be written until the connection is to be closed, and then what is left.
async fn write<W: AsyncWrite + Unpin>(hub: &Hub, peer: &Peer, mut writer: W) -> Closing {
    let patience = duration(hub.limits.write_timeout);
    let mut bytes = Vec::new();
    loop {
        peer.take_out(&mut bytes);
        if bytes.is_empty() {
            if let Some(why) = peer.closing() {
                // Best effort: the other side may be gone already.
                let _ = timeout(patience, writer.shutdown()).await;
                return why;
            }
            tokio::select! {
                biased;
                () = peer.out_ready.notified() => {}
                () = peer.close_wanted.notified() => {}
            }
            continue;
        }
        if let Err(why) = write_all(peer, &mut writer, &bytes, patience).await {
            return why;
        }
        if bytes.capacity() > KEPT_BYTES {
            bytes = Vec::new();
        } else {
            bytes.clear();
        }
    }
}

/// Writes bytes; each write has to make progress in time, and a wanted end is not put off.
async fn write_all<W: AsyncWrite + Unpin>(
    peer: &Peer,
    writer: &mut W,
    mut bytes: &[u8],
    patience: Duration,
) -> Result<(), Closing> {
    let mut is_ending = false;
    while !bytes.is_empty() {
        // Nearly always there is room at once, and then no timer is needed.
        let mut write = std::pin::pin!(writer.write(bytes));
        let written = match poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await {
            Poll::Ready(written) => written,
            Poll::Pending => tokio::select! {
                written = timeout(patience, write) => written.map_err(|_| Closing::NotReading)?,
                () = peer.close_wanted.notified(), if !is_ending => {
                    is_ending = true;
                    match peer.closing() {
                        // Last words are worth some patience.
                        None | Some(Closing::ByController | Closing::Malformed(_)) => continue,
                        Some(why) => return Err(why),
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
    // Bytes encrypted but not sent are nobody's until they are flushed.
    writer.flush().await.map_err(|error| Closing::Io(error.to_string()))
}
