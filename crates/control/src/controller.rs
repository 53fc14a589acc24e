//! The controller: passes input to its parts, and changes from one part to the next.
//!
//! Input is recorded immediately. Decisions are made when the driver polls for output, so
//! simultaneous events cause one decision.

use std::collections::VecDeque;

use balance::central::{AgentReport, CentralBalancer};
use balance::server::ServerStats;
use core::net::Ipv4Addr;
use net::Time;
use openflow::{ConnectionId, DatapathId, Envelope, ErrorKind, Message, ToController, Xid};

use crate::changes::{Change, ChangeQueue, ChangedState};
use crate::channels::{Channels, ReadBack, Received};
use crate::edge::{EdgeService, RouteInput};
use crate::inspect::Inspection;
use crate::observer::{Cx, Observer, Packet};
use crate::planner::Planner;
use crate::updater::Updater;
use crate::vip::{Parts, Services, ServicesError, VipService};
use crate::{Config, ControllerStats, Event, Output};

pub struct Controller {
    config: Config,
    now: Time,
    /// Whether input was recorded since the last decision.
    needs_decision: bool,
    changes: ChangeQueue,
    channels: Channels,
    observer: Observer,
    planner: Planner,
    updater: Updater,
    vips: VipService,
    edge: Option<EdgeService>,
}

impl Controller {
    /// Returns a controller that knows only its configuration.
    pub fn new(config: Config, balancer: Box<dyn CentralBalancer>) -> Controller {
        let mut changes = ChangeQueue::default();
        [Change::Network, Change::Hosts].into_iter().for_each(|change| changes.push(change));
        let vips = VipService::new(&config);
        let mut observer = Observer::new(&config, balancer.needs());
        vips.publish(&mut observer);
        Controller {
            now: Time::ZERO,
            needs_decision: false,
            changes,
            channels: Channels::default(),
            observer,
            planner: Planner::new(&config, balancer),
            updater: Updater::new(config.owner),
            vips,
            edge: config.edge.as_ref().map(EdgeService::new),
            config,
        }
    }

    fn wake(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.needs_decision = true;
    }

