//! Balancers and weights that a timetable changes during a run.

use balance::central::CentralEnv;
use balance::{Build, Spec};
use control::Controller;
use control::vip::{self, MemberId, PoolId, ServiceId};
use net::{HostIx, Time, address};
use openflow::MacAddr;
use sim::{ControlChange, Scenario, ServerConfig, ServicesConfig, VirtualService};

/// The changes of a run, and what is in effect.
pub(super) struct Schedule {
    changes: Vec<ControlChange>,
    /// Number of changes made, from the first of the list on.
    made: usize,
    /// Time of the controller's clock at simulated time 0; `None` before the end of the boot.
    pub(super) boot: Option<Time>,
    /// The balancer of the run.
    own: Spec,
    pub(super) current: Spec,
    weights: Vec<(HostIx, u32)>,
    services: Option<ServicesConfig>,
    seed: u64,
}

impl Schedule {
    pub(super) fn of(scenario: &Scenario<'_>) -> Schedule {
        Schedule {
            changes: scenario.config.control.schedule.clone(),
            made: 0,
            boot: None,
            own: scenario.balancer.clone(),
            current: scenario.balancer.clone(),
            weights: Vec::new(),
            services: scenario.config.services.clone(),
            seed: scenario.seed,
        }
    }

    /// Makes the changes at time 0. Returns the balancer that a controller starts with.
    pub(super) fn begin(&mut self) -> Spec {
        while self.changes.get(self.made).is_some_and(|change| change.at == Time::ZERO) {
            self.take();
        }
        self.current.clone()
    }

    /// Returns the time of the next change, by the clock of the controller.
    pub(super) fn next(&self) -> Option<Time> {
        Some(self.changes.get(self.made)?.at.saturating_add(self.boot?))
    }

    /// Makes the next change while traffic continues.
    pub(super) fn advance(&mut self, controller: &mut Controller, now: Time) {
        let before = self.current.label();
        self.take();
        match (self.services(), self.current.entry.build) {
            (Some(services), _) => {
                let changed = controller.set_services(now, services);
                debug_assert!(changed.is_ok(), "other weights and balancers are valid: {changed:?}");
            }
            (None, Build::Central(build)) if self.current.label() != before => {
                controller.set_balancer(now, build(&CentralEnv { seed: self.seed }, &self.current.params));
            }
            _ => {}
        }
    }

    fn take(&mut self) {
        let Some(change) = self.changes.get(self.made) else { return };
        self.made += 1;
        // Specifications are checked when the file is read.
        let named = change.balancer.as_deref().and_then(|text| Spec::parse(text).ok());
        self.current = named.unwrap_or_else(|| self.own.clone());
        self.weights.clone_from(&change.weights);
    }

    /// Returns the virtual services as they are in effect.
    pub(super) fn services(&self) -> Option<vip::Services> {
        self.services.as_ref().map(|services| virtual_services(services, &self.current, &self.weights))
    }
}

fn virtual_services(config: &ServicesConfig, balancer: &Spec, weights: &[(HostIx, u32)]) -> vip::Services {
    let service = |(id, service): (u16, &VirtualService)| vip::Service {
        id: ServiceId(id),
        address: service.address,
        mac: Some(MacAddr(service.mac)),
        protocol: vip::Protocol::Tcp,
        port: service.port,
        pool: PoolId(service.pool),
        idle_timeout_s: service.idle_timeout_s,
        rules: match (service.buckets, service.mux_traffic) {
            (None, _) => vip::Rules::Connection,
            (Some(buckets), None) => vip::Rules::Wildcard { buckets },
            (Some(buckets), Some(traffic)) => vip::Rules::Mux { buckets, traffic },
        },
        is_tunnelled: service.is_tunnelled,
    };
    let member = |service: &VirtualService, server: &ServerConfig, id: u32| vip::Member {
        id: MemberId(id),
        address: address::host_ipv4(server.host),
        port: service.member_port,
        weight: weights.iter().find(|(host, _)| *host == server.host).map_or(server.weight, |(_, weight)| *weight),
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
