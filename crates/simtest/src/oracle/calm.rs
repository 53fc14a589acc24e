//! After the storm: everything is as it should be within a bound, and stays so without a word.

use net::Time;
use openflow::{
    FlowStats, Instructions, MacAddr, Masked, Message, MultipartReply, PacketIn, TableId, frame, headers::ether,
};

use super::trials::Stage;
use crate::draw_services::CHECKER;
use crate::hosts::headers_of;
use crate::plan::Plan;
use crate::report::Oracle;
use crate::world::{OWNER, World, datapath_of};

/// What counting rules have in their cookies after the owner.
const COUNTS: u64 = 2;

/// How far the calm has come.
#[derive(Debug)]
pub(crate) struct Calm {
    /// When everything was found to be as it should be.
    quiet_since: Option<Time>,
    /// How long it has to stay so.
    quiet_for: Time,
    /// Trials of virtual services, which come first.
    pub(crate) trials: Stage,
    pub(crate) is_over: bool,
}

impl Calm {
    pub(crate) fn new(plan: &Plan) -> Calm {
        let control = &plan.control;
        let slowest = control.poll_interval.max(control.discovery_interval).max(control.echo_interval);
        // Longer than the longest period that is drawn for a balancer.
        Calm {
            quiet_since: None,
            quiet_for: slowest * 2 + Time::from_ms(2_500),
            trials: Stage::Waiting,
            is_over: false,
        }
    }
}

impl World {
    pub(crate) fn check_calm(&mut self) {
        let deadline = self.calm_deadline();
        let is_undisturbed = self.now > self.disturbed.max(self.virtuals.disturbed);
        let wrong = if is_undisturbed { self.what_is_wrong() } else { None };
        if is_undisturbed && wrong.is_none() && !self.have_trials_ended() {
            return;
        }
        match (self.oracles.calm.quiet_since, wrong) {
            (None, None) if is_undisturbed => {
                self.report.calm_after = self.now.saturating_sub(self.plan.calm_at);
                self.oracles.calm.quiet_since = Some(self.now);
            }
            (None, Some((oracle, words))) if self.now > deadline => self.fail(oracle, || words),
            (None, _) => {}
            (Some(_), Some((oracle, words))) if self.now > deadline => {
                self.fail(oracle, || format!("it was right, and then: {words}"));
            }
            (Some(_), Some(_)) => self.oracles.calm.quiet_since = None,
            (Some(since), None) => self.oracles.calm.is_over = self.now >= since + self.oracles.calm.quiet_for,
        }
    }

    /// From when on everything has to be right, and quiet.
    fn calm_deadline(&self) -> Time {
        self.disturbed.max(self.virtuals.disturbed).max(self.plan.calm_at) + self.bounds.tidy
    }

    fn what_is_wrong(&mut self) -> Option<(Oracle, String)> {
        let Some(controller) = &self.controller else { return None };
        if !controller.is_settled() {
            return Some((Oracle::Settled, "the controller is not settled".to_owned()));
        }
        if let Some(words) = self.wrong_topology() {
            return Some((Oracle::Topology, words));
        }
        if let Some(words) = self.wrong_services() {
            return Some((Oracle::Virtual, words));
        }
        let wrong = (0..self.switches.len()).find_map(|switch| self.wrong_rules(switch));
        let wrong = wrong.or_else(|| self.left_of_services());
        wrong.or_else(|| self.wrong_counters()).map(|words| (Oracle::Installed, words))
    }

    /// A flow that is believed to be counted by a rule of a switch, and is not, in words.
    fn wrong_counters(&self) -> Option<String> {
        let controller = self.controller.as_ref()?;
        controller.counted_flows().find_map(|(tuple, datapath)| {
            let switch = self.switches.iter().position(|state| state.config.datapath == datapath)?;
            let state = &self.switches[switch];
            if !state.is_on || !state.channel.is_good() {
                return None;
            }
            let is_of = |entry: &FlowStats| {
                let headers = headers_of(&tuple, MacAddr::default(), MacAddr::default());
                controller.is_counting_rule(datapath, entry)
                    && entry.match_.ipv4_src.is_some_and(|src| src.value == headers.ipv4_src)
                    && entry.match_.ipv4_dst.is_some_and(|dst| dst.value == headers.ipv4_dst)
                    && entry.match_.tcp_src.or(entry.match_.udp_src) == Some(headers.l4_src)
                    && entry.match_.tcp_dst.or(entry.match_.udp_dst) == Some(headers.l4_dst)
            };
            let is_there = state.switch.entries().iter().any(is_of);
            (!is_there).then(|| format!("s{switch} does not count {tuple:?}, which is believed to be under way"))
        })
    }

