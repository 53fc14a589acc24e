//! The event loop: packets from link to node, flows from start to record.

use std::collections::VecDeque;

use balance::hash::{flow_key, mix};
use net::{Stream, Topology};
use traffic::{FlowList, Start};

use crate::fabric::{Fabric, Hop};
use crate::faults::{Action, Faults};
use crate::flows::{Echo, NEVER, NewFlow, Slots};
use crate::ideal::Ideals;
use crate::network::{Loss, Network};
use crate::outcome::{FlowEnd, FlowRecord, ResequencingRecord};
use crate::packet::{ACK, CE, DATA, DUPLICATE, ECT, FRESH, NO_PATH, Packet, RETRANSMIT, SYN, since, stamp};
use crate::probes::Sampler;
use crate::queue::NIL;
use crate::scenario::{HostScheduler, SimConfig, TransportKind, UdpRate};
use crate::tcp::{Reply, TcpRules};
use crate::{Progress, SimError};

/// Components after all links and timers, in the order they act at one instant.
const CONTROL: u32 = NIL - 3;
const SAMPLE: u32 = NIL - 2;
const START: u32 = NIL - 1;

/// The first of the components that are host interfaces becoming free.
const INTERFACE: u32 = 1 << 31;

/// Events between two looks at the caller's wish to stop.
const EVENTS_PER_REPORT: u64 = 1 << 19;

/// Resolved resequencing bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resequencer {
    pub(crate) timeout: u64,
    pub(crate) packets: u32,
}

/// Everything resolved from the configuration.
pub(crate) struct Rules {
    pub(crate) tcp: TcpRules,
    pub(crate) mss: u32,
    pub(crate) header: u32,
    pub(crate) ack_bytes: u16,
    pub(crate) data_flags: u8,
    pub(crate) ack_every: u32,
    pub(crate) ack_timeout: u64,
    pub(crate) handshake: bool,
    pub(crate) udp: Option<UdpRate>,
    pub(crate) is_fair: bool,
    pub(crate) host_queue: u32,
    pub(crate) resequencer: Option<Resequencer>,
    /// Words of a receive bitmap: a power of two covering the receive window.
    pub(crate) bitmap_words: usize,
    pub(crate) until: u64,
}

impl Rules {
    pub(crate) fn new(config: &SimConfig, window: u32, base_rtt: u64, resequencer: Option<Resequencer>) -> Rules {
        let t = &config.transport;
        let words = (window as usize / 64 + 2).next_power_of_two();
        Rules {
            tcp: TcpRules::new(t, window, base_rtt),
            mss: t.mss_bytes,
            header: t.header_bytes,
            ack_bytes: t.ack_bytes as u16,
            data_flags: DATA | FRESH | if t.is_ecn_capable() { ECT } else { 0 },
            ack_every: t.ack_every.max(1),
            ack_timeout: t.ack_timeout.as_ps(),
            handshake: t.handshake,
            udp: match t.kind {
                TransportKind::Udp(rate) => Some(rate),
                _ => None,
            },
            is_fair: config.host.scheduler == HostScheduler::Fair,
            host_queue: config.host.queue_packets,
            resequencer,
            bitmap_words: words,
            until: config.stop.until.map_or(NEVER, net::Time::as_ps),
        }
    }
}

/// A run in progress.
pub(crate) struct Engine<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) list: &'a FlowList,
    pub(crate) rules: Rules,
    pub(crate) network: Network,
    pub(crate) fabric: Fabric,
    pub(crate) slots: Slots,
    pub(crate) records: Vec<FlowRecord>,
    pub(crate) ideals: Ideals,
    pub(crate) faults: Faults,
    pub(crate) sampler: Option<Sampler>,
    pub(crate) starts: Starts,
    /// Flows waiting for their turn, per host.
    pub(crate) waiting: Vec<VecDeque<u32>>,
    pub(crate) resequencing: ResequencingRecord,
    pub(crate) held_now: u64,
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) events: u64,
    /// Every flow has ended and none will start.
    pub(crate) is_over: bool,
    pub(crate) hops: u64,
    pub(crate) flows_done: u64,
    pub(crate) udp_rng: Stream,
    pub(crate) port_seed: u64,
}

