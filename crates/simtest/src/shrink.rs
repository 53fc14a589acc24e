//! Reduction of failing simulations: all parts that the failure does not need are left out.

use std::collections::BTreeSet;

use crate::plan::Plan;
use crate::reduction::Reduction;
use crate::report::Failure;
use crate::{Mutant, run_plan};

#[derive(Clone, Debug)]
pub struct Shrunk {
    pub reduction: Reduction,
    pub failure: Failure,
    pub runs: u32,
}

/// Leaves out half the time, actions, hosts and switches as long as the same oracle fails, in at
/// most `runs_max` simulations. `go_on` is called before each.
pub fn shrink(
    plan: &Plan,
    start: &Reduction,
    mutant: Option<Mutant>,
    failure: &Failure,
    runs_max: u32,
    mut go_on: impl FnMut() -> bool,
) -> Shrunk {
    let mut best = Shrunk { reduction: start.clone(), failure: failure.clone(), runs: 0 };
    let mut fails = |best: &mut Shrunk, reduction: Reduction| {
        if best.runs >= runs_max || !go_on() {
            return false;
        }
        best.runs += 1;
        match run_plan(plan, &reduction, mutant) {
            Err(failure) if failure.oracle == best.failure.oracle => {
                (best.reduction, best.failure) = (reduction, failure);
                true
            }
            _ => false,
        }
    };
    while best.reduction.halvings < 6 {
        let reduction = Reduction { halvings: best.reduction.halvings + 1, ..best.reduction.clone() };
        if !fails(&mut best, reduction) {
            break;
        }
    }
    let reduction = Reduction { is_without_services: true, ..best.reduction.clone() };
    fails(&mut best, reduction);
    leave_out_actions(plan, &mut best, &mut fails);
    for host in 0..plan.wiring.hosts {
        let mut reduction = best.reduction.clone();
        reduction.without_hosts.insert(host);
        fails(&mut best, reduction);
    }
    for switch in 0..plan.wiring.ports.len() {
        let mut reduction = best.reduction.clone();
        reduction.without_switches.insert(switch);
        fails(&mut best, reduction);
    }
    best
}

/// Leaves out actions, first in large pieces, then one by one (delta debugging).
fn leave_out_actions(plan: &Plan, best: &mut Shrunk, fails: &mut impl FnMut(&mut Shrunk, Reduction) -> bool) {
    let mut piece = plan.actions.len().div_ceil(2).max(1);
    loop {
        let left: Vec<u32> = best.reduction.apply(plan).actions.iter().map(|action| action.number).collect();
        let mut kept: BTreeSet<u32> = left.iter().copied().collect();
        for numbers in left.chunks(piece) {
            let fewer: BTreeSet<u32> = kept.iter().copied().filter(|number| !numbers.contains(number)).collect();
            let reduction = Reduction { keep: Some(fewer.clone()), ..best.reduction.clone() };
            if fails(best, reduction) {
                kept = fewer;
            }
        }
        if piece == 1 {
            return;
        }
        piece = piece.div_ceil(2);
    }
}
