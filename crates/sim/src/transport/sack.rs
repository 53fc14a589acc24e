//! Senders that use more than cumulative acknowledgements: TCP with SACK (RFC 6675), IRN, the
//! `spray` transport; and RoCE's go-back-N, which is paced like IRN.
//!
//! Departures from RFC 6675: An acknowledgement names only the segment that caused it, so a lost
//! one is missing until the cumulative one passes. The optional rules 3 and 4 of NextSeg
//! (retransmitting what is not known to be lost) are left out. After a time-out everything
//! unacknowledged is retransmitted in slow start, except what SACK has seen.

use crate::flows::NEVER;
use crate::packet::stamp;
use crate::transport::cubic::Cubic;
use crate::transport::dcqcn::Dcqcn;
use crate::transport::nscc::Nscc;
use crate::transport::scoreboard::{Limits, Scoreboard};
use crate::transport::tcp::{Reply, Sender};
use crate::transport::transport_params::{CongestionParams, Recovery, TransportParams};

#[derive(Clone, Debug)]
pub(crate) struct SenderExtension {
    pub(crate) board: Scoreboard,
    pub(crate) congestion: CongestionControl,
    /// Stamp of the last time-out of a packet with its own timer.
    timed_out_at: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum CongestionControl {
    None,
    Cubic(Cubic),
    Nscc(Nscc),
    Paced(PacingState),
}

/// A paced flow. Its two deadlines share the flow's one timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacingState {
    rate: Dcqcn,
    next_send: u64,
    /// Whether the rate delays the flow longer than the interface does.
    is_waiting: bool,
    rto_at: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckInfo {
    pub(crate) ack: u32,
    pub(crate) sack: Option<u32>,
    pub(crate) is_marked: bool,
    pub(crate) is_nack: bool,
    pub(crate) is_notification: bool,
    pub(crate) sent: u32,
    pub(crate) rtt: u64,
    pub(crate) now: u64,
}

impl SenderExtension {
    pub(crate) fn new(params: &TransportParams, words: usize) -> SenderExtension {
        let words = if params.is_selective() { words } else { 1 };
        SenderExtension {
            board: Scoreboard::new(words, params.recovery == Recovery::Spray),
            congestion: CongestionControl::None,
            timed_out_at: 0,
        }
    }

    pub(crate) fn begin(&mut self, params: &TransportParams) {
        self.board.reset();
        self.timed_out_at = 0;
        self.congestion = match &params.congestion {
            CongestionParams::Reno => CongestionControl::None,
            CongestionParams::Cubic => CongestionControl::Cubic(Cubic::default()),
            CongestionParams::Nscc(params) => CongestionControl::Nscc(Nscc::new(params)),
            CongestionParams::Rate(_) => CongestionControl::Paced(PacingState {
                rate: Dcqcn::new(1),
                next_send: 0,
                is_waiting: false,
                rto_at: NEVER,
            }),
        };
    }

    fn pace(&mut self) -> Option<&mut PacingState> {
        if let CongestionControl::Paced(pace) = &mut self.congestion { Some(pace) } else { None }
    }
}

impl Sender {
    /// Returns whether a segment may be sent, for all but recovery from duplicate acknowledgements.
    pub(crate) fn extension_allows_send(&self, params: &TransportParams) -> bool {
        let Some(extension) = self.extension.as_deref() else { return false };
        if matches!(&extension.congestion, CongestionControl::Paced(pace) if pace.is_waiting) {
            return false;
        }
        let has_new = self.next < self.total && self.in_flight() < params.max_window;
        (has_new || extension.board.lost_count > 0) && extension.board.in_network(self.in_flight()) < self.cwnd as u32
    }

    #[inline]
    pub(crate) fn take_lost(&mut self) -> Option<u32> {
        self.extension.as_deref_mut().and_then(|extension| extension.board.take_lost())
    }

    pub(crate) fn on_sent(&mut self, params: &TransportParams, segment: u32, bytes: u64, now: u64, free_at: u64) {
        let Some(extension) = self.extension.as_deref_mut() else { return };
        extension.board.note_sent(segment, stamp(now));
        if let (CongestionControl::Paced(pace), CongestionParams::Rate(rate)) =
            (&mut extension.congestion, &params.congestion)
        {
            pace.next_send = now + pace.rate.gap(rate, bytes, now).max(1);
            pace.is_waiting = pace.next_send > free_at;
        }
    }

