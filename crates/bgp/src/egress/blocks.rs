//! Rules for more prefixes than the switch has rules.
//!
//! The addresses are divided into blocks, each with an uplink: at first one block, the default
//! route. A prefix whose peers do not include the one behind the uplink of its block is an
//! *exception* with its own rule.
//!
//! The counters of blocks show where the traffic is: a block with much of it is halved, and both
//! halves can be measured and moved separately; halves with little traffic and the same uplink are
//! merged. So a prefix with much traffic gets its own rule after as many measurements as its length
//! has bits, and all prefixes without traffic share one (hierarchical heavy hitters).
//!
//! A move of a block creates no exceptions: only uplinks may carry it whose peers announce every
//! prefix within it. The choice of an uplink for a block that lost its own minimises them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Egress, Piece};
use crate::Prefix;
use crate::rib::Peers;

/// Longest block: longer prefixes are rarely accepted between providers.
const LENGTH_MAX: u8 = 24;
/// Maximum number of blocks that are halved after one measurement.
const HALVED_MAX: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Blocks, which together are all addresses, without overlap.
    leaves: BTreeSet<Prefix>,
    /// Prefixes with their own rule, because their block has an uplink that may not carry them.
    exceptions: BTreeSet<Prefix>,
    /// Exceptions without a rule, because the table is full.
    waiting: BTreeSet<Prefix>,
    /// Blocks within which routes have changed since [`Piece::allowed`] was computed.
    stale: BTreeSet<Prefix>,
}

impl Blocks {
    pub(super) fn uncovered(&self) -> usize {
        self.waiting.len()
    }
    /// Returns the block that contains a prefix, or the first of those within it.
    fn of(&self, prefix: Prefix) -> Option<Prefix> {
        self.leaves.range(..=Prefix::around(prefix.first(), 32)).next_back().copied()
    }
}

/// The share of a block that each uplink may carry.
struct Costs {
    /// Number of prefixes that the uplink may not carry, by uplink.
    lacking: Vec<usize>,
    /// Uplinks of the longest prefix that contains the whole block; all uplinks without such a prefix.
    of_block: Peers,
    /// Number of prefixes that any uplink may carry.
    routed: usize,
}

impl Egress {
    fn costs(&self, block: Prefix) -> Costs {
        // This prefix carries what has no longer route.
        let of_block = block.covering().map(|prefix| self.usable(prefix)).find(|usable| *usable != 0);
        let within = self.rib.within(block).filter(|(prefix, _)| *prefix != block);
        let within = within.map(|(_, peers)| peers & self.up).filter(|peers| *peers != 0);
        let mut costs =
            Costs { lacking: vec![0; self.config.rates.len()], of_block: of_block.unwrap_or(self.up), routed: 0 };
        for usable in of_block.into_iter().chain(within) {
            costs.routed += 1;
            for (uplink, lacking) in costs.lacking.iter_mut().enumerate() {
                *lacking += usize::from(usable & 1 << uplink == 0);
            }
        }
        costs
    }

    /// Chooses the uplink of every block and the exceptions, after an uplink went up or down, or
    /// many routes have changed.
    pub(super) fn update_blocks(&mut self) {
        let Some(blocks) = &mut self.blocks else { return };
        if blocks.leaves.is_empty() {
            blocks.leaves.insert(Prefix::ALL);
        }
        let leaves: Vec<Prefix> = blocks.leaves.iter().copied().collect();
        for block in leaves {
            self.choose_uplink(block);
        }
        self.update_within(Prefix::ALL);
    }

