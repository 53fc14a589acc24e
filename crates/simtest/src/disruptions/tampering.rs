//! Rules and groups of the controller that another program deletes, changes or adds.

use net::{RandomStream, Time};
use openflow::{
    Action, FlowMod, FlowModCommand, FlowStats, GroupId, GroupKind, GroupMod, GroupModCommand, Instructions, Masked,
    Match, Message, TableId, headers::ether,
};

use super::AUDIT;
use crate::generate::ipv4_of;
use crate::oracle::foreign::GROUPS;
use crate::simulation::{OWNER, Simulation};

/// The bit of a cookie that marks rules which the switch owns: their timeouts end them, and no
/// audit compares them.
pub(crate) const SWITCH_OWNED: u64 = 0x80 << 40;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tampering {
    DeleteSome,
    DeleteAll,
    DeleteGroups,
    Change,
    Add,
}

impl Tampering {
    pub(crate) const ALL: &[Tampering] = &[
        Tampering::DeleteSome,
        Tampering::DeleteAll,
        Tampering::DeleteGroups,
        Tampering::Change,
        Tampering::Change,
        Tampering::Add,
    ];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Tampering::DeleteSome => "deletes some rules",
            Tampering::DeleteAll => "deletes all rules",
            Tampering::DeleteGroups => "deletes all groups",
            Tampering::Change => "changes a rule",
            Tampering::Add => "adds a rule",
        }
    }
}

/// A change that the controller must undo.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tampered {
    pub(crate) switch: usize,
    pub(crate) at: Time,
    pub(crate) deadline: Time,
}

fn is_audited(entry: &FlowStats) -> bool {
    entry.cookie >> 48 == u64::from(OWNER) && entry.cookie & SWITCH_OWNED == 0
}

/// Returns a deletion of all rules of the controller, also those that the switch owns.
fn deletion_of_all() -> FlowMod {
    FlowMod {
        command: FlowModCommand::Delete,
        cookie: u64::from(OWNER) << 48,
        cookie_mask: 0xffff << 48,
        ..FlowMod::add(TableId::ALL, 0, Match::default(), Instructions::default())
    }
}

impl Simulation {
    pub(super) fn tamper(&mut self, switch: usize, tampering: Tampering, seed: u64) {
        if !self.switches[switch].is_on {
            return;
        }
        let mut rng = RandomStream::new(seed, "tampering");
        if tampering == Tampering::DeleteGroups {
            let deletions = self.deletions_of_groups(switch);
            self.send_as_other_controller(switch, deletions);
        } else {
            for change in self.changes(switch, tampering, &mut rng) {
                self.trace(|_| format!("s{switch} by another program: {}", control::format::flow_mod(&change)));
                // A full table may refuse an addition.
                let _ = self.switches[switch].switch.flow_mod_by_other(self.now, change);
            }
            self.after_switch(switch, None);
        }
        let lasts = AUDIT + self.bounds.react;
        self.services.off.insert(switch, self.now);
        self.mark_disturbed(switch, lasts);
        self.allow_anything_until(self.now + lasts);
        let deadline = self.now + lasts;
        self.disruptions.tampered.push(Tampered { switch, at: self.now, deadline });
    }

    fn changes(&self, switch: usize, tampering: Tampering, rng: &mut RandomStream) -> Vec<FlowMod> {
        let mut rules = self.switches[switch].switch.entries();
        rules.retain(is_audited);
        let count = match tampering {
            Tampering::DeleteAll => return vec![deletion_of_all()],
            Tampering::Add => return vec![self.addition(rng)],
            Tampering::Change => 1,
            Tampering::DeleteSome | Tampering::DeleteGroups => 1 + rng.next_below(3) as usize,
        };
        let mut changes = Vec::new();
        while changes.len() < count && !rules.is_empty() {
            let rule = rules.swap_remove(rng.next_below(rules.len() as u64) as usize);
            changes.push(match tampering {
                // The rule drops packets from now on.
                Tampering::Change => FlowMod {
                    cookie: rule.cookie,
                    ..FlowMod::add(rule.table, rule.priority, rule.match_, Instructions::default())
                },
                _ => FlowMod::delete_strict(rule.table, rule.priority, rule.match_),
            });
        }
        changes
    }

    /// Returns a rule that drops the packets to a host, or packets to nowhere.
    fn addition(&self, rng: &mut RandomStream) -> FlowMod {
        let host = rng.next_below(self.hosts.len() as u64 + 1) as usize;
        let to = Masked::<core::net::Ipv4Addr>::exact(ipv4_of(host));
        let match_ = Match { eth_type: Some(ether::IPV4), ipv4_dst: Some(to), ..Match::default() };
        let priority = [3, 2_001, 61_001][rng.next_below(3) as usize];
        let cookie = u64::from(OWNER) << 48 | 0x02 << 40 | rng.next_below(1_000);
        FlowMod { cookie, ..FlowMod::add(TableId(1), priority, match_, Instructions::default()) }
    }

    fn deletions_of_groups(&self, switch: usize) -> Vec<Message> {
        let at = &self.switches[switch].switch;
        let rules = at.entries();
        let is_audited = |group: GroupId| {
            let mut users = rules.iter().filter(|rule| rule.instructions.apply.contains(&Action::Group(group)));
            group.0 >> 16 == u32::from(OWNER) && group.0 & 0xffff >= GROUPS && users.all(is_audited)
        };
        let groups = at.groups().into_iter().map(|group| group.group).filter(|group| is_audited(*group));
        let delete =
            |group| GroupMod { command: GroupModCommand::Delete, kind: GroupKind::All, group, buckets: vec![] };
        groups.map(|group| Message::GroupMod(delete(group))).collect()
    }
}
