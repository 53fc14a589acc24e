//! Ethereal: flows of known size get whole paths, so that all uplinks carry the same number of
//! bytes (mechanisms-2.md P43; Addanki et al., arXiv 2407.00550, version 2).
//!
//! Within a step of a collective, all flows have one size, which the sender knows at their start. A
//! flow takes the path whose first link has the fewest bytes that this edge has assigned to it and
//! not yet sent; of several such paths the one whose second link has the fewest, and so on. Of
//! equals it is the next in circular order. Packets that pass take their bytes off the links of
//! their path. The flow keeps the path until its sender has a timeout; then it takes the least
//! loaded other one, with the bytes that have not passed. The same happens if its path dies.
//!
//! The source also cuts messages, which here is a matter of the traffic (`queue_pairs`), since a
//! balancer cannot open connections. Theorem 1: r equal flows of size f over s uplinks, with g =
//! gcd(r, s), are balanced if each is cut into s/g pieces of f g/s, of which each uplink gets r/g;
//! no even cut has fewer pieces. With r = 7 and s = 4 these are 4 pieces for each flow and 7 for
//! each uplink. We read r as the remainder r mod s: the other flows fill whole rounds. With r = 12
//! and s = 8, then, 8 flows stay whole and 4 are cut in two. Uncut flows leave a difference of one
//! flow between uplinks.
//!
//! Readings where the source is silent; only notes on the paper were at hand. The hosts of a
//! collective know its flows, hence those of their neighbours; the edge that sees the flows of all
//! its hosts represents that knowledge. Nothing is known about flows of other edges, which may meet
//! on the links down to one receiver. Circular order means the link that got a flow longest ago.
//! Links without a flow yet are in an order that is drawn for each edge, so that edges do not begin
//! alike; with `start=first` they do, which suits all-to-all traffic in which every rank begins
//! with its neighbour. Bytes are those on the wire: a flow counts as sent some percent early, by
//! its headers. Acknowledgements are hashed.
//!
//! Pitfalls: bytes are compared, not times, so a link of half the rate gets as many. A flow that
//! ends early leaves its bytes on its links until its number is used again. A network with many
//! paths needs memory for the links of each.
//!
//! - Helps: steps of collectives with equal flows over one path each, such as all-to-all and
//!   recursive doubling in Clos networks; receivers need no reordering.
//! - Hurts: where sizes are unknown or flows are few and large; with slow links, which timeouts
//!   alone reveal. With rings and double binary trees the source finds all balancers alike.

use net::routes::ClassIx;

use crate::dataplane::common::{FlowTable, PathLinks, START};
use crate::dataplane::{Cx, EdgeBalancer, EdgeEnv, Loss, PacketView, PathLoss, Paths};
use crate::entry::{Entry, Granularity};
use crate::hash::{combine, mix};
use crate::params::Params;

pub(crate) static ENTRY: Entry = Entry::declare("ethereal", "Ethereal")
    .summary("Gives each flow of known size the path whose links have the fewest bytes left to send.")
    .source("P43; Ethereal, arXiv 2407.00550v2")
    .granularity(Granularity::MovableFlow)
    .senses("sizes of flows, timeouts")
    .params(&[START])
    .edge(|env, params| Box::new(Ethereal { links: Assigned::new(env, params), flows: FlowTable::new() }));

struct Ethereal {
    links: Assigned,
    flows: FlowTable<Flow>,
}

/// The bytes on all links that this edge has assigned and not yet sent.
struct Assigned {
    paths: PathLinks,
    /// By number of the link in the network: bytes, and the turn of its last flow.
    links: Vec<(u64, u64)>,
    /// Number of the next assignment.
    turn: u64,
}

impl Assigned {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Assigned {
        // Assignments are later than all turns that are drawn.
        let turn = 1 << 63;
        let seed = combine(mix(env.seed), u64::from(env.class.0));
        let is_drawn = params.text(START.name) == "random";
        let first = |link| if is_drawn { combine(seed, link) % turn } else { 0 };
        let links = (0..env.topology.links().len() as u64).map(|link| (0, first(link))).collect();
        Assigned { paths: PathLinks::new(env), links, turn }
    }

