//! All connections, and the queue between them and the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use net::Time;
use openflow::{ConnectionId, DatapathId};
use tokio::sync::Notify;

use super::allowance::Allowance;
use super::connection::MESSAGES_PER_BATCH;
use super::peer::{Closing, Peer, Phase};
use crate::metrics::Metrics;
use crate::settings::Limits;

/// What connections and engine share.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    state: Mutex<State>,
    /// Something is in the queue.
    pub(crate) work: Notify,
    next_id: AtomicU32,
    /// Messages of one connection in a round, at most.
    share: AtomicUsize,
    complaints: Mutex<Complaints>,
}

/// Complaints about connections that are no switches, written into the log.
#[derive(Debug)]
struct Complaints {
    allowance: Allowance,
    /// Those that were not written since one was.
    withheld: u64,
}

/// Complaints per second, and seconds worth of them at once: whoever fills the log could hide there what he does, and make
/// everybody wait for the disk.
const COMPLAINTS_PER_S: u32 = 2;
const COMPLAINTS_BURST: Duration = Duration::from_secs(10);

/// Fewest messages of one connection in a round.
const SHARE_MIN: usize = 16;
/// A round longer than this in which somebody had a full batch was too long: others waited for it.
const ROUND_LONG: Duration = Duration::from_micros(500);

#[derive(Debug, Default)]
struct State {
    peers: BTreeMap<ConnectionId, Arc<Peer>>,
    /// Those of them that have not finished the handshake and have not been asked to go.
    waiting: BTreeMap<ConnectionId, Arc<Peer>>,
    /// Those of these that have said nothing.
    silent: BTreeSet<ConnectionId>,
    /// Those with a batch for the engine, in the order they came.
    ready: Vec<Arc<Peer>>,
    /// Those that ended since the engine looked last.
    gone: Vec<Arc<Peer>>,
}

/// What the engine has to see to.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) ready: Vec<Arc<Peer>>,
    pub(crate) gone: Vec<Arc<Peer>>,
}

impl State {
    /// Asks the oldest connection that has not finished the handshake to go, one that says nothing first; `None` if there
    /// is none.
    fn displace(&mut self) -> Option<()> {
        // Numbers ascend, so the first is the oldest.
        let victim = *self.silent.first().or_else(|| self.waiting.keys().next())?;
        self.wait_no_more(victim)?.close(Closing::Displaced);
        Some(())
    }
    fn wait_no_more(&mut self, id: ConnectionId) -> Option<Arc<Peer>> {
        self.silent.remove(&id);
        self.waiting.remove(&id)
    }
}

impl Hub {
    pub(crate) fn new(limits: Limits, metrics: Arc<Metrics>) -> Hub {
        let (next_id, share) = (AtomicU32::new(1), AtomicUsize::new(MESSAGES_PER_BATCH));
        let allowance = Allowance::new(COMPLAINTS_PER_S, COMPLAINTS_BURST);
        let complaints = Mutex::new(Complaints { allowance, withheld: 0 });
        Hub { limits, metrics, state: Mutex::default(), work: Notify::new(), next_id, share, complaints }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection, if there is room or room can be made.
    pub(crate) fn admit(&self, address: std::net::SocketAddr) -> Option<Arc<Peer>> {
        let mut state = self.state();
        let is_full = state.peers.len() >= self.limits.connections;
        if is_full || state.waiting.len() >= self.limits.handshaking {
            state.displace()?;
        }
        // Those asked to go keep their sockets until their tasks have run.
        if state.peers.len() >= self.limits.connections.saturating_add(self.limits.handshaking) {
            return None;
        }
        let id = ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let peer = Arc::new(Peer::new(id, address));
        state.peers.insert(id, peer.clone());
        state.waiting.insert(id, peer.clone());
        state.silent.insert(id);
        self.metrics.connections.set(state.peers.len() as i64);
        Some(peer)
    }

    /// Room is wanted at once: the oldest connection that has not finished the handshake goes.
    pub(crate) fn make_room(&self) {
        self.state().displace();
    }
    /// A connection has finished the handshake.
    pub(crate) fn finished(&self, peer: &Peer, datapath: DatapathId) {
        peer.set_phase(Phase::Ready(datapath));
        self.state().wait_no_more(peer.id);
    }
    /// A connection has said something that is a message.
    pub(crate) fn spoke(&self, peer: &Peer) {
        if peer.phase() == Phase::Silent {
            peer.set_phase(Phase::Speaking);
            self.state().silent.remove(&peer.id);
        }
    }

    /// Writes a complaint about a connection that is no switch, unless there were too many of late. Metrics count all.
    pub(crate) fn complain(&self, words: std::fmt::Arguments<'_>) {
        let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        if !complaints.allowance.take() {
            complaints.withheld += 1;
            return;
        }
        let withheld = std::mem::take(&mut complaints.withheld);
        drop(complaints);
        match withheld {
            0 => tracing::warn!("{words}"),
            _ => tracing::warn!(withheld, "{words}; others of the kind were not logged"),
        }
    }

    /// A connection has a batch.
    pub(crate) fn ready(&self, peer: &Arc<Peer>) {
        self.state().ready.push(peer.clone());
        self.work.notify_one();
    }
    /// A connection has ended.
    pub(crate) fn gone(&self, peer: &Arc<Peer>) {
        let mut state = self.state();
        state.peers.remove(&peer.id);
        state.wait_no_more(peer.id);
        state.gone.push(peer.clone());
        self.metrics.connections.set(state.peers.len() as i64);
        drop(state);
        self.work.notify_one();
    }
    /// What has come together, in exchange for memory.
    pub(crate) fn take(&self, round: &mut Round) {
        let mut state = self.state();
        std::mem::swap(&mut state.ready, &mut round.ready);
        std::mem::swap(&mut state.gone, &mut round.gone);
        self.metrics.queue_depth.set(round.ready.len() as i64);
    }
    /// Messages of one connection in a round, at most.
    pub(crate) fn share(&self) -> usize {
        self.share.load(Ordering::Relaxed)
    }
    /// A round is over: how long it took, and how many messages the longest batch had. Who fills batches gets smaller ones
    /// while rounds are long: what a message costs depends on what it leads to, so that no fixed number would be right.
    pub(crate) fn round_over(&self, took: Duration, longest: usize) {
        let share = self.share();
        if took > ROUND_LONG && longest >= share {
            self.share.store((share / 2).max(SHARE_MIN), Ordering::Relaxed);
        } else if took < ROUND_LONG / 2 && share < MESSAGES_PER_BATCH {
            self.share.store((share * 2).min(MESSAGES_PER_BATCH), Ordering::Relaxed);
        }
    }
    /// A connection.
    pub(crate) fn peer(&self, id: ConnectionId) -> Option<Arc<Peer>> {
        self.state().peers.get(&id).cloned()
    }
    /// Number of connections.
    pub(crate) fn count(&self) -> usize {
        self.state().peers.len()
    }
    /// Connections that have not finished the handshake.
    pub(crate) fn handshaking(&self) -> usize {
        self.state().waiting.len()
    }
    /// How long a connection may take for the handshake.
    pub(crate) fn handshake_timeout(&self) -> Time {
        self.limits.handshake_timeout
    }
}
