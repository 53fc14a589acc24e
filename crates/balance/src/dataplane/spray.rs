//! Random packet spraying, per-packet ECMP: every packet takes a random equal-cost next hop
//! (mechanisms.md P03; Dixit et al., INFOCOM 2013; F3's per-packet ECMP).
//!
//! - Helps: on symmetric fabrics, with receivers that put packets in order.
//! - Hurts: where paths differ: every flow gets a share of the slow or broken one; where receivers
//!   take gaps for losses.

use crate::dataplane::common::{at_switch, random_port};
use crate::entry::{Entry, FlowLevel, Granularity};

pub(crate) static ENTRY: Entry = Entry::declare("spray", "Packet spraying")
    .summary("Sends every packet to an equal-cost next hop drawn at random.")
    .flow_level(FlowLevel::EvenSplit)
    .source("P03 RPS; INFOCOM 2013; F2, F3")
    .granularity(Granularity::Packet)
    .switch(|_, _| at_switch(|cx, _, links| random_port(cx.rng, links)));

#[cfg(test)]
mod tests {
    use crate::dataplane::testing::{Bench, packet};

    #[test]
    fn packets_of_one_flow_use_every_port_evenly() {
        let mut bench = Bench::switch("spray", 4);
        let hits: [u32; 4] = bench.port_hits((0..40_000).map(|_| packet(1)));
        assert!(hits.iter().all(|n| (9_500..10_500).contains(n)), "{hits:?}");
    }
}
