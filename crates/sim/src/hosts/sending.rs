//! The sending side of hosts: what transports allow, turns at the interface, timers.

use std::cmp::Reverse;

use balance::hash::combine;
use balance::{HostFeedback, HostLoss, HostPacket, Loss};
use net::Time;

use crate::engine::{Engine, FLOW_PAUSE, INTERFACE};
use crate::hosts::slots::Slot;
use crate::outcome::FlowEnd;
use crate::packet::{ACK, CE, DIRECT, FRESH, NACK, NOTIFY, Packet, RETRANSMIT, SYN, since, stamp};
use crate::queue::NIL;
use crate::scenario::Acks;
use crate::switching::fabric::Hop;
use crate::timers::NEVER;
use crate::transport::sender::{AckInfo, Reply, Sent, TimerEffect};

impl Engine<'_> {
    /// Handles an acknowledgement of the flow in slot `flow`.
    #[inline]
    pub(crate) fn on_ack(&mut self, flow: u32, packet: &Packet) {
        let now = self.network.now;
        let slot = self.slots.get_mut(flow);
        if slot.is_sender_done {
            return self.close_if_over(flow);
        }
        if packet.is(DIRECT) {
            if packet.is(NOTIFY) {
                return self.pause_flow(flow, paused_for(packet));
            }
            return slot.sender.transport.on_feedback(packet.tag as u8, now);
        }
        slot.sender.state.on_rtt(since(packet.sent, now));
        if packet.flags & SYN != 0 {
            if slot.is_connecting {
                slot.is_connecting = false;
                slot.timer.deadline = NEVER;
                if slot.connection != NIL {
                    self.note_established(flow);
                }
                self.pump(flow);
            }
            return;
        }
        let una = slot.sender.state.una;
        if slot.connection != NIL {
            self.connections.couple(slot);
        }
        let (reply, acked) = slot.sender.on_ack(&self.params.transport, &arrived(packet, now));
        let is_trimmed = packet.is(NACK) && self.params.properties.acks == Acks::EachPacket;
        if self.hosts.is_some() && !is_trimmed {
            self.feed_back(flow, packet, acked);
        }
        if self.slots.get_mut(flow).connection != NIL && self.note_shared_ack(flow, una, reply) {
            return;
        }
        self.on_reply(flow, packet, una, reply);
    }

    /// Notifies the balancer of hosts of the segments that a packet is the first to acknowledge.
    #[inline]
    fn feed_back(&mut self, flow: u32, packet: &Packet, acked: u32) {
        let Some(hosts) = &mut self.hosts else { return };
        let state = &self.slots.get_mut(flow).sender.state;
        let feedback = HostFeedback {
            flow: packet.flow,
            entropy: packet.echo_path,
            marked: packet.is(CE),
            acked,
            una: state.una,
            next: state.high,
            rtt: Time::from_ps(since(packet.sent, self.network.now)),
        };
        hosts.call(&self.network, packet.dst, |hosts, cx| hosts.on_ack(cx, &feedback));
    }

    /// Does what a sender replies to an acknowledgement; `una` was its lowest unacknowledged segment.
    #[inline]
    fn on_reply(&mut self, flow: u32, packet: &Packet, una: u32, reply: Reply) {
        let slot = self.slots.get_mut(flow);
        match reply {
            Reply::Finished => {
                slot.is_sender_done = true;
                slot.tally.sender_fct = self.network.now - slot.started;
                slot.timer.deadline = NEVER;
                return self.close_if_over(flow);
            }
            Reply::LossNoticed => {
                slot.tally.fast_retransmits += 1;
                self.note_loss(flow, Loss::FastRetransmit);
            }
            Reply::Trimmed => {
                if let Some(hosts) = &mut self.hosts {
                    let loss = HostLoss::Trimmed(packet.echo_path);
                    hosts.call(&self.network, packet.dst, |hosts, cx| hosts.on_loss(cx, packet.flow, loss));
                }
            }
            Reply::Retransmit { segment, is_new } => {
                slot.tally.fast_retransmits += u32::from(is_new);
                if is_new {
                    self.note_loss(flow, Loss::FastRetransmit);
                }
                self.send_segment(flow, segment, true);
            }
            Reply::Continue => {}
        }
        let slot = self.slots.get_mut(flow);
        if packet.seq > una && slot.sender.restarts_timer() {
            slot.timer.deadline = NEVER;
        }
        self.pump_after_ack(flow);
    }

    /// Sends what the window and the interface allow and keeps the retransmission timer running.
    #[inline]
    pub(crate) fn pump(&mut self, flow: u32) {
        let src = self.slots.get_mut(flow).src;
        let uplink = self.fabric.uplink[src as usize];
        if self.params.is_fair && uplink != NIL {
            self.pump_in_turn(flow, src, uplink);
        } else {
            while let Some((segment, again)) = self.next_segment(flow) {
                self.send_segment(flow, segment, again);
            }
        }
        self.keep_timer(flow);
        if self.params.properties.acks == Acks::None {
            self.end_if_sent(flow);
        } else if self.slots.get_mut(flow).connection != NIL {
            self.open_subflows_if_due(flow);
        }
    }

    /// Ends the sender of a flow without acknowledgements if it has sent everything.
    fn end_if_sent(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        slot.tally.sender_fct = self.network.now - slot.started;
        if slot.sender.state.next == slot.sender.state.total {
            slot.is_sender_done = true;
            slot.timer.deadline = NEVER;
            self.close_if_over(flow);
        }
    }

    /// Sends one segment if the interface is free. A flow with more to send queues for its turn.
    #[inline]
    fn pump_in_turn(&mut self, flow: u32, src: u32, uplink: u32) {
        if self.slots.get_mut(flow).is_queued || !self.can_send(flow) {
            return;
        }
        let queue = &mut self.waiting[src as usize];
        if queue.is_empty() && self.network.free_at(uplink) <= self.network.now {
            if let Some((segment, again)) = self.next_segment(flow) {
                self.send_segment(flow, segment, again);
            }
            if !self.can_send(flow) {
                return;
            }
        }
        self.slots.get_mut(flow).is_queued = true;
        let queue = &mut self.waiting[src as usize];
        queue.push_back(flow);
        if queue.len() == 1 {
            self.wait_for_interface(src, uplink);
        }
    }

    /// Handles an interface that may be free: the flow whose turn it is sends one segment.
    pub(crate) fn on_interface_free(&mut self, host: u32) {
        self.is_interface_awaited[host as usize] = false;
        let uplink = self.fabric.uplink[host as usize];
        let free_at = self.network.free_at(uplink);
        if free_at > self.network.now {
            // Acknowledgements went ahead.
            return self.wait_for_interface(host, uplink);
        }
        let Some(turn) = self.waiting[host as usize].pop_front() else { return };
        self.slots.get_mut(turn).is_queued = false;
        let flow = self.sender_of_turn(turn);
        if let Some((segment, again)) = self.next_segment(flow) {
            self.send_segment(flow, segment, again);
            self.keep_timer(flow);
            if self.can_send(turn) {
                self.slots.get_mut(turn).is_queued = true;
                self.waiting[host as usize].push_back(turn);
            }
            if self.slots.get_mut(turn).connection != NIL {
                self.open_subflows_if_due(turn);
            }
        } else {
            self.close_if_over(turn);
        }
        if !self.waiting[host as usize].is_empty() {
            self.wait_for_interface(host, uplink);
        }
    }

    /// Schedules the next turn: when the interface is free, at once if its link is down.
    pub(crate) fn wait_for_interface(&mut self, host: u32, uplink: u32) {
        let at = self.network.free_at(uplink);
        // A paused interface wakes its host when the pause ends.
        if at != NEVER && !std::mem::replace(&mut self.is_interface_awaited[host as usize], true) {
            self.network.events.push(at.max(self.network.now), INTERFACE + host);
        }
    }

    #[inline]
    pub(crate) fn keep_timer(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        let deadline = slot.sender.deadline(&self.params.transport, slot.timer.deadline, self.network.now);
        if deadline != slot.timer.deadline {
            self.arm_sender(flow, deadline);
        }
    }

    fn arm_sender(&mut self, flow: u32, deadline: u64) {
        let component = self.timer_component(flow);
        if let Some(at) = self.slots.get_mut(flow).timer.set(deadline) {
            self.network.events.push(at, component);
        }
    }

    /// Returns the component of the timer of a sender; that of its receiver follows.
    pub(crate) fn timer_component(&mut self, flow: u32) -> u32 {
        self.network.ports.len() as u32 + 2 * self.slots.get_mut(flow).number
    }

    #[inline]
    fn send_segment(&mut self, flow: u32, segment: u32, again: bool) {
        let slot = self.slots.get_mut(flow);
        slot.tally.packets += 1;
        slot.tally.retransmitted += u32::from(again);
        let payload = if slot.connection != NIL {
            self.connections.payload(slot, segment, self.params.mss)
        } else if segment + 1 == slot.segments {
            slot.last_bytes
        } else {
            self.params.mss
        };
        let flags = self.params.data_flags | if again { RETRANSMIT } else { 0 };
        let bytes = payload + self.params.header;
        let mut packet = outgoing(slot, segment, bytes as u16, flags, self.network.now);
        let is_first = slot.tally.packets == 1;
        if self.params.properties.acks == Acks::None && self.is_interface_full(packet.src) {
            self.drop_at_interface(flow);
            return self.note_segment_sent(flow, segment, bytes);
        }
        if let Some(hosts) = &mut self.hosts {
            let number = packet.flow;
            let sent = HostPacket { flow: number, seq: segment, is_first, is_retransmission: again };
            let entropy = hosts.call(&self.network, packet.src, |hosts, cx| hosts.entropy(cx, &sent));
            packet.path = entropy;
            packet.hash = combine(packet.hash, u64::from(entropy));
            self.fabric.edges.note_path(number, entropy);
        }
        self.inject(flow, packet);
        if self.controlled.is_some() {
            self.note_sent(flow, if again { 0 } else { payload });
        }
        if self.params.properties.acks != Acks::Cumulative {
            self.note_segment_sent(flow, segment, bytes);
        }
    }

    /// Notifies the transport that a segment has left.
    fn note_segment_sent(&mut self, flow: u32, segment: u32, bytes: u32) {
        let now = self.network.now;
        let limit = self.controlled.as_ref().and_then(|controlled| controlled.rate_limit_of(flow));
        let slot = self.slots.get_mut(flow);
        // Without turns, only the rate delays a flow.
        let free_at = match self.fabric.uplink[slot.src as usize] {
            uplink if uplink != NIL && self.params.is_fair => self.network.free_at(uplink),
            _ => now,
        };
        let sent = Sent { flow: slot.id, segment, bytes: u64::from(bytes), now, free_at, limit };
        slot.sender.on_sent(&sent);
    }

    fn is_interface_full(&mut self, host: u32) -> bool {
        let uplink = self.fabric.uplink[host as usize];
        uplink != NIL && self.network.queued_packets(uplink) >= self.params.host_queue
    }

    /// Counts a packet that finds the interface of its host full: it does not enter the network.
    #[cold]
    fn drop_at_interface(&mut self, flow: u32) {
        self.sent += 1;
        self.network.dropped.host_queue += 1;
        let id = self.slots.get_mut(flow).id;
        self.note_unseen_loss(id);
    }

    /// Stops a flow for a time, or lets it go on if that is zero, as its edge asked.
    pub(crate) fn pause_flow(&mut self, flow: u32, time: Time) {
        let until = self.network.now.saturating_add(time.as_ps());
        let slot = self.slots.get_mut(flow);
        slot.paused_until = until;
        if slot.is_sender_done {
            return;
        }
        if time == Time::ZERO {
            return self.pump(flow);
        }
        let number = slot.number;
        self.pauses.push(Reverse((until, number)));
        self.network.events.push(until, FLOW_PAUSE);
    }

    /// Lets flows go on whose pause ends.
    pub(crate) fn on_flow_pause(&mut self) {
        let now = self.network.now;
        while let Some(Reverse((until, number))) = self.pauses.peek().copied()
            && until <= now
        {
            self.pauses.pop();
            let flow = self.slots.find(number);
            if flow == NIL {
                continue;
            }
            let slot = self.slots.get_mut(flow);
            if slot.paused_until == until && slot.is_sending && !slot.is_sender_done && slot.id != NIL {
                self.pump(flow);
            }
        }
    }

    /// Carries the request of an edge to pause a flow to its sender.
    pub(crate) fn send_pause(&mut self, number: u32, time: Time) {
        let flow = self.slots.find(number);
        if flow == NIL {
            return;
        }
        let slot = self.slots.get_mut(flow);
        if slot.id == NIL || !slot.is_sending {
            return;
        }
        let Hop::Link(link) = self.fabric.last_hop(slot.src) else { return self.pause_flow(flow, time) };
        let packet = Packet {
            flow: number,
            src: slot.dst,
            dst: slot.src,
            class: slot.ack_class as u16,
            bytes: self.params.ack_bytes,
            seq: time.as_ps() as u32,
            rank: (time.as_ps() >> 32) as u32,
            flags: ACK | DIRECT | NOTIFY | slot.priority,
            ..Packet::BLANK
        };
        self.note_injected(flow);
        let ix = self.add_control(packet);
        self.enqueue(link, ix);
    }

    pub(crate) fn send_syn(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        slot.is_connecting = true;
        let packet = outgoing(slot, 0, self.params.ack_bytes, SYN | FRESH, self.network.now);
        let rto = slot.sender.state.rto(&self.params.transport);
        self.inject(flow, packet);
        self.arm_sender(flow, self.network.now + rto);
    }

    pub(crate) fn on_timer(&mut self, timer: u32) {
        let (flow, now) = (self.slots.find(timer / 2), self.network.now);
        if flow == NIL {
            return;
        }
        let slot = self.slots.get_mut(flow);
        let kept = if timer.is_multiple_of(2) { &mut slot.timer } else { &mut slot.receiver.timer };
        let (is_due, again) = kept.fired(now);
        if let Some(at) = again {
            self.network.events.push(at, self.network.ports.len() as u32 + timer);
        }
        if !is_due || self.slots.get_mut(flow).id == NIL {
            return;
        }
        if !timer.is_multiple_of(2) {
            self.on_receiver_timer(flow);
            self.close_receiver_if_over(flow);
        } else if !self.slots.get_mut(flow).is_sender_done {
            self.on_sender_timer(flow);
        }
    }

    fn on_sender_timer(&mut self, flow: u32) {
        let (slot, params) = (self.slots.get_mut(flow), &self.params.transport);
        let is_connecting = slot.is_connecting;
        let effect = if is_connecting {
            TimerEffect::TimedOut { is_over: !slot.sender.on_timeout(params), again: None }
        } else {
            slot.sender.on_timer(params, self.network.now)
        };
        let (is_timeout, is_over, again) = match effect {
            TimerEffect::Nothing => return,
            TimerEffect::Resume { again } => (false, false, again),
            TimerEffect::TimedOut { is_over, again } => (true, is_over, again),
        };
        if is_timeout {
            slot.tally.timeouts += 1;
            self.note_loss(flow, Loss::Timeout);
        }
        if is_over {
            return self.fail(flow);
        }
        if is_connecting {
            return self.send_syn(flow);
        }
        if let Some(at) = again {
            self.arm_sender(flow, at);
        }
        let is_shared = self.slots.get_mut(flow).connection != NIL;
        self.pump(flow);
        if is_timeout && is_shared {
            self.note_subflow_timeout(flow);
        }
    }

    fn fail(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        slot.is_sender_done = true;
        slot.timer.deadline = NEVER;
        if slot.end == FlowEnd::Running {
            slot.failed_at = self.network.now;
            if !self.slots.is_by_flow() {
                self.slots.get_mut(flow).end = FlowEnd::Failed;
            }
        }
        let slot = self.slots.get_mut(flow);
        if slot.connection != NIL {
            self.abort_connection(flow);
        }
        if self.requests.is_some() {
            self.on_connection_failed(flow);
        }
        self.close_if_over(flow);
    }

    pub(crate) fn note_loss(&mut self, flow: u32, loss: Loss) {
        if let Some(hosts) = &mut self.hosts {
            let loss = match loss {
                Loss::Timeout => HostLoss::Timeout,
                Loss::FastRetransmit => HostLoss::FastRetransmit,
            };
            let (number, src) = (self.slots.get_mut(flow).number, self.slots.get_mut(flow).src);
            hosts.call(&self.network, src, |hosts, cx| hosts.on_loss(cx, number, loss));
        }
        if self.fabric.edges.is_used() {
            let slot = self.slots.get_mut(flow);
            let (number, una) = (slot.number, slot.sender.state.una);
            self.fabric.note_loss(&self.network, number, (slot.src, slot.dst), una, loss);
            self.run_issued_commands();
        }
    }
}

/// Returns the time for which an edge asks a flow to stop.
fn paused_for(packet: &Packet) -> Time {
    Time::from_ps(u64::from(packet.rank) << 32 | u64::from(packet.seq))
}

fn arrived(packet: &Packet, now: u64) -> AckInfo {
    AckInfo {
        ack: packet.seq,
        sack: (packet.sack > 0).then(|| packet.seq + u32::from(packet.sack) - 1),
        is_marked: packet.is(CE),
        is_nack: packet.is(NACK),
        is_notification: packet.is(NOTIFY),
        sent: packet.sent,
        rtt: since(packet.sent, now),
        now,
    }
}

#[inline]
fn outgoing(slot: &Slot, seq: u32, bytes: u16, flags: u16, now: u64) -> Packet {
    Packet {
        hash: slot.data_hash,
        flow: slot.number,
        src: slot.src,
        dst: slot.dst,
        class: slot.data_class as u16,
        seq,
        rank: u32::from(slot.ordinal),
        sent: stamp(now),
        bytes,
        flags: flags | slot.priority,
        ..Packet::BLANK
    }
}
