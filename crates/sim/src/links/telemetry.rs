//! Queue lengths and utilisation as balancers read them.

use balance::PortTelemetry;
use net::LinkIx;

use super::network::Network;
use super::port::Port;
use crate::queue::NIL;

impl Network {
    #[inline]
    fn unsettled(&self, port: &Port) -> u64 {
        let (mut bytes, mut at) = (0, port.waiting);
        while at != NIL && self.arena.get(at).departs <= self.now {
            bytes += u64::from(self.arena.get(at).bytes);
            at = self.arena.get(at).next;
        }
        bytes
    }
}

impl PortTelemetry for Network {
    fn queued_bytes(&self, link: LinkIx) -> u64 {
        let port = &self.ports[link.ix()];
        u64::from(port.queued_bytes) - self.unsettled(port)
    }

    fn drain_bytes(&self, link: LinkIx, priority: u8) -> u64 {
        let classes = self.classes.as_ref();
        classes.map_or_else(|| self.queued_bytes(link), |classes| classes.drain_bytes(link.0, priority))
    }

    fn utilisation(&self, link: LinkIx) -> f64 {
        let unsettled = || self.unsettled(&self.ports[link.ix()]);
        self.admission.sensors.as_ref().map_or(0.0, |sensors| sensors.utilisation(link.0, self.now, unsettled()))
    }
}
