//! Generation of virtual services, their changes and their clients. A separate stream draws them,
//! so that the other parts do not depend on them.

use core::net::Ipv4Addr;
use std::collections::BTreeSet;

use balance::registry::SERVER;
use control::vip::{
    Check, Established, Member, MemberId, Monitor, Pool, PoolId, Protocol, Refusal, Rules, Service, ServiceId, Services,
};
use net::{FiveTuple, RandomStream, Time};

use super::wildcard;
use crate::generate::{between, chance, ipv4_of, magnitude, pick, stream};
use crate::plan::{Action, ActionKind, Plan};

pub(crate) const CHECKER: Ipv4Addr = Ipv4Addr::new(10, 250, 255, 250);
/// Balancers that promise shares of new connections.
pub(crate) const SHARED: &[&str] = &["server-rr", "server-wrr", "server-random"];

/// The first client port; every connection has its own.
pub(crate) const FIRST_PORT: u16 = 10_000;

/// Draws services into a plan, in half of all simulations, and returns the actions that concern
/// them.
pub(crate) fn draw(plan: &mut Plan) -> Vec<Action> {
    let mut rng = stream(plan.seed, "services");
    if plan.wiring.hosts < 3 || chance(&mut rng, 50) {
        return Vec::new();
    }
    let mut drawing = Drawing { hosts: plan.wiring.hosts, next_member: 1, next_service: 1, rng };
    let mut wanted = drawing.first();
    plan.services.push(wanted.clone());
    let mut actions = Vec::new();
    let mut at = between(&mut drawing.rng, Time::from_s(2), Time::from_s(12));
    while at < plan.faults_end_at {
        drawing.change(&mut wanted);
        let what = ActionKind::Services { version: plan.services.len() };
        actions.push(Action { number: 0, at, until: Time::MAX, what });
        plan.services.push(wanted.clone());
        at += between(&mut drawing.rng, Time::from_ms(200), Time::from_s(12));
    }
    balance(plan);
    wildcard::draw(plan);
    if chance(&mut drawing.rng, 15) {
        plan.control.connections_max = 4 + drawing.rng.next_below(8) as usize;
    }
    actions.extend(drawing.hangs(plan));
    actions.extend(drawing.clients(plan));
    // A separate stream: seeds that failed before this option existed must not change.
    let mut rng = stream(plan.seed, "extensions");
    if chance(&mut rng, 60) {
        for config in plan.switches.iter_mut().map(|switch| &mut switch.config).filter(|_| chance(&mut rng, 80)) {
            config.supports_tcp_flags = true;
            config.description.manufacturer = "Nicira, Inc.".to_owned();
        }
    }
    actions
}

/// Gives the pools of a third of the plans a balancer whose shares are checked.
fn balance(plan: &mut Plan) {
    let mut rng = stream(plan.seed, "balance");
    if chance(&mut rng, 33) {
        let balancer = *pick(&mut rng, SHARED);
        let pools = plan.services.iter_mut().flat_map(|wanted| &mut wanted.pools);
        pools.for_each(|pool| pool.balancer = balancer.to_owned());
    }
}

struct Drawing {
    hosts: usize,
    next_member: u32,
    next_service: u16,
    rng: RandomStream,
}

impl Drawing {
    fn first(&mut self) -> Services {
        let pools = (1..=1 + self.rng.next_below(2) as u16).map(|id| self.pool(PoolId(id))).collect();
        let mut wanted = Services { services: Vec::new(), pools };
        for _ in 0..1 + self.rng.next_below(3) {
            self.add_service(&mut wanted);
        }
        wanted
    }

    fn pool(&mut self, id: PoolId) -> Pool {
        let rng = &mut self.rng;
        let entry = *pick(rng, SERVER);
        let paths = ["", ":path=spl", ":path=sph", ":path=htp"];
        let picked = format!("{}{}", entry.name, pick(rng, &paths));
        let has_path = entry.params.iter().any(|param| param.name == "path");
        let balancer = if has_path { picked } else { entry.example.to_owned() };
        let monitor = chance(rng, 60).then(|| monitor(rng));
        let established = *pick(rng, &[Established::Keep, Established::Move, Established::Reset]);
        let refusal = *pick(rng, &[Refusal::Reset, Refusal::Reset, Refusal::Unreachable, Refusal::Drop]);
        let mut pool = Pool { id, balancer, monitor, members: Vec::new(), established, refusal };
        for _ in 0..1 + self.rng.next_below(4) {
            self.add_member(&mut pool);
        }
        pool
    }

    /// Adds a host that is not yet a member, if one is drawn.
    fn add_member(&mut self, pool: &mut Pool) {
        let address = ipv4_of(self.rng.next_below(self.hosts as u64) as usize);
        if pool.members.iter().any(|member| member.address == address) {
            return;
        }
        let port = chance(&mut self.rng, 50).then(|| 8_000 + self.rng.next_below(100) as u16);
        let weight = 1 + self.rng.next_below(3) as u32;
        pool.members.push(Member { id: MemberId(self.next_member), address, port, weight, is_enabled: true });
        self.next_member += 1;
    }

