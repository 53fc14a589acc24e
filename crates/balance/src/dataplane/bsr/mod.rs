//! BCube source routing: the source probes parallel paths and sends each flow along the one with
//! the most available bandwidth (Guo et al.: BCube, SIGCOMM 2009, section 4; F0 section 2.3).
//!
//! In a BCube the servers forward, and the source writes the whole path into the packet. Two
//! servers of a BCube(n, k) have k + 1 paths that share no node. Those that first change a digit in
//! which the addresses differ are shortest; the others lead over a neighbour of the source and are
//! two hops of servers longer.
//!
//! A flow begins on a default path while the source probes all paths of the set. Every link stamps
//! its utilisation into the probe, the destination replies, and the flow moves if a path has more
//! available bandwidth than its own. The source probes again every `interval`, which varies by a
//! half, so that sources do not move in step. A path whose probe gets no reply has failed.
//!
//! Readings: flows of a pair that begin while probes are out share their result. The default path
//! is a hash of the flow; the paper names none. The available bandwidth is that of the busiest
//! link, as a share of its rate; a BCube has equal links. A reply takes the path with the same
//! number in the opposite set. Acknowledgements take hashed shortest paths.
//!
//! In networks whose servers do not forward, the set has the shortest paths that share no node,
//! such as one for each spine of a leaf-spine network.
//!
//! - Helps: few long flows in networks of forwarding servers: a pair gets up to k + 1 times the
//!   bandwidth of one link, and failed paths are left.
//! - Hurts: short flows, which end before the replies arrive, and many pairs that begin at once,
//!   whose probes all find the same paths empty. Longer paths take bandwidth from other pairs.

mod routes;

use std::sync::Arc;

use net::Time;
use net::routes::ClassIx;

