//! One-way delays, for `signal=one-way`.

use net::Time;
use net::routes::ClassIx;

use crate::dataplane::EdgeEnv;
use crate::dataplane::common::{CongestionFromLeaf, empty_delays};

/// One-way delays: measured where packets leave the fabric, returned to where they entered.
pub(super) struct OneWay {
    /// Delay of an empty path from each class to here: propagation, ps, and ps per byte.
    empty: Vec<(u64, f64)>,
    /// Unit of the 16-bit value, ps: 1/256 of a hop delay.
    step_ps: u64,
    pub(super) relay: CongestionFromLeaf,
}

impl OneWay {
    /// Makes an instance with an empty table.
    pub(super) fn new(env: &EdgeEnv<'_>) -> OneWay {
        OneWay {
            empty: empty_delays(env),
            step_ps: (env.scale.hop_delay.as_ps() / 256).max(1),
            // An entry older than a round trip would only count again in the average.
            relay: CongestionFromLeaf::new(env, env.scale.base_rtt),
        }
    }

    /// Returns the queueing delay of a packet of `bytes` from `from`, in steps.
    pub(super) fn queueing(&self, from: ClassIx, bytes: u32, one_way: Time) -> u16 {
        let (delay_ps, ps_per_byte) = self.empty[from.0 as usize];
        let empty_ps = delay_ps + (f64::from(bytes) * ps_per_byte) as u64;
        (one_way.as_ps().saturating_sub(empty_ps) / self.step_ps).min(u64::from(u16::MAX)) as u16
    }

    pub(super) fn read(&self, queueing: u16) -> u64 {
        u64::from(queueing) * self.step_ps
    }

    /// Returns the overlay header of a packet to `to`: a path and its queueing delay.
    pub(super) fn header(&mut self, to: ClassIx, now: Time) -> u32 {
        self.relay.tell(to, now).map_or(0, |(path, queueing)| (u32::from(path) + 1) << 16 | u32::from(queueing))
    }
}
