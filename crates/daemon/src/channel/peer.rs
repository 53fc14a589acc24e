//! The state of one connection that its task and the engine share.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use control::CloseReason;
use nix::sys::socket::{MsgFlags, recv};
use openflow::{ConnectionId, DatapathId, Envelope};
use tokio::sync::Notify;

use super::shared_writer::SharedWriter;
use crate::tls::{PeerCertificate, SwitchTls};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    /// No well-formed message received.
    Connected,
    /// Messages received, handshake not finished.
    Handshaking,
    Ready(DatapathId),
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Closing {
    #[error("the switch closed the connection")]
    ByPeer,
    #[error("the controller closed the connection")]
    ByController,
    #[error("{0}")]
    Refused(CloseReason),
    #[error("{0}")]
    Malformed(String),
    #[error("TLS handshake failed: {0}")]
    TlsHandshake(String),
    #[error("the certificate is no longer accepted: {0}; issue a new one, or check [tls] ca and crl")]
    Certificate(String),
    #[error("{0}")]
    Datapath(String),
    #[error(
        "handshake not finished within [limits] handshake_timeout; check whether the peer is an OpenFlow 1.3 switch and uses \
         the same of TLS and TCP, or raise the limit"
    )]
    HandshakeTimeout,
    #[error(
        "evicted: the limit of connections or pending handshakes is reached; raise [limits] pending_handshakes or connections"
    )]
    Evicted,
    #[error("more output is pending than [limits] send_buffer_bytes; check the path to the switch, or raise the limit")]
    OutputLimit,
    #[error("the switch has read nothing for [limits] write_timeout; check the path to the switch, or raise the limit")]
    NotReading,
    #[error("{0}")]
    Io(String),
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: ConnectionId,
    pub(crate) address: SocketAddr,
    phase: Mutex<Phase>,
    /// Batch offered to the engine; empty when it has been taken.
    inbox: Mutex<Vec<Envelope>>,
    is_processed: AtomicBool,
    /// Notified when the engine takes a batch and when bytes are sent.
    pub(crate) progress: Notify,
    /// Output not yet taken by the writer.
    out: Mutex<Vec<u8>>,
    pub(crate) out_ready: Notify,
    /// Bytes not sent yet: in `out` and held by the writer.
    pub(crate) out_bytes: AtomicUsize,
    pub(crate) is_touched: AtomicBool,
    /// Socket for direct writes of the engine; `None` with TLS.
    outlet: Mutex<Option<SharedWriter>>,
    /// Number of the open socket; `None` before and after.
    socket: Mutex<Option<RawFd>>,
    /// Certificate of the peer; unset without TLS.
    certificate: OnceLock<PeerCertificate>,
    /// Maximum number of bytes that wait to be sent.
    pub(crate) send_buffer_bytes: usize,
    closing: Mutex<Option<Closing>>,
    pub(crate) close_requested: Notify,
}

/// Largest buffer capacity that is kept while the buffer is empty.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