use self::routes::{Route, RouteSets};
use crate::dataplane::common::{ALPHA, FlowTable, T_DRE, is_live, sensing};
use crate::dataplane::{Control, ControlArrival, Cx, EdgeBalancer, EdgeEnv, EdgeHooks, Needs, PacketView, Paths};
use crate::entry::{Entry, Granularity};
use crate::hash::{mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("bsr", "BCube source routing")
    .summary("Probes parallel paths and sends each flow along the one with the most available bandwidth.")
    .source("BCube, SIGCOMM 2009, section 4; F0")
    .granularity(Granularity::MovableFlow)
    .senses("utilisation of links, by probes of each path")
    .params(&[
        Param::count("paths", 1..=8, "8").unit("paths").doc("Maximum number of paths of a pair; a BCube has k + 1."),
        Param::scaled("interval", "125000rtt")
            .doc("Mean time between two path selections of a flow; published: 10s, here at a base RTT of 80 us."),
        Param::scaled("timeout", "25rtt")
            .doc("A path without a reply within this time has failed; 2ms at a base RTT of 80 us (not published)."),
        Param::count("probe_bytes", 64..=1500, "64").unit("bytes").doc("Size of a probe and of its reply."),
        T_DRE,
        ALPHA,
    ])
    .example("bsr:interval=10ms")
    .needs(|scale, params| Needs { sensing: Some(sensing(scale, params, UTILISATION_BITS)), ..Needs::default() })
    .edge(|env, params| Box::new(Bsr::new(env, params)));

const UTILISATION_BITS: u8 = 8;
const ROUTES_MAX: usize = 8;

/// The state of a flow at its source.
#[derive(Clone, Copy, Default)]
struct FlowRoute {
    /// Tells the flow from an earlier one with its number.
    hash: u64,
    /// Position of its route in the set.
    route: u8,
    /// Number of the probing that it waits for; 0 for none.
    awaited: u32,
    next_selection: Time,
}

/// The latest probing of a destination.
#[derive(Clone, Copy, Default)]
struct Probing {
    /// Counts the probings of the destination, from 1.
    number: u32,
    is_out: bool,
    deadline: Time,
    /// Utilisation by route; `None` without a reply.
    replies: [Option<u8>; ROUTES_MAX],
}

struct Bsr {
    own: ClassIx,
    sets: Arc<RouteSets>,
    has_detours: bool,
    interval: Time,
    timeout: Time,
    probe_bytes: u16,
    flows: FlowTable<FlowRoute>,
    probings: Vec<Probing>,
}

impl Bsr {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Bsr {
        let routes_max = params.count("paths") as usize;
        let sets = env.shared.get_or_make(|| RouteSets::new(env, routes_max));
        Bsr {
            own: env.class,
            has_detours: sets.have_detours(),
            sets,
            interval: params.scaled("interval", &env.scale),
            timeout: params.scaled("timeout", &env.scale),
            probe_bytes: params.count("probe_bytes") as u16,
            flows: FlowTable::new(),
            probings: vec![Probing::default(); env.path_counts.len()],
        }
    }

    /// Returns the route of a packet that begins here, and probes if its flow is due.
    fn select(&mut self, cx: &mut Cx<'_>, packet: &PacketView) -> Option<Route> {
        let to = self.sets.class_of(packet.dst);
        let count = self.sets.between(self.own, to).len();
        if count < 2 {
            return self.sets.between(self.own, to).first().copied();
        }
        let flow = self.flows.slot(packet.flow);
        if flow.hash != packet.hash || flow.next_selection == Time::ZERO {
            let route = reduce(mix(packet.hash), count) as u8;
            *flow = FlowRoute { hash: packet.hash, route, ..FlowRoute::default() };
        }
        let mut flow = *flow;
        if cx.now >= flow.next_selection {
            flow.next_selection = cx.now.saturating_add(self.random_interval(cx));
            flow.awaited = self.probe(cx, to);
        }
        let probing = &mut self.probings[to.0 as usize];
        probing.is_out &= cx.now < probing.deadline;
        if flow.awaited != 0 && (!probing.is_out || probing.number != flow.awaited) {
            flow.awaited = 0;
            flow.route = best_route(&probing.replies[..count], flow.route);
        }
        *self.flows.slot(packet.flow) = flow;
        Some(self.sets.between(self.own, to)[usize::from(flow.route)])
    }

    /// Returns half of the interval, and a random time of up to one more.
    fn random_interval(&self, cx: &mut Cx<'_>) -> Time {
        let interval = self.interval.as_ps().max(2);
        Time::from_ps(interval / 2 + cx.rng.next_below(interval))
    }

    /// Probes the routes to a destination unless probes are out; returns the number of the probing.
    fn probe(&mut self, cx: &mut Cx<'_>, to: ClassIx) -> u32 {
        let probing = &mut self.probings[to.0 as usize];
        if probing.is_out && cx.now < probing.deadline {
            return probing.number;
        }
        let number = probing.number % Word::NUMBERS + 1;
        let deadline = cx.now.saturating_add(self.timeout);
        *probing = Probing { number, is_out: true, deadline, replies: [None; ROUTES_MAX] };
        for (at, route) in (0u8..).zip(self.sets.between(self.own, to)) {
            let (next, kind, class) = match route.via {
                Some(via) => (via, Kind::ToIntermediate, to),
                None => (to, Kind::ToDestination, self.own),
            };
            let word = Word { kind, route: at, number, class };
            cx.send(self.control(next, route.first, word, 0));
        }
        number
    }

    fn control(&self, to: ClassIx, path: u16, word: Word, utilisation: u8) -> Control {
        let tag = u32::from(utilisation);
        Control { to, path, bytes: self.probe_bytes, is_ecn_capable: false, word: word.pack(), tag }
    }

    /// Returns the path that a source's route takes from here, its intermediate edge.
    fn second_path(&self, packet: &PacketView) -> Option<u16> {
        let ends = [packet.src, packet.dst].map(|host| self.sets.class_of(host));
        let routes = self.sets.between(ends[0], ends[1]);
        routes.iter().find(|route| route.via == Some(self.own)).map(|route| route.second)
    }

    fn take_reply(&mut self, from: ClassIx, word: Word, utilisation: u8) {
        let count = self.sets.between(self.own, from).len();
        let probing = &mut self.probings[from.0 as usize];
        if probing.is_out && probing.number == word.number && usize::from(word.route) < count {
            probing.replies[usize::from(word.route)] = Some(utilisation);
            probing.is_out = probing.replies[..count].contains(&None);
        }
    }
}

/// Returns the least utilised route that replied: `own` if it is among them, else the first.
fn best_route(replies: &[Option<u8>], own: u8) -> u8 {
    let Some(least) = replies.iter().flatten().min() else { return own };
    let is_best = |route: &u8| replies[usize::from(*route)] == Some(*least);
    if is_best(&own) { own } else { (0..replies.len() as u8).find(is_best).unwrap_or(own) }
}

impl EdgeBalancer for Bsr {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let hashed = paths.hashed(packet);
        if !packet.is_data {
            return hashed;
        }
        let path = if self.sets.class_of(packet.src) == self.own {
            let to = self.sets.class_of(packet.dst);
            // With detours, the route was selected in `detour`.
            let route = if self.has_detours { self.current(packet, to) } else { self.select(cx, packet) };
            route.filter(|route| route.via.unwrap_or(to) == packet.to).map(|route| route.first)
        } else {
            self.second_path(packet)
        };
        path.filter(|path| is_live(paths.live, *path)).unwrap_or(hashed)
    }

    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { detours: self.has_detours, ..EdgeHooks::default() }
    }

    fn detour(&mut self, cx: &mut Cx<'_>, packet: &PacketView) -> Option<ClassIx> {
        let is_source = packet.is_data && self.sets.class_of(packet.src) == self.own;
        if is_source { self.select(cx, packet)?.via } else { None }
    }

    fn on_control(&mut self, cx: &mut Cx<'_>, control: &ControlArrival) {
        let Some(word) = Word::unpack(control.word).filter(|word| (word.class.0 as usize) < self.probings.len()) else {
            return;
        };
        let utilisation = control.utilisation.max(control.tag as u8);
        let route = |from, to| self.sets.between(from, to).get(usize::from(word.route)).copied();
        match word.kind {
            Kind::ToIntermediate => {
                if let Some(route) = route(control.from, word.class) {
                    let onward = Word { kind: Kind::ToDestination, class: control.from, ..word };
                    cx.send(self.control(word.class, route.second, onward, utilisation));
                }
            }
            Kind::ToDestination => {
                let back = route(self.own, word.class).filter(|route| route.via.is_none());
                let reply = Word { kind: Kind::Reply, class: self.own, ..word };
                cx.send(self.control(word.class, back.map_or(0, |route| route.first), reply, utilisation));
            }
            Kind::Reply => self.take_reply(word.class, word, control.tag as u8),
        }
    }
}

