//! The convergence phase after the faults: everything reaches the desired state within a bound, and
//! then stays quiet.

use net::{Addressing, Time};
use openflow::{
    FlowStats, Instructions, MacAddr, Masked, Message, MultipartReply, PacketIn, TableId, frame, headers::ether,
};

use super::final_probes::Stage;
use crate::generate::services::CHECKER;
use crate::hosts::headers_of;
use crate::report::Oracle;
use crate::simulation::{CONNECTS, OWNER, Simulation, datapath_of, is_of_kind};

/// The kind of counting rules in cookies, after the owner.
const COUNTS: u64 = 0x82;
/// Longest idle timeout of the rule that translates responses.
const RETURN_RULE_MAX: Time = Time::from_s(20);

#[derive(Debug, Default)]
pub(crate) struct Convergence {
    /// The time since which no violation was found.
    quiet_since: Option<Time>,
    /// The final probes of virtual services, which come first.
    pub(crate) final_probes: Stage,
    pub(crate) is_over: bool,
}

impl Simulation {
    pub(crate) fn check_convergence(&mut self) {
        let deadline = self.convergence_deadline();
        let is_undisturbed = self.now > self.disturbed.max(self.services.disturbed);
        let wrong = if is_undisturbed { self.find_violation() } else { None };
        if is_undisturbed && wrong.is_none() && !self.are_final_probes_done() {
            return;
        }
        match (self.oracles.convergence.quiet_since, wrong) {
            (None, None) if is_undisturbed => {
                self.report.converged_after = self.now.saturating_sub(self.plan.faults_end_at);
                self.oracles.convergence.quiet_since = Some(self.now);
            }
            (None, Some((oracle, words))) if self.now > deadline => self.fail(oracle, || words),
            (None, _) => {}
            (Some(_), Some((oracle, words))) if self.now > deadline => {
                self.fail(oracle, || format!("violated after convergence: {words}"));
            }
            (Some(_), Some(_)) => self.oracles.convergence.quiet_since = None,
            (Some(since), None) => self.oracles.convergence.is_over = self.now >= since + self.quiet_for(),
        }
    }

    /// Returns the time for which everything must stay quiet.
    fn quiet_for(&self) -> Time {
        let control = &self.plan.control;
        let slowest = control.poll_interval.max(control.discovery_interval).max(control.echo_interval);
        // Longer than the longest period drawn for a balancer.
        slowest * 2 + Time::from_ms(2_500)
    }

    /// Returns the time from which everything must be correct and quiet.
    fn convergence_deadline(&self) -> Time {
        self.disturbed.max(self.services.disturbed).max(self.plan.faults_end_at) + self.bounds.tidy
    }

    fn find_violation(&mut self) -> Option<(Oracle, String)> {
        let Some(controller) = &self.controller else { return None };
        if !controller.is_settled() {
            return Some((Oracle::Settled, "the controller is not settled".to_owned()));
        }
        if let Some(words) = self.wrong_topology() {
            return Some((Oracle::Topology, words));
        }
        if let Some(words) = self.wrong_hosts() {
            return Some((Oracle::Hosts, words));
        }
        if let Some(words) = self.wrong_services() {
            return Some((Oracle::Virtual, words));
        }
        let wrong = (0..self.switches.len()).find_map(|switch| self.wrong_rules(switch));
        let wrong = wrong.or_else(|| self.leftover_connection_rule());
        let wrong = wrong.or_else(|| (0..self.hosts.len()).find_map(|host| self.wrong_evictions(host)));
        let wrong = wrong.or_else(|| self.wrong_counters()).map(|words| (Oracle::Installed, words));
        wrong.or_else(|| self.wrong_growth().map(|words| (Oracle::Growth, words)))
    }

    /// Returns a description of a flow without the counting rule that the controller assumes.
    fn wrong_counters(&self) -> Option<String> {
        let controller = self.controller.as_ref()?;
        controller.inspect().counted_flows().find_map(|(tuple, datapath)| {
            let switch = self.switches.iter().position(|state| state.config.datapath == datapath)?;
            let state = &self.switches[switch];
            if !state.is_reached() {
                return None;
            }
            let is_of = |entry: &FlowStats| {
                let headers = headers_of(&tuple, MacAddr::default(), MacAddr::default());
                controller.inspect().is_counting_rule(datapath, entry)
                    && entry.match_.ipv4_src.is_some_and(|src| src.value == headers.ipv4_src)
                    && entry.match_.ipv4_dst.is_some_and(|dst| dst.value == headers.ipv4_dst)
                    && entry.match_.tcp_src.or(entry.match_.udp_src) == Some(headers.l4_src)
                    && entry.match_.tcp_dst.or(entry.match_.udp_dst) == Some(headers.l4_dst)
            };
            let is_there = state.switch.entries().iter().any(is_of);
            (!is_there).then(|| {
                format!("s{switch} has no counting rule for {tuple:?}, which the controller assumes to be counted")
            })
        })
    }

