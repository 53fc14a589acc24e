//! Decisions: from changes to the balancer, and from its placements to desired rules.

use std::collections::BTreeSet;

use balance::central::{
    AgentCommand, CentralCx, DecisionTrigger, DefaultRoutes as Wanted, FlowId, FlowSource, LinkLoad, NetworkView, Path,
    WeightedPath,
};
use core::net::Ipv4Addr;
use net::{FiveTuple, LinkIx, NodeIx};
use openflow::headers::protocol;

use super::Planner;
use super::pins::PinContext;
use crate::Event;
use crate::changes::Change;
use crate::observer::network::Network;
use crate::observer::{Cx, Observer};
use crate::updater::Updater;

impl Planner {
    /// Updates rules of hosts after hosts have come or gone. Returns the addresses that have left a
    /// switch.
    pub(crate) fn update_hosts(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &mut Observer,
        updater: &mut Updater,
    ) -> Vec<Ipv4Addr> {
        let before = updater.tickets();
        let left = self.default_routes.set_hosts(observer, updater);
        left.iter().for_each(|address| self.splits.close(*address, updater));
        let waiting = updater.tickets_since(&before);
        left.iter().for_each(|address| self.default_routes.moves.wait(cx.now, *address, waiting.clone()));
        let lost = observer.flows.set_hosts(&observer.network, updater);
        lost.into_iter().for_each(|flow| cx.changes.push(Change::FlowEnded(flow)));
        self.mark_splits(|_| true);
        left
    }

    /// Handles a change of the network: removes dead placements, and triggers the balancer.
    pub(crate) fn update_network(&mut self, cx: &mut Cx<'_>, observer: &mut Observer, updater: &mut Updater) {
        self.drop_dead_placements(&observer.network);
        self.default_routes.network_changed();
        observer.load.resize(observer.network.topology.links().len(), LinkLoad::default());
        // First of all triggers, and once for all changes.
        self.decide(cx, observer, updater, DecisionTrigger::NetworkChanged);
    }

