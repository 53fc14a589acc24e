//! The destination edge: early packets on the new path wait for those still on the old one.

use net::Time;

use super::tag::{Age, Epoch, FlowEpoch, Kind, Message, Tag, Ticks, identity};
use crate::dataplane::common::FlowTable;
use crate::dataplane::{Cx, Delivery, PacketView};

pub(super) struct Destination {
    pub(super) ticks: Ticks,
    /// Margin added to every estimate of the TAIL's arrival.
    pub(super) flush_extra: Time,
    /// Waiting time for the TAIL without information about the old path.
    pub(super) default_wait: Time,
    /// Idle time after which a flow is forgotten.
    pub(super) aging: Time,
    pub(super) flows: FlowTable<Flow>,
}

#[derive(Clone, Default)]
pub(super) struct Flow {
    hash: u64,
    last_seen: Time,
    /// Departure and arrival of the epoch's last phase-0 packet, if one came.
    phase0: Option<(u32, Time)>,
    /// Departure time of the TAIL, from phase-1 packets.
    tail_time: u32,
    /// Time of the release, if packets are held.
    flush_at: Time,
    /// Time of the earliest pending timer, if there is one.
    armed: Option<Time>,
    epoch: Epoch,
    /// Whether the TAIL came or its wait timed out: phase-1 packets pass.
    is_tail_past: bool,
    /// Whether the queue of held packets is in use.
    is_holding: bool,
}

impl Flow {
    fn begin(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.phase0 = None;
        self.is_tail_past = false;
    }

    /// Schedules the release of held packets for `at`, or for now if that is past.
    fn flush_at(&mut self, cx: &mut Cx<'_>, number: u32, at: Time) {
        self.flush_at = at.max(cx.now);
        self.arm(cx, number);
    }

    fn arm(&mut self, cx: &mut Cx<'_>, number: u32) {
        // Timers cannot be cancelled: one set for a later time has no effect.
        if self.flush_at < self.armed.unwrap_or(Time::MAX) {
            self.armed = Some(self.flush_at);
            cx.set_timer(self.flush_at, u64::from(number));
        }
    }
}

impl Destination {
    /// Handles a data packet that leaves the fabric. Returns its delivery and the reply to the
    /// source. Returns `None` for a packet of an epoch that has ended, which passes without effect.
    pub(super) fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        packet: &PacketView,
        tag: Tag,
    ) -> Option<(Delivery, Option<Message>)> {
        let flow = self.flows.slot(packet.flow);
        let is_same_flow = flow.hash == packet.hash;
        let is_aged = !flow.is_holding && cx.now.saturating_sub(flow.last_seen) > self.aging;
        let age = if is_same_flow && !is_aged { tag.epoch.age(flow.epoch) } else { Age::Newer };
        if age == Age::Older {
            return None;
        }
        flow.hash = packet.hash;
        flow.last_seen = cx.now;
        let mut delivery = Delivery::Pass;
        if age == Age::Newer {
            // The source abandoned the previous epoch, so all held packets are older than this one
            // and continue now. A phase-1 packet must wait anyway, and the others wait with it.
            if flow.is_holding && !(is_same_flow && tag.is_rerouted) {
                flow.is_holding = false;
                cx.release(packet.flow);
                // Append it to the queue being released; otherwise it would overtake that queue.
                delivery = if is_same_flow { Delivery::Hold } else { Delivery::Pass };
            }
            flow.begin(tag.epoch);
        }
        Some(if tag.is_rerouted {
            (self.receive_rerouted(cx, packet.flow, tag, age), None)
        } else {
            (delivery, self.receive_before(cx, packet, tag))
        })
    }

    /// Handles a phase-0 packet: on the old path, or the only one so far.
    fn receive_before(&mut self, cx: &mut Cx<'_>, packet: &PacketView, tag: Tag) -> Option<Message> {
        let flow = self.flows.slot(packet.flow);
        flow.phase0 = Some((tag.time, cx.now));
        let of = FlowEpoch { flow: packet.flow, epoch: tag.epoch, identity: identity(packet.hash) };
        match tag.kind {
            Kind::Tail => {
                flow.is_tail_past = true;
                if flow.is_holding {
                    // A timer releases them, so that the TAIL itself leaves first.
                    flow.flush_at(cx, packet.flow, cx.now);
                }
                Some(Message::Clear(of))
            }
            kind => {
                if flow.is_holding && !flow.is_tail_past {
                    let at = flow.tail_arrival(self.ticks, cx.now, self.default_wait);
                    flow.flush_at(cx, packet.flow, at.saturating_add(self.flush_extra));
                }
                (kind == Kind::Request).then_some(Message::RttReply(of))
            }
        }
    }

    /// Handles a phase-1 packet: on the new path.
    fn receive_rerouted(&mut self, cx: &mut Cx<'_>, number: u32, tag: Tag, age: Age) -> Delivery {
        let flow = self.flows.slot(number);
        if flow.is_holding && age == Age::Same {
            return Delivery::Hold;
        }
        if flow.is_tail_past {
            return Delivery::Pass;
        }
        flow.tail_time = tag.time;
        flow.is_holding = true;
        let at = flow.tail_arrival(self.ticks, cx.now, self.default_wait);
        flow.flush_at(cx, number, at.saturating_add(self.flush_extra));
        Delivery::Hold
    }

    pub(super) fn on_timer(&mut self, cx: &mut Cx<'_>, number: u32) {
        let flow = self.flows.slot(number);
        flow.armed = flow.armed.filter(|armed| *armed > cx.now);
        if !flow.is_holding {
            return;
        }
        if cx.now < flow.flush_at {
            return flow.arm(cx, number);
        }
        flow.is_holding = false;
        flow.is_tail_past = true;
        cx.release(number);
    }
}

impl Flow {
    /// Returns the expected arrival of the TAIL: as long after the last phase-0 packet as it left.
    fn tail_arrival(&self, ticks: Ticks, now: Time, default_wait: Time) -> Time {
        match self.phase0 {
            Some((left, arrived)) => arrived.saturating_add(ticks.between(left, self.tail_time)),
            None => now.saturating_add(default_wait),
        }
    }
}
