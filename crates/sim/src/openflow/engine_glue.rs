//! Connection of the engine and the control plane: events, frames on links, packets at switches.

use super::event_queue::{ControlEvent, MAX_EVENTS_AT_ONCE};
use super::frames::OnLink;
use super::{Controlled, Forwarding, HOP_LIMIT, WORK_PER_REPORT, time};
use crate::engine::{CONTROL_PLANE, Engine};
use crate::links::faults::Faults;
use crate::links::network::Loss;
use crate::packet::CONTROL;
use crate::switching::plane::PlaneOutput;

impl Controlled<'_> {
    /// Applies the outputs of the controller. During a warm boot they wait until all messages of the
    /// moment have arrived: a network of links that appear one by one would need a decision for each.
    pub(super) fn drain_plane(&mut self, clock: u64) {
        match self.is_booting {
            true => self.has_undrained_input = true,
            false => self.drain_plane_now(clock),
        }
    }

    pub(super) fn drain_plane_now(&mut self, clock: u64) {
        self.has_undrained_input = false;
        if self.is_plane_down {
            return;
        }
        while let Some(output) = self.plane.poll_output() {
            self.unreported += 1;
            match output {
                PlaneOutput::Channel(message) => self.apply_plane_output(clock, message),
                PlaneOutput::Agents(order) => {
                    let latency = if self.is_booting { 0 } else { self.config.agent_latency.as_ps() };
                    self.events.put(clock + latency, ControlEvent::Command(order));
                }
            }
        }
        if let Some(at) = self.plane_timer.set(clock, self.plane.poll_timeout().map(net::Time::as_ps)) {
            self.events.put(at, ControlEvent::PlaneTimer);
        }
    }

    /// Handles the next event due by `clock`. Returns false if none is due.
    pub(super) fn step(&mut self, clock: u64, can_limit_rates: bool) -> bool {
        let Some(event) = self.events.take(clock) else { return false };
        // Timers of the controller begin rounds of its balancer, which may take long.
        self.unreported += if matches!(event, ControlEvent::PlaneTimer) { WORK_PER_REPORT } else { 1 };
        match event {
            ControlEvent::Connected(ix, connection) => self.deliver_connected(clock, ix, connection),
            ControlEvent::ToController(ix, connection, envelope) => self.deliver_up(clock, ix, connection, envelope),
            ControlEvent::ToSwitch(ix, connection, envelope) => self.deliver_down(clock, ix, connection, envelope),
            ControlEvent::Closed(ix, connection) => self.deliver_closed(clock, ix, connection),
            ControlEvent::Connect(ix) => self.connect(clock, ix),
            ControlEvent::Report(report) => self.deliver_report(clock, |plane, now| plane.report(now, report)),
            ControlEvent::Member(address, stats) => {
                self.deliver_report(clock, |plane, now| plane.member_reported(now, address, stats));
            }
            ControlEvent::Command(order) => self.deliver_command(order, can_limit_rates),
            ControlEvent::SwitchTimer(ix) => self.on_switch_timer(clock, ix),
            ControlEvent::AskAgain(host, target) => self.ask_again(clock, host, target),
            ControlEvent::PlaneTimer => self.on_plane_timer(clock),
            ControlEvent::Frame(link, bytes) => self.receive_frame(clock, link, &bytes, 0),
        }
        if self.events.taken.1 > MAX_EVENTS_AT_ONCE {
            self.abort(|| "switches and controller exchange messages endlessly at one moment".to_owned());
        }
        self.fault.is_none()
    }

    fn on_plane_timer(&mut self, clock: u64) {
        if !self.plane_timer.is_valid(clock) || self.is_plane_down {
            return;
        }
        if self.plane.poll_timeout().is_some_and(|at| at <= time(clock)) {
            self.plane.handle_timeout(time(clock));
        }
        self.drain_plane(clock);
    }
}

