//! The event loop: packets from link to node, flows from start to record.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use net::{RandomStream, Time, Topology};
use traffic::{FlowList, Start, Triggers};

use crate::capture::Tap;
use crate::flows::{NEVER, Slots};
use crate::hosts::Hosts;
use crate::hosts::connection::ConnectionTable;
use crate::hosts::receiving::Resequencer;
use crate::ideal::Ideals;
use crate::link_probe::LinkProbe;
use crate::links::faults::{Action, Faults};
use crate::links::network::{Loss, Network};
use crate::links::pfc::{PAUSE, TRANSMITTER};
use crate::openflow::Controlled;
use crate::outcome::{ControlRecord, FlowEnd, FlowRecord, ResequencingRecord};
use crate::packet::{ACK, CONTROL, DATA, ECT, FRESH, Packet, SYN};
use crate::probes::Sampler;
use crate::queue::NIL;
use crate::scenario::{HostScheduler, SimConfig, TransportKind, UdpRate};
use crate::services::requests::Requests;
use crate::switching::fabric::{Fabric, Hop};
use crate::switching::switch_cpu::SwitchCpuQueue;
use crate::transport::transport_params::{NetworkScale, TransportParams};
use crate::{Progress, SimError};

/// Components after all links and timers, in the order in which they act at one instant.
const FAULT: u32 = NIL - 3;
const EDGE_TIMER: u32 = NIL - 4;
const SAMPLE: u32 = NIL - 2;
pub(crate) const CONTROL_PLANE: u32 = NIL - 6;
pub(crate) const SERVICES: u32 = NIL - 7;
pub(crate) const SWITCH_CPU: u32 = NIL - 8;
pub(crate) const START: u32 = NIL - 1;

/// First of the components that represent host interfaces becoming free.
pub(crate) const INTERFACE: u32 = 1 << 31;

const EVENTS_PER_REPORT: u64 = 1 << 19;

pub(crate) struct RunParams {
    pub(crate) tcp: TransportParams,
    pub(crate) mss: u32,
    pub(crate) header: u32,
    pub(crate) ack_bytes: u16,
    pub(crate) data_flags: u16,
    pub(crate) ack_every: u32,
    pub(crate) ack_timeout: u64,
    pub(crate) handshake: bool,
    pub(crate) udp: Option<UdpRate>,
    /// Whether packets are TCP on the wire; all others are UDP.
    pub(crate) is_tcp: bool,
    /// Minimum time between notifications of DCQCN; 0 without DCQCN.
    pub(crate) notify_interval: u64,
    pub(crate) is_fair: bool,
    pub(crate) host_queue: u32,
    /// Size bounds up to which flows are more urgent, largest first.
    priority_sizes: Vec<u64>,
    pub(crate) resequencer: Option<Resequencer>,
    /// Words of a receive bitmap: a power of two that covers the receive window.
    pub(crate) bitmap_words: usize,
    pub(crate) until: u64,
}

impl RunParams {
    pub(crate) fn new(config: &SimConfig, extent: &NetworkScale, resequencer: Option<Resequencer>) -> RunParams {
        let t = &config.transport;
        let words = (extent.window as usize / 64 + 2).next_power_of_two();
        RunParams {
            tcp: TransportParams::new(t, extent),
            mss: t.mss_bytes,
            header: t.header_bytes,
            ack_bytes: t.ack_bytes as u16,
            data_flags: DATA | FRESH | if t.is_ecn_capable() { ECT } else { 0 },
            // Transports that track single packets need an acknowledgement of each.
            ack_every: if t.tolerates_reordering() { 1 } else { t.ack_every.max(1) },
            ack_timeout: t.ack_timeout.as_ps(),
            handshake: t.handshake,
            udp: if let TransportKind::Udp(rate) = t.kind { Some(rate) } else { None },
            is_tcp: !matches!(t.kind, TransportKind::Udp(_) | TransportKind::Rdma(_) | TransportKind::Spray(_)),
            notify_interval: match t.kind {
                TransportKind::Rdma(rdma) => rdma.dcqcn.notify_interval.as_ps(),
                _ => 0,
            },
            is_fair: config.host.scheduler == HostScheduler::Fair,
            host_queue: config.host.queue_packets,
            priority_sizes: config.host.priority_sizes.clone(),
            resequencer,
            bitmap_words: words,
            until: config.stop.until.map_or(NEVER, Time::as_ps),
        }
    }

