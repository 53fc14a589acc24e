//! The world of emulated networks.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use experiment::Experiment;
use experiment::file::{KnownHosts, RuleSource, TrafficSource, Variant};
use experiment::summary::{self, ControllerCounts};
use experiment::world::{Ended, FailureKind, Job, NotEnded, RunProgress, World};
use net::{LinkIx, Time, Topology};
use serde_json::json;

use crate::beside::Beside;
use crate::checks::{check_experiment, check_machine, source_of};
use crate::clock::{now_ns, seconds};
use crate::controller::{Controller, free_port};
use crate::driver::{self, Machine};
use crate::error::TestbedError;
use crate::faults::faults;
use crate::live::Live;
use crate::outcome::{Material, outcome};
use crate::plan::{NetworkPlan, congestion};
use crate::proof::prove;
use crate::rules::{Choice, StaticRoutes, no_rules};
use crate::series::Sample;
use crate::serving::{self, Programs, Served};
use crate::sockets::speak;
use crate::told::{Told, agents, plan_of};
use crate::traffic::{self, Span};

/// Emulated networks on this machine, one at a time. A network stays up from one run to the next that wants the same.
pub struct Testbed {
    machine: Machine,
    folder: PathBuf,
    /// The `anabranch` program, which is the controller too.
    program: PathBuf,
    live: Mutex<Option<Live>>,
}

impl Testbed {
    /// Looks at the machine. `program` is the `anabranch` that is to be the controller.
    ///
    /// # Errors
    /// Python is not there.
    pub fn new(program: PathBuf) -> Result<Testbed, TestbedError> {
        Ok(Testbed { machine: driver::machine()?, folder: driver::folder(), program, live: Mutex::new(None) })
    }

    /// Refuses what cannot be run here.
    ///
    /// # Errors
    /// Not root, something is not installed, or the first key of the file that asks for what is not there.
    pub fn check(&self, experiment: &Experiment) -> Result<(), TestbedError> {
        check_machine(&self.machine, &experiment.variants)?;
        check_experiment(experiment, &self.machine)
    }

