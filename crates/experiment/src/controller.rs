//! The controller of `control`, as a run of the simulator sees it.

use std::time::{Duration, Instant};

use balance::central::{AgentReport, CentralBalancer, CentralEnv};
use balance::server::Facts;
use balance::{Build, Spec};
use control::vip::{self, MemberId, PoolId, ServiceId};
use control::{Config, Controller, KnownHost};
use core::net::Ipv4Addr;
use net::{NodeKind, Time, Topology, address};
use openflow::{DatapathId, MacAddr, PortNo, ToController};
use sim::{
    ControlConfig, ControlPlane, Outcome, PlaneOutput, PlaneTally, Progress, Scenario, ServerConfig, ServicesConfig,
    SimError, VirtualService,
};

/// Runs a scenario, with a controller if its balancer is central; answers also the mean wall time of a decision,
/// microseconds, 0 without a controller.
///
/// # Errors
/// As [`sim::run`] and [`sim::run_controlled`].
pub fn run(scenario: &Scenario<'_>, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<(Outcome, f64), SimError> {
    match Stopwatch::of(scenario)? {
        None => Ok((sim::run(scenario, progress)?, 0.0)),
        Some(mut controller) => {
            let outcome = sim::run_controlled(scenario, &mut controller, progress)?;
            Ok((outcome, controller.decision_us()))
        }
    }
}

/// A controller with a stopwatch. The time it takes is told apart from everything else: it differs between repeats.
struct Stopwatch {
    controller: Controller,
    /// Time of the calls in which the balancer was asked.
    deciding: Duration,
    decisions: u64,
}

impl Stopwatch {
    /// The controller of a central balancer, or of one that picks servers, over a network whose hosts and capacities it has
    /// been told; `None` for other balancers.
    ///
    /// # Errors
    /// Services the controller refuses.
    fn of(scenario: &Scenario<'_>) -> Result<Option<Stopwatch>, SimError> {
        let (spec, topology, seed) = (scenario.balancer, scenario.topology, scenario.seed);
        let config = settings(topology, &scenario.config.control, seed);
        match (spec.entry.build, &scenario.config.services) {
            (Build::Central(build), _) => Ok(Some(Stopwatch::new(build(&CentralEnv { seed }, &spec.params), config))),
            (Build::Server(_), Some(services)) => Stopwatch::serving(services, spec, config).map(Some),
            _ => Ok(None),
        }
    }

    /// The controller of virtual services.
    fn serving(services: &ServicesConfig, spec: &Spec, config: Config) -> Result<Stopwatch, SimError> {
        let refused = |reason: String| SimError::Config { key: "service", value: spec.label(), reason };
        let checker = services.agents.and_then(|agents| agents.in_band);
        let checker = checker.map(|to| vip::Checker { ipv4: to.address, mac: MacAddr(to.mac) });
        let env = CentralEnv { seed: config.seed };
        let config = Config { checker, ..config };
        let base = Spec::parse(&services.base).map_err(|cause| refused(cause.to_string()))?;
        let Build::Central(build) = base.entry.build else {
            return Err(refused(format!("`{}` is not a central balancer, which goes beneath", base.label())));
        };
        let mut stopwatch = Stopwatch::new(build(&env, &base.params), config);
        let wanted = virtual_services(services, spec);
        stopwatch.controller.set_services(Time::ZERO, wanted).map_err(|cause| refused(cause.to_string()))?;
        Ok(stopwatch)
    }

    fn new(balancer: Box<dyn CentralBalancer>, config: Config) -> Stopwatch {
        Stopwatch { controller: Controller::new(config, balancer), deciding: Duration::ZERO, decisions: 0 }
    }

