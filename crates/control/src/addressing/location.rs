//! Location discovery: level, pod and position of each switch, from its neighbours alone (PortLand,
//! SIGCOMM 2009, sections 3.3 and 3.4).
//!
//! PortLand's switches exchange location discovery messages. Here the controller sends the discovery
//! messages out of all ports and sees where they arrive, so it has the same knowledge:
//! - an edge switch has hosts, or receives no message at some of its ports;
//! - an aggregation switch is connected to edge switches;
//! - a core switch is connected to aggregation switches and to no edge switch;
//! - a pod is a set of edge and aggregation switches that are connected with each other.
//!
//! The controller assigns pod and position numbers, as PortLand's fabric manager does. A number stays
//! with its switch. Failed cables still count, so that a failure changes no number.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use openflow::DatapathId;

use super::cabling::Cabling;
use super::pmac::{PODS_MAX, POSITIONS_MAX};

/// Place of a switch in a multi-rooted tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Location {
    /// Level 0: connected to hosts.
    Edge { pod: u8, position: u8 },
    /// Level 1: connected to edge switches.
    Aggregation { pod: u8 },
    /// Level 2: connected to aggregation switches.
    Core,
}

impl Location {
    /// Returns the pod of a switch; `None` for a core switch, which is in no pod.
    pub fn pod(self) -> Option<u8> {
        match self {
            Location::Edge { pod, .. } | Location::Aggregation { pod } => Some(pod),
            Location::Core => None,
        }
    }
    pub fn is_edge(self) -> bool {
        matches!(self, Location::Edge { .. })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Edge { pod, position } => write!(f, "edge, pod {pod}, position {position}"),
            Location::Aggregation { pod } => write!(f, "aggregation, pod {pod}"),
            Location::Core => write!(f, "core"),
        }
    }
}

/// Why a network is not a multi-rooted tree that pseudo-MAC addresses can describe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NotATree {
    /// Two neighbours are at the same level.
    SameLevel { level: &'static str, switches: [DatapathId; 2] },
    /// A switch is more than two levels above the hosts.
    TooHigh(DatapathId),
    /// Two edge switches of a pod have no common aggregation switch.
    Apart { switches: [DatapathId; 2] },
    /// There are more pods than numbers.
    TooManyPods(usize),
    /// A pod has more edge switches than numbers.
    TooManyEdges(usize),
}

impl fmt::Display for NotATree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |switch: &DatapathId| format!("{:016x}", switch.0);
        write!(f, "the network is not a multi-rooted tree of edge, aggregation and core switches: ")?;
        match self {
            NotATree::SameLevel { level, switches: [a, b] } => {
                write!(f, "the {level} switches {} and {} are connected to each other", name(a), name(b))
            }
            NotATree::TooHigh(switch) => {
                write!(f, "switch {} is connected to core switches only, which would be a fourth level", name(switch))
            }
            NotATree::Apart { switches: [a, b] } => write!(
                f,
                "the edge switches {} and {} belong to one pod, but no aggregation switch connects both",
                name(a),
                name(b)
            ),
            NotATree::TooManyPods(count) => write!(f, "it has {count} pods, and there are {PODS_MAX} pod numbers"),
            NotATree::TooManyEdges(count) => {
                write!(f, "a pod has {count} edge switches, and there are {POSITIONS_MAX} positions")
            }
        }
    }
}

type Locations = BTreeMap<DatapathId, Location>;

/// Assigns locations, and keeps them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locator {
    pub(crate) locations: Locations,
    /// Switches that have had hosts; they stay edge switches when all hosts have left.
    had_hosts: BTreeSet<DatapathId>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Edge,
    Aggregation,
    Core,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Edge => "edge",
            Level::Aggregation => "aggregation",
            Level::Core => "core",
        }
    }
}

impl Locator {
    /// Adds the location that a rule of a previous controller instance shows.
    pub(crate) fn recover(&mut self, switch: DatapathId, location: Location) {
        self.locations.entry(switch).or_insert(location);
    }

