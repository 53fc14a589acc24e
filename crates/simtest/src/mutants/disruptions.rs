//! Mutants that disruptions and limited switches reveal.

use net::Time;
use openflow::{Action, FlowMod, FlowModCommand, FlowStats, Instructions, Message, MultipartReply, PortNo};

use crate::mutants::{Effect, Mutant};
use crate::oracle::disruptions::DEFAULT_ROUTES;
use crate::plan::End;
use crate::simulation::{Simulation, datapath_of};

/// When timers become due without end.
const LIVELOCK_AT: Time = Time::from_s(10);

impl Simulation {
    /// Applies the mutant to a change for a switch.
    pub(super) fn limit_effect(&self, mutant: Mutant, switch: usize, message: &Message) -> Effect {
        let Message::FlowMod(rule) = message else { return Effect::None };
        let state = &self.switches[switch];
        let is_lost = match mutant {
            Mutant::EvictsNever => {
                state.full_at.is_some()
                    && rule.command == FlowModCommand::DeleteStrict
                    && DEFAULT_ROUTES.contains(&rule.priority)
            }
            Mutant::RefusedGroupDropsRule => {
                let has_groups = state.config.support.groups && state.config.max_groups > 0;
                !has_groups && rule.command == FlowModCommand::Add && self.has_choice(switch, rule)
            }
            _ => false,
        };
        if is_lost { Effect::Drop } else { Effect::None }
    }

    /// Returns whether a rule leads to another switch from one that has links to several.
    fn has_choice(&self, switch: usize, rule: &FlowMod) -> bool {
        let plugs = &self.switches[switch].plugs;
        let is_link = |plug: &Option<(usize, usize)>| {
            plug.is_some_and(|(cable, side)| matches!(self.cables[cable].ends[1 - side], End::Switch(..)))
        };
        let leaves = |action: &Action| match action {
            Action::Output { port: PortNo(port), .. } => {
                (*port as usize).checked_sub(1).and_then(|at| plugs.get(at)).is_some_and(is_link)
            }
            _ => false,
        };
        DEFAULT_ROUTES.contains(&rule.priority)
            && rule.instructions.apply.iter().any(leaves)
            && plugs.iter().filter(|plug| is_link(plug)).count() > 1
    }

    /// Changes a reply to an audit so that changed rules look like desired ones.
    pub(super) fn hide_changes(&self, switch: usize, message: &mut Message) {
        let Message::MultipartReply { reply: MultipartReply::Flow(rules), .. } = message else { return };
        let Some(controller) = &self.controller else { return };
        let desired = controller.inspect().desired_entries(datapath_of(switch));
        let key = |rule: &FlowStats| (rule.table, rule.priority, rule.match_);
        for rule in rules.iter_mut().filter(|rule| rule.instructions == Instructions::default()) {
            if let Some(same) = desired.iter().find(|one| key(one) == key(rule)) {
                rule.instructions = same.instructions.clone();
            }
        }
    }

    /// Returns when the controller's next timer is due, with the mutant.
    pub(crate) fn mutate_timer(&self, next: Time) -> Time {
        let is_stuck = self.injector.mutant == Some(Mutant::Livelock) && self.now > LIVELOCK_AT;
        if is_stuck { self.now } else { next }
    }
}
