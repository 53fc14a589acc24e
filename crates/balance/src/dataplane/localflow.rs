//! LocalFlow: a switch packs the flows for each destination into bins of equal rate, one for each next
//! hop, and splits few flows for it (mechanisms.md P30; Sen et al., CoNEXT 2013).
//!
//! Every `period` a switch takes the flows of one destination class by their bytes in the last period,
//! largest first. Each bin takes an equal share of the sum. A flow goes whole to the fullest bin into
//! which it fits, where a bin may exceed its share by `slack`. A flow that fits nowhere fills up the
//! emptiest bin, and its rest is packed again. The fullest bin gets the next hop with the least load of
//! other destinations, and so on. New flows are hashed until the next packing.
//!
//! Known from the abstract: the aggregate of each destination, the slack, few splits, decisions of each
//! switch alone. Our readings: the order of the flows, best fit, all constants, and that packings are made
//! when a packet finds that the period has passed. A split flow is divided by the numbers of its packets
//! (multiples of the golden ratio, modulo 1), so that each piece gets every few packets, and a packet sent
//! again takes the same next hop. If the next hop of a flow fails, its packets are hashed until the next
//! packing. All next hops count as equally fast.
//!
//! A class with n next hops has at most n - 1 splits. Flows may change their next hop at each packing,
//! also if nothing else changes than the loads.
//!
//! - Helps: with flows longer than the period, of unequal rates, to the same rack.
//! - Hurts: with flows shorter than the period, which are hashed; split flows are reordered, which
//!   transports without tolerance take for loss; with a single large flow to a rack, which is always split.

use std::cmp::Reverse;

use net::{LinkIx, Time};

use crate::dataplane::common::SwitchFlows;
use crate::dataplane::{Cx, NextHops, PacketView, SwitchBalancer, SwitchEnv};
use crate::entry::{Entry, Granularity};
use crate::hash::{mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("localflow", "LocalFlow")
    .summary("Packs the flows for each destination into equal bins, one for each next hop, and splits few.")
    .source("P30; CoNEXT 2013")
    .granularity(Granularity::MovableFlow)
    .senses("bytes of each flow at the switch")
    .params(&[
        Param::scaled("period", "125rtt")
            .doc("Time between two packings of a destination: 10ms at a base RTT of 80 us (not published)."),
        Param::number("slack", 0.0..=10.0, "0.05")
            .unit("of a bin")
            .doc("Share by which a bin may be too full, so that fewer flows are split (not published)."),
    ])
    .example("localflow:period=1ms,slack=0.1")
    .switch(|env, params| Box::new(LocalFlow::new(env, params)));

const PERIOD_MIN: Time = Time::from_ns(100);

struct LocalFlow {
    seed: u64,
    period: Time,
    slack: f64,
    /// By flow: its place among the flows of its class, which another flow may have taken since.
    places: SwitchFlows<u32>,
    classes: Vec<Class>,
    /// Sums of [`Class::load`] over all classes.
    loads: Vec<(LinkIx, u64)>,
    packer: Packer,
}

/// The flows for one destination class.
#[derive(Clone, Default)]
struct Class {
    /// Time of the last packing, or of the first packet.
    since: Option<Time>,
    flows: Vec<Flow>,
    /// Places in `flows` of flows without packets in a whole period.
    free: Vec<u32>,
    pieces: Vec<Piece>,
    /// Bytes per second, rounded, that the last packing assigned to each next hop.
    load: Vec<(LinkIx, u64)>,
}

#[derive(Clone, Copy)]
struct Flow {
    hash: u64,
    is_used: bool,
    /// Bytes since the last packing.
    bytes: u64,
    /// Its pieces in `pieces` of the class; none before its first packing.
    first: u32,
    count: u32,
}

/// A part of a flow: packets up to a share of them take a link.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    up_to: f64,
    link: LinkIx,
}

impl LocalFlow {
    fn new(env: &SwitchEnv<'_>, params: &Params) -> LocalFlow {
        LocalFlow {
            seed: env.hash_seed(),
            period: params.scaled("period", &env.scale).max(PERIOD_MIN),
            slack: params.number("slack"),
            places: SwitchFlows::new(),
            classes: vec![Class::default(); env.class_count],
            loads: Vec::new(),
            packer: Packer::default(),
        }
    }

