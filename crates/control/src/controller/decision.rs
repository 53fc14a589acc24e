//! Decisions: from recorded input to the balancer, the desired state, rules and messages.

use balance::central::{
    AgentCommand, CentralCx, DecisionTrigger, DefaultRoutes as Wanted, FlowId, FlowSource, LinkLoad, NetworkView, Path,
    WeightedPath,
};
use net::{FiveTuple, LinkIx, NodeIx, Time};
use openflow::headers::protocol;
use openflow::{ConnectionId, DatapathId, FromController, Message};

use super::Controller;
use crate::planning::pins::PinContext;
use crate::rules::order::{self, Item};
use crate::{Event, Output};

impl Controller {
    /// Makes the decisions that all recorded input requires, compiles them and sends the messages.
    pub(super) fn process_changes(&mut self) {
        self.needs_decision = false;
        if self.status.is_empty() {
            return; // No switch has been ready yet: there is nothing to decide.
        }
        self.update_network();
        self.report_ended_connections();
        while let Some(why) = self.pending_triggers.pop_front() {
            self.run_balancer(why);
        }
        self.network.vacate();
        self.apply_placements();
        self.advance();
        self.dispatch();
        if std::mem::take(&mut self.timers_changed) {
            let expiry = self.discovery.next_expiry(self.config.link_timeout, &self.status);
            self.expiry_at = expiry.into_iter().chain(self.discovery.next_edge(self.now)).min();
        }
    }

    /// Updates rules of ports and hosts after a change of the network, removes dead placements, and
    /// triggers the balancer.
    fn update_network(&mut self) {
        let Controller { network, discovery, .. } = self;
        let has_changed = self.network_changed || self.hosts_changed || self.ports_changed;
        if self.network_changed || self.hosts_changed {
            let ends = network.switch_links();
            let latency = |link| ends.get(&link).and_then(|(from, to)| discovery.latency(*from, *to));
            network.refresh(|link| latency(link).unwrap_or(Time::ZERO));
        }
        if std::mem::take(&mut self.hosts_changed) {
            self.ports_changed = true;
            let before = self.fabric.tickets();
            let left = self.default_routes.set_hosts(&self.network, &self.ports, &mut self.fabric);
            self.vips.hosts_left(&left);
            left.iter().for_each(|address| self.pairs.close(*address, &mut self.fabric));
            let waiting = self.fabric.tickets_since(&before);
            left.into_iter().for_each(|address| self.default_routes.moves.wait(self.now, address, waiting.clone()));
            let lost = self.flows.set_hosts(&self.network, &mut self.fabric);
            self.pending_triggers.extend(lost.into_iter().map(DecisionTrigger::FlowEnded));
            self.mark_splits(|_| true);
            self.network_changed = true;
        }
        self.timers_changed |= self.network_changed || self.ports_changed;
        if std::mem::take(&mut self.ports_changed) {
            let wants_first = self.needs.flows == FlowSource::FirstPackets;
            let (network, discovery) = (&self.network, &self.discovery);
            self.ports.write_rules(self.now, wants_first, network, discovery, &mut self.fabric);
        }
        self.update_services(has_changed);
        if std::mem::take(&mut self.network_changed) {
            self.drop_dead_placements();
            self.default_routes.network_changed();
            self.load.resize(self.network.topology.links().len(), LinkLoad::default());
            // First of all triggers, and once for all changes.
            self.pending_triggers.push_front(DecisionTrigger::NetworkChanged);
        }
    }

    fn drop_dead_placements(&mut self) {
        let is_dead = |path: &[LinkIx]| !self.network.is_path_alive(path);
        let is_cut = |path: &Path| is_dead(path) || (self.placements.acks_follow_path() && is_dead(&reverse(path)));
        let pins = self.placements.pins().iter().filter(|(_, pin)| is_cut(&pin.path));
        let pins: Vec<FlowId> = pins.map(|(flow, _)| *flow).collect();
        let divided = self.placements.splits().iter().filter(|(_, paths)| paths.iter().any(|path| is_dead(&path.path)));
        let alive =
            |paths: &[WeightedPath]| -> Vec<_> { paths.iter().filter(|path| !is_dead(&path.path)).cloned().collect() };
        let divided: Vec<_> = divided.map(|(pair, paths)| (*pair, alive(paths))).collect();
        pins.into_iter().for_each(|flow| self.placements.release(flow));
        for ((from, to), paths) in divided {
            self.placements.split(from, to, paths.into());
        }
    }

