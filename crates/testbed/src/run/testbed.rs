//! The platform of emulated networks.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use experiment::Experiment;
use experiment::input::{HostLearning, RuleSource, TrafficSource, Variant};
use experiment::runner::{FailureKind, RunError, RunJob, RunOutput, RunProgress, Runner};
use experiment::summary::{self, ControllerCounts};
use net::{LinkIx, Time, Topology};
use serde_json::json;

use crate::clock::{now_ns, seconds};
use crate::error::{Result, TestbedError, make_folder};
use crate::measure::measurement::TrafficMeasurement;
use crate::measure::series::Sample;
use crate::network::driver::{self, Counters, Machine};
use crate::network::plan::NetworkPlan;
use crate::network::preflight::{PreflightReport, check_lossless};
use crate::network::rules::{Choice, StaticRoutes, no_rules};
use crate::network::running_network::RunningNetwork;
use crate::processes::cpu_s;
use crate::run::active_run::ActiveRun;
use crate::run::checks::{check_experiment, check_machine};
use crate::run::controller::{Controller, free_port, write_config};
use crate::run::controller_setup::{ControllerSetup, agents, plan_of};
use crate::run::faults::faults;
use crate::run::outcome::{RunData, outcome};
use crate::run::supervisor::RunSupervisor;
use crate::services::serving::{self, Programs, Served};
use crate::traffic::datagrams::announce_hosts;
use crate::traffic::{self, RunWindow};

/// Emulated networks on this machine, one at a time. A network stays up as long as consecutive runs
/// have the same plan.
pub struct Testbed {
    machine: Machine,
    folder: PathBuf,
    /// The `anabranch` program, which is also the controller.
    program: PathBuf,
    live: Mutex<Option<RunningNetwork>>,
}

impl Testbed {
    /// Reads the capabilities of the machine. `program` is the `anabranch` that runs as the
    /// controller.
    pub fn new(program: PathBuf) -> Result<Testbed> {
        Ok(Testbed { machine: driver::machine()?, folder: driver::folder(), program, live: Mutex::new(None) })
    }

    /// Returns an error if an experiment cannot run here.
    pub fn check(&self, experiment: &Experiment) -> Result<()> {
        check_machine(&self.machine, &experiment.variants)?;
        check_experiment(experiment, &self.machine)
    }

    /// Builds the network of the first variant and leaves it up. Returns the configuration of a
    /// controller for it, or `None` with static rules.
    pub fn up(&self, experiment: &Experiment) -> Result<Option<PathBuf>> {
        self.check(experiment)?;
        let variant = &experiment.variants[0];
        let mut live =
            self.build(NetworkPlan::new(&variant.topology, &variant.config, &variant.testbed), &variant.topology)?;
        let config = match variant.testbed.rules {
            RuleSource::Static => {
                live.request("rules", json!({"rules": StaticRoutes::new(&variant.topology, Choice::First).rules()}))?;
                None
            }
            RuleSource::Controller => {
                let setup = ControllerSetup::of(variant, &experiment.balancers[0])?;
                let options = setup.launch_options(variant, experiment.seeds[0], (6653, 8080));
                let path = write_config(&self.folder, &variant.topology, &options)?;
                live.request("controller", json!({"target": "tcp:127.0.0.1:6653"}))?;
                if let Some(plan) = plan_of(variant) {
                    // The servers stay up with the network.
                    let of_run = (&experiment.balancers[0], experiment.seeds[0]);
                    Programs::start(&mut live, &plan, &self.program, of_run)?;
                }
                Some(path)
            }
        };
        live.driver.detach()?;
        Ok(config)
    }

    /// Removes the network, if one is up. After an error, [`driver::down`] may remove the rest.
    pub fn close(&self) -> Result<()> {
        self.live().take().map_or(Ok(()), |live| live.driver.stop())
    }

    fn live(&self) -> MutexGuard<'_, Option<RunningNetwork>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, plan: NetworkPlan, topology: &Topology) -> Result<RunningNetwork> {
        let live = RunningNetwork::build(plan, topology, &self.folder)?;
        make_folder(&live.folder)?;
        Ok(live)
    }

    fn execute(&self, job: &RunJob<'_>, should_continue: &mut dyn FnMut() -> bool) -> Result<RunOutput> {
        let mut slot = self.live();
        let plan = NetworkPlan::new(job.scenario.topology, job.scenario.config, &job.variant.testbed);
        if let Some(other) = slot.take_if(|live| live.plan != plan) {
            other.driver.stop()?;
        }
        let mut live = match slot.take() {
            Some(live) => live,
            None => self.build(plan, job.scenario.topology)?,
        };
        let done = JobRun { testbed: self, live: &mut live, job, should_continue }.execute();
        if done.is_ok() {
            *slot = Some(live);
        } else {
            // The error of the run is returned. The next run must not use a network in an unknown
            // state.
            let _ = live.driver.stop();
        }
        done
    }
}

