//! Tests of the rotation over planes, of the states of paths and of probes.

use std::collections::BTreeSet;

use net::RandomStream;

use super::*;
use crate::dataplane::Loss;
use crate::dataplane::testing::{BASE_RTT, Bench, control_arrival, packet, path_feedback};

/// Four planes with six spines each. Class 9 is at another leaf than class 0; path p is in plane p
/// / 6.
const PLANES: &str = "multi-plane:planes=4,leaves=4,spines=6,hosts_per_leaf=4";
const TO: ClassIx = ClassIx(9);

/// The sender of flow 1.
struct Sender {
    bench: Bench,
    seq: u32,
    hash: u64,
}

impl Sender {
    fn new(spec: &str) -> Sender {
        let mut bench = Bench::edge_on(spec, PLANES, 0);
        bench.live = (0..bench.path_count(TO.0) as u16).collect();
        bench.flow_bytes = 1 << 30;
        Sender { bench, seq: 0, hash: packet(1).hash }
    }
    fn view(&self, seq: u32) -> PacketView {
        PacketView { seq, to: TO, hash: self.hash, ..packet(1) }
    }
    fn next(&mut self) -> u16 {
        self.seq += 1;
        self.bench.choose_path(&self.view(self.seq - 1), None)
    }
    fn send_again(&mut self, seq: u32) -> u16 {
        self.bench.choose_path(&PacketView { is_retransmission: true, ..self.view(seq) }, None)
    }
    fn take(&mut self, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.next()).collect()
    }
    fn uses(&mut self, count: usize) -> BTreeSet<u16> {
        self.take(count).into_iter().collect()
    }
    fn mark(&mut self, path: u16) {
        self.bench.path_feedback(&PathFeedback { to: TO, marked: true, ..path_feedback(1, path) });
    }
    fn nack(&mut self, path: u16, ack: u32) {
        self.bench.path_feedback(&PathFeedback { to: TO, ack, is_nack: true, ..path_feedback(1, path) });
    }
    fn lose(&mut self, una: u32) {
        self.bench.path_loss(&PathLoss { flow: 1, to: TO, path: 0, una, loss: Loss::FastRetransmit });
    }
    /// Sends until a packet takes `path`, and loses that packet.
    fn lose_on(&mut self, path: u16) {
        while self.next() != path {
            assert!(self.seq < 10_000, "path {path} is not in use");
        }
        self.bench.wait(BASE_RTT);
        self.lose(self.seq - 1);
    }
    /// Loses one packet on each of these paths.
    fn lose_all(&mut self, paths: impl IntoIterator<Item = u16>) {
        paths.into_iter().for_each(|path| self.lose_on(path));
    }
    /// Returns the probes that were sent, without replies.
    fn probes(&mut self) -> Vec<Control> {
        std::mem::take(&mut self.bench.commands.controls)
    }
    fn reply(&mut self, probe: &Control) {
        self.bench.control(&control_arrival(TO, 3, probe.word | REPLY, probe.tag));
    }
    /// Waits for the next probe to be due, and sends a packet, which triggers it.
    fn next_probe(&mut self) -> Control {
        self.bench.wait(Time::from_us(400));
        self.probes();
        self.next();
        let probes = self.probes();
        assert_eq!(probes.len(), 1, "one probe at a time");
        probes[0]
    }
}

fn plane(path: u16) -> usize {
    usize::from(path / 6)
}

/// Checks that each plane has its share of any consecutive packets, but for one packet.
fn check_shares(picks: &[u16]) {
    let mut counts = [0usize; 4];
    for (sent, path) in (1..).zip(picks) {
        counts[plane(*path)] += 1;
        assert!(counts.iter().all(|count| (count * 4).abs_diff(sent) <= 4), "{counts:?} after {sent}");
    }
}

