//! Final probes: in the convergence phase every host sends one request to every service, which is
//! served or refused. Then the connections end, or services are deleted with established
//! connections, and no rule of them remains.

use control::vip::{Protocol, Service, Services};
use net::{FiveTuple, Time};
use openflow::FlowStats;

use crate::generate::ipv4_of;
use crate::generate::services::{FIRST_PORT, SHARED};
use crate::report::Oracle;
use crate::simulation::{CONNECTS, Simulation, is_of_kind};

/// Number of requests of a host to a service whose members' shares are checked.
const PROBES: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    #[default]
    Waiting,
    /// Requests are in flight until this time.
    Probing(Time),
    Draining,
    Done,
}

impl Simulation {
    /// Continues the final probes. Returns whether they are done.
    pub(crate) fn are_final_probes_done(&mut self) -> bool {
        match self.oracles.convergence.final_probes {
            Stage::Waiting if self.plan.services.is_empty() => self.oracles.convergence.final_probes = Stage::Done,
            Stage::Waiting => self.begin_final_probes(),
            Stage::Probing(until) if self.now >= until => {
                if self.plan.seed.is_multiple_of(2) {
                    self.configure(Services::default());
                }
                self.oracles.convergence.final_probes = Stage::Draining;
            }
            Stage::Probing(_) => {}
            Stage::Draining => self.oracles.convergence.final_probes = Stage::Done,
            Stage::Done => return true,
        }
        false
    }

    fn begin_final_probes(&mut self) {
        if self.now <= self.quiet_from() {
            return;
        }
        let services = self.services.wanted.services.clone();
        let mut src_port = FIRST_PORT + 20_000;
        for host in (0..self.hosts.len()).filter(|host| self.cables[*host].is_usable()).collect::<Vec<_>>() {
            for service in &services {
                for _ in 0..self.probe_count(host, service) {
                    src_port += 1;
                    self.probe_service(host, service, src_port);
                }
            }
        }
        let requests_sent_at = self.now + Time::from_ms(100);
        self.oracles.convergence.final_probes =
            Stage::Probing(requests_sent_at + self.bounds.answered + Time::from_ms(200));
    }

    /// Returns the number of requests of a host to a service: several if the shares of members are
    /// checked, and none of a member then, because it cannot be given to itself.
    fn probe_count(&self, host: usize, service: &Service) -> usize {
        let pool = self.services.wanted.pools.iter().find(|pool| pool.id == service.pool);
        // Some switches pass on few first packets in a second.
        let is_limited = self.plan.control.connections_max < usize::MAX
            || self.plan.switches.iter().any(|switch| switch.config.packet_in_per_s.is_some());
        let Some(pool) = pool.filter(|pool| SHARED.contains(&pool.balancer.as_str()) && !is_limited) else { return 1 };
        let is_member = pool.members.iter().any(|member| member.address == ipv4_of(host));
        match service.buckets() {
            None if is_member => 0,
            None => PROBES,
            Some(_) => 1,
        }
    }

    fn probe_service(&mut self, host: usize, service: &Service, src_port: u16) {
        let src_port = if service.protocol == Protocol::Icmp { 0 } else { src_port };
        let (src, dst, dst_port) = (ipv4_of(host), service.address, service.port);
        let tuple = FiveTuple { src, dst, protocol: service.protocol.number(), src_port, dst_port };
        // A client has one ICMP connection to a service, which may exist already.
        if !self.clients.iter().any(|client| client.tuple == tuple) {
            let once = self.now + Time::from_ms(200);
            self.add_final_probe(host, tuple, service.mac(), once);
        }
    }

    /// Checks that no connection rule of a deleted service remains, at any time.
    pub(crate) fn check_deleted(&mut self) {
        if self.now <= self.disturbed || self.now <= self.services.configured_at + self.bounds.react {
            return;
        }
        let wanted = &self.services.wanted.services;
        let is_left = |entry: &FlowStats| {
            is_of_kind(entry.cookie, CONNECTS)
                && !wanted.iter().any(|service| u64::from(service.id.0) == entry.cookie >> 24 & 0xffff)
        };
        let switches = self.switches.iter().filter(|state| state.is_reached());
        let left = switches.flat_map(|state| state.switch.entries()).find(is_left);
        if let Some(left) = left {
            self.fail(Oracle::Installed, || format!("rule of a deleted service: {}", control::format::entry(&left)));
        }
    }

    /// Returns a description of a connection rule that remains after all connections ended.
    pub(crate) fn leftover_connection_rule(&self) -> Option<String> {
        if self.oracles.convergence.final_probes != Stage::Draining {
            return None;
        }
        self.switches.iter().enumerate().filter(|(_, state)| state.is_reached()).find_map(|(switch, state)| {
            let left = state.switch.entries().into_iter().find(|entry| is_of_kind(entry.cookie, CONNECTS))?;
            Some(format!("s{switch} still has {}", control::format::entry(&left)))
        })
    }
}