    /// Returns the edge, if there is one, with the parts that it uses.
    fn with_edge<T>(&mut self, act: impl FnOnce(&mut EdgeService, &mut Parts<'_>) -> T) -> Option<T> {
        let mut edge = self.edge.take()?;
        let result = act(&mut edge, &mut self.parts().0);
        self.edge = Some(edge);
        Some(result)
    }

    fn parts(&mut self) -> (Parts<'_>, &mut VipService) {
        let Controller { config, now, changes, channels, observer, planner, updater, vips, .. } = self;
        (Parts { cx: Cx { now: *now, config, channels, changes }, observer, planner, updater }, vips)
    }

    pub fn handle(&mut self, now: Time, input: ToController) {
        match input {
            ToController::Connected(connection) => {
                self.wake(now);
                self.channels.open(self.now, &self.config, connection);
            }
            ToController::Disconnected(connection) => {
                self.wake(now);
                self.channels.disconnected(connection);
                self.forget_lost();
            }
            ToController::Message(connection, envelope) => self.handle_message(now, connection, &envelope),
        }
    }

    /// Handles a message, like [`Controller::handle`], without taking ownership of it.
    pub fn handle_message(&mut self, now: Time, connection: ConnectionId, envelope: &Envelope) {
        self.wake(now);
        match self.channels.receive(self.now, &self.config, connection, envelope) {
            Received::Nothing => {}
            Received::Ready(read_back) => self.switch_ready(read_back),
            Received::Message(datapath) => self.message(connection, datapath, envelope),
            Received::Demoted(datapath) => self.demoted(datapath),
        }
        self.forget_lost();
    }

    pub fn handle_agent_report(&mut self, now: Time, report: AgentReport) {
        self.wake(now);
        let (mut on, _) = self.parts();
        on.observer.agent_report(&mut on.cx, on.updater, report);
    }

    /// Handles a report of an agent about its server. Returns whether the server is a member of any
    /// pool. It counts for 15 s.
    pub fn handle_member_report(&mut self, now: Time, address: Ipv4Addr, stats: ServerStats) -> bool {
        self.wake(now);
        self.vips.member_report(self.now, address, stats)
    }

    /// Handles what a router reports of its BGP peers. It has no effect without
    /// [`Config::edge`](crate::Config::edge).
    pub fn handle_routes(&mut self, now: Time, input: &RouteInput) {
        self.wake(now);
        let now = self.now;
        self.edge.iter_mut().for_each(|edge| edge.handle(now, input));
    }

    /// Replaces the virtual services. Unchanged ones are left alone, and removed members keep their
    /// connections. Connections of removed services, and of members whose number belongs to another
    /// server now, are closed. After a restart it must be called before switches connect, so that
    /// connections continue.
    ///
    /// # Errors
    ///
    /// [`ServicesError`] names the first invalid setting; nothing has changed then.
    pub fn set_services(&mut self, now: Time, wanted: Services) -> Result<(), ServicesError> {
        if self.vips.check(&self.config, &wanted)? {
            self.wake(now);
            let (mut on, vips) = self.parts();
            vips.set_services(&mut on, wanted);
        }
        Ok(())
    }

    /// Replaces the central balancer while traffic continues. Known flows stay known if both
    /// balancers use the same source of flows.
    pub fn set_balancer(&mut self, now: Time, balancer: Box<dyn CentralBalancer>) {
        self.wake(now);
        let (mut on, vips) = self.parts();
        on.planner.set_balancer(&mut on.cx, on.observer, on.updater, balancer);
        vips.report_all_flows();
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.produce_outputs();
        self.channels.next_output()
    }

    fn produce_outputs(&mut self) {
        if self.channels.has_outputs() {
            return;
        }
        match self.needs_decision {
            true => self.decide(),
            false => self.dispatch(),
        }
    }

    /// Swaps the pending outputs with `outputs`, which is faster than [`Controller::poll_output`].
    /// Returns whether there are any; the driver calls it until it returns false.
    pub fn take_outputs(&mut self, outputs: &mut VecDeque<Output>) -> bool {
        outputs.clear();
        self.produce_outputs();
        self.channels.swap_outputs(outputs);
        !outputs.is_empty()
    }

    /// Returns when [`Controller::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let (now, config, channels) = (self.now, &self.config, &self.channels);
        let services = self.vips.poll_timeout(now).filter(|_| channels.is_any_connected());
        let timers = [
            channels.poll_timeout(),
            self.observer.poll_timeout(now, config, channels),
            self.planner.poll_timeout(),
            self.updater.next_late(now),
            self.updater.next_audit(),
            services,
            self.edge.as_ref().and_then(EdgeService::poll_timeout),
        ];
        timers.into_iter().flatten().min()
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.wake(now);
        self.channels.keep_alive(self.now, &self.config);
        self.forget_lost();
        let (mut on, vips) = self.parts();
        on.observer.expire(&mut on.cx, on.updater);
        vips.run_timers(&mut on);
        on.observer.send_probes(&mut on.cx);
        on.observer.record_due(&mut on.cx);
        vips.time_has_passed();
        if on.observer.begin_poll(&on.cx) {
            vips.poll_connections(&mut on);
            on.observer.request_counters(&mut on.cx);
        }
        on.planner.poll_period(&mut on.cx, on.observer);
        self.with_edge(|edge, on| edge.handle_timeout(on));
        let (on, _) = self.parts();
        let datapath_of = |node| on.observer.network.datapath_of(node);
        on.updater.run_audits(on.cx.now, on.cx.config, on.cx.channels, datapath_of);
    }

