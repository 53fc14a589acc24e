//! Changes since the last decision, in the order of occurrence.
//!
//! Parts record changes while they handle input. The controller takes them when the driver polls for
//! output, so simultaneous events cause one decision.

use std::collections::VecDeque;

use balance::central::{DecisionTrigger, FlowId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// Links or the liveness of links and hosts have changed.
    Network,
    /// Hosts were found, have moved, or have left.
    Hosts,
    /// Ports may have changed their role.
    Ports,
    /// A switch has connected or disconnected: links may expire at other times.
    Switches,
    FlowStarted(FlowId),
    FlowEnded(FlowId),
    PeriodElapsed,
}

impl Change {
    fn is_state(self) -> bool {
        !matches!(self, Change::FlowStarted(_) | Change::FlowEnded(_) | Change::PeriodElapsed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ChangeQueue(VecDeque<Change>);

/// The kinds of state that have changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChangedState {
    pub(crate) network: bool,
    pub(crate) hosts: bool,
    pub(crate) ports: bool,
    pub(crate) switches: bool,
}

impl ChangeQueue {
    pub(crate) fn push(&mut self, change: Change) {
        // A burst of port-status messages would otherwise fill the queue with one change.
        if !change.is_state() || self.0.back() != Some(&change) {
            self.0.push_back(change);
        }
    }
    pub(crate) fn push_if(&mut self, has_changed: bool, change: Change) {
        if has_changed {
            self.push(change);
        }
    }
    /// Removes and returns the changes. Starts and ends of flows and periods stay, in their order.
    pub(crate) fn take_changes(&mut self) -> ChangedState {
        let mut changes = ChangedState::default();
        self.0.retain(|change| {
            match change {
                Change::Network => changes.network = true,
                Change::Hosts => changes.hosts = true,
                Change::Ports => changes.ports = true,
                Change::Switches => changes.switches = true,
                Change::FlowStarted(_) | Change::FlowEnded(_) | Change::PeriodElapsed => return true,
            }
            false
        });
        changes
    }
    /// Removes and returns the next change that triggers the balancer.
    pub(crate) fn next_trigger(&mut self) -> Option<DecisionTrigger> {
        let position = self.0.iter().position(|change| !change.is_state())?;
        match self.0.remove(position)? {
            Change::FlowStarted(flow) => Some(DecisionTrigger::FlowStarted(flow)),
            Change::FlowEnded(flow) => Some(DecisionTrigger::FlowEnded(flow)),
            _ => Some(DecisionTrigger::PeriodElapsed),
        }
    }
    /// Forgets the changes that would trigger the balancer.
    pub(crate) fn forget_triggers(&mut self) {
        self.0.retain(|change| change.is_state());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_taken_once_and_triggers_keep_their_order() {
        let mut changes = ChangeQueue::default();
        let flow = FlowId(3);
        for change in [Change::FlowStarted(flow), Change::Ports, Change::Ports, Change::FlowEnded(flow)] {
            changes.push(change);
        }
        assert_eq!(changes.take_changes(), ChangedState { ports: true, ..ChangedState::default() });
        assert_eq!(changes.take_changes(), ChangedState::default());
        assert_eq!(changes.next_trigger(), Some(DecisionTrigger::FlowStarted(flow)));
        assert_eq!(changes.next_trigger(), Some(DecisionTrigger::FlowEnded(flow)));
        assert_eq!(changes.next_trigger(), None);
    }
}
