//! The fluid optimum: the rates of an ideal routing that splits flows without limit (mechanisms.md
//! P29).
//!
//! - Helps: to measure how far the rates of balancers are from the best possible ones.
//! - Hurts: as a target for single flows: it is max-min fair, and unfair schedules achieve a lower
//!   mean slowdown.

use crate::bounds::Bound;
use crate::dataplane::NO_NEEDS;
use crate::entry::{Build, Entry, Granularity, Platform, Reorders};
use crate::params::{Param, ParamKind};

/// Registry entry, listed in [`crate::registry`].
pub static ENTRY: Entry = Entry {
    name: "optimum",
    title: "Fluid optimum",
    summary: "A bound, not a balancer: flows are fluid, shared out anew at every arrival and departure with no \
              limit but the cuts of the network.",
    source: "P29; big-switch model and SRPT order of pFabric, SIGCOMM 2013",
    granularity: Granularity::Packet,
    reorders: Reorders::Never,
    senses: "everything, at once",
    platforms: &[Platform::Simulator],
    params: &[
        Param {
            name: "capacity",
            kind: ParamKind::Choice(&["cut", "hose"]),
            default: "cut",
            unit: "",
            doc: "The links that limit rates: host links alone (hose), or also the links out of and into every rack and pod (cut).",
        },
        Param {
            name: "order",
            kind: ParamKind::Choice(&["maxmin", "srpt"]),
            default: "maxmin",
            unit: "",
            doc: "Max-min fair rates, or greedily the flow with the fewest remaining bytes first.",
        },
    ],
    example: "optimum",
    needs: NO_NEEDS,
    build: Build::Bound(Bound::FluidOptimum),
};
