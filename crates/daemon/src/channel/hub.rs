//! All connections, and the queue between them and the engine.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openflow::{ConnectionId, DatapathId};
use tokio::sync::Notify;

use super::connection::{BURST, MESSAGES_PER_BATCH};
use super::peer::{Closing, Peer, Phase};
use crate::live::Live;
use crate::metrics::Metrics;
use crate::settings::Limits;
use crate::source::source_of;
use crate::tls::SwitchTls;
use crate::token_bucket::TokenBucket;

#[derive(Debug)]
pub(crate) struct Hub {
    limits: Arc<Live<Limits>>,
    /// TLS for new connections; `None` for TCP.
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
    /// The connections of `waiting` by their source.
    sources: BTreeMap<IpAddr, Source>,
    /// Connections with a batch for the engine, in order of arrival.
    ready: Vec<Arc<Peer>>,
    gone: Vec<Arc<Peer>>,
}

/// The unfinished handshakes of one source.
#[derive(Debug)]
struct Source {
    waiting: BTreeSet<ConnectionId>,
    /// Connections of `waiting` that have not sent a message.
    silent: BTreeSet<ConnectionId>,
    /// Messages of all of them together: a source gets no more for having many connections.
    budget: TokenBucket,
}

#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) ready: Vec<Arc<Peer>>,
    pub(crate) gone: Vec<Arc<Peer>>,
}

impl State {
    /// Evicts a connection without a finished handshake: of the source that has most of them, the
    /// oldest one that has sent nothing, or else the oldest one. Returns `None` if all have finished
    /// it. No source can thus displace the switches of another one.
    fn evict(&mut self) -> Option<()> {
        // Numbers ascend, so the first one is the oldest.
        let rank =
            |source: &&Source| (source.waiting.len(), source.silent.len(), Reverse(source.waiting.first().copied()));
        let source = self.sources.values().max_by_key(rank)?;
        let victim = *source.silent.first().or_else(|| source.waiting.first())?;
        self.remove_waiting(victim)?.close(Closing::Evicted);
        Some(())
    }
    fn add_waiting(&mut self, peer: &Arc<Peer>, messages_per_s: u32) {
        self.waiting.insert(peer.id, peer.clone());
        let source = self.sources.entry(source_of(peer.address.ip())).or_insert_with(|| Source {
            waiting: BTreeSet::new(),
            silent: BTreeSet::new(),
            budget: TokenBucket::new(messages_per_s, BURST),
        });
        source.waiting.insert(peer.id);
        source.silent.insert(peer.id);
    }
    fn remove_waiting(&mut self, id: ConnectionId) -> Option<Arc<Peer>> {
        let peer = self.waiting.remove(&id)?;
        let at = source_of(peer.address.ip());
        if let Some(source) = self.sources.get_mut(&at) {
            source.silent.remove(&id);
            source.waiting.remove(&id);
            if source.waiting.is_empty() {
                self.sources.remove(&at);
            }
        }
        Some(peer)
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
        state.add_waiting(&peer, limits.messages_per_s);
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
            if let Some(source) = self.state().sources.get_mut(&source_of(peer.address.ip())) {
                source.silent.remove(&peer.id);
            }
        }
    }
    /// Takes messages of an unfinished handshake from the budget of their source. Returns how long
    /// to wait until the debt is repaid.
    pub(crate) fn spend_unfinished(&self, peer: &Peer, count: usize) -> Duration {
        let mut state = self.state();
        let source = state.sources.get_mut(&source_of(peer.address.ip()));
        source.map_or(Duration::ZERO, |source| source.budget.spend(count))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(limits: Limits) -> Hub {
        Hub::new(Arc::new(Live::new(limits)), None, Arc::new(Metrics::new()))
    }

    /// Opens a connection that has sent a hello.
    fn active(hub: &Hub, from: &str) -> Arc<Peer> {
        let peer = hub.admit(format!("{from}:6653").parse().expect("an address")).expect("it is admitted");
        hub.mark_active(&peer);
        peer
    }

    #[test]
    fn source_with_most_handshakes_is_evicted() {
        let hub = hub(Limits { pending_handshakes: 10, ..Limits::default() });
        let [first, second] = ["192.0.2.1", "192.0.2.2"].map(|from| active(&hub, from));
        let many: Vec<Arc<Peer>> = (0..100).map(|_| active(&hub, "192.0.2.66")).collect();
        assert_eq!((first.closing(), second.closing()), (None, None), "the oldest connections of all");
        let open = many.iter().filter(|peer| peer.closing().is_none()).count();
        assert_eq!((open, hub.handshaking()), (8, 10));
        assert!(many[..92].iter().all(|peer| peer.closing() == Some(Closing::Evicted)), "the oldest of their source");
        // With one connection each, the oldest one goes.
        let few: Vec<Arc<Peer>> = (10..18).map(|last| active(&hub, &format!("192.0.2.{last}"))).collect();
        assert_eq!(many.iter().filter(|peer| peer.closing().is_none()).count(), 1, "a source is left one");
        let next = active(&hub, "192.0.2.99");
        assert_eq!((next.closing(), first.closing()), (None, Some(Closing::Evicted)));
        // Connections that have ended leave nothing.
        for peer in many.iter().chain(&few).chain([&first, &second, &next]) {
            hub.gone(peer);
        }
        let state = hub.state();
        assert!(state.sources.is_empty() && state.waiting.is_empty() && state.peers.is_empty());
    }
}
