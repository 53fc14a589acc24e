//! The division of outgoing traffic over uplinks: which uplink carries which prefix.
//!
//! An uplink may carry a prefix if it is up and the peer behind it has a usable route
//! ([`Rib::usable`]). Each prefix has one uplink, so its packets stay in order, and keeps it while
//! the uplink may carry it and the load is even (`assign.rs`).
//!
//! While the prefixes fit into the rules of the switch, each one has its own rule. With more of them
//! the rules lead to blocks of addresses, which are divided where the traffic is (`blocks.rs`).

mod assign;
mod blocks;

use std::collections::{BTreeMap, BTreeSet};

use net::{Bandwidth, Time};

use crate::rib::{self, Peers, Rib};
use crate::{Prefix, RouteEvent, RouterId};
use assign::Loads;
use blocks::Blocks;

/// Share of a measured rate in the estimate of a rate; the former estimate has the rest.
const NEWEST: f64 = 0.5;

#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Config {
    /// Rate of each uplink, in the order of the peers of [`rib::Config::peers`].
    pub rates: Vec<Bandwidth>,
    /// Maximum number of rules for prefixes; at least 2.
    pub rules_max: usize,
    /// Difference of the utilisations of two uplinks up to which no prefix moves between them.
    pub hysteresis: f64,
    pub rib: rib::Config,
}

/// A rule: the addresses of a prefix, but those of longer prefixes with a rule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Piece {
    /// Number of the uplink that carries it.
    pub uplink: u8,
    /// Estimate of its rate, bits per second; 0 until it is measured.
    pub rate_bps: f64,
    /// Uplinks that may carry it.
    allowed: Peers,
    /// When it was last moved to make the load even.
    moved_at: Option<Time>,
    is_measured: bool,
}

impl Piece {
    fn new(uplink: u8, allowed: Peers) -> Piece {
        Piece { uplink, rate_bps: 0.0, allowed, moved_at: None, is_measured: false }
    }
}

/// The state of an uplink.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UplinkStatus {
    pub is_up: bool,
    /// Number of rules that lead to it.
    pub rules: usize,
    /// Sum of the estimated rates of these rules, bits per second.
    pub rate_bps: f64,
}

/// Numbers of moves of prefixes from one uplink to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moves {
    /// Because the uplink may not carry the prefix any more.
    pub failed: u64,
    /// To make the load even.
    pub balanced: u64,
}

#[derive(Debug)]
pub struct Egress {
    config: Config,
    pub rib: Rib,
    /// Uplinks whose port is up and whose next hop is known.
    up: Peers,
    pieces: BTreeMap<Prefix, Piece>,
    /// Blocks of addresses; `None` while every prefix has its own rule.
    blocks: Option<Blocks>,
    /// Number of prefixes with a usable route.
    routed: usize,
    /// Whether all prefixes must be looked at, because an uplink went up or down, or a peer with many
    /// routes was lost.
    must_rescan: bool,
    /// Prefixes whose rule may have changed.
    touched: BTreeSet<Prefix>,
    pub moves: Moves,
}

impl Egress {
    pub fn new(config: Config) -> Egress {
        let rib = Rib::new(config.rib.clone());
        Egress {
            config,
            rib,
            up: 0,
            pieces: BTreeMap::new(),
            blocks: None,
            routed: 0,
            must_rescan: false,
            touched: BTreeSet::new(),
            moves: Moves::default(),
        }
    }

    pub fn handle(&mut self, now: Time, router: RouterId, event: &RouteEvent) {
        self.rib.handle(now, router, event);
    }

    /// Sets whether an uplink is up: its port is, and its next hop is known.
    pub fn set_up(&mut self, uplink: u8, is_up: bool) {
        let before = self.up;
        self.up = if is_up { before | 1 << uplink } else { before & !(1 << uplink) };
        self.must_rescan |= self.up != before;
    }

    fn usable(&self, prefix: Prefix) -> Peers {
        self.rib.usable(prefix) & self.up
    }

    /// Applies changes of routes and uplinks. Afterwards no rule leads to an uplink that may not
    /// carry its packets.
    pub fn update(&mut self) {
        self.must_rescan |= self.rib.take_lost_peer();
        if !(self.must_rescan || self.rib.has_changed()) {
            return;
        }
        let changed = self.rib.take_changed();
        if core::mem::take(&mut self.must_rescan) {
            self.rescan();
            return;
        }
        if self.blocks.is_some() {
            self.update_exceptions(&changed);
            return;
        }
        self.update_prefixes(changed);
        self.routed = self.pieces.len();
        self.choose_form();
    }

    /// Updates the rules of all prefixes, after an uplink went up or down or a peer was lost.
    fn rescan(&mut self) {
        self.count_routed();
        self.choose_form();
        if self.blocks.is_some() {
            self.update_blocks();
            return;
        }
        let gone: Vec<Prefix> = self.pieces.keys().copied().collect();
        let known: Vec<Prefix> = self.rib.within(Prefix::ALL).map(|(prefix, _)| prefix).collect();
        self.update_prefixes(gone.into_iter().chain(known).collect());
    }

    fn count_routed(&mut self) {
        self.routed = self.rib.within(Prefix::ALL).filter(|(_, peers)| peers & self.up != 0).count();
    }

