//! HyStart++ (RFC 9406): slow start ends when round-trip times grow, before queues are full.
//!
//! Rounds end when what was sent at their beginning is acknowledged. If the least round-trip time of
//! a round exceeds that of the round before by an eighth (4 to 16 ms), slow start becomes
//! conservative (a quarter of the growth). After five such rounds it ends; if the round-trip time
//! falls below that of the first of them, slow start goes on. An acknowledgement adds one segment, as
//! in the other senders of this simulator, not the number of acknowledged ones.
//!
//! In networks with round-trip times below some milliseconds the least threshold, 4 ms, has no
//! effect.

use net::Time;

use super::sender::SendState;

/// Bounds of the growth of round-trip times that ends slow start, picoseconds (MIN_RTT_THRESH and
/// MAX_RTT_THRESH, §4.3).
const THRESHOLD: (u64, u64) = (Time::from_ms(4).as_ps(), Time::from_ms(16).as_ps());
/// The growth is this part of the round-trip time, within the bounds (MIN_RTT_DIVISOR).
const RTT_DIVISOR: u64 = 8;
/// Number of samples of a round before it is compared with the one before (N_RTT_SAMPLE).
const SAMPLES: u32 = 8;
/// Conservative slow start grows by one over this (CSS_GROWTH_DIVISOR).
const GROWTH_DIVISOR: f64 = 4.0;
/// Number of rounds of conservative slow start after which it ends (CSS_ROUNDS).
const CONSERVATIVE_ROUNDS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HyStart {
    /// Segment whose acknowledgement ends the round.
    round_end: u32,
    /// Minimum round-trip times of the last round and of this one, picoseconds; the maximum if
    /// unknown.
    last_min: u64,
    current_min: u64,
    samples: u32,
    /// Minimum round-trip time at the beginning of conservative slow start, and its rounds.
    conservative: Option<(u64, u32)>,
}

impl Default for HyStart {
    fn default() -> HyStart {
        HyStart { round_end: 0, last_min: u64::MAX, current_min: u64::MAX, samples: 0, conservative: None }
    }
}

impl HyStart {
    /// Handles an acknowledgement in slow start. Returns the growth of the window in segments, and
    /// whether slow start ends.
    pub(crate) fn on_ack(&mut self, state: &SendState, rtt: u64) -> (f64, bool) {
        self.current_min = self.current_min.min(rtt);
        self.samples += 1;
        let is_known = self.samples >= SAMPLES && self.last_min != u64::MAX;
        match self.conservative {
            None if is_known => {
                let threshold = (self.last_min / RTT_DIVISOR).clamp(THRESHOLD.0, THRESHOLD.1);
                if self.current_min >= self.last_min + threshold {
                    self.conservative = Some((self.current_min, 0));
                }
            }
            // The growth was no queue.
            Some((baseline, _)) if self.samples >= SAMPLES && self.current_min < baseline => self.conservative = None,
            _ => {}
        }
        let is_over = state.una >= self.round_end && self.end_round(state);
        (if self.conservative.is_some() { 1.0 / GROWTH_DIVISOR } else { 1.0 }, is_over)
    }

    /// Begins the next round. Returns whether slow start ends.
    fn end_round(&mut self, state: &SendState) -> bool {
        self.round_end = state.next;
        (self.last_min, self.current_min, self.samples) = (self.current_min, u64::MAX, 0);
        let Some((_, rounds)) = &mut self.conservative else { return false };
        *rounds += 1;
        *rounds > CONSERVATIVE_ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs slow start over a link that carries `rate` segments per millisecond with a base
    /// round-trip time, up to a window of `until` segments. Returns the window at the end.
    fn slow_start(base_ms: f64, rate: f64, until: f64) -> f64 {
        let (mut hystart, mut state) = (HyStart::default(), SendState::default());
        (state.cwnd, state.next) = (10.0, 10);
        while state.cwnd < until {
            // What exceeds the path waits in the queue.
            let queued = (state.cwnd - base_ms * rate).max(0.0);
            state.una += 1;
            let (growth, is_over) = hystart.on_ack(&state, ((base_ms + queued / rate) * 1e9) as u64);
            state.cwnd += growth;
            state.next = state.una + state.cwnd as u32;
            if is_over {
                return state.cwnd;
            }
        }
        state.cwnd
    }

    #[test]
    fn slow_start_ends_before_a_deep_queue_is_full() {
        // A bandwidth-delay product of 400 segments.
        let window = slow_start(40.0, 10.0, 100_000.0);
        assert!((400.0..3_000.0).contains(&window), "{window}");
    }

    #[test]
    fn short_round_trips_are_below_the_least_threshold() {
        // A full queue of 100 packets at 10 Gb/s adds 0.12 ms.
        assert_eq!(slow_start(0.08, 833.0, 150.0), 150.0);
    }

    #[test]
    fn growth_that_disappears_resumes_slow_start() {
        let (mut hystart, mut state) = (HyStart::default(), SendState::default());
        let mut round = |rtt_ms: u64| {
            let mut last = 0.0;
            for _ in 0..20 {
                state.una += 1;
                state.next = state.una + 20;
                let (growth, is_over) = hystart.on_ack(&state, rtt_ms * 1_000_000_000);
                assert!(!is_over);
                last = growth;
            }
            last
        };
        assert_eq!([round(40), round(40), round(50), round(50), round(40)], [1.0, 1.0, 0.25, 0.25, 1.0]);
    }
}
