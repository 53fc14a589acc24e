//! Generation of disruptions and of limited switches. Separate streams draw them, so that the other
//! parts of a plan do not depend on them.

use net::{RandomStream, Time};

use super::{Disruption, Tampering};
use crate::generate::{between, chance, magnitude, pick, stream};
use crate::plan::{Action, ActionKind, Attack, End, Plan};

/// The time a new instance needs until it is master everywhere, and longer.
const RIVAL_MIN: Time = Time::from_s(3);

/// Draws disruptions into half of the plans.
pub(crate) fn draw(plan: &Plan) -> Vec<Action> {
    let mut rng = stream(plan.seed, "disruptions");
    if chance(&mut rng, 50) {
        return Vec::new();
    }
    let kinds: Vec<u64> = (0..4).filter(|_| chance(&mut rng, 50)).collect();
    let mut actions: Vec<Action> = Vec::new();
    let mut at = between(&mut rng, Time::from_s(1), Time::from_s(8));
    while at < plan.faults_end_at && !kinds.is_empty() {
        let (what, lasts) = match *pick(&mut rng, &kinds) {
            0 => (tampering(plan, &mut rng), Time::from_ms(1)),
            1 => impostor(plan, &mut rng, &mut at),
            2 => (Disruption::Rival, between(&mut rng, RIVAL_MIN, RIVAL_MIN * 4)),
            _ => (Disruption::Pause, magnitude(&mut rng, Time::from_ms(50), Time::from_s(20))),
        };
        let action =
            Action { number: 0, at, until: (at + lasts).min(plan.faults_end_at), what: ActionKind::Disruption(what) };
        if at < plan.faults_end_at && is_possible(plan, &actions, &action) {
            actions.push(action);
        }
        at += between(&mut rng, Time::from_ms(500), Time::from_s(10));
    }
    actions
}

/// Returns whether a disruption may happen at this time. Instances of the controller take over from
/// each other, so no third one starts while a second one runs; nor does one start in a pause. An
/// instance that starts later does not know which host had an address first: a host that claims the
/// address of another one, which is not pinned, may win.
fn is_possible(plan: &Plan, drawn: &[Action], action: &Action) -> bool {
    let overlaps = |other: &Action| other.at <= action.until + RIVAL_MIN && action.at <= other.until + RIVAL_MIN;
    let is_instance = |other: &Action| matches!(other.what, ActionKind::Restart);
    let is_process =
        |other: &Action| matches!(other.what, ActionKind::Disruption(Disruption::Rival | Disruption::Pause));
    let is_claim = |other: &Action| matches!(other.what, ActionKind::Attack { attack: Attack::Claims { .. }, .. });
    // So may one that claims it while the switch has lost the rules by which its host would reply.
    let is_silenced = |other: &Action| match (&action.what, &other.what) {
        (
            ActionKind::Disruption(Disruption::Tamper { switch, .. }),
            ActionKind::Attack { attack: Attack::Claims { victim }, .. },
        ) => matches!(plan.wiring.cables[*victim].ends[1], End::Switch(at, _) if at == *switch),
        _ => false,
    };
    let is_second = matches!(action.what, ActionKind::Disruption(Disruption::Rival));
    // So may one that claims it before a paused controller has seen its host.
    let is_pause = matches!(action.what, ActionKind::Disruption(Disruption::Pause));
    let may_win =
        |other: &Action| (is_claim(other) && (is_second || (is_pause && overlaps(other)))) || is_silenced(other);
    if !plan.control.pins_hosts && plan.actions.iter().any(may_win) {
        return false;
    }
    !is_process(action)
        || !(plan.actions.iter().any(|other| is_instance(other) && overlaps(other))
            || drawn.iter().any(|other| is_process(other) && overlaps(other)))
}

fn switch(plan: &Plan, rng: &mut RandomStream) -> usize {
    rng.next_below(plan.wiring.ports.len() as u64) as usize
}

fn tampering(plan: &Plan, rng: &mut RandomStream) -> Disruption {
    let tampering = *pick(rng, Tampering::ALL);
    Disruption::Tamper { switch: switch(plan, rng), tampering, seed: rng.next_u64() }
}

/// Draws a peer with the datapath id of any switch, or of one that is disconnected then.
fn impostor(plan: &Plan, rng: &mut RandomStream, at: &mut Time) -> (Disruption, Time) {
    let lasts = magnitude(rng, Time::from_ms(10), Time::from_s(6));
    let absences: Vec<(Time, usize)> = plan.actions.iter().filter_map(|action| absence(action, *at)).collect();
    if chance(rng, 50) && !absences.is_empty() {
        let (begins, switch) = *pick(rng, &absences);
        *at = begins + between(rng, Time::from_us(1), Time::from_s(1));
        return (Disruption::Impostor { switch }, lasts);
    }
    (Disruption::Impostor { switch: switch(plan, rng) }, lasts)
}

/// Returns when a switch is disconnected next, after `since`.
fn absence(action: &Action, since: Time) -> Option<(Time, usize)> {
    match action.what {
        ActionKind::Break { switch, .. } | ActionKind::SwitchOff { switch, .. } if action.at > since => {
            Some((action.at, switch))
        }
        _ => None,
    }
}

/// Draws switches with fewer features or less room than others, in a third of the plans.
pub(crate) fn limit_switches(plan: &mut Plan) {
    let mut rng = stream(plan.seed, "limits");
    if !chance(&mut rng, 33) {
        return;
    }
    let has_small_tables = chance(&mut rng, 25);
    let hosts = plan.wiring.hosts as u64;
    for traits in &mut plan.switches {
        let mut config = traits.config.clone();
        match rng.next_below(4) {
            0 => config.support.groups = false,
            1 => config.max_groups = rng.next_below(3) as u32,
            _ => {}
        }
        config.support.aggregate = chance(&mut rng, 70);
        config.support.features = chance(&mut rng, 70);
        config.support.flow_monitors = config.supports_tcp_flags && chance(&mut rng, 60);
        if has_small_tables && chance(&mut rng, 50) {
            config.max_entries = (6 + hosts + rng.next_below(2 * hosts + 8)) as u32;
        }
        traits.limited = Some(config);
    }
}
