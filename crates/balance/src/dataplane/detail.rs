//! DeTail's adaptive load balancing: every packet takes a random port among the lightly loaded ones
//! (mechanisms.md P07; Zats et al., SIGCOMM 2012).
//!
//! The load of a port is its drain bytes: those that would leave before a packet of the same
//! priority queued now. The favoured ports are those below `t1`, else those below `t2`, else all.
//! One of them is drawn at random. The platform provides the rest of DeTail: priority flow control,
//! so that no packet is dropped, and receivers that reorder packets and never treat a gap as a
//! loss, since only a timeout can indicate one.
//!
//! The thresholds were published for 1 Gb/s with buffers of 128 KB: they are times, 131 us and 524
//! us of draining. By default they grow with the rate of host links, so that a switch at 10 Gb/s
//! does not pause its neighbours at a tenth of the intended queueing (`sizes=absolute` uses the
//! published sizes). The reference gives no values for flow control. The defaults give each of
//! eight classes its share of such a buffer, after 4838 bytes per class are reserved for packets in
//! flight when the pause is sent: (131072 − 8·4838)/8 = 11546, resumed at 4838.
//!
//! Pauses spread: a congested port also stops its neighbours' traffic for other ports, and cycles
//! of waiting buffers can deadlock.
//!
//! - Helps: for the tail of short flows in a fabric without drops, with priorities.
//! - Hurts: where many send to one: pauses spread to traffic for other ports, and cyclic routes can
//!   deadlock.

use net::LinkIx;

