//! Storms cut back: the same without some of what happens in them.

use std::collections::BTreeSet;

use net::Time;

use crate::plan::{Action, Plan, What};

/// What is left of a plan when some of it is taken away; the default takes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cutback {
    /// Only these actions, by number; `None` for all.
    pub keep: Option<BTreeSet<u32>>,
    /// Hosts that are never there.
    pub without_hosts: BTreeSet<usize>,
    /// Switches that are never there.
    pub without_switches: BTreeSet<usize>,
    /// Only actions that begin before calm divided by two to this power; all end at most then.
    pub halvings: u32,
    /// Without virtual services, and their clients.
    pub is_without_services: bool,
}

impl Cutback {
    /// Takes away all that fails or changes in the network: what is left are flows, clients, and services that change. Faults excuse
    /// so much of what becomes of connections that a controller is held to the rest best without them.
    pub fn without_faults(plan: &Plan) -> Cutback {
        let is_fault =
            |action: &&Action| !matches!(action.what, What::Flow { .. } | What::Client { .. } | What::Services { .. });
        let keep = plan.actions.iter().filter(|action| !is_fault(action)).map(|action| action.number).collect();
        Cutback { keep: Some(keep), ..Cutback::default() }
    }

    /// The plan without what is taken away.
    pub fn apply(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        plan.calm_at = Time::from_ps(plan.calm_at.as_ps() >> self.halvings.min(63));
        let calm_at = plan.calm_at;
        if self.is_without_services {
            plan.services.clear();
        }
        plan.actions.retain(|action| self.is_kept(action, calm_at));
        for action in plan.actions.iter_mut().filter(|action| action.until != Time::MAX) {
            action.until = action.until.min(calm_at);
        }
        plan
    }

    fn is_kept(&self, action: &Action, calm_at: Time) -> bool {
        let host = |host: &usize| !self.without_hosts.contains(host);
        let switch = |switch: &usize| !self.without_switches.contains(switch);
        let is_there = match &action.what {
            What::Flow { from, to, .. } => host(from) && host(to),
            What::SwitchOff { switch: at, .. }
            | What::Stall { switch: at }
            | What::Break { switch: at, .. }
            | What::Foreign { switch: at, .. }
            | What::Slow { switch: at, .. } => switch(at),
            What::Move { host: who, switch: at, .. } => host(who) && switch(at),
            What::Cut { .. } | What::Restart => true,
            What::Client { from, .. } => host(from) && !self.is_without_services,
            What::ServerDown { host: at } => host(at) && !self.is_without_services,
            What::Services { .. } => !self.is_without_services,
        };
        is_there && action.at < calm_at && self.keep.as_ref().is_none_or(|keep| keep.contains(&action.number))
    }

    /// Options of the command that repeats a storm cut back like this.
    pub fn options(&self) -> String {
        let mut text = String::new();
        let mut list = |name: &str, numbers: Vec<String>| {
            if !numbers.is_empty() {
                text += &format!(" --{name} {}", numbers.join(","));
            }
        };
        if let Some(keep) = &self.keep {
            // An empty list would be no list.
            let numbers: Vec<String> = keep.iter().map(u32::to_string).collect();
            list("keep", if numbers.is_empty() { vec!["none".to_owned()] } else { numbers });
        }
        list("without-hosts", self.without_hosts.iter().map(usize::to_string).collect());
        list("without-switches", self.without_switches.iter().map(usize::to_string).collect());
        if self.halvings > 0 {
            list("halvings", vec![self.halvings.to_string()]);
        }
        if self.is_without_services {
            text += " --without-services";
        }
        text
    }
}
