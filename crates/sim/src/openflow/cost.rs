//! Overhead of a controller: messages, bytes, table entries.

use openflow::Message;
use switch::Tally;

use super::switch::ControlledSwitch;
use crate::outcome::{MessageCount, MessageCounts, PlaneRecord, TIERS, TierEntries};

const SECOND: u64 = 1_000_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Cost {
    /// The counts so far. Counters of switches are those of switches that have lost their power; the others are added
    /// at the end.
    pub(super) record: PlaneRecord,
    /// Current second, and the flow-table changes in it.
    second: u64,
    flow_mods: u64,
    /// Entries of each switch and of all, and the sum over time of the latter.
    entries: Vec<u32>,
    entries_now: u64,
    entries_sum: u128,
    since: u64,
}

impl Cost {
    pub(super) fn new(switches: usize) -> Cost {
        Cost { entries: vec![0; switches], ..Cost::default() }
    }

    pub(super) fn note_message(&mut self, is_boot: bool, is_down: bool, message: &Message, bytes: usize, now: u64) {
        if is_boot {
            return add(&mut self.record.boot, bytes);
        }
        if let Message::FlowMod(_) = message {
            let second = now / SECOND;
            self.flow_mods = if second == self.second { self.flow_mods + 1 } else { 1 };
            self.second = second;
            self.record.flow_mods_per_s_peak = self.record.flow_mods_per_s_peak.max(self.flow_mods);
        }
        let counts = if is_down { &mut self.record.to_switches } else { &mut self.record.to_controller };
        add(kind(counts, message), bytes);
    }

    pub(super) fn note_entries(&mut self, clock: u64, ix: u32, tally: &Tally) {
        self.record.entries_max = self.record.entries_max.max(tally.entries_max);
        let entries = &mut self.entries[ix as usize];
        if *entries != tally.entries {
            self.entries_sum += u128::from(self.entries_now) * u128::from(clock - self.since);
            self.since = clock;
            self.entries_now = self.entries_now + u64::from(tally.entries) - u64::from(*entries);
            *entries = tally.entries;
        }
    }

    pub(super) fn note_loss(&mut self, clock: u64, ix: u32, tally: &Tally) {
        self.record.packet_ins_suppressed += tally.packet_ins_suppressed;
        self.record.errors += tally.errors;
        self.note_entries(clock, ix, &Tally { entries: 0, ..*tally });
    }

    /// Restarts the means at `clock`: they are over simulated time only.
    pub(super) fn begin(&mut self, clock: u64) {
        (self.entries_sum, self.since) = (0, clock);
    }

    /// Returns the record of a run that ended at `clock`, of which `lasted` is simulated time.
    pub(super) fn record(&self, clock: u64, lasted: u64, switches: &[ControlledSwitch]) -> PlaneRecord {
        let sum = self.entries_sum + u128::from(self.entries_now) * u128::from(clock.saturating_sub(self.since));
        let time = (u128::from(lasted) * switches.len() as u128).max(1);
        let total = |of: fn(&Tally) -> u64| switches.iter().map(|station| of(&station.switch.tally())).sum::<u64>();
        let mut entries_by_tier = [TierEntries::default(); TIERS];
        for station in switches {
            let tier = &mut entries_by_tier[usize::from(station.tier.saturating_sub(1)).min(TIERS - 1)];
            let entries = station.switch.tally().entries;
            tier.switches += 1;
            tier.sum += u64::from(entries);
            tier.max = tier.max.max(entries);
        }
        PlaneRecord {
            entries_by_tier,
            entries_mean: sum as f64 / time as f64,
            packet_ins_suppressed: self.record.packet_ins_suppressed + total(|tally| tally.packet_ins_suppressed),
            errors: self.record.errors + total(|tally| tally.errors),
            ..self.record
        }
    }
}

fn add(count: &mut MessageCount, bytes: usize) {
    count.messages += 1;
    count.bytes += bytes as u64;
}

fn kind<'a>(counts: &'a mut MessageCounts, message: &Message) -> &'a mut MessageCount {
    match message {
        Message::FlowMod(_) => &mut counts.flow_mod,
        Message::GroupMod(_) => &mut counts.group_mod,
        Message::PacketIn(_) => &mut counts.packet_in,
        Message::PacketOut(_) => &mut counts.packet_out,
        Message::BarrierRequest | Message::BarrierReply => &mut counts.barrier,
        Message::MultipartRequest(_) | Message::MultipartReply { .. } => &mut counts.multipart,
        _ => &mut counts.other,
    }
}
