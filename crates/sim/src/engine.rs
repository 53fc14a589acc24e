//! The event loop: packets from link to node, flows from start to record.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use net::{LinkIx, Topology};
use traffic::FlowList;

use crate::capture::Tap;
use crate::hosts::Hosts;
use crate::hosts::connection::ConnectionTable;
use crate::hosts::receiving::Resequencer;
use crate::hosts::slots::Slots;
use crate::hosts::starts::Starts;
use crate::links::faults::{Action, Faults};
use crate::links::network::{Loss, Network};
use crate::links::pfc::{PAUSE, TRANSMITTER};
use crate::openflow::Controlled;
use crate::openflow::switch_cpu::SwitchCpuQueue;
use crate::outcome::{ControlRecord, FlowEnd, FlowRecord, ResequencingRecord};
use crate::packet::{ACK, CONTROL, DATA, ECT, FRESH, Packet, SYN};
use crate::prefetch::Foreseen;
use crate::queue::{Event, NIL};
use crate::scenario::{Acks, HostScheduler, Properties, Scenario};
use crate::services::requests::Requests;
use crate::switching::direct_feedback::DirectFeedback;
use crate::switching::fabric::{Fabric, Hop, message_packet};
use crate::timers::NEVER;
use crate::transport::params::{NetworkScale, TransportParams};
use crate::transport::{SenderEnv, Transport};
use crate::{SimError, run};

/// Components after all links and timers, in the order in which they act at one instant.
const EDGE_TIMER: u32 = NIL - 4;
pub(crate) const FAULT: u32 = NIL - 3;
pub(crate) const SAMPLE: u32 = NIL - 2;
pub(crate) const CONTROL_PLANE: u32 = NIL - 6;
pub(crate) const SERVICES: u32 = NIL - 7;
pub(crate) const SWITCH_CPU: u32 = NIL - 8;
pub(crate) const FLOW_PAUSE: u32 = NIL - 9;
pub(crate) const START: u32 = NIL - 1;

/// First of the components that represent host interfaces becoming free.
pub(crate) const INTERFACE: u32 = 1 << 31;

#[derive(Clone, Debug)]
pub(crate) struct RunParams {
    pub(crate) transport: TransportParams,
    pub(crate) properties: Properties,
    /// A sender that has not begun.
    pub(crate) sender: Transport,
    pub(crate) mss: u32,
    pub(crate) header: u32,
    pub(crate) ack_bytes: u16,
    pub(crate) data_flags: u16,
    pub(crate) ack_every: u32,
    pub(crate) ack_timeout: u64,
    pub(crate) handshake: bool,
    /// Whether flows take turns at the interface of their host.
    pub(crate) is_fair: bool,
    /// Packets that an interface queues of flows that do not wait for it.
    pub(crate) host_queue: u32,
    /// Size bounds up to which flows are more urgent, largest first.
    priority_sizes: Vec<u64>,
    pub(crate) resequencer: Option<Resequencer>,
    /// Words of a receive bitmap: a power of two that covers the receive window.
    pub(crate) bitmap_words: usize,
}