    /// Mean wall time of the calls in which the balancer was asked, microseconds per question; 0 where it never was.
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
        self.timed(|controller| controller.report(now, report));
    }

    fn member_reported(&mut self, now: Time, address: Ipv4Addr, facts: Facts) {
        self.timed(|controller| {
            // Whoever is no member of any pool is not minded.
            controller.member_reported(now, address, facts);
        });
    }

    fn poll_output(&mut self) -> Option<PlaneOutput> {
        loop {
            match self.controller.poll_output()? {
                control::Output::Channel(wanted) => return Some(PlaneOutput::Channel(wanted)),
                control::Output::Agents(order) => return Some(PlaneOutput::Agents(order)),
                control::Output::Event(_) => {}
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.controller.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.timed(|controller| controller.handle_timeout(now));
    }

    fn is_settled(&self) -> bool {
        self.controller.is_settled()
    }

    fn tally(&self) -> PlaneTally {
        let tally = self.controller.tally();
        PlaneTally { decisions: tally.decisions, moves: tally.moves, stale_samples: tally.stale_samples }
    }
}

/// What the controller is told of the network beforehand: hosts, as with static ARP, and the capacities of links.
fn settings(topology: &Topology, config: &ControlConfig, seed: u64) -> Config {
    let default = Config::default();
    let discovery = config.discovery.unwrap_or(default.discovery_interval);
    let switches = topology.links().iter().zip(0u32..).filter(|(link, _)| is_switch(topology, link.from));
    let capacity = |(link, ix): (&net::Link, u32)| ((datapath(link.from), port(topology, net::LinkIx(ix))), link.rate);
    Config {
        seed,
        capacities: switches.map(capacity).collect(),
        hosts: KnownHost::all_of(topology),
        poll_interval: config.poll.unwrap_or(default.poll_interval),
        discovery_interval: discovery,
        // Two rounds and some time: no link is given up for want of probes that were not sent.
        link_timeout: default.link_timeout.max(discovery.saturating_add(discovery).saturating_add(Time::from_s(5))),
        ..default
    }
}

/// Services and pools as the controller is told of them; the balancer is that of every pool.
fn virtual_services(config: &ServicesConfig, balancer: &Spec) -> vip::Services {
    let service = |(id, service): (u16, &VirtualService)| vip::Service {
        id: ServiceId(id),
        address: service.address,
        mac: Some(MacAddr(service.mac)),
        protocol: vip::Protocol::Tcp,
        port: service.port,
        pool: PoolId(service.pool),
        idle_timeout_s: service.idle_timeout_s,
        rules: service.buckets.map_or(vip::Rules::Connection, |buckets| vip::Rules::Wildcard { buckets }),
    };
    let member = |service: &VirtualService, server: &ServerConfig, id: u32| vip::Member {
        id: MemberId(id),
        address: address::host_ipv4(server.host),
        port: service.member_port,
        weight: server.weight,
        is_enabled: true,
    };
    let mut pools: Vec<vip::Pool> = Vec::new();
    for service in &config.services {
        if pools.iter().any(|pool| pool.id.0 == service.pool) {
            continue;
        }
        let servers = (1u32..).zip(&config.servers).filter(|(_, server)| service.members.contains(&server.host));
        pools.push(vip::Pool {
            id: PoolId(service.pool),
            balancer: balancer.label(),
            monitor: None,
            members: servers.map(|(id, server)| member(service, server, id)).collect(),
            established: vip::Established::Keep,
            refusal: vip::Refusal::Reset,
        });
    }
    vip::Services { services: (1u16..).zip(&config.services).map(service).collect(), pools }
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
    fn the_controller_is_told_where_hosts_are_and_how_fast_links_are() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=2,hosts_per_leaf=3").unwrap();
        let told = settings(&topology, &ControlConfig { poll: Some(Time::from_ms(7)), ..ControlConfig::default() }, 5);
        assert_eq!((told.seed, told.poll_interval, told.hosts.len()), (5, Time::from_ms(7), 6));
        // Six links to hosts, four cables between switches with two ends each.
        assert_eq!(told.capacities.len(), 6 + 8);
        for (number, host) in (0u32..).zip(&told.hosts) {
            assert_eq!(address::host_of_ipv4(host.ipv4, 6), Some(net::HostIx(number)));
            let node = topology.nodes().iter().zip(0u32..).map(|(_, ix)| net::NodeIx(ix));
            let switch = node.into_iter().find(|node| datapath(*node) == host.datapath).unwrap();
            let out = topology.out_links(switch)[host.port.0 as usize - 1];
            assert_eq!(topology.link(out).to, topology.hosts()[number as usize]);
        }
    }

    #[test]
    fn rare_discovery_takes_no_link_for_dead() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=2,hosts_per_leaf=3").unwrap();
        let told = |discovery| settings(&topology, &ControlConfig { discovery, ..ControlConfig::default() }, 5);
        assert_eq!(told(None).link_timeout, Config::default().link_timeout);
        assert_eq!(told(Some(Time::from_ms(10))).link_timeout, Config::default().link_timeout);
        assert_eq!(told(Some(Time::from_s(1000))).link_timeout, Time::from_s(2005));
    }
}
