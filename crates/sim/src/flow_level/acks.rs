//! Capacity that acknowledgements take from data in the other direction.
//!
//! Acknowledgements return over other links than the data took, but for every flow that leaves a
//! switch over a cable, another one's acknowledgements arrive over it on average. Each direction of
//! a cable therefore carries acknowledgements in proportion to the data in the other. Queues do not
//! hold them back: they take their part of the capacity first.

use super::run::bytes_per_ps;
use crate::scenario::Scenario;

/// Change of a reservation, as a share of the capacity, from which rates are solved again.
const STEP: f64 = 0.005;

/// Load of data on each directed link, and what acknowledgements take of its capacity.
pub(super) struct AckLoad {
    /// Bytes of acknowledgements for a byte of data.
    pub(super) share: f64,
    load: Vec<f64>,
    /// Capacity for data and acknowledgements together, and the part of acknowledgements.
    total: Vec<f64>,
    reserved: Vec<f64>,
    changed: Vec<u32>,
}

impl AckLoad {
    pub(super) fn new(scenario: &Scenario<'_>) -> AckLoad {
        let transport = &scenario.config.transport;
        let rates = scenario.topology.links().iter().map(|link| bytes_per_ps(link.rate.as_bps()));
        let links = scenario.topology.links().len();
        AckLoad {
            share: f64::from(transport.ack_bytes)
                / f64::from(transport.packet_bytes())
                / f64::from(transport.packets_per_ack()),
            load: vec![0.0; links],
            total: rates.collect(),
            reserved: vec![0.0; links],
            changed: Vec::new(),
        }
    }

    /// Adds data to a link.
    pub(super) fn add(&mut self, link: u32, rate: f64) {
        self.load[link as usize] += rate;
        self.changed.push(link);
    }

    /// Sets the capacity of a link. Returns what is left of it for data.
    pub(super) fn set_capacity(&mut self, link: u32, capacity: f64) -> f64 {
        self.total[link as usize] = capacity;
        self.for_data(link)
    }

    fn for_data(&self, link: u32) -> f64 {
        (self.total[link as usize] - self.reserved[link as usize]).max(0.0)
    }

    /// Calls `set` with the links whose capacity for data is notably different now.
    pub(super) fn update(&mut self, mut set: impl FnMut(u32, f64)) {
        for link in std::mem::take(&mut self.changed) {
            let reverse = link ^ 1;
            let needed = (self.share * self.load[link as usize]).max(0.0);
            let at = reverse as usize;
            if (needed - self.reserved[at]).abs() > STEP * self.total[at] {
                self.reserved[at] = needed;
                set(reverse, self.for_data(reverse));
            }
        }
    }
}
