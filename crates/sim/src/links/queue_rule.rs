//! Queue discipline of a port: the limit of its queue and ECN marking.

use net::RandomStream;

use super::port::Port;
use crate::scenario::{Marking, QueueConfig, QueueLimit};

/// Limit and marking in one unit, so that one comparison decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) limit: u64,
    pub(super) limit_in_bytes: bool,
    pub(super) mark: Mark,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    Off,
    Packets(u32),
    Bytes(u64),
    Ramp { min: u64, max: u64, probability: f64 },
}

impl Rule {
    pub(super) fn new(config: &QueueConfig, is_lossless: bool) -> Rule {
        let (limit, limit_in_bytes) = match config.limit {
            _ if is_lossless => (u64::MAX, false),
            QueueLimit::Packets(packets) => (u64::from(packets), false),
            QueueLimit::Bytes(bytes) => (bytes, true),
        };
        let mark = match config.marking {
            Marking::Off => Mark::Off,
            Marking::Step(QueueLimit::Packets(packets)) => Mark::Packets(packets),
            Marking::Step(QueueLimit::Bytes(bytes)) => Mark::Bytes(bytes),
            Marking::Ramp { min_bytes, max_bytes, max_probability } => {
                Mark::Ramp { min: min_bytes, max: max_bytes, probability: max_probability }
            }
        };
        Rule { limit, limit_in_bytes, mark }
    }

    /// Returns whether a packet that finds the port in this state is marked.
    #[inline]
    pub(super) fn is_marking(&self, port: &Port, rng: &mut RandomStream) -> bool {
        match self.mark {
            Mark::Off => false,
            Mark::Packets(threshold) => port.queued_packets >= threshold,
            Mark::Bytes(threshold) => u64::from(port.queued_bytes) >= threshold,
            Mark::Ramp { min, max, probability } => {
                let queued = u64::from(port.queued_bytes);
                if queued < min {
                    return false;
                }
                queued >= max || rng.next_f64() < probability * (queued - min) as f64 / (max - min) as f64
            }
        }
    }
}
