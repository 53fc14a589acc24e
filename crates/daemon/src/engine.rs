//! The one task that owns the controller.
//!
//! Each round takes a batch of every connection that has one, tells the controller everything, and then takes everything
//! the controller wants: what happened at once is decided at once, and leaves in one write per connection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use balance::Spec;
use balance::central::AgentReport;
use balance::server::Facts;
use control::{Controller, Event, Output, vip};
use net::Time;
use openflow::wire;
use openflow::{
    BadRequest, ConnectionId, DatapathId, Envelope, ErrorKind, FromController, Message, PortNo, ToController,
};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::balancer;
use crate::channel::{Closing, Hub, Peer, Round, kinds};
use crate::clock::Clock;
use crate::events::{Happening, dpid, limit_name};
use crate::http::ServerFacts;
use crate::metrics::Metrics;
use crate::orders::Orders;
use crate::settings::Settings;

/// Something to be done with the engine between two rounds.
pub(crate) type Job = Box<dyn FnOnce(&mut Engine) + Send>;

/// Events kept for readers that are slow; who is slower misses some, and is told so.
const EVENTS_KEPT: usize = 1024;
/// Jobs done between two rounds.
const JOBS_PER_ROUND: usize = 4;
/// Stands for never.
const LONG: Duration = Duration::from_secs(3600);

/// The controller and what connects it to the world.
pub(crate) struct Engine {
    pub(crate) controller: Controller,
    pub(crate) balancer: Spec,
    pub(crate) clock: Clock,
    pub(crate) hub: Arc<Hub>,
    /// What agents are to do.
    pub(crate) orders: Orders,
    /// What agents of members told last over HTTP, and when.
    pub(crate) told: BTreeMap<Ipv4Addr, (Time, ServerFacts)>,
    seed: u64,
    metrics: Arc<Metrics>,
    events: broadcast::Sender<Happening>,
    /// Connections the controller has been told of.
    peers: BTreeMap<ConnectionId, Arc<Peer>>,
    /// Connections something is to be sent on in this round.
    touched: Vec<Arc<Peer>>,
    /// Messages that could not be sent.
    unsendable: Vec<(ConnectionId, openflow::Xid)>,
    round: Round,
    /// Kept for their memory.
    batch: Vec<Envelope>,
    outputs: VecDeque<Output>,
}

/// A port of a switch, for the log.
fn end((datapath, port): &(DatapathId, PortNo)) -> String {
    format!("{}:{}", dpid(*datapath), port.0)
}

/// The switch a message goes to.
fn switch_of(output: &Output) -> Option<ConnectionId> {
    match output {
        Output::Channel(FromController::Message(connection, _)) => Some(*connection),
        _ => None,
    }
}

/// A message to be sent. A hello is not: it was sent when the connection was opened, before the controller was told of it.
fn message_of(output: &Output) -> Option<&Envelope> {
    match output {
        Output::Channel(FromController::Message(_, envelope)) => {
            Some(envelope).filter(|envelope| !matches!(envelope.message, Message::Hello { .. }))
        }
        _ => None,
    }
}