    /// Chooses the uplink of a block: its own, if it may carry it. Returns whether it is another one
    /// than before.
    fn choose_uplink(&mut self, block: Prefix) -> bool {
        let costs = self.costs(block);
        let before = self.pieces.get(&block).map(|piece| piece.uplink);
        let numbers = |peers: Peers| (0..costs.lacking.len() as u8).filter(move |uplink| peers >> uplink & 1 == 1);
        let lacking = |uplink: u8| costs.lacking[usize::from(uplink)];
        let least = numbers(costs.of_block).min_by_key(|uplink| lacking(*uplink));
        // A quarter of the rules may be exceptions that another uplink would not need. An uplink whose
        // peer has lost all its routes is never kept.
        let leaves = self.blocks.as_ref().map_or(1, |blocks| blocks.leaves.len().max(1));
        let slack = self.config.rules_max / 4 / leaves;
        let is_close = |uplink: u8| {
            let is_useless = lacking(uplink) == costs.routed;
            least.is_none_or(|least| !is_useless && lacking(uplink) <= lacking(least) + slack.max(1))
        };
        let kept = before.filter(|uplink| costs.of_block >> uplink & 1 == 1 && is_close(*uplink));
        let Some(uplink) = kept.or(least).filter(|_| costs.routed > 0) else {
            self.remove(block);
            return before.is_some();
        };
        let is_free = |uplink: &u8| costs.lacking[usize::from(*uplink)] == 0;
        let free: Peers = numbers(self.up).filter(is_free).map(|uplink| 1 << uplink).sum();
        self.put(block, uplink, free | 1 << uplink);
        before != Some(uplink)
    }

    /// Updates all exceptions within a block or prefix, itself excluded.
    pub(super) fn update_within(&mut self, outer: Prefix) {
        if let Some(blocks) = &self.blocks {
            let known = self.rib.within(outer).map(|(prefix, peers)| (prefix, peers & self.up));
            let exceptions = blocks.exceptions.range(outer.within()).map(|prefix| (*prefix, self.usable(*prefix)));
            let mut prefixes: Vec<(Prefix, Peers)> =
                known.chain(exceptions).filter(|(prefix, _)| *prefix != outer).collect();
            // In their order: a prefix precedes those within it.
            prefixes.sort();
            prefixes.dedup();
            prefixes.into_iter().for_each(|(prefix, usable)| self.update_exception(prefix, usable));
        }
    }

    /// Updates the rules after changes of the routes to these prefixes.
    pub(super) fn update_exceptions(&mut self, prefixes: &BTreeSet<Prefix>) {
        let mut moved = BTreeSet::new();
        // With more changes than rules, their blocks may need another uplink: a peer was lost.
        if prefixes.len() > self.config.rules_max {
            self.update_blocks();
            return;
        }
        for prefix in prefixes {
            let Some(blocks) = &mut self.blocks else { return };
            let Some(block) = blocks.of(*prefix) else { continue };
            blocks.stale.insert(block);
            if prefix.length() > block.length() {
                self.update_exception(*prefix, self.usable(*prefix));
                continue;
            }
            // The prefix contains blocks, which may need another uplink.
            let contained: Vec<Prefix> = blocks.leaves.range(prefix.within()).copied().collect();
            moved.extend(contained.into_iter().filter(|block| self.choose_uplink(*block)));
        }
        moved.into_iter().for_each(|block| self.update_within(block));
    }

    /// Updates whether a prefix is an exception: whether the next shorter rule leads to an uplink
    /// that may not carry it.
    fn update_exception(&mut self, prefix: Prefix, usable: Peers) {
        let Some(blocks) = &mut self.blocks else { return };
        if blocks.of(prefix).is_none_or(|block| prefix.length() <= block.length()) {
            return;
        }
        let before = self.pieces.get(&prefix).map(|piece| piece.uplink);
        let by_shorter = prefix.covering().skip(1).find_map(|shorter| self.pieces.get(&shorter));
        let is_exception = usable != 0 && by_shorter.is_none_or(|piece| usable & 1 << piece.uplink == 0);
        blocks.waiting.remove(&prefix);
        if !is_exception {
            if blocks.exceptions.remove(&prefix) {
                self.remove(prefix);
            }
        } else if blocks.exceptions.contains(&prefix) || self.pieces.len() < self.config.rules_max {
            blocks.exceptions.insert(prefix);
            let kept = before.filter(|uplink| usable & 1 << uplink != 0);
            self.put(prefix, kept.unwrap_or(usable.trailing_zeros() as u8), usable);
        } else {
            blocks.waiting.insert(prefix);
        }
        // The prefixes within this one are below another rule now.
        if self.pieces.get(&prefix).map(|piece| piece.uplink) != before {
            self.update_within(prefix);
        }
    }

