//! A run: the engines of its partitions, and what acts on all of them.
//!
//! Time passes in steps of [`Partitions::step`], the least delay of a link that may be cut. Within a
//! step the engines do not depend on each other. Between steps packets go over from one partition to
//! another, faults begin and end, the sampler reads the links, and the run may end: at the end of the
//! step in which its last flow has ended. The results are the same for any number of partitions.

mod crossings;
pub(crate) mod outcome;
pub(crate) mod partitions;
mod steps;

use std::sync::Arc;

use net::{Time, Topology};

use self::partitions::Partitions;
use self::steps::Guards;
use crate::engine::{Engine, FAULT, SAMPLE};
use crate::ideal::Ideals;
use crate::link_probe::LinkProbe;
use crate::links::faults::{Action, Faults};
use crate::links::network::{LinkSample, Network};
use crate::probes::Sampler;
use crate::queue::{Event, NIL};
use crate::scenario::Scenario;
use crate::watch::{Watch, Watched};
use crate::{Progress, SimError, Workers};

pub(crate) type Report<'p> = dyn FnMut(&Progress) -> bool + Send + 'p;

const EVENTS_PER_REPORT: u64 = 1 << 19;

pub(crate) struct Run<'a> {
    engines: Vec<Engine<'a>>,
    pacer: Pacer,
    interruptions: Interruptions<'a>,
    ideals: Ideals<'a>,
}

/// State of the engines of some partitions at the end of a step.
#[derive(Clone, Copy, Debug)]
struct Status {
    /// Time of the next event, or of the next departure into another partition.
    next: u64,
    is_idle: bool,
    is_broken: bool,
    /// Packets of flows that entered the network, less those that left it.
    in_network: i64,
    packets: u64,
    flows: u64,
    events: u64,
    flows_done: u64,
    is_report_due: bool,
}

impl Status {
    const NONE: Status = Status {
        next: u64::MAX,
        is_idle: true,
        is_broken: false,
        in_network: 0,
        packets: 0,
        flows: 0,
        events: 0,
        flows_done: 0,
        is_report_due: false,
    };

    fn of(engine: &mut Engine<'_>) -> Status {
        Status {
            next: engine.network.border.next.min(engine.network.events.next_time()),
            is_idle: engine.is_idle(),
            is_broken: engine.is_broken,
            in_network: engine.in_network,
            packets: engine.network.arena.alive + engine.network.border.crossing,
            flows: engine.active_flows(),
            events: engine.events + engine.hops,
            flows_done: engine.flows_done,
            is_report_due: std::mem::take(&mut engine.is_report_due),
        }
    }

    fn and(self, other: Status) -> Status {
        Status {
            next: self.next.min(other.next),
            is_idle: self.is_idle && other.is_idle,
            is_broken: self.is_broken || other.is_broken,
            in_network: self.in_network + other.in_network,
            packets: self.packets + other.packets,
            flows: self.flows + other.flows,
            events: self.events + other.events,
            flows_done: self.flows_done + other.flows_done,
            is_report_due: self.is_report_due || other.is_report_due,
        }
    }
}

/// Decides on the steps of a run, by the status of all partitions alone.
#[derive(Clone, Debug)]
struct Pacer {
    step: u64,
    until: u64,
    now: u64,
    /// The next fault and the next sample.
    due: [Event; 2],
    peak_packets: u64,
    peak_flows: u64,
    flows_listed: u64,
    reported_events: u64,
}

impl Pacer {
    /// Returns the end of the next step: all events before it are handled in it. `None`: the run has ended.
    fn next_step(&mut self, status: Status) -> Option<Event> {
        self.peak_packets = self.peak_packets.max(status.packets);
        self.peak_flows = self.peak_flows.max(status.flows);
        let is_over = status.is_idle && status.in_network == 0;
        if status.is_broken || is_over || self.now >= self.until {
            return None;
        }
        let [fault, sample] = self.due;
        if status.next == u64::MAX && fault == Event::NEVER && self.until == u64::MAX {
            // Flows that nothing will end: they wait for a link that does not return.
            return None;
        }
        let interruption = fault.min(sample);
        let first = status.next.min(interruption.time);
        let time = first.div_ceil(self.step).saturating_mul(self.step).min(self.until);
        Some(Event { time, component: NIL }.min(interruption))
    }

    /// Returns what to report after a step, if it is time for that.
    fn report(&mut self, status: Status) -> Option<Progress> {
        if status.events - self.reported_events < EVENTS_PER_REPORT && !status.is_report_due {
            return None;
        }
        self.reported_events = status.events;
        Some(Progress {
            now: Time::from_ps(self.now),
            flows_done: status.flows_done,
            flows_listed: self.flows_listed,
            events: status.events,
        })
    }
}

/// Returns whether something acts on all partitions at the end of a step.
fn is_interruption(end: Event) -> bool {
    end.component != NIL
}

/// What acts on all partitions between two steps: faults, and the sampler of links.
struct Interruptions<'a> {
    topology: &'a Topology,
    faults: Faults,
    sampler: Option<Sampler>,
    link_probe: Option<LinkProbe>,
    watched: Option<Watched<'a>>,
}

