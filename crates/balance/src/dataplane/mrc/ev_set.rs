//! The paths of one flow with their states, plane by plane.

use std::ops::Range;

use net::RandomStream;

use crate::dataplane::common::{BranchesTo, is_live};

/// Limits of the sets of all flows, in paths.
pub(super) struct Sizes {
    pub(super) active: usize,
    pub(super) reserve: usize,
    pub(super) min_active: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Good,
    /// Misses its next turn, after a mark or a trim.
    Skip,
    /// Has lost a packet, and is tested by probes.
    AssumedBad,
    /// Dead, as routing reports it.
    Denied,
}

#[derive(Clone, Copy)]
struct Ev {
    path: u16,
    state: State,
    /// Replies to the latest probes in a row.
    successes: u8,
    /// Number of the probe without a reply so far; 0 for none.
    probe: u16,
}

impl Ev {
    fn is_usable(&self) -> bool {
        matches!(self.state, State::Good | State::Skip)
    }
}

/// The paths of a plane: `active` ones from `start` on, and the reserve up to `end`.
// Small numbers: a flow reads its planes for each packet, and many flows do not fit a cache.
#[derive(Clone, Copy)]
struct Plane {
    start: u16,
    active: u16,
    end: u16,
    /// Active path whose turn is next.
    cursor: u16,
}

impl Plane {
    fn active(&self) -> Range<usize> {
        self.start.into()..(self.start + self.active).into()
    }

    fn reserve(&self) -> Range<usize> {
        (self.start + self.active).into()..self.end.into()
    }
}

/// Largest number of a probe: 15 bits.
const PROBES_MAX: u16 = 0x7fff;

#[derive(Clone, Default)]
pub(super) struct EvSet {
    planes: Vec<Plane>,
    evs: Vec<Ev>,
    /// Plane whose turn is next.
    turn: u16,
    bad: u16,
    /// Path whose probe is next.
    probe_turn: u16,
    /// Number of the latest probe. It continues in the next flow, which thus ignores late replies.
    probes: u16,
}

impl EvSet {
    /// Draws the set of a flow that begins: in each plane equally many paths at random, live ones
    /// first. The size is divided among planes that have live paths. `drawn` is scratch memory.
    pub(super) fn draw(
        &mut self,
        rng: &mut RandomStream,
        planes: BranchesTo<'_>,
        live: &[u16],
        sizes: &Sizes,
        drawn: &mut Vec<u16>,
    ) {
        self.planes.clear();
        self.evs.clear();
        self.bad = 0;
        let is_up = |path: &u16| is_live(live, *path);
        let up = planes.iter().filter(|paths| paths.clone().any(|path| is_up(&path))).count().max(1);
        let (active, reserve) = ((sizes.active / up).max(1), sizes.reserve / up);
        for paths in planes.iter() {
            drawn.clear();
            drawn.extend(paths.clone().filter(is_up));
            let live_count = drawn.len();
            drawn.extend(paths.filter(|path| !is_up(path)));
            let count = (active + reserve).min(drawn.len());
            for at in 0..count.min(live_count) {
                drawn.swap(at, at + rng.next_below((live_count - at) as u64) as usize);
            }
            // All paths of an edge have numbers of 16 bits.
            let (start, active) = (self.evs.len() as u16, active.min(count) as u16);
            self.planes.push(Plane { start, active, end: start + count as u16, cursor: 0 });
            self.evs.extend(drawn[..count].iter().enumerate().map(|(at, path)| {
                let state = if at < live_count { State::Good } else { State::Denied };
                Ev { path: *path, state, successes: 0, probe: 0 }
            }));
        }
        // Flows that begin together do not begin with the same plane.
        self.turn = rng.next_below(self.planes.len().max(1) as u64) as u16;
    }

    /// Returns the next path in turn; `None` if no path is usable.
    pub(super) fn pick(&mut self) -> Option<u16> {
        // In a first turn every path may be skipped; then none is in the second.
        for _ in 0..2 * self.planes.len() {
            let plane = usize::from(self.turn);
            self.turn = if plane + 1 == self.planes.len() { 0 } else { self.turn + 1 };
            if let Some(path) = self.next_of(plane) {
                return Some(path);
            }
        }
        None
    }

    /// Returns the next path in turn, and the one after it if the first is `before`.
    pub(super) fn pick_other_than(&mut self, before: Option<u16>) -> Option<u16> {
        let path = self.pick()?;
        if Some(path) == before { self.pick() } else { Some(path) }
    }