    /// Packs the flows of a class that sent packets since the last packing.
    fn pack(&mut self, now: Time, class: usize, links: &[LinkIx]) {
        let mut this = std::mem::take(&mut self.classes[class]);
        let seconds = now.saturating_sub(this.since.replace(now).unwrap_or(now)).as_s_f64();
        let packer = &mut self.packer;
        packer.order.clear();
        for (place, flow) in (0u32..).zip(&mut this.flows) {
            if flow.bytes > 0 {
                packer.order.push(place);
            } else if std::mem::replace(&mut flow.is_used, false) {
                this.free.push(place);
            }
        }
        packer.order.sort_unstable_by_key(|place| {
            let flow = this.flows[*place as usize];
            (Reverse(flow.bytes), flow.hash)
        });
        packer.rates.clear();
        packer.rates.extend(packer.order.iter().map(|place| this.flows[*place as usize].bytes as f64 / seconds));
        packer.pack(links.len(), self.slack);
        // The fullest bin goes to the link with the least load of other classes.
        for (link, load) in this.load.drain(..) {
            *sum_of(&mut self.loads, link) -= load;
        }
        packer.by_load.clear();
        packer.by_load.extend(links.iter().map(|link| (*sum_of(&mut self.loads, *link), *link)));
        packer.by_load.sort_by_key(|(load, _)| *load);
        packer.link_of.resize(links.len(), links[0]);
        for (bin, (_, link)) in packer.by_fill.iter().zip(&packer.by_load) {
            // Whole numbers, so that sums have no rounding errors.
            let load = packer.filled[*bin] as u64;
            *sum_of(&mut self.loads, *link) += load;
            this.load.push((*link, load));
            packer.link_of[*bin] = *link;
        }
        this.pieces.clear();
        let mut parts = packer.parts.iter().peekable();
        for (number, (place, rate)) in packer.order.iter().zip(&packer.rates).enumerate() {
            let flow = &mut this.flows[*place as usize];
            (flow.bytes, flow.first) = (0, this.pieces.len() as u32);
            let mut sum = 0.0;
            while let Some(part) = parts.next_if(|part| part.flow == number) {
                sum += part.rate;
                this.pieces.push(Piece { up_to: sum / rate, link: packer.link_of[part.bin] });
            }
            flow.count = this.pieces.len() as u32 - flow.first;
        }
        self.classes[class] = this;
    }
}

impl Class {
    /// Returns a place for a new flow.
    fn place_for(&mut self, hash: u64) -> u32 {
        let flow = Flow { hash, is_used: true, bytes: 0, first: 0, count: 0 };
        if let Some(place) = self.free.pop() {
            self.flows[place as usize] = flow;
            return place;
        }
        self.flows.push(flow);
        self.flows.len() as u32 - 1
    }
}

impl SwitchBalancer for LocalFlow {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let ix = packet.to.0 as usize;
        let since = *self.classes[ix].since.get_or_insert(cx.now);
        if cx.now.saturating_sub(since) >= self.period {
            self.pack(cx.now, ix, members.links);
        }
        let class = &mut self.classes[ix];
        let place = self.places.of(packet);
        let is_at = |flow: &Flow| flow.is_used && flow.hash == packet.hash;
        if !class.flows.get(*place as usize).is_some_and(is_at) {
            *place = class.place_for(packet.hash);
        }
        let flow = &mut class.flows[*place as usize];
        flow.bytes += u64::from(packet.bytes);
        let pieces = &class.pieces[flow.first as usize..][..flow.count as usize];
        let link = piece(pieces, packet.seq).map(|piece| piece.link);
        let member = link.and_then(|link| members.links.iter().position(|member| *member == link));
        member.unwrap_or_else(|| reduce(mix(packet.hash ^ self.seed), members.links.len()))
    }
}

/// Returns the sum of a link, which is 0 at first.
fn sum_of(sums: &mut Vec<(LinkIx, u64)>, link: LinkIx) -> &mut u64 {
    let at = sums.iter().position(|(known, _)| *known == link).unwrap_or_else(|| {
        sums.push((link, 0));
        sums.len() - 1
    });
    &mut sums[at].1
}

/// Returns the piece of a packet; `None` without pieces.
fn piece(pieces: &[Piece], seq: u32) -> Option<&Piece> {
    if pieces.len() < 2 {
        return pieces.first();
    }
    // 2^32 / golden ratio: the multiples of it are spread evenly over the 32-bit numbers.
    let share = f64::from(seq.wrapping_mul(0x9e37_79b9)) / 4_294_967_296.0;
    pieces.iter().find(|piece| share < piece.up_to).or(pieces.last())
}

