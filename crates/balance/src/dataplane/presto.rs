//! Presto: 64 KB flowcells rotate through all paths (mechanisms.md P16; He et al., SIGCOMM 2015).
//!
//! The edge counts the bytes of each flow. A packet that would take the flowcell above its size
//! begins the next one: flowcell number and path advance by one. The first path of a flow is drawn
//! at random. Every packet carries the number of its flowcell, so that receivers can distinguish
//! loss (a gap inside a flowcell) from reordering (a gap between two); the platform provides such
//! receivers. Paths of unequal rate are repeated in proportion to their rates, dead ones left out.
//!
//! Presto's controller computes disjoint spanning trees; here the trees are the numbered shortest
//! paths. The source does not specify the order in which a flow uses them. With more than two tiers
//! the order matters, since neighbours in a list of trees may share the uplink. They are used in
//! the digit-reversed order of DRB. Bytes are those on the wire, retransmissions and bare
//! acknowledgements included, as a virtual switch counts them. A path that dies ends the flowcell
//! on it.
//!
//! Flows that start together stay in phase: their flowcells meet repeatedly. Wrong weights during a
//! partial failure hurt as much as in any weighted scheme.
//!
//! - Helps: with large flows, on symmetric fabrics and where routing knows the rates of the paths.
//! - Hurts: where weights are wrong, as after a silent failure: flowcells use all paths regardless
//!   of their state.

use crate::dataplane::common::{FlowTable, PathCycles};
use crate::dataplane::{Cx, EdgeBalancer, EdgeHooks, Needs, PacketView, Paths, Receiving};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("presto", "Presto")
    .summary("Rotates flowcells of 64 KB of each flow through all paths, weighted by their rates.")
    .source("P16; SIGCOMM 2015; F2")
    .granularity(Granularity::Flowcell)
    .senses("capacities, after failures are detected")
    .params(&[
        Param::count("cell", 1..=1 << 30, "65536")
            .unit("bytes")
            .doc("Size of a flowcell: the largest segment a host hands to its interface."),
        Param::number("patience", 0.0..=1000.0, "2")
            .doc("Waiting time of receivers for a late flowcell, as a multiple of the average such wait."),
    ])
    .needs(|_, params| Needs {
        receiving: Receiving::Flowcells { bytes: params.count("cell") as u32, patience: params.number("patience") },
        ..Needs::default()
    })
    .edge(|env, params| {
        let cell_bytes = params.count("cell") as u32;
        Box::new(Presto { cell_bytes, cycles: PathCycles::new(env), flows: FlowTable::new() })
    });

struct Presto {
    cell_bytes: u32,
    cycles: PathCycles,
    flows: FlowTable<Flow>,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    bytes: u32,
    /// Number of the flowcell. It continues with the next flow of the same number, which is
    /// harmless: receivers only compare whether two packets are of one flowcell.
    cell: u32,
    /// Position in the round of paths.
    place: u32,
}