    fn next_of(&mut self, plane: usize) -> Option<u16> {
        let plane = &mut self.planes[plane];
        for _ in 0..plane.active {
            let ev = &mut self.evs[usize::from(plane.start + plane.cursor)];
            plane.cursor = if plane.cursor + 1 == plane.active { 0 } else { plane.cursor + 1 };
            match ev.state {
                State::Good => return Some(ev.path),
                State::Skip => ev.state = State::Good,
                State::AssumedBad | State::Denied => {}
            }
        }
        None
    }

    /// Lets a path miss its next turn.
    pub(super) fn skip(&mut self, plane: usize, path: u16) {
        if let Some(at) = self.find(plane, path)
            && self.evs[at].is_usable()
        {
            self.evs[at].state = State::Skip;
        }
    }

    /// Takes a path that lost a packet out of use, unless too few would remain: then it misses a
    /// turn.
    pub(super) fn assume_bad(&mut self, plane: usize, path: u16, sizes: &Sizes) {
        let Some(at) = self.find(plane, path).filter(|at| self.evs[*at].is_usable()) else { return };
        let paths = self.planes[plane];
        let has_spare = self.evs[paths.reserve()].iter().any(Ev::is_usable);
        if paths.active().contains(&at) && !has_spare && self.active_count() <= sizes.min_active {
            self.evs[at].state = State::Skip;
            return;
        }
        self.evs[at] = Ev { path, state: State::AssumedBad, successes: 0, probe: 0 };
        self.bad += 1;
        self.promote(plane);
    }

    /// Adapts the set to a change of the live paths.
    pub(super) fn conform(&mut self, live: &[u16], sizes: &Sizes) {
        for ev in &mut self.evs {
            match (is_live(live, ev.path), ev.state) {
                (false, _) => ev.state = State::Denied,
                (true, State::Denied) => ev.state = State::Good,
                (true, _) => {}
            }
        }
        (0..self.planes.len()).for_each(|plane| self.promote(plane));
        while self.active_count() < sizes.min_active {
            let mut active = self.planes.iter().flat_map(Plane::active);
            let Some(at) = active.find(|at| self.evs[*at].state == State::AssumedBad) else { break };
            self.evs[at].state = State::Good;
        }
        self.bad = self.evs.iter().filter(|ev| ev.state == State::AssumedBad).count() as u16;
    }

    /// Returns the number of paths that probes test.
    #[inline]
    pub(super) fn bad_count(&self) -> u16 {
        self.bad
    }

    /// Returns the path to probe next, and the number of the probe.
    pub(super) fn next_probe(&mut self) -> Option<(u16, u16)> {
        let count = self.evs.len();
        let mut in_turn = (0..count).map(|step| (usize::from(self.probe_turn) + step) % count);
        let at = in_turn.find(|at| self.evs[*at].state == State::AssumedBad)?;
        self.probe_turn = at as u16 + 1;
        self.probes = self.probes % PROBES_MAX + 1;
        let ev = &mut self.evs[at];
        if ev.probe != 0 {
            // The previous probe has no reply.
            ev.successes = 0;
        }
        ev.probe = self.probes;
        Some((ev.path, ev.probe))
    }

    /// Counts the reply to a probe; after `needed` of them in a row the path is good again.
    pub(super) fn on_reply(&mut self, plane: usize, path: u16, probe: u16, needed: u8) {
        let Some(at) = self.find(plane, path) else { return };
        let ev = &mut self.evs[at];
        if ev.state != State::AssumedBad || ev.probe != probe || probe == 0 {
            return;
        }
        ev.probe = 0;
        ev.successes += 1;
        if ev.successes >= needed {
            ev.state = State::Good;
            self.bad -= 1;
            self.promote(plane);
        }
    }

    /// Replaces unusable active paths of a plane by usable ones of its reserve.
    fn promote(&mut self, plane: usize) {
        let paths = self.planes[plane];
        for at in paths.active() {
            if self.evs[at].is_usable() {
                continue;
            }
            let Some(spare) = paths.reserve().find(|spare| self.evs[*spare].is_usable()) else { return };
            self.evs.swap(at, spare);
        }
    }

    fn active_count(&self) -> usize {
        let active = self.planes.iter().flat_map(Plane::active);
        active.filter(|at| self.evs[*at].is_usable()).count()
    }

    fn find(&self, plane: usize, path: u16) -> Option<usize> {
        let Plane { start, end, .. } = *self.planes.get(plane)?;
        (usize::from(start)..usize::from(end)).find(|at| self.evs[*at].path == path)
    }
}