#[test]
fn without_feedback_planes_carry_equal_shares_and_paths_take_turns() {
    for (set, in_use) in [(128, 24), (8, 8), (10, 8), (3, 4)] {
        let mut sender = Sender::new(&format!("mrc:set={set}"));
        let picks = sender.take(20 * in_use);
        check_shares(&picks);
        let turn: BTreeSet<u16> = picks[..in_use].iter().copied().collect();
        assert_eq!(turn.len(), in_use, "set={set}: each path once per turn");
        assert!(picks.chunks(in_use).all(|chunk| chunk == &picks[..in_use]), "set={set}: in the same order");
    }
}

#[test]
fn flows_have_different_sets_and_first_planes() {
    let mut sender = Sender::new("mrc:set=8");
    let (mut sets, mut planes) = (BTreeSet::new(), BTreeSet::new());
    for hash in 0..40 {
        (sender.hash, sender.seq) = (hash, 0);
        let picks = sender.take(8);
        planes.insert(plane(picks[0]));
        sets.insert(picks.into_iter().collect::<BTreeSet<_>>());
    }
    assert!(sets.len() > 30 && planes.len() == 4, "{} sets of 40", sets.len());
}

#[test]
fn a_marked_path_is_skipped_exactly_once() {
    for is_nack in [false, true] {
        let mut sender = Sender::new("mrc");
        let turn = sender.take(24);
        let path = turn[5];
        // Several marks before its turn count once.
        (0..3).for_each(|_| if is_nack { sender.nack(path, 99) } else { sender.mark(path) });
        let picks = sender.take(71);
        check_shares(&picks);
        assert_eq!(picks.iter().filter(|pick| **pick == path).count(), 2, "in three turns");
        let others = turn.iter().filter(|other| **other != path && plane(**other) != plane(path));
        assert!(others.clone().all(|other| picks.iter().filter(|pick| *pick == other).count() >= 2));
    }
}

#[test]
fn a_plane_whose_paths_are_all_marked_misses_one_turn() {
    let mut sender = Sender::new("mrc:set=4");
    let turn = sender.take(4);
    sender.mark(turn[1]);
    assert_eq!(sender.take(7), [turn[0], turn[2], turn[3], turn[0], turn[1], turn[2], turn[3]]);
    turn.iter().for_each(|path| sender.mark(*path));
    assert_eq!(sender.take(4), turn, "with all marked, all are used");
}

#[test]
fn a_repeated_packet_takes_another_path() {
    let mut sender = Sender::new("mrc:set=4");
    let turn = sender.take(4);
    // Packet 0 was trimmed; after a turn of others its path would be next.
    sender.nack(turn[0], 0);
    sender.take(3);
    assert_eq!(sender.next(), turn[0]);
    sender.take(3);
    assert_eq!(sender.send_again(0), turn[1]);
    assert_eq!(sender.take(3), [turn[2], turn[3], turn[0]]);
}

#[test]
fn after_a_loss_a_path_is_not_used_until_three_probes_in_a_row_succeed() {
    let mut sender = Sender::new("mrc");
    sender.lose_on(7);
    assert!(!sender.uses(200).contains(&7));
    for replies in [true, true, false, true, true] {
        let probe = sender.next_probe();
        assert_eq!((probe.path, probe.to, probe.bytes), (7, TO, 64));
        if replies {
            sender.reply(&probe);
            sender.reply(&probe);
        }
        assert!(!sender.uses(100).contains(&7), "not three in a row");
    }
    let probe = sender.next_probe();
    sender.reply(&probe);
    assert!(sender.uses(24).contains(&7));
    sender.bench.wait(Time::from_ms(1));
    sender.take(24);
    assert!(sender.probes().is_empty(), "no path is bad");
}