    /// Updates the locations. On an error they stay as they are.
    pub(crate) fn locate(&mut self, cabling: &Cabling) -> Result<(), NotATree> {
        let with_hosts = cabling.switches.iter().filter(|(_, seen)| seen.has_hosts).map(|(switch, _)| *switch);
        self.had_hosts.extend(with_hosts);
        let levels = self.levels(cabling)?;
        let pods = pods(cabling, &levels);
        check_pods(cabling, &levels, &pods)?;
        self.locations = self.numbered(&levels, &pods);
        Ok(())
    }

    /// Returns the levels by the first rule for edge switches that agrees with the cabling. A port may
    /// be silent because its cable has failed, so a switch above the edge stays there.
    fn levels(&self, cabling: &Cabling) -> Result<BTreeMap<DatapathId, Level>, NotATree> {
        let is_above = |switch: &DatapathId| self.locations.get(switch).is_some_and(|location| !location.is_edge());
        let rules: [&dyn Fn(&DatapathId) -> bool; 3] = [
            &|switch| {
                let seen = cabling.switches[switch];
                seen.has_hosts || self.had_hosts.contains(switch) || (seen.has_silent_ports && !is_above(switch))
            },
            &|switch| cabling.switches[switch].has_hosts || cabling.switches[switch].has_silent_ports,
            &|switch| cabling.switches[switch].has_hosts,
        ];
        let [mut first, second, third] = rules.map(|is_edge| levels_above(cabling, is_edge));
        if first.is_err() {
            first = second.or(third).or(first);
        }
        first
    }

    /// Returns locations with the numbers that switches already have, as far as they agree.
    fn numbered(&self, levels: &BTreeMap<DatapathId, Level>, pods: &[BTreeSet<DatapathId>]) -> Locations {
        let pod_before = |pod: &BTreeSet<DatapathId>, taken: &BTreeSet<u8>| {
            let numbers = pod.iter().filter_map(|switch| self.locations.get(switch)?.pod());
            numbers.into_iter().find(|number| !taken.contains(number))
        };
        let mut taken: BTreeSet<u8> = BTreeSet::new();
        let mut numbers: Vec<Option<u8>> = Vec::with_capacity(pods.len());
        for pod in pods {
            let number = pod_before(pod, &taken);
            taken.extend(number);
            numbers.push(number);
        }
        let mut locations: Locations = BTreeMap::new();
        for (pod, number) in pods.iter().zip(numbers) {
            let number = number.or_else(|| first_free(&taken)).expect("pods were counted");
            taken.insert(number);
            let mut positions: BTreeSet<u8> = BTreeSet::new();
            let edges: Vec<DatapathId> = pod.iter().filter(|switch| levels[switch] == Level::Edge).copied().collect();
            let mut without = Vec::new();
            for switch in edges {
                match self.locations.get(&switch) {
                    Some(Location::Edge { pod, position }) if *pod == number && positions.insert(*position) => {
                        locations.insert(switch, Location::Edge { pod: number, position: *position });
                    }
                    _ => without.push(switch),
                }
            }
            for switch in without {
                let position = first_free(&positions).expect("positions were counted");
                positions.insert(position);
                locations.insert(switch, Location::Edge { pod: number, position });
            }
            let above = pod.iter().filter(|switch| levels[switch] == Level::Aggregation);
            locations.extend(above.map(|switch| (*switch, Location::Aggregation { pod: number })));
        }
        let cores = levels.iter().filter(|(_, level)| **level == Level::Core);
        locations.extend(cores.map(|(switch, _)| (*switch, Location::Core)));
        locations
    }
}

fn first_free(taken: &BTreeSet<u8>) -> Option<u8> {
    (0..=u8::MAX).find(|number| !taken.contains(number))
}