/// One run on a network that is up.
struct JobRun<'a> {
    testbed: &'a Testbed,
    live: &'a mut RunningNetwork,
    job: &'a RunJob<'a>,
    should_continue: &'a mut dyn FnMut() -> bool,
}

impl JobRun<'_> {
    fn execute(mut self) -> Result<RunOutput> {
        let (job, program) = (self.job, &self.testbed.program);
        let (options, source) = (&job.variant.testbed, job.variant.testbed.source);
        self.live.request("controller", json!({"target": null}))?;
        let preflight = check_lossless(self.live, job.scenario.topology, options, self.should_continue)?;
        let mut controller = self.install_rules()?;
        let serving = plan_of(job.variant);
        let programs = match (&serving, &mut controller) {
            (Some(plan), Some(controller)) => {
                let mut programs =
                    Programs::start(self.live, plan, program, (job.scenario.balancer, job.scenario.seed))?;
                Programs::wait_for_members(plan, controller)?;
                programs.start_agents(self.live, plan, controller, program)?;
                Some(programs)
            }
            _ => None,
        };
        let before = self.live.driver.counters()?;
        let process = controller.as_ref().and_then(Controller::pid);
        let cpu_before = process.and_then(cpu_s);
        self.live.samples.clear();
        self.live.injected_faults.clear();
        let span = self.begin(source)?;
        let agents = controller.as_ref().and_then(|controller| agents(controller, self.live, job, source, span));
        let failures = &job.scenario.config.failures;
        let mut supervisor = RunSupervisor::new(controller, agents, failures, span, self.should_continue);
        let mut run = ActiveRun { live: self.live, scenario: &job.scenario, span, supervisor: &mut supervisor };
        let Served { traffic: measurement, record: services, failures, compute_overrun_ms } =
            match (&serving, &programs) {
                (Some(plan), Some(programs)) => serving::run(&mut run, plan, programs)?,
                _ => Served { traffic: traffic::send(&mut run, source)?, ..Served::default() },
            };
        self.live.poll_events(Duration::ZERO)?;
        self.live.request("sample", json!({"interval_s": 0}))?;
        let after = self.live.driver.counters()?;
        let (controller, mut injected) = (supervisor.controller, supervisor.injected_faults);
        // A controller that was restarted is another process.
        let cpu_after = process.filter(|_| controller.as_ref().and_then(Controller::pid) == process).and_then(cpu_s);
        let counts = match controller {
            Some(controller) => self.end_controller(controller, !injected.is_empty())?,
            None => None,
        };
        if let Some(programs) = programs {
            programs.end(self.live)?;
        }
        injected.append(&mut self.live.injected_faults);
        let samples = samples(self.live, seconds(span.start_ns), &after);
        let data = RunData {
            scenario: &job.scenario,
            plan: &self.live.plan,
            span,
            measurement: &measurement,
            samples: &samples,
            before: &before,
            after: &after,
            sample: options.sample_interval,
            services: serving.is_some().then_some(services),
        };
        let record = summary::Testbed {
            source: if serving.is_some() { options.request_client.name() } else { source.name() }.to_owned(),
            faults: faults(injected, &measurement.gaps, span.start_ns),
            failed_requests: failures,
            compute_overrun_ms,
            controller_cpu: cpu_after
                .zip(cpu_before)
                .map(|(end, start)| (end - start) / (after.t - before.t).max(1e-9)),
            controller: counts,
            ..self.record(&measurement, (&before, &after), &preflight)
        };
        Ok(RunOutput { outcome: outcome(&data), decision_us: 0.0, testbed: Some(record) })
    }

    /// Installs static rules, or starts a controller and waits until it knows the network.
    fn install_rules(&mut self) -> Result<Option<Controller>> {
        let JobRun { testbed, live, job, .. } = self;
        let topology = job.scenario.topology;
        if job.variant.testbed.rules == RuleSource::Static {
            live.request("rules", json!({"rules": StaticRoutes::new(topology, Choice::First).rules()}))?;
            return Ok(None);
        }
        live.request("rules", json!({"rules": no_rules(topology)}))?;
        let setup = ControllerSetup::of(job.variant, job.scenario.balancer)?;
        let options = setup.launch_options(job.variant, job.scenario.seed, (free_port()?, free_port()?));
        let mut controller = Controller::start(&testbed.program, &live.folder, topology, &options)?;
        live.request("controller", json!({"target": controller.target(), "backoff_ms": 1000}))?;
        let hosts: &[_] = if options.hosts == HostLearning::Configured { &[] } else { &live.hosts };
        controller.wait_until_known(topology, self.should_continue, &mut || announce_hosts(hosts))?;
        Ok(Some(controller))
    }

    /// Fixes the start of the run and schedules samples and failures.
    fn begin(&mut self, source: TrafficSource) -> Result<RunWindow> {
        let JobRun { live, job, .. } = self;
        let flows = if job.variant.config.services.is_some() { 0 } else { job.scenario.flows.flows.len() };
        let start_ns = now_ns() + traffic::lead_ns(source, flows);
        let until = job.scenario.config.stop.until.unwrap_or_default();
        let span = RunWindow { start_ns, end_ns: start_ns + until.as_ps() / 1000 };
        let interval_s = job.variant.testbed.sample_interval.as_s_f64();
        live.request("sample", json!({"interval_s": interval_s, "from": seconds(start_ns) - interval_s}))?;
        for failure in &job.scenario.config.failures {
            let FailureKind::LinkDown(link) = failure.kind else { continue };
            let cable = LinkIx(link.0.min(link.reverse().0)).0;
            let Some(number) = live.plan.links.iter().position(|link| link.forward == cable) else { continue };
            let change = |up: bool, at: Time| json!({"link": number, "up": up, "at": seconds(span.at(at))});
            live.request("link", change(false, failure.at))?;
            if let Some(until) = failure.until {
                live.request("link", change(true, until))?;
            }
        }
        Ok(span)
    }

    /// Ends the controller of a run. One that was restarted must know the network again by now
    /// without help. Returns its counters, or `None` if it was killed.
    fn end_controller(&mut self, mut controller: Controller, was_killed: bool) -> Result<Option<ControllerCounts>> {
        controller.check()?;
        if !controller.is_running() {
            return Ok(None);
        }
        // Hosts send again only if the controller learns hosts and does not persist them.
        let is_seen = self.job.variant.testbed.host_learning == HostLearning::Learned;
        let hosts: &[_] = if is_seen { &self.live.hosts } else { &[] };
        if was_killed {
            let topology = self.job.scenario.topology;
            controller.wait_until_known(topology, self.should_continue, &mut || announce_hosts(hosts))?;
        }
        controller.counts().map(Some)
    }

    fn record(
        &self,
        measurement: &TrafficMeasurement,
        (before, after): (&Counters, &Counters),
        preflight: &PreflightReport,
    ) -> summary::Testbed {
        let Machine { kernel, mininet, openvswitch, .. } = &self.testbed.machine;
        let version = |name: &str, version: &Option<String>| (name.to_owned(), version.clone().unwrap_or_default());
        let is_static = self.job.variant.testbed.rules == RuleSource::Static;
        let received: u64 = measurement.flows.iter().map(|flow| flow.received).sum();
        let delay: u64 = measurement.flows.iter().map(|flow| flow.delay_sum_ns).sum();
        let gap = measurement.flows.iter().map(|flow| flow.longest_gap_ns).max().unwrap_or(0);
        summary::Testbed {
            versions: [
                ("kernel".to_owned(), kernel.clone()),
                version("mininet", mininet),
                version("openvswitch", openvswitch),
            ]
            .into(),
            datapath: self.live.datapath.clone(),
            rules: if is_static { "static" } else { "controller" }.to_owned(),
            preflight_sent: preflight.sent,
            preflight_packets_per_s: preflight.packets_per_s,
            preflight_delay_mean_us: preflight.delay_mean_us,
            build_s: self.live.build_s,
            has_dedicated_core: self.live.has_dedicated_core,
            switch_cpu: (after.switch_cpu_s - before.switch_cpu_s) / (after.t - before.t).max(1e-9),
            delay_mean_us: if received == 0 { 0.0 } else { delay as f64 / 1e3 / received as f64 },
            longest_gap_us: gap as f64 / 1e3,
            ..summary::Testbed::default()
        }
    }
}

