//! RDMA: senders at the rate of DCQCN (`dcqcn.rs`), with the recovery of RoCE or of IRN.

use net::{Bandwidth, Time};

use crate::SimError;
use crate::checks::{MAX_SELECTIVE_WINDOW, check_selective_window, reject_if};
use crate::packet::stamp;
use crate::scenario::{SimConfig, TransportConfig};
use crate::transport::dcqcn::Rate;
use crate::transport::pacing::Pacing;
use crate::transport::params::{NetworkScale, TransportParams};
use crate::transport::scoreboard::Scoreboard;
use crate::transport::sender::{AckInfo, Reply, SendState, Sent, TimerEffect};
use crate::transport::{About, Acks, Kind, Properties, QueueLaw, SenderEnv, Sending};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RdmaRecovery {
    /// RoCE: the receiver keeps nothing out of order; the sender goes back to a reported gap.
    #[default]
    GoBackN,
    /// IRN (SIGCOMM 2018): selective acknowledgements, one bandwidth-delay product in flight.
    Selective,
}

#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Rdma {
    pub recovery: RdmaRecovery,
    /// Minimum retransmission time-out. `None`: the base round-trip time and three full queues of
    /// the slowest switch link, or three base round-trip times if that is longer. With
    /// [`RdmaRecovery::Selective`] the time-out is a third of it (but not below two base round-trip
    /// times) while at most three packets are in flight, as IRN's RTO_low.
    pub packet_timeout: Option<Time>,
    pub dcqcn: Dcqcn,
}

/// DCQCN (SIGCOMM 2015) with its published parameters as default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dcqcn {
    /// g, gain of alpha: 1/256.
    pub gain: f64,
    /// Minimum interval between notifications of marks by the receiver: 50 us.
    pub notify_interval: Time,
    /// Interval at which alpha decays without notifications: 55 us.
    pub alpha_timer: Time,
    /// Interval at which the rate is raised: 55 us.
    pub rate_timer: Time,
    /// Bytes sent after which the rate is also raised: 10 MB.
    pub byte_counter: u64,
    /// R_AI; `None`: a thousandth of the line rate (40 Mb/s at 40 Gb/s).
    pub additive_increase: Option<Bandwidth>,
    /// R_HAI; `None`: a hundredth of the line rate.
    pub hyper_increase: Option<Bandwidth>,
}

impl Default for Dcqcn {
    fn default() -> Self {
        Dcqcn {
            gain: 1.0 / 256.0,
            notify_interval: Time::from_us(50),
            alpha_timer: Time::from_us(55),
            rate_timer: Time::from_us(55),
            byte_counter: 10_000_000,
            additive_increase: None,
            hyper_increase: None,
        }
    }
}

impl Kind for Rdma {
    const ABOUT: About = About {
        name: "rdma",
        title: "RDMA over Ethernet",
        summary: "DCQCN's rate, with RoCE's go-back-n or IRN's selective retransmission",
        source: "SIGCOMM 2015 (DCQCN), SIGCOMM 2018 (IRN)",
        keys: &[&[
            "recovery",
            "packet_timeout",
            "gain",
            "notify_interval",
            "alpha_timer",
            "rate_timer",
            "byte_counter",
            "additive_increase",
            "hyper_increase",
            "handshake",
        ]],
    };

    type Sender = Box<Paced>;

    fn properties(&self, config: &TransportConfig) -> Properties {
        Properties {
            acks: match self.recovery {
                RdmaRecovery::GoBackN => Acks::InOrder,
                RdmaRecovery::Selective => Acks::Selective,
            },
            is_tcp: false,
            couples_subflows: false,
            is_ecn_capable: true,
            tolerates_reordering: true,
            notify_interval: self.dcqcn.notify_interval.as_ps(),
            ..Properties::tcp(config)
        }
    }

