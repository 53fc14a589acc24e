//! One flow table: its entries, and the search for the matching entry of highest priority.
//!
//! Entries are grouped by the bits they compare (tuple space search; Srinivasan, Suri and Varghese,
//! SIGCOMM 1999): one search for the masked packet finds those of a group, by descending priority.
//! The cost depends on the number of kinds of matches, not of entries.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use net::Time;
use openflow::{Action, FlowModFlags, GroupId, Instructions, Match, PortNo};

use crate::counters::{Clock, Counter};
use crate::key::{Key, Pattern};

#[derive(Clone, Debug)]
pub struct Entry {
    /// A unique number that distinguishes the entry from a later one in its slot.
    pub serial: u64,
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
    /// `None` for the many entries that are as they were installed, and that no packet has matched.
    pub usage: Option<Box<Usage>>,
    /// When it may expire; [`Time::MAX`] if never.
    pub deadline: Time,
}

/// Use and changes of an entry since it was installed.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Version of the switch at the last modification; 0 for an unmodified entry.
    pub modified_serial: u64,
    pub counter: Counter,
    /// Start of the counter, which may be that of the entry it replaced.
    pub counted_since: Time,
    /// When the last packet matched the entry, or when it was installed.
    pub last: Time,
}

impl Entry {
    pub fn count(&mut self, clock: &Clock, packets: u64, bytes: u64, last: Time) {
        let usage = self.usage_mut();
        usage.counter.add(clock, packets, bytes);
        usage.last = usage.last.max(last);
    }

    pub fn usage(&self) -> Usage {
        let (counted_since, last) = (self.installed_at, self.installed_at);
        let unused = Usage { modified_serial: 0, counter: Counter::default(), counted_since, last };
        self.usage.as_ref().map_or(unused, |usage| **usage)
    }

    pub fn usage_mut(&mut self) -> &mut Usage {
        let usage = self.usage();
        self.usage.get_or_insert_with(|| Box::new(usage))
    }

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
    /// Digests of the values of its rules, which are in the slots, with the priorities, highest first.
    rules: BTreeSet<(u64, Reverse<u16>, u32)>,
    priorities: BTreeMap<u16, u32>,
}

impl Tuple {
    /// Returns its rules whose value may be this one, highest priority first.
    #[inline]
    fn rules_of(&self, value: &Key) -> impl Iterator<Item = Rule> {
        let digest = value.digest();
        let from = self.rules.range((digest, Reverse(u16::MAX), 0)..);
        let found = from.take_while(move |(other, ..)| *other == digest);
        found.map(|(_, Reverse(priority), slot)| Rule { priority: *priority, slot: *slot })
    }
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    priority: u16,
    slot: u32,
}

/// Number of entries of a chunk.
const CHUNK: usize = 64;

#[derive(Default, Debug)]
pub struct Table {
    /// Entries by slot, in chunks: a large table that grew as a whole would leave holes in memory.
    chunks: Vec<Vec<Option<Entry>>>,
    free: Vec<u32>,
    /// Tuples by top priority, highest first, then mask.
    tuples: Vec<Tuple>,
    pub counter: Counter,
}

impl Table {
    pub fn len(&self) -> u32 {
        self.slot_count() - self.free.len() as u32
    }

    fn slot_count(&self) -> u32 {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        self.chunks.last().map_or(0, |last| full + last.len()) as u32
    }

    pub fn get(&self, slot: u32) -> Option<&Entry> {
        self.chunks.get(slot as usize / CHUNK)?.get(slot as usize % CHUNK)?.as_ref()
    }

    fn slot_mut(&mut self, slot: u32) -> Option<&mut Option<Entry>> {
        self.chunks.get_mut(slot as usize / CHUNK)?.get_mut(slot as usize % CHUNK)
    }

    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.slot_mut(slot)?.as_mut()
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
            if let Some(rule) = tuple.rules_of(&value).find(|rule| self.has_value(*rule, &value)) {
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
        let mut rules = tuple.rules_of(&pattern.value);
        rules.find(|rule| rule.priority == priority && self.has_value(*rule, &pattern.value)).map(|rule| rule.slot)
    }

    #[inline]
    fn has_value(&self, rule: Rule, value: &Key) -> bool {
        self.get(rule.slot).is_some_and(|entry| entry.value == *value)
    }

    pub fn insert(&mut self, entry: Entry) -> u32 {
        let (priority, pattern) = (entry.priority, entry.pattern());
        let slot = self.free.pop().unwrap_or_else(|| self.slot_count());
        match self.slot_mut(slot) {
            Some(free) => *free = Some(entry),
            None => {
                if (slot as usize).is_multiple_of(CHUNK) {
                    self.chunks.push(Vec::new());
                }
                self.chunks[slot as usize / CHUNK].push(Some(entry));
            }
        }
        let ix = self.tuples.iter().position(|tuple| tuple.mask == pattern.mask).unwrap_or_else(|| {
            let (rules, priorities) = (BTreeSet::new(), BTreeMap::new());
            self.tuples.push(Tuple { mask: pattern.mask, top: priority, rules, priorities });
            self.tuples.len() - 1
        });
        let tuple = &mut self.tuples[ix];
        tuple.rules.insert((pattern.value.digest(), Reverse(priority), slot));
        *tuple.priorities.entry(priority).or_default() += 1;
        self.settle(ix);
        slot
    }

    pub fn remove(&mut self, slot: u32) -> Option<Entry> {
        let entry = self.slot_mut(slot)?.take()?;
        self.free.push(slot);
        let pattern = entry.pattern();
        let ix = self.tuples.iter().position(|tuple| tuple.mask == pattern.mask)?;
        let tuple = &mut self.tuples[ix];
        tuple.rules.remove(&(pattern.value.digest(), Reverse(entry.priority), slot));
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
        let slots = self.chunks.iter().flatten();
        slots.enumerate().filter_map(|(slot, entry)| Some((slot as u32, entry.as_ref()?)))
    }

    /// Returns the slots of the chosen entries, by priority (highest first) and match.
    pub fn select(&self, mut is_chosen: impl FnMut(&Entry) -> bool) -> Vec<u32> {
        let mut chosen: Vec<(u32, &Entry)> = self.iter().filter(|(_, entry)| is_chosen(entry)).collect();
        chosen.sort_by_cached_key(|(_, entry)| (Reverse(entry.priority), entry.match_()));
        chosen.into_iter().map(|(slot, _)| slot).collect()
    }
}
