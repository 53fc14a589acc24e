//! Round-robin packet spraying: every packet takes the next equal-cost next hop in turn, with one
//! pointer per switch and destination (mechanisms.md P03 `pp-rr`).
//!
//! - Helps: on symmetric fabrics: shorter queues than random spraying, since a port's turn comes
//!   regularly.
//! - Hurts: like random spraying where paths differ or receivers take gaps for losses.

use crate::dataplane::common::at_switch;
use crate::entry::{Entry, FlowLevel, Granularity};
use crate::hash::{combine, mix};

pub(crate) static ENTRY: Entry = Entry::declare("spray-rr", "Round-robin spraying")
    .summary("Sends packets for one destination to the equal-cost next hops in turn.")
    .flow_level(FlowLevel::EvenSplit)
    .source("P03 pp-rr")
    .granularity(Granularity::Packet)
    .switch(|env, _| {
        // Random starts: otherwise all switches would serve their ports in step.
        let start = |class: u64| mix(combine(env.seed ^ u64::from(env.switch.0), class)) as u32 % 4096;
        let mut next: Vec<u32> = (0..env.class_count as u64).map(start).collect();
        at_switch(move |_, packet, links| {
            let next = &mut next[packet.to.0 as usize];
            // Wraps by the current number of members, so that the random start is not lost.
            *next = (*next + 1) % links.len() as u32;
            *next as usize
        })
    });

#[cfg(test)]
mod tests {
    use crate::dataplane::testing::{Bench, packet};

    #[test]
    fn any_n_consecutive_packets_use_all_n_ports() {
        let mut bench = Bench::switch("spray-rr", 4);
        let picks: Vec<usize> = (0..40).map(|flow| bench.choose(&packet(flow))).collect();
        for window in picks.windows(4) {
            let mut sorted = window.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
    }
}
