//! Virtual services of a storm: what is wanted, how that changes, and their clients. A stream of their own draws them, so that
//! the rest of a storm is the same with and without.

use core::net::Ipv4Addr;
use std::collections::BTreeSet;

use balance::registry::SERVER;
use control::vip::{
    Check, Established, Member, MemberId, Monitor, Pool, PoolId, Protocol, Refusal, Rules, Service, ServiceId, Services,
};
use net::{FiveTuple, Stream, Time};

use crate::draw::{between, chance, ipv4_of, magnitude, pick};
use crate::draw_wildcards;
use crate::plan::{Action, Plan, What};

/// The address checks come from.
pub(crate) const CHECKER: Ipv4Addr = Ipv4Addr::new(10, 250, 255, 250);
/// Ports of clients, one for each connection there ever is.
pub(crate) const FIRST_PORT: u16 = 10_000;

/// Draws services into a plan, in half of all storms; what happens to them is returned.
pub(crate) fn draw(plan: &mut Plan) -> Vec<Action> {
    let mut rng = Stream::new(plan.seed, "storm.services");
    if plan.wiring.hosts < 3 || chance(&mut rng, 50) {
        return Vec::new();
    }
    let mut drawing = Drawing { hosts: plan.wiring.hosts, next_member: 1, next_service: 1, rng };
    let mut wanted = drawing.first();
    plan.services.push(wanted.clone());
    let mut actions = Vec::new();
    let mut at = between(&mut drawing.rng, Time::from_s(2), Time::from_s(12));
    while at < plan.calm_at {
        drawing.change(&mut wanted);
        actions.push(Action { number: 0, at, until: Time::MAX, what: What::Services { version: plan.services.len() } });
        plan.services.push(wanted.clone());
        at += between(&mut drawing.rng, Time::from_ms(200), Time::from_s(12));
    }
    draw_wildcards::draw(plan);
    if chance(&mut drawing.rng, 15) {
        plan.connections_max = 4 + drawing.rng.below(8) as usize;
    }
    actions.extend(drawing.hangs(plan));
    actions.extend(drawing.clients(plan));
    // A stream of its own: the seeds that failed before there were such switches are what they were.
    let mut rng = Stream::new(plan.seed, "storm.extensions");
    if chance(&mut rng, 60) {
        plan.switches.iter_mut().for_each(|switch| switch.takes_tcp_flags = chance(&mut rng, 80));
    }
    actions
}

struct Drawing {
    hosts: usize,
    next_member: u32,
    next_service: u16,
    rng: Stream,
}

