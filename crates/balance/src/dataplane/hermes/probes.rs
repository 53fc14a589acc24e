//! The probing agent: one per edge, which probes some of the paths to every other edge in turn.

use net::Time;
use net::routes::ClassIx;

use crate::dataplane::common::probe_paths::{longer_ps, ways_back};
use crate::dataplane::common::{KnownLive, PathIndex};
use crate::dataplane::{Control, ControlArrival, Cx, EdgeEnv};
use crate::params::Params;

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) path: u16,
    /// Round trip, plus the additional time of a data packet, picoseconds.
    pub(super) rtt_ps: u64,
    /// Whether the probe was marked on its forward path.
    pub(super) is_marked: bool,
    /// Queueing measured by the far edge, in its steps; 0 unless it measures one-way delays.
    pub(super) queueing: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    is_out: bool,
    path: u16,
    /// Distinguishes it from an earlier probe with the same index.
    round: u16,
    sent_ps: u64,
}

/// Best path to a class: of this interval so far, and of the previous one.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    best: Option<(u64, u16)>,
    before: Option<u16>,
}

pub(super) struct Agent {
    random_paths: usize,
    bytes: u16,
    interval_ps: u64,
    /// Number of paths to each class.
    counts: Vec<u16>,
    /// Classes with a choice of paths, and the next one to probe.
    classes: Vec<ClassIx>,
    turn: usize,
    round: u32,
    /// Intervals that a probe may be in flight.
    rounds: u32,
    /// By class, round and number in the round.
    probes: Vec<Probe>,
    memories: Vec<Memory>,
    /// Additional time of a full-size packet to each class over a probe, both ways, ps.
    longer_ps: Vec<u64>,
    /// Reverse path of every path that leads here, by path of `inward`.
    back: Vec<u16>,
    inward: PathIndex,
}

const ANSWER: u32 = 1 << 31;
const MARKED: u32 = 1 << 30;

impl Agent {
    pub(super) fn new(env: &EdgeEnv<'_>, params: &Params) -> Agent {
        let ps = |name| params.scaled(name, &env.scale).as_ps();
        let random_paths = params.count("probes") as usize;
        let interval_ps = ps("probe").max(1_000_000);
        // A table of a thousand intervals covers any sensible timeout and is still small.
        let rounds = ps("probe_timeout").div_ceil(interval_ps).clamp(1, 1000) as u32;
        let classes: Vec<ClassIx> = match random_paths {
            0 => Vec::new(),
            _ => (0..env.path_counts.len()).filter(|c| env.path_counts[*c] > 1).map(|c| ClassIx(c as u32)).collect(),
        };
        let inward = PathIndex::inward(env);
        let bytes = params.count("probe_bytes") as u16;
        let is_used = !classes.is_empty();
        let table = env.path_counts.len() * rounds as usize * (random_paths + 1);
        Agent {
            random_paths,
            bytes,
            interval_ps,
            counts: env.path_counts.to_vec(),
            turn: 0,
            round: 0,
            rounds,
            probes: vec![Probe::default(); if is_used { table } else { 0 }],
            memories: vec![Memory::default(); env.path_counts.len()],
            longer_ps: (0..env.path_counts.len() as u32)
                .map(|class| longer_ps(env, ClassIx(class), u32::from(bytes)))
                .collect(),
            back: if is_used { ways_back(env, &inward) } else { Vec::new() },
            inward,
            classes,
        }
    }

    /// Sets the first timer, at a random time: edges must not probe in step.
    pub(super) fn start(&mut self, cx: &mut Cx<'_>) {
        if !self.classes.is_empty() {
            let first = cx.rng.next_below(self.interval_ps);
            cx.set_timer(cx.now.saturating_add(Time::from_ps(first)), 0);
        }
    }

