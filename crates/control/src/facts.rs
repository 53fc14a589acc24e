//! Facts: what has changed since the last decision, in the order of occurrence.
//!
//! Parts record facts while they handle input. The controller takes them when the driver polls for
//! output, so simultaneous events cause one decision.

use std::collections::VecDeque;

use balance::central::{DecisionTrigger, FlowId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fact {
    /// Links or the liveness of links and hosts have changed.
    NetworkChanged,
    /// Hosts were found, have moved, or have left.
    HostsChanged,
    /// Ports may have changed their role.
    PortsChanged,
    /// A switch has connected or disconnected: links may expire at other times.
    SwitchesChanged,
    FlowStarted(FlowId),
    FlowEnded(FlowId),
    PeriodElapsed,
}

impl Fact {
    fn is_change(self) -> bool {
        !matches!(self, Fact::FlowStarted(_) | Fact::FlowEnded(_) | Fact::PeriodElapsed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Facts(VecDeque<Fact>);

/// The kinds of changes among the facts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) network: bool,
    pub(crate) hosts: bool,
    pub(crate) ports: bool,
    pub(crate) switches: bool,
}

impl Facts {
    pub(crate) fn push(&mut self, fact: Fact) {
        // A burst of port-status messages would otherwise fill the queue with one fact.
        if !fact.is_change() || self.0.back() != Some(&fact) {
            self.0.push_back(fact);
        }
    }
    pub(crate) fn push_if(&mut self, has_changed: bool, fact: Fact) {
        if has_changed {
            self.push(fact);
        }
    }
    /// Removes and returns the changes. Facts about flows and time stay, in their order.
    pub(crate) fn take_changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        self.0.retain(|fact| {
            match fact {
                Fact::NetworkChanged => changes.network = true,
                Fact::HostsChanged => changes.hosts = true,
                Fact::PortsChanged => changes.ports = true,
                Fact::SwitchesChanged => changes.switches = true,
                Fact::FlowStarted(_) | Fact::FlowEnded(_) | Fact::PeriodElapsed => return true,
            }
            false
        });
        changes
    }
    /// Removes and returns the next fact that triggers the balancer.
    pub(crate) fn next_trigger(&mut self) -> Option<DecisionTrigger> {
        let position = self.0.iter().position(|fact| !fact.is_change())?;
        match self.0.remove(position)? {
            Fact::FlowStarted(flow) => Some(DecisionTrigger::FlowStarted(flow)),
            Fact::FlowEnded(flow) => Some(DecisionTrigger::FlowEnded(flow)),
            _ => Some(DecisionTrigger::PeriodElapsed),
        }
    }
    /// Forgets the facts that would trigger the balancer.
    pub(crate) fn forget_triggers(&mut self) {
        self.0.retain(|fact| fact.is_change());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_taken_once_and_triggers_keep_their_order() {
        let mut facts = Facts::default();
        let flow = FlowId(3);
        for fact in [Fact::FlowStarted(flow), Fact::PortsChanged, Fact::PortsChanged, Fact::FlowEnded(flow)] {
            facts.push(fact);
        }
        assert_eq!(facts.take_changes(), Changes { ports: true, ..Changes::default() });
        assert_eq!(facts.take_changes(), Changes::default());
        assert_eq!(facts.next_trigger(), Some(DecisionTrigger::FlowStarted(flow)));
        assert_eq!(facts.next_trigger(), Some(DecisionTrigger::FlowEnded(flow)));
        assert_eq!(facts.next_trigger(), None);
    }
}
