//! Random moves: flows are moved between paths at random, to exercise migration (E2.6 of F2).
//!
//! It balances nothing. It tests migration under the same name in the simulator, on emulated
//! networks and on live ones: packets lost or reordered while it runs are the cost of migration
//! alone. It does not compete with the other balancers, and no list contains it
//! ([`crate::registry::TEST_BALANCERS`]).

use net::{RandomStream, Time};

use super::common::{Dag, default_routes, ends};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowId, FlowSource, NetworkView, Path, Pin, Placements,
};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("random-moves", "Random moves")
    .summary("Moves every flow to another path at random times, to test migration.")
    .source("E2.6 of F2")
    .granularity(Granularity::MovableFlow)
    .senses("reports of hosts")
    .params(&[
        Param::duration("period", "50ms").doc("Time between two draws."),
        Param::number("chance", 0.0..=1.0, "0.333").doc("Probability that a flow moves at a draw."),
    ])
    .example("random-moves:period=500ms")
    .central(|_, params| {
        let period = params.duration("period").max(Time::from_ms(1));
        Box::new(RandomMoves { period, chance: params.number("chance") })
    });

struct RandomMoves {
    period: Time,
    chance: f64,
}

impl CentralBalancer for RandomMoves {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::Agents, counters: false, period: Some(self.period) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        match why {
            DecisionTrigger::NetworkChanged => default_routes::first_port(view, placements),
            DecisionTrigger::PeriodElapsed => {
                for (flow, _) in view.flows.iter() {
                    if cx.rng.next_f64() < self.chance
                        && let Some(path) = another(cx.rng, view, flow, placements)
                    {
                        placements.pin(flow, Pin { path, rate: None });
                    }
                }
            }
            DecisionTrigger::FlowStarted(_) => {}
            DecisionTrigger::FlowEnded(flow) => placements.release(flow),
        }
    }
}

/// Returns a shortest path of the flow other than its present one; `None` if there is no other.
fn another(rng: &mut RandomStream, view: &NetworkView<'_>, flow: FlowId, placements: &Placements) -> Option<Path> {
    let (dag, ends) = (Dag::new(view), ends(view, view.flows.get(flow)?)?);
    let count = dag.path_count(ends);
    let current = placements.pin_of(flow).and_then(|pin| dag.rank_of(ends, &pin.path));
    match (current, count) {
        (_, 0) | (Some(_), 1) => None,
        (None, _) => Some(dag.path(ends, rng.next_below(u64::from(count)) as u32)),
        (Some(rank), _) => {
            let step = 1 + rng.next_below(u64::from(count) - 1) as u32;
            Some(dag.path(ends, (rank + step) % count))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::central::testing::DrivenBalancer;

    #[test]
    fn every_move_is_to_another_shortest_path() {
        let mut driven = DrivenBalancer::new("random-moves:chance=1", 1, "fat-tree:k=4");
        let [far, near, alone] = [15, 2, 1].map(|dst| driven.network.flow(0, dst, None));
        let mut before = (None, None);
        for _ in 0..50 {
            driven.period();
            let path = |flow| driven.placements.pin_of(flow).map(|pin| pin.path.clone());
            let now = (path(far), path(near));
            assert_eq!(
                (now.0.as_ref().map(|path| path.len()), now.1.as_ref().map(|path| path.len())),
                (Some(4), Some(2))
            );
            assert!(now.0 != before.0 && now.1 != before.1, "a flow stayed");
            assert_eq!(path(alone), None, "there is no choice behind one switch");
            before = now;
        }
    }
}
