//! Reduced plans: the same simulation without some of its actions.

use std::collections::BTreeSet;

use net::{Addressing, Time};

use crate::plan::{Action, ActionKind, Attack, Plan};

/// The removed parts of a plan; the default removes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reduction {
    /// The numbers of the remaining actions; `None` for all.
    pub keep: Option<BTreeSet<u32>>,
    /// Hosts that never exist.
    pub without_hosts: BTreeSet<usize>,
    /// Switches that never exist.
    pub without_switches: BTreeSet<usize>,
    /// Halvings of the time until the faults end. Actions that start later are removed, and others
    /// end then.
    pub halvings: u32,
    pub is_without_services: bool,
    /// Without [`crate::Disruption`]s and limits of switches.
    pub is_without_disruptions: bool,
}

impl Reduction {
    /// Returns the reduction without faults of the network: flows, clients and changes of services
    /// remain. Faults exempt so much of the fate of connections that some violations are only found
    /// without them.
    pub fn without_faults(plan: &Plan) -> Reduction {
        let is_fault = |action: &&Action| {
            !matches!(action.what, ActionKind::Flow { .. } | ActionKind::Client { .. } | ActionKind::Services { .. })
        };
        let keep = plan.actions.iter().filter(|action| !is_fault(action)).map(|action| action.number).collect();
        Reduction { keep: Some(keep), ..Reduction::default() }
    }

    pub fn apply(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        plan.faults_end_at = Time::from_ps(plan.faults_end_at.as_ps() >> self.halvings.min(63));
        let faults_end_at = plan.faults_end_at;
        if self.is_without_services {
            plan.control.addressing = Addressing::Flat;
            plan.services.clear();
        }
        if self.is_without_disruptions {
            plan.switches.iter_mut().for_each(|switch| switch.limited = None);
        }
        plan.actions.retain(|action| self.is_kept(action, faults_end_at));
        for action in plan.actions.iter_mut().filter(|action| action.until != Time::MAX) {
            action.until = action.until.min(faults_end_at);
        }
        plan
    }

    fn is_kept(&self, action: &Action, faults_end_at: Time) -> bool {
        let host = |host: &usize| !self.without_hosts.contains(host);
        let switch = |switch: &usize| !self.without_switches.contains(switch);
        let is_there = match &action.what {
            ActionKind::Flow { from, to, .. } => host(from) && host(to),
            ActionKind::SwitchOff { switch: at, .. }
            | ActionKind::Stall { switch: at }
            | ActionKind::Break { switch: at, .. }
            | ActionKind::Foreign { switch: at, .. }
            | ActionKind::Slow { switch: at, .. } => switch(at),
            ActionKind::Move { host: who, switch: at, .. } => host(who) && switch(at),
            ActionKind::Attack { host: at, attack, .. } => {
                host(at)
                    && match attack {
                        Attack::Relay { with: other } | Attack::Claims { victim: other } => host(other),
                        Attack::ForgedProbes | Attack::ReplayedProbes | Attack::Flood => true,
                    }
            }
            ActionKind::Cut { .. } | ActionKind::Restart => true,
            ActionKind::Client { from, .. } => host(from) && !self.is_without_services,
            ActionKind::ServerDown { host: at } => host(at) && !self.is_without_services,
            ActionKind::Services { .. } => !self.is_without_services,
            ActionKind::Disruption(what) => !self.is_without_disruptions && what.switch().as_ref().is_none_or(switch),
        };
        is_there && action.at < faults_end_at && self.keep.as_ref().is_none_or(|keep| keep.contains(&action.number))
    }

    /// Returns the options of the command that repeats the reduced simulation.
    pub fn options(&self) -> String {
        let mut text = String::new();
        let mut list = |name: &str, numbers: Vec<String>| {
            if !numbers.is_empty() {
                text += &format!(" --{name} {}", numbers.join(","));
            }
        };
        if let Some(keep) = &self.keep {
            // An empty list would be read as no option.
            let numbers: Vec<String> = keep.iter().map(u32::to_string).collect();
            list("actions", if numbers.is_empty() { vec!["none".to_owned()] } else { numbers });
        }
        list("without-hosts", self.without_hosts.iter().map(usize::to_string).collect());
        list("without-switches", self.without_switches.iter().map(usize::to_string).collect());
        if self.halvings > 0 {
            list("halve-duration", vec![self.halvings.to_string()]);
        }
        if self.is_without_services {
            text += " --without-services";
        }
        if self.is_without_disruptions {
            text += " --without-disruptions";
        }
        text
    }
}
