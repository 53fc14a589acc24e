//! The Fastpass arbiter as a packetised bound (mechanisms.md P23; Perry et al., SIGCOMM 2014).
//!
//! Time is divided into slots as long as a full packet on the fastest host link. In each slot the
//! arbiter visits the pairs of hosts with packets to send, the one served least recently first (or
//! the one with the fewest remaining). It grants a packet to each whose sender, receiver and path
//! are free: a greedy maximal matching. Within a pair flows take turns (or the shortest goes
//! first). Slots follow each other while there is demand. After an idle period the next one begins
//! when a demand arrives, so a single flow takes exactly its ideal time.
//!
//! Paths: in a Clos whose upper stages are as wide as the ones below, the matching is
//! edge-coloured, so every packet has a path. Elsewhere, or with failed or slow links, a packet
//! takes the first shortest path on which every link can begin to send it within the slot, and the
//! matching is maximal among those only. Waiting on a link that carries several packets of a slot
//! is not charged.

mod clos;
mod colour;
mod demands;
mod links;
mod paths;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use net::{LinkIx, NodeKind, Routes, Time};

use self::demands::Demands;
use self::paths::Assigner;
use super::{Ledger, Order};
use crate::links::port::serialisation_ps;
use crate::outcome::Outcome;
use crate::probes::Sampler;
use crate::scenario::Scenario;
use crate::timers::NEVER;
use crate::{Progress, SimError};

struct Fastpass<'a> {
    ledger: Ledger<'a>,
    scenario: &'a Scenario<'a>,
    assigner: Assigner,
    demands: Demands,
    /// Future requests at the arbiter: time and flow.
    requests: BinaryHeap<Reverse<(u64, u32)>>,
    request_delay: u64,
    /// Length of a slot, and the earliest beginning of the next one.
    slot: u64,
    next_slot: u64,
    /// Rate now (0 while down), delay, and time of a full packet, per link.
    rates: Vec<u64>,
    hop: Vec<u64>,
    carried: Vec<u64>,
    sampler: Option<Sampler>,
    last_arrival: Vec<u64>,
}

/// Computes the Fastpass completion times of a run: a packetised bound, not a balancer.
pub(crate) fn run(scenario: &Scenario<'_>, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<Outcome, SimError> {
    let topology = scenario.topology;
    let params = &scenario.balancer.params;
    let order = if params.text("order") == "srpt" { Order::Srpt } else { Order::MaxMin };
    let routes = Arc::new(Routes::intact(topology));
    let rates: Vec<u64> = topology.links().iter().map(|link| link.rate.as_bps()).collect();
    let slot = slot_ps(scenario);
    let probes = &scenario.config.probes;
    let mut run = Fastpass {
        ledger: Ledger::new(scenario, Arc::clone(&routes)),
        scenario,
        assigner: Assigner::new(topology, &routes, &rates, packet_bytes(scenario), slot),
        demands: Demands::new(order, scenario.flows.flows.len()),
        requests: BinaryHeap::new(),
        request_delay: params.duration("request_delay").as_ps(),
        slot,
        next_slot: 0,
        hop: Vec::new(),
        rates,
        carried: vec![0; topology.links().len()],
        sampler: probes.series.then(|| Sampler::new(topology, probes)),
        last_arrival: vec![0; scenario.flows.flows.len()],
    };
    run.time_hops();
    run.play(progress)?;
    run.outcome()
}

fn packet_bytes(scenario: &Scenario<'_>) -> u64 {
    u64::from(scenario.config.transport.packet_bytes())
}

fn slot_ps(scenario: &Scenario<'_>) -> u64 {
    let topology = scenario.topology;
    let is_host = |link: &&net::Link| topology.node(link.from).kind == NodeKind::Host;
    let fastest = topology.links().iter().filter(is_host).map(|link| link.rate.as_bps()).max().unwrap_or(1);
    serialisation_ps(packet_bytes(scenario), fastest).max(1)
}

