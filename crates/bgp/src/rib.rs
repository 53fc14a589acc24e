//! The routes of every peer (Adj-RIB-In), and which peers may carry a prefix.
//!
//! Peers have numbers: those of the uplinks behind which they are. Routes of other peers are
//! ignored, so their number is bounded by the configuration.
//!
//! When a BMP session is lost the BGP sessions may well be up, so routes stay, as *stale* ones
//! (as in RFC 4724): until the peer's routes were reported again, and at most for
//! [`Config::stale_time`].

use std::collections::{BTreeMap, BTreeSet};

use core::net::Ipv4Addr;
use net::Time;

use crate::damping::{Damping, Penalty};
use crate::{Prefix, Route, RouteEvent, RouterId};

/// Maximum number of peers: their sets are the bits of a number.
pub const PEERS_MAX: usize = 32;

/// A set of peers: bit n is the peer with number n.
pub type Peers = u32;

/// Number of entries that are looked at in one step of withdrawing the routes of a lost peer. A step
/// takes about 10 ms, so that other work does not wait for a full table.
const STEP_ENTRIES: usize = 10_000;
/// Time between two such steps.
const STEP_PERIOD: Time = Time::from_ms(10);

#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Config {
    /// Addresses of the peers, at most [`PEERS_MAX`].
    pub peers: Vec<Ipv4Addr>,
    /// Whether only the routes with the shortest AS path may carry a prefix.
    pub shortest_only: bool,
    /// Maximum number of routes of all peers together, including damped ones.
    pub routes_max: usize,
    /// Time after which a route is dropped that was not reported again.
    pub stale_time: Time,
    pub damping: Damping,
}

/// The state of a peer, and the number of its routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerStatus {
    /// Whether a BMP session reports that the BGP session to the peer is established.
    pub is_up: bool,
    /// Whether routes of an earlier BMP session are still in use.
    pub has_stale: bool,
    pub routes: usize,
    /// Number of damped routes, announced or not.
    pub suppressed: usize,
    /// Number of announcements and withdrawals.
    pub updates: u64,
}

/// Numbers of events that had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ignored {
    /// Number of announcements beyond [`Config::routes_max`].
    pub over_limit: u64,
    /// Number of events of peers that are not configured, or that another router reports.
    pub other_peers: u64,
}

#[derive(Debug, Default)]
struct Peer {
    status: PeerStatus,
    router: Option<RouterId>,
    /// Number of the BMP report that routes belong to; routes with another number are stale.
    report: u32,
    /// When stale routes are dropped, if there may be any.
    sweep_at: Option<Time>,
    /// The next step of withdrawing the routes, if the BGP session to the peer was lost: its time,
    /// and the first entry. No route of the peer is usable meanwhile.
    withdrawal: Option<(Time, RouteKey)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// `None`: withdrawn, with a penalty that has not decayed yet.
    route: Option<Route>,
    report: u32,
    penalty: Penalty,
    is_suppressed: bool,
    /// When the penalty reaches the next threshold.
    due: Option<Time>,
}

impl Entry {
    fn usable(&self) -> Option<Route> {
        self.route.filter(|_| !self.is_suppressed)
    }
}

/// A route of a peer: the prefix, and the number of the peer.
type RouteKey = (Prefix, u8);

#[derive(Debug)]
pub struct Rib {
    config: Config,
    numbers: BTreeMap<Ipv4Addr, u8>,
    peers: Vec<Peer>,
    entries: BTreeMap<RouteKey, Entry>,
    timers: BTreeSet<(Time, RouteKey)>,
    /// Prefixes whose usable routes may have changed.
    changed: BTreeSet<Prefix>,
    /// Whether those of all prefixes may have changed.
    has_lost_peer: bool,
    /// Lost peers whose routes are not all withdrawn yet.
    unusable: Peers,
    pub ignored: Ignored,
}

