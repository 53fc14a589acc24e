//! Tests of the decisions of Hermes. On the bench the base RTT is 100 us and a hop delay 80 us:
//! paths are good below 140 us and congested above 220 us, and notably better from 80 us on.

use std::collections::BTreeSet;

use net::{HostIx, Time};

use super::*;
use crate::dataplane::common::crossing;
use crate::dataplane::testing::{BASE_RTT, Bench, arrival, control_arrival, packet, with_edge_env};
use crate::registry::Spec;

/// No probes, no chance, no delay: only the rule of moves.
const RULE: &str = "hermes:probes=0,probability=1,wait=0us,drift=0,min_sent=3000";
const TO: ClassIx = ClassIx(1);
const FABRIC: &str = "leaf-spine:leaves=4,spines=4,hosts_per_leaf=4";

fn bench(rtts: [f64; 4]) -> Bench {
    bench_of(RULE, rtts)
}

/// Paths measured once each; 0 leaves one unmeasured.
fn bench_of(spec: &str, rtts: [f64; 4]) -> Bench {
    let mut bench = Bench::edge(spec, 4);
    measure(&mut bench, rtts);
    bench
}

fn measure(bench: &mut Bench, rtts: [f64; 4]) {
    for (path, rtts) in rtts.into_iter().enumerate().filter(|(_, rtts)| *rtts > 0.0) {
        bench.feedback_marked(900, path as u16, rtts, false);
    }
}

/// Paths that new flows take, each flow sending one packet.
fn placed(bench: &mut Bench, flows: std::ops::Range<u32>) -> [u32; 4] {
    bench.hits(flows.map(packet))
}

/// A flow that has sent `packets` packets on path 0, wherever it was placed first.
fn settled(bench: &mut Bench, flow: u32, packets: u32) {
    bench.choose_path(&packet(flow), None);
    for _ in 1..packets {
        bench.choose_path(&packet(flow), Some(0));
    }
}

/// A bench with flow 1, which has sent `packets` packets on path 0 before paths were measured.
fn settled_bench(spec: &str, packets: u32, rtts: [f64; 4]) -> Bench {
    let mut bench = Bench::edge(spec, 4);
    settled(&mut bench, 1, packets);
    measure(&mut bench, rtts);
    bench
}

fn next(bench: &mut Bench, flow: u32) -> u16 {
    bench.choose_path(&packet(flow), Some(0))
}

#[test]
fn conditions_follow_rtt_and_marks() {
    use Condition::{Congested, Good, Gray};
    // RTT in us, marked packets of 16 (0 or 64 % on average), condition with ECN on and off.
    let table = [
        (139, 0, Good, Good),
        (140, 0, Gray, Gray),
        (220, 0, Gray, Gray),
        (221, 0, Gray, Congested),
        (139, 16, Gray, Good),
        (220, 16, Gray, Gray),
        (221, 16, Congested, Congested),
    ];
    for (rtt, marked, on, off) in table {
        for (ecn, expected) in [("on", on), ("off", off), ("auto", if marked > 0 { on } else { off })] {
            let spec = Spec::parse(&format!("{RULE},ecn={ecn}")).unwrap();
            let mut rules = with_edge_env(FABRIC, 0, |env| Rules::new(env, &spec.params));
            let mut path = PathState::default();
            assert_eq!(rules.condition(&path, TO, Time::ZERO), Gray, "never measured");
            rules.note_rtt(&mut path, TO, Time::from_us(rtt).as_ps(), Time::ZERO);
            (0..marked).for_each(|_| rules.note_mark(&mut path, TO, true, Time::ZERO));
            assert_eq!(rules.condition(&path, TO, Time::ZERO), expected, "{rtt} us, {marked} marks, ecn={ecn}");
            path.is_probe_lost = true;
            assert_eq!(rules.condition(&path, TO, Time::ZERO), Condition::Failed);
        }
    }
}

#[test]
fn new_flows_take_the_good_path_this_edge_sends_least_on() {
    let mut bench = bench([1.2, 1.3, 1.8, 2.5]);
    assert_eq!(placed(&mut bench, 0..10), [5, 5, 0, 0]);
    let first = bench.choose_path(&packet(20), None);
    (0..5).for_each(|_| assert_eq!(bench.choose_path(&packet(20), Some(first)), first));
    // Five packets more on one of the two: the next five flows even that out.
    let expected = if first == 0 { [0, 5, 0, 0] } else { [5, 0, 0, 0] };
    assert_eq!(placed(&mut bench, 30..35), expected);
}