impl EdgeBalancer for Presto {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let flow = self.flows.slot(packet.flow);
        let bytes = flow.bytes.saturating_add(packet.bytes);
        match paths.current {
            Some(current) if bytes <= self.cell_bytes => {
                flow.bytes = bytes;
                current
            }
            current => {
                if current.is_none() {
                    flow.place = cx.rng.next_u64() as u32;
                }
                flow.bytes = packet.bytes;
                flow.cell = flow.cell.wrapping_add(1);
                self.cycles.next(packet.to, &mut flow.place, paths)
            }
        }
    }

    fn encapsulate(&mut self, _: &mut Cx<'_>, packet: &PacketView, _: u16) -> u32 {
        self.flows.slot(packet.flow).cell
    }

    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { overlay: true, weights: true, ..EdgeHooks::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dataplane::testing::{Bench, needs, packet};

    /// Returns path and flowcell of the next packets; the bench keeps the last path as `current`.
    fn send(bench: &mut Bench, packet: &PacketView, current: &mut Option<u16>, count: usize) -> Vec<(u16, u32)> {
        let packets = (0..count).map(|_| {
            let path = bench.choose_path(packet, *current);
            *current = Some(path);
            (path, bench.encapsulate(packet, path))
        });
        packets.collect()
    }

    #[test]
    fn a_packet_that_exceeds_the_flowcell_begins_the_next_on_the_next_path() {
        let mut bench = Bench::edge("presto", 4);
        // 43 packets of 1500 bytes are 64500; one more would be 66000.
        let sent = send(&mut bench, &packet(1), &mut None, 43 * 6);
        let (first_path, first_cell) = sent[0];
        for (i, (path, cell)) in sent.into_iter().enumerate() {
            let cells = (i / 43) as u32;
            assert_eq!((path, cell), ((first_path + cells as u16) % 4, first_cell + cells), "packet {i}");
        }
    }

    #[test]
    fn a_flowcell_may_be_filled_exactly() {
        let mut bench = Bench::edge("presto:cell=3000", 4);
        let cells: Vec<u32> = send(&mut bench, &packet(1), &mut None, 6).iter().map(|(_, cell)| *cell).collect();
        assert_eq!(cells, [cells[0], cells[0], cells[0] + 1, cells[0] + 1, cells[0] + 2, cells[0] + 2]);
    }

    #[test]
    fn flows_count_separately_and_start_at_random() {
        let mut bench = Bench::edge("presto:cell=3000", 16);
        let starts: BTreeSet<u16> = (0..100).map(|flow| bench.choose_path(&packet(flow), None)).collect();
        assert!(starts.len() > 12, "{starts:?}");
        let (mut a, mut b) = (None, None);
        let path_a = send(&mut bench, &packet(200), &mut a, 1)[0].0;
        send(&mut bench, &packet(201), &mut b, 7);
        assert_eq!(send(&mut bench, &packet(200), &mut a, 1)[0].0, path_a, "another flow's bytes do not count");
    }

    #[test]
    fn a_reused_flow_number_starts_a_flowcell() {
        let mut bench = Bench::edge("presto", 4);
        let before = send(&mut bench, &packet(1), &mut None, 30)[29].1;
        let after = send(&mut bench, &packet(1), &mut None, 44);
        assert!(after[0].1 != before && after[..43].iter().all(|(_, cell)| *cell == after[0].1));
        assert_ne!(after[43].1, after[0].1, "bytes of the old flow are not counted");
    }

    #[test]
    fn neighbouring_flowcells_use_different_uplinks() {
        let mut bench = Bench::edge_on("presto:cell=1500", "fat-tree:k=8", 0);
        bench.live = (0..16).collect();
        let packet = PacketView { to: net::routes::ClassIx(31), ..packet(1) };
        let sent = send(&mut bench, &packet, &mut None, 64);
        for window in sent.windows(4) {
            let uplinks: BTreeSet<u16> = window.iter().map(|(path, _)| path / 4).collect();
            assert_eq!(uplinks.len(), 4, "{window:?}");
        }
    }

    #[test]
    fn weights_repeat_paths_and_failures_take_them_out() {
        let mut bench = Bench::edge("presto:cell=1500", 3);
        bench.weights = vec![10, 2, 10];
        let mut current = None;
        let hits = |sent: Vec<(u16, u32)>| {
            let mut hits = [0; 3];
            sent.iter().for_each(|(path, _)| hits[usize::from(*path)] += 1);
            hits
        };
        assert_eq!(hits(send(&mut bench, &packet(1), &mut current, 110)), [50, 10, 50]);
        (bench.live, bench.weights) = (vec![1, 2], vec![2, 10]);
        // The platform passes `None` for a path that died.
        current = current.filter(|path| *path != 0);
        assert_eq!(hits(send(&mut bench, &packet(1), &mut current, 60)), [0, 10, 50]);
        (bench.live, bench.weights) = (vec![0, 1, 2], vec![7, 7, 7]);
        assert_eq!(hits(send(&mut bench, &packet(1), &mut current, 30)), [10, 10, 10]);
    }

    #[test]
    fn packets_carry_flowcell_number() {
        assert_eq!(needs("presto").receiving, Receiving::Flowcells { bytes: 65_536, patience: 2.0 });
        let given = Receiving::Flowcells { bytes: 9000, patience: 0.5 };
        assert_eq!(needs("presto:cell=9000,patience=0.5").receiving, given);
    }
}
