//! Runs a plan on several threads; each record is stored as soon as its run has ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use procfs::process::Process;
use sim::{Fidelity, FlowEnd, Outcome, Scenario, ServicesConfig, SimError};
use traffic::FlowList;

use crate::Error;
use crate::input::{Experiment, Variant};
use crate::records::Appender;
use crate::results::flow_row::FlowRow;
use crate::results::metrics::{RunContext, measure};
use crate::run::captures;
use crate::run::plan::PlannedRun;
use crate::runner::{RunError, RunJob, RunOutput, Runner};
use crate::store::Store;
use crate::summary::RunRecord;

#[derive(Clone, Debug)]
pub struct Options {
    pub out: PathBuf,
    /// Number of runs at a time; 0 for one per core.
    pub jobs: usize,
    /// Number of threads of a run; 0 for the cores that the runs at a time leave.
    pub threads: usize,
    pub flows: bool,
    /// Whether to write every flow list (`flow-lists/`), for `traffic.flow_list` or for other
    /// programs.
    pub flow_lists: bool,
}

pub trait Observer: Sync {
    fn progress(&self, progress: &Progress);
}

impl Observer for () {
    fn progress(&self, _: &Progress) {}
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub runs_total: u64,
    pub runs_done: u64,
    pub runs_resumed: u64,
    /// Runs of the plan that the folder has only from another build of this program; they are
    /// repeated.
    pub runs_outdated: u64,
    /// Flows of the pending runs at the beginning; an estimate if their number is drawn.
    pub flows_total: u64,
    pub flows_done: u64,
    /// Packet-hops since the beginning: exact for completed runs, estimated from events for running
    /// ones.
    pub packet_hops: u64,
    pub elapsed: Duration,
}

