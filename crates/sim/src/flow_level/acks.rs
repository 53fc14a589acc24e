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
    cables: Vec<Cable>,
    changed: Vec<u32>,
}

/// Both directions of a cable: one line of the cache, because each takes from the other.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Cable([Direction; 2]);

#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    load: f64,
    /// Capacity for data and acknowledgements together, and the part of acknowledgements.
    total: f64,
    reserved: f64,
}

impl Direction {
    fn for_data(&self) -> f64 {
        (self.total - self.reserved).max(0.0)
    }
}

impl AckLoad {
    pub(super) fn new(scenario: &Scenario<'_>) -> AckLoad {
        let transport = &scenario.config.transport;
        let mut acks = AckLoad {
            share: f64::from(transport.ack_bytes)
                / f64::from(transport.packet_bytes())
                / f64::from(transport.packets_per_ack()),
            cables: vec![Cable::default(); scenario.topology.links().len().div_ceil(2)],
            changed: Vec::new(),
        };
        for (link, properties) in (0u32..).zip(scenario.topology.links()) {
            acks.direction(link).total = bytes_per_ps(properties.rate.as_bps());
        }
        acks
    }

    fn direction(&mut self, link: u32) -> &mut Direction {
        &mut self.cables[link as usize / 2].0[link as usize % 2]
    }

    /// Adds data to a link.
    pub(super) fn add(&mut self, link: u32, rate: f64) {
        self.direction(link).load += rate;
        self.changed.push(link);
    }

    /// Sets the capacity of a link. Returns what is left of it for data.
    pub(super) fn set_capacity(&mut self, link: u32, capacity: f64) -> f64 {
        let direction = self.direction(link);
        direction.total = capacity;
        direction.for_data()
    }

    /// Calls `set` with the links whose capacity for data is notably different now.
    pub(super) fn update(&mut self, mut set: impl FnMut(u32, f64)) {
        let mut changed = std::mem::take(&mut self.changed);
        for link in changed.drain(..) {
            let reverse = link ^ 1;
            let needed = (self.share * self.direction(link).load).max(0.0);
            let direction = self.direction(reverse);
            if (needed - direction.reserved).abs() > STEP * direction.total {
                direction.reserved = needed;
                set(reverse, direction.for_data());
            }
        }
        self.changed = changed;
    }
}
