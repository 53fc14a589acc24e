//! The destination edge, transition by transition.

use net::Time;
use net::routes::ClassIx;

use super::super::CONTROL_BYTES;
use super::super::tag::{FlowEpoch, Kind, Message, Tag, identity};
use super::{PS, about, data, epoch, ticks};
use crate::dataplane::testing::{Bench, arrival, packet};
use crate::dataplane::{Arrival, Commands, Control, Delivery, PacketView};

const FLUSH_EXTRA: Time = Time::from_us(200);
const WAIT: Time = Time::from_us(2_500);
const AGING: Time = Time::from_ms(25);

/// The destination edge, which is class 1.
struct DestinationEnd {
    bench: Bench,
}

/// Departure of phase-0 packets by the source's clock, which the destination cannot read.
const EARLIER: Time = Time::from_us(777);

impl DestinationEnd {
    fn new() -> DestinationEnd {
        DestinationEnd { bench: Bench::edge_on("conweave", "leaf-spine:leaves=4,spines=4,hosts_per_leaf=4", 1) }
    }
    fn receive_of(&mut self, packet: &PacketView, tag: Tag, marked: bool) -> (Delivery, Commands) {
        let arrival = Arrival { marked, ..arrival(ClassIx(0), 3, tag.pack()) };
        let delivery = self.bench.decapsulate(packet, &arrival);
        (delivery, std::mem::take(&mut self.bench.commands))
    }
    fn receive(&mut self, tag: Tag) -> (Delivery, Commands) {
        self.receive_of(&packet(1), tag, false)
    }
    fn before(&mut self, kind: Kind, n: usize, left: Time) -> (Delivery, Commands) {
        self.receive(Tag { kind, is_rerouted: false, epoch: epoch(n), time: ticks().stamp(left) })
    }
    fn rerouted(&mut self, n: usize, tail_left: Time) -> (Delivery, Commands) {
        let time = ticks().stamp(tail_left);
        self.receive(Tag { kind: Kind::Data, is_rerouted: true, epoch: epoch(n), time })
    }
    fn timer(&mut self) -> Commands {
        self.bench.timer(1);
        std::mem::take(&mut self.bench.commands)
    }
}

/// Returns the only requested control packet.
fn message(commands: &Commands) -> Message {
    let [Control { to: ClassIx(0), path: 0..4, bytes: CONTROL_BYTES, is_ecn_capable: false, word, tag }] =
        commands.controls[..]
    else {
        panic!("{commands:?}")
    };
    Message::unpack(word, tag).expect("a message of ConWeave")
}

/// Returns the delivery and the only requested control packet.
fn told((delivery, commands): (Delivery, Commands)) -> (Delivery, Message) {
    (delivery, message(&commands))
}

/// Returns whether a packet passed without effect.
fn is_ignored((delivery, commands): (Delivery, Commands)) -> bool {
    delivery == Delivery::Pass && commands.is_empty()
}

/// Returns the time of the only requested timer, which must be flow 1's.
fn timer(commands: &Commands) -> Time {
    let [(at, 1)] = commands.timers[..] else { panic!("{commands:?}") };
    at
}

/// Asserts equality up to the rounding of times in tags to ticks.
fn is_near(a: Time, b: Time) -> bool {
    a.as_ps().abs_diff(b.as_ps()) <= 1 << 16
}

#[test]
fn packets_before_a_reroute_pass_and_requests_are_answered() {
    let mut end = DestinationEnd::new();
    assert_eq!(told(end.before(Kind::Request, 1, EARLIER)), (Delivery::Pass, Message::RttReply(about(1, 1))));
    assert!(is_ignored(end.before(Kind::Data, 1, EARLIER)));
}

#[test]
fn rerouted_packets_wait_for_the_tail() {
    let mut end = DestinationEnd::new();
    end.bench.now = Time::from_us(1_000);
    end.before(Kind::Request, 1, EARLIER);
    end.bench.wait(Time::from_us(10));
    let tail_left = EARLIER.saturating_add(Time::from_us(40));
    let (delivery, commands) = end.rerouted(1, tail_left);
    assert_eq!(delivery, Delivery::Hold);
    // It left 40 us after the packet that came at 1000 us.
    assert!(is_near(timer(&commands), Time::from_us(1_040).saturating_add(FLUSH_EXTRA)));
    let (delivery, commands) = end.rerouted(1, tail_left);
    assert!(delivery == Delivery::Hold && commands.is_empty(), "no further estimate");
    end.bench.wait(Time::from_us(30));
    let (delivery, commands) = end.before(Kind::Tail, 1, tail_left);
    assert_eq!((delivery, message(&commands)), (Delivery::Pass, Message::Clear(about(1, 1))));
    assert_eq!((timer(&commands), commands.releases.len()), (end.bench.now, 0), "the TAIL goes first");
    assert_eq!(end.rerouted(1, tail_left).0, Delivery::Hold, "at the same moment: behind those waiting");
    assert_eq!(end.timer().releases, [1]);
    assert!(is_ignored(end.rerouted(1, tail_left)));
    end.bench.wait(FLUSH_EXTRA);
    assert!(end.timer().is_empty(), "the first timer finds nothing to do");
}

