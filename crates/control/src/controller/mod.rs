//! The controller. Input is recorded immediately; decisions are made when the driver polls for
//! output, so simultaneous events cause one decision.

mod balancer_swap;
mod decision;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use balance::central::{AgentReport, CentralBalancer, CentralNeeds, DecisionTrigger, FlowSource, LinkLoad, Placements};
use core::net::Ipv4Addr;
use net::{Bandwidth, FiveTuple, NodeIx, RandomStream, Time, Topology};
use openflow::{ConnectionId, DatapathId, Envelope, ErrorKind, FlowStats, FromController, Message, ToController, Xid};

use crate::flows::Flows;
use crate::hosts::arp::{Arp, PendingArpReplies};
use crate::hosts::candidates::HostCandidates;
use crate::hosts::limits::HostLimits;
use crate::hosts::recovery::HostRecovery;
use crate::network::{Network, SwitchPort};
use crate::planning::compile::Compiler;
use crate::planning::default_routes::DefaultRoutes;
use crate::planning::ecmp_hashing::{HashingMethod, OPEN_VSWITCH};
use crate::planning::pins::Pins;
use crate::planning::traffic_splits::TrafficSplits;
use crate::rules::installers::Installers;
use crate::rules::store::Installer;
use crate::switches::counters::{PendingPoll, Sample};
use crate::switches::damping::Damping;
use crate::switches::discovery::{Discovery, Status};
use crate::switches::ports::Ports;
use crate::switches::session::{CloseReason, Session, SessionAction};
use crate::vip::Vips;
use crate::{Config, ControllerStats, EcmpHashing, Event, Output};

/// Time the controller waits to learn the network before it judges the rules of a previous
/// controller instance.
const RECOVERY_HOLD: Time = Time::from_ms(1000);

/// Limit on the memory of all table read-backs, in read-backs of the largest size.
const READ_BACKS_AT_ONCE: usize = 4;

/// Capacity kept in the empty output queue. A starting network causes many outputs at once, and no
/// more later.
const OUTPUTS_KEPT: usize = 2_048;

pub struct Controller {
    pub(crate) config: Config,
    balancer: Box<dyn CentralBalancer>,
    pub(crate) needs: CentralNeeds,
    rng: RandomStream,
    pub(crate) compiler: Compiler,
    pub(crate) now: Time,
    pub(crate) sessions: BTreeMap<ConnectionId, Session>,
    pub(crate) connections: BTreeMap<DatapathId, ConnectionId>,
    /// Sum of [`Session::read_back_bytes`] over all sessions.
    read_back_bytes: usize,
    pub(crate) status: BTreeMap<DatapathId, Status>,
    /// Switches in recovery hold, with its end.
    pub(crate) recovering: BTreeMap<DatapathId, Time>,
    pub(crate) network: Network,
    pub(crate) discovery: Discovery,
    pub(crate) ports: Ports,
    pub(crate) damping: Damping,
    pub(crate) arp: Arp,
    pub(crate) pending_arp_replies: PendingArpReplies,
    /// Switches with verified rules towards an address; cleared when a message is sent to any
    /// switch.
    pub(crate) verified_routes: BTreeSet<(NodeIx, Ipv4Addr)>,
    pub(crate) host_candidates: HostCandidates,
    pub(crate) room: HostLimits,
    pub(crate) host_recovery: HostRecovery,
    /// No further probe of ports for host candidates is needed before this time.
    pub(crate) candidates_probed_until: Time,
    pub(crate) flows: Flows,
    pub(crate) vips: Vips,
    pub(crate) port_samples: BTreeMap<SwitchPort, [Sample; 2]>,
    pub(crate) load: Vec<LinkLoad>,
    pub(crate) polls_out: BTreeMap<DatapathId, PendingPoll>,
    pub(crate) next_poll_number: u32,
    pub(crate) fabric: Installers,
    pub(crate) default_routes: DefaultRoutes,
    pairs: TrafficSplits,
    pub(crate) pins: Pins,
    placements: Placements,
    rate_limits_sent: BTreeMap<FiveTuple, Bandwidth>,
    last_report_threshold: Option<u64>,
    outputs: VecDeque<Output>,
    pub(crate) pending_triggers: VecDeque<DecisionTrigger>,
    pub(crate) network_changed: bool,
    pub(crate) hosts_changed: bool,
    pub(crate) ports_changed: bool,
    /// Whether links, ports or connections changed, so that the next expiry must be recomputed.
    pub(crate) timers_changed: bool,
    /// When the first link may expire or a port become an edge port. Confirmations only postpone
    /// it.
    pub(crate) expiry_at: Option<Time>,
    /// Whether input was recorded since the last decision.
    pub(crate) needs_decision: bool,
    has_decided: bool,
    resume_at: Option<Time>,
    pub(crate) next_poll: Option<Time>,
    pub(crate) next_period: Option<Time>,
    pub(crate) tally: ControllerStats,
}

