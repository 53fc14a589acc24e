//! Tests of both variants, on the sender's side of one edge.

use std::collections::BTreeMap;

use super::*;
use crate::dataplane::testing::{BASE_RTT, Bench, packet, path_feedback};

/// Two paths from class 0 to class 1: direct, or over class 2 with twice the delay.
const TWO_PATHS: &str = "leaf-spine:leaves=3,spines=1,hosts_per_leaf=4";
const DIRECT: ClassIx = ClassIx(1);
const DETOUR: ClassIx = ClassIx(2);
const DRAGONFLY: &str = "dragonfly:p=2,a=4,h=2,local_delay=25ns,global_delay=500ns";
/// A router with one shortest path from router 0: local, global, local.
const FAR: u32 = 14;

/// A flow of one pair of hosts, whose packets and acknowledgements the tests move.
struct Sender {
    bench: Bench,
    to: ClassIx,
    flow: u32,
    seq: u32,
}

impl Sender {
    fn new(spec: &str, family: &str, to: u32) -> Sender {
        Sender { bench: Bench::edge_on(spec, family, 0), to: ClassIx(to), flow: 1, seq: 0 }
    }
    fn next(&mut self) -> ClassIx {
        let packet = PacketView { to: self.to, seq: self.seq, ..packet(self.flow) };
        self.seq += 1;
        self.bench.detour(&packet).unwrap_or(self.to)
    }
    fn start(&mut self, flow: u32) {
        (self.flow, self.seq) = (flow, 0);
    }
    fn echo(&mut self, via: ClassIx, marked: bool, is_nack: bool) {
        let via = Some(via).filter(|via| *via != self.to);
        let feedback = PathFeedback { to: self.to, via, marked, is_nack, ..path_feedback(self.flow, u16::MAX) };
        self.bench.path_feedback(&feedback);
    }
    fn good(&mut self, via: ClassIx) {
        self.echo(via, false, false);
    }
    fn lose(&mut self, una: u32, loss: Loss) {
        self.bench.path_loss(&PathLoss { flow: self.flow, to: self.to, path: u16::MAX, una, loss });
    }
    /// Sends packets with 20 of them in flight, marked by path; returns how many took each path.
    fn run(&mut self, packets: u32, is_marked: impl Fn(ClassIx) -> bool) -> BTreeMap<ClassIx, u32> {
        let (mut hits, mut in_flight) = (BTreeMap::new(), VecDeque::new());
        for _ in 0..packets {
            let via = self.next();
            *hits.entry(via).or_default() += 1;
            in_flight.push_back(via);
            if in_flight.len() == 20 {
                let oldest = in_flight.pop_front().unwrap();
                self.echo(oldest, is_marked(oldest), false);
            }
        }
        hits
    }
}

fn share(hits: &BTreeMap<ClassIx, u32>, via: ClassIx) -> f64 {
    f64::from(hits.get(&via).copied().unwrap_or(0)) / f64::from(hits.values().sum::<u32>())
}

#[test]
fn paths_are_drawn_in_proportion_to_the_inverse_of_their_delay() {
    // Without acknowledgements every packet explores. Two links lead to the class, four over
    // the other one.
    for (spec, direct) in [("spritz", 2.0 / 3.0), ("spritz:scale=4", 8.0 / 9.0), ("spritz:scale=0", 0.5)] {
        let mut sender = Sender::new(spec, TWO_PATHS, 1);
        let hits = (0..20_000).filter(|_| sender.next() == DIRECT).count() as f64 / 20_000.0;
        assert!((hits - direct).abs() < 0.01, "{spec}: {hits}, not {direct}");
    }
    // Router 1 is one local link away: 25 ns, 50 ns over another router of the group, at least
    // 1025 ns over others.
    let mut sender = Sender::new("spritz", DRAGONFLY, 1);
    let mut hits = [0u32; 3];
    for _ in 0..60_000 {
        let via = sender.next();
        assert!(via.0 != 0 && via.0 < 36);
        hits[if via.0 == 1 { 0 } else { 2 - usize::from(via.0 < 4) }] += 1;
    }
    let two_to_one = f64::from(2 * hits[0]) / f64::from(hits[1]);
    assert!((two_to_one - 2.0).abs() < 0.1, "{hits:?}");
}

