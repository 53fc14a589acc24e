//! Balancers of front ends: each front end has one for each pool of a rule.

use std::collections::BTreeMap;

use balance::central::{FlowTable, NetworkView};
use balance::server::{Ended, Member, MemberId, MemberLocation, PoolPicker, Request, ServerStats};
use balance::{Build, Spec};
use net::{HostIx, NodeIx, Routes, Time, Topology};

use crate::scenario::Scenario;
use crate::services::{ContentRule, ServicesConfig};

/// Front ends know the intact network: they see no failures.
pub(super) struct FrontEnds<'a> {
    config: &'a ServicesConfig,
    routes: Option<Routes>,
    alive: Vec<bool>,
    flows: FlowTable,
    edges: Vec<NodeIx>,
    /// By the position of the front end, of the service, and of the rule.
    pickers: BTreeMap<(u32, u32, usize), PoolPicker>,
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

    fn picker(&self, rule: &ContentRule, scenario: &Scenario<'_>, (front, service): (u32, u32)) -> Option<PoolPicker> {
        let spec = balancer_of(rule, scenario.balancer).ok()?;
        let servers = (1u32..).zip(&self.config.servers).filter(|(_, server)| rule.members.contains(&server.host));
        let member = |(id, server): (u32, &crate::ServerConfig)| Member {
            id: MemberId(id),
            place: MemberLocation::Host { host: server.host, edge: self.edges[server.host.ix()] },
            weight: server.weight,
            is_accepting: true,
            stats: ServerStats::default(),
        };
        let stream = format!("front end {front}, service {service}, {}", rule.path);
        PoolPicker::new(&spec, (scenario.seed, &stream), servers.map(member)).ok()
    }

    pub(super) fn edge_of(&self, host: u32) -> NodeIx {
        self.edges[host as usize]
    }

    fn place_of(&self, (front, class): At) -> Option<(u32, u32, usize)> {
        let class = &self.config.classes[class as usize];
        let content = self.config.services[class.service as usize].content.as_ref()?;
        let rule = content.rules.iter().position(|rule| rule.matches(class))?;
        Some((front, class.service, rule))
    }

    fn of(&mut self, at: At) -> Option<&mut PoolPicker> {
        let place = self.place_of(at)?;
        self.pickers.get_mut(&place)
    }

    /// Returns the position of the member for a request among the servers.
    pub(super) fn pick(&mut self, now: u64, topology: &Topology, at: At, request: &Request) -> Option<u32> {
        let place = self.place_of(at)?;
        let (alive, routes, flows) = (&self.alive, self.routes.as_ref()?, &self.flows);
        let now = Time::from_ps(now);
        let view = NetworkView { now, topology, alive, routes, load: &[], flows, legacy: &[] };
        Some(self.pickers.get_mut(&place)?.pick(request, &view)?.0 - 1)
    }

    pub(super) fn ended(&mut self, now: u64, at: At, request: &Request, (member, bytes): (u32, u64)) {
        let ended = Ended { member: MemberId(member + 1), bytes, at: Time::from_ps(now) };
        if let Some(picker) = self.of(at) {
            picker.on_ended(request, &ended);
        }
    }

    /// Records the time from opening a connection to a member to the first byte of its response.
    pub(super) fn responded(&mut self, at: At, member: u32, took: u64) {
        if let Some(picker) = self.of(at) {
            picker.on_response(MemberId(member + 1), Time::from_ps(took));
        }
    }

    /// Passes the report of an agent to the pools of its server.
    pub(super) fn report(&mut self, now: u64, host: HostIx, stats: ServerStats) {
        let Some(server) = self.config.servers.iter().position(|server| server.host == host) else { return };
        let stats = ServerStats { at: Some(Time::from_ps(now)), ..stats };
        self.pickers.values_mut().for_each(|picker| picker.on_report(MemberId(server as u32 + 1), stats));
    }
}
