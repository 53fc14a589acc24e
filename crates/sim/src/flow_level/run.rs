//! The event loop: starts, ends and rounds of flows, failures and samples.

use std::sync::Arc;

use balance::FlowLevel;
use net::Routes;
use prefetch_index::prefetch_index;

use super::acks::AckLoad;
use super::congestion::{LinkQueue, WindowLaw};
use super::flow_events::FlowEvents;
use super::members::Member;
use super::paths::PathFinder;
use super::queues::StandingQueue;
use super::results::payload;
use super::sender::{Phase, Sender};
use super::shares::Shares;
use crate::bounds::Ledger;
use crate::ideal::Ideals;
use crate::links::faults::Faults;
use crate::outcome::Outcome;
use crate::probes::Sampler;
use crate::scenario::{Scenario, TransportKind};
use crate::timers::NEVER;
use crate::transport::params::TransportParams;
use crate::{Progress, SimError, setup};

/// Returns a rate in bytes per picosecond.
pub(super) fn bytes_per_ps(bps: u64) -> f64 {
    bps as f64 * (1.0 / 8e12)
}

/// Solutions at one instant, at most: each changes the load of acknowledgements, and that the rates.
const ROUNDS_MAX: usize = 4;

/// Relative error of a rate that counts as max-min fair. The errors against packets are larger.
const FAIR: f64 = 0.005;

/// Share of its pace below which a flow does not use its window, and relative change of a pace from
/// which rates are solved again.
const FILLED: f64 = 0.95;
const PACE_STEP: f64 = 0.1;

pub(super) struct FlowRun<'a> {
    pub(super) scenario: &'a Scenario<'a>,
    pub(super) ledger: Ledger<'a>,
    paths: PathFinder<'a>,
    faults: Faults,
    pub(super) shares: Shares,
    pub(super) acks: AckLoad,
    events: FlowEvents,
    pub(super) senders: Vec<Sender>,
    unused: Vec<u32>,
    pub(super) queues: StandingQueue,
    pub(super) law: WindowLaw,
    pub(super) link_queues: Vec<LinkQueue>,
    /// Flows that compete with another at a link, and whether they alone keep a queue there.
    pub(super) rivals: Vec<u32>,
    pub(super) has_standing_queue: bool,
    /// Whether flows are divided over many links, which are in no order then.
    pub(super) is_split: bool,
    params: TransportParams,
    /// Bytes of a full packet.
    pub(super) packet: f64,
    /// Bytes of the initial window, and of the largest.
    initial_window: f64,
    pub(super) max_window: f64,
    pub(super) carried: Vec<f64>,
    pub(super) sampler: Option<Sampler>,
    /// Rate of each flow that has been sent and not yet arrived, for its bytes in flight.
    pub(super) last_rate: Vec<f32>,
    changed: Vec<(u32, f64)>,
}