    pub(crate) fn priority_of(&self, bytes: u64) -> u16 {
        self.priority_sizes.iter().filter(|bound| bytes <= **bound).count() as u16
    }
}

pub(crate) struct Engine<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) list: &'a FlowList,
    pub(crate) params: RunParams,
    pub(crate) network: Network,
    pub(crate) fabric: Fabric,
    pub(crate) hosts: Option<Hosts>,
    pub(crate) controlled: Option<Box<Controlled<'a>>>,
    pub(crate) requests: Option<Box<Requests<'a>>>,
    /// Packets waiting for the processors of switches, if these have a limit.
    pub(crate) switch_cpu: Option<Box<SwitchCpuQueue>>,
    pub(crate) slots: Slots,
    pub(crate) connections: ConnectionTable,
    pub(crate) records: Vec<FlowRecord>,
    pub(crate) ideals: Ideals<'a>,
    pub(crate) faults: Faults,
    pub(crate) sampler: Option<Sampler>,
    pub(crate) link_probe: Option<LinkProbe>,
    /// Captured links and their packets; `None` if the file names no link.
    pub(crate) tap: Option<Box<Tap>>,
    pub(crate) starts: Starts,
    pub(crate) waiting: Vec<VecDeque<u32>>,
    pub(crate) is_interface_awaited: Vec<bool>,
    pub(crate) resequencing: ResequencingRecord,
    pub(crate) held_now: u64,
    pub(crate) control: ControlRecord,
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) events: u64,
    pub(crate) is_over: bool,
    pub(crate) hops: u64,
    pub(crate) flows_done: u64,
    pub(crate) udp_rng: RandomStream,
    pub(crate) port_seed: u64,
    /// Whether ports and routes exceed the caches of a core, so that loading them in advance saves time.
    pub(crate) is_large: bool,
}

