//! What follows from what happened: facts → balancer → whole desired state → rules → messages.

use balance::central::{
    AgentOrder, Base as Wanted, CentralCx, FlowId, FlowSource, LinkLoad, NetworkView, Path, WeightedPath, Why,
};
use net::{FiveTuple, LinkIx, NodeIx, Time};
use openflow::headers::protocol;
use openflow::{ConnectionId, DatapathId, FromController, Message};

use super::Controller;
use crate::order::{self, Item};
use crate::pins::{Fate, Surroundings};
use crate::{Event, Output};

impl Controller {
    /// Decides, compiles and sends what follows from everything that happened.
    pub(super) fn think(&mut self) {
        self.is_stirred = false;
        if self.status.is_empty() {
            return; // No switch has ever been ready: there is nothing to decide about.
        }
        self.follow_network();
        self.follow_ended();
        while let Some(why) = self.questions.pop_front() {
            self.ask(why);
        }
        self.network.vacate();
        self.follow_placements();
        self.advance();
        self.dispatch();
        if std::mem::take(&mut self.are_timers_new) {
            let expiry = self.discovery.next_expiry(self.config.link_timeout, &self.status);
            self.expiry_at = expiry.into_iter().chain(self.discovery.next_edge(self.now)).min();
        }
    }

    /// The network is new: rules about ports and hosts follow, dead placements go, and the balancer is asked.
    fn follow_network(&mut self) {
        let Controller { network, discovery, .. } = self;
        let has_changed = self.is_network_new || self.are_hosts_new || self.are_ports_new;
        if self.is_network_new || self.are_hosts_new {
            let ends = network.switch_links();
            let latency = |link| ends.get(&link).and_then(|(from, to)| discovery.latency(*from, *to));
            network.refresh(|link| latency(link).unwrap_or(Time::ZERO));
        }
        if std::mem::take(&mut self.are_hosts_new) {
            self.are_ports_new = true;
            let before = self.fabric.tickets();
            let left = self.base.set_hosts(self.compiler, &self.network, &self.ports, &mut self.fabric);
            self.vips.hosts_left(&left);
            left.iter().for_each(|address| self.pairs.close(*address, &mut self.fabric));
            let waiting = self.fabric.tickets_since(&before);
            left.into_iter().for_each(|address| self.base.moves.wait(self.now, address, waiting.clone()));
            let lost = self.flows.set_hosts(self.compiler, &self.network, &mut self.fabric);
            self.questions.extend(lost.into_iter().map(Why::FlowEnded));
            self.mark_divided(|_| true);
            self.is_network_new = true;
        }
        self.are_timers_new |= self.is_network_new || self.are_ports_new;
        if std::mem::take(&mut self.are_ports_new) {
            let wants_first = self.needs.flows == FlowSource::FirstPackets;
            let (network, discovery) = (&self.network, &self.discovery);
            self.ports.write_rules(self.now, self.compiler, wants_first, network, discovery, &mut self.fabric);
        }
        self.follow_services(has_changed);
        if std::mem::take(&mut self.is_network_new) {
            self.drop_dead_placements();
            self.base.network_changed();
            self.load.resize(self.network.topology().links().len(), LinkLoad::default());
            // Before anything else, and once for all that changed.
            self.questions.push_front(Why::Network);
        }
    }

    fn drop_dead_placements(&mut self) {
        let is_dead = |path: &[LinkIx]| !self.network.is_path_alive(path);
        let is_cut = |path: &Path| is_dead(path) || (self.placements.are_acks_along() && is_dead(&reverse(path)));
        let pins = self.placements.pins().iter().filter(|(_, pin)| is_cut(&pin.path));
        let pins: Vec<FlowId> = pins.map(|(flow, _)| *flow).collect();
        let divided = self.placements.pairs().iter().filter(|(_, paths)| paths.iter().any(|path| is_dead(&path.path)));
        let alive =
            |paths: &[WeightedPath]| -> Vec<_> { paths.iter().filter(|path| !is_dead(&path.path)).cloned().collect() };
        let divided: Vec<_> = divided.map(|(pair, paths)| (*pair, alive(paths))).collect();
        pins.into_iter().for_each(|flow| self.placements.release(flow));
        for ((from, to), paths) in divided {
            self.placements.divide(from, to, paths.into());
        }
    }

    fn ask(&mut self, why: Why) {
        if !self.has_decided && why != Why::Network {
            return;
        }
        if let Why::FlowStarted(flow) | Why::FlowEnded(flow) = why
            && self.flows.table.get(flow).is_none()
        {
            return; // It ended while the question waited.
        }
        if !self.has_decided {
            self.has_decided = true;
            self.next_period = self.needs.period.map(|period| self.now.saturating_add(period));
        }
        let view = NetworkView {
            now: self.now,
            topology: self.network.topology(),
            alive: self.network.alive(),
            routes: self.network.routes(),
            load: if self.needs.counters { &self.load } else { &[] },
            flows: &self.flows.table,
        };
        let mut cx = CentralCx { rng: &mut self.rng };
        self.balancer.decide(&mut cx, &view, why, &mut self.placements);
        self.tally.decisions += 1;
        if let Why::FlowEnded(flow) = why {
            self.follow_placements();
            if let Some(facts) = self.flows.forget(self.compiler, flow, &mut self.fabric) {
                self.placements.release(flow);
                self.paced.remove(&facts.tuple);
                self.unpin(facts.tuple);
            }
        }
    }

