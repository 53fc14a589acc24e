//! Tests of the decisions of CLOVE.

use net::Time;
use net::routes::ClassIx;

use super::*;
use crate::dataplane::testing::{self, BASE_RTT, Bench, needs, packet};
use crate::hash::mix;

/// Gaps of exactly 100 us; no recovery unless the test waits for it.
const ECN: &str = "clove:gap=100us,decrease=0.5,recovery=1000s";
const FROM: ClassIx = ClassIx(1);

fn arrival(path: u16, tag: u32, marked: bool) -> Arrival {
    Arrival { marked, ..testing::arrival(FROM, path, tag) }
}

fn report(bench: &mut Bench, path: u16) {
    assert_eq!(bench.decapsulate(&packet(9), &arrival(0, pack(path, 0), false)), Delivery::Pass);
}

fn shares(bench: &mut Bench, flows: u32) -> Vec<f64> {
    let mut hits = vec![0.0; 4];
    for _ in 0..flows {
        // Each packet starts a new flowlet, regardless of its flow number.
        bench.wait(Time::from_us(101));
        hits[usize::from(bench.choose_path(&packet(7), None))] += 1.0 / f64::from(flows);
    }
    hits
}

fn assert_near(found: &[f64], expected: [f64; 4], slack: f64) {
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < slack), "{found:?}, expected {expected:?}");
}

#[test]
fn a_report_moves_weight_to_paths_without_reports() {
    let mut bench = Bench::edge(ECN, 4);
    report(&mut bench, 0); // 0.5, 7/6, 7/6, 7/6
    report(&mut bench, 1); // 1 loses 7/12 to 2 and 3: 0.5, 7/12, 35/24, 35/24
    let expected = [0.125, 7.0 / 48.0, 35.0 / 96.0, 35.0 / 96.0];
    assert_near(&shares(&mut bench, 9600), expected, 1e-3);
}

#[test]
fn weight_may_go_to_all_other_paths() {
    let mut bench = Bench::edge(&format!("{ECN},shift=all,pick=random"), 4);
    report(&mut bench, 0);
    report(&mut bench, 1); // 7/12 in three parts: 25/36, 7/12, 49/36, 49/36
    let expected = [25.0 / 144.0, 7.0 / 48.0, 49.0 / 144.0, 49.0 / 144.0];
    // Random picks: three standard deviations of the largest share are 0.0101.
    assert_near(&shares(&mut bench, 20_000), expected, 0.0105);
}

#[test]
fn report_moves_no_weight_if_all_other_paths_had_one() {
    let [mut with, mut without] = [0; 2].map(|_| {
        let mut bench = Bench::edge(ECN, 4);
        [0, 1, 2].into_iter().for_each(|path| report(&mut bench, path));
        bench
    });
    report(&mut with, 3);
    assert_eq!(shares(&mut with, 4800), shares(&mut without, 4800));
}

#[test]
fn reports_of_a_path_count_once_an_interval() {
    // The interval is half a base RTT: 50 us.
    let mut bench = Bench::edge(ECN, 4);
    report(&mut bench, 0);
    bench.wait(Time::from_us(49));
    report(&mut bench, 0);
    assert_near(&shares(&mut bench, 4800), [0.125, 0.875 / 3.0, 0.875 / 3.0, 0.875 / 3.0], 1e-3);
    report(&mut bench, 0);
    assert_near(&shares(&mut bench, 4800), [0.0625, 0.3125, 0.3125, 0.3125], 1e-3);
}

#[test]
fn weights_recover_by_half_a_period() {
    let mut bench = Bench::edge("clove:gap=0us,decrease=0.5,recovery=10ms", 4);
    report(&mut bench, 0);
    bench.wait(Time::from_ms(20));
    // A quarter of the half that was lost is still missing.
    assert_near(&bench.shares::<4>(0..3200), [0.875 / 4.0, 3.125 / 12.0, 3.125 / 12.0, 3.125 / 12.0], 1e-3);
    bench.wait(Time::from_s(10));
    assert_near(&bench.shares::<4>(4000..7200), [0.25; 4], 1e-3);
}

#[test]
fn marks_are_reported_back_once_an_interval() {
    let mut bench = Bench::edge(ECN, 4);
    let back = packet(1);
    assert_eq!(bench.encapsulate(&back, 0), 0);
    for path in [2, 0, 2] {
        assert_eq!(bench.decapsulate(&packet(9), &arrival(path, 0, true)), Delivery::PassUnmarked);
    }
    let elsewhere = PacketView { to: ClassIx(2), ..back };
    assert_eq!(bench.encapsulate(&elsewhere, 0), 0);
    let ack = PacketView { is_data: false, ..back };
    assert_eq!([0; 3].map(|_| unpack(bench.encapsulate(&ack, 0))), [Some((0, 0)), Some((2, 0)), None]);
    bench.wait(Time::from_us(49));
    bench.decapsulate(&packet(9), &arrival(2, 0, true));
    assert_eq!(bench.encapsulate(&back, 0), 0, "reported 49 us ago");
    bench.wait(Time::from_us(1));
    bench.decapsulate(&packet(9), &arrival(2, 0, true));
    assert_eq!(unpack(bench.encapsulate(&back, 0)), Some((2, 0)));
}