impl Drawing {
    fn first(&mut self) -> Services {
        let pools = (1..=1 + self.rng.below(2) as u16).map(|id| self.pool(PoolId(id))).collect();
        let mut wanted = Services { services: Vec::new(), pools };
        for _ in 0..1 + self.rng.below(3) {
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
        for _ in 0..1 + self.rng.below(4) {
            self.add_member(&mut pool);
        }
        pool
    }

    /// A host that is no member yet, if there is one.
    fn add_member(&mut self, pool: &mut Pool) {
        let address = ipv4_of(self.rng.below(self.hosts as u64) as usize);
        if pool.members.iter().any(|member| member.address == address) {
            return;
        }
        let port = chance(&mut self.rng, 50).then(|| 8_000 + self.rng.below(100) as u16);
        let weight = 1 + self.rng.below(3) as u32;
        pool.members.push(Member { id: MemberId(self.next_member), address, port, weight, is_enabled: true });
        self.next_member += 1;
    }

    /// Every service has an address of its own or shares one; no two of ICMP, whose connections no rule could tell apart.
    fn add_service(&mut self, wanted: &mut Services) {
        let rng = &mut self.rng;
        let has_icmp = wanted.services.iter().any(|service| service.protocol == Protocol::Icmp);
        let protocol = *pick(rng, &[Protocol::Tcp, Protocol::Tcp, Protocol::Udp, Protocol::Icmp]);
        let protocol = if has_icmp && protocol == Protocol::Icmp { Protocol::Tcp } else { protocol };
        let port = if protocol.has_ports() { 80 + self.next_service } else { 0 };
        let address = Ipv4Addr::new(10, 250, 0, 1 + rng.below(2) as u8);
        let (id, pool) = (ServiceId(self.next_service), pick(rng, &wanted.pools).id);
        let rules = Rules::Connection;
        let idle_timeout_s = 1 + rng.below(4) as u16;
        self.next_service += 1;
        wanted.services.push(Service { id, address, mac: None, protocol, port, pool, idle_timeout_s, rules });
    }

    /// One thing becomes another.
    fn change(&mut self, wanted: &mut Services) {
        let pool = self.rng.below(wanted.pools.len() as u64) as usize;
        let members = wanted.pools[pool].members.len() as u64;
        let member = self.rng.below(members.max(1)) as usize;
        match self.rng.below(10) {
            0 | 1 => {
                let pool = &mut wanted.pools[pool];
                let mut changed = pool.clone();
                self.add_member(&mut changed);
                *pool = changed;
            }
            2 | 3 if members > 0 => drop(wanted.pools[pool].members.remove(member)),
            4 | 5 if members > 0 => wanted.pools[pool].members[member].is_enabled ^= true,
            6 if !wanted.services.is_empty() => {
                let gone = self.rng.below(wanted.services.len() as u64) as usize;
                wanted.services.remove(gone);
            }
            7 if wanted.services.len() < 4 => self.add_service(wanted),
            8 => {
                let (id, members) = (wanted.pools[pool].id, wanted.pools[pool].members.clone());
                wanted.pools[pool] = Pool { members, ..self.pool(id) };
            }
            _ if !wanted.services.is_empty() => {
                let service = self.rng.below(wanted.services.len() as u64) as usize;
                wanted.services[service].idle_timeout_s = 1 + self.rng.below(4) as u16;
            }
            _ => {}
        }
    }

    /// Servers that hang for a while.
    fn hangs(&mut self, plan: &Plan) -> Vec<Action> {
        let count = self.rng.below(3);
        let hang = |_| {
            let host = self.rng.below(self.hosts as u64) as usize;
            let at = between(&mut self.rng, Time::from_s(1), plan.calm_at);
            let until = (at + magnitude(&mut self.rng, Time::from_ms(100), Time::from_s(15))).min(plan.calm_at);
            Action { number: 0, at, until, what: What::ServerDown { host } }
        };
        (0..count).map(hang).collect()
    }

    /// Clients of all services there ever are; some begin before their service is there, or go on after it.
    fn clients(&mut self, plan: &Plan) -> Vec<Action> {
        let services: Vec<Service> = plan.services.iter().flat_map(|wanted| wanted.services.iter().cloned()).collect();
        let Some(_) = services.first() else { return Vec::new() };
        let mut taken: BTreeSet<FiveTuple> = BTreeSet::new();
        let mut actions = Vec::new();
        for number in 0..4 + self.rng.below(16) as u16 {
            let (from, service) = (self.rng.below(self.hosts as u64) as usize, pick(&mut self.rng, &services).clone());
            let src_port = if service.protocol.has_ports() { FIRST_PORT + number } else { 0 };
            let (src, dst, dst_port) = (ipv4_of(from), service.address, service.port);
            let tuple = FiveTuple { src, dst, protocol: service.protocol.number(), src_port, dst_port };
            let at = between(&mut self.rng, Time::from_ms(500), plan.calm_at);
            let until = (at + magnitude(&mut self.rng, Time::from_s(1), Time::from_s(30))).min(plan.calm_at);
            // Some are silent for longer than rules last.
            let interval = magnitude(&mut self.rng, Time::from_ms(20), Time::from_s(6));
            if taken.insert(tuple) {
                actions.push(Action { number: 0, at, until, what: What::Client { from, tuple, interval } });
            }
        }
        actions
    }
}

/// Of every kind, patient enough for the slowest channels there are.
fn monitor(rng: &mut Stream) -> Monitor {
    let check = match rng.below(3) {
        0 => Check::Icmp,
        1 => Check::Tcp,
        _ => Check::Http { path: "/health".to_owned(), statuses: (200, 299) },
    };
    let interval = between(rng, Time::from_ms(1_000), Time::from_s(2));
    let port = chance(rng, 30).then_some(9_000);
    let (rise, fall) = (1 + rng.below(2) as u32, 1 + rng.below(3) as u32);
    Monitor { check, port, interval, timeout: interval * 3 / 4, rise, fall }
}