impl Controller {
    /// Returns a controller that knows only its configuration.
    pub fn new(config: Config, balancer: Box<dyn CentralBalancer>) -> Controller {
        let needs = balancer.needs();
        let mut network = Network::new(&config);
        for (_, end) in network.host_ends() {
            network.set_hosts_alive(end, false); // Until their switches connect.
        }
        network.refresh(|_| Time::ZERO);
        Controller {
            rng: RandomStream::new(config.seed, "central balancer"),
            compiler: Compiler { owner: config.owner },
            now: Time::ZERO,
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            read_back_bytes: 0,
            status: BTreeMap::new(),
            recovering: BTreeMap::new(),
            discovery: Discovery::new(config.discovery_key()),
            ports: Ports::default(),
            damping: Damping::default(),
            arp: Arp::default(),
            pending_arp_replies: PendingArpReplies::default(),
            verified_routes: BTreeSet::new(),
            host_candidates: HostCandidates::default(),
            room: HostLimits::default(),
            host_recovery: HostRecovery::default(),
            candidates_probed_until: Time::ZERO,
            flows: Flows::new(needs.flows, config.flow_idle_timeout_s),
            vips: Vips::new(&config),
            port_samples: BTreeMap::new(),
            load: Vec::new(),
            polls_out: BTreeMap::new(),
            next_poll_number: 0,
            fabric: Installers::new(config.owner),
            default_routes: DefaultRoutes::default(),
            pairs: TrafficSplits::default(),
            pins: Pins::default(),
            placements: Placements::default(),
            rate_limits_sent: BTreeMap::new(),
            last_report_threshold: None,
            outputs: VecDeque::new(),
            pending_triggers: VecDeque::new(),
            network_changed: true,
            hosts_changed: true,
            ports_changed: true,
            timers_changed: true,
            expiry_at: None,
            needs_decision: false,
            has_decided: false,
            resume_at: None,
            next_poll: None,
            next_period: None,
            tally: ControllerStats::default(),
            network,
            needs,
            balancer,
            config,
        }
    }

    pub fn handle(&mut self, now: Time, input: ToController) {
        self.wake(now);
        match input {
            ToController::Connected(connection) => {
                let requests_manufacturer =
                    self.config.ecmp_hashing == EcmpHashing::Auto || self.config.uses_extensions;
                self.sessions.insert(connection, Session::new(now, self.config.owner, requests_manufacturer));
                self.send(connection, Session::hello());
            }
            ToController::Disconnected(connection) => self.lost(connection),
            ToController::Message(connection, envelope) => self.message(connection, &envelope),
        }
    }

    /// Handles a message, like [`Controller::handle`], without taking ownership of it.
    pub fn handle_message(&mut self, now: Time, connection: ConnectionId, envelope: &Envelope) {
        self.wake(now);
        self.message(connection, envelope);
    }

    pub fn handle_agent_report(&mut self, now: Time, handle_agent_report: AgentReport) {
        self.wake(now);
        match handle_agent_report {
            AgentReport::Started { tuple, .. } if self.is_full(&tuple) => {}
            AgentReport::Started { tuple, bytes, size } => {
                let is_counted = self.needs.counters;
                let (network, fabric) = (&self.network, &mut self.fabric);
                let flow = self.flows.reported(now, tuple, bytes, size, is_counted, network, fabric);
                self.pending_triggers.extend(flow.map(DecisionTrigger::FlowStarted));
            }
            AgentReport::Ended { tuple, bytes } => {
                let flow = self.flows.table.find(&tuple).filter(|_| self.needs.flows == FlowSource::Agents);
                if let Some(facts) = flow.and_then(|flow| self.flows.table.get_mut(flow)) {
                    facts.bytes = bytes;
                }
                self.pending_triggers.extend(flow.map(DecisionTrigger::FlowEnded));
            }
        }
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        if self.outputs.is_empty() && self.needs_decision {
            self.process_changes();
        }
        if self.outputs.is_empty() && self.outputs.capacity() > OUTPUTS_KEPT {
            self.outputs = VecDeque::new();
        }
        self.outputs.pop_front()
    }

