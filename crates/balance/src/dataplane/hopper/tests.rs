//! Each test shows one property of the header, on the bench or with a model of one flow.

use net::HostIx;

use super::probes::{PROBE_BYTES, Tag, VALUE_MAX};
use super::*;
use crate::dataplane::Control;
use crate::dataplane::common::one_flow::{Counts, OneFlow};
use crate::dataplane::common::probe_paths::longer_ps;
use crate::dataplane::testing::{BASE_RTT, Bench, control_arrival, packet, path_feedback, with_edge_env};
use crate::hash::mix;

const US: u64 = 1_000_000;

/// Sends a packet of flow 1 from the path before.
fn send(bench: &mut Bench, current: u16) -> u16 {
    bench.choose_path(&packet(1), Some(current))
}

/// Ends a round of flow 1 whose only RTT is this number of base RTTs.
fn round(bench: &mut Bench, path: u16, base_rtts: f64) {
    bench.wait(Time::from_ms(1));
    bench.feedback(path, base_rtts);
}

/// Begins flow 1 and its first round, and ends `rounds` congested ones.
fn congested(bench: &mut Bench, rounds: u32) -> u16 {
    let path = bench.choose_path(&packet(1), None);
    bench.feedback(path, 2.0);
    (0..rounds).for_each(|_| round(bench, path, 2.0));
    path
}

/// Returns the time that a probe and its reply save in the network of [`Bench::edge`].
fn probe_saves(paths: usize) -> Time {
    let family = format!("leaf-spine:leaves=4,spines={paths},hosts_per_leaf=4");
    Time::from_ps(with_edge_env(&family, 0, |env| longer_ps(env, ClassIx(1), u32::from(PROBE_BYTES))))
}

/// Replies to a probe so that its RTT, with what it saves, is that number of base RTTs. Just before
/// that, flow 1 sends a packet.
fn reply(bench: &mut Bench, path: u16, probe: &Control, base_rtts: f64, sent: Time) {
    let rtt = Time::from_ps((BASE_RTT.as_ps() as f64 * base_rtts) as u64);
    bench.now = sent.saturating_add(rtt).saturating_sub(probe_saves(4));
    send(bench, path);
    let tag = Tag { is_reply: true, value: 0, ..Tag::unpack(probe.tag) }.pack();
    bench.control(&control_arrival(ClassIx(1), probe.path, probe.word, tag));
}

/// Lets flow 1 probe, with replies after these RTTs; returns its path and those probed.
fn probed(bench: &mut Bench, base_rtts: [f64; 2]) -> (u16, [u16; 2]) {
    let path = congested(bench, 2);
    let sent = bench.now;
    let probes = std::mem::take(&mut bench.commands.controls);
    assert_eq!(probes.len(), 2);
    probes.iter().zip(base_rtts).for_each(|(probe, base_rtts)| reply(bench, path, probe, base_rtts, sent));
    (path, [probes[0].path, probes[1].path])
}

/// Returns the events of 100 flows of 2000 packets over four paths with random, constant delays.
fn runs(spec: &str, back: Option<Time>) -> Counts {
    let mut sum = Counts::default();
    for seed in 0..100 {
        let one_way = (0..4).map(|path| Time::from_us(60 + mix(seed << 8 | path) % 300)).collect();
        let mut flow = OneFlow::new(spec, one_way, seed);
        (flow.back, flow.probe_saves) = (back, probe_saves(4));
        let counts = flow.run(2000, 100);
        sum.reordered += counts.reordered;
        sum.moves += counts.moves;
        sum.pauses += counts.pauses;
    }
    sum
}

#[test]
fn exact_delays_keep_the_order_at_moves() {
    let counts = runs("hopper", None);
    assert!(counts.reordered == 0 && counts.moves > 60 && counts.pauses >= counts.moves, "{counts:?}");
    let at_once = runs("hopper:wait=0", None);
    assert!(at_once.reordered > 100, "{at_once:?}");
    // With equal delays in the return direction, the difference is that of the forward one.
    let back = Some(Time::from_us(60));
    let (half, whole) = (runs("hopper", back), runs("hopper:wait=1", back));
    assert!(half.reordered > 100, "{half:?}");
    assert!(whole.reordered == 0 && whole.moves > 60, "{whole:?}");
}

