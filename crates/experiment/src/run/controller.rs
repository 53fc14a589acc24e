//! Drives the controller of `control` in runs of the simulator.

use std::time::{Duration, Instant};

use super::schedule::Schedule;
use super::threads::Threads;
use balance::central::{AgentReport, CentralEnv};
use balance::server::ServerStats;
use balance::{Build, Spec};
use control::vip;
use control::{Config, Controller, KnownHost};
use core::net::Ipv4Addr;
use net::{NodeKind, Time, Topology, address};
use openflow::{DatapathId, MacAddr, PortNo, ToController};
use sim::{
    ControlConfig, ControlPlane, Outcome, PlaneOutput, PlaneTally, Progress, Scenario, ServicesConfig, SimError,
};

/// Runs a scenario, with a controller if its balancer is central. Also returns the mean wall time
/// of a decision, microseconds, 0 without a controller.
/// A simulation without a controller uses up to `threads` threads.
pub fn run(
    scenario: &Scenario<'_>,
    threads: usize,
    progress: &mut (dyn FnMut(&Progress) -> bool + Send),
) -> Result<(Outcome, f64), SimError> {
    match Stopwatch::of(scenario)? {
        None => Ok((sim::run_on(&Threads(threads), scenario, progress)?, 0.0)),
        Some(mut controller) => {
            let outcome = sim::run_controlled(scenario, &mut controller, progress)?;
            Ok((outcome, controller.decision_us()))
        }
    }
}

/// A controller whose wall time is measured. It differs between repeats and is therefore kept apart
/// from all other results.
struct Stopwatch {
    controller: Controller,
    schedule: Schedule,
    deciding: Duration,
    decisions: u64,
}

impl Stopwatch {
    /// Creates the controller of a central balancer or of a server balancer, with the hosts and
    /// capacities of the network; `None` for other balancers.
    fn of(scenario: &Scenario<'_>) -> Result<Option<Stopwatch>, SimError> {
        let (topology, seed) = (scenario.topology, scenario.seed);
        let config = settings(topology, &scenario.config.control, seed);
        let mut schedule = Schedule::of(scenario);
        let spec = schedule.begin();
        match (spec.entry.build, &scenario.config.services) {
            (Build::Central(build), _) => {
                let controller = Controller::new(config, build(&CentralEnv { seed }, &spec.params));
                Ok(Some(Stopwatch::new(controller, schedule)))
            }
            (Build::Server(_), Some(services)) => Stopwatch::serving(services, schedule, config).map(Some),
            _ => Ok(None),
        }
    }

    fn serving(services: &ServicesConfig, schedule: Schedule, config: Config) -> Result<Stopwatch, SimError> {
        let refused = |reason: String| SimError::Config { key: "service", value: schedule.current.label(), reason };
        let checker = services.agents.and_then(|agents| agents.in_band);
        let checker = checker.map(|to| vip::Checker { ipv4: to.address, mac: MacAddr(to.mac) });
        let env = CentralEnv { seed: config.seed };
        let config = Config { health_check_address: checker, ..config };
        let base = Spec::parse(&services.base).map_err(|cause| refused(cause.to_string()))?;
        let Build::Central(build) = base.entry.build else {
            return Err(refused(format!(
                "`{}` is not a central balancer; server balancers need one for the other traffic",
                base.label()
            )));
        };
        let mut controller = Controller::new(config, build(&env, &base.params));
        let wanted = schedule.services().unwrap_or_default();
        controller.set_services(Time::ZERO, wanted).map_err(|cause| refused(cause.to_string()))?;
        Ok(Stopwatch::new(controller, schedule))
    }

    fn new(controller: Controller, schedule: Schedule) -> Stopwatch {
        Stopwatch { controller, schedule, deciding: Duration::ZERO, decisions: 0 }
    }

    /// Returns the mean wall time of calls that ran the balancer, microseconds per decision; 0
    /// without decisions.
    fn decision_us(&self) -> f64 {
        if self.decisions == 0 { 0.0 } else { self.deciding.as_secs_f64() * 1e6 / self.decisions as f64 }
    }

    fn timed(&mut self, call: impl FnOnce(&mut Controller)) {
        let began = Instant::now();
        call(&mut self.controller);
        let decisions = self.controller.tally().decisions;
        if decisions > self.decisions {
            self.deciding += began.elapsed();
            self.decisions = decisions;
        }
    }
}

impl ControlPlane for Stopwatch {
    fn handle(&mut self, now: Time, input: ToController) {
        self.timed(|controller| controller.handle(now, input));
    }

    fn report(&mut self, now: Time, report: AgentReport) {
        self.timed(|controller| controller.handle_agent_report(now, report));
    }

    fn member_reported(&mut self, now: Time, address: Ipv4Addr, facts: ServerStats) {
        self.timed(|controller| {
            // Reports of hosts that are not a member of any pool are ignored.
            controller.handle_member_report(now, address, facts);
        });
    }

    fn poll_output(&mut self) -> Option<PlaneOutput> {
        loop {
            match self.controller.poll_output()? {
                control::Output::Channel(output) => return Some(PlaneOutput::Channel(output)),
                control::Output::Agents(command) => return Some(PlaneOutput::Agents(command)),
                control::Output::Event(_) => {}
            }
        }
    }