/// Takes the samples of a run and appends the final counters.
fn samples(live: &mut RunningNetwork, origin: f64, after: &Counters) -> Vec<Sample> {
    let taken = std::mem::take(&mut live.samples);
    let mut samples: Vec<Sample> = taken.into_iter().map(|(t, ports)| Sample { t: t - origin, ports }).collect();
    samples.push(Sample { t: after.t - origin, ports: after.ports.clone() });
    samples
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // Errors cannot be reported here; the journal records what was not removed.
        let _ = self.close();
    }
}

impl Runner for Testbed {
    fn name(&self) -> &'static str {
        "testbed"
    }

    fn jobs_max(&self) -> usize {
        1
    }

    fn identity(&self, variant: &Variant) -> String {
        format!("build {}, {:?}", env!("ANABRANCH_TESTBED_BUILD"), variant.testbed)
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(Testbed::check(self, experiment)?)
    }

    fn run(
        &self,
        job: &RunJob<'_>,
        progress: &mut (dyn FnMut(&RunProgress) -> bool + Send),
    ) -> Result<RunOutput, RunError> {
        let flows_listed = job.scenario.flows.flows.len() as u64;
        let began = now_ns();
        let mut should_continue = || {
            let now = Time::from_ns(now_ns() - began);
            progress(&RunProgress { now, flows_done: 0, flows_listed, events: 0 })
        };
        self.execute(job, &mut should_continue).map_err(|cause| match cause {
            TestbedError::Interrupted => RunError::Interrupted,
            cause => RunError::Platform(Box::new(cause)),
        })
    }
}
