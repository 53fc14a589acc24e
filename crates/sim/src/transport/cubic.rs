//! CUBIC (RFC 9438), windows in segments, with HyStart++ in slow start (RFC 9406). It ignores ECN.

use crate::scenario::TransportConfig;
use crate::transport::hystart::HyStart;
use crate::transport::params::{NetworkScale, TransportParams};
use crate::transport::sender::SendState;
use crate::transport::tcp::{self, CongestionControl, Tcp};
use crate::transport::{About, Kind, Properties, QueueLaw, SenderEnv};

/// Scale of the curve, segments per second cubed (RFC 9438 §5.1).
const C: f64 = 0.4;
/// Multiplicative decrease: the share of the window left after a loss (§4.6).
const BETA: f64 = 0.7;
/// Growth per round trip of the Reno-friendly estimate (§4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Configuration beyond that of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cubic {
    /// Whether slow start ends when round-trip times grow (HyStart++, RFC 9406), as in Linux.
    pub has_hystart: bool,
}

impl Default for Cubic {
    fn default() -> Cubic {
        Cubic { has_hystart: true }
    }
}

impl Kind for Cubic {
    const ABOUT: About = About {
        name: "cubic",
        title: "TCP CUBIC",
        summary: "what Linux hosts run, with SACK; ignores ECN",
        source: "RFC 9438, RFC 9406, RFC 6675",
        keys: &[&["hystart"], tcp::KEYS],
    };

    type Sender = Tcp<Curve>;

    fn properties(&self, config: &TransportConfig) -> Properties {
        Properties { couples_subflows: false, linux: Some("cubic"), ..Properties::tcp(config) }
    }

    fn queue_law(&self, _scale: &NetworkScale) -> QueueLaw {
        QueueLaw::DropTail(BETA)
    }

    fn sender(&self, env: &SenderEnv<'_>) -> Tcp<Curve> {
        let hystart = self.has_hystart.then(Box::default);
        Tcp::new(Curve { hystart, ..Curve::default() }, env)
    }
}

impl CongestionControl for Curve {
    fn begin(&mut self) {
        let mut hystart = self.hystart.take();
        if let Some(hystart) = &mut hystart {
            **hystart = HyStart::default();
        }
        *self = Curve { hystart, ..Curve::default() };
    }

    fn grow_fast(&mut self, state: &mut SendState, rtt: u64) {
        let Some(hystart) = self.hystart.as_deref_mut().filter(|_| !self.has_left_slow_start) else {
            state.cwnd += 1.0;
            return;
        };
        let (growth, is_over) = hystart.on_ack(state, rtt);
        state.cwnd += growth;
        if is_over {
            (state.ssthresh, self.has_left_slow_start) = (state.cwnd, true);
        }
    }

    fn grow(&mut self, state: &mut SendState, params: &TransportParams, acked: u32, now: u64) {
        // A window limited by the receiver's implies nothing about the network (RFC 9438 §5.8).
        if state.cwnd < f64::from(params.max_window) {
            state.cwnd = self.window(state.cwnd, acked, state.srtt, now);
        }
    }

    fn threshold_after_loss(&mut self, state: &SendState, is_timeout: bool) -> f64 {
        let (cwnd, in_flight) = (state.cwnd, state.in_flight());
        if is_timeout { self.on_timeout(cwnd, in_flight) } else { self.on_loss(cwnd, in_flight) }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Curve {
    /// Window at the last loss, after fast convergence.
    w_max: f64,
    /// Window just before the last loss: above it the estimate grows as Reno's.
    cwnd_prior: f64,
    /// Time from the beginning of the epoch to the plateau, seconds.
    k: f64,
    /// Beginning of this stage of congestion avoidance, picoseconds.
    epoch: Option<u64>,
    w_est: f64,
    /// `None` if slow start ends with a loss only.
    hystart: Option<Box<HyStart>>,
    /// Whether the initial slow start has ended: later ones know their threshold (RFC 9406 §4.3).
    has_left_slow_start: bool,
}

impl Curve {
    /// Handles a loss. Returns the slow-start threshold (§4.6, §4.7).
    fn on_loss(&mut self, cwnd: f64, in_flight: u32) -> f64 {
        // Fast convergence: a flow that loses below its last plateau releases bandwidth.
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.cwnd_prior = cwnd;
        self.epoch = None;
        self.has_left_slow_start = true;
        (cwnd.min(f64::from(in_flight)) * BETA).max(2.0)
    }

    /// Handles a time-out: the next epoch starts at its plateau (§4.8). Returns the threshold.
    fn on_timeout(&mut self, cwnd: f64, in_flight: u32) -> f64 {
        let ssthresh = self.on_loss(cwnd, in_flight);
        self.w_max = 0.0;
        ssthresh
    }

    /// Returns the window after `acked` segments; `rtt` and `now` in picoseconds.
    fn window(&mut self, cwnd: f64, acked: u32, rtt: u64, now: u64) -> f64 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            if cwnd < self.w_max {
                self.k = libm::cbrt((self.w_max - cwnd) / C);
            } else {
                (self.k, self.w_max) = (0.0, cwnd);
            }
            self.w_est = cwnd;
            now
        });
        let t = seconds(now - epoch);
        let alpha = if self.w_est >= self.cwnd_prior { 1.0 } else { ALPHA };
        self.w_est += alpha * f64::from(acked) / cwnd;
        if self.at(t) < self.w_est {
            return cwnd.max(self.w_est);
        }
        let target = self.at(t + seconds(rtt)).clamp(cwnd, 1.5 * cwnd);
        cwnd + (target - cwnd) / cwnd * f64::from(acked)
    }

    /// Returns W_cubic(t) of §4.2, segments.
    fn at(&self, t: f64) -> f64 {
        let x = t - self.k;
        C * x * x * x + self.w_max
    }
}

