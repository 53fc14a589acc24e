//! Equal-cost multipath by select groups: switches hash flows to next hops (mechanisms.md P02).
//!
//! Pitfalls: each switch uses its built-in hash. If all switches use the same one, they polarise:
//! the second choice always follows the first. Some switches ignore UDP ports.
//!
//! - Helps: with many flows on equal paths; switches decide locally, so an absent or slow
//!   controller loses no packets.
//! - Hurts: with few large flows, which collide; on switches that all hash alike, unless the
//!   controller makes them differ (`ecmp_hashing`).

use super::common::{default_routes, on_network_change};
use crate::entry::Entry;

pub(crate) static ENTRY: Entry = Entry::declare("sdn-ecmp", "ECMP (central)")
    .summary("Installs a select group over all equal-cost next hops of every switch.")
    .source("P02; RFC 2992")
    .central(|_, _| on_network_change(default_routes::equal_cost));

#[cfg(test)]
mod tests {
    use crate::central::testing::{DrivenBalancer, least, mean};

    #[test]
    fn shares_are_those_of_independent_hashes() {
        // mechanisms.md P02, stride(N/2): k=4 0.63 of ideal; k=8 0.54; k=8, rate doubled: 0.87.
        for (family, expected, tolerance) in [
            ("fat-tree:k=4", 0.63, 0.03),
            ("fat-tree:k=8", 0.54, 0.02),
            ("fat-tree:k=8,host_rate=1Mbps,fabric_rate=2Mbps", 0.87, 0.02),
        ] {
            let mut driven = DrivenBalancer::new("sdn-ecmp", 1, family);
            let flows = driven.network.half_stride();
            let shares: Vec<f64> = (0..40).map(|seed| mean(&driven.rates(&flows, seed))).collect();
            assert!((mean(&shares) - expected).abs() < tolerance, "{family}: {}", mean(&shares));
            assert!(least(&driven.rates(&flows, 0)) < 0.6, "elephants collide");
        }
    }
}
