//! The engine and the control plane: events, frames on links, packets at switches.

use super::agenda::Item;
use super::frames::OnLink;
use super::{Controlled, HOP_LIMIT, Way, time};
use crate::engine::{AGENDA, Engine};
use crate::network::Loss;
use crate::packet::CONTROL;
use crate::plane::PlaneOutput;

impl Controlled<'_> {
    /// Takes what the controller wants and notes when it wants to be called.
    pub(super) fn drain_plane(&mut self, clock: u64) {
        if self.is_plane_down {
            return;
        }
        while let Some(output) = self.plane.poll_output() {
            match output {
                PlaneOutput::Channel(wanted) => self.obey_controller(clock, wanted),
                PlaneOutput::Agents(order) => {
                    let latency = if self.is_booting { 0 } else { self.config.agent_latency.as_ps() };
                    self.agenda.put(clock + latency, Item::Order(order));
                }
            }
        }
        if let Some(at) = self.plane_alarm.set(clock, self.plane.poll_timeout()) {
            self.agenda.put(at, Item::PlaneTimer);
        }
    }

    /// Does the next thing on the agenda due by `clock`; answers false when there is none.
    pub(super) fn step(&mut self, clock: u64, is_pacing_possible: bool) -> bool {
        let Some(item) = self.agenda.take(clock) else { return false };
        match item {
            Item::Connected(ix, connection) => self.deliver_connected(clock, ix, connection),
            Item::ToController(ix, connection, envelope) => self.deliver_up(clock, ix, connection, envelope),
            Item::ToSwitch(ix, connection, envelope) => self.deliver_down(clock, ix, connection, envelope),
            Item::Closed(ix, connection) => self.deliver_closed(clock, ix, connection),
            Item::Connect(ix) => self.connect(clock, ix),
            Item::Report(report) => self.deliver_report(clock, report),
            Item::Member(address, facts) => self.deliver_member(clock, address, facts),
            Item::Order(order) => self.deliver_order(order, is_pacing_possible),
            Item::SwitchTimer(ix) => self.on_switch_timer(clock, ix),
            Item::PlaneTimer => self.on_plane_timer(clock),
            Item::Frame(link, bytes) => {
                let host = self.hosts_by_link[link as usize];
                self.receive_frame(clock, link, &bytes, 0, host);
            }
        }
        if self.agenda.is_circling() {
            self.give_up(|| "switches and controller talk for ever at one moment".to_owned());
        }
        self.fault.is_none()
    }

    fn on_plane_timer(&mut self, clock: u64) {
        if !self.plane_alarm.rings(clock) || self.is_plane_down {
            return;
        }
        if self.plane.poll_timeout().is_some_and(|at| at <= time(clock)) {
            self.plane.handle_timeout(time(clock));
        }
        self.drain_plane(clock);
    }
}

