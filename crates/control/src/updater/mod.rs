//! The updater: desired and installed rules of all switches, and the messages that make them equal.
//!
//! Parts above it set desired rules; the updater computes the difference ([`store`]), orders the
//! messages ([`order`]), and tells by tickets what is confirmed ([`task`]).

mod audit;
pub(crate) mod block;
pub(crate) mod compile;
pub(crate) mod ecmp_hashing;
pub(crate) mod order;
pub(crate) mod store;
pub(crate) mod task;

use std::collections::{BTreeMap, BTreeSet};

use net::{NodeIx, Time};
use openflow::{ConnectionId, DatapathId, ErrorKind, Message, Xid};

use crate::channels::{Channels, ReadBack};
use crate::{Config, Event};
use audit::Audits;
use compile::{Compiler, Entry};
use ecmp_hashing::{HashingMethod, OPEN_VSWITCH};
use order::Item;
use store::{DesiredRule, Installer, Refusal, RuleKey};

/// Time a change waits for a switch that does not confirm. Then the others continue without it.
pub(crate) const CONFIRM_TIMEOUT: Time = Time::from_ms(1000);

/// Number of messages that wait for the driver at which no further switch gets changes. A starting
/// network of a thousand switches gets millions of rules.
const OUTPUTS_MAX: usize = 4096;

/// A change of a rule on a switch; `None` deletes it.
pub(crate) type Change = (NodeIx, RuleKey, Option<DesiredRule>);

/// Rules of several switches that are replaced as a whole.
pub(crate) type RuleSet = BTreeMap<(NodeIx, RuleKey), DesiredRule>;

#[derive(Debug)]
pub(crate) struct Updater {
    pub(crate) compiler: Compiler,
    pub(crate) switches: BTreeMap<NodeIx, Installer>,
    /// Switches that may need messages.
    touched: BTreeSet<NodeIx>,
    /// Switches that were touched since [`Updater::take_changed`], apart from those that still are.
    dispatched: BTreeSet<NodeIx>,
    /// Switches that were not at rest when they were last touched ([`Installer::is_at_rest`]).
    busy: BTreeSet<NodeIx>,
    audits: Audits,
}