#[test]
fn without_good_paths_gray_ones_and_then_any_are_taken() {
    assert_eq!(placed(&mut bench([2.5, 2.5, 1.8, 2.5]), 0..10), [0, 0, 10, 0]);
    assert_eq!(placed(&mut bench([2.5, 2.5, 2.5, 0.0]), 0..10), [0, 0, 0, 10], "never measured is gray");
    let hits = placed(&mut bench([2.5, 4.0, 2.5, 3.0]), 0..4000);
    assert!(hits.iter().all(|count| (850..1150).contains(count)), "random: {hits:?}");
}

#[test]
fn a_flow_leaves_a_congested_path_only_after_it_has_sent_enough() {
    let mut bench = settled_bench(RULE, 1, [2.5, 1.2, 2.5, 2.5]);
    assert_eq!([next(&mut bench, 1), next(&mut bench, 1)], [0, 0], "1500 and 3000 bytes are not more than 3000");
    assert_eq!(next(&mut bench, 1), 1);
    // The number goes to a new flow, which must send enough itself; its path is congested too.
    measure(&mut bench, [1.0, 0.0, 0.0, 0.0]);
    bench.choose_path(&packet(1), None);
    (0..60).for_each(|_| measure(&mut bench, [2.6, 0.0, 0.0, 0.0]));
    assert_eq!([next(&mut bench, 1), next(&mut bench, 1), next(&mut bench, 1)], [0, 0, 1]);
}

#[test]
fn a_fast_flow_stays() {
    let mut bench = settled_bench(RULE, 100, [2.5, 1.2, 2.5, 2.5]);
    // 100 packets at once look like 6.4 Gb/s (time constant 187.5 us); 3 Gb/s are the limit.
    assert_eq!(next(&mut bench, 1), 0);
    bench.wait(Time::from_us(200));
    assert_eq!(next(&mut bench, 1), 1);
}

#[test]
fn a_flow_moves_only_to_a_notably_better_path() {
    for (rtts, expected) in [
        ([2.5, 2.5, 1.75, 2.5], 0),   // gray, 75 us faster
        ([2.5, 2.5, 1.65, 2.5], 2),   // gray, 85 us faster
        ([2.5, 1.39, 1.65, 2.5], 1),  // a good one comes first
        ([2.15, 1.3, 1.0, 1.0], 0),   // gray itself
        ([2.25, 1.39, 1.41, 2.0], 1), // 86 us faster
        ([2.5, 0.0, 0.0, 0.0], 0),    // never measured is not better
    ] {
        let mut bench = settled_bench(&format!("{RULE},ecn=off"), 3, rtts);
        assert_eq!(next(&mut bench, 1), expected, "{rtts:?}");
    }
}

#[test]
fn with_marks_both_signals_must_agree() {
    let spec = format!("{RULE},ecn=on");
    for (marks, other_marks, expected) in [(16, 0, 1), (0, 0, 0), (16, 16, 0)] {
        let mut bench = settled_bench(&spec, 3, [2.5, 1.65, 2.5, 2.5]);
        (0..marks).for_each(|_| bench.feedback_marked(900, 0, 2.5, true));
        (0..other_marks).for_each(|_| bench.feedback_marked(900, 1, 1.65, true));
        assert_eq!(next(&mut bench, 1), expected, "{marks} marks here, {other_marks} there");
    }
}

#[test]
fn the_first_mark_makes_marks_count() {
    let mut bench = Bench::edge(RULE, 4);
    settled(&mut bench, 1, 3);
    settled(&mut bench, 2, 3);
    measure(&mut bench, [2.5, 1.2, 2.5, 2.5]);
    assert_eq!(next(&mut bench, 1), 1, "no marks in this network so far: RTT alone");
    bench.feedback_marked(900, 3, 2.5, true);
    assert_eq!(next(&mut bench, 2), 0, "there are marks, but none on path 0: it is gray");
}

#[test]
fn rejected_moves_wait() {
    let mut bench =
        settled_bench("hermes:probes=0,probability=1,wait=100us,drift=0,min_sent=3000", 3, [2.5, 2.5, 2.5, 2.5]);
    assert_eq!(next(&mut bench, 1), 0, "nothing is better");
    (0..60).for_each(|_| measure(&mut bench, [0.0, 1.2, 0.0, 0.0]));
    bench.wait(Time::from_us(99));
    assert_eq!(next(&mut bench, 1), 0);
    bench.wait(Time::from_us(1));
    assert_eq!(next(&mut bench, 1), 1);
}