    /// Sets the rate at which a paced flow starts and which it never exceeds.
    pub(crate) fn set_line_rate(&mut self, bps: u64) {
        if let Some(pace) = self.extension.as_deref_mut().and_then(SenderExtension::pace) {
            pace.rate = Dcqcn::new(bps);
        }
    }

    /// Returns the deadline of a paced flow's timer, with that of what is in flight; else `None`.
    pub(crate) fn paced_deadline(&mut self, params: &TransportParams, now: u64) -> Option<u64> {
        let (in_flight, rto) = (self.in_flight(), self.rto(params));
        let pace = self.extension.as_deref_mut().and_then(SenderExtension::pace)?;
        if in_flight == 0 {
            pace.rto_at = NEVER;
        } else if pace.rto_at == NEVER {
            pace.rto_at = now + rto;
        }
        Some(if pace.is_waiting { pace.rto_at.min(pace.next_send) } else { pace.rto_at })
    }

    /// Handles the timer of a paced flow, which may go on. Returns whether it has timed out.
    pub(crate) fn on_paced_timer(&mut self, now: u64) -> bool {
        let Some(pace) = self.extension.as_deref_mut().and_then(SenderExtension::pace) else { return true };
        pace.is_waiting &= pace.next_send > now;
        let is_timeout = pace.rto_at <= now;
        if is_timeout {
            pace.rto_at = NEVER;
        }
        is_timeout
    }

    /// Handles a time-out with a scoreboard: all that has not arrived is lost. Returns true.
    pub(crate) fn lose_all(&mut self) -> bool {
        let (una, next) = (self.una, self.next);
        if let Some(extension) = self.extension.as_deref_mut() {
            extension.board.mark_all_lost(una, next);
            // IRN's recovery has begun; TCP's must not begin before `recover` is acknowledged.
            self.in_recovery = matches!(extension.congestion, CongestionControl::Paced(_));
        }
        true
    }

    /// Marks packets sent a time-out ago as lost. Returns their number and when to check again.
    ///
    /// Only packets sent after a time-out wait longer. Packets lost together with the one that
    /// timed out must not count as in flight ever longer, or they would fill the window.
    pub(crate) fn expire(&mut self, params: &TransportParams, now: u64) -> (u32, Option<u64>) {
        let (una, next) = (self.una, self.next);
        let repeated = self.rto(params);
        let first = repeated >> self.backoff.min(20);
        let Some(extension) = self.extension.as_deref_mut() else { return (0, None) };
        let limits = Limits { first, repeated, since: extension.timed_out_at };
        let expiry = extension.board.expire(una, next, now, &limits);
        if expiry.lost > 0 {
            self.cwnd = (self.cwnd - f64::from(expiry.lost)).max(1.0);
            if expiry.has_repeated || self.backoff == 0 {
                extension.timed_out_at = stamp(now);
                self.backoff = self.backoff.saturating_add(1);
                self.consecutive_timeouts = self.consecutive_timeouts.saturating_add(1);
            }
        }
        // Checking every packet each sixteenth of a time-out is precise enough, and cheap.
        (expiry.lost, expiry.left.map(|left| now + left.max(first / 16).max(1)))
    }

    /// Handles an acknowledgement. Returns also the number of segments it is the first to name.
    pub(crate) fn on_selective_ack(&mut self, params: &TransportParams, arrived: &AckInfo) -> (Reply, u32) {
        let Some(mut extension) = self.extension.take() else { return (Reply::Continue, 0) };
        if arrived.is_notification
            && let (CongestionControl::Paced(pace), CongestionParams::Rate(rate)) =
                (&mut extension.congestion, &params.congestion)
        {
            pace.rate.on_notification(rate, arrived.now);
        }
        let has_advanced = arrived.ack > self.una;
        if has_advanced && let Some(pace) = extension.pace() {
            pace.rto_at = NEVER;
        }
        let acked = self.note_arrivals(params, &mut extension, arrived);
        if acked > 0 {
            self.backoff = 0;
            self.consecutive_timeouts = 0;
        }
        self.extension = Some(extension);
        if self.una >= self.total {
            return (Reply::Finished, acked);
        }
        let reply = match params.recovery {
            Recovery::Cumulative => Reply::Continue,
            Recovery::Sack => self.after_sack(params, arrived, has_advanced, acked),
            Recovery::GoBackN => self.after_go_back(arrived),
            Recovery::Selective => self.after_irn(params),
            Recovery::Spray => self.after_spray(params, arrived, acked),
        };
        (reply, acked)
    }