    /// Checks that counting rules only count, at any time: the rules below them forward. Counting
    /// rules without a port belong to the desired state and are compared in the convergence phase.
    pub(crate) fn check_counters(&mut self) {
        let only_counts = Instructions {
            metadata: Some(Masked { value: 1, mask: 1 }),
            goto: Some(TableId(1)),
            ..Instructions::default()
        };
        let timeouts = (self.plan.control.flow_idle_timeout_s, 0);
        let is_wrong = |entry: &FlowStats| {
            entry.match_.in_port.is_some()
                && ((entry.table, entry.priority) != (TableId(0), 300)
                    || (entry.idle_timeout_s, entry.hard_timeout_s) != timeouts
                    || entry.instructions != only_counts)
        };
        let wrong = self.switches.iter().enumerate().find_map(|(switch, state)| {
            let counting = state.switch.entries_with(|cookie| is_of_kind(cookie, COUNTS));
            let found = counting.into_iter().find(is_wrong)?;
            Some(format!("s{switch} counts a flow by {}", control::format::entry(&found)))
        });
        if let Some(words) = wrong {
            self.fail(Oracle::Installed, || words);
        }
    }

    /// Returns a description of the difference between desired and installed rules of a switch.
    pub(super) fn wrong_rules(&mut self, switch: usize) -> Option<String> {
        let state = &self.switches[switch];
        if !state.is_reached() {
            return None;
        }
        let is_own = |cookie: u64| cookie >> 48 == u64::from(OWNER);
        let bare = |entry: FlowStats| FlowStats { duration_ns: 0, packets: 0, bytes: 0, ..entry };
        let there: Vec<FlowStats> = state.switch.entries_with(is_own).into_iter().map(bare).collect();
        let controller = self.controller.as_ref()?;
        // The return rule of a closed connection keeps the timeout of the former configuration.
        let may_be_former = self.services.rewritten_at.values().any(|at| self.now < *at + RETURN_RULE_MAX);
        // Counting rules and connection rules are switch-owned.
        let is_left = |entry: &FlowStats| {
            controller.inspect().is_counting_rule(datapath_of(switch), entry)
                || controller.inspect().is_connection_rule(entry)
                || (may_be_former && is_of_kind(entry.cookie, CONNECTS))
        };
        let there: Vec<FlowStats> = there.into_iter().filter(|entry| !is_left(entry)).collect();
        let wanted = controller.inspect().desired_entries(datapath_of(switch));
        let extra = there.iter().find(|entry| !wanted.contains(entry));
        let missing = wanted.iter().find(|entry| !there.contains(entry));
        if let Some(entry) = extra {
            return Some(format!("s{switch} has an extra rule: {}", control::format::entry(entry)));
        }
        match missing {
            Some(entry) => Some(format!("s{switch} lacks {}", control::format::entry(entry))),
            None if wanted != there => Some(format!("s{switch}: the same rules, in another order or twice")),
            // Rules that a full switch refused leave their groups behind, for a later attempt.
            None if state.full_at.is_some() => None,
            None => self.wrong_groups(switch, &there),
        }
    }

    /// Checks that rules use all groups of the controller, unless another controller took the
    /// number.
    fn wrong_groups(&self, switch: usize, rules: &[FlowStats]) -> Option<String> {
        let state = &self.switches[switch].switch;
        let used = |group: &openflow::GroupDescription| {
            rules.iter().any(|rule| rule.instructions.apply.contains(&openflow::Action::Group(group.group)))
        };
        let is_own = |group: &openflow::GroupDescription| {
            group.group.0 >> 16 == u32::from(OWNER) && group.group.0 & 0xffff >= crate::oracle::foreign::GROUPS
        };
        let groups = state.groups();
        let unused = groups.iter().find(|group| is_own(group) && !used(group))?;
        Some(format!("s{switch} has an unused group: {unused:?}"))
    }

    /// Checks that messages after convergence are keep-alive, discovery, polls and ARP replies
    /// only.
    pub(crate) fn check_quiet_message(&mut self, switch: usize, message: &Message) {
        // Hosts announce themselves indefinitely, from which switches of TRILL learn again and again.
        if self.oracles.convergence.quiet_since.is_none() || self.plan.control.addressing == Addressing::Trill {
            return;
        }
        let is_small = |headers: openflow::Headers| {
            let is_check = headers.ipv4_src == CHECKER || headers.ipv4_dst == CHECKER;
            is_check || matches!(headers.eth_type, ether::LLDP | ether::ARP)
        };
        let is_background = |data: &[u8]| frame::parse(data).is_ok_and(is_small);
        let is_expected = match message {
            Message::EchoRequest(_) | Message::EchoReply(_) | Message::MultipartRequest(_) => true,
            Message::MultipartReply { reply, .. } => !matches!(reply, MultipartReply::Other { .. }),
            Message::PacketOut(out) => is_background(&out.data),
            Message::PacketIn(PacketIn { data, .. }) => is_background(data),
            _ => false,
        };
        if !is_expected && self.now <= self.convergence_deadline() {
            self.oracles.convergence.quiet_since = None;
        } else if !is_expected {
            let words = format!("{} between s{switch} and the controller", control::format::message(message));
            self.fail(Oracle::Quiet, || words);
        }
    }
}
