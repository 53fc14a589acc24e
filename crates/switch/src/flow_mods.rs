//! Changes of flow tables (specification 6.4).

use net::Time;
use openflow::{
    BufferId, ErrorKind, FlowEvent, FlowMod, FlowModCommand, FlowModFailed, FlowRemoved, Message, RemovedReason,
    TableId,
};

use crate::counters::{Counter, age_ns};
use crate::key::{Key, Pattern};
use crate::table::{Entry, Usage};
use crate::{Switch, checks};

fn refused<T>(why: FlowModFailed) -> Result<T, ErrorKind> {
    Err(ErrorKind::FlowModFailed(why))
}

impl Switch {
    pub(crate) fn flow_mod(&mut self, flow_mod: FlowMod) -> Result<(), ErrorKind> {
        let is_deletion = matches!(flow_mod.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
        let is_table = flow_mod.table.0 < self.config.tables || (is_deletion && flow_mod.table == TableId::ALL);
        if !is_table {
            return refused(FlowModFailed::BadTableId);
        }
        checks::match_(&flow_mod.match_, &self.ports, self.config.supports_tcp_flags)?;
        let buffer = flow_mod.buffer;
        if !is_deletion {
            let targets = self.targets(false);
            let place = (flow_mod.table, self.config.tables);
            checks::instructions(&flow_mod.instructions, place, &flow_mod.match_, &targets)?;
            if buffer != BufferId::NO_BUFFER {
                self.buffers.frame(buffer).map_err(ErrorKind::BadRequest)?;
            }
        }
        match flow_mod.command {
            FlowModCommand::Add => self.add_entry(flow_mod)?,
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => self.modify_entries(&flow_mod),
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => self.delete_entries(&flow_mod),
        }
        self.tally.flow_mods += 1;
        if !is_deletion && buffer != BufferId::NO_BUFFER {
            self.send_buffered(buffer)?;
        }
        Ok(())
    }

    fn add_entry(&mut self, flow_mod: FlowMod) -> Result<(), ErrorKind> {
        let pattern = Pattern::of(&flow_mod.match_);
        let priority = flow_mod.priority;
        let table = &self.tables[usize::from(flow_mod.table.0)];
        let overlaps = |entry: &Entry| entry.priority == priority && entry.pattern().overlaps(&pattern);
        if flow_mod.flags.check_overlap && table.iter().any(|(_, entry)| overlaps(entry)) {
            return refused(FlowModFailed::Overlap);
        }
        let replaced = table.find(priority, &pattern);
        if replaced.is_none() && table.len() >= self.config.max_entries {
            return refused(FlowModFailed::TableFull);
        }
        // The removal of a replaced entry is not reported (specification 6.4).
        let replaced = replaced.and_then(|slot| self.take_entry(flow_mod.table, slot));
        let now = self.clock.now;
        let kept = replaced.as_ref().filter(|_| !flow_mod.flags.reset_counts);
        let usage = kept.map(|entry| Box::new(Usage { modified_serial: 0, last: now, ..entry.usage() }));
        let instructions = self.recent_instructions.share(flow_mod.instructions);
        let before = replaced.as_ref().map(|entry| &*entry.instructions);
        let entry = Entry {
            serial: self.changed(),
            priority,
            is_table_miss: priority == 0 && pattern.is_everything(),
            value: pattern.value,
            form: self.recent_forms.share(Pattern::to_match(&Key::default(), &flow_mod.match_)),
            instructions,
            cookie: flow_mod.cookie,
            flags: flow_mod.flags,
            idle_timeout_s: flow_mod.idle_timeout_s,
            hard_timeout_s: flow_mod.hard_timeout_s,
            installed_at: now,
            usage,
            deadline: Time::MAX,
        };
        let of = (flow_mod.table, &entry);
        Switch::note_change(&mut self.sessions.open, self.cause, FlowEvent::Added, of, before);
        let slot = self.tables[usize::from(flow_mod.table.0)].insert(entry);
        self.plan_timeout(flow_mod.table, slot);
        self.tally.entries += 1;
        self.tally.entries_max = self.tally.entries_max.max(self.tally.entries);
        Ok(())
    }

    /// Returns the slots of the entries that a modification or deletion covers, in one table.
    fn chosen(&self, table: TableId, flow_mod: &FlowMod) -> Vec<u32> {
        use FlowModCommand::{Delete, DeleteStrict, ModifyStrict};
        let pattern = Pattern::of(&flow_mod.match_);
        let is_deletion = matches!(flow_mod.command, Delete | DeleteStrict);
        let is_meant = |entry: &Entry| {
            (entry.cookie ^ flow_mod.cookie) & flow_mod.cookie_mask == 0
                && (!is_deletion || (entry.sends_to(flow_mod.out_port) && entry.uses_group(flow_mod.out_group)))
        };
        let table = &self.tables[usize::from(table.0)];
        if matches!(flow_mod.command, ModifyStrict | DeleteStrict) {
            let found = table.find(flow_mod.priority, &pattern);
            return found.filter(|slot| table.get(*slot).is_some_and(is_meant)).into_iter().collect();
        }
        table.select(|entry| pattern.covers(&entry.pattern()) && is_meant(entry))
    }

    fn modify_entries(&mut self, flow_mod: &FlowMod) {
        let chosen = self.chosen(flow_mod.table, flow_mod);
        if chosen.is_empty() {
            return;
        }
        let version = self.changed();
        let now = self.clock.now;
        let instructions = self.recent_instructions.share(flow_mod.instructions.clone());
        let table = &mut self.tables[usize::from(flow_mod.table.0)];
        for slot in chosen {
            let Some(entry) = table.get_mut(slot) else { continue };
            let before = std::mem::replace(&mut entry.instructions, instructions.clone());
            if before != entry.instructions {
                entry.usage_mut().modified_serial = version;
                let of = (flow_mod.table, &*entry);
                Switch::note_change(&mut self.sessions.open, self.cause, FlowEvent::Modified, of, Some(&before));
            }
            if flow_mod.flags.reset_counts {
                let usage = entry.usage_mut();
                (usage.counter, usage.counted_since) = (Counter::default(), now);
            }
        }
    }

    fn delete_entries(&mut self, flow_mod: &FlowMod) {
        let tables = match flow_mod.table {
            TableId::ALL => 0..self.config.tables,
            TableId(table) => table..table + 1,
        };
        for table in tables.map(TableId) {
            for slot in self.chosen(table, flow_mod) {
                self.remove_entry(table, slot, RemovedReason::Delete);
            }
        }
    }

    pub(crate) fn remove_entries(&mut self, reason: RemovedReason, is_chosen: impl Fn(&Entry) -> bool) {
        for table in (0..self.config.tables).map(TableId) {
            for slot in self.tables[usize::from(table.0)].select(&is_chosen) {
                self.remove_entry(table, slot, reason);
            }
        }
    }

    /// Removes an entry and notifies the controllers that requested it.
    pub(crate) fn remove_entry(&mut self, table: TableId, slot: u32, reason: RemovedReason) {
        let Some(entry) = self.take_entry(table, slot) else { return };
        self.changed();
        let event = FlowEvent::Deleted(reason);
        Switch::note_change(&mut self.sessions.open, self.cause, event, (table, &entry), None);
        if entry.flags.send_flow_removed {
            let removed = flow_removed(entry, table, reason, self.clock.now);
            self.notify_removed(reason, Message::FlowRemoved(removed));
        }
    }

    fn take_entry(&mut self, table: TableId, slot: u32) -> Option<Entry> {
        let entry = self.tables[usize::from(table.0)].remove(slot)?;
        if entry.deadline != Time::MAX {
            self.deadlines.remove(&(entry.deadline, table, slot));
        }
        self.tally.entries -= 1;
        Some(entry)
    }
}

fn flow_removed(entry: Entry, table: TableId, reason: RemovedReason, now: Time) -> FlowRemoved {
    let usage = entry.usage();
    let (packets, bytes) = usage.counter.now;
    FlowRemoved {
        cookie: entry.cookie,
        priority: entry.priority,
        reason,
        table,
        duration_ns: age_ns(usage.counted_since, now),
        idle_timeout_s: entry.idle_timeout_s,
        hard_timeout_s: entry.hard_timeout_s,
        packets,
        bytes,
        match_: entry.match_(),
        other_fields: Vec::new(),
    }
}
