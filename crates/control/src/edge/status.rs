//! The state of the edge, for display.

use bgp::Prefix;
use bgp::egress::{Moves, UplinkStatus};
use bgp::rib::{Ignored, PeerStatus};
use net::Bandwidth;
use openflow::MacAddr;

use super::{EdgeService, Uplink};

/// The state of an uplink and of the peer behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct UplinkInfo {
    pub uplink: Uplink,
    /// Ethernet address of the peer; `None` while the uplink is down.
    pub mac: Option<MacAddr>,
    pub status: UplinkStatus,
    pub peer: PeerStatus,
}

#[derive(Clone, PartialEq, Debug)]
pub struct EdgeStatus {
    pub uplinks: Vec<UplinkInfo>,
    /// Number of prefixes that may leave by any uplink.
    pub routed: usize,
    pub rules: usize,
    pub is_aggregated: bool,
    /// Number of prefixes that leave by an uplink whose peer does not announce them, because the
    /// rules are full.
    pub uncovered: usize,
    pub moves: Moves,
    pub ignored: Ignored,
}

impl EdgeService {
    pub(crate) fn status(&self) -> EdgeStatus {
        let states = self.egress.uplinks().into_iter().zip(self.egress.rib.peers()).zip(&self.macs);
        let uplinks = self.config.uplinks.iter().zip(states).map(|(uplink, ((status, peer), mac))| UplinkInfo {
            uplink: uplink.clone(),
            mac: *mac,
            status,
            peer,
        });
        EdgeStatus {
            uplinks: uplinks.collect(),
            routed: self.egress.routed(),
            rules: self.egress.pieces().count(),
            is_aggregated: self.egress.is_aggregated(),
            uncovered: self.egress.uncovered(),
            moves: self.egress.moves,
            ignored: self.egress.rib.ignored,
        }
    }

    /// Returns the rules from a prefix on, with the number of their uplink and their estimated rate.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = (Prefix, u8, Bandwidth)> {
        let rate = |bps: f64| Bandwidth::from_bps(bps as u64);
        self.egress.pieces().map(move |(prefix, piece)| (prefix, piece.uplink, rate(piece.rate_bps)))
    }
}
