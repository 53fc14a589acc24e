//! Shortest paths between switches, as link-state routing computes them.

use std::collections::{BTreeMap, VecDeque};

use openflow::{DatapathId, PortNo};

use super::cabling::Cabling;

/// Ports on shortest paths from each switch, by destination and switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShortestPaths(BTreeMap<DatapathId, BTreeMap<DatapathId, Vec<PortNo>>>);

impl ShortestPaths {
    /// Computes the paths to these switches over live cables.
    pub(crate) fn to(cabling: &Cabling, destinations: impl Iterator<Item = DatapathId>) -> ShortestPaths {
        ShortestPaths(destinations.map(|to| (to, ports_to(cabling, to))).collect())
    }

    /// Returns the ports of one switch on shortest paths to another, in order.
    pub(crate) fn ports(&self, from: DatapathId, to: DatapathId) -> &[PortNo] {
        self.0.get(&to).and_then(|ports| ports.get(&from)).map_or(&[], Vec::as_slice)
    }

    /// Returns the ports of all switches towards another one.
    pub(crate) fn towards(&self, to: DatapathId) -> impl Iterator<Item = (DatapathId, &[PortNo])> {
        self.0.get(&to).into_iter().flatten().map(|(from, ports)| (*from, ports.as_slice()))
    }
}

fn ports_to(cabling: &Cabling, to: DatapathId) -> BTreeMap<DatapathId, Vec<PortNo>> {
    let mut distance = BTreeMap::from([(to, 0u32)]);
    let mut open = VecDeque::from([to]);
    while let Some(switch) = open.pop_front() {
        let next = distance[&switch] + 1;
        for end in cabling.ends_of(switch).iter().filter(|end| end.is_alive) {
            distance.entry(end.far).or_insert_with(|| {
                open.push_back(end.far);
                next
            });
        }
    }
    let ports = |(switch, at): (&DatapathId, &u32)| {
        let is_nearer = |far: &DatapathId| distance.get(far).is_some_and(|other| other + 1 == *at);
        let ends = cabling.ends_of(*switch).iter().filter(|end| end.is_alive && is_nearer(&end.far));
        (*switch, ends.map(|end| end.port).collect())
    };
    distance.iter().filter(|(switch, _)| **switch != to).map(ports).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_all_shortest_paths() {
        let topology = net::spec::parse("fat-tree:k=4").unwrap();
        let cabling = Cabling::of(&topology);
        let switches: Vec<DatapathId> = cabling.switches.keys().copied().collect();
        let paths = ShortestPaths::to(&cabling, switches.iter().copied());
        let routes = net::Routes::intact(&topology);
        for host in (0..16).map(net::HostIx) {
            let up = topology.out_links(topology.host(host))[0];
            let edge = DatapathId(net::address::datapath_of(topology.link(up).to));
            for from in &switches {
                let node = net::NodeIx(from.0 as u32 - 1);
                let expected = routes.next_hops(node, routes.class_of(host)).len();
                let expected = if *from == edge { 0 } else { expected };
                assert_eq!(paths.ports(*from, edge).len(), expected, "{from:?} to {edge:?}");
            }
        }
    }
}