    fn queue_law(&self, scale: &NetworkScale) -> QueueLaw {
        if scale.is_marking { QueueLaw::Threshold } else { QueueLaw::DropTail(0.5) }
    }

    fn check(&self, config: &SimConfig) -> Result<(), SimError> {
        let d = &self.dcqcn;
        reject_if(!(d.gain > 0.0 && d.gain <= 1.0), "transport.gain", d.gain, "must be above 0 and at most 1")?;
        let times = [
            ("transport.notify_interval", Some(d.notify_interval)),
            ("transport.alpha_timer", Some(d.alpha_timer)),
            ("transport.rate_timer", Some(d.rate_timer)),
            ("transport.packet_timeout", self.packet_timeout),
        ];
        times
            .into_iter()
            .try_for_each(|(key, time)| reject_if(time == Some(Time::ZERO), key, Time::ZERO, "must be above 0"))?;
        reject_if(d.byte_counter == 0, "transport.byte_counter", 0, "must be above 0")?;
        match self.recovery {
            RdmaRecovery::Selective => check_selective_window(config),
            RdmaRecovery::GoBackN => Ok(()),
        }
    }

    fn window(&self, _scaled: u32, product: u32) -> u32 {
        match self.recovery {
            RdmaRecovery::GoBackN => 1 << 24,
            RdmaRecovery::Selective => product.min(MAX_SELECTIVE_WINDOW),
        }
    }

    fn params(&self, tcp: TransportParams, scale: &NetworkScale) -> TransportParams {
        let timeout = self.packet_timeout.map_or(scale.packet_timeout(), Time::as_ps);
        let params = TransportParams { initial_window: f64::INFINITY, ..tcp.with_timeout(timeout) };
        match self.recovery {
            RdmaRecovery::GoBackN => params,
            RdmaRecovery::Selective => TransportParams {
                dup_ack_threshold: 1,
                low_rto: (timeout / 3).max(2 * scale.base_rtt).min(timeout),
                low_rto_segments: 3,
                ..params
            },
        }
    }

    fn sender(&self, env: &SenderEnv<'_>) -> Box<Paced> {
        let is_selective = self.recovery == RdmaRecovery::Selective;
        Box::new(Paced {
            board: Scoreboard::new(if is_selective { env.words } else { 1 }, false),
            is_selective,
            config: self.dcqcn,
            rate: Rate::new(1),
            pacing: Pacing::NEW,
        })
    }
}

/// A paced flow. Its two deadlines share the flow's one timer.
#[derive(Clone, Debug)]
pub(crate) struct Paced {
    board: Scoreboard,
    is_selective: bool,
    config: Dcqcn,
    rate: Rate,
    pacing: Pacing,
}

impl Paced {
    fn after_go_back(&self, state: &mut SendState, arrived: &AckInfo) -> Reply {
        // One from before the last step back names a segment already passed or retransmitted.
        if !arrived.is_nack || arrived.ack != state.una || state.next == state.una {
            return Reply::Continue;
        }
        state.next = state.una;
        Reply::LossNoticed
    }

    fn after_irn(&mut self, state: &mut SendState, params: &TransportParams) -> Reply {
        self.board.find_lost(params.dup_ack_threshold, 0);
        if state.in_recovery && state.una >= state.recover {
            state.in_recovery = false;
        }
        if state.in_recovery || self.board.lost_count == 0 {
            return Reply::Continue;
        }
        (state.in_recovery, state.recover) = (true, state.next);
        Reply::LossNoticed
    }
}

impl Sending for Paced {
    fn begin(&mut self, line_bps: u64) {
        self.board.reset();
        self.rate = Rate::new(line_bps);
        self.pacing = Pacing::NEW;
    }

    fn can_send(&self, state: &SendState, params: &TransportParams) -> bool {
        !self.pacing.is_waiting && state.has_space(&self.board, params)
    }

    fn take(&mut self, state: &mut SendState) -> (u32, bool) {
        state.take_lost_or_new(&mut self.board)
    }