use crate::dataplane::common::{at_switch, random_port};
use crate::dataplane::{Cx, Lossless, Needs, Receiving, Scale};
use crate::entry::{Entry, FlowLevel, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("detail", "DeTail")
    .summary("Sends every packet to a random port among those with few bytes to drain, over lossless switches.")
    .flow_level(FlowLevel::AdaptiveSplit)
    .source("P07; SIGCOMM 2012; F2")
    .granularity(Granularity::Packet)
    .senses("local queues by priority")
    .params(&[
        bytes("t1", "16384", "Ports with fewer drain bytes are favoured."),
        bytes("t2", "65536", "Where no port is below t1: ports with fewer drain bytes than this are favoured."),
        bytes("pause", "11546", "A class of an input is paused when more than this is buffered from it."),
        bytes("resume", "4838", "And goes on when it is down to this."),
        Param::choice("sizes", &["scaled", "absolute"], "scaled")
            .doc("Whether the sizes above are for 1 Gb/s and grow with the rate of host links, or are absolute."),
        Param::count("priorities", 1..=8, "8").doc("Number of traffic classes with separate queues and flow control."),
    ])
    .needs(|scale, params| {
        let pause_above_bytes = size("pause", scale, params).min(u64::from(u32::MAX)) as u32;
        Needs {
            lossless: Some(Lossless {
                priorities: params.count("priorities") as u8,
                pause_above_bytes,
                // The resume threshold must not exceed the pause threshold.
                resume_below_bytes: size("resume", scale, params).min(u64::from(pause_above_bytes)) as u32,
            }),
            receiving: Receiving::Patient,
            ..Needs::default()
        }
    })
    .switch(|env, params| {
        // From most to least favoured.
        let thresholds = ["t1", "t2"].map(|name| size(name, &env.scale, params));
        at_switch(move |cx, packet, links| {
            let favoured =
                thresholds.into_iter().find_map(|threshold| any_below(cx, packet.priority, links, threshold));
            favoured.unwrap_or_else(|| random_port(cx.rng, links))
        })
    });

/// Returns a size in bytes for the rate of this network.
fn size(name: &str, scale: &Scale, params: &Params) -> u64 {
    let bytes = params.count(name);
    if params.text("sizes") == "absolute" {
        return bytes;
    }
    let per_gbps = u128::from(bytes) * u128::from(scale.host_rate.as_bps()) / 1_000_000_000;
    u64::try_from(per_gbps).unwrap_or(u64::MAX).max(1)
}

const fn bytes(name: &'static str, default: &'static str, doc: &'static str) -> Param {
    Param::count(name, 1..=1 << 30, default).unit("bytes").doc(doc)
}

/// Returns a random port with fewer drain bytes than the threshold.
fn any_below(cx: &mut Cx<'_>, priority: u8, links: &[LinkIx], threshold: u64) -> Option<usize> {
    // Reservoir sampling: one pass without memory, every favoured port equally likely.
    let (mut chosen, mut favoured) = (None, 0);
    for (i, link) in links.iter().enumerate() {
        if cx.ports.drain_bytes(*link, priority) < threshold {
            favoured += 1;
            if cx.rng.next_below(favoured) == 0 {
                chosen = Some(i);
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::PacketView;
    use crate::dataplane::testing::{Bench, needs, packet};

    /// Returns the share of choices of each port with the given drain bytes.
    fn shares(bench: &mut Bench, packet: &PacketView, drain_bytes: [u64; 4]) -> [f64; 4] {
        for (link, bytes) in bench.links.clone().into_iter().zip(drain_bytes) {
            bench.ports.drain.insert((link.0, packet.priority), bytes);
        }
        bench.port_hits((0..40_000).map(|_| *packet)).map(|hits| f64::from(hits) / 40_000.0)
    }

    fn assert_shares(shares: [f64; 4], expected: [f64; 4]) {
        assert!(shares.iter().zip(expected).all(|(s, e)| (s - e).abs() < 0.01), "{shares:?}, expected {expected:?}");
    }

    #[test]
    fn favoured_ports_are_drawn_evenly_and_others_never() {
        let mut bench = Bench::switch("detail:sizes=absolute", 4);
        let third = 1.0 / 3.0;
        for (drain, expected) in [
            ([0, 0, 0, 0], [0.25; 4]),
            ([0, 16_383, 16_384, 1 << 20], [0.5, 0.5, 0.0, 0.0]),
            ([16_384, 65_535, 65_536, 40_000], [third, third, 0.0, third]),
            ([65_536, 70_000, 1 << 20, 65_537], [0.25; 4]),
        ] {
            assert_shares(shares(&mut bench, &packet(1), drain), expected);
        }
    }

    #[test]
    fn thresholds_grow_with_the_rate_of_host_links() {
        let mut bench = Bench::switch("detail", 4);
        assert_shares(shares(&mut bench, &packet(1), [163_839, 163_840, 1 << 20, 16_384]), [0.5, 0.0, 0.0, 0.5]);
    }

    #[test]
    fn only_bytes_that_leave_first_count() {
        // Port 0 is full of packets less urgent than priority 5: urgent ones need not avoid it.
        let mut bench = Bench::switch("detail:sizes=absolute", 4);
        let urgent = PacketView { priority: 5, ..packet(1) };
        assert_shares(shares(&mut bench, &packet(1), [1 << 20, 0, 0, 0]), [0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
        assert_shares(shares(&mut bench, &urgent, [0; 4]), [0.25; 4]);
    }

    #[test]
    fn ports_may_vanish_and_return() {
        let mut bench = Bench::switch("detail:sizes=absolute", 4);
        shares(&mut bench, &packet(1), [0, 1 << 20, 1 << 20, 1 << 20]);
        let gone = bench.remove(0);
        assert!((0..100).all(|_| bench.choose_link(&packet(1)) != gone));
        bench.restore(0, gone);
        assert!((0..100).all(|_| bench.choose_link(&packet(1)) == gone));
    }

    #[test]
    fn needs_are_lossless_switches_and_unlimited_resequencing() {
        let lossless = |pause_above_bytes, resume_below_bytes| {
            Some(Lossless { priorities: 8, pause_above_bytes, resume_below_bytes })
        };
        assert_eq!(needs("detail").lossless, lossless(115_460, 48_380), "ten times those of 1 Gb/s");
        assert_eq!(needs("detail:sizes=absolute").lossless, lossless(11_546, 4_838));
        assert_eq!(needs("detail").receiving, Receiving::Patient);
        assert_eq!(needs("detail:sizes=absolute,pause=3000").lossless, lossless(3_000, 3_000));
    }
}
