//! Halflife: the idle time that ends a flowlet fades with the time that the flow has been on its
//! path (mechanisms-2.md P47; Liu et al., EuroSys 2024).
//!
//! Right after a move a flow needs a long pause to move again, so that flows do not swing between
//! paths. The longer it stays, the shorter the pause that suffices, so that traffic with few gaps
//! can move too. The first packet of a flowlet takes a random next hop, as in LetFlow.
//!
//! The gap of a flow that has been on its path for a time t is
//!
//! `gap(t) = gap_min + (gap_max - gap_min) * 2^(-t / halflife)`.
//!
//! Readings where the source is silent: the formula and its constants are a reading of the
//! abstract. So is the start of t: the flow's first packet and every move, but not a flowlet that
//! draws its old port. The default of `gap_max` is LetFlow's gap, that of `gap_min` the half RTT
//! that the SAI text advises for flowlets. The paper also fades the gaps of CONGA; here only
//! LetFlow's choice is available.
//!
//! The flowlet table is that of LetFlow. With age bits, sweeps are `gap_min` apart, and an entry
//! falls to the first sweep that finds it idle for its gap: up to `gap_min` late. A flow that
//! hashes to the entry of an earlier one may inherit a faded gap.
//!
//! A half-life of a few packets makes the gap `gap_min` for all flows, and one that is longer than
//! flows last makes it `gap_max`. A gap below the difference of two paths' delays reorders.
//!
//! - Helps: where gaps of flows vary, so that no constant gap fits: flows without long pauses leave
//!   a bad path after some half-lives.
//! - Hurts: flows that stay long are reordered more easily, and the next port is drawn without
//!   measurement: a flow may also leave the best path.

use net::{LinkIx, Time};

use crate::dataplane::common::flowlets::{self, Flowlet, Flowlets};
use crate::dataplane::common::{at_switch, random_port};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("halflife", "Halflife")
    .summary("Sends each flowlet to a random next hop; its gap shrinks with the time since the flow's last move.")
    .source("P47; EuroSys 2024")
    .granularity(Granularity::Flowlet)
    .senses("gaps in flows")
    .params(&[
        Param::scaled("gap_max", "6.25rtt").doc("Idle time that ends a flowlet right after a move."),
        Param::scaled("gap_min", "0.5rtt").doc("Idle time that ends a flowlet of a flow that stays for long."),
        Param::scaled("halflife", "5rtt").doc("Time on a path after which half of the difference has faded."),
        flowlets::MODE,
        flowlets::ENTRIES,
    ])
    .example("halflife:gap_max=500us,halflife=2rtt")
    .switch(|env, params| {
        let gap_min = params.scaled("gap_min", &env.scale);
        let fading = Fading {
            min_ps: gap_min.as_ps(),
            max_ps: params.scaled("gap_max", &env.scale).max(gap_min).as_ps(),
            halflife_ps: params.scaled("halflife", &env.scale).max(HALFLIFE_MIN).as_ps() as f64,
        };
        let mut flowlets: Flowlets<Placement> = Flowlets::with_gap(gap_min, params);
        at_switch(move |cx, packet, links| {
            let slot = flowlets.slot(packet);
            let position = |link: u32| links.iter().position(|member| member.0 == link);
            let found = flowlets.look_up_within(slot, cx.now, |(_, since_ps)| fading.gap_ps(cx.now, since_ps));
            let ongoing = match found {
                Flowlet::Ongoing((link, since_ps)) => position(link).map(|at| (at, since_ps)),
                Flowlet::Expired(_) | Flowlet::New => None,
            };
            let (at, since_ps) = ongoing.unwrap_or_else(|| {
                let at = random_port(cx.rng, links);
                (at, start_on(links[at], found).unwrap_or(cx.now.as_ps()))
            });
            flowlets.record(slot, cx.now, (links[at].0, since_ps));
            at
        })
    });

/// Keeps the exponent of the formula finite.
const HALFLIFE_MIN: Time = Time::from_ns(100);

/// Link of a flow, and the time since when the flow has used it, in picoseconds. A tuple of
/// numbers: a table of zeroes uses memory only for entries in use.
type Placement = (u32, u64);

/// Returns the time since when a flow has used a link, if it did so last.
fn start_on(link: LinkIx, last: Flowlet<Placement>) -> Option<u64> {
    match last {
        Flowlet::Ongoing((before, since_ps)) | Flowlet::Expired((before, since_ps)) => {
            (before == link.0).then_some(since_ps)
        }
        Flowlet::New => None,
    }
}

/// The formula of the gap.
#[derive(Clone, Copy)]
struct Fading {
    min_ps: u64,
    max_ps: u64,
    halflife_ps: f64,
}

