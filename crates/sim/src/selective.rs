//! Senders that know more than a cumulative acknowledgement: TCP with SACK (RFC 6675), IRN, the `spray` transport; and
//! RoCE's go-back-n, which is paced like IRN.
//!
//! Departures from RFC 6675: an acknowledgement names only the segment that caused it, so a lost one is forgotten until
//! the cumulative one passes; the optional rules 3 and 4 of NextSeg (sending again what is not known to be lost) are left
//! out; after a time-out everything unacknowledged is lost and sent again in slow start, except what SACK has seen.

use crate::board::{Board, Limits};
use crate::cubic::Cubic;
use crate::dcqcn::Dcqcn;
use crate::flows::NEVER;
use crate::nscc::Nscc;
use crate::packet::stamp;
use crate::tcp::{Reply, Sender};
use crate::transport_rules::{LawRules, Recovery, TcpRules};

/// State beyond that of NewReno and DCTCP.
#[derive(Clone, Debug)]
pub(crate) struct More {
    board: Board,
    pub(crate) law: Law,
    /// Stamp of the last time-out of a packet timed by itself.
    timed_out_at: u32,
}

/// State of the law of window or rate.
#[derive(Clone, Debug)]
pub(crate) enum Law {
    None,
    Cubic(Cubic),
    Nscc(Nscc),
    Paced(Pace),
}

/// A paced flow. Its two deadlines share the flow's one timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    rate: Dcqcn,
    /// When the next packet may begin.
    next_send: u64,
    /// It may not yet, and the interface would be free before.
    is_waiting: bool,
    /// Deadline of the retransmission timer.
    rto_at: u64,
}

/// What an acknowledgement tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// Next segment the receiver expects.
    pub(crate) ack: u32,
    /// Segment above it that caused this.
    pub(crate) sack: Option<u32>,
    pub(crate) is_marked: bool,
    pub(crate) is_nack: bool,
    pub(crate) is_notification: bool,
    /// When the packet that caused it was sent, as it was stamped.
    pub(crate) sent: u32,
    pub(crate) rtt: u64,
    pub(crate) now: u64,
}

impl More {
    /// State for the flows of a run whose windows take `words` words of bits.
    pub(crate) fn new(rules: &TcpRules, words: usize) -> More {
        let words = if rules.is_selective() { words } else { 1 };
        More { board: Board::new(words, rules.recovery == Recovery::Spray), law: Law::None, timed_out_at: 0 }
    }

    /// Begins another flow.
    pub(crate) fn begin(&mut self, rules: &TcpRules) {
        self.board.reset();
        self.timed_out_at = 0;
        self.law = match &rules.law {
            LawRules::Reno => Law::None,
            LawRules::Cubic => Law::Cubic(Cubic::default()),
            LawRules::Nscc(rules) => Law::Nscc(Nscc::new(rules)),
            LawRules::Rate(_) => {
                Law::Paced(Pace { rate: Dcqcn::new(1), next_send: 0, is_waiting: false, rto_at: NEVER })
            }
        };
    }

    /// Nothing is to be sent again.
    pub(crate) fn forget(&mut self) {
        self.board.reset();
    }

    fn pace(&mut self) -> Option<&mut Pace> {
        match &mut self.law {
            Law::Paced(pace) => Some(pace),
            _ => None,
        }
    }
}

impl Sender {
    /// Whether a segment may go out, for all but recovery from duplicate acknowledgements.
    pub(crate) fn can_send_more(&self, rules: &TcpRules) -> bool {
        let Some(more) = self.more.as_deref() else { return false };
        if matches!(&more.law, Law::Paced(pace) if pace.is_waiting) {
            return false;
        }
        let has_new = self.next < self.total && self.in_flight() < rules.max_window;
        (has_new || more.board.lost() > 0) && more.board.in_network(self.in_flight()) < self.cwnd as u32
    }

    /// The lowest lost segment, now to be sent again.
    #[inline]
    pub(crate) fn take_lost(&mut self) -> Option<u32> {
        self.more.as_deref_mut().and_then(|more| more.board.take_lost())
    }

