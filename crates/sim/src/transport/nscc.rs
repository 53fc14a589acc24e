//! Window control of the `spray` transport, in the spirit of Ultra Ethernet's NSCC and of SMaRTT
//! (arXiv 2404.01630), but simpler: the four quadrants of ECN and queueing delay.
//!
//! Windows count packets. Per acknowledgement, with `d` its queueing delay and `T` the target:
//!
//! | | `d < T` | `d >= T` |
//! | --- | --- | --- |
//! | not marked | `+ A (1 - d/T) / w`: free capacity, `A` packets a round trip at most | `+ E / w`: gently, for fairness |
//! | marked | `- P w / B`: a path is busy, larger windows give more | counted |
//!
//! Once per window, if the mean delay reached the target, `w *= max(1 - G f (d - T) / d, 1/2)` with
//! `f` the marked share. A trimmed or timed-out packet reduces the window by one packet. `B` is the
//! bandwidth-delay product. Without marking at switches, a delay at the target counts as a mark.

const GAMMA: f64 = 0.8;
/// `P`: share of the window that a single flow releases in a round trip of marks without delay.
const RELEASE_SHARE: f64 = 0.25;

#[derive(Clone, Copy, Debug)]
pub(crate) struct NsccParams {
    /// Longest base round-trip time, picoseconds; a flow with a shorter one uses that.
    pub(crate) base_rtt: u64,
    /// `T`: the target of queueing delay, picoseconds.
    pub(crate) target: u64,
    /// `B`, the bandwidth-delay product of the longest path, in packets.
    pub(crate) product: f64,
    /// Packets; also the initial window.
    pub(crate) max_window: f64,
    pub(crate) is_marking: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Nscc {
    base_rtt: u64,
    /// Acknowledgements until the next evaluation of the round, and the values counted in it.
    round_left: u32,
    acked: u32,
    marked: u32,
    delays: u64,
}

impl Nscc {
    pub(crate) fn new(params: &NsccParams) -> Nscc {
        Nscc { base_rtt: params.base_rtt, round_left: params.product as u32, acked: 0, marked: 0, delays: 0 }
    }

    pub(crate) fn on_ack(&mut self, cwnd: f64, params: &NsccParams, is_marked: bool, rtt: u64) -> f64 {
        self.base_rtt = self.base_rtt.min(rtt);
        let delay = rtt - self.base_rtt;
        let is_slow = delay >= params.target;
        let is_marked = if params.is_marking { is_marked } else { is_slow };
        self.acked += 1;
        self.marked += u32::from(is_marked);
        self.delays += delay;
        // `A` fills freed capacity in a few round trips.
        let (fast, gentle) = ((params.product / 8.0).max(1.0), (params.product / 64.0).max(0.25));
        let step = match (is_marked, is_slow) {
            (false, false) => fast * (1.0 - delay as f64 / params.target as f64) / cwnd,
            (false, true) => gentle / cwnd,
            (true, false) => -RELEASE_SHARE * cwnd / params.product,
            (true, true) => 0.0,
        };
        let mut cwnd = cwnd + step;
        self.round_left = self.round_left.saturating_sub(1);
        if self.round_left == 0 {
            cwnd *= self.factor(params);
            (self.acked, self.marked, self.delays, self.round_left) = (0, 0, 0, cwnd.max(1.0) as u32);
        }
        cwnd.clamp(1.0, params.max_window)
    }

    fn factor(&self, params: &NsccParams) -> f64 {
        let mean = self.delays as f64 / f64::from(self.acked.max(1));
        let target = params.target as f64;
        if mean < target {
            return 1.0;
        }
        let share = f64::from(self.marked) / f64::from(self.acked.max(1));
        (1.0 - GAMMA * share * (mean - target) / mean.max(1.0)).max(0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: u64 = 10_000_000;

    fn params() -> NsccParams {
        NsccParams { base_rtt: RTT, target: RTT, product: 80.0, max_window: 120.0, is_marking: true }
    }

    /// Returns the window after `count` acknowledgements of packets with this delay and mark.
    fn after(mut cwnd: f64, count: u32, delay: u64, is_marked: bool, params: &NsccParams) -> f64 {
        let mut nscc = Nscc::new(params);
        nscc.round_left = count;
        for _ in 0..count {
            cwnd = nscc.on_ack(cwnd, params, is_marked, RTT + delay);
        }
        cwnd
    }

    #[test]
    fn the_four_quadrants_move_the_window_as_written() {
        let params = params();
        // A round of 40 acknowledgements at a window of 40, first order in the step.
        let free = after(40.0, 40, 0, false, &params);
        assert!((free - 50.0).abs() < 1.2, "A = B/8 = 10 packets: {free}");
        let half = after(40.0, 40, RTT / 2, false, &params);
        assert!((half - 45.0).abs() < 0.4, "half the target, half the growth: {half}");
        let gentle = after(40.0, 40, 2 * RTT, false, &params);
        assert!((gentle - 41.25).abs() < 0.05, "E = B/64: {gentle}");
        let busy = after(40.0, 40, 0, true, &params);
        assert!((busy - 40.0 * libm::exp(-0.25 * 40.0 / 80.0)).abs() < 0.05, "P w/B each: {busy}");
        let full = after(40.0, 40, 2 * RTT, true, &params);
        assert!((full - 40.0 * 0.6).abs() < 1e-9, "1 - 0.8 (2T - T) / 2T: {full}");
        assert_eq!(after(40.0, 40, 1000 * RTT, true, &params), 20.0, "half at most");
    }

    #[test]
    fn without_marks_delay_alone_decides() {
        let params = NsccParams { is_marking: false, ..params() };
        assert!((after(40.0, 40, 2 * RTT, false, &params) - 24.0).abs() < 1e-9);
        assert!(after(40.0, 40, 0, true, &params) > 45.0);
    }

    #[test]
    fn a_window_stays_within_its_bounds() {
        let params = params();
        assert_eq!(after(119.0, 200, 0, false, &params), 120.0);
        assert_eq!(after(1.0, 20, 5 * RTT, true, &params), 1.0);
    }
}
