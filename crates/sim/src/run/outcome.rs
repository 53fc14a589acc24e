//! The outcome of a run: the sum over its partitions.

use net::Time;

use super::{Run, carried_bytes, sample_of};
use crate::engine::Engine;
use crate::links::histogram::QueueHistogram;
use crate::packet::CONTROL;
use crate::queue::NIL;
use crate::{
    Accounting, ControlRecord, EngineRecord, FlowEnd, FlowRecord, LinkRecord, Outcome, QueueRecord, ResequencingRecord,
    Series, SimError,
};

impl Run<'_> {
    /// Ends the run. Returns its outcome, whose accounting has been checked.
    pub(crate) fn finish(mut self) -> Result<Outcome, SimError> {
        let now = self.pacer.now;
        for engine in &mut self.engines {
            engine.network.now = now;
            for slot in 0..engine.slots.slots.len() as u32 {
                if engine.slots.get_mut(slot).id != NIL {
                    engine.record_open_slot(slot);
                }
            }
        }
        let Engine { controlled, records, .. } = &mut self.engines[0];
        for flow in controlled.iter().flat_map(|controlled| controlled.waiting_flows()) {
            let record = &mut records[flow as usize];
            record.fct = Time::from_ps(now).saturating_sub(record.started);
        }
        let services = self.engines[0].close_requests();
        let flows = self.flow_records();
        let Run { mut engines, pacer, interruptions, .. } = self;
        let sum = |f: &dyn Fn(&Engine<'_>) -> u64| engines.iter().map(f).sum::<u64>();
        let mut accounting = Accounting {
            packets_sent: sum(&|engine| engine.sent),
            packets_delivered: sum(&|engine| engine.delivered),
            packets_to_controller: sum(&|engine| engine.controlled.as_ref().map_or(0, |c| c.packets_taken)),
            packets_trimmed: sum(&|engine| engine.network.admission.tallies.iter().map(|tally| tally.trims).sum()),
            // Packets in resequencing buffers count as delivered but are still in the arena.
            packets_in_flight: sum(&|engine| engine.network.arena.alive - engine.held_now),
            ..Accounting::of_flows(&flows)
        };
        engines.iter().for_each(|engine| accounting.dropped.add(&engine.network.dropped));
        accounting.check().map_err(SimError::Accounting)?;
        let engine_record = EngineRecord {
            events: sum(&|engine| engine.events + engine.hops),
            packet_hops: sum(&|engine| engine.hops),
            peak_packets: pacer.peak_packets,
            peak_flows: pacer.peak_flows,
        };
        let control = ControlRecord {
            packets: sum(&|engine| engine.control.packets),
            bytes: sum(&|engine| engine.control.bytes),
            in_flight: sum(&|engine| engine.network.arena.count(|packet| packet.is(CONTROL))),
        };
        let mut resequencing = engines[0].resequencing;
        engines[1..].iter().for_each(|engine| add_resequencing(&mut resequencing, &engine.resequencing));
        let (links, queues) = (link_records(&engines), queue_records(&mut engines));
        let plane = engines[0].controlled.as_ref().map(|controlled| controlled.record(now));
        let max_window_packets = engines[0].params.transport.max_window;
        let capture = engines[0].tap.take().map(|tap| tap.finish()).unwrap_or_default();
        let probe = interruptions.link_probe;
        let link_series = probe.map_or_else(Vec::new, |probe| {
            probe.finish(|link| sample_of(engines.iter_mut().map(|engine| &mut engine.network), link), now)
        });
        let series = interruptions.sampler.map_or_else(Series::default, |s| {
            s.finish(|link| carried_bytes(engines.iter().map(|engine| &engine.network), link), now)
        });
        Ok(Outcome {
            end: Time::from_ps(now),
            accounting,
            links,
            queues,
            series,
            link_series,
            capture,
            resequencing,
            control,
            plane,
            services,
            max_window_packets,
            engine: engine_record,
            flows,
        })
    }

    /// Returns the records of all flows: of each, the parts of its sender and of its receiver.
    fn flow_records(&mut self) -> Vec<FlowRecord> {
        let now = Time::from_ps(self.pacer.now);
        let mut records = std::mem::take(&mut self.engines[0].records);
        for engine in &self.engines[1..] {
            for (record, part) in records.iter_mut().zip(&engine.records) {
                add_part(record, part);
            }
        }
        if self.engines[0].requests.is_some() {
            return records;
        }
        self.end_flows_with_unseen_losses(&mut records);
        let is_by_flow = self.engines[0].slots.is_by_flow();
        for (record, flow) in records.iter_mut().zip(&self.engines[0].list.flows) {
            if record.end == FlowEnd::NotStarted {
                continue;
            }
            record.ideal = Time::from_ps(self.ideals.fct(flow.src, flow.dst, flow.size_bytes));
            if is_by_flow {
                // Times of completion and failure are absolute until here.
                let ended = if record.end == FlowEnd::Running { now } else { record.fct };
                record.fct = ended.saturating_sub(record.started);
            }
        }
        records
    }

    /// Ends the flows without acknowledgements of which packets were lost and none is in the network:
    /// they have failed, at the arrival of their last packet.
    fn end_flows_with_unseen_losses(&self, records: &mut [FlowRecord]) {
        if self.engines[0].lost.is_empty() {
            return;
        }
        let (list, mss) = (self.engines[0].list, u64::from(self.engines[0].params.mss));
        for (flow, record) in records.iter_mut().enumerate() {
            let lost: u32 = self.engines.iter().map(|engine| engine.lost[flow]).sum();
            let segments = list.flows[flow].size_bytes.div_ceil(mss);
            let arrived = record.delivered_bytes.div_ceil(mss);
            if record.end == FlowEnd::Running && lost > 0 && arrived + u64::from(lost) == segments {
                record.end = FlowEnd::Failed;
            }
        }
    }
}