    /// Builds the network of the first variant and leaves it up; answers the configuration of a controller for it, unless
    /// it has static rules.
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
                live.ask("rules", json!({"rules": rules}))?;
                None
            }
            RuleSource::Controller => {
                let told = Told::of(variant, &experiment.balancers[0])?;
                let wanted = told.wanted(variant, experiment.seeds[0], (6653, 8080));
                let path = crate::controller::write_config(&self.folder, &variant.topology, &wanted)?;
                live.ask("controller", json!({"target": "tcp:127.0.0.1:6653"}))?;
                if let Some(plan) = plan_of(variant) {
                    // They stay, as the network does.
                    Programs::start(&mut live, &plan, &self.program)?;
                }
                Some(path)
            }
        };
        live.driver.detach()?;
        Ok(config)
    }

    /// Takes the network down, if one is up.
    ///
    /// # Errors
    /// Something was left, which [`driver::down`] may clean.
    pub fn close(&self) -> Result<(), TestbedError> {
        match self.live().take() {
            Some(live) => live.driver.stop(),
            None => Ok(()),
        }
    }

    fn live(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, plan: NetworkPlan, topology: &Topology) -> Result<Live, TestbedError> {
        let live = Live::build(plan, topology, &self.folder)?;
        std::fs::create_dir_all(&live.folder).map_err(driver::file_error("make", &live.folder))?;
        Ok(live)
    }

    fn execute(&self, job: &Job<'_>, wanted: &mut dyn FnMut() -> bool) -> Result<Ended, TestbedError> {
        let mut place = self.live();
        let plan = NetworkPlan::new(job.scenario.topology, job.scenario.config, &job.variant.testbed);
        if let Some(other) = place.take_if(|live| live.plan != plan) {
            other.driver.stop()?;
        }
        let mut live = match place.take() {
            Some(live) => live,
            None => self.build(plan, job.scenario.topology)?,
        };
        match self.run_on(&mut live, job, wanted) {
            Ok(ended) => {
                *place = Some(live);
                Ok(ended)
            }
            Err(cause) => {
                // What went wrong is told; a network in an unknown state is of no use to the next run.
                let _ = live.driver.stop();
                Err(cause)
            }
        }
    }

    fn run_on(&self, live: &mut Live, job: &Job<'_>, wanted: &mut dyn FnMut() -> bool) -> Result<Ended, TestbedError> {
        let (topology, options) = (job.scenario.topology, &job.variant.testbed);
        let source = source_of(job.variant);
        live.ask("controller", json!({"target": null}))?;
        let span = Duration::from_secs_f64(options.proof.as_s_f64());
        let proof = prove(&mut live.driver, topology, &live.hosts, options.is_shaped, span, wanted)?;
        let mut controller = self.rule(live, job, wanted)?;
        let serving = plan_of(job.variant);
        let programs = match (&serving, &mut controller) {
            (Some(plan), Some(controller)) => Some(self.serve(live, plan, controller)?),
            _ => None,
        };
        let before = live.driver.counters()?;
        live.samples.clear();
        live.deeds.clear();
        let span = self.begin(live, job, source)?;
        let agents = controller.as_ref().map(|controller| agents(controller, live, job, source, span));
        let mut beside = Beside::new(controller, agents.flatten(), &job.scenario.config.failures, span, wanted);
        let Served { seen, record: services, failures, jobs_late_ms } = match (&serving, &programs) {
            (Some(plan), Some(programs)) => serving::run(live, plan, programs, &job.scenario, span, &mut beside)?,
            _ => Served { seen: traffic::send(live, source, &job.scenario, span, &mut beside)?, ..Served::default() },
        };
        live.listen(Duration::ZERO)?;
        live.ask("sample", json!({"interval_s": 0}))?;
        let after = live.driver.counters()?;
        let mut deeds = std::mem::take(&mut beside.deeds);
        let counts = match beside.controller {
            Some(controller) => self.conclude(controller, live, job, !deeds.is_empty(), wanted)?,
            None => None,
        };
        if let Some(programs) = programs {
            programs.end(live)?;
        }
        deeds.append(&mut live.deeds);
        let samples = samples(live, seconds(span.start_ns), &after);
        let material = Material {
            scenario: &job.scenario,
            plan: &live.plan,
            span,
            seen: &seen,
            samples: &samples,
            before: &before,
            after: &after,
            sample: options.sample,
            services: serving.is_some().then_some(services),
        };
        let source = if serving.is_some() { options.client.name() } else { source.name() };
        let mut record = self.record(live, options.rules, source, &seen, (&before, &after), &proof);
        (record.failed_requests, record.jobs_late_ms) = (failures, jobs_late_ms);
        record.faults = faults(deeds, &seen.breaks, span.start_ns);
        record.controller = counts;
        Ok(Ended { outcome: outcome(&material), decision_us: 0.0, testbed: Some(record) })
    }

    /// Puts static rules into the switches, or starts a controller that does.
    fn rule(
        &self,
        live: &mut Live,
        job: &Job<'_>,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Controller>, TestbedError> {
        let topology = job.scenario.topology;
        match job.variant.testbed.rules {
            RuleSource::Static => {
                let rules = StaticRoutes::new(topology, Choice::First).rules();
                live.ask("rules", json!({"rules": rules}))?;
                Ok(None)
            }
            RuleSource::Controller => {
                live.ask("rules", json!({"rules": no_rules(topology)}))?;
                self.control(live, job, wanted).map(Some)
            }
        }
    }

    /// Fixes when the run begins, and has samples taken and failures happen at their times.
    fn begin(&self, live: &mut Live, job: &Job<'_>, source: TrafficSource) -> Result<Span, TestbedError> {
        let flows = if job.variant.config.services.is_some() { 0 } else { job.scenario.flows.flows.len() };
        let start_ns = now_ns() + traffic::lead_ns(source, flows);
        let until = job.scenario.config.stop.until.unwrap_or_default();
        let span = Span { start_ns, end_ns: start_ns + until.as_ps() / 1000 };
        let interval_s = job.variant.testbed.sample.as_s_f64();
        live.ask("sample", json!({"interval_s": interval_s, "from": seconds(start_ns) - interval_s}))?;
        self.schedule_failures(live, job, span)?;
        Ok(span)
    }

    /// Starts the controller and waits until it knows the network.
    fn control(
        &self,
        live: &mut Live,
        job: &Job<'_>,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<Controller, TestbedError> {
        let told = Told::of(job.variant, job.scenario.balancer)?;
        let asked = told.wanted(job.variant, job.scenario.seed, (free_port()?, free_port()?));
        let hosts = asked.hosts;
        let mut controller = Controller::start(&self.program, &live.folder, job.scenario.topology, &asked)?;
        live.ask("controller", json!({"target": controller.target(), "backoff_ms": 1000}))?;
        let hosts: &[_] = if hosts == KnownHosts::Configured { &[] } else { &live.hosts };
        controller.wait_until_known(job.scenario.topology, wanted, &mut || speak(hosts))?;
        Ok(controller)
    }

    /// Starts servers and their agents, and waits until the controller takes them for able to serve.
    fn serve(
        &self,
        live: &mut Live,
        plan: &serving::Plan<'_>,
        controller: &mut Controller,
    ) -> Result<Programs, TestbedError> {
        let mut programs = Programs::start(live, plan, &self.program)?;
        Programs::wait_for_members(plan, controller)?;
        programs.start_agents(live, plan, controller, &self.program)?;
        Ok(programs)
    }

    /// The end of a controller: one that was killed and started again has to know everything by now without being helped. Answers
    /// what it has done, if it is there.
    fn conclude(
        &self,
        mut controller: Controller,
        live: &mut Live,
        job: &Job<'_>,
        was_killed: bool,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<Option<ControllerCounts>, TestbedError> {
        controller.check()?;
        if !controller.is_alive() {
            return Ok(None);
        }
        // Nobody has to speak again but where hosts are not remembered.
        let is_seen = job.variant.testbed.hosts == KnownHosts::Seen;
        let hosts: &[_] = if was_killed && is_seen { &live.hosts } else { &[] };
        if was_killed {
            controller.wait_until_known(job.scenario.topology, wanted, &mut || speak(hosts))?;
        }
        controller.counts().map(Some)
    }

    fn schedule_failures(&self, live: &mut Live, job: &Job<'_>, span: Span) -> Result<(), TestbedError> {
        for failure in &job.scenario.config.failures {
            let FailureKind::LinkDown(link) = failure.kind else { continue };
            let cable = LinkIx(link.0.min(link.reverse().0)).0;
            let Some(number) = live.plan.links.iter().position(|link| link.forward == cable) else { continue };
            let change = |up: bool, at: Time| json!({"link": number, "up": up, "at": seconds(span.at(at))});
            live.ask("link", change(false, failure.at))?;
            if let Some(until) = failure.until {
                live.ask("link", change(true, until))?;
            }
        }
        Ok(())
    }

    fn record(
        &self,
        live: &Live,
        rules: RuleSource,
        source: &str,
        seen: &crate::seen::Seen,
        (before, after): (&driver::Counters, &driver::Counters),
        proof: &crate::proof::Proof,
    ) -> summary::Testbed {
        let version = |version: &Option<String>| version.clone().unwrap_or_default();
        let received: u64 = seen.flows.iter().map(|flow| flow.received).sum();
        let delay: u64 = seen.flows.iter().map(|flow| flow.delay_sum_ns).sum();
        let gap = seen.flows.iter().map(|flow| flow.longest_gap_ns).max().unwrap_or(0);
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
            proof_sent: proof.sent,
            proof_lost: 0,
            proof_packets_per_s: proof.packets_per_s,
            proof_delay_mean_us: proof.delay_mean_us,
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

/// Takes the samples of a run, with the counters after it as the last one.
fn samples(live: &mut Live, origin: f64, after: &driver::Counters) -> Vec<Sample> {
    let taken = std::mem::take(&mut live.samples);
    let mut samples: Vec<Sample> = taken.into_iter().map(|(t, ports)| Sample { t: t - origin, ports }).collect();
    samples.push(Sample { t: after.t - origin, ports: after.ports.clone() });
    samples
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // Nobody is left to be told; what could not be cleaned is in the journal.
        let _ = self.close();
    }
}

impl World for Testbed {
    fn name(&self) -> &'static str {
        "testbed"
    }

    fn jobs_max(&self) -> usize {
        1
    }

    fn identity(&self, variant: &Variant) -> String {
        // In earlier results TCP had the congestion control this machine happened to be set to, where it was not iperf3's, and packets
        // of up to 64 KB in queues of hosts.
        let law = congestion(variant.config.transport.kind);
        let law = law.map(|law| format!(" over {law} by the segment")).unwrap_or_default();
        format!("{:?}{law}", variant.testbed)
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(Testbed::check(self, experiment)?)
    }

    fn run(&self, job: &Job<'_>, progress: &mut dyn FnMut(&RunProgress) -> bool) -> Result<Ended, NotEnded> {
        let flows_listed = job.scenario.flows.flows.len() as u64;
        let began = now_ns();
        let mut wanted = || {
            let now = Time::from_ns(now_ns() - began);
            progress(&RunProgress { now, flows_done: 0, flows_listed, events: 0 })
        };
        match self.execute(job, &mut wanted) {
            Ok(ended) => Ok(ended),
            Err(TestbedError::Interrupted) => Err(NotEnded::Interrupted),
            Err(cause) => Err(NotEnded::World(Box::new(cause))),
        }
    }
}
