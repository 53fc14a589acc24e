//! Requests to virtual services: connections, servers and agents ([`crate::services`]).
//!
//! A connection has a slot for the data of the client, and one for the data of the server, opened
//! when the response is ready. Both carry data of the ordinary transport.

mod agents;
mod bound;
mod connections;
mod content;
mod front_ends;
mod server;

use std::collections::BTreeMap;

use crate::openflow::DirectionHeaders;
use crate::queue::NIL;
use crate::scenario::Scenario;
use crate::services::{ConnectionCounts, ServerRecord, ServicesConfig, ServicesRecord};
use crate::timers::WakeTimer;
use agents::Agent;
use front_ends::FrontEnds;
use server::Processor;

pub use bound::ideal_response_times;
pub(crate) use front_ends::balancer_of;

/// First of the ports that clients use one after another, and their number, as in Linux.
const FIRST_PORT: u32 = 32_768;
const PORTS: u32 = 28_232;

#[derive(Clone, Copy, Debug)]
struct RequestConnection {
    request: u32,
    class: u32,
    /// Slots of both directions while they are in use, or [`NIL`].
    up: u32,
    down: u32,
    /// Position of the server, once a packet has reached it.
    server: u32,
    /// Key of its job at the server while it runs, and the time it began.
    job: Option<u128>,
    job_started: u64,
    headers: Option<DirectionHeaders>,
    is_over: bool,
    slots: u8,
    role: Role,
    /// Client's port, which a front end's balancer may hash.
    client_port: u16,
    /// The other connection of a spliced request, or [`NIL`].
    peer: u32,
    /// Position of the member that a front end picked, or [`NIL`].
    member: u32,
    /// Spliced requests: segments of the response that the front end has (back) or offers (front).
    relayed: u32,
    /// Pieces of the response that wait for the front end's processor.
    relaying: u32,
    opened_at: u64,
}

/// Ends of a connection, and what its server does with the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// From a client to the virtual address; a member serves it.
    Plain,
    /// From a client to the virtual address; a front end forwards it by content.
    Front,
    /// From a front end to a member.
    Back,
    /// From a client to the member that a front end named.
    Redirected,
}

struct Server {
    host: u32,
    processor: Processor,
    connections: u32,
    agent: Agent,
    record: ServerRecord,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    pages_left: u32,
    served_by: Option<u32>,
}

pub(crate) struct Requests<'a> {
    config: &'a ServicesConfig,
    servers: Vec<Server>,
    /// Per host, its position among the servers, or [`NIL`].
    server_of_host: Vec<u32>,
    connections: Vec<RequestConnection>,
    free: Vec<u32>,
    /// Per slot its connection, or [`NIL`].
    of_slot: Vec<u32>,
    progress: Vec<Progress>,
    opened_by: Vec<u32>,
    pub(crate) open: u64,
    /// Time of the earliest pending event for servers and agents.
    awaited: WakeTimer,
    /// Number of the slot last used, under which packets for the controller are kept.
    serial: u32,
    counts: ConnectionCounts,
    pub(crate) misaddressed: u64,
    bounds: BTreeMap<(u32, u32), u64>,
    front_ends: FrontEnds<'a>,
    /// Pieces of responses at processors of front ends: connection and segments.
    pieces: Vec<(u32, u32)>,
    free_pieces: Vec<u32>,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(config: &'a ServicesConfig, scenario: &Scenario<'a>) -> Requests<'a> {
        let (topology, requests) = (scenario.topology, scenario.flows.flows.len());
        let mut server_of_host = vec![NIL; topology.hosts().len()];
        let mut servers = Vec::new();
        for (ix, server) in (0u32..).zip(&config.servers) {
            server_of_host[server.host.ix()] = ix;
            servers.push(Server {
                host: server.host.0,
                processor: Processor::new(server.cores),
                connections: 0,
                agent: Agent::new(config.agents),
                record: ServerRecord { pages: vec![0; config.classes.len()], ..ServerRecord::default() },
            });
        }
        Requests {
            config,
            servers,
            server_of_host,
            connections: Vec::new(),
            free: Vec::new(),
            of_slot: Vec::new(),
            progress: vec![Progress { pages_left: 0, served_by: None }; requests],
            opened_by: vec![0; topology.hosts().len()],
            open: 0,
            awaited: WakeTimer::default(),
            serial: 0,
            counts: ConnectionCounts::default(),
            misaddressed: 0,
            bounds: BTreeMap::new(),
            front_ends: FrontEnds::new(config, scenario),
            pieces: Vec::new(),
            free_pieces: Vec::new(),
        }
    }

    fn connection_of(&self, slot: u32) -> Option<u32> {
        self.of_slot.get(slot as usize).copied().filter(|connection| *connection != NIL)
    }

    fn assign(&mut self, slot: u32, connection: u32) {
        if self.of_slot.len() <= slot as usize {
            self.of_slot.resize(slot as usize + 1, NIL);
        }
        self.of_slot[slot as usize] = connection;
        self.connections[connection as usize].slots += 1;
    }

    fn release(&mut self, slot: u32) {
        let connection = std::mem::replace(&mut self.of_slot[slot as usize], NIL);
        let t = &mut self.connections[connection as usize];
        t.slots -= 1;
        // The slot may soon serve another connection, or the other direction of this one.
        for direction in [&mut t.up, &mut t.down] {
            *direction = if *direction == slot { NIL } else { *direction };
        }
        self.free_if_unused(connection);
    }

    fn free_if_unused(&mut self, connection: u32) {
        let t = &self.connections[connection as usize];
        if t.is_over && t.slots == 0 && t.relaying == 0 {
            self.free.push(connection);
        }
    }

    fn next_serial(&mut self) -> u32 {
        // NIL represents a free slot.
        self.serial = if self.serial >= NIL - 1 { 0 } else { self.serial + 1 };
        self.serial
    }

    fn next_port(&mut self, client: u32) -> u16 {
        let opened = &mut self.opened_by[client as usize];
        let port = FIRST_PORT + *opened % PORTS;
        *opened = opened.wrapping_add(1);
        port as u16
    }

    /// Closes a connection, which frees it at its server. Returns whether it was open until now.
    fn finish(&mut self, now: u64, connection: u32, is_answered: bool) -> bool {
        let t = &mut self.connections[connection as usize];
        if std::mem::replace(&mut t.is_over, true) {
            return false;
        }
        let (server, job) = (t.server, t.job.take());
        *if is_answered { &mut self.counts.answered } else { &mut self.counts.failed } += 1;
        if let Some(server) = self.servers.get_mut(server as usize) {
            server.connections -= 1;
            if let Some(key) = job {
                server.processor.cancel(now, connection, key);
            }
        }
        true
    }

    pub(crate) fn record(&mut self, now: u64) -> ServicesRecord {
        let of_server = |server: &mut Server| {
            server.processor.advance(now);
            ServerRecord { busy: net::Time::from_ps(server.processor.busy()), ..server.record.clone() }
        };
        let counts = self.counts;
        ServicesRecord {
            servers: self.servers.iter_mut().map(of_server).collect(),
            served_by: self.progress.iter().map(|progress| progress.served_by).collect(),
            connections: ConnectionCounts { open: counts.opened - counts.answered - counts.failed, ..counts },
            misaddressed: self.misaddressed,
        }
    }
}