#[test]
fn only_some_moves_are_made() {
    let mut moved = 0;
    for flow in 0..400 {
        let mut bench = Bench::edge("hermes:probes=0,wait=1s,drift=0,min_sent=3000", 4);
        // Each bench has the same stream, so later flows have drawn more of it.
        (0..flow).for_each(|other| settled(&mut bench, 1000 + other, 1));
        settled(&mut bench, flow, 3);
        measure(&mut bench, [2.5, 1.2, 2.5, 2.5]);
        moved += u32::from(next(&mut bench, flow) == 1);
    }
    assert!((150..250).contains(&moved), "half of 400, five standard deviations: {moved}");
}

#[test]
fn timeout_moves_flow_immediately() {
    let mut bench = bench([1.8, 1.2, 2.5, 2.5]);
    settled(&mut bench, 1, 1);
    assert_eq!(next(&mut bench, 1), 0, "gray is not left");
    bench.loss(1, 0, Loss::FastRetransmit);
    assert_eq!(next(&mut bench, 1), 0);
    bench.loss(1, 0, Loss::Timeout);
    assert_eq!(next(&mut bench, 1), 1);
    assert_eq!(next(&mut bench, 1), 0, "once");
}

#[test]
fn a_pair_avoids_its_blackhole_and_others_do_not() {
    let mut bench = bench([1.0, 1.8, 1.8, 1.8]);
    settled(&mut bench, 1, 1);
    (0..3).for_each(|_| bench.loss(1, 0, Loss::Timeout));
    assert_eq!(placed(&mut bench, 10..14), [4, 0, 0, 0], "three timeouts are allowed");
    bench.loss(1, 0, Loss::Timeout);
    assert_eq!(placed(&mut bench, 20..24)[0], 0, "the only good path is a hole");
    assert_ne!(next(&mut bench, 1), 0, "who is on it leaves");
    let others = [(1, 9), (0, 8)].map(|(src, dst)| PacketView { src: HostIx(src), dst: HostIx(dst), ..packet(30) });
    assert!(others.iter().all(|other| bench.choose_path(other, None) == 0));
    // An acknowledgement of the pair over path 0 shows that it works.
    bench.feedback_marked(1, 0, 1.0, false);
    assert_eq!(placed(&mut bench, 40..44), [4, 0, 0, 0]);
}

/// Sends 199 packets of flow 1 on path 0, `resent` of them again, and one to end the window.
fn window(bench: &mut Bench, resent: u32) {
    settled(bench, 1, 199 - resent);
    for _ in 0..resent {
        bench.choose_path(&PacketView { is_retransmission: true, ..packet(1) }, Some(0));
    }
    bench.wait(Time::from_us(12_500));
    next(bench, 1);
}

#[test]
fn random_drops_are_distinguished_from_congestion() {
    let spec = format!("{RULE},failed_for=1ms");
    let rtts = [1.2, 1.8, 1.8, 1.8];
    for (resent, is_congested, expected) in [(1, false, 0), (3, false, 1), (3, true, 0)] {
        let mut bench = bench_of(&spec, rtts);
        if is_congested {
            (0..60).for_each(|_| measure(&mut bench, [2.5, 0.0, 0.0, 0.0]));
            (0..60).for_each(|_| measure(&mut bench, [1.0, 0.0, 0.0, 0.0]));
        }
        window(&mut bench, resent);
        let avoided = placed(&mut bench, 10..20)[0] == 0;
        assert_eq!(avoided, expected == 1, "{resent} sent again, congested in between: {is_congested}");
        assert_eq!(next(&mut bench, 1) != 0, expected == 1);
        bench.wait(Time::from_ms(1));
        assert_eq!(placed(&mut bench, 20..24), [4, 0, 0, 0], "failures end");
    }
}

#[test]
fn idle_paths_are_forgotten_slowly() {
    let mut drifting = bench_of("hermes:probes=0", [1.0, 0.0, 0.0, 0.0]);
    let mut fixed = bench([1.0, 0.0, 0.0, 0.0]);
    for bench in [&mut drifting, &mut fixed] {
        // 75 us a tick: 267 ticks leave 7 % of the way from 100 to 210 us, 202 us.
        bench.wait(Time::from_ms(20));
        measure(bench, [0.0, 1.2, 0.0, 0.0]);
    }
    assert_eq!(placed(&mut drifting, 0..10), [0, 10, 0, 0]);
    assert_eq!(placed(&mut fixed, 0..10), [5, 5, 0, 0]);
}

