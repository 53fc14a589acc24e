//! The receiving side of hosts: resequencing, delivery to the transport, acknowledgements.

use balance::GapReport;
use balance::hash::combine;

use crate::engine::{Engine, START};
use crate::hosts::slots::{Echo, Receiver};
use crate::outcome::FlowEnd;
use crate::packet::{ACK, CE, FRESH, NACK, NOTIFY, Packet, RETRANSMIT, SYN, TRIMMED, stamp};
use crate::queue::NIL;
use crate::scenario::Acks;
use crate::timers::NEVER;

/// Bounds of the resequencing buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resequencer {
    pub(crate) timeout: u64,
    pub(crate) packets: u32,
    /// Flowcells: gaps inside a flowcell are delivered immediately, others are held for this
    /// multiple of the average reordering time. `None` holds for `timeout`.
    pub(crate) patience: Option<f64>,
    /// Whether the first packet that is held in a gap makes the receiver report the gap.
    pub(crate) reports_gaps: bool,
}

impl Resequencer {
    /// Returns how long a gap may last if earlier ones that were reordering lasted `average`.
    #[inline]
    pub(crate) fn hold_time(&self, average: u64) -> u64 {
        match self.patience {
            Some(patience) if average > 0 => (average as f64 * patience) as u64,
            _ => self.timeout,
        }
    }
}

