//! Virtual services: who serves a connection goes on serving it, answers come from the virtual address, and nobody who can be
//! served is met with silence or refused.

use control::vip::{Established, Refusal, Service};
use net::Time;
use openflow::Headers;

use crate::clients::Served;
use crate::draw::ipv4_of;
use crate::report::Oracle;
use crate::world::{World, mac_of};

/// Questions may be under way for as long when services change.
const UNDER_WAY: Time = Time::from_s(2);

impl World {
    /// Nothing has happened since then that has to be repaired, neither to the network nor to services.
    fn has_been_quiet_since(&self, since: Time) -> bool {
        self.controller.is_some() && since > self.quiet_from()
    }
    /// When all that has happened has been repaired, and checks have found it.
    pub(crate) fn quiet_from(&self) -> Time {
        (self.disturbed + self.bounds.checks).max(self.virtuals.disturbed)
    }
    fn is_any_full(&self) -> bool {
        self.switches.iter().any(|switch| switch.full_at.is_some())
    }

    /// A question reaches a host.
    pub(crate) fn oracle_question(&mut self, host: usize, number: usize, seq: u32, headers: &Headers) {
        let edge = self.edge_of(self.clients[number].host);
        let client = &mut self.clients[number];
        let (tuple, sent) = (client.tuple, client.sent[seq as usize]);
        if !client.delivered.insert(seq) {
            return self.fail(Oracle::Delivery, || format!("h{host} got question {seq} of client {number} twice"));
        }
        let is_unchanged = headers.eth_dst == mac_of(host)
            && (headers.ipv4_src, headers.ipv4_dst) == (tuple.src, ipv4_of(host))
            && headers.vlan.is_none()
            && (!matches!(tuple.protocol, 6 | 17) || headers.l4_src == tuple.src_port);
        if !is_unchanged {
            let headers = *headers;
            return self.fail(Oracle::Delivery, || format!("h{host} got a question as {headers:?}"));
        }
        let before = client.server;
        if before.is_some_and(|before| sent < before.sent && before.host != host) {
            return; // It was under way for longer than one that went elsewhere.
        }
        let is_new = before.is_none_or(|before| before.host != host);
        client.server = Some(Served { host, sent, edge });
        if let Some(before) = before.filter(|_| is_new)
            && let Some(why) = self.why_not_change(number, &before, sent)
        {
            let words = format!("client {number} {tuple:?}, served by h{}, goes to h{host}: {why}", before.host);
            return self.fail(Oracle::Virtual, || words);
        }
        let is_opening = self.clients[number].openings.contains(&seq)
            && !self.clients[number].reopenings.contains(&seq)
            && self.plan.switches[edge].takes_tcp_flags
            && self.has_been_quiet_since(sent)
            && !self.is_any_full();
        // Rules that stand beforehand lead without the controller, who may yet have to learn, or to tell, that they are to change.
        let has_rules_beforehand = self.service_of(&tuple).is_some_and(|(service, _)| self.ever_had_buckets(service));
        let is_repaired = !has_rules_beforehand || self.has_been_quiet_since(sent);
        let is_settled = is_repaired && sent > self.virtuals.configured_at + UNDER_WAY;
        if (is_new || is_opening) && is_settled {
            self.check_pick(number, seq, host, headers);
        }
    }

    /// Who gets a connection anew may get one, and at its port.
    fn check_pick(&mut self, number: usize, seq: u32, host: usize, headers: &Headers) {
        let is_opening = self.clients[number].openings.contains(&seq);
        let tuple = self.clients[number].tuple;
        let wrong = match (self.member_at(&tuple, host), self.service_of(&tuple)) {
            // What does not open a connection belongs to one that stands, as it seems: while clients move it goes where these are.
            (_, Some((service, _))) if !is_opening && self.may_be_moving(service) => None,
            (Some(member), Some((service, _))) if member.is_enabled && member.weight > 0 => {
                let port = member.port.unwrap_or(service.port);
                let is_right = !service.protocol.has_ports() || headers.l4_dst == port;
                (!is_right).then(|| format!("at port {} instead of {port}", headers.l4_dst))
            }
            (Some(_), _) => Some("which drains".to_owned()),
            (None, _) => Some("which is no member".to_owned()),
        };
        if let Some(wrong) = wrong {
            self.fail(Oracle::Virtual, || format!("client {number} {tuple:?} gets h{host}, {wrong}"));
        }
    }

    /// Whether clients of a service may be moving from one member to another, or to rules of their own.
    fn may_be_moving(&self, service: &Service) -> bool {
        if service.buckets().is_none() && !self.virtuals.tamed.contains(&service.id) {
            return false;
        }
        let lasts = Time::from_s(u64::from(service.idle_timeout_s)) + UNDER_WAY;
        let changed = self.virtuals.disturbed.max(self.disturbed + self.bounds.checks);
        self.now <= changed + lasts
    }