/// Executes the runs that are missing in `known`. Returns one record per run, in the order of
/// `runs`.
pub(crate) fn execute(
    experiment: &Experiment,
    runs: &[PlannedRun],
    mut known: BTreeMap<String, RunRecord>,
    store: &Store,
    options: &Options,
    control: Control<'_>,
) -> Result<Vec<RunRecord>, Error> {
    let pending: Vec<&PlannedRun> = runs.iter().filter(|run| !known.contains_key(&run.fingerprint)).collect();
    let mut shared = Shared {
        experiment,
        pending: &pending,
        store,
        keep_flows: options.flows,
        threads: 1,
        control,
        next: AtomicUsize::new(0),
        abandon: AtomicBool::new(false),
        results: Mutex::new(Results { appender: store.appender()?, records: Vec::new(), error: None }),
        tally: Tally::new(runs, &pending, control.runs_outdated),
    };
    shared.control.observer.progress(&shared.tally.progress());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = if options.jobs == 0 { cores } else { options.jobs };
    let jobs = jobs.min(shared.control.platform.jobs_max()).clamp(1, pending.len().max(1));
    shared.threads = if options.threads == 0 { (cores / jobs).max(1) } else { options.threads };
    std::thread::scope(|scope| {
        let start = || std::thread::Builder::new().spawn_scoped(scope, || shared.work()).is_ok();
        // Without memory for more threads, those that run share the work. Without any, this one
        // does it.
        let started = (0..jobs).take_while(|_| start()).count();
        if started == 0 {
            shared.work();
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

#[derive(Clone, Copy)]
pub(crate) struct Control<'a> {
    pub platform: &'a dyn Runner,
    pub runs_outdated: u64,
    pub observer: &'a dyn Observer,
    pub stop: &'a AtomicBool,
}

struct Shared<'a> {
    experiment: &'a Experiment,
    pending: &'a [&'a PlannedRun],
    store: &'a Store,
    keep_flows: bool,
    threads: usize,
    control: Control<'a>,
    next: AtomicUsize,
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

    fn run(&self, run: &PlannedRun) -> Result<Option<RunRecord>, Error> {
        let began = Instant::now();
        let variant = &self.experiment.variants[run.variant];
        let balancer = &self.experiment.balancers[run.balancer];
        let failed = |cause: SimError| Error::Run { run: run.name(self.experiment), cause: Box::new(cause) };
        let flows = variant
            .traffic
            .flows(&variant.topology, run.load, run.seed)
            .map_err(|cause| Error::Traffic { run: run.name(self.experiment), cause: Box::new(cause) })?;
        let scenario =
            Scenario { topology: &variant.topology, flows: &flows, balancer, seed: run.seed, config: &variant.config };
        let mut seen = (0, 0);
        let name = run.name(self.experiment);
        let ended =
            self.control.platform.run(&RunJob { scenario, variant, name: &name, threads: self.threads }, &mut |at| {
                self.tally.advance(&mut seen, at.flows_done, at.events);
                self.control.observer.progress(&self.tally.progress());
                !self.must_stop()
            });
        let RunOutput { outcome, decision_us, testbed } = match ended {
            Ok(ended) => ended,
            Err(RunError::Interrupted) => return Ok(None),
            Err(RunError::Sim(cause)) => return Err(failed(cause)),
            Err(RunError::Platform(cause)) => return Err(Error::Platform { run: name, cause }),
        };
        outcome.accounting.check().map_err(|message| failed(SimError::Accounting(message)))?;
        let ended = outcome.accounting.flows_completed + outcome.accounting.flows_failed;
        self.tally.advance(&mut seen, ended, outcome.engine.events);
        self.tally.run_ended(outcome.engine.events, outcome.engine.packet_hops);
        let keep_heat = run.seed == self.experiment.seeds[0];
        let context = RunContext { keep_heat, ..context(variant, &scenario, run.load) };
        let (mut summary, detail) = measure(&context, &outcome);
        summary.engine.wall_s = began.elapsed().as_secs_f64();
        summary.engine.peak_rss_bytes = peak_rss_bytes();
        summary.engine.decision_us = decision_us;
        summary.platform = self.control.platform.name().to_owned();
        if variant.config.fidelity == Fidelity::Flow {
            summary.fidelity = variant.config.fidelity.name().to_owned();
        }
        summary.testbed = testbed;
        let build = crate::run::plan::BUILD.to_owned();
        let record = RunRecord { fingerprint: run.fingerprint.clone(), build, summary, detail };
        if !variant.config.probes.capture.links.is_empty() {
            self.store.write(&captures::name(&record.summary), &captures::file(variant, &outcome))?;
        }
        let services = variant.config.services.as_ref();
        if self.keep_flows {
            self.store.write_part(&run.fingerprint, &rows(run.index as u32, &record, &flows, services, &outcome))?;
        }
        Ok(Some(record))
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

/// Returns what the metrics of a run depend on besides its outcome.
pub(crate) fn context<'a>(variant: &'a Variant, scenario: &Scenario<'a>, load: Option<f64>) -> RunContext<'a> {
    RunContext {
        topology: scenario.topology,
        flows: scenario.flows,
        balancer: scenario.balancer,
        variant: &variant.label,
        load,
        seed: scenario.seed,
        services: variant.config.services.as_ref(),
        warm_up: variant.config.probes.warm_up,
        has_background: variant.traffic.has_background(),
        keep_heat: false,
        keep_core_bins: variant.config.probes.fixed_bins,
    }
}

struct Tally {
    began: Instant,
    runs_total: u64,
    runs_resumed: u64,
    runs_outdated: u64,
    runs_ended: AtomicU64,
    flows_total: u64,
    flows_done: AtomicU64,
    events: AtomicU64,
    ended_events: AtomicU64,
    ended_hops: AtomicU64,
}

impl Tally {
    fn new(runs: &[PlannedRun], pending: &[&PlannedRun], runs_outdated: u64) -> Tally {
        Tally {
            began: Instant::now(),
            runs_total: runs.len() as u64,
            runs_resumed: (runs.len() - pending.len()) as u64,
            runs_outdated,
            runs_ended: AtomicU64::new(0),
            flows_total: pending.iter().map(|run| run.flows_expected).sum(),
            flows_done: AtomicU64::new(0),
            events: AtomicU64::new(0),
            ended_events: AtomicU64::new(0),
            ended_hops: AtomicU64::new(0),
        }
    }

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
        // A packet-hop is an arrival and about one departure; completed runs give a better ratio.
        let hops_per_event = if events == 0 { 0.5 } else { hops as f64 / events as f64 };
        let running = self.events.load(Ordering::Relaxed).saturating_sub(events);
        Progress {
            runs_total: self.runs_total,
            runs_done: self.runs_resumed + self.runs_ended.load(Ordering::Relaxed),
            runs_resumed: self.runs_resumed,
            runs_outdated: self.runs_outdated,
            flows_total: self.flows_total,
            flows_done: self.flows_done.load(Ordering::Relaxed),
            packet_hops: hops + (running as f64 * hops_per_event) as u64,
            elapsed: self.began.elapsed(),
        }
    }
}

fn rows(
    index: u32,
    record: &RunRecord,
    flows: &FlowList,
    config: Option<&ServicesConfig>,
    outcome: &Outcome,
) -> Vec<FlowRow> {
    let like = row_template(index, record);
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
            status: end.end.into(),
            fct_us: completed.then(|| end.fct.as_us_f64()),
            sender_fct_us: Some(end.sender_fct.as_us_f64()).filter(|fct| *fct > 0.0),
            ideal_us: end.ideal.as_us_f64(),
            slowdown: completed.then(|| end.fct.as_ps() as f64 / end.ideal.as_ps().max(1) as f64),
            delivered_bytes: end.delivered_bytes,
            packets_sent: end.packets_sent,
            retransmitted: end.retransmitted,
            timeouts: end.timeouts,
            reordered: end.reordered,
            path_changes: end.path_changes,
            ..like.clone()
        }
    })
    .collect()
}

/// Returns the server of the last page of a request; `None` if flows are not requests.
fn server_of(config: Option<&ServicesConfig>, outcome: &Outcome, request: u32) -> Option<net::HostIx> {
    let server = (*outcome.services.as_ref()?.served_by.get(request as usize)?)?;
    config?.servers.get(server as usize).map(|server| server.host)
}

pub(crate) fn row_template(index: u32, record: &RunRecord) -> FlowRow {
    FlowRow {
        run: index,
        balancer: Arc::from(record.summary.balancer.as_str()),
        load: record.summary.load,
        variant: Arc::from(record.summary.variant.as_str()),
        seed: record.summary.seed,
        ..FlowRow::default()
    }
}

/// Returns the peak resident set size of this process, bytes; 0 on systems without `/proc`.
pub fn peak_rss_bytes() -> u64 {
    let status = Process::myself().and_then(|process| process.status());
    status.ok().and_then(|status| status.vmhwm).map_or(0, |kib| kib * 1024)
}
