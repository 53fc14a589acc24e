//! CLOVE: virtual switches at the edge spread flowlets over the paths of an ordinary ECMP fabric,
//! using feedback of the far end about each path (mechanisms.md P15; Katta et al., HotNets 2016 and
//! CoNEXT 2017).
//!
//! `signal` chooses the variant:
//! - `flowlet`: every flowlet takes a random path.
//! - `ecn`: every path has a weight, initially 1. The far edge reports "path p saw ECN", at most
//!   once per path and `interval`. A report takes a third of p's weight and distributes it equally
//!   over the paths without a recent report; if all paths have one, nothing changes. Flowlets take
//!   paths by weighted round robin, or weighted random.
//! - `int`: switches stamp the utilisation of the links; the far edge reports the maximum per path;
//!   flowlets take the least utilised path, ties random.
//!
//! Hosts do not receive the marks that balancing reacts to (`ecn` only) unless all paths are
//! congested. The sending edge knows this and sets it in the overlay header; otherwise the
//! receiving edge removes the mark.
//!
//! In the paper a path is an outer source port, found by tracing; here the path set is given.
//! Readings: a path counts as congested for `memory` after a report. This is longer than
//! `interval`, since a path that is always marked is reported at most once an interval and slightly
//! late. Weights change only at reports, so a path could not recover its weight while the others
//! are uncongested: half of the difference of a weight from 1 is forgotten every `recovery`. Both
//! rules keep the sum of the weights, and neither is in the paper. Data and acknowledgements have
//! separate turns.
//!
//! Pitfalls: hosts that depend on marks (DCTCP) lose their signal with `hide_ecn`, which suits the
//! loss-driven hosts of the paper. All paths are seldom congested at the same time, so queues of
//! the others overflow; use `hide_ecn=off` for such hosts. Flowlets need gaps; reports need reverse
//! traffic. An option of public code meant to give weight only to uncongested paths tests the
//! opposite; `shift=uncongested` here does what its name says.
//!
//! - Helps: where only hypervisors can be changed and the fabric does ECMP and marks.
//! - Hurts: with DCTCP hosts under the published default, which hides marks from them: use
//!   `hide_ecn=off`.

use net::Time;
use net::routes::ClassIx;

use crate::dataplane::common::flowlets::{self, FlowletEdge, Signal};
use crate::dataplane::common::{
    ALPHA, KnownLive, PathIndex, PathSets, SmoothWrr, T_DRE, Utilisations, least, pack, power, sensing, unpack,
};
use crate::dataplane::{Arrival, Cx, Delivery, EdgeEnv, Needs, PacketView};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("clove", "CLOVE")
    .summary("Spreads flowlets over paths with weights that fall where the far end saw ECN marks.")
    .source("P15; CLOVE, HotNets 2016 and CoNEXT 2017")
    .granularity(Granularity::Flowlet)
    .senses("ECN marks, or utilisation of links, by feedback between edges")
    .params(&[
        Param::choice("signal", &["flowlet", "ecn", "int"], "ecn")
            .doc("Nothing (random path per flowlet), ECN marks, or utilisation stamped by switches."),
        Param::scaled("gap", "6.25rtt").doc(
            "Idle time that ends a flowlet; public runs: 500us at a base RTT of 80 us. The paper advises 1 to 2 \
             RTTs under load.",
        ),
        Param { default: "exact", ..flowlets::MODE },
        flowlets::ENTRIES,
        Param::scaled("interval", "0.5rtt").doc(
            "Minimum time between two reports of a path, and between two cuts of its weight; published: half an \
             RTT, 40us.",
        ),
        Param::scaled("memory", "1rtt")
            .doc("Time for which a path counts as congested after a report; two reporting intervals."),
        Param::number("decrease", 0.0..=1.0, "0.33")
            .doc("Share of its weight a path loses at a report; published: one third, 0.33 in public code."),
        Param::choice("shift", &["uncongested", "all"], "uncongested")
            .doc("The paths that get the weight taken: those without a recent report, or all others."),
        Param::choice("pick", &["wrr", "random"], "wrr")
            .doc("Selection by weight: smooth weighted round robin, or weighted random."),
        Param::scaled("recovery", "125rtt").doc(
            "Time in which half of the difference of a weight from 1 is forgotten; 10ms at a base RTT of 80 us \
             (not published).",
        ),
        Param::choice("hide_ecn", &["on", "off"], "on")
            .doc("Keep marks from hosts unless all paths are congested; only with signal=ecn."),
        Param::scaled("ageing", "125rtt")
            .doc("Age from which reported utilisation counts as 0; only with signal=int (not published; as CONGA)."),
        T_DRE,
        ALPHA,
    ])
    .example("clove:signal=ecn")
    .needs(|scale, params| match params.text("signal") {
        "int" => Needs { sensing: Some(sensing(scale, params, 8)), ..Needs::default() },
        _ => Needs::default(),
    })
    .edge(|env, params| match params.text("signal") {
        "int" => FlowletEdge::boxed(env, params, Int(Utilisations::new(env, params.scaled("ageing", &env.scale)))),
        "ecn" => FlowletEdge::boxed(env, params, Ecn::new(env, params)),
        _ => FlowletEdge::boxed(env, params, Oblivious),
    });

