//! PRIME: a pseudo-random round robin over entropy parts, one part per tier, that sets congested
//! parts aside for a time (mechanisms-2.md P42; Sobhani, Sadrhaghighi and Chu, arXiv 2507.23012,
//! known from its abstract; the constants below are readings).
//!
//! Entropy has two coordinates here: the first link of a path (the uplink of the edge) and the rest
//! of the path. The packets of a flow walk over all pairs so that consecutive packets differ in
//! both. Each pair occurs once per turn, hence every link of a tier equally often. Each flow has
//! random orders of both coordinates.
//!
//! Feedback adds a penalty to the score of a path: 1 for a mark, 4 for a trimmed packet or a loss
//! noticed by later arrivals, 15 for a timeout. If two paths with the same first link are penalised
//! within `halving`, the first link is penalised as well. Scores halve every `halving`. A pair is
//! set aside while a score of its path or of its first link is 1 or more: after a mark for one
//! round trip, after a trim for three, after a timeout for four. If all pairs are set aside, the
//! one with the lowest score is used.
//!
//! Readings where the source is silent: penalties and halving (the reference gives them as a
//! reading), state per flow at the sender, scores as whole numbers that lose their fraction, the
//! penalty of losses without a timeout, and the rule if all pairs are set aside. The walk advances
//! both coordinates by one; each time their combination would repeat, the coordinate with more
//! values advances by one more. A timeout is attributed to the lowest packet without an
//! acknowledgement, unless it left less than an empty round trip ago. Acknowledgements keep their
//! path.
//!
//! Pitfalls: with two uplinks and two paths on each, no order changes both coordinates at every
//! step; in every second step one stays. Pairs that do not exist, or are dead, are passed over,
//! after which a coordinate may repeat. Marks of the last hop set every path aside.
//!
//! - Helps: with permutations and degraded links, over receivers that take packets in any order:
//!   queues stay short, and a slow uplink is recognised by any two of its paths.
//! - Hurts: in incasts, where marks concern no path in particular; with receivers that need order.

use net::Time;
use net::routes::ClassIx;

use crate::dataplane::common::{Branches, BranchesTo, FlowTable, SentPaths, is_live, remembered};
use crate::dataplane::{Cx, EdgeBalancer, EdgeEnv, Loss, PacketView, PathFeedback, PathLoss, Paths};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

const fn penalty(name: &'static str, default: &'static str, doc: &'static str) -> Param {
    Param::count(name, 0..=255, default).unit("points").doc(doc)
}

pub(crate) static ENTRY: Entry = Entry::declare("prime", "PRIME")
    .summary("Rotates packets over paths so that consecutive ones part at every tier, and sets congested parts aside.")
    .source("P42; PRIME, arXiv 2507.23012")
    .granularity(Granularity::Packet)
    .senses("ECN echoes, trims and losses per path")
    .params(&[
        penalty("ecn", "1", "Penalty of a mark (a reading); 0 ignores marks."),
        penalty("nack", "4", "Penalty of a trimmed packet, or of a loss without a timeout (a reading)."),
        penalty("timeout", "15", "Penalty of a timeout (a reading)."),
        Param::scaled("halving", "1rtt").doc(
            "Time in which scores halve, and within which penalties of two paths count against their first link \
             (a reading).",
        ),
    ])
    .example("prime:ecn=2")
    .edge(|env, params| Box::new(Prime::new(env, params)));

struct Prime {
    ecn: u8,
    nack: u8,
    timeout: u8,
    halving: Time,
    /// Packets of a flow whose paths are remembered.
    remembered: usize,
    base_rtt: Box<[Time]>,
    branches: Branches,
    flows: FlowTable<Flow>,
}

#[derive(Clone, Default)]
struct Flow {
    /// Its hash and destination; `None` before the first packet. Flow numbers are used again.
    identity: Option<(u64, ClassIx)>,
    walk: Walk,
    /// Scores of paths by number; empty before the first penalty.
    paths: Vec<Score>,
    /// Scores of first links, in the order of branches.
    uplinks: Vec<Uplink>,
    sent: SentPaths,
}

/// A number of points at a time; it halves from there on.
#[derive(Clone, Copy, Default)]
struct Score {
    points: u8,
    at: Time,
}

