//! The destination edge: what came over the new path too early waits for what is still on the old one.

use net::Time;

use super::tag::{Age, Epoch, FlowEpoch, Kind, Message, Tag, Ticks, identity};
use crate::dataplane::parts::flows::FlowTable;
use crate::dataplane::{Cx, Delivery, PacketView};

/// Rules of the destination edge.
pub(super) struct Destination {
    pub(super) ticks: Ticks,
    /// Added to every estimate of when the TAIL arrives.
    pub(super) flush_extra: Time,
    /// Waited for the TAIL when nothing is known of the old path.
    pub(super) default_wait: Time,
    /// A flow silent for longer is forgotten.
    pub(super) aging: Time,
    pub(super) flows: FlowTable<Flow>,
}

/// What the destination edge knows of a flow.
#[derive(Clone)]
pub(super) struct Flow {
    hash: u64,
    last_seen: Time,
    /// Departure and arrival of the last phase-0 packet of the epoch, if one came.
    phase0: Option<(u32, Time)>,
    /// When the TAIL left, as phase-1 packets say.
    tail_time: u32,
    /// When the packets held back go on.
    flush_at: Time,
    /// The next timer set.
    armed: Time,
    epoch: Epoch,
    /// The TAIL came or was given up: phase-1 packets pass.
    is_tail_past: bool,
    /// The queue of packets held back is in use.
    is_holding: bool,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            hash: 0,
            last_seen: Time::ZERO,
            phase0: None,
            tail_time: 0,
            flush_at: Time::MAX,
            armed: Time::MAX,
            epoch: Epoch::default(),
            is_tail_past: false,
            is_holding: false,
        }
    }
}

impl Flow {
    fn begin(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.phase0 = None;
        self.is_tail_past = false;
    }

    /// Wants the packets held back to go on at `at`, or now if that is past.
    fn flush_at(&mut self, cx: &mut Cx<'_>, number: u32, at: Time) {
        self.flush_at = at.max(cx.now);
        self.arm(cx, number);
    }

    fn arm(&mut self, cx: &mut Cx<'_>, number: u32) {
        // Timers cannot be taken back: one set for a later time finds nothing to do.
        if self.flush_at < self.armed {
            self.armed = self.flush_at;
            cx.set_timer(self.flush_at, u64::from(number));
        }
    }
}

impl Destination {
    /// A data packet leaves the fabric: what to do with it, and what to tell the source. `None` for one of an epoch that
    /// is over: it goes on, and means nothing any more.
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
            // The source gave up on the epoch before, so all that is held back is older than this packet, and goes on now.
            // A packet of phase 1 must wait anyway, and the others wait with it.
            if flow.is_holding && !(is_same_flow && tag.is_rerouted) {
                flow.is_holding = false;
                cx.release(packet.flow);
                // Last in the queue that is released, or it would go before it.
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

    /// Phase 0: on the old path, or the only one so far.
    fn receive_before(&mut self, cx: &mut Cx<'_>, packet: &PacketView, tag: Tag) -> Option<Message> {
        let flow = self.flows.slot(packet.flow);
        flow.phase0 = Some((tag.time, cx.now));
        let of = FlowEpoch { flow: packet.flow, epoch: tag.epoch, identity: identity(packet.hash) };
        match tag.kind {
            Kind::Tail => {
                flow.is_tail_past = true;
                if flow.is_holding {
                    // By a timer, so that the TAIL itself is on its way before them.
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

    /// Phase 1: on the new path.
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

    /// A timer of this flow is due.
    pub(super) fn on_timer(&mut self, cx: &mut Cx<'_>, number: u32) {
        let flow = self.flows.slot(number);
        if flow.armed <= cx.now {
            flow.armed = Time::MAX;
        }
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
    /// When the TAIL is expected: as long after the last phase-0 packet as it left after it.
    fn tail_arrival(&self, ticks: Ticks, now: Time, default_wait: Time) -> Time {
        match self.phase0 {
            Some((left, arrived)) => arrived.saturating_add(ticks.between(left, self.tail_time)),
            None => now.saturating_add(default_wait),
        }
    }
}