    fn add(&mut self, (to, path): (ClassIx, u16), bytes: u64) {
        for link in self.paths.of(to, path) {
            let (assigned, turn) = &mut self.links[link.ix()];
            *assigned = assigned.saturating_add(bytes);
            *turn = self.turn;
        }
        self.turn += 1;
    }

    /// Takes bytes that have passed, or that leave the path, off its links; `None` without a path.
    fn take_off(&mut self, place: Option<(ClassIx, u16)>, bytes: u64) {
        let Some((to, path)) = place.filter(|_| bytes > 0) else { return };
        for link in self.paths.of(to, path) {
            let (assigned, _) = &mut self.links[link.ix()];
            *assigned = assigned.saturating_sub(bytes);
        }
    }

    /// Returns the least loaded of these paths, compared link by link from the first on.
    fn least(&self, to: ClassIx, paths: impl Iterator<Item = u16>) -> Option<u16> {
        let loads = |path: u16| self.paths.of(to, path).iter().map(|link| self.links[link.ix()]);
        paths.min_by(|a, b| loads(*a).cmp(loads(*b)))
    }
}

#[derive(Clone, Copy, Default)]
struct Flow {
    /// Hash of the flow, 0 for none; flow numbers are used again.
    hash: u64,
    /// Its destination and path; `None` before the first.
    place: Option<(ClassIx, u16)>,
    /// Whether its sender has had a timeout since its path was chosen.
    must_move: bool,
    /// Assigned bytes that have not passed.
    left: u64,
}

impl Ethereal {
    /// Assigns the rest of a flow, or all of a new one, to a path; to the current one only if there
    /// is no other.
    fn assign(&mut self, packet: &PacketView, paths: &Paths<'_>) -> u16 {
        let flow = self.flows.slot(packet.flow);
        // Whether it has a path that died or timed out, or is a new flow of this number.
        let is_ongoing =
            flow.hash == packet.hash.max(1) && (paths.current.is_some() || packet.seq > 0 || packet.is_retransmission);
        self.links.take_off(flow.place, flow.left);
        let left = if is_ongoing { flow.left } else { paths.flow_bytes };
        let others = paths.live.iter().copied().filter(|path| Some(*path) != paths.current);
        let path = self.links.least(packet.to, others).or(paths.current).unwrap_or(paths.live[0]);
        self.links.add((packet.to, path), left);
        *flow = Flow { hash: packet.hash.max(1), place: Some((packet.to, path)), must_move: false, left };
        path
    }
}

impl EdgeBalancer for Ethereal {
    fn choose_path(&mut self, _: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        // A handshake opens the path of its data.
        if !packet.is_data && paths.flow_bytes == 0 {
            return paths.current_or_hashed(packet);
        }
        let must_move = self.flows.slot(packet.flow).must_move;
        let path = match paths.current {
            Some(current) if !must_move => current,
            _ => self.assign(packet, &paths),
        };
        let flow = self.flows.slot(packet.flow);
        if packet.is_data && !packet.is_retransmission {
            let passed = flow.left.min(u64::from(packet.bytes));
            flow.left -= passed;
            self.links.take_off(flow.place, passed);
        }
        path
    }