impl Engine<'_> {
    pub(crate) fn arrive_controlled(&mut self, link: u32, node: u32, ix: u32) {
        let Some(controlled) = &mut self.controlled else { return };
        let packet = self.network.arena.get_mut(ix);
        if packet.dst == node {
            let may_be_wrong = self.requests.is_some() || controlled.config.hosts_resolve;
            let is_right = !may_be_wrong || controlled.accept(packet);
            return if is_right { self.deliver(ix) } else { self.drop_misaddressed(ix) };
        }
        if node < controlled.host_count {
            return self.arrive_at_other_host(link, node, ix);
        }
        if self.switch_cpu.is_some() {
            let switch = node - controlled.host_count;
            return self.enqueue_for_cpu(link, switch, ix);
        }
        self.pass_switch(link, node, ix);
    }

    /// Handles a packet at a host that is not known to be its destination.
    fn arrive_at_other_host(&mut self, link: u32, node: u32, ix: u32) {
        if self.network.arena.get(ix).is(CONTROL) {
            return self.receive_frame(link, ix);
        }
        if self.requests.is_some() && self.arrive_at_server(node, ix) {
            return self.deliver(ix);
        }
        // Hosts do not forward packets for other hosts.
        self.lose(ix, Loss::NoRoute);
    }

    /// Drops a packet whose addresses do not match the connection: no host accepts it.
    #[cold]
    fn drop_misaddressed(&mut self, ix: u32) {
        if let Some(requests) = &mut self.requests {
            requests.misaddressed += 1;
        }
        self.lose(ix, Loss::NoRoute);
    }

    #[inline]
    pub(crate) fn pass_switch(&mut self, link: u32, node: u32, ix: u32) {
        let Some(controlled) = &mut self.controlled else { return };
        let packet = self.network.arena.get_mut(ix);
        if packet.is(CONTROL) {
            return self.receive_frame(link, ix);
        }
        if self.fabric.is_lost_silently(node, packet) {
            return self.lose(ix, Loss::Blackhole);
        }
        let forwarding = controlled.route(self.network.now, link, packet);
        match forwarding {
            Forwarding::Link(out) => self.enqueue(out, ix),
            Forwarding::Drop(loss) => self.lose(ix, loss),
            Forwarding::ToController => {
                let flow = self.network.arena.get(ix).flow;
                self.network.arena.remove(ix);
                self.note_left(flow);
                self.close_if_over(flow);
            }
        }
        // Rarely true (packets to the controller, loops of rules); it compares two lengths only.
        self.follow_up();
    }

    fn receive_frame(&mut self, link: u32, ix: u32) {
        let packet = *self.network.arena.get(ix);
        self.network.arena.remove(ix);
        self.delivered += 1;
        let Some(controlled) = &mut self.controlled else { return };
        let bytes = controlled.frames.take(packet.seq);
        let clock = controlled.clock(self.network.now);
        controlled.receive_frame(clock, link, &bytes, packet.rank);
        while let Some(slot) = self.controlled.as_mut().and_then(|controlled| controlled.resets.pop()) {
            self.on_connection_failed(slot);
        }
        self.start_resolved();
        self.follow_up();
    }

    /// Sends what the control plane puts out, and schedules its next event.
    #[inline]
    pub(crate) fn follow_up(&mut self) {
        let Some(controlled) = &mut self.controlled else { return };
        if !controlled.outgoing.is_empty() {
            self.emit_frames();
        }
        let Some(controlled) = &mut self.controlled else { return };
        if let Some(at) = controlled.events.awaited.set(0, controlled.events.next()) {
            self.network.events.push(at.saturating_sub(controlled.boot_time).max(self.network.now), CONTROL_PLANE);
        }
        self.is_broken |= controlled.fault.is_some();
    }

    #[cold]
    fn emit_frames(&mut self) {
        let Some(controlled) = &mut self.controlled else { return };
        for out in std::mem::take(&mut controlled.outgoing) {
            let Some(controlled) = &mut self.controlled else { return };
            let (link, hops) = (out.link, out.hops);
            self.sent += 1;
            let packet = match controlled.on_link(self.network.now, out) {
                OnLink::Flow(packet) => {
                    self.note_injected(packet.flow);
                    packet
                }
                OnLink::Frame(packet) => {
                    self.control.packets += 1;
                    self.control.bytes += u64::from(packet.bytes);
                    packet
                }
            };
            let ix = self.network.arena.add(packet);
            if hops > HOP_LIMIT { self.lose(ix, Loss::Loop) } else { self.enqueue(link, ix) }
        }
    }

    /// Handles due events of the control plane. Returns whether progress must be reported.
    pub(crate) fn on_control_events(&mut self) -> bool {
        let can_limit_rates = self.params.properties.acks == crate::Acks::None;
        let Some(controlled) = &mut self.controlled else { return false };
        let clock = controlled.clock(self.network.now);
        // An event that an earlier one superseded must not change the order of the others.
        controlled.events.awaited.is_valid(clock);
        while controlled.step(clock, can_limit_rates) {}
        let is_report_due = controlled.is_report_due();
        self.start_resolved();
        self.follow_up();
        is_report_due
    }

    pub(crate) fn note_sent(&mut self, flow: u32, payload: u32) {
        let Some(controlled) = &mut self.controlled else { return };
        controlled.note_sent(self.network.now, flow, payload);
        self.follow_up();
    }

    pub(crate) fn notify_switches(&mut self, faults: &Faults) {
        let (_, alive) = faults.known(self.topology, self.network.now);
        let Some(controlled) = &mut self.controlled else { return };
        controlled.set_alive(self.network.now, &alive);
        self.follow_up();
    }

    pub(crate) fn notify_control_plane(&mut self, faults: &Faults) {
        let Some(controlled) = &mut self.controlled else { return };
        let switches = &self.fabric.numbering.to_topology[controlled.host_count as usize..];
        let is_down = faults.is_controller_down(self.network.now);
        let faults = faults.control(switches, self.network.now);
        controlled.apply_faults(self.network.now, &faults, is_down);
        self.follow_up();
    }
}
