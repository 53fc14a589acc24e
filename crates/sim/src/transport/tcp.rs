//! TCP senders: recovery from duplicate acknowledgements (RFC 6582, 3042) or from selective ones
//! (RFC 6675), with any congestion control. There is no idle restart.
//!
//! Departures from RFC 6675: An acknowledgement names only the segment that caused it, so a lost
//! one is missing until the cumulative one passes. The optional rules 3 and 4 of NextSeg
//! (retransmitting what is not known to be lost) are left out. After a time-out everything
//! unacknowledged is retransmitted in slow start, except what SACK has seen.

use crate::transport::params::TransportParams;
use crate::transport::scoreboard::Scoreboard;
use crate::transport::sender::{AckInfo, Growth, Reply, SendState};
use crate::transport::{SenderEnv, Sending};

/// The keys of `[transport]` that all TCP variants read.
pub(crate) const KEYS: &[&str] = &[
    "initial_window",
    "min_rto",
    "sack",
    "dup_ack_threshold",
    "limited_transmit",
    "ack_every",
    "ack_timeout",
    "handshake",
];

/// How a TCP variant sets its window. The methods have NewReno's behaviour unless it says otherwise.
pub(crate) trait CongestionControl {
    /// Whether an acknowledgement that echoes a mark lets the window grow.
    const GROWS_WHEN_MARKED: bool = true;

    /// Begins a flow, perhaps after another one.
    fn begin(&mut self) {}

    /// Handles the echo of a mark, or its absence, for `acked` more segments.
    #[inline]
    fn on_marks(&mut self, _state: &mut SendState, _acked: u32, _is_marked: bool) {}

    /// Lets the window grow in slow start, after one acknowledgement; it may end slow start. `rtt` is
    /// in picoseconds.
    #[inline]
    fn grow_fast(&mut self, state: &mut SendState, _rtt: u64) {
        state.cwnd += 1.0;
    }

    /// Lets the window grow in congestion avoidance, after one acknowledgement of `acked` segments.
    #[inline]
    fn grow(&mut self, state: &mut SendState, _params: &TransportParams, _acked: u32, _now: u64) {
        state.cwnd += 1.0 / state.cwnd;
    }