struct Oblivious;

impl Signal for Oblivious {
    fn pick(&mut self, cx: &mut Cx<'_>, _: &PacketView, live: &[u16], _: Option<u16>) -> u16 {
        live[cx.rng.next_below(live.len() as u64) as usize]
    }
    fn has_overlay(&self) -> bool {
        false
    }
}

/// Flowlet picker by the reported utilisation of each path.
struct Int(Utilisations);

impl Signal for Int {
    fn pick(&mut self, cx: &mut Cx<'_>, packet: &PacketView, live: &[u16], _: Option<u16>) -> u16 {
        let utilisation = self.0.of(cx.now, packet.to);
        least(cx.rng, live.iter().map(|path| (utilisation(*path), *path))).unwrap_or(live[0])
    }

    fn utilisations(&mut self) -> Option<&mut Utilisations> {
        Some(&mut self.0)
    }
}

/// Header bit: all paths to the receiver are congested, so its hosts must receive marks.
const ALL_CONGESTED: u32 = 1;

struct Ecn {
    interval_ps: u64,
    memory_ps: u64,
    recovery_ps: u64,
    decrease: f64,
    spares_congested: bool,
    is_random: bool,
    hides_marks: bool,
    // State of this edge's own paths, by path of `index` unless noted.
    index: PathIndex,
    weights: Vec<f64>,
    /// Number of recovery periods already applied, by class.
    recovered: Vec<u64>,
    /// Time until which a path counts as congested.
    congested_until: Vec<u64>,
    /// Time until which further reports of a path are ignored.
    deaf_until: Vec<u64>,
    /// Time until which all live paths of a class count as congested.
    all_congested_until: Vec<u64>,
    live: KnownLive,
    turns: SmoothWrr,
    // State of the paths of other edges, by path of `inward`.
    inward: PathIndex,
    marked: PathSets,
    /// Time until which a path is not reported again.
    silent_until: Vec<u64>,
    /// Path of each class to check next for a report.
    next: Vec<u16>,
}

impl Ecn {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Ecn {
        let (index, inward) = (PathIndex::outward(env), PathIndex::inward(env));
        let ps = |name| params.scaled(name, &env.scale).as_ps();
        Ecn {
            interval_ps: ps("interval"),
            memory_ps: ps("memory"),
            recovery_ps: ps("recovery").max(1),
            decrease: params.number("decrease"),
            spares_congested: params.text("shift") == "uncongested",
            is_random: params.text("pick") == "random",
            hides_marks: params.text("hide_ecn") == "on",
            weights: vec![1.0; index.total()],
            recovered: vec![0; index.class_count()],
            congested_until: vec![0; index.total()],
            deaf_until: vec![0; index.total()],
            all_congested_until: vec![0; index.class_count()],
            live: KnownLive::new(&index),
            turns: SmoothWrr::new(index.clone(), true),
            marked: PathSets::new(&inward),
            silent_until: vec![0; inward.total()],
            next: vec![0; inward.class_count()],
            index,
            inward,
        }
    }