impl Rib {
    pub fn new(config: Config) -> Rib {
        let numbers = config.peers.iter().copied().zip(0..).take(PEERS_MAX).collect();
        let peers = config.peers.iter().map(|_| Peer::default()).collect();
        Rib {
            config,
            numbers,
            peers,
            entries: BTreeMap::new(),
            timers: BTreeSet::new(),
            changed: BTreeSet::new(),
            has_lost_peer: false,
            unusable: 0,
            ignored: Ignored::default(),
        }
    }

    /// Handles an event of the BMP session of a router.
    pub fn handle(&mut self, now: Time, router: RouterId, event: &RouteEvent) {
        let (RouteEvent::PeerUp(address)
        | RouteEvent::PeerDown(address)
        | RouteEvent::EndOfRib(address)
        | RouteEvent::Announce { peer: address, .. }
        | RouteEvent::Withdraw { peer: address, .. }) = *event;
        let number = self.numbers.get(&address).copied();
        let is_owned = |number: &u8| {
            let Peer { router: owner, status, .. } = &self.peers[usize::from(*number)];
            match event {
                RouteEvent::PeerUp(_) => owner.is_none_or(|owner| owner == router),
                RouteEvent::Announce { .. } => *owner == Some(router) && status.is_up,
                _ => *owner == Some(router),
            }
        };
        let Some(number) = number.filter(is_owned) else {
            self.ignored.other_peers += 1;
            return;
        };
        self.finish_withdrawal(now, number);
        match *event {
            RouteEvent::PeerUp(_) => self.peer_up(now, number, router),
            RouteEvent::PeerDown(_) => self.peer_down(now, number),
            RouteEvent::EndOfRib(_) => self.sweep(now, number),
            RouteEvent::Announce { prefix, route, .. } => self.announce(now, (prefix, number), route),
            RouteEvent::Withdraw { prefix, .. } => {
                self.peers[usize::from(number)].status.updates += 1;
                self.withdraw(now, (prefix, number));
            }
        }
    }

    /// Handles the loss of the BMP session of a router: its routes become stale.
    pub fn session_lost(&mut self, now: Time, router: RouterId) {
        for number in 0..self.peers.len() {
            if self.peers[number].router == Some(router) {
                self.finish_withdrawal(now, number as u8);
                self.peers[number].router = None;
                self.peers[number].status.is_up = false;
                self.begin_report(now, number as u8);
            }
        }
    }

    /// Adds a route that was in use before this program started, as a stale one.
    pub fn recover(&mut self, now: Time, prefix: Prefix, number: u8) {
        let Some(peer) = self.peers.get_mut(usize::from(number)).filter(|peer| !peer.status.is_up) else { return };
        let key = (prefix, number);
        if self.entries.contains_key(&key) || self.entries.len() >= self.config.routes_max {
            return;
        }
        peer.sweep_at = peer.sweep_at.or(Some(now.saturating_add(self.config.stale_time)));
        peer.status.has_stale = true;
        let report = peer.report.wrapping_sub(1);
        let next_hop = self.config.peers[usize::from(number)];
        let route = Some(Route { next_hop, as_path_len: 0, local_pref: 100 });
        self.edit(now, key, |entry| (entry.route, entry.report) = (route, report));
    }

    fn peer_up(&mut self, now: Time, number: u8, router: RouterId) {
        self.begin_report(now, number);
        let peer = &mut self.peers[usize::from(number)];
        peer.router = Some(router);
        peer.status.is_up = true;
    }

    /// Makes all routes of a peer stale.
    fn begin_report(&mut self, now: Time, number: u8) {
        let peer = &mut self.peers[usize::from(number)];
        peer.report = peer.report.wrapping_add(1);
        peer.sweep_at = Some(now.saturating_add(self.config.stale_time));
        peer.status.has_stale = peer.status.routes > 0;
    }

