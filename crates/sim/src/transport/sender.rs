//! The sender of a flow: what all transports keep, and their calls.
//!
//! Windows and sequence numbers count segments of one MSS; only the last of a flow is shorter. The
//! caller passes in acknowledgements and time-outs; the sender returns what to send. Departures
//! from RFC 6298: the first timer is the minimum RTO or three base RTTs, whichever is longer,
//! instead of a second.

use net::Bandwidth;

use crate::timers::NEVER;
use crate::transport::Transport;
use crate::transport::params::TransportParams;
use crate::transport::scoreboard::Scoreboard;

/// Segment count of a subflow: its sender receives more data as it goes.
pub(crate) const OPEN_ENDED: u32 = u32::MAX;

/// Maximum back-off: RFC 6298 allows a cap of at least 60 s.
const MAX_RTO: u64 = 60_000_000_000_000;

/// Effect of an acknowledgement on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// Sends what the window allows.
    Continue,
    /// Sends this segment again; `is_new` if a loss was not known before.
    Retransmit { segment: u32, is_new: bool },
    /// Counts a loss, and sends what the window allows.
    LossNoticed,
    /// The same for a packet whose header alone arrived.
    Trimmed,
    /// Ends the flow: everything is acknowledged.
    Finished,
}

/// Effect of the deadline of a flow's timer on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimerEffect {
    Nothing,
    /// Sends what is allowed now. The timer is set to `again`, if that is given.
    Resume {
        again: Option<u64>,
    },
    /// Counts a time-out; the flow fails if `is_over`, and resumes if not.
    TimedOut {
        is_over: bool,
        again: Option<u64>,
    },
}

/// How an acknowledgement lets the window of a subflow grow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) enum Growth {
    #[default]
    Own,
    /// In congestion avoidance by this number of segments, perhaps negative, per one acknowledged.
    Coupled(f64),
    /// No growth: the window is not in use (RFC 7661).
    Held,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckInfo {
    /// The lowest segment that has not arrived.
    pub(crate) ack: u32,
    /// The segment that caused it, if beyond a gap.
    pub(crate) sack: Option<u32>,
    pub(crate) is_marked: bool,
    pub(crate) is_nack: bool,
    pub(crate) is_notification: bool,
    /// Stamp of the packet that caused it.
    pub(crate) sent: u32,
    pub(crate) rtt: u64,
    pub(crate) now: u64,
}

/// A segment that has been sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) flow: u32,
    pub(crate) segment: u32,
    pub(crate) bytes: u64,
    pub(crate) now: u64,
    /// When the interface is free for the next.
    pub(crate) free_at: u64,
    /// Limit that the controller sets, if any.
    pub(crate) limit: Option<Bandwidth>,
}

/// Sequence numbers, window and round-trip times of a sender. Windows and sequence numbers count
/// segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendState {
    pub(crate) cwnd: f64,
    /// Slow-start threshold, segments. It changes when the window is reduced.
    pub(crate) ssthresh: f64,
    pub(crate) total: u32,
    /// Whether more segments may be added: acknowledging all of them is not the end.
    is_open_ended: bool,
    pub(crate) growth: Growth,
    /// Lowest unacknowledged segment, next one to send, and one above the highest sent.
    pub(crate) una: u32,
    pub(crate) next: u32,
    pub(crate) high: u32,
    /// Recovery ends when this is acknowledged.
    pub(crate) recover: u32,
    pub(crate) in_recovery: bool,
    /// Number of doublings of the time-out.
    pub(crate) backoff: u8,
    pub(crate) consecutive_timeouts: u8,
    /// Smoothed round-trip time, picoseconds; 0 before the first sample.
    pub(crate) srtt: u64,
    rttvar: u64,
}

impl SendState {
    /// Creates the state for `segments`; of [`OPEN_ENDED`] it has none yet, and the caller adds them.
    pub(crate) fn new(segments: u32, params: &TransportParams) -> SendState {
        let is_open_ended = segments == OPEN_ENDED;
        let total = if is_open_ended { 0 } else { segments };
        let (cwnd, ssthresh) = (params.initial_window, f64::INFINITY);
        SendState { cwnd, ssthresh, total, is_open_ended, ..SendState::default() }
    }

