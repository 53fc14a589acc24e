//! What is behind each port of each switch, and the rules that follow from it.

use std::collections::{BTreeMap, BTreeSet};

use net::{NodeIx, Time};
use openflow::{DatapathId, PortDesc, PortNo};

use crate::compile::{Compiler, Entry};
use crate::discovery::{Discovery, is_physical};
use crate::fabric::Fabric;
use crate::network::{End, Network};

/// What is behind a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behind {
    Host,
    Unknown,
}

/// Ports of all switches, and the rules about them.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    pub(crate) of: BTreeMap<DatapathId, BTreeMap<PortNo, PortDesc>>,
    ruled: BTreeMap<End, Behind>,
}

impl Ports {
    /// Live ports a cable can be at.
    pub(crate) fn live(&self) -> impl Iterator<Item = End> {
        let live = |(datapath, ports): (&DatapathId, &BTreeMap<PortNo, PortDesc>)| {
            let datapath = *datapath;
            let ports: Vec<End> = ports
                .values()
                .filter(|port| port.is_live() && is_physical(port.port))
                .map(|port| (datapath, port.port))
                .collect();
            ports
        };
        self.of.iter().flat_map(live)
    }
    /// Whether packets pass a port.
    pub(crate) fn is_live(&self, end: End) -> bool {
        self.of.get(&end.0).and_then(|ports| ports.get(&end.1)).is_some_and(PortDesc::is_live)
    }

    /// Whether a port is there, live or not. Those of a switch that has never been seen are.
    pub(crate) fn may_exist(&self, end: End) -> bool {
        self.of.get(&end.0).is_none_or(|ports| ports.contains_key(&end.1))
    }

    /// Switches with a live port of which nothing is known.
    pub(crate) fn strangers(&self, network: &Network, discovery: &Discovery) -> BTreeSet<NodeIx> {
        let is_unknown = |end: &End| !discovery.is_link(*end) && !network.has_host_at(*end);
        self.live().filter(is_unknown).filter_map(|end| network.node_of(end.0)).collect()
    }

    /// Switches with a port that leads to a host, or may.
    pub(crate) fn edges(&self) -> impl Iterator<Item = DatapathId> {
        let mut last = None;
        let ends = self.ruled.keys().map(|end| end.0);
        ends.filter(move |datapath| last.replace(*datapath) != Some(*datapath))
    }

    /// Brings the rules about ports up to date.
    pub(crate) fn write_rules(
        &mut self,
        now: Time,
        compiler: Compiler,
        wants_first_packets: bool,
        network: &Network,
        discovery: &Discovery,
        fabric: &mut Fabric,
    ) {
        let mut wanted: BTreeMap<End, Behind> = BTreeMap::new();
        for (_, host) in network.current_hosts() {
            let end = (host.known.datapath, host.known.port);
            if !discovery.is_link(end) && self.may_exist(end) {
                wanted.insert(end, Behind::Host);
            }
        }
        for end in self.live() {
            if discovery.is_edge(now, end) {
                wanted.entry(end).or_insert(Behind::Unknown);
            }
        }
        let entries = |end: End, behind: Behind| -> Vec<Entry> {
            match behind {
                Behind::Host => compiler.host_port(end.1, wants_first_packets),
                Behind::Unknown => vec![compiler.unknown_port(end.1)],
            }
        };
        let gone: Vec<(End, Behind)> =
            self.ruled.iter().filter(|(end, behind)| wanted.get(end) != Some(behind)).map(|(e, b)| (*e, *b)).collect();
        for (end, behind) in gone {
            self.ruled.remove(&end);
            let Some(node) = network.node_of(end.0) else { continue };
            entries(end, behind).into_iter().for_each(|(key, _)| fabric.set((node, key, None)));
        }
        for (end, behind) in wanted {
            let Some(node) = network.node_of(end.0) else { continue };
            if self.ruled.insert(end, behind).is_none() {
                entries(end, behind).into_iter().for_each(|(key, wanted)| fabric.set((node, key, Some(wanted))));
            }
        }
    }

    /// First packets of flows are wanted from now on, or not any more: the rules of ports with hosts follow.
    pub(crate) fn set_first_packets(
        &mut self,
        compiler: Compiler,
        are_wanted: bool,
        network: &Network,
        fabric: &mut Fabric,
    ) {
        for (end, _) in self.ruled.iter().filter(|(_, behind)| **behind == Behind::Host) {
            let Some(node) = network.node_of(end.0) else { continue };
            for (key, wanted) in compiler.first_packets(end.1) {
                fabric.set((node, key, are_wanted.then_some(wanted)));
            }
        }
    }
}
