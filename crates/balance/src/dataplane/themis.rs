//! Themis: packets are sprayed by their number, and the edge of the receiver passes on a report of
//! a gap only if it can be a loss (mechanisms-2.md P47; Liu et al., EuroSys 2026).
//!
//! A network interface for RDMA keeps packets that arrive early, but reports the gap at once, and
//! its sender takes the report for a loss: spraying alone makes it send again what is merely late.
//! Themis does without changed interfaces. The first edge sends packet p of a flow on path p mod N.
//! Packets on one path stay in order. The last edge knows the expected packet e of a report and the
//! packet c that caused it, and passes the report on only if c mod N = e mod N: a packet of the
//! path of e has overtaken it, so e is lost. Other reports are taken away. A receiver does not
//! repeat its report; so the edge remembers e, and if a later packet of the same path arrives
//! before e, it sends the report itself.
//!
//! Readings. N is the number of paths on the intact network, or `paths` if that is less; it is the
//! same at both edges. The path of packet 0 follows from the hash of the flow. While a path is
//! down, its packets take a live one that p mod N gives. The paper's edge finds c in a ring of the
//! numbers that it has forwarded; here the report names it. The edge remembers which of the last
//! 1,024 packets have left, since packets pass while a report comes from the host: a report also
//! passes if another packet of the path of e has left meanwhile, and is forgotten if e has. The
//! edge remembers one packet e of a flow, the last one of which it took a report away. If no packet
//! of the path follows a lost one, the timer of the sender repairs it.
//!
//! Receivers. With go-back-N they keep early packets and report each gap once, as the paper's do;
//! with `resequencing = "off"` in the experiment file they discard early packets, which must be
//! sent again in any case, and then all reports pass. A loss makes the sender go back, as always.
//! Selective receivers (IRN) report each early packet: the next one of the path makes up for a
//! report that was taken away. Their sender takes all packets below c without a report as lost, up
//! to N for one that is. Reports of trimmed packets pass. A congestion notification goes on without
//! its report.
//!
//! - Helps: RDMA that keeps early packets but takes gaps for losses, over equal paths.
//! - Hurts: transports made for reordering, which need the reports; unequal paths, which all get
//!   the same share; traffic classes, which reorder packets on one path.

use net::routes::ClassIx;

