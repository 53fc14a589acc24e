//! Generation of hostile hosts, the roles of ports, and the ageing of hosts. Separate streams draw
//! them, so that the other parts do not depend on them.

use control::{PortRole, PortRoles};
use net::{RandomStream, Time};
use openflow::PortNo;

use crate::bounds::Bounds;
use crate::generate::{between, chance, magnitude, pick, stream};
use crate::plan::{Action, ActionKind, Attack, CutKind, End, Plan};
use crate::simulation::datapath_of;

/// Longest time of a change of a table with which a switch passes on ARP packets in time.
const PROMPT: Time = Time::from_us(100);

/// Draws attacks into a plan, in half of all simulations, and the settings that answer them.
pub(crate) fn draw(plan: &mut Plan) {
    let mut rng = stream(plan.seed, "ageing");
    // Longer than the controller takes to notice that a switch has become silent.
    plan.control.host_idle_timeout = between(&mut rng, Time::from_s(9), Time::from_s(15));
    plan.control.host_port_down_timeout = between(&mut rng, Time::from_s(1), Time::from_s(5));
    let is_moving = |action: &Action| matches!(action.what, ActionKind::Move { .. });
    plan.control.pins_hosts = plan.knows_hosts && !plan.actions.iter().any(is_moving);
    if chance(&mut stream(plan.seed, "roles"), 50) {
        plan.control.port_roles = roles(plan);
    }
    let mut rng = stream(plan.seed, "attacks");
    if plan.wiring.hosts < 3 || chance(&mut rng, 50) {
        return;
    }
    let bounds = Bounds::new(plan);
    let start = bounds.handshake + bounds.host + bounds.react;
    for _ in 0..1 + rng.next_below(3) {
        let at = between(&mut rng, Time::from_s(1), plan.faults_end_at).max(start);
        let until = at + between(&mut rng, Time::from_s(2), Time::from_s(20));
        let interval = magnitude(&mut rng, Time::from_ms(5), Time::from_ms(300));
        let host = rng.next_below(plan.wiring.hosts as u64) as usize;
        let kind = rng.next_below(5);
        if at >= plan.faults_end_at {
            continue;
        }
        if let Some(attack) = attack(plan, &mut rng, kind, host) {
            let what = ActionKind::Attack { host, attack, interval };
            let until = until.min(plan.faults_end_at);
            plan.actions.push(Action { number: 0, at, until, what });
            if let Attack::Claims { victim: cable } = attack
                && plan.control.pins_hosts
            {
                // A pinned host keeps its address while it is unplugged, too.
                let what = ActionKind::Cut { cable, kind: CutKind::Both };
                let plugged_at = (at + between(&mut rng, Time::from_ms(500), Time::from_s(5))).min(until);
                plan.actions.push(Action { number: 0, at, until: plugged_at, what });
            }
        }
    }
}

/// Returns the roles of all ports: those with a cable between switches are for links, and the others
/// for hosts.
fn roles(plan: &Plan) -> PortRoles {
    let is_switch = |end: &End| matches!(end, End::Switch(..));
    let links = plan.wiring.cables.iter().filter(|cable| cable.ends.iter().all(is_switch));
    let ends = links.flat_map(|cable| cable.ends);
    let role = |end| match end {
        End::Switch(switch, port) => Some(((datapath_of(switch), port), PortRole::Link)),
        End::Host(_) => None,
    };
    PortRoles { listed: ends.filter_map(role).collect(), default: PortRole::Host }
}

fn attack(plan: &Plan, rng: &mut RandomStream, kind: u64, host: usize) -> Option<Attack> {
    let others = || (0..plan.wiring.hosts).filter(|other| *other != host);
    match kind {
        0 => Some(Attack::ForgedProbes),
        1 => Some(Attack::ReplayedProbes),
        // Where discovery decides, hosts that relay frames are a cable.
        2 if plan.control.port_roles != PortRoles::default() => {
            let others: Vec<usize> = others().collect();
            Some(Attack::Relay { with: *pick(rng, &others) })
        }
        // A flood may keep out other hosts at the same port, with their servers and clients.
        3 if plan.services.is_empty() => Some(Attack::Flood),
        _ => {
            let victims: Vec<usize> = others().filter(|victim| may_be_claimed(plan, *victim)).collect();
            (!victims.is_empty()).then(|| Attack::Claims { victim: *pick(rng, &victims) })
        }
    }
}

/// Returns whether the controller can protect the address of a host. A pinned host is always
/// protected, and any other one while the controller knows it and it can reply.
fn may_be_claimed(plan: &Plan, host: usize) -> bool {
    if plan.control.pins_hosts {
        return true;
    }
    let End::Switch(at, PortNo(_)) = plan.wiring.cables[host].ends[1] else { return false };
    let is_in_the_way = |action: &Action| match action.what {
        ActionKind::Restart => true,
        ActionKind::Cut { cable, .. } => cable == host,
        ActionKind::Move { host: moved, .. } => moved == host,
        ActionKind::SwitchOff { switch, .. }
        | ActionKind::Stall { switch }
        | ActionKind::Break { switch, .. }
        | ActionKind::Slow { switch, .. } => switch == at,
        _ => false,
    };
    let traits = &plan.switches[at];
    let is_prompt = traits.per_change <= PROMPT && traits.config.packet_in_per_s.is_none();
    is_prompt && !plan.actions.iter().any(is_in_the_way)
}
