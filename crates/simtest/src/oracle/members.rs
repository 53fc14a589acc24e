//! Virtual services: a connection keeps its member, responses come from the virtual address, and
//! every client that can be served is neither ignored nor refused.

use control::vip::{Established, Refusal, Service};
use net::Time;
use openflow::Headers;

use crate::clients::{Served, place_of};
use crate::generate::ipv4_of;
use crate::report::Oracle;
use crate::simulation::{Simulation, mac_of};

/// Maximum time a request is in flight when services change.
const IN_FLIGHT_MAX: Time = Time::from_s(2);

impl Simulation {
    /// Returns whether neither the network nor services needed a repair since then.
    fn has_been_quiet_since(&self, since: Time) -> bool {
        self.controller.is_some() && since > self.quiet_from()
    }
    /// Returns the time at which all events are repaired and found by health checks.
    pub(crate) fn quiet_from(&self) -> Time {
        (self.disturbed + self.bounds.checks).max(self.services.disturbed)
    }
    fn is_any_full(&self) -> bool {
        self.switches.iter().any(|switch| switch.full_at.is_some())
    }

    pub(crate) fn check_request(&mut self, host: usize, number: usize, seq: u32, headers: &Headers) {
        let edge = self.edge_of(self.clients[number].host);
        let client = &mut self.clients[number];
        let (tuple, sent) = (client.tuple, client.sent[seq as usize]);
        if !client.delivered.insert(seq) {
            return self.fail(Oracle::Delivery, || format!("h{host} got request {seq} of client {number} twice"));
        }
        let is_unchanged = headers.eth_dst == mac_of(host)
            && (headers.ipv4_src, headers.ipv4_dst) == (tuple.src, ipv4_of(host))
            && headers.vlan.is_none()
            && (!matches!(tuple.protocol, 6 | 17) || headers.l4_src == tuple.src_port);
        if !is_unchanged {
            let headers = *headers;
            return self.fail(Oracle::Delivery, || format!("h{host} got a request as {headers:?}"));
        }
        let before = client.server;
        if before.is_some_and(|before| sent < before.sent && before.host != host) {
            return; // It was in flight longer than a request that went elsewhere.
        }
        let is_new = before.is_none_or(|before| before.host != host);
        client.server = Some(Served { host, sent, edge });
        if let Some(before) = before.filter(|_| is_new)
            && let Some(why) = self.why_keep_member(number, &before, sent)
        {
            let words = format!("client {number} {tuple:?}, served by h{}, goes to h{host}: {why}", before.host);
            return self.fail(Oracle::Virtual, || words);
        }
        let is_opening = self.clients[number].syn_requests.contains(&seq)
            && !self.clients[number].reopenings.contains(&seq)
            && self.plan.switches[edge].config.supports_tcp_flags
            && self.has_been_quiet_since(sent)
            && !self.is_any_full();
        // Proactive rules forward without the controller, which may still be learning of a change
        // or updating them: those of a removed service stay until then.
        let has_proactive_rules = self.service_of(&tuple).is_none_or(|(service, _)| self.is_ever_proactive(service));
        let is_repaired = !has_proactive_rules || self.has_been_quiet_since(sent);
        let is_settled = is_repaired && sent > self.services.configured_at + IN_FLIGHT_MAX;
        // A request before the change may have opened the connection, and may have been lost.
        let first_sent = self.clients[number].sent[0];
        let may_be_known = !is_opening && first_sent < self.services.configured_at;
        if (is_opening || (is_new && !may_be_known)) && is_settled {
            self.check_pick(number, seq, host, headers);
        }
    }

