//! Runs a plan on several threads; each record is on disk as soon as its run has ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sim::{FlowEnd, Outcome, Scenario, ServicesConfig, SimError};
use traffic::FlowList;

use crate::Error;
use crate::file::Experiment;
use crate::metrics::{RunContext, measure};
use crate::plan::PlannedRun;
use crate::rows::FlowRow;
use crate::store::{Appender, Store};
use crate::summary::RunRecord;
use crate::world::{Ended, Job, NotEnded, World};

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for the results.
    pub out: PathBuf,
    /// Threads; 0 for one per core.
    pub jobs: usize,
    /// Whether to keep a row per flow (`flows.parquet`, `flows.csv`).
    pub flows: bool,
    /// Whether to write every flow list that is sent (`flow-lists/`), to be replayed with `traffic.flow_list`
    /// here or by another program.
    pub flow_lists: bool,
}

/// Told how far the work is, from several threads.
pub trait Observer: Sync {
    /// Now and then, and at the end of each run.
    fn progress(&self, progress: &Progress);
}

/// Sees nothing.
impl Observer for () {
    fn progress(&self, _: &Progress) {}
}

/// How far the work is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Runs of the plan.
    pub runs_total: u64,
    /// Runs done, those of earlier attempts included.
    pub runs_done: u64,
    /// Runs taken over from an earlier attempt.
    pub runs_resumed: u64,
    /// Flows of the runs still to do when the work began; an estimate where their number is drawn.
    pub flows_total: u64,
    /// Flows ended since.
    pub flows_done: u64,
    /// Packet-hops since: exact for runs that have ended, estimated from their events for those under way.
    pub packet_hops: u64,
    /// Time since.
    pub elapsed: Duration,
}

/// Executes what `runs` lacks in `known`; answers one record per run, in the order of `runs`.
pub(crate) fn execute(
    experiment: &Experiment,
    runs: &[PlannedRun],
    mut known: BTreeMap<String, RunRecord>,
    store: &Store,
    options: &Options,
    control: Control<'_>,
) -> Result<Vec<RunRecord>, Error> {
    let pending: Vec<&PlannedRun> = runs.iter().filter(|run| !known.contains_key(&run.fingerprint)).collect();
    let shared = Shared {
        experiment,
        pending: &pending,
        store,
        keep_flows: options.flows,
        control,
        next: AtomicUsize::new(0),
        abandon: AtomicBool::new(false),
        results: Mutex::new(Results { appender: store.appender()?, records: Vec::new(), error: None }),
        tally: Tally::new(runs, &pending),
    };
    shared.control.observer.progress(&shared.tally.progress());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = if options.jobs == 0 { cores } else { options.jobs };
    let jobs = jobs.min(shared.control.world.jobs_max()).clamp(1, pending.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| shared.work());
        }
    });
    let results = shared.results.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = results.error {
        return Err(error);
    }
    known.extend(results.records.into_iter().map(|record| (record.fingerprint.clone(), record)));
    let done = runs.iter().filter_map(|run| known.get(&run.fingerprint)).count();
    if done < runs.len() {
        return Err(Error::Interrupted { done, total: runs.len(), out: options.out.clone() });
    }
    Ok(runs.iter().filter_map(|run| known.remove(&run.fingerprint)).collect())
}

/// The outside of an execution: where it takes place, who watches, and who may stop it.
#[derive(Clone, Copy)]
pub(crate) struct Control<'a> {
    pub world: &'a dyn World,
    pub observer: &'a dyn Observer,
    pub stop: &'a AtomicBool,
}

struct Shared<'a> {
    experiment: &'a Experiment,
    pending: &'a [&'a PlannedRun],
    store: &'a Store,
    keep_flows: bool,
    control: Control<'a>,
    next: AtomicUsize,
    /// Set when a run failed: the others need not go on.
    abandon: AtomicBool,
    results: Mutex<Results>,
    tally: Tally,
}

struct Results {
    appender: Appender,
    records: Vec<RunRecord>,
    error: Option<Error>,
}

