//! All connections, and the queue between them and the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openflow::{ConnectionId, DatapathId};
use tokio::sync::Notify;

use super::connection::MESSAGES_PER_BATCH;
use super::peer::{Closing, Peer, Phase};
use crate::live::Live;
use crate::metrics::Metrics;
use crate::settings::Limits;
use crate::tls::SwitchTls;
use crate::token_bucket::TokenBucket;

#[derive(Debug)]
pub(crate) struct Hub {
    limits: Arc<Live<Limits>>,
    /// `None` for TCP.
    tls: Option<Live<SwitchTls>>,
    pub(crate) metrics: Arc<Metrics>,
    state: Mutex<State>,
    /// Notified when the queue is not empty.
    pub(crate) work: Notify,
    next_id: AtomicU32,
    share: AtomicUsize,
    log_throttle: Mutex<LogThrottle>,
}

/// Rate limiter for log lines about peers that are not switches.
#[derive(Debug)]
struct LogThrottle {
    rate_limit: TokenBucket,
    suppressed: u64,
}

/// Log lines per second, and the burst as time at that rate. A peer that fills the log could hide
/// its actions there and make every connection wait for the disk.
const LOG_LINES_PER_S: u32 = 2;
const LOG_LINES_BURST: Duration = Duration::from_secs(10);

const SHARE_MIN: usize = 16;
/// Duration above which a round with a full batch is too long for the other connections.
const ROUND_LONG: Duration = Duration::from_micros(500);

#[derive(Debug, Default)]
struct State {
    peers: BTreeMap<ConnectionId, Arc<Peer>>,
    /// Connections that have not finished the handshake and have not been evicted.
    waiting: BTreeMap<ConnectionId, Arc<Peer>>,
    /// Connections of `waiting` that have not sent a message.
    silent: BTreeSet<ConnectionId>,
    /// Connections with a batch for the engine, in order of arrival.
    ready: Vec<Arc<Peer>>,
    gone: Vec<Arc<Peer>>,
}

#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) ready: Vec<Arc<Peer>>,
    pub(crate) gone: Vec<Arc<Peer>>,
}

impl State {
    /// Evicts the oldest connection without a finished handshake, preferring connections that have
    /// sent nothing. Returns `None` if all have finished it.
    fn evict(&mut self) -> Option<()> {
        // Numbers ascend, so the first one is the oldest.
        let victim = *self.silent.first().or_else(|| self.waiting.keys().next())?;
        self.remove_waiting(victim)?.close(Closing::Evicted);
        Some(())
    }
    fn remove_waiting(&mut self, id: ConnectionId) -> Option<Arc<Peer>> {
        self.silent.remove(&id);
        self.waiting.remove(&id)
    }
}

