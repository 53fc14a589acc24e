//! Rules that stay bundles when one next hop is left.

use std::sync::Arc;

use openflow::{Action, Bucket, Instructions};

use super::{DesiredRule, Installer, Rule, RuleKey};
use crate::updater::ecmp_hashing::HashingMethod;

impl Installer {
    /// Returns a rule to one next hop as a bundle of one, if it replaces a bundle.
    ///
    /// Flows in the cache of Open vSwitch's user-space datapath (3.1.0) that a bundle made match the
    /// ports of a connection; those that an output makes do not. When an output replaced the bundle, some
    /// hundred of the older flows kept leading to the lost next hop for as long as packets came
    /// (`ovs-appctl dpctl/dump-flows`, in 2 of 4 runs of a service test; in none of 12 with a bundle).
    /// Presumably the datapath looks up the flow that it must change by a packet, and finds a newer one.
    pub(super) fn stay_divided(&self, key: &RuleKey, wanted: DesiredRule) -> DesiredRule {
        let is_bundle = matches!(self.hashing_method, HashingMethod::Bundle(_)) && self.has_bundle(key);
        match (&wanted.instructions.apply[..], &wanted.group) {
            ([Action::Output { port, .. }], None) if is_bundle => {
                let group = Some([Bucket::watching(*port, 1)].into());
                let instructions = Instructions { apply: Vec::new(), ..wanted.instructions };
                DesiredRule { group, instructions, ..wanted }
            }
            _ => wanted,
        }
    }

    /// Applies [`Installer::stay_divided`] to desired rules after a table read-back.
    pub(super) fn keep_bundles(&mut self) {
        let is_output = |rule: &Rule| matches!(rule.instructions.apply[..], [Action::Output { .. }]);
        let outputs = self.desired.iter().filter(|(key, rule)| is_output(rule) && self.has_bundle(key));
        let outputs: Vec<(RuleKey, Arc<Rule>)> = outputs.map(|(key, rule)| (key, rule.clone())).collect();
        for (key, rule) in outputs {
            let Rule { cookie, idle_timeout_s, ref instructions, .. } = *rule;
            let wanted = DesiredRule { cookie, idle_timeout_s, instructions: instructions.clone(), group: None };
            self.set(key, Some(wanted));
        }
    }

    fn has_bundle(&self, key: &RuleKey) -> bool {
        let installed = self.installed.get(key);
        installed.is_some_and(|rule| matches!(rule.instructions.apply[..], [Action::Bundle(_)]))
    }
}
