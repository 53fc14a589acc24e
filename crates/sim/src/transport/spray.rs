//! Per-packet transport for spraying: every packet is acknowledged and placed directly; windows
//! follow ECN and delay (`nscc.rs`); trimming, time-outs or far overtaking show losses.

use net::Time;

use crate::SimError;
use crate::checks::{MAX_SELECTIVE_WINDOW, check_selective_window, reject_if};
use crate::packet::stamp;
use crate::scenario::{SimConfig, TransportConfig};
use crate::transport::nscc::{Nscc, NsccParams};
use crate::transport::params::{NetworkScale, TransportParams};
use crate::transport::scoreboard::{Limits, Scoreboard};
use crate::transport::sender::{AckInfo, Reply, SendState, Sent, TimerEffect};
use crate::transport::{About, Acks, Kind, Properties, QueueLaw, SenderEnv, Sending};

/// Configuration; `None` scales with the network.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Spray {
    /// Target queueing delay of the window; `None`: three quarters of the base round-trip time.
    pub target_delay: Option<Time>,
    /// Number of later packets that must arrive before a packet counts as lost. `None`: one
    /// bandwidth-delay product and one switch queue, more than unequal queues alone can cause.
    pub reorder_packets: Option<u32>,
    /// Minimum time-out of a packet; `None` as in [`crate::Rdma::packet_timeout`].
    pub packet_timeout: Option<Time>,
}

impl Spray {
    fn congestion(&self, scale: &NetworkScale) -> NsccParams {
        NsccParams {
            base_rtt: scale.base_rtt,
            target: self.target_delay.map_or(scale.base_rtt * 3 / 4, Time::as_ps).max(1),
            product: scale.product,
            max_window: (1.5 * scale.product).min(f64::from(scale.window)),
            is_marking: scale.is_marking,
        }
    }
}

impl Kind for Spray {
    const ABOUT: About = About {
        name: "spray",
        title: "Per-packet transport for spraying",
        summary: "no order, single packets acknowledged, window by ECN and delay",
        source: "Ultra Ethernet 1.0 (NSCC), arXiv 2404.01630; simpler than either",
        keys: &[&["target_delay", "reorder_packets", "packet_timeout", "handshake"]],
    };

    type Sender = Box<Sprayed>;

    fn properties(&self, config: &TransportConfig) -> Properties {
        Properties {
            acks: Acks::EachPacket,
            is_tcp: false,
            couples_subflows: false,
            is_ecn_capable: true,
            tolerates_reordering: true,
            ..Properties::tcp(config)
        }
    }

    fn queue_law(&self, scale: &NetworkScale) -> QueueLaw {
        QueueLaw::Delay(self.congestion(scale).target as f64)
    }

    fn check(&self, config: &SimConfig) -> Result<(), SimError> {
        let zero = Some(Time::ZERO);
        reject_if(self.target_delay == zero, "transport.target_delay", Time::ZERO, "must be above 0")?;
        reject_if(self.packet_timeout == zero, "transport.packet_timeout", Time::ZERO, "must be above 0")?;
        reject_if(self.reorder_packets == Some(0), "transport.reorder_packets", 0, "must be at least 1")?;
        check_selective_window(config)
    }

    fn window(&self, scaled: u32, _product: u32) -> u32 {
        scaled.min(MAX_SELECTIVE_WINDOW)
    }

    fn params(&self, tcp: TransportParams, scale: &NetworkScale) -> TransportParams {
        let timeout = self.packet_timeout.map_or(scale.packet_timeout(), Time::as_ps);
        let overtaken = (scale.product as u32).saturating_add(scale.queue_packets);
        TransportParams {
            initial_window: self.congestion(scale).max_window,
            dup_ack_threshold: self.reorder_packets.unwrap_or(overtaken),
            ..tcp.with_timeout(timeout)
        }
    }