#[test]
fn early_tail_leaves_nothing_to_hold() {
    let mut end = DestinationEnd::new();
    let (delivery, commands) = end.before(Kind::Tail, 1, EARLIER);
    assert_eq!((delivery, message(&commands)), (Delivery::Pass, Message::Clear(about(1, 1))));
    assert!(commands.timers.is_empty());
    assert_eq!(end.rerouted(1, EARLIER).0, Delivery::Pass);
}

#[test]
fn each_packet_on_the_old_path_renews_the_estimate() {
    let mut end = DestinationEnd::new();
    end.bench.now = Time::from_us(500);
    let left = |us| EARLIER.saturating_add(Time::from_us(us));
    end.before(Kind::Request, 1, left(0));
    let first = timer(&end.rerouted(1, left(40)).1);
    assert!(is_near(first, Time::from_us(740)));
    // A packet that left 10 us later arrives 100 us later: the TAIL is expected 90 us later.
    end.bench.wait(Time::from_us(100));
    assert!(is_ignored(end.before(Kind::Data, 1, left(10))), "the pending timer will find out");
    end.bench.now = first;
    let commands = end.timer();
    assert!(commands.releases.is_empty());
    let second = timer(&commands);
    assert!(is_near(second, Time::from_us(830)));
    // The TAIL is expected earlier when the queue has drained.
    let (_, commands) = end.before(Kind::Data, 1, left(39));
    assert!(commands.is_empty(), "now at 740 us, it is expected after 741 us and the grace");
    end.bench.now = second;
    let third = timer(&end.timer());
    assert!(is_near(third, Time::from_us(941)));
    end.bench.now = third;
    assert_eq!(end.timer().releases, [1]);
}

#[test]
fn an_estimate_that_moves_forward_sets_an_earlier_timer() {
    let mut end = DestinationEnd::new();
    end.bench.now = Time::from_us(500);
    let unknown = timer(&end.rerouted(1, EARLIER).1);
    assert_eq!(unknown, Time::from_us(500).saturating_add(WAIT).saturating_add(FLUSH_EXTRA));
    let (_, commands) = end.before(Kind::Data, 1, EARLIER.saturating_sub(Time::from_us(5)));
    assert!(is_near(timer(&commands), Time::from_us(705)), "now the state of the old path is known");
}

#[test]
fn lost_tail_releases_held_packets_after_timeout() {
    let mut end = DestinationEnd::new();
    end.bench.now = Time::from_us(500);
    end.before(Kind::Request, 1, EARLIER);
    let deadline = timer(&end.rerouted(1, EARLIER).1);
    end.bench.now = deadline.saturating_sub(PS);
    assert!(end.timer().releases.is_empty());
    end.bench.now = deadline;
    // That early call has set the timer again.
    assert_eq!(end.timer().releases, [1]);
    assert_eq!(end.rerouted(1, EARLIER).0, Delivery::Pass, "given up");
    assert_eq!(
        told(end.before(Kind::Tail, 1, EARLIER)),
        (Delivery::Pass, Message::Clear(about(1, 1))),
        "late, not lost"
    );
}

#[test]
fn an_estimate_in_the_past_releases_at_once() {
    let mut end = DestinationEnd::new();
    end.before(Kind::Request, 1, EARLIER);
    end.bench.wait(Time::from_ms(3));
    let (delivery, commands) = end.rerouted(1, EARLIER);
    assert_eq!((delivery, timer(&commands)), (Delivery::Hold, end.bench.now));
    assert_eq!(end.timer().releases, [1]);
}

#[test]
fn packets_of_older_epoch_pass_without_effect() {
    let mut end = DestinationEnd::new();
    end.before(Kind::Request, 7, EARLIER);
    for kind in [Kind::Data, Kind::Request, Kind::Tail] {
        let tag = Tag { kind, ..data(epoch(6), 0) };
        assert!(is_ignored(end.receive_of(&packet(1), tag, true)), "{kind:?}: neither answered nor notified");
    }
    assert_eq!(end.rerouted(6, EARLIER).0, Delivery::Pass);
    assert_eq!(end.rerouted(7, EARLIER).0, Delivery::Hold, "the TAIL of epoch 6 was not that of 7");
}

#[test]
fn newer_epoch_releases_packets_of_older_epoch() {
    let mut end = DestinationEnd::new();
    end.rerouted(1, EARLIER);
    let (delivery, commands) = end.before(Kind::Request, 2, EARLIER);
    assert_eq!((delivery, &commands.releases[..]), (Delivery::Hold, &[1][..]), "last in the queue that is released");
    assert_eq!(message(&commands), Message::RttReply(about(1, 2)));
    assert!(is_ignored(end.before(Kind::Data, 2, EARLIER)), "no reply in one epoch carries over to the next");
    end.bench.wait(AGING);
    assert!(end.timer().is_empty());
}