    fn drop_dead_placements(&mut self, network: &Network) {
        let is_dead = |path: &[LinkIx]| !network.is_path_alive(path);
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

    /// Passes a trigger to the balancer.
    pub(crate) fn decide(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &mut Observer,
        updater: &mut Updater,
        why: DecisionTrigger,
    ) {
        if !self.has_decided && why != DecisionTrigger::NetworkChanged {
            return;
        }
        if let DecisionTrigger::FlowStarted(flow) | DecisionTrigger::FlowEnded(flow) = why
            && observer.flows.table.get(flow).is_none()
        {
            return; // The flow ended while the trigger was pending.
        }
        if !self.has_decided {
            self.has_decided = true;
            let first = self.balancer.first_period().or(observer.needs.period);
            self.next_period = first.map(|first| cx.now.saturating_add(first));
        }
        let view = NetworkView {
            now: cx.now,
            topology: &observer.network.topology,
            alive: observer.network.alive(),
            routes: &observer.network.routes,
            load: if observer.needs.counters { &observer.load } else { &[] },
            flows: &observer.flows.table,
            legacy: observer.network.legacy(),
        };
        let mut central = CentralCx { rng: &mut self.rng, view: &view };
        self.balancer.decide(&mut central, why, &mut self.placements);
        cx.channels.tally.decisions += 1;
        if let DecisionTrigger::FlowEnded(flow) = why {
            self.apply_placements(cx, observer);
            if let Some(info) = observer.flows.forget(flow, updater) {
                self.placements.release(flow);
                self.rate_limits_sent.remove(&info.tuple);
                self.unpin(observer, info.tuple);
            }
        }
    }

    /// Converts the balancer's changes into desired rules of switches and commands for agents.
    pub(crate) fn apply_placements(&mut self, cx: &mut Cx<'_>, observer: &Observer) {
        let changes = self.placements.take_changes();
        if changes.default_routes
            && let Some(Wanted::Hops(table)) = self.placements.default_routes()
        {
            self.default_routes.set_wanted(table);
        }
        self.splits.mark(changes.pairs);
        let ordered: BTreeSet<FlowId> = changes.order.iter().copied().collect();
        let in_order = changes.order.iter().filter(|flow| changes.pins.contains(flow));
        for flow in changes.pins.iter().filter(|flow| !ordered.contains(flow)).chain(in_order).copied() {
            let Some(info) = observer.flows.table.get(flow).copied() else { continue };
            if self.is_connection_pinned(&info.tuple) {
                continue; // The balancer of its service has already chosen its path.
            }
            let pin = self.placements.pin_of(flow).cloned();
            let (path, rate) = pin.map_or((None, None), |pin| (Some(pin.path), pin.rate));
            let is_queued = path.is_some() && ordered.contains(&flow);
            self.pin_reverse_flow(observer, info.tuple, path.as_ref());
            self.pins.want(info.tuple, path, true);
            if is_queued {
                self.pins.queue(info.tuple);
            }
            if observer.needs.flows == FlowSource::Agents && self.rate_limits_sent.get(&info.tuple).copied() != rate {
                match rate {
                    Some(rate) => self.rate_limits_sent.insert(info.tuple, rate),
                    None => self.rate_limits_sent.remove(&info.tuple),
                };
                cx.channels.command(AgentCommand::SetRateLimit { tuple: info.tuple, rate });
            }
        }
        // Always sent once: agents of a controller that has sent no threshold report nothing.
        let above = Some(self.placements.report_threshold_bytes());
        if observer.needs.flows == FlowSource::Agents && self.last_report_threshold != above {
            self.last_report_threshold = above;
            above.into_iter().for_each(|above| cx.channels.command(AgentCommand::SetReportThreshold(above)));
        }
    }

    pub(super) fn unpin(&mut self, observer: &Observer, tuple: FiveTuple) {
        if self.is_connection_pinned(&tuple) {
            return;
        }
        self.pins.want(tuple, None, false);
        self.pin_reverse_flow(observer, tuple, None);
    }

    /// Pins the reverse flow (acknowledgements) of a connection to the same path, if the balancer
    /// requests it. The reverse path may be dead although the forward path is alive.
    fn pin_reverse_flow(&mut self, observer: &Observer, tuple: FiveTuple, path: Option<&Path>) {
        let back = tuple.reverse();
        if !self.placements.acks_follow_path()
            || tuple.protocol != protocol::TCP
            || observer.flows.table.find(&back).is_some()
        {
            return;
        }
        let path = path.map(reverse).filter(|path| observer.network.is_path_alive(path));
        self.pins.want(back, path, false);
    }

    /// Continues all changes of rules as far as confirmations allow.
    pub(crate) fn advance(&mut self, cx: &mut Cx<'_>, observer: &Observer, updater: &mut Updater) {
        let (now, compiler, network) = (cx.now, updater.compiler, &observer.network);
        self.update_host_moves(cx, network, updater);
        let with_unknown_ports = || observer.switches_with_unknown_ports();
        if self.default_routes.update_unconfirmed(now, network, updater, with_unknown_ports) {
            self.mark_splits(|_| true);
            self.pins.retry_unplaced();
        }
        self.default_routes.advance(now, network, updater);
        let splits = self.splits.advance(now, compiler, &self.placements, network, &self.default_routes, updater);
        let around = PinContext { compiler, network, default_routes: &self.default_routes };
        let mut moved = Vec::new();
        let pins = self.pins.advance(now, &around, updater, &mut moved);
        self.resume_at = splits.into_iter().chain(pins).min();
        cx.channels.tally.moves += moved.len() as u64;
        moved.into_iter().for_each(|tuple| cx.channels.event(Event::FlowMigrated(tuple)));
    }

    fn update_host_moves(&mut self, cx: &Cx<'_>, network: &Network, updater: &mut Updater) {
        let (now, compiler) = (cx.now, updater.compiler);
        for address in self.default_routes.moves.take_first_step_done(now, updater) {
            let before = updater.tickets();
            self.splits.purge(compiler, address, updater);
            let around = PinContext { compiler, network, default_routes: &self.default_routes };
            self.pins.purge(address, &around, updater);
            let waiting = updater.tickets_since(&before);
            self.default_routes.moves.wait_for_last_step(now, address, waiting);
        }
        let edges = self.default_routes.arrive(now, network, updater);
        if edges.is_empty() {
            return;
        }
        self.mark_splits(|to| edges.contains(&to));
    }

    /// Marks the desired and installed traffic splits towards some switches for an update.
    fn mark_splits(&mut self, is_meant: impl Fn(NodeIx) -> bool) {
        let divided = self.placements.splits().keys().copied().chain(self.splits.known());
        let divided: Vec<_> = divided.filter(|(_, to)| is_meant(*to)).collect();
        self.splits.mark(divided);
    }
}

fn reverse(path: &Path) -> Path {
    path.iter().rev().map(|link| link.reverse()).collect()
}