#[test]
fn paths_may_vanish_and_return() {
    let mut bench = bench([1.0, 1.8, 1.8, 1.8]);
    settled(&mut bench, 1, 5);
    bench.live = vec![1, 3];
    assert!([1, 3].contains(&bench.choose_path(&packet(1), None)));
    bench.live = vec![3];
    assert_eq!(bench.choose_path(&packet(1), None), 3);
    bench.live = (0..4).collect();
    assert_eq!(placed(&mut bench, 10..12), [2, 0, 0, 0]);
}

fn probes(bench: &mut Bench) -> Vec<crate::dataplane::Control> {
    bench.commands = Default::default();
    bench.timer(0);
    assert_eq!(bench.commands.timers.len(), 1);
    bench.commands.controls.clone()
}

/// Returns the time of a packet over an empty path from class 0 to class 1.
fn crossing_time(bench: &Bench, path: u32, bytes: u32) -> Time {
    let times = bench.path(1, path).into_iter().map(|link| crossing(bench.topology(), link, bytes));
    times.fold(Time::ZERO, Time::saturating_add)
}

/// Delivers the reply to a probe, `queueing` late on an otherwise empty network.
fn answer(bench: &mut Bench, probe: &crate::dataplane::Control, queueing: Time, is_marked: bool) {
    let way = crossing_time(bench, 0, u32::from(probe.bytes));
    bench.wait(way.saturating_add(way).saturating_add(queueing));
    let word = probe.word | 1 << 31 | u32::from(is_marked) << 30;
    bench.control(&ControlArrival { one_way: way, ..control_arrival(probe.to, 0, word, 0) });
}

#[test]
fn the_agent_probes_two_random_paths_to_each_edge_and_the_best_one_before() {
    let mut bench = Bench::edge("hermes:drift=0", 4);
    let first = bench.commands.timers[0].0;
    assert!(first < Time::from_us(625), "the interval is 6.25 base RTTs");
    let mut best = None;
    for turn in 0..30 {
        let sent = probes(&mut bench);
        // Three other edges share the interval.
        let next = bench.commands.timers[0].0.saturating_sub(bench.now);
        assert_eq!(next, Time::from_ps(625_000_000 / 3));
        assert!(
            sent.iter().all(|probe| probe.to == ClassIx(1 + turn % 3) && probe.bytes == 64 && probe.is_ecn_capable)
        );
        let paths: BTreeSet<u16> = sent.iter().map(|probe| probe.path).collect();
        assert_eq!(paths.len(), sent.len(), "all different");
        if turn % 3 == 0 {
            let remembered = best.is_none_or(|best| paths.contains(&best));
            assert!(remembered && paths.len() >= 2, "{paths:?} without {best:?}");
            // Both left at the same time, so the one with the first reply is the faster one.
            answer(&mut bench, &sent[0], Time::ZERO, false);
            answer(&mut bench, &sent[1], Time::ZERO, false);
            best = Some(sent[0].path);
        }
    }
}

#[test]
fn an_empty_path_probes_as_good_and_a_queue_does_not() {
    for (queueing, is_good) in [(0, true), (39, true), (41, false)] {
        let mut bench = Bench::edge("hermes:drift=0", 4);
        let sent = probes(&mut bench);
        // A probe is shorter and turns before the host; paths must not look faster for that.
        answer(&mut bench, &sent[0], Time::from_us(queueing), false);
        let hits = placed(&mut bench, 0..20);
        assert_eq!(hits[usize::from(sent[0].path)] == 20, is_good, "{queueing} us: {hits:?}");
    }
}

#[test]
fn lost_probe_fails_path_until_next_delivery() {
    let family = "leaf-spine:leaves=2,spines=8,hosts_per_leaf=4";
    let mut bench = Bench::edge_on("hermes:drift=0", family, 0);
    let first = probes(&mut bench);
    let lost: Vec<u16> = first.iter().map(|probe| probe.path).collect();
    let placed = |bench: &mut Bench| bench.hits::<8>((0..200).map(packet));
    // The timeout is 25 base RTTs, four intervals.
    for _ in 0..3 {
        bench.wait(Time::from_us(625));
        probes(&mut bench);
    }
    assert!(placed(&mut bench).iter().all(|count| *count > 0), "none is lost yet");
    bench.wait(Time::from_us(625));
    probes(&mut bench);
    // A late reply must not count for the probe that now has the same index.
    first.iter().for_each(|probe| answer(&mut bench, probe, Time::ZERO, false));
    let hits = placed(&mut bench);
    assert!((0..8).all(|path| (hits[usize::from(path)] == 0) == lost.contains(&path)), "{lost:?}: {hits:?}");
    bench.feedback_marked(900, lost[0], 1.8, false);
    assert!(placed(&mut bench)[usize::from(lost[0])] > 0);
}