    /// A segment was handed to the interface, which is free again at `free_at`.
    pub(crate) fn on_sent(&mut self, rules: &TcpRules, segment: u32, bytes: u64, now: u64, free_at: u64) {
        let Some(more) = self.more.as_deref_mut() else { return };
        more.board.note_sent(segment, stamp(now));
        if let (Law::Paced(pace), LawRules::Rate(rate)) = (&mut more.law, &rules.law) {
            pace.next_send = now + pace.rate.gap(rate, bytes, now).max(1);
            pace.is_waiting = pace.next_send > free_at;
        }
    }

    /// The rate a paced flow starts at and never exceeds.
    pub(crate) fn set_line_rate(&mut self, bps: u64) {
        if let Some(pace) = self.more.as_deref_mut().and_then(More::pace) {
            pace.rate = Dcqcn::new(bps);
        }
    }

    /// The deadline of a paced flow's timer, with its retransmission timer running if anything is in flight; `None` if
    /// the flow is not paced.
    pub(crate) fn paced_deadline(&mut self, rules: &TcpRules, now: u64) -> Option<u64> {
        let (in_flight, rto) = (self.in_flight(), self.rto(rules));
        let pace = self.more.as_deref_mut().and_then(More::pace)?;
        if in_flight == 0 {
            pace.rto_at = NEVER;
        } else if pace.rto_at == NEVER {
            pace.rto_at = now + rto;
        }
        Some(if pace.is_waiting { pace.rto_at.min(pace.next_send) } else { pace.rto_at })
    }

    /// The timer of a paced flow came up: lets the next packet go, and answers whether the flow has timed out.
    pub(crate) fn on_paced_timer(&mut self, now: u64) -> bool {
        let Some(pace) = self.more.as_deref_mut().and_then(More::pace) else { return true };
        pace.is_waiting &= pace.next_send > now;
        let is_timeout = pace.rto_at <= now;
        if is_timeout {
            pace.rto_at = NEVER;
        }
        is_timeout
    }

    /// A time-out of a flow with a scoreboard: what has not arrived is lost. Answers true: the flow goes on.
    pub(crate) fn lose_all(&mut self) -> bool {
        let (una, next) = (self.una, self.next);
        if let Some(more) = self.more.as_deref_mut() {
            more.board.mark_all_lost(una, next);
            // IRN's recovery has begun; TCP's must not before `recover` is acknowledged.
            self.in_recovery = matches!(more.law, Law::Paced(_));
        }
        true
    }

    /// Packets timed one by one: marks as lost those sent a time-out ago. Answers how many, and when to look again for
    /// those still on their way.
    ///
    /// Only what is sent after a time-out waits longer: what was lost with the packet that timed out must not be taken for
    /// under way ever longer, or it would fill the window.
    pub(crate) fn expire(&mut self, rules: &TcpRules, now: u64) -> (u32, Option<u64>) {
        let (una, next) = (self.una, self.next);
        let repeated = self.rto(rules);
        let first = repeated >> self.backoff.min(20);
        let Some(more) = self.more.as_deref_mut() else { return (0, None) };
        let limits = Limits { first, repeated, since: more.timed_out_at };
        let expiry = more.board.expire(una, next, now, &limits);
        if expiry.lost > 0 {
            self.cwnd = (self.cwnd - f64::from(expiry.lost)).max(1.0);
            if expiry.has_repeated || self.backoff == 0 {
                more.timed_out_at = stamp(now);
                self.backoff = self.backoff.saturating_add(1);
                self.consecutive_timeouts = self.consecutive_timeouts.saturating_add(1);
            }
        }
        // A look at every packet each sixteenth of a time-out is precise enough, and cheap.
        (expiry.lost, expiry.left.map(|left| now + left.max(first / 16).max(1)))
    }

