//! The sending side of hosts: windows, turns at the interface, timers, UDP pacing.

use balance::hash::{combine, mix};
use balance::{HostFeedback, HostLoss, HostPacket, Loss};
use net::Time;

use crate::engine::{Engine, INTERFACE};
use crate::flows::{NEVER, Slot};
use crate::outcome::FlowEnd;
use crate::packet::{CE, FRESH, NACK, NOTIFY, Packet, RETRANSMIT, SYN, since, stamp};
use crate::queue::NIL;
use crate::scenario::UdpRate;
use crate::transport::sack::AckInfo;
use crate::transport::tcp::Reply;
use crate::transport::transport_params::Recovery;

impl Engine<'_> {
    #[inline]
    /// Handles an acknowledgement of the flow in slot `flow`.
    pub(crate) fn on_ack(&mut self, flow: u32, packet: &Packet) {
        let now = self.network.now;
        let slot = self.slots.get_mut(flow);
        if slot.is_sender_done {
            return self.close_if_over(flow);
        }
        slot.sender.on_rtt(since(packet.sent, now));
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
        let una = slot.sender.una;
        if slot.connection != NIL {
            self.connections.couple(slot);
        }
        let params = &self.params.tcp;
        let (reply, acked) = if params.recovery == Recovery::Cumulative {
            let reply = slot.sender.on_ack(params, packet.seq, packet.flags & CE != 0, now);
            (reply, slot.sender.una - una)
        } else {
            slot.sender.on_selective_ack(params, &arrived(packet, now))
        };
        let is_trimmed = packet.is(NACK) && params.recovery == Recovery::Spray;
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
        let sender = &self.slots.get_mut(flow).sender;
        let feedback = HostFeedback {
            flow: packet.flow,
            entropy: packet.echo_path,
            marked: packet.is(CE),
            acked,
            una: sender.una,
            next: sender.high,
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
            Reply::Retransmit(segment) => {
                let is_first = packet.seq == una || self.params.tcp.recovery == Recovery::Sack;
                slot.tally.fast_retransmits += u32::from(is_first);
                if is_first {
                    self.note_loss(flow, Loss::FastRetransmit);
                }
                self.send_segment(flow, segment, true);
            }
            Reply::Continue => {}
        }
        let slot = self.slots.get_mut(flow);
        if packet.seq > una && slot.sender.restarts_timer(&self.params.tcp) {
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
        if self.slots.get_mut(flow).connection != NIL {
            self.open_subflows_if_due(flow);
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
        if self.params.notify_interval > 0
            && let Some(deadline) = slot.sender.paced_deadline(&self.params.tcp, self.network.now)
        {
            if deadline != slot.timer.deadline {
                self.arm_sender(flow, deadline);
            }
        } else if slot.sender.in_flight() == 0 {
            slot.timer.deadline = NEVER;
        } else if slot.timer.deadline == NEVER {
            let deadline = self.network.now + slot.sender.rto(&self.params.tcp);
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
        let mut packet = outgoing(slot, segment, (payload + self.params.header) as u16, flags, self.network.now);
        if let Some(hosts) = &mut self.hosts {
            let (number, is_first) = (slot.number, slot.tally.packets == 1);
            let sent = HostPacket { flow: number, seq: segment, is_first, is_retransmission: again };
            let entropy = hosts.call(&self.network, packet.src, |hosts, cx| hosts.entropy(cx, &sent));
            packet.path = entropy;
            packet.hash = combine(packet.hash, u64::from(entropy));
            self.fabric.edges.note_path(number, entropy);
        }
        let (src, bytes) = (packet.src, u64::from(packet.bytes));
        self.inject(flow, packet);
        if self.controlled.is_some() {
            self.note_sent(flow, if again { 0 } else { payload });
        }
        if self.params.tcp.recovery != Recovery::Cumulative {
            // Without turns, only the rate delays a flow.
            let free_at = match self.fabric.uplink[src as usize] {
                NIL => self.network.now,
                uplink if self.params.is_fair => self.network.free_at(uplink),
                _ => self.network.now,
            };
            self.slots.get_mut(flow).sender.on_sent(&self.params.tcp, segment, bytes, self.network.now, free_at);
        }
    }

    pub(crate) fn send_syn(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        slot.is_connecting = true;
        let packet = outgoing(slot, 0, self.params.ack_bytes, SYN | FRESH, self.network.now);
        let rto = slot.sender.rto(&self.params.tcp);
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
        } else if self.params.udp.is_some() {
            self.pace(flow);
        } else if self.params.notify_interval > 0 {
            self.on_paced_timer(flow);
        } else {
            self.on_retransmission_timeout(flow);
        }
    }

    fn on_retransmission_timeout(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        if slot.is_sender_done || (slot.sender.in_flight() == 0 && !slot.is_connecting) {
            return;
        }
        if self.params.tcp.recovery == Recovery::Spray && !slot.is_connecting {
            return self.on_packet_timer(flow);
        }
        slot.tally.timeouts += 1;
        self.note_loss(flow, Loss::Timeout);
        let slot = self.slots.get_mut(flow);
        if !slot.sender.on_timeout(&self.params.tcp) {
            return self.fail(flow);
        }
        if slot.is_connecting {
            return self.send_syn(flow);
        }
        let is_shared = slot.connection != NIL;
        self.pump(flow);
        if is_shared {
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

    fn on_packet_timer(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        let (expired, again) = slot.sender.expire(&self.params.tcp, self.network.now);
        if expired > 0 {
            slot.tally.timeouts += 1;
            let is_over = u32::from(slot.sender.consecutive_timeouts) > self.params.tcp.max_timeouts;
            self.note_loss(flow, Loss::Timeout);
            if is_over {
                return self.fail(flow);
            }
        }
        if let Some(at) = again {
            self.arm_sender(flow, at);
        }
        self.pump(flow);
    }

    fn on_paced_timer(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        if slot.is_sender_done {
            return;
        }
        let is_timeout = slot.sender.on_paced_timer(self.network.now);
        if slot.is_connecting || is_timeout {
            return self.on_retransmission_timeout(flow);
        }
        self.pump(flow);
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
            self.fabric.note_loss(&self.network, slot.number, slot.src, slot.dst, loss);
            self.run_issued_commands();
        }
    }

    pub(crate) fn pace(&mut self, flow: u32) {
        let Some(rate) = self.params.udp else { return };
        let slot = self.slots.get_mut(flow);
        let Some((segment, _)) = slot.sender.next_unpaced() else { return };
        let (src, payload) = (slot.src, if segment + 1 == slot.segments { slot.last_bytes } else { self.params.mss });
        let is_last = segment + 1 == slot.segments;
        slot.is_sender_done = is_last;
        slot.tally.sender_fct = self.network.now - slot.started;
        let uplink = self.fabric.uplink[src as usize];
        let is_full = uplink != NIL && self.network.queued_packets(uplink) >= self.params.host_queue;
        if is_full {
            self.slots.get_mut(flow).tally.packets += 1;
            self.sent += 1;
            self.network.dropped.host_queue += 1; // The packet never entered the network.
            let id = self.slots.get_mut(flow).id;
            self.note_udp_loss(id);
        } else {
            self.send_segment(flow, segment, false);
        }
        if is_last {
            return self.close_if_over(flow);
        }
        let gap = match rate {
            UdpRate::Constant(rate) => rate.time_for(u64::from(payload + self.params.header)).as_ps(),
            UdpRate::UniformPackets { min_per_s, max_per_s } => {
                let id = self.slots.get_mut(flow).id;
                let draw = unit(mix(self.udp_seed ^ mix(u64::from(id) << 32 | u64::from(segment))));
                let per_s = min_per_s + (max_per_s - min_per_s) * draw;
                (1e12 / per_s) as u64
            }
        };
        let slowest = self.controlled.as_ref().and_then(|controlled| controlled.rate_limit_of(flow));
        let gap = gap.max(slowest.map_or(1, |rate| rate.time_for(u64::from(payload + self.params.header)).as_ps()));
        self.arm_sender(flow, self.network.now + gap);
    }
}

/// Returns a number in [0, 1) from random bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
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
        sent: stamp(now),
        bytes,
        flags: flags | slot.priority,
        ..Packet::BLANK
    }
}
