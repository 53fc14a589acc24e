//! Ports of all switches, as reported and damped.

use std::collections::{BTreeMap, BTreeSet};

use net::NodeIx;
use openflow::{DatapathId, PortDesc, PortNo};

use super::discovery::is_physical;
use super::{Cx, Observer};
use crate::changes::Change;
use crate::{Event, SwitchPort};

impl Observer {
    pub(crate) fn live_ports(&self) -> impl Iterator<Item = SwitchPort> {
        self.ports.iter().flat_map(|(datapath, ports)| {
            let live = ports.values().filter(|port| port.is_live() && is_physical(port.port));
            live.map(|port| (*datapath, port.port))
        })
    }
    pub(crate) fn is_port_live(&self, end: SwitchPort) -> bool {
        self.ports.get(&end.0).and_then(|ports| ports.get(&end.1)).is_some_and(PortDesc::is_live)
    }

    /// Returns whether a port exists, live or not. Ports of a switch that has never been connected
    /// may exist.
    pub(crate) fn may_port_exist(&self, end: SwitchPort) -> bool {
        self.ports.get(&end.0).is_none_or(|ports| ports.contains_key(&end.1))
    }

    pub(crate) fn switches_with_unknown_ports(&self) -> BTreeSet<NodeIx> {
        let is_unknown = |end: &SwitchPort| self.discovery.may_be_unknown_link(*end) && !self.network.has_host_at(*end);
        self.live_ports().filter(is_unknown).filter_map(|end| self.network.node_of(end.0)).collect()
    }

    pub(crate) fn set_ports(&mut self, cx: &mut Cx<'_>, datapath: DatapathId, mut ports: BTreeMap<PortNo, PortDesc>) {
        let before: Vec<SwitchPort> = self.live_ports().filter(|end| end.0 == datapath).collect();
        for (datapath, port) in self.damping.apply(cx.now, datapath, &mut ports, &before) {
            cx.channels.event(Event::PortDamped { datapath, port });
        }
        let is_up = |port: &&PortDesc| port.is_live() && is_physical(port.port);
        let up: Vec<SwitchPort> = ports.values().filter(is_up).map(|port| (datapath, port.port)).collect();
        self.record_gone_ports(cx, datapath, &ports);
        self.ports.insert(datapath, ports);
        for end in before.iter().filter(|end| !up.contains(end)) {
            let gone = self.discovery.port_down(*end);
            self.links_gone(cx, &gone);
            self.hosts_unplugged(*end);
            let has_changed = self.network.set_hosts_alive(*end, false);
            cx.changes.push_if(has_changed, Change::Network);
            cx.changes.push(Change::Ports);
        }
        let has_just_connected = self.status.get(&datapath).is_some_and(|status| status.since == cx.now);
        for end in up {
            let has_changed = self.network.set_hosts_alive(end, true);
            cx.changes.push_if(has_changed, Change::Network);
            if has_just_connected || !before.contains(&end) {
                cx.changes.push(Change::Ports);
                self.probe(cx, end);
            }
        }
    }

    /// Records missing ports. Rules for hosts last as long as their ports: a switch may reconnect
    /// without some, or get them again.
    fn record_gone_ports(&mut self, cx: &mut Cx<'_>, datapath: DatapathId, ports: &BTreeMap<PortNo, PortDesc>) {
        let before = self.ports.get(&datapath);
        if before.is_some_and(|before| before.keys().eq(ports.keys())) {
            return;
        }
        let is_other =
            |end: &SwitchPort| before.is_none_or(|ports| ports.contains_key(&end.1)) != ports.contains_key(&end.1);
        let has_changed = self.network.host_ends().iter().any(|(_, end)| end.0 == datapath && is_other(end));
        cx.changes.push_if(has_changed, Change::Hosts);
        let gone = before.into_iter().flat_map(|ports| ports.keys()).filter(|port| !ports.contains_key(port));
        for port in gone {
            self.arp.forget_port((datapath, *port));
            self.host_limits.forget_port((datapath, *port));
            self.alarms.forget_port((datapath, *port));
            self.port_samples.remove(&(datapath, *port));
        }
    }

    /// Ends the suppression of ports that have been quiet.
    pub(super) fn release_damped(&mut self, cx: &mut Cx<'_>) {
        for datapath in self.damping.release(cx.now) {
            if let Some(ports) = cx.channels.session_of(datapath).map(|session| session.ports.clone()) {
                self.set_ports(cx, datapath, ports);
            }
        }
    }
}