    fn sender(&self, env: &SenderEnv<'_>) -> Box<Sprayed> {
        let congestion = self.congestion(env.scale);
        Box::new(Sprayed {
            board: Scoreboard::new(env.words, true),
            window: Nscc::new(&congestion),
            congestion,
            timed_out_at: 0,
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Sprayed {
    board: Scoreboard,
    congestion: NsccParams,
    window: Nscc,
    /// Stamp of the last time-out of a packet.
    timed_out_at: u32,
}

impl Sprayed {
    /// Marks packets sent a time-out ago as lost. Returns their number and when to check again.
    ///
    /// Only packets sent after a time-out wait longer. Packets lost together with the one that
    /// timed out must not count as in flight ever longer, or they would fill the window.
    fn expire(&mut self, state: &mut SendState, params: &TransportParams, now: u64) -> (u32, Option<u64>) {
        let repeated = state.rto(params);
        let first = repeated >> state.backoff.min(20);
        let limits = Limits { first, repeated, since: self.timed_out_at };
        let expiry = self.board.expire(state.una, state.next, now, &limits);
        if expiry.lost > 0 {
            state.cwnd = (state.cwnd - f64::from(expiry.lost)).max(1.0);
            if expiry.has_repeated || state.backoff == 0 {
                self.timed_out_at = stamp(now);
                state.backoff = state.backoff.saturating_add(1);
                state.consecutive_timeouts = state.consecutive_timeouts.saturating_add(1);
            }
        }
        // Checking every packet each sixteenth of a time-out is precise enough, and cheap.
        (expiry.lost, expiry.left.map(|left| now + left.max(first / 16).max(1)))
    }

    /// Handles the header of a packet that was trimmed.
    fn on_trimmed(&mut self, state: &mut SendState, arrived: &AckInfo) -> Reply {
        let Some(segment) = arrived.sack.filter(|segment| (state.una..state.next).contains(segment)) else {
            return Reply::Continue;
        };
        // A trimmed older copy implies nothing about the copy in flight.
        if self.board.stamp_of(segment).is_some_and(|sent| sent != arrived.sent) || !self.board.mark_lost(segment) {
            return Reply::Continue;
        }
        state.consecutive_timeouts = 0;
        state.cwnd = (state.cwnd - 1.0).max(1.0);
        Reply::Trimmed
    }
}

impl Sending for Sprayed {
    fn begin(&mut self, _line_bps: u64) {
        self.board.reset();
        (self.timed_out_at, self.window) = (0, Nscc::new(&self.congestion));
    }

    fn can_send(&self, state: &SendState, params: &TransportParams) -> bool {
        state.has_space(&self.board, params)
    }

    fn take(&mut self, state: &mut SendState) -> (u32, bool) {
        state.take_lost_or_new(&mut self.board)
    }

    fn on_sent(&mut self, _state: &mut SendState, sent: &Sent) {
        self.board.note_sent(sent.segment, stamp(sent.now));
    }

    fn on_ack(&mut self, state: &mut SendState, params: &TransportParams, arrived: &AckInfo) -> (Reply, u32) {
        let acked = state.note_arrivals(&mut self.board, arrived);
        if state.is_finished() {
            return (Reply::Finished, acked);
        }
        if arrived.is_nack {
            return (self.on_trimmed(state, arrived), acked);
        }
        if acked > 0 {
            state.cwnd = self.window.on_ack(state.cwnd, &self.congestion, arrived.is_marked, arrived.rtt);
        }
        let lost = self.board.find_lost(params.dup_ack_threshold, arrived.sent);
        if lost == 0 {
            return (Reply::Continue, acked);
        }
        state.cwnd = (state.cwnd - f64::from(lost)).max(1.0);
        (Reply::LossNoticed, acked)
    }

    fn on_timeout(&mut self, state: &mut SendState, params: &TransportParams) -> bool {
        if !state.back_off(params) {
            return false;
        }
        state.in_recovery = false;
        self.board.mark_all_lost(state.una, state.next);
        true
    }

    fn on_timer(&mut self, state: &mut SendState, params: &TransportParams, now: u64) -> TimerEffect {
        if state.in_flight() == 0 {
            return TimerEffect::Nothing;
        }
        match self.expire(state, params, now) {
            (0, again) => TimerEffect::Resume { again },
            (_, again) => {
                TimerEffect::TimedOut { is_over: u32::from(state.consecutive_timeouts) > params.max_timeouts, again }
            }
        }
    }

    /// Packets with separate timers keep their times.
    fn restarts_timer(&self, _state: &SendState) -> bool {
        false
    }

    fn stop(&mut self) {
        self.board.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::sender::tests::{sack, start};

    #[test]
    fn a_trimmed_packet_is_sent_again_and_costs_one() {
        let (params, mut s) = start(&TransportConfig::spray(), 1000);
        assert_eq!(s.segments(&params).len(), 150, "one and a half bandwidth-delay products");
        let nack = AckInfo { is_nack: true, ..sack(0, 7) };
        assert_eq!(s.on_ack(&params, &nack), (Reply::Trimmed, 0));
        assert_eq!(s.on_ack(&params, &nack).0, Reply::Continue, "known");
        assert_eq!(s.state.cwnd, 149.0);
        s.on_ack(&params, &sack(1, 0));
        assert_eq!(s.segments(&params), [7]);
    }

    #[test]
    fn spray_times_packets_one_by_one() {
        let (params, mut s) = start(&TransportConfig::spray(), 1000);
        for at in [0, 50_000_000] {
            s.send_at(&params, at, 0);
        }
        let timeout = s.state.rto(&params);
        assert_eq!(timeout, params.min_rto);
        let now = timeout + 16_384;
        let TimerEffect::TimedOut { is_over: false, again: Some(again) } = s.on_timer(&params, now) else {
            panic!("a time-out");
        };
        assert!(again > now, "the other is still in flight");
        assert_eq!(s.next_segment(&params), Some((0, true)));
    }

    #[test]
    fn packets_lost_together_do_not_wait_for_each_other() {
        let (params, mut s) = start(&TransportConfig::spray(), 1000);
        // Eight packets, 10 us apart, all lost: no acknowledgement ever arrives.
        for at in 0..8u64 {
            s.send_at(&params, at * 10_000_000, 0);
        }
        s.state.cwnd = 8.0;
        let mut at = params.min_rto;
        while let TimerEffect::TimedOut { again: Some(again), .. } | TimerEffect::Resume { again: Some(again) } =
            s.on_timer(&params, at)
        {
            at = again;
        }
        assert!(at < params.min_rto + 200_000_000, "all within one time-out: {at}");
        assert_eq!((s.state.consecutive_timeouts, s.state.cwnd), (1, 1.0), "one time-out, not eight");
    }
}