    /// Why a connection may not go from one member to another; `None` if it may.
    fn why_not_change(&self, number: usize, before: &Served, sent: Time) -> Option<&'static str> {
        let client = &self.clients[number];
        let since = before.sent.saturating_sub(UNDER_WAY);
        let has = |at: Option<&Time>| at.is_some_and(|at| *at >= since);
        let virtuals = &self.virtuals;
        let has_opened = client.openings.iter().any(|seq| client.sent[*seq as usize] >= since);
        if has_opened || client.told_at.is_some_and(|at| at >= since) || self.is_any_full() {
            return None;
        }
        let (service, pool) = self.service_of(&client.tuple)?;
        if has(virtuals.gone.get(&service.id)) {
            return None;
        }
        let edges = [before.edge, self.edge_of(client.host)];
        let idle = Time::from_s(u64::from(service.idle_timeout_s));
        let have_rules_gone = sent.saturating_sub(before.sent) >= idle
            || edges.iter().any(|edge| has(virtuals.off.get(edge)))
            || has(virtuals.moved.get(&client.host))
            || has(virtuals.rewritten.get(&service.id));
        let was_down = has(virtuals.not_up.get(&ipv4_of(before.host)));
        let is_kept = pool.established == Established::Keep && !has(virtuals.repooled.get(&pool.id));
        let is_told = was_down && (!is_kept || have_rules_gone);
        let is_leaving = pool.members.iter().all(|member| member.address != ipv4_of(before.host));
        let has_left = is_leaving && client.tuple.protocol != 6 && have_rules_gone;
        let is_forgotten = have_rules_gone
            && (virtuals.restarted.is_some_and(|at| at >= since) || self.plan.connections_max < usize::MAX);
        match (
            is_told || has_left || is_forgotten || self.may_be_led_elsewhere(service, since, have_rules_gone),
            was_down,
        ) {
            (true, _) => None,
            (false, true) => Some("its connections are kept, and its rules are there"),
            (false, false) => Some("nothing was wrong with that one"),
        }
    }

    /// Whether rules that stand beforehand may lead a connection elsewhere, whose own rules have gone or, since then, could not be
    /// sent: they know nothing of connections, and nobody may be there who does.
    fn may_be_led_elsewhere(&self, service: &Service, since: Time, have_rules_gone: bool) -> bool {
        let is_disturbed = since <= self.disturbed + self.bounds.checks;
        self.ever_had_buckets(service) && (have_rules_gone || is_disturbed)
    }

    /// Whether rules of a service stand beforehand at some time of the storm.
    fn ever_had_buckets(&self, service: &Service) -> bool {
        let is_it = |other: &&Service| other.id == service.id;
        let mut ever = self.plan.services.iter().flat_map(|wanted| wanted.services.iter().filter(is_it));
        ever.any(|service| service.buckets().is_some())
    }

    /// An answer reaches a host.
    pub(crate) fn oracle_answer(&mut self, host: usize, number: usize, seq: u32, headers: &Headers) {
        let client = &mut self.clients[number];
        let (tuple, sent) = (client.tuple, client.sent[seq as usize]);
        client.asked.remove(&seq);
        if host != client.host {
            return self.fail(Oracle::Delivery, || format!("h{host} got an answer to client {number}"));
        }
        self.report.answers += 1;
        let mac = self.service_of(&tuple).map(|(service, _)| service.mac());
        let is_right = headers.ipv4_src == tuple.dst
            && mac.is_none_or(|mac| mac == headers.eth_src)
            && (!matches!(tuple.protocol, 6 | 17)
                || (headers.l4_src, headers.l4_dst) == (tuple.dst_port, tuple.src_port));
        if !is_right && self.has_been_quiet_since(sent) {
            let (from, port) = (headers.ipv4_src, headers.l4_src);
            self.fail(Oracle::Virtual, || {
                format!("an answer to client {number} {tuple:?} comes from {from} port {port}")
            });
        }
    }

    /// A client is told that nobody serves.
    pub(crate) fn oracle_told(&mut self, host: usize, number: usize) {
        let client = &mut self.clients[number];
        let before = client.server.take();
        let last = client.sent.last().copied().unwrap_or_default();
        client.told_at = Some(self.now);
        client.asked.clear();
        self.report.refusals += 1;
        let (tuple, is_mine) = (client.tuple, client.host == host);
        if !is_mine {
            return self.fail(Oracle::Delivery, || format!("h{host} is told about client {number}"));
        }
        let was_down = |served: Served| {
            self.virtuals.not_up.get(&ipv4_of(served.host)).is_some_and(|at| *at + UNDER_WAY >= served.sent)
        };
        let is_rightly_told = before.is_some_and(was_down) || self.plan.connections_max < usize::MAX;
        if is_rightly_told || self.is_any_full() || !self.has_been_quiet_since(last) {
            return;
        }
        if let Some(server) = self.able_server(number) {
            self.fail(Oracle::Virtual, || format!("client {number} {tuple:?} is refused, and h{server} could serve"));
        }
    }

    /// A member that must get a connection if no other one does.
    fn able_server(&self, number: usize) -> Option<usize> {
        let client = &self.clients[number];
        let (_, pool) = self.service_of(&client.tuple)?;
        let is_able = |host: &usize| {
            let member = pool.members.iter().find(|member| member.address == ipv4_of(*host));
            let may_get = member.is_some_and(|member| member.is_enabled && member.weight > 0);
            let is_up = !(pool.monitor.is_some() && self.virtuals.is_hung(*host));
            may_get && is_up && *host != client.host && self.is_obliged(client.host, *host)
        };
        (0..self.hosts.len()).find(is_able)
    }

    /// Nobody waits for an answer for long while nothing is being repaired.
    pub(crate) fn check_clients(&mut self) {
        let patience = self.bounds.answered;
        for number in 0..self.clients.len() {
            let Some(seq) = self.clients[number].asked.first().copied() else { continue };
            let sent = self.clients[number].sent[seq as usize];
            if self.now < sent + patience {
                continue;
            }
            self.clients[number].asked.remove(&seq);
            if !self.has_been_quiet_since(sent) {
                self.report.excuses.repair += 1;
            } else if self.is_any_full() {
                self.report.excuses.table_full += 1;
            } else if let Some(words) = self.why_served(number, seq) {
                let tuple = self.clients[number].tuple;
                return self.fail(Oracle::Virtual, || format!("question {seq} of client {number} {tuple:?}, {words}"));
            }
        }
    }

    /// Why a question should have been answered, or its client told.
    fn why_served(&self, number: usize, seq: u32) -> Option<String> {
        let client = &self.clients[number];
        let is_wanted = self.service_of(&client.tuple).is_some();
        if let Some(served) = client.server.filter(|_| is_wanted) {
            let host = served.host;
            let is_there = self.is_obliged(client.host, host) && !self.virtuals.is_hung(host);
            let has_come = if client.delivered.contains(&seq) { "came to it" } else { "did not come to it" };
            return is_there.then(|| format!("served by h{host}, {has_come} and was not answered"));
        }
        if self.plan.connections_max < usize::MAX {
            return None; // There may have been no room for it.
        }
        if let Some(host) = self.able_server(number) {
            return Some(format!("came to nobody, and h{host} could serve"));
        }
        let refusal = self.service_of(&client.tuple).map_or(Refusal::Reset, |(_, pool)| pool.refusal);
        let is_edge_there = self.switches[self.edge_of(client.host)].channel.is_good();
        let is_virtual = self.virtuals.wanted.services.iter().any(|service| service.address == client.tuple.dst);
        let must_tell = refusal != Refusal::Drop && is_edge_there && is_virtual && self.cables[client.host].is_usable();
        must_tell.then(|| "was not answered, and its client not told that nobody serves".to_owned())
    }

    /// What the controller says of services after the storm that is not so.
    pub(crate) fn wrong_services(&self) -> Option<String> {
        let controller = self.controller.as_ref()?;
        let now = controller.services();
        let living = controller.virtual_connections().count() as u64;
        let counted: u64 = now.iter().map(|service| service.counts.connections).sum();
        if living != counted {
            return Some(format!("{counted} connections are counted, and {living} live"));
        }
        for service in &now {
            let pool = self.virtuals.wanted.pools.iter().find(|pool| pool.id == service.service.pool)?;
            for member in service.members.iter().filter(|member| !member.is_leaving) {
                let host = (0..self.hosts.len()).find(|host| ipv4_of(*host) == member.address)?;
                let is_plugged = self.cables[host].is_usable() && self.switches[self.edge_of(host)].is_on;
                let is_seen = self.switches[self.edge_of(host)].channel.is_good();
                let is_up = is_plugged && !(pool.monitor.is_some() && self.virtuals.is_hung(host));
                if is_seen && is_up != (member.state == control::vip::MemberState::Up) {
                    return Some(format!("h{host} is {}, and should be up: {is_up}", member.state.words()));
                }
            }
        }
        self.wrong_connections(controller)
    }

    /// A connection that is believed to have rules and has none, or the other way round.
    fn wrong_connections(&self, controller: &control::Controller) -> Option<String> {
        let mut believed: Vec<_> = controller.virtual_connections().map(|(_, datapath, ..)| datapath).collect();
        for state in self.switches.iter().filter(|state| state.is_on && state.channel.is_good()) {
            let datapath = state.config.datapath;
            let is_forth = |entry: &&openflow::FlowStats| entry.priority == 520 && controller.is_connection_rule(entry);
            let rules = state.switch.entries().iter().filter(is_forth).count();
            let believed_here = believed.iter().filter(|at| **at == datapath).count();
            if rules != believed_here {
                return Some(format!("{datapath:?} has rules of {rules} connections, and {believed_here} are known"));
            }
        }
        believed.clear();
        None
    }
}