    /// Adds a service with a separate or shared address. At most one service uses ICMP, because
    /// rules cannot distinguish its connections.
    fn add_service(&mut self, wanted: &mut Services) {
        let rng = &mut self.rng;
        let has_icmp = wanted.services.iter().any(|service| service.protocol == Protocol::Icmp);
        let protocol = *pick(rng, &[Protocol::Tcp, Protocol::Tcp, Protocol::Udp, Protocol::Icmp]);
        let protocol = if has_icmp && protocol == Protocol::Icmp { Protocol::Tcp } else { protocol };
        let port = if protocol.has_ports() { 80 + self.next_service } else { 0 };
        let address = Ipv4Addr::new(10, 250, 0, 1 + rng.next_below(2) as u8);
        let (id, pool) = (ServiceId(self.next_service), pick(rng, &wanted.pools).id);
        let (rules, is_tunnelled, mac) = (Rules::Connection, false, None);
        let idle_timeout_s = 1 + rng.next_below(4) as u16;
        self.next_service += 1;
        let service = Service { id, address, mac, protocol, port, pool, idle_timeout_s, rules, is_tunnelled };
        wanted.services.push(service);
    }

    fn change(&mut self, wanted: &mut Services) {
        let pool = self.rng.next_below(wanted.pools.len() as u64) as usize;
        let members = wanted.pools[pool].members.len() as u64;
        let member = self.rng.next_below(members.max(1)) as usize;
        match self.rng.next_below(10) {
            0 | 1 => self.add_member(&mut wanted.pools[pool]),
            2 | 3 if members > 0 => drop(wanted.pools[pool].members.remove(member)),
            4 | 5 if members > 0 => wanted.pools[pool].members[member].is_enabled ^= true,
            6 if !wanted.services.is_empty() => {
                let gone = self.rng.next_below(wanted.services.len() as u64) as usize;
                wanted.services.remove(gone);
            }
            7 if wanted.services.len() < 4 => self.add_service(wanted),
            8 => {
                let (id, members) = (wanted.pools[pool].id, wanted.pools[pool].members.clone());
                wanted.pools[pool] = Pool { members, ..self.pool(id) };
            }
            _ if !wanted.services.is_empty() => {
                let service = self.rng.next_below(wanted.services.len() as u64) as usize;
                wanted.services[service].idle_timeout_s = 1 + self.rng.next_below(4) as u16;
            }
            _ => {}
        }
    }

    fn hangs(&mut self, plan: &Plan) -> Vec<Action> {
        let count = self.rng.next_below(3);
        let hang = |_| {
            let host = self.rng.next_below(self.hosts as u64) as usize;
            let at = between(&mut self.rng, Time::from_s(1), plan.faults_end_at);
            let until = (at + magnitude(&mut self.rng, Time::from_ms(100), Time::from_s(15))).min(plan.faults_end_at);
            Action { number: 0, at, until, what: ActionKind::ServerDown { host } }
        };
        (0..count).map(hang).collect()
    }

    /// Draws clients of all services of the plan. Some start before their service exists, or
    /// continue after its removal.
    fn clients(&mut self, plan: &Plan) -> Vec<Action> {
        let services: Vec<Service> = plan.services.iter().flat_map(|wanted| wanted.services.iter().cloned()).collect();
        let Some(_) = services.first() else { return Vec::new() };
        let mut taken: BTreeSet<FiveTuple> = BTreeSet::new();
        let mut actions = Vec::new();
        for number in 0..4 + self.rng.next_below(16) as u16 {
            let (from, service) =
                (self.rng.next_below(self.hosts as u64) as usize, pick(&mut self.rng, &services).clone());
            let src_port = if service.protocol.has_ports() { FIRST_PORT + number } else { 0 };
            let (src, dst, dst_port) = (ipv4_of(from), service.address, service.port);
            let tuple = FiveTuple { src, dst, protocol: service.protocol.number(), src_port, dst_port };
            let at = between(&mut self.rng, Time::from_ms(500), plan.faults_end_at);
            let until = (at + magnitude(&mut self.rng, Time::from_s(1), Time::from_s(30))).min(plan.faults_end_at);
            // Some clients are silent for longer than the idle timeout of rules.
            let interval = magnitude(&mut self.rng, Time::from_ms(20), Time::from_s(6));
            if taken.insert(tuple) {
                actions.push(Action { number: 0, at, until, what: ActionKind::Client { from, tuple, interval } });
            }
        }
        actions
    }
}

/// Draws a monitor of any kind, patient enough for the slowest channels.
fn monitor(rng: &mut RandomStream) -> Monitor {
    let check = match rng.next_below(3) {
        0 => Check::Icmp,
        1 => Check::Tcp,
        _ => Check::Http { path: "/health".to_owned(), statuses: (200, 299) },
    };
    let interval = between(rng, Time::from_ms(1_000), Time::from_s(2));
    let port = chance(rng, 30).then_some(9_000);
    let (rise, fall) = (1 + rng.next_below(2) as u32, 1 + rng.next_below(3) as u32);
    Monitor { check, port, interval, timeout: interval * 3 / 4, rise, fall }
}