    /// Rules that count flows are left to the switches, and so do nothing but count, at any time: what is below them does the
    /// rest alike. Counters that name no port are wanted like other rules, and compared in the calm.
    pub(crate) fn check_counters(&mut self) {
        let is_ours = |entry: &FlowStats| entry.cookie >> 40 == u64::from(OWNER) << 8 | COUNTS;
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
            let found = state.switch.entries().into_iter().find(|entry| is_ours(entry) && is_wrong(entry))?;
            Some(format!("s{switch} counts a flow by {}", crate::words::entry(&found)))
        });
        if let Some(words) = wrong {
            self.fail(Oracle::Installed, || words);
        }
    }

    /// The difference between what the controller wants on a switch and what is there, in words.
    fn wrong_rules(&mut self, switch: usize) -> Option<String> {
        let state = &self.switches[switch];
        if !state.is_on || !state.channel.is_good() {
            return None;
        }
        let is_ours = |entry: &FlowStats| entry.cookie >> 48 == u64::from(OWNER);
        let bare = |entry: FlowStats| FlowStats { duration_ns: 0, packets: 0, bytes: 0, ..entry };
        let there: Vec<FlowStats> = state.switch.entries().into_iter().filter(is_ours).map(bare).collect();
        let controller = self.controller.as_ref()?;
        // Rules that count are left to the switch, and so are those of connections.
        let is_left = |entry: &FlowStats| {
            controller.is_counting_rule(datapath_of(switch), entry) || controller.is_connection_rule(entry)
        };
        let there: Vec<FlowStats> = there.into_iter().filter(|entry| !is_left(entry)).collect();
        let wanted = controller.desired_entries(datapath_of(switch));
        let extra = there.iter().find(|entry| !wanted.contains(entry));
        let missing = wanted.iter().find(|entry| !there.contains(entry));
        if let Some(entry) = extra {
            return Some(format!("s{switch} has a rule too many: {}", crate::words::entry(entry)));
        }
        match missing {
            Some(entry) => Some(format!("s{switch} lacks {}", crate::words::entry(entry))),
            None if wanted != there => Some(format!("s{switch}: the same rules, in another order or twice")),
            // Rules a full switch would not have leave their groups behind, for when there is room.
            None if state.full_at.is_some() => None,
            None => self.wrong_groups(switch, &there),
        }
    }

    /// Groups with numbers of the controller are used by its rules, unless someone else took the number.
    fn wrong_groups(&self, switch: usize, rules: &[FlowStats]) -> Option<String> {
        let state = &self.switches[switch].switch;
        let used = |group: &openflow::GroupDescription| {
            rules.iter().any(|rule| rule.instructions.apply.contains(&openflow::Action::Group(group.group)))
        };
        let is_ours = |group: &openflow::GroupDescription| {
            group.group.0 >> 16 == u32::from(OWNER) && group.group.0 & 0xffff >= crate::oracle::foreign::GROUPS
        };
        let groups = state.groups();
        let unused = groups.iter().find(|group| is_ours(group) && !used(group))?;
        Some(format!("s{switch} has a group nobody uses: {unused:?}"))
    }

    /// After everything is right, messages are keep-alive, discovery, polls, and answers to hosts that ask.
    pub(crate) fn oracle_calm_message(&mut self, switch: usize, message: &Message) {
        if self.oracles.calm.quiet_since.is_none() {
            return;
        }
        let is_small = |headers: openflow::Headers| {
            let is_check = headers.ipv4_src == CHECKER || headers.ipv4_dst == CHECKER;
            is_check || matches!(headers.eth_type, ether::LLDP | ether::ARP)
        };
        let is_small_talk = |data: &[u8]| frame::parse(data).is_ok_and(is_small);
        let is_expected = match message {
            Message::EchoRequest(_) | Message::EchoReply(_) | Message::MultipartRequest(_) => true,
            Message::MultipartReply { reply, .. } => !matches!(reply, MultipartReply::Other { .. }),
            Message::PacketOut(out) => is_small_talk(&out.data),
            Message::PacketIn(PacketIn { data, .. }) => is_small_talk(data),
            _ => false,
        };
        if !is_expected && self.now <= self.calm_deadline() {
            self.oracles.calm.quiet_since = None;
        } else if !is_expected {
            let words = format!("{} between s{switch} and the controller", crate::words::message(message));
            self.fail(Oracle::Quiet, || words);
        }
    }
}