/// Flows not yet begun.
pub(crate) struct Starts {
    /// Flows with a start time, earliest first.
    timed: Vec<u32>,
    cursor: usize,
    /// Triggered flows by the flow they wait for: `(awaited, waiting)`, sorted.
    waiting: Vec<(u32, u32)>,
    /// Triggered flows whose time has been set, latest first.
    due: std::collections::BinaryHeap<std::cmp::Reverse<(u64, u32)>>,
}

impl Starts {
    pub(crate) fn new(list: &FlowList) -> Starts {
        let (mut timed, mut waiting) = (Vec::new(), Vec::new());
        for (id, flow) in list.flows.iter().enumerate() {
            match flow.start {
                Start::At(_) => timed.push(id as u32),
                Start::After { flow, .. } => waiting.push((flow, id as u32)),
            }
        }
        timed.sort_by_key(|id| match list.flows[*id as usize].start {
            Start::At(at) => (at, *id),
            Start::After { .. } => (net::Time::MAX, *id),
        });
        waiting.sort_unstable();
        Starts { timed, cursor: 0, waiting, due: std::collections::BinaryHeap::new() }
    }

    /// When the next flow begins.
    fn next(&self, list: &FlowList) -> Option<u64> {
        let timed = self.timed.get(self.cursor).map(|id| match list.flows[*id as usize].start {
            Start::At(at) => at.as_ps(),
            Start::After { .. } => NEVER,
        });
        let due = self.due.peek().map(|std::cmp::Reverse((at, _))| *at);
        timed.into_iter().chain(due).min()
    }

    /// Takes a flow that begins by `now`.
    fn take(&mut self, list: &FlowList, now: u64) -> Option<u32> {
        if let Some(std::cmp::Reverse((at, id))) = self.due.peek().copied()
            && at <= now
        {
            self.due.pop();
            return Some(id);
        }
        let id = *self.timed.get(self.cursor)?;
        if matches!(list.flows[id as usize].start, Start::At(at) if at.as_ps() <= now) {
            self.cursor += 1;
            return Some(id);
        }
        None
    }

    /// Flow `ended` has delivered everything: those waiting for it become due.
    fn trigger(&mut self, list: &FlowList, ended: u32, now: u64) -> Option<u64> {
        let from = self.waiting.partition_point(|(awaited, _)| *awaited < ended);
        let mut earliest = None;
        for (_, id) in self.waiting[from..].iter().take_while(|(awaited, _)| *awaited == ended) {
            let Start::After { delay, .. } = list.flows[*id as usize].start else { continue };
            let at = now.saturating_add(delay.as_ps());
            self.due.push(std::cmp::Reverse((at, *id)));
            earliest = Some(earliest.map_or(at, |e: u64| e.min(at)));
        }
        earliest
    }
}

