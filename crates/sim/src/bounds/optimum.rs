//! The fluid optimum of a run (mechanisms.md P29): at every arrival, departure and change of
//! capacity the rates of all active flows are recomputed, limited only by the cuts of the network.
//!
//! A flow takes the time of its wire bytes at the rates it gets, plus the latency part of its ideal
//! completion time: exactly its ideal time if it never shares, and never less.
//!
//! **What it bounds.** Its rates at any moment are within every cut, as those of any routing are;
//! max-min fair ones make the smallest rate as large as possible. Hence, for flows of equal size
//! that start together over paths of equal length, no balancer ends the last flow sooner. It is
//! *not* a bound on the mean completion time: fair sharing does not minimise that. `order=srpt`
//! comes closer. If a single link is the bottleneck it is the minimum; elsewhere the greedy order
//! is within a factor of two of it (pFabric, SIGCOMM 2013).

use std::sync::Arc;

use net::Routes;

use super::cuts::{Capacity, Cuts};
use super::fill::{Filler, Users};
use super::{Ledger, Order};
use crate::outcome::{Outcome, Series};
use crate::scenario::Scenario;
use crate::timers::NEVER;
use crate::{Progress, SimError};

const BYTES_PER_PS: f64 = 1.0 / 8e12;

struct Fluid {
    id: u32,
    /// Wire bytes still to send at `since`.
    left: f64,
    since: u64,
    /// Wire bytes per picosecond since then.
    rate: f64,
    finish: u64,
    /// Latency part of the ideal completion time, without the time of the bytes, picoseconds.
    latency: u64,
    limits: Box<[u32]>,
}

impl Fluid {
    fn left_at(&self, now: u64) -> f64 {
        (self.left - self.rate * (now - self.since) as f64).max(0.0)
    }

    fn set_rate(&mut self, now: u64, rate: f64) {
        // A flow whose rate stays keeps its finish time to the picosecond.
        if rate == self.rate {
            return;
        }
        self.left = self.left_at(now);
        (self.since, self.rate) = (now, rate);
        self.finish = if rate > 0.0 { now.saturating_add((self.left / rate).round() as u64) } else { NEVER };
    }
}

struct Optimum<'a> {
    ledger: Ledger<'a>,
    scenario: &'a Scenario<'a>,
    cuts: Cuts,
    /// Capacities of the intact network, bytes per picosecond.
    full: Vec<f64>,
    capacity: Vec<f64>,
    order: Order,
    flows: Vec<Fluid>,
    /// Wire bytes sent by each host, received by each host.
    carried: Vec<[f64; 2]>,
    /// Rate of each flow that has been sent and not yet arrived, for its bytes in flight.
    last_rate: Vec<f64>,
    filler: Filler,
    users: Users,
    rates: Vec<f64>,
    queue: Vec<u32>,
}

pub(crate) fn run(scenario: &Scenario<'_>, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<Outcome, SimError> {
    let params = &scenario.balancer.params;
    let capacity = if params.text("capacity") == "hose" { Capacity::Hose } else { Capacity::Cut };
    let cuts = Cuts::new(scenario.topology, capacity);
    let intact: Vec<u64> = scenario.topology.links().iter().map(|link| link.rate.as_bps()).collect();
    let full = in_bytes(cuts.capacities(&intact));
    let mut run = Optimum {
        ledger: Ledger::new(scenario, Arc::new(Routes::intact(scenario.topology))),
        scenario,
        capacity: full.clone(),
        full,
        order: if params.text("order") == "srpt" { Order::Srpt } else { Order::MaxMin },
        flows: Vec::new(),
        carried: vec![[0.0; 2]; scenario.topology.hosts().len()],
        last_rate: vec![0.0; scenario.flows.flows.len()],
        filler: Filler::default(),
        users: Users::new(),
        rates: Vec::new(),
        queue: Vec::new(),
        cuts,
    };
    run.play(progress)?;
    run.outcome()
}

fn in_bytes(capacities_bps: Vec<f64>) -> Vec<f64> {
    capacities_bps.into_iter().map(|bps| bps * BYTES_PER_PS).collect()
}