    fn note_arrivals(&mut self, params: &TransportParams, extension: &mut SenderExtension, arrived: &AckInfo) -> u32 {
        let mut acked = 0;
        if arrived.ack > self.una {
            acked = match params.recovery {
                Recovery::GoBackN => arrived.ack - self.una,
                _ => extension.board.advance(self.una, arrived.ack),
            };
            self.una = arrived.ack;
            self.next = self.next.max(arrived.ack);
        }
        match arrived.sack {
            Some(segment) if !arrived.is_nack && (self.una..self.next).contains(&segment) => {
                acked + u32::from(extension.board.acknowledge(segment))
            }
            _ => acked,
        }
    }

    fn find_lost(&mut self, threshold: u32, cause: u32) -> u32 {
        self.extension.as_deref_mut().map_or(0, |extension| extension.board.find_lost(threshold, cause))
    }

    fn has_lost(&self) -> bool {
        self.extension.as_deref().is_some_and(|extension| extension.board.lost_count > 0)
    }

    /// Updates the recovery state after a selective acknowledgement (RFC 6675 §5).
    fn after_sack(&mut self, params: &TransportParams, arrived: &AckInfo, has_advanced: bool, acked: u32) -> Reply {
        self.observe_marks(params, acked, arrived.is_marked);
        self.find_lost(params.dup_ack_threshold, 0);
        if self.in_recovery && self.una >= self.recover {
            self.in_recovery = false;
            self.cwnd = self.ssthresh;
            return Reply::Continue;
        }
        if !self.in_recovery && self.una >= self.recover && self.has_lost() {
            self.ssthresh = self.threshold_after_loss(false);
            self.cwnd = self.ssthresh;
            self.recover = self.next;
            self.in_recovery = true;
            return self.take_lost().map_or(Reply::Continue, Reply::Retransmit);
        }
        if has_advanced && !self.in_recovery && (!arrived.is_marked || params.gain.is_none()) {
            self.grow(params, acked, arrived.now);
        }
        Reply::Continue
    }

    fn after_go_back(&mut self, arrived: &AckInfo) -> Reply {
        // One from before the last step back names a segment already passed or retransmitted.
        if !arrived.is_nack || arrived.ack != self.una || self.next == self.una {
            return Reply::Continue;
        }
        self.next = self.una;
        Reply::LossNoticed
    }

    fn after_irn(&mut self, params: &TransportParams) -> Reply {
        self.find_lost(params.dup_ack_threshold, 0);
        if self.in_recovery && self.una >= self.recover {
            self.in_recovery = false;
        }
        if !self.in_recovery && self.has_lost() {
            self.in_recovery = true;
            self.recover = self.next;
            return Reply::LossNoticed;
        }
        Reply::Continue
    }

