//! RailS: every sender gives its largest piece to the rail with the fewest bytes, then the next
//! one, and needs no feedback (mechanisms-2.md P44; Xu et al., arXiv 2510.19262).
//!
//! This is the rule of the longest processing time first (LPT) for N equal machines: the rail with
//! the most bytes has at most 4/3 - 1/(3N) times as many as in the best division. The source proves
//! that in a network of rails even sending means even receiving, so that senders need not agree. A
//! piece keeps its rail. The sizes are those that an application knows before it sends.
//!
//! The rails of a sender are the first links of its paths: its ports in a network of several
//! planes, the uplinks of its first switch if the host has one port. Every sender has separate
//! counts. Hosts start the pieces that become due at the same instant in the order of their sizes,
//! largest first.
//!
//! Readings: only the abstract and notes were at hand. A piece is a flow, cut before by
//! `traffic.queue_pairs`, since a receiver takes pieces of several rails but no packets out of
//! order. A call, after which counts begin at zero, ends when the sender has started nothing for
//! `call`. Of equal rails the next in circular order is taken, from one that is drawn for each
//! sender; with `start=first` all begin with the first. Behind its first link a piece takes a path
//! by hash. A rail that is down gets nothing; its pieces are placed again, with all their bytes.
//! The source also moves pieces inside a server to the accelerator on another rail; hosts here do
//! not forward, so that the topology `rail` has one rail for each host.
//!
//! Bytes are counted, not times: a rail of half the rate gets as many.
//!
//! - Helps: with all-to-all exchanges of unequal, known sizes over equal rails or planes.
//! - Hurts: with unequal or shared rails, as it knows neither rates nor the traffic of other
//!   senders.

use net::Time;

use crate::dataplane::common::{FlowTable, PathIndex, START};
use crate::dataplane::{Cx, EdgeBalancer, EdgeEnv, Needs, PacketView, Paths};
use crate::entry::{Entry, Granularity};
use crate::hash::{combine, mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("rails", "RailS")
    .summary("Gives each flow, largest first, to the rail or plane that has the fewest bytes of its sender.")
    .source("P44; RailS, arXiv 2510.19262")
    .granularity(Granularity::Flow)
    .senses("sizes of flows")
    .params(&[
        START,
        Param::scaled("call", "2rtt").doc("Time without a new flow after which a sender counts from zero again."),
    ])
    .example("rails:start=first")
    .needs(|_, _| Needs { largest_first: true, ..Needs::default() })
    .edge(|env, params| Box::new(Rails::new(env, params)));

struct Rails {
    call: Time,
    /// Seed of the first rails; `None` if all senders begin with the first one.
    seed: Option<u64>,
    index: PathIndex,
    /// Rail of each path, by `index`.
    rail_of: Vec<u16>,
    rail_count: usize,
    senders: FlowTable<Sender>,
}

/// The state of a host; hosts have separate ones, as the source has no agreement between senders.
#[derive(Clone, Default)]
struct Sender {
    /// Bytes given to each rail in this call; empty before the first one.
    bytes: Vec<u64>,
    started: Time,
}

impl Rails {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Rails {
        let index = PathIndex::outward(env);
        let first_links = index.first_links(env);
        let mut rails = first_links.clone();
        rails.sort_unstable();
        rails.dedup();
        let rail = |link| rails.binary_search(link).map_or(0, |at| at as u16);
        Rails {
            call: params.scaled("call", &env.scale),
            seed: (params.text(START.name) == "random").then(|| mix(env.seed)),
            rail_of: first_links.iter().map(rail).collect(),
            rail_count: rails.len(),
            index,
            senders: FlowTable::new(),
        }
    }

    /// Places all bytes of a flow, and returns its path.
    fn place(&mut self, now: Time, packet: &PacketView, paths: &Paths<'_>) -> u16 {
        let rails = self.rail_count;
        let first = self.seed.map_or(0, |seed| reduce(combine(seed, packet.src.0.into()), rails));
        let sender = self.senders.slot(packet.src.0);
        if sender.bytes.is_empty() || now.saturating_sub(sender.started) > self.call {
            sender.bytes.clear();
            sender.bytes.resize(rails, 0);
        }
        sender.started = now;
        let rail_of = &self.rail_of[self.index.range(packet.to)];
        let rail = |path: u16| usize::from(rail_of[usize::from(path)]);
        let key = |rail: usize| (sender.bytes[rail], (rail + rails - first) % rails);
        let Some(best) = paths.live.iter().map(|path| rail(*path)).min_by_key(|rail| key(*rail)) else {
            return paths.hashed(packet);
        };
        sender.bytes[best] = sender.bytes[best].saturating_add(paths.flow_bytes);
        let on_rail = paths.live.iter().copied().filter(|path| rail(*path) == best);
        let nth = reduce(mix(packet.hash), on_rail.clone().count());
        on_rail.clone().nth(nth).unwrap_or(paths.live[0])
    }
}

impl EdgeBalancer for Rails {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        match paths.current {
            Some(current) => current,
            // Acknowledgements have no size.
            None if paths.flow_bytes == 0 => paths.hashed(packet),
            None => self.place(cx.now, packet, &paths),
        }
    }
}