#[test]
fn without_congestion_there_is_no_probe() {
    let mut bench = Bench::edge("hopper", 4);
    let path = congested(&mut bench, 1);
    for _ in 0..1000 {
        round(&mut bench, path, 1.5);
        round(&mut bench, path, 1.51);
    }
    assert!(bench.commands.is_empty(), "no two rounds in a row were congested");
    // Long round trips of another path, or of trimmed packets, are not those of the flow.
    for _ in 0..10 {
        round(&mut bench, (path + 1) % 4, 9.0);
        let rtt = Time::from_ms(2);
        bench.path_feedback(&PathFeedback { is_nack: true, rtt, ..path_feedback(1, path) });
    }
    assert!(bench.commands.is_empty());
}

#[test]
fn congested_rounds_in_a_row_cause_probes_of_other_paths() {
    for (spec, rounds, probes) in [("hopper", 2, 2), ("hopper:rounds=5,probes=1", 5, 1), ("hopper:probes=4", 2, 3)] {
        let mut bench = Bench::edge(spec, 4);
        let path = congested(&mut bench, rounds - 1);
        assert!(bench.commands.controls.is_empty(), "{spec}");
        round(&mut bench, path, 2.0);
        let mut probed: Vec<u16> = bench.commands.controls.iter().map(|probe| probe.path).collect();
        probed.sort_unstable();
        probed.dedup();
        assert!(probed.len() == probes && !probed.contains(&path), "{spec}: {probed:?}");
        assert!(bench.commands.controls.iter().all(|probe| probe.to == ClassIx(1)));
    }
}

#[test]
fn a_flow_moves_to_the_best_path_after_the_wait() {
    for spec in ["hopper", "hopper:hold_off=0rtt"] {
        let mut bench = Bench::edge(spec, 4);
        let (path, [best, _]) = probed(&mut bench, [1.2, 1.5]);
        // Half of the difference of 2 and 1.2 base RTTs, and two packets.
        let [(1, pause)] = bench.commands.pauses[..] else { panic!("{:?}", bench.commands.pauses) };
        let margin = 12 * US / 5;
        assert!(pause.as_ps().abs_diff(40 * US + margin) < 2, "{pause:?}");
        for us in [1, 20, 39] {
            bench.wait(Time::from_us(us));
            assert_eq!(send(&mut bench, path), path, "sent before the pause, {us} us after the packet before");
        }
        bench.wait(Time::from_us(41));
        assert_eq!(send(&mut bench, path), best, "{spec}");
        assert_eq!(send(&mut bench, best), best);
    }
}

#[test]
fn only_a_clearly_better_path_is_taken() {
    for (base_rtts, moves) in [([1.7, 1.61], false), ([1.7, 1.59], true)] {
        let mut bench = Bench::edge("hopper", 4);
        let (path, [_, best]) = probed(&mut bench, base_rtts);
        assert_eq!(bench.commands.pauses.len(), usize::from(moves));
        bench.wait(Time::from_us(50));
        assert_eq!(send(&mut bench, path), if moves { best } else { path });
    }
    // The rounds are counted again.
    let mut bench = Bench::edge("hopper", 4);
    let (path, _) = probed(&mut bench, [1.9, 1.9]);
    round(&mut bench, path, 2.0);
    assert!(bench.commands.controls.is_empty());
    round(&mut bench, path, 2.0);
    assert_eq!(bench.commands.controls.len(), 2);
}

#[test]
fn replies_that_are_late_or_lost_do_not_count() {
    let mut bench = Bench::edge("hopper", 4);
    let path = congested(&mut bench, 2);
    let sent = bench.now;
    let probes = std::mem::take(&mut bench.commands.controls);
    reply(&mut bench, path, &probes[0], 1.2, sent);
    assert!(bench.commands.pauses.is_empty(), "the other reply may be better");
    bench.now = sent;
    round(&mut bench, path, 2.0);
    assert_eq!(bench.commands.pauses.len(), 1, "it would be too late");
    for late in [&probes[1], &probes[0]] {
        reply(&mut bench, path, late, 2.1, sent);
    }
    let stale = Tag { is_reply: true, generation: 400, number: 1, value: 0 }.pack();
    bench.control(&control_arrival(ClassIx(1), 0, 1, stale));
    bench.control(&control_arrival(ClassIx(99), 0, 1, stale));
    assert_eq!(bench.commands.pauses.len(), 1);
}

