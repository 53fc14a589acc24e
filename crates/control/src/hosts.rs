//! Hosts and ports, as configured and as reported in events.

use std::collections::BTreeMap;

use core::net::Ipv4Addr;
use net::{HostIx, NodeIx, Topology, address};
use openflow::{DatapathId, MacAddr, PortNo};

use crate::SwitchPort;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
pub struct KnownHost {
    pub mac: MacAddr,
    /// IPv4 address, unique in the network.
    pub ipv4: Ipv4Addr,
    pub datapath: DatapathId,
    pub port: PortNo,
}

impl KnownHost {
    /// Returns the switch and port it is attached to.
    pub(crate) fn end(&self) -> SwitchPort {
        (self.datapath, self.port)
    }

    /// Returns the hosts of a topology with the addresses and numbers of [`net::address`], each at
    /// the switch of its first link. Hosts without a link are left out.
    pub fn all_of(topology: &Topology) -> Vec<KnownHost> {
        let host = |(host, node): (HostIx, &NodeIx)| {
            let up = *topology.out_links(*node).first()?;
            Some(KnownHost {
                mac: MacAddr(address::host_mac(host)),
                ipv4: address::host_ipv4(host),
                datapath: DatapathId(address::datapath_of(topology.link(up).to)),
                port: PortNo(address::port_of(topology, up.reverse())),
            })
        };
        (0u32..).map(HostIx).zip(topology.hosts()).filter_map(host).collect()
    }
}

/// What may be at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum PortRole {
    /// Hosts only: no probe is sent out of the port, and no link is found there. Two hosts that
    /// relay frames cannot become a link.
    Host,
    /// A switch only: no host is accepted there.
    Link,
    /// Hosts, or a switch if discovery probes cross in both directions.
    #[default]
    Either,
}

/// The roles of all ports.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct PortRoles {
    pub listed: BTreeMap<(DatapathId, PortNo), PortRole>,
    /// Role of ports that are not listed.
    pub default: PortRole,
}

impl PortRoles {
    pub fn of(&self, end: (DatapathId, PortNo)) -> PortRole {
        self.listed.get(&end).copied().unwrap_or(self.default)
    }
}

/// The limit because of which a host was ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostLimit {
    /// [`crate::Config::hosts_per_port`].
    Port,
    /// The limit of all learned hosts together, [`crate::Config::hosts_max`].
    Network,
}

/// Why a learned host was forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// It was silent for [`crate::Config::host_idle_timeout`] and did not reply to probes.
    Idle,
    /// Its port was down or missing for [`crate::Config::host_port_down_timeout`].
    PortDown,
    /// It did not reply to a probe, or its port was down, when another host needed its capacity.
    Evicted,
    /// Its port leads to a switch.
    LinkFound,
}

/// Why a packet with the address of a known host did not move that host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressConflict {
    /// The known host replied at its port: two hosts use one address.
    Duplicate,
    /// The known host is configured, and [`crate::Config::pins_hosts`] is set.
    Pinned,
    /// The address has moved too often.
    Flapping,
}
