//! The controller: what happens is noted at once, and thought about when the driver asks for outputs.

mod exchange;
mod thinking;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use balance::central::{AgentReport, CentralBalancer, CentralNeeds, FlowSource, LinkLoad, Placements, Why};
use core::net::Ipv4Addr;
use net::{Bandwidth, FiveTuple, NodeIx, Stream, Time, Topology};
use openflow::{ConnectionId, DatapathId, Envelope, ErrorKind, FlowStats, FromController, Message, ToController, Xid};

use crate::base::Base;
use crate::compile::Compiler;
use crate::discovery::{Discovery, Status};
use crate::fabric::Fabric;
use crate::flows::{Flows, News};
use crate::hints::Hints;
use crate::hosts::{Arp, Claims, HeldAnswers};
use crate::network::{End, Network};
use crate::pairs::Pairs;
use crate::pins::Pins;
use crate::ports::Ports;
use crate::room::Room;
use crate::session::{Reaction, Session};
use crate::soft::PollOut;
use crate::spread::{Means, OPEN_VSWITCH};
use crate::stats::Sample;
use crate::vip::Vips;
use crate::{Config, Event, Output, Spread, Tally};

/// How long a controller that meets a switch with rules of an earlier life waits to know the network before it judges
/// them.
const GET_TO_KNOW: Time = Time::from_ms(1000);

/// Outputs whose memory is kept when there are none: a network that starts makes many at once, and no more later.
const OUTPUTS_KEPT: usize = 2_048;

/// The controller.
pub struct Controller {
    pub(crate) config: Config,
    balancer: Box<dyn CentralBalancer>,
    pub(crate) needs: CentralNeeds,
    rng: Stream,
    pub(crate) compiler: Compiler,
    pub(crate) now: Time,
    pub(crate) sessions: BTreeMap<ConnectionId, Session>,
    pub(crate) connections: BTreeMap<DatapathId, ConnectionId>,
    pub(crate) status: BTreeMap<DatapathId, Status>,
    /// Switches being got to know, until when.
    pub(crate) held: BTreeMap<DatapathId, Time>,
    pub(crate) network: Network,
    pub(crate) discovery: Discovery,
    pub(crate) ports: Ports,
    pub(crate) arp: Arp,
    pub(crate) held_answers: HeldAnswers,
    /// Switches from which rules are known to lead to an address, as long as nothing is sent to any switch.
    pub(crate) led: BTreeSet<(NodeIx, Ipv4Addr)>,
    pub(crate) claims: Claims,
    pub(crate) room: Room,
    pub(crate) hints: Hints,
    /// Until then ports need not be probed again for the sake of claims.
    pub(crate) claims_probed_until: Time,
    pub(crate) flows: Flows,
    pub(crate) vips: Vips,
    pub(crate) port_samples: BTreeMap<End, [Sample; 2]>,
    pub(crate) load: Vec<LinkLoad>,
    pub(crate) polls_out: BTreeMap<DatapathId, PollOut>,
    pub(crate) next_poll_number: u32,
    pub(crate) fabric: Fabric,
    pub(crate) base: Base,
    pairs: Pairs,
    pub(crate) pins: Pins,
    placements: Placements,
    /// Limits agents were told of.
    paced: BTreeMap<FiveTuple, Bandwidth>,
    /// The threshold agents were told last.
    told_above: Option<u64>,
    outputs: VecDeque<Output>,
    /// What the balancer is to be asked about.
    pub(crate) questions: VecDeque<Why>,
    pub(crate) is_network_new: bool,
    pub(crate) are_hosts_new: bool,
    pub(crate) are_ports_new: bool,
    /// Whether links, ports or connections changed, so that what expires next is another.
    pub(crate) are_timers_new: bool,
    /// When the first link may expire or port become an edge port; confirmations only put it off.
    pub(crate) expiry_at: Option<Time>,
    /// Whether something happened since outputs were last thought out.
    pub(crate) is_stirred: bool,
    has_decided: bool,
    resume_at: Option<Time>,
    pub(crate) next_poll: Option<Time>,
    pub(crate) next_period: Option<Time>,
    pub(crate) tally: Tally,
}

