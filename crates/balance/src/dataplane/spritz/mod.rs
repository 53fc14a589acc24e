//! Spritz: senders choose among shortest paths and paths over one intermediate edge, remember those
//! that proved good, and try others now and then (mechanisms-2.md P41; Bonato et al., IPDPS 2026,
//! arXiv 2602.19567, and the authors' public simulator).
//!
//! Low-diameter networks have few shortest paths but many over one intermediate. A path has the
//! name of its intermediate here; the direct path has that of the destination. All flows of a pair
//! of hosts share a cache of good paths and a set of bad ones. After every `explore` + 1 packets on
//! cached paths, and with an empty cache, a packet takes a random path that is not bad. The weight
//! of a path is the longest delay of the pair over its delay, so that short paths are drawn more
//! often.
//!
//! - Scout: other packets take the first path of the cache. An unmarked acknowledgement adds its
//!   path. A NACK or a loss removes it. A mark of a cached path counts; more than `ecn_limit` marks
//!   remove the path of the last one.
//! - Spray: other packets take the first path out of the cache; an unmarked acknowledgement appends
//!   it again, several times if it arrives several times. A path that is marked or loses packets is
//!   thus not used again until it is drawn.
//! - Both: a timeout makes the path of the lowest unacknowledged packet bad.
//!
//! As in that simulator, each flow counts the packets since it explored, and the marks of all
//! cached paths together; nothing but a removal resets the marks. A flow that starts finds an empty
//! cache if the pair has had no acknowledgement for `expiry`. The check is made only then: a window
//! of one packet would empty the cache each round trip.
//!
//! Readings where the source is silent. An intermediate is an edge; shortest paths lead to it and
//! from it. Of several equal ones, a hash of the two hosts chooses, so that a name means one path
//! for all flows of the pair. An intermediate on the only shortest path is left out: it would name
//! the direct path again. The delay is the sum of the propagation delays, on the fastest of several
//! shortest paths. A fast retransmission is a NACK for switches that do not trim. A timeout
//! concerns one packet here; the published senders time each packet. The cache holds eight paths;
//! the test in the code admits a ninth.
//!
//! Departures from the code. It keeps a bad path out of its draws for good; here the path returns
//! after `bad_for`, which is our choice. With a timeout a path leaves the cache of Spray too. The
//! code of Scout ignores a timeout on a path that is not cached; here that path is bad as well,
//! since it would be drawn again. A full cache takes no further path, but with `order=latency` the
//! longest leaves for a shorter one. The bias of flows below 512 KiB to shortest paths, off by
//! default there, is left out.
//!
//! Pitfalls: without trimming, congestion causes timeouts too and makes paths bad. With go-back-N a
//! NACK means reordering, not congestion. A window below `explore` + 2 packets seldom explores, but
//! the first window always does. As published (`order=arrival`), Scout keeps the first path that
//! was acknowledged, even if it is long, until it is marked; with `order=latency` an idle network
//! carries all but one of `explore` + 2 packets on shortest paths. Spray tends to the weights of
//! the draw. The table of a destination has four bytes per edge, which all-to-all traffic
//! multiplies.
//!
//! - Helps: in dragonflies and slim flies under uneven traffic or failures that show at the sender,
//!   also where the full link is not one of the own switch.
//! - Hurts: flows of one window, which draw every path at random; transports that take no packets
//!   out of order; drops without trimming.

mod path_table;

use std::collections::{BTreeMap, VecDeque};

use net::routes::ClassIx;
use net::{HostIx, Time};

