//! The task that owns the controller.
//!
//! In each round it takes one batch of every connection that has one, passes all messages to the
//! controller and then applies all outputs. Simultaneous input causes one decision, and each
//! connection gets one write.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use balance::Spec;
use balance::central::AgentReport;
use control::edge::RouteInput;
use control::{Event, Output, vip};
use net::Time;
use openflow::wire;
use openflow::{
    BadRequest, ConnectionId, DatapathId, Envelope, ErrorKind, FromController, Message, PortNo, ToController,
};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::agent_commands::AgentCommands;
use crate::alarm::Alarm;
use crate::channel::{Closing, Hub, Peer, Round, kinds};
use crate::clock::Clock;
use crate::events::{DaemonEvent, conflict_text, departure_text, dpid, limit_name};
use crate::http::ServerStats;
use crate::metrics::Metrics;
use crate::recording::RecordedController;

/// A closure that the engine runs between two rounds.
pub(crate) type Job = Box<dyn FnOnce(&mut Engine) + Send>;

/// Number of events kept for slow readers. A reader that falls further behind loses events and is
/// notified.
const EVENTS_KEPT: usize = 1024;
const JOBS_PER_ROUND: usize = 4;
/// A timer that is late by this much shows that the process did not run: it was stopped, its machine
/// was suspended or had no time for it.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Maximum time to read what arrived during a pause.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);

pub(crate) struct Engine {
    pub(crate) controller: RecordedController,
    pub(crate) balancer: Spec,
    pub(crate) clock: Clock,
    /// Beginning of the latest round.
    turned_at: Instant,
    pub(crate) hub: Arc<Hub>,
    pub(crate) agent_commands: AgentCommands,
    /// Latest server statistics that the agents of members sent over HTTP, with the time of
    /// receipt.
    pub(crate) agent_stats: BTreeMap<Ipv4Addr, (Time, ServerStats)>,
    metrics: Arc<Metrics>,
    pub(crate) events: broadcast::Sender<DaemonEvent>,
    peers: BTreeMap<ConnectionId, Arc<Peer>>,
    touched: Vec<Arc<Peer>>,
    unsendable: Vec<(ConnectionId, openflow::Xid)>,
    round: Round,
    /// Empty between rounds; kept to reuse the allocation.
    batch: Vec<Envelope>,
    outputs: VecDeque<Output>,
}

/// Logs an event of a host or of its port.
fn log_host_event(event: &Event) {
    match event {
        Event::Host(host) => {
            tracing::info!(ipv4 = %host.ipv4, datapath = %dpid(host.datapath), port = host.port.0, "host seen");
        }
        Event::HostRefused { host, limit } => {
            let (limit, at) = (limit_name(*limit), (host.datapath, host.port));
            tracing::warn!(
                ipv4 = %host.ipv4,
                at = end(&at),
                "host ignored: [limits] {limit} is reached; raise it or check the port for spoofed addresses"
            );
        }
        Event::HostGone { host, why } => {
            let at = (host.datapath, host.port);
            tracing::info!(ipv4 = %host.ipv4, at = end(&at), "host forgotten: {}", departure_text(*why));
        }
        Event::AddressConflict { host, claim, why } => {
            let (at, claimed_at) = ((host.datapath, host.port), (claim.datapath, claim.port));
            tracing::warn!(
                ipv4 = %host.ipv4, mac = %host.mac, at = end(&at),
                claim_mac = %claim.mac, claim_at = end(&claimed_at),
                "address conflict: {}", conflict_text(*why)
            );
        }
        Event::ProbeAtHostPort { datapath, port } => tracing::warn!(
            at = end(&(*datapath, *port)),
            "discovery probe ignored: the role of this port is `host`; a switch is connected there, or hosts relay \
             frames. If it leads to a switch, set its role in [[port]]"
        ),
        _ => {}
    }
}

fn end((datapath, port): &(DatapathId, PortNo)) -> String {
    format!("{}:{}", dpid(*datapath), port.0)
}

fn switch_of(output: &Output) -> Option<ConnectionId> {
    let Output::Channel(FromController::Message(connection, _)) = output else { return None };
    Some(*connection)
}

/// Returns the message of an output. A hello is skipped: the connection task has already sent it.
fn message_of(output: &Output) -> Option<&Envelope> {
    let Output::Channel(FromController::Message(_, envelope)) = output else { return None };
    Some(envelope).filter(|envelope| !matches!(envelope.message, Message::Hello { .. }))
}