    fn peer_down(&mut self, now: Time, number: u8) {
        let peer = &mut self.peers[usize::from(number)];
        (peer.status.is_up, peer.status.has_stale, peer.sweep_at) = (false, false, None);
        if peer.status.routes > STEP_ENTRIES {
            peer.withdrawal = Some((now, (Prefix::ALL, 0)));
            self.unusable |= 1 << number;
            self.has_lost_peer = true;
        } else {
            self.routes_of(number, |_| true).into_iter().for_each(|key| self.withdraw(now, key));
        }
    }

    /// Withdraws the routes of a lost peer that are in the next [`STEP_ENTRIES`] entries.
    fn step_withdrawal(&mut self, now: Time, number: u8) {
        let Some((_, first)) = self.peers[usize::from(number)].withdrawal else { return };
        let mut keys = self.entries.range(first..).map(|(key, _)| *key);
        let of_peer: Vec<RouteKey> = keys.by_ref().take(STEP_ENTRIES).filter(|key| key.1 == number).collect();
        let next = keys.next().map(|key| (now.saturating_add(STEP_PERIOD), key));
        of_peer.into_iter().for_each(|key| self.withdraw(now, key));
        self.peers[usize::from(number)].withdrawal = next;
        if next.is_none() {
            self.unusable &= !(1 << number);
        }
    }

    fn finish_withdrawal(&mut self, now: Time, number: u8) {
        while self.peers[usize::from(number)].withdrawal.is_some() {
            self.step_withdrawal(now, number);
        }
    }

    /// Drops the stale routes of a peer. They get no penalty: when they went is not known.
    fn sweep(&mut self, now: Time, number: u8) {
        let report = self.peers[usize::from(number)].report;
        for key in self.routes_of(number, |entry| entry.report != report) {
            self.edit(now, key, |entry| entry.route = None);
        }
        let peer = &mut self.peers[usize::from(number)];
        (peer.status.has_stale, peer.sweep_at) = (false, None);
    }

    fn routes_of(&self, number: u8, is_meant: impl Fn(&Entry) -> bool) -> Vec<RouteKey> {
        let of_peer = self.entries.iter().filter(|((_, peer), entry)| *peer == number && entry.route.is_some());
        of_peer.filter(|(_, entry)| is_meant(entry)).map(|(key, _)| *key).collect()
    }

    fn announce(&mut self, now: Time, key: RouteKey, route: Route) {
        let (damping, peer) = (self.config.damping, &mut self.peers[usize::from(key.1)]);
        peer.status.updates += 1;
        let report = peer.report;
        if !self.entries.contains_key(&key) && self.entries.len() >= self.config.routes_max {
            self.ignored.over_limit += 1;
            return;
        }
        self.edit(now, key, |entry| {
            let is_changed = entry.route.is_some_and(|before| before != route);
            if is_changed && damping.add(&mut entry.penalty, now, damping.change) {
                entry.is_suppressed = true;
            }
            (entry.route, entry.report) = (Some(route), report);
        });
    }

    fn withdraw(&mut self, now: Time, key: RouteKey) {
        let damping = self.config.damping;
        if self.entries.get(&key).is_some_and(|entry| entry.route.is_some()) {
            self.edit(now, key, |entry| {
                entry.route = None;
                entry.is_suppressed |= damping.add(&mut entry.penalty, now, damping.withdrawal);
            });
        }
    }