/// Returns the level of each switch that is connected to an edge switch.
fn levels_above(
    cabling: &Cabling,
    is_edge: impl Fn(&DatapathId) -> bool,
) -> Result<BTreeMap<DatapathId, Level>, NotATree> {
    let edges = cabling.switches.keys().filter(|switch| is_edge(switch));
    let mut levels: BTreeMap<DatapathId, Level> = edges.map(|switch| (*switch, Level::Edge)).collect();
    for (below, level) in [(Level::Edge, Level::Aggregation), (Level::Aggregation, Level::Core)] {
        let lower: Vec<DatapathId> =
            levels.iter().filter(|(_, level)| **level == below).map(|(switch, _)| *switch).collect();
        for switch in lower {
            for neighbour in cabling.neighbours(switch) {
                levels.entry(neighbour).or_insert(level);
            }
        }
    }
    for switch in cabling.switches.keys() {
        for far in cabling.neighbours(*switch) {
            match (levels.get(switch), levels.get(&far)) {
                (Some(level), Some(other)) if level == other => {
                    return Err(NotATree::SameLevel { level: level.name(), switches: [*switch, far] });
                }
                (Some(Level::Core), None) => return Err(NotATree::TooHigh(far)),
                _ => {}
            }
        }
    }
    Ok(levels)
}

/// Returns the connected sets of edge and aggregation switches, by their first switch.
fn pods(cabling: &Cabling, levels: &BTreeMap<DatapathId, Level>) -> Vec<BTreeSet<DatapathId>> {
    let is_inside = |switch: &DatapathId| levels.get(switch).is_some_and(|level| *level != Level::Core);
    let mut seen: BTreeSet<DatapathId> = BTreeSet::new();
    let mut pods = Vec::new();
    for switch in levels.keys().filter(|switch| is_inside(switch)) {
        if !seen.insert(*switch) {
            continue;
        }
        let (mut pod, mut open) = (BTreeSet::from([*switch]), vec![*switch]);
        while let Some(switch) = open.pop() {
            for next in cabling.neighbours(switch).into_iter().filter(is_inside) {
                if seen.insert(next) {
                    pod.insert(next);
                    open.push(next);
                }
            }
        }
        pods.push(pod);
    }
    pods
}

