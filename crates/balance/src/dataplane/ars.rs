//! ARS: adaptive routing and switching as SAI defines it, and as Broadcom switches do it under the name
//! of dynamic load balancing (mechanisms-2.md P31).
//!
//! A switch samples the load and the queue of its ports, and gives each a quality from 0 to 7. The first
//! packet of a flowlet takes a next hop of the best quality, at random among equals; the flowlet stays on
//! it. A small table has an entry per flow; flows that hash to the same entry share it. With
//! `mode=packet-quality` every packet chooses; with `mode=fixed` a flow chooses once.
//!
//! A port whose carrier is lost gets no more packets once the next sample is due, before routing knows.
//! `quality_delta` moves active flowlets, as the reactive path rebalancing of Junos does.
//!
//! Published defaults are absolute: samples every 16 us and an idle time of 256 us. At a base RTT of
//! 80 us the defaults here are 16 and 40 us, the half RTT that the SAI text advises. An idle time of
//! many RTTs never ends a flowlet of a paced transport.
//!
//! Without a counterpart: monitoring, counters, access lists, and members of an alternate set, since all
//! next hops are of equal cost here. The quality blends load and queue by weights; vendors have tables.
//!
//! - Helps: against congestion at the next hop, where flows are few or pause, and when a cable fails.
//! - Hurts: congestion two hops away is invisible to it; long flows without pauses keep their port.

use crate::dataplane::common::MemberSets;
use crate::dataplane::common::adaptive::{self, AdaptiveGroup, AdaptiveRule};
use crate::dataplane::common::port_quality::{self, PortQualities};
use crate::dataplane::{Cx, NextHops, PacketView, SwitchBalancer, SwitchEnv};
use crate::entry::{Entry, Granularity};
use crate::params::Params;

pub(crate) static ENTRY: Entry = Entry::declare("ars", "ARS")
    .summary("Sends each flowlet to a next hop whose sampled load and queue give it the best quality.")
    .source("P31; SAI 1.12")
    .granularity(Granularity::Flowlet)
    .senses("load and queues of local ports, sampled; lost carriers")
    .params(&[
        adaptive::MODE,
        adaptive::IDLE,
        adaptive::MAX_FLOWS,
        port_quality::INTERVAL,
        port_quality::EXPONENT,
        port_quality::LOAD_WEIGHT,
        port_quality::QUEUE_WEIGHT,
        port_quality::QUEUE_RANGE,
        adaptive::DELTA,
        adaptive::PROBABILITY,
    ])
    .example("ars:mode=packet-quality")
    .needs(adaptive::needs)
    .switch(|env, params| Box::new(Ars::new(env, params)));

struct Ars {
    rule: AdaptiveRule,
    qualities: PortQualities,
    groups: MemberSets<Group>,
}

struct Group {
    /// Number of each member in `qualities`.
    slots: Vec<u16>,
    state: AdaptiveGroup,
}

impl Group {
    /// Samples the ports, once in an interval.
    #[inline(never)]
    fn sample(&mut self, cx: &Cx<'_>, qualities: &mut PortQualities) {
        let until = qualities.next_change(cx.now);
        self.state.set(until, self.slots.iter().map(|slot| qualities.quality(cx, *slot)));
    }
}

impl Ars {
    fn new(env: &SwitchEnv<'_>, params: &Params) -> Ars {
        Ars {
            rule: AdaptiveRule::new(&env.scale, params),
            qualities: PortQualities::new(env, params),
            groups: MemberSets::new(env.class_count),
        }
    }
}