impl Engine<'_> {
    /// Runs until every flow has ended or the stop time.
    pub(crate) fn run(&mut self, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<(), SimError> {
        if let Some(at) = self.starts.next(self.list) {
            self.network.events.push(at, START);
        }
        if let Some(sampler) = &self.sampler {
            self.network.events.push(sampler.next_at(), SAMPLE);
        }
        for at in self.faults.times() {
            self.network.events.push(at, CONTROL);
        }
        let link_count = self.network.ports.len() as u32;
        self.is_over = self.starts.next(self.list).is_none();
        while !self.is_over {
            let Some(event) = self.network.events.pop() else { break };
            if event.time > self.rules.until {
                self.network.now = self.rules.until;
                return Ok(());
            }
            self.network.now = event.time;
            self.events += 1;
            if self.events.is_multiple_of(EVENTS_PER_REPORT) && !self.report(progress) {
                return Err(SimError::Interrupted);
            }
            if event.component < link_count {
                self.on_arrival(event.component);
                continue;
            }
            match event.component {
                CONTROL => self.on_control(),
                SAMPLE => self.on_sample(),
                START => self.on_start(),
                interface if interface >= INTERFACE => self.on_interface_free(interface - INTERFACE),
                timer => self.on_timer(timer - link_count),
            }
        }
        Ok(())
    }

    /// A packet reached the far end of a link.
    #[inline]
    fn on_arrival(&mut self, link: u32) {
        let (packet, node) = self.network.arrive(link);
        self.hops += 1;
        if self.network.arena.get(packet).dst == node {
            self.deliver(packet);
        } else {
            self.forward(node, packet);
        }
    }

    #[inline]
    fn forward(&mut self, node: u32, packet: u32) {
        let loss = match self.fabric.route(&mut self.network, node, packet) {
            Hop::Link(link) => match self.network.enqueue(link, packet) {
                Ok(()) => return,
                Err(loss) => loss,
            },
            Hop::NoRoute => Loss::NoRoute,
            Hop::Blackhole => Loss::Blackhole,
        };
        self.lose(packet, loss);
    }

    #[cold]
    fn lose(&mut self, packet: u32, loss: Loss) {
        let lost = self.network.lose(packet, loss);
        self.slots.get_mut(lost.flow).in_network -= 1;
        self.close_if_over(lost.flow);
    }

    /// Hands a packet to the interface of the host it starts from.
    #[inline]
    fn inject(&mut self, packet: Packet) {
        let (flow, src) = (packet.flow, packet.src);
        let ix = self.network.arena.add(packet);
        self.inject_existing(ix, flow, src);
    }

    #[inline]
    fn inject_existing(&mut self, ix: u32, flow: u32, src: u32) {
        self.sent += 1;
        self.slots.get_mut(flow).in_network += 1;
        match self.fabric.uplink[src as usize] {
            NIL => self.forward(src, ix),
            uplink => {
                if let Err(loss) = self.network.enqueue(uplink, ix) {
                    self.lose(ix, loss);
                }
            }
        }
    }

    /// A packet reached its receiver.
    #[inline]
    fn deliver(&mut self, ix: u32) {
        self.delivered += 1;
        let packet = *self.network.arena.get(ix);
        self.slots.get_mut(packet.flow).in_network -= 1;
        if packet.flags & ACK != 0 {
            self.network.arena.remove(ix);
            self.fabric.feed_back_at_host(self.network.now, &packet);
            self.on_ack(&packet);
        } else if packet.flags & SYN != 0 {
            self.network.arena.remove(ix);
            self.answer_syn(&packet);
        } else {
            self.on_data(ix, &packet);
        }
    }

    // --- Receiving side ---------------------------------------------------------------------------------

    fn on_data(&mut self, ix: u32, packet: &Packet) {
        let slot = self.slots.get_mut(packet.flow);
        if self.rules.udp.is_some() {
            slot.tally.delivered_packets += 1;
            slot.tally.fct = self.network.now - slot.started;
            self.network.arena.remove(ix);
            return self.close_if_over(packet.flow);
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
        if let Some(bounds) = self.rules.resequencer {
            if packet.seq > receiver.next && !receiver.is_gap_shown {
                return self.hold(ix, packet, bounds);
            }
            self.receive(ix, packet);
            return self.release_contiguous(packet.flow);
        }
        self.receive(ix, packet);
    }

    /// The transport sees a data packet; the packet itself becomes the acknowledgement or is freed.
    fn receive(&mut self, ix: u32, packet: &Packet) {
        let now = self.network.now;
        let words = self.rules.bitmap_words;
        let (slot, pool) = self.slots.with_pool(packet.flow);
        let receiver = &mut slot.receiver;
        let before = receiver.next;
        let is_duplicate = if packet.seq == receiver.next {
            receiver.advance();
            false
        } else {
            packet.seq < receiver.next || receiver.note_early(packet.seq, words, pool)
        };
        if is_duplicate {
            slot.tally.spurious += u32::from(packet.flags & RETRANSMIT != 0);
        }
        let echo = Echo {
            sent: packet.sent,
            edge: packet.edge,
            trigger: packet.seq,
            path: packet.path,
            marked: packet.flags & CE != 0,
            is_duplicate,
        };
        // Anything but plain in-order progress is acknowledged at once (RFC 5681 §4.2).
        let is_plain = slot.receiver.next == before + 1 && !is_duplicate;
        let is_complete = slot.receiver.next == slot.segments && slot.end == FlowEnd::Running;
        if is_complete {
            slot.end = FlowEnd::Completed;
            slot.tally.fct = now - slot.started;
        }
        let id = slot.id;
        if self.rules.ack_every == 1 || !is_plain || is_complete {
            slot.receiver.unacked = 0;
            slot.receiver.timer.deadline = if slot.receiver.held > 0 { slot.receiver.timer.deadline } else { NEVER };
            self.acknowledge(packet.flow, Some(ix), &echo);
        } else {
            self.network.arena.remove(ix);
            self.delay_ack(packet.flow, echo);
        }
        if is_complete && let Some(at) = self.starts.trigger(self.list, id, now) {
            self.network.events.push(at, START);
        }
    }

    /// Delayed acknowledgement (RFC 1122; RFC 8257 §3.2 for the mark's change).
    fn delay_ack(&mut self, flow: u32, echo: Echo) {
        let receiver = &mut self.slots.get_mut(flow).receiver;
        if receiver.unacked > 0 && receiver.delayed.marked != echo.marked {
            let earlier = std::mem::replace(&mut receiver.delayed, echo);
            receiver.unacked = 1;
            self.acknowledge(flow, None, &earlier);
            return self.arm_receiver(flow, self.rules.ack_timeout);
        }
        receiver.unacked += 1;
        if receiver.unacked >= self.rules.ack_every {
            receiver.unacked = 0;
            receiver.timer.deadline = NEVER;
            return self.acknowledge(flow, None, &echo);
        }
        // The oldest packet's stamp: the round trip must include the delay (RFC 7323 §4).
        if receiver.unacked == 1 {
            receiver.delayed = echo;
            self.arm_receiver(flow, self.rules.ack_timeout);
        }
    }

    fn acknowledge(&mut self, flow: u32, reuse: Option<u32>, echo: &Echo) {
        let slot = self.slots.get_mut(flow);
        let mut flags = ACK | FRESH;
        flags |= if echo.marked { CE } else { 0 };
        flags |= if echo.is_duplicate { DUPLICATE } else { 0 };
        let packet = Packet {
            departs: 0,
            hash: slot.ack_hash,
            next: NIL,
            flow,
            src: slot.dst,
            dst: slot.src,
            class: slot.ack_class,
            seq: slot.receiver.next,
            trigger: echo.trigger,
            rank: 0,
            sent: echo.sent,
            edge: echo.edge,
            bytes: self.rules.ack_bytes,
            path: NO_PATH,
            echo_path: echo.path,
            flags,
        };
        match reuse {
            Some(ix) => {
                let src = packet.src;
                *self.network.arena.get_mut(ix) = packet;
                self.inject_existing(ix, flow, src);
            }
            None => self.inject(packet),
        }
    }

    /// Puts an early packet into the resequencing buffer.
    fn hold(&mut self, ix: u32, packet: &Packet, bounds: Resequencer) {
        let now = self.network.now;
        self.network.arena.get_mut(ix).departs = now; // From here on: when it was taken in.
        let receiver = &mut self.slots.get_mut(packet.flow).receiver;
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
        self.slots.get_mut(packet.flow).in_network += 1;
        if held == 1 {
            self.arm_receiver(packet.flow, bounds.timeout);
        } else if held >= bounds.packets {
            self.release_all(packet.flow);
        }
    }

    /// Takes the first held packet out.
    fn unhold(&mut self, flow: u32) -> (u32, Packet) {
        let now = self.network.now;
        let slot = self.slots.get_mut(flow);
        let ix = slot.receiver.held_first;
        let packet = *self.network.arena.get(ix);
        slot.receiver.held_first = packet.next;
        slot.receiver.held -= 1;
        slot.in_network -= 1;
        self.held_now -= 1;
        let waited = net::Time::from_ps(now - packet.departs);
        self.resequencing.hold_time_total = self.resequencing.hold_time_total.saturating_add(waited);
        (ix, packet)
    }

    /// Hands on what has become contiguous; a further gap gets a fresh deadline.
    fn release_contiguous(&mut self, flow: u32) {
        let mut has_released = false;
        loop {
            let receiver = &self.slots.get_mut(flow).receiver;
            if receiver.held == 0 || self.network.arena.get(receiver.held_first).seq > receiver.next {
                break;
            }
            let (ix, packet) = self.unhold(flow);
            self.receive(ix, &packet);
            has_released = true;
        }
        let receiver = &mut self.slots.get_mut(flow).receiver;
        if receiver.held == 0 {
            if receiver.unacked == 0 {
                receiver.timer.deadline = NEVER;
            }
        } else if has_released && let Some(bounds) = self.rules.resequencer {
            self.arm_receiver(flow, bounds.timeout);
        }
    }

    /// The gap has lasted too long or the buffer is full: the transport sees everything held, and the gap.
    fn release_all(&mut self, flow: u32) {
        self.resequencing.forced_releases += 1;
        self.slots.get_mut(flow).receiver.is_gap_shown = true;
        while self.slots.get_mut(flow).receiver.held > 0 {
            let (ix, packet) = self.unhold(flow);
            self.receive(ix, &packet);
        }
    }

    fn arm_receiver(&mut self, flow: u32, after: u64) {
        let deadline = self.network.now + after;
        let component = self.timer_component(flow) + 1;
        if let Some(at) = self.slots.get_mut(flow).receiver.timer.set(deadline) {
            self.network.events.push(at, component);
        }
    }

    fn on_receiver_timer(&mut self, flow: u32) {
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

    fn answer_syn(&mut self, packet: &Packet) {
        let slot = self.slots.get_mut(packet.flow);
        let (flow, hash, src, dst, class) = (packet.flow, slot.ack_hash, slot.dst, slot.src, slot.ack_class);
        let answer = Packet {
            hash,
            src,
            dst,
            class,
            flags: SYN | ACK | FRESH,
            echo_path: NO_PATH,
            path: NO_PATH,
            next: NIL,
            departs: 0,
            rank: 0,
            seq: 0,
            flow,
            ..*packet
        };
        self.inject(answer);
    }

    // --- Sending side -----------------------------------------------------------------------------------

    #[inline]
    fn on_ack(&mut self, packet: &Packet) {
        let now = self.network.now;
        let flow = packet.flow;
        let slot = self.slots.get_mut(flow);
        if slot.is_sender_done {
            return self.close_if_over(flow);
        }
        slot.sender.on_rtt(since(packet.sent, now));
        if packet.flags & SYN != 0 {
            if slot.is_connecting {
                slot.is_connecting = false;
                slot.timer.deadline = NEVER;
                self.pump(flow);
            }
            return;
        }
        let una = slot.sender.una();
        let reply = slot.sender.on_ack(&self.rules.tcp, packet.seq, packet.flags & CE != 0);
        match reply {
            Reply::Finished => {
                slot.is_sender_done = true;
                slot.tally.sender_fct = now - slot.started;
                slot.timer.deadline = NEVER;
                return self.close_if_over(flow);
            }
            Reply::Retransmit(segment) => {
                slot.tally.fast_retransmits += u32::from(packet.seq == una);
                self.send_segment(flow, segment, true);
            }
            Reply::Continue => {}
        }
        let slot = self.slots.get_mut(flow);
        if packet.seq > una && slot.sender.restarts_timer() {
            slot.timer.deadline = NEVER;
        }
        self.pump(flow);
    }

    /// Sends what the window and the interface allow and keeps the retransmission timer running.
    #[inline]
    fn pump(&mut self, flow: u32) {
        let src = self.slots.get_mut(flow).src;
        let uplink = self.fabric.uplink[src as usize];
        if self.rules.is_fair && uplink != NIL {
            self.pump_in_turn(flow, src, uplink);
        } else {
            while let Some((segment, again)) = {
                let slot = self.slots.get_mut(flow);
                slot.sender.next_segment(&self.rules.tcp)
            } {
                self.send_segment(flow, segment, again);
            }
        }
        self.keep_timer(flow);
    }

    /// One segment if the interface is free; a flow with more to send queues for its turn.
    #[inline]
    fn pump_in_turn(&mut self, flow: u32, src: u32, uplink: u32) {
        let slot = self.slots.get_mut(flow);
        if slot.is_queued || !slot.sender.can_send(&self.rules.tcp) {
            return;
        }
        let queue = &mut self.waiting[src as usize];
        if queue.is_empty() && self.network.free_at(uplink) <= self.network.now {
            if let Some((segment, again)) = slot.sender.next_segment(&self.rules.tcp) {
                self.send_segment(flow, segment, again);
            }
            if !self.slots.get_mut(flow).sender.can_send(&self.rules.tcp) {
                return;
            }
        }
        self.slots.get_mut(flow).is_queued = true;
        let queue = &mut self.waiting[src as usize];
        queue.push_back(flow);
        if queue.len() == 1 {
            self.network.events.push(self.network.free_at(uplink), INTERFACE + src);
        }
    }

    /// The interface of a host may be free: the flow whose turn it is sends one segment.
    fn on_interface_free(&mut self, host: u32) {
        let uplink = self.fabric.uplink[host as usize];
        let free_at = self.network.free_at(uplink);
        if free_at > self.network.now {
            // Acknowledgements went ahead.
            return self.network.events.push(free_at, INTERFACE + host);
        }
        let Some(flow) = self.waiting[host as usize].pop_front() else { return };
        let slot = self.slots.get_mut(flow);
        slot.is_queued = false;
        if let Some((segment, again)) = slot.sender.next_segment(&self.rules.tcp) {
            self.send_segment(flow, segment, again);
            self.keep_timer(flow);
            let slot = self.slots.get_mut(flow);
            if slot.sender.can_send(&self.rules.tcp) {
                slot.is_queued = true;
                self.waiting[host as usize].push_back(flow);
            }
        } else {
            self.close_if_over(flow);
        }
        if !self.waiting[host as usize].is_empty() {
            self.network.events.push(self.network.free_at(uplink), INTERFACE + host);
        }
    }

    #[inline]
    fn keep_timer(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        if slot.sender.in_flight() == 0 {
            slot.timer.deadline = NEVER;
        } else if slot.timer.deadline == NEVER {
            let deadline = self.network.now + slot.sender.rto(&self.rules.tcp);
            self.arm_sender(flow, deadline);
        }
    }

    fn arm_sender(&mut self, flow: u32, deadline: u64) {
        let component = self.timer_component(flow);
        if let Some(at) = self.slots.get_mut(flow).timer.set(deadline) {
            self.network.events.push(at, component);
        }
    }

    fn timer_component(&self, flow: u32) -> u32 {
        self.network.ports.len() as u32 + 2 * flow
    }

    #[inline]
    fn send_segment(&mut self, flow: u32, segment: u32, again: bool) {
        let slot = self.slots.get_mut(flow);
        slot.tally.packets += 1;
        slot.tally.retransmitted += u32::from(again);
        let payload = if segment + 1 == slot.segments { slot.last_bytes } else { self.rules.mss };
        let packet = Packet {
            departs: 0,
            hash: slot.data_hash,
            next: NIL,
            flow,
            src: slot.src,
            dst: slot.dst,
            class: slot.data_class,
            seq: segment,
            trigger: 0,
            rank: 0,
            sent: stamp(self.network.now),
            edge: 0,
            bytes: (payload + self.rules.header) as u16,
            path: NO_PATH,
            echo_path: NO_PATH,
            flags: self.rules.data_flags | if again { RETRANSMIT } else { 0 },
        };
        self.inject(packet);
    }

    fn send_syn(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        slot.is_connecting = true;
        let packet = Packet {
            departs: 0,
            hash: slot.data_hash,
            next: NIL,
            flow,
            src: slot.src,
            dst: slot.dst,
            class: slot.data_class,
            seq: 0,
            trigger: 0,
            rank: 0,
            sent: stamp(self.network.now),
            edge: 0,
            bytes: self.rules.ack_bytes,
            path: NO_PATH,
            echo_path: NO_PATH,
            flags: SYN | FRESH,
        };
        let rto = slot.sender.rto(&self.rules.tcp);
        self.inject(packet);
        self.arm_sender(flow, self.network.now + rto);
    }

    fn on_timer(&mut self, timer: u32) {
        let (flow, now) = (timer / 2, self.network.now);
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
        } else if self.rules.udp.is_some() {
            self.pace(flow);
        } else {
            self.on_retransmission_timeout(flow);
        }
    }

    fn on_retransmission_timeout(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        if slot.is_sender_done || (slot.sender.in_flight() == 0 && !slot.is_connecting) {
            return;
        }
        slot.tally.timeouts += 1;
        if !slot.sender.on_timeout(&self.rules.tcp) {
            slot.is_sender_done = true;
            if slot.end == FlowEnd::Running {
                slot.end = FlowEnd::Failed;
                slot.tally.fct = self.network.now - slot.started;
            }
            return self.close_if_over(flow);
        }
        if slot.is_connecting {
            return self.send_syn(flow);
        }
        self.pump(flow);
    }

    /// Sends the next UDP packet and sets the time of the one after.
    fn pace(&mut self, flow: u32) {
        let Some(rate) = self.rules.udp else { return };
        let slot = self.slots.get_mut(flow);
        let Some((segment, _)) = slot.sender.next_unpaced() else { return };
        let (src, payload) = (slot.src, if segment + 1 == slot.segments { slot.last_bytes } else { self.rules.mss });
        let is_last = segment + 1 == slot.segments;
        slot.is_sender_done = is_last;
        slot.tally.sender_fct = self.network.now - slot.started;
        let uplink = self.fabric.uplink[src as usize];
        let is_full = uplink != NIL && self.network.queued_packets(uplink) >= self.rules.host_queue;
        if is_full {
            self.slots.get_mut(flow).tally.packets += 1;
            self.sent += 1;
            self.network.dropped.host_queue += 1; // It never became a packet of the network.
        } else {
            self.send_segment(flow, segment, false);
        }
        if is_last {
            return self.close_if_over(flow);
        }
        let gap = match rate {
            UdpRate::Constant(rate) => rate.time_for(u64::from(payload + self.rules.header)).as_ps(),
            UdpRate::UniformPackets { min_per_s, max_per_s } => {
                let per_s = min_per_s + (max_per_s - min_per_s) * self.udp_rng.unit();
                (1e12 / per_s) as u64
            }
        };
        self.arm_sender(flow, self.network.now + gap.max(1));
    }

    // --- Flows --------------------------------------------------------------------------------------------

    fn on_start(&mut self) {
        let now = self.network.now;
        while let Some(id) = self.starts.take(self.list, now) {
            self.start_flow(id);
        }
        if let Some(at) = self.starts.next(self.list) {
            self.network.events.push(at, START);
        }
    }

    fn start_flow(&mut self, id: u32) {
        let flow = &self.list.flows[id as usize];
        let (src, dst) = (flow.src, flow.dst);
        let mss = u64::from(self.rules.mss);
        let segments = flow.size_bytes.div_ceil(mss);
        // A port per flow, so that flows between the same hosts hash apart.
        let port = mix(self.port_seed ^ u64::from(id));
        let (from, to) = (1024 + (port % 60_000) as u16, 5001 + (port >> 32) as u16 % 32);
        let opened = self.slots.open(
            &NewFlow {
                id,
                src: src.0,
                dst: dst.0,
                classes: [self.fabric.host_class[dst.ix()], self.fabric.host_class[src.ix()]],
                hashes: [flow_key(src, dst, 6, from, to), flow_key(dst, src, 6, to, from)],
                started: self.network.now,
                segments: segments as u32,
                last_bytes: (flow.size_bytes - (segments - 1) * mss) as u32,
            },
            &self.rules.tcp,
        );
        self.fabric.forget_paths(opened);
        let ideal = self.ideals.fct(self.topology, src, dst, flow.size_bytes);
        let record = &mut self.records[id as usize];
        record.end = FlowEnd::Running;
        record.started = net::Time::from_ps(self.network.now);
        record.ideal = net::Time::from_ps(ideal);
        if self.rules.udp.is_some() {
            self.pace(opened);
        } else if self.rules.handshake {
            self.send_syn(opened);
        } else {
            self.pump(opened);
        }
    }

    /// Closes a flow whose sender is done and of which nothing is left in the network.
    fn close_if_over(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        if !slot.is_sender_done || slot.in_network > 0 || slot.is_queued || slot.id == NIL {
            return;
        }
        if self.rules.udp.is_some() {
            slot.end = FlowEnd::Completed;
        }
        let (id, end) = (slot.id, slot.end);
        self.write_record(flow);
        self.slots.close(flow);
        self.flows_done += 1;
        // TCP flows trigger others as their last byte arrives; a UDP flow knows it is over only here.
        if self.rules.udp.is_some()
            && end == FlowEnd::Completed
            && let Some(at) = self.starts.trigger(self.list, id, self.network.now)
        {
            self.network.events.push(at, START);
        }
        self.is_over = self.slots.active() == 0 && self.starts.next(self.list).is_none();
    }

    /// Copies a slot's counters into the record of its flow.
    pub(crate) fn write_record(&mut self, flow: u32) {
        let path_changes = self.fabric.path_changes(flow);
        let now = self.network.now;
        let slot = self.slots.get_mut(flow);
        let size = self.list.flows[slot.id as usize].size_bytes;
        let mss = u64::from(self.rules.mss);
        let t = &slot.tally;
        let record = &mut self.records[slot.id as usize];
        record.end = slot.end;
        record.fct = net::Time::from_ps(match slot.end {
            FlowEnd::Running => now - slot.started,
            _ => t.fct,
        });
        record.sender_fct = net::Time::from_ps(t.sender_fct);
        let delivered = u64::from(slot.receiver.next.max(t.delivered_packets)) * mss;
        record.delivered_bytes = delivered.min(size);
        record.packets_sent = t.packets;
        record.retransmitted = t.retransmitted;
        record.spurious = t.spurious;
        record.timeouts = t.timeouts;
        record.fast_retransmits = t.fast_retransmits;
        record.reordered = t.reordered;
        record.reorder_extent = t.extent;
        record.path_changes = path_changes;
    }

    // --- Time -----------------------------------------------------------------------------------------------

    fn on_sample(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            let next = sampler.sample(&self.network.ports);
            self.network.events.push(next, SAMPLE);
        }
    }

    fn on_control(&mut self) {
        let now = self.network.now;
        for action in self.faults.due(self.topology, self.fabric.numbering(), now) {
            match action {
                Action::Cut(link) => {
                    for packet in self.network.cut(link) {
                        self.lose(packet, Loss::LinkDown);
                    }
                }
                Action::Mend(link) => self.network.mend(link),
                Action::Rate(link, bps) => self.network.set_rate(link, bps),
                Action::Loss(link, probability) => self.network.set_loss(link, probability),
                Action::Blackhole(node, fraction) => self.fabric.set_blackhole(node, fraction),
                Action::Reroute => {
                    let (topology, alive) = self.faults.known(self.topology, now);
                    self.fabric.reroute(&topology, &alive);
                }
            }
        }
    }

    fn report(&self, progress: &mut dyn FnMut(&Progress) -> bool) -> bool {
        progress(&Progress {
            now: net::Time::from_ps(self.network.now),
            flows_done: self.flows_done,
            flows_listed: self.list.flows.len() as u64,
            events: self.events,
        })
    }
}
