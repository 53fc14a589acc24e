//! Calls about the uplinks to BGP peers.

use axum::Json;
use axum::extract::State;
use control::edge::{EdgeStatus, UplinkInfo};
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;
use crate::server::Handle;

/// An uplink to a BGP peer.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct UplinkState {
    pub(crate) name: String,
    pub(crate) port: u32,
    /// IPv4 address of the peer, and next hop of the packets.
    #[schema(example = "192.0.2.1")]
    pub(crate) peer: String,
    /// Ethernet address of the peer; null while the uplink is down.
    pub(crate) peer_mac: Option<String>,
    /// Whether the port is up and the peer was found there.
    pub(crate) is_up: bool,
    /// Whether the router reports that the BGP session to the peer is up.
    pub(crate) is_peer_up: bool,
    /// Whether routes of a lost BMP session are in use until they are reported again.
    pub(crate) has_stale_routes: bool,
    /// Number of routes of the peer.
    pub(crate) routes: usize,
    /// Number of damped routes of the peer.
    pub(crate) routes_suppressed: usize,
    /// Number of rules that lead to the uplink.
    pub(crate) rules: usize,
    /// Estimated rate of the traffic of these rules, in bits per second.
    pub(crate) rate_bps: f64,
    /// Configured rate, in bits per second.
    pub(crate) capacity_bps: u64,
}

/// The edge of the autonomous system: its uplinks to BGP peers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, ToSchema)]
pub(crate) struct Edge {
    /// Uplinks in the order of the configuration file; empty without `[edge]`.
    pub(crate) uplinks: Vec<UplinkState>,
    /// Number of prefixes that may leave by any uplink.
    pub(crate) prefixes: usize,
    pub(crate) rules: usize,
    /// Whether rules lead to blocks of addresses, because there are more prefixes than rules.
    pub(crate) is_aggregated: bool,
    /// Number of prefixes that leave by the uplink of a peer without a route to them, because there
    /// are not enough rules.
    pub(crate) prefixes_uncovered: usize,
    /// Number of moves of prefixes from an uplink that could not carry them any more.
    pub(crate) moves_after_failures: u64,
    /// Number of moves that made the load even.
    pub(crate) moves_for_load: u64,
    /// Number of announcements that were ignored because of `[edge] routes`.
    pub(crate) routes_over_limit: u64,
}

/// A rule to a BGP peer.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct EdgePrefix {
    /// Destination: a prefix, or a block of addresses.
    #[schema(example = "203.0.113.0/24")]
    pub(crate) prefix: String,
    /// Name of the uplink that carries it.
    pub(crate) uplink: String,
    /// Estimated rate, in bits per second.
    pub(crate) rate_bps: u64,
}

impl From<UplinkInfo> for UplinkState {
    fn from(info: UplinkInfo) -> UplinkState {
        let UplinkInfo { uplink, mac, status, peer } = info;
        UplinkState {
            name: uplink.name,
            port: uplink.port.0,
            peer: uplink.peer.to_string(),
            peer_mac: mac.map(|mac| mac.to_string()),
            is_up: status.is_up,
            is_peer_up: peer.is_up,
            has_stale_routes: peer.has_stale,
            routes: peer.routes,
            routes_suppressed: peer.suppressed,
            rules: status.rules,
            rate_bps: status.rate_bps,
            capacity_bps: uplink.rate.as_bps(),
        }
    }
}

impl From<EdgeStatus> for Edge {
    fn from(status: EdgeStatus) -> Edge {
        Edge {
            uplinks: status.uplinks.into_iter().map(UplinkState::from).collect(),
            prefixes: status.routed,
            rules: status.rules,
            is_aggregated: status.is_aggregated,
            prefixes_uncovered: status.uncovered,
            moves_after_failures: status.moves.failed,
            moves_for_load: status.moves.balanced,
            routes_over_limit: status.ignored.over_limit,
        }
    }
}

/// Returns the uplinks to BGP peers.
#[utoipa::path(get, path = "/v1/edge", tag = "network", responses((status = 200, body = Edge)))]
pub(super) async fn edge(State(handle): State<Handle>) -> Result<Json<Edge>, Problem> {
    let edge = handle.ask(|engine| engine.controller.inspect().edge()).await?;
    Ok(Json(edge.map(Edge::from).unwrap_or_default()))
}

/// Returns the rules to BGP peers, by prefix.
#[utoipa::path(get, path = "/v1/edge/prefixes", tag = "network", responses((status = 200, body = Vec<EdgePrefix>)))]
pub(super) async fn prefixes(State(handle): State<Handle>) -> Result<Json<Vec<EdgePrefix>>, Problem> {
    let all = handle.ask(|engine| {
        let inspect = engine.controller.inspect();
        let uplinks = inspect.edge().map(|edge| edge.uplinks).unwrap_or_default();
        let name = |uplink: u8| uplinks.get(usize::from(uplink)).map(|info| info.uplink.name.clone());
        let rules = inspect.edge_prefixes().map(|(prefix, uplink, rate)| EdgePrefix {
            prefix: prefix.to_string(),
            uplink: name(uplink).unwrap_or_default(),
            rate_bps: rate.as_bps(),
        });
        rules.collect()
    });
    Ok(Json(all.await?))
}
