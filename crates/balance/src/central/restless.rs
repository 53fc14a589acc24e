//! Restless: flows are moved from path to path at random, for nothing but the moving (E2.6 of F2).
//!
//! It balances nothing. It is what migration is tried with, by the same name in the simulator, on emulated networks and on
//! live ones: whatever is lost or overtaken while it decides is the price of moving alone. It is no rival of the others and
//! stands in no list of them ([`crate::registry::EXERCISES`]).

use net::{Stream, Time};

use super::parts::base;
use super::parts::dag::Dag;
use super::parts::edges::ends;
use super::{CentralBalancer, CentralCx, CentralNeeds, FlowId, FlowSource, NetworkView, Path, Pin, Placements, Why};
use crate::dataplane::NO_NEEDS;
use crate::params::{Param, ParamKind, Params};
use crate::registry::{Build, Entry, Granularity, Reorders, World};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "restless",
    title: "Restless",
    summary: "Moves every flow to another path at random times, to try migration.",
    source: "E2.6 of F2",
    granularity: Granularity::MovableFlow,
    reorders: Reorders::AtMoves,
    senses: "reports of hosts",
    worlds: &[World::Simulator, World::OpenFlow],
    params: &[
        Param { name: "period", kind: ParamKind::Duration, default: "50ms", unit: "", doc: "Time between two draws." },
        Param {
            name: "chance",
            kind: ParamKind::Number { min: 0.0, max: 1.0 },
            default: "0.333",
            unit: "",
            doc: "Probability that a flow moves at a draw.",
        },
    ],
    example: "restless:period=500ms",
    needs: NO_NEEDS,
    build: Build::Central(|_, params| Box::new(Restless::new(params))),
};

struct Restless {
    period: Time,
    chance: f64,
}

impl Restless {
    fn new(params: &Params) -> Restless {
        Restless { period: params.duration("period").max(Time::from_ms(1)), chance: params.number("chance") }
    }
}

impl CentralBalancer for Restless {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::Agents, counters: false, period: Some(self.period) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, view: &NetworkView<'_>, why: Why, placements: &mut Placements) {
        match why {
            Why::Network => placements.set_base(base::first_port(view)),
            Why::Period => {
                for (flow, _) in view.flows.iter() {
                    if cx.rng.unit() < self.chance
                        && let Some(path) = another(cx.rng, view, flow, placements)
                    {
                        placements.pin(flow, Pin { path, rate: None });
                    }
                }
            }
            Why::FlowStarted(_) => {}
            Why::FlowEnded(flow) => placements.release(flow),
        }
    }
}

/// A shortest path of the flow that is not the one it has; `None` where there is no other.
fn another(rng: &mut Stream, view: &NetworkView<'_>, flow: FlowId, placements: &Placements) -> Option<Path> {
    let (dag, ends) = (Dag::new(view), ends(view, view.flows.get(flow)?)?);
    let count = dag.path_count(ends);
    let current = placements.pin_of(flow).and_then(|pin| dag.rank_of(ends, &pin.path));
    match (current, count) {
        (_, 0) | (Some(_), 1) => None,
        (None, _) => Some(dag.path(ends, rng.below(u64::from(count)) as u32)),
        (Some(rank), _) => {
            let step = 1 + rng.below(u64::from(count) - 1) as u32;
            Some(dag.path(ends, (rank + step) % count))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::central::Why;
    use crate::central::testing::{Driven, World};

    #[test]
    fn every_move_is_to_another_shortest_path() {
        let mut world = World::new("fat-tree:k=4");
        let mut driven = Driven::new("restless:chance=1", 1, &world);
        let (far, near) = (world.flow(0, 15, None), world.flow(0, 2, None));
        let alone = world.flow(0, 1, None);
        let mut before = (None, None);
        for _ in 0..50 {
            driven.decide(&world, Why::Period);
            let path = |flow| driven.placements.pin_of(flow).map(|pin| pin.path.clone());
            let now = (path(far), path(near));
            assert_eq!(
                (now.0.as_ref().map(|path| path.len()), now.1.as_ref().map(|path| path.len())),
                (Some(4), Some(2))
            );
            assert!(now.0 != before.0 && now.1 != before.1, "a flow stayed");
            assert_eq!(path(alone), None, "nothing is to be chosen behind one switch");
            before = now;
        }
    }
}
