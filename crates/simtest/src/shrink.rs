//! A failing storm made smaller: what can be left out while the same oracle still fails is left out.

use std::collections::BTreeSet;

use crate::cutback::Cutback;
use crate::plan::Plan;
use crate::report::Failure;
use crate::{Sabotage, storm_of};

/// A failing storm, made smaller.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// What is left out.
    pub cutback: Cutback,
    /// How it fails now.
    pub failure: Failure,
    /// Storms run for it.
    pub runs: u32,
}

/// Leaves out half the time, actions, hosts and switches as long as the same oracle fails, in at most `runs_max` storms;
/// `go_on` is asked before each.
pub fn shrink(
    plan: &Plan,
    start: &Cutback,
    sabotage: Option<Sabotage>,
    failure: &Failure,
    runs_max: u32,
    mut go_on: impl FnMut() -> bool,
) -> Shrunk {
    let mut best = Shrunk { cutback: start.clone(), failure: failure.clone(), runs: 0 };
    let mut fails = |best: &mut Shrunk, cutback: Cutback| {
        if best.runs >= runs_max || !go_on() {
            return false;
        }
        best.runs += 1;
        match storm_of(plan, &cutback, sabotage) {
            Err(failure) if failure.oracle == best.failure.oracle => {
                (best.cutback, best.failure) = (cutback, failure);
                true
            }
            _ => false,
        }
    };
    while best.cutback.halvings < 6 {
        let cutback = Cutback { halvings: best.cutback.halvings + 1, ..best.cutback.clone() };
        if !fails(&mut best, cutback) {
            break;
        }
    }
    let cutback = Cutback { is_without_services: true, ..best.cutback.clone() };
    fails(&mut best, cutback);
    leave_out_actions(plan, &mut best, &mut fails);
    for host in 0..plan.wiring.hosts {
        let mut cutback = best.cutback.clone();
        cutback.without_hosts.insert(host);
        fails(&mut best, cutback);
    }
    for switch in 0..plan.wiring.ports.len() {
        let mut cutback = best.cutback.clone();
        cutback.without_switches.insert(switch);
        fails(&mut best, cutback);
    }
    best
}

/// First in large pieces, then one by one (delta debugging).
fn leave_out_actions(plan: &Plan, best: &mut Shrunk, fails: &mut impl FnMut(&mut Shrunk, Cutback) -> bool) {
    let mut piece = plan.actions.len().div_ceil(2).max(1);
    loop {
        let left: Vec<u32> = best.cutback.apply(plan).actions.iter().map(|action| action.number).collect();
        let mut kept: BTreeSet<u32> = left.iter().copied().collect();
        for numbers in left.chunks(piece) {
            let fewer: BTreeSet<u32> = kept.iter().copied().filter(|number| !numbers.contains(number)).collect();
            let cutback = Cutback { keep: Some(fewer.clone()), ..best.cutback.clone() };
            if fails(best, cutback) {
                kept = fewer;
            }
        }
        if piece == 1 {
            return;
        }
        piece = piece.div_ceil(2);
    }
}
