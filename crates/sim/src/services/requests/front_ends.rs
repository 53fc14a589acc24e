//! Balancers of front ends: each front end has one for each pool of a rule.

use std::collections::BTreeMap;

use balance::central::{FlowTable, NetworkView};
use balance::server::{
    Ended, Member, MemberId, MemberLocation, Pool, Request, ServerBalancer, ServerCx, ServerEnv, ServerStats,
};
use balance::{Build, Spec};
use net::{HostIx, NodeIx, RandomStream, Routes, Time, Topology};

use crate::scenario::Scenario;
use crate::services::{ContentRule, ServicesConfig};

struct Picker {
    balancer: Box<dyn ServerBalancer>,
    pool: Pool,
    rng: RandomStream,
}

/// Front ends know the intact network: they see no failures.
pub(super) struct FrontEnds<'a> {
    config: &'a ServicesConfig,
    routes: Option<Routes>,
    alive: Vec<bool>,
    flows: FlowTable,
    edges: Vec<NodeIx>,
    /// By the position of the front end, of the service, and of the rule.
    pickers: BTreeMap<(u32, u32, usize), Picker>,
}

/// Position of a front end among the servers, and a class of requests.
type At = (u32, u32);

/// Returns the builder of a rule's balancer, or an error message.
pub(crate) fn balancer_of(rule: &ContentRule, of_run: &Spec) -> Result<Spec, String> {
    let spec = match &rule.balancer {
        None => of_run.clone(),
        Some(text) => Spec::parse(text).map_err(|cause| cause.to_string())?,
    };
    match spec.entry.build {
        Build::Server(_) => Ok(spec),
        _ => Err(format!("`{}` does not pick servers", spec.entry.name)),
    }
}

impl<'a> FrontEnds<'a> {
    pub(super) fn new(config: &'a ServicesConfig, scenario: &Scenario<'a>) -> FrontEnds<'a> {
        let topology = scenario.topology;
        let is_used = config.services.iter().any(|service| service.content.is_some());
        let edge = |host: &NodeIx| topology.link(topology.out_links(*host)[0]).to;
        let mut front_ends = FrontEnds {
            config,
            routes: is_used.then(|| Routes::intact(topology)),
            alive: if is_used { vec![true; topology.links().len()] } else { Vec::new() },
            flows: FlowTable::default(),
            edges: if is_used { topology.hosts().iter().map(edge).collect() } else { Vec::new() },
            pickers: BTreeMap::new(),
        };
        for (number, service) in (0u32..).zip(&config.services) {
            let Some(content) = &service.content else { continue };
            let fronts = (0u32..).zip(&config.servers).filter(|(_, server)| service.members.contains(&server.host));
            for (front, _) in fronts {
                for (place, rule) in content.rules.iter().enumerate() {
                    let Some(picker) = front_ends.picker(rule, scenario, (front, number)) else { continue };
                    front_ends.pickers.insert((front, number, place), picker);
                }
            }
        }
        front_ends
    }

    fn picker(&self, rule: &ContentRule, scenario: &Scenario<'_>, (front, service): (u32, u32)) -> Option<Picker> {
        let spec = balancer_of(rule, scenario.balancer).ok()?;
        let Build::Server(build) = spec.entry.build else { return None };
        let servers = (1u32..).zip(&self.config.servers).filter(|(_, server)| rule.members.contains(&server.host));
        let member = |(id, server): (u32, &crate::ServerConfig)| Member {
            id: MemberId(id),
            place: MemberLocation::Host { host: server.host, edge: self.edges[server.host.ix()] },
            weight: server.weight,
            is_accepting: true,
            stats: ServerStats::default(),
        };
        let pool = Pool::new(servers.map(member));
        let mut balancer = build(&ServerEnv { seed: scenario.seed }, &spec.params);
        balancer.on_pool_changed(&pool);
        let rng = RandomStream::new(scenario.seed, &format!("front end {front}, service {service}, {}", rule.path));
        Some(Picker { balancer, pool, rng })
    }

    pub(super) fn edge_of(&self, host: u32) -> NodeIx {
        self.edges[host as usize]
    }

    fn of(&mut self, (front, class): At) -> Option<&mut Picker> {
        let class = &self.config.classes[class as usize];
        let content = self.config.services[class.service as usize].content.as_ref()?;
        let rule = content.rules.iter().position(|rule| rule.matches(class))?;
        self.pickers.get_mut(&(front, class.service, rule))
    }

    /// Returns the position of the member for a request among the servers.
    pub(super) fn pick(&mut self, now: u64, topology: &Topology, at: At, request: &Request) -> Option<u32> {
        let (alive, flows) = (std::mem::take(&mut self.alive), std::mem::take(&mut self.flows));
        let routes = self.routes.take()?;
        let view = NetworkView {
            now: Time::from_ps(now),
            topology,
            alive: &alive,
            routes: &routes,
            load: &[],
            flows: &flows,
            legacy: &[],
        };
        let choice = self.of(at).and_then(|Picker { balancer, pool, rng }| {
            balancer.pick(&mut ServerCx { rng }, request, pool, &view).map(|choice| choice.member.0 - 1)
        });
        (self.alive, self.flows, self.routes) = (alive, flows, Some(routes));
        choice
    }

    pub(super) fn ended(&mut self, now: u64, at: At, request: &Request, (member, bytes): (u32, u64)) {
        let ended = Ended { member: MemberId(member + 1), bytes, at: Time::from_ps(now) };
        if let Some(picker) = self.of(at) {
            picker.balancer.on_ended(request, &ended);
        }
    }

    /// Records the time from opening a connection to a member to the first byte of its response.
    pub(super) fn responded(&mut self, at: At, member: u32, took: u64) {
        let Some(Picker { balancer, pool, .. }) = self.of(at) else { return };
        if let Some(member) = pool.get(MemberId(member + 1)) {
            balancer.on_response(member, Time::from_ps(took));
        }
    }

    /// Passes the report of an agent to the pools of its server.
    pub(super) fn report(&mut self, now: u64, host: HostIx, stats: ServerStats) {
        let Some(server) = self.config.servers.iter().position(|server| server.host == host) else { return };
        for Picker { balancer, pool, .. } in self.pickers.values_mut() {
            if let Some(member) = pool.get_mut(MemberId(server as u32 + 1)) {
                member.stats = ServerStats { at: Some(Time::from_ps(now)), ..stats };
                balancer.on_report(member);
            }
        }
    }
}