impl Shared<'_> {
    /// One thread: takes the next run of the plan until there is none.
    fn work(&self) {
        while !self.must_stop() {
            let Some(run) = self.pending.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return };
            match self.run(run) {
                Ok(Some(record)) => self.keep(record),
                Ok(None) => return,
                Err(error) => self.fail(error),
            }
        }
    }

    fn must_stop(&self) -> bool {
        self.control.stop.load(Ordering::Relaxed) || self.abandon.load(Ordering::Relaxed)
    }

    /// Runs one; `None` if it was interrupted.
    fn run(&self, run: &PlannedRun) -> Result<Option<RunRecord>, Error> {
        let began = Instant::now();
        let variant = &self.experiment.variants[run.variant];
        let balancer = &self.experiment.balancers[run.balancer];
        let failed = |cause: SimError| Error::Run { run: self.name(run), cause: Box::new(cause) };
        let flows = variant
            .traffic
            .flows(&variant.topology, run.load, run.seed)
            .map_err(|cause| Error::Traffic { run: self.name(run), cause: Box::new(cause) })?;
        let scenario =
            Scenario { topology: &variant.topology, flows: &flows, balancer, seed: run.seed, config: &variant.config };
        let mut seen = (0, 0);
        let name = self.name(run);
        let ended = self.control.world.run(&Job { scenario, variant, name: &name }, &mut |at| {
            self.tally.advance(&mut seen, at.flows_done, at.events);
            self.control.observer.progress(&self.tally.progress());
            !self.must_stop()
        });
        let Ended { outcome, decision_us, testbed } = match ended {
            Ok(ended) => ended,
            Err(NotEnded::Interrupted) => return Ok(None),
            Err(NotEnded::Sim(cause)) => return Err(failed(cause)),
            Err(NotEnded::World(cause)) => return Err(Error::World { run: name, cause }),
        };
        outcome.books.check().map_err(|words| failed(SimError::Books(words)))?;
        let ended = outcome.books.flows_completed + outcome.books.flows_failed;
        self.tally.advance(&mut seen, ended, outcome.engine.events);
        self.tally.run_ended(outcome.engine.events, outcome.engine.packet_hops);
        let context = RunContext {
            topology: &variant.topology,
            flows: &flows,
            balancer,
            variant: &variant.label,
            load: run.load,
            seed: run.seed,
            services: variant.config.services.as_ref(),
            keep_heat: run.seed == self.experiment.seeds[0],
            keep_core_bins: variant.config.probes.fixed_bins,
        };
        let (mut summary, detail) = measure(&context, &outcome);
        summary.engine.wall_s = began.elapsed().as_secs_f64();
        summary.engine.peak_rss_bytes = peak_rss_bytes();
        summary.engine.decision_us = decision_us;
        summary.world = self.control.world.name().to_owned();
        summary.testbed = testbed;
        let record = RunRecord { fingerprint: run.fingerprint.clone(), summary, detail };
        let services = variant.config.services.as_ref();
        if self.keep_flows {
            self.store.write_part(&run.fingerprint, &rows(run.index as u32, &record, &flows, services, &outcome))?;
        }
        Ok(Some(record))
    }

    fn name(&self, run: &PlannedRun) -> String {
        let variant = &self.experiment.variants[run.variant].label;
        let mut name = format!("{}, seed {}", self.experiment.balancers[run.balancer].label(), run.seed);
        if let Some(load) = run.load {
            name += &format!(", load {load}");
        }
        if !variant.is_empty() {
            name += &format!(", {variant}");
        }
        name
    }

    fn keep(&self, record: RunRecord) {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = results.appender.append(&record) {
            drop(results);
            return self.fail(error.into());
        }
        results.records.push(record);
        drop(results);
        self.control.observer.progress(&self.tally.progress());
    }

    fn fail(&self, error: Error) {
        self.abandon.store(true, Ordering::Relaxed);
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.error.get_or_insert(error);
    }
}

/// Counters all threads add to.
struct Tally {
    began: Instant,
    runs_total: u64,
    runs_resumed: u64,
    runs_ended: AtomicU64,
    flows_total: u64,
    flows_done: AtomicU64,
    /// Events of all runs, ended or not.
    events: AtomicU64,
    ended_events: AtomicU64,
    ended_hops: AtomicU64,
}

impl Tally {
    fn new(runs: &[PlannedRun], pending: &[&PlannedRun]) -> Tally {
        Tally {
            began: Instant::now(),
            runs_total: runs.len() as u64,
            runs_resumed: (runs.len() - pending.len()) as u64,
            runs_ended: AtomicU64::new(0),
            flows_total: pending.iter().map(|run| run.flows_expected).sum(),
            flows_done: AtomicU64::new(0),
            events: AtomicU64::new(0),
            ended_events: AtomicU64::new(0),
            ended_hops: AtomicU64::new(0),
        }
    }

