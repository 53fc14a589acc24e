//! Records of flows, from the slots of their senders and receivers.

use net::Time;

use crate::engine::Engine;
use crate::outcome::FlowEnd;
use crate::queue::NIL;

impl Engine<'_> {
    /// Adds what the sender of a flow knows to its record.
    pub(crate) fn record_sender(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        let record = &mut self.records[slot.id as usize];
        slot.tally.add_sent_to(record);
        record.sender_fct = Time::from_ps(slot.tally.sender_fct);
        record.path_changes += self.fabric.edges.path_changes(slot.number);
        if slot.failed_at > 0 && record.end == FlowEnd::Running {
            (record.end, record.fct) = (FlowEnd::Failed, Time::from_ps(slot.failed_at));
        }
    }

    /// Adds what the receiver of a flow knows to its record. The completion time is absolute.
    pub(crate) fn record_receiver(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        let size = self.list.flows[slot.id as usize].size_bytes;
        let record = &mut self.records[slot.id as usize];
        slot.tally.add_received_to(record);
        let segments = slot.receiver.next.max(slot.tally.delivered_packets);
        record.delivered_bytes = (u64::from(segments) * u64::from(self.params.mss)).min(size);
        record.fct = record.fct.max(Time::from_ps(slot.completed_at));
        if slot.end == FlowEnd::Completed {
            (record.end, record.fct) = (FlowEnd::Completed, Time::from_ps(slot.completed_at));
        }
    }

    /// Adds the state of a slot that is open at the end of the run to the record of its flow.
    pub(crate) fn record_open_slot(&mut self, flow: u32) {
        if !self.slots.is_by_flow() {
            return if self.requests.is_some() { self.add_direction_to_record(flow) } else { self.write_record(flow) };
        }
        let slot = self.slots.get_mut(flow);
        let (is_sending, is_receiving) = (slot.is_sending, slot.is_receiving);
        if is_sending {
            self.record_sender(flow);
        }
        if is_receiving {
            self.record_receiver(flow);
        }
    }

    /// Adds a slot that ends to the record of its flow.
    pub(crate) fn write_record(&mut self, flow: u32) {
        let (now, mss) = (self.network.now, u64::from(self.params.mss));
        let is_shared = self.connections.subflows().is_some();
        let slot = self.slots.get_mut(flow);
        let size = self.list.flows[slot.id as usize].size_bytes;
        let delivered = |segments: u32| (u64::from(segments) * mss).min(size);
        let t = &slot.tally;
        let record = &mut self.records[slot.id as usize];
        let (started, fct, sender_fct);
        if slot.connection == NIL {
            let ended_at = slot.completed_at.max(slot.failed_at);
            (record.end, started, sender_fct) = (slot.end, slot.started, t.sender_fct);
            fct = ended_at.saturating_sub(started);
            record.delivered_bytes = delivered(slot.receiver.next.max(t.delivered_packets));
        } else {
            let c = self.connections.get_mut(slot.connection);
            (record.end, started, fct, sender_fct) = (c.end, c.started, c.fct, c.sender_fct);
            if is_shared {
                record.delivered_bytes = delivered(c.arrived.next);
                record.duplicate_bytes = c.duplicate_bytes;
            } else {
                // Each copy delivered a prefix of the flow; all but the longest was redundant.
                let delivered = delivered(slot.receiver.next);
                record.duplicate_bytes += delivered.min(record.delivered_bytes);
                record.delivered_bytes = record.delivered_bytes.max(delivered);
            }
        }
        record.fct = Time::from_ps(if record.end == FlowEnd::Running { now - started } else { fct });
        record.sender_fct = Time::from_ps(sender_fct);
        t.add_sent_to(record);
        t.add_received_to(record);
        record.path_changes += self.fabric.edges.path_changes(slot.number);
    }
}