fn check_pods(
    cabling: &Cabling,
    levels: &BTreeMap<DatapathId, Level>,
    pods: &[BTreeSet<DatapathId>],
) -> Result<(), NotATree> {
    if pods.len() > PODS_MAX {
        return Err(NotATree::TooManyPods(pods.len()));
    }
    for pod in pods {
        let edges: Vec<DatapathId> = pod.iter().filter(|switch| levels[switch] == Level::Edge).copied().collect();
        if edges.len() > POSITIONS_MAX {
            return Err(NotATree::TooManyEdges(edges.len()));
        }
        let above: Vec<BTreeSet<DatapathId>> = edges.iter().map(|edge| cabling.neighbours(*edge)).collect();
        for (first, others) in above.iter().enumerate() {
            let apart = above[first + 1..].iter().position(|other| others.is_disjoint(other));
            if let Some(second) = apart {
                return Err(NotATree::Apart { switches: [edges[first], edges[first + 1 + second]] });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addressing::cabling::SwitchSeen;
    use openflow::PortNo;

    fn located(spec: &str) -> Result<Locations, NotATree> {
        let mut locator = Locator::default();
        locator.locate(&Cabling::of(&net::spec::parse(spec).unwrap()))?;
        Ok(locator.locations)
    }

    #[test]
    fn fat_tree_has_k_pods_and_unique_positions() {
        for k in [2u8, 4, 6, 8] {
            let locations = located(&format!("fat-tree:k={k}")).unwrap();
            let count = |is_meant: &dyn Fn(&Location) -> bool| locations.values().filter(|one| is_meant(one)).count();
            let half = usize::from(k) / 2;
            assert_eq!(count(&|one| *one == Location::Core), half * half);
            for pod in 0..k {
                assert_eq!(count(&|one| *one == Location::Aggregation { pod }), half);
                for position in 0..k / 2 {
                    assert_eq!(count(&|one| *one == Location::Edge { pod, position }), 1, "{pod} {position}");
                }
            }
            assert_eq!(locations.len(), usize::from(k) * usize::from(k) + half * half);
        }
    }

    #[test]
    fn leaf_spine_is_one_pod() {
        let locations = located("leaf-spine:leaves=4,spines=3,hosts_per_leaf=2").unwrap();
        let above = locations.values().filter(|one| **one == Location::Aggregation { pod: 0 }).count();
        assert_eq!((above, locations.len()), (3, 7));
    }

    #[test]
    fn other_networks_are_refused_with_the_reason() {
        let said = |spec: &str| located(spec).unwrap_err().to_string();
        let flat = said("flattened-butterfly:k=3,n=2");
        assert!(flat.contains("the edge switches ") && flat.contains(" are connected to each other"), "{flat}");
        let clos = said("vl2:d0=2,d1=4,d2=5");
        assert!(clos.contains("belong to one pod, but no aggregation switch connects both"), "{clos}");
    }

    fn cable(cables: &mut BTreeMap<SwitchPort, (SwitchPort, bool)>, a: (u64, u32), b: (u64, u32)) {
        let end = |(switch, port)| (DatapathId(switch), PortNo(port));
        cables.insert(end(a), (end(b), true));
        cables.insert(end(b), (end(a), true));
    }
    use crate::SwitchPort;

    /// Two edge switches (1, 2) below two aggregation switches (11, 12) below a core switch (21).
    fn small() -> (BTreeMap<DatapathId, SwitchSeen>, BTreeMap<SwitchPort, (SwitchPort, bool)>) {
        let mut cables = BTreeMap::new();
        for edge in [1, 2] {
            cable(&mut cables, (edge, 1), (11, edge as u32));
            cable(&mut cables, (edge, 2), (12, edge as u32));
        }
        cable(&mut cables, (11, 3), (21, 1));
        cable(&mut cables, (12, 3), (21, 2));
        let seen = |switch: u64| SwitchSeen { has_hosts: switch < 3, ..SwitchSeen::default() };
        ([1, 2, 11, 12, 21].map(|switch| (DatapathId(switch), seen(switch))).into(), cables)
    }

    #[test]
    fn silent_ports_make_an_edge_switch_unless_it_was_above() {
        let (mut switches, cables) = small();
        let seen = |switches: &mut BTreeMap<DatapathId, SwitchSeen>, switch: u64| {
            *switches.get_mut(&DatapathId(switch)).unwrap() =
                SwitchSeen { has_silent_ports: true, ..SwitchSeen::default() };
        };
        seen(&mut switches, 2);
        let mut locator = Locator::default();
        locator.locate(&Cabling::new(switches.clone(), &cables)).unwrap();
        assert_eq!(locator.locations[&DatapathId(2)], Location::Edge { pod: 0, position: 1 });
        assert_eq!(locator.locations[&DatapathId(21)], Location::Core);
        let before = locator.locations.clone();
        seen(&mut switches, 21); // A cable of the core switch has failed silently.
        locator.locate(&Cabling::new(switches, &cables)).unwrap();
        assert_eq!(locator.locations, before);
    }

    #[test]
    fn numbers_stay_when_switches_are_added() {
        let (mut switches, mut cables) = small();
        switches.remove(&DatapathId(1));
        let mut locator = Locator::default();
        locator.locate(&Cabling::new(switches.clone(), &cables)).unwrap();
        assert_eq!(locator.locations[&DatapathId(2)], Location::Edge { pod: 0, position: 0 });
        switches.insert(DatapathId(1), SwitchSeen { has_hosts: true, ..SwitchSeen::default() });
        // A second pod of a switch with a lower number.
        switches.insert(DatapathId(0), SwitchSeen { has_hosts: true, ..SwitchSeen::default() });
        switches.insert(DatapathId(10), SwitchSeen::default());
        cable(&mut cables, (0, 1), (10, 1));
        cable(&mut cables, (10, 2), (21, 3));
        locator.locate(&Cabling::new(switches, &cables)).unwrap();
        assert_eq!(locator.locations[&DatapathId(2)], Location::Edge { pod: 0, position: 0 });
        assert_eq!(locator.locations[&DatapathId(1)], Location::Edge { pod: 0, position: 1 });
        assert_eq!(locator.locations[&DatapathId(0)], Location::Edge { pod: 1, position: 0 });
    }
}