#[test]
fn late_and_invalid_replies_are_ignored() {
    let mut bench = Bench::edge("hermes:drift=0", 4);
    let sent = probes(&mut bench);
    answer(&mut bench, &sent[0], Time::from_us(200), false);
    answer(&mut bench, &sent[0], Time::ZERO, false); // a second time
    for word in [u32::MAX, 1 << 31 | 0xff, 1 << 31 | 0xffff << 8] {
        for from in [TO, ClassIx(2), ClassIx(99)] {
            bench.control(&ControlArrival { marked: true, ..control_arrival(from, 60_000, word, u32::MAX) });
            bench.control(&ControlArrival { marked: true, ..control_arrival(from, 60_000, 0, u32::MAX) });
        }
    }
    assert_eq!(placed(&mut bench, 0..40)[usize::from(sent[0].path)], 0, "congested, as the first answer said");
}

#[test]
fn probe_replies_contain_measurements() {
    let mut bench = Bench::edge("hermes", 4);
    for (marked, expected) in [(false, 1 << 31 | 5), (true, 3 << 30 | 5)] {
        bench.commands = Default::default();
        bench.control(&ControlArrival { marked, ..control_arrival(TO, 2, 5, 0) });
        let sent = &bench.commands.controls;
        assert_eq!((sent.len(), sent[0].to, sent[0].path, sent[0].word), (1, TO, 2, expected));
    }
}

#[test]
fn one_way_delays_are_measured_at_far_edge_and_reported_back() {
    let spec = "hermes:signal=one-way,probes=0,drift=0";
    let arrival = |one_way, tag, from| Arrival { one_way, ..arrival(from, 2, tag) };
    for (queueing, is_good) in [(0, true), (39, true), (41, false)] {
        // The far edge has class 1, this one 0.
        let mut far = Bench::edge_on(spec, FABRIC, 1);
        let late = crossing_time(&far, 2, 1500).saturating_add(Time::from_us(queueing));
        far.decapsulate(&packet(1), &arrival(late, 0, ClassIx(0)));
        let ack = PacketView { is_data: false, to: ClassIx(0), bytes: 64, ..packet(1) };
        far.decapsulate(&ack, &arrival(Time::ZERO, 0, ClassIx(0)));
        let tag = far.encapsulate(&ack, 0);
        assert_eq!(tag >> 16, 3, "path 2");
        // Steps are 1/256 of a hop delay.
        let steps = queueing as f64 / 80.0 * 256.0;
        assert!((f64::from(tag & 0xffff) - steps).abs() <= 1.0, "{} steps, {steps} expected", tag & 0xffff);
        let mut here = Bench::edge(spec, 4);
        here.feedback(2, 9.0); // round trips do not count
        here.decapsulate(&ack, &arrival(Time::ZERO, tag, TO));
        assert_eq!(placed(&mut here, 0..20)[2] == 20, is_good, "{queueing} us");
        far.wait(BASE_RTT.saturating_add(Time::from_ps(1)));
        assert_eq!(far.encapsulate(&ack, 0), 0, "an old delay is not told again");
    }
}

#[test]
fn duplicates_move_acknowledgements_off_a_hole_once_a_round_trip() {
    for (word, path_after, is_hole_after) in [("count", 1, true), ("ignore", 0, false)] {
        let mut bench = bench_of(&format!("{RULE},duplicates={word}"), [1.8, 1.2, 2.5, 2.5]);
        let ack = PacketView { is_data: false, ..packet(1) };
        let (src, dst) = (ack.src.0, ack.dst.0);
        bench.choose_path(&ack, None);
        bench.duplicate(1, (src, dst), 0);
        assert_eq!(bench.choose_path(&ack, Some(0)), path_after, "{word}");
        bench.duplicate(1, (src, dst), 0);
        assert_eq!(bench.choose_path(&ack, Some(0)), 0, "{word}: one burst of duplicates is one loss");
        for _ in 0..3 {
            bench.wait(Time::from_ms(1));
            bench.duplicate(1, (src, dst), 0);
        }
        measure(&mut bench, [1.0, 1.8, 1.8, 1.8]);
        (0..60).for_each(|_| measure(&mut bench, [1.0, 1.8, 1.8, 1.8]));
        assert_eq!(placed(&mut bench, 10..14)[0] == 0, is_hole_after, "{word}: more than three are a hole of the pair");
    }
}