#[test]
fn probes_are_spaced_and_take_turns() {
    let mut sender = Sender::new("mrc:set=24,reserve=0");
    sender.lose_all([1, 8]);
    let mut probed = Vec::new();
    for _ in 0..200 {
        sender.bench.wait(Time::from_us(20));
        sender.next();
        probed.extend(sender.probes().iter().map(|probe| probe.path));
    }
    // Each of the two paths once per 400 us, in 4 ms.
    assert!((19..=21).contains(&probed.len()), "{probed:?}");
    assert!(probed.windows(2).all(|pair| pair[0] != pair[1]), "{probed:?}");
    sender.bench.wait(Time::from_ms(9));
    assert!(sender.probes().is_empty(), "an idle flow probes nothing");
}

#[test]
fn a_lost_path_is_replaced_within_its_plane() {
    let mut sender = Sender::new("mrc:set=8,reserve=4");
    let before = sender.uses(8);
    let lost = *before.iter().next().unwrap();
    sender.lose_on(lost);
    let picks = sender.take(80);
    check_shares(&picks);
    let after: BTreeSet<u16> = picks.iter().copied().collect();
    let replacements: Vec<u16> = after.difference(&before).copied().collect();
    assert_eq!((replacements.len(), after.len()), (1, 8), "{before:?} {after:?}");
    assert!(plane(replacements[0]) == plane(lost) && !after.contains(&lost));
    // The reserve of the plane is used up: next it has one path fewer, and the same share.
    sender.lose_on(replacements[0]);
    let picks = sender.take(80);
    check_shares(&picks);
    assert_eq!(picks.iter().collect::<BTreeSet<_>>().len(), 7);
    // A path that recovers fills the gap.
    for _ in 0..6 {
        let probe = sender.next_probe();
        sender.reply(&probe);
    }
    assert_eq!(sender.uses(80).len(), 8);
}

#[test]
fn a_plane_with_half_of_its_paths_still_carries_its_share() {
    let mut sender = Sender::new("mrc");
    sender.lose_all([0, 1, 2]);
    let picks = sender.take(240);
    check_shares(&picks);
    assert_eq!(picks.iter().filter(|path| **path == 3).count(), 20, "a third of a quarter");
    assert_eq!(picks.iter().filter(|path| **path == 6).count(), 10, "a sixth of a quarter");
}

#[test]
fn the_minimum_of_active_paths_is_kept() {
    let mut sender = Sender::new("mrc:set=8,reserve=0,ev_min_active=3");
    let all = sender.uses(8);
    sender.lose_all(all.iter().copied().take(5));
    let left = sender.uses(80);
    assert_eq!(left.len(), 3);
    left.iter().for_each(|path| sender.lose_on(*path));
    assert_eq!(sender.uses(80), left, "they are kept, though they lose packets");
    // If routing loses two of the three, two of the others return.
    let dead: Vec<u16> = left.iter().copied().take(2).collect();
    sender.bench.live.retain(|path| !dead.contains(path));
    let after = sender.uses(80);
    assert!(after.len() == 3 && after.is_subset(&all) && dead.iter().all(|path| !after.contains(path)));
}

#[test]
fn a_trimmed_packet_or_a_recent_copy_is_no_lost_packet() {
    let mut sender = Sender::new("mrc");
    let turn = sender.take(24);
    sender.bench.wait(BASE_RTT);
    sender.nack(turn[3], 3);
    sender.lose(3);
    sender.send_again(4);
    sender.lose(4);
    assert_eq!(sender.uses(96).len(), 24);
    sender.lose(5);
    assert!(!sender.uses(96).contains(&turn[5]), "a true loss");
}

#[test]
fn dead_paths_are_dropped_and_return_with_routing() {
    let mut sender = Sender::new("mrc:set=8,reserve=4");
    let before = sender.uses(8);
    // Plane 1 loses its port; one path in use of plane 0 dies and is replaced.
    let dead = *before.iter().next().unwrap();
    sender.bench.live.retain(|path| *path != dead && plane(*path) != 1);
    let during = sender.uses(60);
    assert_eq!(during.len(), 6, "{during:?}");
    assert!(!during.contains(&dead) && during.iter().all(|path| plane(*path) != 1));
    let hits = sender.take(60).iter().filter(|path| plane(**path) == 0).count();
    assert_eq!(hits, 20, "three planes share equally");
    sender.bench.live = (0..24).collect();
    let picks = sender.take(80);
    check_shares(&picks);
    // All paths of the set dead: another set is drawn.
    sender.bench.live.retain(|path| !picks.contains(path) && !before.contains(path));
    sender.bench.live.truncate(2);
    assert_eq!(sender.uses(20).len(), 2);
}

