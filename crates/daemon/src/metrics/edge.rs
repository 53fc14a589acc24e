//! Metrics of the uplinks to BGP peers.

use std::sync::atomic::Ordering;

use control::edge::EdgeStatus;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Label, add};

/// The only label of most metrics: the name of the uplink.
type UplinkLabel = [(&'static str, String); 1];

#[derive(Debug)]
pub(crate) struct EdgeMetrics {
    pub(crate) sessions: Gauge,
    pub(crate) rejected: Counter,
    pub(crate) malformed: Counter,
    pub(crate) announced: Counter,
    pub(crate) withdrawn: Counter,
    up: Family<UplinkLabel, Gauge>,
    peer_up: Family<UplinkLabel, Gauge>,
    rules: Family<UplinkLabel, Gauge>,
    rate: Family<UplinkLabel, Gauge>,
    routes: Family<UplinkLabel, Gauge>,
    suppressed: Family<UplinkLabel, Gauge>,
    uncovered: Gauge,
    moves: Family<Label, Counter>,
    over_limit: Counter,
}

impl EdgeMetrics {
    pub(super) fn new(all: &mut Registry) -> EdgeMetrics {
        EdgeMetrics {
            sessions: add(all, "bmp_sessions", "Open BMP sessions"),
            rejected: add(all, "bmp_sessions_rejected", "BMP sessions of addresses that are not listed as routers"),
            malformed: add(all, "bmp_sessions_malformed", "BMP sessions closed because of a malformed message"),
            announced: add(all, "bgp_routes_announced", "Routes announced by BGP peers"),
            withdrawn: add(all, "bgp_routes_withdrawn", "Routes withdrawn by BGP peers, session losses aside"),
            up: add(all, "uplink_up", "Whether the port of an uplink is up and its peer was found there: 1 or 0"),
            peer_up: add(all, "uplink_peer_up", "Whether the BGP session to the peer is reported as up: 1 or 0"),
            rules: add(all, "uplink_rules", "Rules that lead to an uplink"),
            rate: add(all, "uplink_rate_bps", "Estimated rate of these rules, bits per second"),
            routes: add(all, "uplink_routes", "Routes of the peer behind an uplink"),
            suppressed: add(all, "uplink_routes_suppressed", "Damped routes of the peer behind an uplink"),
            uncovered: add(all, "uplink_prefixes_uncovered", "Prefixes with the uplink of a peer without a route"),
            moves: add(all, "uplink_moves", "Moves of prefixes to another uplink, by reason"),
            over_limit: add(all, "bgp_routes_over_limit", "Announcements ignored because of [edge] routes"),
        }
    }

    pub(crate) fn replace(&self, edge: &EdgeStatus) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for info in &edge.uplinks {
            let label = [("uplink", info.uplink.name.clone())];
            self.up.get_or_create(&label).set(info.status.is_up.into());
            self.peer_up.get_or_create(&label).set(info.peer.is_up.into());
            self.rules.get_or_create(&label).set(number(info.status.rules));
            self.rate.get_or_create(&label).set(info.status.rate_bps as i64);
            self.routes.get_or_create(&label).set(number(info.peer.routes));
            self.suppressed.get_or_create(&label).set(number(info.peer.suppressed));
        }
        self.uncovered.set(number(edge.uncovered));
        for (reason, moves) in [("failure", edge.moves.failed), ("load", edge.moves.balanced)] {
            self.moves.get_or_create(&[("reason", reason)]).inner().store(moves, Ordering::Relaxed);
        }
        self.over_limit.inner().store(edge.ignored.over_limit, Ordering::Relaxed);
    }
}