#[test]
fn idle_network_carries_all_but_explorers_on_shortest_paths() {
    let mut sender = Sender::new("spritz:order=latency", DRAGONFLY, FAR);
    sender.run(4_000, |_| false);
    let hits = sender.run(60_000, |_| false);
    let non_minimal = 1.0 - share(&hits, ClassIx(FAR));
    // One packet of 12 explores, and a few of those draw the shortest path.
    assert!((0.07..1.0 / 12.0).contains(&non_minimal), "{non_minimal}");
    // As published, Scout stays on the path that was acknowledged first.
    let mut published = Sender::new("spritz", DRAGONFLY, FAR);
    let first = published.next();
    published.good(first);
    let hits = published.run(20_000, |_| false);
    assert!(share(&hits, first) > 11.0 / 12.0, "{hits:?}");
}

#[test]
fn scout_leaves_a_marked_path_after_nine_marks_for_good() {
    let mut sender = Sender::new("spritz", TWO_PATHS, 1);
    sender.next();
    [DETOUR, DIRECT].into_iter().for_each(|via| sender.good(via));
    for marks in 0..9 {
        assert_eq!(sender.next(), DETOUR, "after {marks} marks");
        sender.echo(DETOUR, true, false);
    }
    assert_eq!(sender.next(), DIRECT);
    let hits = sender.run(20_000, |via| via == DETOUR);
    // A third of the draws, one for every 12 packets.
    assert!((0.02..0.04).contains(&share(&hits, DETOUR)), "only when exploring: {hits:?}");
}

#[test]
fn spray_uses_a_marked_path_only_when_exploring() {
    let mut sender = Sender::new("spritz:variant=spray", TWO_PATHS, 1);
    sender.run(200, |_| false);
    // Copies of the path in the cache are used once each.
    sender.run(100, |via| via == DETOUR);
    let hits = sender.run(20_000, |via| via == DETOUR);
    // A third of the draws, one for every 12 packets.
    assert!((0.02..0.04).contains(&share(&hits, DETOUR)), "{hits:?}");
}

#[test]
fn spray_uses_a_path_as_often_as_it_was_acknowledged() {
    let mut sender = Sender::new("spritz:variant=spray,cache=4", TWO_PATHS, 1);
    sender.next();
    [DETOUR, DETOUR, DIRECT, DETOUR, DIRECT].into_iter().for_each(|via| sender.good(via));
    let used: Vec<ClassIx> = (0..4).map(|_| sender.next()).collect();
    assert_eq!(used, [DETOUR, DETOUR, DIRECT, DETOUR], "the fifth found the cache full");
}

#[test]
fn a_nack_or_a_fast_retransmission_removes_the_path_from_the_cache_of_scout() {
    for is_nack in [true, false] {
        let mut sender = Sender::new("spritz:explore=0", TWO_PATHS, 1);
        sender.next();
        [DETOUR, DIRECT].into_iter().for_each(|via| sender.good(via));
        assert_eq!([sender.next(), sender.next()], [DETOUR; 2]);
        if is_nack {
            sender.echo(DETOUR, false, true);
        } else {
            sender.lose(1, Loss::FastRetransmit);
        }
        assert_eq!([sender.next(), sender.next()], [DIRECT; 2]);
        // It is not bad: with an empty cache it is drawn.
        sender.echo(DIRECT, false, true);
        assert!((0..100).any(|_| sender.next() == DETOUR));
    }
}