    /// Turns what the balancer changed into what is wanted of switches and agents.
    pub(super) fn follow_placements(&mut self) {
        let changes = self.placements.take_changes();
        if changes.base
            && let Some(Wanted::Hops(table)) = self.placements.base()
        {
            self.base.set_wanted(table);
        }
        self.pairs.mark(changes.pairs);
        for flow in changes.pins {
            let Some(facts) = self.flows.table.get(flow).copied() else { continue };
            if self.vips.is_pinned(&facts.tuple) {
                continue; // The balancer of its service has picked its path.
            }
            let pin = self.placements.pin_of(flow).cloned();
            let (path, rate) = pin.map_or((None, None), |pin| (Some(pin.path), pin.rate));
            let ends = self.network.host(facts.src).zip(self.network.host(facts.dst));
            let ends = ends.map(|(src, dst)| (src.edge, dst.edge));
            self.want_acks(facts.tuple, path.as_ref(), ends);
            self.pins.want(facts.tuple, path, ends, true);
            if self.needs.flows == FlowSource::Agents && self.paced.get(&facts.tuple).copied() != rate {
                match rate {
                    Some(rate) => self.paced.insert(facts.tuple, rate),
                    None => self.paced.remove(&facts.tuple),
                };
                self.outputs.push_back(Output::Agents(AgentOrder::Pace { tuple: facts.tuple, rate }));
            }
        }
        // Told at first in any case: agents of a controller that has said nothing report nothing.
        let above = Some(self.placements.report_above());
        if self.needs.flows == FlowSource::Agents && self.told_above != above {
            self.told_above = above;
            self.outputs.extend(above.map(AgentOrder::ReportAbove).map(Output::Agents));
        }
    }

    /// A flow is not known any more: nothing leads it.
    pub(super) fn unpin(&mut self, tuple: FiveTuple) {
        if self.vips.is_pinned(&tuple) {
            return;
        }
        self.pins.want(tuple, None, None, false);
        self.want_acks(tuple, None, None);
    }

    /// Leads the other way of a flow's connection back along its path, where the balancer wants that. The way back may be dead where
    /// the way there is not.
    fn want_acks(&mut self, tuple: FiveTuple, path: Option<&Path>, ends: Option<(NodeIx, NodeIx)>) {
        let back = tuple.reverse();
        if !self.placements.are_acks_along()
            || tuple.protocol != protocol::TCP
            || self.flows.table.find(&back).is_some()
        {
            return;
        }
        let path = path.map(reverse).filter(|path| self.network.is_path_alive(path));
        self.pins.want(back, path, ends.map(|(src, dst)| (dst, src)), false);
    }

    /// Goes on with everything that takes several steps.
    fn advance(&mut self) {
        let (now, compiler) = (self.now, self.compiler);
        self.follow_moves();
        let Controller { base, network, fabric, ports, discovery, .. } = self;
        let strangers = || ports.strangers(network, discovery);
        if base.follow_unsure(now, network, fabric, strangers) {
            self.mark_divided(|_| true);
            self.pins.try_missed();
        }
        self.base.advance(now, compiler, &self.network, &mut self.fabric);
        let (network, fabric) = (&self.network, &mut self.fabric);
        let pairs = self.pairs.advance(now, compiler, &self.placements, network, &self.base, fabric);
        let around = Surroundings { compiler, network: &self.network, base: &self.base, pairs: &self.pairs };
        let mut fates = Vec::new();
        let pins = self.pins.advance(now, &around, &mut self.fabric, &mut fates);
        self.resume_at = pairs.into_iter().chain(pins).min();
        for fate in fates {
            if let Fate::Moved(tuple) = fate {
                self.tally.moves += 1;
                self.event(Event::Migrated(tuple));
            }
        }
        self.release_answers();
        self.release_packets();
    }

    /// Goes on with hosts that have left a switch.
    fn follow_moves(&mut self) {
        let (now, compiler) = (self.now, self.compiler);
        for address in self.base.moves.take_bare(now, &self.fabric) {
            let before = self.fabric.tickets();
            self.pairs.purge(address, &mut self.fabric);
            let around = Surroundings { compiler, network: &self.network, base: &self.base, pairs: &self.pairs };
            self.pins.purge(address, &around, &mut self.fabric);
            let waiting = self.fabric.tickets_since(&before);
            self.base.moves.wait_last(now, address, waiting);
        }
        let edges = self.base.arrive(now, compiler, &self.network, &mut self.fabric);
        if edges.is_empty() {
            return;
        }
        self.mark_divided(|to| edges.contains(&to));
    }

    /// Divisions towards some switches, wanted or known, are looked at again.
    fn mark_divided(&mut self, is_meant: impl Fn(NodeIx) -> bool) {
        let divided = self.placements.pairs().keys().copied().chain(self.pairs.known());
        let divided: Vec<_> = divided.filter(|(_, to)| is_meant(*to)).collect();
        self.pairs.mark(divided);
    }

    /// Sends what switches lack, as far as their windows allow.
    fn dispatch(&mut self) {
        let touched = self.fabric.take_touched();
        if !touched.is_empty() {
            self.led.clear();
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
        let switch = self.fabric.switches.get_mut(&node).expect("a switch something is sent to");
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
                    let words = format!(
                        "the rule of table {} with priority {} cannot be installed: the place is taken by a rule of another \
                         controller, or its group was refused",
                        key.table.0, key.priority.0
                    );
                    self.outputs.push_back(Output::Event(Event::Refused { datapath, error, words }));
                }
            }
        }
    }
}

/// A path the other way.
fn reverse(path: &Path) -> Path {
    path.iter().rev().map(|link| link.reverse()).collect()
}
