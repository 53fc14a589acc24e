//! Ports and their counters.

use net::Time;
use openflow::{ErrorKind, Message, PortDesc, PortMod, PortModFailed, PortNo, PortReason};

use crate::Switch;
use crate::counters::Counter;

/// `OFPPC_PORT_DOWN`, the only configuration bit of a port that can be changed here.
const PORT_DOWN: u32 = 1;

#[derive(Clone, Debug)]
pub struct Port {
    pub desc: PortDesc,
    pub rx: Counter,
    pub tx: Counter,
    pub rx_dropped: Counter,
    pub tx_dropped: Counter,
}

#[derive(Debug)]
pub struct Ports(Vec<Port>);

impl Ports {
    /// Creates ports from descriptions with unique numbers; other descriptions are omitted.
    pub fn new(descs: &[PortDesc]) -> Ports {
        let mut descs: Vec<&PortDesc> =
            descs.iter().filter(|desc| desc.port.0 != 0 && !desc.port.is_reserved()).collect();
        descs.sort_by_key(|desc| desc.port);
        descs.dedup_by_key(|desc| desc.port);
        let zero = Counter::default();
        let port =
            |desc: &PortDesc| Port { desc: desc.clone(), rx: zero, tx: zero, rx_dropped: zero, tx_dropped: zero };
        Ports(descs.into_iter().map(port).collect())
    }

    #[inline]
    fn ix(&self, port: PortNo) -> Option<usize> {
        // Ports are usually numbered from 1 without gaps.
        let guess = (port.0 as usize).wrapping_sub(1);
        match self.0.get(guess) {
            Some(at) if at.desc.port == port => Some(guess),
            _ => self.0.binary_search_by_key(&port, |at| at.desc.port).ok(),
        }
    }

    #[inline]
    pub fn get(&self, port: PortNo) -> Option<&Port> {
        self.ix(port).map(|ix| &self.0[ix])
    }

    #[inline]
    pub fn get_mut(&mut self, port: PortNo) -> Option<&mut Port> {
        self.ix(port).map(|ix| &mut self.0[ix])
    }

    #[inline]
    pub fn is_live(&self, port: PortNo) -> bool {
        self.get(port).is_some_and(|port| port.desc.is_live())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Port> {
        self.0.iter()
    }
}

impl Switch {
    pub(crate) fn change_port(&mut self, port: PortNo, change: impl FnOnce(&mut PortDesc)) {
        let Some(port) = self.ports.get_mut(port) else { return };
        let was = port.desc.clone();
        change(&mut port.desc);
        if port.desc == was {
            return;
        }
        let message = Message::PortStatus { reason: PortReason::Modify, port: port.desc.clone() };
        self.changed();
        self.notify_all(message);
    }

    pub(crate) fn port_mod(&mut self, port_mod: &PortMod) -> Result<(), ErrorKind> {
        let refuse = |why| Err(ErrorKind::PortModFailed(why));
        let Some(port) = self.ports.get(port_mod.port) else { return refuse(PortModFailed::BadPort) };
        if port.desc.hw_addr != port_mod.hw_addr {
            return refuse(PortModFailed::BadHwAddr);
        }
        if (port_mod.mask | port_mod.config) & !PORT_DOWN != 0 {
            return refuse(PortModFailed::BadConfig);
        }
        if port_mod.advertise != 0 {
            return refuse(PortModFailed::BadAdvertise);
        }
        if port_mod.mask & PORT_DOWN != 0 {
            self.change_port(port_mod.port, |desc| desc.is_admin_down = port_mod.config & PORT_DOWN != 0);
        }
        Ok(())
    }

    /// The start of the age of port counters: power-on.
    pub(crate) const PORTS_SINCE: Time = Time::ZERO;
}
