//! The fluid optimum: rates of ideal routing that splits flows without limit (mechanisms.md P29).
//!
//! - Helps: to measure how far the rates of balancers are from the best possible ones.
//! - Hurts: as a target for single flows: it is max-min fair, and unfair schedules achieve a lower
//!   mean slowdown.

use crate::bounds::Bound;
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("optimum", "Fluid optimum")
    .summary(
        "A bound, not a balancer: flows are fluid, shared out again at every arrival and departure with no \
         limit but the cuts of the network.",
    )
    .source("P29; big-switch model and SRPT order of pFabric, SIGCOMM 2013")
    .granularity(Granularity::Packet)
    .senses("everything, at once")
    .params(&[
        Param::choice("capacity", &["cut", "hose"], "cut").doc(
            "The links that limit rates: host links alone (hose), or also the links out of and into every rack \
             and pod (cut).",
        ),
        Param::choice("order", &["maxmin", "srpt"], "maxmin")
            .doc("Max-min fair rates, or greedily the flow with the fewest remaining bytes first."),
    ])
    .bound(Bound::FluidOptimum);
