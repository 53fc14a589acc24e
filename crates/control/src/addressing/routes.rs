//! Next hops by prefix of pseudo-MAC addresses, with the fault matrix of PortLand.
//!
//! A switch sends down to its own pod and up to others. Without failures it needs a rule for each
//! switch below it and one for all above. A failed cable makes exceptions at the switches that must
//! avoid it, by pod or by edge switch.
//!
//! *Claim.* No packet loops, whichever of these rules and former ones are installed. *Proof.* A core
//! switch sends to a switch of the pod of the destination only. An aggregation switch of that pod
//! sends to the edge switch of the destination only, or drops. That edge switch sends to hosts only.
//! So a packet never goes up after it has gone down. Numbers of switches do not change, so this is
//! true of all rules at any time. ∎

use std::collections::{BTreeMap, BTreeSet};

use openflow::{DatapathId, PortNo};

use super::cabling::Cabling;
use super::location::Location;
use super::pmac::Prefix;

/// Destinations of a route: those with a prefix, or all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Destinations {
    /// All for which no prefix is listed.
    All,
    These(Prefix),
}

/// Routes of a switch: ports for each set of destinations, of which the smallest counts. Without ports
/// packets are dropped.
pub(crate) type SwitchRoutes = BTreeMap<Destinations, Vec<PortNo>>;

/// An edge switch, by pod and position.
type Edge = (u8, u8);

/// Ports of a switch by destination, uncompressed.
type Hops = BTreeMap<Edge, Vec<PortNo>>;

/// Returns the routes of all located switches.
pub(crate) fn routes(
    cabling: &Cabling,
    locations: &BTreeMap<DatapathId, Location>,
) -> BTreeMap<DatapathId, SwitchRoutes> {
    let fabric = Fabric { cabling, locations };
    let cores = fabric.hops_of(|location| location == Location::Core, &|switch, _, edge| fabric.core(switch, edge));
    let aggregations =
        fabric.hops_of(|location| matches!(location, Location::Aggregation { .. }), &|switch, location, edge| {
            match location.pod() == Some(edge.0) {
                true => fabric.ports(switch, |far| fabric.is_edge(far, edge)),
                false => fabric.ports(switch, |far| is_served(&cores, far, edge)),
            }
        });
    let edges = fabric.hops_of(Location::is_edge, &|switch, location, edge| match location {
        Location::Edge { pod, position } if (pod, position) == edge => Vec::new(),
        _ => fabric.ports(switch, |far| is_served(&aggregations, far, edge)),
    });
    let tables = cores.iter().chain(&aggregations).chain(&edges);
    tables.map(|(switch, hops)| (*switch, fabric.compressed(*switch, hops))).collect()
}

fn is_served(hops: &BTreeMap<DatapathId, Hops>, switch: DatapathId, edge: Edge) -> bool {
    hops.get(&switch).and_then(|hops| hops.get(&edge)).is_some_and(|ports| !ports.is_empty())
}

struct Fabric<'a> {
    cabling: &'a Cabling,
    locations: &'a BTreeMap<DatapathId, Location>,
}

impl Fabric<'_> {
    fn edges(&self) -> impl Iterator<Item = Edge> {
        self.locations.values().filter_map(|location| match location {
            Location::Edge { pod, position } => Some((*pod, *position)),
            _ => None,
        })
    }
    fn is_edge(&self, switch: DatapathId, (pod, position): Edge) -> bool {
        self.locations.get(&switch) == Some(&Location::Edge { pod, position })
    }
    /// Returns the ports with a live cable to such switches, in order.
    fn ports(&self, switch: DatapathId, is_meant: impl Fn(DatapathId) -> bool) -> Vec<PortNo> {
        let ends = self.cabling.ends_of(switch).iter();
        ends.filter(|end| end.is_alive && is_meant(end.far)).map(|end| end.port).collect()
    }
    /// Returns the ports of a core switch to switches of a pod with a live cable to an edge switch.
    fn core(&self, switch: DatapathId, edge: Edge) -> Vec<PortNo> {
        self.ports(switch, |far| {
            let is_in_pod = self.locations.get(&far) == Some(&Location::Aggregation { pod: edge.0 });
            is_in_pod && !self.ports(far, |next| self.is_edge(next, edge)).is_empty()
        })
    }
    fn hops_of(
        &self,
        is_meant: impl Fn(Location) -> bool,
        hops: &dyn Fn(DatapathId, Location, Edge) -> Vec<PortNo>,
    ) -> BTreeMap<DatapathId, Hops> {
        let edges: BTreeSet<Edge> = self.edges().collect();
        let meant = self.locations.iter().filter(|(_, location)| is_meant(**location));
        meant
            .map(|(switch, at)| (*switch, edges.iter().map(|edge| (*edge, hops(*switch, *at, *edge))).collect()))
            .collect()
    }

    /// Returns the next hops as the routes that differ from less specific ones. Destinations without
    /// next hops need none: packets to them are dropped further on.
    fn compressed(&self, switch: DatapathId, hops: &Hops) -> SwitchRoutes {
        let own = self.locations[&switch];
        let mut routes = SwitchRoutes::new();
        let up = match own {
            Location::Core => Vec::new(),
            Location::Aggregation { .. } => self.ports(switch, |far| self.locations.get(&far) == Some(&Location::Core)),
            Location::Edge { .. } => {
                self.ports(switch, |far| matches!(self.locations.get(&far), Some(Location::Aggregation { .. })))
            }
        };
        if !up.is_empty() {
            routes.insert(Destinations::All, up.clone());
        }
        let pods: BTreeSet<u8> = hops.keys().map(|(pod, _)| *pod).collect();
        for pod in pods {
            let edges: Vec<_> = hops.range((pod, 0)..=(pod, u8::MAX)).filter(|(_, ports)| !ports.is_empty()).collect();
            let of_pod = match own {
                // A packet for the own pod never goes up again.
                Location::Aggregation { pod: here } if here == pod => {
                    routes.insert(Destinations::These(Prefix::Pod(pod)), Vec::new());
                    Vec::new()
                }
                _ => {
                    let common = most_common(edges.iter().map(|(_, ports)| *ports)).unwrap_or_else(|| up.clone());
                    if common != up {
                        routes.insert(Destinations::These(Prefix::Pod(pod)), common.clone());
                    }
                    common
                }
            };
            let exceptions = edges.into_iter().filter(|(_, ports)| **ports != of_pod);
            routes.extend(
                exceptions.map(|((pod, position), ports)| {
                    (Destinations::These(Prefix::Edge(*pod, *position)), ports.clone())
                }),
            );
        }
        routes
    }
}