    /// Returns the slow-start threshold after a loss, segments.
    fn threshold_after_loss(&mut self, state: &SendState, _is_timeout: bool) -> f64 {
        (f64::from(state.in_flight()) / 2.0).max(2.0)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tcp<C> {
    pub(crate) control: C,
    dup_acks: u32,
    /// Segments beyond the window that limited transmit allows.
    extra: u32,
    /// Partial acknowledgements of the current recovery.
    partial_acks: u32,
    /// What selective acknowledgements have named, if the flow uses them.
    board: Option<Box<Scoreboard>>,
}

impl<C: CongestionControl> Tcp<C> {
    pub(crate) fn new(control: C, env: &SenderEnv<'_>) -> Tcp<C> {
        let board = env.config.sack.then(|| Box::new(Scoreboard::new(env.words, false)));
        Tcp { control, dup_acks: 0, extra: 0, partial_acks: 0, board }
    }

    #[inline]
    fn has_space(&self, state: &SendState, params: &TransportParams) -> bool {
        state.in_flight() < (state.cwnd as u32 + self.extra).min(params.max_window)
    }

    fn on_cumulative_ack(&mut self, state: &mut SendState, params: &TransportParams, arrived: &AckInfo) -> Reply {
        if arrived.ack > state.una {
            return self.on_new_ack(state, params, arrived);
        }
        if arrived.ack < state.una || state.in_flight() == 0 {
            return Reply::Continue;
        }
        if arrived.is_marked {
            self.control.on_marks(state, 0, true);
        }
        self.on_duplicate_ack(state, params)
    }

    fn on_new_ack(&mut self, state: &mut SendState, params: &TransportParams, arrived: &AckInfo) -> Reply {
        let (ack, acked) = (arrived.ack, arrived.ack - state.una);
        state.advance(ack);
        state.end_timeouts();
        self.extra = 0;
        if state.is_finished() {
            return Reply::Finished;
        }
        self.control.on_marks(state, acked, arrived.is_marked);
        if state.in_recovery {
            if ack >= state.recover {
                state.in_recovery = false;
                self.dup_acks = 0;
                state.cwnd = state.ssthresh;
                return Reply::Continue;
            }
            // Partial: the next hole is lost too; deflate by what was acknowledged (RFC 6582 §3.2).
            state.cwnd = (state.cwnd - f64::from(acked) + 1.0).max(1.0);
            self.partial_acks += 1;
            return Reply::Retransmit { segment: ack, is_new: false };
        }
        self.dup_acks = 0;
        self.grow(state, params, arrived, acked);
        Reply::Continue
    }

    /// Applies the growth of one acknowledgement: 1 in slow start, then that of the variant.
    #[inline]
    fn grow(&mut self, state: &mut SendState, params: &TransportParams, arrived: &AckInfo, acked: u32) {
        if arrived.is_marked && !C::GROWS_WHEN_MARKED {
            return;
        }
        match state.growth {
            Growth::Own | Growth::Coupled(_) if state.cwnd < state.ssthresh => {
                self.control.grow_fast(state, arrived.rtt);
            }
            Growth::Own => self.control.grow(state, params, acked, arrived.now),
            Growth::Coupled(increase) => state.cwnd = (state.cwnd + increase * f64::from(acked)).max(1.0),
            Growth::Held => {}
        }
    }

    fn on_duplicate_ack(&mut self, state: &mut SendState, params: &TransportParams) -> Reply {
        self.dup_acks += 1;
        if state.in_recovery {
            state.cwnd += 1.0;
            return Reply::Continue;
        }
        if self.dup_acks < params.dup_ack_threshold {
            // Limited transmit (RFC 3042): two new segments at most, on the first two duplicates.
            self.extra = self.dup_acks.min(params.limited_transmit);
            return Reply::Continue;
        }
        // Duplicates caused by go-back-N after a time-out are no new loss (RFC 6582 §4).
        if self.dup_acks != params.dup_ack_threshold || state.una < state.recover {
            return Reply::Continue;
        }
        (self.extra, self.partial_acks) = (0, 0);
        state.ssthresh = self.control.threshold_after_loss(state, false);
        (state.recover, state.in_recovery) = (state.high, true);
        state.cwnd = state.ssthresh + f64::from(params.dup_ack_threshold);
        Reply::Retransmit { segment: state.una, is_new: true }
    }

    /// Updates the recovery state after a selective acknowledgement (RFC 6675 §5).
    fn on_selective_ack(&mut self, state: &mut SendState, params: &TransportParams, arrived: &AckInfo) -> (Reply, u32) {
        let Some(board) = self.board.as_deref_mut() else { return (Reply::Continue, 0) };
        let has_advanced = arrived.ack > state.una;
        let acked = state.note_arrivals(board, arrived);
        if state.is_finished() {
            return (Reply::Finished, acked);
        }
        self.control.on_marks(state, acked, arrived.is_marked);
        board.find_lost(params.dup_ack_threshold, 0);
        let is_past = state.una >= state.recover;
        if state.in_recovery && is_past {
            state.in_recovery = false;
            state.cwnd = state.ssthresh;
            return (Reply::Continue, acked);
        }
        if is_past && board.lost_count > 0 {
            state.ssthresh = self.control.threshold_after_loss(state, false);
            state.cwnd = state.ssthresh;
            (state.recover, state.in_recovery) = (state.next, true);
            let reply =
                board.take_lost().map_or(Reply::Continue, |segment| Reply::Retransmit { segment, is_new: true });
            return (reply, acked);
        }
        if has_advanced && !state.in_recovery {
            self.grow(state, params, arrived, acked);
        }
        (Reply::Continue, acked)
    }
}

impl<C: CongestionControl> Sending for Tcp<C> {
    fn begin(&mut self, _line_bps: u64) {
        (self.dup_acks, self.extra, self.partial_acks) = (0, 0, 0);
        self.control.begin();
        self.stop();
    }

    #[inline]
    fn can_send(&self, state: &SendState, params: &TransportParams) -> bool {
        match &self.board {
            None => state.next < state.total && self.has_space(state, params),
            Some(board) => state.has_space(board, params),
        }
    }

    #[inline]
    fn take(&mut self, state: &mut SendState) -> (u32, bool) {
        match &mut self.board {
            None => state.take_new(),
            Some(board) => state.take_lost_or_new(board),
        }
    }

    #[inline]
    fn can_take(&self, state: &SendState, params: &TransportParams) -> bool {
        state.next == state.total && self.has_space(state, params)
    }

    #[inline]
    fn on_ack(&mut self, state: &mut SendState, params: &TransportParams, arrived: &AckInfo) -> (Reply, u32) {
        if self.board.is_some() {
            return self.on_selective_ack(state, params, arrived);
        }
        let una = state.una;
        let reply = self.on_cumulative_ack(state, params, arrived);
        (reply, state.una - una)
    }

    /// Goes back to the lowest unacknowledged segment, in slow start.
    fn on_timeout(&mut self, state: &mut SendState, params: &TransportParams) -> bool {
        let is_first = state.backoff == 0;
        if !state.back_off(params) {
            return false;
        }
        // A repeated time-out of one segment must not halve the threshold again (RFC 5681 §3.1).
        if is_first {
            state.ssthresh = self.control.threshold_after_loss(state, true);
        }
        state.cwnd = 1.0;
        // A new recovery must not begin before `recover` is acknowledged.
        state.in_recovery = false;
        if let Some(board) = &mut self.board {
            board.mark_all_lost(state.una, state.next);
            return true;
        }
        state.next = state.una;
        (self.dup_acks, self.extra) = (0, 0);
        true
    }

    /// With duplicate acknowledgements the timer restarts always outside recovery, and inside on the
    /// first partial one (RFC 6582's impatient variant).
    #[inline]
    fn restarts_timer(&self, state: &SendState) -> bool {
        self.board.is_some() || !state.in_recovery || self.partial_acks == 1
    }

    fn stop(&mut self) {
        if let Some(board) = &mut self.board {
            board.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::TransportConfig;
    use crate::transport::sender::Sender;
    use crate::transport::sender::tests::{sack, start};

    fn new_reno() -> (TransportParams, Sender) {
        start(&TransportConfig::new_reno(), 1000)
    }

    /// Returns the reply to a cumulative acknowledgement.
    fn ack(s: &mut Sender, params: &TransportParams, ack: u32) -> Reply {
        s.on_ack(params, &sack(ack, 0)).0
    }

    const fn again(segment: u32, is_new: bool) -> Reply {
        Reply::Retransmit { segment, is_new }
    }

    #[test]
    fn slow_start_doubles_per_round() {
        let (params, mut s) = start(&TransportConfig::new_reno(), 10_000);
        let mut round = s.send_all(&params).len();
        assert_eq!(round, 10);
        for _ in 0..4 {
            let mut sent = 0;
            for _ in 0..round {
                let next = s.state.una + 1;
                assert_eq!(ack(&mut s, &params, next), Reply::Continue);
                sent += s.send_all(&params).len();
            }
            assert_eq!(sent, 2 * round);
            round = sent;
        }
    }

    #[test]
    fn three_duplicates_retransmit_once_and_halve() {
        let (params, mut s) = new_reno();
        s.send_all(&params);
        assert_eq!(ack(&mut s, &params, 1), Reply::Continue);
        assert_eq!(s.segments(&params), [10, 11]);
        assert_eq!(ack(&mut s, &params, 1), Reply::Continue);
        assert_eq!(s.segments(&params), [12], "limited transmit");
        assert_eq!(ack(&mut s, &params, 1), Reply::Continue);
        assert_eq!(s.segments(&params), [13], "limited transmit");
        assert_eq!(ack(&mut s, &params, 1), again(1, true));
        assert_eq!(s.state.ssthresh, 6.5, "half of 13 in flight");
        assert_eq!(ack(&mut s, &params, 1), Reply::Continue, "no second retransmit");
        // Two losses: the acknowledgement of the first is partial and retransmits the second.
        assert_eq!(ack(&mut s, &params, 5), again(5, false));
        assert!(s.restarts_timer());
        assert_eq!(ack(&mut s, &params, 7), again(7, false));
        assert!(!s.restarts_timer(), "first partial acknowledgement only");
        assert_eq!(ack(&mut s, &params, 14), Reply::Continue);
        assert!(!s.state.in_recovery && s.state.cwnd == 6.5);
    }

    #[test]
    fn a_timeout_goes_back_and_backs_off() {
        let (params, mut s) = new_reno();
        s.send_all(&params);
        s.state.on_rtt(100_000_000);
        assert_eq!(s.state.rto(&params), params.min_rto);
        assert!(s.on_timeout(&params));
        assert_eq!(s.state.rto(&params), 2 * params.min_rto);
        assert_eq!(s.send_all(&params), [(0, true)]);
        // Only segment 0 was lost: the acknowledgement covers everything.
        assert_eq!(ack(&mut s, &params, 10), Reply::Continue);
        assert_eq!(s.state.rto(&params), params.min_rto);
        assert_eq!(s.send_all(&params), [(10, false), (11, false)]);
        for _ in 0..params.max_timeouts {
            assert!(s.on_timeout(&params));
        }
        assert!(!s.on_timeout(&params), "it fails");
    }

    #[test]
    fn duplicates_after_a_timeout_are_no_new_loss() {
        let (params, mut s) = new_reno();
        s.send_all(&params);
        s.on_timeout(&params);
        s.send_all(&params);
        assert_eq!(ack(&mut s, &params, 2), Reply::Continue);
        s.send_all(&params);
        for _ in 0..5 {
            assert_eq!(ack(&mut s, &params, 2), Reply::Continue);
        }
    }

    #[test]
    fn three_holes_are_filled_within_one_round_trip() {
        let (params, mut s) = start(&TransportConfig { sack: true, ..TransportConfig::new_reno() }, 1000);
        s.state.cwnd = 20.0;
        assert_eq!(s.segments(&params).len(), 20);
        // 0, 5 and 6 are lost.
        for segment in [1, 2] {
            assert_eq!(s.on_ack(&params, &sack(0, segment)), (Reply::Continue, 1));
        }
        assert_eq!(s.segments(&params), [20, 21], "segments that left the network allow new ones");
        assert_eq!(s.on_ack(&params, &sack(0, 3)), (again(0, true), 1));
        assert_eq!((s.state.ssthresh, s.state.cwnd), (11.0, 11.0), "half of 22 in flight");
        for segment in (4..20).filter(|s| ![4, 5, 6].contains(s)) {
            s.on_ack(&params, &sack(0, segment));
        }
        s.on_ack(&params, &sack(0, 4));
        // Arrived: 16 of 22; 5 and 6 are lost; in flight: 20, 21 and 0 again.
        let sent = s.segments(&params);
        assert_eq!(sent[..2], [5, 6], "holes first");
        assert_eq!(sent[2..], [22, 23, 24, 25, 26, 27], "then new ones, to a window of 11");
        assert_eq!(ack(&mut s, &params, 5), Reply::Continue, "no second reduction");
        ack(&mut s, &params, 22);
        assert!(!s.state.in_recovery && s.state.cwnd == 11.0);
    }

    #[test]
    fn a_time_out_sends_again_only_what_did_not_arrive() {
        let (params, mut s) = start(&TransportConfig::cubic(), 1000);
        s.send_all(&params);
        for segment in [4, 5] {
            s.on_ack(&params, &sack(0, segment));
        }
        s.send_all(&params);
        assert!(s.on_timeout(&params));
        assert_eq!(s.state.cwnd, 1.0);
        assert_eq!(s.segments(&params), [0]);
        ack(&mut s, &params, 1);
        assert_eq!(s.segments(&params), [1, 2], "slow start");
        ack(&mut s, &params, 2);
        ack(&mut s, &params, 3);
        assert_eq!(s.segments(&params), [3, 6, 7, 8], "4 and 5 have arrived");
    }

    #[test]
    fn cubic_leaves_seven_tenths() {
        let (params, mut s) = start(&TransportConfig::cubic(), 1000);
        s.state.cwnd = 100.0;
        s.send_all(&params);
        for segment in [1, 2, 3] {
            s.on_ack(&params, &sack(0, segment));
        }
        assert!(s.state.in_recovery && s.state.cwnd == 70.0, "{}", s.state.cwnd);
    }
}
