//! Switches and the cables between them, as the controller has found them.

use std::collections::{BTreeMap, BTreeSet};

use net::{HostIx, NodeKind, Topology, address};
use openflow::{DatapathId, PortNo};

use crate::SwitchPort;

/// Properties of a switch that follow from its ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SwitchSeen {
    /// Whether a host is known at a port.
    pub(crate) has_hosts: bool,
    /// Whether a live port has received no discovery message, so that hosts may be there.
    pub(crate) has_silent_ports: bool,
    /// Whether discovery of a port is not finished: it is neither a link nor silent yet.
    pub(crate) is_in_discovery: bool,
}

/// One end of a cable at a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CableEnd {
    pub(crate) port: PortNo,
    pub(crate) far: DatapathId,
    /// Whether packets cross it in both directions.
    pub(crate) is_alive: bool,
}

/// All switches and cables that were ever found; a failed cable still shows the structure.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cabling {
    pub(crate) switches: BTreeMap<DatapathId, SwitchSeen>,
    ends: BTreeMap<DatapathId, Vec<CableEnd>>,
}

impl Cabling {
    /// Builds it from the cables by one of their ends; a port has at most one.
    pub(crate) fn new(
        switches: BTreeMap<DatapathId, SwitchSeen>,
        cables: &BTreeMap<SwitchPort, (SwitchPort, bool)>,
    ) -> Cabling {
        let mut ends: BTreeMap<DatapathId, Vec<CableEnd>> = BTreeMap::new();
        for ((near, port), (far, is_alive)) in cables {
            if switches.contains_key(near) && switches.contains_key(&far.0) {
                ends.entry(*near).or_default().push(CableEnd { port: *port, far: far.0, is_alive: *is_alive });
            }
        }
        Cabling { switches, ends }
    }

    /// Returns the switches and cables of a topology, all alive.
    pub(crate) fn of(topology: &Topology) -> Cabling {
        let datapath = |node| DatapathId(address::datapath_of(node));
        let is_switch = |node: net::NodeIx| topology.node(node).kind == NodeKind::Switch;
        let mut switches: BTreeMap<DatapathId, SwitchSeen> = BTreeMap::new();
        for (number, node) in (0u32..).map(net::NodeIx).zip(topology.nodes()) {
            if node.kind == NodeKind::Switch {
                switches.insert(datapath(number), SwitchSeen::default());
            }
        }
        for host in (0..topology.hosts().len() as u32).map(HostIx) {
            for up in topology.out_links(topology.host(host)) {
                if let Some(switch) = switches.get_mut(&datapath(topology.link(*up).to)) {
                    switch.has_hosts = true;
                }
            }
        }
        let mut cables = BTreeMap::new();
        for (number, link) in (0u32..).map(net::LinkIx).zip(topology.links()) {
            if is_switch(link.from) && is_switch(link.to) {
                let end =
                    |link: net::LinkIx| (datapath(topology.link(link).from), PortNo(address::port_of(topology, link)));
                cables.insert(end(number), (end(number.reverse()), true));
            }
        }
        Cabling::new(switches, &cables)
    }

    /// Returns the cables at a switch, in the order of its ports.
    pub(crate) fn ends_of(&self, switch: DatapathId) -> &[CableEnd] {
        self.ends.get(&switch).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn neighbours(&self, switch: DatapathId) -> BTreeSet<DatapathId> {
        self.ends_of(switch).iter().map(|end| end.far).collect()
    }
}