    /// An acknowledgement, for all but recovery from duplicate ones. Answers also how many segments it is the first to
    /// acknowledge.
    pub(crate) fn on_selective_ack(&mut self, rules: &TcpRules, arrived: &Arrived) -> (Reply, u32) {
        let Some(mut more) = self.more.take() else { return (Reply::Continue, 0) };
        if arrived.is_notification
            && let (Law::Paced(pace), LawRules::Rate(rate)) = (&mut more.law, &rules.law)
        {
            pace.rate.on_notification(rate, arrived.now);
        }
        let has_advanced = arrived.ack > self.una;
        if has_advanced && let Some(pace) = more.pace() {
            pace.rto_at = NEVER;
        }
        let acked = self.note_arrivals(rules, &mut more, arrived);
        if acked > 0 {
            self.backoff = 0;
            self.consecutive_timeouts = 0;
        }
        self.more = Some(more);
        if self.una >= self.total {
            return (Reply::Finished, acked);
        }
        let reply = match rules.recovery {
            Recovery::Cumulative => Reply::Continue,
            Recovery::Sack => self.after_sack(rules, arrived, has_advanced, acked),
            Recovery::GoBackN => self.after_go_back(arrived),
            Recovery::Selective => self.after_irn(rules),
            Recovery::Spray => self.after_spray(rules, arrived, acked),
        };
        (reply, acked)
    }

    fn note_arrivals(&mut self, rules: &TcpRules, more: &mut More, arrived: &Arrived) -> u32 {
        let mut acked = 0;
        if arrived.ack > self.una {
            acked = match rules.recovery {
                Recovery::GoBackN => arrived.ack - self.una,
                _ => more.board.advance(self.una, arrived.ack),
            };
            self.una = arrived.ack;
            self.next = self.next.max(arrived.ack);
        }
        match arrived.sack {
            Some(segment) if !arrived.is_nack && (self.una..self.next).contains(&segment) => {
                acked + u32::from(more.board.acknowledge(segment))
            }
            _ => acked,
        }
    }

    fn find_lost(&mut self, threshold: u32, cause: u32) -> u32 {
        self.more.as_deref_mut().map_or(0, |more| more.board.find_lost(threshold, cause))
    }

    fn has_lost(&self) -> bool {
        self.more.as_deref().is_some_and(|more| more.board.lost() > 0)
    }

    /// RFC 6675 §5.
    fn after_sack(&mut self, rules: &TcpRules, arrived: &Arrived, has_advanced: bool, acked: u32) -> Reply {
        self.observe_marks(rules, acked, arrived.is_marked);
        self.find_lost(rules.dup_ack_threshold, 0);
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
        if has_advanced && !self.in_recovery && (!arrived.is_marked || rules.gain.is_none()) {
            self.grow(rules, acked, arrived.now);
        }
        Reply::Continue
    }

    fn after_go_back(&mut self, arrived: &Arrived) -> Reply {
        // One from before the last step back names a segment already passed or already being sent again.
        if !arrived.is_nack || arrived.ack != self.una || self.next == self.una {
            return Reply::Continue;
        }
        self.next = self.una;
        Reply::LossNoticed
    }

