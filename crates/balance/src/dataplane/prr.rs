//! PRR, protective reroute: ECMP whose hosts change the flow label of a connection when its path
//! seems broken (mechanisms-2.md P48; Wetherall et al., SIGCOMM 2023; Linux `sk_rethink_txhash`).
//!
//! - Data: each retransmission timeout draws a new label for the packets of the connection.
//! - Acknowledgements: data that arrives although it was acknowledged suggests that the
//!   acknowledgements are lost. From duplicate number `duplicates` on, each draws a new label for
//!   the acknowledgements. The first is spared: the sender may have been too hasty.
//!
//! A new label is a new hash at every switch, and so a random path. If a share b of the paths is
//! broken, a connection on such a path is still stuck after n timeouts with probability b^n, in
//! each direction on its own. Congestion plays no part: this is a repair, not a way to balance
//! load.
//!
//! From memory: both rules. Linux moved acknowledgements at the second duplicate of one segment in
//! a row (commit 7788174e8726), and later at a duplicate with a new label. Readings where the
//! source is silent: the receiver counts the duplicates of a connection whether or not new data
//! arrived between them. The first label is 0, so that flows without trouble are spread as by ECMP.
//!
//! A receiver does not learn that a later flow, perhaps of another host, has the number of a former
//! one. That flow begins with the last label of the former one, and its first duplicate may already
//! change it. This does no harm: any label is as good as another until it fails, and the draws are
//! independent of the past.
//!
//! Pitfalls: handshakes carry no label here: if all of a connection's are lost, it never starts. A
//! timeout due to congestion moves the connection too. Transports that acknowledge single packets
//! return each acknowledgement on the label of its packet, and need no second rule.
//!
//! - Helps: against paths that lose packets silently, in either direction, after as few timeouts as
//!   chance allows.
//! - Hurts: not by itself; it is ECMP until the first timeout, so collisions remain, and a repair
//!   takes at least the time of one timeout.

use crate::dataplane::common::FlowTable;
use crate::dataplane::{Cx, HostBalancer, HostLoss, HostPacket, draw_entropy};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("prr", "PRR")
    .summary("ECMP, but hosts draw a new flow label at each timeout, and receivers one for ACKs at repeated data.")
    .source("P48; PRR, SIGCOMM 2023")
    .granularity(Granularity::MovableFlow)
    .senses("timeouts, duplicates of data")
    .params(&[Param::count("duplicates", 0..=255, "2")
        .unit("packets")
        .doc("Duplicate from which on each changes the label of acknowledgements; 0 for never.")])
    .example("prr:duplicates=1")
    .host(|_, params| {
        Box::new(Prr {
            duplicates: params.count("duplicates") as u8,
            data_labels: FlowTable::new(),
            receivers: FlowTable::new(),
        })
    });

struct Prr {
    duplicates: u8,
    /// Labels that senders chose, by flow.
    data_labels: FlowTable<u16>,
    /// State of receivers, by flow: they share nothing with the senders of the same flows.
    receivers: FlowTable<Receiver>,
}

#[derive(Clone, Copy, Default)]
struct Receiver {
    label: u16,
    /// Duplicates so far, at most 255.
    duplicates: u8,
}

impl HostBalancer for Prr {
    fn entropy(&mut self, _: &mut Cx<'_>, packet: &HostPacket) -> u16 {
        if packet.is_first {
            self.data_labels.renew(packet.flow);
        }
        *self.data_labels.slot(packet.flow)
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, flow: u32, loss: HostLoss) {
        if loss == HostLoss::Timeout {
            *self.data_labels.slot(flow) = draw_entropy(cx.rng);
        }
    }

    fn labels_acks(&self) -> bool {
        self.duplicates > 0
    }

    fn ack_entropy(&mut self, flow: u32) -> u16 {
        self.receivers.slot(flow).label
    }