impl Controller {
    /// One that knows nothing but its configuration.
    pub fn new(config: Config, balancer: Box<dyn CentralBalancer>) -> Controller {
        let needs = balancer.needs();
        let mut network = Network::new(&config);
        for (_, end) in network.host_ends() {
            network.set_hosts_alive(end, false); // Until their switches are there.
        }
        network.refresh(|_| Time::ZERO);
        Controller {
            rng: Stream::new(config.seed, "central balancer"),
            compiler: Compiler { owner: config.owner },
            now: Time::ZERO,
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            status: BTreeMap::new(),
            held: BTreeMap::new(),
            discovery: Discovery::new(config.seed),
            ports: Ports::default(),
            arp: Arp::default(),
            held_answers: HeldAnswers::default(),
            led: BTreeSet::new(),
            claims: Claims::default(),
            room: Room::default(),
            hints: Hints::default(),
            claims_probed_until: Time::ZERO,
            flows: Flows::new(needs.flows, config.flow_idle_timeout_s),
            vips: Vips::new(&config),
            port_samples: BTreeMap::new(),
            load: Vec::new(),
            polls_out: BTreeMap::new(),
            next_poll_number: 0,
            fabric: Fabric::new(config.owner),
            base: Base::default(),
            pairs: Pairs::default(),
            pins: Pins::default(),
            placements: Placements::default(),
            paced: BTreeMap::new(),
            told_above: None,
            outputs: VecDeque::new(),
            questions: VecDeque::new(),
            is_network_new: true,
            are_hosts_new: true,
            are_ports_new: true,
            are_timers_new: true,
            expiry_at: None,
            is_stirred: false,
            has_decided: false,
            resume_at: None,
            next_poll: None,
            next_period: None,
            tally: Tally::default(),
            network,
            needs,
            balancer,
            config,
        }
    }

    /// Something happened on a channel.
    pub fn handle(&mut self, now: Time, input: ToController) {
        self.wake(now);
        match input {
            ToController::Connected(connection) => {
                let asks_maker = self.config.spread == Spread::Auto || self.config.uses_extensions;
                self.sessions.insert(connection, Session::new(now, self.config.owner, asks_maker));
                self.send(connection, Session::hello());
            }
            ToController::Disconnected(connection) => self.lost(connection),
            ToController::Message(connection, envelope) => self.message(connection, &envelope),
        }
    }

    /// A message came on a channel; as [`Controller::handle`], for those who keep the message.
    pub fn hear(&mut self, now: Time, connection: ConnectionId, envelope: &Envelope) {
        self.wake(now);
        self.message(connection, envelope);
    }

    /// An agent on a host tells something.
    pub fn report(&mut self, now: Time, report: AgentReport) {
        self.wake(now);
        match report {
            AgentReport::Started { tuple, .. } if self.is_full(&tuple) => {}
            AgentReport::Started { tuple, bytes, size } => {
                let is_counted = self.needs.counters;
                let (compiler, network, fabric) = (self.compiler, &self.network, &mut self.fabric);
                let flow = self.flows.reported(now, compiler, tuple, bytes, size, is_counted, network, fabric);
                self.questions.extend(flow.map(Why::FlowStarted));
            }
            AgentReport::Ended { tuple, bytes } => {
                let flow = self.flows.table.find(&tuple).filter(|_| self.needs.flows == FlowSource::Agents);
                if let Some(facts) = flow.and_then(|flow| self.flows.table.get_mut(flow)) {
                    facts.bytes = bytes;
                }
                self.questions.extend(flow.map(Why::FlowEnded));
            }
        }
    }