    /// Probes the next class; passes the paths of probes that timed out to `lost`.
    pub(super) fn probe(&mut self, cx: &mut Cx<'_>, live: &KnownLive, mut lost: impl FnMut(ClassIx, u16)) {
        let Some(to) = self.classes.get(self.turn).copied() else { return };
        // Classes are probed in turn within the interval, so that probes do not leave in bursts.
        let next = Time::from_ps(self.interval_ps / self.classes.len() as u64);
        cx.set_timer(cx.now.saturating_add(next), 0);
        let first = self.first_slot(to, self.round);
        for probe in &mut self.probes[first..=first + self.random_paths] {
            if std::mem::take(&mut probe.is_out) {
                lost(to, probe.path);
            }
        }
        let memory = &mut self.memories[to.0 as usize];
        memory.before = memory.best.take().map(|(_, path)| path).or(memory.before);
        let remembered = memory.before;
        let paths = live.of(to, usize::from(self.counts[to.0 as usize]));
        for number in 0..self.random_paths.min(paths.len()) {
            let mut path = paths[cx.rng.next_below(paths.len() as u64) as usize];
            while self.is_probed(first, number, path) {
                path = paths[cx.rng.next_below(paths.len() as u64) as usize];
            }
            self.send(cx, to, first, number, path);
        }
        if let Some(path) = remembered
            && paths.contains(&path)
            && !self.is_probed(first, self.random_paths, path)
        {
            self.send(cx, to, first, self.random_paths, path);
        }
        self.turn += 1;
        if self.turn == self.classes.len() {
            // A probe carries its round in 16 bits; the wrap is at a whole number of tables.
            let wraps_at = (1 << 16) / self.rounds * self.rounds;
            (self.turn, self.round) = (0, (self.round + 1) % wraps_at);
        }
    }

    /// Handles a control packet: replies to a probe, or accepts a reply. `queueing` returns the
    /// queueing time of a packet of the given size.
    pub(super) fn take(
        &mut self,
        cx: &mut Cx<'_>,
        control: &ControlArrival,
        queueing: impl Fn(u32) -> u16,
    ) -> Option<Answer> {
        if control.word & ANSWER == 0 {
            let at = self.inward.get(control.from, control.path)?;
            let marked = if control.marked { MARKED } else { 0 };
            cx.send(Control {
                to: control.from,
                path: *self.back.get(at)?,
                bytes: self.bytes,
                is_ecn_capable: false,
                word: control.word & !MARKED | ANSWER | marked,
                tag: u32::from(queueing(u32::from(self.bytes))),
            });
            return None;
        }
        let (round, number) = ((control.word >> 8) as u16, (control.word & 0xff) as usize);
        if self.classes.is_empty() || number > self.random_paths || control.from.0 as usize >= self.memories.len() {
            return None;
        }
        let at = self.first_slot(control.from, u32::from(round)) + number;
        let probe = &mut self.probes[at];
        if !probe.is_out || probe.round != round {
            return None; // Too late: it was counted as lost.
        }
        probe.is_out = false;
        let round_trip = cx.now.as_ps().saturating_sub(probe.sent_ps);
        Some(Answer {
            path: probe.path,
            rtt_ps: round_trip + self.longer_ps[control.from.0 as usize],
            is_marked: control.word & MARKED != 0,
            queueing: control.tag as u16,
        })
    }

    pub(super) fn remember(&mut self, to: ClassIx, path: u16, rtt_ps: u64) {
        let best = &mut self.memories[to.0 as usize].best;
        if best.is_none_or(|(least, _)| rtt_ps < least) {
            *best = Some((rtt_ps, path));
        }
    }

    fn send(&mut self, cx: &mut Cx<'_>, to: ClassIx, first: usize, number: usize, path: u16) {
        let round = self.round as u16;
        self.probes[first + number] = Probe { is_out: true, path, round, sent_ps: cx.now.as_ps() };
        let word = u32::from(round) << 8 | number as u32;
        cx.send(Control { to, path, bytes: self.bytes, is_ecn_capable: true, word, tag: 0 });
    }

    fn is_probed(&self, first: usize, count: usize, path: u16) -> bool {
        self.probes[first..first + count].iter().any(|probe| probe.is_out && probe.path == path)
    }

    fn first_slot(&self, to: ClassIx, round: u32) -> usize {
        let row = to.0 as usize * self.rounds as usize + (round % self.rounds) as usize;
        row * (self.random_paths + 1)
    }
}