impl<'a> FlowRun<'a> {
    pub(super) fn new(scenario: &'a Scenario<'a>) -> FlowRun<'a> {
        let (topology, config) = (scenario.topology, scenario.config);
        let transport = &config.transport;
        let routes = Arc::new(Routes::intact(topology));
        let base_rtt = Ideals::new(topology, transport, Arc::clone(&routes)).base_rtt();
        let extent = setup::extent(scenario, base_rtt);
        let params = TransportParams::new(transport, &extent);
        let packet = f64::from(transport.packet_bytes());
        let queues = StandingQueue::new(scenario, &extent);
        FlowRun {
            scenario,
            ledger: Ledger::new(scenario, Arc::clone(&routes)),
            paths: PathFinder::new(scenario, routes, base_rtt),
            faults: Faults::new(topology, &config.failures),
            shares: Shares::new(topology.links().iter().map(|link| bytes_per_ps(link.rate.as_bps())), FAIR),
            acks: AckLoad::new(scenario),
            events: FlowEvents::default(),
            senders: Vec::new(),
            unused: Vec::new(),
            law: queues.window_law(),
            queues,
            link_queues: vec![LinkQueue::default(); topology.links().len()],
            rivals: Vec::new(),
            has_standing_queue: false,
            is_split: scenario.balancer.entry.flow_level != FlowLevel::Path,
            packet,
            initial_window: params.initial_window * packet,
            max_window: f64::from(params.max_window) * packet,
            params,
            carried: vec![0.0; topology.links().len()],
            sampler: config.probes.series.then(|| Sampler::new(topology, &config.probes)),
            last_rate: vec![0.0; scenario.flows.flows.len()],
            changed: Vec::new(),
        }
    }

    pub(super) fn play(mut self, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<Outcome, SimError> {
        while self.ledger.is_open() {
            let next = self.events.first().map_or(NEVER, |(at, _)| at).min(self.ledger.next_event());
            let next = next.min(self.faults.next().unwrap_or(NEVER));
            let sample = self.sampler.as_ref().map_or(NEVER, |sampler| sampler.next);
            let next = if next == NEVER { NEVER } else { next.min(sample) };
            if !self.ledger.proceed(next, progress)? {
                break;
            }
            self.step();
        }
        self.outcome()
    }

    /// Handles everything that happens at this instant, then updates the rates.
    fn step(&mut self) {
        let now = self.ledger.now;
        if self.sampler.as_ref().is_some_and(|sampler| sampler.next <= now) {
            self.sample();
        }
        while let Some((_, number)) = self.events.first().filter(|(at, _)| *at <= now) {
            self.events.remove(number);
            self.on_event(number);
        }
        self.ledger.close_arrived();
        self.apply_failures();
        while let Some(id) = self.ledger.begin() {
            self.open(id);
        }
        self.update_rates();
    }

    fn update_rates(&mut self) {
        let mut changed = std::mem::take(&mut self.changed);
        for _ in 0..ROUNDS_MAX {
            self.shares.solve(|number, rate| changed.push((number, rate)));
            if changed.is_empty() {
                break;
            }
            changed.iter().for_each(|(number, _)| prefetch_index(&self.senders, *number as usize));
            for (number, rate) in changed.drain(..) {
                let sender = &mut self.senders[number as usize];
                let more = rate - sender.rate;
                sender.advance(self.ledger.now);
                sender.rate = rate;
                if sender.phase == Phase::Sending {
                    self.schedule(number);
                }
                for hop in self.shares.memberships.hops(number) {
                    self.acks.add(hop.link, more * hop.weight);
                }
            }
            let shares = &mut self.shares;
            self.acks.update(|link, capacity| shares.set_capacity(link, capacity));
        }
        self.changed = changed;
    }

    /// Takes a flow off its links.
    fn take_off(&mut self, number: u32) {
        self.count_bytes(number);
        let rate = std::mem::take(&mut self.senders[number as usize].rate);
        for hop in self.shares.memberships.hops(number) {
            self.acks.add(hop.link, -rate * hop.weight);
        }
        self.shares.remove(number);
    }

    fn schedule(&mut self, number: u32) {
        match self.senders[number as usize].pause() {
            NEVER => self.events.remove(number),
            at => self.events.set(number, at.max(self.ledger.now)),
        }
    }

    fn open(&mut self, id: u32) {
        let now = self.ledger.now;
        let number = self.unused.pop().unwrap_or(self.senders.len() as u32);
        if number as usize == self.senders.len() {
            self.senders.push(Sender::default());
        }
        self.paths.forget(number, self.scenario.flows.flows[id as usize].size_bytes);
        let is_found = self.paths.find(now, number, id);
        let rtt = self.paths.round_trip(id);
        let total = self.wire_bytes(id);
        self.shares.insert(number, &self.paths.links, f64::INFINITY);
        let alone = self.rate_alone();
        let ideal = self.ledger.records[id as usize].ideal.as_ps();
        self.senders[number as usize] = Sender {
            id,
            phase: Phase::Sending,
            total,
            left: total,
            budget: self.initial_window,
            window: self.initial_window,
            is_slow_start: true,
            alpha: 1.0,
            round: now,
            since: now,
            reduced: now,
            rtt,
            alone,
            latency: ideal.saturating_sub((total / alone).round() as u64),
            ..Sender::default()
        };
        // RDMA sends at its rate from the first packet on.
        let is_rdma = matches!(self.scenario.config.transport.kind, TransportKind::Rdma(_));
        if !is_found || !self.is_up(number) {
            self.stall(number);
        } else if self.scenario.config.transport.handshake && !is_rdma {
            self.wait(number, now + self.handshake(number));
        } else {
            self.begin_round(number);
        }
    }

    /// Returns the time of a SYN and its acknowledgement: a round trip without the time of payload.
    fn handshake(&self, number: u32) -> u64 {
        let sender = &self.senders[number as usize];
        let hops = self.shares.memberships.hops(number);
        let payload =
            f64::from(self.scenario.config.transport.packet_bytes() - self.scenario.config.transport.ack_bytes);
        let saved: f64 = hops.iter().map(|hop| hop.weight * payload / self.shares.capacity(hop.link)).sum();
        sender.rtt.saturating_sub(saved.round() as u64)
    }

    /// Returns the rate of a flow over the links found last if it has the intact network alone.
    fn rate_alone(&self) -> f64 {
        let links = self.paths.links.iter().filter(|(_, weight)| *weight > 0.0);
        let full = |link: u32| bytes_per_ps(self.scenario.topology.link(net::LinkIx(link)).rate.as_bps());
        links.map(|(link, weight)| full(*link) / weight).fold(f64::INFINITY, f64::min)
    }

    pub(super) fn wire_bytes(&self, id: u32) -> f64 {
        let size = self.scenario.flows.flows[id as usize].size_bytes;
        self.scenario.config.transport.wire_bytes(size) as f64
    }

    fn on_event(&mut self, number: u32) {
        let now = self.ledger.now;
        let sender = &mut self.senders[number as usize];
        sender.advance(now);
        match sender.phase {
            Phase::Unused => {}
            Phase::Stalled => self.on_timeout(number),
            Phase::Waiting => self.begin_round(number),
            Phase::Sending if sender.is_spent(sender.left) => self.finish(number),
            Phase::Sending => {
                let until = sender.round + sender.rtt + sender.found.delay;
                // The share fills the window: it does not limit the flow any more.
                let is_filled = if sender.paced_until > 0 { sender.rate < sender.pace * FILLED } else { now >= until };
                if is_filled && !sender.found.is_reducing() {
                    (sender.budget, sender.window_time, sender.paced_until) = (f64::INFINITY, now, 0);
                    self.limit_by_window(number);
                    self.schedule(number);
                } else {
                    self.adapt_window(number);
                    if until > now { self.wait(number, until) } else { self.begin_round(number) }
                }
            }
        }
    }

    fn limit_by_window(&mut self, number: u32) {
        let sender = &self.senders[number as usize];
        self.shares.set_limit(number, self.max_window / sender.rtt as f64);
    }

    fn wait(&mut self, number: u32, until: u64) {
        self.senders[number as usize].phase = Phase::Waiting;
        self.shares.set_limit(number, 0.0);
        self.events.set(number, until);
    }

    fn begin_round(&mut self, number: u32) {
        let now = self.ledger.now;
        let sender = &mut self.senders[number as usize];
        (sender.phase, sender.round) = (Phase::Sending, now);
        let packets = sender.window.min(sender.left) / self.packet;
        let found = self.congestion(number, packets);
        let sender = &mut self.senders[number as usize];
        sender.found = found;
        if sender.left == sender.total {
            sender.budget = sender.window;
            self.shares.set_limit(number, f64::INFINITY);
        } else {
            // Acknowledgements spread the window over the round trip. Small changes of its rate are
            // not worth a solution for all flows that it meets.
            let round_trip = sender.rtt + sender.found.delay;
            let pace = sender.window / round_trip as f64;
            (sender.budget, sender.paced_until) = (f64::INFINITY, now + round_trip);
            if (pace - sender.pace).abs() > PACE_STEP * sender.pace {
                sender.pace = pace;
                self.shares.set_limit(number, pace);
            }
        }
        // A round that follows at once may keep its rate, and no change of rate schedules its end.
        self.schedule(number);
    }

    fn finish(&mut self, number: u32) {
        let found = if self.senders[number as usize].is_steady() {
            self.congestion(number, 0.0)
        } else {
            self.senders[number as usize].found
        };
        let ends = self.ledger.now.min(self.burst_end(number));
        let sender = &mut self.senders[number as usize];
        sender.uncounted += sender.left;
        let Sender { id, rate, latency, lost, rtt, .. } = *sender;
        sender.phase = Phase::Unused;
        self.last_rate[id as usize] = rate as f32;
        let at = ends.saturating_add(latency).saturating_add(found.delay);
        self.ledger.arrives(id, at);
        let record = &mut self.ledger.records[id as usize];
        // The time from the arrival of the last byte to that of its acknowledgement.
        record.sender_fct = net::Time::from_ps(rtt.saturating_sub(latency.min(rtt / 2)));
        record.retransmitted = (lost / self.packet).round() as u32;
        self.close(number);
    }

    /// Returns when the last byte of a round has been sent at the latest, if a window limits the flow.
    /// Its packets leave as fast as the interface and the path allow. A queue serves packets in the
    /// order of their arrival: others fill a link once more at most, however many flows they are.
    fn burst_end(&self, number: u32) -> u64 {
        let sender = &self.senders[number as usize];
        let hops = self.shares.memberships.hops(number);
        let Some(first) = hops.first().filter(|_| !sender.is_steady()) else { return NEVER };
        let turns = self.shares.memberships.members(first.link).iter();
        let is_sending = |member: &&Member| self.senders[member.flow as usize].rate > 0.0;
        let interface = self.shares.capacity(first.link) / turns.filter(is_sending).count().max(1) as f64;
        let fastest = interface.min(sender.alone);
        let is_paced = sender.paced_until > 0;
        let sent = if is_paced {
            sender.rate * (self.ledger.now - sender.round) as f64
        } else {
            sender.window - sender.budget
        };
        let spare = hops.iter().filter(|hop| hop.weight > 0.0).map(|hop| self.shares.spare(hop.link) / hop.weight);
        let rate = (spare.fold(f64::INFINITY, f64::min) + sender.rate).clamp(fastest / 2.0, fastest);
        sender.round.saturating_add((sent / rate).round() as u64)
    }

    fn close(&mut self, number: u32) {
        self.take_off(number);
        self.events.remove(number);
        self.senders[number as usize].phase = Phase::Unused;
        self.unused.push(number);
    }

    /// Adds the bytes sent to the links of the flow.
    pub(super) fn count_bytes(&mut self, number: u32) {
        let bytes = std::mem::take(&mut self.senders[number as usize].uncounted);
        for hop in self.shares.memberships.hops(number) {
            self.carried[hop.link as usize] += bytes * hop.weight;
        }
    }

    fn sample(&mut self) {
        self.count_all();
        if let Some(sampler) = &mut self.sampler {
            let carried = &self.carried;
            sampler.sample(|link| carried[link as usize] as u64);
        }
    }

    /// Advances all flows, and adds what they sent to their links.
    pub(super) fn count_all(&mut self) {
        let now = self.ledger.now;
        for number in 0..self.senders.len() as u32 {
            if self.senders[number as usize].phase != Phase::Unused {
                self.senders[number as usize].advance(now);
                self.count_bytes(number);
            }
        }
    }

    fn is_up(&self, number: u32) -> bool {
        let hops = self.shares.memberships.hops(number);
        !hops.is_empty() && hops.iter().all(|hop| self.shares.capacity(hop.link) > 0.0)
    }

    fn apply_failures(&mut self) {
        let now = self.ledger.now;
        if let Some(rates_bps) = self.ledger.changed_rates() {
            let mut cut: Vec<u32> = Vec::new();
            for (link, bps) in (0u32..).zip(rates_bps) {
                let was_up = self.shares.capacity(link) > 0.0;
                let for_data = self.acks.set_capacity(link, bytes_per_ps(bps));
                self.shares.set_capacity(link, for_data);
                if was_up && bps == 0 {
                    cut.extend(self.shares.memberships.members(link).iter().map(|member| member.flow));
                }
            }
            cut.sort_unstable();
            cut.dedup();
            cut.into_iter().for_each(|number| self.stall(number));
        }
        if self.faults.next().is_some_and(|at| at <= now) && self.paths.reroute(&mut self.faults, now) {
            self.reroute();
        }
    }

    /// Gives every flow the path it has with the routes that are known now.
    fn reroute(&mut self) {
        for number in 0..self.senders.len() as u32 {
            let Sender { id, phase, .. } = self.senders[number as usize];
            if phase == Phase::Unused {
                continue;
            }
            let is_found = self.paths.find(self.ledger.now, number, id);
            let hops = self.shares.memberships.hops(number).iter();
            if is_found && hops.map(|hop| (hop.link, hop.weight)).eq(self.paths.links.iter().copied()) {
                continue;
            }
            self.senders[number as usize].advance(self.ledger.now);
            self.take_off(number);
            let links: &[(u32, f64)] = if is_found { &self.paths.links } else { &[] };
            let limit = if phase == Phase::Sending { f64::INFINITY } else { 0.0 };
            self.shares.insert(number, links, limit);
            if !self.is_up(number) {
                self.stall(number);
            }
        }
    }

    /// Stops a flow whose path is dead until its retransmission timer finds a live one.
    fn stall(&mut self, number: u32) {
        let sender = &mut self.senders[number as usize];
        if matches!(sender.phase, Phase::Stalled | Phase::Unused) {
            return;
        }
        sender.advance(self.ledger.now);
        sender.lose();
        (sender.phase, sender.timeouts, sender.pace, sender.paced_until) = (Phase::Stalled, 0, 0.0, 0);
        let timeout = self.params.min_rto.max(sender.rtt);
        self.shares.set_limit(number, 0.0);
        self.events.set(number, self.ledger.now.saturating_add(timeout));
    }

    fn on_timeout(&mut self, number: u32) {
        let is_up = self.is_up(number);
        let sender = &mut self.senders[number as usize];
        sender.timeouts += 1;
        self.ledger.records[sender.id as usize].timeouts += 1;
        if is_up {
            let restart = if self.initial_window.is_finite() { self.packet } else { f64::INFINITY };
            (sender.phase, sender.round) = (Phase::Sending, self.ledger.now);
            (sender.budget, sender.window, sender.paced_until) = (restart, restart, 0);
            sender.is_slow_start = true;
            self.shares.set_limit(number, f64::INFINITY);
        } else if sender.timeouts > self.params.max_timeouts {
            let Sender { id, total, left, lost, .. } = *sender;
            self.ledger.fail(id);
            let record = &mut self.ledger.records[id as usize];
            record.packets_sent = ((total - left) / self.packet) as u32;
            record.retransmitted = (lost / self.packet).round() as u32;
            let size = self.scenario.flows.flows[id as usize].size_bytes;
            record.delivered_bytes = payload(size, (total - left) / total);
            self.close(number);
        } else {
            let timeout = self.params.min_rto.max(sender.rtt) << sender.timeouts.min(20);
            self.events.set(number, self.ledger.now.saturating_add(timeout));
        }
    }
}
