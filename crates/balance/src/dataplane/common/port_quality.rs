//! The quality of the ports of a switch, as adaptive routing in switches computes it (mechanisms-2.md
//! P31; SAI 1.12 and later).
//!
//! Every `interval` a port has two averages, of its load and of its queue. Each falls into one of eight
//! bands, and the weighted mean of the two bands is subtracted from the best quality, 7. A port without a
//! carrier has no quality.
//!
//! Readings: the load is the estimator of the simulator with the same interval and weight. The average
//! of the queue is brought up to date when it is read, with the present queue as the sample of all
//! intervals since then. Vendors set the bands; here they divide the rate of the port, and the
//! queueing delay up to `queue_range`, evenly.

use net::{LinkIx, Time};

use super::power;
use crate::dataplane::{Cx, Scale, Sensing, SwitchEnv};
use crate::hash::{combine, mix, reduce};
use crate::params::{Param, Params};

/// Time between two samples of load and queue, in base RTTs or absolute.
pub const INTERVAL: Param =
    Param::scaled("interval", "0.2rtt").doc("Time between two samples of a port; published: 16us (base RTT 80 us).");
/// Exponent e of the averages: a new sample has the weight 2^-e.
pub const EXPONENT: Param =
    Param::count("exponent", 0..=15, "2").doc("A sample has the weight 2^-exponent in the averages of a port.");
/// Weight of the load of a port, relative to that of its queue.
pub const LOAD_WEIGHT: Param =
    Param::count("load_weight", 0..=255, "16").doc("Weight of the load of a port in its quality.");
/// Weight of the queue of a port, relative to that of its load.
pub const QUEUE_WEIGHT: Param =
    Param::count("queue_weight", 0..=255, "16").doc("Weight of the queue of a port in its quality.");
/// Queueing delay at which the last band of the queue begins, times 8/7.
pub const QUEUE_RANGE: Param =
    Param::scaled("queue_range", "1hop").doc("Queueing delay at which the eight bands of the queue end.");

/// The best quality; the worst is 0.
pub const BEST: i8 = 7;
/// Quality of a port without a carrier.
pub const DOWN: i8 = -1;
const BANDS: f64 = 8.0;

/// Returns the estimators of the load, with the interval and exponent of the parameters.
pub fn load_sensing(scale: &Scale, params: &Params) -> Sensing {
    Sensing { interval: interval(scale, params), decay: power(0.5, params.count(EXPONENT.name)), bits: 0 }
}

fn interval(scale: &Scale, params: &Params) -> Time {
    params.scaled(INTERVAL.name, scale).max(Time::from_ns(1))
}

/// The ports of a switch that have been asked for.
pub struct PortQualities {
    interval_ps: u64,
    /// Start of the intervals of this switch: switches do not sample at the same instants.
    phase_ps: u64,
    /// Share of the past in an average.
    keep: f64,
    load_weight: f64,
    queue_weight: f64,
    queue_range_ps: f64,
    /// Number of the present interval plus 1, and its end; of the last one if time has passed.
    interval: u64,
    ends: Time,
    ports: Vec<Sampled>,
}

struct Sampled {
    link: LinkIx,
    /// Number of the interval of the last sample, plus 1; 0 before the first.
    interval: u64,
    queue_ps: f64,
    quality: i8,
}

impl PortQualities {
    pub fn new(env: &SwitchEnv<'_>, params: &Params) -> PortQualities {
        let sensing = load_sensing(&env.scale, params);
        let interval_ps = sensing.interval.as_ps();
        let phase = combine(mix(env.seed ^ 0x7068_6173), u64::from(env.switch.0));
        PortQualities {
            interval_ps,
            phase_ps: reduce(phase, interval_ps as usize) as u64,
            keep: 1.0 - sensing.decay,
            load_weight: params.count(LOAD_WEIGHT.name) as f64,
            queue_weight: params.count(QUEUE_WEIGHT.name) as f64,
            queue_range_ps: params.scaled(QUEUE_RANGE.name, &env.scale).as_ps().max(1) as f64,
            interval: 0,
            ends: Time::ZERO,
            ports: Vec::new(),
        }
    }

    /// Returns the number by which the functions below know a port.
    pub fn slot(&mut self, link: LinkIx) -> u16 {
        let known = self.ports.iter().position(|port| port.link == link);
        known.unwrap_or_else(|| {
            self.ports.push(Sampled { link, interval: 0, queue_ps: 0.0, quality: BEST });
            self.ports.len() - 1
        }) as u16
    }

    /// Returns when the qualities change next. Times must not decrease.
    pub fn next_change(&mut self, now: Time) -> Time {
        if now >= self.ends {
            self.interval = (now.as_ps() + self.phase_ps) / self.interval_ps + 1;
            self.ends = Time::from_ps((self.interval * self.interval_ps).saturating_sub(self.phase_ps));
        }
        self.ends
    }

    /// Returns the quality of a port in this interval.
    pub fn quality(&mut self, cx: &Cx<'_>, slot: u16) -> i8 {
        self.next_change(cx.now);
        let PortQualities { keep, load_weight, queue_weight, queue_range_ps, interval: number, .. } = *self;
        let port = &mut self.ports[usize::from(slot)];
        if port.interval == number {
            return port.quality;
        }
        let sample = cx.ports.queueing_delay(port.link).as_ps() as f64;
        port.queue_ps = sample + (port.queue_ps - sample) * power(keep, number - port.interval);
        port.interval = number;
        let blended =
            load_weight * band(cx.ports.utilisation(port.link)) + queue_weight * band(port.queue_ps / queue_range_ps);
        let total = load_weight + queue_weight;
        // Rounded: casts cut off.
        let band = if total > 0.0 { blended / total + 0.5 } else { 0.0 };
        port.quality = if cx.ports.is_up(port.link) { BEST - band as i8 } else { DOWN };
        port.quality
    }
}

/// Returns the band of a share of the whole range, 0 for the lightest.
fn band(share: f64) -> f64 {
    // A cast cuts off, and is several times faster than `floor`.
    f64::from(((share * BANDS) as i32).clamp(0, BANDS as i32 - 1))
}