impl Fading {
    #[inline]
    fn gap_ps(&self, now: Time, since_ps: u64) -> u64 {
        let halves = now.as_ps().saturating_sub(since_ps) as f64 / self.halflife_ps;
        self.min_ps + ((self.max_ps - self.min_ps) as f64 * libm::exp2(-halves)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    /// Gaps from 900 to 100 us: 500, 300 and 200 us after one, two and three milliseconds.
    const SPEC: &str = "halflife:gap_max=900us,gap_min=100us,halflife=1ms,gap_mode=exact";

    /// Sends a packet of flow 1 every 200 us; returns the times of its moves, in microseconds.
    fn moves(spec: &str, ports: u32, packets: u64) -> Vec<u64> {
        let mut bench = Bench::switch(spec, ports);
        let mut last = bench.choose(&packet(1));
        let times = (1..packets).map(|sent| 200 * sent).filter(|us| {
            bench.now = Time::from_us(*us);
            let port = bench.choose(&packet(1));
            std::mem::replace(&mut last, port) != port
        });
        times.collect()
    }

    #[test]
    fn the_difference_of_the_gaps_halves_with_every_half_life() {
        let us = |us: u64| Time::from_us(us).as_ps();
        let fading = Fading { min_ps: us(100), max_ps: us(900), halflife_ps: us(1000) as f64 };
        for (time_us, gap_us) in [(0, 900), (1000, 500), (2000, 300), (3000, 200), (100_000, 100)] {
            assert_eq!(fading.gap_ps(Time::from_us(time_us + 7), us(7)), us(gap_us));
        }
        assert!(fading.gap_ps(Time::from_us(500), 0) > us(500), "convex");
        assert_eq!(fading.gap_ps(Time::ZERO, us(7)), us(900), "a start in the future is now");
    }

    #[test]
    fn pauses_move_a_flow_as_soon_as_the_gap_has_faded_below_them() {
        // The gap is 200 us after 3 ms on a path. A pause of 200 us ends the first flowlet after
        // that.
        let times = moves(SPEC, 1000, 2_000);
        let stays: Vec<u64> = std::iter::once(times[0]).chain(times.windows(2).map(|pair| pair[1] - pair[0])).collect();
        assert_eq!(stays.iter().min(), Some(&3200), "every move makes the gap long again");
        // Of a thousand ports the old one is drawn rarely; the next pause then draws once more.
        assert!(stays.iter().all(|us| [3200, 3400].contains(us)), "{stays:?}");
        assert!(stays.len() > 120, "{}", stays.len());
    }

    #[test]
    fn a_flowlet_that_draws_its_old_port_leaves_the_gap_short() {
        // With two ports half of the draws are moves: two draws on average, 200 us apart.
        let times = moves(SPEC, 2, 200_000);
        let mean_us = 200.0 * 200_000.0 / times.len() as f64;
        assert!((mean_us - 3400.0).abs() < 20.0, "{mean_us} us between moves");
    }

    #[test]
    fn a_constant_gap_is_never_or_always_shorter_than_the_pauses() {
        assert_eq!(moves("letflow:gap=900us,gap_mode=exact", 1000, 2_000).len(), 0);
        assert!(moves("letflow:gap=100us,gap_mode=exact", 1000, 2_000).len() > 1_980);
    }

    #[test]
    fn with_age_bits_the_gap_is_at_most_one_sweep_longer() {
        let agebit = SPEC.replace("gap_mode=exact", "gap_mode=agebit");
        // Certain idle time is known in steps of 100 us: pauses of 200 us may count as 100.
        let times = moves(&agebit, 1000, 2_000);
        assert!(times[0] >= 3200, "{times:?}");
        let mut bench = Bench::switch(&agebit, 64);
        let changed = (0..200u32).filter(|flow| {
            let first = bench.choose(&packet(*flow));
            bench.wait(Time::from_us(450));
            assert_eq!(bench.choose(&packet(*flow)), first, "450 us on the path: the gap is about 690 us");
            bench.wait(Time::from_us(800));
            bench.choose(&packet(*flow)) != first
        });
        assert!(changed.count() > 180, "one in 64 draws the same port again");
    }

    #[test]
    fn a_removed_port_is_left_and_the_new_path_has_a_long_gap() {
        let mut bench = Bench::switch(SPEC, 8);
        bench.choose(&packet(1));
        for ms in 0..20 {
            bench.now = Time::from_us(1000 * ms);
            let link = bench.choose_link(&packet(1));
            let at = bench.links.iter().position(|member| *member == link).unwrap();
            let gone = bench.remove(at);
            let other = bench.choose_link(&packet(1));
            assert_ne!(other, gone);
            bench.restore(at, gone);
            bench.wait(Time::from_us(500));
            assert_eq!(bench.choose_link(&packet(1)), other, "the gap is 666 us half a millisecond after the move");
        }
    }
}