#[cfg(test)]
mod tests {
    use net::routes::ClassIx;
    use net::{HostIx, RandomStream};

    use super::*;
    use crate::dataplane::testing::{Bench, needs, packet};

    fn from(src: u32, flow: u32) -> PacketView {
        PacketView { src: HostIx(src), ..packet(flow) }
    }

    fn start(bench: &mut Bench, packet: &PacketView, bytes: u64) -> usize {
        bench.flow_bytes = bytes;
        usize::from(bench.choose_path(packet, None))
    }

    /// Returns the bytes of the fullest uplink after one call of a sender with these pieces.
    fn makespan(sizes: &[u64], rails: usize) -> u64 {
        let mut bench = Bench::edge("rails", rails as u16);
        let mut loads = vec![0; rails];
        for (flow, bytes) in (0..).zip(sizes) {
            loads[start(&mut bench, &from(0, flow), *bytes)] += bytes;
        }
        loads.into_iter().max().unwrap_or(0)
    }

    /// The best makespan, by trying all divisions that differ in more than the order of rails.
    fn optimum(sizes: &[u64], loads: &mut [u64], best: &mut u64) {
        let Some((size, rest)) = sizes.split_first() else {
            *best = (*best).min(*loads.iter().max().unwrap());
            return;
        };
        for rail in 0..loads.len() {
            let is_repeated = loads[..rail].contains(&loads[rail]);
            if !is_repeated && loads[rail] + size < *best {
                loads[rail] += size;
                optimum(rest, loads, best);
                loads[rail] -= size;
            }
        }
    }

    #[test]
    fn the_fullest_rail_is_within_the_bound_of_lpt() {
        let mut rng = RandomStream::new(3, "sizes");
        let mut optimal = 0;
        for round in 0..600 {
            let (rails, count) = (2 + round % 3, 3 + rng.next_below(8));
            let mut sizes: Vec<u64> = (0..count).map(|_| 1 + rng.next_below(40)).collect();
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            let mut best = u64::MAX;
            optimum(&sizes, &mut vec![0; rails], &mut best);
            let lpt = makespan(&sizes, rails);
            assert!(lpt >= best, "{sizes:?}: better than the optimum");
            let bound = 4.0 / 3.0 - 1.0 / (3.0 * rails as f64);
            let ratio = lpt as f64 / best as f64;
            assert!(ratio <= bound + 1e-12, "{sizes:?} on {rails} rails: {lpt}, optimum {best}");
            optimal += u32::from(lpt == best);
        }
        assert!((1..600).contains(&optimal), "some divisions are the best ones, not all: {optimal}");
    }