    /// Halves the blocks with much traffic, merges those with little, and computes again which
    /// uplinks may carry them.
    pub(super) fn refine_blocks(&mut self) {
        let Some(mut blocks) = self.blocks.take() else { return };
        // Half of the rules are for blocks, the others for exceptions.
        let leaves_max = (self.config.rules_max / 2).max(1);
        let rate_of =
            |pieces: &BTreeMap<Prefix, Piece>, block: &Prefix| pieces.get(block).map_or(0.0, |piece| piece.rate_bps);
        let total: f64 = blocks.leaves.iter().map(|block| rate_of(&self.pieces, block)).sum();
        let unit = total / leaves_max as f64;
        self.merge_blocks(&mut blocks, unit);
        let mut heavy: Vec<(f64, Prefix)> = blocks
            .leaves
            .iter()
            .map(|block| (rate_of(&self.pieces, block), *block))
            .filter(|(rate, block)| *rate > 2.0 * unit && *rate > 0.0 && block.length() < LENGTH_MAX)
            .collect();
        heavy.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, block) in heavy.into_iter().take(HALVED_MAX) {
            if blocks.leaves.len() >= leaves_max || self.pieces.len() >= self.config.rules_max {
                break;
            }
            self.halve(&mut blocks, block);
        }
        let stale = core::mem::take(&mut blocks.stale);
        let waiting = blocks.waiting.clone();
        self.blocks = Some(blocks);
        for block in stale {
            let is_block = self.blocks.as_ref().is_some_and(|blocks| blocks.leaves.contains(&block));
            if is_block && self.choose_uplink(block) {
                self.update_within(block);
            }
        }
        // Capacity may have become free.
        waiting.into_iter().for_each(|prefix| self.update_exception(prefix, self.usable(prefix)));
    }

    fn halve(&mut self, blocks: &mut Blocks, block: Prefix) {
        let (Some(halves), Some(piece)) = (block.halves(), self.pieces.get(&block).copied()) else { return };
        blocks.leaves.remove(&block);
        self.remove(block);
        for half in halves {
            blocks.leaves.insert(half);
            blocks.stale.insert(half);
            blocks.exceptions.remove(&half);
            self.touched.insert(half);
            self.pieces.insert(half, Piece { rate_bps: piece.rate_bps / 2.0, is_measured: false, ..piece });
        }
    }

    fn merge_blocks(&mut self, blocks: &mut Blocks, unit: f64) {
        let mut parents: BTreeSet<(u8, Prefix)> =
            blocks.leaves.iter().filter_map(|leaf| leaf.parent()).map(|parent| (parent.length(), parent)).collect();
        while let Some((_, parent)) = parents.pop_last() {
            let Some(halves) = parent.halves() else { continue };
            let pieces = halves.map(|half| self.pieces.get(&half).copied().filter(|_| blocks.leaves.contains(&half)));
            let [Some(left), Some(right)] = pieces else { continue };
            let rate_bps = left.rate_bps + right.rate_bps;
            if left.uplink != right.uplink || rate_bps >= unit / 2.0 {
                continue;
            }
            for half in halves {
                blocks.leaves.remove(&half);
                self.remove(half);
            }
            blocks.leaves.insert(parent);
            blocks.stale.insert(parent);
            blocks.exceptions.remove(&parent);
            self.touched.insert(parent);
            self.pieces.insert(parent, Piece { rate_bps, allowed: left.allowed & right.allowed, ..left });
            parents.extend(parent.parent().map(|parent| (parent.length(), parent)));
        }
    }
}