    fn after_irn(&mut self, rules: &TcpRules) -> Reply {
        self.find_lost(rules.dup_ack_threshold, 0);
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

    fn after_spray(&mut self, rules: &TcpRules, arrived: &Arrived, acked: u32) -> Reply {
        let LawRules::Nscc(law) = &rules.law else { return Reply::Continue };
        let Some(more) = self.more.as_deref_mut() else { return Reply::Continue };
        if arrived.is_nack {
            let Some(segment) = arrived.sack.filter(|segment| (self.una..self.next).contains(segment)) else {
                return Reply::Continue;
            };
            // An older copy that was trimmed says nothing about the one on its way.
            if !more.board.is_latest(segment, arrived.sent) || !more.board.mark_lost(segment) {
                return Reply::Continue;
            }
            self.consecutive_timeouts = 0;
            self.cwnd = (self.cwnd - 1.0).max(1.0);
            return Reply::Trimmed;
        }
        if acked > 0
            && let Law::Nscc(nscc) = &mut more.law
        {
            self.cwnd = nscc.on_ack(self.cwnd, law, arrived.is_marked, arrived.rtt);
        }
        let lost = more.board.find_lost(rules.dup_ack_threshold, arrived.sent);
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
    use crate::transport_rules::Extent;

    fn start(config: &TransportConfig) -> (TcpRules, Sender) {
        let rules = TcpRules::new(config, &Extent::of_tests());
        let mut sender = Sender::new(1000, &rules);
        let mut more = Box::new(More::new(&rules, 32));
        more.begin(&rules);
        sender.more = Some(more);
        sender.set_line_rate(10_000_000_000);
        (rules, sender)
    }

    fn sack(ack: u32, sack: u32) -> Arrived {
        let sack = (sack > 0).then_some(sack);
        Arrived {
            ack,
            sack,
            is_marked: false,
            is_nack: false,
            is_notification: false,
            sent: 0,
            rtt: 100_000_000,
            now: 0,
        }
    }

    fn sent(sender: &mut Sender, rules: &TcpRules) -> Vec<u32> {
        sender.send_all(rules).iter().map(|(segment, _)| *segment).collect()
    }

    #[test]
    fn three_holes_are_filled_within_one_round_trip() {
        let (rules, mut s) = start(&TransportConfig { sack: true, ..TransportConfig::new_reno() });
        s.cwnd = 20.0;
        assert_eq!(sent(&mut s, &rules).len(), 20);
        // 0, 5 and 6 are lost.
        for segment in [1, 2] {
            assert_eq!(s.on_selective_ack(&rules, &sack(0, segment)), (Reply::Continue, 1));
        }
        assert_eq!(sent(&mut s, &rules), [20, 21], "what has left the network lets new segments in");
        assert_eq!(s.on_selective_ack(&rules, &sack(0, 3)), (Reply::Retransmit(0), 1));
        assert_eq!((s.ssthresh, s.cwnd), (11.0, 11.0), "half of 22 in flight");
        for segment in (4..20).filter(|s| ![4, 5, 6].contains(s)) {
            s.on_selective_ack(&rules, &sack(0, segment));
        }
        s.on_selective_ack(&rules, &sack(0, 4));
        // Arrived: 16 of 22; 5 and 6 are lost; on the way: 20, 21 and 0 again.
        let again = sent(&mut s, &rules);
        assert_eq!(again[..2], [5, 6], "holes first");
        assert_eq!(again[2..], [22, 23, 24, 25, 26, 27], "then new ones, to a window of 11");
        assert_eq!(s.on_selective_ack(&rules, &sack(5, 0)).0, Reply::Continue, "no second reduction");
        s.on_selective_ack(&rules, &sack(22, 0));
        assert!(!s.in_recovery && s.cwnd == 11.0);
    }

    #[test]
    fn a_time_out_sends_again_only_what_did_not_arrive() {
        let (rules, mut s) = start(&TransportConfig::cubic());
        sent(&mut s, &rules);
        for segment in [4, 5] {
            s.on_selective_ack(&rules, &sack(0, segment));
        }
        sent(&mut s, &rules);
        assert!(s.on_timeout(&rules));
        assert_eq!(s.cwnd, 1.0);
        assert_eq!(sent(&mut s, &rules), [0]);
        s.on_selective_ack(&rules, &sack(1, 0));
        assert_eq!(sent(&mut s, &rules), [1, 2], "slow start");
        s.on_selective_ack(&rules, &sack(2, 0));
        s.on_selective_ack(&rules, &sack(3, 0));
        assert_eq!(sent(&mut s, &rules), [3, 6, 7, 8], "4 and 5 have arrived");
    }

    #[test]
    fn cubic_leaves_seven_tenths() {
        let (rules, mut s) = start(&TransportConfig::cubic());
        s.cwnd = 100.0;
        sent(&mut s, &rules);
        for segment in [1, 2, 3] {
            s.on_selective_ack(&rules, &sack(0, segment));
        }
        assert!(s.in_recovery && s.cwnd == 70.0, "{}", s.cwnd);
    }

    #[test]
    fn go_back_n_goes_back_once_per_gap() {
        let (rules, mut s) = start(&TransportConfig::rdma(RdmaRecovery::GoBackN));
        s.total = 10;
        assert_eq!(sent(&mut s, &rules).len(), 10, "no window");
        let nack = Arrived { is_nack: true, ..sack(4, 0) };
        assert_eq!(s.on_selective_ack(&rules, &nack), (Reply::LossNoticed, 4));
        assert_eq!(s.send_all(&rules).first(), Some(&(4, true)));
        assert_eq!(s.on_selective_ack(&rules, &Arrived { ack: 3, ..nack }).0, Reply::Continue, "an old one");
    }

    #[test]
    fn irn_retransmits_what_was_overtaken_and_keeps_its_window() {
        let (rules, mut s) = start(&TransportConfig::rdma(RdmaRecovery::Selective));
        sent(&mut s, &rules);
        assert_eq!(s.on_selective_ack(&rules, &sack(0, 2)), (Reply::LossNoticed, 1));
        assert_eq!(sent(&mut s, &rules), [0, 1]);
        assert_eq!(s.on_selective_ack(&rules, &sack(0, 3)), (Reply::Continue, 1), "once each");
        assert!(sent(&mut s, &rules).is_empty() && s.cwnd.is_infinite());
    }

    #[test]
    fn a_notification_slows_the_next_packets_down() {
        let (rules, mut s) = start(&TransportConfig::rdma(RdmaRecovery::GoBackN));
        assert!(s.next_segment(&rules).is_some());
        s.on_sent(&rules, 0, 1500, 0, 1_200_000);
        assert!(s.can_send(&rules), "at line rate only the interface holds it back");
        s.on_selective_ack(&rules, &Arrived { is_notification: true, ..sack(0, 0) });
        assert!(s.next_segment(&rules).is_some());
        s.on_sent(&rules, 1, 1500, 1_200_000, 2_400_000);
        assert!(!s.can_send(&rules), "half the rate");
        assert_eq!(s.paced_deadline(&rules, 1_200_000), Some(3_600_000));
        assert!(!s.on_paced_timer(3_600_000) && s.can_send(&rules));
    }

    #[test]
    fn a_trimmed_packet_is_sent_again_and_costs_one() {
        let (rules, mut s) = start(&TransportConfig::spray());
        assert_eq!(sent(&mut s, &rules).len(), 100, "one product at once");
        let nack = Arrived { is_nack: true, ..sack(0, 7) };
        assert_eq!(s.on_selective_ack(&rules, &nack), (Reply::Trimmed, 0));
        assert_eq!(s.on_selective_ack(&rules, &nack).0, Reply::Continue, "known");
        assert_eq!(s.cwnd, 99.0);
        s.on_selective_ack(&rules, &sack(1, 0));
        assert_eq!(sent(&mut s, &rules), [7]);
    }

    #[test]
    fn spray_times_packets_one_by_one() {
        let (rules, mut s) = start(&TransportConfig::spray());
        for (segment, at) in [(0, 0u64), (1, 50_000_000)] {
            s.next_segment(&rules);
            s.on_sent(&rules, segment, 1500, at, 0);
        }
        let timeout = s.rto(&rules);
        assert_eq!(timeout, rules.min_rto);
        let (expired, again) = s.expire(&rules, timeout + 16_384);
        assert_eq!(expired, 1);
        assert!(again.is_some_and(|at| at > timeout + 16_384), "the other is still on its way");
        assert_eq!(s.take_lost(), Some(0));
    }

    #[test]
    fn packets_lost_together_do_not_wait_for_each_other() {
        let (rules, mut s) = start(&TransportConfig::spray());
        // Eight packets, 10 us apart, all lost: nothing ever comes back.
        for segment in 0..8u64 {
            s.next_segment(&rules);
            s.on_sent(&rules, segment as u32, 1500, segment * 10_000_000, 0);
        }
        s.cwnd = 8.0;
        let (mut at, mut lost) = (rules.min_rto, 0);
        while lost < 8 {
            let (expired, again) = s.expire(&rules, at);
            lost += expired;
            at = again.unwrap_or(at);
        }
        assert!(at < rules.min_rto + 200_000_000, "all within a time-out of their own: {at}");
        assert_eq!((s.consecutive_timeouts, s.cwnd), (1, 1.0), "one time-out, not eight");
    }
}