/// Locks a mutex. No holder can panic half-way, so the value of a poisoned mutex is intact.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    pub(crate) fn new(id: ConnectionId, address: SocketAddr, send_buffer_bytes: usize) -> Peer {
        Peer {
            id,
            address,
            phase: Mutex::new(Phase::Connected),
            inbox: Mutex::default(),
            is_processed: AtomicBool::new(true),
            progress: Notify::new(),
            out: Mutex::default(),
            out_ready: Notify::new(),
            out_bytes: AtomicUsize::new(0),
            is_touched: AtomicBool::new(false),
            outlet: Mutex::default(),
            socket: Mutex::default(),
            certificate: OnceLock::new(),
            send_buffer_bytes,
            closing: Mutex::new(None),
            close_requested: Notify::new(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        *lock(&self.phase)
    }
    pub(crate) fn set_phase(&self, phase: Phase) {
        *lock(&self.phase) = phase;
    }
    /// Offers a batch to the engine and gets the empty previous one for reuse. The engine must have
    /// taken the previous batch.
    pub(crate) fn put_batch(&self, batch: &mut Vec<Envelope>) {
        let mut inbox = lock(&self.inbox);
        debug_assert!(inbox.is_empty(), "the previous batch has been taken");
        std::mem::swap(&mut *inbox, batch);
        self.is_processed.store(false, Ordering::Release);
    }
    pub(crate) fn is_processed(&self) -> bool {
        self.is_processed.load(Ordering::Acquire)
    }
    /// Records that the engine has processed the batch it took. A batch offered since then belongs
    /// to another round.
    pub(crate) fn mark_processed(&self) {
        let inbox = lock(&self.inbox);
        if inbox.is_empty() {
            self.is_processed.store(true, Ordering::Release);
        }
    }
    pub(crate) fn is_inbox_empty(&self) -> bool {
        lock(&self.inbox).is_empty()
    }
    pub(crate) fn take_batch(&self, memory: &mut Vec<Envelope>) {
        std::mem::swap(&mut *lock(&self.inbox), memory);
        self.progress.notify_one();
    }
    /// Appends output with `write`. Returns its result and the number of unsent bytes. The bytes
    /// leave when [`Peer::out_ready`] is notified.
    pub(crate) fn append<T>(&self, write: impl FnOnce(&mut Vec<u8>) -> T) -> (T, usize) {
        let mut out = lock(&self.out);
        let before = out.len();
        let result = write(&mut out);
        let more = out.len() - before;
        (result, self.out_bytes.fetch_add(more, Ordering::Relaxed) + more)
    }
    pub(crate) fn take_out(&self, memory: &mut Vec<u8>) {
        std::mem::swap(&mut *lock(&self.out), memory);
    }
    pub(crate) fn set_outlet(&self, outlet: Option<SharedWriter>) {
        *lock(&self.outlet) = outlet;
    }
    pub(crate) fn set_socket(&self, socket: Option<RawFd>) {
        *lock(&self.socket) = socket;
    }
    /// Returns whether the peer has sent bytes that the engine has not handled: they wait in the
    /// kernel or in the inbox.
    pub(crate) fn has_unread(&self) -> bool {
        let waits = |socket| matches!(recv(socket, &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT), Ok(1..));
        !self.is_inbox_empty() || lock(&self.socket).is_some_and(waits)
    }
    /// Sends the output directly if the writer holds none and the socket accepts it; otherwise
    /// wakes the writer. Waking the writer for every reply would cost more than the reply.
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
        // Errors are left to the writer, which meets them as well.
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

    /// Records the certificate of the peer. It is recorded once.
    pub(crate) fn set_certificate(&self, certificate: PeerCertificate) {
        let was_unset = self.certificate.set(certificate).is_ok();
        debug_assert!(was_unset, "a connection has one handshake");
    }
    /// Closes the connection if TLS does not accept its certificate, or its datapath id.
    pub(crate) fn check_certificate(&self, tls: &SwitchTls) {
        let Some(certificate) = self.certificate.get() else { return };
        if let Err(reason) = tls.check(certificate) {
            self.close(Closing::Certificate(reason));
        }
        if let Phase::Ready(datapath) = self.phase() {
            self.check_datapath(tls, datapath);
        }
    }
    /// Closes the connection if its certificate may not use this datapath id. Returns whether it
    /// may.
    pub(crate) fn check_datapath(&self, tls: &SwitchTls, datapath: DatapathId) -> bool {
        let Some(certificate) = self.certificate.get() else { return true };
        let checked = tls.check_datapath(certificate, datapath);
        checked.map_err(|reason| self.close(Closing::Datapath(reason))).is_ok()
    }

    /// Requests the end of the connection; the first reason counts.
    pub(crate) fn close(&self, reason: Closing) {
        lock(&self.closing).get_or_insert(reason);
        self.close_requested.notify_one();
    }
    pub(crate) fn closing(&self) -> Option<Closing> {
        lock(&self.closing).clone()
    }
}