    fn on_loss(&mut self, _: &mut Cx<'_>, loss: &PathLoss) {
        if loss.loss == Loss::Timeout {
            self.flows.slot(loss.flow).must_move = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use net::{RandomStream, Time};

    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    const SIZE: u64 = 1_000_000;

    fn to(class: u32, flow: u32) -> PacketView {
        PacketView { to: ClassIx(class), ..packet(flow) }
    }

    /// Begins a flow of this size; returns its path.
    fn start(bench: &mut Bench, packet: &PacketView, bytes: u64) -> u16 {
        bench.flow_bytes = bytes;
        bench.choose_path(packet, None)
    }

    /// Begins flows of these sizes to three leaves in turn; returns the bytes of each uplink.
    fn loads<const N: usize>(spec: &str, sizes: impl IntoIterator<Item = u64>) -> [u64; N] {
        let mut bench = Bench::edge(spec, N as u16);
        let mut loads = [0; N];
        for (flow, bytes) in (0..).zip(sizes) {
            loads[usize::from(start(&mut bench, &to(1 + flow % 3, flow), bytes))] += bytes;
        }
        loads
    }

    fn spread(loads: &[u64]) -> u64 {
        loads.iter().max().unwrap() - loads.iter().min().unwrap()
    }

    #[test]
    fn equal_flows_load_all_uplinks_alike_up_to_one_flow() {
        for count in 1..=64 {
            let loads: [u64; 8] = loads("ethereal", (0..count).map(|_| SIZE));
            let remainder = if count % 8 == 0 { 0 } else { SIZE };
            assert_eq!(spread(&loads), remainder, "{count} flows: {loads:?}");
        }
        let four: [u64; 4] = loads("ethereal:start=first", (0..12).map(|_| SIZE));
        assert_eq!(four, [3 * SIZE; 4]);
    }

    #[test]
    fn pieces_of_theorem_1_load_all_uplinks_alike() {
        // 7 flows over 4 uplinks: 4 pieces of each.
        let cut: [u64; 4] = loads("ethereal", (0..28).map(|_| SIZE / 4));
        assert_eq!(cut, [7 * SIZE / 4; 4]);
        // 12 over 8: whole rounds first, and the rest in halves; in either order of arrival.
        for is_whole_first in [true, false] {
            let size = |flow| if (flow < 8) == is_whole_first { SIZE } else { SIZE / 2 };
            let loads: [u64; 8] = loads("ethereal", (0..16).map(size));
            assert_eq!(loads, [3 * SIZE / 2; 8]);
        }
    }

    #[test]
    fn equal_flows_use_all_paths_behind_each_uplink_alike() {
        let mut bench = Bench::edge_on("ethereal", "fat-tree:k=8", 0);
        bench.live = (0..16).collect();
        let mut uplinks = [0; 4];
        let mut paths = BTreeSet::new();
        for flow in 0..16 {
            // Each flow has another edge switch as its destination, in the seven other pods.
            let path = start(&mut bench, &to(4 + flow * 7 % 28, flow), SIZE);
            uplinks[usize::from(path / 4)] += 1;
            paths.insert(path);
            assert!(flow % 4 != 3 || uplinks == [flow / 4 + 1; 4], "after {flow}: {uplinks:?}");
        }
        assert_eq!(paths.len(), 16, "all cores");
    }

    #[test]
    fn unequal_flows_exceed_the_mean_by_less_than_the_largest() {
        let mut rng = RandomStream::new(5, "sizes");
        for count in [5, 20, 100] {
            let sizes: Vec<u64> = (0..count).map(|_| 1 + rng.next_below(SIZE)).collect();
            let (sum, largest) = (sizes.iter().sum::<u64>(), *sizes.iter().max().unwrap());
            let loads: [u64; 4] = loads("ethereal", sizes);
            assert!(loads.iter().all(|load| *load <= sum / 4 + largest), "{loads:?}");
            // Greedy assignment: no uplink is ahead by more than the flow it got last.
            assert!(spread(&loads) <= largest, "{loads:?}");
        }
    }

    #[test]
    fn bytes_that_passed_do_not_count() {
        let mut bench = Bench::edge("ethereal", 2);
        let long = start(&mut bench, &to(1, 1), 30_000);
        let short = start(&mut bench, &to(1, 2), 12_000);
        assert_ne!(long, short);
        // 13 packets leave 28.5 - 19.5 = 9 kB on the first path; the other has 10.5 kB.
        for seq in 1..=13 {
            bench.choose_path(&PacketView { seq, ..to(1, 1) }, Some(long));
        }
        assert_eq!(start(&mut bench, &to(2, 3), 1_000), long);
        // Retransmissions and acknowledgements are not part of the assigned bytes.
        for seq in 0..13 {
            bench.choose_path(&PacketView { seq, is_retransmission: true, ..to(1, 2) }, Some(short));
        }
        bench.flow_bytes = 0;
        bench.choose_path(&PacketView { is_data: false, ..to(1, 9) }, Some(short));
        assert_eq!(start(&mut bench, &to(2, 4), 1_000), long, "9 kB against 10.5 kB");
    }

    #[test]
    fn a_timeout_moves_the_flow_and_its_rest_to_the_least_loaded_other_path() {
        let mut bench = Bench::edge("ethereal", 3);
        let path = start(&mut bench, &to(1, 1), 9_000);
        let (second, third) = (start(&mut bench, &to(1, 2), 50_000), start(&mut bench, &to(1, 3), 40_000));
        bench.loss(1, path, Loss::FastRetransmit);
        assert_eq!(bench.choose_path(&PacketView { seq: 1, ..to(1, 1) }, Some(path)), path);
        bench.loss(1, path, Loss::Timeout);
        bench.wait(Time::from_ms(1));
        let again = PacketView { is_retransmission: true, ..to(1, 1) };
        assert_eq!(bench.choose_path(&again, Some(path)), third);
        assert_eq!(bench.choose_path(&PacketView { seq: 2, ..to(1, 1) }, Some(third)), third, "it stays there");
        // The old path is free: it takes all until it has as much as the others.
        assert_eq!(start(&mut bench, &to(1, 4), 30_000), path);
        // Now 28.5 kB are left there, 48.5 on the second path, and 38.5 + 4.5 on the third.
        assert_eq!(start(&mut bench, &to(1, 5), 20_000), path);
        assert_eq!(start(&mut bench, &to(1, 6), 8_000), third, "43 kB against 47 and 48.5");
        assert_eq!(start(&mut bench, &to(1, 7), 8_000), path, "47 kB against 48.5 and 49.5");
        assert_eq!(start(&mut bench, &to(1, 8), 8_000), second);
        bench.live = vec![path];
        bench.loss(4, path, Loss::Timeout);
        assert_eq!(bench.choose_path(&PacketView { seq: 3, ..to(1, 4) }, Some(path)), path, "there is no other");
    }

    #[test]
    fn a_dead_path_moves_the_rest_and_a_new_flow_of_the_number_all() {
        let mut bench = Bench::edge("ethereal:start=first", 2);
        assert_eq!(start(&mut bench, &to(1, 1), 21_500), 0);
        bench.live = vec![1];
        assert_eq!(bench.choose_path(&PacketView { seq: 1, ..to(1, 1) }, None), 1);
        bench.live = vec![0, 1];
        // 18.5 kB remain on path 1, nothing on path 0.
        assert_eq!(start(&mut bench, &to(1, 2), 19_000), 0);
        assert_eq!(start(&mut bench, &to(1, 3), 1), 0, "17.5 kB");
        // The number of the first flow is used again: its rest no longer counts.
        let successor = PacketView { hash: 77, ..to(2, 1) };
        assert_eq!(start(&mut bench, &successor, 5_000), 1);
        assert_eq!(start(&mut bench, &to(1, 4), 10_000), 1, "3.5 kB, not 22 kB");
    }

    #[test]
    fn a_handshake_assigns_the_flow_and_its_data_follow() {
        let mut bench = Bench::edge("ethereal:start=first", 2);
        let handshake = PacketView { is_data: false, bytes: 40, ..to(1, 1) };
        assert_eq!(start(&mut bench, &handshake, SIZE), 0);
        assert_eq!(bench.choose_path(&to(1, 1), Some(0)), 0);
        assert_eq!(start(&mut bench, &to(1, 2), SIZE / 2), 1, "the flow counts once, and all of it");
        assert_eq!(start(&mut bench, &to(1, 3), SIZE / 4), 1);
    }

    #[test]
    fn edges_begin_with_different_uplinks_unless_start_is_first() {
        let firsts = |spec: &str| -> BTreeSet<u16> {
            let first = |class| {
                let mut bench = Bench::edge_on(spec, "leaf-spine:leaves=16,spines=8,hosts_per_leaf=1", class);
                start(&mut bench, &to((class + 1) % 16, 1), SIZE)
            };
            (0..16).map(first).collect()
        };
        assert!(firsts("ethereal").len() > 4);
        assert_eq!(firsts("ethereal:start=first"), [0].into());
    }
}
