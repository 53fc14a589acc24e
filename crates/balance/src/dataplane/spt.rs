//! Single shortest path: one path per key ("TCP" in F2, "ECMP" in F0; mechanisms.md P01).
//!
//! The tie-break is essential: `first` sends everything through the lowest-numbered port at every
//! tie; `dst-tor` gives each destination rack one random tree; `dst-host` gives each destination
//! host one.
//!
//! - Helps: as the baseline: the performance of a network without balancing, in perfect order.
//! - Hurts: wherever there is more than one path: all others to the same destination stay idle.

use net::LinkIx;

use crate::dataplane::common::at_switch;
use crate::entry::{Entry, FlowLevel};
use crate::hash::{combine, reduce};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("spt", "SPT")
    .summary("Sends everything for one destination along one shortest path.")
    .flow_level(FlowLevel::Path)
    .source("P01; F0 (as \"ECMP\", tie first), F2 (as \"TCP\", tie dst-tor)")
    .params(&[Param::choice("tie", &["first", "dst-tor", "dst-host"], "first").doc(
        "The key that determines a path: all pairs (lowest port at every tie), the destination rack, or the \
         destination host.",
    )])
    .example("spt:tie=dst-tor")
    .also_as_groups()
    .switch(|env, params| {
        // The same on all switches of a tier, so that a key uses one (aggregation, core) everywhere.
        let seed = combine(env.seed, u64::from(env.tier.0));
        let at = move |key: u64, links: &[LinkIx]| reduce(combine(seed, key), links.len());
        match params.text("tie") {
            "dst-tor" => at_switch(move |_, packet, links| at(u64::from(packet.to.0), links)),
            "dst-host" => at_switch(move |_, packet, links| at(u64::from(packet.dst.0) | 1 << 40, links)),
            _ => at_switch(|_, _, _| 0),
        }
    });

#[cfg(test)]
mod tests {
    use crate::dataplane::testing::{Bench, packet};

    #[test]
    fn first_takes_the_lowest_port() {
        let mut bench = Bench::switch("spt", 4);
        assert!((0..100).all(|flow| bench.choose(&packet(flow)) == 0));
    }

    #[test]
    fn dst_tor_is_one_choice_per_rack_and_spreads_over_racks() {
        let mut bench = Bench::switch("spt:tie=dst-tor", 4);
        let mut seen = [false; 4];
        for rack in 0..64 {
            let mut a = packet(1);
            a.to.0 = rack;
            let first = bench.choose(&a);
            a.hash = 99;
            a.dst.0 = 7;
            assert_eq!(bench.choose(&a), first);
            seen[first] = true;
        }
        assert_eq!(seen, [true; 4]);
    }
}
