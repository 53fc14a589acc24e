//! Rates of flows instead of packets, for networks and numbers of flows that packets cannot reach.
//!
//! An event is a start, an end, a round trip of a window, a failure or a sample. Between events the
//! rate of a flow is constant. Rates are max-min fair (`shares.rs`) over paths that the fabric of
//! the packet engine chooses, with the same hashes (`paths.rs`), or over all paths evenly
//! (`split.rs`).
//!
//! Rates alone would ignore what packets do to short flows. Each correction follows from the
//! configuration, and no constant is fitted to a scenario:
//!
//! | effect | model | source |
//! | --- | --- | --- |
//! | headers | a flow has its bytes on the wire | packet format |
//! | propagation, store and forward | the ideal completion time minus the bytes at the rate of the flow alone | `ideal.rs` |
//! | slow start | rounds of a window each, which doubles; the first is a burst, later ones are paced by acknowledgements | RFC 5681; `sender.rs` |
//! | standing queues | the mean of the sawtooth at links where flows converge | DCTCP, SIGCOMM 2010; `queues.rs` |
//! | newcomers at full links | the queue grows by their windows to the threshold; then both sides reduce | Analysis of DCTCP, SIGMETRICS 2011; `congestion.rs` |
//! | acknowledgements | their part of the capacity of the other direction | `acks.rs` |
//! | dead links | what is in flight is lost; the retransmission timer tries again | RFC 6298; `run.rs` |
//!
//! Two numbers limit the work: the rate of a flow in congestion avoidance is updated when it differs
//! by a tenth, and the load of acknowledgements when it differs by 0.5 % of a link.
//!
//! What remains is measured, not assumed: `anabranch run --check-fidelity` runs a small copy in both
//! fidelities. Known errors are losses in drop-tail queues (NewReno and CUBIC next to a full queue
//! lose many packets at once, which costs them time-outs), queues of random spraying, and flows of
//! one window at links where others converge.

mod acks;
mod congestion;
mod flow_events;
mod members;
mod paths;
mod queues;
mod results;
mod run;
mod sender;
mod shares;
mod split;
mod support;

pub use support::{Refusal, check};

use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::{Progress, SimError};

/// Runs a scenario by rates of flows to its end, or until `progress` returns `false`.
pub(crate) fn run(scenario: &Scenario<'_>, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<Outcome, SimError> {
    check(scenario)?;
    run::FlowRun::new(scenario).play(progress)
}
