//! Metrics of virtual services, as counters and gauges from which Prometheus computes rates.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Label, add};
use crate::http::ConnectionStats;

/// Labels of a member: `service`, and `member`, which is `#` and the id of the member once it is
/// removed.
pub(crate) type MemberLabels = [(&'static str, String); 2];

#[derive(Debug)]
pub(crate) struct ServiceMetrics {
    up: Family<MemberLabels, Gauge>,
    connections: Family<MemberLabels, Gauge>,
    opened: Family<MemberLabels, Counter>,
    bytes: Family<(MemberLabels, Label), Counter>,
}

impl ServiceMetrics {
    pub(super) fn new(all: &mut Registry) -> ServiceMetrics {
        let opened = "Connections of a virtual service since the controller started";
        let bytes = "Bytes from clients (in) and to them (out) of a virtual service, as reported by switches";
        ServiceMetrics {
            up: add(all, "service_member_up", "Whether a member of a virtual service is up: 1 or 0"),
            connections: add(all, "service_connections", "Current connections of a virtual service"),
            opened: add(all, "service_connections_opened", opened),
            bytes: add(all, "service_bytes", bytes),
        }
    }

    /// Replaces all values: whether each member is up, and its connections and bytes. Entries that
    /// are not listed disappear.
    pub(crate) fn replace(&self, all: impl IntoIterator<Item = (MemberLabels, bool, ConnectionStats)>) {
        self.up.clear();
        self.connections.clear();
        self.opened.clear();
        self.bytes.clear();
        for (labels, is_up, figures) in all {
            self.up.get_or_create(&labels).set(is_up.into());
            self.connections.get_or_create(&labels).set(i64::try_from(figures.connections).unwrap_or(i64::MAX));
            self.opened.get_or_create(&labels).inner().store(figures.connections_total, Ordering::Relaxed);
            for (direction, bytes) in [("in", figures.bytes_in), ("out", figures.bytes_out)] {
                let labels = (labels.clone(), [("direction", direction)]);
                self.bytes.get_or_create(&labels).inner().store(bytes, Ordering::Relaxed);
            }
        }
    }
}