    /// Swaps the pending outputs with `outputs`, which is faster than [`Controller::poll_output`].
    /// Returns whether there are any; the driver calls it until it returns false.
    pub fn take_outputs(&mut self, outputs: &mut VecDeque<Output>) -> bool {
        outputs.clear();
        if outputs.capacity() > OUTPUTS_KEPT {
            *outputs = VecDeque::new();
        }
        if self.outputs.is_empty() && self.needs_decision {
            self.process_changes();
        }
        std::mem::swap(&mut self.outputs, outputs);
        !outputs.is_empty()
    }

    /// Returns when [`Controller::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let timers = [self.resume_at, self.default_routes.poll_timeout(), self.fabric.next_late(self.now)];
        timers.into_iter().flatten().chain(self.next_timer()).min()
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.wake(now);
        self.run_timers();
    }

    /// Returns the topology of everything ever seen. Links that are gone are dead in
    /// [`Controller::alive`].
    pub fn topology(&self) -> &Topology {
        &self.network.topology
    }
    pub fn alive(&self) -> &[bool] {
        self.network.alive()
    }
    pub fn placements(&self) -> &Placements {
        &self.placements
    }
    /// Returns whether all sent messages are confirmed, none is pending, and no migration is in
    /// progress.
    pub fn is_settled(&self) -> bool {
        !self.needs_decision
            && self.outputs.is_empty()
            && self.sessions.values().all(|session| session.state == crate::switches::session::State::Ready)
            && self.default_routes.is_settled()
            && self.pairs.is_settled()
            && self.pins.is_settled()
            && self.fabric.switches.values().all(Installer::is_settled)
    }
    /// Returns the rules of a settled switch in the order of `Native::entries`, with counters zero.
    /// If the switch rejected a rule, the rule it should replace is listed instead, if there is
    /// one.
    pub fn desired_entries(&self, datapath: DatapathId) -> Vec<FlowStats> {
        self.installer_of(datapath).map_or_else(Vec::new, Installer::entries)
    }
    pub fn desired_groups(&self, datapath: DatapathId) -> Vec<openflow::GroupDescription> {
        self.installer_of(datapath).map_or_else(Vec::new, Installer::group_entries)
    }
    pub(crate) fn installer_of(&self, datapath: DatapathId) -> Option<&Installer> {
        self.fabric.switches.get(&self.network.node_of(datapath)?)
    }
    /// Returns the connection of a switch, or `None` if it is disconnected.
    pub fn connection_of(&self, datapath: DatapathId) -> Option<ConnectionId> {
        self.connections.get(&datapath).copied()
    }
    pub(crate) fn session_of(&self, datapath: DatapathId) -> Option<&Session> {
        self.sessions.get(self.connections.get(&datapath)?)
    }
    pub fn tally(&self) -> ControllerStats {
        ControllerStats {
            stale_samples: self.tally.stale_samples + self.flows.stale,
            arp_requests_suppressed: self.arp.requests_suppressed,
            ..self.tally
        }
    }

    pub(crate) fn wake(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.needs_decision = true;
    }

    /// Sends a message on a connection. Returns its transaction number, or `None` if the connection
    /// has closed.
    pub(crate) fn send(&mut self, connection: ConnectionId, message: Message) -> Option<Xid> {
        let envelope = self.sessions.get_mut(&connection)?.seal(message);
        let xid = envelope.xid;
        self.push(connection, envelope);
        Some(xid)
    }
    /// Sends a message that already has its transaction number.
    pub(crate) fn push(&mut self, connection: ConnectionId, envelope: Envelope) {
        self.outputs.push_back(Output::Channel(FromController::Message(connection, envelope)));
    }
    pub(crate) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn message(&mut self, connection: ConnectionId, envelope: &Envelope) {
        let Some(session) = self.sessions.get_mut(&connection) else {
            return; // The controller closed this connection, so messages that arrive later are ignored.
        };
        let Envelope { xid, ref message } = *envelope;
        let before = session.read_back_bytes;
        let reaction = session.receive(self.now, xid, message);
        let (after, features) = (session.read_back_bytes, session.features);
        if after != before {
            self.read_back_bytes = self.read_back_bytes + after - before;
            if self.limit_read_back(connection, after) {
                return;
            }
        }
        match reaction {
            SessionAction::Nothing => {}
            SessionAction::Send(messages) => {
                for message in messages {
                    self.send(connection, message);
                }
            }
            SessionAction::Answer(message) => {
                self.push(connection, Envelope { xid, message });
            }
            SessionAction::Close(reason, last_words) => {
                if let Some(message) = last_words {
                    self.send(connection, message);
                }
                self.event(Event::Closed { connection, reason });
                self.close(connection);
            }
            SessionAction::Ready => self.ready(connection),
            SessionAction::Pass => {
                let datapath = features.expect("a ready session has features").datapath;
                match message {
                    Message::PacketIn(packet) => self.packet_in(connection, datapath, packet),
                    _ => self.pass(connection, datapath, xid, message),
                }
            }
        }
    }

    /// Limits the memory of table read-backs. It disconnects this switch if it has sent more than
    /// one switch may; if all together hold too much, it disconnects the largest. Returns whether
    /// this switch was disconnected.
    fn limit_read_back(&mut self, connection: ConnectionId, bytes: usize) -> bool {
        let limit = self.config.read_back_bytes_max;
        let victim = if bytes > limit {
            connection
        } else if self.read_back_bytes > limit.saturating_mul(READ_BACKS_AT_ONCE) {
            let largest = self.sessions.iter().max_by_key(|(_, session)| session.read_back_bytes);
            largest.map_or(connection, |(largest, _)| *largest)
        } else {
            return false;
        };
        if let Some(datapath) = self.sessions[&victim].features.map(|features| features.datapath) {
            self.event(Event::ReadBackTooLarge { datapath, limit_bytes: limit });
        }
        self.close(victim);
        victim == connection
    }

    pub(crate) fn close(&mut self, connection: ConnectionId) {
        if self.sessions.contains_key(&connection) {
            self.outputs.push_back(Output::Channel(FromController::Close(connection)));
            self.lost(connection);
        }
    }

    fn lost(&mut self, connection: ConnectionId) {
        let Some(session) = self.sessions.remove(&connection) else { return };
        self.read_back_bytes -= session.read_back_bytes;
        let Some(datapath) = session.features.map(|features| features.datapath) else { return };
        if self.connections.get(&datapath) != Some(&connection) {
            return;
        }
        self.connections.remove(&datapath);
        self.forget_polls_of(datapath);
        self.recovering.remove(&datapath);
        self.status.insert(datapath, Status { is_online: false, since: self.now });
        self.timers_changed = true;
        if let Some(node) = self.network.node_of(datapath) {
            self.fabric.switch(node).offline();
        }
        self.event(Event::SwitchDown(datapath));
    }

    /// Starts to use a switch after its table read-back.
    fn ready(&mut self, connection: ConnectionId) {
        let session = self.sessions.get_mut(&connection).expect("the session that got ready");
        let datapath = session.features.expect("a ready session has features").datapath;
        let (mut rules, groups) = (std::mem::take(&mut session.rules), std::mem::take(&mut session.groups));
        let (ports, is_partial) = (session.ports.clone(), session.is_partial);
        let manufacturer = session.manufacturer.clone();
        if self.connections.is_empty() {
            // The controller itself was cut off: the timeout of the other switches starts now.
            for status in self.status.values_mut().filter(|status| !status.is_online) {
                status.since = self.now;
            }
        }
        if let Some(older) = self.connections.insert(datapath, connection) {
            // The switch reconnected before its old connection timed out.
            self.event(Event::Closed { connection: older, reason: CloseReason::Replaced });
            self.outputs.push_back(Output::Channel(FromController::Close(older)));
            self.sessions.remove(&older); // Its session was ready: the read-back had ended.
            self.forget_polls_of(datapath);
        }
        let is_first_time = !self.status.contains_key(&datapath);
        self.status.insert(datapath, Status { is_online: true, since: self.now });
        let node = self.network.add_switch(datapath);
        for (key, wanted) in self.compiler.always() {
            self.fabric.set((node, key, Some(wanted)));
        }
        self.recover_counters(datapath, node, &mut rules);
        let found = self.recover_connections(connection, datapath, &mut rules);
        self.recover_slots(node, &rules);
        let means = HashingMethod::of(self.config.ecmp_hashing, datapath, manufacturer.as_deref());
        self.fabric.switch(node).set_hashing_method(means);
        let is_open_vswitch = manufacturer.as_deref() == Some(OPEN_VSWITCH);
        self.fabric.switch(node).takes_tcp_flags = self.config.uses_extensions && is_open_vswitch;
        let has_leftovers = self.fabric.switch(node).reconcile(&rules, &groups, is_partial);
        self.repair_connections(connection, found);
        // A switch lost during its recovery hold has not been judged yet.
        let is_unknown = is_first_time || std::mem::take(&mut self.fabric.switch(node).is_held);
        if is_unknown && has_leftovers {
            self.fabric.switch(node).is_held = true;
            self.recovering.insert(datapath, self.now.saturating_add(RECOVERY_HOLD));
            self.record_installed_hosts(datapath, &rules);
        }
        self.event(Event::SwitchUp(datapath));
        self.echo(connection); // Before the probes: their loop time is compared with this round trip.
        self.set_ports(datapath, ports);
        (self.network_changed, self.ports_changed) = (true, true);
        let now = self.now;
        // Probes that reached a neighbour before its rules were installed are lost: probe again
        // before ports count as edge ports.
        self.probe_soon();
        if self.wants_polls() && self.next_poll.is_none() {
            self.next_poll = Some(now.saturating_add(self.config.poll_interval));
        }
    }

    /// Handles messages that concern more than the session, except packet-ins.
    fn pass(&mut self, connection: ConnectionId, datapath: DatapathId, xid: openflow::Xid, message: &Message) {
        let Some(node) = self.network.node_of(datapath) else { return };
        match message {
            Message::PortStatus { .. } => {
                let ports = self.sessions[&connection].ports.clone();
                self.set_ports(datapath, ports);
            }
            Message::BarrierReply if self.connection_confirmed(connection, datapath, xid) => {}
            // The rule that sends probes to the controller is installed only now.
            Message::BarrierReply if self.fabric.switch(node).barrier(xid) => self.probe_soon(),
            Message::Error { kind, .. } => self.refused(connection, datapath, node, xid, *kind),
            Message::FlowRemoved(removed) if self.counter_removed(datapath, removed) => {}
            Message::FlowRemoved(removed) if self.connection_removed(datapath, removed) => {}
            Message::FlowRemoved(removed) => self.fabric.switch(node).removed(removed),
            Message::MultipartReply { reply, has_more } => self.counters(datapath, xid, reply, *has_more),
            _ => {}
        }
    }

    /// Schedules one probe of all ports for all switches that became ready at about the same time.
    fn probe_soon(&mut self) {
        let soon = self.config.discovery_interval.min(crate::switches::discovery::EDGE_AFTER / 2);
        self.discovery.schedule_round(self.now.saturating_add(soon));
    }

    fn refused(
        &mut self,
        connection: ConnectionId,
        datapath: DatapathId,
        node: NodeIx,
        xid: openflow::Xid,
        error: ErrorKind,
    ) {
        if self.connection_refused(connection, datapath, xid, error) {
            return;
        }
        if self.counter_refused(connection, xid) {
            let words = "a flow is not counted; it is tried again after its idle timeout".to_owned();
            return self.event(Event::SwitchError { datapath, error, message: words });
        }
        let words = match self.fabric.switch(node).refused(xid) {
            Some(refusal) => {
                let is_occupied = error == ErrorKind::GroupModFailed(openflow::GroupModFailed::GroupExists);
                if let Some(group) = refusal.group.filter(|_| is_occupied) {
                    self.fabric.switch(node).taken(group);
                }
                refusal.key.iter().for_each(|key| self.record_rejected(key));
                refusal.message
            }
            None => {
                self.forget_polls_of(datapath); // It may have been the poll: the next one may be sent.
                "a request other than a change of rules was refused".to_owned()
            }
        };
        self.event(Event::SwitchError { datapath, error, message: words });
    }
}

/// Returns the flow of a pinned or counted packet, in the form balancers use.
pub(crate) fn tuple_of_packet(headers: &openflow::Headers) -> FiveTuple {
    FiveTuple {
        src: headers.ipv4_src,
        dst: headers.ipv4_dst,
        protocol: headers.ip_proto,
        src_port: headers.l4_src,
        dst_port: headers.l4_dst,
    }
}