#[test]
fn a_flow_is_not_judged_during_the_hold_off() {
    let mut bench = Bench::edge("hopper:hold_off=10rtt", 4);
    let (path, [best, _]) = probed(&mut bench, [1.2, 1.5]);
    let decided = bench.now;
    bench.wait(Time::from_us(50));
    assert_eq!(send(&mut bench, path), best);
    bench.feedback(best, 2.0);
    while bench.commands.controls.is_empty() {
        bench.wait(Time::from_us(200));
        bench.feedback(best, 2.0);
    }
    let pause = bench.now.saturating_sub(decided);
    // The wait of 40 us, 1 ms, and between one and two rounds of 200 us: the second one probes.
    assert!((1240..=1440).contains(&(pause.as_ps() / US)), "{pause:?}");
}

#[test]
fn a_flow_without_a_gap_stays_on_its_path() {
    let mut bench = Bench::edge("hopper", 4);
    let (path, _) = probed(&mut bench, [1.2, 1.5]);
    for _ in 0..30 {
        bench.wait(Time::from_us(30));
        assert_eq!(send(&mut bench, path), path);
    }
    bench.wait(Time::from_us(100));
    assert_eq!(send(&mut bench, path), path, "the probes are 1 ms old");
}

#[test]
fn dead_paths_are_left_at_once_and_numbers_are_used_again() {
    let mut bench = Bench::edge("hopper", 4);
    let (path, [best, _]) = probed(&mut bench, [1.2, 1.5]);
    bench.live.retain(|path| *path != best);
    bench.wait(Time::from_us(50));
    assert_eq!(send(&mut bench, path), path, "the better path has died");
    bench.live.retain(|live| *live != path);
    let third = bench.choose_path(&packet(1), None);
    assert_eq!(send(&mut bench, third), third);
    // A later flow of the number, whose handshake gave it a path, does not inherit the move.
    let mut bench = Bench::edge("hopper", 4);
    let (path, _) = probed(&mut bench, [1.2, 1.5]);
    bench.wait(Time::from_us(50));
    let successor = PacketView { hash: mix(77), ..packet(1) };
    assert_eq!(bench.choose_path(&successor, Some(path)), path);
    let reply = PacketView { is_data: false, ..packet(2) };
    assert_eq!(bench.choose_path(&reply, Some(3)), 3);
}

#[test]
fn replies_carry_the_queue_of_the_receivers_link() {
    let mut far = Bench::edge_on("hopper", "leaf-spine:leaves=4,spines=4,hosts_per_leaf=4", 1);
    let host = HostIx(6);
    let routes = net::Routes::intact(far.topology());
    let link = routes.last_link(host).unwrap();
    far.ports.delay.insert(link.0, Time::from_us(100));
    let probe = Tag { is_reply: false, number: 1, generation: 300, value: host.0 };
    for (value, queue) in [(host.0, 256), (5, 0), (VALUE_MAX, 0)] {
        far.control(&control_arrival(ClassIx(0), 3, 70_000, Tag { value, ..probe }.pack()));
        let reply = far.commands.controls.pop().unwrap();
        assert_eq!((reply.to, reply.path, reply.word), (ClassIx(0), 3, 70_000));
        assert_eq!(Tag::unpack(reply.tag), Tag { is_reply: true, value: queue, ..probe });
    }
    far.control(&control_arrival(ClassIx(0), 9, 1, probe.pack()));
    assert!(far.commands.is_empty(), "no such path");
    // The queue counts: both paths have the same incast at their end.
    let mut bench = Bench::edge("hopper", 4);
    congested(&mut bench, 2);
    bench.wait(Time::from_us(100));
    for probe in std::mem::take(&mut bench.commands.controls) {
        let tag = Tag { is_reply: true, value: 256, ..Tag::unpack(probe.tag) }.pack();
        bench.control(&control_arrival(ClassIx(1), probe.path, probe.word, tag));
    }
    assert!(bench.commands.pauses.is_empty());
}