impl Engine {
    pub(crate) fn new(controller: RecordedController, balancer: Spec, hub: Arc<Hub>, metrics: Arc<Metrics>) -> Engine {
        Engine {
            controller,
            balancer,
            clock: Clock::start(),
            turned_at: Instant::now(),
            hub,
            agent_commands: AgentCommands::default(),
            agent_stats: BTreeMap::new(),
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

    pub(crate) async fn run(mut self, mut jobs: mpsc::Receiver<Job>, mut stop: oneshot::Receiver<()>) {
        let hub = self.hub.clone();
        let mut alarm = Alarm::new();
        loop {
            let due = self.controller.poll_timeout();
            alarm.set(due.and_then(|due| self.clock.moment(due)));
            tokio::select! {
                biased;
                _ = &mut stop => return,
                () = hub.work.notified() => {}
                () = alarm.passed() => {}
                Some(job) = jobs.recv() => job(&mut self),
            }
            // All event sources get their turn in every round, so that none starves.
            for job in std::iter::from_fn(|| jobs.try_recv().ok()).take(JOBS_PER_ROUND) {
                job(&mut self);
            }
            self.catch_up(due).await;
            self.turn(true);
        }
    }

    /// Reads everything that arrived during a pause of the process, before a timer judges a switch
    /// by its silence. The pause does not count as silence either: the switch was not asked.
    async fn catch_up(&mut self, due: Option<Time>) {
        let due = due.and_then(|due| self.clock.moment(due));
        // A timer can also have been due at once.
        let pause = due.map(|due| due.elapsed().min(self.turned_at.elapsed()));
        let Some(pause) = pause.filter(|pause| *pause >= PAUSE_MIN) else { return };
        tracing::warn!("the daemon did not run for {pause:?}: timeouts of switches are extended by this time");
        self.clock.skip(pause);
        let until = Instant::now() + CATCH_UP_MAX;
        loop {
            // The connection tasks read their sockets.
            tokio::task::yield_now().await;
            self.turn(false);
            if !self.peers.values().any(|peer| peer.has_unread()) || Instant::now() >= until {
                return;
            }
        }
    }

    /// Handles one batch of every connection that has one, and then the timers that are due: input
    /// comes first, because it shows which switches are alive.
    fn turn(&mut self, with_timers: bool) {
        self.metrics.engine_rounds.inc();
        let began = Instant::now();
        self.turned_at = began;
        let now = self.clock.at(began);
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
                if !self.is_allowed(peer, &envelope.message) {
                    break;
                }
                self.controller.handle_message(now, peer.id, envelope);
            }
            self.batch.clear();
        }
        for peer in round.gone.drain(..) {
            if self.peers.remove(&peer.id).is_some() {
                self.controller.handle(now, ToController::Disconnected(peer.id));
            }
        }
        if with_timers && self.controller.poll_timeout().is_some_and(|due| due <= now) {
            self.controller.handle_timeout(now);
        }
        self.drain();
        round.ready.drain(..).for_each(|peer| peer.mark_processed());
        self.round = round;
        self.hub.adapt_share(began.elapsed(), longest);
    }

    /// Returns whether a peer may send a message: with TLS it may only present the datapath id of
    /// its certificate.
    fn is_allowed(&self, peer: &Peer, message: &Message) -> bool {
        let Message::FeaturesReply(features) = message else { return true };
        self.hub.tls().is_none_or(|tls| peer.check_datapath(&tls, features.datapath))
    }

