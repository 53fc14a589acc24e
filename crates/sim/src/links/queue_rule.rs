//! Queue discipline of a port: the limit of its queue and ECN marking.

use crate::scenario::{Marking, QueueConfig, QueueLimit};

/// Size of a queue that a packet finds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) bytes: u32,
    pub(super) packets: u32,
}

/// Limit and marking in one unit, so that one comparison decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) limit: u64,
    pub(super) limit_in_bytes: bool,
    pub(super) mark: Marking,
}

impl Rule {
    pub(super) fn new(config: &QueueConfig, is_lossless: bool, packet_bytes: u32) -> Rule {
        let (limit, limit_in_bytes) = match config.limit {
            _ if is_lossless => (u64::MAX, false),
            // Headers that replace packets would count as such.
            QueueLimit::Packets(packets) if config.trimming => (u64::from(packets) * u64::from(packet_bytes), true),
            QueueLimit::Packets(packets) => (u64::from(packets), false),
            QueueLimit::Bytes(bytes) => (bytes, true),
        };
        Rule { limit, limit_in_bytes, mark: config.marking }
    }

    /// Rule of ports that never drop or mark.
    pub(super) const UNLIMITED: Rule = Rule { limit: u64::MAX, limit_in_bytes: false, mark: Marking::Off };

    /// Returns the same rule for a link with `ratio` times the rate; at least one of a unit remains.
    pub(super) fn scaled(&self, ratio: f64) -> Rule {
        let scale = |count: u64| ((count as f64 * ratio).round() as u64).max(1);
        let mark = match self.mark {
            Marking::Off => Marking::Off,
            Marking::Step(QueueLimit::Packets(packets)) => {
                Marking::Step(QueueLimit::Packets(scale(u64::from(packets)) as u32))
            }
            Marking::Step(QueueLimit::Bytes(bytes)) => Marking::Step(QueueLimit::Bytes(scale(bytes))),
            Marking::Ramp { min_bytes, max_bytes, max_probability } => {
                let min_bytes = scale(min_bytes);
                Marking::Ramp { min_bytes, max_bytes: scale(max_bytes).max(min_bytes + 1), max_probability }
            }
        };
        let limit = if self.limit == u64::MAX { u64::MAX } else { scale(self.limit) };
        Rule { limit, limit_in_bytes: self.limit_in_bytes, mark }
    }

    /// Returns whether a packet of this size exceeds the limit.
    #[inline]
    pub(super) fn is_full(&self, queued: Queued, bytes: u16) -> bool {
        let occupancy = if self.limit_in_bytes {
            u64::from(queued.bytes) + u64::from(bytes)
        } else {
            u64::from(queued.packets) + 1
        };
        occupancy > self.limit
    }

    /// Returns whether a packet that joins a queue of this size is marked; `draw` returns a uniform
    /// number below 1.
    #[inline]
    pub(super) fn is_marking(&self, queued: Queued, draw: impl FnOnce() -> f64) -> bool {
        match self.mark {
            Marking::Off => false,
            Marking::Step(QueueLimit::Packets(threshold)) => queued.packets >= threshold,
            Marking::Step(QueueLimit::Bytes(threshold)) => u64::from(queued.bytes) >= threshold,
            Marking::Ramp { min_bytes: min, max_bytes: max, max_probability } => {
                let queued = u64::from(queued.bytes);
                let chance = || max_probability * (queued - min) as f64 / (max - min) as f64;
                queued >= max || (queued >= min && draw() < chance())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_scale_with_the_rate() {
        let rule = Rule::new(&QueueConfig::default(), false, 1500);
        let quarter = rule.scaled(0.25);
        let queued = |packets| Queued { bytes: 1500 * packets, packets };
        assert!(
            !quarter.is_full(queued(24), 1500) && quarter.is_full(queued(25), 1500),
            "100 packets at the whole rate"
        );
        assert!(
            !quarter.is_marking(queued(4), || 0.0) && quarter.is_marking(queued(5), || 0.0),
            "20 at the whole rate"
        );
        assert_eq!(rule.scaled(1e-9).limit, 1, "something fits");
        assert_eq!(Rule::UNLIMITED.scaled(0.25).limit, u64::MAX);
    }
}
