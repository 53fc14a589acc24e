//! The role of each port of each switch, and the rules that follow from it.

use std::collections::{BTreeMap, BTreeSet};

use net::{NodeIx, Time};
use openflow::{DatapathId, PortDesc, PortNo};

use crate::network::{Network, SwitchPort};
use crate::planning::compile::Entry;
use crate::rules::installers::Installers;
use crate::switches::discovery::{Discovery, is_physical};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PortRole {
    Host,
    Unknown,
}

/// Ports of all switches, and the rules about them.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    pub(crate) of: BTreeMap<DatapathId, BTreeMap<PortNo, PortDesc>>,
    with_rules: BTreeMap<SwitchPort, PortRole>,
}

impl Ports {
    pub(crate) fn live(&self) -> impl Iterator<Item = SwitchPort> {
        let live = |(datapath, ports): (&DatapathId, &BTreeMap<PortNo, PortDesc>)| {
            let datapath = *datapath;
            let ports: Vec<SwitchPort> = ports
                .values()
                .filter(|port| port.is_live() && is_physical(port.port))
                .map(|port| (datapath, port.port))
                .collect();
            ports
        };
        self.of.iter().flat_map(live)
    }
    pub(crate) fn is_live(&self, end: SwitchPort) -> bool {
        self.of.get(&end.0).and_then(|ports| ports.get(&end.1)).is_some_and(PortDesc::is_live)
    }

    /// Returns whether a port exists, live or not. Ports of a switch that has never been connected
    /// may exist.
    pub(crate) fn may_exist(&self, end: SwitchPort) -> bool {
        self.of.get(&end.0).is_none_or(|ports| ports.contains_key(&end.1))
    }

    pub(crate) fn switches_with_unknown_ports(&self, network: &Network, discovery: &Discovery) -> BTreeSet<NodeIx> {
        let is_unknown = |end: &SwitchPort| !discovery.is_link(*end) && !network.has_host_at(*end);
        self.live().filter(is_unknown).filter_map(|end| network.node_of(end.0)).collect()
    }

    /// Returns the switches with a port that leads to a host, or may.
    pub(crate) fn edges(&self) -> impl Iterator<Item = DatapathId> {
        let mut last = None;
        let ends = self.with_rules.keys().map(|end| end.0);
        ends.filter(move |datapath| last.replace(*datapath) != Some(*datapath))
    }

    pub(crate) fn write_rules(
        &mut self,
        now: Time,
        wants_first_packets: bool,
        network: &Network,
        discovery: &Discovery,
        fabric: &mut Installers,
    ) {
        let mut wanted: BTreeMap<SwitchPort, PortRole> = BTreeMap::new();
        for (_, host) in network.current_hosts() {
            let end = host.known.end();
            if !discovery.is_link(end) && self.may_exist(end) {
                wanted.insert(end, PortRole::Host);
            }
        }
        for end in self.live() {
            if discovery.is_edge(now, end) {
                wanted.entry(end).or_insert(PortRole::Unknown);
            }
        }
        let compiler = fabric.compiler;
        let entries = |end: SwitchPort, behind: PortRole| -> Vec<Entry> {
            match behind {
                PortRole::Host => compiler.host_port(end.1, wants_first_packets),
                PortRole::Unknown => vec![compiler.unknown_port(end.1)],
            }
        };
        let gone: Vec<(SwitchPort, PortRole)> = self
            .with_rules
            .iter()
            .filter(|(end, behind)| wanted.get(end) != Some(behind))
            .map(|(e, b)| (*e, *b))
            .collect();
        for (end, behind) in gone {
            self.with_rules.remove(&end);
            let Some(node) = network.node_of(end.0) else { continue };
            entries(end, behind).into_iter().for_each(|(key, _)| fabric.set((node, key, None)));
        }
        for (end, behind) in wanted {
            let Some(node) = network.node_of(end.0) else { continue };
            if self.with_rules.insert(end, behind).is_none() {
                entries(end, behind).into_iter().for_each(|(key, wanted)| fabric.set((node, key, Some(wanted))));
            }
        }
    }

    /// Switches the copies of first packets on or off, and updates the rules of ports with hosts.
    pub(crate) fn set_first_packets(&mut self, are_wanted: bool, network: &Network, fabric: &mut Installers) {
        for (end, _) in self.with_rules.iter().filter(|(_, behind)| **behind == PortRole::Host) {
            let Some(node) = network.node_of(end.0) else { continue };
            for (key, wanted) in fabric.compiler.first_packets(end.1) {
                fabric.set((node, key, are_wanted.then_some(wanted)));
            }
        }
    }
}
