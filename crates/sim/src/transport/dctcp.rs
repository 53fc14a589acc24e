//! DCTCP (SIGCOMM 2010, RFC 8257): NewReno that reduces by the share of marked bytes.

use crate::SimError;
use crate::checks::wrong;
use crate::scenario::{SimConfig, TransportConfig};
use crate::transport::params::NetworkScale;
use crate::transport::sender::SendState;
use crate::transport::tcp::{self, CongestionControl, Tcp};
use crate::transport::{About, Kind, Properties, QueueLaw, SenderEnv};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dctcp {
    /// Gain of the average of the marked fraction; 1/16 as published.
    pub gain: f64,
}

impl Default for Dctcp {
    fn default() -> Dctcp {
        Dctcp { gain: 1.0 / 16.0 }
    }
}

impl Kind for Dctcp {
    const ABOUT: About = About {
        name: "dctcp",
        title: "DCTCP",
        summary: "reduces in proportion to the share of ECN-marked bytes",
        source: "RFC 8257",
        keys: &[&["gain"], tcp::KEYS],
    };

    type Sender = Tcp<Marks>;

    fn properties(&self, config: &TransportConfig) -> Properties {
        Properties { is_ecn_capable: true, linux: Some("dctcp"), ..Properties::tcp(config) }
    }

    fn queue_law(&self, scale: &NetworkScale) -> QueueLaw {
        if scale.is_marking { QueueLaw::Sawtooth(self.gain) } else { QueueLaw::DropTail(0.5) }
    }

    fn check(&self, _config: &SimConfig) -> Result<(), SimError> {
        if self.gain > 0.0 && self.gain <= 1.0 {
            return Ok(());
        }
        Err(wrong("transport.gain", self.gain, "must be above 0 and at most 1"))
    }

    fn sender(&self, env: &SenderEnv<'_>) -> Tcp<Marks> {
        Tcp::new(Marks { gain: self.gain, alpha: 1.0, ..Marks::default() }, env)
    }
}

/// The marked fraction of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    gain: f64,
    alpha: f64,
    acked: u32,
    marked: u32,
    window_end: u32,
    reduced_until: u32,
}

impl CongestionControl for Marks {
    const GROWS_WHEN_MARKED: bool = false;

    fn begin(&mut self) {
        *self = Marks { gain: self.gain, alpha: 1.0, ..Marks::default() };
    }

    /// Counts marks. Once per window it updates alpha and reduces.
    #[inline]
    fn on_marks(&mut self, state: &mut SendState, acked: u32, is_marked: bool) {
        self.acked += acked;
        self.marked += if is_marked { acked } else { 0 };
        if state.una > self.window_end {
            if self.acked > 0 {
                let fraction = f64::from(self.marked) / f64::from(self.acked);
                self.alpha = (1.0 - self.gain) * self.alpha + self.gain * fraction;
            }
            (self.acked, self.marked, self.window_end) = (0, 0, state.next);
        }
        if is_marked && state.una >= self.reduced_until && !state.in_recovery {
            self.reduced_until = state.next;
            // At least two packets, as in Linux: below, delayed ACKs and time-outs would stall.
            state.cwnd = (state.cwnd * (1.0 - self.alpha / 2.0)).max(2.0);
            state.ssthresh = state.cwnd;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Transport;
    use crate::transport::sender::AckInfo;
    use crate::transport::sender::tests::start;

    #[test]
    fn dctcp_reduces_by_half_its_alpha_once_per_window() {
        let (params, mut s) = start(&TransportConfig::default(), 100_000);
        s.send_all(&params);
        let Transport::Dctcp(tcp) = &mut s.transport else { unreachable!("the default is DCTCP") };
        (tcp.control.alpha, tcp.control.window_end) = (0.5, 100);
        let before = s.state.cwnd;
        s.on_ack(&params, &AckInfo { ack: 1, is_marked: true, ..AckInfo::default() });
        assert!((s.state.cwnd - before * 0.75).abs() < 1e-9, "1 - alpha/2");
        let reduced = s.state.cwnd;
        s.on_ack(&params, &AckInfo { ack: 2, is_marked: true, ..AckInfo::default() });
        assert_eq!(s.state.cwnd, reduced, "once per window");
    }
}