impl Fastpass<'_> {
    fn play(&mut self, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<(), SimError> {
        while self.ledger.is_open() {
            let next = self.next_slot_at().min(self.next_request()).min(self.ledger.next_event());
            if next != NEVER {
                self.sample_until(next);
            }
            if !self.ledger.proceed(next, progress)? {
                break;
            }
            self.step();
        }
        Ok(())
    }

    fn next_slot_at(&self) -> u64 {
        if self.demands.is_idle() { NEVER } else { self.next_slot.max(self.ledger.now) }
    }

    fn next_request(&self) -> u64 {
        self.requests.peek().map_or(NEVER, |Reverse((at, _))| *at)
    }

    fn step(&mut self) {
        let now = self.ledger.now;
        self.ledger.close_arrived();
        if let Some(rates) = self.ledger.changed_rates() {
            self.change_rates(rates);
        }
        while let Some(id) = self.ledger.begin() {
            self.requests.push(Reverse((now.saturating_add(self.request_delay), id)));
        }
        while self.next_request() <= now {
            if let Some(Reverse((_, id))) = self.requests.pop() {
                self.demand(id);
            }
        }
        if self.next_slot_at() <= now {
            self.grant_slot(now);
        }
    }

    fn demand(&mut self, id: u32) {
        let flow = &self.scenario.flows.flows[id as usize];
        let packets = flow.size_bytes.div_ceil(u64::from(self.scenario.config.transport.mss_bytes));
        let is_reachable = self.assigner.is_reachable(flow.src, flow.dst);
        self.demands.add(id, flow.src, flow.dst, packets, is_reachable);
    }

    fn change_rates(&mut self, rates: Vec<u64>) {
        let topology = self.scenario.topology;
        let alive: Vec<bool> = rates.iter().map(|rate| *rate > 0).collect();
        let routes = Arc::new(Routes::new(topology, &alive));
        self.assigner = Assigner::new(topology, &routes, &rates, packet_bytes(self.scenario), self.slot);
        self.rates = rates;
        self.time_hops();
        let assigner = &self.assigner;
        self.demands.reconsider(|src, dst| assigner.is_reachable(src, dst));
    }

    fn time_hops(&mut self) {
        let bytes = packet_bytes(self.scenario);
        let links = self.scenario.topology.links().iter().zip(&self.rates);
        self.hop = links.map(|(link, rate)| hop_ps(bytes, *rate, link.delay)).collect();
    }

    fn grant_slot(&mut self, now: u64) {
        let assigner = &mut self.assigner;
        assigner.begin_slot(now);
        let granted = self.demands.match_pairs(|src, dst| assigner.admit(src, dst));
        assigner.assign();
        self.next_slot = if granted > 0 { now.saturating_add(self.slot) } else { assigner.next_chance() };
        for grant in 0..granted {
            let (id, left) = self.demands.take_packet(grant);
            self.send(id, left, grant, now);
        }
        self.demands.end_slot();
    }

    /// Sends a granted packet; `left` packets of its flow remain after it.
    fn send(&mut self, id: u32, left: u64, grant: usize, now: u64) {
        let transport = &self.scenario.config.transport;
        let (mss, header) = (u64::from(transport.mss_bytes), u64::from(transport.header_bytes));
        let size = self.scenario.flows.flows[id as usize].size_bytes;
        let is_tail = left == 0;
        let bytes = header + if is_tail { size - (size.div_ceil(mss) - 1) * mss } else { mss };
        let path = self.assigner.path(grant);
        let mut arrival = now;
        for link in path {
            let link = *link as usize;
            self.carried[link] += bytes;
            arrival += if is_tail { self.hop_of(link, bytes) } else { self.hop[link] };
        }
        let before = self.last_arrival[id as usize];
        let arrival = match path.last() {
            Some(last) if is_tail && before > 0 => self.arrival_of_both(*last as usize, before, arrival, bytes),
            _ => arrival.max(before),
        };
        self.last_arrival[id as usize] = arrival;
        if is_tail {
            self.ledger.arrives(id, arrival);
        }
    }

    /// Returns when a full packet and the shorter last one have both arrived, given their arrival
    /// times without each other. The shorter one may overtake, but both need the receiver's link.
    fn arrival_of_both(&self, link: usize, full: u64, short: u64, short_bytes: u64) -> u64 {
        let receiver = self.scenario.topology.link(LinkIx(link as u32)).to;
        if self.scenario.topology.out_links(receiver).len() > 1 {
            return full.max(short);
        }
        let (full_ps, short_ps) = (self.hop[link], self.hop_of(link, short_bytes));
        let delay = self.scenario.topology.link(LinkIx(link as u32)).delay.as_ps();
        // The link may have slowed down since the full packet was granted.
        let (full_at, short_at) = (full.saturating_sub(full_ps), short - short_ps);
        if short_at < full_at {
            full_at.max(short_at + short_ps - delay) + full_ps
        } else {
            short_at.max(full_at + full_ps - delay) + short_ps
        }
    }

    fn hop_of(&self, link: usize, bytes: u64) -> u64 {
        hop_ps(bytes, self.rates[link], self.scenario.topology.link(LinkIx(link as u32)).delay)
    }

    fn sample_until(&mut self, at: u64) {
        let at = at.min(self.scenario.config.stop.until.map_or(NEVER, Time::as_ps));
        let carried = &self.carried;
        if let Some(sampler) = &mut self.sampler {
            while sampler.next <= at {
                sampler.sample(|link| carried[link as usize]);
            }
        }
    }

    fn outcome(mut self) -> Result<Outcome, SimError> {
        let now = self.ledger.now;
        let mss = u64::from(self.scenario.config.transport.mss_bytes);
        let size = |id: u32| self.scenario.flows.flows[id as usize].size_bytes;
        let granted = self.demands.granted().into_iter();
        let granted = granted.map(|(id, packets)| (id, packets, self.last_arrival[id as usize]));
        let undelivered = self.ledger.undelivered().into_iter().map(|(at, id)| (id, size(id).div_ceil(mss), at));
        for (id, packets, at) in granted.chain(undelivered) {
            // At most one packet per slot is in flight.
            let late = at.saturating_sub(now).div_ceil(self.slot);
            let delivered = packets.saturating_sub(late) * mss;
            self.ledger.records[id as usize].delivered_bytes = delivered.min(size(id) - 1);
        }
        let carried = &self.carried;
        let series = self.sampler.map(|sampler| sampler.finish(|link| carried[link as usize], now));
        self.ledger.outcome(self.carried.clone(), series.unwrap_or_default())
    }
}

fn hop_ps(bytes: u64, rate_bps: u64, delay: Time) -> u64 {
    if rate_bps == 0 { NEVER } else { serialisation_ps(bytes, rate_bps) + delay.as_ps() }
}

pub(crate) fn uplink(routes: &Routes, host: net::HostIx) -> Option<LinkIx> {
    routes.last_link(host).map(LinkIx::reverse)
}

#[cfg(test)]
mod tests;