    fn on_duplicate(&mut self, cx: &mut Cx<'_>, flow: u32) {
        let receiver = self.receivers.slot(flow);
        receiver.duplicates = receiver.duplicates.saturating_add(1);
        if receiver.duplicates >= self.duplicates {
            receiver.label = draw_entropy(cx.rng);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Prr;
    use crate::dataplane::common::FlowTable;
    use crate::dataplane::testing::{BASE_RTT, Bench, packet};
    use crate::dataplane::{HostBalancer, HostFeedback, HostLoss};
    use crate::hash::combine;

    const FLOWS: u32 = 20_000;

    /// Checks that `stuck` of all flows is as likely as b^n, within four standard deviations.
    fn check(stuck: usize, b: f64, n: i32, direction: &str) {
        let (flows, p) = (f64::from(FLOWS), b.powi(n));
        let error = (stuck as f64 - flows * p).abs();
        assert!(error < 4.0 * (flows * p * (1.0 - p)).sqrt(), "{direction}: {stuck} stuck after {n}, b = {b}");
    }

    #[test]
    fn flows_on_broken_paths_stay_there_with_probability_b_to_the_n_each_way() {
        for b in [0.25, 0.5] {
            let mut bench = Bench::host("prr");
            let is_broken =
                |flow: u32, label: u16| combine(packet(flow).hash, u64::from(label)) < (b * u64::MAX as f64) as u64;
            let mut forth: Vec<u32> = (0..FLOWS).collect();
            let mut back = forth.clone();
            forth.iter().for_each(|flow| assert_eq!(bench.entropy(*flow, 0), 0));
            back.iter().for_each(|flow| bench.host_duplicate(*flow));
            // Only flows that are stuck time out, and only their data arrives twice.
            for n in 1..=4 {
                forth.iter().for_each(|flow| bench.host_loss(*flow, HostLoss::Timeout));
                forth.retain(|flow| is_broken(*flow, bench.entropy(*flow, 1)));
                check(forth.len(), b, n, "data");
                back.iter().for_each(|flow| bench.host_duplicate(*flow));
                back.retain(|flow| is_broken(*flow, bench.ack_entropy(*flow)));
                check(back.len(), b, n, "acknowledgements");
            }
        }
    }

    #[test]
    fn acknowledgements_move_from_the_second_duplicate_on() {
        for (spec, first) in [("prr", 2), ("prr:duplicates=1", 1), ("prr:duplicates=255", 255)] {
            let mut bench = Bench::host(spec);
            let mut label = bench.ack_entropy(1);
            for duplicate in 1..=300 {
                bench.host_duplicate(1);
                let before = std::mem::replace(&mut label, bench.ack_entropy(1));
                assert_eq!(label != before, duplicate >= first, "{spec}: duplicate {duplicate}");
            }
        }
    }

    #[test]
    fn each_direction_moves_alone() {
        let mut bench = Bench::host("prr");
        bench.entropy(1, 0);
        bench.host_loss(1, HostLoss::Timeout);
        let data = bench.entropy(1, 1);
        assert!(data != 0 && bench.ack_entropy(1) == 0);
        (0..3).for_each(|_| bench.host_duplicate(1));
        assert!(bench.ack_entropy(1) != 0 && bench.entropy(1, 2) == data);
    }

    #[test]
    fn congestion_moves_no_flow() {
        let mut bench = Bench::host("prr");
        bench.entropy(1, 0);
        for seq in 1..1000 {
            let (una, next, rtt) = (seq, seq + 1, BASE_RTT * 50);
            bench.ack(&HostFeedback { flow: 1, entropy: 0, marked: true, acked: 1, una, next, rtt });
            bench.host_loss(1, HostLoss::FastRetransmit);
            bench.host_loss(1, HostLoss::Trimmed(0));
            assert_eq!(bench.entropy(1, seq), 0);
        }
    }

    #[test]
    fn later_flow_of_a_number_keeps_only_the_label_of_acknowledgements() {
        let mut bench = Bench::host("prr");
        bench.entropy(1, 0);
        bench.host_loss(1, HostLoss::Timeout);
        (0..2).for_each(|_| bench.host_duplicate(1));
        let label = bench.ack_entropy(1);
        assert_eq!((bench.entropy(1, 0), bench.ack_entropy(1)), (0, label));
        bench.host_duplicate(1);
        assert_ne!(bench.ack_entropy(1), label, "its first duplicate counts as the third");
    }

    #[test]
    fn acknowledgements_are_left_to_ecmp_on_request() {
        for duplicates in [0, 1, 2] {
            let prr = Prr { duplicates, data_labels: FlowTable::new(), receivers: FlowTable::new() };
            assert_eq!(prr.labels_acks(), duplicates > 0);
        }
    }
}