#[test]
fn a_path_that_timed_out_is_not_drawn_until_bad_for_has_passed() {
    for spec in ["spritz", "spritz:variant=spray"] {
        let mut sender = Sender::new(spec, TWO_PATHS, 1);
        // The lost packet is not the latest: the path of its number counts.
        let lost = (0..50).find(|_| sender.next() == DETOUR).unwrap();
        while sender.next() != DIRECT {}
        sender.lose(lost, Loss::Timeout);
        assert!((0..1_000).all(|_| sender.next() == DIRECT), "{spec}");
        sender.bench.wait(Time::from_us(10 * 100));
        assert!((0..100).any(|_| sender.next() == DETOUR), "{spec}: ten round trips later");
    }
}

#[test]
fn a_pair_whose_paths_are_all_bad_still_sends() {
    let mut sender = Sender::new("spritz", TWO_PATHS, 1);
    for seq in 0..50 {
        sender.next();
        sender.lose(seq, Loss::Timeout);
    }
    assert!((0..100).all(|_| [DIRECT, DETOUR].contains(&sender.next())));
}

#[test]
fn flows_of_a_pair_share_the_cache_until_it_expires() {
    let mut sender = Sender::new("spritz:explore=0", TWO_PATHS, 1);
    sender.next();
    sender.good(DETOUR);
    sender.bench.wait(BASE_RTT);
    sender.start(2);
    assert!((0..50).all(|_| sender.next() == DETOUR), "another flow of the same hosts");
    let stranger = PacketView { src: HostIx(3), ..packet(3) };
    assert!((0..50).any(|_| sender.bench.detour(&stranger).is_none()), "another source host");
    // The flow continues on the cached path after a pause, but a flow that starts then does not.
    sender.bench.wait(Time::from_us(1));
    assert!((0..50).all(|_| sender.next() == DETOUR));
    sender.start(4);
    assert!((0..50).any(|_| sender.next() == DIRECT));
}

#[test]
fn the_longest_path_leaves_a_full_cache_in_order_of_latency() {
    let mut sender = Sender::new("spritz:order=latency,cache=2,explore=0", DRAGONFLY, 1);
    sender.next();
    [20, 2, 1].into_iter().for_each(|via| sender.good(ClassIx(via)));
    assert_eq!(sender.next(), ClassIx(1));
    sender.echo(ClassIx(1), false, true);
    assert_eq!(sender.next(), ClassIx(2));
    sender.echo(ClassIx(2), false, true);
    assert!((0..20).any(|_| sender.next() == ClassIx(1)), "the cache is empty");
}

#[test]
fn acknowledgements_and_neighbours_take_no_detour() {
    let mut sender = Sender::new("spritz", TWO_PATHS, 1);
    let ack = PacketView { is_data: false, ..packet(1) };
    assert!((0..50).all(|_| sender.bench.detour(&ack).is_none()));
    let own = PacketView { to: ClassIx(0), ..packet(1) };
    assert!((0..50).all(|_| sender.bench.detour(&own).is_none()));
}

#[test]
fn halves_of_a_path_are_the_same_for_all_flows_of_a_pair() {
    let mut bench = Bench::edge("spritz", 8);
    let first = bench.choose_path(&packet(1), None);
    assert!((2..50).all(|flow| bench.choose_path(&packet(flow), Some(3)) == first));
    let pairs: [u32; 8] = bench.hits((0..800).map(|src| PacketView { src: HostIx(src), ..packet(1) }));
    assert!(pairs.iter().all(|hits| (60..140).contains(hits)), "{pairs:?}");
    let ack = PacketView { is_data: false, ..packet(1) };
    assert_eq!(bench.choose_path(&ack, Some(5)), 5);
}

#[test]
fn feedback_about_unknown_flows_and_packets_is_harmless() {
    let mut sender = Sender::new("spritz", TWO_PATHS, 1);
    sender.lose(7, Loss::Timeout);
    sender.good(DETOUR);
    sender.next();
    sender.lose(900, Loss::Timeout);
    assert!((0..100).any(|_| sender.next() == DETOUR) && (0..100).any(|_| sender.next() == DIRECT));
}
