//! A central arbiter that assigns a timeslot and a path to every packet, so that nothing queues
//! (mechanisms.md P23; Fastpass, Perry et al., SIGCOMM 2014). It knows all demands immediately,
//! which makes it a bound.
//!
//! - Helps: to show the result of an arbiter that knows every demand: no queues in the network.
//! - Hurts: as a forecast: a real arbiter has a delay and a limited capacity.

use crate::bounds::Bound;
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("fastpass", "Fastpass arbiter")
    .summary("A bound that is still packetised: an arbiter grants every packet a timeslot and a path.")
    .source("P23; Fastpass, SIGCOMM 2014")
    .granularity(Granularity::Packet)
    .senses("every demand, at once")
    .params(&[
        Param::choice("order", &["maxmin", "srpt"], "maxmin").doc(
            "The pair that is matched first: the least recently served, or the one with the fewest remaining bytes.",
        ),
        Param::duration("request_delay", "0us")
            .doc("Time from the start of a flow to its first possible timeslot; about 20us with a real arbiter."),
    ])
    .bound(Bound::Fastpass);