    fn boot_ended(&mut self, clock: Time) {
        self.schedule.boot = Some(clock);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.controller.poll_timeout().into_iter().chain(self.schedule.next()).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.schedule.next().is_some_and(|at| at <= now) {
            self.schedule.advance(&mut self.controller, now);
        }
        if self.controller.poll_timeout().is_some_and(|at| at <= now) {
            self.timed(|controller| controller.handle_timeout(now));
        }
    }

    fn is_settled(&self) -> bool {
        self.controller.is_settled()
    }

    fn tally(&self) -> PlaneTally {
        let tally = self.controller.tally();
        PlaneTally {
            decisions: tally.decisions,
            moves: tally.moves,
            stale_samples: tally.stale_samples,
            arp_answered: tally.arp_requests_answered,
            arp_relayed: tally.arp_requests_relayed,
            arp_copies: tally.arp_request_copies,
            lookups: tally.lookups,
            cache_misses: tally.cache_misses,
            lookups_refused: tally.lookups_refused,
            directory_updates: tally.directory_updates,
        }
    }
}

fn settings(topology: &Topology, config: &ControlConfig, seed: u64) -> Config {
    let default = Config::default();
    let discovery = config.discovery.unwrap_or(default.discovery_interval);
    let switches = topology.links().iter().zip(0u32..).filter(|(link, _)| is_switch(topology, link.from));
    let capacity = |(link, ix): (&net::Link, u32)| ((datapath(link.from), port(topology, net::LinkIx(ix))), link.rate);
    Config {
        seed,
        capacities: switches.map(capacity).collect(),
        hosts: KnownHost::all_of(topology),
        legacy: config.legacy.iter().map(|node| datapath(*node)).collect(),
        mux_rules: config.mux_rules,
        poll_interval: config.poll.unwrap_or(default.poll_interval),
        discovery_interval: discovery,
        addressing: config.addressing,
        refused: config.refused.iter().map(|(from, to)| (address::host_ipv4(*from), address::host_ipv4(*to))).collect(),
        // Two rounds and a margin: a link must not time out because of probes that were not sent.
        link_timeout: default.link_timeout.max(discovery.saturating_add(discovery).saturating_add(Time::from_s(5))),
        ..default
    }
}

fn is_switch(topology: &Topology, node: net::NodeIx) -> bool {
    topology.node(node).kind == NodeKind::Switch
}

fn datapath(node: net::NodeIx) -> DatapathId {
    DatapathId(address::datapath_of(node))
}

fn port(topology: &Topology, link: net::LinkIx) -> PortNo {
    PortNo(address::port_of(topology, link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controller_config_has_hosts_and_capacities() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=2,hosts_per_leaf=3").unwrap();
        let config =
            settings(&topology, &ControlConfig { poll: Some(Time::from_ms(7)), ..ControlConfig::default() }, 5);
        assert_eq!((config.seed, config.poll_interval, config.hosts.len()), (5, Time::from_ms(7), 6));
        // Six links to hosts, four cables between switches with two ends each.
        assert_eq!(config.capacities.len(), 6 + 8);
        for (number, host) in (0u32..).zip(&config.hosts) {
            assert_eq!(address::host_of_ipv4(host.ipv4, 6), Some(net::HostIx(number)));
            let node = topology.nodes().iter().zip(0u32..).map(|(_, ix)| net::NodeIx(ix));
            let switch = node.into_iter().find(|node| datapath(*node) == host.datapath).unwrap();
            let out = topology.out_links(switch)[host.port.0 as usize - 1];
            assert_eq!(topology.link(out).to, topology.hosts()[number as usize]);
        }
    }

    #[test]
    fn boot_reports_progress_and_ends_when_it_is_refused() {
        let topology = net::spec::parse("fat-tree:k=4").unwrap();
        let flow = traffic::Flow {
            src: net::HostIx(0),
            dst: net::HostIx(9),
            size_bytes: 1000,
            start: traffic::Start::At(Time::ZERO),
            group: 0,
        };
        let flows = traffic::FlowList { flows: vec![flow], ..traffic::FlowList::default() };
        let balancer = Spec::parse("sdn-ecmp").unwrap();
        let config = sim::SimConfig::default();
        let scenario = Scenario { topology: &topology, flows: &flows, balancer: &balancer, seed: 1, config: &config };
        let (mut calls, mut is_booting) = (0, true);
        let (outcome, _) = run(&scenario, 1, &mut |at| {
            (calls, is_booting) = (calls + 1, is_booting && at.events == 0);
            true
        })
        .unwrap();
        assert!(calls > 10 && is_booting, "{calls} reports, although the run itself is short");
        assert_eq!(outcome.accounting.flows_completed, 1);
        for allowed in [0, 3] {
            let mut calls = 0;
            let ended = run(&scenario, 1, &mut |_| {
                calls += 1;
                calls <= allowed
            });
            assert!(matches!(ended, Err(SimError::Interrupted)), "{ended:?}");
            assert_eq!(calls, allowed + 1, "it is not asked again");
        }
    }

    #[test]
    fn link_timeout_exceeds_two_discovery_intervals() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=2,hosts_per_leaf=3").unwrap();
        let config = |discovery| settings(&topology, &ControlConfig { discovery, ..ControlConfig::default() }, 5);
        assert_eq!(config(None).link_timeout, Config::default().link_timeout);
        assert_eq!(config(Some(Time::from_ms(10))).link_timeout, Config::default().link_timeout);
        assert_eq!(config(Some(Time::from_s(1000))).link_timeout, Time::from_s(2005));
    }
}
