//! The start and end of the plan's actions.

use net::Time;
use openflow::PortNo;
use switch::Switch;

use crate::plan::{ActionKind, CutKind, End};
use crate::simulation::{Event, Simulation};

impl Simulation {
    pub(crate) fn begin(&mut self, action: usize) {
        let (what, until) = (self.plan.actions[action].what.clone(), self.plan.actions[action].until);
        self.trace(|simulation| format!("BEGIN {}", simulation.plan.describe(&simulation.plan.actions[action])));
        self.report.faults += u64::from(self.plan.actions[action].is_fault());
        if until != Time::MAX {
            self.schedule(until, Event::End(action));
        }
        match what {
            ActionKind::Flow { .. } => self.begin_flow(action),
            ActionKind::Client { .. } => self.begin_client(action),
            ActionKind::Services { version } => self.configure(self.plan.services[version].clone()),
            ActionKind::ServerDown { host } => self.hang_server(host, true),
            ActionKind::Cut { cable, kind } => self.cut(cable, kind),
            ActionKind::SwitchOff { switch, .. } => self.power_off(switch),
            ActionKind::Stall { switch } => {
                self.switches[switch].channel.stalls += 1;
                self.mark_disturbed(switch, self.bounds.silence + self.bounds.react);
            }
            ActionKind::Break { switch, unnoticed } => {
                self.switches[switch].channel.breaks += 1;
                let latency = self.plan.switches[switch].latency;
                self.lose_connection(switch, latency, Some(latency + unnoticed));
            }
            ActionKind::Restart => self.stop_controller(),
            ActionKind::Foreign { switch, seed } => self.add_foreign(switch, seed),
            ActionKind::Move { host, switch, port } => self.move_host(host, switch, port),
            ActionKind::Attack { .. } => self.begin_attack(action),
            ActionKind::Disruption(disruption) => self.begin_disruption(action, disruption),
            ActionKind::Slow { switch, per_change } => self.switches[switch].channel.per_change = per_change,
        }
    }

    pub(crate) fn end(&mut self, action: usize) {
        self.trace(|simulation| format!("END {}", simulation.plan.describe(&simulation.plan.actions[action])));
        match self.plan.actions[action].what.clone() {
            ActionKind::Flow { .. }
            | ActionKind::Client { .. }
            | ActionKind::Services { .. }
            | ActionKind::Move { .. } => {}
            ActionKind::ServerDown { host } => self.hang_server(host, false),
            ActionKind::Cut { cable, kind } => {
                self.change_cable(cable, kind.is_cut(), kind.is_seen(), false);
                // A host may have to be learned again.
                let has_host = matches!(self.cables[cable].ends[0], End::Host(_));
                let learned = if has_host { self.bounds.host } else { Time::ZERO };
                self.disturb_cable(cable, self.bounds.healed + learned + self.bounds.react);
            }
            ActionKind::SwitchOff { switch, is_keeping_tables, without } => {
                if !is_keeping_tables {
                    self.lose_tables(switch, without);
                }
                self.power_on(switch);
            }
            ActionKind::Stall { switch } => {
                self.switches[switch].channel.stalls -= 1;
                if self.switches[switch].channel.stalls == 0 {
                    self.unstall(switch);
                    self.mark_disturbed(switch, self.bounds.silence + self.bounds.handshake + self.bounds.react);
                }
            }
            ActionKind::Break { switch, .. } => {
                let channel = &mut self.switches[switch].channel;
                channel.breaks -= 1;
                let generation = channel.generation;
                self.mark_disturbed(switch, self.bounds.handshake + self.bounds.react);
                self.after(Time::from_ms(1), Event::Connect { switch, generation });
            }
            ActionKind::Restart => self.resume_controller(),
            ActionKind::Foreign { switch, seed } => self.remove_foreign(switch, seed),
            ActionKind::Attack { .. } => self.end_attack(action),
            ActionKind::Disruption(disruption) => self.end_disruption(action, disruption),
            ActionKind::Slow { switch, .. } => self.switches[switch].channel.per_change = Time::ZERO,
        }
    }

    fn cut(&mut self, cable: usize, kind: CutKind) {
        self.change_cable(cable, kind.is_cut(), kind.is_seen(), true);
        let detection = if kind.is_hidden() { self.bounds.hidden } else { self.bounds.seen };
        // An undetected direction is found by discovery packets even if the other direction is
        // detected.
        let is_half_hidden = kind == CutKind::BothSeenByOne || kind == CutKind::OneWay;
        let detection = if is_half_hidden { detection.max(self.bounds.hidden) } else { detection };
        self.disturb_cable(cable, detection + self.bounds.react);
    }

    fn cables_of(&self, switch: usize) -> Vec<(usize, usize)> {
        self.switches[switch].plugs.iter().flatten().copied().collect()
    }

    pub(crate) fn power_off(&mut self, switch: usize) {
        let state = &mut self.switches[switch];
        state.off_count += 1;
        if state.off_count > 1 {
            return;
        }
        for plug in self.cables_of(switch) {
            self.change_plug(plug, true);
            self.disturb_cable(plug.0, self.bounds.seen + self.bounds.react);
        }
        let state = &mut self.switches[switch];
        state.is_on = false;
        self.services.off.insert(switch, self.now);
        self.rival_loses(switch);
        let state = &mut self.switches[switch];
        // Its unsent messages are lost.
        state.channel.switch_side = None;
        let latency = self.plan.switches[switch].latency;
        self.lose_connection(switch, Time::ZERO, Some(latency));
        self.mark_disturbed(switch, self.bounds.silence + self.bounds.react);
    }