    /// Limits the data to the first `segments`; more follow unless these are all.
    pub(crate) fn offer(&mut self, segments: u32, is_all: bool) {
        (self.total, self.is_open_ended) = (segments, !is_all);
    }

    /// Returns the window in force, segments: in recovery, when it is inflated, the threshold.
    pub(crate) fn window(&self, params: &TransportParams) -> f64 {
        if self.in_recovery { self.ssthresh } else { self.cwnd }.clamp(1.0, f64::from(params.max_window))
    }

    /// Returns whether at least half the window is used, so that growth makes sense (RFC 7661).
    pub(crate) fn is_window_used(&self) -> bool {
        2.0 * f64::from(self.in_flight()) >= self.cwnd
    }

    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        self.next - self.una
    }

    /// Returns whether everything is acknowledged and nothing more will be added.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.una >= self.total && !self.is_open_ended
    }

    /// Takes the next segment in order. Returns also whether it was sent before.
    #[inline]
    pub(crate) fn take_new(&mut self) -> (u32, bool) {
        let segment = self.next;
        let again = segment < self.high;
        self.next += 1;
        self.high = self.high.max(self.next);
        (segment, again)
    }

    /// Returns the retransmission time-out, picoseconds.
    #[inline]
    pub(crate) fn rto(&self, params: &TransportParams) -> u64 {
        let is_low = params.low_rto_segments >= self.in_flight() && params.low_rto > 0;
        let least = if is_low { params.low_rto } else { params.min_rto };
        let base = if self.srtt == 0 { params.initial_rto } else { (self.srtt + 4 * self.rttvar).max(least) };
        (base << self.backoff.min(20)).min(MAX_RTO)
    }

    /// Returns the deadline of a timer that runs while anything is in flight, and is now `current`.
    #[inline]
    pub(crate) fn retransmission_deadline(&self, params: &TransportParams, current: u64, now: u64) -> u64 {
        if self.in_flight() == 0 {
            NEVER
        } else if current == NEVER {
            now + self.rto(params)
        } else {
            current
        }
    }

    #[inline]
    pub(crate) fn on_rtt(&mut self, rtt: u64) {
        let rtt = rtt.max(1);
        if self.srtt == 0 {
            (self.srtt, self.rttvar) = (rtt, rtt / 2);
            return;
        }
        self.rttvar = self.rttvar - self.rttvar / 4 + self.srtt.abs_diff(rtt) / 4;
        self.srtt = self.srtt - self.srtt / 8 + rtt / 8;
    }

    /// Counts a time-out, and doubles the next one. Returns false if there were too many.
    pub(crate) fn back_off(&mut self, params: &TransportParams) -> bool {
        self.consecutive_timeouts = self.consecutive_timeouts.saturating_add(1);
        if u32::from(self.consecutive_timeouts) > params.max_timeouts {
            return false;
        }
        self.backoff = self.backoff.saturating_add(1);
        self.recover = self.high;
        true
    }

    /// Ends a run of time-outs: something new has arrived.
    #[inline]
    pub(crate) fn end_timeouts(&mut self) {
        self.backoff = 0;
        self.consecutive_timeouts = 0;
    }

    /// Advances to an acknowledgement and records it on a scoreboard. Returns the number of segments
    /// it is the first to name.
    pub(crate) fn note_arrivals(&mut self, board: &mut Scoreboard, arrived: &AckInfo) -> u32 {
        let mut acked = 0;
        if arrived.ack > self.una {
            acked = board.advance(self.una, arrived.ack);
            self.advance(arrived.ack);
        }
        if let Some(segment) = arrived.sack.filter(|_| !arrived.is_nack)
            && (self.una..self.next).contains(&segment)
        {
            acked += u32::from(board.acknowledge(segment));
        }
        if acked > 0 {
            self.end_timeouts();
        }
        acked
    }

    /// Advances to an acknowledgement. After a time-out the receiver may already have segments that are
    /// due for retransmission.
    #[inline]
    pub(crate) fn advance(&mut self, ack: u32) {
        self.una = ack;
        self.next = self.next.max(ack);
    }

    /// Returns whether a window with a scoreboard allows a segment: a lost or a new one.
    pub(crate) fn has_space(&self, board: &Scoreboard, params: &TransportParams) -> bool {
        let has_new = self.next < self.total && self.in_flight() < params.max_window;
        (has_new || board.lost_count > 0) && board.in_network(self.in_flight()) < self.cwnd as u32
    }

    /// Takes a lost segment, or else the next one.
    pub(crate) fn take_lost_or_new(&mut self, board: &mut Scoreboard) -> (u32, bool) {
        match board.take_lost() {
            Some(segment) => (segment, true),
            None => self.take_new(),
        }
    }
}