    /// Checks that a new connection goes to an enabled member, at its port.
    fn check_pick(&mut self, number: usize, seq: u32, host: usize, headers: &Headers) {
        let is_opening = self.clients[number].syn_requests.contains(&seq);
        let tuple = self.clients[number].tuple;
        let wrong = match (self.member_at(&tuple, host), self.service_of(&tuple)) {
            // A segment that opens no connection seems to belong to an established one: during slot
            // migrations it follows these.
            (_, Some((service, _))) if !is_opening && self.may_be_moving(service) => None,
            (Some(member), Some((service, _))) if member.is_enabled && member.weight > 0 => {
                let port = member.port.unwrap_or(service.port);
                let is_right = !service.protocol.has_ports() || headers.l4_dst == port;
                (!is_right).then(|| format!("at port {} instead of {port}", headers.l4_dst))
            }
            (Some(_), _) => Some("which drains".to_owned()),
            (None, _) => Some("which is not a member".to_owned()),
        };
        if let Some(wrong) = wrong {
            self.fail(Oracle::Virtual, || format!("client {number} {tuple:?} gets h{host}, {wrong}"));
        }
    }

    /// Returns whether clients of a service may be moving to another member, or from proactive to
    /// reactive rules.
    fn may_be_moving(&self, service: &Service) -> bool {
        if service.buckets().is_none() && !self.services.no_longer_proactive.contains(&service.id) {
            return false;
        }
        let lasts = Time::from_s(u64::from(service.idle_timeout_s)) + IN_FLIGHT_MAX;
        let changed = self.services.disturbed.max(self.disturbed + self.bounds.checks);
        self.now <= changed + lasts
    }

