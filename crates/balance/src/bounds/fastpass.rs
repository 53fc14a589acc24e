//! A central arbiter that gives every packet a timeslot and a path, so that nothing queues (mechanisms.md P23;
//! Fastpass, Perry et al., SIGCOMM 2014). It knows every demand at once, which makes it a bound.
//!
//! - Helps: to see what an arbiter that knows every demand would give: no queues in the network.
//! - Hurts: as a forecast: a real arbiter has delay, and limits of its own.

use crate::bounds::Bound;
use crate::dataplane::NO_NEEDS;
use crate::params::{Param, ParamKind};
use crate::registry::{Build, Entry, Granularity, Reorders, World};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "fastpass",
    title: "Fastpass arbiter",
    summary: "A bound that is still packetised: an arbiter grants every packet a timeslot and a path of its own.",
    source: "P23; Fastpass, SIGCOMM 2014",
    granularity: Granularity::Packet,
    reorders: Reorders::Never,
    senses: "every demand, at once",
    worlds: &[World::Simulator],
    params: &[
        Param {
            name: "order",
            kind: ParamKind::Choice(&["maxmin", "srpt"]),
            default: "maxmin",
            unit: "",
            doc: "Who is matched first: the pair served least recently, or the one with the least remaining.",
        },
        Param {
            name: "request_delay",
            kind: ParamKind::Duration,
            default: "0us",
            unit: "",
            doc: "From a flow's start until the arbiter may grant it slots; about 20us in a real one.",
        },
    ],
    example: "fastpass",
    needs: NO_NEEDS,
    build: Build::Bound(Bound::Fastpass),
};
