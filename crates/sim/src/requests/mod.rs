//! Requests to virtual services (`services.rs` says what is modelled): their connections, the servers, and the agents there.
//!
//! A connection has two slots: one for what the client sends, one, opened when the answer is ready, for what the server
//! sends. Both are data of the ordinary transport with acknowledgements the other way.

mod agents;
mod bound;
mod server;
mod talks;

use std::collections::BTreeMap;

use net::Topology;

use crate::controlled::Ways;
use crate::outcome::FlowRecord;
use crate::queue::NIL;
use crate::services::{ConnectionCounts, ServerRecord, ServicesConfig, ServicesRecord};
use agents::Agent;
use server::Processor;

pub use bound::ideal_response_times;

/// First of the ports that clients take one after another, and how many there are (IANA's ephemeral ports are fewer;
/// these are Linux's).
const FIRST_PORT: u32 = 32_768;
const PORTS: u32 = 28_232;

/// A connection.
#[derive(Clone, Copy, Debug)]
struct Talk {
    /// Its request: position in the list.
    request: u32,
    class: u32,
    /// Slots of both ways while they are in use, or [`NIL`].
    up: u32,
    down: u32,
    /// Position of the server, once a packet has reached it.
    server: u32,
    /// Its key among the jobs of the server, while it is one, and when it became one.
    job: Option<u128>,
    heard: u64,
    /// Headers, once the request has arrived.
    ways: Option<Ways>,
    /// The answer has arrived, or somebody has given up.
    is_over: bool,
    /// Slots in use.
    slots: u8,
}

/// A server.
struct Server {
    host: u32,
    processor: Processor,
    /// Connections that have reached it and are not over.
    connections: u32,
    agent: Agent,
    record: ServerRecord,
}

/// Where a request is.
#[derive(Clone, Copy, Debug)]
struct Progress {
    pages_left: u32,
    served_by: Option<u32>,
}

/// Everything of a run that services add.
pub(crate) struct Requests<'a> {
    config: &'a ServicesConfig,
    servers: Vec<Server>,
    /// Per host, its position among the servers, or [`NIL`].
    server_of_host: Vec<u32>,
    talks: Vec<Talk>,
    free: Vec<u32>,
    /// Per slot its connection, or [`NIL`].
    of_slot: Vec<u32>,
    progress: Vec<Progress>,
    /// Connections each client has opened.
    opened_by: Vec<u32>,
    /// Requests that have begun and not ended.
    pub(crate) open: u64,
    /// Time of the earliest event pending for servers and agents.
    awaited: u64,
    /// A number for each slot ever used, under which the controller's packets are kept.
    serial: u32,
    counts: ConnectionCounts,
    pub(crate) misaddressed: u64,
    /// Least response times, by client and class.
    bounds: BTreeMap<(u32, u32), u64>,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(config: &'a ServicesConfig, topology: &Topology, requests: usize) -> Requests<'a> {
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
            talks: Vec::new(),
            free: Vec::new(),
            of_slot: Vec::new(),
            progress: vec![Progress { pages_left: 0, served_by: None }; requests],
            opened_by: vec![0; topology.hosts().len()],
            open: 0,
            awaited: crate::flows::NEVER,
            serial: 0,
            counts: ConnectionCounts::default(),
            misaddressed: 0,
            bounds: BTreeMap::new(),
        }
    }

    /// The connection a slot serves.
    fn talk_of(&self, slot: u32) -> Option<u32> {
        self.of_slot.get(slot as usize).copied().filter(|talk| *talk != NIL)
    }

    fn keep(&mut self, talk: Talk) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.talks[place as usize] = talk;
                place
            }
            None => {
                self.talks.push(talk);
                self.talks.len() as u32 - 1
            }
        }
    }

    fn assign(&mut self, slot: u32, talk: u32) {
        if self.of_slot.len() <= slot as usize {
            self.of_slot.resize(slot as usize + 1, NIL);
        }
        self.of_slot[slot as usize] = talk;
        self.talks[talk as usize].slots += 1;
    }

    /// A slot is free again.
    fn release(&mut self, slot: u32) {
        let talk = std::mem::replace(&mut self.of_slot[slot as usize], NIL);
        let t = &mut self.talks[talk as usize];
        t.slots -= 1;
        // It may soon serve another connection, or the other way of this one.
        for way in [&mut t.up, &mut t.down] {
            *way = if *way == slot { NIL } else { *way };
        }
        self.free_if_done(talk);
    }

    fn free_if_done(&mut self, talk: u32) {
        let Talk { is_over, slots, .. } = self.talks[talk as usize];
        if is_over && slots == 0 {
            self.free.push(talk);
        }
    }

    fn next_serial(&mut self) -> u32 {
        // NIL stands for a slot that is free.
        self.serial = if self.serial >= NIL - 1 { 0 } else { self.serial + 1 };
        self.serial
    }

    fn next_port(&mut self, client: u32) -> u16 {
        let opened = &mut self.opened_by[client as usize];
        let port = FIRST_PORT + *opened % PORTS;
        *opened = opened.wrapping_add(1);
        port as u16
    }

    /// A connection is over: its server has one less. Whether it was open until now.
    fn finish(&mut self, now: u64, talk: u32, is_answered: bool) -> bool {
        let t = &mut self.talks[talk as usize];
        if std::mem::replace(&mut t.is_over, true) {
            return false;
        }
        let (server, job) = (t.server, t.job.take());
        *if is_answered { &mut self.counts.answered } else { &mut self.counts.failed } += 1;
        if let Some(server) = self.servers.get_mut(server as usize) {
            server.connections -= 1;
            if let Some(key) = job {
                server.processor.cancel(now, talk, key);
            }
        }
        true
    }

    /// What became of the servers, at the end of the run.
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

/// Counters of a slot join those of its request.
fn add_tally(record: &mut FlowRecord, tally: &crate::flows::Tally) {
    record.packets_sent += tally.packets;
    record.retransmitted += tally.retransmitted;
    record.spurious += tally.spurious;
    record.timeouts += tally.timeouts;
    record.fast_retransmits += tally.fast_retransmits;
    record.reordered += tally.reordered;
    record.reorder_extent = record.reorder_extent.max(tally.extent);
}