    /// Returns why a connection must not change its member; `None` if it may.
    fn why_keep_member(&self, number: usize, before: &Served, sent: Time) -> Option<&'static str> {
        let client = &self.clients[number];
        let since = before.sent.saturating_sub(IN_FLIGHT_MAX);
        let has = |at: Option<&Time>| at.is_some_and(|at| *at >= since);
        let services = &self.services;
        let has_opened = client.syn_requests.iter().any(|seq| client.sent[*seq as usize] >= since);
        if has_opened || client.refused_at.is_some_and(|at| at >= since) || self.is_any_full() {
            return None;
        }
        let (service, pool) = self.service_of(&client.tuple)?;
        if has(services.removed_at.get(&place_of(service))) {
            return None;
        }
        let have_rules_gone = self.have_rules_gone(number, before, sent, service);
        // The state of a removed member is not reported any more, and it may have moved, or its switch
        // may be off.
        let was_down = has(services.not_up.get(&ipv4_of(before.host)))
            || services.down.contains(&ipv4_of(before.host))
            || has(services.moved.get(&before.host))
            || has(services.off.get(&self.edge_of(before.host)));
        let is_kept = pool.established == Established::Keep && !has(services.policy_changed_at.get(&pool.id));
        let may_be_redirected = was_down && (!is_kept || have_rules_gone);
        let is_leaving = pool.members.iter().all(|member| member.address != ipv4_of(before.host));
        let was_removed = is_leaving && client.tuple.protocol != 6 && have_rules_gone;
        let is_forgotten = have_rules_gone
            && (services.restarted.is_some_and(|at| at >= since) || self.plan.control.connections_max < usize::MAX);
        // Proactive rules do not know connections: they may redirect one whose rules have expired or,
        // since then, could not be installed.
        let is_disturbed = since <= self.disturbed + self.bounds.checks;
        let follows_proactive_rules = self.is_ever_proactive(service) && (have_rules_gone || is_disturbed);
        if may_be_redirected || was_removed || is_forgotten || follows_proactive_rules {
            return None;
        }
        let is_kept = "its connections are kept, and its rules exist";
        Some(if was_down { is_kept } else { "the previous member was healthy" })
    }

    /// Returns whether the rules of a connection may have expired or gone since its last request.
    fn have_rules_gone(&self, number: usize, before: &Served, sent: Time, service: &Service) -> bool {
        let (client, services) = (&self.clients[number], &self.services);
        let since = before.sent.saturating_sub(IN_FLIGHT_MAX);
        let has = |at: Option<&Time>| at.is_some_and(|at| *at >= since);
        let edges = [before.edge, self.edge_of(client.host)];
        sent.saturating_sub(before.sent) >= Time::from_s(u64::from(service.idle_timeout_s))
            || edges.iter().any(|edge| has(services.off.get(edge)))
            || has(services.moved.get(&client.host))
            || has(services.rewritten_at.get(&service.id))
    }

    fn is_ever_proactive(&self, service: &Service) -> bool {
        let is_it = |other: &&Service| other.id == service.id;
        let mut ever = self.plan.services.iter().flat_map(|wanted| wanted.services.iter().filter(is_it));
        ever.any(|service| service.buckets().is_some())
    }

    pub(crate) fn check_response(&mut self, host: usize, number: usize, seq: u32, headers: &Headers) {
        let client = &mut self.clients[number];
        let (tuple, sent) = (client.tuple, client.sent[seq as usize]);
        client.outstanding.remove(&seq);
        if host != client.host {
            return self.fail(Oracle::Delivery, || format!("h{host} got a response to client {number}"));
        }
        self.report.responses += 1;
        let mac = self.service_of(&tuple).map(|(service, _)| service.mac());
        let is_right = headers.ipv4_src == tuple.dst
            && mac.is_none_or(|mac| mac == headers.eth_src)
            && (!matches!(tuple.protocol, 6 | 17)
                || (headers.l4_src, headers.l4_dst) == (tuple.dst_port, tuple.src_port));
        if !is_right && self.has_been_quiet_since(sent) {
            let (from, port) = (headers.ipv4_src, headers.l4_src);
            self.fail(Oracle::Virtual, || {
                format!("a response to client {number} {tuple:?} comes from {from} port {port}")
            });
        }
    }

    pub(crate) fn check_refusal(&mut self, host: usize, number: usize) {
        let client = &mut self.clients[number];
        let before = client.server.take();
        let last = client.sent.last().copied().unwrap_or_default();
        client.refused_at = Some(self.now);
        client.outstanding.clear();
        self.report.refusals += 1;
        let (tuple, is_mine) = (client.tuple, client.host == host);
        if !is_mine {
            return self.fail(Oracle::Delivery, || format!("h{host} got the refusal of client {number}"));
        }
        let was_down = |served: Served| {
            self.services.not_up.get(&ipv4_of(served.host)).is_some_and(|at| *at + IN_FLIGHT_MAX >= served.sent)
        };
        let is_justified = before.is_some_and(was_down) || self.plan.control.connections_max < usize::MAX;
        if is_justified || self.is_any_full() || !self.has_been_quiet_since(last) {
            return;
        }
        if let Some(server) = self.able_server(number) {
            self.fail(Oracle::Virtual, || format!("client {number} {tuple:?} is refused, and h{server} could serve"));
        }
    }

    /// Returns a member that must accept the connection if no other member does.
    fn able_server(&self, number: usize) -> Option<usize> {
        let client = &self.clients[number];
        let (_, pool) = self.service_of(&client.tuple)?;
        let is_able = |host: &usize| {
            let member = pool.members.iter().find(|member| member.address == ipv4_of(*host));
            let may_get = member.is_some_and(|member| member.is_enabled && member.weight > 0);
            let is_up = !(pool.monitor.is_some() && self.services.is_hung(*host));
            may_get && is_up && *host != client.host && self.is_obliged(client.host, *host)
        };
        (0..self.hosts.len()).find(is_able)
    }

    /// Checks that clients get responses in time while the network is not being repaired.
    pub(crate) fn check_clients(&mut self) {
        let patience = self.bounds.answered;
        for number in 0..self.clients.len() {
            let Some(seq) = self.clients[number].outstanding.first().copied() else { continue };
            let sent = self.clients[number].sent[seq as usize];
            if self.now < sent + patience {
                continue;
            }
            self.clients[number].outstanding.remove(&seq);
            if !self.has_been_quiet_since(sent) {
                self.report.exemptions.repair += 1;
            } else if self.is_any_full() {
                self.report.exemptions.table_full += 1;
            } else if let Some(words) = self.why_unserved(number, seq) {
                let tuple = self.clients[number].tuple;
                return self.fail(Oracle::Virtual, || format!("request {seq} of client {number} {tuple:?}, {words}"));
            }
        }
    }

    /// Returns why a request should have been answered or refused.
    fn why_unserved(&self, number: usize, seq: u32) -> Option<String> {
        let client = &self.clients[number];
        let is_wanted = self.service_of(&client.tuple).is_some();
        // A client that opens its connection again may be refused.
        let has_reopened =
            |served: &Served| client.syn_requests.iter().any(|seq| client.sent[*seq as usize] > served.sent);
        // Without rules, packets of other protocols than TCP begin a new connection.
        let is_over = |served: &Served| {
            self.service_of(&client.tuple).is_some_and(|(service, pool)| {
                client.tuple.protocol != 6
                    && pool.members.iter().all(|member| member.address != ipv4_of(served.host))
                    && self.have_rules_gone(number, served, client.sent[seq as usize], service)
            })
        };
        if let Some(served) = client.server.filter(|served| is_wanted && !has_reopened(served) && !is_over(served)) {
            let host = served.host;
            let is_there = self.is_obliged(client.host, host) && !self.services.is_hung(host);
            let has_come = if client.delivered.contains(&seq) { "came to it" } else { "did not come to it" };
            return is_there.then(|| format!("served by h{host}, {has_come} and was not answered"));
        }
        if self.plan.control.connections_max < usize::MAX {
            return None; // The limit of connections may be reached.
        }
        if let Some(host) = self.able_server(number) {
            return Some(format!("reached no member, and h{host} could serve"));
        }
        let refusal = self.service_of(&client.tuple).map_or(Refusal::Reset, |(_, pool)| pool.refusal);
        let is_edge_there = self.switches[self.edge_of(client.host)].channel.is_good();
        let is_virtual = self.services.wanted.services.iter().any(|service| service.address == client.tuple.dst);
        let must_tell = refusal != Refusal::Drop && is_edge_there && is_virtual && self.cables[client.host].is_usable();
        must_tell.then(|| "was neither answered nor refused".to_owned())
    }

    /// Returns a description of a wrong service state after convergence.
    pub(crate) fn wrong_services(&self) -> Option<String> {
        let controller = self.controller.as_ref()?;
        let now = controller.inspect().services();
        let existing = controller.inspect().virtual_connections().count() as u64;
        let counted: u64 = now.iter().map(|service| service.counts.connections).sum();
        if existing != counted {
            return Some(format!("{counted} connections are counted, but {existing} exist"));
        }
        for service in &now {
            let pool = self.services.wanted.pools.iter().find(|pool| pool.id == service.service.pool)?;
            for member in service.members.iter().filter(|member| !member.is_leaving) {
                let host = (0..self.hosts.len()).find(|host| ipv4_of(*host) == member.address)?;
                let is_plugged = self.cables[host].is_usable() && self.switches[self.edge_of(host)].is_on;
                let is_seen = self.switches[self.edge_of(host)].channel.is_good();
                let is_up = is_plugged && !(pool.monitor.is_some() && self.services.is_hung(host));
                if is_seen && is_up != (member.state == control::vip::MemberState::Up) {
                    return Some(format!("h{host} is {}, and should be up: {is_up}", member.state.words()));
                }
            }
        }
        self.wrong_connections(controller)
    }

    fn wrong_connections(&self, controller: &control::Controller) -> Option<String> {
        let expected: Vec<_> = controller.inspect().virtual_connections().map(|(_, datapath, ..)| datapath).collect();
        for state in self.switches.iter().filter(|state| state.is_reached()) {
            let datapath = state.config.datapath;
            let is_forth =
                |entry: &&openflow::FlowStats| entry.priority == 520 && controller.inspect().is_connection_rule(entry);
            let rules = state.switch.entries().iter().filter(is_forth).count();
            let expected_here = expected.iter().filter(|at| **at == datapath).count();
            if rules != expected_here {
                return Some(format!("{datapath:?} has rules of {rules} connections, but {expected_here} are known"));
            }
        }
        None
    }
}
