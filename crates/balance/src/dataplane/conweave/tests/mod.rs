//! Tests of every transition of both ends, and of random schedules between two of them.

mod destination;
mod schedules;
mod source;

use net::Time;

use super::tag::{Epoch, FlowEpoch, Kind, Tag, Ticks, identity};
use crate::dataplane::testing::packet;

const EXPIRY: Time = Time::from_us(3_750);
const PS: Time = Time::from_ps(1);

fn ticks() -> Ticks {
    Ticks::covering(Time::from_us(3_900))
}

fn epoch(n: usize) -> Epoch {
    (0..n).fold(Epoch::default(), |epoch, _| epoch.next())
}

/// Returns the identity of the bench's flow `flow` in control packets.
fn about(flow: u32, n: usize) -> FlowEpoch {
    FlowEpoch { flow, epoch: epoch(n), identity: identity(packet(flow).hash) }
}

fn data(epoch: Epoch, time: u32) -> Tag {
    Tag { kind: Kind::Data, is_rerouted: false, epoch, time }
}