#[derive(Clone, Copy, Default)]
struct Uplink {
    score: Score,
    /// Path of the latest penalty, and its time.
    latest: Option<(u16, Time)>,
}

impl Score {
    #[inline]
    fn read(self, now: Time, halving: Time) -> u8 {
        if self.points == 0 {
            return 0;
        }
        let halvings = now.saturating_sub(self.at).as_ps() / halving.as_ps();
        if halvings < 8 { self.points >> halvings } else { 0 }
    }

    fn add(&mut self, points: u8, now: Time, halving: Time) {
        *self = Score { points: self.read(now, halving).saturating_add(points), at: now };
    }
}

/// The order of pairs of a flow, and its position in it.
#[derive(Clone, Default)]
struct Walk {
    /// Branches, and positions in a branch, in the orders of this flow.
    firsts: Vec<u16>,
    rests: Vec<u16>,
    /// Number of steps after which both positions return to the same combination.
    period: u32,
    place: Place,
}

#[derive(Clone, Copy, Default)]
struct Place {
    first: usize,
    rest: usize,
    /// Steps since the period began.
    steps: u32,
}

impl Walk {
    fn begin(&mut self, cx: &mut Cx<'_>, branches: BranchesTo<'_>) {
        let longest = branches.iter().map(|paths| paths.len()).max().unwrap_or(0);
        for (order, count) in [(&mut self.firsts, branches.count()), (&mut self.rests, longest)] {
            order.clear();
            order.extend(0..count as u16);
            cx.rng.shuffle(order);
        }
        self.period = least_common_multiple(branches.count() as u32, longest as u32);
        self.place = Place::default();
    }

    /// Returns the number of pairs of a turn.
    fn len(&self) -> usize {
        self.firsts.len() * self.rests.len()
    }

    /// Returns the place after `place`.
    #[inline]
    fn after(&self, place: Place) -> Place {
        let (firsts, rests) = (self.firsts.len(), self.rests.len());
        let Place { mut first, mut rest, mut steps } = place;
        (first, rest, steps) = (first + 1, rest + 1, steps + 1);
        if steps == self.period {
            steps = 0;
            // Without a shift pairs would now repeat, unless the period is a whole turn.
            let is_partial = (self.period as usize) < self.len();
            first += usize::from(is_partial && firsts > rests);
            rest += usize::from(is_partial && firsts <= rests);
        }
        Place { first: first % firsts, rest: rest % rests, steps }
    }
}

fn least_common_multiple(a: u32, b: u32) -> u32 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor.max(1) * b
}

impl Flow {
    fn is_to(&self, class: ClassIx) -> bool {
        self.identity.is_some_and(|(_, to)| to == class)
    }

    /// Returns the next live path that is not set aside, or the one of the lowest score.
    fn pick(&mut self, now: Time, halving: Time, branches: BranchesTo<'_>, live: &[u16]) -> Option<u16> {
        let mut best: Option<(u16, u16, Place)> = None;
        let mut place = self.walk.place;
        for _ in 0..self.walk.len() {
            let branch = usize::from(self.walk.firsts[place.first]);
            let paths = branches.paths(branch);
            let path = paths.start + self.walk.rests[place.rest];
            place = self.walk.after(place);
            if path >= paths.end || !is_live(live, path) {
                continue;
            }
            let score = self.score(now, halving, branch, path);
            if best.is_none_or(|(lowest, ..)| score < lowest) {
                best = Some((score, path, place));
            }
            if score == 0 {
                break;
            }
        }
        let (_, path, place) = best?;
        self.walk.place = place;
        Some(path)
    }

    /// Returns the score of a path and of its first link together.
    #[inline]
    fn score(&self, now: Time, halving: Time, branch: usize, path: u16) -> u16 {
        if self.paths.is_empty() {
            return 0;
        }
        let read = |score: Score| u16::from(score.read(now, halving));
        read(self.paths[usize::from(path)]) + read(self.uplinks[branch].score)
    }

