//! SeqBalance: transfers are cut into pieces, each a connection, and every piece keeps the path
//! that was least congested at its start (mechanisms-2.md P47; Luo et al., arXiv 2407.09808).
//!
//! A shaper at the host divides a transfer into equal pieces with a queue pair each. The first
//! switch chooses the path of a piece by the metrics of CONGA: the larger of the local utilisation
//! of the first link and of that which the far edge returned; of several such paths a random one. A
//! piece never moves while its path is live, so its packets stay in order and go-back-N suffices.
//!
//! Readings: the shaper is the `traffic.queue_pairs` of an experiment, which divides every transfer
//! into equal flows, so that a piece is a flow here and this file is the part of the switch.
//! Without that key every transfer is one piece. The source reports congestion in separate packets
//! that the far switch sends upon marks, and its rule for marked paths was not at hand; the metrics
//! and their way back are those of `conga.rs`. Acknowledgements are flows too: they keep the path
//! of their first packet. A piece whose path dies chooses again.
//!
//! Pieces that start at the same instant see the same metrics: only random ties keep them apart.
//!
//! - Helps: with RDMA transfers that leave no gaps for flowlets, over go-back-N.
//! - Hurts: with transfers that are not divided, and where congestion moves during a piece.

use super::conga::{self, Conga};
use crate::dataplane::common::flowlets::Signal;
use crate::dataplane::common::{ALPHA, T_DRE};
use crate::dataplane::{Arrival, Cx, Delivery, EdgeBalancer, EdgeHooks, Needs, PacketView, Paths};
use crate::entry::{Entry, Granularity};

pub(crate) static ENTRY: Entry = Entry::declare("seq-balance", "SeqBalance")
    .summary("Gives each flow, a piece of a transfer, the path that is least congested at its start.")
    .source("P47; SeqBalance, arXiv 2407.09808")
    .granularity(Granularity::Flow)
    .senses("utilisation of links, by feedback between edges")
    .params(&[T_DRE, ALPHA, conga::BITS, conga::AGEING])
    .needs(|scale, params| Needs { sensing: Some(conga::quantised(scale, params)), ..Needs::default() })
    .edge(|env, params| Box::new(SeqBalance(Conga::new(env, params))));

struct SeqBalance(Conga);

impl EdgeBalancer for SeqBalance {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        paths.current.unwrap_or_else(|| self.0.pick(cx, packet, paths.live, None))
    }

    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { overlay: true, ..EdgeHooks::default() }
    }

    fn encapsulate(&mut self, cx: &mut Cx<'_>, packet: &PacketView, _: u16) -> u32 {
        self.0.header(cx.now, packet.to)
    }

    fn decapsulate(&mut self, cx: &mut Cx<'_>, packet: &PacketView, arrival: &Arrival) -> Delivery {
        self.0.arrived(cx.now, packet, arrival)
    }
}

#[cfg(test)]
mod tests {
    use net::Time;
    use net::routes::ClassIx;

    use super::*;
    use crate::dataplane::common::{pack, unpack};
    use crate::dataplane::testing::{Bench, arrival, packet};

    fn returned(bench: &mut Bench, metrics: [u8; 4]) {
        for (path, metric) in (0..).zip(metrics) {
            bench.decapsulate(&packet(9), &arrival(ClassIx(1), 0, pack(path, metric)));
        }
    }

    #[test]
    fn a_piece_takes_the_least_congested_path_and_keeps_it() {
        let mut bench = Bench::edge("seq-balance", 4);
        returned(&mut bench, [4, 7, 1, 3]);
        bench.load((1, 2), 0, 0.25);
        // Maxima of local and remote metrics: 4, 7, 2, 3.
        assert!((0..20).all(|flow| bench.choose_path(&packet(flow), None) == 2));
        returned(&mut bench, [0, 7, 7, 7]);
        assert!((100..120).all(|flow| bench.choose_path(&packet(flow), None) == 0), "new pieces");
        for seq in 1..50 {
            bench.wait(Time::from_ms(10));
            let packet = PacketView { seq, ..packet(1) };
            assert_eq!(bench.choose_path(&packet, Some(2)), 2, "neither gaps nor congestion move a piece");
        }
    }

    #[test]
    fn a_piece_leaves_a_dead_path_alone() {
        let mut bench = Bench::edge("seq-balance", 4);
        returned(&mut bench, [0, 2, 5, 1]);
        assert_eq!(bench.choose_path(&packet(1), None), 0);
        bench.live = vec![1, 2, 3];
        assert_eq!(bench.choose_path(&PacketView { seq: 7, ..packet(1) }, None), 3);
        bench.live = (0..4).collect();
        assert_eq!(bench.choose_path(&PacketView { seq: 8, ..packet(1) }, Some(3)), 3, "it does not return");
    }

    #[test]
    fn pieces_of_the_same_instant_are_spread_over_the_best_paths() {
        let mut bench = Bench::edge("seq-balance", 4);
        returned(&mut bench, [3, 0, 0, 3]);
        let hits: [u32; 4] = bench.hits((0..1000).map(packet));
        assert!(hits[0] + hits[3] == 0 && (400..600).contains(&hits[1]), "{hits:?}");
    }

    #[test]
    fn utilisations_go_back_to_the_sender() {
        let mut bench = Bench::edge("seq-balance", 4);
        bench.decapsulate(&packet(9), &Arrival { utilisation: 5, ..arrival(ClassIx(1), 3, 0) });
        assert_eq!(unpack(bench.encapsulate(&packet(1), 0)), Some((3, 5)));
    }
}
