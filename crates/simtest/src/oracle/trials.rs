//! After the storm every host asks every service once: the first packet is served or refused. Then connections end, or services
//! are deleted with those that live, and nothing of them is left anywhere.

use control::vip::{Protocol, Service, Services};
use net::{FiveTuple, Time};
use openflow::FlowStats;

use crate::draw::ipv4_of;
use crate::draw_services::FIRST_PORT;
use crate::report::Oracle;
use crate::world::{OWNER, World};

/// What rules of connections have in their cookies after the owner.
const CONNECTS: u64 = 6;

/// How far trials have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Waiting,
    /// Questions are under way until then.
    Asking(Time),
    /// Connections end.
    Emptying,
    Over,
}

impl World {
    /// Goes on with trials when everything is as it should be; whether they are over.
    pub(crate) fn have_trials_ended(&mut self) -> bool {
        match self.oracles.calm.trials {
            Stage::Waiting if self.plan.services.is_empty() => self.oracles.calm.trials = Stage::Over,
            Stage::Waiting => self.begin_trials(),
            Stage::Asking(until) if self.now >= until => {
                if self.plan.seed.is_multiple_of(2) {
                    self.configure(Services::default());
                }
                self.oracles.calm.trials = Stage::Emptying;
            }
            Stage::Asking(_) => {}
            Stage::Emptying => self.oracles.calm.trials = Stage::Over,
            Stage::Over => return true,
        }
        false
    }

    fn begin_trials(&mut self) {
        if self.now <= self.quiet_from() {
            return;
        }
        let services = self.virtuals.wanted.services.clone();
        let mut src_port = FIRST_PORT + 20_000;
        for host in (0..self.hosts.len()).filter(|host| self.cables[*host].is_usable()).collect::<Vec<_>>() {
            for service in &services {
                src_port += 1;
                self.try_service(host, service, src_port);
            }
        }
        let asked_until = self.now + Time::from_ms(100);
        self.oracles.calm.trials = Stage::Asking(asked_until + self.bounds.answered + Time::from_ms(200));
    }

    fn try_service(&mut self, host: usize, service: &Service, src_port: u16) {
        let src_port = if service.protocol == Protocol::Icmp { 0 } else { src_port };
        let (src, dst, dst_port) = (ipv4_of(host), service.address, service.port);
        let tuple = FiveTuple { src, dst, protocol: service.protocol.number(), src_port, dst_port };
        // Of ICMP there is one connection for a client: it may have begun long ago.
        if !self.clients.iter().any(|client| client.tuple == tuple) {
            let once = self.now + Time::from_ms(200);
            self.add_trial(host, tuple, service.mac(), once);
        }
    }

    /// No rule of a connection is left of a service that has been deleted, at any time.
    pub(crate) fn check_deleted(&mut self) {
        if self.now <= self.disturbed || self.now <= self.virtuals.configured_at + self.bounds.react {
            return;
        }
        let wanted = &self.virtuals.wanted.services;
        let is_left = |entry: &FlowStats| {
            entry.cookie >> 40 == u64::from(OWNER) << 8 | CONNECTS
                && !wanted.iter().any(|service| u64::from(service.id.0) == entry.cookie >> 24 & 0xffff)
        };
        let switches = self.switches.iter().filter(|state| state.is_on && state.channel.is_good());
        let left = switches.flat_map(|state| state.switch.entries()).find(is_left);
        if let Some(left) = left {
            self.fail(Oracle::Installed, || format!("left of a service that is gone: {}", crate::words::entry(&left)));
        }
    }

    /// Rules of connections that are left when there should be none.
    pub(crate) fn left_of_services(&self) -> Option<String> {
        if self.oracles.calm.trials != Stage::Emptying {
            return None;
        }
        let is_one = |entry: &FlowStats| entry.cookie >> 40 == u64::from(OWNER) << 8 | CONNECTS;
        self.switches.iter().enumerate().filter(|(_, state)| state.is_on && state.channel.is_good()).find_map(
            |(switch, state)| {
                let left = state.switch.entries().into_iter().find(is_one)?;
                Some(format!("s{switch} still has {}", crate::words::entry(&left)))
            },
        )
    }
}
