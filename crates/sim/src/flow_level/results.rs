//! The outcome of a run. Packets are bytes in units of full packets.

use super::run::FlowRun;
use super::sender::Phase;
use crate::SimError;
use crate::outcome::{FlowEnd, Outcome, Series};

impl FlowRun<'_> {
    pub(super) fn outcome(mut self) -> Result<Outcome, SimError> {
        let now = self.ledger.now;
        self.count_all();
        let (mut sent, mut delivered, mut lost) = (0, 0, 0);
        let mss = u64::from(self.scenario.config.transport.mss_bytes);
        for sender in &self.senders {
            if sender.phase == Phase::Unused {
                continue;
            }
            let id = sender.id as usize;
            let on_wire = sender.total - sender.left;
            let arrived = (on_wire - sender.rate * sender.latency as f64).max(0.0);
            let record = &mut self.ledger.records[id];
            record.retransmitted = (sender.lost / self.packet).round() as u32;
            record.packets_sent = (on_wire / self.packet) as u32;
            record.delivered_bytes = payload(self.scenario.flows.flows[id].size_bytes, arrived / sender.total);
            delivered += (arrived / self.packet) as u64;
        }
        for (at, id) in self.ledger.undelivered() {
            let total = self.wire_bytes(id);
            let missing = f64::from(self.last_rate[id as usize]) * at.saturating_sub(now) as f64;
            let arrived = (total - missing).max(0.0);
            let size = self.scenario.flows.flows[id as usize].size_bytes;
            let record = &mut self.ledger.records[id as usize];
            record.packets_sent = size.div_ceil(mss) as u32;
            record.delivered_bytes = payload(size, arrived / total);
            delivered += ((arrived / self.packet) as u64).min(u64::from(record.packets_sent));
        }
        for (record, flow) in self.ledger.records.iter_mut().zip(&self.scenario.flows.flows) {
            let back = std::mem::take(&mut record.sender_fct);
            if record.end == FlowEnd::Completed {
                record.sender_fct = record.fct.saturating_add(back);
                record.packets_sent = flow.size_bytes.div_ceil(mss) as u32;
            }
            if matches!(record.end, FlowEnd::Completed | FlowEnd::Failed) {
                delivered += u64::from(record.packets_sent);
            }
            record.packets_sent += record.retransmitted;
            sent += u64::from(record.packets_sent);
            lost += u64::from(record.retransmitted);
        }
        let carried: Vec<u64> = self.carried.iter().map(|bytes| bytes.round() as u64).collect();
        let series = self.sampler.map_or_else(Series::default, |sampler| {
            let carried = &self.carried;
            sampler.finish(|link| carried[link as usize] as u64, now)
        });
        let mut outcome = self.ledger.outcome(carried, series)?;
        for link in &mut outcome.links {
            link.packets = (link.bytes as f64 / self.packet).round() as u64;
        }
        let accounting = &mut outcome.accounting;
        accounting.packets_sent = sent;
        accounting.packets_delivered = delivered;
        accounting.dropped.link_down = lost;
        accounting.packets_in_flight = sent.saturating_sub(delivered + lost);
        accounting.check().map_err(SimError::Accounting)?;
        Ok(outcome)
    }
}

/// Returns the payload of a share of a flow that has not completed: less than all.
pub(super) fn payload(size: u64, share: f64) -> u64 {
    ((size as f64 * share.clamp(0.0, 1.0)) as u64).min(size - 1)
}