impl Updater {
    pub(crate) fn new(owner: u16) -> Updater {
        Updater {
            compiler: Compiler { owner },
            switches: BTreeMap::new(),
            touched: BTreeSet::new(),
            dispatched: BTreeSet::new(),
            busy: BTreeSet::new(),
            audits: Audits::default(),
        }
    }
    /// Returns the installer of a switch. A new switch is assumed to be empty.
    pub(crate) fn switch(&mut self, node: NodeIx) -> &mut Installer {
        self.touched.insert(node);
        self.switches.entry(node).or_insert_with(|| Installer::new(self.compiler.owner))
    }
    pub(crate) fn set(&mut self, (node, key, wanted): Change) {
        self.switch(node).set(key, wanted);
    }
    /// Replaces rules of the desired state, as a whole, by others.
    pub(crate) fn replace(&mut self, rules: &mut RuleSet, wanted: RuleSet) {
        let before = std::mem::replace(rules, wanted);
        for (node, key) in before.keys().filter(|place| !rules.contains_key(place)) {
            self.set((*node, *key, None));
        }
        for ((node, key), rule) in rules.iter().filter(|(place, rule)| before.get(place) != Some(rule)) {
            self.set((*node, *key, Some(rule.clone())));
        }
    }
    pub(crate) fn ticket(&self, node: NodeIx) -> u64 {
        self.switches.get(&node).map_or(0, Installer::ticket)
    }
    pub(crate) fn unconfirmed(&self, now: Time) -> BTreeSet<NodeIx> {
        self.active().filter(|node| self.switches[node].is_unconfirmed(now)).collect()
    }
    /// Returns when the next audit is due.
    pub(crate) fn next_audit(&self) -> Option<Time> {
        self.audits.next_due()
    }
    /// Returns when the next switch becomes unconfirmed because a barrier reply is late.
    pub(crate) fn next_late(&self, now: Time) -> Option<Time> {
        self.active().filter_map(|node| self.switches[&node].late_from()).filter(|at| *at > now).min()
    }
    /// Returns the switches that may not be at rest. With 1,000 switches they are few at any time.
    fn active(&self) -> impl Iterator<Item = NodeIx> {
        self.busy.union(&self.touched).copied()
    }
    /// Returns the switches whose desired or installed state may have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<NodeIx> {
        let mut changed = std::mem::take(&mut self.dispatched);
        changed.extend(&self.touched);
        changed
    }
    pub(crate) fn tickets(&self) -> BTreeMap<NodeIx, u64> {
        self.switches.iter().map(|(node, switch)| (*node, switch.ticket())).collect()
    }
    /// Returns the tickets of the switches whose desired state has changed.
    pub(crate) fn tickets_since(&self, before: &BTreeMap<NodeIx, u64>) -> Vec<(NodeIx, u64)> {
        self.tickets().into_iter().filter(|(node, ticket)| before.get(node) != Some(ticket)).collect()
    }
    pub(crate) fn is_confirmed(&self, node: NodeIx, ticket: u64) -> bool {
        self.switches.get(&node).is_none_or(|switch| switch.is_confirmed(ticket))
    }

    /// Returns whether a switch has changes to send or to confirm, and can get them.
    pub(crate) fn is_busy(&self, node: NodeIx) -> bool {
        self.switches.get(&node).is_some_and(|switch| !switch.is_silenced() && !switch.is_settled())
    }

    /// Adds the rules that every switch has.
    pub(crate) fn add_common_rules(&mut self, node: NodeIx) {
        for (key, rule) in self.compiler.always() {
            self.set((node, key, Some(rule)));
        }
    }
    pub(crate) fn is_settled(&self) -> bool {
        self.switches.values().all(Installer::is_settled)
    }

    /// Handles the loss of a switch's connection.
    pub(crate) fn switch_lost(&mut self, node: NodeIx) {
        self.switch(node).offline();
        self.audits.forget(node);
    }

    /// Compares the rules of a switch with the desired ones. Returns whether it has own rules that
    /// are not desired.
    pub(crate) fn switch_ready(&mut self, config: &Config, node: NodeIx, read_back: &ReadBack) -> bool {
        let manufacturer = read_back.manufacturer.as_deref();
        let switch = self.switch(node);
        switch.datapath = Some(read_back.datapath);
        let method = match read_back.lacks_groups {
            true => HashingMethod::Single(read_back.datapath),
            false => HashingMethod::of(config.ecmp_hashing, read_back.datapath, manufacturer),
        };
        switch.set_hashing_method(method);
        switch.takes_tcp_flags = config.uses_extensions && manufacturer == Some(OPEN_VSWITCH);
        switch.reconcile(&read_back.rules, &read_back.groups, read_back.is_partial)
    }

    /// Returns whether foreign rules occupy the match and priority of any of these rules.
    pub(crate) fn is_any_occupied(&self, node: Option<NodeIx>, entries: &[Entry]) -> bool {
        let switch = node.and_then(|node| self.switches.get(&node));
        switch.is_some_and(|switch| entries.iter().any(|(key, _)| switch.foreign.contains(key)))
    }

    /// Handles the rejection of a rule or group. Returns what it was, unless the message was
    /// of another kind.
    pub(crate) fn refused(&mut self, node: NodeIx, xid: Xid, error: ErrorKind) -> Option<Refusal> {
        self.switch(node).refused(xid, error)
    }

    /// Sends missing changes to switches, as far as their windows of unconfirmed batches allow, until
    /// many messages wait for the driver; the next call goes on. Returns whether the desired or
    /// installed state of any switch may have changed.
    pub(crate) fn dispatch(
        &mut self,
        now: Time,
        channels: &mut Channels,
        datapath_of: impl Fn(NodeIx) -> Option<DatapathId>,
    ) -> bool {
        let is_any_touched = !self.touched.is_empty();
        while channels.output_count() < OUTPUTS_MAX
            && let Some(node) = self.touched.pop_first()
        {
            self.dispatched.insert(node);
            let switch = self.switches.get_mut(&node).expect("a switch that was touched");
            let datapath = datapath_of(node);
            let connection = datapath.and_then(|datapath| Some((datapath, channels.connection_of(datapath)?)));
            while let Some(connection) = connection {
                let items = order::next_batch(switch, self.compiler.owner);
                if items.is_empty() {
                    break;
                }
                send_batch(now, channels, connection, switch, items);
            }
            switch.confirm_unsent();
            match switch.is_at_rest() {
                true => self.busy.remove(&node),
                false => self.busy.insert(node),
            };
        }
        is_any_touched
    }
}

fn send_batch(
    now: Time,
    channels: &mut Channels,
    (datapath, connection): (DatapathId, ConnectionId),
    switch: &mut Installer,
    items: Vec<Item>,
) {
    let last = items.len() - 1;
    for (position, item) in items.into_iter().enumerate() {
        match item {
            Item::Change(message, sent) => {
                match &message {
                    Message::GroupMod(_) => channels.tally.group_mods += 1,
                    _ => channels.tally.flow_mods += 1,
                }
                let xid = channels.send(connection, message).expect("a connected switch has a session");
                switch.sent.insert(xid, sent);
            }
            Item::Barrier => {
                let xid = channels.send(connection, Message::BarrierRequest).expect("a connected switch has a session");
                switch.barrier_sent(now, xid, position == last);
            }
            Item::Occupied(key, error) => {
                let message = format!(
                    "the rule of table {} with priority {} cannot be installed: a rule of another controller has \
                     its match and priority, or its group was rejected",
                    key.table.0, key.priority.0
                );
                channels.event(Event::SwitchError { datapath, error, message });
            }
        }
    }
}

#[cfg(test)]
mod tests;