#[test]
fn hosts_see_marks_only_when_every_path_is_congested() {
    let mut sender = Bench::edge(ECN, 4);
    for path in 0..4 {
        assert_eq!(sender.encapsulate(&packet(1), 0) & ALL_CONGESTED, 0, "{path} is not congested");
        report(&mut sender, path);
    }
    let tag = sender.encapsulate(&packet(1), 0);
    assert_eq!(tag, ALL_CONGESTED);
    let mut receiver = Bench::edge(ECN, 4);
    assert_eq!(receiver.decapsulate(&packet(9), &arrival(0, tag, true)), Delivery::Pass);
    assert_eq!(receiver.decapsulate(&packet(9), &arrival(0, 0, true)), Delivery::PassUnmarked);
    assert_eq!(receiver.decapsulate(&packet(9), &arrival(0, 0, false)), Delivery::Pass);
    sender.wait(BASE_RTT);
    assert_eq!(sender.encapsulate(&packet(1), 0), 0, "reports are forgotten after a base RTT");
    let mut open = Bench::edge("clove:hide_ecn=off", 4);
    assert_eq!(open.decapsulate(&packet(9), &arrival(0, 0, true)), Delivery::Pass);
}

#[test]
fn dead_paths_receive_no_weight_and_are_not_awaited() {
    let mut bench = Bench::edge(ECN, 4);
    bench.live = vec![0, 2];
    bench.choose_path(&packet(1), None);
    report(&mut bench, 0); // 0.5 and 1.5 of the live paths
    assert_eq!(bench.encapsulate(&packet(1), 0) & ALL_CONGESTED, 0);
    report(&mut bench, 2);
    assert_eq!(bench.encapsulate(&packet(1), 0) & ALL_CONGESTED, ALL_CONGESTED);
    assert_near(&shares(&mut bench, 800), [0.25, 0.0, 0.75, 0.0], 3e-3);
    bench.live = (0..4).collect();
    assert_near(&shares(&mut bench, 8000), [0.125, 0.25, 0.375, 0.25], 1e-3);
}

#[test]
fn flowlets_keep_their_path_while_it_lives() {
    for spec in ["clove:signal=flowlet,gap=100us", ECN, "clove:signal=int,gap=100us,gap_mode=agebit,entries=16"] {
        let mut bench = Bench::edge(spec, 4);
        let path = bench.choose_path(&packet(1), None);
        for _ in 0..20 {
            bench.wait(Time::from_us(100));
            assert_eq!(bench.choose_path(&packet(1), Some(path)), path, "{spec}");
        }
        bench.live.retain(|p| *p != path);
        bench.choose_path(&packet(1), None);
    }
}

#[test]
fn no_signal_spreads_flowlets_evenly_without_header() {
    let mut bench = Bench::edge("clove:signal=flowlet,gap=100us", 4);
    // Random picks: five standard deviations of a share of a quarter.
    assert_near(&shares(&mut bench, 10_000), [0.25; 4], 0.022);
    assert_eq!(needs("clove:signal=flowlet"), Needs::default());
    let first = bench.choose_path(&packet(3), None);
    let successors = (0..40).map(|n| PacketView { hash: mix(n), ..packet(3) });
    assert!(successors.into_iter().any(|new| bench.choose_path(&new, None) != first), "new flows under an old number");
}

#[test]
fn with_int_flowlets_take_the_least_utilised_path_reported() {
    let mut bench = Bench::edge("clove:signal=int,gap=100us,ageing=1ms", 4);
    for (path, utilisation) in [(0, 90), (1, 20), (2, 30), (3, 20)] {
        bench.decapsulate(&packet(9), &arrival(0, pack(path, utilisation), false));
    }
    // Paths 1 and 3 tie; 2000 random picks: five standard deviations.
    assert_near(&bench.shares::<4>(0..2000), [0.0, 0.5, 0.0, 0.5], 0.056);
    bench.wait(Time::from_us(1001));
    assert_near(&bench.shares::<4>(0..2000), [0.25; 4], 0.049);
    // The measured utilisation is returned.
    let met = Arrival { utilisation: 200, ..arrival(3, 0, false) };
    bench.decapsulate(&packet(9), &met);
    assert_eq!(unpack(bench.encapsulate(&packet(1), 0)), Some((3, 200)));
}

#[test]
fn invalid_header_changes_nothing() {
    for spec in [ECN, "clove:signal=int,gap=100us"] {
        let mut bench = Bench::edge(spec, 4);
        for tag in [pack(4, 255), pack(u16::MAX - 1, 255), u32::MAX] {
            bench.decapsulate(&packet(9), &arrival(u16::MAX, tag, true));
        }
        assert_eq!(bench.encapsulate(&packet(1), 0), 0);
        let found = shares(&mut bench, 400);
        assert!(found.iter().all(|share| *share > 0.1), "{spec}: {found:?}");
    }
}
