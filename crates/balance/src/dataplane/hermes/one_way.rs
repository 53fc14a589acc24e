//! One-way delays, for `signal=one-way`.

use net::Time;
use net::routes::ClassIx;

use crate::dataplane::EdgeEnv;
use crate::dataplane::parts::relay::Relay;

/// One-way delays: measured where packets leave the fabric, told to where they came from.
pub(super) struct OneWay {
    /// Of an empty path from each class to here: propagation, ps, and ps per byte.
    empty: Vec<(u64, f64)>,
    /// What a step of the 16 bits stands for, ps: 1/256 of a hop delay.
    step_ps: u64,
    pub(super) relay: Relay,
}

impl OneWay {
    /// With an empty table.
    pub(super) fn new(env: &EdgeEnv<'_>) -> OneWay {
        let empty = (0..env.path_counts.len() as u32).map(|class| {
            let from = env.routes.class_node(ClassIx(class));
            let links = env.routes.path(env.topology, from, env.class, 0);
            links.iter().map(|link| env.topology.link(*link)).fold((0, 0.0), |(delay, per_byte), link| {
                (delay + link.delay.as_ps(), per_byte + 8e12 / link.rate.as_bps_f64())
            })
        });
        OneWay {
            empty: empty.collect(),
            step_ps: (env.scale.hop_delay.as_ps() / 256).max(1),
            // Older than a round trip an entry would only repeat itself into the average.
            relay: Relay::new(env, env.scale.base_rtt),
        }
    }

    /// What a packet of `bytes` from `from` waited on its way, in steps.
    pub(super) fn queueing(&self, from: ClassIx, bytes: u32, one_way: Time) -> u16 {
        let (delay_ps, ps_per_byte) = self.empty[from.0 as usize];
        let empty_ps = delay_ps + (f64::from(bytes) * ps_per_byte) as u64;
        (one_way.as_ps().saturating_sub(empty_ps) / self.step_ps).min(u64::from(u16::MAX)) as u16
    }

    /// Steps as picoseconds.
    pub(super) fn read(&self, queueing: u16) -> u64 {
        u64::from(queueing) * self.step_ps
    }

    /// The overlay header of a packet to `to`: a path and what was waited on it.
    pub(super) fn header(&mut self, to: ClassIx, now: Time) -> u32 {
        self.relay.tell(to, now).map_or(0, |(path, queueing)| (u32::from(path) + 1) << 16 | u32::from(queueing))
    }
}