    /// Changes an entry, and everything that follows from it.
    fn edit(&mut self, now: Time, key: RouteKey, change: impl FnOnce(&mut Entry)) {
        let before = self.entries.get(&key).copied().unwrap_or_default();
        let mut after = before;
        change(&mut after);
        let damping = &self.config.damping;
        // Penalties do not matter without damping, nor below half of the reuse threshold (RFC 2439).
        let forget_below = damping.reuse / 2.0;
        let is_forgotten = !after.is_suppressed
            && (damping.suppress.is_infinite() || damping.decayed(after.penalty, now) <= forget_below);
        after.due = match (after.is_suppressed, after.route) {
            (true, _) => Some(damping.falls_to(after.penalty, damping.reuse)),
            (false, None) if !is_forgotten => Some(damping.falls_to(after.penalty, forget_below)),
            _ => None,
        };
        let status = &mut self.peers[usize::from(key.1)].status;
        status.routes = status.routes + usize::from(after.route.is_some()) - usize::from(before.route.is_some());
        status.suppressed = status.suppressed + usize::from(after.is_suppressed) - usize::from(before.is_suppressed);
        if before.due != after.due {
            if let Some(at) = before.due {
                self.timers.remove(&(at, key));
            }
            self.timers.extend(after.due.map(|at| (at, key)));
        }
        if before.usable() != after.usable() && self.unusable >> key.1 & 1 == 0 {
            self.changed.insert(key.0);
        }
        match after.route.is_none() && is_forgotten {
            true => drop(self.entries.remove(&key)),
            false => drop(self.entries.insert(key, after)),
        }
    }

    /// Returns when [`Rib::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let sweeps = self.peers.iter().filter_map(|peer| peer.sweep_at);
        let withdrawals = self.peers.iter().filter_map(|peer| peer.withdrawal.map(|(at, _)| at));
        sweeps.chain(withdrawals).chain(self.timers.first().map(|(at, _)| *at)).min()
    }

    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((_, key)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            // Either the route is used again, or its penalty is forgotten.
            self.edit(now, key, |entry| entry.is_suppressed = false);
        }
        for number in 0..self.peers.len() {
            if self.peers[number].withdrawal.is_some_and(|(at, _)| at <= now) {
                self.step_withdrawal(now, number as u8);
            }
            if self.peers[number].sweep_at.is_some_and(|at| at <= now) {
                self.sweep(now, number as u8);
            }
        }
    }

    /// Returns the peers that may carry a prefix: of the announced routes that are not damped,
    /// those with the highest local preference.
    pub fn usable(&self, prefix: Prefix) -> Peers {
        self.usable_of(self.entries.range((prefix, 0)..=(prefix, u8::MAX)))
    }

    /// Returns the prefixes within another one that any peer announces, damped or not, with the
    /// peers that may carry them.
    pub fn within(&self, outer: Prefix) -> impl Iterator<Item = (Prefix, Peers)> {
        let (first, last) = outer.within().into_inner();
        let mut entries = self.entries.range((first, 0)..=(last, u8::MAX)).peekable();
        core::iter::from_fn(move || {
            let prefix = entries.peek()?.0.0;
            let of_prefix = core::iter::from_fn(|| entries.next_if(|((other, _), _)| *other == prefix));
            Some((prefix, self.usable_of(of_prefix)))
        })
    }

    fn usable_of<'a>(&self, entries: impl Iterator<Item = (&'a RouteKey, &'a Entry)>) -> Peers {
        let (mut best, mut peers) = (None, 0);
        for ((_, peer), entry) in entries {
            let Some(route) = entry.usable().filter(|_| self.unusable >> peer & 1 == 0) else { continue };
            let length = if self.config.shortest_only { route.as_path_len } else { 0 };
            let rank = (route.local_pref, core::cmp::Reverse(length));
            if best.is_none_or(|best| rank > best) {
                (best, peers) = (Some(rank), 0);
            }
            if best == Some(rank) {
                peers |= 1 << peer;
            }
        }
        peers
    }

    /// Returns whether a peer with many routes was lost since the last call: every prefix may have
    /// changed, and [`Rib::take_changed`] does not name those of that peer.
    pub fn take_lost_peer(&mut self) -> bool {
        core::mem::take(&mut self.has_lost_peer)
    }
    /// Removes and returns the prefixes whose usable routes may have changed.
    pub fn take_changed(&mut self) -> BTreeSet<Prefix> {
        core::mem::take(&mut self.changed)
    }
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }
    /// Returns the states of the peers, by their numbers.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus> {
        self.peers.iter().map(|peer| peer.status)
    }
    pub fn config(&self) -> &Config {
        &self.config
    }
}

#[cfg(test)]
mod tests;