    fn drain(&mut self) {
        let (before, began) = (self.controller.tally().decisions, Instant::now());
        let mut outputs = std::mem::take(&mut self.outputs);
        loop {
            while self.controller.take_outputs(&mut outputs) {
                // Consecutive outputs to one switch are sent as one piece.
                let pieces =
                    outputs.make_contiguous().chunk_by(|a, b| switch_of(a).is_some() && switch_of(a) == switch_of(b));
                pieces.for_each(|piece| self.apply_outputs(piece));
            }
            if self.unsendable.is_empty() {
                break;
            }
            // A synthetic error reply keeps the controller's installed state correct: the switch
            // never got this message.
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

    fn apply_outputs(&mut self, piece: &[Output]) {
        match &piece[0] {
            Output::Channel(FromController::Message(connection, _)) => self.send(*connection, piece),
            Output::Channel(FromController::Close(connection)) => {
                if let Some(peer) = self.peers.get(connection) {
                    peer.close(Closing::ByController);
                }
            }
            Output::Agents(command) => {
                self.agent_commands.note(*command);
                self.publish(DaemonEvent::Command(*command));
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
                        tracing::error!(
                            connection = connection.0,
                            kind = name,
                            "message cannot be encoded: {}",
                            error.message
                        );
                        unsendable.push((connection, envelope.xid));
                    }
                }
            }
        });
        if waiting > peer.send_buffer_bytes {
            peer.close(Closing::OutputLimit);
        }
        if !peer.is_touched.swap(true, Ordering::Relaxed) {
            self.touched.push(peer.clone());
        }
    }

    fn event(&mut self, event: Event) {
        match &event {
            Event::SwitchUp(datapath) => {
                let connection = self.controller.inspect().connection_of(*datapath);
                if let Some(peer) = connection.and_then(|connection| self.peers.get(&connection)) {
                    self.hub.finished(peer, *datapath);
                    tracing::info!(connection = peer.id.0, peer = %peer.address, datapath = %dpid(*datapath), "switch is up");
                }
            }
            Event::SwitchDown(datapath) => tracing::warn!(datapath = %dpid(*datapath), "switch is down"),
            Event::SwitchError { datapath, error, message } => {
                tracing::warn!(datapath = %dpid(*datapath), ?error, "switch sent an error: {message}");
            }
            Event::ReadBackTooLarge { datapath, limit_bytes } => tracing::warn!(
                datapath = %dpid(*datapath),
                "switch disconnected: its ports, groups and rules take more than [limits] read_back_bytes = {limit_bytes}, or \
                 four times that together with other switches that are being read; raise it if its tables are this large"
            ),
            Event::RulesRestored { datapath, removed, changed, added, audits } => {
                let hint = match audits {
                    0..=2 => "",
                    _ => "; another program writes with the same owner: give each controller its own `owner`",
                };
                tracing::warn!(
                    datapath = %dpid(*datapath), removed, changed, added,
                    "rules were changed behind the controller's back and are restored{hint}"
                );
            }
            Event::Demoted(datapath) => tracing::warn!(
                datapath = %dpid(*datapath),
                "another controller is the master of this switch: this one changes nothing there. Stop one of them, or set \
                 [control] role = \"equal\" and another `owner`, and connect the switch again"
            ),
            Event::LinkUp { from, to } => tracing::info!(from = end(from), to = end(to), "link is up"),
            Event::LinkDown { from, to } => tracing::warn!(from = end(from), to = end(to), "link is down"),
            Event::AddressingRefused { reason } => tracing::error!("addressing: {reason}"),
            Event::PortDamped { datapath, port } => {
                tracing::warn!(at = end(&(*datapath, *port)), "port flaps: it is treated as down until it is stable");
            }
            Event::Host(_)
            | Event::HostRefused { .. }
            | Event::HostGone { .. }
            | Event::AddressConflict { .. }
            | Event::ProbeAtHostPort { .. } => log_host_event(&event),
            Event::Member { pool, member, address, state } => {
                let (pool, member, state) = (pool.0, member.0, state.words());
                tracing::info!(pool, member, %address, "member: {state}");
            }
            Event::FlowMigrated(tuple) => tracing::debug!(?tuple, "flow migrated"),
            Event::Closed { connection, reason } => {
                // The task of the connection logs the reason. Clients do not get the event: any
                // peer could fill the stream with its connections.
                if let Some(peer) = self.peers.get(connection) {
                    peer.close(Closing::Refused(*reason));
                }
                return;
            }
        }
        self.publish(DaemonEvent::Event(event));
    }

    fn publish(&self, event: DaemonEvent) {
        // The send fails only if no reader is subscribed.
        let _ = self.events.send(event);
    }
    pub(crate) fn report(&mut self, report: AgentReport) {
        self.agent_commands.reported(&report);
        self.controller.handle_agent_report(self.clock.now(), report);
        self.drain();
    }

    /// Handles server statistics of an agent. Returns whether the server is a member of a pool.
    pub(crate) fn handle_server_stats(
        &mut self,
        host: Ipv4Addr,
        stats: balance::server::ServerStats,
        received: ServerStats,
    ) -> bool {
        let now = self.clock.now();
        let is_member = self.controller.handle_member_report(now, host, stats);
        // Statistics of other hosts are not stored: forged addresses could fill the memory.
        if is_member {
            self.agent_stats.insert(host, (now, received));
        }
        self.drain();
        is_member
    }

    /// Handles what a router reports over its BMP session.
    pub(crate) fn handle_routes(&mut self, input: &RouteInput) {
        self.controller.handle_routes(self.clock.now(), input);
        self.drain();
    }

    pub(crate) fn set_services(&mut self, services: vip::Services) -> Result<(), vip::ServicesError> {
        let members = services.pools.iter().flat_map(|pool| pool.members.iter().map(|member| member.address));
        let members: BTreeSet<Ipv4Addr> = members.collect();
        self.controller.set_services(self.clock.now(), services)?;
        self.agent_stats.retain(|host, _| members.contains(host));
        self.drain();
        Ok(())
    }
    pub(crate) fn set_balancer(&mut self, spec: Spec) {
        tracing::info!(balancer = spec.label(), "balancer replaced");
        // The new balancer sends its own agent commands; those of the old one no longer apply.
        self.agent_commands = AgentCommands::default();
        self.controller.set_balancer(self.clock.now(), &spec);
        self.balancer = spec;
    }

    pub(crate) fn note_metrics(&self) {
        let metrics = &self.metrics;
        metrics.copy_control(&self.controller.tally());
        let switches = self.controller.inspect().switches().filter(|switch| switch.connection.is_some());
        metrics.switches.set(switches.count() as i64);
        metrics.hosts.set(self.controller.inspect().hosts().count() as i64);
        metrics.links.set(self.controller.inspect().links().filter(|link| link.is_alive).count() as i64);
        metrics.flows.set(self.controller.inspect().flows().count() as i64);
        if let Some(edge) = self.controller.inspect().edge() {
            metrics.edge.replace(&edge);
        }
        metrics.handshaking.set(self.hub.handshaking() as i64);
        metrics.runtime_tasks.set(tokio::runtime::Handle::current().metrics().num_alive_tasks() as i64);
    }
}
