//! The standing queue before a link that several flows fill, by congestion control.
//!
//! | transport | mean queue | source |
//! | --- | --- | --- |
//! | DCTCP | K + n − A / 2 with A = √(2 n (C·RTT + K)) / 2, not below 0 | Alizadeh et al., DCTCP, SIGCOMM 2010, section 3.3 |
//! | RDMA (DCQCN) | the marking threshold | Zhu et al., DCQCN, SIGCOMM 2015, section 5 |
//! | spray | the target delay, or the marking threshold if that is less | `transport/nscc.rs` |
//! | NewReno, CUBIC | between the queue limit B and its lower end B − (1 − β)(C·RTT + B) / n | Appenzeller, Keslassy, McKeown, Sizing Router Buffers, SIGCOMM 2004; β = 0.5 (RFC 5681), 0.7 (RFC 9438) |

use super::congestion::WindowLaw;
use crate::scenario::{Marking, Scenario};
use crate::setup;
use crate::transport::QueueLaw;
use crate::transport::params::NetworkScale;

/// Queue of each congestion control, in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandingQueue {
    law: QueueLaw,
    /// Marking threshold, and limit of a queue, packets.
    threshold: f64,
    limit: f64,
}

impl StandingQueue {
    pub(super) fn new(scenario: &Scenario<'_>, scale: &NetworkScale) -> StandingQueue {
        let config = scenario.config;
        let packet = f64::from(config.transport.packet_bytes());
        let threshold = match config.switch.marking {
            Marking::Step(limit) => setup::in_bytes(scenario, limit) as f64 / packet,
            Marking::Ramp { min_bytes, .. } => min_bytes as f64 / packet,
            Marking::Off => f64::INFINITY,
        };
        let law = config.transport.kind.queue_law(scale);
        StandingQueue { law, threshold, limit: setup::queue_bytes(scenario) as f64 / packet }
    }

    /// Returns the law by which windows shrink at such a queue.
    pub(super) fn window_law(&self) -> WindowLaw {
        let marks = WindowLaw { gain: None, reduction: 0.5, threshold: self.threshold.min(self.limit) };
        match self.law {
            QueueLaw::Sawtooth(gain) => WindowLaw { gain: Some(gain), ..marks },
            QueueLaw::DropTail(beta) => WindowLaw { reduction: 1.0 - beta, threshold: self.limit, ..marks },
            QueueLaw::Threshold | QueueLaw::Delay(_) => marks,
        }
    }

    /// Returns the mean queue of `flows` flows, packets. `product` is the bandwidth-delay product of
    /// the link in packets, and `step` the time of one packet in picoseconds.
    pub(super) fn packets(&self, flows: u32, product: f64, step: f64) -> f64 {
        let (n, limit) = (f64::from(flows), self.limit);
        let queue = match self.law {
            QueueLaw::Sawtooth(_) => {
                let amplitude = (2.0 * n * (product + self.threshold)).sqrt() / 2.0;
                self.threshold + n - amplitude / 2.0
            }
            QueueLaw::Threshold => self.threshold,
            QueueLaw::Delay(target) => (target / step).min(self.threshold),
            QueueLaw::DropTail(beta) => {
                let lowest = limit - (1.0 - beta) * (product + limit) / n;
                (lowest.max(0.0) + limit) / 2.0
            }
        };
        queue.clamp(0.0, limit)
    }
}