use self::path_table::PathTable;
use crate::dataplane::common::{FlowTable, SentPackets, remembered};
use crate::dataplane::{Cx, EdgeBalancer, EdgeEnv, EdgeHooks, Loss, PacketView, PathFeedback, PathLoss, Paths};
use crate::entry::{Entry, Granularity};
use crate::hash::{combine, mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("spritz", "Spritz")
    .summary("Senders reuse paths, also over intermediate edges, that came back unmarked, and explore now and then.")
    .source("P41; Spritz, IPDPS 2026, arXiv 2602.19567")
    .granularity(Granularity::Packet)
    .senses("ECN echoes, NACKs and losses per path, timeouts")
    .params(&[
        Param::choice("variant", &["scout", "spray"], "scout")
            .doc("Use of the cache: stay on its first path, or take paths out until they prove good again."),
        Param::count("explore", 0..=1_000_000, "10")
            .unit("packets")
            .doc("A packet explores after one more than this on cached paths; 0: only with an empty cache."),
        Param::count("ecn_limit", 0..=1_000_000, "8")
            .unit("marks")
            .doc("Marks of a flow on cached paths above which Scout removes the path."),
        Param::count("cache", 1..=64, "8").unit("paths").doc("Number of good paths that a pair of hosts keeps."),
        Param::choice("order", &["arrival", "latency"], "arrival")
            .doc("Order of the cache of Scout: as acknowledged (published default), or paths of short delay first."),
        Param::number("scale", 0.0..=1000.0, "1")
            .doc("Factor of the weights of all but the longest paths; 0: all weights are equal."),
        Param::scaled("expiry", "1rtt")
            .doc("Time without acknowledgements after which a flow that starts empties the cache of its pair."),
        Param::scaled("bad_for", "10rtt").doc("Time after which a bad path may be drawn again (not published)."),
    ])
    .example("spritz:variant=spray")
    .edge(|env, params| Box::new(Spritz::new(env, params)));

struct Spritz {
    is_scout: bool,
    sorts: bool,
    explore: u32,
    ecn_limit: u32,
    cache_max: usize,
    expiry: Time,
    bad_for: Time,
    seed: u64,
    own: ClassIx,
    table: PathTable,
    /// Numbers of pairs of hosts, which are positions in `pairs`.
    numbers: BTreeMap<(HostIx, HostIx), u32>,
    pairs: Vec<Pair>,
    flows: FlowTable<Flow>,
    /// Number of packets of a flow whose paths are remembered.
    sent_max: usize,
}

/// State of a pair of hosts.
struct Pair {
    /// Good paths, the next one first.
    cache: VecDeque<ClassIx>,
    /// Bad paths, and when each may be drawn again.
    bad: Vec<(ClassIx, Time)>,
    /// Time of the latest acknowledgement or NACK.
    latest: Time,
}

impl Pair {
    /// Removes a path from the cache; returns whether it was there.
    fn remove(&mut self, via: ClassIx) -> bool {
        let before = self.cache.len();
        self.cache.retain(|cached| *cached != via);
        self.cache.len() < before
    }
}

#[derive(Clone, Default)]
struct Flow {
    /// Hash of the flow, 0 for none; flow numbers are used again.
    hash: u64,
    /// Number of its pair of hosts.
    pair: u32,
    /// Packets on cached paths since the last exploration.
    since: u32,
    /// Marks of cached paths since the last removal.
    marks: u32,
    /// The path by which each of the latest packets was sent, by packet number.
    sent: SentPackets<ClassIx>,
}

impl Spritz {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Spritz {
        let scaled = |name| params.scaled(name, &env.scale);
        Spritz {
            is_scout: params.text("variant") == "scout",
            sorts: params.text("order") == "latency",
            explore: params.count("explore") as u32,
            ecn_limit: params.count("ecn_limit") as u32,
            cache_max: params.count("cache") as usize,
            expiry: scaled("expiry"),
            bad_for: scaled("bad_for"),
            seed: mix(env.seed),
            own: env.class,
            table: PathTable::new(env, params.number("scale")),
            numbers: BTreeMap::new(),
            pairs: Vec::new(),
            flows: FlowTable::new(),
            // Queues make a window longer than the empty network does.
            sent_max: remembered(env),
        }
    }

    /// Begins a flow: finds the state of its pair of hosts.
    fn begin(&mut self, now: Time, packet: &PacketView, hash: u64) {
        let next = self.pairs.len() as u32;
        let number = *self.numbers.entry((packet.src, packet.dst)).or_insert(next);
        if number == next {
            let cache = VecDeque::with_capacity(self.cache_max);
            self.pairs.push(Pair { cache, bad: Vec::new(), latest: now });
        }
        let pair = &mut self.pairs[number as usize];
        if now > pair.latest.saturating_add(self.expiry) {
            pair.cache.clear();
        }
        let flow = self.flows.slot(packet.flow);
        (flow.hash, flow.pair, flow.since, flow.marks) = (hash, number, 0, 0);
        flow.sent.begin(self.sent_max, packet.to);
    }

    /// Returns the path of the next packet of a flow that has begun.
    fn pick(&mut self, cx: &mut Cx<'_>, packet: &PacketView) -> ClassIx {
        let flow = self.flows.slot(packet.flow);
        let pair = &mut self.pairs[flow.pair as usize];
        let explores = self.explore > 0 && flow.since > self.explore;
        let cached = match self.is_scout {
            _ if explores => None,
            true => pair.cache.front().copied(),
            false => pair.cache.pop_front(),
        };
        let via = cached.unwrap_or_else(|| {
            let is_bad = |via| pair.bad.iter().any(|(bad, until)| *bad == via && cx.now < *until);
            self.table.draw(cx.rng, packet.to, is_bad)
        });
        flow.since = if explores { 0 } else { flow.since.saturating_add(u32::from(cached.is_some())) };
        flow.sent.note(packet.seq, via);
        via
    }

    /// Adds a path to a class that proved good to the cache of a pair.
    fn keep(&mut self, number: usize, via: ClassIx, to: ClassIx) {
        let cache = &mut self.pairs[number].cache;
        if self.is_scout && cache.contains(&via) {
            return;
        }
        let is_full = cache.len() >= self.cache_max;
        let delay = self.table.delay_ps(via, to);
        let is_longer = |cached: &ClassIx| self.table.delay_ps(*cached, to) > delay;
        match cache.iter().position(is_longer).filter(|_| self.is_scout && self.sorts) {
            Some(place) => {
                if is_full {
                    cache.pop_back();
                }
                cache.insert(place, via);
            }
            None if is_full => {}
            None => cache.push_back(via),
        }
    }
}

impl EdgeBalancer for Spritz {
    fn choose_path(&mut self, _: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let live = paths.live;
        if !packet.is_data {
            return paths.current_or_hashed(packet);
        }
        // Both halves of a detour and direct paths: each edge hashes the hosts independently.
        let hosts = u64::from(packet.src.0) << 32 | u64::from(packet.dst.0);
        let ends = u64::from(self.own.0) << 32 | u64::from(packet.to.0);
        live[reduce(combine(mix(hosts ^ self.seed), ends), live.len())]
    }

    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { detours: true, ..EdgeHooks::default() }
    }

    fn detour(&mut self, cx: &mut Cx<'_>, packet: &PacketView) -> Option<ClassIx> {
        if !packet.is_data || packet.to == self.own || !self.table.is_reachable(packet.to) {
            return None;
        }
        let hash = packet.hash.max(1);
        if self.flows.slot(packet.flow).hash != hash {
            self.begin(cx.now, packet, hash);
        }
        let via = self.pick(cx, packet);
        (via != packet.to).then_some(via)
    }

    fn on_feedback(&mut self, cx: &mut Cx<'_>, feedback: &PathFeedback) {
        let flow = self.flows.slot(feedback.flow);
        if flow.hash == 0 {
            return;
        }
        let pair = &mut self.pairs[flow.pair as usize];
        pair.latest = cx.now;
        let via = feedback.via.unwrap_or(feedback.to);
        if !feedback.is_nack && !feedback.marked {
            let number = flow.pair as usize;
            self.keep(number, via, feedback.to);
        } else if self.is_scout && pair.cache.contains(&via) {
            flow.marks += 1;
            if feedback.is_nack || flow.marks > self.ecn_limit {
                flow.marks = 0;
                pair.remove(via);
            }
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &PathLoss) {
        let flow = self.flows.slot(loss.flow);
        let Some(via) = flow.sent.get(loss.una) else { return };
        let pair = &mut self.pairs[flow.pair as usize];
        let is_timeout = loss.loss == Loss::Timeout;
        if (self.is_scout || is_timeout) && pair.remove(via) {
            flow.marks = 0;
        }
        if is_timeout {
            pair.bad.retain(|(bad, until)| *bad != via && cx.now < *until);
            pair.bad.push((via, cx.now.saturating_add(self.bad_for)));
        }
    }
}

#[cfg(test)]
mod tests;
