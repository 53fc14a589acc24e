//! Senders without I/O: NewReno (RFC 5681, 6582, 6298, 3042), DCTCP (RFC 8257) and CUBIC (RFC
//! 9438), in whole segments. Scoreboards and rates are in `sack.rs`.
//!
//! Windows and sequence numbers count segments of one MSS; only the last of a flow is shorter. The
//! caller passes in acknowledgements and time-outs; the sender returns what to send. Departures
//! from the RFCs: the first timer is the minimum RTO or three base RTTs, whichever is longer,
//! instead of a second; there is no idle restart.

use crate::flows::OPEN_ENDED;
use crate::transport::cubic::Cubic;
use crate::transport::sack::{CongestionControl, SenderExtension};
use crate::transport::transport_params::{CongestionParams, Recovery, TransportParams};

/// Maximum back-off: RFC 6298 allows a cap of at least 60 s.
const MAX_RTO: u64 = 60_000_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    Continue,
    Retransmit(u32),
    LossNoticed,
    Trimmed,
    Finished,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) enum Growth {
    #[default]
    Own,
    /// In congestion avoidance by this number of segments, perhaps negative, per one acknowledged.
    Coupled(f64),
    /// No growth: the window is not in use (RFC 7661).
    Held,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    pub(crate) cwnd: f64,
    /// It changes when the window is reduced.
    pub(crate) ssthresh: f64,
    pub(crate) total: u32,
    /// Whether more segments may be added: acknowledging all of them is not the end.
    is_open_ended: bool,
    pub(crate) growth: Growth,
    pub(crate) una: u32,
    pub(crate) next: u32,
    pub(crate) high: u32,
    /// NewReno's `recover`: recovery ends when this is acknowledged.
    pub(crate) recover: u32,
    dup_acks: u32,
    /// Segments beyond the window that limited transmit allows.
    extra: u32,
    pub(crate) in_recovery: bool,
    /// Partial acknowledgements of the current recovery.
    partial_acks: u32,
    pub(crate) backoff: u8,
    pub(crate) consecutive_timeouts: u8,
    /// Smoothed round-trip time, picoseconds; 0 before the first sample.
    pub(crate) srtt: u64,
    rttvar: u64,
    dctcp: Dctcp,
    /// State of transports beyond NewReno and DCTCP, from a pool.
    pub(crate) extension: Option<Box<SenderExtension>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Dctcp {
    alpha: f64,
    acked: u32,
    marked: u32,
    window_end: u32,
    reduced_until: u32,
}

impl Sender {
    /// Creates a sender of `segments`; of [`OPEN_ENDED`] it has none yet, and the caller adds them.
    pub(crate) fn new(segments: u32, params: &TransportParams) -> Sender {
        let dctcp = Dctcp { alpha: 1.0, ..Dctcp::default() };
        let (cwnd, ssthresh) = (params.initial_window, f64::INFINITY);
        let is_open_ended = segments == OPEN_ENDED;
        let total = if is_open_ended { 0 } else { segments };
        Sender { cwnd, ssthresh, total, is_open_ended, dctcp, ..Sender::default() }
    }

    #[inline]
    pub(crate) fn can_send(&self, params: &TransportParams) -> bool {
        if params.recovery != Recovery::Cumulative {
            return self.extension_allows_send(params);
        }
        self.next < self.total && self.has_space(params)
    }

    #[inline]
    fn has_space(&self, params: &TransportParams) -> bool {
        self.in_flight() < (self.cwnd as u32 + self.extra).min(params.max_window)
    }

    /// Returns the next segment that the window allows, and whether it was sent before.
    #[inline]
    pub(crate) fn next_segment(&mut self, params: &TransportParams) -> Option<(u32, bool)> {
        if !self.can_send(params) {
            return None;
        }
        if let Some(segment) = self.take_lost() {
            return Some((segment, true));
        }
        let segment = self.next;
        let again = segment < self.high;
        self.next += 1;
        self.high = self.high.max(self.next);
        Some((segment, again))
    }

    pub(crate) fn next_unpaced(&mut self) -> Option<(u32, bool)> {
        let segment = self.next;
        self.next += 1;
        (segment < self.total).then_some((segment, false))
    }

    /// Returns whether everything added was sent and the window would allow another segment.
    #[inline]
    pub(crate) fn can_take(&self, params: &TransportParams) -> bool {
        self.next == self.total && self.has_space(params)
    }

    pub(crate) fn stop(&mut self) {
        self.total = self.next;
        if let Some(extension) = &mut self.extension {
            extension.board.reset();
        }
    }

    /// Returns the window in force, segments: in recovery, when it is inflated, the threshold.
    pub(crate) fn window(&self, params: &TransportParams) -> f64 {
        if self.in_recovery { self.ssthresh } else { self.cwnd }.clamp(1.0, f64::from(params.max_window))
    }

    /// Returns whether at least half the window is used, so that growth makes sense (RFC 7661).
    pub(crate) fn is_window_used(&self) -> bool {
        2.0 * f64::from(self.in_flight()) >= self.cwnd
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.next - self.una
    }

    #[inline]
    pub(crate) fn rto(&self, params: &TransportParams) -> u64 {
        let is_low = params.low_rto_segments >= self.in_flight() && params.low_rto > 0;
        let least = if is_low { params.low_rto } else { params.min_rto };
        let base = if self.srtt == 0 { params.initial_rto } else { (self.srtt + 4 * self.rttvar).max(least) };
        (base << self.backoff.min(20)).min(MAX_RTO)
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

    /// Handles an acknowledgement of everything below `ack`; `marked` is its ECN echo.
    pub(crate) fn on_ack(&mut self, params: &TransportParams, ack: u32, marked: bool, now: u64) -> Reply {
        if ack > self.una {
            return self.on_new_ack(params, ack, marked, now);
        }
        if ack < self.una || self.in_flight() == 0 {
            return Reply::Continue;
        }
        if marked {
            self.observe_marks(params, 0, true);
        }
        self.on_duplicate_ack(params)
    }

    fn on_new_ack(&mut self, params: &TransportParams, ack: u32, marked: bool, now: u64) -> Reply {
        let acked = ack - self.una;
        self.una = ack;
        // After a time-out the receiver may already have segments that are due for retransmission.
        self.next = self.next.max(ack);
        self.backoff = 0;
        self.consecutive_timeouts = 0;
        self.extra = 0;
        if ack >= self.total && !self.is_open_ended {
            return Reply::Finished;
        }
        self.observe_marks(params, acked, marked);
        if self.in_recovery {
            if ack >= self.recover {
                self.in_recovery = false;
                self.dup_acks = 0;
                self.cwnd = self.ssthresh;
                return Reply::Continue;
            }
            // Partial: the next hole is lost too; deflate by what was acknowledged (RFC 6582 §3.2).
            self.cwnd = (self.cwnd - f64::from(acked) + 1.0).max(1.0);
            self.partial_acks += 1;
            return Reply::Retransmit(ack);
        }
        self.dup_acks = 0;
        if !marked || params.gain.is_none() {
            self.grow(params, acked, now);
        }
        Reply::Continue
    }

    /// Applies the growth of one acknowledgement: 1 in slow start, then 1/cwnd or CUBIC's.
    #[inline]
    pub(crate) fn grow(&mut self, params: &TransportParams, acked: u32, now: u64) {
        match self.growth {
            Growth::Own | Growth::Coupled(_) if self.cwnd < self.ssthresh => self.cwnd += 1.0,
            Growth::Own => match params.congestion {
                CongestionParams::Cubic => self.grow_cubic(params, acked, now),
                _ => self.cwnd += 1.0 / self.cwnd,
            },
            Growth::Coupled(increase) => self.cwnd = (self.cwnd + increase * f64::from(acked)).max(1.0),
            Growth::Held => {}
        }
    }

    fn grow_cubic(&mut self, params: &TransportParams, acked: u32, now: u64) {
        // A window limited by the receiver's implies nothing about the network (RFC 9438 §5.8).
        if self.cwnd < f64::from(params.max_window) {
            let (cwnd, rtt) = (self.cwnd, self.srtt);
            if let Some(cubic) = self.cubic() {
                self.cwnd = cubic.grow(cwnd, acked, rtt, now);
            }
        }
    }

    fn cubic(&mut self) -> Option<&mut Cubic> {
        match self.extension.as_deref_mut().map(|extension| &mut extension.congestion) {
            Some(CongestionControl::Cubic(cubic)) => Some(cubic),
            _ => None,
        }
    }

    pub(crate) fn threshold_after_loss(&mut self, is_timeout: bool) -> f64 {
        let (cwnd, in_flight) = (self.cwnd, self.in_flight());
        match self.cubic() {
            Some(cubic) if is_timeout => cubic.on_timeout(cwnd, in_flight),
            Some(cubic) => cubic.on_loss(cwnd, in_flight),
            None => (f64::from(in_flight) / 2.0).max(2.0),
        }
    }

    fn on_duplicate_ack(&mut self, params: &TransportParams) -> Reply {
        self.dup_acks += 1;
        if self.in_recovery {
            self.cwnd += 1.0;
            return Reply::Continue;
        }
        if self.dup_acks < params.dup_ack_threshold {
            // Limited transmit (RFC 3042): two new segments at most, on the first two duplicates.
            self.extra = self.dup_acks.min(params.limited_transmit);
            return Reply::Continue;
        }
        // Duplicates caused by go-back-N after a time-out are no new loss (RFC 6582 §4).
        if self.dup_acks != params.dup_ack_threshold || self.una < self.recover {
            return Reply::Continue;
        }
        self.extra = 0;
        self.ssthresh = self.threshold_after_loss(false);
        self.recover = self.high;
        self.in_recovery = true;
        self.partial_acks = 0;
        self.cwnd = self.ssthresh + f64::from(params.dup_ack_threshold);
        Reply::Retransmit(self.una)
    }

    /// Returns whether the timer restarts after the new acknowledgement just handled. With recovery
    /// from duplicate ones: always outside recovery, and on the first partial one inside (RFC
    /// 6582's impatient variant). Packets with separate timers keep their times.
    pub(crate) fn restarts_timer(&self, params: &TransportParams) -> bool {
        match params.recovery {
            Recovery::Cumulative => !self.in_recovery || self.partial_acks == 1,
            Recovery::Spray => false,
            Recovery::Sack | Recovery::GoBackN | Recovery::Selective => true,
        }
    }

    /// Handles the retransmission timer: goes back to `una`. Returns false if the flow must fail.
    pub(crate) fn on_timeout(&mut self, params: &TransportParams) -> bool {
        self.consecutive_timeouts = self.consecutive_timeouts.saturating_add(1);
        if u32::from(self.consecutive_timeouts) > params.max_timeouts {
            return false;
        }
        let is_tcp = matches!(params.recovery, Recovery::Cumulative | Recovery::Sack);
        // A repeated time-out of one segment must not halve the threshold again (RFC 5681 §3.1).
        if self.backoff == 0 && is_tcp {
            self.ssthresh = self.threshold_after_loss(true);
        }
        self.backoff = self.backoff.saturating_add(1);
        if is_tcp {
            self.cwnd = 1.0;
        }
        self.recover = self.high;
        if params.is_selective() {
            return self.lose_all();
        }
        self.next = self.una;
        self.in_recovery = false;
        self.dup_acks = 0;
        self.extra = 0;
        true
    }

    /// DCTCP: counts marks, and once per window updates alpha and reduces.
    #[inline]
    pub(crate) fn observe_marks(&mut self, params: &TransportParams, acked: u32, marked: bool) {
        let Some(gain) = params.gain else { return };
        let d = &mut self.dctcp;
        d.acked += acked;
        d.marked += if marked { acked } else { 0 };
        if self.una > d.window_end {
            if d.acked > 0 {
                let fraction = f64::from(d.marked) / f64::from(d.acked);
                d.alpha = (1.0 - gain) * d.alpha + gain * fraction;
            }
            (d.acked, d.marked, d.window_end) = (0, 0, self.next);
        }
        if marked && self.una >= d.reduced_until && !self.in_recovery {
            d.reduced_until = self.next;
            // At least two packets, as in Linux: below, delayed ACKs and time-outs would stall.
            self.cwnd = (self.cwnd * (1.0 - d.alpha / 2.0)).max(2.0);
            self.ssthresh = self.cwnd;
        }
    }

    #[cfg(test)]
    pub(crate) fn send_all(&mut self, params: &TransportParams) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| self.next_segment(params)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::TransportConfig;
    use crate::transport::transport_params::NetworkScale;

    fn params() -> TransportParams {
        TransportParams::new(&TransportConfig::new_reno(), &NetworkScale::of_tests())
    }

    fn segments(sent: &[(u32, bool)]) -> Vec<u32> {
        sent.iter().map(|(segment, _)| *segment).collect()
    }

    #[test]
    fn slow_start_doubles_per_round() {
        let (params, mut s) = (params(), Sender::new(10_000, &params()));
        let mut round = s.send_all(&params).len();
        assert_eq!(round, 10);
        for _ in 0..4 {
            let mut sent = 0;
            for _ in 0..round {
                let ack = s.una + 1;
                assert_eq!(s.on_ack(&params, ack, false, 0), Reply::Continue);
                sent += s.send_all(&params).len();
            }
            assert_eq!(sent, 2 * round);
            round = sent;
        }
    }

    #[test]
    fn three_duplicates_retransmit_once_and_halve() {
        let (params, mut s) = (params(), Sender::new(1000, &params()));
        s.send_all(&params);
        assert_eq!(s.on_ack(&params, 1, false, 0), Reply::Continue);
        assert_eq!(segments(&s.send_all(&params)), [10, 11]);
        assert_eq!(s.on_ack(&params, 1, false, 0), Reply::Continue);
        assert_eq!(segments(&s.send_all(&params)), [12], "limited transmit");
        assert_eq!(s.on_ack(&params, 1, false, 0), Reply::Continue);
        assert_eq!(segments(&s.send_all(&params)), [13], "limited transmit");
        assert_eq!(s.on_ack(&params, 1, false, 0), Reply::Retransmit(1));
        assert_eq!(s.ssthresh, 6.5, "half of 13 in flight");
        assert_eq!(s.on_ack(&params, 1, false, 0), Reply::Continue, "no second retransmit");
        // Two losses: the acknowledgement of the first is partial and retransmits the second.
        assert_eq!(s.on_ack(&params, 5, false, 0), Reply::Retransmit(5));
        assert!(s.restarts_timer(&params));
        assert_eq!(s.on_ack(&params, 7, false, 0), Reply::Retransmit(7));
        assert!(!s.restarts_timer(&params), "first partial acknowledgement only");
        assert_eq!(s.on_ack(&params, 14, false, 0), Reply::Continue);
        assert!(!s.in_recovery && s.cwnd == 6.5);
    }

    #[test]
    fn a_timeout_goes_back_and_backs_off() {
        let (params, mut s) = (params(), Sender::new(1000, &params()));
        s.send_all(&params);
        s.on_rtt(100_000_000);
        assert_eq!(s.rto(&params), params.min_rto);
        assert!(s.on_timeout(&params));
        assert_eq!(s.rto(&params), 2 * params.min_rto);
        assert_eq!(s.send_all(&params), [(0, true)]);
        // Only segment 0 was lost: the acknowledgement covers everything.
        assert_eq!(s.on_ack(&params, 10, false, 0), Reply::Continue);
        assert_eq!(s.rto(&params), params.min_rto);
        assert_eq!(s.send_all(&params), [(10, false), (11, false)]);
        for _ in 0..params.max_timeouts {
            assert!(s.on_timeout(&params));
        }
        assert!(!s.on_timeout(&params), "it fails");
    }

    #[test]
    fn duplicates_after_a_timeout_are_no_new_loss() {
        let (params, mut s) = (params(), Sender::new(1000, &params()));
        s.send_all(&params);
        s.on_timeout(&params);
        s.send_all(&params);
        assert_eq!(s.on_ack(&params, 2, false, 0), Reply::Continue);
        s.send_all(&params);
        for _ in 0..5 {
            assert_eq!(s.on_ack(&params, 2, false, 0), Reply::Continue);
        }
    }

    #[test]
    fn dctcp_reduces_by_half_its_alpha_once_per_window() {
        let params = TransportParams::new(&TransportConfig::default(), &NetworkScale::of_tests());
        let mut s = Sender::new(100_000, &params);
        s.send_all(&params);
        s.dctcp.alpha = 0.5;
        s.dctcp.window_end = 100;
        let before = s.cwnd;
        s.on_ack(&params, 1, true, 0);
        assert!((s.cwnd - before * 0.75).abs() < 1e-9, "1 - alpha/2");
        let reduced = s.cwnd;
        s.on_ack(&params, 2, true, 0);
        assert_eq!(s.cwnd, reduced, "once per window");
    }
}