impl Interruptions<'_> {
    /// Returns the next fault and the next sample.
    fn due(&self) -> [Event; 2] {
        let fault = self.faults.next().map(|time| Event { time, component: FAULT });
        let sampler = self.sampler.as_ref().map(|sampler| sampler.next);
        let probe = self.link_probe.as_ref().map(|probe| probe.next);
        let watched = self.watched.as_ref().map(|watched| watched.next);
        let sample =
            sampler.into_iter().chain(probe).chain(watched).min().map(|time| Event { time, component: SAMPLE });
        [fault, sample].map(|event| event.unwrap_or(Event::NEVER))
    }

    /// Does what is due at the end of a step.
    fn act_at(&mut self, end: Event, parts: &mut Guards<'_, '_, '_>) {
        match end.component {
            FAULT => self.apply_faults(end.time, parts),
            SAMPLE => self.sample(end.time, parts),
            _ => {}
        }
    }

    /// Reads the links whose time has come.
    fn sample(&mut self, now: u64, parts: &mut Guards<'_, '_, '_>) {
        if let Some(sampler) = self.sampler.as_mut().filter(|sampler| sampler.next <= now) {
            sampler.sample(|link| carried_bytes(parts.iter().map(|part| &part.engine.network), link));
        }
        if let Some(probe) = self.link_probe.as_mut().filter(|probe| probe.next <= now) {
            probe.sample(|link| sample_of(parts.iter_mut().map(|part| &mut part.engine.network), link));
        }
        if let Some(watched) = self.watched.as_mut().filter(|watched| watched.next <= now) {
            let flows_running = parts.iter().map(|part| part.engine.active_flows()).sum();
            let flows_ended = parts.iter().map(|part| part.engine.flows_done).sum();
            let links = 0..self.topology.links().len() as u32;
            let sample = |link| sample_of(parts.iter_mut().map(|part| &mut part.engine.network), link);
            watched.look(links.map(sample), flows_running, flows_ended);
        }
    }

    fn apply_faults(&mut self, now: u64, parts: &mut Guards<'_, '_, '_>) {
        let numbering = Arc::clone(&parts[0].engine.fabric.numbering);
        for action in self.faults.due(self.topology, &numbering, now) {
            if action == Action::Reroute && parts[0].engine.controlled.is_none() {
                let (topology, alive) = self.faults.known(self.topology, now);
                let tables = parts[0].engine.fabric.compile_for(&topology, &alive);
                parts.iter_mut().for_each(|part| part.engine.fabric.reroute(&tables, &topology, &alive));
                continue;
            }
            parts.iter_mut().for_each(|part| part.engine.apply(&action, &self.faults));
        }
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        scenario: &Scenario<'a>,
        engines: Vec<Engine<'a>>,
        ideals: Ideals<'a>,
        partitions: &Partitions,
    ) -> Run<'a> {
        let (topology, config) = (scenario.topology, scenario.config);
        let interruptions = Interruptions {
            topology,
            faults: Faults::new(topology, &config.failures),
            sampler: config.probes.series.then(|| Sampler::new(topology, &config.probes)),
            link_probe: LinkProbe::new(&config.probes),
            watched: None,
        };
        let pacer = Pacer {
            step: partitions.step,
            until: config.stop.until.map_or(u64::MAX, Time::as_ps),
            now: 0,
            due: interruptions.due(),
            peak_packets: 0,
            peak_flows: 0,
            flows_listed: scenario.flows.flows.len() as u64,
            reported_events: 0,
        };
        Run { engines, pacer, interruptions, ideals }
    }

    /// Has `watch` look at the run.
    pub(crate) fn watch(&mut self, watch: &'a mut dyn Watch) {
        self.interruptions.watched = Some(Watched::new(watch));
        self.pacer.due = self.interruptions.due();
    }

    /// Runs to the end, or until `report` returns false.
    pub(crate) fn run(&mut self, workers: &dyn Workers, report: &mut Report<'_>) -> Result<(), SimError> {
        for engine in &mut self.engines {
            engine.schedule_first(report)?;
        }
        self.run_steps(workers, report)
    }

    /// Returns why a run with a controller could not continue.
    pub(crate) fn take_fault(&mut self) -> Option<SimError> {
        let reason = self.engines[0].controlled.as_mut()?.fault.take()?;
        Some(SimError::Control { at: Time::from_ps(self.pacer.now), reason })
    }
}

/// Returns the bytes that a link has carried: the partition of its far end counts them.
fn carried_bytes<'e>(networks: impl Iterator<Item = &'e Network>, link: u32) -> u64 {
    networks.map(|network| network.ports[link as usize].carried_bytes).sum()
}

/// Returns the queue of a link, which the partition of its sender has, and the bytes that it has carried.
fn sample_of<'e>(networks: impl Iterator<Item = &'e mut Network>, link: u32) -> LinkSample {
    networks.map(|network| network.sample(link)).fold(LinkSample { queued_bytes: 0, carried_bytes: 0 }, |sum, part| {
        LinkSample {
            queued_bytes: sum.queued_bytes + part.queued_bytes,
            carried_bytes: sum.carried_bytes + part.carried_bytes,
        }
    })
}