/// Working memory of packings, which a switch uses again for each of its classes.
#[derive(Default)]
struct Packer {
    /// Places of the flows, the largest flow first, and their rates.
    order: Vec<u32>,
    rates: Vec<f64>,
    /// Parts of flows in bins, by flow.
    parts: Vec<Part>,
    /// Sum of the rates in each bin, bytes per second.
    filled: Vec<f64>,
    /// Numbers of the bins, the fullest first; equal ones in their order.
    by_fill: Vec<usize>,
    /// Link that each bin takes.
    link_of: Vec<LinkIx>,
    /// Links with their loads, the least first.
    by_load: Vec<(u64, LinkIx)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    flow: usize,
    bin: usize,
    rate: f64,
}

impl Packer {
    /// Divides the flows among `bins` bins.
    fn pack(&mut self, bins: usize, slack: f64) {
        let Packer { rates, parts, filled, by_fill, .. } = self;
        let size = rates.iter().sum::<f64>() / bins as f64;
        parts.clear();
        filled.clear();
        filled.resize(bins, 0.0);
        for (flow, rate) in rates.iter().enumerate() {
            let mut rest = *rate;
            loop {
                // Rounding must not split a flow that fits exactly.
                let fits = |fill: f64| fill + rest <= size * (1.0 + slack + 1e-9);
                let fuller = |a: usize, b: usize| if filled[b] > filled[a] { b } else { a };
                if let Some(bin) = (0..bins).filter(|bin| fits(filled[*bin])).reduce(fuller) {
                    parts.push(Part { flow, bin, rate: rest });
                    filled[bin] += rest;
                    break;
                }
                let emptier = |a: usize, b: usize| if filled[b] < filled[a] { b } else { a };
                let bin = (0..bins).reduce(emptier).expect("there are next hops");
                let part = size - filled[bin];
                parts.push(Part { flow, bin, rate: part });
                filled[bin] = size;
                rest -= part;
            }
        }
        by_fill.clear();
        by_fill.extend(0..bins);
        by_fill.sort_by(|a, b| filled[*b].total_cmp(&filled[*a]));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    const SPEC: &str = "localflow:period=100us,slack=0";

    fn packed(rates: &[f64], bins: usize, slack: f64) -> Packer {
        let mut packer = Packer { rates: rates.to_vec(), ..Packer::default() };
        packer.pack(bins, slack);
        packer
    }

    #[test]
    fn packings_by_hand() {
        let parts = |rates: &[f64], slack| -> Vec<(usize, usize, f64)> {
            packed(rates, 2, slack).parts.iter().map(|part| (part.flow, part.bin, part.rate)).collect()
        };
        // Bins of 5. The flow of 2 fits into none: 1 and 1.
        assert_eq!(parts(&[4.0, 4.0, 2.0], 0.0), [(0, 0, 4.0), (1, 1, 4.0), (2, 0, 1.0), (2, 1, 1.0)]);
        assert_eq!(parts(&[4.0, 4.0, 2.0], 0.2), [(0, 0, 4.0), (1, 1, 4.0), (2, 0, 2.0)]);
        assert_eq!(parts(&[6.0, 2.0, 2.0], 0.0), [(0, 0, 5.0), (0, 1, 1.0), (1, 1, 2.0), (2, 1, 2.0)]);
        assert_eq!(parts(&[6.0, 2.0, 2.0], 0.2), [(0, 0, 6.0), (1, 1, 2.0), (2, 1, 2.0)]);
    }

    proptest! {
        #[test]
        fn bins_are_equal_up_to_the_slack_and_few_flows_are_split(
            mut rates in prop::collection::vec(1.0f64..1e9, 1..60), bins in 2usize..20, slack in 0.0f64..0.5,
        ) {
            rates.sort_by(|a, b| b.total_cmp(a));
            let packer = packed(&rates, bins, slack);
            let size = rates.iter().sum::<f64>() / bins as f64;
            for (flow, rate) in rates.iter().enumerate() {
                let sum: f64 = packer.parts.iter().filter(|part| part.flow == flow).map(|part| part.rate).sum();
                prop_assert!((sum - rate).abs() < 1e-6 * rate, "flow {flow}: {sum} of {rate}");
            }
            for fill in &packer.filled {
                prop_assert!(*fill <= size * (1.0 + slack + 1e-6), "{fill} of {size}");
            }
            // Every additional part fills a bin, and not the last one.
            prop_assert!(packer.parts.len() < rates.len() + bins);
            prop_assert!(packer.parts.iter().all(|part| part.rate > -1e-6 * size));
        }
    }

    /// Sends packets of flows in turn, for two packings and a period more; returns how many packets of each
    /// flow take each of two ports in the last period.
    fn shares(spec: &str, packets: &[(u32, u32)]) -> Vec<[u32; 2]> {
        let mut bench = Bench::switch(spec, 2);
        let mut hits = vec![[0; 2]; packets.len()];
        for period in 0..3 {
            hits.fill([0; 2]);
            bench.now = Time::from_us(100 * period);
            for (hits, (flow, count)) in hits.iter_mut().zip(packets) {
                for seq in 0..*count {
                    hits[bench.choose(&PacketView { seq, ..packet(*flow) })] += 1;
                }
            }
        }
        hits
    }

    #[test]
    fn flows_of_equal_rate_are_divided_evenly_and_stay_whole() {
        let flows: Vec<(u32, u32)> = (0..10).map(|flow| (flow, 8)).collect();
        let hits = shares(SPEC, &flows);
        assert!(hits.iter().all(|hits| hits.contains(&8)), "{hits:?}");
        assert_eq!(hits.iter().filter(|hits| hits[0] == 8).count(), 5);
    }

    #[test]
    fn a_single_flow_is_split_evenly_and_its_packets_alternate() {
        let hits = shares(SPEC, &[(1, 1000)]);
        assert!(hits[0].iter().all(|hits| (495..=505).contains(hits)), "{hits:?}");
        let whole = shares("localflow:period=100us,slack=1", &[(1, 1000)]);
        assert!(whole[0].contains(&1000), "{whole:?}");
    }

    #[test]
    fn a_split_flow_has_parts_of_the_remaining_room() {
        // Bins of 50: 40 + 10 and 40 + 10; the flow of 20 packets is divided evenly.
        let hits = shares(SPEC, &[(1, 400), (2, 400), (3, 200)]);
        assert!(hits[0].contains(&400) && hits[1].contains(&400) && hits[0] != hits[1], "{hits:?}");
        assert!(hits[2].iter().all(|hits| (97..=103).contains(hits)), "{hits:?}");
    }

    #[test]
    fn a_flow_is_hashed_until_it_is_packed_and_while_its_port_is_gone() {
        let mut bench = Bench::switch(SPEC, 4);
        let hashed: Vec<usize> = (0..100).map(|flow| bench.choose(&packet(flow))).collect();
        assert_eq!((0..100).map(|flow| bench.choose(&packet(flow))).collect::<Vec<_>>(), hashed);
        for port in 0..4 {
            let hits = hashed.iter().filter(|at| **at == port).count();
            assert!((12..40).contains(&hits), "{hits}");
        }
        bench.now = Time::from_us(100);
        let packed: Vec<usize> = (0..100).map(|flow| bench.choose(&packet(flow))).collect();
        assert!((0..4).all(|port| packed.iter().filter(|at| **at == port).count() == 25), "{packed:?}");
        bench.remove(3);
        for (flow, port) in packed.iter().enumerate().filter(|(_, port)| **port < 3) {
            assert_eq!(bench.choose(&packet(flow as u32)), *port);
        }
        bench.now = Time::from_us(200);
        (0..99).for_each(|flow| _ = bench.choose(&packet(flow)));
        bench.now = Time::from_us(300);
        let hits: [u32; 3] = bench.port_hits((0..99).map(packet));
        assert_eq!(hits, [33; 3]);
    }

    #[test]
    fn the_fullest_bin_takes_the_port_that_other_destinations_load_least() {
        let mut bench = Bench::switch("localflow:period=100us,slack=10", 2);
        let to = |flow: u32, class: u32| PacketView { to: net::routes::ClassIx(class), ..packet(flow) };
        for period in 0..3 {
            bench.now = Time::from_us(100 * period);
            (0..50).for_each(|_| _ = bench.choose(&to(1, 0)));
            (0..20).for_each(|_| _ = bench.choose(&to(2, 1)));
        }
        assert_ne!(bench.choose(&to(1, 0)), bench.choose(&to(2, 1)));
    }
}