/// Returns the ports of most destinations; of equally many the first.
fn most_common<'a>(sets: impl Iterator<Item = &'a Vec<PortNo>>) -> Option<Vec<PortNo>> {
    let mut counts: BTreeMap<&Vec<PortNo>, usize> = BTreeMap::new();
    sets.for_each(|set| *counts.entry(set).or_default() += 1);
    let most = counts.values().max().copied()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(set, _)| set.clone())
}

#[cfg(test)]
mod tests {
    use net::{LinkIx, NodeKind, Topology, address};

    use super::*;
    use crate::SwitchPort;
    use crate::addressing::cabling::SwitchSeen;
    use crate::addressing::location::Locator;

    /// The cables of a topology of which some have failed, and the locations.
    fn with_failures(topology: &Topology, dead: &[LinkIx]) -> (Cabling, BTreeMap<DatapathId, Location>) {
        let intact = Cabling::of(topology);
        let is_switch = |node: net::NodeIx| topology.node(node).kind == NodeKind::Switch;
        let end = |link: LinkIx| -> SwitchPort {
            (DatapathId(address::datapath_of(topology.link(link).from)), PortNo(address::port_of(topology, link)))
        };
        let links = (0..topology.links().len() as u32).map(LinkIx);
        let between = links.filter(|link| is_switch(topology.link(*link).from) && is_switch(topology.link(*link).to));
        let cables = between.map(|link| {
            let is_alive = !dead.contains(&link) && !dead.contains(&link.reverse());
            (end(link), (end(link.reverse()), is_alive))
        });
        let cabling = Cabling::new(intact.switches.clone(), &cables.collect());
        let mut locator = Locator::default();
        locator.locate(&cabling).unwrap();
        (cabling, locator.locations)
    }

    /// Returns the ports by which a switch may send a packet for an edge switch.
    fn lookup(routes: &SwitchRoutes, (pod, position): Edge) -> &[PortNo] {
        let order = [
            Destinations::These(Prefix::Edge(pod, position)),
            Destinations::These(Prefix::Pod(pod)),
            Destinations::All,
        ];
        order.iter().find_map(|destinations| routes.get(destinations)).map_or(&[], Vec::as_slice)
    }

    /// Follows every next hop from an edge switch. Returns whether all paths end at the destination;
    /// panics if a packet could go up after it has gone down.
    fn arrives(
        cabling: &Cabling,
        locations: &BTreeMap<DatapathId, Location>,
        routes: &BTreeMap<DatapathId, SwitchRoutes>,
        from: DatapathId,
        to: Edge,
    ) -> bool {
        let height = |switch: &DatapathId| match locations[switch] {
            Location::Edge { .. } => 0,
            Location::Aggregation { .. } => 1,
            Location::Core => 2,
        };
        let (mut open, mut all) = (vec![(from, false)], true);
        while let Some((switch, is_down)) = open.pop() {
            if locations[&switch] == (Location::Edge { pod: to.0, position: to.1 }) {
                continue;
            }
            let ports = lookup(&routes[&switch], to);
            all &= !ports.is_empty();
            for port in ports {
                let end = cabling.ends_of(switch).iter().find(|end| end.port == *port).unwrap();
                let goes_down = height(&end.far) < height(&switch);
                assert!(goes_down || !is_down, "up after down at {switch:?}");
                all &= end.is_alive;
                open.push((end.far, goes_down));
            }
        }
        all
    }

