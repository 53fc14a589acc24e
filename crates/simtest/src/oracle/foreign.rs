//! Foreign rules and groups stay unchanged.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use net::RandomStream;
use openflow::headers::{ether, protocol};
use openflow::{
    Action, Bucket, ConnectionId, Envelope, FlowMod, GroupDescription, GroupId, GroupKind, GroupMod, GroupModCommand,
    Instructions, Masked, Match, Message, PortNo, TableId, Xid,
};

use switch::Switch;

use crate::report::Oracle;
use crate::simulation::{OWNER, Simulation};

/// Groups in the controller's range that other controllers may take have numbers below this.
pub(crate) const GROUPS: u32 = 4;

/// Rules and a group of another controller.
#[derive(Clone, Debug)]
pub(crate) struct Foreign {
    group: Option<GroupDescription>,
    rules: Vec<FlowMod>,
}

impl Foreign {
    /// Forgets a group without rules. Groups have no cookies: an unused group with a number of the
    /// controller's range is not a foreign group.
    fn forget_unused_group(&mut self) {
        let Foreign { group, rules } = self;
        let is_used = |group: &GroupDescription| {
            rules.iter().any(|rule| rule.instructions.apply.contains(&Action::Group(group.group)))
        };
        if !group.as_ref().is_some_and(is_used) {
            *group = None;
        }
    }
}

/// All foreign rules, by switch and seed of the action.
pub(crate) type Rules = BTreeMap<(usize, u64), Foreign>;

/// Returns what identifies a rule on a switch.
fn key(rule: &FlowMod) -> (TableId, u16, Match) {
    (rule.table, rule.priority, rule.match_)
}

/// Draws rules for traffic that no host sends, and perhaps a group.
pub(crate) fn draw(rng: &mut RandomStream) -> Foreign {
    let group = (rng.next_below(2) == 0).then(|| {
        // Half of the groups take a number that the controller would use.
        let mut number = rng.next_below(1_000) as u32;
        if rng.next_below(2) == 0 {
            number = (u32::from(OWNER) << 16) | (number % GROUPS);
        }
        GroupDescription {
            group: GroupId(number),
            kind: GroupKind::Select,
            buckets: (1..=1 + rng.next_below(3) as u32).map(|port| Bucket::watching(PortNo(port), 1)).collect(),
        }
    });
    let mut rules: Vec<FlowMod> = Vec::new();
    for _ in 0..1 + rng.next_below(6) {
        let rule = rule(rng, group.as_ref());
        if !rules.iter().any(|other| key(other) == key(&rule)) {
            rules.push(rule);
        }
    }
    let mut foreign = Foreign { group, rules };
    foreign.forget_unused_group();
    foreign
}

fn rule(rng: &mut RandomStream, group: Option<&GroupDescription>) -> FlowMod {
    let elsewhere = Ipv4Addr::new(192, 168, rng.next_below(256) as u8, rng.next_below(256) as u8);
    let to =
        Match { eth_type: Some(ether::IPV4), ipv4_dst: Some(Masked::<Ipv4Addr>::exact(elsewhere)), ..Match::default() };
    let match_ = match rng.next_below(3) {
        0 => Match { eth_type: Some(0x88b5), in_port: Some(PortNo(1)), ..Match::default() },
        1 => to,
        _ => Match { ip_proto: Some(protocol::UDP), udp_dst: Some(rng.next_below(1_000) as u16), ..to },
    };
    let actions = match group {
        Some(group) if rng.next_below(2) == 0 => vec![Action::Group(group.group)],
        _ if rng.next_below(2) == 0 => Vec::new(),
        _ => vec![Action::output(PortNo(1))],
    };
    // The priorities include those the controller uses itself.
    let priorities = [0, 1, 20, 100, 300, 1_032, 5_032, 10_032, 50_000, 59_999, 65_535];
    let priority = priorities[rng.next_below(priorities.len() as u64) as usize];
    let mut rule = FlowMod::add(TableId(rng.next_below(4) as u8), priority, match_, Instructions::apply(actions));
    rule.cookie = match rng.next_below(3) {
        0 => 0,
        1 => (u64::from(OWNER ^ 1) << 48) | (rng.next_u64() >> 16),
        _ => u64::from(OWNER),
    };
    rule
}