#[test]
fn a_late_reply_and_a_reply_to_an_earlier_flow_are_ignored() {
    let mut sender = Sender::new("mrc:successes=1");
    sender.lose_on(7);
    let late = sender.next_probe();
    let current = sender.next_probe();
    sender.reply(&late);
    assert!(!sender.uses(48).contains(&7), "its next probe has been sent");
    (sender.hash, sender.seq) = (7, 0);
    assert!(sender.uses(24).contains(&7), "another flow has not lost a packet there");
    sender.lose_on(7);
    sender.reply(&current);
    assert!(!sender.uses(48).contains(&7));
    sender.reply(&Control { tag: 900, ..current });
    sender.reply(&Control { word: 60_000, ..current });
}

#[test]
fn a_probe_is_returned_over_a_live_path_and_acknowledgements_use_one_path_per_plane() {
    let mut sender = Sender::new("mrc");
    let ack = PacketView { is_data: false, to: TO, ..packet(5) };
    let used: BTreeSet<u16> = (0..200).map(|_| sender.bench.choose_path(&ack, None)).collect();
    assert_eq!(used.iter().map(|path| plane(*path)).collect::<Vec<_>>(), [0, 1, 2, 3]);
    sender.bench.live = vec![2, 9, 17];
    (0..50).for_each(|_| _ = sender.bench.choose_path(&ack, None));
    let word = 5 << 16 | 20;
    sender.bench.control(&control_arrival(TO, 4, word, 77));
    let replies = sender.probes();
    assert_eq!(replies.len(), 1);
    let Control { to, path, word: returned, tag, .. } = replies[0];
    assert_eq!((to, returned, tag), (TO, word | REPLY, 77));
    assert!([2, 9, 17].contains(&path));
    // A class without paths, or none at all.
    sender.bench.control(&control_arrival(ClassIx(0), 0, 1, 0));
    sender.bench.control(&control_arrival(ClassIx(900), 0, REPLY, 0));
}

#[test]
fn any_sequence_of_events_gives_live_paths_and_leaves_the_minimum_in_use() {
    let mut random = RandomStream::new(5, "events");
    for (spec, min) in [("mrc:set=8,reserve=4,ev_min_active=5", 5), ("mrc:set=1,reserve=0,probe=0us", 1)] {
        let mut sender = Sender::new(spec);
        for step in 0..20_000 {
            if step % 100 == 0 {
                sender.bench.live = (0..24).collect();
                assert!(sender.uses(64).len() >= min, "{spec}, step {step}");
            }
            let path = random.next_below(25) as u16;
            let seq = random.next_below(u64::from(sender.seq) + 2) as u32;
            match random.next_below(9) {
                0 => sender.mark(path),
                1 => sender.nack(path, seq),
                2 => sender.lose(sender.seq.saturating_sub(random.next_below(40) as u32)),
                3 => _ = sender.send_again(seq),
                4 => sender.probes().iter().filter(|_| random.next_below(4) > 0).for_each(|probe| sender.reply(probe)),
                5 if random.next_below(20) == 0 => {
                    sender.bench.live = (0..24).filter(|_| random.next_below(2) == 0).collect();
                    sender.bench.live.push(23);
                    sender.bench.live.dedup();
                }
                5 if random.next_below(40) == 0 => (sender.hash, sender.seq) = (random.next_u64(), 0),
                6 => sender.bench.wait(Time::from_us(random.next_below(300))),
                _ => _ = sender.next(),
            }
        }
    }
}
