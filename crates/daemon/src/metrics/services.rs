//! Metrics of virtual services, as counters and gauges from which Prometheus computes rates.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Labels of a member of a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Serving {
    pub(crate) service: String,
    /// Name of the member; `#` and its id once it is removed.
    pub(crate) member: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Sent {
    service: String,
    member: String,
    direction: &'static str,
}

/// Figures of a member of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Served {
    pub(crate) is_up: bool,
    pub(crate) connections: u64,
    pub(crate) connections_total: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// Metrics by service and member.
#[derive(Debug, Default)]
pub(crate) struct ServiceFigures {
    up: Family<Serving, Gauge>,
    connections: Family<Serving, Gauge>,
    opened: Family<Serving, Counter>,
    bytes: Family<Sent, Counter>,
}

impl ServiceFigures {
    pub(super) fn register(&self, registry: &mut Registry) {
        let up = "Whether a member of a virtual service is up: 1 or 0";
        registry.register("service_member_up", up, self.up.clone());
        registry.register("service_connections", "Current connections of a virtual service", self.connections.clone());
        let opened = "Connections of a virtual service since the controller started";
        registry.register("service_connections_opened", opened, self.opened.clone());
        let bytes = "Bytes from clients (in) and to them (out) of a virtual service, as reported by switches";
        registry.register("service_bytes", bytes, self.bytes.clone());
    }

    /// Replaces all values; entries that are not listed disappear.
    pub(crate) fn note(&self, all: impl IntoIterator<Item = (Serving, Served)>) {
        self.up.clear();
        self.connections.clear();
        self.opened.clear();
        self.bytes.clear();
        let set = |counter: &Counter<u64, AtomicU64>, value| counter.inner().store(value, Ordering::Relaxed);
        for (serving, served) in all {
            self.up.get_or_create(&serving).set(served.is_up.into());
            self.connections.get_or_create(&serving).set(i64::try_from(served.connections).unwrap_or(i64::MAX));
            set(&self.opened.get_or_create(&serving), served.connections_total);
            let Serving { service, member } = serving;
            for (direction, bytes) in [("in", served.bytes_in), ("out", served.bytes_out)] {
                let sent = Sent { service: service.clone(), member: member.clone(), direction };
                set(&self.bytes.get_or_create(&sent), bytes);
            }
        }
    }
}
