//! Queue lengths and utilisation as balancers read them.

use balance::PortTelemetry;
use net::{LinkIx, Time};

use super::network::Network;
use super::port::{DOWN, RATE_BITS};

impl Network {
    /// Returns size and departure time of the packets that have left but are still counted as queued.
    #[inline]
    fn departed(&self, link: u32) -> impl Iterator<Item = (u16, u64)> {
        let mut at = self.ports[link as usize].waiting;
        let sent = std::iter::from_fn(move || {
            let packet = self.arena.find(at).filter(|packet| packet.departs <= self.now)?;
            at = packet.next;
            Some((packet.bytes, packet.departs))
        });
        let lanes = (!self.is_fifo && self.has_lanes(link)).then(|| self.departed_from_lanes(link));
        sent.chain(lanes.into_iter().flatten())
    }
}

impl PortTelemetry for Network {
    fn queued_bytes(&self, link: LinkIx) -> u64 {
        let port = &self.ports[link.ix()];
        u64::from(port.queued_bytes) - self.departed(link.0).map(|(bytes, _)| u64::from(bytes)).sum::<u64>()
    }

    fn drain_bytes(&self, link: LinkIx, priority: u8) -> u64 {
        let classes = self.classes.as_ref();
        classes.map_or_else(|| self.queued_bytes(link), |classes| classes.drain_bytes(link.0, priority))
    }

    fn queueing_delay(&self, link: LinkIx) -> Time {
        let bytes = u128::from(self.queued_bytes(link)) * u128::from(self.ports[link.ix()].ps_per_byte);
        Time::from_ps((bytes >> RATE_BITS) as u64)
    }

    fn is_up(&self, link: LinkIx) -> bool {
        self.ports[link.ix()].faults & DOWN == 0
    }

    fn utilisation(&self, link: LinkIx) -> f64 {
        let Some(sensors) = &self.admission.sensors else { return 0.0 };
        sensors.utilisation(link.0, self.now, self.departed(link.0))
    }
}
