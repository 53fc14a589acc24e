//! Which uplink carries which prefix: placement of new ones, and moves that make the load even.
//!
//! The load of an uplink is compared relative to its rate (its utilisation). A move takes a prefix
//! from the most utilised uplink that has one to give, so that the higher utilisation of the two
//! uplinks falls most. Utilisations that differ by less than the hysteresis count as equal. Without
//! hysteresis, and if every uplink may carry every prefix, no uplink then
//! exceeds its fair share by more than its lightest prefix, scaled by the ratio of the rates: the
//! move of this prefix would otherwise have been an improvement.

use std::collections::BTreeMap;

use net::{Bandwidth, Time};

use super::Piece;
use crate::Prefix;
use crate::rib::Peers;

/// Load of a prefix that was not measured yet, bits per second: small, and enough to spread new
/// prefixes evenly.
const UNMEASURED_BPS: f64 = 1000.0;
/// Maximum number of moves after one measurement.
const MOVES_MAX: usize = 64;
/// Time for which a moved prefix stays.
const STAY: Time = Time::from_s(30);

/// The loads of the uplinks, as the sum of the rates of their pieces.
pub(super) struct Loads<'a> {
    rates: &'a [Bandwidth],
    bps: Vec<f64>,
}

fn load_of(rate_bps: f64) -> f64 {
    rate_bps.max(UNMEASURED_BPS)
}

impl<'a> Loads<'a> {
    pub(super) fn new(rates: &'a [Bandwidth]) -> Loads<'a> {
        Loads { rates, bps: vec![0.0; rates.len()] }
    }
    pub(super) fn add(&mut self, piece: &Piece) {
        self.bps[usize::from(piece.uplink)] += load_of(piece.rate_bps);
    }
    /// Returns the utilisation of an uplink with an additional load.
    fn with(&self, uplink: u8, more_bps: f64) -> f64 {
        let uplink = usize::from(uplink);
        (self.bps[uplink] + more_bps) / self.rates[uplink].as_bps_f64()
    }
    fn numbers(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.rates.len() as u8
    }
    /// Returns the uplink with the lowest utilisation after it gets this rate, of those allowed.
    pub(super) fn least(&self, allowed: Peers, rate_bps: f64) -> u8 {
        let candidates = self.numbers().filter(|uplink| allowed & 1 << uplink != 0);
        let after = |uplink: u8| self.with(uplink, load_of(rate_bps));
        candidates.min_by(|a, b| after(*a).total_cmp(&after(*b))).unwrap_or_default()
    }
}

/// Moves prefixes. Returns those that were moved.
pub(super) fn even_out(
    now: Time,
    pieces: &mut BTreeMap<Prefix, Piece>,
    rates: &[Bandwidth],
    hysteresis: f64,
) -> Vec<Prefix> {
    let mut loads = Loads::new(rates);
    pieces.values().for_each(|piece| loads.add(piece));
    let mut moved = Vec::new();
    while moved.len() < MOVES_MAX {
        let Some((prefix, to)) = best_move(now, pieces, &loads, hysteresis) else { break };
        let Some(piece) = pieces.get_mut(&prefix) else { break };
        loads.bps[usize::from(piece.uplink)] -= load_of(piece.rate_bps);
        piece.uplink = to;
        piece.moved_at = Some(now);
        loads.add(piece);
        moved.push(prefix);
    }
    moved
}

/// Returns the best move away from the most utilised uplink that has an improving one.
fn best_move(now: Time, pieces: &BTreeMap<Prefix, Piece>, loads: &Loads<'_>, hysteresis: f64) -> Option<(Prefix, u8)> {
    let mut uplinks: Vec<u8> = loads.numbers().collect();
    uplinks.sort_by(|a, b| loads.with(*b, 0.0).total_cmp(&loads.with(*a, 0.0)));
    uplinks.into_iter().find_map(|from| {
        let before = loads.with(from, 0.0);
        let mut best: Option<(f64, Prefix, u8)> = None;
        for (prefix, piece) in pieces.iter().filter(|(_, piece)| piece.uplink == from) {
            let others = piece.allowed & !(1 << from);
            if others == 0 || piece.moved_at.is_some_and(|at| now < at.saturating_add(STAY)) {
                continue;
            }
            let load = load_of(piece.rate_bps);
            let to = loads.least(others, piece.rate_bps);
            let after = loads.with(from, -load).max(loads.with(to, load));
            let is_uneven = before - loads.with(to, 0.0) > hysteresis;
            if is_uneven && after < before && best.is_none_or(|(least, ..)| after < least) {
                best = Some((after, *prefix, to));
            }
        }
        best.map(|(_, prefix, to)| (prefix, to))
    })
}
