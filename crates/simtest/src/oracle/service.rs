//! No black holes: connected hosts are served, once there was time for repair.

use core::net::Ipv4Addr;
use net::{FiveTuple, Time};
use openflow::{Headers, PortNo};

use crate::fabric::WalkEnd;
use crate::generate::ipv4_of;
use crate::hosts::headers_of;
use crate::plan::{Attack, End};
use crate::report::Oracle;
use crate::simulation::{Simulation, mac_of};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// Those with power.
    Powered,
    /// Those the controller can reach.
    Controlled,
    /// Those the controller can reach that were undisturbed, or repaired, before this time.
    Undisturbed(Time),
}

fn are_linked(parts: &[Option<usize>], from: usize, to: usize) -> bool {
    parts[from].is_some() && parts[from] == parts[to]
}

impl Simulation {
    /// Follows packets between all pairs of hosts through the current tables.
    pub(crate) fn check_service(&mut self) {
        if self.controller.is_none() {
            return;
        }
        let (controlled, physical) = (self.parts(Counts::Controlled), self.parts(Counts::Powered));
        for from in 0..self.hosts.len() {
            for to in (0..self.hosts.len()).filter(|to| *to != from && are_linked(&physical, from, *to)) {
                let is_flooding = self.is_flooding(from) || self.is_flooding(to);
                self.check_pair(from, to, are_linked(&controlled, from, to) && !is_flooding);
            }
        }
    }

    fn is_proactive_member(&self, address: Ipv4Addr, protocol: u8, port: u16) -> bool {
        self.plan.services.iter().any(|wanted| {
            let wild = wanted.services.iter().filter(|service| service.buckets().is_some());
            let mut wild = wild.filter(|service| service.protocol.number() == protocol);
            wild.any(|service| {
                let members = wanted.pools.iter().filter(|pool| pool.id == service.pool).flat_map(|pool| &pool.members);
                let mut at = members.map(|member| (member.address, member.port.unwrap_or(service.port)));
                at.any(|place| place == (address, port))
            })
        })
    }

    fn check_pair(&mut self, from: usize, to: usize, is_obliged: bool) {
        let number = self.report.pairs_checked;
        let protocol = if number.is_multiple_of(2) { 6 } else { 17 };
        let mut src_port = 1_024 + (number.wrapping_mul(0x9e37_79b9) >> 7) as u16 % 60_000;
        // Some switches translate packets of such a member to the virtual address.
        while self.is_proactive_member(ipv4_of(from), protocol, src_port) {
            src_port += 1;
        }
        let tuple = FiveTuple { src: ipv4_of(from), dst: ipv4_of(to), protocol, src_port, dst_port: 7 };
        let expected = headers_of(&tuple, mac_of(from), mac_of(to));
        let announced = self.controller.as_ref().and_then(|on| on.inspect().announced_mac_of(ipv4_of(to)));
        let headers = Headers { eth_dst: announced.unwrap_or(expected.eth_dst), ..expected };
        let walk = self.walk(from, headers);
        let words = match walk.end {
            WalkEnd::Host(host, arrived) if host == to && arrived == expected => {
                self.report.pairs_checked += 1;
                return;
            }
            WalkEnd::Lost(why, _) if self.is_passed_on(why) => return,
            WalkEnd::Loop(_) if self.is_loop_exempt() => return,
            WalkEnd::Host(host, arrived) => format!("would reach h{host} with {arrived:?}"),
            WalkEnd::Loop(switch) => format!("would loop at s{switch}"),
            WalkEnd::Lost(_, Some(switch)) if is_obliged && self.switches[switch].full_at.is_some() => {
                self.report.exemptions.table_full += 1;
                return;
            }
            WalkEnd::Lost(why, place) => {
                let place = place.map_or_else(String::new, |switch| format!(" at s{switch}"));
                format!("would be lost{place}: {why}")
            }
        };
        let is_loop = matches!(walk.end, WalkEnd::Loop(_));
        if is_obliged || is_loop {
            let path: Vec<String> = walk.cables.iter().map(|cable| self.cable_name(*cable)).collect();
            let oracle = if is_loop { Oracle::Loop } else { Oracle::Service };
            let ports = (tuple.protocol, tuple.src_port);
            self.fail(oracle, || {
                format!("a frame of h{from} to h{to} {ports:?} {words}; its path: {}", path.join(", "))
            });
        } else {
            self.report.exemptions.cut_off += 1;
        }
    }

    fn cable_name(&self, cable: usize) -> String {
        let [a, b] = self.cables[cable].ends;
        format!("{a}-{b}")
    }

    pub(crate) fn check_arp_replies(&mut self) {
        for host in 0..self.hosts.len() {
            for (target, (first, last)) in &self.hosts[host].arp_requests {
                let Some(to) = (0..self.hosts.len()).find(|to| ipv4_of(*to) == *target) else { continue };
                let since = (*first).max(self.disturbed);
                let is_late = *last > since + self.bounds.host + self.bounds.react;
                if is_late && self.now < *last + self.bounds.host && self.is_obliged(host, to) {
                    return self.fail(Oracle::Service, || {
                        format!("h{host} has sent ARP requests for h{to} since {since} without a reply")
                    });
                }
            }
        }
    }

    /// Returns whether two hosts are connected through switches the controller can reach.
    pub(crate) fn is_obliged(&self, from: usize, to: usize) -> bool {
        self.controller.is_some()
            && !self.is_flooding(from)
            && !self.is_flooding(to)
            && are_linked(&self.parts(Counts::Controlled), from, to)
    }

    /// Returns whether the forged addresses of a host may keep out its own.
    fn is_flooding(&self, host: usize) -> bool {
        self.now <= self.hosts[host].flooded_until || self.is_attacking(host, Attack::Flood)
    }

    /// Returns whether two hosts are connected through parts that the controller can reach and that
    /// were repaired by then.
    pub(crate) fn is_connected_since(&self, from: usize, to: usize, since: Time) -> bool {
        are_linked(&self.parts(Counts::Undisturbed(since)), from, to)
    }

    /// Returns the connected component of each host: cables that work in both directions, and
    /// switches that count. `None` for a host without a working cable.
    fn parts(&self, counts: Counts) -> Vec<Option<usize>> {
        let mut part: Vec<Option<usize>> = vec![None; self.switches.len()];
        let is_repaired = |disturbed: Time| match counts {
            Counts::Undisturbed(since) => disturbed < since,
            Counts::Controlled | Counts::Powered => true,
        };
        let is_in = |switch: usize| {
            let state = &self.switches[switch];
            let is_reached = counts == Counts::Powered || state.channel.is_good();
            state.is_on && is_reached && is_repaired(state.disturbed)
        };
        let is_good = |cable: usize| self.cables[cable].is_usable() && is_repaired(self.cables[cable].disturbed);
        for start in 0..part.len() {
            if part[start].is_some() || !is_in(start) {
                continue;
            }
            let mut open = vec![start];
            part[start] = Some(start);
            while let Some(switch) = open.pop() {
                for (cable, side) in self.switches[switch].plugs.iter().flatten() {
                    let state = &self.cables[*cable];
                    if let End::Switch(next, PortNo(_)) = state.ends[1 - side]
                        && is_good(*cable)
                        && is_in(next)
                        && part[next].is_none()
                    {
                        part[next] = Some(start);
                        open.push(next);
                    }
                }
            }
        }
        let of_host = |host: usize| match self.cables[host].ends[1] {
            End::Switch(switch, _) if is_good(host) => part[switch],
            _ => None,
        };
        (0..self.hosts.len()).map(of_host).collect()
    }
}
