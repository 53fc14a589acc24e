//! The neighbour of each port of each switch, and the rules that follow from it.

use std::collections::BTreeMap;

use balance::central::FlowSource;
use net::Time;
use openflow::DatapathId;

use crate::SwitchPort;
use crate::observer::Observer;
use crate::observer::network::Network;
use crate::updater::Updater;
use crate::updater::compile::Entry;

/// The neighbour of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behind {
    Host,
    Unknown,
}

/// Rules of ports that lead to hosts, or may.
#[derive(Debug, Default)]
pub(crate) struct PortRules(BTreeMap<SwitchPort, Behind>);

impl PortRules {
    /// Returns the switches with a port that leads to a host, or may.
    pub(crate) fn edges(&self) -> impl Iterator<Item = DatapathId> {
        let mut last = None;
        let ends = self.0.keys().map(|end| end.0);
        ends.filter(move |datapath| last.replace(*datapath) != Some(*datapath))
    }

    pub(crate) fn write(&mut self, now: Time, observer: &Observer, updater: &mut Updater) {
        let (network, discovery) = (&observer.network, &observer.discovery);
        let wants_first_packets = observer.needs.flows == FlowSource::FirstPackets;
        let mut wanted: BTreeMap<SwitchPort, Behind> = BTreeMap::new();
        for (_, host) in network.current_hosts() {
            let end = host.known.end();
            if !discovery.is_link(end) && observer.may_port_exist(end) {
                wanted.insert(end, Behind::Host);
            }
        }
        for end in observer.live_ports() {
            if discovery.is_edge(now, end) {
                wanted.entry(end).or_insert(Behind::Unknown);
            }
        }
        let compiler = updater.compiler;
        let entries = |end: SwitchPort, behind: Behind| -> Vec<Entry> {
            match behind {
                Behind::Host => compiler.host_port(end.1, wants_first_packets),
                Behind::Unknown => vec![compiler.unknown_port(end.1)],
            }
        };
        let is_gone = |(end, behind): &(&SwitchPort, &Behind)| wanted.get(end) != Some(*behind);
        let gone: Vec<(SwitchPort, Behind)> =
            self.0.iter().filter(is_gone).map(|(end, behind)| (*end, *behind)).collect();
        for (end, behind) in gone {
            self.0.remove(&end);
            let Some(node) = network.node_of(end.0) else { continue };
            entries(end, behind).into_iter().for_each(|(key, _)| updater.set((node, key, None)));
        }
        for (end, behind) in wanted {
            let Some(node) = network.node_of(end.0) else { continue };
            if self.0.insert(end, behind).is_none() {
                entries(end, behind).into_iter().for_each(|(key, wanted)| updater.set((node, key, Some(wanted))));
            }
        }
    }

    /// Switches the copies of first packets on or off, and updates the rules of ports with hosts.
    pub(crate) fn set_first_packets(&mut self, are_wanted: bool, network: &Network, updater: &mut Updater) {
        for (end, _) in self.0.iter().filter(|(_, behind)| **behind == Behind::Host) {
            let Some(node) = network.node_of(end.0) else { continue };
            for (key, wanted) in updater.compiler.first_packets(end.1) {
                updater.set((node, key, are_wanted.then_some(wanted)));
            }
        }
    }
}