#[test]
fn a_newer_epoch_that_is_rerouted_already_waits_behind_the_older() {
    let mut end = DestinationEnd::new();
    end.before(Kind::Request, 1, EARLIER);
    end.rerouted(1, EARLIER);
    let (delivery, commands) = end.rerouted(2, EARLIER.saturating_add(Time::from_us(9)));
    assert_eq!((delivery, commands.releases.len()), (Delivery::Hold, 0));
    let (_, commands) = end.before(Kind::Tail, 2, EARLIER);
    assert_eq!((timer(&commands), message(&commands)), (end.bench.now, Message::Clear(about(1, 2))));
    assert_eq!(end.timer().releases, [1]);
}

#[test]
fn epochs_wrap_at_both_ends() {
    let mut end = DestinationEnd::new();
    for n in 1..300 {
        let (_, commands) = end.before(Kind::Request, n, EARLIER);
        assert_eq!(message(&commands), Message::RttReply(about(1, n)));
        assert_eq!(end.rerouted(n, EARLIER).0, Delivery::Hold, "epoch {n}");
        end.before(Kind::Tail, n, EARLIER);
        assert_eq!(end.timer().releases, [1]);
        assert_eq!(end.rerouted(n, EARLIER).0, Delivery::Pass);
        if n > 20 {
            assert_eq!(end.before(Kind::Request, n - 20, EARLIER).1.controls.len(), 0, "older than epoch {n}");
        }
    }
}

#[test]
fn new_flow_with_reused_number_is_detected_by_hash() {
    let mut end = DestinationEnd::new();
    end.before(Kind::Request, 20, EARLIER);
    end.before(Kind::Tail, 20, EARLIER);
    let other = PacketView { hash: 9 << 40, ..packet(1) };
    let request = Tag { kind: Kind::Request, ..data(epoch(3), 0) };
    let (delivery, commands) = end.receive_of(&other, request, false);
    let of = FlowEpoch { identity: identity(other.hash), ..about(1, 3) };
    assert_eq!((delivery, message(&commands)), (Delivery::Pass, Message::RttReply(of)), "epoch 3 is not old to it");
    let rerouted = Tag { is_rerouted: true, ..data(epoch(3), 0) };
    assert_eq!(end.receive_of(&other, rerouted, false).0, Delivery::Hold, "nor has its TAIL come");
    // Packets of the old flow that are still held are released when the new one begins.
    let (delivery, commands) = end.before(Kind::Request, 1, EARLIER);
    assert_eq!((delivery, &commands.releases[..]), (Delivery::Pass, &[1][..]));
}

#[test]
fn a_flow_silent_for_long_is_forgotten() {
    let mut end = DestinationEnd::new();
    end.before(Kind::Request, 20, EARLIER);
    end.bench.wait(AGING);
    assert_eq!(end.before(Kind::Request, 19, EARLIER).1.controls.len(), 0, "not yet");
    end.bench.wait(AGING.saturating_add(PS));
    assert_eq!(end.before(Kind::Request, 19, EARLIER).1.controls.len(), 1);
}

#[test]
fn marks_notify_the_source_of_their_path() {
    let mut end = DestinationEnd::new();
    assert_eq!(
        told(end.receive_of(&packet(1), data(epoch(1), 0), true)),
        (Delivery::Pass, Message::Notify(3)),
        "the mark stays for the host"
    );
    let rerouted = Tag { is_rerouted: true, ..data(epoch(1), 0) };
    assert_eq!(told(end.receive_of(&packet(1), rerouted, true)), (Delivery::Hold, Message::Notify(3)));
    let request = Tag { kind: Kind::Request, ..data(epoch(2), 0) };
    assert_eq!(end.receive_of(&packet(1), request, true).1.controls.len(), 2);
}

#[test]
fn control_packets_take_the_path_last_used_to_that_edge() {
    let mut end = DestinationEnd::new();
    let request = Tag { kind: Kind::Request, ..data(epoch(1), 0) };
    let mut used = [0; 4];
    for flow in 0..200 {
        used[usize::from(end.receive_of(&packet(flow), request, false).1.controls[0].path)] += 1;
    }
    assert!(used.iter().all(|n| (30..70).contains(n)), "any path, before any is known to be alive: {used:?}");
    end.bench.live = vec![2];
    let ack = PacketView { to: ClassIx(0), is_data: false, ..packet(1) };
    end.bench.choose_path(&ack, None);
    assert!((300..350).all(|flow| end.receive_of(&packet(flow), request, false).1.controls[0].path == 2));
}

#[test]
fn packets_without_a_header_pass() {
    let mut end = DestinationEnd::new();
    let ack = PacketView { is_data: false, ..packet(1) };
    let arrival = Arrival { marked: true, ..arrival(ClassIx(0), 0, 0) };
    assert_eq!(end.bench.decapsulate(&ack, &arrival), Delivery::Pass);
    assert_eq!(end.bench.decapsulate(&packet(1), &arrival), Delivery::Pass);
    assert!(end.bench.commands.is_empty());
}
