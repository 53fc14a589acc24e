//! The configuration of the edge.

use bgp::bmp::Policy;
use bgp::damping::Damping;
use bgp::{egress, rib};
use core::net::Ipv4Addr;
use net::{Bandwidth, Time};
use openflow::{DatapathId, PortNo};

use crate::KnownHost;

/// An uplink: a port that leads to a BGP peer.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Uplink {
    pub name: String,
    pub port: PortNo,
    /// Address of the peer, which is the next hop of all packets that leave here.
    pub peer: Ipv4Addr,
    /// Address of the router next to the switch on this uplink. It speaks BGP with the peer.
    pub local: Ipv4Addr,
    pub rate: Bandwidth,
}

/// Configuration of the edge. All uplinks are at one switch.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct EdgeConfig {
    pub datapath: DatapathId,
    /// Address of the default route of hosts, for which the controller answers ARP requests.
    pub gateway: Ipv4Addr,
    pub uplinks: Vec<Uplink>,
    pub policy: Policy,
    /// Whether only the routes with the shortest AS path may carry a prefix.
    pub shortest_only: bool,
    /// Maximum number of rules for prefixes.
    pub rules_max: usize,
    pub routes_max: usize,
    pub stale_time: Time,
    pub damping: Damping,
    /// Difference of the utilisations of two uplinks up to which nothing moves.
    pub hysteresis: f64,
    /// Whether packets lose one from their TTL, as at any router. The action is optional in OpenFlow.
    pub decrements_ttl: bool,
}

impl EdgeConfig {
    pub(super) fn egress(&self) -> egress::Config {
        egress::Config {
            rates: self.uplinks.iter().map(|uplink| uplink.rate).collect(),
            rules_max: self.rules_max,
            hysteresis: self.hysteresis,
            rib: rib::Config {
                peers: self.uplinks.iter().map(|uplink| uplink.peer).collect(),
                shortest_only: self.shortest_only,
                routes_max: self.routes_max,
                stale_time: self.stale_time,
                damping: self.damping,
            },
        }
    }

    /// Returns whether packets from uplinks are routed to a host. Packets to the router are not
    /// routed, but only forwarded: BGP sends them with a TTL of 1.
    pub(super) fn is_inside(&self, host: &KnownHost) -> bool {
        let is_uplink = |uplink: &Uplink| {
            uplink.local == host.ipv4 || uplink.peer == host.ipv4 || (self.datapath, uplink.port) == host.end()
        };
        !self.uplinks.iter().any(is_uplink)
    }
}