impl Engine {
    pub(crate) fn new(settings: &Settings, hub: Arc<Hub>, metrics: Arc<Metrics>) -> Engine {
        let seed = settings.control.seed;
        let balancer = balancer::build(&settings.balancer, seed);
        Engine {
            controller: Controller::new(settings.control.clone(), balancer),
            balancer: settings.balancer.clone(),
            clock: Clock::start(),
            hub,
            orders: Orders::default(),
            told: BTreeMap::new(),
            seed,
            metrics,
            events: broadcast::channel(EVENTS_KEPT).0,
            peers: BTreeMap::new(),
            touched: Vec::new(),
            unsendable: Vec::new(),
            round: Round::default(),
            batch: Vec::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Where events are sent to.
    pub(crate) fn events(&self) -> broadcast::Sender<Happening> {
        self.events.clone()
    }

    /// Runs until it is told to stop.
    pub(crate) async fn run(mut self, mut jobs: mpsc::Receiver<Job>, mut stop: oneshot::Receiver<()>) {
        let hub = self.hub.clone();
        let mut alarm = std::pin::pin!(tokio::time::sleep(LONG));
        let mut armed = None;
        loop {
            let due = self.controller.poll_timeout();
            if due != armed {
                let moment = due.and_then(|due| self.clock.moment(due));
                alarm.as_mut().reset(moment.unwrap_or_else(|| Instant::now() + LONG).into());
                armed = due;
            }
            tokio::select! {
                biased;
                _ = &mut stop => return,
                () = hub.work.notified() => {}
                () = &mut alarm => armed = None,
                Some(job) = jobs.recv() => job(&mut self),
            }
            // Whatever woke it: none of the others may wait for ever.
            for _ in 0..JOBS_PER_ROUND {
                match jobs.try_recv() {
                    Ok(job) => job(&mut self),
                    Err(_) => break,
                }
            }
            self.turn();
        }
    }

    /// One round.
    fn turn(&mut self) {
        self.metrics.rounds.inc();
        let began = Instant::now();
        let now = self.clock.at(began);
        if self.controller.poll_timeout().is_some_and(|due| due <= now) {
            self.controller.handle_timeout(now);
        }
        let mut round = std::mem::take(&mut self.round);
        self.hub.take(&mut round);
        let mut longest = 0;
        for peer in &round.ready {
            if self.peers.insert(peer.id, peer.clone()).is_none() {
                self.controller.handle(now, ToController::Connected(peer.id));
            }
            peer.take_batch(&mut self.batch);
            longest = longest.max(self.batch.len());
            for envelope in &self.batch {
                self.controller.hear(now, peer.id, envelope);
            }
            self.batch.clear();
        }
        for peer in round.gone.drain(..) {
            if self.peers.remove(&peer.id).is_some() {
                self.controller.handle(now, ToController::Disconnected(peer.id));
            }
        }
        self.drain();
        round.ready.drain(..).for_each(|peer| peer.heard());
        self.round = round;
        self.hub.round_over(began.elapsed(), longest);
    }

    /// Does everything the controller wants.
    fn drain(&mut self) {
        let (before, began) = (self.controller.tally().decisions, Instant::now());
        let mut outputs = std::mem::take(&mut self.outputs);
        loop {
            while self.controller.take_outputs(&mut outputs) {
                // What goes to one switch one after the other is one piece.
                let pieces =
                    outputs.make_contiguous().chunk_by(|a, b| switch_of(a).is_some() && switch_of(a) == switch_of(b));
                pieces.for_each(|piece| self.carry_out(piece));
            }
            if self.unsendable.is_empty() {
                break;
            }
            // As if the switch had refused it: what the controller believes to be installed stays true.
            let (now, kind) = (self.clock.now(), ErrorKind::BadRequest(BadRequest::BadLen));
            for (connection, xid) in std::mem::take(&mut self.unsendable) {
                let message = Message::Error { kind, data: Vec::new() };
                self.controller.handle(now, ToController::Message(connection, Envelope { xid, message }));
            }
        }
        self.outputs = outputs;
        for peer in self.touched.drain(..) {
            peer.is_touched.store(false, Ordering::Relaxed);
            peer.flush();
        }
        if self.controller.tally().decisions > before {
            self.metrics.decision_time.observe(began.elapsed().as_secs_f64());
        }
    }

    /// One output, or several messages to one switch.
    fn carry_out(&mut self, piece: &[Output]) {
        match &piece[0] {
            Output::Channel(FromController::Message(connection, _)) => self.send(*connection, piece),
            Output::Channel(FromController::Close(connection)) => {
                if let Some(peer) = self.peers.get(connection) {
                    peer.close(Closing::ByController);
                }
            }
            Output::Agents(order) => {
                self.orders.note(*order);
                self.tell(Happening::Order(*order));
            }
            Output::Event(event) => self.event(event.clone()),
        }
    }

    fn send(&mut self, connection: ConnectionId, piece: &[Output]) {
        let Some(peer) = self.peers.get(&connection) else { return };
        let (metrics, unsendable) = (&self.metrics, &mut self.unsendable);
        let mut sent = kinds::Count::new(&metrics.sent);
        let ((), waiting) = peer.append(|out| {
            for envelope in piece.iter().filter_map(message_of) {
                let kind = kinds::of(&envelope.message);
                match wire::encode(envelope, out) {
                    Ok(()) => sent.note(kind),
                    Err(error) => {
                        metrics.encode_errors.inc();
                        let name = kinds::NAMES[kind];
                        tracing::error!(connection = connection.0, kind = name, "cannot be sent: {}", error.words);
                        unsendable.push((connection, envelope.xid));
                    }
                }
            }
        });
        if waiting > self.hub.limits.output_bytes {
            peer.close(Closing::OutputLimit);
        }
        if !peer.is_touched.swap(true, Ordering::Relaxed) {
            self.touched.push(peer.clone());
        }
    }

    fn event(&mut self, event: Event) {
        match &event {
            Event::SwitchUp(datapath) => {
                let connection = self.controller.connection_of(*datapath);
                if let Some(peer) = connection.and_then(|connection| self.peers.get(&connection)) {
                    self.hub.finished(peer, *datapath);
                    tracing::info!(connection = peer.id.0, peer = %peer.address, datapath = %dpid(*datapath), "switch is up");
                }
            }
            Event::SwitchDown(datapath) => tracing::warn!(datapath = %dpid(*datapath), "switch is down"),
            Event::Refused { datapath, error, words } => {
                tracing::warn!(datapath = %dpid(*datapath), ?error, "switch refused something: {words}");
            }
            Event::LinkUp { from, to } => tracing::info!(from = end(from), to = end(to), "link is up"),
            Event::LinkDown { from, to } => tracing::warn!(from = end(from), to = end(to), "link is down"),
            Event::Host(host) => {
                tracing::info!(ipv4 = %host.ipv4, datapath = %dpid(host.datapath), port = host.port.0, "host seen");
            }
            Event::HostRefused { host, limit } => {
                let (limit, at) = (limit_name(*limit), (host.datapath, host.port));
                tracing::warn!(ipv4 = %host.ipv4, at = end(&at), "no room for a host: [limits] {limit} is reached");
            }
            Event::Member { pool, member, address, state } => {
                let (pool, member, state) = (pool.0, member.0, state.words());
                tracing::info!(pool, member, %address, "member: {state}");
            }
            Event::Migrated(tuple) => tracing::debug!(?tuple, "flow moved"),
        }
        self.tell(Happening::Event(event));
    }

    fn tell(&self, happening: Happening) {
        // Nobody may be listening.
        let _ = self.events.send(happening);
    }

    /// An agent tells something; what follows from it is done at once.
    pub(crate) fn report(&mut self, report: AgentReport) {
        self.orders.reported(&report);
        self.controller.report(self.clock.now(), report);
        self.drain();
    }

    /// The agent of a server tells how it does; whether the server is a member of a pool.
    pub(crate) fn facts(&mut self, host: Ipv4Addr, facts: Facts, told: ServerFacts) -> bool {
        let now = self.clock.now();
        let is_member = self.controller.member_reported(now, host, facts);
        // Who is no member could fill the memory.
        if is_member {
            self.told.insert(host, (now, told));
        }
        self.drain();
        is_member
    }

    /// Wants these virtual services, and no others.
    ///
    /// # Errors
    /// What cannot be; nothing has changed then.
    pub(crate) fn set_services(&mut self, services: vip::Services) -> Result<(), vip::ServicesError> {
        let members = services.pools.iter().flat_map(|pool| pool.members.iter().map(|member| member.address));
        let members: BTreeSet<Ipv4Addr> = members.collect();
        self.controller.set_services(self.clock.now(), services)?;
        self.told.retain(|host, _| members.contains(host));
        self.drain();
        Ok(())
    }

    /// Lets another balancer decide from now on.
    pub(crate) fn set_balancer(&mut self, spec: Spec) {
        tracing::info!(balancer = spec.label(), "another balancer decides from now on");
        // Whatever the new one wants of agents it says; what the old one wanted is over.
        self.orders = Orders::default();
        self.controller.set_balancer(self.clock.now(), balancer::build(&spec, self.seed));
        self.balancer = spec;
    }

    /// Brings the figures of the controller up to date.
    pub(crate) fn note_metrics(&self) {
        let metrics = &self.metrics;
        metrics.note(&self.controller.tally());
        let switches = self.controller.switches().filter(|switch| switch.connection.is_some());
        metrics.switches.set(switches.count() as i64);
        metrics.hosts.set(self.controller.hosts().count() as i64);
        metrics.links.set(self.controller.links().filter(|link| link.is_alive).count() as i64);
        metrics.flows.set(self.controller.flows().count() as i64);
        metrics.handshaking.set(self.hub.handshaking() as i64);
        metrics.tasks.set(tokio::runtime::Handle::current().metrics().num_alive_tasks() as i64);
    }
}
