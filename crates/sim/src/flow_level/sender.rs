//! The sender of a flow: what it may send, how fast, and until when.
//!
//! A window-based sender begins with its initial window and doubles it in each round trip. A round
//! ends when the window is sent; the next begins when the first acknowledgement has returned. If the
//! share of the flow needs longer for a window than a round trip, the window no longer limits it.

use super::congestion::Congestion;
use crate::timers::NEVER;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Phase {
    /// The number has no flow.
    #[default]
    Unused,
    Sending,
    /// The window is used up until the next round begins.
    Waiting,
    /// A link of the path is dead: only the retransmission timer sends.
    Stalled,
}

/// A flow with its rate since some time. Bytes are those on the wire.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sender {
    pub(super) id: u32,
    pub(super) phase: Phase,
    pub(super) total: f64,
    pub(super) left: f64,
    /// Bytes that the window allows in this round; infinite once it does not limit the flow.
    pub(super) budget: f64,
    /// Window, bytes: of this round; of a flow that no window limits, at `window_time`.
    pub(super) window: f64,
    pub(super) window_time: u64,
    /// Window after a reduction that takes effect within this round; 0 for none.
    pub(super) reduced_window: f64,
    pub(super) is_slow_start: bool,
    /// Average share of marks (DCTCP), and the time of the last reduction of the window.
    pub(super) alpha: f64,
    pub(super) reduced: u64,
    /// Beginning of the round, and what the flow found on its path then.
    pub(super) round: u64,
    pub(super) found: Congestion,
    /// End of a round in which the window is spread evenly over the round trip; 0 for other rounds.
    pub(super) paced_until: u64,
    /// Limit of the rate in such a round, bytes per picosecond.
    pub(super) pace: f64,
    pub(super) since: u64,
    /// Bytes per picosecond since then.
    pub(super) rate: f64,
    /// Bytes sent that its links have not counted yet.
    pub(super) uncounted: f64,
    /// Round-trip time without queues, and the part of the ideal completion time that does not
    /// depend on the rate.
    pub(super) rtt: u64,
    /// Rate in the intact network without other flows.
    pub(super) alone: f64,
    pub(super) latency: u64,
    pub(super) timeouts: u32,
    /// Bytes lost and sent again.
    pub(super) lost: f64,
}

impl Sender {
    pub(super) fn advance(&mut self, now: u64) {
        let sent = (self.rate * (now - self.since) as f64).min(self.left);
        self.since = now;
        self.left -= sent;
        self.budget -= sent;
        self.uncounted += sent;
    }

    /// Returns when everything is sent, or the window is.
    pub(super) fn pause(&self) -> u64 {
        let bytes = self.left.min(self.budget);
        if bytes <= 0.0 {
            return self.since;
        }
        let round = if self.paced_until > 0 { self.paced_until } else { NEVER };
        if self.rate > 0.0 { self.since.saturating_add((bytes / self.rate).round() as u64).min(round) } else { round }
    }

    /// Returns whether no window limits the flow.
    pub(super) fn is_steady(&self) -> bool {
        self.phase == Phase::Sending && self.budget == f64::INFINITY && self.paced_until == 0
    }

    /// Returns whether an amount of bytes is zero within the rounding of times.
    pub(super) fn is_spent(&self, bytes: f64) -> bool {
        bytes <= self.rate.max(1e-6)
    }

    /// Adds the bytes in flight on a link that is cut: they are sent again.
    pub(super) fn lose(&mut self) {
        let lost = (self.rate * self.rtt as f64).min(self.total - self.left);
        self.left += lost;
        self.lost += lost;
    }
}