impl RunParams {
    pub(crate) fn new(scenario: &Scenario<'_>, scale: &NetworkScale, resequencer: Option<Resequencer>) -> RunParams {
        let config = scenario.config;
        let t = &config.transport;
        let properties = t.properties();
        let words = (scale.window as usize / 64 + 2).next_power_of_two();
        RunParams {
            transport: TransportParams::new(t, scale),
            sender: t.kind.sender(&SenderEnv { config: t, scale, seed: scenario.seed, words }),
            mss: t.mss_bytes,
            header: t.header_bytes,
            ack_bytes: t.ack_bytes as u16,
            data_flags: DATA | FRESH | if properties.is_ecn_capable { ECT } else { 0 },
            ack_every: t.packets_per_ack(),
            ack_timeout: t.ack_timeout.as_ps(),
            handshake: t.handshake && properties.acks != Acks::None,
            is_fair: config.host.scheduler == HostScheduler::Fair && properties.acks != Acks::None,
            properties,
            host_queue: config.host.queue_packets,
            priority_sizes: config.host.priority_sizes.clone(),
            resequencer,
            bitmap_words: words,
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
    /// Feedback of switches to senders, if the transport reads it.
    pub(crate) feedback: Option<Box<DirectFeedback>>,
    pub(crate) controlled: Option<Box<Controlled<'a>>>,
    pub(crate) requests: Option<Box<Requests<'a>>>,
    /// Packets waiting for the processors of switches, if these have a limit.
    pub(crate) switch_cpu: Option<Box<SwitchCpuQueue>>,
    pub(crate) slots: Slots,
    pub(crate) connections: ConnectionTable,
    pub(crate) records: Vec<FlowRecord>,
    /// Captured links and their packets; `None` if the file names no link.
    pub(crate) tap: Option<Box<Tap>>,
    pub(crate) starts: Starts,
    pub(crate) waiting: Vec<VecDeque<u32>>,
    /// Ends of the pauses of flows: time and number of the flow.
    pub(crate) pauses: BinaryHeap<Reverse<(u64, u32)>>,
    pub(crate) is_interface_awaited: Vec<bool>,
    pub(crate) resequencing: ResequencingRecord,
    pub(crate) held_now: u64,
    pub(crate) control: ControlRecord,
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    /// Events that do not depend on the number of partitions, without arrivals of packets.
    pub(crate) events: u64,
    /// Whether the controller has taken long, so that progress must be reported after this step.
    pub(crate) is_report_due: bool,
    /// Whether the run cannot go on.
    pub(crate) is_broken: bool,
    /// Flows whose sender has not ended, if packets carry the numbers of flows.
    pub(crate) senders: u64,
    /// Packets of these flows that entered the network here, less those that left it here.
    pub(crate) in_network: i64,
    /// Partition of each node, if there are several, and the own one.
    pub(crate) owners: Option<Arc<[u8]>>,
    pub(crate) partition: u8,
    pub(crate) hops: u64,
    pub(crate) flows_done: u64,
    /// Packets lost here by flow; only if senders do not learn of losses, and if packets carry the
    /// numbers of flows.
    pub(crate) lost: Vec<u32>,
    pub(crate) port_seed: u64,
    /// Whether ports and routes exceed the caches of a core, so that loading them in advance saves time.
    pub(crate) is_large: bool,
    pub(crate) foreseen: Foreseen,
}

impl Engine<'_> {
    /// Schedules the first events of a run. Boots the controller, if there is one.
    pub(crate) fn schedule_first(&mut self, progress: &mut run::Report<'_>) -> Result<(), SimError> {
        if let Some(at) = self.starts.rearm(self.list, 0) {
            self.network.events.push(at, START);
        }
        let mut class = 0;
        while self.fabric.start_edge(&self.network, class) {
            self.run_commands();
            class += 1;
        }
        let mut row = 0;
        while self.fabric.start_switch(&self.network, row) {
            self.run_commands();
            row += 1;
        }
        self.boot(progress)?;
        self.await_services();
        Ok(())
    }

    fn run_until(&mut self, end: Event) {
        let link_count = self.network.ports.len() as u32;
        while !self.is_broken {
            let Some(event) = self.network.events.pop_before(end) else { break };
            debug_assert!(event.time >= self.network.now, "time runs forward");
            self.network.now = event.time;
            if event.component < link_count {
                self.prefetch();
                self.on_arrival(event.component);
                continue;
            }
            match event.component {
                EDGE_TIMER => self.on_edge_timer(),
                FLOW_PAUSE => self.on_flow_pause(),
                START => self.on_start(),
                PAUSE => self.on_pause(),
                CONTROL_PLANE => self.is_report_due |= self.on_control_events(),
                SERVICES => self.on_services(),
                SWITCH_CPU => self.on_switch_cpu(),
                interface if interface >= INTERFACE => {
                    self.events += 1;
                    self.on_interface_free(interface - INTERFACE);
                }
                transmitter if transmitter >= TRANSMITTER => {
                    self.events += 1;
                    self.network.on_transmitted(transmitter - TRANSMITTER);
                }
                timer => {
                    self.events += 1;
                    self.on_timer(timer - link_count);
                }
            }
        }
    }

    /// Handles the events of a step, and those of its end before `end`.
    pub(crate) fn run_step(&mut self, end: Event) {
        self.run_until(end);
        self.network.now = end.time;
    }

    /// Returns whether nothing is left to start here, and what has started has ended.
    pub(crate) fn is_idle(&self) -> bool {
        let is_served = self.requests.as_ref().is_none_or(|requests| requests.open == 0);
        let is_resolving = self.controlled.as_ref().is_some_and(|controlled| controlled.is_resolving());
        is_served && !is_resolving && self.active_flows() == 0 && self.starts.next(self.list).is_none()
    }

    /// Returns the number of flows, or of their connections, that have started here and not ended.
    pub(crate) fn active_flows(&self) -> u64 {
        if self.slots.is_by_flow() { self.senders } else { self.slots.active }
    }

    /// Returns whether a node belongs to this partition.
    #[inline]
    pub(crate) fn is_local(&self, node: u32) -> bool {
        self.owners.as_ref().is_none_or(|owners| owners[node as usize] == self.partition)
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
    pub(crate) fn forward(&mut self, node: u32, packet: u32) {
        let hop = self.fabric.route(&mut self.network, node, packet);
        self.run_issued_commands();
        match hop {
            Hop::Link(link) => self.enqueue(link, packet),
            Hop::Drop(loss) => self.lose(packet, loss),
            Hop::Consumed => self.consume(packet),
            Hop::Held => {}
        }
    }

    /// Puts a packet into the queue of a link; a packet that may not join it is lost.
    #[inline]
    pub(crate) fn enqueue(&mut self, link: u32, packet: u32) {
        if self.feedback.is_some() {
            return self.enqueue_with_feedback(link, packet);
        }
        if let Err(loss) = self.network.enqueue(link, packet) {
            self.lose(packet, loss);
        }
    }

    /// The same where switches send feedback: a port near to a packet does so instead of a mark.
    fn enqueue_with_feedback(&mut self, link: u32, packet: u32) {
        let Some(feedback) = &mut self.feedback else { return };
        let entry = self.network.arena.get_mut(packet);
        let is_near = feedback.is_near(link, entry);
        let ect = entry.flags & ECT;
        entry.flags &= if is_near { !ECT } else { u16::MAX };
        if let Err(loss) = self.network.enqueue(link, packet) {
            return self.lose(packet, loss);
        }
        if !is_near {
            return;
        }
        let entry = self.network.arena.get_mut(packet);
        entry.flags |= ect;
        let (sampled, queued) = (*entry, self.network.ports[link as usize].queued_bytes);
        if let Some(value) = feedback.sample(link, sampled.bytes, queued) {
            self.send_feedback(link, &sampled, value);
        }
    }

    fn send_feedback(&mut self, link: u32, sampled: &Packet, value: u8) {
        let class = self.fabric.host_class[sampled.src as usize];
        let is_ranked = self.fabric.edges.is_used();
        let packet = DirectFeedback::packet(sampled, value, class, self.params.ack_bytes, is_ranked);
        self.note_injected(packet.flow);
        let node = self.network.ports[LinkIx(link).reverse().ix()].to;
        let ix = self.add_control(packet);
        self.forward(node, ix);
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
            let ix = self.add_control(packet);
            self.forward(node, ix);
        }
        for (flow, time) in commands.pauses.drain(..) {
            self.send_pause(flow, time);
        }
        for report in commands.reports.drain(..) {
            self.send_gap_report(node, &report);
        }
        for message in commands.messages.drain(..) {
            let ix = self.add_control(message_packet(&message));
            self.enqueue(message.link.0, ix);
        }
        // Returned to keep its capacity.
        self.fabric.edges.commands = commands;
    }

    pub(crate) fn add_control(&mut self, packet: Packet) -> u32 {
        self.sent += 1;
        self.control.packets += 1;
        self.control.bytes += u64::from(packet.bytes);
        let ix = self.network.arena.add(packet);
        self.network.note_origin(ix);
        ix
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
        self.note_left(lost.flow);
        if self.slots.is_by_flow() {
            self.note_unseen_loss(lost.flow);
        } else {
            self.close_if_over(lost.flow);
        }
    }

    pub(crate) fn note_unseen_loss(&mut self, id: u32) {
        if let Some(lost) = self.lost.get_mut(id as usize) {
            *lost += 1;
        }
    }

    /// Sends a packet of the flow in slot `flow`.
    #[inline]
    pub(crate) fn inject(&mut self, flow: u32, packet: Packet) {
        self.note_injected(flow);
        let ix = self.network.arena.add(packet);
        self.inject_existing(ix, packet.src);
    }

    #[inline]
    pub(crate) fn inject_existing(&mut self, ix: u32, src: u32) {
        self.sent += 1;
        self.network.note_origin(ix);
        match self.fabric.uplink[src as usize] {
            NIL => self.forward(src, ix),
            uplink => self.enqueue(uplink, ix),
        }
    }

    /// Counts a packet of a flow that enters the network.
    #[inline]
    pub(crate) fn note_injected(&mut self, flow: u32) {
        if self.slots.is_by_flow() {
            self.in_network += 1;
        } else {
            self.slots.get_mut(flow).in_network += 1;
        }
    }

    #[inline]
    pub(crate) fn note_left(&mut self, flow: u32) {
        if self.slots.is_by_flow() {
            self.in_network -= 1;
        } else {
            self.slots.get_mut(flow).in_network -= 1;
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
        let flow = self.slots.find(packet.flow);
        if packet.flags & ACK != 0 {
            self.network.arena.remove(ix);
            self.note_left(flow);
            if flow != NIL && self.slots.get_mut(flow).is_sending {
                self.on_ack(flow, &packet);
            }
            return;
        }
        let flow = match flow {
            NIL if !self.has_received(packet.flow) => self.open_receiver(packet.flow),
            known => known,
        };
        self.note_left(flow);
        if packet.flags & SYN != 0 {
            self.network.arena.remove(ix);
            if flow != NIL && self.slots.get_mut(flow).is_receiving {
                self.answer_syn(flow, &packet);
            }
        } else if flow == NIL || !self.slots.get_mut(flow).is_receiving {
            self.acknowledge_again(ix, &packet);
        } else {
            self.on_data(flow, ix, &packet);
            self.close_receiver_if_over(flow);
        }
    }

    /// Returns whether the receiver of a flow here has received everything.
    #[inline]
    fn has_received(&self, number: u32) -> bool {
        self.records[number as usize].end == FlowEnd::Completed
    }

    fn on_start(&mut self) {
        let now = self.network.now;
        while let Some(id) = self.starts.take(self.list, now) {
            self.start_flow(id);
        }
        if let Some(at) = self.starts.rearm(self.list, now) {
            self.network.events.push(at, START);
        }
    }

    /// Closes a flow if its sender has finished and, unless packets carry the numbers of flows, none of
    /// its packets is in flight.
    pub(crate) fn close_if_over(&mut self, flow: u32) {
        let is_by_flow = self.slots.is_by_flow();
        let slot = self.slots.get_mut(flow);
        if !slot.is_sender_done || slot.in_network > 0 || slot.is_queued || slot.id == NIL {
            return;
        }
        if is_by_flow {
            return self.close_sender(flow);
        }
        if self.params.properties.acks == Acks::None {
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
        // The last byte triggers other flows; without acknowledgements the end is known only here.
        if self.params.properties.acks == Acks::None
            && end == FlowEnd::Completed
            && let Some(at) = self.starts.trigger(self.list, id, self.network.now)
        {
            self.network.events.push(at, START);
        }
    }

    fn close_sender(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        if !std::mem::take(&mut slot.is_sending) {
            return;
        }
        let is_receiving = slot.is_receiving;
        self.senders -= 1;
        self.flows_done += 1;
        self.record_sender(flow);
        if !is_receiving {
            self.slots.close(flow);
        }
    }

    /// Closes the receiving side of a flow that has received everything; only its record remains.
    #[inline]
    pub(crate) fn close_receiver_if_over(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        if slot.end == FlowEnd::Completed && slot.is_receiving && self.slots.is_by_flow() {
            self.close_receiver(flow);
        }
    }

    fn close_receiver(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        slot.is_receiving = false;
        slot.receiver.timer.deadline = NEVER;
        let is_sending = slot.is_sending;
        self.record_receiver(flow);
        if !is_sending {
            self.slots.close(flow);
        }
    }

    /// Applies an action of a fault.
    pub(crate) fn apply(&mut self, action: &Action, faults: &Faults) {
        match *action {
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
            Action::Control => self.notify_control_plane(faults),
            Action::Reroute if self.controlled.is_some() => self.notify_switches(faults),
            // The tables of all partitions are the same: the run compiles them.
            Action::Reroute => {}
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
}