    fn run_balancer(&mut self, why: DecisionTrigger) {
        if !self.has_decided && why != DecisionTrigger::NetworkChanged {
            return;
        }
        if let DecisionTrigger::FlowStarted(flow) | DecisionTrigger::FlowEnded(flow) = why
            && self.flows.table.get(flow).is_none()
        {
            return; // The flow ended while the trigger was pending.
        }
        if !self.has_decided {
            self.has_decided = true;
            self.next_period = self.needs.period.map(|period| self.now.saturating_add(period));
        }
        let view = NetworkView {
            now: self.now,
            topology: &self.network.topology,
            alive: self.network.alive(),
            routes: &self.network.routes,
            load: if self.needs.counters { &self.load } else { &[] },
            flows: &self.flows.table,
        };
        let mut cx = CentralCx { rng: &mut self.rng, view: &view };
        self.balancer.decide(&mut cx, why, &mut self.placements);
        self.tally.decisions += 1;
        if let DecisionTrigger::FlowEnded(flow) = why {
            self.apply_placements();
            if let Some(facts) = self.flows.forget(flow, &mut self.fabric) {
                self.placements.release(flow);
                self.rate_limits_sent.remove(&facts.tuple);
                self.unpin(facts.tuple);
            }
        }
    }

    /// Converts the balancer's changes into desired rules of switches and commands for agents.
    pub(super) fn apply_placements(&mut self) {
        let changes = self.placements.take_changes();
        if changes.default_routes
            && let Some(Wanted::Hops(table)) = self.placements.default_routes()
        {
            self.default_routes.set_wanted(table);
        }
        self.pairs.mark(changes.pairs);
        for flow in changes.pins {
            let Some(facts) = self.flows.table.get(flow).copied() else { continue };
            if self.vips.is_pinned(&facts.tuple) {
                continue; // The balancer of its service has already chosen its path.
            }
            let pin = self.placements.pin_of(flow).cloned();
            let (path, rate) = pin.map_or((None, None), |pin| (Some(pin.path), pin.rate));
            let ends = self.network.host(facts.src).zip(self.network.host(facts.dst));
            let ends = ends.map(|(src, dst)| (src.edge, dst.edge));
            self.pin_reverse_flow(facts.tuple, path.as_ref(), ends);
            self.pins.want(facts.tuple, path, ends, true);
            if self.needs.flows == FlowSource::Agents && self.rate_limits_sent.get(&facts.tuple).copied() != rate {
                match rate {
                    Some(rate) => self.rate_limits_sent.insert(facts.tuple, rate),
                    None => self.rate_limits_sent.remove(&facts.tuple),
                };
                self.outputs.push_back(Output::Agents(AgentCommand::SetRateLimit { tuple: facts.tuple, rate }));
            }
        }
        // Always sent once: agents of a controller that has sent no threshold report nothing.
        let above = Some(self.placements.report_threshold_bytes());
        if self.needs.flows == FlowSource::Agents && self.last_report_threshold != above {
            self.last_report_threshold = above;
            self.outputs.extend(above.map(AgentCommand::SetReportThreshold).map(Output::Agents));
        }
    }

    pub(super) fn unpin(&mut self, tuple: FiveTuple) {
        if self.vips.is_pinned(&tuple) {
            return;
        }
        self.pins.want(tuple, None, None, false);
        self.pin_reverse_flow(tuple, None, None);
    }

    /// Pins the reverse flow (acknowledgements) of a connection to the same path, if the balancer
    /// requests it. The reverse path may be dead although the forward path is alive.
    fn pin_reverse_flow(&mut self, tuple: FiveTuple, path: Option<&Path>, ends: Option<(NodeIx, NodeIx)>) {
        let back = tuple.reverse();
        if !self.placements.acks_follow_path()
            || tuple.protocol != protocol::TCP
            || self.flows.table.find(&back).is_some()
        {
            return;
        }
        let path = path.map(reverse).filter(|path| self.network.is_path_alive(path));
        self.pins.want(back, path, ends.map(|(src, dst)| (dst, src)), false);
    }