impl Engine<'_> {
    /// A packet reached the far end of a link in a run with a controller.
    pub(crate) fn arrive_controlled(&mut self, link: u32, node: u32, ix: u32) {
        let Some(controlled) = &mut self.controlled else { return };
        let packet = self.network.arena.get_mut(ix);
        if packet.dst == node {
            let is_right = self.requests.is_none() || controlled.is_addressed_rightly(packet);
            return if is_right { self.deliver(ix) } else { self.refuse_misaddressed(ix) };
        }
        if node < controlled.host_count {
            return self.arrive_at_other_host(link, node, ix);
        }
        if self.backlog.is_some() {
            let switch = node - controlled.host_count;
            return self.hold_up(link, switch, ix);
        }
        self.pass_switch(link, node, ix);
    }

    /// A packet is at a host that is not known to be its destination.
    fn arrive_at_other_host(&mut self, link: u32, node: u32, ix: u32) {
        if self.network.arena.get(ix).is(CONTROL) {
            return self.receive_frame(link, node, ix);
        }
        if self.requests.is_some() && self.arrive_at_server(node, ix) {
            return self.deliver(ix);
        }
        // Hosts do not forward what is for others.
        self.lose(ix, Loss::NoRoute);
    }

    /// A packet names its ends wrongly: no host takes it.
    #[cold]
    fn refuse_misaddressed(&mut self, ix: u32) {
        if let Some(requests) = &mut self.requests {
            requests.misaddressed += 1;
        }
        self.lose(ix, Loss::NoRoute);
    }

    /// A switch forwards a packet.
    #[inline]
    pub(crate) fn pass_switch(&mut self, link: u32, node: u32, ix: u32) {
        let Some(controlled) = &mut self.controlled else { return };
        let packet = self.network.arena.get_mut(ix);
        if packet.is(CONTROL) {
            return self.receive_frame(link, node, ix);
        }
        if self.fabric.is_lost_silently(node, packet) {
            return self.lose(ix, Loss::Blackhole);
        }
        let way = controlled.route(self.network.now, link, packet);
        match way {
            Way::Link(out) => {
                if let Err(loss) = self.network.enqueue(out, ix) {
                    self.lose(ix, loss);
                }
            }
            Way::Lost(loss) => self.lose(ix, loss),
            Way::Taken => {
                let flow = self.network.arena.get(ix).flow;
                self.network.arena.remove(ix);
                self.slots.get_mut(flow).in_network -= 1;
                self.close_if_over(flow);
            }
        }
        // Cold, but for the look at two lengths: packets to the controller, and loops of rules.
        self.follow_up();
    }

    /// A frame reached the far end of a link.
    fn receive_frame(&mut self, link: u32, node: u32, ix: u32) {
        let packet = *self.network.arena.get(ix);
        self.network.arena.remove(ix);
        self.delivered += 1;
        let Some(controlled) = &mut self.controlled else { return };
        let bytes = controlled.frames.take(packet.seq);
        let clock = controlled.clock(self.network.now);
        controlled.receive_frame(clock, link, &bytes, packet.rank, node);
        while let Some(slot) = self.controlled.as_mut().and_then(|controlled| controlled.take_reset()) {
            self.talk_failed(slot);
        }
        self.follow_up();
    }

    /// After anything has happened to the control plane: frames go out on links, and an event is set for what comes next.
    #[inline]
    pub(crate) fn follow_up(&mut self) {
        let Some(controlled) = &mut self.controlled else { return };
        if !controlled.outgoing.is_empty() {
            self.emit_frames();
        }
        let Some(controlled) = &mut self.controlled else { return };
        if let Some(at) = controlled.agenda.wants_event() {
            self.network.events.push(at.saturating_sub(controlled.boot_time).max(self.network.now), AGENDA);
        }
        self.is_over |= controlled.fault.is_some();
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
                    self.slots.get_mut(packet.flow).in_network += 1;
                    packet
                }
                OnLink::Frame(packet) => {
                    self.control.packets += 1;
                    self.control.bytes += u64::from(packet.bytes);
                    packet
                }
            };
            let ix = self.network.arena.add(packet);
            let sent = if hops > HOP_LIMIT { Err(Loss::Loop) } else { self.network.enqueue(link, ix) };
            if let Err(loss) = sent {
                self.lose(ix, loss);
            }
        }
    }

    /// The agenda of the control plane has something for now.
    pub(crate) fn on_agenda(&mut self) {
        let is_pacing_possible = self.rules.udp.is_some();
        let Some(controlled) = &mut self.controlled else { return };
        let clock = controlled.clock(self.network.now);
        controlled.agenda.event_came(clock);
        while controlled.step(clock, is_pacing_possible) {}
        self.follow_up();
    }

    /// A flow has sent so much payload for the first time: its agent may have something to report.
    pub(crate) fn note_sent(&mut self, flow: u32, payload: u32) {
        let Some(controlled) = &mut self.controlled else { return };
        controlled.note_sent(self.network.now, flow, payload);
        self.follow_up();
    }

    /// What is alive has become known to switches.
    pub(crate) fn tell_switches(&mut self) {
        let (_, alive) = self.faults.known(self.topology, self.network.now);
        let Some(controlled) = &mut self.controlled else { return };
        controlled.set_alive(self.network.now, &alive);
        self.follow_up();
    }

    /// Switches, channels or the controller have come or gone.
    pub(crate) fn tell_control(&mut self) {
        let Some(controlled) = &mut self.controlled else { return };
        let switches = &self.fabric.numbering().to_topology[controlled.host_count as usize..];
        let faults = self.faults.control(switches, self.network.now);
        let is_down = self.faults.is_controller_down(self.network.now);
        controlled.look_again(self.network.now, &faults, is_down);
        self.follow_up();
    }
}
