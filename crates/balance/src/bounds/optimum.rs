//! The fluid optimum: rates that any routing, however finely it splits, could at best give (mechanisms.md P29).
//!
//! - Helps: to see how far from the best possible rates balancers are.
//! - Hurts: as a target for single flows: it is max-min fair, and unfair schedules beat it in mean slowdown.

use crate::bounds::Bound;
use crate::dataplane::NO_NEEDS;
use crate::params::{Param, ParamKind};
use crate::registry::{Build, Entry, Granularity, Reorders, World};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "optimum",
    title: "Fluid optimum",
    summary: "A bound, not a balancer: flows are fluid, shared out anew at every arrival and departure with no \
              limit but the cuts of the network.",
    source: "P29; big-switch model and SRPT order of pFabric, SIGCOMM 2013",
    granularity: Granularity::Packet,
    reorders: Reorders::Never,
    senses: "everything, at once",
    worlds: &[World::Simulator],
    params: &[
        Param {
            name: "capacity",
            kind: ParamKind::Choice(&["cut", "hose"]),
            default: "cut",
            unit: "",
            doc: "What limits rates: host links alone (hose), or also the links out of and into every rack and pod (cut).",
        },
        Param {
            name: "order",
            kind: ParamKind::Choice(&["maxmin", "srpt"]),
            default: "maxmin",
            unit: "",
            doc: "Max-min fair rates, or greedily the flow with the least remaining first.",
        },
    ],
    example: "optimum",
    needs: NO_NEEDS,
    build: Build::Bound(Bound::FluidOptimum),
};