impl Engine<'_> {
    /// Handles data of the flow in slot `flow`.
    pub(crate) fn on_data(&mut self, flow: u32, ix: u32, packet: &Packet) {
        let slot = self.slots.get_mut(flow);
        if self.params.properties.acks == Acks::None {
            slot.tally.delivered_packets += 1;
            slot.completed_at = self.network.now;
            self.network.arena.remove(ix);
            if self.slots.is_by_flow() {
                return self.complete_if_whole(flow);
            }
            return self.close_if_over(flow);
        }
        if packet.flags & TRIMMED != 0 {
            let echo = Echo { flags: NACK, ..echo_of(packet) };
            return self.acknowledge(flow, Some(ix), &echo);
        }
        if packet.flags & RETRANSMIT == 0 {
            if packet.seq >= slot.receiver.highest {
                slot.receiver.highest = packet.seq + 1;
            } else {
                slot.tally.reordered += 1;
                slot.tally.extent = slot.tally.extent.max(slot.receiver.highest - 1 - packet.seq);
            }
        }
        let receiver = &slot.receiver;
        if let Some(bounds) = self.params.resequencer {
            if packet.seq > receiver.next && !receiver.is_gap_shown {
                if bounds.patience.is_some() && packet.tag == receiver.cell {
                    // Packets of one flowcell share a path, so the missing one is lost, not late.
                    self.release_all(flow);
                    return self.receive(flow, ix, packet);
                }
                if bounds.reports_gaps {
                    self.report_gap(flow, None, packet);
                }
                return self.hold(flow, ix, packet, bounds);
            }
            let before = receiver.next;
            if receiver.is_gap_shown && packet.seq == before && packet.flags & RETRANSMIT == 0 {
                // The packet is only late, not lost: gaps of this flow last longer than estimated.
                self.note_reordering(flow);
            }
            self.receive(flow, ix, packet);
            return self.release_contiguous(flow, before);
        }
        self.receive(flow, ix, packet);
    }

    /// Completes a flow without acknowledgements if all its packets have arrived.
    fn complete_if_whole(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        if slot.tally.delivered_packets < slot.segments {
            return;
        }
        slot.end = FlowEnd::Completed;
        let id = slot.id;
        if let Some(at) = self.starts.trigger(self.list, id, self.network.now) {
            self.network.events.push(at, START);
        }
    }

    /// Updates the average duration of gaps after one was filled; the newest has weight 1/8.
    fn note_reordering(&mut self, flow: u32) {
        let now = self.network.now;
        let receiver = &mut self.slots.get_mut(flow).receiver;
        let lasted = now - receiver.gap_since;
        let average = receiver.reordering_time;
        receiver.reordering_time = if average == 0 { lasted } else { average - average / 8 + lasted / 8 };
    }

    /// Delivers a packet to the transport. It becomes the acknowledgement or is freed.
    fn receive(&mut self, flow: u32, ix: u32, packet: &Packet) {
        let now = self.network.now;
        let words = self.params.bitmap_words;
        let (slot, pool) = self.slots.with_pool(flow);
        let receiver = &mut slot.receiver;
        if self.params.properties.acks == Acks::InOrder && packet.seq > receiver.next {
            return self.reject_out_of_order(flow, ix, packet);
        }
        let before = receiver.next;
        let is_duplicate = if packet.seq == receiver.next {
            receiver.advance();
            // A retransmission travels in a later flowcell than its neighbours did.
            if packet.flags & RETRANSMIT == 0 {
                receiver.cell = packet.tag;
            }
            false
        } else {
            packet.seq < receiver.next || receiver.note_early(packet.seq, words, pool)
        };
        let is_sent_again = is_duplicate && packet.flags & RETRANSMIT != 0;
        if is_duplicate {
            slot.tally.spurious += u32::from(is_sent_again);
        } else if self.params.properties.acks == Acks::EachPacket {
            // Stored directly, in order or not.
            slot.tally.delivered_packets += 1;
        }
        let mut echo = echo_of(packet);
        if self.params.properties.notify_interval > 0 {
            echo.flags |= slot.receiver.notification(echo.marked, now, self.params.properties.notify_interval);
        }
        // Anything but plain in-order progress is acknowledged immediately (RFC 5681 §4.2).
        let is_plain = slot.receiver.next == before + 1 && !is_duplicate;
        let has_advanced = slot.receiver.next > before;
        let is_complete = slot.receiver.next == slot.segments && slot.end == FlowEnd::Running;
        if is_complete {
            slot.end = FlowEnd::Completed;
            slot.completed_at = now;
        }
        let id = slot.id;
        let completes_flow = if slot.connection == NIL {
            is_complete
        } else {
            self.connections.note_arrival(slot, packet.seq, !is_duplicate, now, self.params.mss)
        };
        // Before the acknowledgement leaves: it may then take another path.
        if is_sent_again && self.fabric.edges.is_used() {
            self.fabric.note_duplicate(&self.network, packet.flow, packet.dst, packet.src);
            self.run_issued_commands();
        }
        if is_sent_again && let Some(hosts) = &mut self.hosts {
            hosts.note_duplicate(&self.network, packet.dst, packet.flow);
        }
        let is_complete = is_complete || completes_flow;
        let slot = self.slots.get_mut(flow);
        if self.params.ack_every == 1 || !is_plain || is_complete {
            slot.receiver.unacked = 0;
            slot.receiver.timer.deadline = if slot.receiver.held > 0 { slot.receiver.timer.deadline } else { NEVER };
            self.acknowledge(flow, Some(ix), &echo);
        } else {
            self.network.arena.remove(ix);
            self.delay_ack(flow, echo);
        }
        if has_advanced && self.requests.is_some() {
            self.on_data_arrived(flow);
        }
        if completes_flow && self.requests.is_some() {
            return self.on_data_complete(flow);
        }
        if completes_flow && let Some(at) = self.starts.trigger(self.list, id, now) {
            self.network.events.push(at, START);
        }
    }

    /// Delays an acknowledgement (RFC 1122; RFC 8257 §3.2 for a change of the mark).
    fn delay_ack(&mut self, flow: u32, echo: Echo) {
        let receiver = &mut self.slots.get_mut(flow).receiver;
        if receiver.unacked > 0 && receiver.delayed.marked != echo.marked {
            let earlier = std::mem::replace(&mut receiver.delayed, echo);
            receiver.unacked = 1;
            self.acknowledge(flow, None, &earlier);
            return self.arm_receiver(flow, self.params.ack_timeout);
        }
        receiver.unacked += 1;
        if receiver.unacked >= self.params.ack_every {
            receiver.unacked = 0;
            receiver.timer.deadline = NEVER;
            return self.acknowledge(flow, None, &echo);
        }
        // The stamp of the oldest packet: the round-trip time must include the delay (RFC 7323 §4).
        if receiver.unacked == 1 {
            receiver.delayed = echo;
            self.arm_receiver(flow, self.params.ack_timeout);
        }
    }

    /// Rejects an out-of-order packet of go-back-N.
    fn reject_out_of_order(&mut self, flow: u32, ix: u32, packet: &Packet) {
        if !self.report_gap(flow, Some(ix), packet) {
            self.network.arena.remove(ix);
            self.close_if_over(flow);
        }
    }

    /// Reports the segment that go-back-N expects, once per gap. Returns whether it did.
    fn report_gap(&mut self, flow: u32, reuse: Option<u32>, packet: &Packet) -> bool {
        let (now, interval) = (self.network.now, self.params.properties.notify_interval);
        let receiver = &mut self.slots.get_mut(flow).receiver;
        if std::mem::replace(&mut receiver.is_gap_reported, true) {
            return false;
        }
        let mut echo = echo_of(packet);
        // The mark of a packet that is held is echoed when the packet is released.
        echo.flags = NACK | if reuse.is_some() { receiver.notification(echo.marked, now, interval) } else { 0 };
        self.acknowledge(flow, reuse, &echo);
        true
    }

    /// Sends the report of a gap that an edge makes up for, as the receiver of the flow would.
    pub(crate) fn send_gap_report(&mut self, node: u32, report: &GapReport) {
        let flow = self.slots.find(report.flow);
        if flow == NIL || !self.params.resequencer.is_some_and(|bounds| bounds.reports_gaps) {
            return;
        }
        let slot = self.slots.get_mut(flow);
        if !slot.is_receiving {
            return;
        }
        let sent = stamp(self.network.now.saturating_sub(report.age.as_ps()));
        let packet = Packet {
            hash: slot.ack_hash,
            flow: slot.number,
            src: slot.dst,
            dst: slot.src,
            class: slot.ack_class as u16,
            seq: report.expected,
            sent,
            edge: sent,
            bytes: self.params.ack_bytes,
            flags: ACK | NACK | slot.priority,
            ..Packet::BLANK
        };
        self.note_injected(flow);
        let ix = self.add_control(packet);
        self.forward(node, ix);
    }

    fn acknowledge(&mut self, flow: u32, reuse: Option<u32>, echo: &Echo) {
        let is_selective = matches!(self.params.properties.acks, Acks::Selective | Acks::EachPacket);
        let slot = self.slots.get_mut(flow);
        let mut flags = ACK | FRESH | slot.priority | echo.flags;
        flags |= if echo.marked { CE } else { 0 };
        let names_cause = is_selective || echo.flags & NACK != 0;
        let is_beyond = names_cause && echo.segment >= slot.receiver.next;
        // With single acknowledgements, each takes the entropy value of its packet (Ultra Ethernet 1.0).
        let entropy = match &mut self.hosts {
            Some(_) if self.params.properties.acks == Acks::EachPacket => Some(echo.path),
            Some(hosts) => hosts.ack_entropy(slot.number),
            None => None,
        };
        let packet = Packet {
            hash: entropy.map_or(slot.ack_hash, |entropy| combine(slot.ack_hash, u64::from(entropy))),
            flow: slot.number,
            src: slot.dst,
            dst: slot.src,
            class: slot.ack_class as u16,
            seq: slot.receiver.next,
            rank: u32::from(slot.ordinal),
            sent: echo.sent,
            edge: echo.edge,
            // Windows of selective transports are below 65535 segments; go-back-N does not read it.
            sack: if is_beyond { (echo.segment - slot.receiver.next + 1).min(u32::from(u16::MAX)) as u16 } else { 0 },
            bytes: self.params.ack_bytes,
            echo_path: echo.path,
            tag: u32::from(echo.via),
            flags,
            ..Packet::BLANK
        };
        match reuse {
            Some(ix) => {
                let src = packet.src;
                self.note_injected(flow);
                *self.network.arena.get_mut(ix) = packet;
                self.inject_existing(ix, src);
            }
            None => self.inject(flow, packet),
        }
    }

    fn hold(&mut self, flow: u32, ix: u32, packet: &Packet, bounds: Resequencer) {
        let now = self.network.now;
        // While a packet is held, `departs` is the time at which it joined the buffer.
        self.network.arena.get_mut(ix).departs = now;
        let receiver = &mut self.slots.get_mut(flow).receiver;
        let arena = &mut self.network.arena;
        arena.get_mut(ix).next = NIL;
        if receiver.held == 0 {
            (receiver.held_first, receiver.held_last) = (ix, ix);
        } else if arena.get(receiver.held_last).seq < packet.seq {
            arena.get_mut(receiver.held_last).next = ix;
            receiver.held_last = ix;
        } else {
            let mut before = NIL;
            let mut at = receiver.held_first;
            while arena.get(at).seq < packet.seq {
                before = at;
                at = arena.get(at).next;
            }
            arena.get_mut(ix).next = at;
            match before {
                NIL => receiver.held_first = ix,
                _ => arena.get_mut(before).next = ix,
            }
        }
        receiver.held += 1;
        let held = receiver.held;
        self.held_now += 1;
        self.resequencing.held += 1;
        self.resequencing.max_held = self.resequencing.max_held.max(held);
        self.note_injected(flow);
        if held == 1 {
            let receiver = &mut self.slots.get_mut(flow).receiver;
            receiver.gap_since = now;
            let after = bounds.hold_time(receiver.reordering_time);
            self.arm_receiver(flow, after);
        } else if held >= bounds.packets {
            self.release_all(flow);
        }
    }

    fn take_held_packet(&mut self, flow: u32) -> (u32, Packet) {
        let now = self.network.now;
        let slot = self.slots.get_mut(flow);
        let ix = slot.receiver.held_first;
        let packet = *self.network.arena.get(ix);
        slot.receiver.held_first = packet.next;
        slot.receiver.held -= 1;
        self.held_now -= 1;
        self.note_left(flow);
        let waited = net::Time::from_ps(now - packet.departs);
        self.resequencing.hold_time_total = self.resequencing.hold_time_total.saturating_add(waited);
        (ix, packet)
    }

    /// Delivers what is contiguous now that `before` has arrived. A further gap has a new deadline.
    fn release_contiguous(&mut self, flow: u32, before: u32) {
        let mut has_released = false;
        loop {
            let receiver = &self.slots.get_mut(flow).receiver;
            if receiver.held == 0 || self.network.arena.get(receiver.held_first).seq > receiver.next {
                break;
            }
            let (ix, packet) = self.take_held_packet(flow);
            self.receive(flow, ix, &packet);
            has_released = true;
        }
        if has_released {
            self.note_reordering(flow);
        }
        let now = self.network.now;
        let receiver = &mut self.slots.get_mut(flow).receiver;
        if receiver.held == 0 {
            if receiver.unacked == 0 {
                receiver.timer.deadline = NEVER;
            }
        } else if receiver.next > before
            && let Some(bounds) = self.params.resequencer
        {
            // Another packet is missing now, perhaps one on a slow path that still delivers.
            receiver.gap_since = now;
            let after = bounds.hold_time(receiver.reordering_time);
            self.arm_receiver(flow, after);
        }
    }

    /// Delivers everything held: the gap has lasted too long or the buffer is full.
    fn release_all(&mut self, flow: u32) {
        self.resequencing.forced_releases += 1;
        self.slots.get_mut(flow).receiver.is_gap_shown = true;
        while self.slots.get_mut(flow).receiver.held > 0 {
            let (ix, packet) = self.take_held_packet(flow);
            self.receive(flow, ix, &packet);
        }
    }

    fn arm_receiver(&mut self, flow: u32, after: u64) {
        let deadline = self.network.now.saturating_add(after);
        let component = self.timer_component(flow) + 1;
        if let Some(at) = self.slots.get_mut(flow).receiver.timer.set(deadline) {
            self.network.events.push(at, component);
        }
    }

    pub(crate) fn on_receiver_timer(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        if slot.receiver.held > 0 {
            return self.release_all(flow);
        }
        if slot.receiver.unacked > 0 {
            slot.receiver.unacked = 0;
            let echo = slot.receiver.delayed;
            self.acknowledge(flow, None, &echo);
        }
    }

    /// Removes a packet for a switch, or one that an edge took away: both count as delivered.
    pub(crate) fn consume(&mut self, packet: u32) {
        self.delivered += 1;
        let flow = self.network.arena.get(packet).flow;
        self.network.arena.remove(packet);
        if flow == NIL {
            return;
        }
        self.note_left(flow);
        if !self.slots.is_by_flow() {
            self.close_if_over(flow);
        }
    }

    pub(crate) fn answer_syn(&mut self, flow: u32, packet: &Packet) {
        let slot = self.slots.get_mut(flow);
        let answer = Packet {
            hash: slot.ack_hash,
            flow: slot.number,
            src: slot.dst,
            dst: slot.src,
            class: slot.ack_class as u16,
            rank: u32::from(slot.ordinal),
            sent: packet.sent,
            edge: packet.edge,
            bytes: packet.bytes,
            flags: SYN | ACK | FRESH | slot.priority,
            ..Packet::BLANK
        };
        self.inject(flow, answer);
    }
}

impl Receiver {
    /// Returns the flag of DCQCN's notification point, at most once per interval.
    fn notification(&mut self, is_marked: bool, now: u64, interval: u64) -> u16 {
        if !is_marked || now < self.notify_from {
            return 0;
        }
        self.notify_from = now + interval;
        NOTIFY
    }
}

#[inline]
fn echo_of(packet: &Packet) -> Echo {
    Echo {
        sent: packet.sent,
        edge: packet.edge,
        path: packet.path,
        via: packet.sack,
        marked: packet.flags & CE != 0,
        segment: packet.seq,
        flags: 0,
    }
}