    fn on_sent(&mut self, _state: &mut SendState, sent: &Sent) {
        self.board.note_sent(sent.segment, stamp(sent.now));
        self.pacing.on_sent(sent, self.rate.gap(&self.config, sent.bytes, sent.now));
    }

    fn on_ack(&mut self, state: &mut SendState, params: &TransportParams, arrived: &AckInfo) -> (Reply, u32) {
        if arrived.is_notification {
            self.rate.on_notification(&self.config, arrived.now);
        }
        self.pacing.on_ack(state, arrived.ack);
        // Go-back-N has nothing on the scoreboard.
        let acked = state.note_arrivals(&mut self.board, arrived);
        if state.is_finished() {
            return (Reply::Finished, acked);
        }
        let reply = if self.is_selective { self.after_irn(state, params) } else { self.after_go_back(state, arrived) };
        (reply, acked)
    }

    fn on_timeout(&mut self, state: &mut SendState, params: &TransportParams) -> bool {
        if !state.back_off(params) {
            return false;
        }
        // IRN's recovery has begun.
        state.in_recovery = self.is_selective;
        if self.is_selective {
            self.board.mark_all_lost(state.una, state.next);
        } else {
            state.next = state.una;
        }
        true
    }

    fn on_timer(&mut self, state: &mut SendState, params: &TransportParams, now: u64) -> TimerEffect {
        let effect = self.pacing.on_timer(state, now);
        effect.unwrap_or_else(|| TimerEffect::TimedOut { is_over: !self.on_timeout(state, params), again: None })
    }

    fn deadline(&mut self, state: &SendState, params: &TransportParams, _current: u64, now: u64) -> u64 {
        self.pacing.deadline(state, params, now)
    }

    fn stop(&mut self) {
        self.board.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::NEVER;
    use crate::transport::sender::tests::{sack, start};

    #[test]
    fn go_back_n_goes_back_once_per_gap() {
        let (params, mut s) = start(&TransportConfig::rdma(RdmaRecovery::GoBackN), 10);
        assert_eq!(s.segments(&params).len(), 10, "no window");
        let nack = AckInfo { is_nack: true, ..sack(4, 0) };
        assert_eq!(s.on_ack(&params, &nack), (Reply::LossNoticed, 4));
        assert_eq!(s.send_all(&params).first(), Some(&(4, true)));
        assert_eq!(s.on_ack(&params, &AckInfo { ack: 3, ..nack }).0, Reply::Continue, "an old one");
    }

    #[test]
    fn irn_retransmits_what_was_overtaken_and_keeps_its_window() {
        let (params, mut s) = start(&TransportConfig::rdma(RdmaRecovery::Selective), 1000);
        s.send_all(&params);
        assert_eq!(s.on_ack(&params, &sack(0, 2)), (Reply::LossNoticed, 1));
        assert_eq!(s.segments(&params), [0, 1]);
        assert_eq!(s.on_ack(&params, &sack(0, 3)), (Reply::Continue, 1), "once each");
        assert!(s.segments(&params).is_empty() && s.state.cwnd.is_infinite());
    }

    #[test]
    fn a_notification_slows_the_next_packets_down() {
        let (params, mut s) = start(&TransportConfig::rdma(RdmaRecovery::GoBackN), 1000);
        s.send_at(&params, 0, 1_200_000);
        assert!(s.can_send(&params), "at line rate only the interface limits it");
        s.on_ack(&params, &AckInfo { is_notification: true, ..sack(0, 0) });
        s.send_at(&params, 1_200_000, 2_400_000);
        assert!(!s.can_send(&params), "half the rate");
        assert_eq!(s.deadline(&params, NEVER, 1_200_000), 3_600_000);
        assert_eq!(s.on_timer(&params, 3_600_000), TimerEffect::Resume { again: None });
        assert!(s.can_send(&params));
    }
}