impl Bsr {
    fn current(&mut self, packet: &PacketView, to: ClassIx) -> Option<Route> {
        let at = self.flows.slot(packet.flow).route;
        self.sets.between(self.own, to).get(usize::from(at)).copied()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A probe on its way to an intermediate edge; the class is the destination.
    ToIntermediate,
    /// A probe on its way to the destination; the class is the source.
    ToDestination,
    /// A reply; the class is the destination of the probe.
    Reply,
}

/// The payload of a control packet: kind 2 bits, route 4, number 10, class 16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word {
    kind: Kind,
    route: u8,
    /// Number of the probing, 1 to [`Word::NUMBERS`].
    number: u32,
    class: ClassIx,
}

impl Word {
    /// Numbers of probings are 1 to this.
    const NUMBERS: u32 = (1 << 10) - 1;

    fn pack(self) -> u32 {
        (self.kind as u32) << 30 | u32::from(self.route) << 26 | self.number << 16 | self.class.0
    }

    fn unpack(word: u32) -> Option<Word> {
        let kind = [Kind::ToIntermediate, Kind::ToDestination, Kind::Reply].get((word >> 30) as usize).copied()?;
        let (route, number) = ((word >> 26 & 0xf) as u8, word >> 16 & Word::NUMBERS);
        Some(Word { kind, route, number, class: ClassIx(word & 0xffff) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::{self, BASE_RTT, Bench, control_arrival};

    /// Makes a data packet of a flow from class 0 to class 1, whose first host has number 4.
    fn packet(flow: u32) -> PacketView {
        PacketView { dst: net::HostIx(4), ..testing::packet(flow) }
    }

    /// Replies to the probes of the bench with a utilisation by route; `None` for a lost probe.
    fn reply(bench: &mut Bench, utilisations: &[Option<u8>]) {
        for control in std::mem::take(&mut bench.commands.controls) {
            let word = Word::unpack(control.word).unwrap();
            if let Some(utilisation) = utilisations[usize::from(word.route)] {
                let to = if word.kind == Kind::ToIntermediate { word.class } else { control.to };
                let reply = Word { kind: Kind::Reply, class: to, ..word };
                bench.control(&control_arrival(to, 0, reply.pack(), u32::from(utilisation)));
            }
        }
    }

    #[test]
    fn flow_moves_to_path_with_most_available_bandwidth() {
        let mut bench = Bench::edge("bsr", 4);
        let first = bench.choose_path(&packet(1), None);
        assert_eq!(bench.commands.controls.len(), 4);
        let best = (first + 1) % 4;
        let utilisations: Vec<_> = (0..4).map(|path| Some(if path == best { 10 } else { 200 })).collect();
        reply(&mut bench, &utilisations);
        assert_eq!(bench.choose_path(&packet(1), Some(first)), best);
        assert!(bench.commands.controls.is_empty(), "no probing before the interval has passed");
    }

    #[test]
    fn flow_stays_on_its_path_among_equals() {
        let mut bench = Bench::edge("bsr", 4);
        for flow in 0..20 {
            let first = bench.choose_path(&packet(flow), None);
            reply(&mut bench, &[Some(7); 4]);
            assert_eq!(bench.choose_path(&packet(flow), Some(first)), first);
        }
    }

    #[test]
    fn flow_leaves_path_whose_probe_is_lost() {
        let mut bench = Bench::edge("bsr", 2);
        let first = bench.choose_path(&packet(1), None);
        let replies: Vec<_> = (0..2).map(|path| (path != first).then_some(255)).collect();
        reply(&mut bench, &replies);
        assert_eq!(bench.choose_path(&packet(1), Some(first)), first, "the reply may still come");
        bench.wait(Time::from_ps(25 * BASE_RTT.as_ps()));
        assert_eq!(bench.choose_path(&packet(1), Some(first)), 1 - first);
    }

    #[test]
    fn flow_probes_again_after_interval() {
        let mut bench = Bench::edge("bsr:interval=10ms", 2);
        let first = bench.choose_path(&packet(1), None);
        reply(&mut bench, &[Some(0); 2]);
        bench.wait(Time::from_us(4_900));
        bench.choose_path(&packet(1), Some(first));
        assert!(bench.commands.controls.is_empty());
        bench.wait(Time::from_us(10_200));
        bench.choose_path(&packet(1), Some(first));
        assert_eq!(bench.commands.controls.len(), 2);
    }

    /// In BCube(4, 1) servers 0 and 1 share a switch of level 0; the second path leads over level 1.
    #[test]
    fn flow_takes_detour_over_other_level() {
        let mut bench = Bench::edge_on("bsr", "bcube:n=4,k=1", 0);
        let view = PacketView { dst: net::HostIx(1), ..packet(1) };
        let first = bench.detour(&view);
        let is_via = |via: Option<ClassIx>| via.is_some();
        let utilisations = if is_via(first) { [Some(0), Some(200)] } else { [Some(200), Some(0)] };
        reply(&mut bench, &utilisations);
        let second = bench.detour(&view);
        assert_ne!(is_via(first), is_via(second));
        let via = first.or(second).unwrap();
        assert_eq!(via.0 % 4, 0, "a neighbour on level 1 differs in digit 1 only");
    }

    #[test]
    fn word_survives_packing() {
        for kind in [Kind::ToIntermediate, Kind::ToDestination, Kind::Reply] {
            let word = Word { kind, route: 7, number: Word::NUMBERS, class: ClassIx(65_535) };
            assert_eq!(Word::unpack(word.pack()), Some(word));
        }
        assert_eq!(Word::unpack(u32::MAX), None);
    }
}
