//! Queue discipline of a port: the limit of its queue and ECN marking.

use super::port::Port;
use crate::scenario::{Marking, QueueConfig, QueueLimit};

/// Limit and marking in one unit, so that one comparison decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) limit: u64,
    pub(super) limit_in_bytes: bool,
    pub(super) mark: Marking,
}

impl Rule {
    pub(super) fn new(config: &QueueConfig, is_lossless: bool) -> Rule {
        let (limit, limit_in_bytes) = match config.limit {
            _ if is_lossless => (u64::MAX, false),
            QueueLimit::Packets(packets) => (u64::from(packets), false),
            QueueLimit::Bytes(bytes) => (bytes, true),
        };
        Rule { limit, limit_in_bytes, mark: config.marking }
    }

    /// Returns whether a packet that joins the queue is marked; `draw` returns a uniform number below 1.
    #[inline]
    pub(super) fn is_marking(&self, port: &Port, draw: impl FnOnce() -> f64) -> bool {
        match self.mark {
            Marking::Off => false,
            Marking::Step(QueueLimit::Packets(threshold)) => port.queued_packets >= threshold,
            Marking::Step(QueueLimit::Bytes(threshold)) => u64::from(port.queued_bytes) >= threshold,
            Marking::Ramp { min_bytes: min, max_bytes: max, max_probability } => {
                let queued = u64::from(port.queued_bytes);
                let chance = || max_probability * (queued - min) as f64 / (max - min) as f64;
                queued >= max || (queued >= min && draw() < chance())
            }
        }
    }
}