    fn advance(&mut self) {
        let (now, compiler) = (self.now, self.compiler);
        self.update_host_moves();
        let Controller { default_routes, network, fabric, ports, discovery, .. } = self;
        let with_unknown_ports = || ports.switches_with_unknown_ports(network, discovery);
        if default_routes.update_unconfirmed(now, network, fabric, with_unknown_ports) {
            self.mark_splits(|_| true);
            self.pins.retry_unplaced();
        }
        self.default_routes.advance(now, &self.network, &mut self.fabric);
        let (network, fabric) = (&self.network, &mut self.fabric);
        let pairs = self.pairs.advance(now, compiler, &self.placements, network, &self.default_routes, fabric);
        let around =
            PinContext { compiler, network: &self.network, default_routes: &self.default_routes, pairs: &self.pairs };
        let mut moved = Vec::new();
        let pins = self.pins.advance(now, &around, &mut self.fabric, &mut moved);
        self.resume_at = pairs.into_iter().chain(pins).min();
        self.tally.moves += moved.len() as u64;
        moved.into_iter().for_each(|tuple| self.event(Event::FlowMigrated(tuple)));
        self.release_arp_replies();
        self.release_packets();
    }

    fn update_host_moves(&mut self) {
        let (now, compiler) = (self.now, self.compiler);
        for address in self.default_routes.moves.take_first_step_done(now, &self.fabric) {
            let before = self.fabric.tickets();
            self.pairs.purge(address, &mut self.fabric);
            let around = PinContext {
                compiler,
                network: &self.network,
                default_routes: &self.default_routes,
                pairs: &self.pairs,
            };
            self.pins.purge(address, &around, &mut self.fabric);
            let waiting = self.fabric.tickets_since(&before);
            self.default_routes.moves.wait_for_last_step(now, address, waiting);
        }
        let edges = self.default_routes.arrive(now, &self.network, &mut self.fabric);
        if edges.is_empty() {
            return;
        }
        self.mark_splits(|to| edges.contains(&to));
    }

    /// Marks the desired and installed traffic splits towards some switches for an update.
    fn mark_splits(&mut self, is_meant: impl Fn(NodeIx) -> bool) {
        let divided = self.placements.splits().keys().copied().chain(self.pairs.known());
        let divided: Vec<_> = divided.filter(|(_, to)| is_meant(*to)).collect();
        self.pairs.mark(divided);
    }

    /// Sends missing changes to switches, as far as their windows of unconfirmed batches allow.
    fn dispatch(&mut self) {
        let touched = self.fabric.take_touched();
        if !touched.is_empty() {
            self.verified_routes.clear();
        }
        for node in touched {
            let Some(datapath) = self.network.datapath_of(node) else { continue };
            let Some(connection) = self.connections.get(&datapath).copied() else { continue };
            loop {
                let switch = self.fabric.switches.get_mut(&node).expect("a switch that was touched");
                let items = order::next_batch(switch, self.config.owner);
                if items.is_empty() {
                    break;
                }
                self.send_batch(datapath, connection, node, items);
            }
        }
    }

    fn send_batch(&mut self, datapath: DatapathId, connection: ConnectionId, node: NodeIx, items: Vec<Item>) {
        let last = items.len() - 1;
        let switch = self.fabric.switches.get_mut(&node).expect("a switch with messages to send");
        for (position, item) in items.into_iter().enumerate() {
            let session = self.sessions.get_mut(&connection).expect("a connected switch has a session");
            match item {
                Item::Change(message, sent) => {
                    match &message {
                        Message::GroupMod(_) => self.tally.group_mods += 1,
                        _ => self.tally.flow_mods += 1,
                    }
                    let envelope = session.seal(message);
                    switch.sent.insert(envelope.xid, sent);
                    self.outputs.push_back(Output::Channel(FromController::Message(connection, envelope)));
                }
                Item::Barrier => {
                    let envelope = session.seal(Message::BarrierRequest);
                    switch.barrier_sent(self.now, envelope.xid, position == last);
                    self.outputs.push_back(Output::Channel(FromController::Message(connection, envelope)));
                }
                Item::Occupied(key, error) => {
                    let message = format!(
                        "the rule of table {} with priority {} cannot be installed: a rule of another controller has \
                         its match and priority, or its group was rejected",
                        key.table.0, key.priority.0
                    );
                    self.outputs.push_back(Output::Event(Event::SwitchError { datapath, error, message }));
                }
            }
        }
    }
}

fn reverse(path: &Path) -> Path {
    path.iter().rev().map(|link| link.reverse()).collect()
}
