//! Timed move: every flow moves once, a fixed time after it started, to exercise migration (E2.6 of
//! F2, figure 10).
//!
//! F2 moves one flow of its diamond from the first path to the second, half-way through its ten
//! seconds. Like `random-moves` it balances nothing, and no list contains it
//! ([`crate::registry::TEST_BALANCERS`]).

use net::Time;

use super::common::{Dag, default_routes, ends};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowId, FlowSource, NetworkView, Path, Pin, Placements,
};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("timed-move", "Timed move")
    .summary("Moves every flow once from its first path to the second, to test migration.")
    .source("E2.6 of F2")
    .granularity(Granularity::MovableFlow)
    .senses("reports of hosts")
    .params(&[Param::duration("after", "5s").doc("Time from the start of a flow to its move, up to 1 ms later.")])
    .example("timed-move:after=2s")
    .central(|_, params| Box::new(TimedMove { after: params.duration("after") }));

/// Time between two checks of which flows are due.
const STEP: Time = Time::from_ms(1);

struct TimedMove {
    after: Time,
}

impl CentralBalancer for TimedMove {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::Agents, counters: false, period: Some(STEP) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        match why {
            DecisionTrigger::NetworkChanged => default_routes::first_port(view, placements),
            DecisionTrigger::PeriodElapsed => {
                for (flow, info) in view.flows.iter() {
                    if info.started.saturating_add(self.after) <= view.now {
                        pin(view, flow, 1, placements);
                    }
                }
            }
            DecisionTrigger::FlowStarted(flow) => pin(view, flow, 0, placements),
            DecisionTrigger::FlowEnded(flow) => placements.release(flow),
        }
    }
}

/// Pins a flow to a shortest path by rank; a flow with fewer paths stays where it is.
fn pin(view: &NetworkView<'_>, flow: FlowId, rank: u32, placements: &mut Placements) {
    let path = || -> Option<Path> {
        let (dag, ends) = (Dag::new(view), ends(view, view.flows.get(flow)?)?);
        (rank < dag.path_count(ends)).then(|| dag.path(ends, rank))
    };
    if let Some(path) = path() {
        placements.pin(flow, Pin { path, rate: None });
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::central::testing::DrivenBalancer;

    #[test]
    fn flow_moves_once_when_its_time_has_come() {
        let mut driven = DrivenBalancer::new("timed-move:after=2s", 1, "diamond:form=migration");
        let flow = driven.start(0, 1, 0);
        let first = driven.pinned(flow).to_vec();
        let mut moves = Vec::new();
        for ms in 0..4000 {
            driven.network.now = Time::from_ms(ms);
            driven.placements.take_changes();
            driven.period();
            moves.extend((!driven.placements.take_changes().pins.is_empty()).then_some(ms));
        }
        assert_eq!(moves, [2000]);
        assert_ne!(driven.pinned(flow).to_vec(), first);
        driven.end(flow);
        assert!(driven.placements.pins().is_empty());
    }
}
