//! The source edge, transition by transition.

use std::collections::BTreeSet;

use net::Time;
use net::routes::ClassIx;

use super::super::tag::{FlowEpoch, Kind, Message, Tag, identity};
use super::{EXPIRY, PS, about, data, epoch, ticks};
use crate::dataplane::PacketView;
use crate::dataplane::testing::{Bench, control_arrival, packet};

/// Reply limit of the bench: `extra`, half a base RTT, plus the round trip between the edges. That
/// is two links of 10 Gb/s and 1 us in each direction, 1500 bytes forward and 64 back.
const PATIENCE: Time = Time::from_ps(50_000_000 + 4_000_000 + 2 * 1_200_000 + 2 * 51_200);
const TIMELY: Time = Time::from_us(50);
const PAUSE: Time = Time::from_us(200);

/// The source edge, with the last path of flow 1.
struct SourceEnd {
    bench: Bench,
    current: Option<u16>,
}

impl SourceEnd {
    fn new(paths: u16) -> SourceEnd {
        SourceEnd { bench: Bench::edge("conweave", paths), current: None }
    }
    fn send_of(&mut self, packet: &PacketView) -> (u16, Tag) {
        let path = self.bench.choose_path(packet, self.current.filter(|path| self.bench.live.contains(path)));
        let word = self.bench.encapsulate(packet, path);
        self.current = Some(path);
        (path, Tag::unpack(word).expect("data packets carry a header"))
    }
    fn send(&mut self) -> (u16, Tag) {
        self.send_of(&packet(1))
    }
    fn send_after(&mut self, wait: Time) -> (u16, Tag) {
        self.bench.wait(wait);
        self.send()
    }
    fn hear(&mut self, message: Message) {
        let (word, tag) = message.pack();
        self.bench.control(&control_arrival(ClassIx(1), 0, word, tag));
    }
    fn stamp(&self) -> u32 {
        ticks().stamp(self.bench.now)
    }
}

#[test]
fn a_flow_begins_with_a_request_and_stays_on_its_path_while_waiting() {
    let mut source = SourceEnd::new(8);
    let (path, first) = source.send();
    assert_eq!(first, Tag { kind: Kind::Request, ..data(epoch(1), 0) });
    for _ in 0..16 {
        let (next, tag) = source.send_after(Time::from_ps(PATIENCE.as_ps() / 16));
        assert_eq!((next, tag), (path, data(epoch(1), source.stamp())));
    }
    assert_eq!(source.bench.now, PATIENCE, "the deadline itself is not late");
}

#[test]
fn a_missing_reply_reroutes_behind_a_tail() {
    let mut source = SourceEnd::new(16);
    let (old, _) = source.send();
    let (tail_path, tail) = source.send_after(PATIENCE.saturating_add(PS));
    assert_eq!((tail_path, tail.kind, tail.is_rerouted), (old, Kind::Tail, false), "last on the old path");
    assert_eq!(tail.time, source.stamp());
    let (new, first) = source.send_after(Time::from_us(1));
    assert_ne!(new, old);
    assert_eq!(first, Tag { kind: Kind::Data, is_rerouted: true, epoch: epoch(1), time: tail.time });
    // Only one reroute at a time: no second one before the CLEAR, however late.
    for _ in 0..20 {
        assert_eq!(source.send_after(Time::from_us(300)), (new, first), "the tail's time, not the packet's");
    }
}

#[test]
fn a_timely_reply_begins_the_next_epoch_on_the_same_path() {
    let mut source = SourceEnd::new(8);
    let (path, _) = source.send();
    for n in 1..200 {
        source.bench.wait(TIMELY);
        source.hear(Message::RttReply(about(1, n)));
        source.hear(Message::RttReply(about(1, n)));
        let time = source.stamp();
        assert_eq!(source.send(), (path, Tag { kind: Kind::Request, ..data(epoch(n + 1), time) }), "epoch {n}");
        assert_eq!(source.send(), (path, data(epoch(n + 1), time)), "one request per epoch");
    }
    assert_eq!(source.send_after(PATIENCE.saturating_add(PS)).1.kind, Kind::Tail, "each request has its own deadline");
}

#[test]
fn timely_reply_ends_wait_of_idle_flow() {
    let mut source = SourceEnd::new(8);
    source.send();
    source.bench.wait(TIMELY);
    source.hear(Message::RttReply(about(1, 1)));
    assert_eq!(source.send_after(EXPIRY.saturating_sub(TIMELY)).1.kind, Kind::Request);
}

#[test]
fn late_foreign_and_repeated_messages_are_ignored() {
    for (wait, message, what) in [
        (PATIENCE, Message::RttReply(about(1, 1)), "a reply at the deadline"),
        (TIMELY, Message::RttReply(about(1, 2)), "of another epoch"),
        (TIMELY, Message::RttReply(FlowEpoch { identity: 77, ..about(1, 1) }), "to a flow that has ended"),
        (TIMELY, Message::Clear(about(1, 1)), "a CLEAR in phase 0"),
    ] {
        let mut source = SourceEnd::new(8);
        source.send();
        source.bench.wait(wait);
        source.hear(message);
        assert_eq!(source.send_after(PATIENCE).1.kind, Kind::Tail, "{what}");
        source.hear(Message::RttReply(about(1, 1)));
        let (_, tag) = source.send();
        assert!(tag.is_rerouted && tag.kind == Kind::Data, "{what}: a reply in phase 1");
        source.hear(Message::Clear(about(1, 2)));
        assert!(source.send().1.is_rerouted, "{what}: the CLEAR of another epoch");
    }
    let mut source = SourceEnd::new(8);
    source.hear(Message::RttReply(about(4_000, 0)));
    source.hear(Message::Notify(9_999));
    source.bench.control(&control_arrival(ClassIx(1), 0, 0, 3));
}

