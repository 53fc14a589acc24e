//! Annulus: two control loops for wide-area traffic (Saeed et al., SIGCOMM 2020). DCTCP's window
//! reacts to marks after a round trip, as far as the congestion is in another site. The rate reacts
//! to feedback that switches of the sender's site return directly, within microseconds.
//!
//! The paper combines BBR with QCN. The end-to-end loop is DCTCP here, as for local traffic. The
//! rate follows QCN's reaction point (IEEE 802.1Qau): each feedback cuts the rate by up to a half,
//! then it recovers in cycles of 150 KB or 15 ms. Switches do not mark wide-area packets in the
//! sender's site, so that each loop has its own part of the path. Local flows are DCTCP alone.

use net::Time;

use crate::SimError;
use crate::checks::{MAX_SELECTIVE_WINDOW, check_selective_window, reject_if};
use crate::scenario::{FeedbackRule, SimConfig, TransportConfig};
use crate::transport::dcqcn::Rate;
use crate::transport::dctcp::{Dctcp, Marks};
use crate::transport::pacing::Pacing;
use crate::transport::params::{NetworkScale, TransportParams};
use crate::transport::rdma::Dcqcn;
use crate::transport::sender::{AckInfo, Reply, SendState, Sent, TimerEffect};
use crate::transport::tcp::{self, Tcp};
use crate::transport::{About, Acks, Kind, Properties, QueueLaw, SenderEnv, Sending};

/// Configuration beyond that of DCTCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Annulus {
    /// The end-to-end loop, between the hosts.
    pub dctcp: Dctcp,
    /// Longer links lead to other sites.
    pub local_delay: Time,
    /// Queue length above which switches of the sender's site return feedback, bytes.
    pub equilibrium_bytes: u32,
}

impl Default for Annulus {
    /// Returns the equilibrium of 802.1Qau (cpQSp), 26 kB.
    fn default() -> Annulus {
        Annulus { dctcp: Dctcp::default(), local_delay: Time::from_us(100), equilibrium_bytes: 26_000 }
    }
}

/// Share of the rate that feedback 1 takes (802.1Qau, rpgGd); the largest takes a half.
const CUT: f64 = 1.0 / 128.0;

impl Kind for Annulus {
    const ABOUT: About = About {
        name: "annulus",
        title: "Annulus",
        summary: "DCTCP, and for traffic to other sites a rate that follows feedback of switches in the own site",
        source: "SIGCOMM 2020; IEEE 802.1Qau",
        keys: &[&["gain", "local_delay", "equilibrium"], tcp::KEYS],
    };

    type Sender = Box<TwoLoops>;

    fn properties(&self, config: &TransportConfig) -> Properties {
        let own = Properties { acks: Acks::Selective, is_ecn_capable: true, ..Properties::tcp(config) };
        Properties { couples_subflows: false, ..own }
    }

    fn queue_law(&self, scale: &NetworkScale) -> QueueLaw {
        self.dctcp.queue_law(scale)
    }

    fn feedback(&self) -> Option<FeedbackRule> {
        Some(FeedbackRule { local_delay: self.local_delay, equilibrium_bytes: self.equilibrium_bytes })
    }

    fn check(&self, config: &SimConfig) -> Result<(), SimError> {
        self.dctcp.check(config)?;
        check_selective_window(config)?;
        reject_if(self.equilibrium_bytes == 0, "transport.equilibrium", 0, "must be at least one byte")
    }

    fn window(&self, scaled: u32, _product: u32) -> u32 {
        scaled.min(MAX_SELECTIVE_WINDOW)
    }

    fn sender(&self, env: &SenderEnv<'_>) -> Box<TwoLoops> {
        // A rate needs to know of each packet that was sent, as selective acknowledgements do.
        let with_sack = TransportConfig { sack: true, ..env.config.clone() };
        let recovery = Dcqcn {
            byte_counter: 150_000,
            rate_timer: Time::from_ms(15),
            // The rate does not depend on alpha.
            alpha_timer: Time::from_s(1),
            ..Dcqcn::default()
        };
        Box::new(TwoLoops {
            tcp: self.dctcp.sender(&SenderEnv { config: &with_sack, ..*env }),
            recovery,
            rate: Rate::new(1),
            pacing: Pacing::NEW,
        })
    }
}

/// A flow with a window and a rate. Its two deadlines share the flow's one timer.
#[derive(Clone, Debug)]
pub(crate) struct TwoLoops {
    tcp: Tcp<Marks>,
    recovery: Dcqcn,
    rate: Rate,
    pacing: Pacing,
}

impl Sending for TwoLoops {
    fn begin(&mut self, line_bps: u64) {
        self.tcp.begin(line_bps);
        self.rate = Rate::new(line_bps);
        self.pacing = Pacing::NEW;
    }

    fn can_send(&self, state: &SendState, params: &TransportParams) -> bool {
        !self.pacing.is_waiting && self.tcp.can_send(state, params)
    }

    fn take(&mut self, state: &mut SendState) -> (u32, bool) {
        self.tcp.take(state)
    }

    fn on_sent(&mut self, _state: &mut SendState, sent: &Sent) {
        self.pacing.on_sent(sent, self.rate.gap(&self.recovery, sent.bytes, sent.now));
    }

    fn on_ack(&mut self, state: &mut SendState, params: &TransportParams, arrived: &AckInfo) -> (Reply, u32) {
        self.pacing.on_ack(state, arrived.ack);
        self.tcp.on_ack(state, params, arrived)
    }

    fn on_feedback(&mut self, feedback: u8, now: u64) {
        self.rate.cut(&self.recovery, f64::from(feedback) * CUT, now);
    }

    fn on_timeout(&mut self, state: &mut SendState, params: &TransportParams) -> bool {
        self.tcp.on_timeout(state, params)
    }

    fn on_timer(&mut self, state: &mut SendState, params: &TransportParams, now: u64) -> TimerEffect {
        let effect = self.pacing.on_timer(state, now);
        effect.unwrap_or_else(|| TimerEffect::TimedOut { is_over: !self.on_timeout(state, params), again: None })
    }

    fn deadline(&mut self, state: &SendState, params: &TransportParams, _current: u64, now: u64) -> u64 {
        self.pacing.deadline(state, params, now)
    }

    fn stop(&mut self) {
        self.tcp.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::NEVER;
    use crate::transport::sender::tests::{sack, start};

    #[test]
    fn largest_feedback_halves_the_rate() {
        let (params, mut s) = start(&TransportConfig::annulus(), 1000);
        s.send_at(&params, 0, 1_200_000);
        assert!(s.can_send(&params), "at line rate only the interface limits it");
        s.transport.on_feedback(63, 0);
        s.send_at(&params, 1_200_000, 2_400_000);
        assert!(!s.can_send(&params));
        let next = s.deadline(&params, NEVER, 1_200_000);
        let gap = 1_200_000.0 / (1.0 - 63.0 / 128.0);
        assert!((next as f64 - (1_200_000.0 + gap)).abs() < 2.0, "{next}");
        assert_eq!(s.on_timer(&params, next), TimerEffect::Resume { again: None });
        assert!(s.can_send(&params));
    }

    #[test]
    fn marks_reduce_the_window_and_not_the_rate() {
        let (params, mut s) = start(&TransportConfig::annulus(), 1000);
        s.send_all(&params);
        let before = s.state.cwnd;
        s.on_ack(&params, &AckInfo { is_marked: true, ..sack(10, 0) });
        assert!(s.state.cwnd < before);
        s.send_at(&params, 0, 1_200_000);
        assert!(s.can_send(&params));
    }
}