    fn penalise(&mut self, now: Time, halving: Time, branches: BranchesTo<'_>, path: u16, points: u8) {
        let Some(branch) = branches.of(path) else { return };
        if self.paths.is_empty() {
            self.paths.resize(branches.path_count(), Score::default());
            self.uplinks.resize(branches.count(), Uplink::default());
        }
        self.paths[usize::from(path)].add(points, now, halving);
        let uplink = &mut self.uplinks[branch];
        if uplink.latest.is_some_and(|(other, at)| other != path && now.saturating_sub(at) < halving) {
            uplink.score.add(points, now, halving);
        }
        uplink.latest = Some((path, now));
    }
}

impl Prime {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Prime {
        Prime {
            ecn: params.count("ecn") as u8,
            nack: params.count("nack") as u8,
            timeout: params.count("timeout") as u8,
            // Time would be divided by zero, and shorter times are shorter than a packet.
            halving: params.scaled("halving", &env.scale).max(Time::from_ns(100)),
            remembered: remembered(env),
            base_rtt: env.base_rtt.into(),
            branches: Branches::new(env),
            flows: FlowTable::new(),
        }
    }
}

impl EdgeBalancer for Prime {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        if !packet.is_data {
            return paths.current_or_hashed(packet);
        }
        let branches = self.branches.to(packet.to);
        let identity = Some((packet.hash, packet.to));
        let flow = self.flows.slot(packet.flow);
        if flow.identity != identity {
            flow.identity = identity;
            flow.walk.begin(cx, branches);
            flow.paths.clear();
            flow.uplinks.clear();
            flow.sent.begin(self.remembered, packet, &paths);
        }
        let path = flow.pick(cx.now, self.halving, branches, paths.live).unwrap_or(paths.live[0]);
        flow.sent.note(packet.seq, path, cx.now);
        path
    }

    fn on_feedback(&mut self, cx: &mut Cx<'_>, feedback: &PathFeedback) {
        let points = match feedback {
            PathFeedback { is_nack: true, .. } => self.nack,
            PathFeedback { marked: true, .. } => self.ecn,
            _ => return,
        };
        let flow = self.flows.slot(feedback.flow);
        if flow.is_to(feedback.to) {
            flow.penalise(cx.now, self.halving, self.branches.to(feedback.to), feedback.path, points);
            if feedback.is_nack {
                flow.sent.note_trimmed(feedback.ack, feedback.path);
            }
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &PathLoss) {
        let points = match loss.loss {
            Loss::Timeout => self.timeout,
            Loss::FastRetransmit => self.nack,
        };
        let flow = self.flows.slot(loss.flow);
        if flow.is_to(loss.to)
            && let Some(path) = flow.sent.path_of_lost(loss.una, cx.now, self.base_rtt[loss.to.0 as usize])
        {
            flow.penalise(cx.now, self.halving, self.branches.to(loss.to), path, points);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use net::LinkIx;

    use super::*;
    use crate::dataplane::testing::{BASE_RTT, Bench, packet, path_feedback};

    /// Families, destination class, and the number of first links and of paths on each.
    const NETWORKS: [(&str, u32, usize, usize); 7] = [
        ("fat-tree:k=4", 7, 2, 2),
        ("fat-tree:k=8", 31, 4, 4),
        ("multi-plane:planes=3,spines=3", 9, 3, 3),
        ("multi-plane:planes=4,spines=6", 9, 4, 6),
        ("multi-plane:planes=6,spines=2", 9, 6, 2),
        ("multi-plane:planes=2,spines=6", 9, 2, 6),
        ("multi-plane:planes=2,spines=5", 9, 2, 5),
    ];

    /// The sender of flow 1 at class 0, with the paths to another class.
    struct Sender {
        bench: Bench,
        to: ClassIx,
        seq: u32,
        hash: u64,
    }

    impl Sender {
        fn new(spec: &str, family: &str, to: u32) -> Sender {
            let mut bench = Bench::edge_on(spec, family, 0);
            bench.live = (0..bench.path_count(to) as u16).collect();
            bench.flow_bytes = 1 << 30;
            Sender { bench, to: ClassIx(to), seq: 0, hash: packet(1).hash }
        }
        /// Four uplinks with four paths each; path p takes uplink p / 4.
        fn across_fat_tree(spec: &str) -> Sender {
            Sender::new(spec, "fat-tree:k=8", 31)
        }
        fn next(&mut self) -> u16 {
            self.seq += 1;
            let packet = PacketView { seq: self.seq - 1, to: self.to, hash: self.hash, ..packet(1) };
            self.bench.choose_path(&packet, None)
        }
        fn take(&mut self, count: usize) -> Vec<u16> {
            (0..count).map(|_| self.next()).collect()
        }
        fn uses(&mut self, count: usize) -> BTreeSet<u16> {
            self.take(count).into_iter().collect()
        }
        fn mark(&mut self, path: u16) {
            self.bench.path_feedback(&PathFeedback { to: self.to, marked: true, ..path_feedback(1, path) });
        }
        fn nack(&mut self, path: u16, ack: u32) {
            self.bench.path_feedback(&PathFeedback { to: self.to, ack, is_nack: true, ..path_feedback(1, path) });
        }
        fn lose(&mut self, una: u32, loss: Loss) {
            self.bench.path_loss(&PathLoss { flow: 1, to: self.to, path: 0, una, loss });
        }
        /// Returns for how many base RTTs, to the nanosecond, a path is not used in turns of 16
        /// packets.
        fn rtts_aside(&mut self, path: u16) -> u32 {
            let mut rtts = 0;
            while !self.uses(16).contains(&path) {
                self.bench.wait(BASE_RTT.saturating_sub(Time::from_ns(1)));
                assert!(!self.uses(16).contains(&path), "used before {} round trips have passed", rtts + 1);
                self.bench.wait(Time::from_ns(1));
                rtts += 1;
            }
            rtts
        }
    }

    #[test]
    fn every_link_of_a_tier_is_used_equally_often_in_each_turn() {
        for (family, to, firsts, rests) in NETWORKS {
            let mut sender = Sender::new("prime", family, to);
            for turn in 0..20 {
                let picks = sender.take(firsts * rests);
                for (hop, links, uses_each) in [(0, firsts, rests), (1, firsts * rests, 1)] {
                    let mut uses = BTreeMap::<LinkIx, usize>::new();
                    picks
                        .iter()
                        .for_each(|path| *uses.entry(sender.bench.path(to, (*path).into())[hop]).or_default() += 1);
                    assert_eq!(uses.len(), links, "{family}, turn {turn}, tier {hop}");
                    assert!(uses.values().all(|count| *count == uses_each), "{family}, turn {turn}: {uses:?}");
                }
            }
        }
    }

    #[test]
    fn consecutive_packets_differ_in_both_coordinates() {
        for (family, to, firsts, rests) in NETWORKS {
            let picks = Sender::new("prime", family, to).take(20 * firsts * rests);
            let coordinates = |path: u16| (usize::from(path) / rests, usize::from(path) % rests);
            for (step, pair) in picks.windows(2).enumerate() {
                let ((a, b), (c, d)) = (coordinates(pair[0]), coordinates(pair[1]));
                // With two values of each, only every second step can change both.
                let is_impossible = firsts * rests == 4 && step % 2 == 1;
                assert!(a != c && (b != d || is_impossible), "{family}, step {step}: {pair:?}");
            }
        }
    }

    #[test]
    fn flows_walk_in_different_orders() {
        let mut bench = Bench::edge_on("prime", "fat-tree:k=8", 0);
        bench.live = (0..16).collect();
        let mut orders = BTreeSet::new();
        for flow in 0..20 {
            let packet = |seq| PacketView { seq, to: ClassIx(31), ..packet(flow) };
            orders.insert((0..16).map(|seq| bench.choose_path(&packet(seq), None)).collect::<Vec<_>>());
        }
        assert!(orders.len() >= 19, "{} orders of 20 flows", orders.len());
    }

    #[test]
    fn a_path_is_set_aside_by_severity() {
        type Event = fn(&mut Sender, u16);
        let events: [(&str, Event, u32); 5] = [
            ("mark", |sender, path| sender.mark(path), 1),
            ("trim", |sender, path| sender.nack(path, 99), 3),
            ("loss", |sender, _| sender.lose(0, Loss::FastRetransmit), 3),
            ("timeout", |sender, _| sender.lose(0, Loss::Timeout), 4),
            ("two marks", |sender, path| (0..2).for_each(|_| sender.mark(path)), 2),
        ];
        for (name, event, rtts) in events {
            let mut sender = Sender::across_fat_tree("prime");
            let path = sender.next();
            sender.bench.wait(BASE_RTT);
            event(&mut sender, path);
            assert_eq!(sender.rtts_aside(path), rtts, "{name}");
        }
        let mut sender = Sender::across_fat_tree("prime:ecn=0,halving=2rtt");
        sender.mark(3);
        assert_eq!(sender.rtts_aside(3), 0);
        sender.nack(3, 99);
        assert_eq!(sender.rtts_aside(3), 6);
    }

    #[test]
    fn a_loss_is_charged_to_the_path_of_the_lowest_missing_packet() {
        let mut sender = Sender::across_fat_tree("prime");
        let picks = sender.take(10);
        sender.lose(4, Loss::Timeout);
        assert_eq!(sender.uses(16).len(), 16, "packet 4 has only just left: another one was lost");
        sender.bench.wait(BASE_RTT);
        sender.nack(picks[4], 4);
        sender.lose(4, Loss::Timeout);
        assert_eq!(sender.rtts_aside(picks[4]), 3, "trimmed, and not counted again as lost");
        sender.lose(5, Loss::Timeout);
        assert_eq!(sender.rtts_aside(picks[5]), 4);
    }

    #[test]
    fn two_marked_paths_within_a_round_trip_set_their_uplink_aside() {
        let unused = |events: &[(u16, Time)]| {
            let mut sender = Sender::across_fat_tree("prime");
            sender.next();
            for (path, wait) in events {
                sender.mark(*path);
                sender.bench.wait(*wait);
            }
            let used = sender.uses(32);
            (0..16).filter(|path| !used.contains(path)).collect::<Vec<_>>()
        };
        let (soon, late) = (Time::from_us(10), BASE_RTT);
        assert_eq!(unused(&[(4, soon), (6, soon)]), [4, 5, 6, 7]);
        assert_eq!(unused(&[(4, soon), (4, soon)]), [4], "one path twice");
        assert_eq!(unused(&[(4, soon), (9, soon)]), [4, 9], "two uplinks");
        assert_eq!(unused(&[(4, late), (6, soon)]), [6], "a round trip apart");
    }

    #[test]
    fn if_all_are_set_aside_the_lowest_score_is_used() {
        let mut sender = Sender::across_fat_tree("prime");
        sender.next();
        sender.mark(5);
        (0..16).filter(|path| *path != 5).for_each(|path| sender.nack(path, 99));
        // Scores of uplinks are equal: three penalties of 4 after the first.
        assert_eq!(sender.uses(20), [5].into());
        sender.bench.wait(Time::from_us(400));
        assert_eq!(sender.uses(16).len(), 16, "12 points are gone after four halvings");
    }

    #[test]
    fn dead_paths_are_passed_over_and_return() {
        let mut sender = Sender::across_fat_tree("prime");
        sender.take(5);
        sender.bench.live = (0..16).filter(|path| *path != 2 && path / 4 != 3).collect();
        let mut picks = sender.take(11);
        picks.sort_unstable();
        assert_eq!(picks, sender.bench.live, "each live path once per turn");
        sender.bench.live = (0..16).collect();
        assert_eq!(sender.uses(16).len(), 16);
    }

    #[test]
    fn new_flow_resets_state_of_reused_number() {
        let mut sender = Sender::across_fat_tree("prime");
        sender.take(4);
        (0..8).for_each(|path| sender.nack(path, 99));
        assert!(sender.uses(16).iter().all(|path| *path >= 8));
        (sender.hash, sender.seq) = (7, 0);
        assert_eq!(sender.uses(16).len(), 16);
    }

    #[test]
    fn acknowledgements_keep_their_path_and_unknown_feedback_is_harmless() {
        let mut sender = Sender::across_fat_tree("prime");
        sender.mark(3);
        sender.lose(0, Loss::Timeout);
        sender.next();
        sender.mark(16);
        sender.nack(u16::MAX, 0);
        sender.bench.path_feedback(&PathFeedback { marked: true, ..path_feedback(1, 0) });
        assert_eq!(sender.uses(16).len(), 16);
        let ack = PacketView { is_data: false, to: ClassIx(31), ..packet(2) };
        let first = sender.bench.choose_path(&ack, None);
        assert_eq!(sender.bench.choose_path(&ack, None), first);
        assert_eq!(sender.bench.choose_path(&ack, Some(9)), 9);
    }
}