/// The sender of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    pub(crate) state: SendState,
    pub(crate) transport: Transport,
}

impl Sender {
    #[inline]
    pub(crate) fn can_send(&self, params: &TransportParams) -> bool {
        self.transport.can_send(&self.state, params)
    }

    /// Returns the next segment that may be sent, and whether it was sent before.
    #[inline]
    pub(crate) fn next_segment(&mut self, params: &TransportParams) -> Option<(u32, bool)> {
        self.can_send(params).then(|| self.transport.take(&mut self.state))
    }

    #[inline]
    pub(crate) fn can_take(&self, params: &TransportParams) -> bool {
        self.transport.can_take(&self.state, params)
    }

    #[inline]
    pub(crate) fn on_sent(&mut self, sent: &Sent) {
        self.transport.on_sent(&mut self.state, sent);
    }

    #[inline]
    pub(crate) fn on_ack(&mut self, params: &TransportParams, arrived: &AckInfo) -> (Reply, u32) {
        self.transport.on_ack(&mut self.state, params, arrived)
    }

    pub(crate) fn on_timeout(&mut self, params: &TransportParams) -> bool {
        self.transport.on_timeout(&mut self.state, params)
    }

    pub(crate) fn on_timer(&mut self, params: &TransportParams, now: u64) -> TimerEffect {
        self.transport.on_timer(&mut self.state, params, now)
    }

    #[inline]
    pub(crate) fn deadline(&mut self, params: &TransportParams, current: u64, now: u64) -> u64 {
        self.transport.deadline(&self.state, params, current, now)
    }

    #[inline]
    pub(crate) fn restarts_timer(&self) -> bool {
        self.transport.restarts_timer(&self.state)
    }

    /// Ends a sender whose flow goes on elsewhere.
    pub(crate) fn stop(&mut self) {
        self.state.total = self.state.next;
        self.transport.stop();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::scenario::TransportConfig;
    use crate::transport::SenderEnv;
    use crate::transport::params::NetworkScale;

    /// Returns a sender of `segments` on a 10 Gb/s interface, and its parameters.
    pub(crate) fn start(config: &TransportConfig, segments: u32) -> (TransportParams, Sender) {
        let scale = NetworkScale::of_tests();
        let params = TransportParams::new(config, &scale);
        let mut transport = config.kind.sender(&SenderEnv { config, scale: &scale, seed: 1, words: 32 });
        transport.begin(10_000_000_000);
        (params, Sender { state: SendState::new(segments, &params), transport })
    }

    /// Returns an acknowledgement of all below `ack`, and of segment `sack` unless that is 0.
    pub(crate) fn sack(ack: u32, sack: u32) -> AckInfo {
        AckInfo { ack, sack: (sack > 0).then_some(sack), rtt: 100_000_000, ..AckInfo::default() }
    }

    impl Sender {
        pub(crate) fn send_all(&mut self, params: &TransportParams) -> Vec<(u32, bool)> {
            std::iter::from_fn(|| self.next_segment(params)).collect()
        }

        /// Returns the numbers of the segments that the window allows.
        pub(crate) fn segments(&mut self, params: &TransportParams) -> Vec<u32> {
            self.send_all(params).into_iter().map(|(segment, _)| segment).collect()
        }

        pub(crate) fn send_at(&mut self, params: &TransportParams, now: u64, free_at: u64) {
            let (segment, _) = self.next_segment(params).unwrap();
            self.on_sent(&Sent { flow: 0, segment, bytes: 1500, now, free_at, limit: None });
        }
    }
}