pub(crate) fn additions(foreign: &Foreign) -> Vec<Message> {
    let group = |group: &GroupDescription| {
        Message::GroupMod(GroupMod {
            command: GroupModCommand::Add,
            kind: group.kind,
            group: group.group,
            buckets: group.buckets.clone(),
        })
    };
    foreign.group.iter().map(group).chain(foreign.rules.iter().cloned().map(Message::FlowMod)).collect()
}

impl Simulation {
    /// Sends messages of another controller to a switch, over a separate connection.
    pub(crate) fn send_as_other_controller(&mut self, switch: usize, messages: Vec<Message>) {
        let connection = ConnectionId(u32::MAX - switch as u32);
        let state = &mut self.switches[switch];
        state.switch.connected(self.now, connection);
        let hello = Message::Hello { versions: 1 << 4 };
        for (number, message) in (1..).zip([hello].into_iter().chain(messages)) {
            state.switch.handle(self.now, connection, Envelope { xid: Xid(number), message });
        }
        state.switch.disconnected(self.now, connection);
        self.after_switch(switch, None);
    }

    /// Installs foreign rules on a switch; accepted ones are checked from then on.
    pub(crate) fn add_foreign(&mut self, switch: usize, seed: u64) {
        if !self.switches[switch].is_on {
            return;
        }
        let mut foreign = draw(&mut RandomStream::new(seed, "foreign"));
        let groups = self.switches[switch].switch.groups();
        if foreign.group.as_ref().is_some_and(|group| groups.iter().any(|there| there.group == group.group)) {
            return; // The number is taken.
        }
        let keys = |at: &Switch| -> Vec<_> {
            at.entries().iter().map(|entry| (entry.table, entry.priority, entry.match_)).collect()
        };
        let before = keys(&self.switches[switch].switch);
        foreign.rules.retain(|rule| !before.contains(&key(rule)));
        foreign.forget_unused_group();
        self.send_as_other_controller(switch, additions(&foreign));
        let after = keys(&self.switches[switch].switch);
        foreign.rules.retain(|rule| after.contains(&key(rule)));
        let groups = self.switches[switch].switch.groups();
        foreign.group = foreign.group.take().filter(|group| groups.contains(group));
        foreign.forget_unused_group();
        self.oracles.foreign.insert((switch, seed), foreign);
    }

    pub(crate) fn remove_foreign(&mut self, switch: usize, seed: u64) {
        let Some(foreign) = self.oracles.foreign.remove(&(switch, seed)) else { return };
        if self.switches[switch].is_on {
            // The group stays and is no longer checked.
            let removal = |rule: &FlowMod| FlowMod::delete_strict(rule.table, rule.priority, rule.match_);
            let removals = foreign.rules.iter().map(|rule| Message::FlowMod(removal(rule)));
            self.send_as_other_controller(switch, removals.collect());
        }
    }

    pub(crate) fn check_foreign(&mut self) {
        for ((switch, _), foreign) in &self.oracles.foreign {
            let state = &self.switches[*switch].switch;
            let entries = state.entries_with(|cookie| foreign.rules.iter().any(|rule| rule.cookie == cookie));
            let missing = foreign.rules.iter().find(|rule| {
                !entries.iter().any(|entry| {
                    (entry.table, entry.priority, entry.match_, entry.cookie, &entry.instructions)
                        == (rule.table, rule.priority, rule.match_, rule.cookie, &rule.instructions)
                })
            });
            let is_group_there = foreign.group.as_ref().is_none_or(|group| state.groups().contains(group));
            let words = match missing {
                Some(rule) => format!("s{switch} has lost a foreign rule: {}", control::format::flow_mod(rule)),
                None if !is_group_there => format!("s{switch} has lost a foreign group: {:?}", foreign.group),
                None => continue,
            };
            return self.fail(Oracle::Foreign, || words);
        }
    }
}