fn seconds(ps: u64) -> f64 {
    ps as f64 * 1e-12
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the windows of a flow that acknowledges `cwnd` segments per round trip.
    fn run(cubic: &mut Curve, mut cwnd: f64, rtt_s: f64, until_s: f64) -> Vec<(f64, f64)> {
        let (mut now, rtt) = (0.0, (rtt_s * 1e12) as u64);
        let mut seen = vec![(0.0, cwnd)];
        while now < until_s {
            cwnd = cubic.window(cwnd, 1, rtt, (now * 1e12) as u64);
            seen.push((now, cwnd));
            now += rtt_s / cwnd;
        }
        seen
    }

    #[test]
    fn after_a_loss_the_window_follows_the_curve() {
        // W_max 1000, 100 ms: far above where Reno's estimate matters.
        let (w_max, rtt) = (1000.0, 0.1);
        let mut cubic = Curve::default();
        let cwnd = cubic.on_loss(w_max, w_max as u32);
        assert_eq!(cwnd, 700.0);
        let k = libm::cbrt(w_max * 0.3 / 0.4);
        let seen = run(&mut cubic, cwnd, rtt, 2.0 * k + 1.0);
        assert!((cubic.k - k).abs() < 1e-9, "K = cbrt(W_max (1 - beta) / C) = {k}");
        for (t, w) in &seen {
            // Each acknowledgement moves the window by 1/cwnd of the distance to the curve one
            // round trip ahead: a window lies between the curve now and there.
            let closed = |t: f64| 0.4 * (t - k).powi(3) + w_max;
            assert!(*w > closed(*t) - 1.5 && *w < closed(*t + rtt) + 1e-6, "{w} at {t} s: {} expected", closed(*t));
        }
        let at = |t: f64| seen.iter().find(|(at, _)| *at >= t).unwrap().1;
        assert!((at(k) - w_max).abs() < 1.0, "the plateau is W_max, reached after K: {}", at(k));
        let steps: Vec<f64> = (0..6).map(|i| at(f64::from(i + 1) * k / 3.0) - at(f64::from(i) * k / 3.0)).collect();
        assert!(steps[0] > steps[1] && steps[1] > steps[2], "concave before the plateau: {steps:?}");
        assert!(steps[3] < steps[4] && steps[4] < steps[5], "convex after it: {steps:?}");
    }

    #[test]
    fn with_short_round_trips_it_is_as_fast_as_reno() {
        // 100 us: the curve needs seconds for what Reno does in milliseconds.
        let mut cubic = Curve::default();
        let cwnd = cubic.on_loss(100.0, 100);
        let rtt = 0.0001;
        let seen = run(&mut cubic, cwnd, rtt, 0.012);
        let at = |t: f64| seen.iter().find(|(at, _)| *at >= t).unwrap().1;
        // Below cwnd_prior the slope is alpha per round trip, above it one segment.
        let crossing = (100.0 - 70.0) / ALPHA * rtt;
        let expected = 70.0 + ALPHA * 30.0;
        assert!((at(30.0 * rtt) - expected).abs() < 0.5, "{} expected {expected}", at(30.0 * rtt));
        let slope = at(crossing + 50.0 * rtt) - at(crossing + 20.0 * rtt);
        assert!((slope - 30.0).abs() < 0.5, "{slope} segments in 30 round trips");
    }

    #[test]
    fn early_loss_lowers_plateau() {
        let mut cubic = Curve::default();
        cubic.on_loss(1000.0, 1000);
        assert_eq!(cubic.w_max, 1000.0);
        cubic.on_loss(800.0, 800);
        assert_eq!(cubic.w_max, 800.0 * 0.85);
    }

    #[test]
    fn a_time_out_forgets_the_plateau() {
        let mut cubic = Curve::default();
        assert_eq!(cubic.on_timeout(100.0, 100), 70.0);
        cubic.window(70.0, 1, 100_000_000, 0);
        assert_eq!((cubic.k, cubic.w_max), (0.0, 70.0));
    }
}
