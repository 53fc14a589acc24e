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
use crate::error::TestbedError;
use crate::measure::series::Sample;
use crate::network::driver::{self, Machine};
use crate::network::plan::NetworkPlan;
use crate::network::preflight::check_lossless;
use crate::network::rules::{Choice, StaticRoutes, no_rules};
use crate::network::running_network::RunningNetwork;
use crate::run::checks::{check_experiment, check_machine, source_of};
use crate::run::controller::{Controller, free_port};
use crate::run::controller_setup::{ControllerSetup, agents, plan_of};
use crate::run::faults::faults;
use crate::run::outcome::{RunData, outcome};
use crate::run::supervisor::RunSupervisor;
use crate::services::serving::{self, Programs, Served};
use crate::traffic::sockets::announce_hosts;
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
    ///
    /// # Errors
    /// Python is not installed.
    pub fn new(program: PathBuf) -> Result<Testbed, TestbedError> {
        Ok(Testbed { machine: driver::machine()?, folder: driver::folder(), program, live: Mutex::new(None) })
    }

    /// Returns an error if an experiment cannot run here.
    ///
    /// # Errors
    /// The user is not root, a program is missing, or the file has an unsupported key.
    pub fn check(&self, experiment: &Experiment) -> Result<(), TestbedError> {
        check_machine(&self.machine, &experiment.variants)?;
        check_experiment(experiment, &self.machine)
    }

    /// Builds the network of the first variant and leaves it up. Returns the configuration of a
    /// controller for it, or `None` with static rules.
    ///
    /// # Errors
    /// As [`Testbed::check`], or the network cannot be built.
    pub fn up(&self, experiment: &Experiment) -> Result<Option<PathBuf>, TestbedError> {
        self.check(experiment)?;
        let variant = &experiment.variants[0];
        let mut live =
            self.build(NetworkPlan::new(&variant.topology, &variant.config, &variant.testbed), &variant.topology)?;
        let config = match variant.testbed.rules {
            RuleSource::Static => {
                let rules = StaticRoutes::new(&variant.topology, Choice::First).rules();
                live.request("rules", json!({"rules": rules}))?;
                None
            }
            RuleSource::Controller => {
                let setup = ControllerSetup::of(variant, &experiment.balancers[0])?;
                let options = setup.launch_options(variant, experiment.seeds[0], (6653, 8080));
                let path = crate::run::controller::write_config(&self.folder, &variant.topology, &options)?;
                live.request("controller", json!({"target": "tcp:127.0.0.1:6653"}))?;
                if let Some(plan) = plan_of(variant) {
                    // The servers stay up with the network.
                    Programs::start(&mut live, &plan, &self.program)?;
                }
                Some(path)
            }
        };
        live.driver.detach()?;
        Ok(config)
    }

    /// Removes the network, if one is up. After an error, [`driver::down`] may remove the rest.
    pub fn close(&self) -> Result<(), TestbedError> {
        match self.live().take() {
            Some(live) => live.driver.stop(),
            None => Ok(()),
        }
    }

    fn live(&self) -> MutexGuard<'_, Option<RunningNetwork>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, plan: NetworkPlan, topology: &Topology) -> Result<RunningNetwork, TestbedError> {
        let live = RunningNetwork::build(plan, topology, &self.folder)?;
        std::fs::create_dir_all(&live.folder).map_err(driver::file_error("make", &live.folder))?;
        Ok(live)
    }

    fn execute(&self, job: &RunJob<'_>, should_continue: &mut dyn FnMut() -> bool) -> Result<RunOutput, TestbedError> {
        let mut slot = self.live();
        let plan = NetworkPlan::new(job.scenario.topology, job.scenario.config, &job.variant.testbed);
        if let Some(other) = slot.take_if(|live| live.plan != plan) {
            other.driver.stop()?;
        }
        let mut live = match slot.take() {
            Some(live) => live,
            None => self.build(plan, job.scenario.topology)?,
        };
        match self.run_on(&mut live, job, should_continue) {
            Ok(output) => {
                *slot = Some(live);
                Ok(output)
            }
            Err(cause) => {
                // The error of the run is returned. A network in an unknown state must not be used
                // by the next run.
                let _ = live.driver.stop();
                Err(cause)
            }
        }
    }

    fn run_on(
        &self,
        live: &mut RunningNetwork,
        job: &RunJob<'_>,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<RunOutput, TestbedError> {
        let (topology, options) = (job.scenario.topology, &job.variant.testbed);
        let source = source_of(job.variant);
        live.request("controller", json!({"target": null}))?;
        let span = Duration::from_secs_f64(options.proof.as_s_f64());
        let preflight =
            check_lossless(&mut live.driver, topology, &live.hosts, options.is_shaped, span, should_continue)?;
        let mut controller = self.install_rules(live, job, should_continue)?;
        let serving = plan_of(job.variant);
        let programs = match (&serving, &mut controller) {
            (Some(plan), Some(controller)) => Some(self.start_servers(live, plan, controller)?),
            _ => None,
        };
        let before = live.driver.counters()?;
        live.samples.clear();
        live.injected_faults.clear();
        let span = self.begin(live, job, source)?;
        let agents = controller.as_ref().map(|controller| agents(controller, live, job, source, span));
        let mut supervisor =
            RunSupervisor::new(controller, agents.flatten(), &job.scenario.config.failures, span, should_continue);
        let Served { traffic: measurement, record: services, failures, jobs_late_ms } = match (&serving, &programs) {
            (Some(plan), Some(programs)) => serving::run(live, plan, programs, &job.scenario, span, &mut supervisor)?,
            _ => Served {
                traffic: traffic::send(live, source, &job.scenario, span, &mut supervisor)?,
                ..Served::default()
            },
        };
        live.poll_events(Duration::ZERO)?;
        live.request("sample", json!({"interval_s": 0}))?;
        let after = live.driver.counters()?;
        let mut injected = std::mem::take(&mut supervisor.injected_faults);
        let counts = match supervisor.controller {
            Some(controller) => self.end_controller(controller, live, job, !injected.is_empty(), should_continue)?,
            None => None,
        };
        if let Some(programs) = programs {
            programs.end(live)?;
        }
        injected.append(&mut live.injected_faults);
        let samples = samples(live, seconds(span.start_ns), &after);
        let data = RunData {
            scenario: &job.scenario,
            plan: &live.plan,
            span,
            measurement: &measurement,
            samples: &samples,
            before: &before,
            after: &after,
            sample: options.sample,
            services: serving.is_some().then_some(services),
        };
        let source = if serving.is_some() { options.client.name() } else { source.name() };
        let mut record = self.record(live, options.rules, source, &measurement, (&before, &after), &preflight);
        (record.failed_requests, record.jobs_late_ms) = (failures, jobs_late_ms);
        record.faults = faults(injected, &measurement.gaps, span.start_ns);
        record.controller = counts;
        Ok(RunOutput { outcome: outcome(&data), decision_us: 0.0, testbed: Some(record) })
    }

    /// Installs static rules, or starts a controller.
    fn install_rules(
        &self,
        live: &mut RunningNetwork,
        job: &RunJob<'_>,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Controller>, TestbedError> {
        let topology = job.scenario.topology;
        match job.variant.testbed.rules {
            RuleSource::Static => {
                let rules = StaticRoutes::new(topology, Choice::First).rules();
                live.request("rules", json!({"rules": rules}))?;
                Ok(None)
            }
            RuleSource::Controller => {
                live.request("rules", json!({"rules": no_rules(topology)}))?;
                self.start_controller(live, job, should_continue).map(Some)
            }
        }
    }

    /// Fixes the start of the run and schedules samples and failures.
    fn begin(
        &self,
        live: &mut RunningNetwork,
        job: &RunJob<'_>,
        source: TrafficSource,
    ) -> Result<RunWindow, TestbedError> {
        let flows = if job.variant.config.services.is_some() { 0 } else { job.scenario.flows.flows.len() };
        let start_ns = now_ns() + traffic::lead_ns(source, flows);
        let until = job.scenario.config.stop.until.unwrap_or_default();
        let span = RunWindow { start_ns, end_ns: start_ns + until.as_ps() / 1000 };
        let interval_s = job.variant.testbed.sample.as_s_f64();
        live.request("sample", json!({"interval_s": interval_s, "from": seconds(start_ns) - interval_s}))?;
        self.schedule_failures(live, job, span)?;
        Ok(span)
    }

    /// Starts the controller and waits until it knows the network.
    fn start_controller(
        &self,
        live: &mut RunningNetwork,
        job: &RunJob<'_>,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<Controller, TestbedError> {
        let setup = ControllerSetup::of(job.variant, job.scenario.balancer)?;
        let options = setup.launch_options(job.variant, job.scenario.seed, (free_port()?, free_port()?));
        let hosts = options.hosts;
        let mut controller = Controller::start(&self.program, &live.folder, job.scenario.topology, &options)?;
        live.request("controller", json!({"target": controller.target(), "backoff_ms": 1000}))?;
        let hosts: &[_] = if hosts == HostLearning::Configured { &[] } else { &live.hosts };
        controller.wait_until_known(job.scenario.topology, should_continue, &mut || announce_hosts(hosts))?;
        Ok(controller)
    }

    /// Starts servers and their agents, and waits until the controller reports every member as up.
    fn start_servers(
        &self,
        live: &mut RunningNetwork,
        plan: &serving::Plan<'_>,
        controller: &mut Controller,
    ) -> Result<Programs, TestbedError> {
        let mut programs = Programs::start(live, plan, &self.program)?;
        Programs::wait_for_members(plan, controller)?;
        programs.start_agents(live, plan, controller, &self.program)?;
        Ok(programs)
    }

    /// Ends the controller of a run. One that was restarted must know the network again by now
    /// without help. Returns its counters, or `None` if it was killed.
    fn end_controller(
        &self,
        mut controller: Controller,
        live: &mut RunningNetwork,
        job: &RunJob<'_>,
        was_killed: bool,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<Option<ControllerCounts>, TestbedError> {
        controller.check()?;
        if !controller.is_running() {
            return Ok(None);
        }
        // Hosts send again only if the controller learns hosts and does not persist them.
        let is_seen = job.variant.testbed.hosts == HostLearning::Seen;
        let hosts: &[_] = if was_killed && is_seen { &live.hosts } else { &[] };
        if was_killed {
            controller.wait_until_known(job.scenario.topology, should_continue, &mut || announce_hosts(hosts))?;
        }
        controller.counts().map(Some)
    }

    fn schedule_failures(
        &self,
        live: &mut RunningNetwork,
        job: &RunJob<'_>,
        span: RunWindow,
    ) -> Result<(), TestbedError> {
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
        Ok(())
    }

    fn record(
        &self,
        live: &RunningNetwork,
        rules: RuleSource,
        source: &str,
        measurement: &crate::measure::measurement::TrafficMeasurement,
        (before, after): (&driver::Counters, &driver::Counters),
        preflight: &crate::network::preflight::PreflightReport,
    ) -> summary::Testbed {
        let version = |version: &Option<String>| version.clone().unwrap_or_default();
        let received: u64 = measurement.flows.iter().map(|flow| flow.received).sum();
        let delay: u64 = measurement.flows.iter().map(|flow| flow.delay_sum_ns).sum();
        let gap = measurement.flows.iter().map(|flow| flow.longest_gap_ns).max().unwrap_or(0);
        summary::Testbed {
            versions: [
                ("kernel".to_owned(), self.machine.kernel.clone()),
                ("mininet".to_owned(), version(&self.machine.mininet)),
                ("openvswitch".to_owned(), version(&self.machine.openvswitch)),
            ]
            .into(),
            datapath: live.datapath.clone(),
            rules: if rules == RuleSource::Static { "static" } else { "controller" }.to_owned(),
            source: source.to_owned(),
            proof_sent: preflight.sent,
            proof_lost: 0,
            proof_packets_per_s: preflight.packets_per_s,
            proof_delay_mean_us: preflight.delay_mean_us,
            built_s: live.built_s,
            has_own_processor: live.has_own_processor,
            switch_cpu: (after.switch_cpu_s - before.switch_cpu_s) / (after.t - before.t).max(1e-9),
            delay_mean_us: if received == 0 { 0.0 } else { delay as f64 / 1e3 / received as f64 },
            longest_gap_us: gap as f64 / 1e3,
            faults: Vec::new(),
            failed_requests: Default::default(),
            jobs_late_ms: 0.0,
            controller: None,
        }
    }
}

/// Takes the samples of a run and appends the final counters.
fn samples(live: &mut RunningNetwork, origin: f64, after: &driver::Counters) -> Vec<Sample> {
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

    fn run(&self, job: &RunJob<'_>, progress: &mut dyn FnMut(&RunProgress) -> bool) -> Result<RunOutput, RunError> {
        let flows_listed = job.scenario.flows.flows.len() as u64;
        let began = now_ns();
        let mut should_continue = || {
            let now = Time::from_ns(now_ns() - began);
            progress(&RunProgress { now, flows_done: 0, flows_listed, events: 0 })
        };
        match self.execute(job, &mut should_continue) {
            Ok(output) => Ok(output),
            Err(TestbedError::Interrupted) => Err(RunError::Interrupted),
            Err(cause) => Err(RunError::Platform(Box::new(cause))),
        }
    }
}