    /// Returns whether a live path goes up and then down between two edge switches.
    fn is_connected(
        cabling: &Cabling,
        locations: &BTreeMap<DatapathId, Location>,
        from: DatapathId,
        to: DatapathId,
    ) -> bool {
        let live = |switch: DatapathId| -> BTreeSet<DatapathId> {
            cabling.ends_of(switch).iter().filter(|end| end.is_alive).map(|end| end.far).collect()
        };
        let (up, down) = (live(from), live(to));
        if locations[&from].pod() == locations[&to].pod() {
            return !up.is_disjoint(&down);
        }
        let is_core = |switch: &DatapathId| locations[switch] == Location::Core;
        let cores = |of: &BTreeSet<DatapathId>| -> BTreeSet<DatapathId> {
            of.iter().flat_map(|switch| live(*switch)).filter(is_core).collect()
        };
        !cores(&up).is_disjoint(&cores(&down))
    }

    fn check_all_pairs(topology: &Topology, dead: &[LinkIx]) -> usize {
        let (cabling, locations) = with_failures(topology, dead);
        let routes = routes(&cabling, &locations);
        let edges: Vec<(DatapathId, Edge)> = locations
            .iter()
            .filter_map(|(switch, location)| match location {
                Location::Edge { pod, position } => Some((*switch, (*pod, *position))),
                _ => None,
            })
            .collect();
        let mut apart = 0;
        for (from, _) in &edges {
            for (switch, to) in edges.iter().filter(|(switch, _)| switch != from) {
                let is_connected = is_connected(&cabling, &locations, *from, *switch);
                assert!(
                    !is_connected || arrives(&cabling, &locations, &routes, *from, *to),
                    "{from:?} to {switch:?} with {dead:?} dead"
                );
                arrives(&cabling, &locations, &routes, *from, *to);
                apart += usize::from(!is_connected);
            }
        }
        apart
    }

    fn switch_links(topology: &Topology) -> Vec<LinkIx> {
        let links = (0..topology.links().len() as u32).step_by(2).map(LinkIx);
        links.filter(|link| topology.link_tier(*link).0 > 1).collect()
    }

    #[test]
    fn number_of_routes_is_that_of_the_closed_form() {
        for k in [4u32, 6, 8] {
            let topology = net::spec::parse(&format!("fat-tree:k={k}")).unwrap();
            let (cabling, locations) = with_failures(&topology, &[]);
            for (switch, routes) in routes(&cabling, &locations) {
                let expected = match locations[&switch] {
                    Location::Core => k,
                    // A rule for each edge switch, one that drops the rest of the pod, and one up.
                    Location::Aggregation { .. } => k / 2 + 2,
                    Location::Edge { .. } => 1,
                };
                assert_eq!(routes.len() as u32, expected, "{switch:?} {:?}", locations[&switch]);
            }
        }
    }

    #[test]
    fn every_pair_is_connected_and_no_packet_goes_up_after_down() {
        for spec in ["fat-tree:k=4", "fat-tree:k=6", "leaf-spine:leaves=4,spines=3,hosts_per_leaf=1"] {
            assert_eq!(check_all_pairs(&net::spec::parse(spec).unwrap(), &[]), 0);
        }
    }

    #[test]
    fn no_failure_of_one_or_two_cables_loses_a_connected_pair() {
        let topology = net::spec::parse("fat-tree:k=4").unwrap();
        let links = switch_links(&topology);
        assert_eq!(links.len(), 32);
        let mut apart = 0;
        for (position, first) in links.iter().enumerate() {
            assert_eq!(check_all_pairs(&topology, &[*first]), 0, "one failure separates no pair");
            for second in &links[position + 1..] {
                apart += check_all_pairs(&topology, &[*first, *second]);
            }
        }
        assert!(apart > 0, "two failures may separate pairs");
    }

    #[test]
    fn failed_cable_changes_the_switches_that_must_avoid_it() {
        let topology = net::spec::parse("fat-tree:k=4").unwrap();
        let (cabling, locations) = with_failures(&topology, &[]);
        let intact = routes(&cabling, &locations);
        // A cable to the core: both ends, and the aggregation switches of the other three pods at that core
        // switch. A cable below: both ends, the other edge switch of the pod and those of the other pods.
        for (tier, expected) in [(3, [1, 4, 0]), (2, [0, 1, 8])] {
            let link = switch_links(&topology).into_iter().find(|link| topology.link_tier(*link).0 == tier).unwrap();
            let (cabling, locations) = with_failures(&topology, &[link]);
            let after = routes(&cabling, &locations);
            let changed = after.iter().filter(|(switch, routes)| intact[switch] != **routes);
            let mut by_level = [0; 3];
            for (switch, _) in changed {
                by_level[match locations[switch] {
                    Location::Core => 0,
                    Location::Aggregation { .. } => 1,
                    Location::Edge { .. } => 2,
                }] += 1;
            }
            assert_eq!(by_level, expected, "a cable of tier {tier}: core, aggregation and edge switches");
        }
    }

    #[test]
    fn unlocated_switches_get_no_routes() {
        let cabling = Cabling::new([(DatapathId(1), SwitchSeen::default())].into(), &BTreeMap::new());
        assert!(routes(&cabling, &BTreeMap::new()).is_empty());
    }
}