    fn lose_tables(&mut self, switch: usize, without: Option<PortNo>) {
        let state = &mut self.switches[switch];
        let mut config = state.config.clone();
        config.ports.retain(|port| Some(port.port) != without);
        state.switch = Switch::new(config);
        self.oracles.foreign.retain(|(at, _), _| *at != switch);
        let plug = without.and_then(|port| state.plugs[port.0 as usize - 1]);
        let before = std::mem::replace(&mut state.missing, without.map(|port| (port, plug)));
        for (plug, begins) in [(before.and_then(|(_, plug)| plug), false), (plug, true)] {
            let Some(plug) = plug else { continue };
            self.change_plug(plug, begins);
            self.disturb_cable(plug.0, self.bounds.healed + self.bounds.host + self.bounds.react);
        }
    }

    /// Cuts a cable at the side of a switch, or restores it; the other end detects it.
    fn change_plug(&mut self, (cable, side): (usize, usize), begins: bool) {
        self.change_cable(cable, [true; 2], [side == 1, side == 0], begins);
    }

    fn power_on(&mut self, switch: usize) {
        let now = self.now;
        let state = &mut self.switches[switch];
        state.off_count -= 1;
        if state.off_count > 0 {
            return;
        }
        state.is_on = true;
        state.full_at = None;
        state.timer = Time::MAX;
        let plugs = state.plugs.clone();
        state.switch.handle_timeout(now);
        // A power failure closes all connections, even if the tables are kept.
        for connection in self.connections.iter().filter(|(_, at)| **at == switch).map(|(connection, _)| *connection) {
            state.switch.disconnected(now, connection);
        }
        for (port, plug) in (1..).zip(plugs) {
            let is_live = plug.is_some_and(|(cable, side)| self.cables[cable].dark[side] == 0);
            if let Some((cable, side)) = plug {
                self.cables[cable].is_live[side] = is_live;
            }
            self.switches[switch].switch.set_port_live(now, PortNo(port), is_live);
        }
        for plug in self.cables_of(switch) {
            self.change_plug(plug, false);
            self.disturb_cable(plug.0, self.bounds.healed + self.bounds.host + self.bounds.react);
        }
        self.after_switch(switch, None);
        let generation = self.switches[switch].channel.generation;
        self.mark_disturbed(switch, self.bounds.handshake + self.bounds.host + self.bounds.react);
        self.after(Time::from_ms(50), Event::Connect { switch, generation });
    }

    pub(crate) fn stop_controller(&mut self) {
        self.off_count += 1;
        self.forget_impostors();
        self.disruptions.pause.forget();
        self.services.restarted = Some(self.now);
        if let Some(controller) = self.controller.take() {
            self.report.moves += controller.tally().moves;
        }
        self.controller_timer = Time::MAX;
        // The agents will connect to a new controller, which has no memory.
        self.report_threshold = None;
        self.flows.iter_mut().for_each(|flow| flow.is_reported = false);
        for switch in 0..self.switches.len() {
            let latency = self.plan.switches[switch].latency;
            self.lose_connection(switch, latency, None);
        }
        self.connections.clear();
        self.disturb_all(self.now + self.bounds.silence);
    }

    pub(crate) fn resume_controller(&mut self) {
        self.off_count -= 1;
        if self.off_count > 0 {
            return;
        }
        self.services.restarted = Some(self.now);
        self.start_controller();
        let bounds = &self.bounds;
        let lasts = Time::from_ms(400) + bounds.handshake + bounds.host + bounds.react;
        for switch in 0..self.switches.len() {
            self.mark_disturbed(switch, lasts);
        }
    }

    fn move_host(&mut self, host: usize, switch: usize, port: PortNo) {
        let End::Switch(before, old_port) = self.cables[host].ends[1] else { return };
        // Hosts are not moved to or from switches without power, because no port would notice, nor
        // to missing ports.
        let is_missing = |switch: usize, port: PortNo| self.switches[switch].missing.is_some_and(|(at, _)| at == port);
        if !self.switches[switch].is_on || !self.switches[before].is_on {
            return;
        }
        if is_missing(switch, port) || is_missing(before, old_port) {
            return;
        }
        self.services.moved.insert(host, self.now);
        self.switches[before].plugs[old_port.0 as usize - 1] = None;
        self.switches[before].switch.set_port_live(self.now, old_port, false);
        self.after_switch(before, None);
        self.switches[switch].plugs[port.0 as usize - 1] = Some((host, 1));
        let cable = &mut self.cables[host];
        cable.ends[1] = End::Switch(switch, port);
        cable.epoch = cable.epoch.map(|epoch| epoch + 1);
        let is_live = cable.dark[1] == 0;
        cable.is_live[1] = is_live;
        self.switches[switch].switch.set_port_live(self.now, port, is_live);
        self.after_switch(switch, None);
        self.disturb_cable(host, self.bounds.host + self.bounds.healed + self.bounds.react);
        self.announce_once(host);
    }
}