use crate::dataplane::common::{FlowTable, is_live};
use crate::dataplane::{
    Arrival, Cx, Delivery, EdgeBalancer, EdgeEnv, EdgeHooks, GapReport, Needs, PacketView, Paths, Receiving,
};
use crate::entry::{Entry, Granularity};
use crate::hash::{mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("themis", "Themis")
    .summary("Sprays packets by their number, and takes away reports of gaps that only reordering can have caused.")
    .source("P47; EuroSys 2026")
    .granularity(Granularity::Packet)
    .senses("numbers of packets, reports of gaps")
    .params(&[
        Param::choice("filter", &["on", "off"], "on")
            .doc("Whether the edge of the receiver takes reports away; off is spraying alone."),
        Param::count("paths", 1..=65_534, "256").doc("Largest number N of paths that a flow uses."),
    ])
    .example("themis:paths=4")
    .needs(|_, _| Needs { receiving: Receiving::Reported, ..Needs::default() })
    .edge(|env, params| Box::new(Themis::new(env, params)));

struct Themis {
    is_filtering: bool,
    most: u16,
    /// Number of paths by class, on the intact network.
    counts: Vec<u16>,
    flows: FlowTable<Flow>,
}

/// Packets of a flow that its last edge remembers.
const REMEMBERED: u32 = 1024;

/// A flow that leaves the fabric here.
#[derive(Clone, Copy)]
struct Flow {
    /// Source and destination of the data, which distinguish an earlier flow of the same number.
    hosts: (u32, u32),
    /// The expected packet of which a report was taken away, plus 1; 0 for none.
    blocked: u32,
    /// Highest packet that has left, plus 1.
    end: u32,
    /// Whether each of the packets before `end` has left: a ring of bits.
    left: [u64; REMEMBERED as usize / 64],
}

impl Default for Flow {
    fn default() -> Flow {
        Flow { hosts: (u32::MAX, u32::MAX), blocked: 0, end: 0, left: [0; REMEMBERED as usize / 64] }
    }
}

impl Flow {
    fn bit(seq: u32) -> (usize, u64) {
        ((seq % REMEMBERED / 64) as usize, 1 << (seq % 64))
    }

    /// Returns whether a packet has left; of those that are not remembered it is assumed.
    fn has_left(&self, seq: u32) -> bool {
        let (word, bit) = Flow::bit(seq);
        seq < self.end && (self.end - seq > REMEMBERED || self.left[word] & bit != 0)
    }

    fn note(&mut self, seq: u32) {
        // The places of the packets in between are those of packets that are forgotten.
        for skipped in self.end.max(seq.saturating_sub(REMEMBERED))..seq {
            let (word, bit) = Flow::bit(skipped);
            self.left[word] &= !bit;
        }
        if seq >= self.end || self.end - seq <= REMEMBERED {
            let (word, bit) = Flow::bit(seq);
            self.left[word] |= bit;
        }
        self.end = self.end.max(seq.saturating_add(1));
    }

    /// Returns whether a later packet of its path has overtaken packet `expected`.
    fn is_overtaken(&self, expected: u32, modulus: u32) -> bool {
        let later = (1..).map_while(|n: u32| expected.checked_add(n.checked_mul(modulus)?));
        later.take_while(|seq| *seq < self.end).any(|seq| self.has_left(seq))
    }
}

impl Themis {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Themis {
        Themis {
            is_filtering: params.text("filter") == "on",
            most: params.count("paths") as u16,
            counts: env.path_counts.to_vec(),
            flows: FlowTable::new(),
        }
    }

    /// Returns N for an edge; both directions of a pair have the same number of shortest paths.
    fn modulus(&self, other: ClassIx) -> u32 {
        let count = self.counts.get(other.0 as usize).copied().unwrap_or(1);
        u32::from(count.min(self.most).max(1))
    }
}

impl EdgeBalancer for Themis {
    fn choose_path(&mut self, _: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        if !packet.is_data {
            return paths.current_or_hashed(packet);
        }
        let count = self.counts.get(packet.to.0 as usize).map_or(1, |count| usize::from(*count).max(1));
        let residue = packet.seq % self.modulus(packet.to);
        let path = ((reduce(mix(packet.hash), count) + residue as usize) % count) as u16;
        if is_live(paths.live, path) { path } else { paths.live[residue as usize % paths.live.len()] }
    }

    fn passes_gap_report(&mut self, _: &mut Cx<'_>, packet: &PacketView, cause: u32) -> bool {
        let modulus = self.modulus(packet.to);
        let (expected, flow) = (packet.seq, self.flows.slot(packet.flow));
        // It may have left, or been overtaken, while the report was on its way here.
        let is_late = flow.has_left(expected);
        let is_lost = cause.wrapping_sub(expected).is_multiple_of(modulus);
        let is_lost = is_lost || !is_late && flow.is_overtaken(expected, modulus);
        flow.blocked = if is_lost || is_late { 0 } else { expected.wrapping_add(1) };
        is_lost
    }

    fn decapsulate(&mut self, cx: &mut Cx<'_>, packet: &PacketView, arrival: &Arrival) -> Delivery {
        if !packet.is_data {
            return Delivery::Pass;
        }
        let modulus = self.modulus(arrival.from);
        let flow = self.flows.slot(packet.flow);
        let hosts = (packet.src.0, packet.dst.0);
        if flow.hosts != hosts {
            *flow = Flow { hosts, ..Flow::default() };
        }
        flow.note(packet.seq);
        let Some(expected) = flow.blocked.checked_sub(1) else { return Delivery::Pass };
        if packet.seq == expected {
            flow.blocked = 0;
        } else if packet.seq > expected && (packet.seq - expected).is_multiple_of(modulus) {
            flow.blocked = 0;
            cx.report_gap(GapReport { flow: packet.flow, expected, age: arrival.one_way });
        }
        Delivery::Pass
    }

    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { gap_reports: self.is_filtering, overlay: self.is_filtering, ..EdgeHooks::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use net::RandomStream;
    use proptest::prelude::*;

    use super::*;
    use crate::dataplane::testing::{Bench, arrival, packet};

    fn data(seq: u32) -> PacketView {
        PacketView { seq, ..packet(1) }
    }

    fn report(expected: u32) -> PacketView {
        let data = packet(1);
        PacketView { seq: expected, is_data: false, src: data.dst, dst: data.src, ..data }
    }

    #[test]
    fn packets_take_turns_and_keep_their_path_when_repeated() {
        let mut bench = Bench::edge("themis", 8);
        let paths: Vec<u16> = (0..16).map(|seq| bench.choose_path(&data(seq), None)).collect();
        assert_eq!(paths[..8].iter().collect::<BTreeSet<_>>().len(), 8);
        assert_eq!(paths[..8], paths[8..]);
        assert_eq!(bench.choose_path(&PacketView { is_retransmission: true, ..data(5) }, Some(0)), paths[5]);
        let firsts: [u32; 8] = bench.hits((0..8000).map(packet));
        assert!(firsts.iter().all(|hits| (850..1150).contains(hits)), "{firsts:?}");
        let mut few = Bench::edge("themis:paths=3", 8);
        let used: BTreeSet<u16> = (0..100).map(|seq| few.choose_path(&data(seq), None)).collect();
        assert_eq!(used.len(), 3);
    }

    #[test]
    fn packets_of_a_path_that_is_down_share_a_live_one() {
        let mut bench = Bench::edge("themis", 4);
        let before: Vec<u16> = (0..4).map(|seq| bench.choose_path(&data(seq), None)).collect();
        bench.live.remove(2);
        for seq in 0..40 {
            let path = bench.choose_path(&data(seq), None);
            let usual = before[seq as usize % 4];
            assert!(path == usual || usual == 2, "packet {seq} left a live path");
            assert_eq!(path, bench.choose_path(&data(seq + 4), None), "equal numbers mod N share a path");
        }
    }

    #[test]
    fn reports_pass_only_at_a_distance_of_n() {
        let passed = |spec: &str| -> Vec<u32> {
            let mut bench = Bench::edge(spec, 4);
            (11..24).filter(|cause| bench.passes_gap_report(&report(10), *cause)).collect()
        };
        assert_eq!(passed("themis"), [14, 18, 22]);
        assert_eq!(passed("themis:paths=3"), [13, 16, 19, 22]);
    }

    #[test]
    fn the_edge_makes_up_for_a_report_once_and_not_if_the_packet_was_late() {
        let mut bench = Bench::edge("themis", 4);
        let made_up = |bench: &mut Bench, seqs: &[u32]| -> Vec<u32> {
            for seq in seqs {
                assert_eq!(bench.decapsulate(&data(*seq), &arrival(ClassIx(1), 0, 0)), Delivery::Pass);
            }
            std::mem::take(&mut bench.commands.reports).into_iter().map(|report| report.expected).collect()
        };
        assert!(made_up(&mut bench, &[9, 11]).is_empty());
        assert!(!bench.passes_gap_report(&report(10), 11));
        assert_eq!(made_up(&mut bench, &[12, 13, 14, 18, 22]), [10], "at packet 14, once");
        assert!(!bench.passes_gap_report(&report(23), 25));
        assert!(made_up(&mut bench, &[26, 23, 27]).is_empty(), "23 was late");
        assert!(!bench.passes_gap_report(&report(30), 31));
        let other = PacketView { src: net::HostIx(5), ..data(34) };
        bench.decapsulate(&other, &arrival(ClassIx(1), 0, 0));
        assert!(made_up(&mut bench, &[34]).is_empty(), "the next flow of the number");
    }

    /// The packets of a flow that reach the receiver, in order of arrival.
    fn arrivals(paths: u16, delays_us: &[u64], lost: &BTreeSet<u32>, seed: u64) -> Vec<u32> {
        let mut near = Bench::edge("themis", paths);
        let mut rng = RandomStream::new(seed, "jitter");
        let mut last = vec![0; usize::from(paths)];
        let mut arrivals = Vec::new();
        for seq in (0..300).filter(|seq| !lost.contains(seq)) {
            let path = usize::from(near.choose_path(&data(seq), None));
            let delay = delays_us[path % delays_us.len()] + rng.next_below(9);
            // Packets on one path stay in order.
            last[path] = (last[path] + 1).max(u64::from(seq) + delay);
            arrivals.push((last[path], seq));
        }
        arrivals.sort_unstable();
        arrivals.into_iter().map(|(_, seq)| seq).collect()
    }

    /// Returns the expected packets of the reports that the sender gets, and the number of those
    /// that are taken away. Receivers keep early packets, and report each, or each gap once.
    /// `delay` packets leave between a packet and the report that it causes.
    fn reports(paths: u16, arrivals: &[u32], is_each_reported: bool, delay: usize) -> (BTreeSet<u32>, u32) {
        let mut far = Bench::edge("themis", paths);
        let (mut received, mut expected, mut reported) = (BTreeSet::new(), 0, None);
        let (mut passed, mut blocked) = (BTreeSet::new(), 0);
        let mut coming = VecDeque::new();
        for at in 0..arrivals.len() + delay + 1 {
            if let Some(seq) = arrivals.get(at) {
                far.decapsulate(&data(*seq), &arrival(ClassIx(1), 0, 0));
                received.insert(*seq);
                while received.contains(&expected) {
                    expected += 1;
                }
                if *seq > expected && (is_each_reported || reported != Some(expected)) {
                    reported = Some(expected);
                    coming.push_back((at + delay, expected, *seq));
                }
            }
            while let Some((_, expected, cause)) = coming.pop_front_if(|(due, ..)| *due <= at) {
                if far.passes_gap_report(&report(expected), cause) {
                    passed.insert(expected);
                } else {
                    blocked += 1;
                }
            }
            let made_up = std::mem::take(&mut far.commands.reports);
            passed.extend(made_up.iter().filter(|_| !is_each_reported).map(|report| report.expected));
        }
        (passed, blocked)
    }

    #[test]
    fn packets_that_left_while_a_report_was_coming_count() {
        let leave = |seqs: &[u32]| {
            let mut bench = Bench::edge("themis", 4);
            for seq in seqs {
                bench.decapsulate(&data(*seq), &arrival(ClassIx(1), 0, 0));
            }
            let passes = bench.passes_gap_report(&report(10), 11);
            bench.decapsulate(&data(18), &arrival(ClassIx(1), 0, 0));
            (passes, bench.commands.reports.len())
        };
        assert_eq!(leave(&[11]), (false, 1), "packet 18 reveals the loss");
        assert_eq!(leave(&[11, 10]), (false, 0), "packet 10 was late");
        assert_eq!(leave(&[11, 14]), (true, 0), "packet 14 has revealed it");
        assert_eq!(leave(&[11, 10, 2000]), (false, 0), "it is not remembered");
    }

    #[test]
    fn the_memory_of_packets_equals_a_set() {
        let (mut flow, mut all, mut rng) = (Flow::default(), BTreeSet::new(), RandomStream::new(1, "packets"));
        let mut next = 0;
        for _ in 0..20_000 {
            let jump = if rng.next_below(500) == 0 { 2000 } else { 3 };
            next += rng.next_below(jump) as u32;
            let seq = next.saturating_sub(rng.next_below(1500) as u32);
            flow.note(seq);
            all.insert(seq);
            let end = all.last().map_or(0, |last| last + 1);
            let asked = end.saturating_sub(rng.next_below(u64::from(REMEMBERED)) as u32 + 1);
            assert_eq!(flow.has_left(asked), all.contains(&asked), "packet {asked} of {end}");
            assert!(!flow.has_left(end));
        }
    }

    #[test]
    fn reordering_without_loss_is_never_reported() {
        let arrivals = arrivals(8, &[5, 90, 20, 60, 33, 1, 48, 70], &BTreeSet::new(), 1);
        for (is_each_reported, delay, taken) in [(true, 0, 100), (false, 0, 20), (true, 9, 100), (false, 9, 20)] {
            let (passed, blocked) = reports(8, &arrivals, is_each_reported, delay);
            assert!(passed.is_empty() && blocked > taken, "{passed:?} passed, {blocked} were taken away");
        }
    }

    proptest! {
        #[test]
        fn only_losses_are_reported_and_the_first_if_a_later_packet_of_its_path_reveals_it(
            paths in 2u16..9,
            delays in proptest::collection::vec(1u64..200, 8),
            lost in proptest::collection::btree_set(0u32..300, 0..4),
            seed in any::<u64>(),
            is_each_reported in any::<bool>(),
            delay in 0usize..30,
        ) {
            let arrivals = arrivals(paths, &delays, &lost, seed);
            let (passed, _) = reports(paths, &arrivals, is_each_reported, delay);
            prop_assert!(passed.is_subset(&lost), "{passed:?} reported, {lost:?} lost");
            let Some(first) = lost.first() else { return Ok(()) };
            // The receiver expects the first lost packet when all packets before it have arrived.
            let from = arrivals.iter().rposition(|seq| seq < first).map_or(0, |at| at + 1);
            let reveals = |seq: &u32| seq > first && (seq - first).is_multiple_of(u32::from(paths));
            if arrivals[from..].iter().any(reveals) {
                prop_assert!(passed.contains(first), "{first} was not reported, {passed:?} were");
            }
        }
    }
}