    fn after_spray(&mut self, params: &TransportParams, arrived: &AckInfo, acked: u32) -> Reply {
        let CongestionParams::Nscc(congestion) = &params.congestion else { return Reply::Continue };
        let Some(extension) = self.extension.as_deref_mut() else { return Reply::Continue };
        if arrived.is_nack {
            let Some(segment) = arrived.sack.filter(|segment| (self.una..self.next).contains(segment)) else {
                return Reply::Continue;
            };
            // A trimmed older copy implies nothing about the copy in flight.
            if extension.board.stamp_of(segment).is_some_and(|sent| sent != arrived.sent)
                || !extension.board.mark_lost(segment)
            {
                return Reply::Continue;
            }
            self.consecutive_timeouts = 0;
            self.cwnd = (self.cwnd - 1.0).max(1.0);
            return Reply::Trimmed;
        }
        if acked > 0
            && let CongestionControl::Nscc(nscc) = &mut extension.congestion
        {
            self.cwnd = nscc.on_ack(self.cwnd, congestion, arrived.is_marked, arrived.rtt);
        }
        let lost = extension.board.find_lost(params.dup_ack_threshold, arrived.sent);
        if lost == 0 {
            return Reply::Continue;
        }
        self.cwnd = (self.cwnd - f64::from(lost)).max(1.0);
        Reply::LossNoticed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{RdmaRecovery, TransportConfig};
    use crate::transport::transport_params::NetworkScale;

    fn start(config: &TransportConfig) -> (TransportParams, Sender) {
        let params = TransportParams::new(config, &NetworkScale::of_tests());
        let mut sender = Sender::new(1000, &params);
        let mut extension = Box::new(SenderExtension::new(&params, 32));
        extension.begin(&params);
        sender.extension = Some(extension);
        sender.set_line_rate(10_000_000_000);
        (params, sender)
    }

    fn sack(ack: u32, sack: u32) -> AckInfo {
        AckInfo { ack, sack: (sack > 0).then_some(sack), rtt: 100_000_000, ..AckInfo::default() }
    }

    fn sent(sender: &mut Sender, params: &TransportParams) -> Vec<u32> {
        sender.send_all(params).iter().map(|(segment, _)| *segment).collect()
    }

    #[test]
    fn three_holes_are_filled_within_one_round_trip() {
        let (params, mut s) = start(&TransportConfig { sack: true, ..TransportConfig::new_reno() });
        s.cwnd = 20.0;
        assert_eq!(sent(&mut s, &params).len(), 20);
        // 0, 5 and 6 are lost.
        for segment in [1, 2] {
            assert_eq!(s.on_selective_ack(&params, &sack(0, segment)), (Reply::Continue, 1));
        }
        assert_eq!(sent(&mut s, &params), [20, 21], "segments that left the network allow new ones");
        assert_eq!(s.on_selective_ack(&params, &sack(0, 3)), (Reply::Retransmit(0), 1));
        assert_eq!((s.ssthresh, s.cwnd), (11.0, 11.0), "half of 22 in flight");
        for segment in (4..20).filter(|s| ![4, 5, 6].contains(s)) {
            s.on_selective_ack(&params, &sack(0, segment));
        }
        s.on_selective_ack(&params, &sack(0, 4));
        // Arrived: 16 of 22; 5 and 6 are lost; in flight: 20, 21 and 0 again.
        let again = sent(&mut s, &params);
        assert_eq!(again[..2], [5, 6], "holes first");
        assert_eq!(again[2..], [22, 23, 24, 25, 26, 27], "then new ones, to a window of 11");
        assert_eq!(s.on_selective_ack(&params, &sack(5, 0)).0, Reply::Continue, "no second reduction");
        s.on_selective_ack(&params, &sack(22, 0));
        assert!(!s.in_recovery && s.cwnd == 11.0);
    }

    #[test]
    fn a_time_out_sends_again_only_what_did_not_arrive() {
        let (params, mut s) = start(&TransportConfig::cubic());
        sent(&mut s, &params);
        for segment in [4, 5] {
            s.on_selective_ack(&params, &sack(0, segment));
        }
        sent(&mut s, &params);
        assert!(s.on_timeout(&params));
        assert_eq!(s.cwnd, 1.0);
        assert_eq!(sent(&mut s, &params), [0]);
        s.on_selective_ack(&params, &sack(1, 0));
        assert_eq!(sent(&mut s, &params), [1, 2], "slow start");
        s.on_selective_ack(&params, &sack(2, 0));
        s.on_selective_ack(&params, &sack(3, 0));
        assert_eq!(sent(&mut s, &params), [3, 6, 7, 8], "4 and 5 have arrived");
    }

    #[test]
    fn cubic_leaves_seven_tenths() {
        let (params, mut s) = start(&TransportConfig::cubic());
        s.cwnd = 100.0;
        sent(&mut s, &params);
        for segment in [1, 2, 3] {
            s.on_selective_ack(&params, &sack(0, segment));
        }
        assert!(s.in_recovery && s.cwnd == 70.0, "{}", s.cwnd);
    }

    #[test]
    fn go_back_n_goes_back_once_per_gap() {
        let (params, mut s) = start(&TransportConfig::rdma(RdmaRecovery::GoBackN));
        s.total = 10;
        assert_eq!(sent(&mut s, &params).len(), 10, "no window");
        let nack = AckInfo { is_nack: true, ..sack(4, 0) };
        assert_eq!(s.on_selective_ack(&params, &nack), (Reply::LossNoticed, 4));
        assert_eq!(s.send_all(&params).first(), Some(&(4, true)));
        assert_eq!(s.on_selective_ack(&params, &AckInfo { ack: 3, ..nack }).0, Reply::Continue, "an old one");
    }

    #[test]
    fn irn_retransmits_what_was_overtaken_and_keeps_its_window() {
        let (params, mut s) = start(&TransportConfig::rdma(RdmaRecovery::Selective));
        sent(&mut s, &params);
        assert_eq!(s.on_selective_ack(&params, &sack(0, 2)), (Reply::LossNoticed, 1));
        assert_eq!(sent(&mut s, &params), [0, 1]);
        assert_eq!(s.on_selective_ack(&params, &sack(0, 3)), (Reply::Continue, 1), "once each");
        assert!(sent(&mut s, &params).is_empty() && s.cwnd.is_infinite());
    }

    #[test]
    fn a_notification_slows_the_next_packets_down() {
        let (params, mut s) = start(&TransportConfig::rdma(RdmaRecovery::GoBackN));
        assert!(s.next_segment(&params).is_some());
        s.on_sent(&params, 0, 1500, 0, 1_200_000);
        assert!(s.can_send(&params), "at line rate only the interface limits it");
        s.on_selective_ack(&params, &AckInfo { is_notification: true, ..sack(0, 0) });
        assert!(s.next_segment(&params).is_some());
        s.on_sent(&params, 1, 1500, 1_200_000, 2_400_000);
        assert!(!s.can_send(&params), "half the rate");
        assert_eq!(s.paced_deadline(&params, 1_200_000), Some(3_600_000));
        assert!(!s.on_paced_timer(3_600_000) && s.can_send(&params));
    }

    #[test]
    fn a_trimmed_packet_is_sent_again_and_costs_one() {
        let (params, mut s) = start(&TransportConfig::spray());
        assert_eq!(sent(&mut s, &params).len(), 100, "one bandwidth-delay product");
        let nack = AckInfo { is_nack: true, ..sack(0, 7) };
        assert_eq!(s.on_selective_ack(&params, &nack), (Reply::Trimmed, 0));
        assert_eq!(s.on_selective_ack(&params, &nack).0, Reply::Continue, "known");
        assert_eq!(s.cwnd, 99.0);
        s.on_selective_ack(&params, &sack(1, 0));
        assert_eq!(sent(&mut s, &params), [7]);
    }

    #[test]
    fn spray_times_packets_one_by_one() {
        let (params, mut s) = start(&TransportConfig::spray());
        for (segment, at) in [(0, 0u64), (1, 50_000_000)] {
            s.next_segment(&params);
            s.on_sent(&params, segment, 1500, at, 0);
        }
        let timeout = s.rto(&params);
        assert_eq!(timeout, params.min_rto);
        let (expired, again) = s.expire(&params, timeout + 16_384);
        assert_eq!(expired, 1);
        assert!(again.is_some_and(|at| at > timeout + 16_384), "the other is still in flight");
        assert_eq!(s.take_lost(), Some(0));
    }

    #[test]
    fn packets_lost_together_do_not_wait_for_each_other() {
        let (params, mut s) = start(&TransportConfig::spray());
        // Eight packets, 10 us apart, all lost: no acknowledgement ever arrives.
        for segment in 0..8u64 {
            s.next_segment(&params);
            s.on_sent(&params, segment as u32, 1500, segment * 10_000_000, 0);
        }
        s.cwnd = 8.0;
        let (mut at, mut lost) = (params.min_rto, 0);
        while lost < 8 {
            let (expired, again) = s.expire(&params, at);
            lost += expired;
            at = again.unwrap_or(at);
        }
        assert!(at < params.min_rto + 200_000_000, "all within one time-out: {at}");
        assert_eq!((s.consecutive_timeouts, s.cwnd), (1, 1.0), "one time-out, not eight");
    }
}
