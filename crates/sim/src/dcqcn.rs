//! Rate control of RDMA senders: DCQCN (Zhu et al., SIGCOMM 2015, §3 and §5). Rates are bits per second.
//!
//! The two timers are kept lazily: whoever asks first brings them up to date.

use crate::scenario::Dcqcn as Config;

/// Stages of fast recovery, F in the paper.
const FAST_STAGES: u32 = 5;

/// Parameters resolved for a run; those that follow the line rate are resolved per flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DcqcnRules {
    gain: f64,
    alpha_timer: u64,
    rate_timer: u64,
    byte_counter: u64,
    additive: Option<f64>,
    hyper: Option<f64>,
}

impl DcqcnRules {
    pub(crate) fn new(config: &Config) -> DcqcnRules {
        DcqcnRules {
            gain: config.gain,
            alpha_timer: config.alpha_timer.as_ps(),
            rate_timer: config.rate_timer.as_ps(),
            byte_counter: config.byte_counter,
            additive: config.additive_increase.map(|rate| rate.as_bps() as f64),
            hyper: config.hyper_increase.map(|rate| rate.as_bps() as f64),
        }
    }
}

/// Reaction point of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dcqcn {
    line: f64,
    current: f64,
    target: f64,
    alpha: f64,
    alpha_at: u64,
    rate_at: u64,
    bytes: u64,
    timer_stages: u32,
    byte_stages: u32,
    /// No notification has come yet: the flow sends at line rate and keeps no timers.
    is_untouched: bool,
}

impl Dcqcn {
    /// A flow that starts at line rate.
    pub(crate) fn new(line_bps: u64) -> Dcqcn {
        let line = line_bps.max(1) as f64;
        Dcqcn { line, current: line, target: line, alpha: 1.0, is_untouched: true, ..Dcqcn::default() }
    }

    /// Picoseconds between the beginnings of a packet of `bytes` and the next.
    pub(crate) fn gap(&mut self, rules: &DcqcnRules, bytes: u64, now: u64) -> u64 {
        self.catch_up(rules, now);
        self.bytes += bytes;
        if !self.is_untouched && self.bytes >= rules.byte_counter {
            self.bytes = 0;
            self.byte_stages += 1;
            self.increase(rules);
        }
        (bytes as f64 * 8e12 / self.current) as u64
    }

    /// A congestion notification packet arrived: cut (equation 1 of the paper).
    pub(crate) fn on_notification(&mut self, rules: &DcqcnRules, now: u64) {
        self.catch_up(rules, now);
        self.is_untouched = false;
        self.target = self.current;
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(self.least());
        self.alpha = (1.0 - rules.gain) * self.alpha + rules.gain;
        (self.timer_stages, self.byte_stages, self.bytes) = (0, 0, 0);
        self.alpha_at = now + rules.alpha_timer;
        self.rate_at = now + rules.rate_timer;
    }

    /// Lets the timers due by `now` expire, in order.
    fn catch_up(&mut self, rules: &DcqcnRules, now: u64) {
        if self.is_untouched {
            return;
        }
        while self.alpha_at <= now {
            self.alpha *= 1.0 - rules.gain;
            self.alpha_at += rules.alpha_timer;
        }
        while self.rate_at <= now {
            if self.current >= self.line {
                // Nothing left to win back; the timer keeps its phase.
                self.rate_at += ((now - self.rate_at) / rules.rate_timer + 1) * rules.rate_timer;
                return;
            }
            self.rate_at += rules.rate_timer;
            self.timer_stages += 1;
            self.increase(rules);
        }
    }

    /// Fast recovery, then additive, then hyper increase (figure 7 of the paper).
    fn increase(&mut self, rules: &DcqcnRules) {
        let (most, least) = (self.timer_stages.max(self.byte_stages), self.timer_stages.min(self.byte_stages));
        if least > FAST_STAGES {
            self.target += rules.hyper.unwrap_or(self.line / 100.0);
        } else if most > FAST_STAGES {
            self.target += rules.additive.unwrap_or(self.line / 1000.0);
        }
        self.target = self.target.min(self.line);
        self.current = (self.current + self.target) / 2.0;
        // Halving never arrives; the last thousandth is given.
        if self.current > self.line * 0.999 {
            self.current = self.line;
        }
    }

    /// Rates do not fall below a thousandth of the line's.
    fn least(&self) -> f64 {
        self.line / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use super::*;

    const US: u64 = 1_000_000;

    fn rules() -> DcqcnRules {
        DcqcnRules::new(&Config::default())
    }

    #[test]
    fn the_first_notification_halves_and_fast_recovery_halves_the_distance() {
        let (rules, mut flow) = (rules(), Dcqcn::new(40_000_000_000));
        assert_eq!(flow.gap(&rules, 1500, 0), 300_000, "line rate");
        flow.on_notification(&rules, 0);
        assert_eq!((flow.current, flow.target), (20e9, 40e9), "alpha starts at 1");
        for stage in 1..=5 {
            flow.catch_up(&rules, stage * 55 * US);
            let expected = 40e9 - 20e9 / f64::from(1u32 << stage);
            assert!((flow.current - expected).abs() < 1.0, "stage {stage}: {}", flow.current);
        }
        assert!((flow.alpha - (255.0f64 / 256.0).powi(5)).abs() < 1e-9, "alpha decays each 55 us");
    }

    #[test]
    fn additive_increase_moves_the_target() {
        let (rules, mut flow) = (rules(), Dcqcn::new(40_000_000_000));
        (flow.current, flow.target) = (10e9, 10e9);
        flow.on_notification(&rules, 0);
        flow.catch_up(&rules, 15 * 55 * US);
        // Ten stages beyond the fifth, a thousandth of the line rate each: 40 Mb/s as in the paper.
        assert!((flow.target - (10e9 + 10.0 * 40e6)).abs() < 1.0, "{}", flow.target);
    }

    #[test]
    fn hyper_increase_needs_both_counters() {
        let config = Config { byte_counter: 1500, ..Config::default() };
        let (rules, mut flow) = (DcqcnRules::new(&config), Dcqcn::new(40_000_000_000));
        (flow.current, flow.target) = (10e9, 10e9);
        flow.on_notification(&rules, 0);
        for _ in 0..6 {
            flow.gap(&rules, 1500, 0);
        }
        assert_eq!(flow.target, 10e9 + 40e6, "bytes alone: additive");
        flow.catch_up(&rules, 6 * 55 * US);
        assert_eq!(flow.target, 10e9 + 40e6 * 6.0 + 400e6, "five more additive steps, then both beyond five");
    }

    #[test]
    fn a_long_silence_ends_at_line_rate_at_once() {
        let (rules, mut flow) = (rules(), Dcqcn::new(40_000_000_000));
        flow.on_notification(&rules, 0);
        assert_eq!(flow.gap(&rules, 1500, Time::from_s(3).as_ps()), 300_000);
        assert!(flow.alpha < 1e-9);
    }
}