impl SwitchBalancer for Ars {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let Ars { rule, qualities, groups } = self;
        let group = groups.of(packet.to, members, || Group {
            slots: members.links.iter().map(|link| qualities.slot(*link)).collect(),
            state: AdaptiveGroup::default(),
        });
        if group.state.is_stale(cx.now) {
            group.sample(cx, qualities);
        }
        rule.choose(cx, packet, members.links, &mut group.state)
    }

    fn foresee(&self, packet: &PacketView, members: NextHops<'_>) -> Option<usize> {
        self.groups.foresee(packet.to, members)?.state.foresee(packet, members.links)
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::dataplane::testing::{Bench, packet};

    /// Samples every 20 us, queues in bands of 10 us; a flowlet ends after 50 us.
    const SPEC: &str = "ars:interval=20us,queue_range=80us,exponent=0,idle=50us";

    fn delay(bench: &mut Bench, us: [u64; 4]) {
        for (link, us) in bench.links.clone().into_iter().zip(us) {
            bench.ports.delay.insert(link.0, Time::from_us(us));
        }
    }

    fn load(bench: &mut Bench, utilisation: [f64; 4]) {
        for (link, utilisation) in bench.links.clone().into_iter().zip(utilisation) {
            bench.ports.utilisation.insert(link.0, utilisation);
        }
    }

    #[test]
    fn flowlets_take_a_port_of_the_best_quality() {
        let mut bench = Bench::switch(SPEC, 4);
        // Bands of queue 2, 0, 4, 0 and of load 0, 4, 0, 2; their means are 1, 2, 2, 1.
        delay(&mut bench, [25, 0, 40, 9]);
        load(&mut bench, [0.1, 0.5, 0.0, 0.3]);
        let hits: [u32; 4] = bench.port_hits((0..1000).map(packet));
        assert!(hits[1] == 0 && hits[2] == 0 && hits[0] > 400 && hits[3] > 400, "{hits:?}");
    }

    #[test]
    fn weights_select_what_counts() {
        let mut bench = Bench::switch("ars:interval=20us,queue_range=80us,exponent=0,load_weight=0", 4);
        delay(&mut bench, [25, 0, 40, 12]);
        load(&mut bench, [0.1, 0.99, 0.0, 0.3]);
        let hits: [u32; 4] = bench.port_hits((0..100).map(packet));
        assert_eq!(hits, [0, 100, 0, 0]);
        let mut neither = Bench::switch("ars:load_weight=0,queue_weight=0", 4);
        delay(&mut neither, [25, 0, 40, 12]);
        let hits: [u32; 4] = neither.port_hits((0..1000).map(packet));
        assert!(hits.iter().all(|hits| (180..320).contains(hits)), "{hits:?}");
    }

    #[test]
    fn samples_last_for_an_interval_and_averages_forget_by_the_exponent() {
        let mut bench =
            Bench::switch("ars:mode=packet-quality,interval=20us,queue_range=80us,exponent=1,load_weight=0", 4);
        // Long enough that the idle past does not count.
        bench.wait(Time::from_ms(2));
        delay(&mut bench, [60, 60, 60, 0]);
        assert_eq!(bench.port_hits::<4>((0..50).map(packet)), [0, 0, 0, 50]);
        delay(&mut bench, [0, 60, 60, 60]);
        assert_eq!(bench.port_hits::<4>((0..50).map(packet)), [0, 0, 0, 50], "the same interval");
        bench.wait(Time::from_us(20));
        // Averages are now 30, 60, 60, 30 us; then 15 and 45.
        let hits: [u32; 4] = bench.port_hits((0..100).map(packet));
        assert!(hits[0] > 25 && hits[3] > 25 && hits[1] + hits[2] == 0, "{hits:?}");
        bench.wait(Time::from_us(20));
        assert_eq!(bench.port_hits::<4>((0..50).map(packet)), [50, 0, 0, 0]);
    }

    #[test]
    fn a_flowlet_keeps_its_port_until_it_pauses() {
        let mut bench = Bench::switch(SPEC, 4);
        let first = bench.choose(&packet(1));
        let mut queues = [0; 4];
        queues[first] = 75;
        delay(&mut bench, queues);
        for _ in 0..10 {
            bench.wait(Time::from_us(50));
            assert_eq!(bench.choose(&packet(1)), first);
        }
        bench.wait(Time::from_us(51));
        assert_ne!(bench.choose(&packet(1)), first);
    }

    #[test]
    fn a_fixed_flow_never_moves_but_leaves_a_dead_port() {
        let mut bench = Bench::switch("ars:mode=fixed,interval=20us", 4);
        let first = bench.choose(&packet(1));
        bench.wait(Time::from_s(1));
        assert_eq!(bench.choose(&packet(1)), first);
        let link = bench.links[first];
        bench.ports.down.insert(link.0);
        bench.wait(Time::from_us(20));
        assert_ne!(bench.choose(&packet(1)), first);
    }

    #[test]
    fn a_dead_port_gets_no_packet_after_one_interval() {
        for mode in ["flowlet-quality", "flowlet-random", "packet-quality", "packet-random", "fixed"] {
            let mut bench = Bench::switch(&format!("ars:mode={mode},interval=20us,idle=1s"), 4);
            (0..200).for_each(|flow| _ = bench.choose(&packet(flow)));
            let link = bench.links[2];
            bench.ports.down.insert(link.0);
            bench.wait(Time::from_us(20));
            let hits: [u32; 4] = bench.port_hits((0..400).map(packet));
            assert!(hits[2] == 0 && hits.iter().filter(|hits| **hits > 50).count() == 3, "{mode}: {hits:?}");
            let links = bench.links.clone();
            bench.ports.down.extend(links.iter().map(|link| link.0));
            bench.wait(Time::from_us(20));
            assert!((0..50).all(|flow| bench.choose(&packet(flow)) < 4), "{mode}: all ports down");
        }
    }

    #[test]
    fn flows_that_share_an_entry_share_a_port() {
        let mut bench = Bench::switch("ars:max_flows=1,idle=50us", 4);
        let first = bench.choose(&packet(1));
        assert!((2..100).all(|flow| bench.choose(&packet(flow)) == first));
    }

    #[test]
    fn a_worse_port_is_left_within_a_flowlet_from_the_difference_on() {
        let spec = "ars:interval=20us,queue_range=80us,exponent=0,idle=1s,load_weight=0,quality_delta=3";
        let mut bench = Bench::switch(spec, 4);
        let first = bench.choose(&packet(1));
        for (us, moves) in [(29, false), (30, true)] {
            let mut queues = [0; 4];
            queues[first] = us;
            delay(&mut bench, queues);
            bench.wait(Time::from_us(20));
            assert_eq!(bench.choose(&packet(1)) != first, moves, "{us} us");
        }
        let mut never = Bench::switch(&format!("{spec},move_probability=0"), 4);
        let first = never.choose(&packet(1));
        let mut queues = [0; 4];
        queues[first] = 79;
        delay(&mut never, queues);
        never.wait(Time::from_us(20));
        assert_eq!(never.choose(&packet(1)), first);
    }
}