    #[test]
    fn the_bound_is_met_by_its_worst_case_and_only_largest_first() {
        // Graham, 1969: 2N + 1 pieces of 2N - 1, 2N - 1, ..., N, N, N need 4N - 1; the optimum is 3N.
        for rails in 2..8u64 {
            let pairs = (rails + 1..2 * rails).rev().flat_map(|size| [size, size]);
            let sizes: Vec<u64> = pairs.chain([rails; 3]).collect();
            assert_eq!(sizes.iter().sum::<u64>(), 3 * rails * rails);
            assert_eq!(makespan(&sizes, rails as usize), 4 * rails - 1);
        }
        assert_eq!((makespan(&[2, 1, 1], 2), makespan(&[1, 1, 2], 2)), (2, 3), "the bound is 2.33");
        assert!(needs("rails").largest_first);
    }

    #[test]
    fn senders_count_alone_and_from_zero_in_each_call() {
        let mut bench = Bench::edge("rails:start=first", 3);
        let rails = [9, 5, 4, 1].map(|bytes| start(&mut bench, &from(0, bytes as u32), bytes));
        assert_eq!(rails, [0, 1, 2, 2]);
        assert_eq!(start(&mut bench, &from(1, 20), 7), 0, "another host has counts that are all zero");
        bench.wait(Time::from_us(200));
        assert_eq!(start(&mut bench, &from(0, 21), 1), 1, "two round trips later: 5 bytes are fewest");
        bench.wait(Time::from_us(201));
        assert_eq!(start(&mut bench, &from(0, 22), 1), 0, "a new call");
    }

    #[test]
    fn a_piece_keeps_its_rail_and_leaves_a_dead_one() {
        let mut bench = Bench::edge("rails:start=first", 3);
        assert_eq!([8, 7, 6].map(|bytes| start(&mut bench, &from(0, bytes as u32), bytes)), [0, 1, 2]);
        assert_eq!(bench.choose_path(&PacketView { seq: 4, ..from(0, 8) }, Some(0)), 0);
        bench.live = vec![1, 2];
        bench.flow_bytes = 8;
        assert_eq!(bench.choose_path(&PacketView { seq: 5, ..from(0, 8) }, None), 2, "6 of another piece there, not 7");
        assert_eq!(start(&mut bench, &from(0, 30), 1), 1, "14 bytes are on the last rail now");
        // Acknowledgements are hashed and count nothing.
        let ack = PacketView { is_data: false, ..from(0, 31) };
        let before = start(&mut bench, &ack, 0);
        assert_eq!(start(&mut bench, &ack, 0), before);
    }

    #[test]
    fn senders_begin_with_different_rails_unless_all_start_with_the_first() {
        let firsts = |spec: &str| {
            let mut bench = Bench::edge(spec, 4);
            let rails: Vec<usize> = (0..40).map(|host| start(&mut bench, &from(host, host), 5)).collect();
            [0, 1, 2, 3].map(|rail| rails.iter().filter(|first| **first == rail).count())
        };
        assert!(firsts("rails").iter().all(|count| *count > 3), "{:?}", firsts("rails"));
        assert_eq!(firsts("rails:start=first"), [40, 0, 0, 0]);
    }

    #[test]
    fn planes_are_the_rails_of_a_host_with_several_ports() {
        let family = "multi-plane:planes=4,leaves=2,spines=3,hosts_per_leaf=2";
        let mut bench = Bench::edge_on("rails:start=first", family, 0);
        // Class 2 is a host of the other leaf: three spines in each of four planes.
        bench.live = (0..bench.path_count(2) as u16).collect();
        assert_eq!(bench.live.len(), 12);
        let planes: Vec<_> = (0..8)
            .map(|flow| {
                let path = start(&mut bench, &PacketView { to: ClassIx(2), ..from(0, flow) }, 10);
                bench.path(2, path as u32)[0]
            })
            .collect();
        let distinct: std::collections::BTreeSet<_> = planes[..4].iter().collect();
        assert!(distinct.len() == 4 && planes[..4] == planes[4..], "{planes:?}");
    }
}