impl Optimum<'_> {
    fn play(&mut self, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<(), SimError> {
        while self.ledger.is_open() {
            let next = self.flows.iter().map(|flow| flow.finish).fold(self.ledger.next_event(), u64::min);
            if !self.ledger.proceed(next, progress)? {
                break;
            }
            self.step();
        }
        Ok(())
    }

    /// Handles everything that happens at this instant, then recomputes the rates if anything did.
    fn step(&mut self) {
        let mut must_share = self.retire();
        self.ledger.close_arrived();
        if let Some(rates_bps) = self.ledger.changed_rates() {
            self.capacity = in_bytes(self.cuts.capacities(&rates_bps));
            must_share = true;
        }
        while let Some(id) = self.ledger.begin() {
            self.add(id);
            must_share = true;
        }
        if must_share {
            self.share();
        }
    }

    fn retire(&mut self) -> bool {
        let now = self.ledger.now;
        let before = self.flows.len();
        let flows = std::mem::take(&mut self.flows);
        self.flows = flows
            .into_iter()
            .filter(|flow| {
                if flow.finish <= now {
                    self.last_rate[flow.id as usize] = flow.rate;
                    self.count_sent(flow.id, wire_bytes(self.scenario, flow.id));
                    self.ledger.arrives(flow.id, now.saturating_add(flow.latency));
                }
                flow.finish > now
            })
            .collect();
        self.flows.len() < before
    }

    fn add(&mut self, id: u32) {
        let flow = &self.scenario.flows.flows[id as usize];
        let limits: Box<[u32]> = self.cuts.limits(flow.src, flow.dst).collect();
        let alone = limits.iter().map(|limit| self.full[*limit as usize]).fold(f64::INFINITY, f64::min);
        let left = wire_bytes(self.scenario, id);
        let ideal = self.ledger.records[id as usize].ideal.as_ps();
        let latency = ideal.saturating_sub((left / alone).round() as u64);
        let since = self.ledger.now;
        self.flows.push(Fluid { id, left, since, rate: 0.0, finish: NEVER, latency, limits });
    }

    fn share(&mut self) {
        let now = self.ledger.now;
        self.users.clear();
        for flow in &self.flows {
            let limits = flow.limits.iter().copied();
            self.users.push(limits.filter(|limit| self.capacity[*limit as usize].is_finite()));
        }
        match self.order {
            Order::MaxMin => self.filler.max_min(&self.capacity, &self.users, &mut self.rates),
            Order::Srpt => {
                self.queue.clear();
                self.queue.extend(0..self.flows.len() as u32);
                let flows = &self.flows;
                let key = |ix: u32| (flows[ix as usize].left_at(now), flows[ix as usize].id);
                self.queue.sort_unstable_by(|a, b| {
                    let (a, b) = (key(*a), key(*b));
                    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
                });
                self.filler.greedy(&self.capacity, &self.users, &self.queue, &mut self.rates);
            }
        }
        for (flow, rate) in self.flows.iter_mut().zip(&self.rates) {
            flow.set_rate(now, *rate);
        }
    }

    fn count_sent(&mut self, id: u32, bytes: f64) {
        let flow = &self.scenario.flows.flows[id as usize];
        self.carried[flow.src.ix()][0] += bytes;
        self.carried[flow.dst.ix()][1] += bytes;
    }

    fn outcome(mut self) -> Result<Outcome, SimError> {
        let now = self.ledger.now;
        for flow in std::mem::take(&mut self.flows) {
            let sent = wire_bytes(self.scenario, flow.id) - flow.left_at(now);
            self.count_sent(flow.id, sent);
            self.note_delivered(flow.id, sent - flow.rate * flow.latency as f64);
        }
        for (at, id) in self.ledger.undelivered() {
            let missing = self.last_rate[id as usize] * at.saturating_sub(now) as f64;
            self.note_delivered(id, wire_bytes(self.scenario, id) - missing);
        }
        let bytes = self.link_bytes();
        self.ledger.outcome(bytes, Series::default())
    }

    /// Records the payload of a running flow that has arrived: its share of those wire bytes.
    fn note_delivered(&mut self, id: u32, wire: f64) {
        let size = self.scenario.flows.flows[id as usize].size_bytes;
        let share = (wire / wire_bytes(self.scenario, id)).clamp(0.0, 1.0);
        self.ledger.records[id as usize].delivered_bytes = ((size as f64 * share) as u64).min(size - 1);
    }

    /// Returns the bytes of the links of single-homed hosts; a fluid takes no particular others.
    fn link_bytes(&self) -> Vec<u64> {
        let mut bytes = vec![0; self.scenario.topology.links().len()];
        for (host, carried) in (0u32..).map(net::HostIx).zip(&self.carried) {
            for (links, carried) in self.cuts.crossing[host.ix()].iter().zip(carried) {
                if let [link] = links.as_slice() {
                    bytes[link.ix()] = carried.round() as u64;
                }
            }
        }
        bytes
    }
}

fn wire_bytes(scenario: &Scenario<'_>, id: u32) -> f64 {
    scenario.config.transport.wire_bytes(scenario.flows.flows[id as usize].size_bytes) as f64
}