    /// Moves weights towards 1 for the elapsed time.
    fn recover(&mut self, now: Time, class: ClassIx) {
        let period = now.as_ps() / self.recovery_ps;
        let passed = period - std::mem::replace(&mut self.recovered[class.0 as usize], period);
        if passed > 0 {
            let keep = power(0.5, passed);
            let range = self.index.range(class);
            self.weights[range].iter_mut().for_each(|weight| *weight = 1.0 + (*weight - 1.0) * keep);
        }
    }

    fn reported(&mut self, now: Time, class: ClassIx, path: u16) {
        let Some(at) = self.index.get(class, path) else { return };
        let now_ps = now.as_ps();
        if now_ps < self.deaf_until[at] {
            return;
        }
        self.deaf_until[at] = now_ps.saturating_add(self.interval_ps);
        self.congested_until[at] = now_ps.saturating_add(self.memory_ps);
        self.recover(now, class);
        let base = self.index.range(class).start;
        let live = self.live.of(class, self.index.count(class));
        let Ecn { weights, congested_until, spares_congested, .. } = self;
        let gains =
            |other: u16| other != path && !(*spares_congested && now_ps < congested_until[base + usize::from(other)]);
        let gainers = live.iter().filter(|other| gains(**other)).count();
        if gainers > 0 {
            let taken = weights[at] * self.decrease;
            weights[at] -= taken;
            for other in live.iter().filter(|other| gains(**other)) {
                weights[base + usize::from(*other)] += taken / gainers as f64;
            }
        }
        self.note_all_congested(class);
    }

    fn note_all_congested(&mut self, class: ClassIx) {
        let base = self.index.range(class).start;
        let live = self.live.of(class, self.index.count(class)).iter();
        let until = live.map(|path| self.congested_until[base + usize::from(*path)]).min();
        self.all_congested_until[class.0 as usize] = until.unwrap_or(0);
    }

    /// Returns a path of `to` whose marks are due to be reported.
    fn report(&mut self, now: Time, to: ClassIx) -> Option<u16> {
        let path = self.marked.next(to, self.next[to.0 as usize])?;
        self.marked.remove(to, path);
        self.next[to.0 as usize] = path + 1;
        let at = self.inward.range(to).start + usize::from(path);
        self.silent_until[at] = now.as_ps().saturating_add(self.interval_ps);
        Some(path)
    }
}

impl Signal for Ecn {
    fn pick(&mut self, cx: &mut Cx<'_>, packet: &PacketView, live: &[u16], _: Option<u16>) -> u16 {
        let range = self.index.range(packet.to);
        if self.live.note(packet.to, live, range.len()) {
            self.note_all_congested(packet.to);
        }
        self.recover(cx.now, packet.to);
        let weights = &self.weights[range];
        let weight = |position: usize| weights[usize::from(live[position])];
        if !self.is_random {
            return self.turns.pick(cx, packet, live, weight);
        }
        let total: f64 = (0..live.len()).map(weight).sum();
        let mut point = cx.rng.next_f64() * total;
        for (position, path) in live.iter().enumerate() {
            point -= weight(position);
            if point < 0.0 {
                return *path;
            }
        }
        live[live.len() - 1]
    }

    fn header(&mut self, now: Time, to: ClassIx) -> u32 {
        let are_all_congested = now.as_ps() < self.all_congested_until[to.0 as usize];
        let report = self.report(now, to).map_or(0, |path| pack(path, 0));
        report | if are_all_congested { ALL_CONGESTED } else { 0 }
    }

    fn arrived(&mut self, now: Time, _: &PacketView, arrival: &Arrival) -> Delivery {
        if let Some((path, _)) = unpack(arrival.tag) {
            self.reported(now, arrival.from, path);
        }
        if !arrival.marked {
            return Delivery::Pass;
        }
        if let Some(at) = self.inward.get(arrival.from, arrival.path)
            && now.as_ps() >= self.silent_until[at]
        {
            self.marked.insert(arrival.from, arrival.path);
        }
        let must_be_seen = !self.hides_marks || arrival.tag & ALL_CONGESTED != 0;
        if must_be_seen { Delivery::Pass } else { Delivery::PassUnmarked }
    }
}

#[cfg(test)]
mod tests;
