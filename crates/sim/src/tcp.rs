//! Senders without I/O: NewReno (RFC 5681, 6582, 6298, 3042), DCTCP (RFC 8257) and CUBIC (RFC 9438), in whole segments.
//! What needs a scoreboard or a rate is in `selective.rs`.
//!
//! Windows and sequence numbers count segments of one MSS; only the last segment of a flow is shorter.
//! The sender is told what came back and when, and answers what to send. Departures from the RFCs: the
//! timer before the first RTT sample is the least RTO or three base RTTs, whichever is longer, not a second;
//! there is no idle restart.

use crate::cubic::Cubic;
use crate::selective::{Law, More};
use crate::transport_rules::{LawRules, Recovery, TcpRules};

/// Longest back-off: RFC 6298 allows a cap of at least 60 s.
const MAX_RTO: u64 = 60_000_000_000_000;

/// What an acknowledgement asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// Send what the window allows.
    Continue,
    /// First send this segment again.
    Retransmit(u32),
    /// Send what the window allows; a loss was found.
    LossNoticed,
    /// Send what the window allows; the packet named was trimmed.
    Trimmed,
    /// Every segment is acknowledged.
    Finished,
}

/// How the window grows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Growth {
    /// As the transport has it.
    Own,
    /// In congestion avoidance by so many segments per segment acknowledged, which may be negative; in slow start as usual.
    Coupled(f64),
    /// Not at all: the window is not in use (RFC 7661).
    Held,
}

/// Sending side of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) cwnd: f64,
    pub(crate) ssthresh: f64,
    pub(crate) total: u32,
    /// More segments may be added: acknowledging all of them is not the end.
    is_open_ended: bool,
    pub(crate) growth: Growth,
    pub(crate) una: u32,
    pub(crate) next: u32,
    /// One above the highest segment ever sent.
    high: u32,
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
    srtt: u64,
    rttvar: u64,
    dctcp: Dctcp,
    /// What transports beyond NewReno and DCTCP need, from a pool.
    pub(crate) more: Option<Box<More>>,
}

/// DCTCP's average and its observation window.
#[derive(Clone, Copy, Debug)]
struct Dctcp {
    alpha: f64,
    acked: u32,
    marked: u32,
    window_end: u32,
    reduced_until: u32,
}

impl Sender {
    pub(crate) fn new(total: u32, rules: &TcpRules) -> Sender {
        Sender {
            cwnd: rules.initial_window,
            ssthresh: f64::INFINITY,
            total,
            is_open_ended: false,
            growth: Growth::Own,
            una: 0,
            next: 0,
            high: 0,
            recover: 0,
            dup_acks: 0,
            extra: 0,
            in_recovery: false,
            partial_acks: 0,
            backoff: 0,
            consecutive_timeouts: 0,
            srtt: 0,
            rttvar: 0,
            dctcp: Dctcp { alpha: 1.0, acked: 0, marked: 0, window_end: 0, reduced_until: 0 },
            more: None,
        }
    }

    /// Whether the window lets another segment out.
    #[inline]
    pub(crate) fn can_send(&self, rules: &TcpRules) -> bool {
        if rules.recovery != Recovery::Cumulative {
            return self.can_send_more(rules);
        }
        let window = (self.cwnd as u32 + self.extra).min(rules.max_window);
        self.next < self.total && self.next - self.una < window
    }

