//! One flow table: its entries, and the search for the matching entry of highest priority.
//!
//! Entries are grouped by the bits they compare (tuple space search; Srinivasan, Suri and Varghese,
//! SIGCOMM 1999): one search for the masked packet finds those of a group, by descending priority.
//! The cost depends on the number of kinds of matches, not of entries.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use net::Time;
use openflow::{Action, FlowModFlags, GroupId, Instructions, Match, PortNo};
use smallvec::SmallVec;

use crate::counters::Counter;
use crate::key::{Key, Pattern};

#[derive(Clone, Debug)]
pub struct Entry {
    /// A unique number that distinguishes the entry from a later one in its slot.
    pub serial: u64,
    /// Version of the switch at the last modification; 0 for an unmodified entry.
    pub modified_serial: u64,
    pub priority: u16,
    /// The values that its match compares.
    pub value: Key,
    /// The fields and masks of its match, shared like the instructions.
    pub form: Arc<Match>,
    /// Whether it is the table-miss entry: all packets, lowest priority (specification 5.4).
    pub is_table_miss: bool,
    /// Shared by the entries added one after the other: most lead to one of few groups.
    pub instructions: Arc<Instructions>,
    pub cookie: u64,
    pub flags: FlowModFlags,
    pub idle_timeout_s: u16,
    pub hard_timeout_s: u16,
    pub installed_at: Time,
    /// Start of its counters, which may be those of the entry it replaced.
    pub counted_since: Time,
    pub used_at: Time,
    pub counter: Counter,
    pub deadline: Option<Time>,
}

impl Entry {
    pub fn match_(&self) -> Match {
        Pattern::to_match(&self.value, &self.form)
    }

    /// Returns the pattern of its match: only changes need it, so its mask is not stored.
    pub fn pattern(&self) -> Pattern {
        Pattern { mask: Pattern::of(&self.form).mask, value: self.value }
    }

    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.instructions.actions()
    }

    pub fn sends_to(&self, port: PortNo) -> bool {
        port == PortNo::ANY || self.instructions.sends_to(port)
    }

    pub fn uses_group(&self, group: GroupId) -> bool {
        group == GroupId::ANY || self.actions().any(|action| *action == Action::Group(group))
    }
}

#[derive(Debug)]
struct Tuple {
    mask: Key,
    top: u16,
    /// Rules by digest of their values, highest priority first. The slot has the value itself.
    rules: BTreeMap<u64, SmallVec<[Rule; 1]>>,
    priorities: BTreeMap<u16, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    priority: u16,
    slot: u32,
}

/// Smallest number of slots by which a full table grows.
const SLOTS_ADDED: usize = 16;

#[derive(Default, Debug)]
pub struct Table {
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// Tuples by top priority, highest first, then mask.
    tuples: Vec<Tuple>,
    pub counter: Counter,
}

impl Table {
    pub fn len(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    pub fn get(&self, slot: u32) -> Option<&Entry> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Returns the matching entry of highest priority, then of smallest pattern: the specification
    /// leaves the choice open, but tests need one that does not depend on history.
    #[inline]
    pub fn lookup(&self, key: &Key) -> Option<(u32, &Entry)> {
        let mut best: Option<(&Tuple, Rule)> = None;
        for tuple in &self.tuples {
            if let Some((found, rule)) = best
                && (tuple.top, Reverse(tuple.mask)) < (rule.priority, Reverse(found.mask))
            {
                break;
            }
            let value = key.masked(&tuple.mask);
            let rules = tuple.rules.get(&value.digest()).map_or(&[][..], |rules| rules);
            if let Some(rule) = rules.iter().find(|rule| self.has_value(**rule, &value)).copied() {
                let better = |(found, other): (&Tuple, Rule)| {
                    (rule.priority, Reverse(tuple.mask)) > (other.priority, Reverse(found.mask))
                };
                if best.is_none_or(better) {
                    best = Some((tuple, rule));
                }
            }
        }
        let (_, rule) = best?;
        Some((rule.slot, self.get(rule.slot)?))
    }

    pub fn find(&self, priority: u16, pattern: &Pattern) -> Option<u32> {
        let tuple = self.tuples.iter().find(|tuple| tuple.mask == pattern.mask)?;
        let rules = tuple.rules.get(&pattern.value.digest())?;
        let is_meant = |rule: &&Rule| rule.priority == priority && self.has_value(**rule, &pattern.value);
        rules.iter().find(is_meant).map(|rule| rule.slot)
    }

    #[inline]
    fn has_value(&self, rule: Rule, value: &Key) -> bool {
        self.get(rule.slot).is_some_and(|entry| entry.value == *value)
    }

    pub fn insert(&mut self, entry: Entry) -> u32 {
        let (priority, pattern) = (entry.priority, entry.pattern());
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            // Doubling would leave half of a large table unused.
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve_exact(SLOTS_ADDED + self.slots.len() / 8);
            }
            self.slots.push(Some(entry));
        } else {
            self.slots[slot as usize] = Some(entry);
        }
        let ix = self.tuples.iter().position(|tuple| tuple.mask == pattern.mask).unwrap_or_else(|| {
            let (rules, priorities) = (BTreeMap::new(), BTreeMap::new());
            self.tuples.push(Tuple { mask: pattern.mask, top: priority, rules, priorities });
            self.tuples.len() - 1
        });
        let tuple = &mut self.tuples[ix];
        let rules = tuple.rules.entry(pattern.value.digest()).or_default();
        let at = rules.partition_point(|rule| rule.priority > priority);
        rules.insert(at, Rule { priority, slot });
        *tuple.priorities.entry(priority).or_default() += 1;
        self.settle(ix);
        slot
    }

    pub fn remove(&mut self, slot: u32) -> Option<Entry> {
        let entry = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        let pattern = entry.pattern();
        let ix = self.tuples.iter().position(|tuple| tuple.mask == pattern.mask)?;
        let tuple = &mut self.tuples[ix];
        if let Some(rules) = tuple.rules.get_mut(&pattern.value.digest()) {
            rules.retain(|rule| rule.slot != slot);
            if rules.is_empty() {
                tuple.rules.remove(&pattern.value.digest());
            }
        }
        if let Some(count) = tuple.priorities.get_mut(&entry.priority) {
            *count -= 1;
            if *count == 0 {
                tuple.priorities.remove(&entry.priority);
            }
        }
        self.settle(ix);
        Some(entry)
    }

    fn settle(&mut self, ix: usize) {
        match self.tuples[ix].priorities.last_key_value() {
            None => drop(self.tuples.remove(ix)),
            Some((&top, _)) => {
                self.tuples[ix].top = top;
                // Nearly sorted: at most one is out of place.
                self.tuples.sort_by_key(|tuple| (Reverse(tuple.top), tuple.mask));
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.slots.iter().enumerate().filter_map(|(slot, entry)| Some((slot as u32, entry.as_ref()?)))
    }

    /// Returns the slots of the chosen entries, by priority (highest first) and match.
    pub fn select(&self, mut is_chosen: impl FnMut(&Entry) -> bool) -> Vec<u32> {
        let mut chosen: Vec<(u32, &Entry)> = self.iter().filter(|(_, entry)| is_chosen(entry)).collect();
        chosen.sort_by_cached_key(|(_, entry)| (Reverse(entry.priority), entry.match_()));
        chosen.into_iter().map(|(slot, _)| slot).collect()
    }
}
