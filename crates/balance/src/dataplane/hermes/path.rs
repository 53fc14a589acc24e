//! The measurements of a path, and its condition.

use net::Time;
use net::routes::ClassIx;

use crate::dataplane::EdgeEnv;
use crate::dataplane::common::{Dre, power};
use crate::params::Params;

/// The condition of a path; better conditions compare as less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Condition {
    Good,
    Gray,
    Congested,
    Failed,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathState {
    /// Average RTT, ps; 0 without a measurement.
    rtt_ps: f64,
    marked: f64,
    measured_ps: u64,
    /// Rate of this edge's traffic on the path.
    pub(super) rate: Dre,
    /// Whether a probe was lost and no packet has come through since.
    pub(super) is_probe_lost: bool,
    /// Time until which the path is avoided because it drops at random, ps.
    failed_until: u64,
    window: Window,
}

/// Packets sent since the window began, the denominator of the retransmitted share.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    since_ps: u64,
    sent: u32,
    resent: u32,
    was_congested: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Marks {
    Count,
    DoNot,
    /// They count after the first one.
    NoneYet,
}

const RTT_GAIN: f64 = 1.0 / 8.0;
/// Weight of the newest packet in the share of marks.
const MARK_GAIN: f64 = 1.0 / 16.0;

/// Thresholds of the parameters, converted to ps and shares.
pub(super) struct Rules {
    base_ps: Vec<u64>,
    good_ps: f64,
    congested_ps: f64,
    better_ps: f64,
    ecn_share: f64,
    ecn_better: f64,
    marks: Marks,
    retx: f64,
    /// Smallest window in which a single retransmission does not exceed `retx`, packets.
    window_packets: u32,
    window_ps: u64,
    failed_for_ps: u64,
    drift_keep: f64,
    drift_tick_ps: u64,
}

impl Rules {
    pub(super) fn new(env: &EdgeEnv<'_>, params: &Params) -> Rules {
        let ps = |name| params.scaled(name, &env.scale).as_ps();
        let retx = params.number("retx");
        Rules {
            base_ps: env.base_rtt.iter().map(|rtt| rtt.as_ps()).collect(),
            good_ps: ps("good") as f64,
            congested_ps: ps("congested") as f64,
            better_ps: ps("better") as f64,
            ecn_share: params.number("ecn_share"),
            ecn_better: params.number("ecn_better"),
            marks: match params.text("ecn") {
                "on" => Marks::Count,
                "off" => Marks::DoNot,
                _ => Marks::NoneYet,
            },
            retx,
            window_packets: (1.0 / retx).ceil() as u32,
            window_ps: ps("retx_window"),
            failed_for_ps: ps("failed_for"),
            drift_keep: 1.0 - params.number("drift"),
            drift_tick_ps: ps("drift_tick").max(1),
        }
    }

    /// Returns the base RTT to a class, picoseconds.
    pub(super) fn base_rtt(&self, to: ClassIx) -> u64 {
        self.base_ps[to.0 as usize]
    }

    /// Returns the average RTT and share of marks at `now`, with drift.
    #[inline]
    fn estimate(&self, path: &PathState, to: ClassIx, now: Time) -> (f64, f64) {
        let ticks = now.as_ps().saturating_sub(path.measured_ps) / self.drift_tick_ps;
        if ticks == 0 || self.drift_keep == 1.0 {
            return (path.rtt_ps, path.marked);
        }
        let keep = power(self.drift_keep, ticks);
        let goal = 1.5 * (self.base_rtt(to) as f64 + self.good_ps);
        (goal + (path.rtt_ps - goal) * keep, path.marked * keep)
    }

    /// Returns the condition of a path, without blackholes of single pairs.
    #[inline]
    pub(super) fn condition(&self, path: &PathState, to: ClassIx, now: Time) -> Condition {
        if path.is_probe_lost || now.as_ps() < path.failed_until {
            return Condition::Failed;
        }
        self.congestion(path, to, now)
    }

    fn congestion(&self, path: &PathState, to: ClassIx, now: Time) -> Condition {
        if path.rtt_ps == 0.0 {
            return Condition::Gray;
        }
        let (rtt, marked) = self.estimate(path, to, now);
        let base = self.base_rtt(to) as f64;
        let do_marks_count = self.marks == Marks::Count;
        if rtt < base + self.good_ps && (!do_marks_count || marked < self.ecn_share) {
            Condition::Good
        } else if rtt > base + self.congested_ps && (!do_marks_count || marked > self.ecn_share) {
            Condition::Congested
        } else {
            Condition::Gray
        }
    }

    pub(super) fn is_better(&self, path: &PathState, current: &PathState, to: ClassIx, now: Time) -> bool {
        if path.rtt_ps == 0.0 || current.rtt_ps == 0.0 {
            return false;
        }
        let ((rtt, marked), (current_rtt, current_marked)) =
            (self.estimate(path, to, now), self.estimate(current, to, now));
        current_rtt - rtt > self.better_ps && (self.marks != Marks::Count || current_marked - marked > self.ecn_better)
    }

    /// Updates the averages to `now` before a new sample is added.
    fn settle(&self, path: &mut PathState, to: ClassIx, now: Time) {
        let (rtt, marked) = self.estimate(path, to, now);
        path.rtt_ps = if path.rtt_ps == 0.0 { 0.0 } else { rtt };
        path.marked = marked;
        path.measured_ps = now.as_ps();
    }

    pub(super) fn note_rtt(&self, path: &mut PathState, to: ClassIx, rtt_ps: u64, now: Time) {
        self.settle(path, to, now);
        let sample = rtt_ps.max(1) as f64;
        path.rtt_ps = if path.rtt_ps == 0.0 { sample } else { path.rtt_ps + (sample - path.rtt_ps) * RTT_GAIN };
        path.window.was_congested |= self.congestion(path, to, now) == Condition::Congested;
    }

    pub(super) fn note_mark(&mut self, path: &mut PathState, to: ClassIx, is_marked: bool, now: Time) {
        if is_marked && self.marks == Marks::NoneYet {
            self.marks = Marks::Count;
        }
        self.settle(path, to, now);
        path.marked += (f64::from(u8::from(is_marked)) - path.marked) * MARK_GAIN;
    }

    /// Counts a data packet that leaves on the path; closes a full window.
    pub(super) fn note_sent(&self, path: &mut PathState, to: ClassIx, now: Time) {
        path.window.sent = path.window.sent.saturating_add(1);
        let age_ps = now.as_ps().saturating_sub(path.window.since_ps);
        if age_ps < self.window_ps || path.window.sent < self.window_packets {
            return;
        }
        let Window { sent, resent, was_congested, .. } = path.window;
        let is_congested = was_congested || self.congestion(path, to, now) == Condition::Congested;
        if f64::from(resent) > self.retx * f64::from(sent) && !is_congested {
            path.failed_until = now.as_ps().saturating_add(self.failed_for_ps);
        }
        path.window = Window { since_ps: now.as_ps(), ..Window::default() };
    }

    /// Counts a retransmission of a data packet that was lost on the path.
    pub(super) fn note_resent(&self, path: &mut PathState) {
        path.window.resent = path.window.resent.saturating_add(1);
    }
}