#[test]
fn a_clear_allows_the_next_request_on_the_new_path() {
    let mut source = SourceEnd::new(8);
    source.send();
    source.send_after(Time::from_us(151));
    let (new, _) = source.send();
    source.hear(Message::Clear(about(1, 1)));
    let time = source.stamp();
    assert_eq!(source.send(), (new, Tag { kind: Kind::Request, ..data(epoch(2), time) }));
}

#[test]
fn idle_flow_picks_new_path_and_sends_request() {
    let mut source = SourceEnd::new(16);
    let mut paths = BTreeSet::new();
    for n in 1..100 {
        let (path, tag) = source.send();
        assert_eq!((tag.kind, tag.epoch, tag.is_rerouted), (Kind::Request, epoch(n), false));
        paths.insert(path);
        if n % 2 == 0 {
            // The same holds in phase 1.
            assert_eq!(source.send_after(Time::from_us(151)).1.kind, Kind::Tail);
            assert!(source.send().1.is_rerouted);
        }
        source.bench.wait(EXPIRY.saturating_add(PS));
    }
    assert!(paths.len() > 12, "{paths:?}");
}

#[test]
fn a_notified_path_is_avoided_until_its_pause_is_over() {
    // Of two paths with one paused, both draws hit the paused one in a quarter of cases.
    let mut source = SourceEnd::new(2);
    let begin = |source: &mut SourceEnd, flow: u32| {
        source.current = Some(1);
        source.send_of(&packet(flow)).0
    };
    source.hear(Message::Notify(0));
    source.bench.wait(PAUSE.saturating_sub(PS));
    assert!((0..400).all(|flow| begin(&mut source, flow) == 1), "path 1 was kept or found");
    source.hear(Message::Notify(1));
    source.bench.wait(PS);
    let on_zero = (1_000..1_400).filter(|flow| begin(&mut source, *flow) == 0).count();
    assert!((260..340).contains(&on_zero), "the pause of 0 has ended, that of 1 has begun: {on_zero}");
}

#[test]
fn all_paths_paused_keeps_flow_and_new_flow_takes_any() {
    let mut source = SourceEnd::new(4);
    (0..4).for_each(|path| source.hear(Message::Notify(path)));
    source.current = Some(2);
    assert!((0..50).all(|flow| source.send_of(&packet(flow)).0 == 2));
    let mut seen = [false; 4];
    for flow in 100..200 {
        source.current = None;
        seen[usize::from(source.send_of(&packet(flow)).0)] = true;
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
fn pauses_are_kept_per_destination() {
    let mut source = SourceEnd::new(2);
    source.hear(Message::Notify(0));
    let elsewhere = |flow| PacketView { to: ClassIx(2), ..packet(flow) };
    let used = (0..100).filter(|flow| source.bench.choose_path(&elsewhere(*flow), None) == 0).count();
    assert!((30..70).contains(&used), "path 0 to another edge is another path: {used}");
}

#[test]
fn flow_on_dead_path_starts_new_epoch() {
    let mut source = SourceEnd::new(4);
    let (dead, _) = source.send();
    source.bench.live.retain(|path| *path != dead);
    let (path, tag) = source.send();
    assert_ne!(path, dead);
    assert_eq!((tag.kind, tag.epoch, tag.is_rerouted), (Kind::Request, epoch(2), false));
    source.bench.live = vec![dead];
    assert_eq!(source.send().0, dead);
}

#[test]
fn the_new_path_may_die_between_the_tail_and_its_first_packet() {
    let mut source = SourceEnd::new(16);
    let (old, _) = source.send();
    source.send_after(Time::from_us(151));
    source.bench.live = vec![old, (old + 1) % 16];
    source.bench.live.sort_unstable();
    let (path, tag) = source.send();
    assert!(source.bench.live.contains(&path) && tag.is_rerouted);
    assert_eq!(source.send().0, path, "it stays there");
}

#[test]
fn a_new_flow_of_the_same_number_begins_an_epoch() {
    let mut source = SourceEnd::new(8);
    source.send();
    source.send_after(Time::from_us(151));
    // Neither the edge of another destination nor the flow number resets the state of the old flow.
    let other = PacketView { hash: 12_345 << 40, ..packet(1) };
    let (_, tag) = source.send_of(&other);
    assert_eq!((tag.kind, tag.epoch, tag.is_rerouted), (Kind::Request, epoch(2), false));
    source.hear(Message::RttReply(about(1, 2)));
    assert_eq!(source.send_of(&other).1.kind, Kind::Data, "the reply was to the old flow");
    source.hear(Message::RttReply(FlowEpoch { identity: identity(other.hash), ..about(1, 2) }));
    assert_eq!(source.send_of(&other).1.kind, Kind::Request);
    source.current = None;
    assert_eq!(source.send_of(&other).1.epoch, epoch(4), "the same connection again, but its first packet");
}

#[test]
fn acks_take_paths_by_hash_and_no_header() {
    let mut source = SourceEnd::new(8);
    source.send();
    let mut used = [0; 8];
    for flow in 0..800 {
        let ack = PacketView { is_data: false, bytes: 60, ..packet(flow) };
        let path = source.bench.choose_path(&ack, None);
        assert_eq!(source.bench.choose_path(&ack, None), path);
        assert_eq!(source.bench.encapsulate(&ack, path), 0);
        used[usize::from(path)] += 1;
    }
    assert!(used.iter().all(|n| (60..140).contains(n)), "{used:?}");
}
