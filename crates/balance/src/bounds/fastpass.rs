//! A central arbiter that assigns a timeslot and a path to every packet, so that nothing queues
//! (mechanisms.md P23; Fastpass, Perry et al., SIGCOMM 2014). It knows all demands immediately,
//! which makes it a bound.
//!
//! - Helps: to show the result of an arbiter that knows every demand: no queues in the network.
//! - Hurts: as a forecast: a real arbiter has a delay and a limited capacity.

use crate::bounds::Bound;
use crate::dataplane::NO_NEEDS;
use crate::entry::{Build, Entry, Granularity, Platform, Reorders};
use crate::params::{Param, ParamKind};

/// Registry entry, listed in [`crate::registry`].
pub static ENTRY: Entry = Entry {
    name: "fastpass",
    title: "Fastpass arbiter",
    summary: "A bound that is still packetised: an arbiter grants every packet a timeslot and a path.",
    source: "P23; Fastpass, SIGCOMM 2014",
    granularity: Granularity::Packet,
    reorders: Reorders::Never,
    senses: "every demand, at once",
    platforms: &[Platform::Simulator],
    params: &[
        Param {
            name: "order",
            kind: ParamKind::Choice(&["maxmin", "srpt"]),
            default: "maxmin",
            unit: "",
            doc: "The pair that is matched first: the least recently served, or the one with the fewest remaining bytes.",
        },
        Param {
            name: "request_delay",
            kind: ParamKind::Duration,
            default: "0us",
            unit: "",
            doc: "Time from the start of a flow to its first possible timeslot; about 20us with a real arbiter.",
        },
    ],
    example: "fastpass",
    needs: NO_NEEDS,
    build: Build::Bound(Bound::Fastpass),
};