impl Hub {
    pub(crate) fn new(limits: Arc<Live<Limits>>, tls: Option<SwitchTls>, metrics: Arc<Metrics>) -> Hub {
        let (next_id, share) = (AtomicU32::new(1), AtomicUsize::new(MESSAGES_PER_BATCH));
        let rate_limit = TokenBucket::new(LOG_LINES_PER_S, LOG_LINES_BURST);
        let log_throttle = Mutex::new(LogThrottle { rate_limit, suppressed: 0 });
        let (state, work, tls) = (Mutex::default(), Notify::new(), tls.map(Live::new));
        Hub { limits, tls, metrics, state, work, next_id, share, log_throttle }
    }
    /// Returns the limits for new connections.
    pub(crate) fn limits(&self) -> Limits {
        self.limits.get()
    }
    /// Returns TLS for new connections; `None` for TCP.
    pub(crate) fn tls(&self) -> Option<SwitchTls> {
        self.tls.as_ref().map(Live::get)
    }
    /// Replaces TLS, and disconnects switches that it does not accept.
    pub(crate) fn replace_tls(&self, tls: SwitchTls) {
        let Some(current) = &self.tls else { return };
        current.set(tls.clone());
        self.state().peers.values().for_each(|peer| peer.check_certificate(&tls));
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new connection, evicting another one if a limit is reached; `None` if none can
    /// be evicted.
    pub(crate) fn admit(&self, address: std::net::SocketAddr) -> Option<Arc<Peer>> {
        let mut state = self.state();
        let limits = self.limits();
        let is_full = state.peers.len() >= limits.connections;
        if is_full || state.waiting.len() >= limits.pending_handshakes {
            state.evict()?;
        }
        // Evicted connections keep their sockets until their tasks have run.
        if state.peers.len() >= limits.connections.saturating_add(limits.pending_handshakes) {
            return None;
        }
        let id = ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let peer = Arc::new(Peer::new(id, address, limits.send_buffer_bytes));
        state.peers.insert(id, peer.clone());
        state.waiting.insert(id, peer.clone());
        state.silent.insert(id);
        self.metrics.connections.set(state.peers.len() as i64);
        Some(peer)
    }

    pub(crate) fn evict_oldest(&self) {
        self.state().evict();
    }
    pub(crate) fn finished(&self, peer: &Peer, datapath: DatapathId) {
        peer.set_phase(Phase::Ready(datapath));
        self.state().remove_waiting(peer.id);
    }
    /// Records that a connection has sent a well-formed message.
    pub(crate) fn mark_active(&self, peer: &Peer) {
        if peer.phase() == Phase::Connected {
            peer.set_phase(Phase::Handshaking);
            self.state().silent.remove(&peer.id);
        }
    }

    /// Logs a rejected message or peer, up to a rate limit. Metrics count all of them.
    pub(crate) fn log_rejection(&self, message: std::fmt::Arguments<'_>) {
        let mut log_throttle = self.log_throttle.lock().unwrap_or_else(PoisonError::into_inner);
        if !log_throttle.rate_limit.take() {
            log_throttle.suppressed += 1;
            return;
        }
        let suppressed = std::mem::take(&mut log_throttle.suppressed);
        drop(log_throttle);
        match suppressed {
            0 => tracing::warn!("{message}"),
            _ => tracing::warn!(suppressed, "{message}; {suppressed} similar lines were suppressed"),
        }
    }

    pub(crate) fn ready(&self, peer: &Arc<Peer>) {
        self.state().ready.push(peer.clone());
        self.work.notify_one();
    }
    pub(crate) fn gone(&self, peer: &Arc<Peer>) {
        let mut state = self.state();
        state.peers.remove(&peer.id);
        state.remove_waiting(peer.id);
        state.gone.push(peer.clone());
        self.metrics.connections.set(state.peers.len() as i64);
        drop(state);
        self.work.notify_one();
    }
    /// Swaps the queued connections with the empty vectors of `round`.
    pub(crate) fn take(&self, round: &mut Round) {
        let mut state = self.state();
        std::mem::swap(&mut state.ready, &mut round.ready);
        std::mem::swap(&mut state.gone, &mut round.gone);
        self.metrics.connections_pending.set(round.ready.len() as i64);
    }
    pub(crate) fn share(&self) -> usize {
        self.share.load(Ordering::Relaxed)
    }
    /// Adapts the maximum batch size to the duration of a round and the length of its longest
    /// batch. Full batches shrink while rounds are long. A constant would be wrong: the cost of a
    /// message depends on its effects.
    pub(crate) fn adapt_share(&self, took: Duration, longest: usize) {
        let share = self.share();
        if took > ROUND_LONG && longest >= share {
            self.share.store((share / 2).max(SHARE_MIN), Ordering::Relaxed);
        } else if took < ROUND_LONG / 2 && share < MESSAGES_PER_BATCH {
            self.share.store((share * 2).min(MESSAGES_PER_BATCH), Ordering::Relaxed);
        }
    }
    pub(crate) fn peer(&self, id: ConnectionId) -> Option<Arc<Peer>> {
        self.state().peers.get(&id).cloned()
    }
    pub(crate) fn count(&self) -> usize {
        self.state().peers.len()
    }
    pub(crate) fn handshaking(&self) -> usize {
        self.state().waiting.len()
    }
}