    pub fn inspect(&self) -> Inspection<'_> {
        let Controller { config, channels, observer, planner, updater, vips, edge, .. } = self;
        Inspection { now: self.now, config, channels, observer, planner, updater, vips, edge: edge.as_ref() }
    }

    pub fn tally(&self) -> ControllerStats {
        ControllerStats {
            stale_samples: self.channels.tally.stale_samples + self.observer.flows.stale,
            arp_requests_suppressed: self.observer.arp.requests_suppressed,
            ..self.channels.tally
        }
    }

    /// Returns whether all sent messages are confirmed, none is pending, and no migration is in
    /// progress.
    pub fn is_settled(&self) -> bool {
        !self.needs_decision
            && !self.channels.has_outputs()
            && self.channels.are_all_ready()
            && self.planner.is_settled()
            && self.updater.is_settled()
    }

    fn forget_lost(&mut self) {
        for datapath in self.channels.take_lost() {
            let (mut on, vips) = self.parts();
            on.observer.switch_lost(&mut on.cx, datapath);
            vips.forget_round_of(&mut on, datapath);
            if let Some(node) = on.observer.network.node_of(datapath) {
                on.updater.switch_lost(node);
            }
        }
    }

    /// Starts to use a switch after its table read-back. Each part takes its own rules from it.
    fn switch_ready(&mut self, mut read_back: ReadBack) {
        let (mut on, vips) = self.parts();
        let (connection, datapath) = (read_back.connection, read_back.datapath);
        let is_first_time = on.observer.switch_connected(&on.cx, &read_back);
        if read_back.is_replacement {
            vips.forget_round_of(&mut on, datapath);
        }
        let node = on.observer.network.add_switch(datapath);
        on.updater.add_common_rules(node);
        on.planner.recover_addressing(on.updater, datapath, &read_back.rules);
        on.observer.recover_counters(&mut on.cx, &mut read_back);
        let found = vips.recover_connections(&mut on, connection, datapath, &mut read_back.rules);
        vips.recover_slots(&mut on, node, &read_back.rules);
        let has_leftovers = on.updater.switch_ready(on.cx.config, node, &read_back);
        let (mut on, vips) = self.switch_of_edge(is_first_time, &read_back);
        vips.repair_connections(&mut on, connection, found);
        // A switch lost during its recovery hold has not been judged yet.
        let was_held = std::mem::take(&mut on.updater.switch(node).is_held);
        if (is_first_time || was_held) && has_leftovers {
            on.updater.switch(node).is_held = true;
            on.observer.begin_recovery(&on.cx, &read_back);
        }
        on.updater.begin_audits(on.cx.now, on.cx.config, on.cx.channels, (node, connection));
        let is_slave = read_back.is_slave;
        on.observer.switch_ready(&mut on.cx, read_back);
        if is_slave {
            self.demoted(datapath);
        }
    }

    /// Passes a switch to the edge, whose rules it may have.
    fn switch_of_edge(&mut self, is_first_time: bool, read_back: &ReadBack) -> (Parts<'_>, &mut VipService) {
        self.with_edge(|edge, on| {
            if is_first_time {
                edge.recover(on, read_back.datapath, &read_back.rules);
            }
            edge.switch_ready(on.cx.now, read_back.datapath);
        });
        self.parts()
    }

    /// Handles a switch that has another master now.
    fn demoted(&mut self, datapath: DatapathId) {
        self.channels.event(Event::Demoted(datapath));
        if let Some(node) = self.observer.network.node_of(datapath) {
            self.updater.switch(node).is_slave = true;
        }
    }

    /// Handles a message of a switch that is ready.
    fn message(&mut self, connection: ConnectionId, datapath: DatapathId, envelope: &Envelope) {
        let (now, xid, message) = (self.now, envelope.xid, &envelope.message);
        if let (Some(edge), Message::MultipartReply { reply, has_more }) = (&mut self.edge, message)
            && edge.counted(now, (datapath, xid), reply, *has_more)
        {
            return;
        }
        let (mut on, vips) = self.parts();
        if let Message::PacketIn(packet) = message {
            if on.planner.addressed_packet(&mut on.cx, on.observer, on.updater, datapath, packet) {
                return;
            }
            match on.observer.packet_in(&mut on.cx, on.updater, (connection, datapath), packet) {
                Packet::Handled => {}
                Packet::Relay(at, request) => {
                    on.planner.relay_arp(&mut on.cx, on.observer, on.updater, (at, request));
                }
                Packet::Arp(held) => {
                    if !on.planner.lookup_address(&mut on.cx, on.observer, on.updater, &held) {
                        return;
                    }
                    let are_connected = vips.are_connected(&mut on, held.to, held.requester, held.target);
                    on.planner.answer_arp(&mut on.cx, on.observer, held, are_connected);
                }
                Packet::Virtual(at, headers) => vips.virtual_packet(&mut on, at, &headers, &packet.data),
            }
            return;
        }
        let Some(node) = on.observer.network.node_of(datapath) else { return };
        match message {
            Message::PortStatus { .. } => {
                let ports = on.cx.channels.sessions[&connection].ports.clone();
                on.observer.set_ports(&mut on.cx, datapath, ports);
            }
            Message::BarrierReply if vips.connection_confirmed(&mut on, connection, datapath, xid) => {}
            // The rule that sends probes to the controller is installed only now.
            Message::BarrierReply if on.updater.switch(node).barrier(xid) => on.observer.probe_soon(&on.cx),
            Message::Error { kind, .. } => self.refused((connection, datapath), xid, *kind),
            Message::FlowRemoved(removed) if on.observer.counter_removed(&mut on.cx, datapath, removed) => {}
            Message::FlowRemoved(removed) if vips.connection_removed(&mut on, datapath, removed) => {}
            Message::FlowRemoved(removed) => {
                on.planner.addressing_removed(on.observer, on.updater, datapath, removed);
                on.updater.switch(node).removed(removed);
            }
            Message::MultipartReply { reply, has_more }
                if on.updater.audit_reply(on.cx.now, on.cx.channels, (node, datapath, xid), reply, *has_more) => {}
            Message::MultipartReply { reply, has_more }
                if vips.connections_counted(&mut on, datapath, xid, reply, *has_more) => {}
            Message::MultipartReply { reply, has_more } => {
                on.observer.counters(&mut on.cx, (datapath, xid), reply, *has_more);
            }
            _ => {}
        }
    }

    /// Handles the rejection of a message.
    fn refused(&mut self, (connection, datapath): (ConnectionId, DatapathId), xid: Xid, error: ErrorKind) {
        let (mut on, vips) = self.parts();
        if vips.connection_refused(&mut on, connection, datapath, xid, error) {
            return;
        }
        let node = on.observer.network.node_of(datapath);
        if node.is_some_and(|node| on.updater.audit_refused(node, xid)) {
            return;
        }
        let message = if on.observer.counter_refused(&mut on.cx, connection, xid) {
            "a flow is not counted; it is tried again after its idle timeout".to_owned()
        } else if let Some(refusal) = node.and_then(|node| on.updater.refused(node, xid, error)) {
            refusal.key.iter().for_each(|key| vips.record_rejected(key));
            refusal.message
        } else {
            on.observer.forget_polls_of(datapath); // It may have been the poll: the next one may be sent.
            vips.forget_round_of(&mut on, datapath);
            "a request other than a change of rules was refused".to_owned()
        };
        on.cx.channels.event(Event::SwitchError { datapath, error, message });
    }

    /// Passes changes from part to part, makes the decisions they require, and sends the messages.
    fn decide(&mut self) {
        self.needs_decision = false;
        let (mut on, _) = self.parts();
        if on.observer.status.is_empty() {
            return; // No switch has been ready yet: there is nothing to decide.
        }
        let changes = on.cx.changes.take_changes();
        let has_changed = changes.network || changes.hosts || changes.ports;
        if changes.network || changes.hosts {
            on.observer.refresh_network();
        }
        if on.planner.addressing.is_some() {
            on.planner.update_addressing(&mut on.cx, on.observer, on.updater, has_changed);
        } else {
            self.plan_flat(changes);
        }
        let (mut on, vips) = self.parts();
        vips.release_arp_replies(&mut on, has_changed || changes.switches);
        vips.release_packets(&mut on);
        if has_changed || changes.switches || std::mem::take(&mut on.observer.discovery.has_new_edge_times) {
            on.observer.update_expiry(on.cx.now, on.cx.config);
        }
        self.dispatch();
    }

    /// Decides with flat addresses: default routes, splits and pins of the balancer, virtual services,
    /// and uplinks.
    fn plan_flat(&mut self, changes: ChangedState) {
        let has_changed = changes.network || changes.hosts || changes.ports;
        let (mut on, vips) = self.parts();
        if changes.hosts {
            let left = on.planner.update_hosts(&mut on.cx, on.observer, on.updater);
            vips.hosts_left(&left);
        }
        if changes.hosts || changes.ports {
            on.planner.port_rules.write(on.cx.now, on.observer, on.updater);
        }
        vips.update(&mut on, has_changed);
        self.with_edge(|edge, on| edge.update(on, has_changed));
        let (mut on, vips) = self.parts();
        vips.report_ended_connections(&mut on);
        if changes.network || changes.hosts {
            on.planner.update_network(&mut on.cx, on.observer, on.updater);
        }
        while let Some(why) = on.cx.changes.next_trigger() {
            on.planner.decide(&mut on.cx, on.observer, on.updater, why);
        }
        on.observer.network.vacate();
        on.planner.apply_placements(&mut on.cx, on.observer);
        on.planner.advance(&mut on.cx, on.observer, on.updater);
        self.with_edge(|edge, on| edge.update_inner(on));
    }

    /// Sends changes to switches until many messages wait for the driver.
    fn dispatch(&mut self) {
        let (on, _) = self.parts();
        let datapath_of = |node| on.observer.network.datapath_of(node);
        if on.updater.dispatch(on.cx.now, on.cx.channels, datapath_of) {
            on.planner.rules_changed();
        }
    }
}