/// Adds the part of a record from another partition.
fn add_part(record: &mut FlowRecord, part: &FlowRecord) {
    match (record.end, part.end) {
        (FlowEnd::Completed, _) => {}
        (_, FlowEnd::Completed) => (record.end, record.fct) = (part.end, part.fct),
        (FlowEnd::NotStarted, _) => (record.end, record.fct) = (part.end, record.fct.max(part.fct)),
        _ => record.fct = record.fct.max(part.fct),
    }
    record.started = record.started.max(part.started);
    record.sender_fct = record.sender_fct.max(part.sender_fct);
    record.delivered_bytes += part.delivered_bytes;
    record.duplicate_bytes += part.duplicate_bytes;
    record.packets_sent += part.packets_sent;
    record.retransmitted += part.retransmitted;
    record.spurious += part.spurious;
    record.timeouts += part.timeouts;
    record.fast_retransmits += part.fast_retransmits;
    record.reordered += part.reordered;
    record.reorder_extent = record.reorder_extent.max(part.reorder_extent);
    record.path_changes += part.path_changes;
}

fn add_resequencing(sum: &mut ResequencingRecord, part: &ResequencingRecord) {
    sum.held += part.held;
    sum.max_held = sum.max_held.max(part.max_held);
    sum.hold_time_total = sum.hold_time_total.saturating_add(part.hold_time_total);
    sum.forced_releases += part.forced_releases;
}

fn link_records(engines: &[Engine<'_>]) -> Vec<LinkRecord> {
    let links = engines[0].network.ports.len();
    let mut records = vec![LinkRecord::default(); links];
    for engine in engines {
        let parts = engine.network.ports.iter().zip(&engine.network.admission.tallies);
        for (record, (port, tally)) in records.iter_mut().zip(parts) {
            record.bytes += port.carried_bytes;
            record.packets += u64::from(port.carried_packets);
            record.drops += tally.drops;
            record.marks += tally.marks;
            record.trims += tally.trims;
        }
    }
    records
}

fn queue_records(engines: &mut [Engine<'_>]) -> Vec<QueueRecord> {
    let mut all: Vec<QueueHistogram> = std::mem::take(&mut engines[0].network.admission.seen);
    for engine in &engines[1..] {
        all.iter_mut().zip(&engine.network.admission.seen).for_each(|(sum, part)| sum.add(part));
    }
    let seen = all.iter().filter(|seen| seen.count() > 0);
    let record = |seen: &QueueHistogram| QueueRecord {
        tier: seen.tier,
        up: seen.up,
        count: seen.count(),
        p50_bytes: seen.quantile(0.5),
        p99_bytes: seen.quantile(0.99),
        max_bytes: seen.max,
        marked: seen.above_mark,
    };
    seen.map(record).collect()
}