    /// What is wanted next.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.outputs.is_empty() && self.is_stirred {
            self.think();
        }
        if self.outputs.is_empty() && self.outputs.capacity() > OUTPUTS_KEPT {
            self.outputs = VecDeque::new();
        }
        self.outputs.pop_front()
    }

    /// All that is wanted next, in exchange for memory: what [`Controller::poll_output`] would tell one by one. Whether there is
    /// anything; to be called until there is not.
    pub fn take_outputs(&mut self, outputs: &mut VecDeque<Output>) -> bool {
        outputs.clear();
        if outputs.capacity() > OUTPUTS_KEPT {
            *outputs = VecDeque::new();
        }
        if self.outputs.is_empty() && self.is_stirred {
            self.think();
        }
        std::mem::swap(&mut self.outputs, outputs);
        !outputs.is_empty()
    }

    /// When [`Controller::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let timers = [self.resume_at, self.base.poll_timeout(), self.fabric.next_late(self.now)];
        timers.into_iter().flatten().chain(self.next_timer()).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.wake(now);
        self.run_timers();
    }

    /// Everything ever seen; links of what is gone are dead in [`Controller::alive`].
    pub fn topology(&self) -> &Topology {
        self.network.topology()
    }
    /// Which directed links are believed alive.
    pub fn alive(&self) -> &[bool] {
        self.network.alive()
    }
    /// What the balancer wants.
    pub fn placements(&self) -> &Placements {
        &self.placements
    }
    /// Whether everything sent has been confirmed, nothing waits to be sent, and no migration is under way.
    pub fn is_settled(&self) -> bool {
        !self.is_stirred
            && self.outputs.is_empty()
            && self.sessions.values().all(|session| session.state == crate::session::State::Ready)
            && self.base.is_settled()
            && self.pairs.is_settled()
            && self.pins.is_settled()
            && self.fabric.switches.values().all(crate::install::Installer::is_settled)
    }
    /// Rules that should be on a switch when settled, in the order of `Switch::entries`, counters zero. Where the
    /// switch refused a rule, what it was to replace stands instead, if anything.
    pub fn desired_entries(&self, datapath: DatapathId) -> Vec<FlowStats> {
        let node = self.network.node_of(datapath);
        let switch = node.and_then(|node| self.fabric.switches.get(&node));
        switch.map_or_else(Vec::new, crate::install::Installer::entries)
    }
    /// Groups that should be on a switch when settled, by number.
    pub fn desired_groups(&self, datapath: DatapathId) -> Vec<openflow::GroupDescription> {
        let node = self.network.node_of(datapath);
        let switch = node.and_then(|node| self.fabric.switches.get(&node));
        switch.map_or_else(Vec::new, crate::install::Installer::group_entries)
    }
    /// The connection a switch uses, if it is connected.
    pub fn connection_of(&self, datapath: DatapathId) -> Option<ConnectionId> {
        self.connections.get(&datapath).copied()
    }
    /// What it has cost.
    pub fn tally(&self) -> Tally {
        Tally {
            stale_samples: self.tally.stale_samples + self.flows.stale,
            questions_dropped: self.arp.not_asked,
            ..self.tally
        }
    }

    pub(crate) fn wake(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.is_stirred = true;
    }

    /// Puts a message on a connection; its number, if the connection is there.
    pub(crate) fn send(&mut self, connection: ConnectionId, message: Message) -> Option<Xid> {
        let envelope = self.sessions.get_mut(&connection)?.seal(message);
        let xid = envelope.xid;
        self.push(connection, envelope);
        Some(xid)
    }
    /// Puts a message that has its number on a connection.
    pub(crate) fn push(&mut self, connection: ConnectionId, envelope: Envelope) {
        self.outputs.push_back(Output::Channel(FromController::Message(connection, envelope)));
    }
    pub(crate) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn message(&mut self, connection: ConnectionId, envelope: &Envelope) {
        let Some(session) = self.sessions.get_mut(&connection) else {
            return; // Closed by us: what was on its way does not matter any more.
        };
        let Envelope { xid, ref message } = *envelope;
        match session.receive(self.now, xid, message) {
            Reaction::Nothing => {}
            Reaction::Send(messages) => {
                for message in messages {
                    self.send(connection, message);
                }
            }
            Reaction::Answer(message) => {
                let envelope = Envelope { xid, message };
                self.outputs.push_back(Output::Channel(FromController::Message(connection, envelope)));
            }
            Reaction::Close(last_words) => {
                if let Some(message) = last_words {
                    self.send(connection, message);
                }
                self.close(connection);
            }
            Reaction::Ready => self.ready(connection),
            Reaction::Pass => {
                let datapath = session.features.expect("a ready session has features").datapath;
                match message {
                    Message::PacketIn(packet) => self.packet_in(connection, datapath, packet),
                    _ => self.pass(connection, datapath, xid, message),
                }
            }
        }
    }

    /// Closes a connection from this side.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        if self.sessions.contains_key(&connection) {
            self.outputs.push_back(Output::Channel(FromController::Close(connection)));
            self.lost(connection);
        }
    }

    fn lost(&mut self, connection: ConnectionId) {
        let Some(session) = self.sessions.remove(&connection) else { return };
        let Some(datapath) = session.features.map(|features| features.datapath) else { return };
        if self.connections.get(&datapath) != Some(&connection) {
            return;
        }
        self.connections.remove(&datapath);
        self.forget_polls_of(datapath);
        self.held.remove(&datapath);
        self.status.insert(datapath, Status { is_online: false, since: self.now });
        self.are_timers_new = true;
        if let Some(node) = self.network.node_of(datapath) {
            self.fabric.switch(node).offline();
        }
        self.event(Event::SwitchDown(datapath));
    }

    /// The survey of a switch is over: it is taken into use.
    fn ready(&mut self, connection: ConnectionId) {
        let session = self.sessions.get_mut(&connection).expect("the session that got ready");
        let datapath = session.features.expect("a ready session has features").datapath;
        let (mut rules, groups) = (std::mem::take(&mut session.rules), std::mem::take(&mut session.groups));
        let (ports, is_partial) = (session.ports.clone(), session.is_partial);
        let manufacturer = session.manufacturer.clone();
        if self.connections.is_empty() {
            // It was the controller that was cut off: the others get their time to come back from now on.
            for status in self.status.values_mut().filter(|status| !status.is_online) {
                status.since = self.now;
            }
        }
        if let Some(older) = self.connections.insert(datapath, connection) {
            // The switch came again before its old connection was found dead.
            self.outputs.push_back(Output::Channel(FromController::Close(older)));
            self.sessions.remove(&older);
            self.forget_polls_of(datapath);
        }
        let is_first_time = !self.status.contains_key(&datapath);
        self.status.insert(datapath, Status { is_online: true, since: self.now });
        let node = self.network.add_switch(datapath);
        for (key, wanted) in self.compiler.always() {
            self.fabric.set((node, key, Some(wanted)));
        }
        self.survey_counters(datapath, node, &mut rules);
        let found = self.survey_connections(connection, datapath, &mut rules);
        self.find_buckets(node, &rules);
        let means = Means::of(self.config.spread, datapath, manufacturer.as_deref());
        self.fabric.switch(node).set_means(means);
        let is_open_vswitch = manufacturer.as_deref() == Some(OPEN_VSWITCH);
        self.fabric.switch(node).takes_tcp_flags = self.config.uses_extensions && is_open_vswitch;
        let has_leftovers = self.fabric.switch(node).surveyed(&rules, &groups, is_partial);
        self.mend_connections(connection, found);
        // One that was lost while it was held back is not known any better.
        let is_unknown = is_first_time || std::mem::take(&mut self.fabric.switch(node).is_held);
        if is_unknown && has_leftovers {
            self.fabric.switch(node).is_held = true;
            self.held.insert(datapath, self.now.saturating_add(GET_TO_KNOW));
            self.note_hints(datapath, &rules);
        }
        self.event(Event::SwitchUp(datapath));
        self.echo(connection); // Before probes go out: their loop is measured against this round trip.
        self.set_ports(datapath, ports);
        (self.is_network_new, self.are_ports_new) = (true, true);
        let now = self.now;
        // Probes that met a neighbour before its rules were there are lost: another round before ports count as edges.
        self.probe_soon();
        if self.wants_polls() && self.next_poll.is_none() {
            self.next_poll = Some(now.saturating_add(self.config.poll_interval));
        }
    }

    /// What is not a matter of the session alone, besides packets.
    fn pass(&mut self, connection: ConnectionId, datapath: DatapathId, xid: openflow::Xid, message: &Message) {
        let Some(node) = self.network.node_of(datapath) else { return };
        match message {
            Message::PortStatus { .. } => {
                let ports = self.sessions[&connection].ports.clone();
                self.set_ports(datapath, ports);
            }
            Message::BarrierReply if self.connection_confirmed(connection, datapath, xid) => {}
            // What shows probes to the controller is there only now.
            Message::BarrierReply if self.fabric.switch(node).barrier(xid) => self.probe_soon(),
            Message::Error { kind, .. } => self.refused(connection, datapath, node, xid, *kind),
            Message::FlowRemoved(removed) if self.counter_removed(datapath, removed) => {}
            Message::FlowRemoved(removed) if self.connection_removed(datapath, removed) => {}
            Message::FlowRemoved(removed) => self.fabric.switch(node).removed(removed),
            Message::MultipartReply { reply, has_more } => self.counters(datapath, xid, reply, *has_more),
            _ => {}
        }
    }

    /// All ports are probed soon, once for all switches that got ready at about the same time.
    fn probe_soon(&mut self) {
        let soon = self.config.discovery_interval.min(crate::discovery::EDGE_AFTER / 2);
        self.discovery.want_round(self.now.saturating_add(soon));
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
            return self.event(Event::Refused { datapath, error, words });
        }
        let words = match self.fabric.switch(node).refused(xid) {
            Some(refusal) => {
                let is_taken = error == ErrorKind::GroupModFailed(openflow::GroupModFailed::GroupExists);
                if let Some(group) = refusal.group.filter(|_| is_taken) {
                    self.fabric.switch(node).taken(group);
                }
                refusal.key.iter().for_each(|key| self.note_refused(key));
                refusal.words
            }
            None => {
                self.forget_polls_of(datapath); // Perhaps that was the poll: the next one may be sent.
                "a request other than a change of rules was refused".to_owned()
            }
        };
        self.event(Event::Refused { datapath, error, words });
    }
}

/// The flow a pinned or counted packet belongs to, if balancers are told of its kind.
pub(crate) fn tuple_of_packet(headers: &openflow::Headers) -> FiveTuple {
    FiveTuple {
        src: headers.ipv4_src,
        dst: headers.ipv4_dst,
        protocol: headers.ip_proto,
        src_port: headers.l4_src,
        dst_port: headers.l4_dst,
    }
}

/// What counters say of flows, as questions for the balancer.
pub(crate) fn question(news: News) -> Why {
    match news {
        News::Started(flow) => Why::FlowStarted(flow),
        News::Ended(flow) => Why::FlowEnded(flow),
    }
}
