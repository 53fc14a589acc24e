//! One connection as its task and the engine share it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use openflow::{ConnectionId, DatapathId, Envelope};
use tokio::sync::Notify;

use super::outlet::Outlet;

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    /// It has said nothing that is a message.
    Silent,
    /// It is shaking hands.
    Speaking,
    /// It is in use.
    Ready(DatapathId),
}

/// Why a connection ends.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Closing {
    #[error("the switch closed the connection")]
    ByPeer,
    #[error("the controller closed the connection")]
    ByController,
    #[error("it sent what is no OpenFlow 1.3: {0}")]
    Malformed(String),
    #[error("it did not finish the handshake in time")]
    HandshakeTimeout,
    #[error("others needed its place: it was the oldest that had not finished the handshake")]
    Displaced,
    #[error("more than the limit waits to be read by it")]
    OutputLimit,
    #[error("it did not read anything for too long")]
    NotReading,
    #[error("{0}")]
    Io(String),
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: ConnectionId,
    pub(crate) address: SocketAddr,
    phase: Mutex<Phase>,
    /// The batch that waits for the engine; empty when it has been taken.
    inbox: Mutex<Vec<Envelope>>,
    /// Whether the engine has said all it has to say about the batches that were left.
    is_heard: AtomicBool,
    /// The engine has taken the batch, or bytes have been sent.
    pub(crate) progress: Notify,
    /// Bytes to be sent.
    out: Mutex<Vec<u8>>,
    pub(crate) out_ready: Notify,
    /// Bytes not sent yet: in `out` and in the hands of the writer.
    pub(crate) out_bytes: AtomicUsize,
    /// Whether the engine has put something into `out` in this round.
    pub(crate) is_touched: AtomicBool,
    /// Where the engine may write by itself.
    outlet: Mutex<Option<Outlet>>,
    closing: Mutex<Option<Closing>>,
    pub(crate) close_wanted: Notify,
}

/// Memory for output that is kept while there is none.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

/// Nothing that holds one of these locks can panic half-way, so that what it guards is whole in any case.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    pub(crate) fn new(id: ConnectionId, address: SocketAddr) -> Peer {
        Peer {
            id,
            address,
            phase: Mutex::new(Phase::Silent),
            inbox: Mutex::default(),
            is_heard: AtomicBool::new(true),
            progress: Notify::new(),
            out: Mutex::default(),
            out_ready: Notify::new(),
            out_bytes: AtomicUsize::new(0),
            is_touched: AtomicBool::new(false),
            outlet: Mutex::default(),
            closing: Mutex::new(None),
            close_wanted: Notify::new(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        *lock(&self.phase)
    }
    pub(crate) fn set_phase(&self, phase: Phase) {
        *lock(&self.phase) = phase;
    }

    /// Leaves a batch for the engine in exchange for the memory of the one before. The one before has been taken.
    pub(crate) fn put_batch(&self, batch: &mut Vec<Envelope>) {
        let mut inbox = lock(&self.inbox);
        debug_assert!(inbox.is_empty(), "a batch is left when the one before has been taken");
        std::mem::swap(&mut *inbox, batch);
        self.is_heard.store(false, Ordering::Release);
    }
    /// Whether the engine has said all it has to say about the batches so far.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_heard.load(Ordering::Acquire)
    }
    /// The engine has said all it has to say about the batch it took. (One that was left meanwhile is another round's.)
    pub(crate) fn heard(&self) {
        let inbox = lock(&self.inbox);
        if inbox.is_empty() {
            self.is_heard.store(true, Ordering::Release);
        }
    }
    /// Whether the engine has taken the batch.
    pub(crate) fn is_inbox_empty(&self) -> bool {
        lock(&self.inbox).is_empty()
    }
    /// Takes the batch in exchange for memory.
    pub(crate) fn take_batch(&self, memory: &mut Vec<Envelope>) {
        std::mem::swap(&mut *lock(&self.inbox), memory);
        self.progress.notify_one();
    }

    /// Appends bytes to be sent; how many wait now. They leave when [`Peer::out_ready`] is notified.
    pub(crate) fn append<T>(&self, write: impl FnOnce(&mut Vec<u8>) -> T) -> (T, usize) {
        let mut out = lock(&self.out);
        let before = out.len();
        let answer = write(&mut out);
        let more = out.len() - before;
        (answer, self.out_bytes.fetch_add(more, Ordering::Relaxed) + more)
    }
    /// Takes what is to be sent in exchange for memory.
    pub(crate) fn take_out(&self, memory: &mut Vec<u8>) {
        std::mem::swap(&mut *lock(&self.out), memory);
    }

    /// Says where the engine may write by itself, or (`None`) that it may not any more.
    pub(crate) fn set_outlet(&self, outlet: Option<Outlet>) {
        *lock(&self.outlet) = outlet;
    }
    /// Sends what is to be sent, at once if nothing is in the hands of the writer and there is room; else the writer is told.
    /// Waking it for every answer would cost more than the answer.
    pub(crate) fn flush(&self) {
        if !self.has_written() {
            self.out_ready.notify_one();
        }
    }
    fn has_written(&self) -> bool {
        let outlet = lock(&self.outlet);
        let Some(outlet) = &*outlet else { return false };
        let mut out = lock(&self.out);
        if out.is_empty() {
            return true;
        }
        if self.out_bytes.load(Ordering::Relaxed) != out.len() {
            return false;
        }
        // What is wrong with a connection the writer finds out, too.
        let written = outlet.try_write(&out).unwrap_or(0);
        let is_all = written == out.len();
        match (is_all, out.capacity() > KEPT_BYTES) {
            (true, true) => *out = Vec::new(),
            (true, false) => out.clear(),
            (false, _) => drop(out.drain(..written)),
        }
        self.out_bytes.fetch_sub(written, Ordering::Relaxed);
        self.progress.notify_one();
        is_all
    }

    /// Asks for the end of the connection; the first reason counts.
    pub(crate) fn close(&self, why: Closing) {
        lock(&self.closing).get_or_insert(why);
        self.close_wanted.notify_one();
    }
    /// Why it is to end, if it is.
    pub(crate) fn closing(&self) -> Option<Closing> {
        lock(&self.closing).clone()
    }
}
