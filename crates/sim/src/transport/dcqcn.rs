//! Rate control of RDMA senders: DCQCN (Zhu et al., SIGCOMM 2015, §3 and §5), in bits per second.
//!
//! The two timers are lazy: each access brings them up to date.

use net::Bandwidth;

use crate::transport::rdma::Dcqcn as Config;

/// Stages of fast recovery, F in the paper.
const FAST_STAGES: u32 = 5;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    line: f64,
    current: f64,
    target: f64,
    alpha: f64,
    alpha_at: u64,
    rate_at: u64,
    bytes: u64,
    timer_stages: u32,
    byte_stages: u32,
    /// Whether no notification has arrived yet: the flow sends at line rate without timers.
    is_untouched: bool,
}

impl Rate {
    pub(crate) fn new(line_bps: u64) -> Rate {
        let line = line_bps.max(1) as f64;
        Rate { line, current: line, target: line, alpha: 1.0, is_untouched: true, ..Rate::default() }
    }

    /// Returns the picoseconds between the beginnings of a packet of `bytes` and the next.
    pub(crate) fn gap(&mut self, params: &Config, bytes: u64, now: u64) -> u64 {
        self.catch_up(params, now);
        self.bytes += bytes;
        if !self.is_untouched && self.bytes >= params.byte_counter {
            self.bytes = 0;
            self.byte_stages += 1;
            self.increase(params);
        }
        (bytes as f64 * 8e12 / self.current) as u64
    }

    /// Handles a congestion notification packet: cuts the rate (equation 1 of the paper).
    pub(crate) fn on_notification(&mut self, params: &Config, now: u64) {
        self.catch_up(params, now);
        self.cut(params, self.alpha / 2.0, now);
        self.alpha = (1.0 - params.gain) * self.alpha + params.gain;
    }

    /// Takes a share of the rate, which then recovers.
    pub(crate) fn cut(&mut self, params: &Config, share: f64, now: u64) {
        self.catch_up(params, now);
        self.is_untouched = false;
        self.target = self.current;
        self.current = (self.current * (1.0 - share)).max(self.line / 1000.0);
        (self.timer_stages, self.byte_stages, self.bytes) = (0, 0, 0);
        self.alpha_at = now + params.alpha_timer.as_ps();
        self.rate_at = now + params.rate_timer.as_ps();
    }

    fn catch_up(&mut self, params: &Config, now: u64) {
        if self.is_untouched {
            return;
        }
        while self.alpha_at <= now {
            self.alpha *= 1.0 - params.gain;
            self.alpha_at += params.alpha_timer.as_ps();
        }
        while self.rate_at <= now {
            if self.current >= self.line {
                // The flow is back at line rate; the timer keeps its phase.
                self.rate_at += ((now - self.rate_at) / params.rate_timer.as_ps() + 1) * params.rate_timer.as_ps();
                return;
            }
            self.rate_at += params.rate_timer.as_ps();
            self.timer_stages += 1;
            self.increase(params);
        }
    }

    /// Raises the rate: fast recovery, then additive, then hyper increase (figure 7 of the paper).
    fn increase(&mut self, params: &Config) {
        let (max_stages, min_stages) =
            (self.timer_stages.max(self.byte_stages), self.timer_stages.min(self.byte_stages));
        if min_stages > FAST_STAGES {
            self.target += params.hyper_increase.map_or(self.line / 100.0, Bandwidth::as_bps_f64);
        } else if max_stages > FAST_STAGES {
            self.target += params.additive_increase.map_or(self.line / 1000.0, Bandwidth::as_bps_f64);
        }
        self.target = self.target.min(self.line);
        self.current = (self.current + self.target) / 2.0;
        // Halving never reaches the line rate, so the last thousandth is granted.
        if self.current > self.line * 0.999 {
            self.current = self.line;
        }
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use super::*;

    const US: u64 = 1_000_000;

    #[test]
    fn the_first_notification_halves_and_fast_recovery_halves_the_distance() {
        let (params, mut flow) = (Config::default(), Rate::new(40_000_000_000));
        assert_eq!(flow.gap(&params, 1500, 0), 300_000, "line rate");
        flow.on_notification(&params, 0);
        assert_eq!((flow.current, flow.target), (20e9, 40e9), "alpha starts at 1");
        for stage in 1..=5 {
            flow.catch_up(&params, stage * 55 * US);
            let expected = 40e9 - 20e9 / f64::from(1u32 << stage);
            assert!((flow.current - expected).abs() < 1.0, "stage {stage}: {}", flow.current);
        }
        assert!((flow.alpha - (255.0f64 / 256.0).powi(5)).abs() < 1e-9, "alpha decays each 55 us");
    }

    #[test]
    fn additive_increase_moves_the_target() {
        let (params, mut flow) = (Config::default(), Rate::new(40_000_000_000));
        (flow.current, flow.target) = (10e9, 10e9);
        flow.on_notification(&params, 0);
        flow.catch_up(&params, 15 * 55 * US);
        // Ten stages beyond the fifth, a thousandth of the line rate each: 40 Mb/s as in the paper.
        assert!((flow.target - (10e9 + 10.0 * 40e6)).abs() < 1.0, "{}", flow.target);
    }

    #[test]
    fn hyper_increase_needs_both_counters() {
        let config = Config { byte_counter: 1500, ..Config::default() };
        let (params, mut flow) = (config, Rate::new(40_000_000_000));
        (flow.current, flow.target) = (10e9, 10e9);
        flow.on_notification(&params, 0);
        for _ in 0..6 {
            flow.gap(&params, 1500, 0);
        }
        assert_eq!(flow.target, 10e9 + 40e6, "bytes alone: additive");
        flow.catch_up(&params, 6 * 55 * US);
        assert_eq!(flow.target, 10e9 + 40e6 * 6.0 + 400e6, "five more additive steps, then both beyond five");
    }

    #[test]
    fn a_long_silence_ends_at_line_rate_at_once() {
        let (params, mut flow) = (Config::default(), Rate::new(40_000_000_000));
        flow.on_notification(&params, 0);
        assert_eq!(flow.gap(&params, 1500, Time::from_s(3).as_ps()), 300_000);
        assert!(flow.alpha < 1e-9);
    }
}
