//! Queue lengths and utilisation as balancers read them.

use balance::PortTelemetry;
use net::LinkIx;

use super::pfc::PfcPorts;
use super::port::Port;
use super::sensors::Sensors;
use crate::packet::Arena;
use crate::queue::NIL;

pub(crate) struct Telemetry<'a> {
    pub(crate) now: u64,
    pub(crate) arena: &'a Arena,
    pub(crate) ports: &'a [Port],
    pub(crate) sensors: Option<&'a Sensors>,
    pub(crate) classes: Option<&'a PfcPorts>,
}

impl Telemetry<'_> {
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

impl PortTelemetry for Telemetry<'_> {
    fn queued_bytes(&self, link: LinkIx) -> u64 {
        let port = &self.ports[link.ix()];
        u64::from(port.queued_bytes) - self.unsettled(port)
    }

    fn drain_bytes(&self, link: LinkIx, priority: u8) -> u64 {
        self.classes.map_or_else(|| self.queued_bytes(link), |classes| classes.drain_bytes(link.0, priority))
    }

    fn utilisation(&self, link: LinkIx) -> f64 {
        self.sensors
            .map_or(0.0, |sensors| sensors.utilisation(link.0, self.now, self.unsettled(&self.ports[link.ix()])))
    }
}