    /// Changes from rules for prefixes to rules for blocks, and back if there are clearly fewer.
    fn choose_form(&mut self) {
        let max = self.config.rules_max;
        let needs_blocks = self.routed > if self.blocks.is_some() { max - max / 5 } else { max };
        if needs_blocks == self.blocks.is_some() {
            return;
        }
        let before: Vec<Prefix> = self.pieces.keys().copied().collect();
        before.into_iter().for_each(|prefix| self.remove(prefix));
        if needs_blocks {
            self.blocks = Some(Blocks::default());
            self.update_blocks();
        } else {
            self.blocks = None;
            let known: Vec<Prefix> = self.rib.within(Prefix::ALL).map(|(prefix, _)| prefix).collect();
            self.update_prefixes(known.into_iter().collect());
        }
    }

    /// Updates the rules of these prefixes, each of which has its own.
    fn update_prefixes(&mut self, prefixes: BTreeSet<Prefix>) {
        let mut unplaced = Vec::new();
        for prefix in prefixes {
            let allowed = self.usable(prefix);
            if allowed == 0 {
                self.remove(prefix);
                continue;
            }
            match self.pieces.get_mut(&prefix) {
                Some(piece) if allowed & 1 << piece.uplink != 0 => piece.allowed = allowed,
                other => unplaced.push((other.map_or(0.0, |piece| piece.rate_bps), prefix, allowed)),
            }
        }
        self.place(unplaced);
    }

    /// Gives prefixes the least loaded of the uplinks that may carry them, the heaviest first.
    fn place(&mut self, mut unplaced: Vec<(f64, Prefix, Peers)>) {
        if unplaced.is_empty() {
            return;
        }
        unplaced.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let is_unplaced: BTreeSet<Prefix> = unplaced.iter().map(|(_, prefix, _)| *prefix).collect();
        let rates = self.config.rates.clone();
        let mut loads = Loads::new(&rates);
        self.pieces.iter().filter(|(prefix, _)| !is_unplaced.contains(prefix)).for_each(|(_, piece)| loads.add(piece));
        for (_, prefix, allowed) in unplaced {
            let rate_bps = self.pieces.get(&prefix).map_or(0.0, |piece| piece.rate_bps);
            let uplink = loads.least(allowed, rate_bps);
            self.put(prefix, uplink, allowed);
            loads.add(&self.pieces[&prefix]);
        }
    }

    /// Sets the uplink of a rule. Its estimated rate stays.
    fn put(&mut self, prefix: Prefix, uplink: u8, allowed: Peers) {
        let piece = self.pieces.entry(prefix).or_insert_with(|| {
            self.touched.insert(prefix);
            Piece::new(uplink, allowed)
        });
        piece.allowed = allowed;
        if piece.uplink != uplink {
            piece.uplink = uplink;
            self.touched.insert(prefix);
            self.moves.failed += 1;
        }
    }

    fn remove(&mut self, prefix: Prefix) {
        if self.pieces.remove(&prefix).is_some() {
            self.touched.insert(prefix);
        }
    }

    /// Records the measured rate of a rule, bits per second.
    pub fn set_rate(&mut self, prefix: Prefix, rate_bps: f64) {
        if let Some(piece) = self.pieces.get_mut(&prefix) {
            let newest = if piece.is_measured { NEWEST } else { 1.0 };
            piece.rate_bps += (rate_bps - piece.rate_bps) * newest;
            piece.is_measured = true;
        }
    }

    /// Makes the load of the uplinks even, by as few moves as possible. It must be called after a
    /// measurement.
    pub fn rebalance(&mut self, now: Time) {
        if self.blocks.is_some() {
            self.count_routed();
            self.choose_form();
            self.refine_blocks();
        }
        let moved = assign::even_out(now, &mut self.pieces, &self.config.rates, self.config.hysteresis);
        self.moves.balanced += moved.len() as u64;
        self.touched.extend(moved.iter().copied());
        moved.into_iter().for_each(|prefix| self.update_within(prefix));
    }

    /// Removes and returns the prefixes whose rule has changed, with their uplink; `None`: no rule.
    pub fn take_changes(&mut self) -> impl Iterator<Item = (Prefix, Option<u8>)> {
        let touched = core::mem::take(&mut self.touched);
        touched.into_iter().map(|prefix| (prefix, self.pieces.get(&prefix).map(|piece| piece.uplink)))
    }

    pub fn pieces(&self) -> impl Iterator<Item = (Prefix, &Piece)> {
        self.pieces.iter().map(|(prefix, piece)| (*prefix, piece))
    }
    /// Returns the uplink and the estimated rate of a rule.
    pub fn piece(&self, prefix: Prefix) -> Option<&Piece> {
        self.pieces.get(&prefix)
    }
    /// Returns the states of the uplinks, by their numbers.
    pub fn uplinks(&self) -> Vec<UplinkStatus> {
        let none = |uplink| UplinkStatus { is_up: self.up >> uplink & 1 == 1, rules: 0, rate_bps: 0.0 };
        let mut uplinks: Vec<UplinkStatus> = (0..self.config.rates.len()).map(none).collect();
        for piece in self.pieces.values() {
            let uplink = &mut uplinks[usize::from(piece.uplink)];
            uplink.rules += 1;
            uplink.rate_bps += piece.rate_bps;
        }
        uplinks
    }
    /// Returns the number of prefixes that a peer behind an uplink that is up announces.
    pub fn routed(&self) -> usize {
        self.routed
    }
    /// Returns whether rules lead to blocks of addresses instead of prefixes.
    pub fn is_aggregated(&self) -> bool {
        self.blocks.is_some()
    }
    /// Returns the number of prefixes whose packets leave by an uplink whose peer does not announce
    /// them, because the table is full.
    pub fn uncovered(&self) -> usize {
        self.blocks.as_ref().map_or(0, Blocks::uncovered)
    }
    pub fn config(&self) -> &Config {
        &self.config
    }
}

#[cfg(test)]
mod tests;