pub(crate) struct Starts {
    /// Flows with a start time, earliest first.
    timed: Vec<u32>,
    cursor: usize,
    triggers: Triggers,
    /// Triggered flows with a start time, earliest on top.
    due: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Starts {
    pub(crate) fn new(list: &FlowList) -> Starts {
        let timed = (0u32..).zip(&list.flows).filter_map(|(id, flow)| match flow.start {
            Start::At(at) => Some((at, id)),
            _ => None,
        });
        let mut timed: Vec<(Time, u32)> = timed.collect();
        timed.sort_unstable();
        let timed = timed.into_iter().map(|(_, id)| id).collect();
        Starts { timed, cursor: 0, triggers: Triggers::new(&list.flows), due: BinaryHeap::new() }
    }

    pub(crate) fn next(&self, list: &FlowList) -> Option<u64> {
        let timed = self.timed.get(self.cursor).map(|id| match list.flows[*id as usize].start {
            Start::At(at) => at.as_ps(),
            Start::After { .. } | Start::AfterGroups { .. } => NEVER,
        });
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        timed.into_iter().chain(due).min()
    }

    pub(crate) fn take(&mut self, list: &FlowList, now: u64) -> Option<u32> {
        if let Some(Reverse((at, id))) = self.due.peek().copied()
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

    /// Makes flows due that wait for the end of flow `ended`. Returns the earliest of their starts.
    pub(crate) fn trigger(&mut self, list: &FlowList, ended: u32, now: u64) -> Option<u64> {
        let Starts { triggers, due, .. } = self;
        let mut earliest = None;
        triggers.ended(ended, |id| {
            let (Start::After { delay, .. } | Start::AfterGroups { delay, .. }) = list.flows[id as usize].start else {
                return;
            };
            let at = now.saturating_add(delay.as_ps());
            due.push(Reverse((at, id)));
            earliest = Some(earliest.map_or(at, |e: u64| e.min(at)));
        });
        earliest
    }
}

impl Engine<'_> {
    pub(crate) fn run(&mut self, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<(), SimError> {
        if let Some(at) = self.starts.next(self.list) {
            self.network.events.push(at, START);
        }
        if let Some(sampler) = &self.sampler {
            self.network.events.push(sampler.next, SAMPLE);
        }
        if let Some(probe) = &self.link_probe {
            self.network.events.push(probe.next, SAMPLE);
        }
        for at in self.faults.times() {
            self.network.events.push(at, FAULT);
        }
        let mut class = 0;
        while self.fabric.start_edge(&self.network, class) {
            self.run_commands();
            class += 1;
        }
        self.boot(progress)?;
        self.await_services();
        let link_count = self.network.ports.len() as u32;
        self.is_over |= self.starts.next(self.list).is_none();
        while !self.is_over {
            let Some(event) = self.network.events.pop() else { break };
            if event.time > self.params.until {
                self.network.now = self.params.until;
                return Ok(());
            }
            debug_assert!(event.time >= self.network.now, "time runs forward");
            self.network.now = event.time;
            self.events += 1;
            if self.events.is_multiple_of(EVENTS_PER_REPORT) && !self.report(progress) {
                return Err(SimError::Interrupted);
            }
            if event.component < link_count {
                self.prefetch();
                self.on_arrival(event.component);
                continue;
            }
            match event.component {
                FAULT => self.on_fault(),
                EDGE_TIMER => self.on_edge_timer(),
                SAMPLE => self.on_sample(),
                START => self.on_start(),
                PAUSE => self.on_pause(),
                CONTROL_PLANE => {
                    if self.on_control_events() && !self.report(progress) {
                        return Err(SimError::Interrupted);
                    }
                }
                SERVICES => self.on_services(),
                SWITCH_CPU => self.on_switch_cpu(),
                interface if interface >= INTERFACE => self.on_interface_free(interface - INTERFACE),
                transmitter if transmitter >= TRANSMITTER => {
                    self.network.on_transmitted(transmitter - TRANSMITTER);
                }
                timer => self.on_timer(timer - link_count),
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn on_arrival(&mut self, link: u32) {
        let (packet, node) = self.network.arrive(link);
        self.hops += 1;
        if self.tap.is_some() {
            self.capture(link, packet);
        }
        if self.controlled.is_some() {
            return self.arrive_controlled(link, node, packet);
        }
        if self.network.arena.get(packet).dst == node {
            self.arrive_at_host(node, packet);
        } else {
            self.forward(node, packet);
        }
    }

    #[inline(always)]
    fn forward(&mut self, node: u32, packet: u32) {
        let hop = self.fabric.route(&mut self.network, node, packet);
        self.run_issued_commands();
        match hop {
            Hop::Link(link) => self.enqueue(link, packet),
            Hop::Drop(loss) => self.lose(packet, loss),
            Hop::Consumed => {
                self.delivered += 1;
                self.network.arena.remove(packet);
            }
            Hop::Held => {}
        }
    }

    /// Puts a packet into the queue of a link; a packet that may not join it is lost.
    #[inline]
    pub(crate) fn enqueue(&mut self, link: u32, packet: u32) {
        if let Err(loss) = self.network.enqueue(link, packet) {
            self.lose(packet, loss);
        }
    }

    #[inline]
    pub(crate) fn run_issued_commands(&mut self) {
        if !self.fabric.edges.commands.is_empty() {
            self.run_commands();
        }
    }

    #[cold]
    fn run_commands(&mut self) {
        if let Some(at) = self.fabric.keep_timers(self.network.now) {
            self.network.events.push(at, EDGE_TIMER);
        }
        let node = self.fabric.edges.issuer;
        let mut commands = std::mem::take(&mut self.fabric.edges.commands);
        for flow in commands.releases.drain(..) {
            while let Some(packet) = self.fabric.edges.take_held(&self.network, flow) {
                self.hand_over(packet);
            }
        }
        for control in commands.controls.drain(..) {
            let Some(packet) = self.fabric.control_packet(self.network.now, node, &control) else { continue };
            self.sent += 1;
            self.control.packets += 1;
            self.control.bytes += u64::from(packet.bytes);
            let ix = self.network.arena.add(packet);
            self.forward(node, ix);
        }
        // Returned to keep its capacity.
        self.fabric.edges.commands = commands;
    }

    fn hand_over(&mut self, packet: u32) {
        let dst = self.network.arena.get(packet).dst;
        if let Hop::Link(link) = self.fabric.last_hop(dst) { self.enqueue(link, packet) } else { self.deliver(packet) }
    }

    fn on_edge_timer(&mut self) {
        while self.fabric.call_timer(&self.network) {
            self.run_commands();
        }
        if let Some(at) = self.fabric.edges.timers_seen(self.network.now) {
            self.network.events.push(at, EDGE_TIMER);
        }
    }

    #[cold]
    pub(crate) fn lose(&mut self, packet: u32, loss: Loss) {
        let lost = self.network.lose(packet, loss);
        if lost.is(CONTROL) {
            if let Some(controlled) = &mut self.controlled {
                controlled.forget_frame(lost.seq);
            }
            return;
        }
        self.slots.get_mut(lost.flow).in_network -= 1;
        self.close_if_over(lost.flow);
    }

    #[inline]
    pub(crate) fn inject(&mut self, packet: Packet) {
        let (flow, src) = (packet.flow, packet.src);
        let ix = self.network.arena.add(packet);
        self.inject_existing(ix, flow, src);
    }

    #[inline]
    pub(crate) fn inject_existing(&mut self, ix: u32, flow: u32, src: u32) {
        self.sent += 1;
        self.slots.get_mut(flow).in_network += 1;
        match self.fabric.uplink[src as usize] {
            NIL => self.forward(src, ix),
            uplink => self.enqueue(uplink, ix),
        }
    }

    /// Handles a packet at its destination host, which may itself be an edge.
    #[inline]
    fn arrive_at_host(&mut self, node: u32, packet: u32) {
        if self.fabric.edges.is_used() && self.fabric.uplink[node as usize] == NIL {
            let hop = self.fabric.leave(&mut self.network, node, packet);
            self.run_issued_commands();
            match hop {
                Some(Hop::Consumed) => {
                    self.delivered += 1;
                    return self.network.arena.remove(packet);
                }
                Some(Hop::Held) => return,
                _ => {}
            }
        }
        self.deliver(packet);
    }

    #[inline]
    pub(crate) fn deliver(&mut self, ix: u32) {
        self.delivered += 1;
        let packet = *self.network.arena.get(ix);
        self.slots.get_mut(packet.flow).in_network -= 1;
        if packet.flags & ACK != 0 {
            self.network.arena.remove(ix);
            self.on_ack(&packet);
        } else if packet.flags & SYN != 0 {
            self.network.arena.remove(ix);
            self.answer_syn(&packet);
        } else {
            self.on_data(ix, &packet);
        }
    }

    fn on_start(&mut self) {
        let now = self.network.now;
        while let Some(id) = self.starts.take(self.list, now) {
            self.start_flow(id);
        }
        if let Some(at) = self.starts.next(self.list) {
            self.network.events.push(at, START);
        }
    }

    /// Closes a flow if its sender has finished and none of its packets is in flight.
    pub(crate) fn close_if_over(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        if !slot.is_sender_done || slot.in_network > 0 || slot.is_queued || slot.id == NIL {
            return;
        }
        if self.params.udp.is_some() {
            let is_whole = slot.tally.delivered_packets == slot.segments;
            slot.end = if is_whole { FlowEnd::Completed } else { FlowEnd::Failed };
        }
        let (id, end, connection, ordinal) = (slot.id, slot.end, slot.connection, slot.ordinal);
        if self.requests.is_some() && self.close_direction(flow) {
            return;
        }
        self.write_record(flow);
        self.slots.close(flow);
        if let Some(controlled) = &mut self.controlled {
            controlled.flow_closed(self.network.now, flow);
            self.follow_up();
        }
        if connection != NIL && !self.connections.leave(connection, ordinal) {
            return;
        }
        self.flows_done += 1;
        // The last byte of a TCP flow triggers others; the end of a UDP flow is known only here.
        if self.params.udp.is_some()
            && end == FlowEnd::Completed
            && let Some(at) = self.starts.trigger(self.list, id, self.network.now)
        {
            self.network.events.push(at, START);
        }
        self.is_over = self.has_everything_ended();
    }

    pub(crate) fn has_everything_ended(&self) -> bool {
        let is_served = self.requests.as_ref().is_none_or(|requests| requests.open == 0);
        is_served && self.slots.active == 0 && self.starts.next(self.list).is_none()
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
            (record.end, started, fct, sender_fct) = (slot.end, slot.started, t.fct, t.sender_fct);
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
        t.add_to(record);
        record.path_changes += self.fabric.edges.path_changes(flow);
    }

    fn on_sample(&mut self) {
        // One event may serve both; the other then finds nothing due.
        let now = self.network.now;
        if let Some(sampler) = self.sampler.as_mut().filter(|sampler| sampler.next <= now) {
            let ports = &self.network.ports;
            let next = sampler.sample(|link| ports[link as usize].carried_bytes);
            self.network.events.push(next, SAMPLE);
        }
        if let Some(probe) = self.link_probe.as_mut().filter(|probe| probe.next <= now) {
            let next = probe.sample(|link| self.network.sample(link));
            self.network.events.push(next, SAMPLE);
        }
    }

    fn on_fault(&mut self) {
        let now = self.network.now;
        for action in self.faults.due(self.topology, &self.fabric.numbering, now) {
            match action {
                Action::Cut(link) => {
                    for packet in self.network.cut(link) {
                        self.lose(packet, Loss::LinkDown);
                    }
                    self.wake_host(link);
                }
                Action::Mend(link) => self.network.restore(link),
                Action::Rate(link, bps) => self.network.set_rate(link, bps),
                Action::Loss(link, probability) => self.network.set_loss(link, probability),
                Action::Blackhole(node, fraction, racks) => self.fabric.set_blackhole(node, fraction, racks),
                Action::Control => self.notify_control_plane(),
                Action::Reroute if self.controlled.is_some() => self.notify_switches(),
                Action::Reroute => {
                    let (topology, alive) = self.faults.known(self.topology, now);
                    self.fabric.reroute(&topology, &alive);
                }
            }
        }
    }

    /// Applies pauses that begin or end. Hosts whose interface was paused send again.
    fn on_pause(&mut self) {
        let mut lost = Vec::new();
        while let Some(link) = self.network.take_pause(&mut lost) {
            for packet in lost.drain(..) {
                self.lose(packet, Loss::Watchdog);
            }
            self.wake_host(link);
        }
    }

    /// Resumes sending at the host of `link`, if any: its interface may no longer be paused.
    fn wake_host(&mut self, link: u32) {
        let from = self.network.ports[(link ^ 1) as usize].to;
        if self.waiting.get(from as usize).is_some_and(|flows| !flows.is_empty()) {
            self.wait_for_interface(from, link);
        }
    }

    fn report(&self, progress: &mut dyn FnMut(&Progress) -> bool) -> bool {
        progress(&Progress {
            now: Time::from_ps(self.network.now),
            flows_done: self.flows_done,
            flows_listed: self.list.flows.len() as u64,
            events: self.events,
        })
    }
}