    /// Adds what one run did since it was last `seen`.
    fn advance(&self, seen: &mut (u64, u64), flows_done: u64, events: u64) {
        self.flows_done.fetch_add(flows_done.saturating_sub(seen.0), Ordering::Relaxed);
        self.events.fetch_add(events.saturating_sub(seen.1), Ordering::Relaxed);
        *seen = (flows_done.max(seen.0), events.max(seen.1));
    }

    fn run_ended(&self, events: u64, packet_hops: u64) {
        self.runs_ended.fetch_add(1, Ordering::Relaxed);
        self.ended_events.fetch_add(events, Ordering::Relaxed);
        self.ended_hops.fetch_add(packet_hops, Ordering::Relaxed);
    }

    fn progress(&self) -> Progress {
        let (events, hops) = (self.ended_events.load(Ordering::Relaxed), self.ended_hops.load(Ordering::Relaxed));
        // A packet-hop is an arrival and about one departure; runs that have ended tell better.
        let hops_per_event = if events == 0 { 0.5 } else { hops as f64 / events as f64 };
        let running = self.events.load(Ordering::Relaxed).saturating_sub(events);
        Progress {
            runs_total: self.runs_total,
            runs_done: self.runs_resumed + self.runs_ended.load(Ordering::Relaxed),
            runs_resumed: self.runs_resumed,
            flows_total: self.flows_total,
            flows_done: self.flows_done.load(Ordering::Relaxed),
            packet_hops: hops + (running as f64 * hops_per_event) as u64,
            elapsed: self.began.elapsed(),
        }
    }
}

/// One row per flow of a run.
fn rows(
    index: u32,
    record: &RunRecord,
    flows: &FlowList,
    config: Option<&ServicesConfig>,
    outcome: &Outcome,
) -> Vec<FlowRow> {
    let like = row_like(index, record);
    let rows = flows.flows.iter().zip(&outcome.flows).zip(0u32..);
    rows.map(|((flow, end), number)| {
        let completed = end.end == FlowEnd::Completed;
        let dst = server_of(config, outcome, number).unwrap_or(flow.dst);
        let started = end.end != FlowEnd::NotStarted;
        FlowRow {
            flow: number,
            src: flow.src.0,
            dst: dst.0,
            size_bytes: flow.size_bytes,
            group: flow.group,
            start_us: started.then(|| end.started.as_us_f64()),
            end: end.end.into(),
            fct_us: completed.then(|| end.fct.as_us_f64()),
            sender_fct_us: Some(end.sender_fct.as_us_f64()).filter(|fct| *fct > 0.0),
            ideal_us: end.ideal.as_us_f64(),
            slowdown: completed.then(|| end.fct.as_ps() as f64 / end.ideal.as_ps().max(1) as f64),
            delivered_bytes: end.delivered_bytes,
            packets: end.packets_sent,
            retransmitted: end.retransmitted,
            timeouts: end.timeouts,
            reordered: end.reordered,
            path_changes: end.path_changes,
            ..like.clone()
        }
    })
    .collect()
}

/// Who served a request, where flows are that: the server of its last page.
fn server_of(config: Option<&ServicesConfig>, outcome: &Outcome, request: u32) -> Option<net::HostIx> {
    let server = (*outcome.services.as_ref()?.served_by.get(request as usize)?)?;
    config?.servers.get(server as usize).map(|server| server.host)
}

/// A row with what all rows of a run share, and nothing else.
pub(crate) fn row_like(index: u32, record: &RunRecord) -> FlowRow {
    FlowRow {
        run: index,
        balancer: Arc::from(record.summary.balancer.as_str()),
        load: record.summary.load,
        variant: Arc::from(record.summary.variant.as_str()),
        seed: record.summary.seed,
        flow: 0,
        src: 0,
        dst: 0,
        size_bytes: 0,
        group: 0,
        start_us: None,
        end: crate::rows::RowEnd::NotStarted,
        fct_us: None,
        sender_fct_us: None,
        ideal_us: 0.0,
        slowdown: None,
        delivered_bytes: 0,
        packets: 0,
        retransmitted: 0,
        timeouts: 0,
        reordered: 0,
        path_changes: 0,
    }
}

/// Peak resident set of this process, bytes; 0 where the system does not tell.
pub fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.map_or(0, |kib| kib * 1024)
}