    /// The next segment the window lets out, and whether it was sent before.
    #[inline]
    pub(crate) fn next_segment(&mut self, rules: &TcpRules) -> Option<(u32, bool)> {
        if !self.can_send(rules) {
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

    /// The next segment regardless of any window, for UDP.
    pub(crate) fn next_unpaced(&mut self) -> Option<(u32, bool)> {
        let segment = self.next;
        self.next += 1;
        (segment < self.total).then_some((segment, false))
    }

    /// A sender without segments yet, to which [`Sender::append`] adds.
    pub(crate) fn open_ended(rules: &TcpRules) -> Sender {
        Sender { is_open_ended: true, ..Sender::new(0, rules) }
    }

    /// Adds a segment to an open-ended sender.
    pub(crate) fn append(&mut self) {
        self.total += 1;
    }

    /// Whether everything added was sent and the window would let another segment out.
    #[inline]
    pub(crate) fn can_take(&self, rules: &TcpRules) -> bool {
        let window = (self.cwnd as u32 + self.extra).min(rules.max_window);
        self.next == self.total && self.next - self.una < window
    }

    /// Sends nothing any more.
    pub(crate) fn stop(&mut self) {
        self.total = self.next;
        if let Some(more) = &mut self.more {
            more.forget();
        }
    }

    /// Smoothed round-trip time, picoseconds; 0 before the first sample.
    pub(crate) fn srtt(&self) -> u64 {
        self.srtt
    }

    /// The window in force, segments: in recovery the threshold, as the window is inflated then (RFC 6356 §3).
    pub(crate) fn window(&self, rules: &TcpRules) -> f64 {
        if self.in_recovery { self.ssthresh } else { self.cwnd }.clamp(1.0, f64::from(rules.max_window))
    }

    /// The slow-start threshold, segments: it changes when the window is reduced.
    pub(crate) fn threshold(&self) -> f64 {
        self.ssthresh
    }

    /// Whether the window is at least half used, so that growing it means something (RFC 7661 §4.3).
    pub(crate) fn is_window_used(&self) -> bool {
        2.0 * f64::from(self.in_flight()) >= self.cwnd
    }

    /// Segments sent and not yet acknowledged.
    pub(crate) fn in_flight(&self) -> u32 {
        self.next - self.una
    }

    /// One above the highest segment ever sent.
    pub(crate) fn high(&self) -> u32 {
        self.high
    }

    /// The lowest segment not acknowledged.
    pub(crate) fn una(&self) -> u32 {
        self.una
    }

    /// Retransmission time-out now in force.
    #[inline]
    pub(crate) fn rto(&self, rules: &TcpRules) -> u64 {
        let is_low = rules.low_rto_segments >= self.in_flight() && rules.low_rto > 0;
        let least = if is_low { rules.low_rto } else { rules.min_rto };
        let base = if self.srtt == 0 { rules.initial_rto } else { (self.srtt + 4 * self.rttvar).max(least) };
        (base << self.backoff.min(20)).min(MAX_RTO)
    }

    /// A round-trip time was measured (RFC 6298).
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

    /// An acknowledgement of everything below `ack` arrived at `now`; `marked` is its ECN echo. For recovery from
    /// duplicate acknowledgements.
    pub(crate) fn on_ack(&mut self, rules: &TcpRules, ack: u32, marked: bool, now: u64) -> Reply {
        if ack > self.una {
            return self.on_new_ack(rules, ack, marked, now);
        }
        if ack < self.una || self.in_flight() == 0 {
            return Reply::Continue;
        }
        if marked {
            self.observe_marks(rules, 0, true);
        }
        self.on_duplicate_ack(rules)
    }

    fn on_new_ack(&mut self, rules: &TcpRules, ack: u32, marked: bool, now: u64) -> Reply {
        let acked = ack - self.una;
        self.una = ack;
        // After a time-out the receiver may already have what was to be sent again.
        self.next = self.next.max(ack);
        self.backoff = 0;
        self.consecutive_timeouts = 0;
        self.extra = 0;
        if ack >= self.total && !self.is_open_ended {
            return Reply::Finished;
        }
        self.observe_marks(rules, acked, marked);
        if self.in_recovery {
            if ack >= self.recover {
                self.in_recovery = false;
                self.dup_acks = 0;
                self.cwnd = self.ssthresh;
                return Reply::Continue;
            }
            // Partial: the next hole is lost too; deflate by what was acknowledged (RFC 6582 §3.2 step 3).
            self.cwnd = (self.cwnd - f64::from(acked) + 1.0).max(1.0);
            self.partial_acks += 1;
            return Reply::Retransmit(ack);
        }
        self.dup_acks = 0;
        if !marked || rules.gain.is_none() {
            self.grow(rules, acked, now);
        }
        Reply::Continue
    }

    /// One acknowledgement's growth: a segment in slow start, 1/cwnd or what CUBIC says in congestion avoidance.
    #[inline]
    pub(crate) fn grow(&mut self, rules: &TcpRules, acked: u32, now: u64) {
        match self.growth {
            Growth::Own | Growth::Coupled(_) if self.cwnd < self.ssthresh => self.cwnd += 1.0,
            Growth::Own => match rules.law {
                LawRules::Cubic => self.grow_cubic(rules, acked, now),
                _ => self.cwnd += 1.0 / self.cwnd,
            },
            Growth::Coupled(increase) => self.cwnd = (self.cwnd + increase * f64::from(acked)).max(1.0),
            Growth::Held => {}
        }
    }

    fn grow_cubic(&mut self, rules: &TcpRules, acked: u32, now: u64) {
        // A window that the receiver's holds back says nothing about the network (RFC 9438 §5.8).
        if self.cwnd < f64::from(rules.max_window) {
            let (cwnd, rtt) = (self.cwnd, self.srtt);
            if let Some(cubic) = self.cubic() {
                self.cwnd = cubic.grow(cwnd, acked, rtt, now);
            }
        }
    }

    fn cubic(&mut self) -> Option<&mut Cubic> {
        match self.more.as_deref_mut().map(|more| &mut more.law) {
            Some(Law::Cubic(cubic)) => Some(cubic),
            _ => None,
        }
    }

    /// The slow-start threshold after a loss: half of what is in flight, or CUBIC's.
    pub(crate) fn threshold_after_loss(&mut self, is_timeout: bool) -> f64 {
        let (cwnd, in_flight) = (self.cwnd, self.in_flight());
        match self.cubic() {
            Some(cubic) if is_timeout => cubic.on_timeout(cwnd, in_flight),
            Some(cubic) => cubic.on_loss(cwnd, in_flight),
            None => (f64::from(in_flight) / 2.0).max(2.0),
        }
    }

    fn on_duplicate_ack(&mut self, rules: &TcpRules) -> Reply {
        self.dup_acks += 1;
        if self.in_recovery {
            self.cwnd += 1.0;
            return Reply::Continue;
        }
        if self.dup_acks < rules.dup_ack_threshold {
            // Limited transmit (RFC 3042): two new segments at most, on the first two duplicates.
            self.extra = self.dup_acks.min(rules.limited_transmit);
            return Reply::Continue;
        }
        // `una >= recover`: duplicates caused by our own go-back-N after a time-out are no new loss (RFC 6582 §4).
        if self.dup_acks != rules.dup_ack_threshold || self.una < self.recover {
            return Reply::Continue;
        }
        self.extra = 0;
        self.ssthresh = self.threshold_after_loss(false);
        self.recover = self.high;
        self.in_recovery = true;
        self.partial_acks = 0;
        self.cwnd = self.ssthresh + f64::from(rules.dup_ack_threshold);
        Reply::Retransmit(self.una)
    }

    /// Whether the timer restarts on the new acknowledgement just handled. Recovering from duplicate ones: always
    /// outside recovery, and on the first partial one inside (RFC 6582's impatient variant). Packets timed one by one
    /// keep their times.
    pub(crate) fn restarts_timer(&self, rules: &TcpRules) -> bool {
        match rules.recovery {
            Recovery::Cumulative => !self.in_recovery || self.partial_acks == 1,
            Recovery::Spray => false,
            Recovery::Sack | Recovery::GoBackN | Recovery::Selective => true,
        }
    }

    /// The retransmission timer expired with segments in flight: go back to the first of them. Answers
    /// false when the flow should give up.
    pub(crate) fn on_timeout(&mut self, rules: &TcpRules) -> bool {
        self.consecutive_timeouts = self.consecutive_timeouts.saturating_add(1);
        if u32::from(self.consecutive_timeouts) > rules.max_timeouts {
            return false;
        }
        let is_tcp = matches!(rules.recovery, Recovery::Cumulative | Recovery::Sack);
        // A repeated time-out of the same segment must not halve the threshold again (RFC 5681 §3.1).
        if self.backoff == 0 && is_tcp {
            self.ssthresh = self.threshold_after_loss(true);
        }
        self.backoff = self.backoff.saturating_add(1);
        if is_tcp {
            self.cwnd = 1.0;
        }
        self.recover = self.high;
        if rules.is_selective() {
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
    pub(crate) fn observe_marks(&mut self, rules: &TcpRules, acked: u32, marked: bool) {
        let Some(gain) = rules.gain else { return };
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
            // Two packets at least, as Linux keeps: below, delayed ACKs and time-outs would stall the flow.
            self.cwnd = (self.cwnd * (1.0 - d.alpha / 2.0)).max(2.0);
            self.ssthresh = self.cwnd;
        }
    }

    #[cfg(test)]
    pub(crate) fn send_all(&mut self, rules: &TcpRules) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| self.next_segment(rules)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::TransportConfig;
    use crate::transport_rules::Extent;

    fn rules() -> TcpRules {
        TcpRules::new(&TransportConfig::new_reno(), &Extent::of_tests())
    }

    fn segments(sent: &[(u32, bool)]) -> Vec<u32> {
        sent.iter().map(|(segment, _)| *segment).collect()
    }

    #[test]
    fn slow_start_doubles_per_round() {
        let (rules, mut s) = (rules(), Sender::new(10_000, &rules()));
        let mut round = s.send_all(&rules).len();
        assert_eq!(round, 10);
        for _ in 0..4 {
            let mut sent = 0;
            for _ in 0..round {
                let ack = s.una() + 1;
                assert_eq!(s.on_ack(&rules, ack, false, 0), Reply::Continue);
                sent += s.send_all(&rules).len();
            }
            assert_eq!(sent, 2 * round);
            round = sent;
        }
    }

    #[test]
    fn three_duplicates_retransmit_once_and_halve() {
        let (rules, mut s) = (rules(), Sender::new(1000, &rules()));
        s.send_all(&rules);
        assert_eq!(s.on_ack(&rules, 1, false, 0), Reply::Continue);
        assert_eq!(segments(&s.send_all(&rules)), [10, 11]);
        assert_eq!(s.on_ack(&rules, 1, false, 0), Reply::Continue);
        assert_eq!(segments(&s.send_all(&rules)), [12], "limited transmit");
        assert_eq!(s.on_ack(&rules, 1, false, 0), Reply::Continue);
        assert_eq!(segments(&s.send_all(&rules)), [13], "limited transmit");
        assert_eq!(s.on_ack(&rules, 1, false, 0), Reply::Retransmit(1));
        assert_eq!(s.ssthresh, 6.5, "half of 13 in flight");
        assert_eq!(s.on_ack(&rules, 1, false, 0), Reply::Continue, "no second retransmit");
        // Two losses: the acknowledgement of the first is partial and retransmits the second.
        assert_eq!(s.on_ack(&rules, 5, false, 0), Reply::Retransmit(5));
        assert!(s.restarts_timer(&rules));
        assert_eq!(s.on_ack(&rules, 7, false, 0), Reply::Retransmit(7));
        assert!(!s.restarts_timer(&rules), "first partial acknowledgement only");
        assert_eq!(s.on_ack(&rules, 14, false, 0), Reply::Continue);
        assert!(!s.in_recovery && s.cwnd == 6.5);
    }

    #[test]
    fn a_timeout_goes_back_and_backs_off() {
        let (rules, mut s) = (rules(), Sender::new(1000, &rules()));
        s.send_all(&rules);
        s.on_rtt(100_000_000);
        assert_eq!(s.rto(&rules), rules.min_rto);
        assert!(s.on_timeout(&rules));
        assert_eq!(s.rto(&rules), 2 * rules.min_rto);
        assert_eq!(s.send_all(&rules), [(0, true)]);
        // Only segment 0 was lost: the acknowledgement covers everything.
        assert_eq!(s.on_ack(&rules, 10, false, 0), Reply::Continue);
        assert_eq!(s.rto(&rules), rules.min_rto);
        assert_eq!(s.send_all(&rules), [(10, false), (11, false)]);
        for _ in 0..rules.max_timeouts {
            assert!(s.on_timeout(&rules));
        }
        assert!(!s.on_timeout(&rules), "it gives up");
    }

    #[test]
    fn duplicates_after_a_timeout_are_no_new_loss() {
        let (rules, mut s) = (rules(), Sender::new(1000, &rules()));
        s.send_all(&rules);
        s.on_timeout(&rules);
        s.send_all(&rules);
        assert_eq!(s.on_ack(&rules, 2, false, 0), Reply::Continue);
        s.send_all(&rules);
        for _ in 0..5 {
            assert_eq!(s.on_ack(&rules, 2, false, 0), Reply::Continue);
        }
    }

    #[test]
    fn dctcp_reduces_by_half_its_alpha_once_per_window() {
        let rules = TcpRules::new(&TransportConfig::default(), &Extent::of_tests());
        let mut s = Sender::new(100_000, &rules);
        s.send_all(&rules);
        s.dctcp.alpha = 0.5;
        s.dctcp.window_end = 100;
        let before = s.cwnd;
        s.on_ack(&rules, 1, true, 0);
        assert!((s.cwnd - before * 0.75).abs() < 1e-9, "1 - alpha/2");
        let reduced = s.cwnd;
        s.on_ack(&rules, 2, true, 0);
        assert_eq!(s.cwnd, reduced, "once per window");
    }
}
